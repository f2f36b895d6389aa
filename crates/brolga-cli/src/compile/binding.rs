//! Binding: a function of an object, as a caller in another language sees it.
//!
//! **Question.** What is each parameter and each result to a caller, and what does a call do to
//! memory?
//!
//! **Answer.** It is said here once, in sentences ([`PrimalView::binding`] makes a [`Binding`]),
//! from the roles that the derivation gives; [`super::header`] and [`super::rust`] write them in
//! their languages. What is behind a pointer is `const` if the function stores nothing but to its
//! own stack ([`is_read_only`]).
//!
//! **Cost.** A few lines of text for each parameter; one walk over a function and all that it
//! calls.

use std::collections::BTreeSet;

use brolga::{Elem, FuncKey, Program};
use brolga_module::{DerivedSignature, FloatCount, ParamActivity, ParamRole, ParamSpec, ResultRole, Room};
use cranelift_codegen::ir::{self, Opcode, Type, types};

/// Which function of a derivation it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DerivedPart {
    Primal,
    Gradient,
    Forward,
    Pullback,
    Release,
    Tangent,
}

impl DerivedPart {
    /// How its name ends.
    pub(super) fn ending(self) -> &'static str {
        match self {
            Self::Primal => "",
            Self::Gradient => "_gradient",
            Self::Forward => "_forward",
            Self::Pullback => "_pullback",
            Self::Release => "_release",
            Self::Tangent => "_tangent",
        }
    }
}

/// What a parameter or a result is for a caller.
pub(super) enum BoundType {
    /// A number.
    Value(Type),
    /// An address: of what, if that is known, and whether nothing is written there.
    Pointer { of: Option<Type>, is_const: bool },
    /// The address of the struct of results.
    Results,
    /// The number of bytes of a workspace.
    Bytes,
    /// The function that makes a workspace longer.
    Grow,
}

/// A parameter, or a field of the results.
pub(super) struct BoundValue {
    pub name: String,
    pub kind: BoundType,
    /// What is behind the pointer is reached through no other (C's `restrict`).
    pub restrict: bool,
    /// What it is.
    pub text: String,
}

/// A function of an object.
pub(super) struct Binding {
    pub symbol: String,
    /// What it is, in sentences.
    pub about: Vec<String>,
    pub params: Vec<BoundValue>,
    /// Results, wherever they are.
    pub results: Vec<BoundValue>,
    /// Whether results are in a struct, whose address is the last parameter.
    pub in_struct: bool,
    /// The bytes of the workspace that the caller gives, if that is known.
    pub workspace: Option<u64>,
}

/// What is known of the primal of some functions.
pub(super) struct PrimalView {
    /// What messages call it.
    pub name: String,
    pub params: Vec<ParamSpec>,
    /// Parameters that no call writes: the instance of a module.
    pub hidden: usize,
    /// Which parameters serve as addresses.
    pub pointers: Vec<bool>,
    /// Whether it writes to no memory of its caller's.
    pub is_read_only: bool,
}

/// A function with its signature.
pub(super) struct SignedFunction<'a> {
    pub part: DerivedPart,
    pub symbol: String,
    /// The name that all functions of the derivation begin with.
    pub base: &'a str,
    pub signature: &'a DerivedSignature,
    pub room: Room,
}

impl PrimalView {
    /// The function as callers see it.
    pub(super) fn binding(&self, f: &SignedFunction<'_>) -> Binding {
        let s = f.signature;
        let params = s.params.iter().zip(&s.clif.params).map(|(&role, abi)| {
            let kind = self.kind(role, abi.value_type);
            let noalias = matches!(role, ParamRole::Primal(i) | ParamRole::Shadow(i) if self.params[i].noalias);
            let restrict = noalias && matches!(kind, BoundType::Pointer { .. });
            BoundValue { name: self.param_name(role), kind, restrict, text: self.param(role, f) }
        });
        let results = s.results.iter().zip(&s.types).map(|(&role, &ty)| BoundValue {
            name: match role {
                ResultRole::Cotangent(i) => ResultRole::Cotangent(i - self.hidden).name(),
                role => role.name(),
            },
            kind: match role {
                ResultRole::Shadow(_) => BoundType::Pointer { of: None, is_const: false },
                _ => BoundType::Value(ty),
            },
            restrict: false,
            text: self.result(role),
        });
        Binding {
            symbol: f.symbol.clone(),
            about: self.about(f),
            params: params.collect(),
            results: results.collect(),
            in_struct: s.layout.is_some(),
            workspace: match f.room {
                Room::Bytes(n) if !matches!(f.part, DerivedPart::Pullback | DerivedPart::Release) => Some(n),
                _ => None,
            },
        }
    }

    fn param_name(&self, role: ParamRole) -> String {
        match role {
            ParamRole::Primal(i) if i < self.hidden => "instance".to_owned(),
            ParamRole::Shadow(i) if i < self.hidden => "instance_shadow".to_owned(),
            ParamRole::Primal(i) => ParamRole::Primal(i - self.hidden).name(),
            ParamRole::Shadow(i) => ParamRole::Shadow(i - self.hidden).name(),
            ParamRole::Tangent(i) => ParamRole::Tangent(i - self.hidden).name(),
            role => role.name(),
        }
    }

    fn kind(&self, role: ParamRole, ty: Type) -> BoundType {
        let of = |i: usize| match self.params[i].elem {
            Some(Elem::F64) => Some(types::F64),
            Some(Elem::F32) => Some(types::F32),
            Some(Elem::Pointer | Elem::Int) | None => None,
        };
        match role {
            ParamRole::Primal(i) if ty == types::I64 && self.pointers[i] => {
                BoundType::Pointer { of: of(i), is_const: self.is_read_only }
            }
            ParamRole::Shadow(i) => BoundType::Pointer { of: of(i), is_const: false },
            ParamRole::Workspace => BoundType::Pointer { of: None, is_const: false },
            ParamRole::WorkspaceBytes => BoundType::Bytes,
            ParamRole::Grow => BoundType::Grow,
            ParamRole::GrowContext => BoundType::Pointer { of: None, is_const: false },
            ParamRole::Results => BoundType::Results,
            _ => BoundType::Value(ty),
        }
    }

    fn about(&self, f: &SignedFunction<'_>) -> Vec<String> {
        let (name, base) = (&self.name, f.base);
        let mut out = vec![match f.part {
            DerivedPart::Primal => format!("{name} itself."),
            DerivedPart::Gradient => format!("Reverse mode of {name} in one function."),
            DerivedPart::Forward => format!(
                "The forward pass of {name}: what {name} does, and records for {base}_pullback in the workspace."
            ),
            DerivedPart::Pullback => format!(
                "The pullback of a run of {base}_forward. It may be called several times. It reads no memory of \
                 {name}'s, only the workspace."
            ),
            DerivedPart::Release => format!(
                "Frees the blocks of the heap that a run of {base}_forward has kept for {base}_pullback: once for each \
                 run whose status is 0, when no pullback is called any more."
            ),
            DerivedPart::Tangent => format!("Forward mode of {name}: results, and their tangents along one direction."),
        }];
        match f.room {
            _ if matches!(f.part, DerivedPart::Primal | DerivedPart::Pullback | DerivedPart::Release) => {}
            Room::Nothing => {}
            Room::Stack(n) => out.push(format!("Its records are on the stack: {n} bytes.")),
            Room::Bytes(_) => out.push("The workspace may begin anywhere.".to_owned()),
            Room::Unknown => out.push(format!(
                "How many bytes of workspace are enough depends on the arguments. Begin with 65536, say, and double \
                 it while the status is 1, each time with shadows, and memory that {name} writes, as they were before \
                 the call. The workspace may begin anywhere."
            )),
        }
        out
    }

    fn param(&self, role: ParamRole, f: &SignedFunction<'_>) -> String {
        let name = &self.name;
        match role {
            ParamRole::Primal(i) if i < self.hidden => "the instance: the address of byte 0 of its memory".to_owned(),
            ParamRole::Primal(i) if self.pointers[i] => {
                let only = matches!(self.params[i].activity, ParamActivity::DuplicatedOnly | ParamActivity::DualOnly);
                let is_gradient = f.part == DerivedPart::Gradient;
                let after = match () {
                    () if self.is_read_only => "memory that it reads",
                    () if only => "memory, which may hold anything afterwards",
                    () if is_gradient => "memory, which is left as it leaves it",
                    () => "memory",
                };
                format!("parameter {} of {name}: {after}", i - self.hidden)
            }
            ParamRole::Primal(i) => format!("parameter {} of {name}", i - self.hidden),
            ParamRole::Shadow(i) => self.shadow(i, f),
            ParamRole::Tangent(i) => format!("tangent of p{}", i - self.hidden),
            ParamRole::Seed(i) => format!("seed: the cotangent of result {i}"),
            ParamRole::Workspace if f.part == DerivedPart::Pullback => {
                format!("the workspace of the run, as {}_forward left it; it stays of use", f.base)
            }
            ParamRole::Workspace if f.part == DerivedPart::Release => "the workspace of the run".to_owned(),
            ParamRole::Workspace => "memory for records, which is overwritten".to_owned(),
            ParamRole::WorkspaceBytes => "how many bytes the workspace has".to_owned(),
            ParamRole::Grow => "is called where a record does not fit, with its context and the bytes that the \
                                workspace has to have at least; returns how many it has then, at the same address"
                .to_owned(),
            ParamRole::GrowContext => "what that function is given".to_owned(),
            ParamRole::Results => "where the results go; what is there is overwritten".to_owned(),
        }
    }

    fn shadow(&self, i: usize, f: &SignedFunction<'_>) -> String {
        let (name, base) = (&self.name, f.base);
        let p = self.param_name(ParamRole::Primal(i));
        let same = format!("shadow of {p}, of the same size and layout");
        if let Some(output) = self.output(i).filter(|_| f.part != DerivedPart::Tangent) {
            let by = if f.part == DerivedPart::Forward { format!("{base}_pullback") } else { "it".to_owned() };
            return format!(
                "{same}: {by} takes the seed from there and leaves zeros in {output}, which it CONSUMES also where \
                 {name} only adds to them; behind them, cotangents of what {name} reads are ADDED"
            );
        }
        match f.part {
            DerivedPart::Tangent if self.is_read_only => format!("{same}: holds tangents"),
            DerivedPart::Tangent => format!("{same}: holds tangents, and is overwritten where {name} overwrites {p}"),
            DerivedPart::Forward if self.is_read_only => format!("{same}: {base}_pullback ADDS cotangents there"),
            DerivedPart::Forward => format!(
                "{same}: {base}_pullback ADDS cotangents of what {name} reads there, takes those of what it \
                 OVERWRITES (the seed), and leaves zeros; where {name} only adds to a place the seed stays"
            ),
            _ if self.is_read_only => format!("{same}: cotangents are ADDED to what is there"),
            _ => format!(
                "{same}: cotangents of what {name} reads are ADDED to what is there; those of what it OVERWRITES (the \
                 seed) are taken from there, and zeros are left; where it only adds to a place the seed stays"
            ),
        }
    }

    /// What of a parameter is consumed.
    fn output(&self, i: usize) -> Option<String> {
        let unit = if self.params[i].elem == Some(Elem::F32) { "float" } else { "double" };
        Some(match self.params[i].consumed? {
            FloatCount::Fixed(1) => format!("the first {unit}"),
            FloatCount::Fixed(n) => format!("the first {n} {unit}s"),
            FloatCount::Param(k) => format!("the first {} {unit}s", self.param_name(ParamRole::Primal(k))),
        })
    }

    fn result(&self, role: ResultRole) -> String {
        match role {
            ResultRole::Value(i) => format!("result {i} of {}", self.name),
            ResultRole::Shadow(i) => format!("shadow of value{i}, or null"),
            ResultRole::Cotangent(i) => format!("cotangent of p{}, not added to anything", i - self.hidden),
            ResultRole::Tangent(i) => format!("tangent of result {i}"),
            ResultRole::Status => {
                "0, or 1 if the workspace is too small: then floats are NaN, and what was written stays written"
                    .to_owned()
            }
        }
    }
}

/// Whether a function, with all that it calls, stores nothing but to its own stack.
pub(super) fn is_read_only(program: &Program, func: FuncKey) -> bool {
    let mut seen = BTreeSet::from([func]);
    let mut work = vec![func];
    while let Some(key) = work.pop() {
        let f = &program.funcs[key];
        let Some(body) = &f.body else {
            // A function of numbers, such as those of C's mathematics, gets no address.
            let numbers = |p: &ir::AbiParam| p.value_type.lane_type().is_float();
            if f.signature.params.iter().all(numbers) {
                continue;
            }
            return false;
        };
        for inst in body.layout.blocks().flat_map(|b| body.layout.block_insts(b)) {
            match body.dfg.insts[inst] {
                ir::InstructionData::Call { func_ref, .. } => match program.callee(body, func_ref) {
                    Some(callee) if seen.insert(callee) => work.push(callee),
                    Some(_) => {}
                    None => return false,
                },
                ref data if data.opcode() == Opcode::Store && on_stack(body, body.dfg.inst_args(inst)[1]) => {}
                ref data if data.opcode().is_call() || data.opcode().can_store() => return false,
                _ => {}
            }
        }
    }
    true
}

/// Whether an address is in a stack slot, as far as it is seen.
fn on_stack(body: &ir::Function, mut address: ir::Value) -> bool {
    loop {
        address = body.dfg.resolve_aliases(address);
        let Some(inst) = body.dfg.value_def(address).inst() else { return false };
        match body.dfg.insts[inst].opcode() {
            Opcode::StackAddr => return true,
            Opcode::Iadd => address = body.dfg.inst_args(inst)[0],
            _ => return false,
        }
    }
}

/// A text without what ends a comment.
pub(super) fn plain(text: &str) -> String {
    let text: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.replace("*/", "* /")
}

/// Words in lines of at most `width` characters.
pub(super) fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let line = lines.last_mut().expect("there is one");
        if line.is_empty() {
            line.push_str(word);
        } else if line.chars().count() + 1 + word.chars().count() <= width {
            line.push(' ');
            line.push_str(word);
        } else {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// What a caller is told of all functions and data of an object.
pub(super) struct ObjectDescription {
    /// What made it, of what, for which target.
    pub made: Vec<String>,
    pub functions: Vec<Binding>,
    pub data: Vec<Data>,
    pub image: Option<Image>,
}

/// An instance of a module, to be put into memory.
pub(super) struct Image {
    /// What names of it begin with.
    pub stem: String,
    pub symbol: String,
    /// What there is of it; the rest is zeros.
    pub contents: Vec<u8>,
    /// Bytes before the instance pointer.
    pub header: usize,
    /// Bytes of an instance.
    pub bytes: usize,
}

impl Image {
    /// How it is used.
    pub(super) fn about(&self) -> String {
        format!(
            "An instance of the module, and its shadow, are {} bytes each, at a multiple of 16; the instance pointer \
             is the address of byte {}. An instance begins with what is in {}, and zeros behind it; a shadow with \
             zeros. Addresses of the module count from the instance pointer. Nothing checks that they are within \
             memory.",
            self.bytes, self.header, self.symbol
        )
    }
}

/// Data with a shadow.
pub(super) struct Data {
    pub symbol: String,
    pub shadow: String,
    /// How many bytes each has.
    pub bytes: usize,
}
