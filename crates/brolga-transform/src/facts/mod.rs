//! Analysis manager: every analysis of one variant of one function, run in order.
//!
//! **Question.** What do the later stages ask about the primal? **Answer.** One field for each
//! answer. The stage `shadow` adds its table, and units and roots are found with it; from then on
//! it is read-only.
//!
//! **Cost.** Each analysis runs once for each variant.

pub mod overwrites;
mod singles;

use std::cell::OnceCell;

use brolga_analysis::activity::accumulate;
use brolga_analysis::activity::ulp::Steps;
use brolga_analysis::activity::width::kinds_around;
use brolga_analysis::activity::{self, Activity, ActivityInput, MemRole, State};
use brolga_analysis::calls::joint::{JointInput, joint_calls};
use brolga_analysis::calls::{deferred_free, solve, summarise};
use brolga_analysis::guards::products::{self, Product, ProductCx};
use brolga_analysis::guards::roots::{self, Roots};
use brolga_analysis::guards::unit_cotangents;
use brolga_analysis::kinds::number_uses::NumberInput;
use brolga_analysis::kinds::pointers::PointerInput;
use brolga_analysis::lattice::kinds::Kinds;
use brolga_analysis::lattice::number_uses::NumberUses;
use brolga_analysis::memory::alias::Places;
use brolga_analysis::memory::clobber::{self, ClobberInput};
use brolga_analysis::memory::constant::{ConstantInput, ConstantMemory};
use brolga_analysis::memory::preserved;
use brolga_analysis::query::callee::CalleeKind;
use brolga_analysis::query::cell::{Base, Cell};
use brolga_analysis::query::{access_address, is_integer_access, original};
use brolga_analysis::uses::Uses;
use brolga_analysis::{
    Blocks, Cfg, Contents, Delta, Loops, ParamMode, Pointers, PreservedMemory, PrivateMemory, RootKind, Summaries,
    Variant,
};
use brolga_ir::inst::{ShadowPlace, Val};
use brolga_ir::map::{HashMap, HashSet};
use brolga_ir::{Diagnostic, FuncKey, MemoryMode, Mode, Options, Pass, Program, Promises, TapeKind, Untracked};
use brolga_rules::{MathKind, MemFn};
use cranelift_codegen::ir::{self, types};
use cranelift_codegen::isa::TargetIsa;
use cranelift_entity::EntitySet;

use crate::facts::overwrites::Overwrites;
use crate::facts::singles::SingleCells;
use crate::primal::normalise::NormalisedPrimal;

/// What all variants of a derivation are derived from.
#[derive(Clone, Copy)]
pub(crate) struct Context<'a> {
    pub program: &'a Program,
    pub options: &'a Options,
    pub summaries: &'a Summaries,
    /// Whether some function computes a float's bits from integers in memory.
    pub demanded: bool,
    pub isa: &'a dyn TargetIsa,
}

/// What is known of one variant.
pub struct Facts<'a> {
    /// The program.
    pub program: &'a Program,
    /// The normalised function.
    pub primal: &'a NormalisedPrimal,
    /// Modes of parameters and results.
    pub variant: &'a Variant,
    /// Options of the derivation.
    pub options: &'a Options,
    /// What its derivative is to be: of what the asked function calls, a pair or a function without
    /// a value.
    pub mode: Mode,
    /// Control flow.
    pub cfg: &'a Cfg,
    /// Dominators and loops.
    pub loops: &'a Loops,
    /// Which blocks of the program's allocator addresses may be in, and which releases wait.
    pub blocks: Blocks,
    /// The function that is called for releases that wait.
    pub release: Option<FuncKey>,
    /// Loads that the pullback may do again.
    pub reload: EntitySet<ir::Inst>,
    /// Which memory direct calls are told is kept.
    pub preserved: HashMap<ir::Inst, PreservedMemory>,
    /// Calls of `free` whose blocks stay until the pullback is done.
    pub deferred: EntitySet<ir::Inst>,
    /// Loads and stores of additions in place.
    pub in_place: EntitySet<ir::Inst>,
    /// Loads whose reverse stores, and arguments whose shadows need no zeros.
    pub overwrites: Overwrites,
    /// Memory that the function makes for itself that does not escape; none in memory mode
    /// `restore`, where the pullback puts back what was in it.
    pub private: PrivateMemory,
    /// All uses.
    pub uses: &'a Uses,
    /// Loads that are taken for pointers only because pointers lie about.
    pub guessed: EntitySet<ir::Value>,
    /// Whether some function of the program loads an address from memory that has a shadow.
    pub loads_pointers: bool,
    /// Pointers and their deltas.
    pub pointers: Pointers,
    /// What memory holds.
    pub contents: Contents,
    /// Which values carry cotangents.
    pub activity: Activity,
    /// Numbers that are added to floats' bits.
    pub steps: Steps,
    /// Whether tickets may stand for demands (`brolga_runtime::pieces::demand`).
    pub demanded: bool,
    /// What is known of callees.
    pub summaries: &'a Summaries,
    /// What has no cotangent because the caller has said so.
    pub constant: ConstantMemory,
    /// Whose cotangents may be infinite because of a root at zero.
    pub roots: Roots,
    /// Whose cotangents are one.
    pub unit_cotangents: EntitySet<ir::Value>,
    /// Guarded products, by the instruction that masks them.
    pub products: HashMap<ir::Inst, Product>,
    /// Calls of functions that may run whole, in the reverse half.
    pub joint: EntitySet<ir::Inst>,
    /// Classes of memory that are stored to what may be a float; computed on the first question.
    float_stores: OnceCell<HashSet<ir::Value>>,
    /// Places of singles; computed on the first question.
    singles: OnceCell<SingleCells>,
}

impl<'a> Facts<'a> {
    /// Run the analyses. `root` says that the caller asks for this function itself, `mode` what its
    /// derivative is to be.
    pub(crate) fn compute(
        cx: Context<'a>,
        primal: &'a NormalisedPrimal,
        variant: &'a Variant,
        mode: Mode,
        root: bool,
    ) -> (Self, Vec<Diagnostic>) {
        let Context { program, options, summaries, demanded, .. } = cx;
        let func = &primal.func;
        let NormalisedPrimal { cfg, loops, uses, .. } = primal;
        let mut blocks = Blocks::of_function(program, variant.func, func, cfg, summaries.flows(), &variant.promises);
        // Where memory is restored nothing is to be read that a release has not given back.
        let waits = mode.is_joint() && options.memory == MemoryMode::Leave && options.runs(Pass::Reload);
        let release = if waits { deferred_free::releases(program, func, cfg, &mut blocks) } else { None };
        let at = |blocks| ClobberInput {
            program,
            func,
            cfg,
            promises: &variant.promises,
            effects: summaries.effects(),
            blocks,
        };
        let input = at(&blocks);
        let (reload, deferred, told) = reloads(&input, options, mode, variant.preserved);
        let solve::MemorySolution { pointers, guessed, contents, lanes, steps } =
            inferred(program, variant, primal, summaries, asks(program, options, mode));
        let constant = ConstantMemory::compute(
            &ConstantInput { program, variant, func, cfg, blocks: &blocks, effects: summaries.effects() },
            root,
        );
        let untracked = untracked(program, variant.func, options);
        let input = ActivityInput {
            program,
            key: variant.func,
            root,
            func,
            cfg,
            uses,
            params: &variant.params,
            results: &variant.results,
            pointers: &pointers,
            contents: &contents,
            lanes: &lanes,
            steps: &steps,
            summaries,
            constant: &constant.loads,
            untracked,
            demanded,
            derived_again: options.tape == TapeKind::Typed,
            asks: asks(program, options, mode),
            guessed: &guessed,
        };
        let (activity, mut problems) = activity::compute(&input);
        problems.extend(unclear_products(program, variant, primal, &activity));

        let places = Places { program, func, cfg, blocks: &blocks };
        let in_place = options.runs(Pass::Accumulate).then(|| accumulate::in_place(places, uses, &activity));
        let private = match options.memory {
            MemoryMode::Leave => PrivateMemory::compute(places, uses, &variant.scratch()),
            MemoryMode::Restore => PrivateMemory::default(),
        };
        let joint = match mode {
            Mode::Gradient => joint(&at(&blocks), uses, &activity, cx),
            _ => EntitySet::new(),
        };
        let facts = Self {
            program,
            primal,
            variant,
            options,
            mode,
            cfg,
            loops,
            blocks,
            release,
            reload,
            preserved: told,
            deferred,
            in_place: in_place.unwrap_or_default(),
            private,
            uses,
            guessed,
            loads_pointers: loads_pointers(program, func, cfg, summaries, &pointers),
            pointers,
            contents,
            activity,
            steps,
            demanded,
            summaries,
            constant,
            roots: Roots::default(),
            unit_cotangents: EntitySet::new(),
            products: products::products(ProductCx { program, func, cfg, loops, summaries }),
            joint,
            overwrites: Overwrites::default(),
            float_stores: OnceCell::new(),
            singles: OnceCell::new(),
        };
        (facts, problems)
    }

    /// What callers keep in a cell, if it is one of a record behind a parameter.
    pub fn given(&self, (base, at): Cell) -> Kinds {
        let Base::Value(p) = base else { return Kinds::NONE };
        let params = self.func().dfg.block_params(self.cfg.blocks[0]);
        let record = params.iter().position(|&v| v == p).and_then(|i| self.summaries.given(self.variant.func).get(i));
        record.and_then(|r| r.get(&at)).copied().unwrap_or_default()
    }

    /// What becomes of an integer, if it is a number.
    pub fn number_uses(&self, v: ir::Value) -> NumberUses {
        let Self { program, cfg, uses, summaries, pointers, .. } = self;
        let input = NumberInput { program, func: self.func(), cfg, uses, summaries, pointers };
        input.uses_of(v, |cell| self.contents.of_cell(cell))
    }

    /// What is promised to a callee of arguments that lead to constant memory.
    pub fn constant_arguments(&self, args: &[ir::Value]) -> Vec<Promises> {
        let input = ConstantInput {
            program: self.program,
            variant: self.variant,
            func: self.func(),
            cfg: self.cfg,
            blocks: &self.blocks,
            effects: self.summaries.effects(),
        };
        self.constant.passed(&input, args)
    }

    /// Whether an integer is computed from what may be a float's bits, and no rule follows what
    /// becomes of them.
    pub fn is_unfollowed(&self, v: ir::Value) -> bool {
        let lost = matches!(self.activity.state[v], State::Taint { .. });
        (lost || self.program.vmctx_pointers_only && self.activity.possible.contains(v)) && !self.is_active(v)
    }

    /// Whether a number may be made of an integer that is stored, and a float's bits may be what it
    /// is computed from.
    pub fn may_be_made_number(&self, v: ir::Value) -> bool {
        self.summaries.makes_numbers() && self.activity.possible_of_host.contains(v)
    }

    /// Which cotangents are 1, and which may be infinite because of a root at zero. It asks for
    /// totals of arrays, so [`Self::overwrites`] come first.
    pub fn find_units_and_roots(&mut self, root: bool) {
        let input = ActivityInput {
            program: self.program,
            key: self.variant.func,
            root,
            func: self.func(),
            cfg: self.cfg,
            uses: self.uses,
            params: &self.variant.params,
            results: &self.variant.results,
            pointers: &self.pointers,
            contents: &self.contents,
            lanes: &self.activity.lane,
            steps: &self.steps,
            summaries: self.summaries,
            constant: &self.constant.loads,
            untracked: untracked(self.program, self.variant.func, self.options),
            demanded: false,
            derived_again: false,
            asks: false,
            guessed: &self.guessed,
        };
        let summed = &self.overwrites.summed;
        let through = |store: ir::Inst| summed.get(&store).filter(|t| t.always).map(|t| t.sum);
        let units = unit_cotangents::compute(&input, &|v| self.is_active(v), &through);
        let roots = roots::compute(&input, self.options.under_root, &|v| self.is_active(v));
        (self.unit_cotangents, self.roots) = (units, roots);
    }

    /// Whether a number may be stored over a part of a float: the run time has to be told
    /// (`brolga_runtime::pieces`, in forward mode `brolga_runtime::calls::tangents`).
    pub fn overwrites_parts(&self) -> bool {
        let part = |&inst: &ir::Inst| {
            let across = self.fills(inst).or_else(|| self.straddles(inst));
            self.cuts(inst).is_some() || across == Some(0)
        };
        self.cfg.all_insts().iter().any(part)
    }

    /// Whether cotangents move in pieces, or end in pieces.
    pub fn needs_pieces(&self) -> bool {
        self.activity.moves_pieces(self.program) || self.overwrites_parts()
    }

    /// Why pieces of a cotangent may have to be put together in another place than that of the
    /// float, which one segment keeps account of: where, and what that does. Not where numbers are
    /// stored over doubles alone.
    pub fn keeps_account(&self) -> Option<(Option<ir::Inst>, &'static str)> {
        let (func, activity) = (self.func(), &self.activity);
        let across = |&inst: &ir::Inst| self.fills(inst).or_else(|| self.straddles(inst)) == Some(0);
        let known = |inst: &ir::Inst| func.layout.inst_block(*inst).is_some();
        if let Some(v) = activity.pieces.iter().find(|&v| activity.ct[v].is_some()) {
            return Some((func.dfg.value_def(v).inst().filter(known), "moves what may be a part of a float"));
        }
        let insts = || self.cfg.all_insts().iter().copied();
        if let Some(inst) = insts().find(|&inst| activity.moves_block(self.program, inst)) {
            return Some((Some(inst), "copies a block in which floats may lie anywhere"));
        }
        let inst = insts().find(across)?;
        Some((Some(inst), "stores integers over what may be floats of either size"))
    }

    /// Whether the run asks where the host has put floats, because integers become numbers.
    pub fn expects_numbers(&self) -> bool {
        let number = |&inst: &ir::Inst| self.activity.becomes[inst].number != 0;
        self.cfg.all_insts().iter().any(number)
    }

    /// The size of the floats of which a number may be stored over a part, or 0 if there may be
    /// doubles and singles. On a typed tape integers are in a channel of their own.
    pub fn cuts(&self, inst: ir::Inst) -> Option<u8> {
        if is_integer_access(self.func(), inst) {
            return None;
        }
        let MemRole::Kill { bytes, checked: false } = self.activity.mem[inst] else { return None };
        let addr = access_address(self.func(), inst).filter(|_| bytes < 8)?;
        if self.is_a_single(inst) {
            return None;
        }
        let singles = || self.singles.get_or_init(|| SingleCells::of(self.func(), |v| self.is_active(v)));
        let of = self.floats_around(inst, addr).filter(|&of| of != 4 || bytes < 4)?;
        (!singles().has(self.func(), inst)).then_some(of)
    }

    /// Whether this function moves doubles as words that need not lie at multiples of eight, as
    /// their accesses say: they may be halves of two.
    pub fn moves_unaligned_words(&self) -> bool {
        let func = self.func();
        let moves = |&inst: &ir::Inst| {
            let of = |value: ir::Value, addr: ir::Value| {
                let ty = func.dfg.value_type(value);
                !ty.is_float() && ty.bytes() >= 8 && self.activity.ct[value].is_some() && {
                    let kinds = kinds_around(func, &self.contents, self.summaries, inst, addr);
                    kinds.has(Kinds::F64) && !kinds.has(Kinds::F32)
                }
            };
            match func.dfg.insts[inst] {
                ir::InstructionData::Load { opcode: ir::Opcode::Load, arg, flags, .. } => {
                    !func.dfg.mem_flags[flags].aligned() && of(func.dfg.first_result(inst), arg)
                }
                ir::InstructionData::Store { opcode: ir::Opcode::Store, args: [value, addr], flags, .. } => {
                    !func.dfg.mem_flags[flags].aligned() && of(value, addr)
                }
                _ => false,
            }
        };
        // Other frontends do not say how accesses lie.
        self.program.confined && self.cfg.all_insts().iter().any(moves)
    }

    /// Whether a store of what has no derivative puts a single there, which is no number over a
    /// part of a double: a derivative has singles beside doubles in structs of results.
    pub fn is_a_single(&self, store: ir::Inst) -> bool {
        let func = self.func();
        self.program.nested > 0 && func.dfg.value_type(func.dfg.inst_args(store)[0]) == types::F32
    }

    /// Of what size floats are taken that a caller may have put there in the other one
    /// ([`Activity::guessed`]): words that move, and in a module numbers as long as a single.
    pub fn guessed(&self) -> u8 {
        let covers = |&inst: &ir::Inst| {
            let number = matches!(self.activity.mem[inst], MemRole::Kill { bytes: 4, checked: false });
            let addr = access_address(self.func(), inst).filter(|_| number && self.program.vmctx_pointers_only);
            addr.is_some_and(|addr| self.floats_around(inst, addr) == Some(4))
        };
        let single = self.cfg.all_insts().iter().any(covers);
        self.activity.guessed(self.func(), self.cfg) | u8::from(single)
    }

    /// The same of an integer as long as a float or longer, which is stored over parts of two if it
    /// does not lie as they do.
    pub fn straddles(&self, inst: ir::Inst) -> Option<u8> {
        let MemRole::Kill { bytes, checked: false } = self.activity.mem[inst] else { return None };
        let addr = access_address(self.func(), inst).filter(|_| bytes >= 8 && self.program.vmctx_pointers_only)?;
        let x = self.func().dfg.inst_args(inst)[0];
        self.floats_around(inst, addr).filter(|_| !self.func().dfg.value_type(x).lane_type().is_float())
    }

    /// The size of the floats that may lie where an access or a call leads to, or 0 if there may be
    /// doubles and singles: in modules, and in memory that this call, or a caller that has said so,
    /// has made.
    pub fn floats_around(&self, inst: ir::Inst, addr: ir::Value) -> Option<u8> {
        // Elsewhere a seed may lie where an integer is put; a tangent ends there, and of several
        // seeds no part has a place.
        let wide = self.options.width != 1;
        let asks = self.program.vmctx_pointers_only || self.mode == Mode::Tangent || wide;
        if !asks && !self.is_made_here(addr) && !self.passed_with_floats(addr) {
            return None;
        }
        let kinds = kinds_around(self.func(), &self.contents, self.summaries, inst, addr);
        let singles = kinds.has(Kinds::F32) || self.program.unaligned_doubles;
        match (kinds.has(Kinds::F64), singles) {
            (true, false) => Some(8),
            (false, true) => Some(4),
            (true, true) => Some(0),
            // In a module's memory the host may have put some that the program does not read.
            (false, false) => (self.program.vmctx_pointers_only || self.passed_with_floats(addr)).then_some(0),
        }
    }

    /// The size of the floats of which a call may fill a part with numbers, as for
    /// [`Facts::floats_around`].
    pub fn fills(&self, inst: ir::Inst) -> Option<u8> {
        if !self.program.vmctx_pointers_only {
            return None;
        }
        let CalleeKind::Known(rule) = CalleeKind::of(self.program, self.func(), inst)? else { return None };
        let to = self.func().dfg.inst_args(inst).first().copied()?;
        let ints = matches!(self.activity.copies[inst], None | Some(activity::CopyRole::Ints));
        match rule.kind {
            MathKind::Memory(MemFn::Memset) => self.floats_around(inst, to),
            MathKind::Memory(MemFn::Memcpy | MemFn::Memmove) if ints => self.floats_around(inst, to),
            _ => None,
        }
    }

    /// Whether floats may be stored where an address leads to: as such, or as integers of which it
    /// is not certain that they are any, half of a pair of words that were put together, say.
    pub fn may_hold_floats(&self, addr: ir::Value) -> bool {
        let unsure = || {
            let func = self.func();
            let stores = self.cfg.all_insts().iter().filter(|&&i| func.dfg.insts[i].opcode().can_store());
            let floats = stores.filter(|&&i| matches!(self.activity.mem[i], MemRole::Float(_)));
            floats.filter_map(|&i| access_address(func, i)).map(|a| self.contents.find(a)).collect()
        };
        let known = self.contents.of_class(addr).has_float() || self.passed_with_floats(addr);
        known || self.float_stores.get_or_init(unsure).contains(&self.contents.find(addr))
    }

    /// Whether an address leads to memory of a caller's of which it has said that there are floats
    /// ([`ParamMode::Dup`], `floats`).
    fn passed_with_floats(&self, addr: ir::Value) -> bool {
        self.passed(addr, |m| matches!(m, ParamMode::Dup { floats: true, .. }))
    }

    /// Whether an address leads to what a parameter of such a mode points at.
    fn passed(&self, addr: ir::Value, wanted: impl Fn(&ParamMode) -> bool) -> bool {
        let class = self.contents.find(addr);
        let params = self.func().dfg.block_params(self.cfg.blocks[0]);
        let mut passed = params.iter().zip(&self.variant.params).filter(|p| wanted(p.1));
        passed.any(|p| self.contents.find(*p.0) == class)
    }

    /// The function's body.
    pub fn func(&self) -> &'a ir::Function {
        &self.primal.func
    }

    /// Whether a value carries a cotangent.
    pub fn is_active(&self, v: ir::Value) -> bool {
        self.activity.ct[v].is_some()
    }

    /// The name of a value's delta; `None` if it has no shadow.
    pub fn delta(&self, v: ir::Value) -> Option<Val> {
        match self.pointers.delta[v] {
            Delta::Root(r) => Some(Val::Delta(r)),
            _ => None,
        }
    }

    /// Whether a value's delta is never zero.
    pub fn sure(&self, v: ir::Value) -> bool {
        self.pointers.root(v).is_some_and(|r| self.pointers.sure.contains(r))
    }

    /// The shadow of what lies so far behind an address; `None` if there is none.
    pub fn place(&self, addr: ir::Value, off: i32) -> Option<ShadowPlace> {
        let place = ShadowPlace::new(Val::Primal(addr), self.delta(addr)?, off);
        Some(ShadowPlace { sure: self.sure(addr), ..place })
    }

    /// Whether an address is one of memory that this call made.
    pub fn is_made_here(&self, v: ir::Value) -> bool {
        self.pointers.root(v).is_some_and(|r| self.pointers.made_here.contains(r))
    }

    /// Whether memory that this call has made may have held pointers where an address leads.
    pub fn held_pointers(&self, v: ir::Value) -> bool {
        let recycled = |m: &ParamMode| matches!(m, ParamMode::Dup { recycled: true, .. });
        self.is_made_here(v) && (self.contents.of_class(v).has(Kinds::POINTER) || self.passed(v, recycled))
    }

    /// Whether memory that this call, or a caller that has said so, has made may hold floats where
    /// an address leads.
    pub fn held_floats(&self, v: ir::Value) -> bool {
        self.is_made_here(v) && self.may_hold_floats(v) || self.passed_with_floats(v)
    }

    /// The instruction of the input that an instruction stems from.
    pub fn original(&self, inst: ir::Inst) -> ir::Inst {
        original(self.func(), inst)
    }

    /// A diagnostic placed at an instruction.
    pub fn at(&self, inst: ir::Inst, d: Diagnostic) -> Diagnostic {
        d.at(self.program, self.variant.func, self.original(inst))
    }
}

/// Loads that the pullback may do again, releases that wait for that, and what callees are told of
/// memory that is kept.
fn reloads(
    input: &ClobberInput<'_>,
    options: &Options,
    mode: Mode,
    preserved: PreservedMemory,
) -> (EntitySet<ir::Inst>, EntitySet<ir::Inst>, HashMap<ir::Inst, PreservedMemory>) {
    let (split, forward) = (mode == Mode::Split, mode == Mode::Tangent);
    let mut reload = EntitySet::new();
    if mode.is_joint() && options.runs(Pass::Reload) {
        reload = clobber::reloadable(input);
    }
    let deferred = if !mode.is_joint() { EntitySet::new() } else { clobber::deferred(input) };
    let mut told = HashMap::default();
    if options.runs(Pass::PreservedMemory) && !forward {
        told = preserved::calls(input, split.then_some(preserved));
        reload.extend(preserved::loads(input.places(), preserved).iter());
    }
    (reload, deferred, told)
}

/// Calls whose forward half waits for the reverse half.
fn joint(input: &ClobberInput<'_>, uses: &Uses, activity: &Activity, cx: Context<'_>) -> EntitySet<ir::Inst> {
    let Context { options, summaries, .. } = cx;
    if !options.runs(Pass::JointCalls) || !options.runs(Pass::Dce) {
        return EntitySet::new();
    }
    let is_active = |v| activity.ct[v].is_some();
    let (delays, rerunnable) = (summaries.delays(), summaries.rerunnable());
    joint_calls(&JointInput { at: input, uses, is_active: &is_active, delays, rerunnable })
}

/// What becomes of operations on bits in a function.
fn untracked(program: &Program, func: FuncKey, options: &Options) -> Untracked {
    if program.funcs[func].untracked { Untracked::Trap } else { options.untracked }
}

/// Masked floats of which it is not known whether they are guarded products.
fn unclear_products(
    program: &Program,
    variant: &Variant,
    primal: &NormalisedPrimal,
    activity: &Activity,
) -> Vec<Diagnostic> {
    let func = &primal.func;
    let active = |&i: &ir::Inst| func.dfg.inst_results(i).first().is_some_and(|&z| activity.ct[z].is_some());
    let found = primal.cfg.all_insts().iter().copied().filter(active).filter(|&i| products::is_unclear(func, i));
    let diagnostic = |inst: ir::Inst| {
        let op = func.dfg.insts[inst].opcode();
        Diagnostic::new("AD0110", format!("`{op}` masks a product by one of its factors, whose lanes were moved"))
            .note("whether it is the guard of a derivative, or a choice of the program's, cannot be seen; their derivatives differ where that factor is zero")
            .help("mask before lanes are moved, or derive with Effort::Quick what is derived again")
            .at(program, variant.func, original(func, inst))
    };
    found.map(diagnostic).collect()
}

/// Block parameters of a primal block that are roots of their own deltas.
pub(crate) fn delta_params(facts: &Facts<'_>, b: ir::Block) -> Vec<(usize, ir::Value)> {
    let func = facts.func();
    let is_phi = |v: ir::Value| {
        facts.pointers.delta[v] == Delta::Root(v) && matches!(facts.pointers.roots.get(&v), Some(RootKind::Phi(..)))
    };
    func.dfg.block_params(b).iter().copied().enumerate().filter(|&(_, v)| is_phi(v)).collect()
}

/// Whether some function of the program loads an address from memory that may have a shadow.
fn loads_pointers(
    program: &Program,
    func: &ir::Function,
    cfg: &Cfg,
    summaries: &Summaries,
    pointers: &Pointers,
) -> bool {
    !program.vmctx_pointers_only && (summaries.loads_pointers() || summarise::loads_pointers(func, cfg, pointers))
}

/// Whether the run asks what a word is that is loaded and stored as it is. A typed tape records no
/// addresses, but forward mode needs none. Words of an instance's memory have no shadow to ask.
fn asks(program: &Program, options: &Options, mode: Mode) -> bool {
    !program.vmctx_pointers_only && (options.tape != TapeKind::Typed || mode == Mode::Tangent)
}

/// What the function's integers and its memory are.
fn inferred(
    program: &Program,
    variant: &Variant,
    primal: &NormalisedPrimal,
    summaries: &Summaries,
    asks: bool,
) -> solve::MemorySolution {
    let NormalisedPrimal { func, cfg, uses, .. } = primal;
    let (pointer_copy, bits) = (EntitySet::new(), EntitySet::new());
    let given = summaries.given(variant.func);
    let input = PointerInput { program, func, cfg, params: &variant.params, summaries, given, pointer_copy, bits };
    solve::solve(&input, &variant.results, uses, asks)
}
