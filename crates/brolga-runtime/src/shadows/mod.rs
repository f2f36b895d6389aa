//! Shadows: where cotangents of a program's memory are.
//!
//! - [`blocks`]: of heap blocks of a run.
//! - [`globals`]: of writable data objects.
//! - [`declared`]: what a run's caller declares of its pointer arguments.

pub(crate) mod blocks;
pub(crate) mod declared;
pub(crate) mod globals;
