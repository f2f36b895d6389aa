//! Entry points, called as a program that embeds Brolga would call compiled code: a pointer to
//! ABI values, and no guard.
//!
//! `DerivedRule` calls the same entry points through a guard that turns traps into errors, and
//! boxes what it passes and returns, which takes longer than a short function does. What is
//! compared here is generated code, so all kinds of calls have the same door, and a narrow one: the
//! entry point reads its arguments from ABI values, and what it overwrites there with results is
//! put back before the next call.

use std::sync::Arc;

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::cranelift_codegen::ir::{AbiParam, Signature, Type};
use brolga::{DerivedRule, Error};
use brolga_runtime::{Lease, Plan, Pool};
use brolga_transform::{Abi, Derivation};

/// An argument or result in memory.
#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct AbiValue([u8; 16]);

/// An entry point and its arguments.
pub struct Entry {
    code: unsafe extern "C" fn(*mut AbiValue),
    /// Arguments in whose ABI values results are returned, to be put back before the next call; the
    /// others stay.
    overwritten: Vec<AbiValue>,
    abi_values: Vec<AbiValue>,
    results: Vec<Type>,
}

impl Entry {
    /// The entry point at an address.
    pub fn new(address: usize, args: &[DataValue], results: Vec<Type>) -> Self {
        let abi_value = |value: &DataValue| {
            let mut abi_value = AbiValue([0; 16]);
            value.write_to_slice_ne(&mut abi_value.0[..value.ty().bytes() as usize]);
            abi_value
        };
        let mut abi_values: Vec<_> = args.iter().map(abi_value).collect();
        let overwritten = abi_values[..args.len().min(results.len())].to_vec();
        abi_values.resize(args.len().max(results.len()), AbiValue([0; 16]));
        // SAFETY: entry points have this signature.
        let code = unsafe { std::mem::transmute::<usize, unsafe extern "C" fn(*mut AbiValue)>(address) };
        Self { code, overwritten, abi_values, results }
    }

    /// Call it.
    ///
    /// # Safety
    /// The rule is alive, pointers among the arguments are valid, and nothing traps: that would be
    /// the end of the process.
    pub unsafe fn call(&mut self) {
        for (abi_value, arg) in self.abi_values.iter_mut().zip(&self.overwritten) {
            *abi_value = *arg;
        }
        // SAFETY: our contract; there are as many ABI values as arguments or results.
        unsafe { (self.code)(self.abi_values.as_mut_ptr()) }
    }

    /// What the last call returned.
    pub fn results(&self) -> Vec<f64> {
        let value = |(abi_value, ty): (&AbiValue, &Type)| {
            let value = DataValue::read_from_slice_ne(&abi_value.0[..ty.bytes() as usize], *ty);
            match value {
                DataValue::F64(x) => x.as_f64(),
                DataValue::F32(x) => f64::from(x.as_f32()),
                _ => f64::NAN,
            }
        };
        self.abi_values.iter().zip(&self.results).map(value).collect()
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

/// What was derived, by symbol, and its calling convention.
pub struct DerivedEntry {
    /// The combined function, or forward pass and pullback.
    symbols: Vec<String>,
    /// How many results the combined function returns before the cotangents.
    n_values: usize,
    /// Whether anything is recorded, or might be.
    segment: bool,
    abi: Abi,
    /// Types of the primal's results.
    pub returns: Vec<Type>,
    /// Types of the cotangents of active arguments.
    cotangents: Vec<Type>,
}

impl DerivedEntry {
    /// What a derivation of a function with this signature has led to.
    pub fn of(derivation: &Derivation, signature: &Signature) -> Self {
        let types = |params: &[AbiParam]| params.iter().map(|p| p.value_type).collect();
        let returns: Vec<Type> = types(&signature.returns);
        let (symbols, variant, n_values, segment, cotangents) = match &derivation.combined {
            Some(whole) => {
                let n = if whole.results { returns.len() } else { 0 };
                (
                    vec![whole.symbol.clone()],
                    &whole.variant,
                    n,
                    whole.segment,
                    types(&whole.func.signature.returns[n..]),
                )
            }
            None => {
                let pair = &derivation.pairs[0];
                let symbols = vec![pair.forward_symbol.clone(), pair.pullback_symbol.clone()];
                (symbols, &pair.variant, 0, true, types(&pair.pullback.signature.returns))
            }
        };
        Self { symbols, n_values, segment, abi: Abi::of(variant, signature), returns, cotangents }
    }
}

/// One gradient for each result, one after the other on one tape.
pub struct Gradient {
    /// Combined functions, one for each row of the Jacobian, or else forward passes.
    rows: Vec<Entry>,
    /// The pullbacks of forward passes.
    pullbacks: Vec<Entry>,
    n_values: usize,
    records: bool,
    segment: Lease,
    tape_bytes: usize,
}

impl Gradient {
    /// Entry points with their arguments. There is a rule, what was derived and `deltas`, those of
    /// the duplicated arguments, for each result.
    ///
    /// # Errors
    /// If an entry point is missing, or no tape is to be had.
    pub fn new(
        rules: &[DerivedRule],
        derived: &[DerivedEntry],
        args: &[DataValue],
        deltas: &[Vec<i64>],
    ) -> Result<Self, Error> {
        let pool = Arc::new(Pool::new(Plan::default()));
        let mut segment = pool.lease().map_err(|e| Error::Usage(e.to_string()))?;
        let seg = DataValue::I64(segment.as_mut_ptr() as i64);
        let (mut rows, mut pullbacks) = (Vec::new(), Vec::new());
        for (k, ((rule, derived), deltas)) in rules.iter().zip(derived).zip(deltas).enumerate() {
            let DerivedEntry { symbols, n_values, abi, returns, cotangents, .. } = derived;
            let mut forward = args.to_vec();
            forward.extend(deltas.iter().map(|d| DataValue::I64(*d)));
            forward.push(seg.clone());
            let seeds = abi.seeds.iter().map(|&i| one_hot(returns[i], i == k));
            if let [forward_symbol, pullback_symbol] = &symbols[..] {
                let pullback: Vec<_> = [seg.clone()].into_iter().chain(seeds).collect();
                rows.push(Entry::new(entry_of(rule, forward_symbol)?, &forward, returns.clone()));
                pullbacks.push(Entry::new(entry_of(rule, pullback_symbol)?, &pullback, cotangents.clone()));
            } else {
                forward.extend(seeds);
                let results = [&returns[..*n_values], cotangents].concat();
                rows.push(Entry::new(entry_of(rule, &symbols[0])?, &forward, results));
            }
        }
        let records = derived.iter().any(|d| d.segment);
        let n_values = derived.first().map_or(0, |d| d.n_values);
        Ok(Self { rows, pullbacks, n_values, records, segment, tape_bytes: 0 })
    }

    /// An adjoint written by hand, which computes all rows at once, called in the same way.
    ///
    /// # Errors
    /// If no tape is to be had; it gets none.
    pub fn by_hand(entry: Entry) -> Result<Self, Error> {
        let pool = Arc::new(Pool::new(Plan::default()));
        let segment = pool.lease().map_err(|e| Error::Usage(e.to_string()))?;
        Ok(Self { rows: vec![entry], pullbacks: vec![], n_values: 0, records: false, segment, tape_bytes: 0 })
    }

    /// Compute all rows.
    ///
    /// # Safety
    /// As for [`Entry::call`].
    pub unsafe fn call(&mut self) {
        if !self.records {
            // SAFETY: our contract.
            self.rows.iter_mut().for_each(|row| unsafe { row.call() });
            return;
        }
        let mut pullbacks = self.pullbacks.iter_mut();
        for row in &mut self.rows {
            self.segment.reset();
            // SAFETY: our contract.
            unsafe { row.call() };
            if let Some(pullback) = pullbacks.next() {
                self.tape_bytes = self.segment.bytes_used();
                self.segment.begin_pullback();
                // SAFETY: our contract.
                unsafe { pullback.call() };
            }
        }
    }

    /// Bytes that the last row recorded.
    pub fn tape_bytes(&self) -> usize {
        if self.pullbacks.is_empty() { self.segment.bytes_used() } else { self.tape_bytes }
    }

    /// Cotangents of active arguments, for each result.
    pub fn results(&self) -> Vec<Vec<f64>> {
        if self.pullbacks.is_empty() {
            self.rows.iter().map(|row| row.results().split_off(self.n_values)).collect()
        } else {
            self.pullbacks.iter().map(Entry::results).collect()
        }
    }
}

/// One or zero.
pub fn one_hot(ty: Type, one: bool) -> DataValue {
    let x = f64::from(u8::from(one));
    if ty.bits() == 32 { DataValue::F32((x as f32).into()) } else { DataValue::F64(x.into()) }
}
