//! Rows of opcodes against the opcodes, as Cranelift compiles them.

use brolga_rules::check::{Probe, Width, check, measure};
use brolga_rules::{ExprRow, OpcodeRule, opcode_rule};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Opcode, Type, Value, types};
use cranelift_frontend::FunctionBuilder;

use crate::subjects::{Compiled, lane, lanes, scalar};

/// Opcodes with a formula.
pub(crate) fn expr_rows() -> impl Iterator<Item = (Opcode, &'static ExprRow)> {
    Opcode::all().iter().filter_map(|&op| match opcode_rule(op) {
        OpcodeRule::Expr(row) => Some((op, row)),
        _ => None,
    })
}

/// Values that a lane may have: signs, zeros, ties, small, large, denormal.
fn values(width: Width) -> Vec<f64> {
    let mut values = vec![0.0, 0.3, 0.5, 1.0, 1.75, 3.0, 1e5];
    match width {
        Width::F64 => values.extend([5e-324, 1e-310, 1e-200, 1e-9, 1e150, 1e300]),
        Width::F32 => values.extend([1e-45, 1e-40, 1e-20, 1e-4, 1e18, 1e38]),
    }
    let negative: Vec<f64> = values.iter().map(|x| -x).collect();
    values.extend(negative);
    values
}

/// All tuples of values; only some of them for three operands.
fn points(width: Width, n_operands: usize) -> Vec<Vec<f64>> {
    let values = if n_operands < 3 { values(width) } else { values(width).into_iter().step_by(3).collect() };
    let mut points = vec![vec![]];
    for _ in 0..n_operands {
        points = points.iter().flat_map(|p: &Vec<f64>| values.iter().map(|&x| [&p[..], &[x]].concat())).collect();
    }
    points
}

/// Measurements at all points.
pub(crate) fn probes(op: Opcode, row: &ExprRow, width: Width) -> Vec<Probe> {
    let code = Compiled::opcode(op, scalar(width), row.n_operands());
    let f = |x: &[f64]| vec![code.run_scalar(width, x)];
    let mut points = points(width, row.n_operands());
    // The quotient's partials overflow for a denormal divisor, in both the row and the truth; the
    // order differs.
    if op == Opcode::Fdiv {
        points.retain(|p| p[1].abs() >= 1e-30);
    }
    measure(&f, width, &points, |_, _| true)
}

#[test]
fn rows_agree_with_differences() {
    for (op, row) in expr_rows() {
        for width in [Width::F64, Width::F32] {
            let evidence = check(row, width, &probes(op, row, width))
                .unwrap_or_else(|e| panic!("{op} {width:?}: {} mismatches\n{}\n{}", e.len(), e[0], e[e.len() - 1]));
            assert!(evidence.sharp.iter().all(|&n| n >= 5), "{op} {width:?}: too little evidence: {evidence:?}");
        }
    }
}

/// Why a formula for scalars serves vectors.
#[test]
fn vectors_are_scalars_lane_by_lane() {
    for (op, row) in expr_rows() {
        // No backend compiles this one on vectors.
        if op == Opcode::Fcopysign {
            continue;
        }
        for (width, ty) in [(Width::F64, types::F64X2), (Width::F32, types::F32X4)] {
            let n_lanes = ty.lane_count() as usize;
            let of_scalars = Compiled::opcode(op, scalar(width), row.n_operands());
            let of_vectors = Compiled::opcode(op, ty, row.n_operands());
            for point in points(width, row.n_operands()).chunks_exact(n_lanes) {
                let operands: Vec<_> = (0..row.n_operands())
                    .map(|i| lanes(width, &point.iter().map(|p| p[i]).collect::<Vec<_>>()))
                    .collect();
                let result = of_vectors.run(&operands);
                for (i, p) in point.iter().enumerate() {
                    let (a, b) = (lane(width, &result, i), of_scalars.run_scalar(width, p));
                    assert!(a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(), "{op} {ty} at {p:?}: {a} and {b}");
                }
            }
        }
    }
}

/// What is compiled to test the claim that an opcode's derivative is zero.
pub(crate) type Build = Box<dyn Fn(&mut FunctionBuilder, Value) -> Value>;

/// For each opcode whose row is `Zero`, functions of one float, or of a vector of floats, to
/// integers or floats. `None` if no float goes in.
pub(crate) fn zero_subjects(op: Opcode) -> Option<Vec<(Type, Build)>> {
    fn build(f: impl Fn(&mut FunctionBuilder, Value) -> Value + 'static) -> Build {
        Box::new(f)
    }
    let unary = |from: Type, to: Type| {
        (
            from,
            build(move |b, x| {
                let (inst, dfg) = b.ins().Unary(op, to, x);
                dfg.first_result(inst)
            }),
        )
    };
    let one = |b: &mut FunctionBuilder, ty| match ty {
        types::F32 => b.ins().f32const(1.0),
        _ => b.ins().f64const(1.0),
    };
    Some(match op {
        Opcode::Ceil | Opcode::Floor | Opcode::Trunc | Opcode::Nearest => {
            [types::F64, types::F32, types::F64X2, types::F32X4].map(|ty| unary(ty, ty)).into()
        }
        Opcode::Fcmp => FloatCC::all()
            .iter()
            .flat_map(|&cc| [types::F64, types::F32].map(|ty| (cc, ty)))
            .map(|(cc, ty)| {
                (
                    ty,
                    build(move |b, x| {
                        let y = one(b, ty);
                        b.ins().fcmp(cc, x, y)
                    }),
                )
            })
            .collect(),
        Opcode::Icmp => [IntCC::Equal, IntCC::SignedLessThan, IntCC::UnsignedGreaterThan]
            .map(|cc| {
                (
                    types::F64,
                    build(move |b, x| {
                        let y = b.ins().f64const(1.0);
                        let x = b.ins().bitcast(types::I64, MemFlagsData::new(), x);
                        let y = b.ins().bitcast(types::I64, MemFlagsData::new(), y);
                        b.ins().icmp(cc, x, y)
                    }),
                )
            })
            .into(),
        Opcode::Bmask => vec![(
            types::F64,
            build(|b, x| {
                let x = b.ins().bitcast(types::I64, MemFlagsData::new(), x);
                b.ins().bmask(types::I64, x)
            }),
        )],
        Opcode::VanyTrue | Opcode::VallTrue => vec![unary(types::F64X2, types::F64X2)],
        Opcode::VhighBits => vec![unary(types::F64X2, types::I8), unary(types::F32X4, types::I8)],
        Opcode::FcvtToUint | Opcode::FcvtToSint | Opcode::FcvtToUintSat | Opcode::FcvtToSintSat => {
            vec![unary(types::F64, types::I64), unary(types::F32, types::I32), unary(types::F32, types::I64)]
        }
        Opcode::X86Cvtt2dq => vec![unary(types::F32X4, types::I32X4)],
        // No float goes in.
        Opcode::FcvtFromUint | Opcode::FcvtFromSint => return None,
        Opcode::F16const | Opcode::F32const | Opcode::F64const | Opcode::F128const | Opcode::Vconst => return None,
        other => panic!("{other} claims a derivative of zero, and no test has a subject for it"),
    })
}

#[test]
fn zero_rows_are_flat() {
    for &op in Opcode::all() {
        if opcode_rule(op) != OpcodeRule::Zero {
            continue;
        }
        for (ty, build) in zero_subjects(op).into_iter().flatten() {
            let width = if ty.lane_type() == types::F32 { Width::F32 } else { Width::F64 };
            let code = Compiled::new(&[ty], |b, x| build(b, x[0]));
            let mut results = std::collections::BTreeSet::new();
            // No conversion traps on these, and whole and half numbers are at least 0.003 away.
            for x in (0..4000).map(|k| 0.013 + 0.37 * f64::from(k)) {
                let splat = |x: f64| lanes(width, &vec![x; ty.lane_count() as usize]);
                let near = x + 0.002;
                assert_eq!(code.run(&[splat(x)]), code.run(&[splat(near)]), "{op} {ty} is not flat at {x}");
                results.insert(code.run(&[splat(x)]));
            }
            let negative = lanes(width, &vec![-0.25; ty.lane_count() as usize]);
            if op != Opcode::FcvtToUint {
                results.insert(code.run(&[negative]));
                results.insert(code.run(&[[0; 16]]));
            }
            // Every positive number is ordered, for one.
            let constant_here = matches!(op, Opcode::Fcmp | Opcode::Icmp);
            assert!(results.len() > 1 || constant_here, "{op} {ty} was not exercised");
        }
    }
}
