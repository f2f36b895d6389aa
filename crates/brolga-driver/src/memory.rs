//! Memory of a run: what compiled code reads and writes, owned, aligned, fenced.
//!
//! **Question.** Where do the buffers of a call and their shadows lie, and has the run kept to
//! them?
//!
//! **Answer.** Every buffer argument of an [`Invocation`] becomes a [`Block`] of its own, aligned
//! for the widest vector. Primal and shadow have equal size; for a batch a shadow is as many times
//! as large ([`Memory::of_width`]). Both lie between fences of a fixed pattern, so that a store
//! past either end is found when the run is over ([`Memory::damage`]), which matters most for
//! shadows: nothing but generated code ever writes there.
//!
//! The buffers of a call to a WebAssembly function lie in the memory of an instance, which has no
//! fences: there a program may write wherever it likes.
//!
//! **Cost.** A copy of the contents and of the shadow of each buffer, and a kilobyte of fence on
//! either side of both. A look for damage reads the fences.

use brolga::drivers::support::Lane;
use brolga::{Arg, ArgActivity, ArgSpec, Diagnostic, Error};
use brolga_wasm::Instance;
use cranelift_codegen::data_value::DataValue;

use crate::bind::{BoundArg, Invocation};
use crate::text::ElemType;

/// Fence on either side, in words of 16 bytes.
const FENCE_WORDS: usize = 64;
const PATTERN: u128 = 0x5bad_c0de_5bad_c0de_5bad_c0de_5bad_c0de;

/// A block of bytes: fenced, or part of an instance's memory.
#[derive(Debug)]
pub struct Block {
    place: Backing,
    len: usize,
}

#[derive(Debug)]
enum Backing {
    /// `u128`, so that the contents are aligned to 16 bytes.
    Fenced(Vec<u128>),
    /// The address, in memory that outlives the block.
    Instance(usize),
}

impl Block {
    /// A block with these contents.
    pub fn new(contents: &[u8]) -> Self {
        let inner = contents.len().div_ceil(16);
        let place = Backing::Fenced(vec![PATTERN; inner + 2 * FENCE_WORDS]);
        let mut block = Self { place, len: contents.len() };
        block.bytes_mut().copy_from_slice(contents);
        block
    }

    /// `len` bytes of an instance's memory.
    ///
    /// # Safety
    /// They stay there, and nothing else borrows them, as long as the block is used.
    unsafe fn of_instance(address: *mut u8, len: usize) -> Self {
        Self { place: Backing::Instance(address as usize), len }
    }

    /// Address of the contents.
    pub fn address(&self) -> u64 {
        match &self.place {
            Backing::Fenced(words) => words.as_ptr().wrapping_add(FENCE_WORDS) as u64,
            Backing::Instance(address) => *address as u64,
        }
    }

    /// Bytes of the contents.
    pub fn size(&self) -> u64 {
        self.len as u64
    }

    /// The contents.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the range lies inside the words, whose bytes are all initialised, or in memory
        // that is there by contract.
        unsafe { std::slice::from_raw_parts(self.address() as *const u8, self.len) }
    }

    /// The contents, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; `&mut self` makes the borrow unique.
        unsafe { std::slice::from_raw_parts_mut(self.address() as *mut u8, self.len) }
    }

    /// Whether nothing was written before or after the contents.
    pub fn is_intact(&self) -> bool {
        let Backing::Fenced(all) = &self.place else { return true };
        let inner = self.len.div_ceil(16);
        let padding_start = FENCE_WORDS * 16 + self.len;
        let padding_end = (FENCE_WORDS + inner) * 16;
        // SAFETY: the whole of `words`, as bytes.
        let bytes = unsafe { std::slice::from_raw_parts(all.as_ptr().cast::<u8>(), all.len() * 16) };
        let pattern = PATTERN.to_ne_bytes();
        all[..FENCE_WORDS].iter().chain(&all[FENCE_WORDS + inner..]).all(|w| *w == PATTERN)
            && (padding_start..padding_end).all(|i| bytes[i] == pattern[i % 16])
    }
}

/// A buffer argument's memory.
#[derive(Debug)]
pub struct Buffer {
    /// What it holds.
    pub elem: ElemType,
    /// The buffer.
    pub primal: Block,
    /// Its shadow.
    pub shadow: Block,
}

/// The memory of one run.
#[derive(Debug)]
pub struct Memory {
    /// One per argument: buffers that the argument owns.
    buffers: Vec<Option<Buffer>>,
    args: Vec<BoundArg>,
    specs: Vec<ArgSpec>,
    /// The instance that holds the buffers.
    instance: Option<InstanceBuffers>,
}

/// An instance of a module that holds the buffers of a call.
#[derive(Debug)]
struct InstanceBuffers {
    instance: Instance,
    /// Addresses of buffers in it.
    at: Vec<Option<u32>>,
    /// The instance as an argument of a derivative.
    pointer: Arg,
}

/// What went wrong as an instance was made: its start function is part of the program, and a trap
/// there is a trap.
pub(crate) fn failure(e: brolga_wasm::Error) -> Error {
    use brolga_wasm::Error as Wasm;
    match e {
        Wasm::Trap(t) => Error::Trap(t),
        Wasm::Diagnostics(all) => Error::Diagnostics(all),
        Wasm::Internal { stage, message } => Error::Internal { stage, message },
        e => Error::Usage(e.to_string()),
    }
}

impl Memory {
    /// Fresh memory for a call.
    ///
    /// # Errors
    /// [`Error::Usage`] if the host has no room for another instance of a module.
    pub fn new(call: &Invocation) -> Result<Self, Error> {
        Self::of_width(call, 1)
    }

    /// The same for a batch of so many derivatives: shadows are as many times as large, and zeros.
    ///
    /// # Errors
    /// As of [`Self::new`]; AD0180 if there is room for an instance but none for its shadows.
    pub fn of_width(call: &Invocation, width: usize) -> Result<Self, Error> {
        if let Some(wasm) = &call.wasm {
            let (mut instance, at) = wasm.place(call).map_err(failure)?;
            let pointer = instance.pointer_of_width(width).map_err(|e| match e {
                brolga_wasm::Error::NoRoom { .. } => {
                    Error::Diagnostics(Diagnostic::new("AD0180", e.to_string()).into())
                }
                e => failure(e),
            })?;
            return Ok(Self::in_instance(call, InstanceBuffers { instance, at, pointer }, width));
        }
        let buffers = call
            .args
            .iter()
            .map(|a| match a {
                BoundArg::Buffer { elem, data, shadow } => {
                    let zeros;
                    let shadow = if width == 1 {
                        shadow
                    } else {
                        zeros = vec![0; shadow.len() * width];
                        &zeros
                    };
                    Some(Buffer { elem: *elem, primal: Block::new(data), shadow: Block::new(shadow) })
                }
                _ => None,
            })
            .collect();
        Ok(Self { buffers, args: values_of(call), specs: call.specs.clone(), instance: None })
    }

    fn in_instance(call: &Invocation, inside: InstanceBuffers, width: usize) -> Self {
        let (primal, shadow) = (inside.instance.vmctx(), inside.pointer.shadow as *mut u8);
        let buffers = call
            .args
            .iter()
            .zip(&inside.at)
            .map(|(arg, at)| match (arg, at) {
                (BoundArg::Buffer { elem, data, .. }, Some(at)) => {
                    let (at, n) = (*at as usize, data.len());
                    // SAFETY: the instance lives as long as the blocks, in the same struct, and we
                    // borrow its memory by them alone; `place` has allocated the bytes, for which a
                    // shadow has as many times more.
                    let [primal, shadow] = unsafe {
                        [(primal, 1), (shadow, width)]
                            .map(|(base, width)| Block::of_instance(base.add(at * width), n * width))
                    };
                    Some(Buffer { elem: *elem, primal, shadow })
                }
                _ => None,
            })
            .collect();
        Self { buffers, args: values_of(call), specs: call.specs.clone(), instance: Some(inside) }
    }

    fn owner(&self, i: usize) -> usize {
        if let BoundArg::Same(j) = self.args[i] { j } else { i }
    }

    /// The buffer behind argument `i`.
    pub fn buffer(&self, i: usize) -> Option<&Buffer> {
        self.buffers[self.owner(i)].as_ref()
    }

    /// The buffer behind argument `i`, to be changed.
    pub fn buffer_mut(&mut self, i: usize) -> Option<&mut Buffer> {
        let owner = self.owner(i);
        self.buffers[owner].as_mut()
    }

    /// The shadow of argument `i`, if the argument is duplicated.
    pub fn shadow(&self, i: usize) -> Option<&Buffer> {
        self.buffer(i).filter(|_| self.specs[i].activity == ArgActivity::Duplicated)
    }

    /// What to pass to the primal.
    pub fn values(&self) -> Vec<DataValue> {
        let instance = self.instance.iter().map(|i| i.pointer.value.clone());
        instance.chain((0..self.args.len()).map(|i| self.value(i))).collect()
    }

    /// What to pass to the forward pass.
    pub fn arguments(&self) -> Vec<Arg> {
        if let Some(inside) = &self.instance {
            let mut args: Vec<Arg> = self.values().into_iter().map(Arg::new).collect();
            args[0] = inside.pointer.clone();
            return args;
        }
        (0..self.args.len())
            .map(|i| match (self.shadow(i), self.buffer(i)) {
                (Some(b), _) => Arg::duplicated_len(b.primal.address(), b.shadow.address(), b.primal.size()),
                (None, Some(b)) => Arg::new(self.value(i)).with_len(b.primal.size()),
                (None, None) => Arg::new(self.value(i)),
            })
            .collect()
    }

    fn value(&self, i: usize) -> DataValue {
        if let Some(at) = self.instance.as_ref().and_then(|inside| inside.at[self.owner(i)]) {
            return DataValue::I32(at as i32);
        }
        match (&self.args[i], self.buffer(i)) {
            (BoundArg::Value(v), _) => v.clone(),
            (_, Some(b)) => DataValue::I64(b.primal.address() as i64),
            (_, None) => unreachable!("a buffer argument has a buffer"),
        }
    }

    /// The instance of a module that holds the buffers, and where in it those of arguments lie.
    pub fn instance_mut(&mut self) -> Option<(&mut Instance, &[Option<u32>])> {
        self.instance.as_mut().map(|inside| (&mut inside.instance, &inside.at[..]))
    }

    /// What was written outside of its bounds, as a sentence.
    pub fn damage(&self) -> Option<String> {
        self.buffers.iter().enumerate().find_map(|(i, b)| {
            let b = b.as_ref()?;
            let what = match (b.primal.is_intact(), b.shadow.is_intact()) {
                (true, true) => return None,
                (false, _) => "buffer",
                (true, false) => "shadow",
            };
            Some(format!("the {what} of argument {i} was written out of bounds"))
        })
    }

    /// Put shadows back to what they were at the start.
    pub fn reset_shadows(&mut self, call: &Invocation) {
        if let Some(InstanceBuffers { instance, .. }) = &mut self.instance {
            instance.clear_shadow();
            instance.clear_batches();
        }
        for (i, arg) in call.args.iter().enumerate() {
            if let (BoundArg::Buffer { shadow, .. }, Some(b)) = (arg, &mut self.buffers[i]) {
                let all = b.shadow.bytes_mut();
                let width = all.len().checked_div(shadow.len()).unwrap_or(1);
                (0..width).for_each(|k| call.interleave(i, all, shadow, Lane { k, width }));
            }
        }
    }
}

/// The arguments of a call without contents, which live in blocks.
fn values_of(call: &Invocation) -> Vec<BoundArg> {
    let empty = |a: &BoundArg| match a {
        BoundArg::Buffer { elem, .. } => BoundArg::Buffer { elem: *elem, data: Vec::new(), shadow: Vec::new() },
        other => other.clone(),
    };
    call.args.iter().map(empty).collect()
}

#[cfg(test)]
mod tests {
    use super::Block;

    #[test]
    fn blocks_are_aligned_and_fenced() {
        for len in [0, 1, 8, 16, 24, 100] {
            let contents: Vec<u8> = (0..len as u8).collect();
            let mut block = Block::new(&contents);
            assert_eq!(block.address() % 16, 0);
            assert_eq!(block.bytes(), contents);
            assert!(block.is_intact());
            // SAFETY: the fence lies after the contents, inside the allocation.
            unsafe { *(block.address() as *mut u8).add(len) ^= 1 };
            assert!(!block.is_intact(), "{len}");
            unsafe { *(block.address() as *mut u8).add(len) ^= 1 };
            block.bytes_mut().fill(0xff);
            assert!(block.is_intact());
            // SAFETY: likewise before them.
            unsafe { *(block.address() as *mut u8).sub(1) ^= 1 };
            assert!(!block.is_intact());
        }
    }
}
