//! Entry points, called as a program that embeds Brolga would call compiled code: a pointer to cells, and no guard.
//!
//! `DerivedRule` calls the same entry points through a guard that turns traps into errors, and boxes what it passes and
//! returns, which takes longer than a short function does. What is compared here is generated code, so all kinds of calls
//! have the same door, and a narrow one: arguments are copied into cells, and the entry point reads them from there.

use std::sync::Arc;

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::cranelift_codegen::ir::Type;
use brolga::{DerivedRule, Error};
use brolga_runtime::{Lease, Plan, Pool};
use brolga_transform::Abi;

/// An argument or result in memory.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct Cell([u8; 16]);

/// An entry point and its arguments.
pub struct Entry {
    code: unsafe extern "C" fn(*mut Cell),
    args: Vec<Cell>,
    cells: Vec<Cell>,
    results: Vec<Type>,
}

impl Entry {
    /// The entry point at an address.
    pub fn new(address: usize, args: &[DataValue], results: Vec<Type>) -> Self {
        let cell = |value: &DataValue| {
            let mut cell = Cell([0; 16]);
            value.write_to_slice_ne(&mut cell.0[..value.ty().bytes() as usize]);
            cell
        };
        let args: Vec<_> = args.iter().map(cell).collect();
        let cells = vec![Cell([0; 16]); args.len().max(results.len())];
        // SAFETY: entry points have this signature.
        let code = unsafe { std::mem::transmute::<usize, unsafe extern "C" fn(*mut Cell)>(address) };
        Self { code, args, cells, results }
    }

    /// Call it.
    ///
    /// # Safety
    /// The rule is alive, pointers among the arguments are valid, and nothing traps: that would be the end of the process.
    pub unsafe fn call(&mut self) {
        self.cells[..self.args.len()].copy_from_slice(&self.args);
        // SAFETY: our contract; there are as many cells as arguments or results.
        unsafe { (self.code)(self.cells.as_mut_ptr()) }
    }

    /// What the last call returned.
    pub fn results(&self) -> Vec<f64> {
        let value = |(cell, ty): (&Cell, &Type)| {
            let value = DataValue::read_from_slice_ne(&cell.0[..ty.bytes() as usize], *ty);
            match value {
                DataValue::F64(x) => x.as_f64(),
                DataValue::F32(x) => f64::from(x.as_f32()),
                _ => f64::NAN,
            }
        };
        self.cells.iter().zip(&self.results).map(value).collect()
    }
}

/// The address of a function's entry point in the code of a rule.
///
/// # Errors
/// If there is none.
pub fn entry_of(rule: &DerivedRule, symbol: &str) -> Result<usize, Error> {
    let address = rule.address_of(&format!("{symbol}.entry"));
    address.map(|a| a as usize).ok_or_else(|| Error::Usage(format!("%{symbol} has no entry point")))
}

/// The symbols of a derivative.
pub enum Symbols {
    /// Forward pass and pullback.
    Pair(String, String),
    /// One function, and whether it returns the primal's results.
    Whole(String, bool),
}

/// The symbols and the calling convention of a derivative.
pub struct Callable {
    /// What there is to call.
    pub symbols: Symbols,
    /// Order of arguments and results.
    pub abi: Abi,
    /// Types of the primal's results.
    pub returns: Vec<Type>,
    /// Types of the cotangents of active arguments.
    pub cotangents: Vec<Type>,
}

/// What computes one gradient.
enum Pass {
    Two(Entry, Entry),
    /// The results that come before the cotangents.
    One(Entry, usize),
}

/// One gradient after the other on one tape, one for each seed.
pub struct Gradients {
    passes: Vec<Pass>,
    segment: Lease,
    tape_bytes: usize,
}

impl Gradients {
    /// Entry points with their arguments. `deltas` are those of the duplicated arguments, for each result.
    ///
    /// # Errors
    /// If an entry point is missing, or no tape is to be had.
    pub fn new(
        rule: &DerivedRule,
        callable: &Callable,
        args: &[DataValue],
        deltas: &[Vec<i64>],
        limit: usize,
    ) -> Result<Self, Error> {
        let pool = Arc::new(Pool::new(Plan { capacity: limit, captures: None, globals: Vec::new() }));
        let mut segment = pool.lease().map_err(|e| Error::Usage(e.to_string()))?;
        let seg = DataValue::I64(segment.as_mut_ptr() as i64);
        let mut passes = Vec::new();
        for (k, deltas) in deltas.iter().enumerate() {
            let mut forward = args.to_vec();
            forward.extend(deltas.iter().map(|d| DataValue::I64(*d)));
            forward.push(seg.clone());
            let returns = callable.returns.clone();
            let seeds = callable.abi.seeds.iter().map(|&i| one_hot(returns[i], i == k));
            passes.push(match &callable.symbols {
                Symbols::Pair(first, second) => {
                    let pullback: Vec<_> = [seg.clone()].into_iter().chain(seeds).collect();
                    Pass::Two(
                        Entry::new(entry_of(rule, first)?, &forward, returns),
                        Entry::new(entry_of(rule, second)?, &pullback, callable.cotangents.clone()),
                    )
                }
                Symbols::Whole(symbol, results) => {
                    forward.extend(seeds);
                    let mut out = if *results { returns } else { vec![] };
                    let n = out.len();
                    out.extend(&callable.cotangents);
                    Pass::One(Entry::new(entry_of(rule, symbol)?, &forward, out), n)
                }
            });
        }
        Ok(Self { passes, segment, tape_bytes: 0 })
    }

    /// Run all passes.
    ///
    /// # Safety
    /// As for [`Entry::call`].
    pub unsafe fn call(&mut self) {
        for pass in &mut self.passes {
            self.segment.reset();
            match pass {
                Pass::Two(forward, pullback) => {
                    // SAFETY: our contract.
                    unsafe { forward.call() };
                    self.tape_bytes = self.segment.bytes_used();
                    self.segment.begin_pullback();
                    // SAFETY: our contract.
                    unsafe { pullback.call() };
                }
                Pass::One(entry, _) => {
                    // SAFETY: our contract.
                    unsafe { entry.call() };
                    self.tape_bytes = self.segment.bytes_used();
                }
            }
        }
    }

    /// Bytes that the last run recorded.
    pub fn tape_bytes(&self) -> usize {
        self.tape_bytes
    }

    /// Cotangents of active arguments, for each result.
    pub fn results(&self) -> Vec<Vec<f64>> {
        let cotangents = |pass: &Pass| match pass {
            Pass::Two(_, pullback) => pullback.results(),
            Pass::One(entry, n) => entry.results()[*n..].to_vec(),
        };
        self.passes.iter().map(cotangents).collect()
    }
}

/// One or zero.
pub fn one_hot(ty: Type, one: bool) -> DataValue {
    let x = f64::from(u8::from(one));
    if ty.bits() == 32 { DataValue::F32((x as f32).into()) } else { DataValue::F64(x.into()) }
}
