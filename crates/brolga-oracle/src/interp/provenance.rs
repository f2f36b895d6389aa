//! Provenance: where the bytes of a value come from.
//!
//! **Problem.** A float travels in many disguises before it is used as a float again: as `i64`, as
//! two `i32`, as half of an `i8x16`, byte by byte through a copy loop, or next to another `f32` in
//! one word. A derivative must follow it, and must never be lost silently where it cannot be
//! followed.
//!
//! **Answer.** Every byte, in a register or in memory, is one of
//!
//! ```text
//! Clean                no active float went into it, or only in a way that is locally constant
//! Part { node, index, width }
//!                      byte `index` of the `width`-byte float that is node `node` of the graph
//! Upper { node, index }
//!                      the same of an upper half to which something was done (`halves.rs`)
//! Digits(node)         digits of the mantissa of a float, not the uppermost, moved or masked
//! Mixed(origin)        computed from active bits by an instruction that is not followed
//! ```
//!
//! Moving bytes moves these marks; nothing else needs to be known about a copy, whatever its width.
//! When bytes are used as a float, the marks are put together again ([`Prov::float`]): all parts of
//! one node in order give that node, all clean gives a constant, and anything else is *untracked*.
//! [`Prov`] is for registers, [`Marks`] for memory.
//!
//! **Locally constant bits.** Sign and exponent of a float change only at isolated points of the
//! real line, so a value computed from them alone has derivative zero wherever it has one.
//! [`mantissa`] says which bits of a byte are not of this kind; extracting only other bits gives
//! clean bytes. That makes sign tests, sign masks and `frexp`-like code transparent.
//!
//! **Invariant.**
//!
//! - `Prov` describes the 16 bytes of a [`super::value::TrackedVal`]; bytes beyond its type are
//!   clean.
//! - `Clean` as a whole is always spelled [`Prov::Clean`], and a lone float at byte 0 always
//!   [`Prov::Float`], so that the common cases take no allocation and equality means equality.
//!
//! **Cost.** Nothing but a tag where a value is clean or one float; elsewhere sixteen marks in a
//! box, and a walk over them for each operation. In memory a mark for each byte of a page of 256
//! that has held an active byte.

use std::collections::HashMap;

use cranelift_entity::entity_impl;

use super::domain::NodeId;

/// An instruction whose result is not followed, interned in [`super::Machine`]. Printed `origin2`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct OriginId(u32);
entity_impl!(OriginId, "origin");

/// What is known of one byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Byte {
    /// No active float went into it.
    #[default]
    Clean,
    /// A byte of a float.
    Part {
        /// The float.
        node: NodeId,
        /// Which of its bytes, from the least significant.
        index: u8,
        /// How many bytes it has: 4 or 8.
        width: u8,
    },
    /// A byte of what the upper half of an `f64` has become, which still moves as that does: see
    /// [`super::halves`].
    Upper {
        /// The float.
        node: NodeId,
        /// Which of its bytes, 4 to 7.
        index: u8,
    },
    /// Digits of the mantissa of a float, but not the uppermost, and constant bits beside them.
    /// They round what they are added to, if that is the same float; elsewhere they are not
    /// followed.
    Digits(NodeId),
    /// Computed from active bits in a way that is not followed.
    Mixed(OriginId),
}

/// What is known of the bytes of a value.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Prov {
    /// All bytes are clean.
    #[default]
    Clean,
    /// One float at byte 0, the rest is clean.
    Float {
        /// The float.
        node: NodeId,
        /// Its width in bytes.
        width: u8,
    },
    /// Anything else.
    Bytes(Box<[Byte; 16]>),
}

/// What a float made of some bytes is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FloatOrigin {
    /// A constant.
    Clean,
    /// A node of the graph.
    Node(NodeId),
    /// Bits that are not followed. The instruction that made them, or `None` if they are pieces of
    /// different floats.
    Untracked(Option<OriginId>),
}

/// A source of one bit of a result, see [`Prov::from_bits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bit {
    /// A constant.
    Clean,
    /// Bit `n` of the operand.
    Of(u32),
}

impl Prov {
    /// The bytes one by one.
    pub fn bytes(&self) -> [Byte; 16] {
        match self {
            Prov::Clean => [Byte::Clean; 16],
            Prov::Float { node, width } => {
                let mut bytes = [Byte::Clean; 16];
                write_float(&mut bytes, 0, *node, *width);
                bytes
            }
            Prov::Bytes(b) => **b,
        }
    }

    /// The shortest way to say that the bytes are `bytes`.
    pub fn new(bytes: [Byte; 16]) -> Self {
        if bytes.iter().all(|b| *b == Byte::Clean) {
            return Prov::Clean;
        }
        if let Some((node, width)) = float_starting_at(&bytes, 0)
            && bytes[width as usize..].iter().all(|b| *b == Byte::Clean)
        {
            return Prov::Float { node, width };
        }
        Prov::Bytes(Box::new(bytes))
    }

    /// Whether no byte depends on a float.
    pub fn is_clean(&self) -> bool {
        *self == Prov::Clean
    }

    /// The float of `width` bytes at byte `at`.
    pub fn float(&self, at: usize, width: u8) -> FloatOrigin {
        match self {
            Prov::Clean => FloatOrigin::Clean,
            Prov::Float { node, width: w } if at == 0 && *w == width => FloatOrigin::Node(*node),
            _ => float_at(&self.bytes()[at..at + width as usize], width),
        }
    }

    /// `n` bytes, each one a byte of `self` or clean.
    pub fn gather(&self, n: usize, from: impl Fn(usize) -> Option<usize>) -> Prov {
        if self.is_clean() {
            return Prov::Clean;
        }
        let old = self.bytes();
        let mut new = [Byte::Clean; 16];
        for (i, b) in new.iter_mut().enumerate().take(n) {
            *b = from(i).map_or(Byte::Clean, |k| old[k]);
        }
        Prov::new(new)
    }

    /// `n` bytes, each one of 32: those of `self`, then those of `high`.
    pub fn gather2(&self, high: &Prov, n: usize, from: impl Fn(usize) -> Option<usize>) -> Prov {
        if self.is_clean() && high.is_clean() {
            return Prov::Clean;
        }
        let old = [self.bytes(), high.bytes()];
        let mut new = [Byte::Clean; 16];
        for (i, b) in new.iter_mut().enumerate().take(n) {
            *b = from(i).map_or(Byte::Clean, |k| old[k / 16][k % 16]);
        }
        Prov::new(new)
    }

    /// `n` bytes, given bit by bit. A byte whose eight bits are those of one byte in order is that
    /// byte; a byte made of clean and locally constant bits is clean; any other is mixed.
    pub fn from_bits(&self, n: usize, from: impl Fn(u32) -> Bit, origin: OriginId) -> Prov {
        if self.is_clean() {
            return Prov::Clean;
        }
        let old = self.bytes();
        let mut new = [Byte::Clean; 16];
        for (i, b) in new.iter_mut().enumerate().take(n) {
            let sources: [Bit; 8] = std::array::from_fn(|k| from(8 * i as u32 + k as u32));
            let moved = match sources[0] {
                Bit::Of(s) if s % 8 == 0 && (0..8).all(|k| sources[k] == Bit::Of(s + k as u32)) => Some(s / 8),
                _ => None,
            };
            *b = match moved {
                Some(k) => old[k as usize],
                None if sources.iter().all(|s| match *s {
                    Bit::Clean => true,
                    Bit::Of(s) => mantissa(old[s as usize / 8]) & (1 << (s % 8)) == 0,
                }) =>
                {
                    Byte::Clean
                }
                None => {
                    let bits = sources.iter().filter_map(|s| if let Bit::Of(s) = *s { Some(s) } else { None });
                    digits(bits.map(|s| (old[s as usize / 8], 1 << (s % 8)))).unwrap_or(Byte::Mixed(origin))
                }
            };
        }
        Prov::new(new)
    }

    /// `n` bytes, all mixed.
    pub fn mixed(n: usize, origin: OriginId) -> Prov {
        let mut bytes = [Byte::Clean; 16];
        bytes[..n].fill(Byte::Mixed(origin));
        Prov::new(bytes)
    }
}

/// Mark the `width` bytes from `at` as the float `node`.
pub(crate) fn write_float(bytes: &mut [Byte], at: usize, node: NodeId, width: u8) {
    for index in 0..width {
        bytes[at + index as usize] = Byte::Part { node, index, width };
    }
}

/// The whole float that starts at byte `at`, with its width, if there is one.
pub(super) fn float_starting_at(bytes: &[Byte], at: usize) -> Option<(NodeId, u8)> {
    let Byte::Part { node, index: 0, width } = bytes[at] else { return None };
    let field = bytes.get(at..at + width as usize)?;
    (float_at(field, width) == FloatOrigin::Node(node)).then_some((node, width))
}

/// What a float made of exactly these bytes is.
pub(super) fn float_at(field: &[Byte], width: u8) -> FloatOrigin {
    if field.iter().all(|b| *b == Byte::Clean) {
        return FloatOrigin::Clean;
    }
    if let Byte::Part { node, index: 0, width: w } = field[0]
        && w == width
        && field.iter().enumerate().all(|(i, b)| *b == Byte::Part { node, index: i as u8, width })
    {
        return FloatOrigin::Node(node);
    }
    FloatOrigin::Untracked(field.iter().find_map(|b| match b {
        Byte::Mixed(o) => Some(*o),
        _ => None,
    }))
}

/// What bits of some bytes are together, if they are digits of one float.
pub(super) fn digits(bits: impl Iterator<Item = (Byte, u8)>) -> Option<Byte> {
    let mut of = None;
    for (byte, bit) in bits {
        let node = match byte {
            _ if bit & mantissa(byte) == 0 => continue,
            Byte::Part { index: 6, width: 8, .. } if bit & 0x08 != 0 => return None,
            Byte::Part { index: 2, width: 4, .. } if bit & 0x40 != 0 => return None,
            Byte::Part { node, .. } | Byte::Digits(node) => node,
            _ => return None,
        };
        if of.is_some_and(|of| of != node) {
            return None;
        }
        of = Some(node);
    }
    of.map(Byte::Digits)
}

/// The bits of a byte that are neither constant nor locally constant.
pub(super) fn mantissa(byte: Byte) -> u8 {
    match byte {
        Byte::Clean => 0,
        // Sign and exponent: 12 bits of an f64, 9 bits of an f32.
        Byte::Part { index: 7, width: 8, .. }
        | Byte::Part { index: 3, width: 4, .. }
        | Byte::Upper { index: 7, .. } => 0,
        Byte::Part { index: 6, width: 8, .. } | Byte::Upper { index: 6, .. } => 0x0f,
        Byte::Part { index: 2, width: 4, .. } => 0x7f,
        Byte::Part { .. } | Byte::Upper { .. } | Byte::Digits(_) | Byte::Mixed(_) => 0xff,
    }
}

const PAGE: usize = 256;

/// The marks of memory bytes; absent pages are clean.
///
/// Map from address / page size to the page, because active memory comes in few long runs. Only
/// clearing iterates, and the order does not matter to it.
#[derive(Debug, Default)]
pub struct Marks {
    pages: HashMap<usize, Box<[Byte; PAGE]>>,
}

impl Marks {
    /// The mark of one byte.
    pub fn get(&self, addr: usize) -> Byte {
        self.pages.get(&(addr / PAGE)).map_or(Byte::Clean, |p| p[addr % PAGE])
    }

    /// Mark one byte.
    pub fn set(&mut self, addr: usize, byte: Byte) {
        if byte != Byte::Clean {
            self.pages.entry(addr / PAGE).or_insert_with(|| Box::new([Byte::Clean; PAGE]))[addr % PAGE] = byte;
        } else if let Some(p) = self.pages.get_mut(&(addr / PAGE)) {
            p[addr % PAGE] = byte;
        }
    }

    /// The marks of `n <= 16` bytes.
    pub fn load(&self, addr: usize, n: usize) -> Prov {
        let no_page = |a: usize| !self.pages.contains_key(&(a / PAGE));
        if n == 0 || no_page(addr) && no_page(addr + n - 1) {
            return Prov::Clean;
        }
        let mut bytes = [Byte::Clean; 16];
        for (i, b) in bytes.iter_mut().enumerate().take(n) {
            *b = self.get(addr + i);
        }
        Prov::new(bytes)
    }

    /// Mark `n <= 16` bytes.
    pub fn store(&mut self, addr: usize, n: usize, prov: &Prov) {
        if prov.is_clean() {
            return self.clear(addr, n);
        }
        for (i, b) in prov.bytes().into_iter().enumerate().take(n) {
            self.set(addr + i, b);
        }
    }

    /// Forget everything about `n` bytes.
    pub fn clear(&mut self, addr: usize, n: usize) {
        let clear_in = |page: usize, marks: &mut [Byte; PAGE]| {
            let (begin, end) = (addr.max(page * PAGE), (addr + n).min((page + 1) * PAGE));
            if begin < end {
                marks[begin - page * PAGE..end - page * PAGE].fill(Byte::Clean);
            }
        };
        if n / PAGE > self.pages.len() {
            self.pages.iter_mut().for_each(|(&page, marks)| clear_in(page, marks));
        } else if n > 0 {
            for page in addr / PAGE..=(addr + n - 1) / PAGE {
                if let Some(marks) = self.pages.get_mut(&page) {
                    clear_in(page, marks);
                }
            }
        }
    }

    /// Copy the marks of `n` bytes; the ranges may overlap.
    pub fn copy(&mut self, dst: usize, src: usize, n: usize) {
        if self.pages.is_empty() {
            return;
        }
        let marks: Vec<Byte> = (0..n).map(|i| self.get(src + i)).collect();
        for (i, b) in marks.into_iter().enumerate() {
            self.set(dst + i, b);
        }
    }
}
