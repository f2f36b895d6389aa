"""What the programs of ../src compute, said again without looking at how they do it.

Every function takes the arguments of the export of the same name, with numbers of any precision, and returns the
result and the final contents of the buffers that change, by position. Where a program is an algorithm whose path is
part of the answer (adaptive steps, iterations that stop early), the model follows the same path; otherwise it is the
definition: sums for the Fourier transform, inverses for factorisations, formulas for the interpreted programs.
"""

import struct

import mpmath
from mpmath import cos, diff, exp, fabs, floor, loggamma, log, matrix, mpc, mpf, pi, sin, sqrt, tanh  # noqa: F401

BONES = 22


def uniform(seed):
    """The generator of program.h, as an endless sequence."""
    while True:
        seed = (seed * 1664525 + 1013904223) % 2**32
        yield mpf(seed >> 8) / 2**24


def dot(a, b):
    return sum((x * y for x, y in zip(a, b)), mpf(0))


def chunks(x, n):
    return [x[i : i + n] for i in range(0, len(x), n)]


# --- loss


def loss(p, n, t, y):
    amplitude, decay, frequency, phase = p
    curve = [amplitude * exp(-decay * s) * cos(frequency * s + phase) for s in t]
    return sum((c - v) ** 2 for c, v in zip(curve, y)), {}


# --- gmm


def gmm_objective(d, k, n, alphas, means, factors, points, gamma, m):
    def q(c):
        """The lower triangular factor of component c, dense."""
        entries = chunks(factors, d * (d + 1) // 2)[c]
        below = iter(entries[d:])
        rows = [[mpf(0)] * d for _ in range(d)]
        for column in range(d):
            rows[column][column] = exp(entries[column])
            for row in range(column + 1, d):
                rows[row][column] = next(below)
        return rows

    log_sum_exp = lambda xs: log(sum(exp(x) for x in xs))
    total = -mpf(n * d) / 2 * log(2 * pi) - n * log_sum_exp(alphas)
    qs = [q(c) for c in range(k)]
    for x in chunks(points, d):
        terms = []
        for c in range(k):
            apart = [a - b for a, b in zip(x, chunks(means, d)[c])]
            image = [dot(row, apart) for row in qs[c]]
            logdet = log(qs[c][0][0])
            for i in range(1, d):
                logdet += log(qs[c][i][i])
            terms.append(alphas[c] + logdet - dot(image, image) / 2)
        total += log_sum_exp(terms)
    freedom = d + m + 1
    multigamma = mpf(d * (d - 1)) / 4 * log(pi) + sum(loggamma(mpf(freedom + 1 - j) / 2) for j in range(1, d + 1))
    for rows in qs:
        frobenius = sum(dot(row, row) for row in rows)
        logdet = sum(log(rows[i][i]) for i in range(d))
        total += gamma**2 / 2 * frobenius - m * logdet - (freedom * d * (log(gamma) - log(mpf(2)) / 2) - multigamma)
    return total, {}


# --- ba


def cross(a, b):
    return [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]


def rotate(vector, x, threshold):
    """x, rotated about a vector by its length."""
    squared = dot(vector, vector)
    if squared <= threshold:
        return [a + b for a, b in zip(x, cross(vector, x))]
    angle = sqrt(squared)
    axis = [v / angle for v in vector]
    along = dot(axis, x) * (1 - cos(angle))
    return [a * cos(angle) + b * sin(angle) + c * along for a, b, c in zip(x, cross(axis, x), axis)]


def ba_residuals(n, cameras, points, weights, observed, features, errors, penalties):
    out = []
    for i, (camera, point) in enumerate(chunks(observed, 2)):
        c, x = chunks(cameras, 11)[camera], chunks(points, 3)[point]
        seen = rotate(c[:3], [a - b for a, b in zip(x, c[3:6])], mpf("1e-10"))
        flat = [seen[0] / seen[2], seen[1] / seen[2]]
        r = dot(flat, flat)
        stretch = 1 + c[9] * r + c[10] * r**2
        out += [weights[i] * (c[6] * stretch * flat[j] + c[7 + j] - features[2 * i + j]) for j in (0, 1)]
    return None, {6: out, 7: [1 - w**2 for w in weights[:n]]}


def ba_loss(n, cameras, points, weights, observed, features):
    _, found = ba_residuals(n, cameras, points, weights, observed, features, None, None)
    return (dot(found[6], found[6]) + dot(found[7], found[7])) / 2, {}


# --- lstm


def lstm_objective(layers, length, width, main, extra, state, sequence):
    sigmoid = lambda x: 1 / (1 + exp(-x))
    hidden = [chunks(state, width)[2 * i] for i in range(layers)]
    cells = [chunks(state, width)[2 * i + 1] for i in range(layers)]
    gate = lambda l, part, which, i: main[((l * 2 + part) * 4 + which) * width + i]
    steps = chunks(sequence, width)
    total = mpf(0)
    for now, then in zip(steps[: length - 1], steps[1:length]):
        x = [a * b for a, b in zip(now, extra[:width])]
        for l in range(layers):
            new_cells, new_hidden = [], []
            for i in range(width):
                act = lambda which, v: v * gate(l, 0, which, i) + gate(l, 1, which, i)
                forget, ingate = sigmoid(act(0, x[i])), sigmoid(act(1, hidden[l][i]))
                outgate, change = sigmoid(act(2, x[i])), tanh(act(3, hidden[l][i]))
                new_cells.append(cells[l][i] * forget + ingate * change)
                new_hidden.append(outgate * tanh(new_cells[i]))
            cells[l], hidden[l] = new_cells, new_hidden
            x = new_hidden
        guess = [x[i] * extra[width + i] + extra[2 * width + i] for i in range(width)]
        normal = log(sum(exp(g) for g in guess) + 2)
        total += dot(then, [g - normal for g in guess])
    return -total / (width * (length - 1)), {}


# --- hand


class Motion:
    """A rotation (rows) and a translation."""

    def __init__(self, rotation, translation):
        self.rotation, self.translation = rotation, translation

    def __call__(self, x):
        return [dot(row, x) + t for row, t in zip(self.rotation, self.translation)]

    def back(self, x):
        apart = [a - t for a, t in zip(x, self.translation)]
        return [dot(column, apart) for column in zip(*self.rotation)]


def turn(x, y, z):
    """Rz Ry Rx, applied to a vector: about one axis after the other."""

    def apply(v):
        v = [v[0], cos(x) * v[1] - sin(x) * v[2], sin(x) * v[1] + cos(x) * v[2]]
        v = [cos(y) * v[0] + sin(y) * v[2], v[1], cos(y) * v[2] - sin(y) * v[0]]
        return [cos(z) * v[0] - sin(z) * v[1], sin(z) * v[0] + cos(z) * v[1], v[2]]

    unit = [[mpf(i == j) for i in range(3)] for j in range(3)]
    return [list(row) for row in zip(*(apply(e) for e in unit))]


def hand_loss(theta, vertices, points, seed):
    numbers = uniform(seed)
    draw = lambda n=3: [next(numbers) for _ in range(n)]
    rest = []
    for _ in range(BONES):
        angles = [u - mpf(1) / 2 for u in draw()]
        rest.append(Motion(turn(*angles), draw()))
    parent = lambda i: None if i == 0 else 0 if i == 1 else 1 if (i - 2) % 4 == 0 else i - 1
    # The angles of the joints: bend, spread.
    joints = {}
    rest_of_theta = iter(theta[6:])
    for finger in range(5):
        for joint in range(3):
            bend = next(rest_of_theta)
            joints[2 + 4 * finger + joint] = (bend, next(rest_of_theta) if joint == 0 else mpf(0))

    def at_rest(i, x):
        """From the world to the bone, in the pose of rest."""
        above = parent(i)
        return rest[i].back(x if above is None else at_rest(above, x))

    turns = {i: turn(bend, mpf(0), spread) for i, (bend, spread) in joints.items()}

    def posed(i, x):
        """From the bone to the world, in the pose of theta."""
        x = [dot(row, x) for row in turns[i]] if i in turns else x
        x = rest[i](x)
        return x if parent(i) is None else posed(parent(i), x)

    moved = []
    for v in range(vertices):
        at = [4 * u - 2 for u in draw()]
        bone, share = (5 * v + 2) % (BONES - 1), next(numbers)
        blend = [
            share * a + (1 - share) * b
            for a, b in zip(posed(bone, at_rest(bone, at)), posed(bone + 1, at_rest(bone + 1, at)))
        ]
        moved.append([a + b for a, b in zip(rotate(theta[:3], blend, 0), theta[3:6])])
    loss = mpf(0)
    for p in range(points):
        loss += sum((4 * u - 2 - x) ** 2 for u, x in zip(draw(), moved[3 * p % vertices]))
    return loss / 2, {}


# --- fft


def transform(n, sign, re, im):
    """The sums that define it."""
    out = []
    for k in range(n):
        c = [cos(2 * pi * k * j / n) for j in range(n)]
        s = [sign * sin(2 * pi * k * j / n) for j in range(n)]
        out.append((dot(re, c) - dot(im, s), dot(re, s) + dot(im, c)))
    return [a for a, _ in out], [b for _, b in out]


def fft(n, sign, x):
    re, im = transform(n, sign, x[0::2], x[1::2])
    return None, {2: [v for pair in zip(re, im) for v in pair]}


def spectrum_loss(n, signal, target):
    re, im = transform(n, -1, signal, [mpf(0)] * n)
    return sum(((a**2 + b**2) / n - t) ** 2 for a, b, t in zip(re, im, target)) / 2, {}


def filter_loss(n, signal, gains, wanted):
    re, im = transform(n, -1, signal, [mpf(0)] * n)
    re, im = [a * g for a, g in zip(re, gains)], [b * g for b, g in zip(im, gains)]
    re, _ = transform(n, 1, re, im)
    return sum((a / n - w) ** 2 for a, w in zip(re, wanted)) / 2, {}


# --- cg


def cg_solve(n, starts, columns, values, b, x, tolerance, most):
    apply = lambda v: [dot(values[s:e], [v[c] for c in columns[s:e]]) for s, e in zip(starts, starts[1:])]
    residual = [a - c for a, c in zip(b, apply(x))]
    direction, done = residual, 0
    while done < most and sqrt(dot(residual, residual)) > tolerance:
        image = apply(direction)
        before = dot(residual, residual)
        step = before / dot(direction, image)
        x = [a + step * c for a, c in zip(x, direction)]
        residual = [a - step * c for a, c in zip(residual, image)]
        keep = dot(residual, residual) / before
        direction = [a + keep * c for a, c in zip(residual, direction)]
        done += 1
    return mpf(done), {5: x}


def cg_loss(n, starts, columns, values, b, target, tolerance, most):
    _, found = cg_solve(n, starts, columns, values, b, [mpf(0)] * n, tolerance, most)
    return sum((a - t) ** 2 for a, t in zip(found[5], target)) / 2, {}


def network(nodes, resistors, ends, conductances, currents, leak):
    a = leak * matrix([[int(i == j) for i in range(nodes)] for j in range(nodes)])
    for (i, j), c in zip(chunks(ends, 2), conductances):
        a[i, i] += c
        a[j, j] += c
        a[i, j] -= c
        a[j, i] -= c
    currents = matrix(currents)
    return (currents.T * a**-1 * currents)[0], {}


# --- order


def trimmed_mean(n, samples, trim):
    kept = sorted(samples[:n])[trim : n - trim]
    return sum(kept) / len(kept), {}


def lorenz(n, values, weights, share):
    left, total = share * sum(weights[:n]), mpf(0)
    for value, weight in sorted(zip(values[:n], weights)):
        if left <= 0:
            break
        total += min(weight, left) * value
        left -= weight
    return total / dot(values[:n], weights), {}


# --- nbody


def leapfrog(n, positions, velocities, masses, constant, time, steps):
    r, v = chunks(positions, 3), chunks(velocities, 3)
    drift = lambda: [[x + time / 2 * u for x, u in zip(a, b)] for a, b in zip(r, v)]
    for _ in range(steps):
        r = drift()
        for j in range(n):
            pulls = [mpf(0)] * 3
            for k in range(n):
                if k != j:
                    apart = [a - b for a, b in zip(r[k], r[j])]
                    pull = constant * masses[k] / sqrt(dot(apart, apart)) ** 3
                    pulls = [p + pull * a for p, a in zip(pulls, apart)]
            v[j] = [u + time * p for u, p in zip(v[j], pulls)]
        r = drift()
    return None, {1: [x for a in r for x in a], 2: [x for a in v for x in a]}


def nbody_loss(n, positions, velocities, masses, constant, time, steps):
    _, final = leapfrog(n, positions, velocities, masses, constant, time, steps)
    return sum((a - b) ** 2 for a, b in zip(final[1][3:6], final[1][6:9])), final


# --- heat


def heat_loss(rows, columns, steps, time, initial, conductivity, observed):
    heat = dict(zip([(i, j) for i in range(rows) for j in range(columns)], initial))
    material = dict(zip(heat, conductivity))
    for _ in range(steps):
        flows = {cell: mpf(0) for cell in heat}
        for (i, j), here in material.items():
            for other in ((i + 1, j), (i, j + 1)):
                if other in material:
                    flow = 2 / (1 / here + 1 / material[other]) * (heat[other] - heat[i, j])
                    flows[i, j] += flow
                    flows[other] -= flow
        heat = {cell: heat[cell] + time * flows[cell] for cell in heat}
    return sum((heat[cell] - o) ** 2 for cell, o in zip(heat, observed)) / 2, {}


# --- quadrature


def quadrature(which, a, b, p, q, tolerance):
    f = [lambda x: exp(-((x / p) ** 2)), lambda x: exp(-p * x) * sin(q * x), lambda x: sqrt(x * x + p)][which]
    simpson = lambda a, b: (b - a) / 6 * (f(a) + 4 * f((a + b) / 2) + f(b))

    def refine(a, b, tolerance, depth):
        centre = (a + b) / 2
        halves = simpson(a, centre) + simpson(centre, b)
        error = halves - simpson(a, b)
        if depth == 0 or fabs(error) < 15 * tolerance:
            return halves + error / 15
        return refine(a, centre, tolerance / 2, depth - 1) + refine(centre, b, tolerance / 2, depth - 1)

    return refine(a, b, tolerance, 12), {}


# --- structs


def trace(n, spheres, ray, bounces):
    spheres = chunks(spheres, 6)[:n]
    add = lambda a, b, factor=1: [x + factor * y for x, y in zip(a, b)]

    def light(start, along, bounces):
        hits = []
        for s in spheres:
            apart = add(start, s[:3], -1)
            half = dot(apart, along)
            inside = half**2 - dot(apart, apart) + s[3] ** 2
            if inside > 0 and -half - sqrt(inside) > mpf("1e-9"):
                hits.append((-half - sqrt(inside), s))
        if not hits:
            return (1 + along[2]) / 2
        distance, (x, y, z, radius, shine, glow) = min(hits, key=lambda h: h[0])
        fog = 1 / (1 + distance**2)
        if bounces == 0:
            return glow * fog
        at = add(start, along, distance)
        normal = [c / radius for c in add(at, [x, y, z], -1)]
        facing = dot(along, normal)
        return fog * (glow - shine * facing * light(at, add(along, normal, -2 * facing), bounces - 1))

    length = sqrt(dot(ray[3:], ray[3:]))
    return light(ray[:3], [x / length for x in ray[3:]], bounces), {}


def arrange(n, spheres, eye):
    distance = lambda s: sum((a - b) ** 2 for a, b in zip(s[:3], eye))
    placed = sorted(chunks(spheres, 6)[:n], key=distance)
    return sum(a[3] * b[3] for a, b in zip(placed, placed[1:])), {1: [x for s in placed for x in s]}


# --- layers


def network_loss(n, widths, kinds, parameters, input, target):
    functions = [lambda x: x, lambda x: max(x, mpf(0)), lambda x: x / (1 + exp(-x)), tanh]
    values, left = input, list(parameters)
    take = lambda count: [left.pop(0) for _ in range(count)]
    for width, kind in zip(widths[1:], kinds):
        activation = functions[kind % 4]
        if kind < 4:
            rows = chunks(take(width * (len(values) + 1)), len(values) + 1)
            values = [activation(row[0] + dot(row[1:], values)) for row in rows]
        elif kind < 8:
            values = [activation(w * x) for w, x in zip(take(width), values)]
        else:
            total = sum(exp(x) for x in values)
            values = [exp(x) / total for x in values]
    return sum((x - t) ** 2 for x, t in zip(values, target)) / 2, {}


# --- gp, ode, robust


def gp_loss(n, points, values, parameters):
    amplitude, scale, noise = (exp(p) for p in parameters)
    entry = lambda i, j: amplitude**2 * exp(-(((points[i] - points[j]) / scale) ** 2) / 2) + (noise**2 if i == j else 0)
    covariance = matrix([[entry(i, j) for j in range(n)] for i in range(n)])
    y = matrix(values)

    def determinant(rows):
        """By elimination: `mpmath.det` gives up precision here."""
        rows, out = [list(r) for r in rows], mpf(1)
        for i in range(len(rows)):
            out *= rows[i][i]
            for r in rows[i + 1 :]:
                factor = r[i] / rows[i][i]
                for j in range(i, len(rows)):
                    r[j] -= factor * rows[i][j]
        return out

    logdet = log(determinant(covariance.tolist()))
    return ((y.T * covariance**-1 * y)[0] + logdet + n * log(2 * pi)) / 2, {}


def ode_loss(kind, n, initial, parameters, end, tolerance):
    def slope(time, y):
        if kind == 0:
            frequency, damping, push = parameters
            return [y[1], push * sin(time) - damping * y[1] - frequency**2 * sin(y[0])]
        return [y[i] * (parameters[i] + dot(parameters[n + n * i : 2 * n + n * i], y)) for i in range(n)]

    y, time, step = list(initial), mpf(0), end / 4
    while time < end:
        step = min(step, end - time)
        stage = lambda *parts: [x + step * sum(w * k[i] for w, k in parts) for i, x in enumerate(y)]
        k1 = slope(time, y)
        k2 = slope(time + step / 2, stage((mpf(1) / 2, k1)))
        k3 = slope(time + 3 * step / 4, stage((mpf(3) / 4, k2)))
        third = stage((mpf(2) / 9, k1), (mpf(1) / 3, k2), (mpf(4) / 9, k3))
        k4 = slope(time + step, third)
        second = stage((mpf(7) / 24, k1), (mpf(1) / 4, k2), (mpf(1) / 3, k3), (mpf(1) / 8, k4))
        error = max(fabs(a - b) for a, b in zip(third, second))
        if error > tolerance:
            step /= 2
            continue
        time, y = time + step, third
        if error < tolerance / 8:
            step *= 2
    return dot(y, y), {}


def robust_loss(n, points, cost, parameter):
    def median(xs):
        xs = sorted(xs)
        return (xs[(len(xs) - 1) // 2] + xs[len(xs) // 2]) / 2

    pairs = chunks(points, 2)[:n]
    slopes = [(q[1] - p[1]) / (q[0] - p[0]) for i, p in enumerate(pairs) for q in pairs[i + 1 :] if q[0] != p[0]]
    if not slopes:
        return sum(p[1] ** 2 for p in pairs), {}
    slope = median(slopes)
    intercept = median([p[1] - slope * p[0] for p in pairs])
    left = [p[1] - slope * p[0] - intercept for p in pairs]
    huber = lambda r: r * r / 2 if fabs(r) <= parameter else parameter * (fabs(r) - parameter / 2)
    pinball = lambda r: r * parameter if r > 0 else -r * (1 - parameter)
    return sum([lambda r: r * r / 2, huber, pinball][cost](r) for r in left), {}


# --- copies


def ranked_by_bytes(n, x):
    return sum(((i + 1) * y**2 for i, y in enumerate(sorted(x))), mpf(0)), {}


def weighed(n, x):
    lightest_first = sorted(range(n), key=lambda i: x[i])
    return sum(((at + 1) * 2 * x[i] ** 2 + x[i] / 4 * i for at, i in enumerate(lightest_first)), mpf(0)), {}


def rows(n, x):
    # Of the rows 1 to 4 the third comes twice, the third scaled, and the first.
    return sum((y**2 * (3**2 + 3**2 + (2 * 3) ** 2 + 1) / 4 for y in x), mpf(0)), {}


def packed(n, x):
    return sum((y**3 for y in x), mpf(0)), {}


def mirrored(n, x):
    return sum((i * y**2 for i, y in enumerate(x)), mpf(0)), {}


def copied(n, x):
    return dot(x, x), {}


# --- records


def doubled(x):
    return sum(((j + 1) * y**2 + y**4 for j, y in enumerate(x)), mpf(0)), {}


def rotated(n, x):
    return sum((14 * y**2 * (i + 1) for i, y in enumerate([*x[1:], x[0]])), mpf(0)), {}


def saved(n, x):
    return sum((14 * y**2 * (i + 1) + 6 * y**2 for i, y in enumerate(x)), mpf(0)), {}


def shifted(n, x):
    return sum((y**2 * (i + 1) for i, y in enumerate([x[0], *x[:-1]])), mpf(0)), {}


# --- unions


def split(x):
    return x**2, {}


def cubed(x):
    return fabs(x) ** 3, {}


def scaled(x):
    return 64 * x**2, {}


def power_of_two(x, k):
    return x * 2**k, {}


def logarithm(x):
    return log(x), {}


def exponential(x):
    return exp(x), {}


def signed_as(x, y):
    return (fabs(x) if y > 0 else -fabs(x)) ** 3, {}


def scaled_by(x, n):
    return (x * 2**n) ** 2, {}


def cut(x):
    return x**2, {}


# --- paths


def scaled_up(x, n):
    return x * 2**n, {}


def weighted(x):
    power = floor(log(fabs(x), 2)) + 1
    return (x / 2**power) ** 2 * power, {}


def cube_root(x):
    return (1 if x > 0 else -1) * mpmath.cbrt(fabs(x)), {}


def root(x):
    return sqrt(x), {}


def either(x, up):
    return (2 * x if up else x / 2) ** 2, {}


def doubled(x, n):
    return (x * 2**n) ** 2, {}


def replaced(x, y):
    return x * y, {}


def kept_by_a_callee(x, y):
    return 3 * y + x, {}


def below(x, y):
    return 3 * y, {}


def fraction(x):
    power = floor(log(fabs(x), 2)) + 1
    return x / 2**power, power


def apart(x):
    part, power = fraction(x)
    return part**2 * power, {}


def apart_each(x, powers, n):
    return sum(fraction(v)[0] ** 2 * (i + 1) for i, v in enumerate(x[:n])), {}


def octaves(x, n):
    return sum(x * 2**i * exp(-mpf(i)) for i in range(n)), {}


def distance(x, y):
    return sqrt(x * x + y * y) * x, {}


def beside(x, y):
    return 2 * fraction(x)[0] * y * y * mpf("0.75"), {}


def one_more(x):
    return log(1 + x) * x, {}


def cube_root_of_old(x):
    return cube_root(x)


def above_whole(x):
    return (x - floor(x)) * x, {}


def larger_first(x, y):
    low, high = sorted([fabs(x), fabs(y)])
    return high**3 + low, {}


# --- scales


def fractions(n, x):
    return sum(part**2 * (power + 1) for part, power in map(fraction, x)), {}


def scaled_each(n, x):
    return sum(y * y * 2**i for i, y in enumerate(x)), {}


def both(n, x):
    return sum(part**2 * 2**power for part, power in map(fraction, x)), {}


# --- parsed

TAGS = [12, 7, 3, 44, 5]


def tagged(n, x):
    return sum((i + 1) * 3 * y**3 for i, y in enumerate(x)), {}


def odd_tags(n, x):
    return sum((i + 1) * 3 * y**3 for i, y in enumerate(x) if TAGS[i] % 2), {}


def sorted_by_tag(n, x):
    return tagged(n, [y for _, y in sorted(zip(TAGS, x), key=lambda e: e[0])])


# --- resampled


def resampled(x):
    return 2 * x[0] + 4 * x[1], {}


# --- slopes


def fitted(n, y):
    size, decay, h = mpf(1), mpf(1), mpf(1.5e-8)
    for _ in range(60):
        e = [size * exp(-decay * i) for i in range(n)]
        da = [((size + size * h) * exp(-decay * i) - e[i]) / (size * h) for i in range(n)]
        db = [(size * exp(-(decay + decay * h) * i) - e[i]) / (decay * h) for i in range(n)]
        r = [a - b for a, b in zip(e, y)]
        aa, ab, bb, ra, rb = dot(da, da), dot(da, db), dot(db, db), dot(da, r), dot(db, r)
        d = aa * bb - ab * ab
        by_size, by_decay = (ra * bb - rb * ab) / d, (rb * aa - ra * ab) / d
        size, decay = size - by_size, decay - by_decay
        if fabs(by_size) + fabs(by_decay) < mpf(1e-7):
            break
    return size + 2 * decay, {}


# --- phasors


def ladder(n, ohms, henries, farads, end, frequency):
    omega = 2 * pi * frequency
    z = mpc(end)
    for i in reversed(range(n)):
        across = 1 / mpc(0, omega * farads[i])
        z = mpc(ohms[i], omega * henries[i]) + z * across / (z + across)
    return (1 / z).real, {}


def newton(a, b, x, y, steps):
    z = mpc(x, y)
    for _ in range(steps):
        z -= (z**3 + a * z + b) / (3 * z**2 + a)
    return z.real**2 + 2 * z.imag**2, {}


def mapped(n, a, b, scale):
    z = scale * mpc(0.5, 1)
    for x in a:
        z = scale * ((x * z + b * scale) / (z + scale * mpc(0, 1.5)))
    return (z.real + z.imag) / scale, {}


# --- waves


def brightness(n, amplitude, phase, distance, length, fading):
    total = sum(a * exp(mpc(-fading * d, 2 * pi * d / length + p)) for a, p, d in zip(amplitude, phase, distance))
    return abs(total) ** 2, {}


def impedance(per_metre, length, load, omega, parts):
    r, l, g, c = per_metre
    series, across = mpc(r, omega * l), mpc(g, omega * c)
    own, turns = sqrt(series / across), sqrt(series * across) * length
    z = own * (load + own * tanh(turns)) / (own + load * tanh(turns))
    return z.real + z.imag, {4: [z.real, z.imag]}


def mixed(x, y, u, v):
    z, w = mpc(x, y), mpc(u, v)
    total = exp(w * log(z)) + sin(z) * cos(w)
    return total.real + 2 * total.imag, {}


def folded(n, x, y, w):
    z = mpc(x, y)
    for _ in range(n):
        z = exp(w * log(z)) * exp(sin(cos(mpmath.sinh(mpmath.cosh(z) / 4))))
    return z.real * z.imag, {}


# --- precise


def variance(n, x):
    mean = sum(x) / n
    return sum((a - mean) ** 2 for a in x) / (n - 1), {}


def length(n, x):
    return sqrt(dot(x, x)), {}


def functions(a, b):
    total = exp(-a * b) + sin(a) * cos(b) + log(1 + a * a) + a**b + mpmath.atan2(a, -b) + tanh(a - b)
    total += sqrt(a * a + b * b) * (exp(b) - 1) + log(1 + a) * mpmath.cbrt(b) + a * b + a
    return total + 2**a * mpmath.erf(b), {}


def parts(a, b):
    def copied(size, sign):
        return fabs(size) if sign > 0 else -fabs(size)

    whole = int(3 * a)
    exponent = int(floor(log(fabs(a * b), 2))) + 1
    m = a * b / mpf(2) ** exponent
    total = m * m + 8 * a * (3 * a - whole) + b * mpf(2) ** -exponent + whole * b
    total += max(a, b) * min(a, -b) + floor(4 * a) * b + (5 * a - int(5 * a / b) * b) + copied(a, -b) - fabs(b - a)
    if a > b:
        total -= a / b
    if a != 1:
        total *= -b
    return total + int(8 * a) * b + int(16 * b) * a + int(2 * a), {}


def moved(n, place, speed, time):
    order = [*range(1, n), 0]
    weights = [mpf(float(single(1 / (i + 1)))) for i in range(n)]
    return sum(weights[k] * (place[k] + speed[k] * time) ** 2 * (i + 1) for i, k in enumerate(order)), {}


def single(x):
    """The nearest number of single precision."""
    return struct.unpack("f", struct.pack("f", x))[0]


# --- containers


def shapes(n, x):
    return sum(sqrt(pi) * x[i] + sqrt(x[i + 1] * x[i + 2]) for i in range(0, n - 2, 3)), {}


def ranked(n, x):
    pairs = sorted(chunks(x[: n // 2 * 2], 2), key=lambda p: p[1])
    return sum(mpf(1.5) ** i * a * b for i, (a, b) in enumerate(pairs)), {}


def composed(n, x, start):
    for c in x:
        start = sin(c * start) + c
    return start, {}


def grouped(n, x):
    total = mpf(1)
    for key in sorted({i * 7 % 5 for i in range(n)}):
        total = total / 2 + key * sum(x[i] ** 2 for i in range(n) if i * 7 % 5 == key)
    for odd in range(2):
        total *= sum(x[i] * (i + 1) for i in range(n) if i % 2 == odd)
    return total, {}


def variants(n, x):
    total = sum(x[i] ** 2 if i % 3 == 0 else x[i] * 2 * x[i - 1] for i in range(n) if i % 3 < 2)
    return total * next((a for a in x if a > 1), 3), {}


def orbit(n, x, y, c):
    z, sizes = mpc(x, y), []
    for _ in range(n):
        z = exp(z * z / (1 + abs(z))) - c
        sizes.append(abs(z) ** 2)
    sums = [sum(sizes[: i + 1]) for i in range(n)]
    ordered = sorted(sizes)
    # What nth_element leaves on both sides of the middle one is in no order that C++ promises: four are few enough to be sorted.
    return dot(sums, ordered[::-1]) + mpmath.arg(z) * ordered[n // 2], {}


# --- kernels


def outer(n, u, v, p, q, b):
    product = [u[i] * v[j] + p[i] * q[j] for i in range(n) for j in range(n)]
    return sum((x * x for x in product), mpf(0)), {5: product + list(b[n * n :])}


def camera(n, poses, points, seen):
    def residual(c, x, s):
        w, *u = (t / sqrt(dot(c[:4], c[:4])) for t in c[:4])
        cross = lambda a, b: [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
        # v + 2 w u×v + 2 u×(u×v), the rotation by a unit quaternion.
        once = cross(u, x)
        there = [a + 2 * w * o + 2 * t + d for a, o, t, d in zip(x, once, cross(u, once), c[4:7])]
        a, b = there[0] / there[2], there[1] / there[2]
        r = a * a + b * b
        radial = 1 + c[9] * r + c[10] * r * r
        d = c[7] * (a * radial + 2 * c[11] * a * b + c[12] * (r + 2 * a * a)) + c[13] - s[0]
        e = c[8] * (b * radial + 2 * c[12] * a * b + c[11] * (r + 2 * b * b)) + c[14] - s[1]
        return sqrt(1 + d * d + e * e) - 1

    all_of = zip(chunks(poses, 15), chunks(points, 3), chunks(seen, 2))
    return sum((residual(c, x, s) for c, x, s in all_of), mpf(0)), {}


def columns(n, a, b):
    product = [dot(row, b[j::n]) for row in chunks(a, n) for j in range(n)]
    return dot(product, product), {}


def halving(n, x):
    return sqrt(1 + dot(x, x) ** 2), {}


# --- eigen


def likelihood(n, x, y, parameters):
    size, length, noise = parameters
    between = lambda i, j: size**2 * exp(-((x[i] - x[j]) ** 2) / (2 * length**2)) + (noise**2 if i == j else 0)
    covariance = matrix(n, n)
    for i in range(n):
        for j in range(n):
            covariance[i, j] = between(i, j)
    y = matrix(y)
    return (y.T * covariance**-1 * y)[0] / 2 + log(mpmath.det(covariance)) / 2, {}


def residual(n, m, a, b):
    a, b = matrix([[a[i + n * j] for j in range(m)] for i in range(n)]), matrix(b)
    fitted = (a.T * a) ** -1 * a.T * b
    left = a * fitted - b
    return (left.T * left)[0] + (fitted.T * fitted)[0] / 4, {}


def determinant(n, a):
    return log(mpmath.det(matrix(chunks(a, n))) ** 2), {}


# --- eigen_fixed


def missed(q, point, wanted):
    w, *u = (t / sqrt(dot(q, q)) for t in q)
    cross = lambda a, b: [a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]]
    once = cross(u, point)
    turned = [x + 2 * w * o + 2 * t for x, o, t in zip(point, once, cross(u, once))]
    return sum((t - x) ** 2 for t, x in zip(turned, wanted)), {}
