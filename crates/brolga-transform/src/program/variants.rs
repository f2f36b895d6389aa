//! Variant interning: names of the variants that are to be derived, and widening where there would
//! be too many.
//!
//! **Question.** Call sites ask for derivatives of a function under different modes. Which are
//! derived, and under which names?
//!
//! **Answer.** A function is derived in as many *variants* as it is called in: a function with the
//! modes of its parameters and results. A request for one is given a name at once, and the body
//! comes when the worklist reaches it; so recursion needs nothing special. A second request gives
//! the same name: a variant may be derived a second time.
//!
//! **Not too many.** In a large program every integer that comes from memory may carry a float, or
//! a part of one, or nothing, so a function of six parameters has hundreds of variants, each of
//! which calls others. The first few of a function are derived as they are asked for. From then on
//! callers get what the *function* makes of its integers, whatever they know of them
//! ([`Worklist::settled`]): a place in an instance's memory is [`ParamMode::Opaque`], where a
//! cotangent that arrives after all is a trap; and of an integer that is a double's bits to the
//! function the caller gets a cotangent, which it may drop.
//!
//! **Invariant.** Who asks is told which variant it got, and takes its cotangents as that says. It
//! knows at least as much as was asked for: nothing that might carry a cotangent is taken for a
//! constant.
//!
//! **Cost.** A look-up by variant for each request. No more than four sets of modes of a function
//! are derived as they are asked for, and one once there are a thousand variants.
//!
//! **Source.** Procedure cloning (Cooper, Hall and Kennedy, 1993), with a bound.

use brolga_analysis::{ParamMode, PreservedMemory, ResultMode, Summaries, Variant};
use brolga_ir::inst::Shape;
use brolga_ir::map::{HashMap, IndexSet};
use brolga_ir::{FuncKey, Program};
use cranelift_codegen::ir::types;

use crate::derived::{PairSymbols, Symbols};
use crate::translate::stmt::Callees;

/// How a variant is derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum VariantForm {
    /// Forward pass and pullback.
    Pair,
    /// One function for both halves.
    Combined,
    /// One function of forward mode.
    Tangent,
}

/// Modes of parameters and results.
type Modes = (Vec<ParamMode>, Vec<ResultMode>);

/// Names of variants, in the order in which they were asked for.
pub(crate) struct Worklist<'a> {
    program: &'a Program,
    summaries: &'a Summaries,
    /// What has been asked for.
    pub variants: IndexSet<(Variant, VariantForm)>,
    per_func: HashMap<(FuncKey, VariantForm), u32>,
    /// What has been told is kept, by function.
    preserved: HashMap<FuncKey, IndexSet<PreservedMemory>>,
    /// Modes that have been asked for and are derived as they are, by function.
    modes: HashMap<FuncKey, IndexSet<Modes>>,
    /// Their symbols.
    pub names: Vec<Symbols>,
}

impl<'a> Worklist<'a> {
    /// Nothing has been asked for.
    pub(crate) fn new(program: &'a Program, summaries: &'a Summaries) -> Self {
        let (variants, per_func, preserved, modes, names) = Default::default();
        Self { program, summaries, variants, per_func, preserved, modes, names }
    }

    /// Forward pass and pullback of this very variant.
    pub(crate) fn exactly(&mut self, variant: Variant) -> PairSymbols {
        self.ask(variant, VariantForm::Pair).pair()
    }

    /// The modes of a call, or if the function has been derived for many others, those that its own
    /// code suggests.
    fn settled(&mut self, variant: &mut Variant) {
        let modes = (variant.params.clone(), variant.results.clone());
        let known = self.modes.entry(variant.func).or_default();
        if known.contains(&modes) {
            return;
        }
        let most = if self.variants.len() < LARGE { MOST_MODES } else { MOST_MODES_OF_LARGE };
        if known.len() < most {
            known.insert(modes);
            return;
        }
        let (f, s, sig) = (variant.func, self.summaries, &self.program.funcs[variant.func].signature);
        for (i, (mode, p)) in variant.params.iter_mut().zip(&sig.params).enumerate() {
            // What moves in pieces has no size yet, and a small number may look like a single.
            let double = p.value_type == types::I64 && s.param_lane(f, i) == 8;
            let pieces = matches!(mode, ParamMode::Bits { shape: Shape::Bytes { .. } | Shape::Demand { .. }, .. });
            match *mode {
                ParamMode::Const | ParamMode::Opaque { definite: false } | ParamMode::Bits { definite: false, .. }
                    if s.is_offset(f, i) =>
                {
                    *mode = ParamMode::Opaque { definite: false };
                }
                ParamMode::Const | ParamMode::Bits { definite: false, .. } if double && !pieces => {
                    *mode = ParamMode::Bits { shape: Shape::F64, definite: false };
                }
                _ => {}
            }
        }
        // A ticket is right for floats of any size. Of what is not asked for nothing is refused, so
        // that stays as it is.
        for (mode, r) in variant.results.iter_mut().zip(&sig.returns) {
            if r.value_type == types::I64 && matches!(mode, ResultMode::Bits(_)) {
                *mode = ResultMode::Bits(Shape::Bytes { n: 8, of: 0 });
            }
        }
    }

    /// A suffix that no other variant of the function has.
    pub(crate) fn suffix(&mut self, func: FuncKey, kind: VariantForm) -> String {
        let n = self.per_func.entry((func, kind)).or_default();
        *n += 1;
        if *n == 1 { String::new() } else { format!("_v{n}") }
    }

    /// Names of a variant, which is derived in such a way.
    pub(crate) fn ask(&mut self, variant: Variant, kind: VariantForm) -> Symbols {
        let key = (variant, kind);
        if let Some(i) = self.variants.get_index_of(&key) {
            return self.names[i].clone();
        }
        let func = key.0.func;
        let names = self.fresh(func, kind);
        self.variants.insert(key);
        self.names.push(names.clone());
        names
    }

    /// Names that no other variant has, and no function of the program, imported or not: it may
    /// have derivatives of the function already, and others of such names.
    pub(crate) fn fresh(&mut self, func: FuncKey, kind: VariantForm) -> Symbols {
        loop {
            let names = self.spelled(func, kind);
            let taken = |s: &str| self.program.func(s).is_some();
            if !names.both().into_iter().any(taken) {
                return names;
            }
        }
    }

    /// Names that no other variant has.
    fn spelled(&mut self, func: FuncKey, kind: VariantForm) -> Symbols {
        let suffix = self.suffix(func, kind);
        let base = &self.program.funcs[func].symbol;
        match kind {
            VariantForm::Pair => Symbols::Pair(PairSymbols {
                forward: format!("{base}__forward{suffix}"),
                pullback: format!("{base}__pullback{suffix}"),
            }),
            VariantForm::Combined => Symbols::Combined(format!("{base}__gradient{suffix}")),
            VariantForm::Tangent => Symbols::Combined(format!("{base}__tangent{suffix}")),
        }
    }
}

/// Ways in which memory may be kept for which a function is derived; all others are told nothing.
const MOST_PRESERVED: usize = 4;

/// Ways in which parameters and results may take part for which a function is derived as its
/// callers ask.
const MOST_MODES: usize = 4;
/// The same as soon as there are [`LARGE`] variants in all.
const MOST_MODES_OF_LARGE: usize = 1;
/// So many variants make a large program.
const LARGE: usize = 1000;

impl Callees for Worklist<'_> {
    fn derive(&mut self, mut variant: Variant) -> (Variant, PairSymbols) {
        self.settled(&mut variant);
        if !variant.preserved.is_nothing() {
            let known = self.preserved.entry(variant.func).or_default();
            if known.len() < MOST_PRESERVED {
                known.insert(variant.preserved);
            } else if !known.contains(&variant.preserved) {
                variant.preserved = PreservedMemory::NOTHING;
            }
        }
        let names = self.exactly(variant.clone());
        (variant, names)
    }

    fn joint(&mut self, variant: Variant) -> String {
        self.ask(variant, VariantForm::Combined).combined()
    }

    fn tangent(&mut self, mut variant: Variant) -> (Variant, String) {
        self.settled(&mut variant);
        let symbol = self.ask(variant.clone(), VariantForm::Tangent).combined();
        (variant, symbol)
    }
}
