//! Alias analysis: which bytes an access may touch, as far as its address tells.
//!
//! **Question.** Two accesses of memory that comes from one place (a parameter, a stack slot): can
//! they overlap?
//!
//! **Answer.** Every address has an *origin*, and often something can be said of its distance from
//! there:
//!
//! - a *span* that it lies in: constants are exact, a widened 32-bit number is between 0 and 2^32 -
//!   1, and so on. Disjoint spans do not overlap. That separates the fields of a struct, and in
//!   WebAssembly what an instance has before its memory (globals, sizes) from all of its
//!   memory;
//! - a *widened sum*, `origin + widen(x + a) + c` with constants `a` (modulo 2^32) and `c`. Two of
//!   them with the same `x` are apart by `a - a'` or by that minus 2^32, plus `c - c'`. That
//!   separates the fields of what a 32-bit number points at, which is how WebAssembly has pointers,
//!   and the places of one frame of its stack.
//!
//! Where the program says which of its functions are an allocator, an address also has a set of
//! [`blocks`](crate::memory::points_to) that it may be in, and what is in different blocks does not
//! overlap, whatever the origins.
//!
//! **Invariants.** Spans bound all executions of an access. A widened sum is compared with another
//! one only where `x` is the same number in both, not only the same name: it is defined in a block
//! that runs once, or both are looked at within one execution of one block. Distances are below
//! 2^61, so sums of 64 bits do not wrap.
//!
//! **Cost.** A question follows an address 24 steps deep at most.

use brolga_ir::Program;
use brolga_rules::{MathKind, MemFn};
use cranelift_codegen::ir::{self, InstructionData, Opcode, Type, ValueDef, types};
use cranelift_entity::EntitySet;

use crate::cfg::{Cfg, edge_args};
use crate::lattice::points_to_set::{self, OTHER, REST, Set};
use crate::memory::points_to::Blocks;
use crate::query::callee::CalleeKind;
use crate::query::{access_address, access_offset, constant_int};
use crate::variant::bit;

/// Where an address comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    /// A stack slot of the function.
    Slot(ir::StackSlot),
    /// A data object, by the global value's symbol.
    Data(ir::GlobalValue),
    /// A parameter of the function, by index.
    Param(usize),
    /// What an allocating call returned.
    Alloc(ir::Inst),
    /// Anything.
    Unknown,
}

/// What an address is made from by sums.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Root {
    /// An origin.
    Of(Origin),
    /// What a load has found.
    Loaded,
}

impl Root {
    fn origin(self) -> Origin {
        match self {
            Self::Of(origin) => origin,
            Self::Loaded => Origin::Unknown,
        }
    }
}

/// `widen(value + add)`, a 32-bit sum as a 64-bit number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct WidenedSum {
    value: ir::Value,
    add: u32,
}

/// A distance in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Distance {
    /// Bounds, both inclusive.
    low: i64,
    high: i64,
    /// What it is, if it is nothing else: a widened sum and a constant.
    exact: Option<(Option<WidenedSum>, i64)>,
}

/// Farther than that nothing is followed.
const FAR: i64 = 1 << 61;

impl Distance {
    const ZERO: Self = Self::constant(0);

    const fn constant(c: i64) -> Self {
        Self { low: c, high: c, exact: Some((None, c)) }
    }

    fn between(low: i64, high: i64) -> Option<Self> {
        (low > -FAR && high < FAR && low <= high).then_some(Self { low, high, exact: None })
    }

    fn plus(self, other: Self) -> Option<Self> {
        let sum = Self::between(self.low.checked_add(other.low)?, self.high.checked_add(other.high)?)?;
        let exact = match (self.exact, other.exact) {
            (Some((w, a)), Some((None, b))) | (Some((None, a)), Some((w, b))) => Some((w, a + b)),
            _ => None,
        };
        Some(Self { exact, ..sum })
    }

    fn minus(self, other: Self) -> Option<Self> {
        let difference = Self::between(self.low.checked_sub(other.high)?, self.high.checked_sub(other.low)?)?;
        let exact = match (self.exact, other.exact) {
            (Some((w, a)), Some((None, b))) => Some((w, a - b)),
            _ => None,
        };
        Some(Self { exact, ..difference })
    }

    /// Times a constant.
    fn times(self, k: i64) -> Option<Self> {
        let (a, b) = (self.low.checked_mul(k)?, self.high.checked_mul(k)?);
        let product = Self::between(a.min(b), a.max(b))?;
        let exact = self.exact.filter(|e| e.0.is_none()).map(|(_, c)| (None, c * k));
        Some(Self { exact, ..product })
    }
}

/// Bytes that an access may touch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Where the address comes from.
    pub origin: Origin,
    /// How far from there it begins.
    from: Option<Distance>,
    /// Most bytes that are touched, if there is a bound.
    bytes: Option<i64>,
    /// Which blocks it may be in.
    within: Set,
}

/// Whose addresses are looked at.
#[derive(Clone, Copy)]
pub struct Places<'a> {
    /// The program.
    pub program: &'a Program,
    /// The normalised function.
    pub func: &'a ir::Function,
    /// Its control flow.
    pub cfg: &'a Cfg,
    /// Which blocks of the program's allocator its addresses may be in.
    pub blocks: &'a Blocks,
}

impl Place {
    /// Anything at all.
    pub const ANYWHERE: Self =
        Self { origin: Origin::Unknown, from: None, bytes: None, within: points_to_set::ANYTHING };

    /// The same, but only what is in these blocks.
    pub fn within(self, set: Set) -> Self {
        Self { within: set, ..self }
    }

    /// The blocks that it may be in.
    pub fn within_blocks(&self) -> Set {
        self.within
    }

    /// Any number of bytes at any distance from the same origin.
    pub fn unbounded(self) -> Self {
        Self { from: None, bytes: None, ..self }
    }

    /// Whether all of it is in blocks that the function's activation has allocated.
    pub fn is_new(&self) -> bool {
        points_to_set::is_new(self.within)
    }

    /// From the first byte to after the last, from the origin; `None` if there are no bounds.
    pub fn span(&self) -> Option<(i64, i64)> {
        let from = self.from?;
        Some((from.low, from.high.checked_add(self.bytes?)?))
    }

    /// Bytes of a span from an address.
    pub fn shifted(&self, (low, high): (i64, i64)) -> Self {
        let from = self.from.and_then(|d| d.plus(Distance::between(low, low)?));
        Self { origin: self.origin, from, bytes: high.checked_sub(low), within: self.within }
    }

    /// Whether two places with one origin are apart. `steady` says of a value that it is the same
    /// in both.
    fn apart(&self, other: &Self, steady: impl Fn(ir::Value) -> bool) -> bool {
        if let (Some(a), Some(b)) = (self.span(), other.span())
            && (a.1 <= b.0 || b.1 <= a.0)
        {
            return true;
        }
        let (Some(from), Some(to)) = (self.from, other.from) else { return false };
        let (Some((Some(x), c)), Some((Some(y), d))) = (from.exact, to.exact) else { return false };
        let (Some(bytes), Some(others)) = (self.bytes, other.bytes) else { return false };
        if x.value != y.value || !steady(x.value) {
            return false;
        }
        let step = i64::from(y.add.wrapping_sub(x.add));
        // Either sum may have wrapped where the other has not.
        let apart = |distance: i64| distance >= bytes || -distance >= others;
        apart(step + d - c) && (step == 0 || apart(step - (1 << 32) + d - c))
    }
}

impl Places<'_> {
    /// Whether two places are apart, in any two executions of their accesses.
    pub fn apart(&self, a: &Place, b: &Place) -> bool {
        points_to_set::apart(a.within, b.within)
            || a.origin == b.origin && one_object(a.origin) && a.apart(b, |v| self.cfg.def_is_acyclic(v))
    }

    /// Whether the places of two accesses of one block are apart, in one execution of it.
    pub fn apart_in_block(&self, a: &Place, b: &Place) -> bool {
        points_to_set::apart(a.within, b.within) || a.origin == b.origin && one_object(a.origin) && a.apart(b, |_| true)
    }

    /// The place of a load, a store or an atomic access.
    pub fn of_access(&self, inst: ir::Inst) -> Place {
        let Some(p) = access_address(self.func, inst) else { return Place::ANYWHERE };
        let offset = match self.func.dfg.insts[inst] {
            InstructionData::Load { .. } | InstructionData::Store { .. } => access_offset(self.func, inst),
            _ => 0,
        };
        self.of_bytes(p, offset, access_type(self.func, inst).bytes())
    }

    /// The place of `bytes` bytes, so far behind an address.
    pub fn of_bytes(&self, p: ir::Value, offset: i32, bytes: u32) -> Place {
        let at = self.of_address(p);
        let from = at.from.and_then(|d| d.plus(Distance::constant(offset.into())));
        Place { from, bytes: Some(bytes.into()), ..at }
    }

    /// The place of `n` bytes at an address.
    pub fn of_range(&self, p: ir::Value, n: ir::Value) -> Place {
        let bytes = match constant_int(self.func, n) {
            Some(n) => (0..FAR).contains(&n).then_some(n),
            None => self.amount(n, 0).filter(|d| d.low >= 0).map(|d| d.high),
        };
        Place { bytes, ..self.of_address(p) }
    }

    /// An address, without a length.
    pub fn of_address(&self, p: ir::Value) -> Place {
        Place { origin: self.origin(p), from: self.distance(p, 0), bytes: None, within: self.blocks.of(p) }
    }

    /// The origin of an address. Only what is plainly an offset is passed over; any other sum is
    /// unknown.
    pub fn origin(&self, v: ir::Value) -> Origin {
        self.root(v).origin()
    }

    fn root(&self, v: ir::Value) -> Root {
        self.trace(v, &mut EntitySet::new(), 0).unwrap_or(Root::Of(Origin::Unknown))
    }

    /// `None` for a block parameter that is being traced already.
    fn trace(&self, v: ir::Value, seen: &mut EntitySet<ir::Value>, depth: u32) -> Option<Root> {
        let func = self.func;
        if depth > 24 {
            return Some(Root::Of(Origin::Unknown));
        }
        let inst = match func.dfg.value_def(v) {
            ValueDef::Param(b, i) if b == self.cfg.blocks[0] => return Some(Root::Of(Origin::Param(i))),
            ValueDef::Param(b, i) => {
                if !seen.insert(v) {
                    return None;
                }
                let mut found = None;
                for &p in &self.cfg.preds[b] {
                    match (found, self.trace(edge_args(func, p, b)[i], seen, depth + 1)) {
                        (None, o) => found = o,
                        (Some(_), None) => {}
                        (Some(x), Some(y)) if x == y => {}
                        _ => return Some(Root::Of(Origin::Unknown)),
                    }
                }
                return found;
            }
            ValueDef::Result(inst, _) => inst,
            ValueDef::Union(..) => return Some(Root::Of(Origin::Unknown)),
        };
        if let Some((base, _, _)) = self.step(inst) {
            return self.trace(base, seen, depth + 1);
        }
        Some(Root::Of(match func.dfg.insts[inst] {
            InstructionData::Load { .. } => return Some(Root::Loaded),
            InstructionData::StackAddr { stack_slot, .. } => Origin::Slot(stack_slot),
            InstructionData::UnaryGlobalValue { opcode: Opcode::SymbolValue, global_value } => {
                Origin::Data(global_value)
            }
            InstructionData::Call { .. } => match CalleeKind::of(self.program, func, inst) {
                Some(CalleeKind::Known(r)) if matches!(r.kind, MathKind::Memory(MemFn::Malloc | MemFn::Calloc)) => {
                    Origin::Alloc(inst)
                }
                _ => Origin::Unknown,
            },
            _ => Origin::Unknown,
        }))
    }

    /// An address that is another one plus (or minus, if so) an offset: the other one, the offset,
    /// minus.
    fn step(&self, inst: ir::Inst) -> Option<(ir::Value, ir::Value, bool)> {
        match self.func.dfg.insts[inst] {
            InstructionData::Binary { opcode: Opcode::Iadd, args: [a, b] } => {
                match (self.is_offset(a, 0), self.is_offset(b, 0)) {
                    (false, true) => Some((a, b, false)),
                    (true, false) => Some((b, a, false)),
                    _ => None,
                }
            }
            InstructionData::Binary { opcode: Opcode::Isub, args: [a, b] } if self.is_offset(b, 0) => {
                Some((a, b, true))
            }
            _ => None,
        }
    }

    /// Whether a value is a number of bytes, not an address: scaled, widened, constant, or made of
    /// such.
    fn is_offset(&self, v: ir::Value, depth: u32) -> bool {
        let func = self.func;
        let Some(inst) = func.dfg.value_def(v).inst() else { return false };
        depth < 8
            && match func.dfg.insts[inst] {
                InstructionData::UnaryImm { opcode: Opcode::Iconst, .. } => true,
                InstructionData::Unary { opcode: Opcode::Uextend | Opcode::Sextend, .. } => true,
                InstructionData::Binary { opcode: Opcode::Ishl, .. } => true,
                InstructionData::Binary { opcode: Opcode::Imul, .. } => true,
                InstructionData::Binary { opcode: Opcode::Iadd | Opcode::Isub, args } => {
                    args.iter().all(|&a| self.is_offset(a, depth + 1))
                }
                _ => false,
            }
    }

    /// How far an address is from its origin, along the same steps as [`Self::trace`], block
    /// parameters excepted.
    fn distance(&self, v: ir::Value, depth: u32) -> Option<Distance> {
        let inst = match self.func.dfg.value_def(v) {
            ValueDef::Param(b, _) => return (b == self.cfg.blocks[0]).then_some(Distance::ZERO),
            ValueDef::Result(inst, _) if depth < 24 => inst,
            _ => return None,
        };
        match self.func.dfg.insts[inst] {
            InstructionData::StackAddr { offset, .. } => Some(Distance::constant(i32::from(offset).into())),
            InstructionData::Call { .. } => Some(Distance::ZERO),
            _ => {
                let (base, offset, minus) = self.step(inst)?;
                let (at, by) = (self.distance(base, depth + 1)?, self.amount(offset, 0)?);
                if minus { at.minus(by) } else { at.plus(by) }
            }
        }
    }

    /// A number of bytes.
    fn amount(&self, v: ir::Value, depth: u32) -> Option<Distance> {
        let func = self.func;
        let inst = func.dfg.value_def(v).inst().filter(|_| depth < 8)?;
        match func.dfg.insts[inst] {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } if func.dfg.value_type(v) == types::I64 => {
                let c = imm.bits();
                (-FAR < c && c < FAR).then_some(Distance::constant(c))
            }
            InstructionData::Unary { opcode: Opcode::Uextend, arg } => {
                let bits = func.dfg.value_type(arg).bits();
                let bounds = (bits <= 32).then(|| Distance::between(0, (1 << bits) - 1)).flatten()?;
                let exact = (bits == 32).then(|| (Some(self.sum(arg, 0)), 0));
                Some(Distance { exact, ..bounds })
            }
            InstructionData::Unary { opcode: Opcode::Sextend, arg } => {
                let bits = func.dfg.value_type(arg).bits();
                (bits <= 32).then(|| Distance::between(-(1 << (bits - 1)), (1 << (bits - 1)) - 1)).flatten()
            }
            InstructionData::Binary { opcode: Opcode::Ishl, args: [a, b] } => {
                let k = constant_int(func, b).filter(|k| (0..32).contains(k))?;
                self.amount(a, depth + 1)?.times(1 << k)
            }
            InstructionData::Binary { opcode: Opcode::Imul, args: [a, b] } => {
                let (a, k) = match (constant_int(func, a), constant_int(func, b)) {
                    (_, Some(k)) => (a, k),
                    (Some(k), _) => (b, k),
                    _ => return None,
                };
                self.amount(a, depth + 1)?.times(k)
            }
            InstructionData::Binary { opcode: Opcode::Iadd, args: [a, b] } => {
                self.amount(a, depth + 1)?.plus(self.amount(b, depth + 1)?)
            }
            InstructionData::Binary { opcode: Opcode::Isub, args: [a, b] } => {
                self.amount(a, depth + 1)?.minus(self.amount(b, depth + 1)?)
            }
            _ => None,
        }
    }

    /// A 32-bit number as a value and a constant.
    fn sum(&self, v: ir::Value, depth: u32) -> WidenedSum {
        let func = self.func;
        let unsplit = WidenedSum { value: v, add: 0 };
        let Some(inst) = func.dfg.value_def(v).inst().filter(|_| depth < 24) else { return unsplit };
        let InstructionData::Binary { opcode, args: [a, b] } = func.dfg.insts[inst] else { return unsplit };
        let (base, k) = match (opcode, constant_int(func, a), constant_int(func, b)) {
            (Opcode::Iadd, _, Some(k)) => (a, k as u32),
            (Opcode::Iadd, Some(k), _) => (b, k as u32),
            (Opcode::Isub, _, Some(k)) => (a, (k as u32).wrapping_neg()),
            _ => return unsplit,
        };
        let WidenedSum { value, add } = self.sum(base, depth + 1);
        WidenedSum { value, add: add.wrapping_add(k) }
    }
}

/// Whether an origin is one piece of memory, in all executions of what names it.
fn one_object(origin: Origin) -> bool {
    matches!(origin, Origin::Param(_) | Origin::Slot(_))
}

/// The type that a load or a store moves.
fn access_type(func: &ir::Function, inst: ir::Inst) -> Type {
    match func.dfg.insts[inst].opcode() {
        Opcode::Istore8 | Opcode::Uload8 | Opcode::Sload8 => types::I8,
        Opcode::Istore16 | Opcode::Uload16 | Opcode::Sload16 => types::I16,
        Opcode::Istore32 | Opcode::Uload32 | Opcode::Sload32 => types::I32,
        Opcode::Store | Opcode::AtomicStore => func.dfg.value_type(func.dfg.inst_args(inst)[0]),
        // Vectors that are widened as they are loaded move half of what they give.
        _ => func.dfg.inst_results(inst).first().map_or(types::I8X16, |&v| func.dfg.value_type(v)),
    }
}

/// What an address leads to: parameters' objects, something older than the call ([`OTHER`]), or
/// what is not known, which may be memory that the function or a caller has made: all other bits.
/// What has been loaded is older, if the address of no such memory is
/// [captured](crate::memory::capture).
pub fn leads_to(places: Places<'_>, address: ir::Value) -> Set {
    if places.blocks.known() {
        return places.blocks.of(address);
    }
    match places.root(address) {
        Root::Of(Origin::Param(i)) if !has_instance(&places.func.signature) => bit(i),
        Root::Of(Origin::Slot(_) | Origin::Alloc(_) | Origin::Unknown) => !REST,
        Root::Of(Origin::Param(_) | Origin::Data(_)) | Root::Loaded => OTHER,
    }
}

/// What a callee's set is here, where its parameters are these arguments.
pub fn through(places: Places<'_>, args: &[ir::Value], set: Set) -> Set {
    if places.blocks.known() {
        return if set == 0 { 0 } else { places.blocks.through(args, set) };
    }
    let told = args.iter().enumerate().filter(|(i, _)| set & bit(*i) != 0);
    told.fold(set & OTHER, |all, (_, &a)| all | leads_to(places, a))
}

pub(crate) fn has_instance(sig: &ir::Signature) -> bool {
    sig.params.first().is_some_and(|p| p.purpose == ir::ArgumentPurpose::VMContext)
}
