//! Loops whose iterations multiply what they carry by one number, computed before: small functions,
//! run by Cranelift's interpreter before and after. Derivatives that go through the pass are in
//! `ir-tests/cases/control/preaccumulate.clif`.

use brolga_testing::function;
use brolga_transform::clif::preaccumulate::{Choice, preaccumulate};
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir;
use cranelift_interpreter::environment::FunctionStore;
use cranelift_interpreter::interpreter::{Interpreter, InterpreterState};
use cranelift_interpreter::step::ControlFlow;

use crate::host;

/// `%f(x, u, r, n)`: what it returns.
fn run(func: &ir::Function, [x, u, r]: [f64; 3], n: i32) -> Vec<f64> {
    let single = func.signature.params[0].value_type == ir::types::F32;
    let float = |v: f64| if single { DataValue::F32((v as f32).into()) } else { DataValue::F64(v.into()) };
    let mut store = FunctionStore::default();
    store.add("f".to_owned(), func);
    let state = InterpreterState::default().with_function_store(store);
    let mut interpreter = Interpreter::new(state).with_fuel(Some(100_000));
    let args = [float(x), float(u), float(r), DataValue::I32(n)];
    match interpreter.call_by_name("f", &args).unwrap() {
        ControlFlow::Return(values) => values
            .iter()
            .map(|v| match v {
                DataValue::F32(v) => f64::from(v.as_f32()),
                DataValue::F64(v) => v.as_f64(),
                other => panic!("{other:?}"),
            })
            .collect(),
        other => panic!("{other:?}"),
    }
}

/// A function before and after, and the numbers of factors in its loops.
fn both(ty: &str, body: &str, worth: bool) -> (ir::Function, ir::Function, Vec<usize>) {
    chosen(ty, body, worth, Choice::Branch)
}

fn chosen(ty: &str, body: &str, worth: bool, choice: Choice) -> (ir::Function, ir::Function, Vec<usize>) {
    let text = format!("function %f({ty}, {ty}, {ty}, i32) -> {ty}, {ty} {{\n{body}\n}}").replace("FLOAT", ty);
    let before = function(&text);
    let mut after = before.clone();
    let found = preaccumulate(&mut after, &|_| true, worth, choice);
    cranelift_codegen::verify_function(&after, &*host::isa()).unwrap_or_else(|e| panic!("{e}\n{after}"));
    (before, after, found.into_iter().map(|a| a.factors).collect())
}

/// A number with as large an exponent as it takes: a factor of a magnitude between one half and one
/// (or zero), and a power of two.
#[derive(Clone, Copy)]
struct Wide(f64, i64);

impl Wide {
    fn of(v: f64) -> Self {
        Wide(v, 0).normal()
    }

    fn normal(self) -> Self {
        let Wide(mut m, mut e) = self;
        while m != 0.0 && m.abs() >= 1.0 {
            (m, e) = (m / 2.0, e + 1);
        }
        while m != 0.0 && m.abs() < 0.5 {
            (m, e) = (m * 2.0, e - 1);
        }
        Wide(m, if m == 0.0 { i64::MIN / 2 } else { e })
    }

    fn abs(self) -> Self {
        Wide(self.0.abs(), self.1)
    }

    /// Whether it is at most another one, both of them not negative.
    fn at_most(self, other: Self) -> bool {
        self.0 == 0.0 || other.0 != 0.0 && (self.1, self.0) <= (other.1, other.0)
    }
}

impl std::ops::Add for Wide {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let (large, small) = if self.1 >= other.1 { (self, other) } else { (other, self) };
        let down = (large.1 - small.1).min(1000) as i32;
        Wide(large.0 + small.0 * 0.5_f64.powi(down), large.1).normal()
    }
}

impl std::ops::Sub for Wide {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        self + Wide(-other.0, other.1)
    }
}

impl std::ops::Mul for Wide {
    type Output = Self;
    fn mul(self, other: Self) -> Self {
        Wide(self.0 * other.0, self.1.saturating_add(other.1)).normal()
    }
}

impl std::ops::Div for Wide {
    type Output = Self;
    fn div(self, other: Self) -> Self {
        Wide(self.0 / other.0, self.1 - other.1).normal()
    }
}

/// Ordinary numbers, zero, and the ends of the range.
const NUMBERS: [f64; 17] = [
    1.0,
    0.75,
    -1.25,
    3.0,
    0.0,
    1e-160,
    -1e160,
    -1e140,
    1e-300,
    1e300,
    1e-30,
    1e30,
    5e-324,
    f64::MAX,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

/// With all that can be, with these many factors, the same numbers come out up to rounding: where
/// the chain is close to `exact`, of which the second number is the sum of the magnitudes of what
/// it is the sum of, so is what was made of it.
fn check(ty: &str, body: &str, factors: usize, exact: impl Fn([Wide; 3]) -> (Wide, Wide)) {
    let (before, after, found) = both(ty, body, false);
    assert_eq!(found, [factors], "{after}");
    let (_, selected, also) = chosen(ty, body, false, Choice::Select);
    assert_eq!(also, found);
    assert!(selected.layout.blocks().count() < after.layout.blocks().count(), "{selected}");
    let bits = |func: &ir::Function, x, n| run(func, x, n).into_iter().map(f64::to_bits).collect::<Vec<_>>();
    let (rounding, least, most) = if ty == "f32" {
        (1e-5, f64::from(f32::MIN_POSITIVE), f64::from(f32::MAX))
    } else {
        (1e-13, f64::MIN_POSITIVE, f64::MAX)
    };
    let (mut right, mut moved) = (0, 0);
    for (k, [x, u, r]) in triples().enumerate() {
        let [x, u, r] = if ty == "f32" { [x, u, r].map(|v| f64::from(v as f32)) } else { [x, u, r] };
        let (old, new) = (run(&before, [x, u, r], 1)[0], run(&after, [x, u, r], 1)[0]);
        assert_eq!(bits(&selected, [x, u, r], 1), bits(&after, [x, u, r], 1), "{k}: {x:e}, {u:e}, {r:e}\n{selected}");
        let what = || format!("{k}: x = {x:e}, u = {u:e}, r = {r:e}: {old:e} was {new:e}\n{after}");
        if !(u.is_finite() && r.is_finite()) {
            assert_eq!(old.to_bits(), new.to_bits(), "{}", what());
        } else if !x.is_finite() {
            assert!(!new.is_finite(), "{}", what());
        } else {
            let (exact, size) = exact([x, u, r].map(Wide::of));
            let slack = size * Wide::of(rounding) + Wide::of(least) * Wide::of(4.0);
            let is_right = |v: f64| match v.is_finite() {
                true => (Wide::of(v) - exact).abs().at_most(slack),
                false => Wide::of(most / 2.0).at_most(exact.abs()),
            };
            assert!(is_right(new) || !is_right(old), "{}", what());
            right += usize::from(is_right(old));
            moved += usize::from(old.to_bits() != new.to_bits());
        }
    }
    assert!(right > 300, "{right} of these are ordinary numbers");
    assert!(moved > 0, "some are rounded otherwise");
    // Iteration after iteration.
    for n in 0..6 {
        for x in [1.0, -0.3] {
            let (old, new) = (run(&before, [x, 0.75, 1.5], n), run(&after, [x, 0.75, 1.5], n));
            for (old, new) in old.into_iter().zip(new) {
                assert!(
                    (old - new).abs() <= 10.0 * rounding * old.abs().max(1.0),
                    "n = {n}: {old:e} was {new:e}\n{after}"
                );
            }
        }
    }
}

fn triples() -> impl Iterator<Item = [f64; 3]> {
    let pairs = NUMBERS.iter().flat_map(|&x| NUMBERS.iter().map(move |&u| (x, u)));
    pairs.flat_map(|(x, u)| NUMBERS.iter().map(move |&r| [x, u, r]))
}

/// A loop that asks first, with this body from `v5` (and `v1`, `v2`) to `v11`, and returns what is
/// carried, twice.
fn asking_first(iteration: &str) -> String {
    format!(
        "block0(v0: FLOAT, v1: FLOAT, v2: FLOAT, v3: i32):
            jump block1(v3, v0)
        block1(v4: i32, v5: FLOAT):
            brif v4, block2, block3
        block2:
            {}
            v12 = iconst.i32 1
            v13 = isub v4, v12
            jump block1(v13, v11)
        block3:
            return v5, v5",
        iteration.replace("; ", "\n")
    )
}

#[test]
fn a_product() {
    let body = asking_first("v6 = fmul v5, v1; v11 = fmul v2, v6");
    for ty in ["f64", "f32"] {
        check(ty, &body, 1, |[x, u, r]| (x * u * r, (x * u * r).abs()));
    }
}

#[test]
fn a_difference_of_products() {
    let body = asking_first("v6 = fmul v5, v1; v7 = fmul v6, v2; v8 = fmul v5, v2; v11 = fsub v7, v8");
    for ty in ["f64", "f32"] {
        check(ty, &body, 1, |[x, u, r]| (x * u * r - x * r, (x * u * r).abs() + (x * r).abs()));
    }
}

#[test]
fn a_sum_of_products() {
    let body = asking_first("v6 = fmul v5, v1; v7 = fmul v6, v2; v8 = fmul v5, v2; v11 = fadd v7, v8");
    for ty in ["f64", "f32"] {
        check(ty, &body, 1, |[x, u, r]| (x * u * r + x * r, (x * u * r).abs() + (x * r).abs()));
    }
}

#[test]
fn a_negative_quotient() {
    let body = asking_first("v6 = fneg v5; v7 = fdiv v6, v1; v8 = fadd v7, v5; v11 = fmul v8, v2");
    for ty in ["f64", "f32"] {
        check(ty, &body, 2, |[x, u, r]| match u.0 == 0.0 {
            // A quotient by zero is not in range, and what the chain makes of it is nothing that
            // there is an exact number for.
            true => (Wide::of(0.0), Wide::of(0.0)),
            false => (x * r - x / u * r, (x / u * r).abs() + (x * r).abs()),
        });
    }
}

#[test]
fn something_added_on_the_way() {
    let body = asking_first("v6 = fmul v5, v1; v7 = fadd v6, v2; v8 = fmul v7, v1; v11 = fsub v2, v8");
    for ty in ["f64", "f32"] {
        check(ty, &body, 1, |[x, u, r]| (r - (x * u * u + r * u), (x * u * u).abs() + (r * u).abs() + r.abs()));
    }
}

#[test]
fn a_loop_that_asks_last_and_a_number_on_the_way_that_others_want() {
    let body = "block0(v0: FLOAT, v1: FLOAT, v2: FLOAT, v3: i32):
            v4 = iconst.i32 1
            v5 = iadd v3, v4
            jump block1(v5, v0, v0)
        block1(v6: i32, v7: FLOAT, v20: FLOAT):
            v8 = fmul v7, v1
            jump block2(v8)
        block2(v9: FLOAT):
            v10 = fmul v9, v2
            v11 = isub v6, v4
            v12 = icmp sgt v11, v4
            brif v12, block1(v11, v10, v8), block3(v10)
        block3(v13: FLOAT):
            return v13, v13";
    for ty in ["f64", "f32"] {
        check(ty, body, 1, |[x, u, r]| (x * u * r, (x * u * r).abs()));
    }
}

#[test]
fn what_is_left_alone() {
    for (iteration, why) in [
        ("v11 = fmul v5, v1", "one product is as short as can be"),
        ("v6 = fmul v5, v1; v7 = fmul v6, v5; v11 = fmul v7, v2", "a square"),
        ("v6 = fmul v5, v1; v7 = sqrt v6; v11 = fmul v7, v2", "a root"),
        ("v6 = fdiv v1, v5; v11 = fmul v6, v2", "a quotient by it"),
        ("v6 = fadd v5, v1; v11 = fadd v6, v2", "no product"),
    ] {
        let (before, after, found) = both("f64", &asking_first(iteration), false);
        assert!(found.is_empty() && before.to_string() == after.to_string(), "{why}: {after}");
    }
    let carried_beside = "block0(v0: f64, v1: f64, v2: f64, v3: i32):
            jump block1(v3, v0, v1)
        block1(v4: i32, v5: f64, v6: f64):
            brif v4, block2, block3
        block2:
            v7 = fmul v5, v6
            v8 = fmul v7, v2
            v9 = fmul v6, v6
            v12 = iconst.i32 1
            v13 = isub v4, v12
            jump block1(v13, v8, v9)
        block3:
            return v5, v6";
    let (.., found) = both("f64", carried_beside, false);
    assert!(found.is_empty());
}

#[test]
fn where_it_pays() {
    let chain = "v6 = fmul v5, v1; v7 = fmul v6, v2; v8 = fmul v7, v1; v11 = fmul v8, v2";
    let (.., found) = both("f64", &asking_first(chain), true);
    assert_eq!(found.len(), 1);
    // Work enough for as long as the chain takes.
    let more: String = (20..80).map(|k| format!("v{k} = fmul v1, v2; ")).collect();
    let (.., found) = both("f64", &asking_first(&(more + chain)), true);
    assert!(found.is_empty());
}
