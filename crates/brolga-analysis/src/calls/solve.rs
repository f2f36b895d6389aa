//! Type inference of one function: pointers, contents of memory and widths of bits, together.
//!
//! **Question.** Which integers are pointers depends on what memory holds, and the other way round;
//! what memory holds depends on the widths of floats that integers carry. What is the answer to
//! all three?
//!
//! **Answer.** They are computed in turn until nothing changes. What has been taken for a pointer
//! stays one, so that this ends.
//!
//! **Cost.** A few rounds, each linear in the function.

use brolga_ir::Program;
use cranelift_codegen::ir::{self, types};
use cranelift_entity::{EntitySet, SecondaryMap};

use crate::activity::ulp::Steps;
use crate::activity::width::{self, LaneInput};
use crate::kinds::contents;
use crate::kinds::loaded_bits::is_only_stored;
use crate::kinds::pointers::{self, PointerInput, RootKind};
use crate::lattice::kinds::Kinds;
use crate::query::{access_address, is_taped_address};
use crate::uses::Uses;
use crate::variant::{ParamMode, ResultMode};

/// Modes of the parameters of a function of which no caller is known.
pub(crate) fn as_callee(program: &Program, func: &ir::Function) -> Vec<ParamMode> {
    let is_pointer = |p: &ir::AbiParam| match program.vmctx_pointers_only {
        true => p.purpose == ir::ArgumentPurpose::VMContext,
        false => p.value_type == types::I64,
    };
    let pointer = ParamMode::Dup { sure: false, holds: Kinds::NONE, recycled: false, floats: false, bits: true };
    func.signature.params.iter().map(|p| if is_pointer(p) { pointer } else { ParamMode::Const }).collect()
}

/// Whether a call's result has been taken for a pointer that is not used as an address.
fn is_unaddressed_result(p: &pointers::Pointers, v: ir::Value) -> bool {
    matches!(p.roots.get(&v), Some(RootKind::Call(..))) && !p.address.contains(v)
}

/// Whether a word that is moved need not be asked what it is: it is not just stored, or an address
/// from a tape.
fn is_known(input: &PointerInput<'_>, uses: &Uses, v: ir::Value) -> bool {
    let load = input.func.dfg.value_def(v).inst();
    load.is_none_or(|load| is_taped_address(input.func, load)) || !is_only_stored(input.func, uses, v)
}

/// What is in a function's memory, and in its integers.
pub struct MemorySolution {
    /// Pointers and deltas.
    pub pointers: pointers::Pointers,
    /// Loads that are taken for pointers only because pointers lie about.
    pub guessed: EntitySet<ir::Value>,
    /// What memory holds.
    pub contents: contents::Contents,
    /// Widths of the floats that integers carry.
    pub lanes: SecondaryMap<ir::Value, u32>,
    /// Numbers that are added to floats' bits.
    pub steps: Steps,
}

/// Pointers and contents depend on each other through copies of pointers, and contents and lanes
/// through memory that is only accessed by integers; they are solved together. If the run `asks`
/// what a word is that is loaded and stored as it is, that is not guessed.
pub fn solve(input: &PointerInput<'_>, results: &[ResultMode], uses: &Uses, asks: bool) -> MemorySolution {
    let (mut copies, mut bits) = (input.pointer_copy.clone(), input.bits.clone());
    let mut carried = contents::BitCarriers::default();
    // What has been taken for pointers because of what lies beside it stays one, so that this ends.
    let mut beside: EntitySet<ir::Value> = EntitySet::new();
    loop {
        let p = pointers::compute(PointerInput { pointer_copy: copies.clone(), bits: bits.clone(), ..*input });
        let (c, mut found) = contents::compute(input, &p, uses, &carried);
        if asks {
            let among_floats = |v: ir::Value| {
                let load = input.func.dfg.value_def(v).inst();
                let addr = load.and_then(|load| access_address(input.func, load));
                addr.is_some_and(|addr| c.of_class(addr).has_float())
            };
            let asked = |&v: &ir::Value| !is_known(input, uses, v) && among_floats(v);
            let asked: Vec<ir::Value> = found.iter().filter(asked).collect();
            for v in asked {
                found.remove(v);
            }
        }
        found.extend(beside.iter());
        if found != copies {
            copies = found;
            continue;
        }
        let steps = Steps::compute(input, &p, &c, uses);
        let lanes = width::lanes(&LaneInput { of: input, results, pointers: &p, contents: &c, steps: &steps });
        let known = carried.len();
        carried.extend(contents::carried(input, &p, &c, &lanes));
        let returned = input.cfg.calls.iter().flat_map(|&i| input.func.dfg.inst_results(i));
        let mistaken =
            returned.copied().filter(|&v| lanes[v] != 0 && is_unaddressed_result(&p, v) && bits.insert(v)).count();
        if carried.len() > known || mistaken > 0 {
            continue;
        }
        // What lies beside pointers is a pointer only if nothing says that it is a float: that is
        // asked last.
        let guesses = contents::beside_pointers(input.func, &c).into_iter();
        beside.extend(guesses.filter(|&v| !asks || is_known(input, uses, v)));
        if beside.iter().filter(|&v| copies.insert(v)).count() == 0 {
            let mut guessed = EntitySet::new();
            guessed.extend(beside.iter().filter(|&v| !p.address.contains(v)));
            return MemorySolution { pointers: p, guessed, contents: c, lanes, steps };
        }
    }
}
