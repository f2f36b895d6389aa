//! Structs top-down: what callers keep behind a pointer that they hand to a function, as evidence
//! for its type inference.
//!
//! **Question.** A function copies a struct of which it accesses a part. What is in the rest?
//!
//! **Answer.** What its callers keep there. The kinds of a field are joined over all calls; of a
//! field of which one caller does not know what it holds nothing is known. A function whose own
//! accesses say nothing of a field believes that, if callers agree. What callees say of structs
//! goes the other way, by [summaries](super::summarise).
//!
//! ```text
//! function %copy(to, from):   call %memcpy(to, from, 16); v = load.f64 to+8
//! function %caller():         store p, slot; store.f64 x, slot+8; call %copy(other, slot)
//!                             %copy: a pointer at from+0, a double at from+8
//! ```
//!
//! **Cost.** Rounds over functions whose structs have changed, [`MOST_ROUNDS`] at most; nothing
//! where no function loads an address.

use brolga_ir::map::HashMap;
use brolga_ir::{FuncKey, Program};
use cranelift_codegen::ir;

use crate::body::Body;
use crate::calls::solve::{MemorySolution, as_callee, solve};
use crate::kinds::pointers::PointerInput;
use crate::lattice::kinds::Kinds;
use crate::query::callee::CalleeKind;
use crate::query::cell::cell_of;
use crate::summary::{FieldKinds, Summaries};
use crate::variant::{ParamMode, ResultMode, Variant};

/// Longer chains of calls are given up.
const MOST_ROUNDS: usize = 32;

/// What is known of the parameters of a function by its callers.
#[derive(Clone, Default)]
struct Arguments {
    /// Modes: pointers, as far as something points at memory with a shadow, and numbers.
    modes: Vec<ParamMode>,
    /// Structs behind them, of those of which a caller is known.
    structs: Vec<Option<FieldKinds>>,
}

impl Arguments {
    /// A function whose callers are not all known.
    fn unknown(modes: Vec<ParamMode>) -> Self {
        Self { structs: vec![Some(FieldKinds::new()); modes.len()], modes }
    }

    /// Of a function of which no call has been seen.
    fn unseen(params: usize) -> Self {
        Self { modes: vec![ParamMode::Const; params], structs: vec![None; params] }
    }

    fn given(&self) -> Vec<FieldKinds> {
        self.structs.iter().map(|r| r.clone().unwrap_or_default()).collect()
    }
}

/// Learn what callers hand to each function of a program whose root is derived as this variant.
pub fn compute(program: &Program, bodies: &HashMap<FuncKey, Body<'_>>, root: &Variant, summaries: &mut Summaries) {
    if program.vmctx_pointers_only || !summaries.loads_pointers() {
        return;
    }
    let mut all: HashMap<FuncKey, Arguments> = HashMap::default();
    all.insert(root.func, Arguments::unknown(root.params.clone()));
    let mut work = vec![root.func];
    // Of functions that are called through a pointer nothing is known.
    for &f in summaries.addressed.values().flatten().filter(|f| bodies.contains_key(*f)) {
        all.entry(f).or_insert_with(|| Arguments::unknown(as_callee(program, bodies[&f].func)));
        work.push(f);
    }
    for _ in 0..MOST_ROUNDS {
        work.sort_unstable();
        work.dedup();
        let mut changed = Vec::new();
        for key in work {
            for call in calls(program, bodies[&key], summaries, &all[&key]) {
                let Some(body) = bodies.get(&call.callee) else { continue };
                let is_new = !all.contains_key(&call.callee);
                let known =
                    all.entry(call.callee).or_insert_with(|| Arguments::unseen(body.func.signature.params.len()));
                let callee = call.callee;
                if call.join(known) || is_new {
                    changed.push(callee);
                }
            }
        }
        work = changed;
    }
    // What has not been agreed on by now may be wrong.
    if !work.is_empty() {
        return;
    }
    summaries.given = all.into_iter().map(|(f, known)| (f, known.given())).collect();
}

/// A call, and what is handed to the callee.
struct CallRecords {
    callee: FuncKey,
    /// For each pointer: which parameter, how it is passed, and what is behind it.
    pointers: Vec<(usize, ParamMode, FieldKinds)>,
}

impl CallRecords {
    /// Add what this call says; whether anything is new.
    fn join(self, known: &mut Arguments) -> bool {
        let mut changed = false;
        for (i, mode, fields) in self.pointers {
            let Some(old) = known.modes.get_mut(i) else { continue };
            let joined = if *old == ParamMode::Const { mode } else { (*old).max(mode) };
            changed |= std::mem::replace(old, joined) != joined;
            changed |= agree(&mut known.structs[i], fields);
        }
        changed
    }
}

/// What a function hands to each callee.
fn calls(program: &Program, body: Body<'_>, summaries: &Summaries, known: &Arguments) -> Vec<CallRecords> {
    let Body { func, cfg, uses } = body;
    let callee = |&inst: &_| match CalleeKind::of(program, func, inst) {
        Some(CalleeKind::Derived(f)) => Some((inst, f)),
        _ => None,
    };
    let calls: Vec<_> = cfg.calls.iter().filter_map(callee).collect();
    if calls.is_empty() {
        return Vec::new();
    }
    let (params, given) = (&known.modes, &known.given()[..]);
    let (pointer_copy, bits) = Default::default();
    let input = PointerInput { program, func, cfg, params, summaries, given, pointer_copy, bits };
    let results = vec![ResultMode::None; func.signature.returns.len()];
    let MemorySolution { pointers, contents, .. } = solve(&input, &results, uses, false);
    let pointer = |(i, &a): (usize, &ir::Value)| {
        let root = pointers.root(a)?;
        let sure = [root, a].iter().any(|v| pointers.address.contains(*v)) || pointers.sure.contains(root);
        let mode = ParamMode::Dup { sure, holds: Kinds::NONE, recycled: false, floats: false, bits: true };
        Some((i, mode, contents.of_struct(cell_of(func, a, 0))))
    };
    let handed = |(inst, callee): (ir::Inst, FuncKey)| {
        let pointers = func.dfg.inst_args(inst).iter().enumerate().filter_map(pointer).collect();
        CallRecords { callee, pointers }
    };
    calls.into_iter().map(handed).collect()
}

/// Leave what two callers know, where they know something.
fn agree(known: &mut Option<FieldKinds>, other: FieldKinds) -> bool {
    let Some(old) = known else {
        *known = Some(other);
        return true;
    };
    let both: FieldKinds = old.iter().filter_map(|(&at, &k)| Some((at, k.join(*other.get(&at)?)))).collect();
    let changed = both != *old;
    *old = both;
    changed
}
