//! Adaptation of the root: the derivative that a spec asks for gets the signature of the spec.
//!
//! **Question.** Derived functions take a delta for each shadow and a workspace, in a convention of
//! their own. How does one get the signature that a spec asks for?
//!
//! **Answer.** Its parameters are replaced, and what they stood for is computed at the head; before
//! each `return` results are moved to where the spec has them.
//!
//! **Before.** `(p…, δ of each duplicated p…, workspace, seeds or tangents…) -> (r…, δ of each
//! returned pointer…, cotangents or tangents…)`, in the convention of derived functions.
//! **After.** The parameters and results of [`DerivedSignature`], in the target's convention. At
//! the head, deltas are differences of a shadow and its pointer, and the workspace begins; in front
//! of each `return`, results are put in order, or into their struct.
//! **Cost.** A subtraction for each shadow; of a workspace, thirty stores.

use brolga_analysis::{ResultMode, Variant, query};
use brolga_ir::lower::{Channel, segment, tape_flags};
use brolga_ir::spec::{Derivative, Spec};
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::{self, InstBuilder, MemFlagsData, Signature, types};
use cranelift_codegen::isa::TargetIsa;

use super::growth;
use super::room::{self, Room};
use super::signature::{DerivedSignature, ParamRole, ResultRole, SignatureInputs};
use crate::standalone::derived_func::{DerivedFunc, duplicated};
use crate::standalone::pieces;

/// What the roots of a derivation have in common.
pub(super) struct Roots<'a> {
    pub spec: &'a Spec,
    pub primal: &'a Signature,
    pub variant: &'a Variant,
    pub room: Room,
    /// Floats move in pieces.
    pub moves_pieces: bool,
    pub isa: &'a dyn TargetIsa,
}

/// What the parameters of a derived function are, before it is a root.
#[derive(Clone, Copy)]
enum InnerParam {
    Role(ParamRole),
    Delta(usize),
    Workspace,
}

impl Roots<'_> {
    /// Give the roots their signatures.
    pub(super) fn make(&self, roots: &mut [DerivedFunc]) -> Vec<DerivedSignature> {
        let Self { spec, primal, variant, room, isa, .. } = *self;
        let of = SignatureInputs { spec, primal, variant, room, conv: isa.default_call_conv() };
        let primals = (0..primal.params.len()).map(|i| InnerParam::Role(ParamRole::Primal(i)));
        let deltas = duplicated(variant).map(InnerParam::Delta);
        let forward: Vec<InnerParam> = primals.chain(deltas).chain([InnerParam::Workspace]).collect();
        let seeds = variant.result_shapes(primal).map(|r| InnerParam::Role(ParamRole::Seed(r.0)));
        let tangents = variant.param_shapes(primal).map(|p| InnerParam::Role(ParamRole::Tangent(p.0)));
        let is_returned = spec.derivative != Derivative::Gradient || spec.returns.iter().any(|o| o.is_returned());
        let values = (0..primal.returns.len()).filter(|_| is_returned).map(ResultRole::Value);
        let shadows = (0..primal.returns.len()).filter(|&i| variant.results[i] == ResultMode::Ptr);
        let values = values.chain(shadows.map(ResultRole::Shadow));
        let cotangents = variant.param_shapes(primal).map(|p| ResultRole::Cotangent(p.0));
        match (spec.derivative, roots) {
            (Derivative::Gradient, [root]) => {
                let (inner, given) = (forward.into_iter().chain(seeds).collect(), values.chain(cotangents).collect());
                vec![self.root(root, RootHalf::Both, inner, given, of.gradient())]
            }
            (Derivative::Tangent, [root]) => {
                let tangents_of = variant.result_shapes(primal).map(|r| ResultRole::Tangent(r.0));
                let (inner, given) =
                    (forward.into_iter().chain(tangents).collect(), values.chain(tangents_of).collect());
                vec![self.root(root, RootHalf::Both, inner, given, of.tangent())]
            }
            (Derivative::Pair, [first, second]) => {
                let given = values.collect();
                let backward = [InnerParam::Workspace].into_iter().chain(seeds).collect();
                vec![
                    self.root(first, RootHalf::Forward, forward, given, of.forward()),
                    self.root(second, RootHalf::Pullback, backward, cotangents.collect(), of.pullback()),
                ]
            }
            _ => unreachable!("a pair has two functions, and nothing else has"),
        }
    }

    /// The signature of what frees the blocks of a pair's record.
    pub(super) fn release(&self) -> DerivedSignature {
        let Self { spec, primal, variant, room, isa, .. } = *self;
        SignatureInputs { spec, primal, variant, room, conv: isa.default_call_conv() }.release()
    }

    fn root(
        &self,
        one: &mut DerivedFunc,
        half: RootHalf,
        inner: Vec<InnerParam>,
        given: Vec<ResultRole>,
        signature: DerivedSignature,
    ) -> DerivedSignature {
        let func = &mut one.func;
        func.signature = signature.clif.clone();
        let entry = func.layout.entry_block().expect("it has a body");
        let old = func.dfg.detach_block_params(entry).as_slice(&func.dfg.value_lists).to_vec();
        debug_assert_eq!(old.len(), inner.len());
        let mut outer = Vec::new();
        for (role, p) in signature.params.iter().zip(&signature.clif.params) {
            let was = inner.iter().position(|i| matches!(i, InnerParam::Role(r) if r == role));
            match was {
                Some(k) => func.dfg.attach_block_param(entry, old[k]),
                None => {
                    func.dfg.append_block_param(entry, p.value_type);
                }
            }
            outer.push(func.dfg.block_params(entry)[outer.len()]);
        }
        let param = |role| signature.params.iter().position(|p| *p == role).map(|k| outer[k]);
        let workspace = inner.iter().position(|i| matches!(i, InnerParam::Workspace)).map(|k| old[k]);
        if let Some(workspace) = workspace.filter(|_| half == RootHalf::Forward && self.room.is_given()) {
            recorded(func, workspace);
        }
        returns(func, (&given, &signature), param(ParamRole::Results), workspace);
        let mut cursor = FuncCursor::new(func).at_first_insertion_point(entry);
        for (value, inner) in old.iter().zip(&inner) {
            match *inner {
                InnerParam::Role(_) => {}
                InnerParam::Delta(i) => {
                    let p = param(ParamRole::Primal(i)).expect("each parameter of the primal is one");
                    let shadow = param(ParamRole::Shadow(i)).expect("a delta is of a shadow");
                    cursor.ins().with_result(*value).isub(shadow, p);
                }
                InnerParam::Workspace => self.workspace(&mut cursor, *value, half, &signature, &outer),
            }
        }
        signature
    }

    /// Define the value of the workspace where a root begins.
    fn workspace(
        &self,
        cursor: &mut FuncCursor<'_>,
        value: ir::Value,
        half: RootHalf,
        signature: &DerivedSignature,
        params: &[ir::Value],
    ) {
        match self.room {
            Room::Nothing => {
                cursor.ins().with_result(value).iconst(types::I64, 0);
            }
            Room::Stack(bytes) => {
                let slot = ir::StackSlotData::new(ir::StackSlotKind::ExplicitSlot, bytes, 4);
                let slot = cursor.func.create_sized_stack_slot(slot);
                cursor.ins().with_result(value).stack_addr(types::I64, slot, 0);
                let size = cursor.ins().iconst(types::I64, i64::from(bytes));
                let limit = cursor.ins().iadd(value, size);
                room::begin(cursor, value, limit);
            }
            Room::Bytes(_) | Room::Unknown => {
                let param = |role| params[signature.param(role).expect("it is given")];
                let at = param(ParamRole::Workspace);
                // Memory may begin anywhere; the workspace is aligned.
                let up = cursor.ins().iconst(types::I64, 15);
                let up = cursor.ins().iadd(at, up);
                let mask = cursor.ins().iconst(types::I64, -16);
                cursor.ins().with_result(value).band(up, mask);
                if half == RootHalf::Pullback {
                    let failed = room::status(cursor, value);
                    leave_if(cursor, failed, signature, params);
                    let flags = tape_flags(cursor.func, Channel::Mixed);
                    let recorded = cursor.ins().load(types::I64, flags, value, segment::RECORDED);
                    cursor.ins().store(flags, recorded, value, segment::CURSOR);
                    cursor.ins().store(flags, recorded, value, segment::TOP);
                    if self.moves_pieces {
                        pieces::begin(cursor, value);
                    }
                } else {
                    let bytes = param(ParamRole::WorkspaceBytes);
                    // Of memory that is too short for a header nothing is written.
                    let short = room::is_short(cursor, bytes, self.room);
                    leave_if(cursor, short, signature, params);
                    let end = cursor.ins().iadd(at, bytes);
                    let has_tape = self.spec.derivative != Derivative::Tangent;
                    let limit = match self.moves_pieces {
                        true => pieces::room(cursor, (value, end), room::HEADER, has_tape),
                        false => end,
                    };
                    room::begin(cursor, value, limit);
                    if signature.param(ParamRole::Grow).is_some() {
                        growth::begin(cursor, value, [at, param(ParamRole::Grow), param(ParamRole::GrowContext)]);
                    }
                    if self.moves_pieces {
                        pieces::begin(cursor, value);
                    }
                }
            }
        }
    }
}

/// Return at once where a run does not fit into its workspace: NaN, and the status.
fn leave_if(cursor: &mut FuncCursor<'_>, condition: ir::Value, signature: &DerivedSignature, params: &[ir::Value]) {
    let block = cursor.current_block().expect("it is in a block");
    let next = cursor.current_inst().expect("it is in front of an instruction");
    let (out, rest) = (cursor.func.dfg.make_block(), cursor.func.dfg.make_block());
    cursor.func.layout.split_block(rest, next);
    cursor.func.layout.append_block(out);
    cursor.func.layout.set_cold(out);
    cursor.goto_bottom(block);
    cursor.ins().brif(condition, out, &[], rest, &[]);
    cursor.goto_bottom(out);
    let values = without_room(cursor, signature);
    give(cursor, &values, signature, signature.param(ParamRole::Results).map(|k| params[k]));
    cursor.goto_first_insertion_point(rest);
}

/// What a function returns whose run does not fit into its workspace.
pub(super) fn without_room(cursor: &mut FuncCursor<'_>, signature: &DerivedSignature) -> Vec<ir::Value> {
    let results = signature.results.iter().zip(&signature.types);
    let value = |(role, &ty): (&ResultRole, &ir::Type)| match role {
        ResultRole::Status => cursor.ins().iconst(types::I32, 1),
        _ => room::nothing(cursor, ty),
    };
    results.map(value).collect()
}

/// Put results in order before each `return`.
fn returns(
    func: &mut ir::Function,
    (given, signature): (&[ResultRole], &DerivedSignature),
    results: Option<ir::Value>,
    workspace: Option<ir::Value>,
) {
    for inst in query::returns(func).collect::<Vec<_>>() {
        let values = func.dfg.inst_args(inst).to_vec();
        let at = func.srcloc(inst);
        let mut cursor = FuncCursor::new(func).at_inst(inst).with_srcloc(at);
        let value = |role: ResultRole| given.iter().position(|g| *g == role).map(|k| values[k]);
        let mut out = Vec::new();
        for role in &signature.results {
            out.push(match *role {
                ResultRole::Status => room::status(&mut cursor, workspace.expect("a status is of a workspace")),
                ResultRole::Shadow(i) => {
                    let pointer = value(ResultRole::Value(i)).expect("it is returned");
                    let delta = value(*role).expect("it is returned");
                    // Without a shadow there is no address of one.
                    let shadow = cursor.ins().iadd(pointer, delta);
                    let none = cursor.ins().iconst(types::I64, 0);
                    cursor.ins().select(delta, shadow, none)
                }
                role => value(role).expect("the derivative computes it"),
            });
        }
        give(&mut cursor, &out, signature, results);
        func.layout.remove_inst(inst);
    }
}

/// Which function of a derivation a root is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum RootHalf {
    Both,
    Forward,
    Pullback,
}

/// Return values, or write them to their struct.
fn give(cursor: &mut FuncCursor<'_>, values: &[ir::Value], signature: &DerivedSignature, results: Option<ir::Value>) {
    let Some((layout, at)) = signature.layout.as_ref().zip(results) else {
        cursor.ins().return_(values);
        return;
    };
    for (&value, &offset) in values.iter().zip(&layout.offsets) {
        cursor.ins().store(MemFlagsData::new(), value, at, offset as i32);
    }
    cursor.ins().return_(&[]);
}

/// Where a forward pass returns, say how far it has recorded: pullbacks begin there, as often as
/// they are called.
fn recorded(func: &mut ir::Function, workspace: ir::Value) {
    for inst in query::returns(func).collect::<Vec<_>>() {
        let flags = tape_flags(func, Channel::Mixed);
        let mut cursor = FuncCursor::new(func).at_inst(inst);
        let top = cursor.ins().load(types::I64, flags, workspace, segment::TOP);
        cursor.ins().store(flags, top, workspace, segment::RECORDED);
    }
}
