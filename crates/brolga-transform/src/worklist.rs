//! Names of what is to be derived.
//!
//! A function is derived in as many *variants* as it is called in: a function with the modes of its parameters and results. Whoever
//! asks for one is given a name at once, and the body comes when its turn does; so recursion needs nothing special. To ask again gives
//! the same name: a variant may be derived a second time.

use brolga_analysis::{Kept, Variant};
use brolga_ir::map::{HashMap, IndexSet};
use brolga_ir::{FuncKey, Program};

use crate::stmt::Callees;

/// How a variant is derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    /// Forward pass and pullback.
    Pair,
    /// One function for both halves.
    Whole,
}

/// Names of variants, in the order in which they were asked for.
pub(crate) struct Worklist<'a> {
    program: &'a Program,
    /// What has been asked for.
    pub variants: IndexSet<(Variant, Kind)>,
    per_func: HashMap<(FuncKey, Kind), u32>,
    /// What has been told is kept, by function.
    kept: HashMap<FuncKey, IndexSet<Kept>>,
    /// Forward pass and pullback, or the one function and nothing.
    pub names: Vec<(String, String)>,
}

impl<'a> Worklist<'a> {
    /// Nothing has been asked for.
    pub fn new(program: &'a Program) -> Self {
        let (variants, per_func, kept, names) = Default::default();
        Self { program, variants, per_func, kept, names }
    }

    /// A suffix that no other variant of the function has.
    pub fn suffix(&mut self, func: FuncKey, kind: Kind) -> String {
        let n = self.per_func.entry((func, kind)).or_default();
        *n += 1;
        if *n == 1 { String::new() } else { format!("_v{n}") }
    }

    fn ask(&mut self, variant: Variant, kind: Kind) -> (String, String) {
        let key = (variant, kind);
        if let Some(i) = self.variants.get_index_of(&key) {
            return self.names[i].clone();
        }
        let func = key.0.func;
        let suffix = self.suffix(func, kind);
        let base = &self.program.funcs[func].symbol;
        let names = match kind {
            Kind::Pair => (format!("{base}__forward{suffix}"), format!("{base}__pullback{suffix}")),
            Kind::Whole => (format!("{base}__gradient{suffix}"), String::new()),
        };
        self.variants.insert(key);
        self.names.push(names.clone());
        names
    }
}

/// Ways in which memory may be kept for which a function is derived; all others are told nothing.
const MOST_KEPT: usize = 4;

impl Callees for Worklist<'_> {
    fn derive(&mut self, mut variant: Variant) -> (String, String) {
        if !variant.kept.is_nothing() {
            let known = self.kept.entry(variant.func).or_default();
            if known.len() < MOST_KEPT {
                known.insert(variant.kept);
            } else if !known.contains(&variant.kept) {
                variant.kept = Kept::NOTHING;
            }
        }
        self.ask(variant, Kind::Pair)
    }

    fn whole(&mut self, variant: Variant) -> String {
        self.ask(variant, Kind::Whole).0
    }
}
