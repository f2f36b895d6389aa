"""What is asked of each program: the arguments, the seeds, and which function of the oracle says the same.

A wasm program has one memory, of doubles; `at(k)` is a pointer to word k of it. `stack` words behind the data are for the
stack of the program: large enough, and one more where that puts its end at a multiple of 16 bytes, as wasm wants it.
"""
from dataclasses import dataclass, field


@dataclass
class At:
    word: int


class F32(list):
    """A buffer of single precision."""


@dataclass
class Case:
    function: str  # of the CLIF file
    oracle: str  # of the C programs
    args: list  # as CLIF sees them: lists are buffers
    oracle_args: list  # positions in `args`, or At
    seed: float = 1.0
    shadow: dict = field(default_factory=dict)  # initial shadow of a buffer, by argument
    buffers: bool = True  # whether the final contents are part of the expectation
    single: bool = False  # computes in f32, where finite differences are too coarse to compare with


def at(word):
    return At(word)


def wasm(function, words, stack, *args, seed=1.0, shadow=None):
    stack += stack and len(words) % 2
    memory = [float(w) for w in words] + [0.0] * stack
    clif = [memory, 8 * len(memory)] + [8 * a.word if isinstance(a, At) else a for a in args]
    oracle = [a if isinstance(a, At) else i + 2 for i, a in enumerate(args)]
    shadows = {0: [float(w) for w in shadow] + [0.0] * (len(memory) - len(shadow))} if shadow else {}
    return Case(f"run_{function}", function, clif, oracle, seed, shadows, buffers=not stack)


def wasm32(function, words, *args, seed=1.0, shadow=None):
    """As `wasm`, with a memory of floats of four bytes and no stack."""
    case = wasm(function, words, 0, *args, seed=seed, shadow=shadow)
    case.args = [F32(case.args[0]), len(words) * 4] + [4 * a.word if isinstance(a, At) else a for a in args]
    case.single = True
    return case


def direct(function, oracle, *args, seed=1.0, shadow=None):
    return Case(function, oracle, list(args), list(range(len(args))), seed, shadow or {})


def gmm(stack):
    alpha = [0.3, -0.2, 0.1]
    means = [0.0, 0.5, -1.0, 1.5, 2.0, -0.5]
    factors = [0.1, -0.3, 0.4, 0.2, 0.05, -0.25, -0.1, 0.3, 0.6]
    points = [0.2, 0.1, -0.8, 1.1, 1.7, -0.9, 0.4, 0.6]
    words = alpha + means + factors + points
    flat = [0.4, 0.9, 1.3, -0.7, 0.2, 0.5, -0.6, 0.8]
    return [
        wasm("gmm", words, stack, 2, 3, 4, at(0), at(3), at(9), at(18), 0.3),
        # One component: the likelihood of a single Gaussian; one dimension, five points.
        wasm("gmm", flat, stack, 1, 1, 5, at(0), at(1), at(2), at(3), 0.0, seed=-0.5),
        # No points: only the penalty, and the mixture weights cancel.
        wasm("gmm", words, stack, 2, 3, 0, at(0), at(3), at(9), at(18), 1.5),
    ]


A, X = [2.0, -1.0, 0.5, 1.0, 3.0, -2.0], [0.5, -1.5, 2.0]


def matvec(stack=0):
    # Five columns: the loops over columns are unrolled by four or two, with a remainder.
    wide = [0.5, -1.0, 2.0, 0.25, 3.0, 1.5, 0.75, -0.5, 1.25, -2.0]
    vector = [1.0, 0.5, -1.5, 2.0, 0.75]
    return [
        wasm("matvec", A + X + [0, 0], stack, 2, 3, at(0), at(6), at(9), shadow=[0] * 9 + [1, -0.5]),
        wasm("matvec", wide + vector + [7, 8], stack, 2, 5, at(0), at(10), at(15), shadow=[0] * 15 + [0.5, 2]),
        # y = x: the second row reads what the first has written.
        wasm("matvec", A[:4] + [0.5, -1.5], stack, 2, 2, at(0), at(4), at(4), shadow=[0] * 4 + [1, 1]),
    ]


def normal_matvec(stack=0):
    return [
        wasm("normal_matvec", A + X + [0, 0], stack, 2, 3, at(0), at(6), at(9)),
        wasm("normal_matvec", A + X + [0, 0], stack, 2, 3, at(0), at(6), at(9), seed=0.5, shadow=[0] * 6 + [1, 0, -1, 2, 3]),
    ]


def rk4(stack):
    words = [0.7, -0.3, 0.1, 9.81, 1.2, 2.0]
    return [
        wasm("rk4_step", words, stack, 0.2, 0.05, at(0), at(2), shadow=[1, 0]),
        wasm("rk4_step", words, stack, 0.0, 0.1, at(0), at(2), shadow=[0.5, -2]),
        wasm("rk4_energy", words, stack, 0.2, 0.05, 3, at(0), at(2)),
        wasm("rk4_energy", words, stack, 0.1, 0.05, 0, at(0), at(2), seed=2.0),
    ]


BODY = [1.0, 2.0, -0.5, 0.3, -0.2, 0.1, 1.5]


def collide(stack):
    pair = BODY + [-0.7, 0.4, 1.1, 0.9, 0.6, -0.8, 2.5]
    weights = [1, 0, 0, 0, 2, 0, 3] + [0, 1, 0, 4, 0, 0, 1]
    return [
        wasm("collide", pair + [0.0] * 14, stack, at(0), at(14)),
        wasm("collide", pair + [1.0] * 14, stack, at(0), at(14), seed=0.5, shadow=[0] * 14 + weights),
    ]


def structs(stack=8):
    vectors = [0.5, 1.5, -1.0, 2.0, 0.25, 3.0, -0.75, 1.25, 0.1]
    return [
        wasm("reverse_copy", [0.0] * 9 + vectors, 0, 3, at(0), at(9), shadow=[1, 2, 3, 4, 5, 6, 7, 8, 9]),
        wasm("reverse_copy", [1.0] * 3 + vectors[:3], 0, 1, at(0), at(3), shadow=[1, 2, 3, 0.5]),
        wasm("drift", BODY + [0.0] * 7, 0, 0.1, at(0), at(7)),
        wasm("drift", BODY + [0.0] * 7, 0, 0.1, at(0), at(7), seed=0.0, shadow=[0] * 7 + [1, 2, 3, 4, 5, 6, 7]),
        *collide(stack),
    ]


CONSTANT, VARIABLE, ADD, SUBTRACT, MULTIPLY, DIVIDE, EXPONENTIAL, POWER = range(8)


def tree(expression):
    """Nodes of an expression written as nested tuples, its root first."""
    nodes = [None]

    def fill(slot, item):
        operation, *operands = item
        row = [float(operation)]
        for i, operand in enumerate(operands):
            if isinstance(operand, tuple):
                nodes.append(None)
                row.append(float(len(nodes) - 1))
                fill(len(nodes) - 1, operand)
            else:
                row.append(float(operand))
        nodes[slot] = (row + [0.0])[:3]

    fill(0, expression)
    return [word for row in nodes for word in row]


def evaluate(stack=0):
    x, y = (VARIABLE, 0), (VARIABLE, 1)
    quotient = (DIVIDE, (ADD, (MULTIPLY, x, y), (EXPONENTIAL, x)), (SUBTRACT, (CONSTANT, 3.5), (POWER, y, 3)))
    power = (POWER, (ADD, x, (CONSTANT, 0.25)), 11)
    found = []
    for expression, seed in [(quotient, 1.0), (power, 0.5), ((CONSTANT, 2.5), 1.0)]:
        nodes = tree(expression)
        found.append(wasm("eval", nodes + [0.7, 1.2], stack, at(0), 0, at(len(nodes)), seed=seed))
    return found


def kepler(stack=0):
    return [
        wasm("kepler", [0, 0], stack, 0.3, 1.1),
        wasm("kepler", [0, 0], stack, 0.9, 0.2, seed=-2.0),
        wasm("orbit", [0.3, 1.2, 2.5, 5.0], stack, 1.5, 0.4, 4, at(0)),
        wasm("orbit", [0.3, 1.2], stack, 1.5, 0.85, 2, at(0), seed=0.5, shadow=[1, -1]),
    ]


def integrate(stack=0):
    return [wasm("integrate", [0, 0], stack, which, 0.2, 1.7, 3, 0.8) for which in range(3)]


BODIES = [0.0, 0.1, 0.0, 0.0, 0.0, 0.2, 10.0] + [1.0, 0.2, -0.1, 0.1, 2.5, 0.0, 1.2] + [-2.0, 0.5, 0.3, 0.2, -1.5, 0.3, 0.7]


def nbody(stack):
    return [
        wasm("energy", BODIES, stack, at(0), 3),
        wasm("energy", BODIES, stack, at(0), 1, seed=3.0),
        wasm("advance", BODIES, 0, at(0), 3, 0.01, shadow=[0.5, -1, 2] * 7),
        wasm("advance", BODIES, 0, at(0), 2, 0.02, shadow=[0, 0, 0, 1, 2, 3, 0] * 3),
        wasm("swap_energy", BODIES, stack, at(0), 2, 0, 1, shadow=[0] * 14 + [1] * 7),
    ]


INPUTS = [1.1, 0.4, 0.4, 10.0]


def predator():
    u, inputs = [1.0, 0.5], list(INPUTS)
    return [
        direct("set_u0", "predator_set_u0", [0.0, 0.0], inputs, 0, 1, shadow={0: [1.0, 2.0]}),
        direct("rhs", "predator_rhs", 0.5, u, inputs, [0.0, 0.0], 0, 1, shadow={3: [1.0, 0.0]}),
        direct("rhs", "predator_rhs", 2.0, [4.0, 1.5], inputs, [9.0, 9.0], 0, 1, shadow={3: [0.5, -3.0], 1: [0.25, 0.0]}),
        direct("calc_out", "predator_calc_out", 0.0, u, inputs, [0.0, 0.0], 0, 1, shadow={3: [1.0, 2.0]}),
        # Reverse over DiffSL's own forward mode: second derivatives.
        direct(
            "rhs_grad", "predator_rhs_grad", 0.5, u, [0.3, -0.6], inputs, [0.1, 0.2, -0.3, 1.0], [0.0, 0.0], [0.0, 0.0], 0, 1,
            shadow={6: [1.0, -0.5]},
        ),
    ]


def heat():
    data = [0.5, 1.25] + [1.25, 0.0, 0.0, 0.0, 2.5] + [0.0] * 5
    u = [1.25, 1.0, 0.8, 1.1, 2.5]
    return [
        direct(
            "set_u0", "heat_set_u0", [0.0] * 5, data[:2] + [0.0] * 10, 0, 1,
            shadow={0: [1.0, 2.0, 3.0, 4.0, 5.0], 1: [0.0, 1.0, 7.0]},
        ),
        direct("rhs", "heat_rhs", 0.0, u, data, [0.0] * 5, 0, 1, shadow={3: [1.0, -1.0, 0.5, 2.0, 3.0]}),
        direct("rhs", "heat_rhs", 0.0, u, data, [0.0] * 5, 0, 1, shadow={3: [0.0, 0.0, 1.0, 0.0, 0.0], 2: [0.0] * 8 + [2.0]}),
    ]


def expressions():
    return [
        direct("expressions", "expressions", [0.5, 0.75, 1.25], [0.0] * 3, shadow={1: [1.0, 0.0, 0.0]}),
        direct("expressions", "expressions", [0.9, -0.4, 2.0], [1.0] * 3, shadow={1: [1.0, -2.0, 0.5]}),
        # Reverse over its symbolic derivatives: second derivatives.
        direct("expressions_dx", "expressions_dx", [0.5, 0.75, 1.25], [0.0] * 3, shadow={1: [1.0, 1.0, 1.0]}),
    ]


def points():
    xy = [0.5, 1.5, -1.0, 2.0, 0.25, 3.0, -0.75, 1.25]
    return [
        wasm32("reverse_rotate", xy + [0.0] * 8, 4, at(8), at(0), 0.8, 0.6, shadow=[0] * 8 + [1, 2, 3, 4, 5, 6, 7, 8]),
        wasm32("spread", xy, 4, at(0)),
        wasm32("spread", xy[:6], 3, at(0), seed=-2.0, shadow=[1, 0, 0, 0, 0, 0.5]),
        wasm32("lengths", xy + [0.0] * 4, 4, at(0), at(8), seed=0.5, shadow=[0] * 8 + [1, 2, 3, 4]),
    ]


def numeric():
    return [
        direct("horner", "horner", 0.6, 8),
        direct("horner", "horner", 0.6, 0),
        direct("cube_root", "cube_root", 5.0),
        direct("factorial", "factorial", 4.3, seed=0.5),
        direct("factorial", "factorial", 0.4),
        direct("huber", "huber", -0.4, 1.0),
        direct("huber", "huber", -2.5, 1.2, seed=3.0),
        direct("compound", "compound", 100.0, 0.03, 13),
        direct("python_orbit", "python_orbit", -0.1, 0.65, 6),
        direct("python_orbit", "python_orbit", 0.5, 0.5, 50),
    ]


# By program: calls that must end in a trap.
TRAPS = {
    # An operation that does not exist: `__builtin_trap`.
    "eval": ["; trap: %run_eval([9.0, 0.0, 0.0, 0.5], 32, 0, 0, 24) user12"],
    # Bodies outside the slice: bounds checks, and all of Rust's way of panicking.
    "nbody": [f"; trap: %run_swap_energy({BODIES + [0.0] * 25}, 368, 0, 3, {i}, {j}) user12" for i, j in [(3, 0), (0, 7)]],
}

OPT, RAW = "Wasmtime 48.0.8, OptLevel::Speed", "Wasmtime 48.0.8, OptLevel::None"
C, RUST = "clang 14 -O2 --target=wasm32", "rustc 1.63 -O, wasm32-unknown-unknown"
DIFFSL = "DiffSL 0.12.5, as given to cranelift-jit; old opcodes replaced"

# By file: where it comes from, and the cases.
FILES = {
    "gmm.opt": (f"src/wasm/gmm.c; {C}; {OPT}", gmm(stack=16)),
    "gmm.raw": (f"src/wasm/gmm.c; {C}; {RAW}", gmm(stack=16)),
    "matvec.opt": (f"src/wasm/matvec.c; {C}; {OPT}", matvec() + normal_matvec()),
    "matvec.raw": (f"src/wasm/matvec.c; {C}; {RAW}", matvec() + normal_matvec()),
    "matvec_simd.opt": (f"src/wasm/matvec.c; {C} -msimd128 -ffast-math; {OPT}", matvec()),
    "rk4.opt": (f"src/wasm/rk4.c; {C}; {OPT}", rk4(stack=24)),
    "rk4.raw": (f"src/wasm/rk4.c; {C}; {RAW}", rk4(stack=24)),
    "structs.opt": (f"src/wasm/structs.c; {C}; {OPT}", structs(stack=8)),
    "structs.raw": (f"src/wasm/structs.c; {C}; {RAW}", structs(stack=8)),
    "structs_bulk.opt": (f"src/wasm/structs.c; {C} -mbulk-memory; {OPT}", collide(stack=8)),
    "eval.opt": (f"src/wasm/eval.c; {C}; {OPT}", evaluate()),
    "eval.raw": (f"src/wasm/eval.c; {C}; {RAW}", evaluate()),
    "kepler.opt": (f"src/wasm/kepler.c; {C}; {OPT}", kepler()),
    "kepler_o0.raw": (f"src/wasm/kepler.c; {C.replace('-O2', '-O0')}; {RAW}", kepler(stack=24)),
    "integrate.opt": (f"src/wasm/integrate.c; {C}; {OPT}", integrate()),
    "integrate.raw": (f"src/wasm/integrate.c; {C}; {RAW}", integrate()),
    "nbody.opt": (f"src/wasm/nbody.rs; {RUST}; {OPT}", nbody(stack=24)),
    "nbody.raw": (f"src/wasm/nbody.rs; {RUST}; {RAW}", nbody(stack=24)),
    "points.opt": (f"src/wasm/points.c; {C}; {OPT}", points()),
    "points.raw": (f"src/wasm/points.c; {C}; {RAW}", points()),
    "predator": (f"src/diffsl/predator.ds; {DIFFSL}", predator()),
    "heat": (f"src/diffsl/heat.ds; {DIFFSL}", heat()),
    "numeric": ("src/python/numeric.py; RustPython 0.6.0, as given to cranelift-jit", numeric()),
    "expressions": ("src/evalexpr/build.sh; evalexpr-jit 0.2.3, as given to cranelift-jit", expressions()),
}
