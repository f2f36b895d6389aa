//! Attached values: what a crate above has attached to a function of a program.
//!
//! **Problem.** A rule of a user's belongs to the program, but what a rule is, this crate does not
//! know.
//!
//! **Answer.** A function has a value of any type ([`AttachedValue`]); copies of a program share
//! it.
//!
//! **Cost.** A reference for each copy, and a comparison of types when the value is asked for.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// A value of a type that this crate does not know.
#[derive(Clone)]
pub struct AttachedValue(Arc<dyn Any + Send + Sync>);

impl AttachedValue {
    /// Attach a value.
    pub fn new(value: impl Any + Send + Sync) -> Self {
        Self(Arc::new(value))
    }

    /// The value; `None` if it is of another type.
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(&self.0).downcast().ok()
    }
}

impl fmt::Debug for AttachedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Attached")
    }
}
