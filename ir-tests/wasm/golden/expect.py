#!/usr/bin/env python3
"""expect.py [NAME…]: writes ../NAME.run, the calls of cases.py with what must come out, by the models of models.py.

Gradients are central differences with sixty digits, so that about thirty of them are right. Needs Python 3.11 and
mpmath.
"""

import pathlib
import sys

import mpmath
from mpmath import mpf

from cases import PROGRAMS, Bytes, Ints, Singles

HERE = pathlib.Path(__file__).resolve().parent
STEP = mpf(10) ** -20
mpmath.mp.dps = 60


def is_active(arg):
    return isinstance(arg, float) or (isinstance(arg, list) and not isinstance(arg, (Ints, Bytes)))


def exact(arg):
    """An argument in sixty digits."""
    if isinstance(arg, list) and is_active(arg):
        return [mpf(x) for x in arg]
    return list(arg) if isinstance(arg, list) else mpf(arg) if is_active(arg) else arg


def objective(case, args):
    """What the gradient is of: the result and the final contents of the buffers, weighted by their cotangents."""
    value, final = case.evaluate(args)
    is_float = value is not None and case.export != "cg_solve"
    total = (1 if case.seed is None else mpf(case.seed)) * value if is_float else mpf(0)
    for i, shadow in case.shadow.items():
        total += sum(s * x for s, x in zip(shadow, final[i] if i in final else args[i]))
    return total


def slope(case, i, k):
    """The derivative by argument i, or by its element k."""

    def at(step):
        args = [exact(a) for a in case.args]
        if k is None:
            args[i] += step
        else:
            args[i][k] += step
        return objective(case, args)

    x = abs(exact(case.args[i] if k is None else case.args[i][k]))
    step = STEP * x if 0 < x < STEP or x > 1 / STEP else STEP
    return rounded((at(step) - at(-step)) / (2 * step))


def rounded(x):
    """The nearest double; what is below the error of the differences is zero."""
    return 0.0 if abs(x) < mpf(10) ** -25 else float(x)


def listed(xs):
    return f"[{', '.join(repr(x) if isinstance(x, (int, float)) else repr(rounded(x)) for x in xs)}]"


def written(arg):
    if not isinstance(arg, list):
        return repr(arg)
    kinds = {Ints: "i32", Bytes: "i8", Singles: "f32"}
    return kinds.get(type(arg), "") + (listed(arg) if len(arg) else "[]")


def directive(case):
    call = f"%{case.export}({', '.join(map(written, case.args))})"
    if case.trap:
        return f"; trap: {call} {case.trap}"
    text = f"; grad: {call}"
    if case.seed is not None:
        text += f" seed {case.seed!r}"
    for i, shadow in sorted(case.shadow.items()):
        text += f" shadow {i}={listed(shadow)}"
    if case.clauses:
        text += f" {case.clauses}"
    value, final = case.evaluate([exact(a) for a in case.args])
    if value is not None:
        text += f" value [{int(value) if case.export == 'cg_solve' else float(value)!r}]"
    if case.buffers:
        text += f" buffers [{', '.join(listed(final[i]) if i in final else 'null' for i in range(len(case.args)))}]"
    gradient = []
    for i, arg in enumerate(case.args):
        if not is_active(arg):
            gradient.append("null")
        elif isinstance(arg, float):
            gradient.append(repr(slope(case, i, None)))
        else:
            entries = [slope(case, i, k) for k in range(len(arg))]
            for (j, k), wanted in case.wanted.items():
                assert j != i or abs(entries[k] - wanted) <= 1e-12 * abs(wanted), (case.export, k, entries[k], wanted)
            gradient.append(listed(entries))
    return f"{text} == [{', '.join(gradient)}]"


def main():
    for program in PROGRAMS:
        if sys.argv[1:] and program.__name__ not in sys.argv[1:]:
            continue
        lines = []
        for case in program():
            lines += [f"; {case.note}"] if case.note else []
            lines.append(directive(case))
        (HERE.parent / f"{program.__name__}.run").write_text("\n".join(lines) + "\n")
        print(program.__name__, len(lines) // 2)


if __name__ == "__main__":
    main()
