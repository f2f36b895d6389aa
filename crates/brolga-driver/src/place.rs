//! Placement: the buffers of a call in the memory of an instance.
//!
//! **Question.** Where in a module's memory do the buffers of a call lie?
//!
//! **Answer.** The instance allocates each ([`Wasm::place`]). Contents go there, initial shadows to
//! the same place of its shadow, and buffers of floats are declared as such where they are aligned.
//!
//! **Cost.** A fresh instance for each call, and a copy of the buffers.

use brolga_wasm::{Error, Instance};

use crate::bind::{BoundArg, Invocation};
use crate::wasm::Wasm;

impl Wasm {
    /// A fresh instance with the buffers of a call, and the address of each; shadows are set.
    pub fn place(&self, call: &Invocation) -> Result<(Instance, Vec<Option<u32>>), Error> {
        let mut instance = Instance::new(&self.module)?;
        let mut at = Vec::new();
        for arg in &call.args {
            at.push(match arg {
                BoundArg::Buffer { data, .. } => Some(instance.alloc(data.len().max(1) as u32)?),
                _ => None,
            });
        }
        for (arg, at) in call.args.iter().zip(&at) {
            if let (BoundArg::Buffer { elem, data, shadow }, Some(at)) = (arg, at) {
                let size = elem.bytes();
                if elem.is_float() && at.is_multiple_of(size as u32) {
                    instance.declare_floats(*at, data.len() / size, size as u32)?;
                }
                let range = *at as usize..*at as usize + data.len();
                instance.memory_mut()[range.clone()].copy_from_slice(data);
                instance.shadow_mut()[range].copy_from_slice(shadow);
            }
        }
        Ok((instance, at))
    }
}
