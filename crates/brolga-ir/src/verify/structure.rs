//! Well-formedness of a graph.
//!
//! **Question.** Is each name given once, is each successor there, and does each edge, the entry
//! and each return pass as many values as are expected, of the expected types? **Answer.** One walk
//! over the blocks, and one over the edges. **Cost.** Linear.

use std::collections::BTreeSet;

use cranelift_codegen::ir::{Type, types};
use cranelift_entity::{EntityRef, EntitySet};

use super::fault::{Faults, Rule};
use super::view::{GraphKind, View};
use crate::block::{CfgBlocks, Term};
use crate::inst::{AdInst, Val};
use crate::{Dv, InstId};

/// Names, and whether successors are there. Nothing else can be asked of a graph that fails.
pub fn names(graph: &CfgBlocks, faults: &mut Faults) {
    let mut insts: EntitySet<InstId> = EntitySet::new();
    let mut derived: EntitySet<Dv> = EntitySet::new();
    if graph.blocks.is_empty() {
        return faults.add_unlocated(Rule::Successors, "the graph has no block");
    }
    for (&key, block) in graph.blocks.iter() {
        if key != block.id {
            faults.add(Rule::Ids, key, None, format!("the block calls itself {}", block.id));
        }
        let mut define = |name: Val, inst: Option<InstId>, faults: &mut Faults| {
            if let Val::D(d) = name
                && !derived.insert(d)
            {
                faults.add(Rule::Ids, key, inst, format!("{name} is defined a second time"));
            }
        };
        block.params.iter().for_each(|p| define(p.0, None, faults));
        for (&id, inst) in block.insts.iter() {
            if !insts.insert(id) {
                faults.add(Rule::Ids, key, Some(id), format!("{id} is the name of two instructions"));
            }
            inst.defs.iter().for_each(|d| define(d.0, Some(id), faults));
        }
        for to in block.term.successors() {
            if !graph.blocks.contains_key(&to) {
                faults.add(Rule::Successors, key, None, format!("{to}, where it goes, is no block of the graph"));
            }
            if to == graph.entry() {
                faults.add(Rule::Successors, key, None, format!("it goes to {to}, the entry"));
            }
        }
    }
}

/// Arguments of edges, the signature, and what terminators ask for.
pub fn edges(view: &View<'_>, kind: GraphKind, faults: &mut Faults) {
    let signature = &view.graph.signature;
    let entry = view.blocks[0];
    let params: Vec<Type> = entry.params.iter().map(|p| p.1).collect();
    if !params.iter().copied().eq(signature.params.iter().map(|p| p.value_type)) {
        let wanted: Vec<Type> = signature.params.iter().map(|p| p.value_type).collect();
        let what = format!("the entry has parameters {params:?}, and the signature {wanted:?}");
        faults.add(Rule::Signature, entry.id, None, what);
    }
    for (b, block) in view.blocks.iter().enumerate() {
        // The reverses of further exits, of a pullback that becomes half of a combined function,
        // are
        // reached when it is one.
        if kind != GraphKind::Pullback && !view.dominators.reached(b) {
            faults.add(Rule::Successors, block.id, None, "no edge leads there from the entry");
        }
        for target in block.term.targets() {
            let params = &view.graph.blocks[&target.block].params;
            if params.len() != target.args.len() {
                let (n, m) = (target.args.len(), params.len());
                let what = format!("{n} arguments are passed to {}, which has {m} parameters", target.block);
                faults.add(Rule::Arguments, block.id, None, what);
            }
            for (&arg, &(param, ty)) in target.args.iter().zip(params) {
                if let Some(given) = view.type_of(arg).filter(|&given| given != ty) {
                    let what = format!("{arg}: {given} is passed to {}, whose {param} is {ty}", target.block);
                    faults.add(Rule::Arguments, block.id, None, what);
                }
            }
        }
        let asked = |v: Val, ok: fn(Type) -> bool, faults: &mut Faults| {
            if let Some(ty) = view.type_of(v).filter(|&ty| !ok(ty)) {
                faults.add(Rule::Types, block.id, None, format!("the terminator asks for {v}, which is {ty}"));
            }
        };
        match &block.term {
            Term::If(v, ..) => asked(*v, |ty| ty.is_int() && ty.bits() <= 64, faults),
            Term::Table(v, ..) => asked(*v, |ty| ty == types::I32, faults),
            Term::Switch(v, cases) => {
                asked(*v, |ty| ty == types::I32, faults);
                let numbers: BTreeSet<u32> = cases.iter().map(|c| c.0).collect();
                if cases.is_empty() || numbers.len() < cases.len() {
                    faults.add(Rule::Predecessors, block.id, None, "a switch has no case, or two of one number");
                }
                for &(_, to) in cases {
                    let n = view.graph.blocks[&to].params.len();
                    if n > 0 {
                        let what = format!("a switch passes no arguments to {to}, which has {n} parameters");
                        faults.add(Rule::Arguments, block.id, None, what);
                    }
                }
            }
            Term::Return(values) => returned(view, b, values, faults),
            Term::Jump(_) | Term::Trap(_) => {}
        }
    }
}

fn returned(view: &View<'_>, b: usize, values: &[Val], faults: &mut Faults) {
    let wanted = &view.graph.signature.returns;
    let fits = |(&v, r): (&Val, &cranelift_codegen::ir::AbiParam)| view.type_of(v).is_none_or(|ty| ty == r.value_type);
    if values.len() != wanted.len() || !values.iter().zip(wanted).all(fits) {
        let given: Vec<String> = values.iter().map(|&v| format!("{v}: {:?}", view.type_of(v))).collect();
        let wanted: Vec<Type> = wanted.iter().map(|r| r.value_type).collect();
        let what = format!("{given:?} are returned, and the signature has {wanted:?}");
        faults.add(Rule::Signature, view.blocks[b].id, None, what);
    }
}

/// The name that an instruction of a block at a place has.
pub fn named(view: &View<'_>, b: usize, at: usize) -> Option<InstId> {
    view.blocks[b].insts.iter().nth(at).map(|(&id, _)| id)
}

/// Every name that an instruction reads, those of a copied primal instruction included.
pub fn each_operand(inst: &AdInst, primal: &cranelift_codegen::ir::Function, mut f: impl FnMut(Val)) {
    match inst.op {
        crate::inst::AdOp::Primal(i) if i.index() < primal.dfg.num_insts() => {
            primal.dfg.inst_args(i).iter().for_each(|&v| f(Val::Primal(v)));
        }
        _ => inst.each_read(f),
    }
}
