//! Shadows of writable data objects.
//!
//! **Question.** A data object is one for all threads. Where are its cotangents?
//!
//! **Answer.** A data object has one primal, shared by all threads, and one shadow per segment, so
//! that runs on different threads do not mix their cotangents. All shadows of a segment lie in one
//! block, each on its own cache lines (hence aligned at least as well as any object that a compiler
//! would emit); generated code finds the shadow of object *i* by adding entry *i* of the table of
//! deltas to the object's address.
//!
//! **Cost.** Memory of the objects' sizes for each segment, cleared for each run.

/// Where a writable data object lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataSpan {
    /// Address of its first byte.
    pub address: usize,
    /// Its size in bytes.
    pub size: usize,
}

#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct ShadowLine([u8; 64]);

/// The shadows of the data objects of a program, zeroed, and the table of deltas that leads to
/// them.
#[derive(Default)]
pub struct GlobalShadows {
    lines: Vec<ShadowLine>,
    /// Per object: first line, and size in bytes.
    places: Box<[(usize, usize)]>,
    deltas: Box<[i64]>,
}

impl GlobalShadows {
    /// One zeroed shadow for each object, in this order: in a batch of `width` derivatives as many
    /// times as large, with a delta to as many times the object's address.
    pub fn new(objects: &[DataSpan], width: usize) -> Self {
        let mut places = Vec::with_capacity(objects.len());
        let mut count = 0;
        for object in objects {
            let size = object.size * width;
            places.push((count, size));
            // An empty object gets a line too: its delta must not be zero, which would say "no
            // shadow".
            count += size.div_ceil(64).max(1);
        }
        let lines = vec![ShadowLine([0; 64]); count];
        let base = lines.as_ptr() as usize;
        let delta = |(object, &(first, _)): (&DataSpan, &(usize, usize))| {
            (base + first * size_of::<ShadowLine>()).wrapping_sub(object.address.wrapping_mul(width)) as i64
        };
        let deltas = objects.iter().zip(&places).map(delta).collect();
        Self { lines, places: places.into(), deltas }
    }

    /// Shadow address minus primal address, for each object.
    pub fn deltas(&self) -> &[i64] {
        &self.deltas
    }

    /// The shadow of the object with this number.
    pub fn bytes(&self, object: usize) -> Option<&[u8]> {
        let &(first, size) = self.places.get(object)?;
        // SAFETY: `new` gave the object the lines from `first` on, as many as `size` bytes need,
        // and lines have no padding.
        Some(unsafe { std::slice::from_raw_parts(self.lines.as_ptr().add(first).cast(), size) })
    }

    /// The shadow of the object with this number, to be seeded.
    pub fn bytes_mut(&mut self, object: usize) -> Option<&mut [u8]> {
        let &(first, size) = self.places.get(object)?;
        // SAFETY: as in `bytes`; the exclusive borrow of `self` covers the slice.
        Some(unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().add(first).cast(), size) })
    }

    /// Where the shadows are.
    pub(crate) fn ranges(&self) -> impl ExactSizeIterator<Item = std::ops::Range<usize>> + '_ {
        let base = self.lines.as_ptr() as usize;
        self.places.iter().map(move |&(first, size)| {
            let from = base + first * size_of::<ShadowLine>();
            from..from + size
        })
    }

    /// Whether there are no shadows.
    pub fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Set every shadow to zero.
    pub fn zero(&mut self) {
        self.lines.fill(ShadowLine([0; 64]));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deltas_lead_to_the_shadows() {
        let (a, b) = ([1.5f64; 20], [0u8; 3]);
        let span = |address, size| DataSpan { address, size };
        let objects = [span(a.as_ptr() as usize, 160), span(8, 0), span(b.as_ptr() as usize, 3)];
        let mut shadows = GlobalShadows::new(&objects, 1);
        for (i, object) in objects.iter().enumerate() {
            let address = object.address.wrapping_add(shadows.deltas()[i] as usize);
            assert_eq!(address, shadows.bytes(i).unwrap().as_ptr() as usize);
            assert_eq!(address % 64, 0);
            assert_ne!(shadows.deltas()[i], 0);
            assert_eq!(shadows.bytes(i).unwrap().len(), object.size);
        }
        assert!(shadows.bytes(3).is_none());
        shadows.bytes_mut(2).unwrap()[1] = 9;
        assert_eq!(shadows.bytes(2).unwrap(), [0, 9, 0]);
        assert!(shadows.bytes(0).unwrap().iter().all(|&b| b == 0));
        shadows.zero();
        assert_eq!(shadows.bytes(2).unwrap(), [0, 0, 0]);
    }
}
