//! Number uses: what is known of the uses of an integer, as flags that grow.
//!
//! **Question.** An integer is copied. Can it be a pointer, or the bits of a float?
//!
//! **Answer.** Two flags, joined by union: some use may be that of a pointer, and some use is that
//! of a number. [`crate::kinds::number_uses`] finds them.
//!
//! **Cost.** Two bytes.

/// What becomes of an integer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NumberUses {
    /// It may end elsewhere than numbers do.
    pub escapes: bool,
    /// It is calculated with as an address is not.
    pub counted: bool,
}

impl NumberUses {
    /// Uses of a number.
    pub(crate) const NUMBER: Self = Self { escapes: false, counted: false };
    /// Uses of what is no address.
    pub(crate) const COUNTED: Self = Self { escapes: false, counted: true };
    /// Any uses.
    pub(crate) const UNKNOWN: Self = Self { escapes: true, counted: false };

    /// Whether it is a number for certain.
    pub fn is_number(self) -> bool {
        self.counted && !self.escapes
    }

    /// These uses and others.
    pub fn join(self, other: Self) -> Self {
        Self { escapes: self.escapes | other.escapes, counted: self.counted | other.counted }
    }
}
