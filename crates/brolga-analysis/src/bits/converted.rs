//! Digits by conversion: floats that are put together from an integer that was a float's value.
//!
//! **Question.** `bitcast (fcvt_to_sint (a·x + b))` is about 2ˣ: a program writes a number where a
//! float has its exponent and its digits. A conversion to an integer has no slope, but here the
//! integer counts as digits of the result. Which conversions do?
//!
//! **Answer.** Those whose result leads to a cast to a float, or to a store to a place from which a
//! float is loaded, by moves, sums and shifts that leave [`DIGITS`] digits of the mantissa or more
//! to it. `(n + 127) << 23` is a power of two, whose exponent is a whole number; a table of 2ᵏ
//! entries that is indexed by last digits leaves k.
//!
//! ```text
//! v1 = fcvt_to_sint.i32 v0 ; v2 = bitcast.f32 v1                        digits
//! v1 = fcvt_to_sint.i32 v0 ; v2 = ishl v1, 23 ; v3 = bitcast.f32 v2     an exponent
//! ```
//!
//! **Cost.** Nothing where no float is converted to an integer; otherwise one walk back from casts.
//!
//! **Source.** N. N. Schraudolph: A fast, compact approximation of the exponential function. Neural
//! Computation 11 (1999), for what such programs compute.

use brolga_ir::map::{HashMap, HashSet};
use cranelift_codegen::ir::{self, Opcode, ValueDef};
use cranelift_entity::EntitySet;

use crate::bits::exponent::mantissa_bits;
use crate::cfg::Cfg;
use crate::query::cell::{Cell, cell_of};
use crate::query::{access_address, access_offset, constant_int};

/// Digits that an approximation is made of. Tables of mathematical functions have fewer.
const DIGITS: i64 = 16;

/// The conversions whose results are digits of floats.
pub fn digits(func: &ir::Function, cfg: &Cfg) -> EntitySet<ir::Inst> {
    let mut found = EntitySet::new();
    let op = |i: ir::Inst| func.dfg.insts[i].opcode();
    if !cfg.all_insts().iter().any(|&i| converts(op(i))) {
        return found;
    }
    let lane = |v: ir::Value| func.dfg.value_type(v).lane_type();
    let cell = |i: ir::Inst| Some(cell_of(func, access_address(func, i)?, access_offset(func, i)));
    let loads_float = |i: ir::Inst| op(i) == Opcode::Load && lane(func.dfg.first_result(i)).is_float();
    let floats: HashSet<Cell> = cfg.all_insts().iter().filter(|&&i| loads_float(i)).filter_map(|&i| cell(i)).collect();
    // By how much a value may still be shifted up.
    let mut room: HashMap<ir::Value, i64> = HashMap::default();
    let mut work: Vec<(ir::Value, i64)> = Vec::new();
    for &i in cfg.all_insts() {
        let x = match op(i) {
            Opcode::Bitcast if lane(func.dfg.first_result(i)).is_float() => func.dfg.inst_args(i)[0],
            Opcode::Store if cell(i).is_some_and(|cell| floats.contains(&cell)) => func.dfg.inst_args(i)[0],
            _ => continue,
        };
        work.extend(mantissa_bits(lane(x)).map(|bits| (x, bits - DIGITS)));
    }
    while let Some((v, left)) = work.pop() {
        if room.get(&v).is_some_and(|&known| known >= left) {
            continue;
        }
        room.insert(v, left);
        let inst = match func.dfg.value_def(v) {
            ValueDef::Param(b, i) => {
                work.extend(cfg.incoming(b, i).map(|v| (v, left)));
                continue;
            }
            ValueDef::Result(inst, _) => inst,
            ValueDef::Union(..) => continue,
        };
        let args = func.dfg.inst_args(inst);
        match op(inst) {
            op if converts(op) => {
                found.insert(inst);
            }
            Opcode::Iadd
            | Opcode::Isub
            | Opcode::Bor
            | Opcode::Bitselect
            | Opcode::Select
            | Opcode::Bitcast
            | Opcode::Uextend
            | Opcode::Sextend
            | Opcode::Ireduce
            | Opcode::Splat
            | Opcode::Insertlane
            | Opcode::Extractlane => work.extend(args.iter().map(|&a| (a, left))),
            Opcode::Ishl => {
                let by = constant_int(func, args[1]).filter(|&by| by <= left);
                work.extend(by.map(|by| (args[0], left - by)));
            }
            _ => {}
        }
    }
    found
}

fn converts(op: Opcode) -> bool {
    matches!(op, Opcode::FcvtToSint | Opcode::FcvtToUint | Opcode::FcvtToSintSat | Opcode::FcvtToUintSat)
}
