//! The planets by leapfrog, backwards: states and gradients have the bits of what is recorded, at a
//! small part of its bytes, and the numbers are those of an implementation by hand.
//!
//! The system, its units and the kick between two half drifts are those of NiLang's benchmark
//! (J.-G. Liu, T. Zhao, arXiv:2003.04617); the numbers that are compared with were computed by a
//! program of its own, which has the step and its adjoint by hand.

use brolga::cranelift_codegen::data_value::DataValue;

use brolga::{Arg, ArgActivity, DerivedRule, InverseCheck, InverseStats, Mode, Options, Primal, Program, Request};
use brolga_testing::program;

const STEP: &str = "
function %drift(i64, i64, f64) {
block0(v0: i64, v1: i64, v2: f64):
    v3 = iconst.i64 0
    v4 = iconst.i64 240
    v5 = iconst.i64 8
    v6 = f64const 0x1.0p-1
    v7 = fmul v6, v2
    jump block1(v3)
block1(v8: i64):
    v10 = iadd v0, v8
    v11 = load.f64 v10
    v12 = load.f64 v10+240
    v13 = fmul v7, v12
    v14 = fadd v11, v13
    store v14, v10
    v15 = iadd v8, v5
    v16 = icmp slt v15, v4
    brif v16, block1(v15), block2
block2:
    return
}
function %kick(i64, i64, f64) {
block0(v0: i64, v1: i64, v2: f64):
    v3 = iconst.i64 0
    v4 = iconst.i64 10
    v5 = iconst.i64 1
    v6 = iconst.i64 24
    v7 = iconst.i64 8
    v8 = f64const 0.0
    v9 = load.f64 v1+80
    jump block1(v3)
block1(v10: i64):
    v11 = imul v10, v6
    v12 = iadd v0, v11
    v13 = load.f64 v12
    v14 = load.f64 v12+8
    v15 = load.f64 v12+16
    jump block2(v3, v8, v8, v8)
block2(v16: i64, v17: f64, v18: f64, v19: f64):
    v20 = icmp eq v16, v10
    brif v20, block4(v17, v18, v19), block3
block3:
    v21 = imul v16, v6
    v22 = iadd v0, v21
    v23 = load.f64 v22
    v24 = load.f64 v22+8
    v25 = load.f64 v22+16
    v26 = fsub v23, v13
    v27 = fsub v24, v14
    v28 = fsub v25, v15
    v29 = fmul v26, v26
    v30 = fmul v27, v27
    v31 = fmul v28, v28
    v32 = fadd v29, v30
    v33 = fadd v32, v31
    v34 = sqrt v33
    v35 = imul v16, v7
    v36 = iadd v1, v35
    v37 = load.f64 v36
    v38 = fmul v9, v37
    v39 = fmul v34, v34
    v40 = fmul v39, v34
    v41 = fdiv v38, v40
    v42 = fmul v41, v26
    v43 = fmul v41, v27
    v44 = fmul v41, v28
    v45 = fadd v17, v42
    v46 = fadd v18, v43
    v47 = fadd v19, v44
    jump block4(v45, v46, v47)
block4(v48: f64, v49: f64, v50: f64):
    v51 = iadd v16, v5
    v52 = icmp slt v51, v4
    brif v52, block2(v51, v48, v49, v50), block5
block5:
    v53 = load.f64 v12+240
    v54 = load.f64 v12+248
    v55 = load.f64 v12+256
    v56 = fmul v2, v48
    v57 = fmul v2, v49
    v58 = fmul v2, v50
    v59 = fadd v53, v56
    v60 = fadd v54, v57
    v61 = fadd v55, v58
    store v59, v12+240
    store v60, v12+248
    store v61, v12+256
    v62 = iadd v10, v5
    v63 = icmp slt v62, v4
    brif v63, block1(v62), block6
block6:
    return
}
function %leap(i64, i64, i64) {
    fn0 = %drift(i64, i64, f64)
    fn1 = %kick(i64, i64, f64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.f64 v1+88
    call fn0(v0, v1, v3)
    call fn1(v0, v1, v3)
    call fn0(v0, v1, v3)
    return
}
function %leap_back(i64, i64, i64) {
    fn0 = %drift(i64, i64, f64)
    fn1 = %kick(i64, i64, f64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.f64 v1+88
    v4 = fneg v3
    call fn0(v0, v1, v4)
    call fn1(v0, v1, v4)
    call fn0(v0, v1, v4)
    return
}
function %distance(i64) -> f64 {
block0(v0: i64):
    v1 = load.f64 v0+24
    v2 = load.f64 v0+32
    v3 = load.f64 v0+40
    v4 = load.f64 v0+48
    v5 = load.f64 v0+56
    v6 = load.f64 v0+64
    v7 = fsub v1, v4
    v8 = fsub v2, v5
    v9 = fsub v3, v6
    v10 = fmul v7, v7
    v11 = fmul v8, v8
    v12 = fmul v9, v9
    v13 = fadd v10, v11
    v14 = fadd v13, v12
    return v14
}
";

/// n steps: as calls, of pairs, or as a time loop.
const ORBIT: &str = "
function %NAME(i64, i64, i64) -> f64 {
    fn0 = %leap(i64, i64, i64)
    fn1 = %leap_back(i64, i64, i64)
    fn2 = %brolga_inverse_pair(i64, i64, i64, i64, i64, i64)
    fn3 = %distance(i64) -> f64
    fn4 = %brolga_time_loop(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = func_addr.i64 fn0
    v4 = func_addr.i64 fn1
    v5 = iconst.i64 480
    v6 = iconst.i64 0
    v7 = iconst.i64 1
    jump block1(v6)
block1(v8: i64):
    v9 = icmp slt v8, v2
    brif v9, block2, block3
block2:
    CALL
    v10 = iadd v8, v7
    jump block1(v10)
block3:
    v11 = call fn3(v0)
    return v11
}
";

fn orbits() -> Program {
    let calls = [
        ("orbit", "call fn2(v3, v4, v0, v5, v1, v8)"),
        ("plain", "call fn0(v0, v1, v8)"),
        ("timed", "call fn4(v3, v0, v5, v1, v7)"),
    ];
    let text = calls.map(|(name, call)| ORBIT.replace("NAME", name).replace("CALL", call)).concat();
    program(&(STEP.to_owned() + &text))
}

/// The sun, the planets and Pluto, in astronomical units and days.
const PLACES: [[f64; 3]; 10] = [
    [-0.0034300315363673, 0.001761881027012596, 1.246691303879918e-05],
    [0.0888798513876546, -0.4426150338141062, -0.04475716356484761],
    [0.04043738093622098, -0.7239789211502183, -0.01241560658530024],
    [-0.02020844529756663, -1.014332737790859, -1.358267619371298e-05],
    [0.7462481663749645, -1.181663652521456, -0.04321921404013512],
    [3.384805319103406, 3.658805636759595, -0.09100441946210819],
    [-0.1083899692644216, -10.03995196286016, 0.1793391553155583],
    [-0.2693448460292631, -19.2760644686922, -0.06808868692550485],
    [4.67556670979166, -29.85428200863175, 0.5070034142531887],
    [-21.29074273328636, -18.96633337434039, 8.18795537867713],
];
const SPEEDS: [[f64; 3]; 10] = [
    [3.433119412673547e-06, -5.231300927361546e-06, -2.97297473555075e-08],
    [0.02190877912081542, 0.007161568136528, -0.001425929443086507],
    [0.02005742309538389, 0.001141448268256643, -0.001142174441569258],
    [0.01692836723212859, -0.0003484006532982474, 6.028542314557626e-07],
    [0.01235610918162121, 0.008680869489377649, -0.0001220500608452554],
    [-0.00563467161709323, 0.005479180979634376, 0.0001034981407898108],
    [0.005278410787728323, -7.712342079566598e-05, -0.0002084447335785041],
    [0.003903100242621723, -0.00023801110923601, -5.164025224695875e-05],
    [0.003080716380724798, 0.0005030733458293977, -8.101711269674541e-05],
    [0.002276295756013608, -0.002670481848836963, -0.0003669545371032554],
];
const SUN: f64 = 1.988544e30;
const MASSES: [f64; 10] =
    [SUN, 3.302e23, 48.685e23, 5.97219e24, 6.4185e23, 1898.13e24, 5.68319e26, 86.8103e24, 102.41e24, 1.307e22];

/// Places and speeds, of a year as the unit of time.
fn state() -> Vec<f64> {
    let (places, speeds) = (PLACES.as_flattened(), SPEEDS.as_flattened());
    places.iter().copied().chain(speeds.iter().map(|v| v * 365.25)).collect()
}

/// Masses in those of the sun, the constant of gravity, and the step.
fn params() -> Vec<f64> {
    let (au, year): (f64, f64) = (1.0 / 1.496e11, 1.0 / 3.154e7);
    let gravity = 6.67259e-11 * au.powi(3) / (1.0 / SUN * (year * year));
    MASSES.iter().map(|m| m / SUN).chain([gravity, 0.01]).collect()
}

#[derive(Clone, Debug, PartialEq)]
struct Outcome {
    loss: f64,
    state: Vec<f64>,
    /// Of the state, and of what all steps read.
    gradient: (Vec<f64>, Vec<f64>),
}

fn run(program: &Program, name: &str, n: i64, inverse_check: InverseCheck) -> (Outcome, usize, InverseStats) {
    let options = Options { mode: Mode::Split, inverse_check, ..Options::as_calls() };
    let args = [ArgActivity::Duplicated, ArgActivity::Duplicated, ArgActivity::Const];
    let rule = DerivedRule::new(program, &Request::new(program.func(name).unwrap(), args), &options).unwrap();
    let (mut state, mut params) = (state(), params());
    let (mut ds, mut dp) = (vec![0.0; state.len()], vec![0.0; params.len()]);
    let args = [
        Arg::duplicated(state.as_mut_ptr() as u64, ds.as_mut_ptr() as u64),
        Arg::duplicated(params.as_mut_ptr() as u64, dp.as_mut_ptr() as u64),
        Arg::new(DataValue::I64(n)),
    ];
    // SAFETY: the arguments are as the functions want them.
    let (results, mut pullback) = unsafe { rule.forward(&args) }.unwrap();
    let tape = pullback.tape_bytes();
    for _ in 0..2 {
        ds.fill(0.0);
        dp.fill(0.0);
        // SAFETY: as above.
        unsafe { pullback.call(&[DataValue::F64(1.0.into())]) }.unwrap();
    }
    let DataValue::F64(loss) = results[0] else { panic!("a float") };
    (Outcome { loss: loss.as_f64(), state, gradient: (ds, dp) }, tape, pullback.inverse_stats())
}

fn near(found: &[f64], by_hand: &[f64], tolerance: f64) {
    for (a, b) in found.iter().zip(by_hand) {
        assert!((a - b).abs() <= tolerance * b.abs().max(1.0), "{found:?} {by_hand:?}");
    }
}

#[test]
fn gradients_are_those_by_hand() {
    let p = orbits();
    let short = run(&p, "orbit", 16, InverseCheck::Record).0;
    near(&[short.loss], &[1.2979896598412288], 1e-13);
    near(&short.state[3..6], &[-0.40929658906288563, -0.05568065203034173, 0.03262706106055816], 1e-13);
    near(&short.gradient.0[3..6], &[-2.094625151952853, -0.8280042917488499, 0.1309626773707653], 1e-12);
    near(&short.gradient.0[33..36], &[-0.005834807085317289, 0.12106336659710366, 0.012349042122633429], 1e-12);
    near(&short.gradient.1[..1], &[-1.5386064998199112], 1e-12);
    let long = run(&p, "orbit", 1024, InverseCheck::Record).0;
    near(&[long.loss], &[0.16726395321043513], 1e-11);
    near(&long.state[3..6], &[-0.17024436845024782, 0.2825618288301253, 0.03804494100447902], 1e-11);
    near(&long.gradient.0[3..6], &[-50.451806701491215, 241.03205843580656, 24.242460486414828], 1e-10);
    near(&long.gradient.1[..1], &[47.42226721290306], 1e-10);
}

#[test]
fn what_is_exact_is_undone_and_the_rest_recorded() {
    let p = orbits();
    let n = 1024;
    let (found, tape, stats) = run(&p, "orbit", n, InverseCheck::Record);
    let (timed, ..) = run(&p, "timed", n, InverseCheck::Record);
    assert!(found == timed, "bits differ from those of steps from states that were kept");
    let (plain, taped, _) = run(&p, "plain", n, InverseCheck::Record);
    assert!(found == plain, "bits differ from those of a tape");
    let bytes = tape as u64 + stats.max_bytes;
    // A tape by hand has thirty places for each step.
    let by_hand = 240 * n as u64;
    assert!(6 * bytes <= by_hand && 6 * bytes <= taped as u64, "{bytes} bytes, {taped} taped, {stats:?}");
}

/// n steps, and back.
const RETURN: &str = "
function %there_and_back(i64, i64, i64) {
    fn0 = %leap(i64, i64, i64)
    fn1 = %leap_back(i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = iconst.i64 0
    v4 = iconst.i64 1
    jump block1(v3)
block1(v5: i64):
    call fn0(v0, v1, v5)
    v6 = iadd v5, v4
    v7 = icmp slt v6, v2
    brif v7, block1(v6), block2(v3)
block2(v8: i64):
    call fn1(v0, v1, v8)
    v9 = iadd v8, v4
    v10 = icmp slt v9, v2
    brif v10, block2(v9), block3
block3:
    return
}
";

/// How far numbers are from others, in proportion to these: in the Euclidean norm.
fn apart(found: &[f64], from: &[f64]) -> f64 {
    let norm = |x: &mut dyn Iterator<Item = f64>| x.map(|x| x * x).sum::<f64>().sqrt();
    norm(&mut found.iter().zip(from).map(|(a, b)| a - b)) / norm(&mut from.iter().copied())
}

/// What an implementation by hand drifts by: positions after n steps and back, and gradients with
/// respect to the initial positions.
#[test]
fn what_is_undone_without_a_check_drifts_as_it_does_by_hand() {
    let p = orbits();
    let back = program(&(STEP.to_owned() + RETURN));
    let func = back.func("there_and_back").unwrap();
    let primal = Primal::new(&back, &[func], &Options::default()).unwrap();
    let by_hand = [
        (1 << 4, 1.1e-17, 1.4e-15),
        (1 << 10, 1.0e-14, 3.2e-13),
        (1 << 12, 1.3e-13, 9.3e-12),
        (1 << 16, 1.1e-11, 4.5e-10),
    ];
    for (n, drift, of_gradient) in by_hand {
        let (mut found, mut params) = (state(), params());
        let at = [found.as_mut_ptr(), params.as_mut_ptr()].map(|p| DataValue::I64(p as i64));
        // SAFETY: the arguments are as the function wants them.
        unsafe { primal.call(func, &[at[0].clone(), at[1].clone(), DataValue::I64(n)]) }.unwrap();
        let found = apart(&found[..30], &state()[..30]);
        assert!(found <= 2.0 * drift && 2.0 * found >= drift, "{n} steps and back: {found:e}, by hand {drift:e}");
        let exact = run(&p, "timed", n, InverseCheck::Off).0;
        let undone = run(&p, "orbit", n, InverseCheck::Off).0;
        let found = apart(&undone.gradient.0[..30], &exact.gradient.0[..30]);
        assert!(found <= 2.0 * of_gradient, "gradient of {n} steps: {found:e}, by hand {of_gradient:e}");
    }
}
