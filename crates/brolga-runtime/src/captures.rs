//! Captures: what forward and pullback share from derivation on, and the look-up behind indirect
//! calls.
//!
//! **Question.** An indirect call hands over the address of a primal function. Which functions are
//! its derivative?
//!
//! **Answer.** An indirect call hands us an address of a primal function at run time. The forward
//! pass needs that function's derived forward, the pullback its pullback; both are found by binary
//! search in one immutable table, sorted by primal address and then by signature. The signature id
//! stands for everything that the two sides of the call must agree on, so a function called through
//! the wrong type is not found instead of being called wrongly; one primal may appear under several
//! ids.
//!
//! **Cost.** A binary search for each call; 32 bytes for each function.

use std::ptr;

/// One primal function and its derivative.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DerivedPair {
    /// The function that the caller's pointer names.
    pub primal: *const u8,
    /// Its derived forward pass.
    pub forward: *const u8,
    /// Its pullback.
    pub pullback: *const u8,
    /// Id of the signature and activity under which it was derived.
    pub signature: u64,
}

impl DerivedPair {
    fn key(&self) -> (usize, u64) {
        (self.primal as usize, self.signature)
    }
}

/// The table as generated code sees it.
#[repr(C)]
#[derive(Debug)]
pub struct Captures {
    /// The first of the pairs, sorted by primal address and signature.
    pub pairs: *const DerivedPair,
    /// How many there are.
    pub n_pairs: u64,
}

/// Two derivatives were given for one function and signature.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("two derived pairs for the function at {primal:#x} with signature {signature}")]
pub struct CaptureError {
    /// Address of the function.
    pub primal: usize,
    /// The signature id.
    pub signature: u64,
}

/// Owner of a [`Captures`] and its pairs; its address does not change.
#[derive(Debug)]
pub struct CaptureTable {
    /// Points into `pairs`, whose storage does not move with the table; boxed so that it does not
    /// either.
    header: Box<Captures>,
    pairs: Box<[DerivedPair]>,
}

// SAFETY: nothing is changed after construction, and the addresses of code are not dereferenced
// here.
unsafe impl Send for CaptureTable {}
// SAFETY: as above.
unsafe impl Sync for CaptureTable {}

impl CaptureTable {
    /// A table of these pairs, in any order.
    pub fn new(mut pairs: Vec<DerivedPair>) -> Result<Self, CaptureError> {
        pairs.sort_unstable_by_key(DerivedPair::key);
        if let Some([pair, _]) = pairs.array_windows().find(|[a, b]| a.key() == b.key()) {
            return Err(CaptureError { primal: pair.primal as usize, signature: pair.signature });
        }
        let pairs = pairs.into_boxed_slice();
        let header = Box::new(Captures { pairs: pairs.as_ptr(), n_pairs: pairs.len() as u64 });
        Ok(Self { header, pairs })
    }

    /// The pointer that generated code finds in a segment, and hands to [`brolga_lookup`].
    pub fn as_ptr(&self) -> *const Captures {
        &*self.header
    }

    /// The pairs, sorted.
    pub fn pairs(&self) -> &[DerivedPair] {
        &self.pairs
    }
}

/// The pair derived for the function at `primal` under `signature`, or null.
///
/// # Safety
/// `captures` is null or points to a valid [`Captures`] whose pairs are sorted.
pub(crate) unsafe extern "C" fn brolga_lookup(
    captures: *const Captures,
    primal: *const u8,
    signature: u64,
) -> *const DerivedPair {
    // SAFETY: valid or null by our contract.
    let Some(captures) = (unsafe { captures.as_ref() }) else { return ptr::null() };
    // SAFETY: a valid header names that many pairs; an empty slice's pointer is aligned and not
    // null.
    let pairs = unsafe { std::slice::from_raw_parts(captures.pairs, captures.n_pairs as usize) };
    match pairs.binary_search_by_key(&(primal as usize, signature), DerivedPair::key) {
        Ok(found) => &pairs[found],
        Err(_) => ptr::null(),
    }
}

#[cfg(test)]
mod tests {
    use std::mem::{offset_of, size_of};

    use super::*;

    fn pair(primal: usize, signature: u64) -> DerivedPair {
        let code = |n| ptr::without_provenance(n);
        DerivedPair { primal: code(primal), forward: code(primal + 1), pullback: code(primal + 2), signature }
    }

    fn look(table: &CaptureTable, primal: usize, signature: u64) -> Option<DerivedPair> {
        // SAFETY: the table is alive, and a found pair lies in it.
        unsafe { brolga_lookup(table.as_ptr(), ptr::without_provenance(primal), signature).as_ref().copied() }
    }

    #[test]
    fn layout_is_what_generated_code_expects() {
        // `brolga_ir::lower` loads the two halves of a pair.
        assert_eq!((offset_of!(DerivedPair, forward), offset_of!(DerivedPair, pullback)), (8, 16));
        assert_eq!((size_of::<Captures>(), size_of::<DerivedPair>()), (16, 32));
    }

    #[test]
    fn every_pair_is_found_and_nothing_else() {
        let pairs = vec![pair(900, 1), pair(100, 2), pair(500, 1), pair(500, 7), pair(300, 1)];
        let table = CaptureTable::new(pairs.clone()).unwrap();
        for p in pairs {
            assert_eq!(look(&table, p.primal as usize, p.signature), Some(p));
        }
        assert_eq!(look(&table, 500, 2), None);
        assert_eq!(look(&table, 0, 1), None);
        assert_eq!(look(&table, 1000, 1), None);
    }

    #[test]
    fn an_empty_table_and_none_at_all_find_nothing() {
        let table = CaptureTable::new(Vec::new()).unwrap();
        assert_eq!(look(&table, 1, 1), None);
        // SAFETY: null is allowed.
        assert!(unsafe { brolga_lookup(ptr::null(), ptr::null(), 0) }.is_null());
    }

    #[test]
    fn a_duplicate_is_refused() {
        let error = CaptureTable::new(vec![pair(4, 1), pair(8, 1), pair(4, 1)]).unwrap_err();
        assert_eq!(error, CaptureError { primal: 4, signature: 1 });
    }
}
