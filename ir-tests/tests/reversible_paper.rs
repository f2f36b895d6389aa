//! Numbers of the paper's benchmarks, known from elsewhere; what going back costs in bytes, and how
//! far a state drifts; a million states that are gone back to; and what a failed check leaves.
//!
//! Seen to fail: a failed check that frees nothing, a record that is not put back.

use std::path::PathBuf;

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::drivers::{Argument, Derivatives, Point};
use brolga::{DerivedRule, InverseCheck, InverseStats, Mode, Options, Primal};
use brolga_driver::memory::Memory;
use brolga_driver::text::directive::call_with_clauses;
use brolga_driver::{File, Invocation, run};
use brolga_testing::budget;
use brolga_testing::noise::Noise;

fn file(name: &str) -> File {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("reversible").join(name);
    File::read(&path).unwrap_or_else(|e| panic!("{e}"))
}

fn bind(file: &File, text: &str) -> Invocation {
    let (call, clauses) = call_with_clauses(text).unwrap_or_else(|e| panic!("{}", e.diagnostic("AD0008", None)));
    file.bind(text, &call, &clauses).unwrap_or_else(|e| panic!("{}", e.diagnostic("AD0008", None)))
}

fn list(all: impl IntoIterator<Item = f64>) -> String {
    let all: Vec<String> = all.into_iter().map(|x| format!("{x:?}")).collect();
    format!("[{}]", all.join(", "))
}

/// Buffers after a call, and its gradient, as floats; bytes on the tape, and what was undone.
struct Ran {
    left: Vec<Vec<f64>>,
    gradient: Vec<Vec<f64>>,
    tape_bytes: usize,
    stats: InverseStats,
}

fn ran(file: &File, text: &str, check: InverseCheck) -> Ran {
    let call = bind(file, text);
    let options = Options { inverse_check: check, mode: Mode::Combined, ..Options::default() };
    let rule = DerivedRule::new(&file.program, &call.request(), &options).unwrap_or_else(|e| panic!("{text}: {e}"));
    let found = run::gradient(&rule, &call).unwrap_or_else(|e| panic!("{text}: {e}"));
    let left = found.buffers.iter().map(|b| b.iter().flatten().map(|n| n.as_f64()).collect());
    let gradient = found.gradient.iter().map(|g| g.iter().flat_map(|g| g.nums()).map(|n| n.as_f64()).collect());
    let (tape_bytes, stats) = (found.tape_bytes, found.inverses);
    Ran { left: left.collect(), gradient: gradient.collect(), tape_bytes, stats }
}

/// All numbers are these, relative to the largest of them.
fn close(found: &[f64], want: &[f64], tolerance: f64) {
    let largest = want.iter().fold(0.0_f64, |m, x| m.max(x.abs()));
    assert_eq!(found.len(), want.len());
    for (a, b) in found.iter().zip(want) {
        assert!((a - b).abs() <= tolerance * largest, "{found:?} {want:?}");
    }
}

/// Dimension; loss, the gradient's norm and its first element, the Hessian's trace and norm.
const EMBEDDINGS: [(usize, [f64; 5]); 7] = [
    (1, [1.0905604769476822, 0.966975452939742, 0.49295337370994985, 7.712322549188512, 2.6690248616807124]),
    (2, [0.8838768708108744, 0.7078846641824237, 0.26367985532777855, -39.71217553998204, 26.672809293831595]),
    (4, [1.5619941498291103, 0.919347181291073, 0.24141673077542358, -123.5999108969644, 43.232817092529686]),
    (5, [1.9554822715436089, 1.0613373132173105, 0.2871228615271634, -166.32772296290463, 49.704152212768115]),
    (6, [2.2259715109559997, 1.0891755101148488, 0.23664321725257853, -203.58872043202317, 54.02928731369177]),
    (8, [2.8786138027615085, 1.2331686878365709, 0.23734966101620558, -281.9951283363598, 62.67128977371847]),
    (10, [3.517819227587905, 1.3565082091147815, 0.23972417396018328, -359.28025094588895, 70.05140462764533]),
];

/// The edges of the Petersen graph, and the other pairs, from zero.
fn pairs() -> Vec<i64> {
    let edges = [
        (1, 6),
        (2, 7),
        (3, 8),
        (4, 9),
        (5, 10),
        (1, 2),
        (2, 3),
        (3, 4),
        (4, 5),
        (1, 5),
        (6, 8),
        (8, 10),
        (7, 10),
        (7, 9),
        (6, 9),
    ];
    let others = (1..=10).flat_map(|a| (a + 1..=10).map(move |b| (a, b))).filter(|p| !edges.contains(p));
    edges.iter().copied().chain(others).flat_map(|(a, b)| [a - 1, b - 1]).collect()
}

fn norm(all: impl IntoIterator<Item = f64>) -> f64 {
    all.into_iter().map(|x| x * x).sum::<f64>().sqrt()
}

/// The loss as a value, of a place on the stack.
const VALUE: &str = "\
function %embedding(i64, i64, i64, i64, i64, i64, i64) -> f64 {
    ss0 = explicit_slot 8, align = 8
    fn0 = %embed(i64, i64, i64, i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: i64, v5: i64, v6: i64):
    v7 = stack_addr.i64 ss0
    v8 = f64const 0.0
    store v8, v7
    call fn0(v7, v0, v1, v2, v3, v4, v5, v6)
    v9 = load.f64 v7
    return v9
}
";

#[test]
fn the_embedding_has_the_gradient_and_the_hessian_that_are_known() {
    let mut file = file("paper.rev");
    file.define(VALUE).unwrap();
    let pairs = pairs();
    let text: Vec<String> = pairs.iter().map(i64::to_string).collect();
    for (d, [loss, size, first, trace, whole]) in EMBEDDINGS {
        let at: Vec<f64> =
            (0..10).flat_map(|v| (0..d).map(move |k| (0.5 + 1.7 * k as f64 + 0.9 * f64::from(v)).sin())).collect();
        let call = format!(
            "%embed([0.0], {}, i64[{}], {d}, 15, 30, {}, 90) shadow 0=[1.0]",
            list(at.clone()),
            text.join(", "),
            10 * d
        );
        let found = ran(&file, &call, InverseCheck::Off);
        close(&found.left[0], &[loss], 1e-12);
        close(&[norm(found.gradient[1].clone()), found.gradient[1][0]], &[size, first], 1e-12);
        assert_eq!(found.tape_bytes, 0);
        let func = file.program.func("embedding").unwrap();
        let bytes = pairs.iter().flat_map(|n| n.to_ne_bytes()).collect();
        let number = |n: usize| Argument::Const(DataValue::I64(n as i64));
        let args = vec![
            Argument::Floats(at),
            Argument::Bytes(bytes),
            number(d),
            number(15),
            number(30),
            number(10 * d),
            number(90),
        ];
        // SAFETY: buffers are as long as the numbers after them say.
        let mut point = unsafe { Point::new(&file.program, func, args, &Options::default()) }.unwrap();
        let (value, gradient) = point.value_and_gradient().unwrap();
        close(&[value, norm(gradient.clone()), gradient[0]], &[loss, size, first], 1e-12);
        let hessian = point.hessian(&[1.0]).unwrap();
        let diagonal: f64 = (0..gradient.len()).map(|i| hessian[i][i]).sum();
        close(&[diagonal, norm(hessian.iter().flatten().copied())], &[trace, whole], 1e-12);
    }
}

#[test]
fn the_mixture_of_gaussians_has_the_gradient_that_is_known() {
    // Twelve points under four Gaussians in three dimensions: the lower triangles by columns, with
    // a prior of gamma 1.5 and m 2. Computed with forty digits.
    let (n, d, k) = (12, 3, 4);
    let factors = d + d * (d - 1) / 2;
    let wave = |n: usize, size: f64, a: f64, b: f64| list((0..n).map(|i| size * (i as f64 * a + b).sin()));
    let (kd, kf, nd) = (k * d, k * factors, n * d);
    let call = format!(
        "%gmm([0.0], {}, {}, {}, {}, [1.125, 2.0, {n}.0, -26.542276959770164], {n}, {d}, {k}, {kd}, {kf}, {nd}) shadow \
         0=[1.0]",
        wave(k, 1.0, 0.7, 0.3),
        wave(kd, 1.0, 1.3, 0.1),
        wave(kf, 0.5, 0.9, 0.2),
        wave(nd, 2.0, 1.1, 0.4)
    );
    let found = ran(&file("paper.rev"), &call, InverseCheck::Off);
    close(&found.left[0], &[-37.95564910186145], 1e-12);
    let of = |i: usize| &found.gradient[i];
    close(of(1), &[-0.24791094528864752, 1.336390492804221, -0.14643292655162617, -0.9420466209639473], 1e-12);
    let means = [2.602811777981989, 4.554894240741912, -1.1399301409030164, -4.080167119738962];
    close(&of(2)[..4], &means, 1e-12);
    let triangle = [
        0.1077524575904017,
        1.1497716925970797,
        4.626116540189852,
        -2.364204746768154,
        0.4918867658853064,
        -0.5704833445718133,
    ];
    close(&of(3)[..6], &triangle, 1e-12);
    let all = || of(1).iter().chain(of(2)).chain(of(3)).copied();
    close(&[all().sum(), norm(all())], &[5.554302164465884, 13.502609874440433], 1e-12);
    assert_eq!(found.tape_bytes, 0);
}

#[test]
fn lorenz_has_the_gradient_that_is_known() {
    let file = file("physics.rev");
    let cases = [
        (
            20,
            0.8985808474164584,
            [0.8984077898211303, 0.5101972597280605, -0.013309241820900188],
            [-0.008314248693197423, 0.01401967428885102, 1.0508338030262867e-6],
        ),
        (
            120,
            17.271434043134136,
            [8.005033874355407, 6.383157220413437, -0.7489013773918526],
            [1.2881745358120644, 1.1508324215753831, 0.19586637290135173],
        ),
        (
            1000,
            -8.892211630069015,
            [1.3058640793377876, 1.0414370554194543, -0.29397931299886726],
            [0.11112947257560556, 0.9389400148720944, 4.428598506847135],
        ),
    ];
    for (n, x, of_start, of_params) in cases {
        // A thousand steps amplify roundings.
        let tolerance = if n < 1000 { 1e-12 } else { 1e-9 };
        let m = 3 * n + 3;
        let start = list((0..m).map(|i| if i == 0 { 1.0 } else { 0.0 }));
        let seed = list((0..m).map(|i| if i == 3 * n { 1.0 } else { 0.0 }));
        let text = format!("%lorenz({start}, [10.0, 27.0, {:?}], [0.003], {n}, {m}) shadow 0={seed}", 8.0 / 3.0);
        let found = ran(&file, &text, InverseCheck::Off);
        close(&found.left[0][3 * n..3 * n + 1], &[x], tolerance);
        close(&found.gradient[0][..3], &of_start, tolerance);
        close(&found.gradient[1], &of_params, tolerance);
    }
}

#[test]
fn heat_by_bennett_has_the_numbers_that_are_known() {
    let file = file("physics.rev");
    let unit = list((0..100).map(|i| f64::from(u8::from(i == 49))));
    let zeros = list([0.0; 100]);
    let h = std::f64::consts::PI / 100.0;
    let text = format!("%heat({zeros}, {unit}, [{:?}], 100, 100) shadow 0={unit}", 0.01 * 0.04 / (h * h));
    let found = ran(&file, &text, InverseCheck::Off);
    let known = 0.04421357215603997;
    close(&[found.left[0][49], found.gradient[1][49]], &[known, known], 1e-12);
    close(&[found.gradient[1].iter().sum()], &[1.0], 1e-12);
}

/// Steps of the planets in a loop of CLIF. `STEP` is what is called.
const STEPS: &str = "\
function %steps(i64, i64, i64, i64, i64, i64) {
    fn0 = %STEP(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: i64, v5: i64):
    v6 = iconst.i64 1
    jump block1(v5)
block1(v7: i64):
    brif v7, block2, block3
block2:
    call fn0(v0, v1, v2, v3, v4)
    v8 = isub v7, v6
    jump block1(v8)
block3:
    return
}
function %there_and_back(i64, i64, i64, i64, i64, i64) {
    fn0 = %leap__do(i64, i64, i64, i64, i64)
    fn1 = %leap__undo(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64, v3: i64, v4: i64, v5: i64):
    v6 = iconst.i64 1
    jump block1(v5)
block1(v7: i64):
    brif v7, block2, block3(v5)
block2:
    call fn0(v0, v1, v2, v3, v4)
    v8 = isub v7, v6
    jump block1(v8)
block3(v9: i64):
    brif v9, block4, block5
block4:
    call fn1(v0, v1, v2, v3, v4)
    v10 = isub v9, v6
    jump block3(v10)
block5:
    return
}
";

fn planets() -> (File, String) {
    let file = file("physics.rev");
    let line = file.text.lines().find_map(|l| l.strip_prefix("; call: %orbit([0.0], ")).unwrap();
    let given = line.split(", 16) ").next().unwrap().to_owned();
    (file, given)
}

#[test]
fn a_record_of_what_does_not_come_back_is_exact_and_less_than_a_sixth_of_the_tape() {
    let (file, given) = planets();
    let of = |step: &str, check, n: usize| {
        let mut file = File::parse("physics.rev", file.text.clone()).unwrap();
        file.define(&STEPS.replace("STEP", step)).unwrap();
        let seeds = list((0..30).map(|i| (1.0 + 0.3 * f64::from(i)).sin()));
        ran(&file, &format!("%steps({given}, {n}) shadow 0={seeds}"), check)
    };
    for n in [16, 1024] {
        let tape = of("leap__do", InverseCheck::Off, n);
        let exact = of("leap", InverseCheck::Record, n);
        let bits = |r: &Ran| r.gradient.iter().chain(&r.left).flatten().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&exact), bits(&tape), "{n} steps");
        let kept = exact.tape_bytes as u64 + exact.stats.max_bytes;
        assert!(exact.stats.recorded > 0 && exact.stats.calls == n as u64);
        // The least that a tape could keep are the thirty coordinates in the middle of each step.
        if n > 16 {
            assert!(6 * kept <= (240 * n) as u64, "{kept} bytes for {n} steps");
            assert!(6 * kept <= tape.tape_bytes as u64, "{kept} and {} bytes", tape.tape_bytes);
        }
        for check in [InverseCheck::Off, InverseCheck::Within(1e-8.into())] {
            let near = of("leap", check, n);
            let kept = near.tape_bytes as u64 + near.stats.max_bytes;
            assert!(kept <= 2048, "{kept} bytes, whatever the number of steps");
            near.gradient.iter().zip(&tape.gradient).filter(|g| !g.1.is_empty()).for_each(|(a, b)| close(a, b, 1e-11));
        }
    }
}

#[test]
fn a_state_drifts_as_much_as_one_that_is_undone_by_hand() {
    let (mut file, given) = planets();
    file.define(&STEPS.replace("STEP", "leap")).unwrap();
    // Steps, and the distance of the places relative to where they were, by hand.
    for (n, by_hand) in [(1 << 4, 1.1e-17), (1 << 10, 1.0e-14), (1 << 12, 1.3e-13)] {
        let call = bind(&file, &format!("%there_and_back({given}, {n})"));
        let found = run::primal(&file.program, &call).unwrap();
        let is: Vec<f64> = found.buffers[0].iter().flatten().map(|n| n.as_f64()).collect();
        let (_, _, before, _) = call.buffer(0).map(|(i, e, data, s)| (i, e, data.to_vec(), s.to_vec())).unwrap();
        let was: Vec<f64> = before.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap())).collect();
        let drift = norm(is.iter().zip(&was).map(|(a, b)| a - b)) / norm(was.iter().copied());
        assert!(drift <= 2.0 * by_hand, "{n} steps: {drift:e}, by hand {by_hand:e}");
    }
}

#[test]
fn a_million_states_come_back_bit_by_bit() {
    let states = budget(250_000, 10_000);
    let calls = [
        ("integers.rev", "%shuffled(i64[7], i64[0], 20)"),
        ("integers.rev", "%fibonacci(i64[0], i64[0], 10)"),
        ("numbers.rev", "%pendulum([1.0], [0.0], [0.01], 4)"),
        ("sorting.rev", "%sort([3.0, 1.0, 2.0], i64[0, 0, 0, 0, 0, 0], 3, 6)"),
    ];
    let mut undone = 0_u64;
    for (name, text) in calls {
        let file = file(name);
        let call = bind(&file, text);
        let back = file.program.func(&format!("{}__inverse", call.symbol)).unwrap();
        let primal = Primal::new(&file.program, &[call.func, back], &Options::default()).unwrap();
        let mut memory = Memory::new(&call).unwrap();
        let values = memory.values();
        let mut noise = Noise(11);
        for _ in 0..states {
            for i in 0..call.args.len() {
                let Some(buffer) = memory.buffer_mut(i) else { continue };
                let is_float = buffer.elem == brolga_driver::text::ElemType::F64;
                for word in buffer.primal.bytes_mut().chunks_exact_mut(8) {
                    let bits = noise.below(u64::MAX);
                    // Flags of what sorts are zero; numbers are on the grid of fixed-point numbers.
                    let new = match (is_float, name) {
                        (true, _) => (((bits >> 20) as f64 / 2_f64.powi(43)) - 1.0).to_bits(),
                        (false, "sorting.rev") => 0,
                        _ => bits,
                    };
                    word.copy_from_slice(&new.to_le_bytes());
                }
            }
            let bytes = |i: usize| memory.buffer(i).map(|b| b.primal.bytes().to_vec());
            let before: Vec<_> = (0..call.args.len()).map(bytes).collect();
            // SAFETY: the arguments are those of the call, and both functions take the same.
            let went = unsafe { primal.call(call.func, &values) };
            if went.is_ok() {
                unsafe { primal.call(back, &values) }.unwrap();
                undone += 1;
            }
            let after: Vec<_> = (0..call.args.len()).map(bytes).collect();
            assert_eq!(after, before, "{text}");
        }
    }
    assert!(undone >= 3 * states, "{undone} states");
}

#[test]
fn a_check_that_fails_frees_what_was_allocated() {
    let text = "fn f(x: f64, n: in i64) {
    let t: [f64 x n] = 0
    call g(x, t, n)
    drop t = 0
}
fn g(x: f64, t: [f64 x n], n: in i64) {
    let u: [f64 x n] = 0
    u[1] += x
    drop u = 0
}";
    let file = File::parse("leak.rev", text).unwrap();
    let call = bind(&file, "%f([3.0], 100000)");
    let primal = Primal::new(&file.program, &[call.func], &Options::default()).unwrap();
    let memory = Memory::new(&call).unwrap();
    let values = memory.values();
    let resident = || {
        let text = std::fs::read_to_string("/proc/self/statm").ok()?;
        text.split(' ').nth(1)?.parse::<u64>().ok()
    };
    let before = resident();
    for _ in 0..400 {
        // SAFETY: the arguments are those of the call.
        let trap = unsafe { primal.call(call.func, &values) }.unwrap_err();
        assert!(trap.to_string().contains("dealloc_mismatch"), "{trap}");
    }
    // Two times 800 kB each, were they left behind; other tests may run meanwhile.
    if let (Some(before), Some(after)) = (before, resident()) {
        assert!(after < before + 300_000_000 / 4096, "{before} pages, then {after}");
    }
}
