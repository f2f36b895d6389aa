#!/usr/bin/env python3
"""expect.py IN_DIR OUT_DIR: puts the directives of cases.py in front of the CLIF files which the build scripts wrote to IN_DIR.

Values and gradients come from the C programs compiled with gcc in quadruple precision: central differences of sixth order with a
step of 1e-5, exact to more than twenty digits (both the rounding and the truncation error are near 1e-29). They know nothing
of CLIF, of the order in which it adds, or of derivative rules.

The loss of a case is what the pullback transposes: seed * result + sum over buffers of shadow * final contents; its derivative
with respect to the initial contents of a buffer is the shadow after the pullback.
"""
import pathlib
import re
import subprocess
import sys
import tempfile

from cases import F32, FILES, TRAPS, At

HERE = pathlib.Path(__file__).resolve().parent
SOURCES = [f"wasm/{name}.c" for name in ["gmm", "matvec", "rk4", "structs", "eval", "kepler", "integrate", "points"]]
SOURCES += ["oracle/nbody.c", "oracle/models.c", "oracle/numeric.c"]

PRELUDE = r"""
#include <quadmath.h>
#include <stdio.h>
#define REAL __float128
#define R(name) name##q
#define SINGLE __float128
#define S(name) name##q
#define SAY(x) do { char text[64]; quadmath_snprintf(text, sizeof text, "%.30Qe", (x)); printf(" %s", text); } while (0)
"""

RUN = r"""
static void run(int count, real *p, real (*loss)(const real *, int)) {
    loss(p, 1);
    const real h = 1e-5Q, weight[3] = {45, -9, 1};
    for (int i = 0; i < count; i++) {
        real slope = 0, kept = p[i];
        for (int k = 1; k <= 3; k++) {
            p[i] = kept + k * h;
            real up = loss(p, 0);
            p[i] = kept - k * h;
            slope += weight[k - 1] * (up - loss(p, 0));
        }
        p[i] = kept;
        SAY(slope / (60 * h));
    }
    printf("\n");
}
"""


def returns_real(sources):
    """By function, whether it gives a number back."""
    found = re.findall(r"^(?:EXPORT )?(real|single|void) (\w+)\(", sources, re.M)
    return {name: kind != "void" for kind, name in found}


def differentiable(case):
    """(argument, element or None) of every number that has a derivative."""
    for i, arg in enumerate(case.args):
        if isinstance(arg, list):
            yield from ((i, k) for k in range(len(arg)))
        elif isinstance(arg, float):
            yield i, None


def c_function(number, case, result):
    """The loss of a case as C, from all its differentiable inputs; where `say`, it prints result and final buffers too."""
    places = {place: n for n, place in enumerate(differentiable(case))}
    lines = [f"static real loss_{number}(const real *p, int say) {{", "    real total = 0;"]
    for i, arg in enumerate(case.args):
        if isinstance(arg, list):
            lines.append(f"    real b{i}[] = {{{', '.join(f'p[{places[i, k]}]' for k in range(len(arg)))}}};")

    def argument(what):
        if isinstance(what, At):
            return f"b0 + {what.word}"
        arg = case.args[what]
        if isinstance(arg, list):
            return f"b{what}"
        return f"p[{places[what, None]}]" if isinstance(arg, float) else str(arg)

    call = f"{case.oracle}({', '.join(argument(what) for what in case.oracle_args)})"
    if result:
        lines += [f"    real result = {call};", f"    total += {case.seed.hex()} * result;", "    if (say) SAY(result);"]
    else:
        lines.append(f"    {call};")
    for i, shadow in sorted(case.shadow.items()):
        lines += [f"    total += {float(weight).hex()} * b{i}[{k}];" for k, weight in enumerate(shadow) if weight]
    for i, arg in enumerate(case.args):
        if isinstance(arg, list):
            lines.append(f"    for (int k = 0; say && k < {len(arg)}; k++) SAY(b{i}[k]);")
    values = [case.args[i] if k is None else case.args[i][k] for i, k in places]
    lines += ["    return total;", "}", f"static real inputs_{number}[] = {{{', '.join(v.hex() for v in values)}}};"]
    return "\n".join(lines)


def oracle(cases):
    """For each case the numbers its C function prints: result, final buffers, gradient."""
    sources = "\n".join((HERE / path).read_text() for path in SOURCES)
    results = returns_real(sources)
    program = PRELUDE + "".join(f'#include "{HERE / path}"\n' for path in SOURCES) + RUN
    program += "\n".join(c_function(n, case, results[case.oracle]) for n, case in enumerate(cases))
    calls = [f"    run({len(list(differentiable(case)))}, inputs_{n}, loss_{n});" for n, case in enumerate(cases)]
    program += "\nint main(void) {\n" + "\n".join(calls) + "\n    return 0;\n}\n"
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "oracle.c")
        path.write_text(program)
        command = ["gcc", "-O1", "-w", "-o", f"{folder}/oracle", str(path), "-lquadmath", "-lm"]
        subprocess.run(command, check=True)
        lines = subprocess.run([f"{folder}/oracle"], check=True, capture_output=True, text=True).stdout.splitlines()
    return [([rounded(word) for word in line.split()], results[case.oracle]) for line, case in zip(lines, cases, strict=True)]


def rounded(word):
    """The nearest double; what is below the error of the differences is zero."""
    value = float(word)
    return value if abs(value) > 1e-22 else 0.0


def array(values):
    return f"[{', '.join(map(repr, values))}]"


def written(argument):
    """An argument as the call shows it."""
    if isinstance(argument, list):
        return ("f32" if isinstance(argument, F32) else "") + array(argument)
    return repr(argument)


def directive(case, numbers, result):
    """One `; grad:` line."""
    numbers = iter(numbers)
    take = lambda count: [next(numbers) for _ in range(count)]
    value = take(int(result))
    final = {i: take(len(arg)) for i, arg in enumerate(case.args) if isinstance(arg, list)}
    gradient = []
    for arg in case.args:
        if isinstance(arg, list):
            gradient.append(array(take(len(arg))))
        else:
            gradient.append(repr(next(numbers)) if isinstance(arg, float) else "null")
    assert next(numbers, None) is None
    text = f"; grad: %{case.function}({', '.join(map(written, case.args))})"
    if case.seed != 1.0:
        text += f" seed {case.seed!r}"
    for i, shadow in sorted(case.shadow.items()):
        text += f" shadow {i}={array(shadow + [0.0] * (len(case.args[i]) - len(shadow)))}"
    if case.single:
        text += " nofd"
    if result:
        text += f" value {array(value)}"
    if case.buffers and final:
        text += f" buffers [{', '.join(array(final[i]) if i in final else 'null' for i in range(len(case.args)))}]"
    return f"{text} == [{', '.join(gradient)}]"


def main():
    source, target = map(pathlib.Path, sys.argv[1:])
    answers = iter(oracle([case for _, cases in FILES.values() for case in cases]))
    for name, (origin, cases) in FILES.items():
        head = [f"; {part.strip()}" for part in origin.split(";")]
        head += [directive(case, *next(answers)) for case in cases]
        head += TRAPS.get(name.partition(".")[0], [])
        text = (source / f"{name}.clif").read_text()
        (target / f"{name}.clif").write_text("\n".join(head) + "\n\n" + text)


main()
