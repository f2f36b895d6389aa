//! Functions of equations, as a frontend of models writes them: a loop for each tensor, sums in
//! slots, indices and constants in tables, no flags on any access.

use brolga_ir::{DataObject, Program};
use brolga_module::ParamActivity::{Const, DuplicatedOnly};
use brolga_module::{ParamRole, ParamSpec, Room, Spec};
use cranelift_codegen::data_value::DataValue;

use crate::common::{Fixture, address, double};

const N: usize = 4;
const A: [f64; N] = [0.5, -1.5, 2.0, 0.25];
const W: [f64; 6] = [2.0, -0.5, 0.0, 3.0, 1.25, -4.0];
const COLUMNS: [usize; 6] = [0, 2, 3, 1, 0, 3];
const ROWS: [usize; N + 1] = [0, 2, 3, 4, 6];

/// `s = p u₀` (a loop of one turn), `rᵢ = aᵢ uᵢ²`, `outᵢ = s Σₖ wₖ r(columnₖ)`; `p, r, s` are in
/// `data`. And `outᵢ = aᵢ uᵢ`.
const TEXT: &str = "
function %rhs(f64, i64, i64, i64, i32, i32) {
    gv0 = symbol %a
    gv1 = symbol %w
    gv2 = symbol %columns
    gv3 = symbol %rows
    ss0 = explicit_slot 8
    ss1 = explicit_slot 8
block0(v0: f64, v1: i64, v2: i64, v3: i64, v4: i32, v5: i32):
    v6 = iconst.i32 0
    v7 = iconst.i32 1
    v8 = iconst.i64 8
    v9 = f64const 0.0
    v10 = symbol_value.i64 gv0
    v11 = symbol_value.i64 gv1
    v12 = symbol_value.i64 gv2
    v13 = symbol_value.i64 gv3
    v14 = iadd v2, v8
    v15 = stack_addr.i64 ss0
    store v9, v15
    jump block1(v6)
block1(v20: i32):
    v21 = load.f64 v2
    v22 = load.f64 v1
    v23 = fmul v21, v22
    v24 = stack_addr.i64 ss0
    v25 = load.f64 v24
    v26 = fadd v25, v23
    v27 = stack_addr.i64 ss0
    store v26, v27
    v28 = load.f64 v27
    store v28, v2+40
    v29 = iadd v20, v7
    v30 = iconst.i32 1
    v31 = icmp ult v29, v30
    brif v31, block1(v29), block2(v6)
block2(v40: i32):
    v41 = sextend.i64 v40
    v42 = imul v41, v8
    v43 = iadd v10, v42
    v44 = load.f64 v43
    v45 = iadd v1, v42
    v46 = load.f64 v45
    v47 = fmul v44, v46
    v48 = load.f64 v45
    v49 = fmul v47, v48
    v50 = iadd v14, v42
    store v49, v50
    v51 = iadd v40, v7
    v52 = iconst.i32 4
    v53 = icmp ult v51, v52
    brif v53, block2(v51), block3(v6)
block3(v60: i32):
    v61 = stack_addr.i64 ss1
    store v9, v61
    v62 = sextend.i64 v60
    v63 = iconst.i64 4
    v64 = imul v62, v63
    v65 = iadd v13, v64
    v66 = load.i32 v65
    v67 = load.i32 v65+4
    jump block4(v66)
block4(v70: i32):
    v71 = sextend.i64 v70
    v72 = imul v71, v63
    v73 = iadd v12, v72
    v74 = load.i32 v73
    v75 = sextend.i64 v74
    v76 = imul v75, v8
    v77 = iadd v14, v76
    v78 = load.f64 v77
    v79 = imul v71, v8
    v80 = iadd v11, v79
    v81 = load.f64 v80
    v82 = fmul v81, v78
    v83 = load.f64 v2+40
    v84 = fmul v82, v83
    v85 = stack_addr.i64 ss1
    v86 = load.f64 v85
    v87 = fadd v86, v84
    store v87, v85
    v88 = iadd v70, v7
    v89 = icmp slt v88, v67
    brif v89, block4(v88), block5
block5:
    v90 = stack_addr.i64 ss1
    v91 = load.f64 v90
    v92 = imul v62, v8
    v93 = iadd v3, v92
    store v91, v93
    v94 = iadd v60, v7
    v95 = icmp ult v94, v52
    brif v95, block3(v94), block6
block6:
    return
}
function %mass(f64, i64, i64, i64, i32, i32) {
    gv0 = symbol %a
block0(v0: f64, v1: i64, v2: i64, v3: i64, v4: i32, v5: i32):
    v6 = iconst.i32 0
    v7 = symbol_value.i64 gv0
    jump block1(v6)
block1(v10: i32):
    v11 = sextend.i64 v10
    v12 = iconst.i64 8
    v13 = imul v11, v12
    v14 = iadd v7, v13
    v15 = load.f64 v14
    v16 = iadd v1, v13
    v17 = load.f64 v16
    v18 = fmul v15, v17
    v19 = iadd v3, v13
    store v18, v19
    v20 = iconst.i32 1
    v21 = iadd v10, v20
    v22 = iconst.i32 4
    v23 = icmp ult v21, v22
    brif v23, block1(v21), block2
block2:
    return
}";

fn program() -> Program {
    let mut program = brolga_testing::program(TEXT);
    let floats = |x: &[f64]| x.iter().flat_map(|x| x.to_ne_bytes()).collect();
    let indices = |x: &[usize]| x.iter().flat_map(|&i| (i as i32).to_ne_bytes()).collect();
    for (symbol, bytes) in
        [("a", floats(&A)), ("w", floats(&W)), ("columns", indices(&COLUMNS)), ("rows", indices(&ROWS))]
    {
        let object = DataObject { symbol: symbol.into(), bytes, align: 8, writable: false, functions: vec![] };
        program.define_data(object).unwrap();
    }
    program
}

fn gradient() -> Spec {
    let array = ParamSpec::from(DuplicatedOnly).noalias();
    let other = ParamSpec::from(Const);
    Spec::gradient([other, array, array, array, other, other])
}

struct Model {
    fixture: Fixture,
    id: cranelift_module::FuncId,
}

impl Model {
    fn new(symbol: &str, spec: &Spec) -> Self {
        let mut fixture = Fixture::of(&program(), symbol);
        let id = fixture.derivative(symbol, spec);
        fixture.finish();
        Self { fixture, id }
    }

    /// Arrays and their shadows; an empty array is a null pointer.
    fn call(&self, [u, data, out]: [&mut [f64]; 3], [du, ddata, dout]: [&mut [f64]; 3]) {
        let at = |x: &mut [f64]| if x.is_empty() { DataValue::I64(0) } else { address(x) };
        self.fixture.call(self.id, |role| match role {
            ParamRole::Primal(0) => double(0.0),
            ParamRole::Primal(1) => at(u),
            ParamRole::Primal(2) => at(data),
            ParamRole::Primal(3) => at(out),
            ParamRole::Primal(_) => DataValue::I32(0),
            ParamRole::Shadow(1) => at(du),
            ParamRole::Shadow(2) => at(ddata),
            ParamRole::Shadow(3) => at(dout),
            other => panic!("{other:?}"),
        });
    }
}

const U: [f64; N] = [0.7, -1.1, 0.4, 1.9];
const P: f64 = 1.3;

fn data() -> [f64; 6] {
    let r = |i: usize| A[i] * U[i] * U[i];
    [P, r(0), r(1), r(2), r(3), P * U[0]]
}

/// Cotangents of `u` and of `p` for seeds of `out`.
fn closed_form(seeds: [f64; N]) -> ([f64; N], f64) {
    let (d, mut du, mut of_s) = (data(), [0.0; N], 0.0);
    for i in 0..N {
        for k in ROWS[i]..ROWS[i + 1] {
            let j = COLUMNS[k];
            du[j] += seeds[i] * d[5] * W[k] * 2.0 * A[j] * U[j];
            of_s += seeds[i] * W[k] * d[1 + j];
        }
    }
    du[0] += of_s * P;
    (du, of_s * U[0])
}

#[test]
fn a_model_needs_no_workspace_and_its_shadows_are_exact() {
    let m = Model::new("rhs", &gradient());
    assert_eq!(m.fixture.module.room(m.id), Some(Room::Nothing));
    let seeds = [0.3, -1.0, 2.0, 0.7];
    let (mut u, mut d, mut out) = (U, data(), [0.0; N]);
    let (mut du, mut ddata) = ([0.125; N], [0.0; 6]);
    for turn in 1..=2 {
        let mut dout = seeds;
        m.call([&mut u, &mut d, &mut out], [&mut du, &mut ddata, &mut dout]);
        let (want, of_p) = closed_form(seeds);
        for j in 0..N {
            let want = 0.125 + f64::from(turn) * want[j];
            assert!((du[j] - want).abs() < 1e-13, "{turn} {j}: {} {want}", du[j]);
        }
        assert!((ddata[0] - f64::from(turn) * of_p).abs() < 1e-13);
        // Seeds are taken, and so are the cotangents of what is computed on the way.
        assert_eq!((dout, &ddata[1..]), ([0.0; N], &[0.0; 5][..]));
        assert_eq!((u, d.map(f64::to_bits)), (U, data().map(f64::to_bits)));
    }
}

/// Which inputs an output depends on, found by NaN: also where a factor is zero.
#[test]
fn nan_that_goes_in_comes_out() {
    let models = [gradient().weak_zero(), gradient()].map(|spec| Model::new("rhs", &spec));
    let found = |m: &Model, mut u: [f64; N], mut seeds: [f64; N]| {
        let (mut d, mut out, mut du, mut ddata) = (data(), [0.0; N], [0.0; N], [0.0; 6]);
        m.call([&mut u, &mut d, &mut out], [&mut du, &mut ddata, &mut seeds]);
        du.map(f64::is_nan)
    };
    for i in 0..N {
        let mut seeds = [0.0; N];
        seeds[i] = f64::NAN;
        let depends = |j: usize| j == 0 || COLUMNS[ROWS[i]..ROWS[i + 1]].contains(&j);
        assert_eq!(found(&models[0], U, seeds), std::array::from_fn(depends), "{i}");
    }
    // Of an input, with seeds of zero: only where zeros are weak.
    let mut u = U;
    u[3] = f64::NAN;
    assert_eq!(models.map(|m| found(&m, u, [0.0; N])[3]), [true, false]);
}

#[test]
fn what_the_pullback_does_not_need_is_not_read() {
    let m = Model::new("mass", &gradient());
    let (mut dv, mut dmv) = ([1.0; N], [1.0, 2.0, 3.0, 4.0]);
    // `v` and `mv` are null pointers.
    m.call([&mut [], &mut [0.0], &mut []], [&mut dv, &mut [0.0], &mut dmv]);
    assert_eq!((dv, dmv), ([1.5, -2.0, 7.0, 2.0], [0.0; N]));
}
