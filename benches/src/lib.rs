//! Benchmarks of Brolga.
