//! The Lorenz system by Runge and Kutta's method, as a time loop: gradients of where it is after N
//! steps are those of another program, which differentiates the same sums one by one. Later than
//! this the system is too sensitive to compare.
//!
//! System, start and step are those of J.-G. Liu and T. Zhao's comparison of reversible programs
//! with neural differential equations (arXiv:2003.04617, and its repositories).

use std::fmt::Write;

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, ArgActivity, DerivedRule, Mode, Options, Request};
use brolga_testing::program;

/// Lines of CLIF, each of which defines a value.
struct Lines {
    text: String,
    next: u32,
}

impl Lines {
    fn op(&mut self, what: &str) -> String {
        let name = format!("v{}", self.next);
        self.next += 1;
        writeln!(self.text, "    {name} = {what}").unwrap();
        name
    }

    fn constant(&mut self, hex: &str) -> String {
        self.op(&format!("f64const {hex}"))
    }

    fn binary(&mut self, op: &str, x: &str, y: &str) -> String {
        self.op(&format!("{op} {x}, {y}"))
    }

    /// The slopes at a point, times the step.
    fn slopes(&mut self, [x, y, z]: &[String; 3], [s, r, b]: &[String; 3], step: &str) -> [String; 3] {
        let d = self.binary("fsub", y, x);
        let dx = self.binary("fmul", s, &d);
        let d = self.binary("fsub", r, z);
        let d = self.binary("fmul", x, &d);
        let dy = self.binary("fsub", &d, y);
        let d = self.binary("fmul", x, y);
        let e = self.binary("fmul", b, z);
        let dz = self.binary("fsub", &d, &e);
        [dx, dy, dz].map(|d| self.binary("fmul", step, &d))
    }

    /// A point, and another one that is a part of slopes away.
    fn moved(&mut self, from: &[String; 3], slopes: &[String; 3], over: Option<&str>) -> [String; 3] {
        std::array::from_fn(|i| {
            let part = over.map_or_else(|| slopes[i].clone(), |over| self.binary("fdiv", &slopes[i], over));
            self.binary("fadd", &from[i], &part)
        })
    }
}

/// `%f(state, parameters, n)`: x after n steps.
fn text() -> String {
    let mut l = Lines { text: String::new(), next: 3 };
    let step = l.constant("0x1.89374bc6a7efap-9");
    let [two, three, six] = ["0x1.0p1", "0x1.8p1", "0x1.8p2"].map(|hex| l.constant(hex));
    let y: [String; 3] = std::array::from_fn(|i| l.op(&format!("load.f64 v0+{}", 8 * i)));
    let params: [String; 3] = std::array::from_fn(|i| l.op(&format!("load.f64 v1+{}", 8 * i)));
    let k1 = l.slopes(&y, &params, &step);
    let at = l.moved(&y, &k1, Some(&two));
    let k2 = l.slopes(&at, &params, &step);
    let at = l.moved(&y, &k2, Some(&two));
    let k3 = l.slopes(&at, &params, &step);
    let at = l.moved(&y, &k3, None);
    let k4 = l.slopes(&at, &params, &step);
    let mut end = y;
    for (k, over) in [(k1, &six), (k2, &three), (k3, &three), (k4, &six)] {
        end = l.moved(&end, &k, Some(over));
    }
    for (i, v) in end.iter().enumerate() {
        writeln!(l.text, "    store {v}, v0+{}", 8 * i).unwrap();
    }
    format!(
        "function %step(i64, i64, i64) {{
block0(v0: i64, v1: i64, v2: i64):
{}    return
}}
function %f(i64, i64, i64) -> f64 {{
    fn0 = %step(i64, i64, i64)
    fn1 = %brolga_time_loop(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = func_addr.i64 fn0
    v4 = iconst.i64 24
    call fn1(v3, v0, v4, v1, v2)
    v5 = load.f64 v0
    return v5
}}",
        l.text
    )
}

/// After so many steps: x, and its gradient with respect to the start and to σ, ρ and β.
const BY_HAND: [(i64, f64, [f64; 6]); 4] = [
    (
        1,
        0.9716355564138852,
        [
            0.9716355546441557,
            0.029521863478199496,
            -4.396698775683525e-5,
            -0.002794683129762514,
            4.408402595703525e-5,
            0.0,
        ],
    ),
    (
        20,
        0.8985808474164584,
        [
            0.8984077898211303,
            0.5101972597280605,
            -0.013309241820900188,
            -0.008314248693197423,
            0.01401967428885102,
            1.0508338030262867e-6,
        ],
    ),
    (
        120,
        17.271434043134136,
        [
            8.005033874355407,
            6.383157220413437,
            -0.7489013773918526,
            1.2881745358120644,
            1.1508324215753831,
            0.19586637290135173,
        ],
    ),
    (
        126,
        18.651961187407384,
        [
            5.056531242270807,
            4.032096044423291,
            -0.5784507149345763,
            1.0393406988233949,
            0.9677785089915318,
            0.300592567884722,
        ],
    ),
];

#[test]
fn gradients_are_those_of_another_program() {
    let p = program(&text());
    let folder = std::env::temp_dir();
    for (n, x, gradient) in BY_HAND {
        let mut first = None;
        for (budget, files) in [(64 << 20, false), (8192, false), (1024, false), (100, false), (100, true), (48, false)]
        {
            let checkpoint_dir = files.then(|| folder.clone());
            let options = Options { mode: Mode::Split, memory_budget: budget, checkpoint_dir, ..Options::as_calls() };
            let args = [ArgActivity::Duplicated, ArgActivity::Duplicated, ArgActivity::Const];
            let rule = DerivedRule::new(&p, &Request::new(p.func("f").unwrap(), args), &options).unwrap();
            let (mut state, mut params) = ([1.0, 0.0, 0.0], [10.0, 27.0, 8.0 / 3.0]);
            let (mut ds, mut dp) = ([0.0; 3], [0.0; 3]);
            let arg =
                |p: &mut [f64; 3], d: &mut [f64; 3]| Arg::duplicated(p.as_mut_ptr() as u64, d.as_mut_ptr() as u64);
            let args = [arg(&mut state, &mut ds), arg(&mut params, &mut dp), Arg::new(DataValue::I64(n))];
            // SAFETY: the arguments are as the function wants them.
            let (results, mut pullback) = unsafe { rule.forward(&args) }.unwrap();
            assert!((f64_of(&results[0]) - x).abs() <= 1e-12 * x.abs(), "x after {n} steps: {results:?}, {x}");
            for call in 0..2 {
                // Of parameters the shadow is added to; that of the state belongs to its end.
                (ds, dp) = ([0.0; 3], [0.5; 3]);
                // SAFETY: as above.
                unsafe { pullback.call(&[DataValue::F64(1.0.into())]) }.unwrap();
                let found = [ds, dp.map(|d| d - 0.5)].concat();
                for (a, b) in found.iter().zip(gradient) {
                    assert!((a - b).abs() <= 1e-10 * b.abs().max(1.0), "{n} steps in {budget} bytes: {found:?}");
                }
                let bits: Vec<u64> = ds.iter().chain(&dp).map(|d| d.to_bits()).collect();
                assert_eq!(
                    first.get_or_insert_with(|| bits.clone()),
                    &bits,
                    "{n} steps in {budget} bytes, call {call}"
                );
            }
            assert_eq!(pullback.loop_stats().disk_writes > 0, files && n > 1, "{n} steps in {budget} bytes");
        }
    }
}

fn f64_of(value: &DataValue) -> f64 {
    let DataValue::F64(x) = value else { panic!("a float") };
    x.as_f64()
}
