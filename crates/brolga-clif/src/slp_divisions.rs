//! SLP of divisions: two divisions by one number become one division of two lanes.
//!
//! **Problem.** The reverse of `z = x / y` divides by `y` again: `z̄ / y` goes to `x`, and `-z`
//! times that to `y`. Where `z` has not been recorded but is computed again, that is a second
//! division by the same number. A processor has one unit for divisions, which works on one for four
//! cycles and more, while it adds and multiplies eight numbers.
//!
//! **Answer.** The unit divides two numbers in as many cycles as one. Of two divisions of scalars
//! by one value in one block, of which neither waits for the other, one of vectors is made:
//!
//! ```text
//! v3 = fdiv v1, v0          v5 = splat.f64x2 v0
//!  …                   ─►   v6 = insertlane (splat.f64x2 v1), v2, 1
//! v4 = fdiv v2, v0          v7 = fdiv v6, v5
//!                           v3 = extractlane v7, 0
//!                           v4 = extractlane v7, 1
//! ```
//!
//! It stands where the last of what it reads is there; arithmetic that reads a quotient before that
//! waits for it, unless what is divided is made of it. Two quotients of the same two values become
//! one.
//!
//! A caller that chooses what to compute again can count on it: a division is otherwise too dear to
//! be done again, but where the reverse of one divides anyway, its result is computed again if the
//! block then records at most three fifths of what it would. For less than that it does not pay:
//! the pullback begins with waiting for the quotient, while a record that stays in the cache costs
//! next to nothing (`planets` and `wasm/nbody` record a fifth less with all quotients computed
//! again, and take a twelfth longer).
//!
//! **Why it is the same.** Lanes are divided as scalars are, bit by bit, and a division of floats
//! neither traps nor reads memory, so it may stand anywhere after its operands and before its
//! uses. The lanes of an `f32x4` that are not asked for divide what the first divides.
//!
//! **Where.** After all that is done to loops, where passes look for divisions
//! of scalars; in blocks that are not cold.
//!
//! **Cost.** One walk over each block counts divisions. Each pair then costs a walk over its block
//! for each of the next four divisions by the same number, until one fits. Blocks of more than 4000
//! instructions are left alone.
//!
//! **Source.** Larsen and Amarasinghe, *Exploiting superword level parallelism with multimedia
//! instruction sets* (2000).

use crate::map::{HashMap, HashSet, IndexMap};
use crate::pure::is_pure;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, Opcode, Type, Value, types};

/// Instructions of a block beyond which the pass does not look.
const MOST: usize = 4000;
/// How many of the divisions that follow are looked at for a second one.
const NEAR: usize = 4;

/// Divide two by two, in all blocks where that can be; says how many pairs there are.
pub fn slp_divisions(func: &mut ir::Function) -> usize {
    // Most blocks are looked at once, and have none.
    let wanted = |b: &ir::Block| {
        let (mut insts, mut divisions) = (0, 0);
        for inst in func.layout.block_insts(*b) {
            insts += 1;
            divisions += usize::from(func.dfg.insts[inst].opcode() == Opcode::Fdiv);
        }
        !func.layout.is_cold(*b) && insts <= MOST && divisions > 1
    };
    let blocks: Vec<ir::Block> = func.layout.blocks().filter(wanted).collect();
    blocks.into_iter().map(|b| in_block(func, b)).sum()
}

/// The vector of which a scalar is one lane, if that is one which is divided.
fn vector_of(scalar: Type) -> Option<Type> {
    match scalar {
        types::F64 => Some(types::F64X2),
        types::F32 => Some(types::F32X4),
        _ => None,
    }
}

/// A division in a block: the instruction, and what it divides.
#[derive(Clone, Copy)]
struct Division {
    inst: ir::Inst,
    of: Value,
}

fn in_block(func: &mut ir::Function, block: ir::Block) -> usize {
    // By divisor, in the order of the block.
    let mut by: IndexMap<Value, Vec<Division>> = IndexMap::default();
    for inst in func.layout.block_insts(block) {
        if func.dfg.insts[inst].opcode() == Opcode::Fdiv && vector_of(func.dfg.ctrl_typevar(inst)).is_some() {
            let args = func.dfg.inst_args(inst);
            let (of, y) = (func.dfg.resolve_aliases(args[0]), func.dfg.resolve_aliases(args[1]));
            by.entry(y).or_default().push(Division { inst, of });
        }
    }
    by.retain(|_, all| all.len() > 1);
    let mut pairs = 0;
    for (y, mut all) in by {
        deduplicate(func, &mut all);
        while all.len() > 1 {
            let first = all.remove(0);
            // What was done before has moved what stands in the block.
            let insts: Vec<ir::Inst> = func.layout.block_insts(block).collect();
            let near = all.iter().take(NEAR).enumerate();
            let second = near.filter_map(|(k, d)| Some((k, meeting(func, &insts, y, [first, *d])?))).next();
            if let Some((k, meeting)) = second {
                let second = all.remove(k);
                together(func, block, &meeting, y, [first, second]);
                pairs += 1;
            }
        }
    }
    pairs
}

/// Of divisions by one number, leave one for each number that is divided: the first.
fn deduplicate(func: &mut ir::Function, all: &mut Vec<Division>) {
    let mut first: HashMap<Value, Value> = HashMap::default();
    all.retain(|d| {
        let z = func.dfg.first_result(d.inst);
        let first_quotient = *first.entry(d.of).or_insert(z);
        if first_quotient != z {
            func.dfg.clear_results(d.inst);
            func.dfg.change_to_alias(z, first_quotient);
            func.layout.remove_inst(d.inst);
        }
        first_quotient == z
    });
}

/// Where in a block two divisions are done at once.
struct Meeting {
    /// After this instruction, or at the start of the block.
    after: Option<ir::Inst>,
    /// What stands before that and reads a quotient, in order. It moves after the division.
    waits: Vec<ir::Inst>,
}

/// The first place at which all is there that two divisions by a number read, if what reads their
/// results before may wait.
fn meeting(func: &ir::Function, insts: &[ir::Inst], by: Value, pair: [Division; 2]) -> Option<Meeting> {
    // What another pair gives has another name by now.
    let operands = [pair[0].of, pair[1].of, by].map(|v| func.dfg.resolve_aliases(v));
    let defines = |inst: &ir::Inst| func.dfg.inst_results(*inst).iter().any(|v| operands.contains(v));
    let from = insts.iter().rposition(defines).map_or(0, |n| n + 1);
    let mut late: HashSet<Value> = pair.iter().map(|d| func.dfg.first_result(d.inst)).collect();
    let mut waits = Vec::new();
    for &inst in insts[..from].iter().filter(|i| pair.iter().all(|d| d.inst != **i)) {
        if func.dfg.inst_values(inst).any(|v| late.contains(&func.dfg.resolve_aliases(v))) {
            if !is_pure(func.dfg.insts[inst].opcode()) {
                return None;
            }
            late.extend(func.dfg.inst_results(inst));
            waits.push(inst);
        }
    }
    let one_waits = operands.iter().any(|v| late.contains(v));
    (!one_waits).then(|| Meeting { after: from.checked_sub(1).map(|n| insts[n]), waits })
}

/// Make one of two divisions.
fn together(func: &mut ir::Function, block: ir::Block, meeting: &Meeting, y: Value, pair: [Division; 2]) {
    let vector = vector_of(func.dfg.value_type(y)).expect("it is divided by as a lane");
    let from = func.srcloc(pair[1].inst);
    // None of them is what it stands after: that defines an operand.
    pair.iter().for_each(|d| func.layout.remove_inst(d.inst));
    meeting.waits.iter().for_each(|&i| func.layout.remove_inst(i));
    let mut cursor = FuncCursor::new(func);
    match meeting.after {
        Some(inst) => cursor.goto_after_inst(inst),
        None => cursor.goto_first_insertion_point(block),
    }
    cursor.set_srcloc(from);
    let divisor = cursor.ins().splat(vector, y);
    let low = cursor.ins().splat(vector, pair[0].of);
    let both = cursor.ins().insertlane(low, pair[1].of, 1);
    let quotients = cursor.ins().fdiv(both, divisor);
    for (lane, d) in (0..).zip(pair) {
        let found = cursor.ins().extractlane(quotients, lane);
        let z = cursor.func.dfg.first_result(d.inst);
        cursor.func.dfg.clear_results(d.inst);
        cursor.func.dfg.change_to_alias(z, found);
    }
    meeting.waits.iter().for_each(|&i| cursor.insert_inst(i));
}

#[cfg(test)]
mod tests {
    use cranelift_codegen::data_value::DataValue;
    use cranelift_codegen::ir;

    use super::slp_divisions;

    /// What becomes of a function: its instructions, and how many pairs there are.
    fn divided(body: &str) -> (Vec<String>, usize) {
        let text = format!(
            "function %f(f64, f64, f64, f32, f32) -> f64 fast {{\nblock0(v0: f64, v1: f64, v2: f64, v3: f32, v4: f32):\n{body}\n}}"
        );
        let mut func = cranelift_reader::parse_functions(&text).unwrap_or_else(|e| panic!("{e}")).remove(0);
        let pairs = slp_divisions(&mut func);
        func.dfg.resolve_all_aliases();
        let flags = cranelift_codegen::settings::Flags::new(cranelift_codegen::settings::builder());
        cranelift_codegen::verify_function(&func, &flags).unwrap_or_else(|e| panic!("{e}"));
        let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
        (insts.map(|i| func.dfg.display_inst(i).to_string()).collect(), pairs)
    }

    /// That a function stays as it is.
    fn stays(body: &str) {
        let (left, pairs) = divided(body);
        assert_eq!(pairs, 0, "{left:?}");
        assert!(left.iter().all(|i| !i.contains("splat")), "{left:?}");
    }

    #[test]
    fn two_divisions_by_one_number_are_one() {
        let (left, pairs) =
            divided("v5 = fdiv v0, v2\n v6 = fadd v0, v1\n v7 = fdiv v6, v2\n v8 = fsub v5, v7\n return v8");
        assert_eq!(pairs, 1);
        let wanted = [
            "v6 = fadd.f64 v0, v1",
            "v9 = splat.f64x2 v2",
            "v10 = splat.f64x2 v0",
            "v11 = insertlane.f64x2 v10, v6, 1",
            "v12 = fdiv.f64x2 v11, v9",
            "v13 = extractlane.f64x2 v12, 0",
            "v14 = extractlane.f64x2 v12, 1",
            "v8 = fsub.f64 v13, v14",
            "return v8",
        ];
        assert_eq!(left, wanted);
    }

    #[test]
    fn what_waits_for_the_other_stays_alone() {
        stays("v5 = fdiv v0, v2\n v6 = fadd v5, v1\n v7 = fdiv v6, v2\n return v7");
        // The quotient itself, divided again.
        stays("v5 = fdiv v0, v2\n v7 = fdiv v5, v2\n return v7");
        // Through more than one step.
        stays("v5 = fdiv v0, v2\n v6 = fadd v5, v1\n v8 = fneg v6\n v7 = fdiv v8, v2\n return v7");
        // What cannot wait reads it before what the other divides is there.
        stays(
            "v5 = fdiv v0, v2\n v9 = iconst.i64 64\n store v5, v9\n v6 = load.f64 v9\n v7 = fdiv v6, v2\n
            v8 = fadd v5, v7\n return v8",
        );
    }

    #[test]
    fn what_reads_the_first_waits_for_the_second() {
        let body = "v5 = fdiv v0, v2\n v6 = fmul v5, v1\n v7 = fneg v6\n v8 = fadd v0, v1\n v9 = fdiv v8, v2\n
            v10 = fadd v7, v9\n return v10";
        let (left, pairs) = divided(body);
        assert_eq!(pairs, 1);
        let at = |text: &str| left.iter().position(|i| i.contains(text)).unwrap_or_else(|| panic!("{text}: {left:?}"));
        assert!(at("v8 =") < at("fdiv.f64x2") && at("fdiv.f64x2") < at("v6 =") && at("v6 =") < at("v7 ="), "{left:?}");
    }

    #[test]
    fn other_divisors_and_other_blocks_stay() {
        stays("v5 = fdiv v0, v2\n v6 = fdiv v0, v1\n v7 = fadd v5, v6\n return v7");
        stays("v5 = fdiv v0, v2\n jump block1\n block1:\n v6 = fdiv v1, v2\n v7 = fadd v5, v6\n return v7");
        stays("v5 = fmul v0, v2\n v6 = fmul v1, v2\n v7 = fadd v5, v6\n return v7");
        stays("jump block1\n block1 cold:\n v5 = fdiv v0, v2\n v6 = fdiv v1, v2\n v7 = fadd v5, v6\n return v7");
    }

    #[test]
    fn a_quotient_is_computed_once_and_goes_to_all_that_read_it() {
        let (left, pairs) = divided(
            "v5 = fdiv v0, v2\n v6 = fdiv v0, v2\n v7 = fdiv v1, v2\n v8 = fsub v5, v6\n v9 = fsub v8, v7\n return v9",
        );
        assert_eq!(pairs, 1);
        assert_eq!(left.iter().filter(|i| i.contains("fdiv")).count(), 1, "{left:?}");
        assert!(left.iter().any(|i| i.contains("fsub") && i.ends_with("v14, v14")), "{left:?}");
    }

    #[test]
    fn three_are_a_pair_and_one_and_four_are_two_pairs() {
        let three =
            "v5 = fdiv v0, v2\n v6 = fdiv v1, v2\n v7 = fdiv v2, v2\n v8 = fadd v5, v6\n v9 = fadd v8, v7\n return v9";
        assert_eq!(divided(three).1, 1);
        let four = "v10 = fadd v0, v1\n v5 = fdiv v0, v2\n v6 = fdiv v1, v2\n v7 = fdiv v2, v2\n v11 = fdiv v10, v2\n
            v8 = fadd v5, v6\n v9 = fadd v8, v7\n v12 = fadd v9, v11\n return v12";
        assert_eq!(divided(four).1, 2);
    }

    #[test]
    fn quotients_of_a_pair_are_divided_as_a_pair() {
        let both =
            "v5 = fdiv v0, v2\n v6 = fdiv v1, v2\n v7 = fdiv v5, v1\n v8 = fdiv v6, v1\n v9 = fadd v7, v8\n return v9";
        assert_eq!(divided(both).1, 2);
    }

    #[test]
    fn singles_have_two_of_four_lanes() {
        let (left, pairs) = divided(
            "v5 = fdiv v3, v4\n v6 = fadd v3, v4\n v7 = fdiv v6, v4\n v8 = fadd v5, v7\n v9 = fpromote.f64 v8\n return v9",
        );
        assert_eq!(pairs, 1);
        assert!(left.iter().any(|i| i.contains("splat.f32x4")), "{left:?}");
    }

    #[test]
    fn pairs_give_the_bits_that_single_divisions_give() {
        use cranelift_interpreter::environment::FunctionStore;
        use cranelift_interpreter::interpreter::{Interpreter, InterpreterState};
        use cranelift_interpreter::step::ControlFlow;
        let text = "function %f(f64, f64, f64) -> f64, f64, f64 fast {
            block0(v0: f64, v1: f64, v2: f64):
                v3 = fdiv v0, v2
                v4 = fsub v1, v0
                v5 = fdiv v4, v2
                v6 = fdiv v1, v2
                return v3, v5, v6
            }";
        let read = || cranelift_reader::parse_functions(text).unwrap_or_else(|e| panic!("{e}")).remove(0);
        let (plain, mut paired) = (read(), read());
        assert_eq!(slp_divisions(&mut paired), 1);
        paired.dfg.resolve_all_aliases();
        let run = |func: &ir::Function, args: [f64; 3]| {
            let mut store = FunctionStore::default();
            store.add("f".into(), func);
            let state = InterpreterState::default().with_function_store(store);
            let args = args.map(|x| DataValue::F64(x.into()));
            let flow = Interpreter::new(state).call_by_name("f", &args).unwrap_or_else(|e| panic!("{e}"));
            let ControlFlow::Return(found) = flow else { panic!("it returns") };
            format!("{found:?}")
        };
        let numbers = [1.0, -0.0, 3.0, 1e-310, 1e300, f64::INFINITY, -7.25e-3];
        for x in numbers {
            for y in numbers {
                for by in numbers {
                    assert_eq!(run(&plain, [x, y, by]), run(&paired, [x, y, by]), "{x} {y} {by}");
                }
            }
        }
    }
}
