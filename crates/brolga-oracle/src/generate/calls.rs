//! Random calls: of generated functions, through pointers, in tail position, of C functions.
//!
//! **Question.** Which calls may a random function make, so that the program ends and no pointer
//! outlives its memory?
//!
//! **Answer.** A function calls plain functions behind it in the list, recursive ones with a depth
//! that is smaller than its own, and leaves ([`Body::can_call`]). Calls through pointers are of
//! leaves, of one group of equal signatures, perhaps chosen by a select. A call in tail position
//! needs the same results and the convention for it; it is given no addresses, since the frame is
//! gone when the callee runs. [`Body::call_import`] calls a function of C's.
//!
//! **Invariant.** A recursive function returns at once where its depth is not positive
//! ([`Body::return_if_shallow`]). A body has at most two calls of recursive functions, since such
//! calls multiply.
//!
//! **Cost.** A declaration for each callee of a function, and the call.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, ExtFuncData, ExternalName, FuncRef, Inst, InstBuilder, SigRef, Signature, Type, Value, types,
};
use cranelift_codegen::isa::CallConv;

use super::body::Body;
use super::feature::Feature;
use super::kind::{GenVal, Kind, TAME};
use super::sketch::Role;

impl Body<'_> {
    /// Call a C function.
    pub(super) fn call_import(&mut self, name: &str, params: &[Type], returns: &[Type], args: &[Value]) -> Vec<Value> {
        let mut signature = Signature::new(CallConv::SystemV);
        signature.params.extend(params.iter().map(|&t| AbiParam::new(t)));
        signature.returns.extend(returns.iter().map(|&t| AbiParam::new(t)));
        let callee = self.declare(name, signature, false);
        let inst = self.at_end().ins().call(callee, args);
        self.func.dfg.inst_results(inst).to_vec()
    }

    fn declare(&mut self, name: &str, signature: Signature, colocated: bool) -> FuncRef {
        let name = ExternalName::testcase(name);
        if let Some((known, _)) = self.func.dfg.ext_funcs.iter().find(|(_, e)| e.name == name) {
            return known;
        }
        let signature = self.func.import_signature(signature);
        self.func.import_function(ExtFuncData { name, signature, colocated, patchable: false })
    }

    fn declare_function(&mut self, index: usize) -> FuncRef {
        let outline = &self.sketch.functions[index];
        self.declare(&outline.name, outline.signature(), true)
    }

    /// Functions that this one may call.
    fn callees(&self) -> Vec<usize> {
        let me = self.outline().role;
        (0..self.sketch.functions.len())
            .filter(|&i| match (me, self.sketch.functions[i].role) {
                (Role::Leaf { .. }, _) | (_, Role::Root) => false,
                (_, Role::Plain) => i > self.index,
                (_, Role::Recursive) => self.recursive_calls > 0,
                (_, Role::Leaf { .. }) => true,
            })
            .collect()
    }

    /// Whether there is something to call.
    pub(super) fn can_call(&self) -> bool {
        !self.callees().is_empty()
    }

    /// Call a generated function.
    pub(super) fn call_statement(&mut self) {
        let callees = self.callees();
        let callee = self.source.choose(&callees);
        let args = self.call_args(callee);
        let f = self.declare_function(callee);
        let inst = self.at_end().ins().call(f, &args);
        self.keep_results(inst, &self.sketch.functions[callee].returns);
    }

    fn call_args(&mut self, callee: usize) -> Vec<Value> {
        let outline = &self.sketch.functions[callee];
        let recursive = outline.role == Role::Recursive;
        self.recursive_calls -= usize::from(recursive);
        let mut args = Vec::new();
        for (i, &kind) in outline.params.iter().enumerate() {
            args.push(match kind {
                Kind::I32 if recursive && i == 0 => self.depth(),
                _ => self.pick_tame(kind),
            });
        }
        args
    }

    /// How deep a callee may go.
    fn depth(&mut self) -> Value {
        if self.outline().role == Role::Recursive {
            let depth = self.scope[0].value;
            let one = self.at_end().ins().iconst(types::I32, 1);
            self.at_end().ins().isub(depth, one)
        } else {
            let depth = self.source.below(4) as i64;
            self.at_end().ins().iconst(types::I32, depth)
        }
    }

    fn keep_results(&mut self, inst: Inst, kinds: &[Kind]) {
        let results = self.func.dfg.inst_results(inst).to_vec();
        for (value, &kind) in results.into_iter().zip(kinds) {
            self.keep(value, kind, TAME);
        }
    }

    /// Call a leaf through a pointer.
    pub(super) fn indirect_statement(&mut self) {
        let groups = (0..self.sketch.functions.len()).filter_map(|i| match self.sketch.functions[i].role {
            Role::Leaf { group } => Some(group),
            _ => None,
        });
        let groups: Vec<usize> = groups.collect();
        if groups.is_empty() {
            return;
        }
        let group = self.source.choose(&groups);
        let mut code = self.pick(Kind::Code(group));
        if self.source.chance(50) {
            let other = self.pick(Kind::Code(group));
            let c = self.condition();
            let value = self.at_end().ins().select(c, code.value, other.value);
            code = self.keep(value, Kind::Code(group), TAME);
        }
        let leaf = self.sketch.leaves(group)[0];
        let args = self.call_args(leaf);
        let signature = self.signature_of(leaf);
        let inst = self.at_end().ins().call_indirect(signature, code.value, &args);
        self.keep_results(inst, &self.sketch.functions[leaf].returns);
    }

    fn signature_of(&mut self, index: usize) -> SigRef {
        self.func.import_signature(self.sketch.functions[index].signature())
    }

    /// The address of a leaf.
    pub(super) fn make_code(&mut self, group: usize) -> GenVal {
        let leaf = self.source.choose(&self.sketch.leaves(group));
        let f = self.declare_function(leaf);
        let value = self.at_end().ins().func_addr(types::I64, f);
        self.keep(value, Kind::Code(group), TAME)
    }

    /// End the function by a call in tail position, if there is a callee for it.
    pub(super) fn tail_call(&mut self) -> bool {
        let me = self.outline();
        if me.conv != CallConv::Tail || !self.has(Feature::Calls) {
            return false;
        }
        let fits = |i: &usize| {
            let o = &self.sketch.functions[*i];
            // The frame is gone when the callee runs, and so is whatever a pointer may point at.
            let frame = o.params.iter().any(|k| k.is_address());
            o.conv == CallConv::Tail && o.returns == me.returns && !frame
        };
        let callees: Vec<usize> = self.callees().into_iter().filter(fits).collect();
        if callees.is_empty() {
            return false;
        }
        let callee = self.source.choose(&callees);
        let args = self.call_args(callee);
        let f = self.declare_function(callee);
        if self.source.chance(25) && matches!(self.sketch.functions[callee].role, Role::Leaf { .. }) {
            let code = self.at_end().ins().func_addr(types::I64, f);
            let signature = self.signature_of(callee);
            self.at_end().ins().return_call_indirect(signature, code, &args);
        } else {
            self.at_end().ins().return_call(f, &args);
        }
        true
    }

    /// The beginning of a recursive function.
    pub(super) fn return_if_shallow(&mut self) {
        let depth = self.scope[0].value;
        let zero = self.at_end().ins().iconst(types::I32, 0);
        let deep = self.at_end().ins().icmp(IntCC::SignedGreaterThan, depth, zero);
        let (go_on, _) = self.make_block(&[]);
        let (stop, _) = self.make_block(&[]);
        self.at_end().ins().brif(deep, go_on, &[], stop, &[]);
        let mark = self.scope.len();
        self.switch_to(stop);
        let values: Vec<Value> = self.outline().returns.iter().map(|&k| self.pick_tame(k)).collect();
        self.at_end().ins().return_(&values);
        self.scope.truncate(mark);
        self.switch_to(go_on);
    }
}
