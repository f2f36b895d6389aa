//! Several derivatives in one run of an instance: several directions of forward mode, several seeds
//! of a pullback, and what second derivatives have beside the shadow.
//!
//! **Problem.** A batch of N derivatives has N bytes of shadow for each byte of memory
//! ([`Options::width`](brolga::Options::width)). The shadow of an instance has one.
//!
//! **Answer.** Regions of address space as many times as large, laid out like the instance, one for
//! each width. They are made when a batch is run first, and grow with memory: pages cost nothing
//! until they are touched. One half is the shadow of a batch, or the tangent of memory; the other
//! is used by second derivatives only, for the tangent of the shadow.
//!
//! **Cost.** For each width that is used address space of a region whose memory and shadow are that
//! much wider.

use crate::error::Error;
use crate::host::region::Region;
use crate::instance::Instance;

impl Instance {
    /// The region of a width, as open as the instance is.
    pub(crate) fn batch(&mut self, width: usize) -> Result<&mut Region, Error> {
        let mut region = match self.state.batches.remove(&width) {
            Some(region) => region,
            None => Region::new(&self.module.0.layout, width)?,
        };
        let opened: Vec<u64> = self.state.region.opened().collect();
        for (memory, bytes) in opened.into_iter().enumerate() {
            region.clear_beyond(memory as u32, bytes);
            region.open(memory as u32, bytes)?;
        }
        Ok(self.state.batches.entry(width).or_insert(region))
    }

    /// Set to zero what batches and second derivatives have beside the shadow: tangents of memory
    /// and of its shadow, and shadows of every width but one.
    pub fn clear_batches(&mut self) {
        // A pullback may have their addresses.
        self.state.batches.values_mut().for_each(Region::clear_both);
    }

    /// The shadow of memory 0 for a derivative of a width, with the derivatives of each float side
    /// by side: those of a float at `a` begin at `width · a`. That of one derivative is [the
    /// shadow](Self::shadow_mut).
    ///
    /// # Errors
    /// [`Error::NoRoom`] if address space is short.
    pub fn shadows_mut(&mut self, width: usize) -> Result<&mut [u8], Error> {
        if width == 1 { Ok(self.shadow_mut()) } else { self.tangents_mut(width) }
    }

    /// What the last batch of a width has left in [the shadow of memory 0](Self::shadows_mut);
    /// nothing before the first.
    pub fn shadows(&self, width: usize) -> &[u8] {
        if width == 1 { self.shadow() } else { self.left(width, Region::vmctx) }
    }

    /// The same of [what products are added to](Self::products_mut).
    pub fn products_left(&self, width: usize) -> &[u8] {
        self.left(width, Region::shadow)
    }

    fn left(&self, width: usize, half: fn(&Region) -> *mut u8) -> &[u8] {
        let Some(region) = self.state.batches.get(&width) else { return &[] };
        let open = region.opened().next().unwrap_or(0).min(self.memory_size()) as usize;
        // SAFETY: as many bytes are accessible for each byte of the primal, and no code runs while
        // `self` is borrowed.
        unsafe { std::slice::from_raw_parts(half(region), open * width) }
    }

    /// The tangents of memory 0 for a second derivative of a width, side by side: directions before
    /// a [product](Self::products), and the tangents of what the function has left after it.
    ///
    /// # Errors
    /// As [`Self::shadows_mut`].
    pub fn tangents_mut(&mut self, width: usize) -> Result<&mut [u8], Error> {
        let n = self.memory_size() as usize * width;
        let at = self.batch(width)?.vmctx();
        // SAFETY: as many bytes are accessible for each byte of the primal, and no code runs
        // meanwhile.
        Ok(unsafe { std::slice::from_raw_parts_mut(at, n) })
    }

    /// The tangents of the shadow of memory 0, to which [products](Self::products) are added.
    ///
    /// # Errors
    /// As [`Self::shadows_mut`].
    pub fn products_mut(&mut self, width: usize) -> Result<&mut [u8], Error> {
        let n = self.memory_size() as usize * width;
        let at = self.batch(width)?.shadow();
        // SAFETY: as in `tangents_mut`.
        Ok(unsafe { std::slice::from_raw_parts_mut(at, n) })
    }
}
