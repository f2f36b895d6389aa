//! A function that solves an equation: the user gives the equation, and the pullback solves the
//! adjoint system.
//!
//! `x` is where `residual(θ, x) = 0`. Then `θ̄ += −(∂r/∂θ)ᵀ λ`, where `(∂r/∂x)ᵀ λ = x̄`: no
//! iteration of the solver is recorded or differentiated. The Jacobian is made of tangents of the
//! residual, the product with λ is its gradient; both are derivatives of the same module.
//!
//! ```text
//! cargo run -p brolga-module --example implicit
//! ```

mod text;

use std::sync::OnceLock;

use brolga_module::ParamActivity::{Const, Dual, Duplicated};
use brolga_module::{AdModule, ReturnActivity, Spec, UserRule};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::default_libcall_names;

/// r₀ = x₀² + x₁² − θ₀ and r₁ = x₀ − θ₁x₁, and a function of the solution: x₀·x₁.
const TEXT: &str = "function %residual(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    v3 = load.f64 v0
    v4 = load.f64 v0+8
    v5 = load.f64 v1
    v6 = load.f64 v1+8
    v7 = fmul v5, v5
    v8 = fmul v6, v6
    v9 = fadd v7, v8
    v10 = fsub v9, v3
    store v10, v2
    v11 = fmul v4, v6
    v12 = fsub v5, v11
    store v12, v2+8
    return
}
function %f(i64, i64) -> f64 {
    fn0 = %solve(i64, i64)
block0(v0: i64, v1: i64):
    call fn0(v0, v1)
    v2 = load.f64 v1
    v3 = load.f64 v1+8
    v4 = fmul v2, v3
    v5 = f64const 0.0
    store v5, v1
    return v4
}";

/// How many equations and unknowns there are.
const N: usize = 2;
type Vector = [f64; N];

/// The equation, compiled: `(θ, x, r)`, the tangent `(θ, x, ẋ, r, ṙ)`, and the gradient
/// `(θ, θ̄, x, x̄, r, r̄)`.
struct Equation {
    residual: extern "C" fn(*const f64, *const f64, *mut f64),
    tangent: extern "C" fn(*const f64, *const f64, *const f64, *mut f64, *mut f64),
    gradient: extern "C" fn(*const f64, *mut f64, *const f64, *mut f64, *mut f64, *mut f64),
}

static EQUATION: OnceLock<Equation> = OnceLock::new();

impl Equation {
    fn get() -> &'static Self {
        EQUATION.get().expect("the equation is compiled before it is solved")
    }

    fn at(&self, theta: &Vector, x: &Vector) -> Vector {
        let mut r = [0.0; N];
        (self.residual)(theta.as_ptr(), x.as_ptr(), r.as_mut_ptr());
        r
    }

    /// ∂r/∂x, by columns: a tangent each.
    fn columns(&self, theta: &Vector, x: &Vector) -> [Vector; N] {
        std::array::from_fn(|k| {
            let (mut direction, mut r, mut column) = ([0.0; N], [0.0; N], [0.0; N]);
            direction[k] = 1.0;
            let (r, column_at) = (r.as_mut_ptr(), column.as_mut_ptr());
            (self.tangent)(theta.as_ptr(), x.as_ptr(), direction.as_ptr(), r, column_at);
            column
        })
    }

    /// Newton's method.
    fn solve(&self, theta: &Vector, x: &mut Vector) {
        for _ in 0..50 {
            let (r, [a, b]) = (self.at(theta, x), self.columns(theta, x));
            let step = solved([[a[0], b[0]], [a[1], b[1]]], r);
            x.iter_mut().zip(step).for_each(|(x, s)| *x -= s);
            if step.iter().all(|s| s.abs() < 1e-15) {
                return;
            }
        }
    }

    /// θ̄ for x̄, at a solution.
    fn pullback(&self, theta: &Vector, x: &Vector, of_x: Vector) -> Vector {
        // A row of the transposed system is a column of the Jacobian.
        let mut lambda = solved(self.columns(theta, x), of_x).map(|l| -l);
        let (mut of_theta, mut unused, mut r) = ([0.0; N], [0.0; N], [0.0; N]);
        let (of_theta_at, unused) = (of_theta.as_mut_ptr(), unused.as_mut_ptr());
        (self.gradient)(theta.as_ptr(), of_theta_at, x.as_ptr(), unused, r.as_mut_ptr(), lambda.as_mut_ptr());
        of_theta
    }
}

/// Cramer's rule, of a matrix by rows.
fn solved([a, b]: [Vector; N], r: Vector) -> Vector {
    let det = a[0] * b[1] - a[1] * b[0];
    [(r[0] * b[1] - a[1] * r[1]) / det, (a[0] * r[1] - r[0] * b[0]) / det]
}

extern "C" fn solve(theta: *const Vector, x: *mut Vector) {
    // SAFETY: the program passes two numbers each.
    let (theta, x) = unsafe { (&*theta, &mut *x) };
    Equation::get().solve(theta, x);
}

/// The call, and what its pullback needs: the solution, and θ if that may be another one by then.
extern "C" fn solve_augmented(theta: *const Vector, x: *mut Vector, overwritten: i64) -> i64 {
    solve(theta, x);
    // SAFETY: as above.
    let (theta, x) = unsafe { (*theta, *x) };
    Box::into_raw(Box::new(((overwritten & 1 != 0).then_some(theta), x))) as i64
}

extern "C" fn solve_adjoint(theta: *const Vector, of_theta: *mut Vector, of_x: *mut Vector, record: i64) {
    // SAFETY: the record is of `solve_augmented`, and a gradient runs its reverse half once.
    let (recorded, x) = unsafe { *Box::from_raw(record as *mut (Option<Vector>, Vector)) };
    // SAFETY: shadows are as large as what they belong to.
    let (theta, of_x) = unsafe { (recorded.unwrap_or(*theta), &mut *of_x) };
    // What is overwritten gives its cotangent away.
    let found = Equation::get().pullback(&theta, &x, std::mem::take(of_x));
    // SAFETY: as above; null if θ is constant.
    if let Some(of_theta) = unsafe { of_theta.as_mut() } {
        of_theta.iter_mut().zip(found).for_each(|(t, f)| *t += f);
    }
}

const RULE: &str = "theta, x => adjoint solve__adjoint(theta, dtheta, dx, record) \
                    after solve__augmented(theta, x, overwritten)";

/// Value and gradient of x₀·x₁ in θ.
pub(crate) fn value_and_gradient(theta: Vector) -> Result<(f64, Vector), Box<dyn std::error::Error>> {
    let mut builder = JITBuilder::new(default_libcall_names())?;
    builder.symbols([
        ("solve", solve as *const u8),
        ("solve__augmented", solve_augmented as *const u8),
        ("solve__adjoint", solve_adjoint as *const u8),
    ]);
    let mut module = AdModule::new(JITModule::new(builder));
    let ids = text::define(&mut module, TEXT)?;
    module.set_rule("solve", UserRule::parse(RULE)?);
    let tangent = module.derivative(ids[0], &Spec::tangent([Const, Dual, Dual]))?;
    let gradient = module.derivative(ids[0], &Spec::gradient([Duplicated; 3]))?;
    let of_f = Spec::gradient([Duplicated, Duplicated]).results([ReturnActivity::Active]);
    let of_f = module.derivative(ids[1], &of_f)?;
    module.finalize_definitions()?;
    let code = |id| module.get_finalized_function(id);
    // SAFETY: `signature` has these parameters and results.
    let (equation, f) = unsafe {
        type Gradient = extern "C" fn(*mut f64, *mut f64, *mut f64, *mut f64, f64) -> f64;
        let equation = Equation {
            residual: std::mem::transmute::<*const u8, extern "C" fn(*const f64, *const f64, *mut f64)>(code(ids[0])),
            tangent: std::mem::transmute::<
                *const u8,
                extern "C" fn(*const f64, *const f64, *const f64, *mut f64, *mut f64),
            >(code(tangent)),
            gradient: std::mem::transmute::<
                *const u8,
                extern "C" fn(*const f64, *mut f64, *const f64, *mut f64, *mut f64, *mut f64),
            >(code(gradient)),
        };
        (equation, std::mem::transmute::<*const u8, Gradient>(code(of_f)))
    };
    let _ = EQUATION.set(equation);
    let (mut theta, mut of_theta) = (theta, [0.0; N]);
    let (mut x, mut of_x) = ([1.0; N], [0.0; N]);
    let value = f(theta.as_mut_ptr(), of_theta.as_mut_ptr(), x.as_mut_ptr(), of_x.as_mut_ptr(), 1.0);
    // The code that the equation is in stays.
    std::mem::forget(module);
    Ok((value, of_theta))
}

#[cfg_attr(test, expect(dead_code, reason = "a test has no use for it"))]
fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (value, gradient) = value_and_gradient([2.0, 0.5])?;
    println!("value {value}\ngradient {gradient:?}");
    Ok(())
}
