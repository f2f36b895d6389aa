"""The problems in JAX, vectorised as one would write them there. Each entry makes a jitted gradient and its arguments.

Left out are those that need indices from memory in an order of their own (spdot), or a loop of 400 products (block).
"""

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax


def flat(gradient):
    return [float(v) for leaf in jax.tree_util.tree_leaves(gradient) for v in np.ravel(leaf)]


def pieces(x, *shapes):
    x, parts = np.frombuffer(x, dtype=np.float64), []
    for shape in shapes:
        n = int(np.prod(shape))
        parts.append(jnp.asarray(x[:n].reshape(shape)))
        x = x[n:]
    return tuple(parts)


def gradient(f, arguments):
    return jax.jit(jax.grad(f, argnums=tuple(range(len(arguments))))), arguments


def lorenz(x, ip):
    h, n = 1e-3, ip[0]

    def f(x, y, z, s, r, b):
        slope = lambda p: jnp.stack([s * (p[1] - p[0]), p[0] * (r - p[2]) - p[1], p[0] * p[1] - b * p[2]])

        def step(p, _):
            k1 = slope(p)
            k2 = slope(p + 0.5 * h * k1)
            k3 = slope(p + 0.5 * h * k2)
            k4 = slope(p + h * k3)
            return p + (h / 6.0) * (k1 + 2.0 * k2 + 2.0 * k3 + k4), None

        # Keeps the states alone and computes each step again.
        return jnp.sum(lax.scan(jax.checkpoint(step), jnp.stack([x, y, z]), None, length=n)[0])

    return gradient(f, pieces(x, (), (), (), (), (), ()))


def part(x, ip):
    def f(x):
        def step(state, _):
            p, v = state
            a = 1.0 * ((-0.5) * p + (-0.2) * v)
            return (p + 0.05 * v, v + 0.05 * a), None

        (p, _), _ = lax.scan(step, (x[:, :2], x[:, 2:]), None, length=ip[1])
        return jnp.sum(p[:, 0] * p[:, 1])

    return gradient(f, pieces(x, (ip[0], 4)))


def planets(x, ip):
    n, steps = ip[0], ip[1]

    def f(q, v, m):
        def acceleration(q):
            d = q[:, None, :] - q[None, :, :]
            d2 = jnp.sum(d * d, axis=2) + jnp.eye(n)
            w = 1.0 / (d2 * jnp.sqrt(d2)) * (1.0 - jnp.eye(n))
            return -jnp.sum(d * (w * m[None, :])[:, :, None], axis=1)

        def step(state, _):
            q, v, a = state
            v = v + 0.005 * a
            q = q + 0.01 * v
            a = acceleration(q)
            return (q, v + 0.005 * a, a), None

        (q, _, _), _ = lax.scan(step, (q, v, acceleration(q)), None, length=steps)
        return jnp.sum(q * q)

    return gradient(f, pieces(x, (n, 3), (n, 3), (n,)))


def nn(x, ip):
    ni, n1, n2, no = ip[:4]

    def f(w1, b1, w2, b2, w3, b3, v):
        h = jax.nn.relu(w1 @ v + b1)
        h = jax.nn.relu(w2 @ h + b2)
        return jnp.sum(jax.nn.softmax(w3 @ h + b3) ** 2)

    return gradient(f, pieces(x, (n1, ni), (n1,), (n2, n1), (n2,), (no, n2), (no,), (ni,)))


def mlp(x, ip):
    a, b, c, n = ip[:4]
    f = lambda w2, w1, y, v: jnp.sum((y - w2 @ jax.nn.relu(w1 @ v)) ** 2)
    return gradient(f, pieces(x, (a, b), (b, c), (a, n), (c, n)))


def spmv(x, ip):
    n, columns = ip[0], np.array(ip[1 : ip[0] + 2])
    rows = jnp.asarray(np.array(ip[n + 2 :]))
    of = jnp.asarray(np.repeat(np.arange(n), np.diff(columns)))
    f = lambda a, v: jnp.sum(jnp.zeros(n).at[rows].add(a * v[of]) ** 2)
    return gradient(f, pieces(x, (columns[-1],), (n,)))


def embed(x, ip):
    d, n1, n2 = ip[:3]
    pairs = np.array(ip[3:]).reshape(-1, 2)

    def f(x):
        t = x[pairs[:, 0]] - x[pairs[:, 1]]
        squares = jnp.sum(t * t, axis=1)
        lengths = jnp.sqrt(squares)
        spread, mean = 0.0, []
        for g, n in ((slice(0, n1), n1), (slice(n1, n1 + n2), n2)):
            mean.append(jnp.sum(lengths[g]) / n)
            spread += (jnp.sum(squares[g]) / n - mean[-1] ** 2) * (n / (n - 1))
        apart = mean[0] - mean[1] + 0.1
        return spread + jnp.where(apart > 0, jnp.exp(apart) - 1.0, 0.0)

    return gradient(f, pieces(x, (10, d)))


def rot(x, _):
    def f(x):
        v, u, s = x[:3], x[3:6], x[6]
        return 2.0 * (u @ v) * u + (s * s - u @ u) * v + 2.0 * s * jnp.cross(u, v)

    return jax.jit(jax.jacrev(f)), pieces(x, (7,))


ALL = {
    "mul": lambda x, ip: gradient(lambda a, b: a * b, pieces(x, (), ())),
    "rot": rot,
    "sum": lambda x, ip: gradient(jnp.sum, pieces(x, (ip[0],))),
    "dot": lambda x, ip: gradient(lambda a, b: a @ b, pieces(x, (ip[0],), (ip[0],))),
    "sumsin": lambda x, ip: gradient(lambda x: jnp.sum(jnp.sin(x)), pieces(x, (ip[0],))),
    "sce": lambda x, ip: gradient(lambda x: jnp.sum(jnp.sin(jnp.cos(jnp.exp(x)))), pieces(x, (ip[0],))),
    "smv": lambda x, ip: gradient(lambda a, v: jnp.sum(a @ v), pieces(x, (ip[0], ip[0]), (ip[0],))),
    "kron": lambda x, ip: gradient(lambda a, b: jnp.sum(jnp.kron(a, b)), pieces(x, (ip[0],) * 2, (ip[1],) * 2)),
    "nn": nn,
    "mlp": mlp,
    "spmv": spmv,
    "embed": embed,
    "part": part,
    "lorenz": lorenz,
    "planets": planets,
}
