//! `brolga compile`: objects are linked into programs in C and in Rust, and their numbers compared
//! with closed forms. What needs a compiler that is not there is skipped, with a line that says so.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

use cranelift_object::object::{Object, ObjectSymbol, read};

use crate::folder::{Folder, close, numbers};

/// `f(x, n)`: x[i] becomes x[i]·a, and the sum of x[i]²·exp(a) is returned, by a helper. `g` is
/// straight-line code.
const TEXT: &str = "function %weight(f64) -> f64 system_v {
    fn0 = %exp(f64) -> f64 system_v
block0(v0: f64):
    v1 = call fn0(v0)
    return v1
}
function %count(i64) -> f64 system_v {
    gv0 = symbol %unit
block0(v0: i64):
    v1 = symbol_value.i64 gv0
    v2 = load.f64 v1
    v3 = fcvt_from_sint.f64 v0
    v4 = fmul v2, v3
    return v4
}
function %f(i64, i64, f64) -> f64, i32 system_v {
    fn0 = %weight(f64) -> f64 system_v
    fn1 = %count(i64) -> f64 system_v
block0(v0: i64, v1: i64, v2: f64):
    v3 = call fn1(v1)
    jump block1(v0, v1, v3)
block1(v4: i64, v5: i64, v6: f64):
    brif v5, block2, block3
block2:
    v7 = load.f64 v4
    v8 = call fn0(v2)
    v9 = fmul v7, v7
    v10 = fmul v9, v8
    v11 = fadd v6, v10
    v12 = fmul v7, v2
    store v12, v4
    v13 = iconst.i64 8
    v14 = iadd v4, v13
    v15 = iconst.i64 1
    v16 = isub v5, v15
    jump block1(v14, v16, v11)
block3:
    v17 = iconst.i32 -7
    return v6, v17
}
function %g(f64, f32) -> f64 system_v {
    fn0 = %weight(f64) -> f64 system_v
block0(v0: f64, v1: f32):
    v2 = fpromote.f64 v1
    v3 = call fn0(v0)
    v4 = fmul v3, v2
    return v4
}
; data: %unit = f64[0.5] readonly
; grad: %f([1.0, 2.0], 2, 0.5) == [_, _, _]
";

/// Calls everything twice, with shadows that are not zero, and prints numbers.
const MAIN: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "grad.h"

static void show(const double *x, int n) {
    for (int i = 0; i < n; i++) printf("%.17g ", x[i]);
}

int main(void) {
    for (int twice = 0; twice < 2; twice++) {
        int64_t bytes = 1;
        char *ws = malloc(bytes);
        struct f_gradient_results r;
        double x[3], s[3];
        int tries = 0;
        do {
            memcpy(x, (double[]){1.0, 2.0, -3.0}, sizeof x);
            memcpy(s, (double[]){0.25, -1.0, 2.0}, sizeof s);
            f_gradient(x, s, 3, 0.5, 2.0, ws, bytes, &r);
            if (r.status) ws = realloc(ws, bytes *= 2);
            tries++;
        } while (r.status);
        if (tries < 3) return 1;
        show(x, 3); show(s, 3);
        printf("%.17g %d %.17g ", r.value0, r.value1, r.cotangent2);

        memcpy(x, (double[]){1.0, 2.0, -3.0}, sizeof x);
        memcpy(s, (double[]){0.25, -1.0, 2.0}, sizeof s);
        struct f_forward_results v;
        f_forward(x, s, 3, 0.5, ws, bytes, &v);
        if (v.status) return 2;
        struct f_pullback_results ct;
        f_pullback(2.0, ws, &ct);
        show(s, 3);
        printf("%.17g ", ct.cotangent2);
        memcpy(s, (double[]){0.25, -1.0, 2.0}, sizeof s);
        f_pullback(1.0, ws, &ct);
        show(s, 3);
        printf("%.17g ", ct.cotangent2);

        memcpy(x, (double[]){1.0, 2.0, -3.0}, sizeof x);
        memcpy(s, (double[]){0.25, -1.0, 2.0}, sizeof s);
        struct f_tangent_results t;
        f_tangent(x, s, 3, 0.5, 1.5, &t);
        show(s, 3);
        printf("%.17g %d %.17g\n", t.value0, t.value1, t.value_tangent0);
        free(ws);
    }
    return 0;
}
"#;

/// What [`MAIN`] prints, by hand: L = seed·Σ x²·eᵃ + s·(x·a).
fn wanted() -> Vec<f64> {
    let (x, s, a) = ([1.0, 2.0, -3.0_f64], [0.25, -1.0, 2.0], 0.5_f64);
    let squares: f64 = x.iter().map(|x| x * x).sum();
    let value = 1.5 + squares * a.exp();
    let pulled = |seed: f64| -> Vec<f64> {
        let shadow = x.iter().zip(s).map(|(x, s)| 2.0 * seed * x * a.exp() + s * a);
        let slope = seed * squares * a.exp() + x.iter().zip(s).map(|(x, s)| x * s).sum::<f64>();
        shadow.chain([slope]).collect()
    };
    let (two, one) = (pulled(2.0), pulled(1.0));
    let scaled = x.map(|x| x * a);
    let gradient = [&scaled[..], &two[..3], &[value, -7.0, two[3]]].concat();
    let along: f64 = x.iter().zip(s).map(|(x, s)| 2.0 * x * s).sum();
    let tangent: Vec<f64> = x.iter().zip(s).map(|(x, s)| s * a + x * 1.5).collect();
    let tangent = [&tangent[..], &[value, -7.0, (along + squares * 1.5) * a.exp()]].concat();
    [gradient, two, one, tangent].concat()
}

const ALL: [&str; 2] = ["--mode", "gradient,split,forward"];

#[test]
fn a_program_in_c() {
    let folder = Folder::new("c");
    folder.write("f.clif", TEXT);
    folder.write("main.c", MAIN);
    let args = ["-f", "%f", "-o", "grad.o", "--header", "grad.h"];
    for (flag, ways) in [("--pic", &["-pie", "-shared"][..]), ("--no-pic", &["-no-pie"])] {
        folder.compile("f.clif", &[&args[..], &ALL, &[flag]].concat()).expect(0);
        for way in ways {
            let built = match *way {
                "-shared" => {
                    folder.build("cc", &["-shared", "-Wl,-z,text", "grad.o", "-lm", "-o", "libgrad.so"])
                        && folder.build(
                            "cc",
                            &["-Wall", "-Wextra", "-Werror", "main.c", "-L.", "-lgrad", "-lm", "-o", "main"],
                        )
                }
                way => {
                    folder.build("cc", &["-Wall", "-Wextra", "-Werror", way, "main.c", "grad.o", "-lm", "-o", "main"])
                }
            };
            if built {
                let found = numbers(&folder.run("main"));
                close(&found[..found.len() / 2], &wanted());
                close(&found[found.len() / 2..], &wanted());
            }
        }
    }
    folder.build("cc", &["-std=c99", "-pedantic", "-Wall", "-Werror", "-fsyntax-only", "-x", "c", "grad.h"]);
    folder.write("main.cpp", "#include \"grad.h\"\nint main() { return sizeof(f_gradient_results) == 0; }\n");
    folder.build("c++", &["-Wall", "-Werror", "-fsyntax-only", "main.cpp"]);
}

#[test]
fn a_program_in_rust() {
    let folder = Folder::new("rust");
    folder.write("f.clif", TEXT);
    let args = ["-f", "f", "-f", "g", "--name", "sums", "--name", "g", "-o", "grad.o", "--rust", "grad.rs"];
    folder
        .compile("f.clif", &[&args[..], &["--mode", "gradient", "--with-primal"]].concat())
        .expect(2)
        .says("2 results");
    folder.compile("f.clif", &args).expect(0);
    let main = "mod grad;\nfn main() {\n    let (mut x, mut s) = ([1.0, 2.0, -3.0], [0.25, -1.0, 2.0]);\n    \
        let mut space = vec![0_u8; 1 << 16];\n    let mut r = grad::SumsGradientResults { value0: 0.0, value1: 0, \
        cotangent2: 0.0, status: 9 };\n    let mut g = grad::GGradientResults { value0: 0.0, cotangent0: 0.0, \
        cotangent1: 0.0 };\n    unsafe {\n        grad::sums_gradient(x.as_mut_ptr(), s.as_mut_ptr(), 3, 0.5, 2.0, \
        space.as_mut_ptr().cast(), 1 << 16, &mut r);\n        grad::g_gradient(0.5, 3.0, 2.0, &mut g);\n    }\n    \
        println!(\"{} {} {} {} {} {} {} {} {} {}\", x[0], x[1], x[2], s[0], s[1], s[2], r.value0, r.value1, \
        r.cotangent2, r.status);\n    println!(\"{} {} {}\", g.value0, g.cotangent0, g.cotangent1);\n}\n";
    folder.write("main.rs", main);
    if folder.build("rustc", &["--edition", "2024", "-D", "warnings", "main.rs", "-C", "link-arg=grad.o"]) {
        let e = 0.5_f64.exp();
        let g = [3.0 * e, 6.0 * e, f64::from((2.0 * e) as f32)];
        let mut found = numbers(&folder.run("main"));
        // It is printed with the digits of a float.
        let last = found.pop().map(|x| f64::from(x as f32));
        found.extend(last);
        close(&found, &[&wanted()[..9], &[0.0], &g].concat());
    }
}

/// `f(x, y, n)` adds x² to y[0], and to y[1].
const ADDS: &str = "function %f(f64, i64, i64) system_v {
block0(v0: f64, v1: i64, v2: i64):
    v3 = fmul v0, v0
    v4 = load.f64 v1
    v5 = fadd v4, v3
    store v5, v1
    v6 = load.f64 v1+8
    v7 = fadd v6, v3
    store v7, v1+8
    return
}
; grad: %f(1.5, [1.0, 2.0], 1) seed [3.0, 5.0]
";

#[test]
fn an_output_is_consumed() {
    let folder = Folder::new("consumed");
    folder.write("f.clif", ADDS);
    let main = "#include <stdio.h>\n#include \"grad.h\"\nint main(void) {\n    double y[] = {1, 2}, s[] = {3, 5}, \
        t[] = {3, 5};\n    char ws[F_FORWARD_WORKSPACE_BYTES];\n    double a = f_gradient(1.5, y, s, 1);\n    \
        struct f_forward_results v;\n    f_forward(1.5, y, t, 1, ws, sizeof ws, &v);\n    struct f_pullback_results r;\n    f_pullback(ws, &r);\n    \
        printf(\"%g %g %g %g %g %g %g\\n\", a, s[0], s[1], r.cotangent0, t[0], t[1], y[0]);\n}\n";
    folder.write("main.c", main);
    let args = ["-f", "%f", "-o", "grad.o", "--header", "grad.h", "--mode", "gradient,split,forward"];
    let slope = 2.0 * 1.5 * 8.0;
    for (output, says, left) in [
        (&[][..], "where it only adds to a place the seed stays", [3.0, 5.0]),
        (&["--consumed", "1=f64*2"], "leaves zeros in the first 2 doubles, which it CONSUMES", [0.0, 0.0]),
        (&["--consumed", "1=f64*p2"], "leaves zeros in the first p2 doubles", [0.0, 5.0]),
    ] {
        folder.compile("f.clif", &[&args[..], output].concat()).expect(0);
        let header = std::fs::read_to_string(folder.0.join("grad.h")).expect("it was written");
        let text = header.split_whitespace().filter(|w| *w != "*").collect::<Vec<_>>().join(" ");
        assert!(text.contains(says), "{header}");
        if folder.build("cc", &["-Wall", "-Wextra", "-Werror", "main.c", "grad.o", "-o", "main"]) {
            let want = [slope, left[0], left[1], slope, left[0], left[1], 1.0 + 2.0 * 2.25];
            close(&numbers(&folder.run("main")), &want);
        }
    }
    for wrong in ["1=f64", "1=i64*2", "9=f64*1", "1=f64*p9", "1=f64*-1", "f64*2"] {
        folder.compile("f.clif", &[&args[..], &["--consumed", wrong]].concat()).expect(2).says("is no output");
    }
    folder.compile("f.clif", &[&args[..], &["--consumed", "0=f64*1"]].concat()).expect(1).says("AD0010");
}

/// Names that an object asks for, and those that it gives.
fn symbols(object: &Path) -> (BTreeSet<String>, BTreeSet<String>) {
    let bytes = std::fs::read(object).expect("it was written");
    let file = read::elf::ElfFile64::<cranelift_object::object::Endianness>::parse(&bytes[..]).expect("it is ELF");
    let names = |undefined: bool| {
        let symbols = file.symbols().filter(|s| s.is_undefined() == undefined && s.is_global());
        symbols.map(|s| s.name().expect("it has a name").to_owned()).filter(|n| !n.is_empty()).collect()
    };
    (names(true), names(false))
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|n| (*n).to_owned()).collect()
}

#[test]
fn what_an_object_names() {
    let folder = Folder::new("names");
    folder.write("f.clif", TEXT);
    let args = ["-f", "%f", "-f", "%g", "-o", "grad.o"];
    folder.compile("f.clif", &[&args[..], &ALL].concat()).expect(0);
    let (undefined, defined) = symbols(&folder.0.join("grad.o"));
    let c = ["exp", "memcpy", "memmove", "memset"];
    assert!(undefined.iter().all(|n| c.contains(&n.as_str())), "{undefined:?}");
    let endings = ["forward", "gradient", "pullback", "tangent"];
    let names: Vec<String> = ["f", "g"].iter().flat_map(|f| endings.map(|e| format!("{f}_{e}"))).collect();
    assert_eq!(defined, names.into_iter().collect());

    folder
        .compile("f.clif", &["-f", "%g", "-o", "grad.o", "--with-primal", "--name", "h", "--header", "grad.h"])
        .expect(0);
    assert_eq!(symbols(&folder.0.join("grad.o")).1, set(&["h", "h_gradient"]));
    // Of a pointer to a function that is not known here, no name is asked for: the call traps.
    let pointer = "function %through(i64, f64) -> f64 system_v {\n    sig0 = (f64) -> f64 system_v\n\
        block0(v0: i64, v1: f64):\n    v2 = call_indirect sig0, v0(v1)\n    return v2\n}\n";
    folder.write("pointer.clif", pointer);
    folder.compile("pointer.clif", &[&["-o", "grad.o", "--activity", "const,active"][..], &ALL].concat()).expect(0);
    let (undefined, _) = symbols(&folder.0.join("grad.o"));
    assert!(undefined.iter().all(|n| c.contains(&n.as_str())), "{undefined:?}");
    // A large frame touches its pages by itself.
    let large = TEXT
        .replace(
            "block0(v0: f64, v1: f32):",
            "    ss0 = explicit_slot 100000\nblock0(v0: f64, v1: f32):\n    \
        v9 = stack_addr.i64 ss0\n    store v0, v9",
        )
        .replace("v3 = call fn0(v0)", "v8 = load.f64 v9\n    v3 = call fn0(v8)");
    folder.write("large.clif", &large);
    folder.compile("large.clif", &["-f", "%g", "-o", "grad.o", "--set", "opt_level=none"]).expect(0);
    assert_eq!(symbols(&folder.0.join("grad.o")).0, set(&["exp", "memset"]));
}

#[test]
fn headers_say_what_is_promised() {
    let folder = Folder::new("headers");
    folder.write("f.clif", TEXT);
    let shown = folder.compile("f.clif", &["-f", "f", "--noalias", "0", "--header", "-"]).expect(0).stdout;
    for says in [
        "#ifndef DERIVATIVES_H",
        "double *BROLGA_RESTRICT p0",
        "double *BROLGA_RESTRICT shadow0",
        "are ADDED",
        "zeros are left",
        "status",
        "Cranelift 0.",
        "defines exp",
    ] {
        assert!(shown.contains(says), "{says} is not in\n{shown}");
    }
    let shown = folder.compile("f.clif", &["-f", "g", "--mode", "split", "--header", "-"]).expect(0).stdout;
    assert!(shown.contains("#define G_FORWARD_WORKSPACE_BYTES ") && !shown.contains("RESTRICT"), "{shown}");
    let shown = folder
        .compile("f.clif", &["-f", "g", "--activity", "active,const", "--results", "active-only", "--header", "-"]);
    assert!(shown.expect(0).stdout.contains("\ndouble g_gradient(double p0, float p1, double seed0);\n"));
    let args = ["-f", "g", "--activity", "active,const", "--results", "active-only", "--in-struct", "--header", "-"];
    assert!(folder.compile("f.clif", &args).expect(0).stdout.contains("void g_gradient("));
}

#[test]
fn data_has_a_shadow_that_is_seen() {
    let folder = Folder::new("data");
    folder.write("f.clif", &TEXT.replace(" readonly", ""));
    folder.compile("f.clif", &["-f", "%count", "-o", "grad.o", "--header", "grad.h"]).expect(0);
    assert_eq!(symbols(&folder.0.join("grad.o")).1, set(&["count_gradient", "unit", "unit_shadow"]));
    folder.write(
        "main.c",
        "#include <stdio.h>\n#include \"grad.h\"\nint main(void) {\n    double *s = (double *)unit_shadow;\n    \
         double v = 0;\n    *s = 10;\n    for (int i = 0; i < 2; i++) v = count_gradient(4, 3.0);\n    \
         printf(\"%g %g\\n\", v, *s);\n}\n",
    );
    if folder.build("cc", &["-Wall", "-Werror", "main.c", "grad.o", "-lm", "-o", "main"]) {
        close(&numbers(&folder.run("main")), &[2.0, 34.0]);
    }
}

/// A function that allocates, in two halves: blocks are freed by a third function.
#[test]
fn blocks_of_a_record_are_released() {
    let folder = Folder::new("released");
    folder.write(
        "f.clif",
        "function %heap(f64) -> f64 system_v {\n    fn0 = %malloc(i64) -> i64 system_v\n    \
         fn1 = %free(i64) system_v\nblock0(v0: f64):\n    v1 = iconst.i64 8\n    v2 = call fn0(v1)\n    \
         store v0, v2\n    v3 = load.f64 v2\n    v4 = fmul v3, v3\n    call fn1(v2)\n    return v4\n}\n",
    );
    folder.compile("f.clif", &["-f", "heap", "--mode", "split", "-o", "grad.o", "--header", "grad.h"]).expect(0);
    let header = std::fs::read_to_string(folder.0.join("grad.h")).expect("it is written");
    assert!(header.contains("void heap_release(") && header.contains("Frees the blocks of the heap"), "{header}");
    folder.write(
        "main.c",
        "#include <malloc.h>\n#include <stdio.h>\n#include \"grad.h\"\n\nint main(void) {\n    \
         static char space[HEAP_FORWARD_WORKSPACE_BYTES];\n    struct heap_forward_results v;\n    \
         struct heap_pullback_results ct[2];\n    size_t before = 0;\n    \
         for (int i = 0; i < 40; i++) {\n        \
         if (i == 20) before = mallinfo2().uordblks;\n        heap_forward(3.0, space, sizeof space, &v);\n        \
         heap_pullback(1.0, space, &ct[0]);\n        heap_pullback(2.0, space, &ct[1]);\n        \
         heap_release(space);\n    }\n    \
         printf(\"%g %g %g %d\\n\", v.value0, ct[0].cotangent0, ct[1].cotangent0, \
         (int)(mallinfo2().uordblks - before));\n}\n",
    );
    if folder.build("cc", &["-Wall", "-Werror", "main.c", "grad.o", "-lm", "-o", "main"]) {
        close(&numbers(&folder.run("main")), &[9.0, 6.0, 12.0, 0.0]);
    }
}

/// A float whose halves are stored as integers, and read as a float by C.
#[test]
fn floats_in_halves() {
    let folder = Folder::new("halves");
    folder.write(
        "f.clif",
        "function %halves(f64, i64) system_v {\nblock0(v0: f64, v1: i64):\n    v2 = fmul v0, v0\n    \
         v3 = bitcast.i64 v2\n    v4 = ireduce.i32 v3\n    v5 = iconst.i64 32\n    v6 = ushr v3, v5\n    \
         v7 = ireduce.i32 v6\n    store v4, v1\n    store v7, v1+4\n    return\n}\n",
    );
    folder.compile("f.clif", &["-f", "halves", "-o", "grad.o", "--header", "grad.h"]).expect(0);
    folder.write(
        "main.c",
        "#include <stdio.h>\n#include \"grad.h\"\n\nint main(void) {\n    static char space[4096];\n    \
         double out = 0, seed, sum = 0;\n    struct halves_gradient_results r;\n    \
         for (int i = 1; i < 3; i++) {\n        seed = i;\n        \
         halves_gradient(1.5, &out, &seed, space, sizeof space, &r);\n        sum += r.cotangent0;\n    }\n    \
         printf(\"%g %g %g %d\\n\", out, sum, seed, (int)r.status);\n}\n",
    );
    if folder.build("cc", &["-Wall", "-Werror", "main.c", "grad.o", "-lm", "-o", "main"]) {
        close(&numbers(&folder.run("main")), &[2.25, 9.0, 0.0, 0.0]);
    }
}

/// A workspace that the program makes longer, after which it has room; and memory that is as it
/// was before.
#[test]
fn a_workspace_grows_and_memory_is_restored() {
    let folder = Folder::new("growing");
    folder.write("f.clif", TEXT);
    let args = ["-f", "%f", "-o", "grad.o", "--header", "grad.h", "--rust", "grad.rs"];
    folder.compile("f.clif", &[&args[..], &["--growing", "--memory", "restore"]].concat()).expect(0);
    folder.write(
        "main.c",
        "#include <stdio.h>\n#include \"grad.h\"\n\nstruct room { int64_t most; int calls; };\n\n\
         static int64_t more(void *context, int64_t bytes) {\n    struct room *room = context;\n    \
         room->calls++;\n    return bytes < room->most ? bytes : room->most;\n}\n\n\
         int main(void) {\n    static char space[1 << 16];\n    \
         for (int most = 1 << 16; most > 0; most -= (1 << 16) - 300) {\n        \
         struct room room = {most, 0};\n        double x[] = {1.0, 2.0, -3.0}, s[] = {0.25, -1.0, 2.0};\n        \
         struct f_gradient_results r;\n        \
         f_gradient(x, s, 3, 0.5, 2.0, space, 272, more, &room, &r);\n        \
         if (room.calls == 0) return 1;\n        \
         printf(\"%d \", (int)r.status);\n        \
         if (!r.status) printf(\"%.17g %.17g %.17g %.17g %.17g %.17g %.17g \", x[0], x[1], x[2], s[0], s[1], s[2], \
         r.cotangent2);\n    }\n    return 0;\n}\n",
    );
    if folder.build("cc", &["-Wall", "-Wextra", "-Werror", "main.c", "grad.o", "-lm", "-o", "main"]) {
        let want = [&[0.0, 1.0, 2.0, -3.0], &wanted()[3..6], &wanted()[8..9], &[1.0]].concat();
        close(&numbers(&folder.run("main")), &want);
    }
    folder.write("main.rs", "#![allow(dead_code)]\nmod grad;\nfn main() {}\n");
    folder.build("rustc", &["--edition", "2024", "-D", "warnings", "main.rs", "-C", "link-arg=grad.o"]);
}

/// A double that is copied in halves.
const HALVES: &str = "function %halves(i64, i64) system_v {
block0(v0: i64, v1: i64):
    v2 = load.i32 v0
    v3 = load.i32 v0+4
    store v2, v1
    store v3, v1+4
    return
}
";

const HALVES_MAIN: &str = "#include <stdio.h>
#include \"halves.h\"

int main(void) {
    double x = 1.5, dx = 0.3, y = 7.0, dy = 9.0;
    static char workspace[4096];
    if (halves_tangent(&x, &dx, &y, &dy, workspace, 300) != 1) return 1;
    if (halves_tangent(&x, &dx, &y, &dy, workspace, sizeof workspace) != 0) return 2;
    if (x != 1.5 || dx != 0.3 || y != 1.5 || dy != 0.3) return 3;
    printf(\"ok\\n\");
    return 0;
}
";

#[test]
fn tangents_of_halves() {
    let folder = Folder::new("in_pieces");
    folder.write("halves.clif", HALVES);
    folder.write("main.c", HALVES_MAIN);
    let args = ["--activity", "duplicated,duplicated", "--mode", "forward", "-o", "halves.o"];
    folder.compile("halves.clif", &[&args[..], &["--header", "halves.h"]].concat()).expect(0);
    if folder.build("cc", &["main.c", "halves.o", "-lm", "-o", "main"]) {
        assert_eq!(folder.run("main"), "ok\n");
    }
}

#[test]
fn what_is_refused() {
    let folder = Folder::new("refused");
    let more = "function %g_gradient() system_v {\nblock0:\n    return\n}\n";
    folder.write("f.clif", &format!("{TEXT}{more}"));
    let wrong = |args: &[&str], status: i32, says: &str| {
        let run = folder.compile("f.clif", &[args, &["-o", "never.o"]].concat());
        run.expect(status).says(says);
        assert!(!folder.0.join("never.o").exists());
    };
    wrong(&["-f", "nothing"], 2, "not defined");
    wrong(&["-f", "g"], 2, "two things");
    wrong(&["-f", "f", "-f", "f"], 2, "two things");
    wrong(&["-f", "g", "--name", "a b"], 2, "no name in C");
    wrong(&["-f", "f", "--name", "a", "--name", "b"], 2, "2 times for 1");
    wrong(&["-f", "f", "--noalias", "3"], 2, "no argument");
    wrong(&["-f", "f", "--noalias", "2"], 2, "is no pointer");
    wrong(&["-f", "f", "--no-need", "2"], 2, "not duplicated");
    wrong(&["-f", "f", "--header", "never.o"], 2, "named twice");
    wrong(&["-f", "f", "--header", "f.clif"], 2, "named twice");
    wrong(&["-f", "f", "--results", "active"], 2, "has 2 results");
    wrong(&["-f", "f", "--results", "active,dual"], 2, "no activity");
    wrong(&["-f", "f", "--activity", "active,const,active"], 1, "AD0");
    wrong(&["-f", "f", "--set", "is_fast=true"], 2, "no flag `is_fast`");
    wrong(&["-f", "f", "--set", "opt_level=most"], 2, "opt_level=most");
    wrong(&["-f", "f", "--target", "here"], 2, "no target");
    wrong(&["-f", "f", "--target", "i686-unknown-linux-gnu"], 2, "64");
    if cfg!(not(feature = "all-arch")) {
        wrong(&["-f", "f", "--target", "s390x-unknown-linux-gnu"], 2, "all-arch");
    }
    folder.compile("f.clif", &["-f", "f"]).expect(2);
    folder.write(
        "m.wat",
        "(module (memory 1) (func (export \"f\") (param f64) (result f64) \
        (drop (memory.grow (i32.const 1))) (local.get 0)))",
    );
    wrong_module(&folder, &["-f", "f"], 1, "the host of the module");
    if cfg!(feature = "all-arch") {
        wrong_module(&folder, &["-f", "f", "--target", "s390x-unknown-linux-gnu"], 2, "big-endian");
    }
}

fn wrong_module(folder: &Folder, args: &[&str], status: i32, says: &str) {
    folder.compile("m.wat", &[args, &["-o", "never.o"]].concat()).expect(status).says(says);
}

/// f(x, a) = m[x]²·m[16]·a, by a function that keeps the square on the stack that it has in memory.
const MODULE: &str = r#"(module (memory 1) (data (i32.const 16) "\00\00\00\00\00\00\08\40")
    (global $sp (mut i32) (i32.const 4096))
    (func $square (param $x f64) (result f64) (local $r f64)
        (global.set $sp (i32.sub (global.get $sp) (i32.const 16)))
        (f64.store (global.get $sp) (f64.mul (local.get $x) (local.get $x)))
        (local.set $r (f64.load (global.get $sp)))
        (global.set $sp (i32.add (global.get $sp) (i32.const 16)))
        (local.get $r))
    (func (export "f") (param $x i32) (param $a f64) (result f64)
        (f64.mul (f64.mul (call $square (f64.load (local.get $x))) (f64.load (i32.const 16))) (local.get $a))))"#;

#[test]
fn a_module_has_its_instance_as_an_argument() {
    let folder = Folder::new("module");
    folder.write("small.wat", MODULE);
    let args = ["-f", "f", "-o", "grad.o", "--header", "grad.h", "--rust", "grad.rs"];
    folder.compile("small.wat", &args).expect(0);
    folder.write(
        "main.c",
        r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "grad.h"

int main(void) {
    char *block = calloc(1, SMALL_INSTANCE_BYTES), *other = calloc(1, SMALL_INSTANCE_BYTES);
    memcpy(block, small_image, sizeof small_image);
    char *instance = block + SMALL_INSTANCE_POINTER, *shadow = other + SMALL_INSTANCE_POINTER;
    double *x = (double *)(instance + 800), *s = (double *)(shadow + 800);
    *x = 1.5;
    *s = 0.25;
    for (int i = 0; i < 2; i++) {
        struct f_gradient_results r;
        f_gradient(instance, shadow, 800, 2.0, 10.0, &r);
        printf("%.17g %.17g %.17g %.17g\n", r.value0, *s, *(double *)(shadow + 16), r.cotangent1);
    }
}
"#,
    );
    if folder.build("cc", &["-Wall", "-Werror", "main.c", "grad.o", "-lm", "-o", "main"]) {
        let wanted = [13.5, 180.25, 45.0, 67.5, 13.5, 360.25, 90.0, 67.5];
        close(&numbers(&folder.run("main")), &wanted);
    }
    folder.write("main.rs", "mod grad;\nfn main() { println!(\"{}\", grad::SMALL_INSTANCE_BYTES); }\n");
    folder.build("rustc", &["--edition", "2024", "-A", "dead_code", "main.rs", "-C", "link-arg=grad.o", "-o", "rust"]);
}

/// docs/OBJECTS.md: its command, its program in C, and what that prints.
#[test]
fn the_walk_through() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/OBJECTS.md")).expect("the page is there");
    let block = |kind: &str| {
        let start = page.split_once(&format!("```{kind}\n")).expect("the page has a block").1;
        start.split_once("```\n").expect("a block ends").0
    };
    let folder = Folder::new("page");
    folder.write("decay.clif", &std::fs::read_to_string(root.join("docs/objects/decay.clif")).expect("it is there"));
    let mut commands = block("sh").lines();
    let first: Vec<&str> = commands.next().expect("there are two").split_whitespace().collect();
    assert_eq!(first[..3], ["brolga", "compile", "docs/objects/decay.clif"]);
    folder.compile("decay.clif", &first[3..]).expect(0);
    folder.write("fit.c", block("c"));
    let second: Vec<&str> = commands.next().expect("there are two").split_whitespace().collect();
    if folder.build(second[0], &second[1..]) {
        assert_eq!(folder.run("fit"), block("text"));
    }
}

/// Objects for other machines, run by qemu's user mode where it and compilers are installed.
#[cfg(feature = "all-arch")]
#[test]
fn other_machines() {
    let folder = Folder::new("machines");
    folder.write("f.clif", TEXT);
    folder.write("main.c", MAIN);
    for machine in ["aarch64", "riscv64", "s390x"] {
        let target = match machine {
            "riscv64" => "riscv64gc-unknown-linux-gnu".to_owned(),
            machine => format!("{machine}-unknown-linux-gnu"),
        };
        let mut args = vec!["-f", "%f", "-o", "grad.o", "--header", "grad.h", "--target", &target];
        let mut cpu = vec![];
        if machine == "riscv64" {
            folder.compile("f.clif", &args).expect(2).says("has_v");
            args.extend(["--set", "has_v=true"]);
            cpu.extend(["-cpu", "rv64,v=true,vext_spec=v1.0,vlen=128"]);
        }
        if machine == "s390x" {
            folder.compile("f.clif", &args).expect(1).says("big-endian");
            let load = "    v1 = symbol_value.i64 gv0\n    v2 = load.f64 v1\n";
            assert!(TEXT.contains(load));
            let text = TEXT.replace(load, "    v2 = f64const 0x1.0p-1\n").replace("    gv0 = symbol %unit\n", "");
            folder.write("f.clif", &text.replace("; data: %unit = f64[0.5] readonly\n", ""));
        }
        folder.compile("f.clif", &[&args[..], &ALL].concat()).expect(0);
        let compiler = format!("{machine}-linux-gnu-gcc");
        if !folder.build(&compiler, &["-static", "main.c", "grad.o", "-lm", "-o", "main"]) {
            continue;
        }
        match Command::new(format!("qemu-{machine}")).args(&cpu).arg(folder.0.join("main")).output() {
            Ok(output) => {
                assert!(output.status.success(), "{machine}: {output:?}");
                let found = numbers(&String::from_utf8(output.stdout).expect("it prints text"));
                close(&found[..found.len() / 2], &wanted());
                close(&found[found.len() / 2..], &wanted());
            }
            Err(_) => println!("skipped: there is no `qemu-{machine}`"),
        }
    }
}

/// A function that looks at a word of its argument, whichever half that is: x² or x³.
#[cfg(feature = "all-arch")]
const WORD: &str = "; grad: %w(-3.3) nofd == [-6.6]
function %w(f64) -> f64 system_v {
    ss0 = explicit_slot 16
block0(v0: f64):
    v1 = stack_addr.i64 ss0
    store v0, v1+8
    v2 = load.i32 v1+8
    v3 = iconst.i32 0
    v4 = icmp slt v2, v3
    v5 = fmul v0, v0
    v6 = fmul v5, v0
    v7 = select v4, v5, v6
    return v7
}
";

#[cfg(feature = "all-arch")]
const WORD_MAIN: &str = "#include <stdio.h>
#include <stdint.h>
#include <string.h>
#include \"word.h\"

int main(void) {
    for (double x = -5.3; x < 5.0; x += 0.7) {
        int32_t word;
        memcpy(&word, &x, 4);
        double want = word < 0 ? 2 * x : 3 * x * x, value = word < 0 ? x * x : x * x * x;
        struct w_gradient_results r;
        w_gradient(x, 1.0, &r);
        double off = r.cotangent0 - want;
        if (r.value0 != value || off > 1e-12 || off < -1e-12) return 1;
    }
    printf(\"ok\\n\");
    return 0;
}
";

/// Parts of floats in memory lie as the target has them. What moves them in pieces is refused where
/// the first byte is not the lowest.
#[cfg(feature = "all-arch")]
#[test]
fn words_on_other_machines() {
    let folder = Folder::new("words");
    folder.write("word.clif", WORD);
    folder.write("word.c", WORD_MAIN);
    for machine in ["aarch64", "s390x"] {
        let target = format!("{machine}-unknown-linux-gnu");
        folder.compile("word.clif", &["-o", "word.o", "--header", "word.h", "--target", &target]).expect(0);
        let compiler = format!("{machine}-linux-gnu-gcc");
        if !folder.build(&compiler, &["-static", "word.c", "word.o", "-o", "word"]) {
            continue;
        }
        match Command::new(format!("qemu-{machine}")).arg(folder.0.join("word")).output() {
            Ok(output) => assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{machine}: {output:?}"),
            Err(_) => println!("skipped: there is no `qemu-{machine}`"),
        }
    }
    folder.write("halves.clif", HALVES);
    for mode in ["gradient", "split", "forward"] {
        let args = ["--activity", "duplicated,duplicated", "--mode", mode, "-o", "halves.o", "--target"];
        folder.compile("halves.clif", &[&args[..], &["aarch64-unknown-linux-gnu"]].concat()).expect(0);
        let told = folder.compile("halves.clif", &[&args[..], &["s390x-unknown-linux-gnu"]].concat());
        told.expect(1).says("AD0174").says("this target");
    }
}

/// The example `mpi`: a gradient per process, and gradients through messages. The programs compare
/// what they find with formulas.
#[test]
fn several_processes() {
    let folder = Folder::new("mpi");
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/mpi");
    for file in ["through.clif", "mpi.rules", "mpi.c", "through.c", "fit.c"] {
        folder.write(file, &std::fs::read_to_string(format!("{example}/{file}")).expect("it is there"));
    }
    folder.write("decay.clif", include_str!("../../../docs/objects/decay.clif"));
    let rules = folder.0.join("mpi.rules");
    let activities =
        ["--func", "%ring", "--activity", "duplicated,const", "--activity", "duplicated,const,const,const"];
    let through = ["--func", "%agree", "--rules", rules.to_str().expect("a plain path")];
    let to = ["-o", "through.o", "--header", "through.h"];
    folder.compile("through.clif", &[&through[..], &activities, &to].concat()).expect(0);
    folder.compile("decay.clif", &["--func", "%loss", "-o", "fit.o", "--header", "fit.h"]).expect(0);
    // Without a rule, nothing is known of what they call.
    let told = folder.compile("through.clif", &["--func", "%agree", "--activity", "duplicated,const", "-o", "no.o"]);
    told.expect(1).says("AD0150");
    if !folder.build("mpicc", &["through.c", "mpi.c", "through.o", "-lm", "-o", "through"]) {
        return;
    }
    folder.build("mpicc", &["fit.c", "fit.o", "-lm", "-o", "fit"]);
    for n in ["1", "2", "3"] {
        for (program, says) in [("through", "largest difference 0"), ("fit", "loss 0.000000 at 3.0000, 0.7500")] {
            let mut mpirun = Command::new("mpirun");
            mpirun.args(["-n", n]).arg(folder.0.join(program)).current_dir(&folder.0);
            // More processes than processors, and as root where that is who runs the tests.
            mpirun.env("OMPI_ALLOW_RUN_AS_ROOT", "1").env("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1");
            let Ok(output) = mpirun.env("OMPI_MCA_rmaps_base_oversubscribe", "1").output() else {
                println!("skipped: there is no `mpirun`");
                return;
            };
            let text = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success() && text.contains(says), "{program}: {output:?}");
        }
    }
}

/// Reversible functions: more results between their parts than registers hold, and numbers on a
/// grid. The gradient of q + x·x, whose square is rounded to the grid, is that of the square.
#[test]
fn reversible_functions_are_linked() {
    let folder = Folder::new("reversible");
    folder.write(
        "f.rev",
        "fn turn(a: i64, b: i64, c: i64, k: in i64) {
            a += b * k
            c ^= a
            swap a, b
        }
        fn square(q: q43, x: in f64) {
            q += x * x
        }",
    );
    for mode in ["gradient", "split", "forward"] {
        let args = ["-f", "%turn", "--mode", mode, "--with-primal", "-o", "turn.o"];
        folder.compile("f.rev", &args).expect(0);
    }
    folder.compile("f.rev", &["-f", "%turn", "--with-primal", "-o", "turn.o", "--header", "turn.h"]).expect(0);
    let args = ["-f", "%square", "--with-primal", "--in-struct", "-o", "square.o", "--header", "square.h"];
    folder.compile("f.rev", &args).expect(0);
    folder.write(
        "main.c",
        "#include <stdio.h>
        #include <stdint.h>
        #include \"turn.h\"
        #include \"square.h\"
        int main(void) {
            int64_t a = 5, b = 7, c = 1;
            double q = 0.5, dq = 2.0, x = 1.5, dx = 0.25;
            turn(&a, &b, &c, 3);
            printf(\"%d %d %d\\n\", (int)a, (int)b, (int)c);
            square(&q, &x);
            printf(\"%.17g\\n\", q);
            square_gradient(&q, &dq, &x, &dx);
            printf(\"%.17g %.17g\\n\", dq, dx);
            return 0;
        }",
    );
    if folder.build("cc", &["main.c", "turn.o", "square.o", "-lm", "-o", "main"]) {
        close(&numbers(&folder.run("main")), &[7.0, 26.0, 27.0, 2.75, 2.0, 0.25 + 2.0 * 3.0]);
    }
}
