//! Name lookup: what names mean while a graph is lowered.
//!
//! **Problem.** Every operand of every derived instruction is looked up, and in the pullback a name
//! means something else in each block.
//!
//! **Answer.** Names are numbered densely as they are, by primal values and derived values, so a
//! look-up is an index and no hash. Where a block begins whose names are its own, all names but
//! those of derived values are forgotten at once, by counting the times that this has happened:
//! what an earlier time has left is not there any more.
//!
//! **Cost.** A constant number of steps for a look-up, and for forgetting.

use cranelift_codegen::ir;
use cranelift_codegen::packed_option::PackedOption;
use cranelift_entity::{EntityRef, SecondaryMap};

use crate::Dv;
use crate::inst::Val;
use crate::map::{HashMap, one_each};

/// A meaning, and the time in which it holds.
#[derive(Clone, Copy, Default)]
struct Meaning {
    value: PackedOption<ir::Value>,
    time: u32,
}

/// Names of the forward pass; in the pullback, those of the current block, or of the loop that is
/// run again. And derived values.
pub(super) struct NameMap {
    primal: SecondaryMap<ir::Value, Meaning>,
    delta: SecondaryMap<ir::Value, Meaning>,
    tangent: SecondaryMap<ir::Value, Meaning>,
    aux: HashMap<Val, ir::Value>,
    derived: SecondaryMap<Dv, PackedOption<ir::Value>>,
    time: u32,
}

impl NameMap {
    /// Nothing is named, in a function with so many values.
    pub(super) fn new(values: usize) -> Self {
        Self {
            primal: one_each(values),
            delta: SecondaryMap::new(),
            tangent: SecondaryMap::new(),
            aux: HashMap::default(),
            derived: SecondaryMap::new(),
            time: 0,
        }
    }

    fn now(&self, m: Meaning) -> Option<ir::Value> {
        m.value.expand().filter(|_| m.time == self.time)
    }

    /// What a primal value is called.
    pub(super) fn primal(&self, v: ir::Value) -> Option<ir::Value> {
        self.now(self.primal[v])
    }

    /// What a name means.
    pub(super) fn get(&self, name: Val) -> Option<ir::Value> {
        match name {
            Val::Primal(v) => self.primal(v),
            Val::Delta(v) => self.now(self.delta[v]),
            Val::Tangent(v, 0) => self.now(self.tangent[v]),
            Val::Aux(..) | Val::Tangent(..) => self.aux.get(&name).copied(),
            Val::D(d) => self.derived[d].expand(),
        }
    }

    /// From here on, a name means this value.
    pub(super) fn set(&mut self, name: Val, value: ir::Value) {
        let meaning = Meaning { value: value.into(), time: self.time };
        match name {
            Val::Primal(v) => self.primal[v] = meaning,
            Val::Delta(v) => self.delta[v] = meaning,
            Val::Tangent(v, 0) => self.tangent[v] = meaning,
            Val::Aux(..) | Val::Tangent(..) => {
                self.aux.insert(name, value);
            }
            Val::D(d) => {
                if d.index() >= self.derived.keys().len() {
                    self.derived.resize((2 * d.index()).max(64));
                }
                self.derived[d] = value.into();
            }
        }
    }

    /// Forget all names but those of derived values.
    pub(super) fn forget(&mut self) {
        self.time += 1;
        self.aux.clear();
    }
}
