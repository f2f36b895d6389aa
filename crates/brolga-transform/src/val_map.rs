//! Secondary map by the names of derived code.
//!
//! **Question.** What is known of a name, where every operand of every instruction asks?
//! **Answer.** Most names are numbers, of primal values or of derived ones, so a look-up is an
//! index; only what forward fragments hand over is looked up by hash.
//!
//! **Cost.** A constant number of steps for a look-up; space for each value of the primal, and up
//! to twice the derived values.

use brolga_ir::inst::Val;
use brolga_ir::map::{HashMap, one_each};
use cranelift_codegen::ir;
use cranelift_entity::SecondaryMap;

/// A table by names.
#[derive(Default)]
pub(crate) struct ValMap<T: Clone + Default> {
    primal: SecondaryMap<ir::Value, T>,
    delta: SecondaryMap<ir::Value, T>,
    tangent: SecondaryMap<ir::Value, T>,
    derived: Vec<T>,
    aux: HashMap<Val, T>,
}

impl<T: Copy + Default> ValMap<T> {
    /// For a primal of so many values. A table that grows with each name is filled a little at a
    /// time, which takes longer.
    pub(crate) fn new(values: usize) -> Self {
        Self { primal: one_each(values), ..Self::default() }
    }

    /// What a name has.
    pub(crate) fn get(&self, name: Val) -> T {
        match name {
            Val::Primal(v) => self.primal[v],
            Val::Delta(v) => self.delta[v],
            Val::D(d) => self.derived.get(d.as_u32() as usize).copied().unwrap_or_default(),
            Val::Tangent(v, 0) => self.tangent[v],
            Val::Aux(..) | Val::Tangent(..) => self.aux.get(&name).copied().unwrap_or_default(),
        }
    }

    /// What a name has, to be changed.
    pub(crate) fn at(&mut self, name: Val) -> &mut T {
        match name {
            Val::Primal(v) => &mut self.primal[v],
            Val::Delta(v) => &mut self.delta[v],
            Val::D(d) => {
                let at = d.as_u32() as usize;
                if at >= self.derived.len() {
                    self.derived.resize((2 * at).max(64), T::default());
                }
                &mut self.derived[at]
            }
            Val::Tangent(v, 0) => &mut self.tangent[v],
            Val::Aux(..) | Val::Tangent(..) => self.aux.entry(name).or_default(),
        }
    }
}
