//! A set of names that is emptied for each block.
//!
//! Names are numbered densely as they are ([`Val`]), so membership is an index, and what an earlier block has left there is told by the
//! time at which it came.

use brolga_ir::inst::Val;
use brolga_ir::map::HashSet;
use cranelift_codegen::ir;
use cranelift_entity::SecondaryMap;

/// A set of names of the forward pass.
pub struct NameSet {
    primal: SecondaryMap<ir::Value, u32>,
    delta: SecondaryMap<ir::Value, u32>,
    others: HashSet<Val>,
    time: u32,
}

impl NameSet {
    /// An empty one, for a function with so many values.
    pub fn new(values: usize) -> Self {
        let mut primal = SecondaryMap::new();
        primal.resize(values);
        Self { primal, delta: SecondaryMap::new(), others: HashSet::default(), time: 1 }
    }

    /// Take all names out.
    pub fn clear(&mut self) {
        self.time += 1;
        self.others.clear();
    }

    /// Put a name in; whether it is new.
    pub fn insert(&mut self, name: Val) -> bool {
        let of = match name {
            Val::Primal(v) => &mut self.primal[v],
            Val::Delta(v) => &mut self.delta[v],
            _ => return self.others.insert(name),
        };
        std::mem::replace(of, self.time) != self.time
    }
}
