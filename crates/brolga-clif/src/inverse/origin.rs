//! Which states values are computed from the addresses of.
//!
//! **Question.** Does an address lead into a state, and into which one?
//! **Answer.** A value is a sum in which each state's address is so many times: once in an address,
//! never in a number. What loops carry, and what branches choose, is one such sum on all ways, or
//! may be any of some states.
//!
//! ```text
//! v0                     v0 once
//! v3 = iadd v0, v2       v0 once
//! v4 = isub v3, v0       none: a distance
//! block1(v5): (v0, v3)   v0 once
//! ```
//!
//! **Errs** on the side of more states.
//!
//! **Cost.** A pass over the function for each change, of which a value has two.

use std::collections::BTreeMap;

use cranelift_codegen::ir::{self, Block, BlockArg, Inst, Opcode, Value};

use crate::map::{HashMap, HashSet};

/// What a value is computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum AddressOrigin {
    /// A sum, in which the address of each of these states is so many times.
    Sum(BTreeMap<usize, i64>),
    /// Some of these, somehow.
    Some(HashSet<usize>),
}

impl AddressOrigin {
    pub(super) fn states(&self) -> HashSet<usize> {
        match self {
            Self::Sum(times) => times.keys().copied().collect(),
            Self::Some(states) => states.clone(),
        }
    }

    fn number() -> Self {
        Self::Sum(BTreeMap::new())
    }

    fn plus(&self, other: &Self, times: i64) -> Self {
        let (Self::Sum(a), Self::Sum(b)) = (self, other) else {
            return Self::Some(self.states().union(&other.states()).copied().collect());
        };
        let mut sum = a.clone();
        for (&s, &n) in b {
            *sum.entry(s).or_default() += n * times;
        }
        sum.retain(|_, n| *n != 0);
        Self::Sum(sum)
    }

    /// One of both.
    fn or(self, other: Self) -> Self {
        if self == other {
            return self;
        }
        Self::Some(self.states().union(&other.states()).copied().collect())
    }
}

/// What all values are computed from. What is not among them is not reached.
pub(super) fn origins(func: &ir::Function, states: &[usize]) -> HashMap<Value, AddressOrigin> {
    let mut found: HashMap<Value, AddressOrigin> = HashMap::default();
    let entry = func.layout.entry_block().expect("it has a body");
    for (i, &param) in func.dfg.block_params(entry).iter().enumerate() {
        let times = states.contains(&i).then_some((i, 1)).into_iter().collect();
        found.insert(param, AddressOrigin::Sum(times));
    }
    loop {
        let mut changed = false;
        let mut set = |found: &mut HashMap<Value, AddressOrigin>, v: Value, new: AddressOrigin| {
            let new = match found.get(&v) {
                Some(old) => old.clone().or(new),
                None => new,
            };
            changed |= found.insert(v, new.clone()).is_none_or(|old| old != new);
        };
        for inst in func.layout.blocks().flat_map(|b| func.layout.block_insts(b)) {
            for (block, given) in targets(func, inst) {
                for (&param, v) in func.dfg.block_params(block).iter().zip(given) {
                    if let Some(origin) = found.get(&v).cloned() {
                        set(&mut found, param, origin);
                    }
                }
            }
            let args: Vec<Value> = func.dfg.inst_args(inst).iter().map(|&v| func.dfg.resolve_aliases(v)).collect();
            let args: Option<Vec<&AddressOrigin>> = args.iter().map(|v| found.get(v)).collect();
            if let Some(args) = args {
                let new = result(func, inst, &args);
                for &v in func.dfg.inst_results(inst) {
                    set(&mut found, v, new.clone());
                }
            }
        }
        if !changed {
            return found;
        }
    }
}

/// What an instruction's results are computed from.
fn result(func: &ir::Function, inst: Inst, args: &[&AddressOrigin]) -> AddressOrigin {
    let op = func.dfg.insts[inst].opcode();
    match (op, args) {
        (Opcode::Iadd, [a, b]) => a.plus(b, 1),
        (Opcode::Isub, [a, b]) => a.plus(b, -1),
        (Opcode::Select, [_, a, b]) => (*a).clone().or((*b).clone()),
        // What memory holds leads to no state; no comparison does.
        _ if op.can_load() || op.is_call() || op == Opcode::Icmp => AddressOrigin::number(),
        _ => {
            let states: HashSet<usize> = args.iter().flat_map(|a| a.states()).collect();
            if states.is_empty() { AddressOrigin::number() } else { AddressOrigin::Some(states) }
        }
    }
}

/// Where a branch goes: the blocks, each with what it is given; first that if it holds.
pub(super) fn targets(func: &ir::Function, inst: Inst) -> Vec<(Block, Vec<Value>)> {
    let dfg = &func.dfg;
    let calls = dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
    let given = |call: &ir::BlockCall| {
        let args = call.args(&dfg.value_lists);
        let args = args.filter_map(|a| if let BlockArg::Value(v) = a { Some(dfg.resolve_aliases(v)) } else { None });
        (call.block(&dfg.value_lists), args.collect())
    };
    calls.iter().map(given).collect()
}
