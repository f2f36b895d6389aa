//! Memory that compiled code reads and writes: owned, aligned, fenced.
//!
//! Every buffer argument of an [`Invocation`] becomes a block of its own, aligned for the widest vector. Primal and
//! shadow have equal size. Both lie between fences of a fixed pattern, so that a store past either end is found when the
//! run is over ([`Memory::damage`]), which matters most for shadows: nothing but generated code ever writes there.

use brolga::{Arg, ArgActivity};
use cranelift_codegen::data_value::DataValue;

use crate::bind::{BoundArg, Invocation};
use crate::text::ElemType;

/// Fence on either side, in words of 16 bytes.
const FENCE_WORDS: usize = 64;
const PATTERN: u128 = 0x5bad_c0de_5bad_c0de_5bad_c0de_5bad_c0de;

/// A fenced block of bytes.
#[derive(Debug)]
pub struct Block {
    /// `u128`, so that the contents are aligned to 16 bytes.
    words: Vec<u128>,
    len: usize,
}

impl Block {
    /// A block with these contents.
    pub fn new(contents: &[u8]) -> Self {
        let inner = contents.len().div_ceil(16);
        let mut block = Self { words: vec![PATTERN; inner + 2 * FENCE_WORDS], len: contents.len() };
        block.bytes_mut().copy_from_slice(contents);
        block
    }

    /// Address of the contents.
    pub fn address(&self) -> u64 {
        self.words.as_ptr().wrapping_add(FENCE_WORDS) as u64
    }

    /// Bytes of the contents.
    pub fn size(&self) -> u64 {
        self.len as u64
    }

    /// The contents.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the range lies inside `words`, whose bytes are all initialised.
        unsafe { std::slice::from_raw_parts(self.words.as_ptr().add(FENCE_WORDS).cast(), self.len) }
    }

    /// The contents, to be changed.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as in `bytes`; `&mut self` makes the borrow unique.
        unsafe { std::slice::from_raw_parts_mut(self.words.as_mut_ptr().add(FENCE_WORDS).cast(), self.len) }
    }

    /// Whether nothing was written before or behind the contents.
    pub fn is_intact(&self) -> bool {
        let all: &[u128] = &self.words;
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
    activity: Vec<ArgActivity>,
}

impl Memory {
    /// Fresh memory for a call.
    pub fn new(call: &Invocation) -> Self {
        let buffers = call
            .args
            .iter()
            .map(|a| match a {
                BoundArg::Buffer { elem, data, shadow } => {
                    Some(Buffer { elem: *elem, primal: Block::new(data), shadow: Block::new(shadow) })
                }
                _ => None,
            })
            .collect();
        // Only the values are needed from here on; the contents live in the blocks now.
        let args = call
            .args
            .iter()
            .map(|a| match a {
                BoundArg::Buffer { elem, .. } => BoundArg::Buffer { elem: *elem, data: Vec::new(), shadow: Vec::new() },
                other => other.clone(),
            })
            .collect();
        Self { buffers, args, activity: call.activity.clone() }
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
        self.buffer(i).filter(|_| self.activity[i] == ArgActivity::Duplicated)
    }

    /// What to pass to the primal.
    pub fn values(&self) -> Vec<DataValue> {
        (0..self.args.len()).map(|i| self.value(i)).collect()
    }

    /// What to pass to the forward pass.
    pub fn arguments(&self) -> Vec<Arg> {
        (0..self.args.len())
            .map(|i| match (self.shadow(i), self.buffer(i)) {
                (Some(b), _) => Arg::duplicated_len(b.primal.address(), b.shadow.address(), b.primal.size()),
                (None, Some(b)) => Arg::new(self.value(i)).with_len(b.primal.size()),
                (None, None) => Arg::new(self.value(i)),
            })
            .collect()
    }

    fn value(&self, i: usize) -> DataValue {
        match (&self.args[i], self.buffer(i)) {
            (BoundArg::Value(v), _) => v.clone(),
            (_, Some(b)) => DataValue::I64(b.primal.address() as i64),
            (_, None) => unreachable!("a buffer argument has a buffer"),
        }
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
        for (i, arg) in call.args.iter().enumerate() {
            if let (BoundArg::Buffer { shadow, .. }, Some(b)) = (arg, &mut self.buffers[i]) {
                b.shadow.bytes_mut().copy_from_slice(shadow);
            }
        }
    }
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
            // SAFETY: the fence lies behind the contents, inside the allocation.
            unsafe { *(block.address() as *mut u8).add(len) ^= 1 };
            assert!(!block.is_intact(), "{len}");
            unsafe { *(block.address() as *mut u8).add(len) ^= 1 };
            block.bytes_mut().fill(0xff);
            assert!(block.is_intact());
            // SAFETY: likewise in front of them.
            unsafe { *(block.address() as *mut u8).sub(1) ^= 1 };
            assert!(!block.is_intact());
        }
    }
}
