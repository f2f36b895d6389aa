//! Arguments of exports of WebAssembly modules, as the problems have them.

/// An argument of an export.
#[derive(Clone, Debug)]
pub enum WasmArg {
    /// A number.
    Int(i32),
    /// A float.
    Float(f64),
    /// The address of floats.
    Floats(Vec<f64>),
    /// The address of floats that are written, given the cotangents of what is written.
    Written(Vec<f64>),
    /// The address of numbers.
    Ints(Vec<i32>),
    /// The address of bytes.
    Bytes(Vec<u8>),
}
