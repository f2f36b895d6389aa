"""Which calls of which programs are asked for: by program, in the order of the files."""

from dataclasses import dataclass, field

from mpmath import exp, log, mpf, sin, sqrt

import models


class Ints(list):
    """A buffer of i32."""


class Bytes(list):
    """A buffer of i8."""


class Singles(list):
    """A buffer of f32."""


@dataclass
class Case:
    export: str
    args: list
    note: str = ""
    seed: float | None = None
    shadow: dict = field(default_factory=dict)  # initial shadows of buffers, by argument
    model: object = None  # default: the model of the export's name
    clauses: str = ""
    buffers: bool = False  # whether final contents are expected, too
    wanted: dict = field(default_factory=dict)  # published entries of the gradient, by (argument, element)
    constant: tuple = ()  # arguments that are declared constant
    trap: str = ""  # the code of the trap that it ends with, if it does

    def evaluate(self, args):
        return (self.model or getattr(models, self.export))(*args)


def sequence(seed, n, low=-1.0, high=1.0):
    """n numbers between low and high, with few digits."""
    out = []
    for u in (x for x, _ in zip(models.uniform(seed), range(n))):
        out.append(round(float(low + (high - low) * u), 3))
    return out


def loss():
    times, measured = [0.0, 0.5, 1.0, 1.5, 2.0], [1.0, 0.3, -0.5, -0.6, -0.1]
    return [
        Case("loss", [[1.2, 0.4, 2.0, 0.1], 5, times, measured], "Five measurements."),
        Case("loss", [[1.2, 0.4, 2.0, 0.1], 100000000, times, measured], "More than memory holds.", trap="heap_oob"),
    ]


def gmm():
    def case(d, k, n, data, gamma, m, **more):
        entries = d * (d + 1) // 2
        return Case(
            "gmm_objective",
            [
                d,
                k,
                n,
                sequence(data, k),
                sequence(data + 1, k * d),
                sequence(data + 2, k * entries, -0.7, 0.7),
                sequence(data + 3, n * d, -2.0, 2.0),
                gamma,
                m,
            ],
            **more,
        )

    return [
        case(2, 3, 4, 1, 1.0, 0, note="Two dimensions, three components, four points."),
        case(3, 2, 5, 10, 0.8, 2, note="A prior with more degrees of freedom.", seed=-0.5),
        case(1, 1, 3, 20, 1.5, 0, note="A single Gaussian: the weight cancels, nothing lies below the diagonal."),
        case(5, 2, 3, 30, 1.0, 1, note="Rows long enough for vectors."),
    ]


# The camera, point, weight and feature of the AD benchmark's bundle adjustment, which repeats one observation.
CAMERA = [
    -0.758453,
    -1.109613,
    -0.845551,
    34.556073,
    39.676747,
    53.881673,
    419.194514,
    5.864426,
    -8.51887,
    0.087812,
    0.002739,
]
POINT, WEIGHT, FEATURE = [7.203245, 0.001144, 3.023326], [0.417022], [271.760969, 834.209256]
# Derivatives of both residuals by camera, point and weight, to 16 digits; the first is the value that NiLang.jl tests.
JACOBIAN = [
    [
        -461.44632100159936,
        178.86792801444562,
        -19.423916472206336,
        -3.061598342041031,
        6.392457556226443,
        -3.340282281299017,
        0.2647602492070314,
        0.417022,
        0.0,
        243.62824566082992,
        676.4867782658688,
    ],
    [
        -803.7436233648796,
        -309.59541752344904,
        604.780284662503,
        -15.049628170340554,
        6.248486312079826,
        3.2194799516049275,
        0.8381960857313309,
        0.0,
        0.417022,
        771.2949451366337,
        2141.668061159957,
    ],
]


def ba():
    two = [CAMERA, [0.3, -0.2, 0.5, 0.1, 0.4, -6.0, 500.0, 3.0, -2.0, 0.05, -0.01]]
    three = [[7.203245, 0.001144, 3.023326], [0.5, -0.7, 1.2], [-0.4, 0.9, 0.8]]
    loss = [
        3,
        sum(two, []),
        sum(three, []),
        [0.4, 0.9, 1.1],
        Ints([0, 0, 1, 1, 1, 2]),
        [271.7, 834.2, 100.0, -20.0, -30.0, 80.0],
    ]
    first = dict(zip([(1, i) for i in range(11)], JACOBIAN[0]))
    second = dict(zip([(1, i) for i in range(11)], JACOBIAN[1]))
    out = [1, CAMERA, POINT, WEIGHT, Ints([0, 0]), FEATURE, [0.0, 0.0], [0.0]]
    still = [0.0, 0.0, 0.0] + CAMERA[3:]
    return [
        Case(
            "ba_residuals",
            out,
            "The first residual of the benchmark's observation.",
            shadow={6: [1.0, 0.0]},
            buffers=True,
            wanted=first,
        ),
        Case(
            "ba_residuals",
            out,
            "The second one, and the penalty of the weight.",
            shadow={6: [0.0, 1.0], 7: [0.5]},
            wanted=second,
        ),
        Case("ba_loss", loss, "Two cameras, three points, three observations."),
        Case("ba_loss", [1, still, POINT, WEIGHT, Ints([0, 0]), FEATURE], "A camera that is not rotated."),
    ]


def lstm():
    def case(layers, length, width, data, **more):
        return Case(
            "lstm_objective",
            [
                layers,
                length,
                width,
                sequence(data, 8 * layers * width),
                sequence(data + 1, 3 * width),
                sequence(data + 2, 2 * layers * width),
                sequence(data + 3, length * width, 0.0, 1.0),
            ],
            **more,
        )

    return [
        case(1, 3, 2, 1, note="One layer, two predictions."),
        case(2, 5, 3, 10, note="Two layers, four predictions: the state is read and written eight times.", seed=2.0),
    ]


def hand():
    still = [0.0] * 3 + sequence(5, 23)
    return [
        Case("hand_loss", [sequence(3, 26, -0.6, 0.6), 6, 8, 42], "Six vertices, eight observations."),
        Case(
            "hand_loss",
            [still, 5, 3, 7],
            "A hand that is not rotated as a whole.",
            model=lambda theta, *rest: models.hand_loss(unrotated(theta), *rest),
        ),
    ]


def unrotated(theta):
    """Below its threshold the program leaves rotation out, so that its derivative by the rotation is zero."""
    return [mpf(0)] * 3 + list(theta[3:])


def fft():
    signal = sequence(1, 16)
    return [
        Case("spectrum_loss", [16, signal, sequence(2, 16, 0.0, 2.0)], "Powers of the spectrum against a target."),
        Case("spectrum_loss", [1, [0.7], [0.2]], "One point: there is nothing to do but to square."),
        Case(
            "filter_loss", [8, signal[:8], sequence(3, 8, 0.0, 1.0), sequence(4, 8)], "There and back again.", seed=0.5
        ),
        Case(
            "fft",
            [4, -1, signal[:8]],
            "The transform itself, in place.",
            shadow={2: [1.0, 0.5, 0.0, 2.0, -1.0, 0.25, 3.0, 0.0]},
            buffers=True,
        ),
    ]


def fft32():
    exact = lambda xs: Singles(round(x * 64) / 64 for x in xs)
    signal = sequence(1, 16)
    return [
        Case("spectrum_loss", [8, exact(signal[:8]), exact(sequence(2, 8, 0.0, 2.0))], "Single precision."),
        Case(
            "filter_loss",
            [16, exact(signal), exact(sequence(3, 16, 0.0, 1.0)), exact(sequence(4, 16))],
            "There and back.",
        ),
    ]


def cg():
    # A symmetric matrix of order five, with a dominant diagonal.
    rows = [
        {0: 4.0, 1: -1.0, 3: 0.5},
        {0: -1.0, 1: 5.0, 2: 0.75},
        {1: 0.75, 2: 3.0, 4: -0.25},
        {0: 0.5, 3: 2.5},
        {2: -0.25, 4: 3.5},
    ]
    starts, columns, values = Ints([0]), Ints(), []
    for row in rows:
        columns += row.keys()
        values += row.values()
        starts.append(len(columns))
    b, target = [1.0, -0.5, 2.0, 0.25, -1.5], [0.2, 0.1, 0.4, -0.3, 0.0]
    # A triangle with a square beside it; the second resistor is doubled.
    ends = Ints([0, 1, 1, 2, 1, 2, 2, 0, 2, 3, 3, 4, 4, 5, 5, 2])
    conductances, currents = [1.0, 2.0, 0.5, 1.5, 0.75, 1.25, 2.5, 0.3], [1.0, 0.0, -0.5, 0.25, 0.0, 2.0]
    return [
        Case("cg_loss", [5, starts, columns, values, b, target, 0.0, 3], "Three iterations, which is too few."),
        Case("cg_loss", [5, starts, columns, values, b, target, 1e-3, 20], "Until the residual is small.", seed=3.0),
        Case("cg_loss", [5, starts, columns, values, b, target, 100.0, 20], "Good enough before the first iteration."),
        Case(
            "cg_solve",
            [5, starts, columns, values, b, [0.5, 0.0, 0.25, 0.0, 0.0], 0.01, 20],
            "From another start.",
            shadow={5: [1.0, -2.0, 0.5, 0.0, 3.0]},
            buffers=True,
        ),
        Case(
            "network",
            [6, 8, ends, conductances, currents, 0.2],
            "Converged, so that the gradient by a resistor is minus the square of the voltage over it.",
        ),
    ]


def order():
    samples = [2.5, -1.0, 0.75, 3.25, 0.5, -2.0, 1.75, 4.0, -0.25]
    weights = [1.0, 2.0, 0.5, 1.5, 0.25, 3.0, 1.25, 0.75, 1.0]
    incomes = [2.5, 1.0, 0.75, 3.25, 0.5, 2.0, 1.75, 4.0, 0.25]
    return [
        Case("trimmed_mean", [9, samples, 2], "The two smallest and the two largest samples do not count."),
        Case("trimmed_mean", [1, [3.0], 0], "Nothing to sort."),
        Case("trimmed_mean", [8, samples[:8], 3], "A median.", seed=-2.0),
        Case("lorenz", [9, incomes, weights, 0.35], "What the poorest 35 percent have."),
        Case("lorenz", [3, [2.0, 1.0, 1.0], [1.0, 0.5, 0.75], 0.9], "Two with the same income keep their order."),
    ]


def copies():
    numbers = [0.5, -1.25, 2.0, 0.75, -3.0]
    return [
        Case("ranked", [5, numbers], "Exchanged byte by byte.", model=models.ranked_by_bytes),
        # Differences are too small for singles.
        Case("weighed", [5, numbers], "Records, exchanged by bytes and by words.", seed=0.5, clauses="nofd"),
        Case("packed", [4, numbers[:4]], "At odd addresses."),
        Case("mirrored", [5, numbers], "The bytes turned round, twice.", seed=-1.5),
        Case("copied", [5, numbers], "By halves."),
        Case("rows", [8, [*numbers, 1.5, 0.25, -0.125]], "Singles, copied and scaled by rows.", clauses="nofd"),
    ]


def records():
    numbers = [0.5, -1.25, 2.0, 0.75]
    return [
        Case("doubled", [numbers[:3]], "Words that hold halves of two doubles, without optimisation."),
        Case("rotated", [4, numbers], "Exchanged by assignment."),
        Case("saved", [4, numbers], "A block that begins at a multiple of eight.", seed=0.5),
        Case("shifted", [4, numbers], "Behind a header."),
    ]


def records_beside_singles():
    return records()


def unions():
    return [
        Case("split", [0.7], "The lower word is zero."),
        Case("cubed", [-0.7], "Without its sign."),
        Case("scaled", [0.7], "Another exponent."),
        Case("power_of_two", [0.7, 3], "Of two words that are no float's."),
        Case("logarithm", [5.3], "What is left when an exponent has been taken off."),
        Case("logarithm", [0.3], "Less than one.", seed=-2.0),
        Case("exponential", [1.7], "An exponent is added."),
        Case("exponential", [-2.2], "Or subtracted.", seed=0.5),
        Case("signed_as", [0.7, -1.0], "Another number's sign."),
        Case("signed_as", [-0.7, 2.0], "Back to its own.", seed=-1.5),
        Case("scaled_by", [0.7, 3], "An exponent that is computed from the number's own."),
        Case("scaled_by", [-3.25, -2], "Smaller.", seed=0.75),
        Case("cut", [0.7], "Some of the last digits by themselves."),
    ]


def paths():
    return [
        Case("logarithm", [5.3], "Not scaled."),
        Case("logarithm", [1e-308], "Scaled up.", seed=1e-300, clauses="nofd"),
        Case("exponential", [0.25], "As it is."),
        Case("exponential", [1.7], "An exponent is added."),
        Case("exponential", [-709.5], "By a detour.", seed=-1e300, clauses="nofd"),
        Case("scaled_up", [0.7, 3], "A number."),
        Case("scaled_up", [-1e-308, 1000], "One below the normal ones.", clauses="nofd"),
        Case("weighted", [-5.3], "A number."),
        Case("weighted", [1e-308], "One below the normal ones.", seed=1e-300, clauses="nofd"),
        Case("cube_root", [5.3], "A number."),
        Case("cube_root", [-0.3], "A negative one.", seed=-2.0),
        Case("root", [5.3], "A number."),
        Case("either", [0.7, 1], "Twice.", seed=0.5),
        Case("either", [-0.7, 0], "Half."),
        Case("doubled", [0.7, 3], "Three times."),
        Case("doubled", [0.7, 0], "Not at all.", seed=2.0),
        Case("apart", [5.3], "A number."),
        Case("apart", [-1e-308], "One below the normal ones.", seed=1e-300, clauses="nofd"),
        Case("apart_each", [[1.3, -5.7], Ints([0, 0]), 2], "Two numbers."),
        Case("octaves", [0.7, 4], "Four of them."),
        Case("distance", [3.3, -1.1], "Numbers."),
        Case("distance", [-0.7, 1.25], "The other one is larger.", seed=-2.0),
        Case("beside", [5.3, 1.2], "Numbers."),
        Case("one_more", [5.3], "A number.", seed=0.5),
        Case("one_more", [0.1], "One that stays near one."),
        Case("cube_root_of_old", [5.3], "A number."),
        Case("cube_root_of_old", [-0.3], "A negative one.", seed=-2.0),
        Case("above_whole", [5.3], "A number."),
        Case("above_whole", [-2000000.3], "A negative one.", seed=0.5),
        Case("larger_first", [0.7, -1.3], "Swapped."),
        Case("larger_first", [-1.3, -0.7], "Not swapped.", seed=0.25),
        Case("replaced", [1.5, 40.0], "By a callee."),
        Case("kept_by_a_callee", [1.5, 1.5], "The same number.", seed=2.0),
        Case("below", [1.5, 1.5], "The same number, below a pointer."),
    ]


def scales():
    numbers = [3.0, -0.7, 5.5]
    out = []
    for how, note in [("by_words", "By two words."), ("by_bits", "By all bits.")]:
        out += [
            Case(f"fractions_{how}", [3, numbers], note, model=models.fractions),
            Case(f"scaled_{how}", [3, numbers], note, model=models.scaled_each),
            Case(f"both_{how}", [3, numbers], note, seed=-0.5, model=models.both),
        ]
    return out


def parsed():
    numbers = [1.25, 0.5, -0.75, 3.5, 0.25]
    return [
        Case("tagged", [5, numbers], "All of them.", clauses="nofd"),
        Case("odd_tags", [5, numbers], "Those with an odd number beside them.", clauses="nofd"),
        Case("sorted_by_tag", [5, numbers], "In another order.", seed=2.0, clauses="nofd"),
    ]


def resampled():
    return [Case("resampled", [Singles([0.5, 0.75])], "Three rows of two.", clauses="nofd")]


def slopes():
    numbers = [2.05, 1.2, 0.75, 0.4, 0.29]
    return [Case("fitted", [5, numbers], "As exact as its slopes are.", clauses="tol 1e-7")]


def phasors():
    return [
        Case("ladder", [3, [0.5, 1.0, 0.25], [0.01, 0.02, 0.005], [1e-4, 2e-4, 5e-5], 8.0, 50.0], "Mains."),
        Case("ladder", [1, [2.0], [0.5], [0.25], 1.0, 0.125], "A link.", seed=-2.0),
        Case("newton", [-2.0, 2.0, 0.5, 0.75, 4], "On the way to a root."),
        Case("mapped", [3, Singles([1.25, -0.5, 0.75]), 0.375, 1.0], "Singles.", clauses="nofd"),
        Case("mapped", [3, Singles([1.25, -0.5, 0.75]), 0.375, 2.0**80], "Large ones.", clauses="nofd"),
    ]


def waves():
    return [
        Case("brightness", [3, [1.0, 0.5, 0.75], [0.0, 0.25, -0.5], [0.0, 1.5, 2.25], 0.7, 0.125], "Three waves."),
        Case("brightness", [2, [1.0, 0.5], [0.0, 0.0], [0.0, 0.0], 0.5, 0.0], "Nothing but real numbers.", seed=-2.0),
        Case("impedance", [[0.5, 0.01, 0.001, 0.0002], 3.0, 50.0, 12.5, [0.0, 0.0]], "A line.", buffers=True),
        Case("impedance", [[0.5, 0.01, 0.001, 0.0002], 3.0, 50.0, 0.0, [0.0, 0.0]], "Direct current.", clauses="nofd"),
        Case("mixed", [0.4, -0.7, 0.3, 1.25], "Anywhere."),
        Case("mixed", [1.25, 0.0, 2.5, 0.0], "On the real axis."),
        Case("mixed", [0.0, 0.5, 0.0, 0.75], "On the imaginary one."),
        Case("folded", [2, 0.5, 0.25, 0.75], "Singles.", clauses="nofd"),
        Case("folded", [1, 0.75, 0.0, 0.5], "Singles, from the real axis.", clauses="nofd"),
    ]


def precise():
    far = [1e6 + 0.5, 1e6 - 0.25, 1e6 + 0.125, 1e6]
    return [
        Case("variance", [4, far], "Far from zero.", clauses="nofd"),
        Case("variance", [3, [0.5, -1.25, 2.0]], "Near it.", seed=-2.0),
        Case("length", [3, Singles([1.5, 2.0, -0.25])], "Singles.", clauses="nofd"),
        Case("functions", [1.25, 0.625], "Functions."),
        Case("functions", [0.375, 1.5], "The same elsewhere.", seed=0.5),
        Case("parts", [1.3, 0.6], "One number above the other."),
        Case("parts", [0.45, 1.7], "Below it.", seed=-3.0),
        Case("moved", [3, [1.5, 2.0, -0.25], [0.5, 1.0, -1.5], 0.75], "Three bodies."),
    ]


def containers():
    x = [0.3, 1.2, 0.8, 0.55, 2.1, 0.95]
    return [
        Case("shapes", [6, x], "Two circles, two boxes."),
        Case("ranked", [6, x], "Three pairs.", seed=-2.0),
        Case("composed", [4, x[:4], 0.5], "Four closures."),
        Case("grouped", [6, x], "Six numbers."),
        Case("variants", [6, x], "Six variants."),
        Case("orbit", [4, 0.5, 0.25, 0.75], "Four points of an orbit."),
    ]


# Positions (astronomical units), velocities (the same per day), masses (kilograms): the Sun, the planets and Pluto.
PLANETS = [
    (
        [-0.0034300315363673, 0.001761881027012596, 1.246691303879918e-05],
        [3.433119412673547e-06, -5.231300927361546e-06, -2.97297473555075e-08],
        1.988544e30,
    ),
    (
        [0.0888798513876546, -0.4426150338141062, -0.04475716356484761],
        [0.02190877912081542, 0.007161568136528, -0.001425929443086507],
        3.302e23,
    ),
    (
        [0.04043738093622098, -0.7239789211502183, -0.01241560658530024],
        [0.02005742309538389, 0.001141448268256643, -0.001142174441569258],
        48.685e23,
    ),
    (
        [-0.02020844529756663, -1.014332737790859, -1.358267619371298e-05],
        [0.01692836723212859, -0.0003484006532982474, 6.028542314557626e-07],
        5.97219e24,
    ),
    (
        [0.7462481663749645, -1.181663652521456, -0.04321921404013512],
        [0.01235610918162121, 0.008680869489377649, -0.0001220500608452554],
        6.4185e23,
    ),
    (
        [3.384805319103406, 3.658805636759595, -0.09100441946210819],
        [-0.00563467161709323, 0.005479180979634376, 0.0001034981407898108],
        1898.13e24,
    ),
    (
        [-0.1083899692644216, -10.03995196286016, 0.1793391553155583],
        [0.005278410787728323, -7.712342079566598e-05, -0.0002084447335785041],
        5.68319e26,
    ),
    (
        [-0.2693448460292631, -19.2760644686922, -0.06808868692550485],
        [0.003903100242621723, -0.00023801110923601, -5.164025224695875e-05],
        86.8103e24,
    ),
    (
        [4.67556670979166, -29.85428200863175, 0.5070034142531887],
        [0.003080716380724798, 0.0005030733458293977, -8.101711269674541e-05],
        102.41e24,
    ),
    (
        [-21.29074273328636, -18.96633337434039, 8.18795537867713],
        [0.002276295756013608, -0.002670481848836963, -0.0003669545371032554],
        1.307e22,
    ),
]
# Of the squared distance of Mercury and Venus after 16 steps: by the position and the velocity of Mercury, and by the
# Sun's mass. From an adjoint written by hand.
ORBIT = {
    (1, 3): -2.094625151952853,
    (1, 4): -0.8280042917488499,
    (1, 5): 0.1309626773707653,
    (2, 3): -0.005834807085317289,
    (2, 4): 0.12106336659710366,
    (2, 5): 0.012349042122633429,
    (3, 0): -1.5386064998199112,
}


def nbody():
    positions = [x for r, _, _ in PLANETS for x in r]
    velocities = [x * 365.25 for _, v, _ in PLANETS for x in v]
    masses = [m / 1.988544e30 for _, _, m in PLANETS]
    planets = [10, positions, velocities, masses, 39.4237781842308408, 0.01]
    three = [
        3,
        [0.0, 0.0, 0.0, 1.0, 0.0, 0.5, -0.5, 1.5, 0.0],
        [0.0, 0.1, 0.0, 0.0, 1.0, 0.0, -0.8, 0.0, 0.2],
        [1.0, 0.5, 0.25],
    ]
    final = {1: [0.5, 0.0, 1.0] * 3, 2: [0.0, 1.0, -1.0] * 3}
    return [
        Case(
            "nbody_loss", [*planets, 16], "The solar system for 16 steps: how far Mercury is from Venus.", wanted=ORBIT
        ),
        Case("leapfrog", [*three, 1.0, 0.125, 4], "Seeds on all that is left.", shadow=final, buffers=True),
        Case(
            "nbody_loss",
            [*three, 0.75, 0.05, 7],
            "A seed on the result and on the positions.",
            seed=0.5,
            shadow={1: final[1]},
        ),
        Case("leapfrog", [*three, 1.0, 0.125, 0], "No step: everything stays.", shadow=final, buffers=True),
    ]


def heat():
    return [
        Case(
            "heat_loss",
            [3, 4, 5, 0.1, sequence(1, 12, 0.0, 2.0), sequence(2, 12, 0.5, 1.5), sequence(3, 12, 0.0, 2.0)],
            "Three rows of four cells, five steps.",
        ),
        Case(
            "heat_loss",
            [2, 2, 1, 0.2, sequence(4, 4), sequence(5, 4, 0.5, 1.5), sequence(6, 4)],
            "One step.",
            seed=-1.5,
        ),
        Case("heat_loss", [1, 9, 8, 0.15, sequence(7, 9), sequence(8, 9, 0.5, 1.5), sequence(9, 9)], "A rod."),
    ]


OPCODES = (
    "HALT CONSTANT LOAD STORE ADD SUBTRACT MULTIPLY DIVIDE NEGATE DUPLICATE SWAP SINE EXPONENTIAL LOGARITHM ROOT JUMP "
    "JUMP_POSITIVE CALL RETURN"
).split()


def assemble(text):
    """Words are opcodes, numbers, or labels: `name:` where it is, `name` where it is used."""
    words, labels, code = text.split(), {}, []
    for word in words:
        if word.endswith(":"):
            labels[word[:-1]] = len(code)
        else:
            code.append(word)
    return Bytes(OPCODES.index(w) if w in OPCODES else labels[w] if w in labels else int(w) for w in code)


def machine():
    def case(note, code, constants, inputs, formula, **more):
        model = lambda code, constants, inputs, n: (formula(constants, inputs), {})
        return Case("run", [assemble(code), constants, inputs, len(inputs)], note, model=model, **more)

    power = """
        CONSTANT 0 STORE 2  LOAD 1 STORE 3
        again: LOAD 2 LOAD 0 MULTIPLY STORE 2
        LOAD 3 CONSTANT 0 SUBTRACT DUPLICATE STORE 3
        JUMP_POSITIVE again  LOAD 2 HALT"""
    newton = """
        LOAD 0 STORE 1
        again: LOAD 1 DUPLICATE LOAD 0 LOAD 1 DIVIDE ADD CONSTANT 0 DIVIDE DUPLICATE STORE 1
        SUBTRACT CONSTANT 1 SUBTRACT JUMP_POSITIVE again
        LOAD 1 HALT"""
    called = """
        LOAD 0 CALL f  LOAD 1 CALL f  SWAP CALL f  SUBTRACT NEGATE HALT
        f: DUPLICATE SINE SWAP EXPONENTIAL MULTIPLY RETURN"""
    f = lambda x: sin(x) * exp(x)

    def heron(constants, inputs):
        x, step = inputs[0], constants[1] + 1
        while step - constants[1] > 0:
            before, x = x, (x + inputs[0] / x) / constants[0]
            step = before - x
        return x

    def powers(constants, inputs):
        total, left = constants[0], inputs[1]
        while True:
            total, left = total * inputs[0], left - constants[0]
            if left <= 0:
                return total

    return [
        case("A power by a loop, whose count is among the numbers.", power, [1.0], [1.25, 6.5], powers),
        case("Heron's square root, until it is good enough.", newton, [2.0, 0.05], [7.0], heron),
        case(
            "A function of sin(x) exp(x), called three times.",
            called,
            [0.0],
            [0.3, 0.8],
            lambda c, x: f(f(x[0])) - f(x[1]),
        ),
        case(
            "Logarithms and roots.",
            "LOAD 0 LOGARITHM CONSTANT 0 LOAD 0 MULTIPLY ROOT DIVIDE HALT",
            [3.0],
            [2.5],
            lambda c, x: log(x[0]) / sqrt(c[0] * x[0]),
            seed=4.0,
        ),
        case("A jump over a trap.", "JUMP on 99 on: CONSTANT 1 HALT", [0.0, 5.0], [1.0], lambda c, x: c[1]),
    ]


def quadrature():
    return [
        Case("quadrature", [0, -1.0, 2.5, 0.8, 0.0, 1e-4], "A bell: a tree of intervals that is deeper in the middle."),
        Case("quadrature", [1, 0.0, 3.0, 0.5, 4.0, 1e-3], "A wave.", seed=2.0),
        Case("quadrature", [2, 0.0, 1.0, 0.25, 0.0, 10.0], "Good enough at once."),
    ]


def structs():
    spheres = [0.0, 0.0, -4.0, 1.0, 0.9, 0.2] + [0.5, 2.0, -1.0, 0.75, 0.8, 0.6] + [-3.0, 0.5, -2.0, 1.5, 0.7, 0.4]
    return [
        Case(
            "trace",
            [3, spheres, [0.1, 0.2, 0.0, 0.05, 0.02, -1.0], 4],
            "Hits the first sphere, then what lies behind the eye.",
        ),
        Case("trace", [3, spheres, [0.0, -1.0, -1.0, 0.1, 1.0, 0.05], 3], "Hits the second one.", seed=2.0),
        Case("trace", [3, spheres, [5.0, 5.0, 5.0, 1.0, 0.5, 0.25], 3], "Misses everything: the sky."),
        Case("trace", [3, spheres, [0.1, 0.2, 0.0, 0.05, 0.02, -1.0], 0], "No bounces."),
        Case(
            "arrange",
            [3, spheres, [-3.0, 1.0, 0.0]],
            "Moved as wholes.",
            buffers=True,
            shadow={1: [float(i) for i in range(1, 19)]},
        ),
    ]


def layers():
    dense = sequence(1, 3 * 4 + 5 * 2 + 2, -0.9, 0.9)
    deep = sequence(2, 3 * 3 + 3 + 4 * 3 + 2 * 4, -0.9, 0.9)
    return [
        Case(
            "network_loss",
            [3, Ints([2, 4, 2, 2]), Ints([3, 2, 4]), dense, [0.5, -0.8], [0.1, 0.9]],
            "tanh, swish, and a diagonal layer.",
        ),
        Case(
            "network_loss",
            [
                4,
                Ints([2, 3, 3, 3, 3]),
                Ints([1, 7, 2, 8]),
                deep[:9] + deep[9:12] + deep[12:24],
                [1.0, 0.5],
                [0.2, 0.3, 0.5],
            ],
            "Rectified, squashed, swished, and a softmax.",
            seed=2.0,
        ),
        Case("network_loss", [0, Ints([2]), Ints([0]), [1.0], [0.5, -0.25], [0.0, 1.0]], "No layer at all."),
    ]


def gp():
    points, values = [0.0, 0.4, 1.1, 1.5, 2.3], [0.2, 0.7, 0.9, 0.4, -0.3]
    return [
        Case("gp_loss", [5, points, values, [0.1, -0.2, -1.0]], "Five observations."),
        Case("gp_loss", [1, [0.5], [2.0], [0.3, 0.2, -0.5]], "One: where it was does not matter.", seed=-1.0),
    ]


def ode():
    species = [0.8, -0.5] + [-0.1, -0.6, 0.4, -0.05]
    return [
        Case(
            "ode_loss",
            [0, 2, [0.5, -0.25], [1.5, 0.2, 0.3], 2.0, 0.01],
            "A pendulum, with steps that are refused and grow.",
        ),
        Case("ode_loss", [1, 2, [1.0, 0.5], species, 4.0, 0.001], "Predators and prey.", seed=0.5),
        Case("ode_loss", [1, 1, [0.5], [0.7, -0.3], 1.0, 1.0], "Logistic growth, in as few steps as there are."),
    ]


def robust():
    points = [0.0, 0.1, 1.0, 1.3, 2.0, 1.8, 3.0, 6.0, 4.0, 4.2, 5.0, 4.9]
    return [
        Case("robust_loss", [6, points, 1, 0.5], "Huber's loss."),
        Case("robust_loss", [6, points, 0, 0.0], "Squares.", seed=2.0),
        Case("robust_loss", [5, points[:10], 2, 0.3], "An odd number of points: one of them lies on the line."),
        Case(
            "robust_loss",
            [2, [1.0, 2.0, 1.0, 3.0], 0, 0.0],
            "No slope: both points have the same abscissa.",
            clauses="nofd",
        ),
        Case("robust_loss", [6, points, 9, 0.5], "There is no such cost: it panics.", trap="unreachable"),
    ]


def kernels():
    poses = [0.9, 0.2, -0.3, 0.4, 0.1, -0.2, 6.0, 50.0, 52.0, 0.05, -0.01, 0.001, 0.002, 3.0, -2.0]
    poses += [0.3, -0.7, 0.5, 0.6, -0.4, 0.3, 7.0, 40.0, 41.0, -0.02, 0.03, -0.004, 0.001, 1.0, 2.5]
    points, seen = sequence(1, 6), sequence(2, 4, -8.0, 8.0)
    rows = [sequence(s, 3) for s in (3, 4, 5, 6)]
    before = sequence(7, 9)
    return [
        Case("outer", [3, *rows, before], "Whatever was in the matrix.", shadow={5: sequence(8, 9)}, buffers=True),
        Case("outer", [3, *rows, before], "Promises.", clauses="noalias 1, 2, 3, 4, 5 noneed 5"),
        Case("outer", [0, [0.5], [0.5], [0.5], [0.5], [0.5]], "Nothing."),
        Case("camera", [2, poses, points, seen], "Two points.", seed=-1.5),
        Case("columns", [4, sequence(9, 16), sequence(10, 16)], "Rows of four."),
        Case("halving", [5, sequence(11, 5)], "An odd number.", seed=2.5),
        Case("halving", [1, [0.75]], "No call within."),
    ]


def eigen():
    points, values = sequence(21, 6, 0.0, 3.0), sequence(22, 6)
    return [
        Case("likelihood", [6, points, values, [0.8, 0.6, 0.3]], "Six observations."),
        Case("likelihood", [1, [0.5], [2.0], [0.8, 0.6, 0.3]], "One: where it was does not matter.", seed=-1.0),
        Case("residual", [5, 3, sequence(23, 15), sequence(24, 5)], "Five equations for three unknowns.", seed=2.0),
        Case("determinant", [4, sequence(25, 16)], "Rows change places."),
    ]


def eigen_fixed():
    quaternion, points = [0.9, 0.2, -0.3, 0.4], [[1.0, -0.5, 0.25], [0.5, 0.5, 1.0]]
    return [
        Case("missed", [quaternion, *points], "A point that is turned."),
        Case("missed", [[1.0, 0.0, 0.0, 0.0], *points], "One that is not.", seed=-0.5),
    ]


PROGRAMS = [
    loss,
    gmm,
    ba,
    lstm,
    hand,
    fft,
    fft32,
    cg,
    order,
    nbody,
    heat,
    machine,
    quadrature,
    structs,
    layers,
    copies,
    records,
    records_beside_singles,
    unions,
    paths,
    scales,
    parsed,
    resampled,
    slopes,
    phasors,
    waves,
    precise,
    containers,
    gp,
    ode,
    robust,
    kernels,
    eigen,
    eigen_fixed,
]
