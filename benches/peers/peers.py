"""Other ways to the gradients of the problems: gcc with adjoints written by hand, Enzyme (PyPI: enzyme-ad), JAX (PyPI: jax).

usage: peers.py FOLDER        FOLDER holds NAME.x, NAME.g (doubles) and NAME.ip (64-bit integers) of each problem

Prints a JSON object: for each problem and peer the nanoseconds of a call, the least of many interleaved rounds. A peer that is not
installed is left out, and said so on stderr; so is one whose gradient is wrong. gcc is measured twice, with and without
-march=native, and the better counts. Enzyme is the one inside the enzyme-ad wheel, called without JAX in the way; its gradient
is the gradient alone, into zeroed memory, as is that of the adjoints written by hand. JAX includes its dispatch, in 64 bits.
"""

import array
import ctypes as C
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
CXX = os.environ.get("CXX", "g++")
ROUNDS, BATCH = 25, 2e-3


def say(*what):
    print(*what, file=sys.stderr, flush=True)


def base(name):
    """The function of a problem: sizes are in the data."""
    return name.rstrip("0123456789")


def numbers(path, kind):
    a = array.array(kind)
    a.frombytes(path.read_bytes())
    return a


def address(a):
    return a.buffer_info()[0]


class Gcc:
    def __init__(self, folder):
        self.libraries = []
        for flags in (["-O3"], ["-O3", "-march=native"]):
            out = folder / f"problems{len(self.libraries)}.so"
            command = [CXX, "-std=c++17", "-shared", "-fPIC", *flags, str(HERE / "problems.cpp"), "-o", str(out)]
            subprocess.run(command, check=True, stdout=sys.stderr)
            self.libraries.append(C.CDLL(str(out)))
        self.timer = self.libraries[0].time_calls
        self.timer.restype, self.timer.argtypes = C.c_double, [C.c_void_p] * 4 + [C.c_long]

    def functions(self, name):
        get = lambda library, prefix: C.cast(getattr(library, prefix + base(name)), C.c_void_p).value
        if not hasattr(self.libraries[0], "p_" + base(name)):
            return {}
        rows = {"gcc primal": "p_", "gcc by hand": "h_"}
        return {row: [get(library, prefix) for library in self.libraries] for row, prefix in rows.items()}


class Enzyme:
    """The compiler of the enzyme-ad wheel, which leaves addresses of functions in its output."""

    def __init__(self):
        import jax  # noqa: F401 (loads what the wheel is linked against)
        from enzyme_ad.jax import enzyme_call

        self.compiler = enzyme_call
        C.CDLL("libstdc++.so.6", C.RTLD_GLOBAL)
        pointer = C.pythonapi.PyCapsule_GetPointer
        pointer.restype, pointer.argtypes = C.c_void_p, [C.py_object, C.c_char_p]
        prototype = C.CFUNCTYPE(None, C.c_void_p, C.POINTER(C.c_void_p), C.c_void_p, C.c_size_t, C.c_void_p)
        self.call = prototype(pointer(enzyme_call.get_callback(), b"xla._CUSTOM_CALL_TARGET"))
        # The wheel has no headers of its own: those of a clang that is installed, or else gcc's.
        found = [sorted(pathlib.Path("/usr/lib").glob(p)) for p in ("llvm-*/lib/clang/*/include", "gcc/*/*/include")]
        headers = found[0] or found[1]
        self.flags = ["-I" + str(HERE), "-std=c++17", "-fgnuc-version=4.2.1", "-target-cpu", "x86-64-v3"]
        self.flags += [f for h in headers[-1:] for f in ("-isystem", str(h))]

    def functions(self, name, size):
        f = base(name)
        source = '#include "problems.cpp"\n'
        if f == "rot":
            source += """
                static void primal(const double *x, double *y) { value::rot(x, y); }
                ENTRY void ep(In x, Ints, Out y) { primal(x, y); }
                ENTRY void eg(In x, Ints, Out g) {
                    double y[3], yb[3];
                    memset(g, 0, 21 * sizeof(double));
                    for (int k = 0; k < 3; k++) {
                        yb[0] = yb[1] = yb[2] = 0, yb[k] = 1;
                        enzyme::__enzyme_autodiff<void>((void *)primal, enzyme_dup, x, g + 7 * k, enzyme_dupnoneed, y, yb);
                    }
                }"""
        else:
            source += f"""
                static double primal(const double *x, const Int *ip) {{ return value::{f}(x, ip); }}
                ENTRY void ep(In x, Ints ip, Out y) {{ y[0] = primal(x, ip); }}
                ENTRY void eg(In x, Ints ip, Out g) {{
                    memset(g, 0, {size} * sizeof(double));
                    enzyme::__enzyme_autodiff<void>((void *)primal, enzyme_dup, x, g, enzyme_const, ip);
                }}"""
        source += "\ntemplate <class T> void addresses(T &out) { out[0] = (int64_t)(void *)&ep; out[1] = (int64_t)(void *)&eg; }\n"
        c = self.compiler
        kernel, _ = c.create_enzyme_kernel(
            source, "addresses", [("int64_t", [2])], [], self.flags, c.ABI.Primal, c.Language.CPP, False, "", "cpu"
        )
        out = (C.c_int64 * 2)()
        arguments = (C.c_void_p * 1)(C.cast(C.pointer(C.c_int64(kernel)), C.c_void_p))
        self.call(C.cast(out, C.c_void_p), arguments, None, 0, None)
        return {"Enzyme primal": [out[0]], "Enzyme": [out[1]]}


def error(is_, want):
    """The largest, relative to the largest element."""
    scale = max((abs(w) for w in want), default=1.0) or 1.0
    return max((abs(a - b) for a, b in zip(is_, want)), default=0.0) / scale


def wrong(name, peer, is_, want):
    off = error(is_, want)
    # Chaotic trajectories forget their start: ten thousand steps cost six digits.
    if off < 1e-8:
        return False
    say(f"{name}: {peer} is off by {off:.1e} and left out")
    return True


def compiled(name, functions, timer, x, ip, want):
    """Nanoseconds of compiled functions, in turns."""
    out = array.array("d", [0.0] * max(len(want), 4))
    arguments = (address(x), address(ip), address(out))
    for peer in [p for p in functions if not p.endswith("primal")]:
        for f in functions[peer]:
            timer(f, *arguments, 1)
            if wrong(name, peer, out[: len(want)], want):
                del functions[peer]
                break
    flat = [(peer, f) for peer, fs in functions.items() for f in fs]
    calls = {f: max(1, min(2_000_000, int(BATCH / max(timer(f, *arguments, 1), 1e-9)))) for _, f in flat}
    best = {}
    for _ in range(ROUNDS):
        for peer, f in flat:
            best[peer] = min(best.get(peer, 1e99), timer(f, *arguments, calls[f]) * 1e9)
    return best


def in_jax(name, x, ip, want):
    import jax
    import jax_problems

    jax.config.update("jax_enable_x64", True)
    f = jax_problems.ALL.get(base(name))
    if f is None:
        return {}
    call, arguments = f(x, ip)
    result = jax.block_until_ready(call(*arguments))
    if wrong(name, "JAX", jax_problems.flat(result), want):
        return {}
    best = 1e99
    deadline = time.perf_counter() + 0.5
    while time.perf_counter() < deadline:
        start = time.perf_counter_ns()
        jax.block_until_ready(call(*arguments))
        best = min(best, time.perf_counter_ns() - start)
    return {"JAX": best}


def main():
    data = pathlib.Path(sys.argv[1])
    with tempfile.TemporaryDirectory(prefix="peers-") as folder:
        measure(data, pathlib.Path(folder))


def measure(data, folder):
    if shutil.which(CXX) is None:
        say(f"no {CXX}: no peers, since it compiles the clock as well")
        print("{}")
        return
    gcc = Gcc(folder)
    try:
        enzyme = Enzyme()
    except Exception as e:  # whatever an optional package throws
        say(f"no Enzyme: {e}")
        enzyme = None
    try:
        import jax  # noqa: F401

        has_jax = True
    except Exception as e:
        say(f"no JAX: {e}")
        has_jax = False
    results = {}
    for path in sorted(data.glob("*.x")):
        name = path.stem
        x, ip, want = numbers(path, "d"), numbers(path.with_suffix(".ip"), "q"), numbers(path.with_suffix(".g"), "d")
        functions = gcc.functions(name)
        if not functions:
            continue
        if enzyme:
            try:
                functions.update(enzyme.functions(name, len(x)))
            except Exception as e:
                say(f"{name}: no Enzyme: {str(e)[:200]}")
        results[name] = compiled(name, functions, gcc.timer, x, ip, want)
        if has_jax:
            results[name].update(in_jax(name, x, ip, want))
        say(f"{name}: " + ", ".join(f"{k} {v:.0f} ns" for k, v in results[name].items()))
    print(json.dumps(results, indent=1))


main()
