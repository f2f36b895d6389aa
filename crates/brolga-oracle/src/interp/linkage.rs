//! Linkage of the interpreter: addresses of functions and data objects.
//!
//! **Question.** A program takes the address of a function or of a data object. Which number is
//! that, and what lies there?
//!
//! **Answer.** By default each function has an address inside a table that is never read, and each
//! data object is a copy of its own. An embedder that has compiled the program can put the compiled
//! addresses of data here instead ([`Linkage::set_data`]); then data that both sides store in
//! memory means the same thing. [`Linkage::function_at`] is what an indirect call asks.
//!
//! **Invariant.** Nothing else can have the address of a function, and objects do not move.
//!
//! **Cost.** A copy of all data objects for each machine; a look-up in a hash table for each
//! question.

use std::collections::HashMap;

use brolga_ir::{DataKey, FuncKey, Program};
use cranelift_entity::EntityRef;

/// Where the functions and data objects of one program are.
#[derive(Debug)]
pub struct Linkage {
    /// Address of each function.
    funcs: HashMap<FuncKey, u64>,
    /// Function at each address; the inverse of `funcs`, kept because every indirect call asks.
    by_address: HashMap<u64, FuncKey>,
    /// Address of each data object.
    data: HashMap<DataKey, usize>,
    /// What the default function addresses point into, so that nothing else can have them.
    _code: Box<[u128]>,
    /// Storage of the data objects, by object; boxed slices do not move.
    _objects: Vec<Box<[u128]>>,
}

impl Linkage {
    /// Default addresses for everything, data objects with their initial contents.
    pub fn new(program: &Program) -> Self {
        let code = vec![0u128; program.funcs.len().max(1)].into_boxed_slice();
        let base = code.as_ptr() as u64;
        let mut linkage = Linkage {
            funcs: HashMap::new(),
            by_address: HashMap::new(),
            data: HashMap::new(),
            _code: code,
            _objects: Vec::new(),
        };
        for f in program.funcs.keys() {
            let address = base + 16 * f.index() as u64;
            linkage.funcs.insert(f, address);
            linkage.by_address.insert(address, f);
        }
        for (key, object) in program.data.iter() {
            let align = object.align.max(16) as usize;
            let mut storage = vec![0u128; (object.bytes.len() + align).div_ceil(16)].into_boxed_slice();
            let start = storage.as_ptr() as usize;
            let offset = start.next_multiple_of(align) - start;
            // SAFETY: the storage is at least `align + len` bytes, and offset < align.
            unsafe {
                let to = storage.as_mut_ptr().cast::<u8>().add(offset);
                std::ptr::copy_nonoverlapping(object.bytes.as_ptr(), to, object.bytes.len());
            }
            linkage.data.insert(key, start + offset);
            linkage._objects.push(storage);
        }
        linkage
    }

    /// Say that `data` has this address. Accesses are no longer to a copy of the object.
    pub fn set_data(&mut self, data: DataKey, address: usize) {
        self.data.insert(data, address);
    }

    /// The address of a function.
    pub fn function(&self, func: FuncKey) -> u64 {
        self.funcs[&func]
    }

    /// The function at an address.
    pub fn function_at(&self, address: u64) -> Option<FuncKey> {
        self.by_address.get(&address).copied()
    }

    /// The address of a data object.
    pub fn data(&self, data: DataKey) -> usize {
        self.data[&data]
    }
}
