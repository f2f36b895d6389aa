//! Tests of reversible functions: what is refused, and what is lowered.

mod builder;
mod language;
