//! Imported functions of the interpreter: what a call without a body computes.
//!
//! **Question.** A program calls a function that it does not define. What is its result, and what
//! are its slopes?
//!
//! **Answer.** [`Machine::call_extern`] looks the symbol up: first among the caller's own
//! ([`super::custom`]), then the embedder's host functions, then C's mathematical functions
//! (`libm.rs`), then C's memory functions, which move marks as they move bytes. Sizes of blocks are
//! kept, since `realloc` must know how much to keep.
//!
//! [`Machine::call_computing`] is for a function of the program that computes a known one: its
//! value is that of its body, run by a machine of its own that follows nothing, and its slopes are
//! those of the known function.
//!
//! **Errors.** A symbol that is not known, and a known one with another signature, end the run.
//!
//! **Safety.** The memory that a function reads or writes must be there; the caller vouches for it,
//! as the embedder does for addresses of host functions, whose arguments are at most six integers.
//!
//! **Cost.** A look-up by name for each call, and the call of the C library.

use brolga_ir::FuncKey;
use cranelift_codegen::ir::{Signature, Type, types};

use super::domain::{Domain, PlainDomain};
use super::libm::{self, Math};
use super::machine::Machine;
use super::provenance::{Byte, FloatOrigin, Prov, write_float};
use super::value::{TrackedVal, bits_of, float_of, ones, sext};
use crate::error::OracleError;
use crate::real::Real;
use crate::special::polygamma;

/// The width of the floats of a function that takes `arity` floats and returns one, all of one
/// type.
fn float_signature(sig: &Signature, arity: usize) -> Option<u8> {
    let ty = sig.returns.first()?.value_type;
    let width = match ty {
        types::F32 => 4,
        types::F64 => 8,
        _ => return None,
    };
    let fits = sig.returns.len() == 1 && sig.params.len() == arity && sig.params.iter().all(|p| p.value_type == ty);
    fits.then_some(width)
}

impl<D: Domain> Machine<'_, D> {
    /// Call an imported function.
    ///
    /// # Safety
    ///
    /// The memory that it reads or writes must be there.
    pub(super) unsafe fn call_extern(
        &mut self,
        func: FuncKey,
        args: &[TrackedVal],
    ) -> Result<Vec<TrackedVal>, OracleError> {
        let program = self.program();
        let f = &program.funcs[func];
        let wrong = |m: &Self| m.unsupported(format!("%{} with signature {}", f.symbol, f.signature));
        if let Some(custom) = self.externs.by_symbol.get(&f.symbol).copied() {
            let width = float_signature(&f.signature, custom.arity).ok_or_else(|| wrong(self))?;
            let x: Vec<f64> = args.iter().map(|a| float_of(a.bits, width)).collect();
            let bits = bits_of((custom.value)(&x), width);
            let slopes = (custom.slopes)(&x);
            let slopes = slopes.map(|s| Some(D::Num::constant(s)));
            return Ok(vec![self.extern_float(bits, width, args, false, |_, _| slopes)]);
        }
        if let Some(address) = f.host {
            let words: Vec<u64> = args.iter().map(|a| a.bits as u64).collect();
            // SAFETY: the embedder vouches for the address and the signature when it defines a host
            // function.
            let Some(result) = (unsafe { call_host(address, &words) }) else { return Err(wrong(self)) };
            let ret = f.signature.returns.first().map(|r| r.value_type);
            return Ok(ret.into_iter().map(|t| cut(TrackedVal::clean(result.into()), t)).collect());
        }
        if let Some((math, width)) = Math::by_symbol(&f.symbol) {
            if float_signature(&f.signature, math.arity()) != Some(width) {
                return Err(wrong(self));
            }
            let x = std::array::from_fn(|i| args.get(i).map_or(0, |a| a.bits));
            self.nan_sign |= math == Math::Copysign && float_of(x[1], width).is_nan();
            let bits = math.eval(width, x);
            return Ok(vec![self.math(math, bits, width, args)]);
        }
        if let (Some(width @ (4 | 8)), "brolga_with_value" | "brolga_with_valuef") =
            (float_signature(&f.signature, 2), f.symbol.as_str())
        {
            let one = D::Num::constant(1.0);
            return Ok(vec![self.extern_float(args[1].bits, width, &args[..1], false, |_, _| [Some(one), None, None])]);
        }
        let ret = f.signature.returns.first().map(|r| r.value_type);
        // SAFETY: promised by the caller.
        if let Some(result) = unsafe { self.float_and_int(&f.symbol, &f.signature, args) } {
            return Ok(result);
        }
        // SAFETY: promised by the caller.
        if let Some(result) = unsafe { self.with_a_number_left(&f.symbol, &f.signature, args) } {
            return Ok(result);
        }
        if let Some(result) = self.of_gamma(&f.symbol, &f.signature, args) {
            return Ok(result);
        }
        if let ("sincos" | "sincosf", [x, sin, cos]) = (f.symbol.as_str(), args) {
            let width = if f.symbol.ends_with('f') { 4 } else { 8 };
            // SAFETY: promised by the caller.
            unsafe { self.sincos(width, x, sin.bits as usize, cos.bits as usize) };
            return Ok(vec![]);
        }
        // SAFETY: promised by the caller.
        match unsafe { self.c_function(&f.symbol, &f.signature, args) } {
            None => Err(OracleError::UnknownSymbol { symbol: f.symbol.clone(), at: self.place() }),
            Some(result) => Ok(ret.into_iter().map(|t| cut(result.clone(), t)).collect()),
        }
    }

    /// Call a function that computes a known one: its value is that of its body, its slopes are
    /// those of the known function.
    ///
    /// # Safety
    ///
    /// As for [`Self::call_extern`].
    pub(super) unsafe fn call_computing(
        &mut self,
        func: FuncKey,
        args: &[TrackedVal],
    ) -> Result<Vec<TrackedVal>, OracleError> {
        let program = self.program();
        let f = &program.funcs[func];
        let clean = args.iter().map(|a| TrackedVal::clean(a.bits)).collect();
        // SAFETY: promised by the caller; the other machine works in the same memory.
        let value = unsafe { Machine::new(program, PlainDomain, self.limits()).call(func, clean)? };
        if let Some("ldexp" | "ldexpf" | "scalbn" | "scalbnf") = f.computes {
            let (width, n) = (f.signature.returns[0].value_type.bytes() as u8, args[2].bits as u32 as i32);
            let one = D::Num::constant(scale(1.0, n, 8));
            return Ok(vec![
                self.extern_float(value[0].bits, width, &args[1..2], false, |_, _| [Some(one), None, None]),
            ]);
        }
        let known = f.computes.and_then(Math::by_symbol);
        let Some((math, width)) = known.filter(|(math, _)| math.arity() < args.len()) else {
            return Err(self.unsupported(format!("%{} with signature {}", f.symbol, f.signature)));
        };
        Ok(vec![self.math(math, value[0].bits, width, &args[1..=math.arity()])])
    }

    /// The result of a function of C.
    fn math(&mut self, math: Math, bits: u128, width: u8, args: &[TrackedVal]) -> TrackedVal {
        let found = self.extern_float(bits, width, args, math.is_root(), |x, value| libm::slopes(math, x, value));
        if math == Math::Fma {
            self.note_sum(&found, &args[2], width, 0);
        }
        if let (FloatOrigin::Node(node), FloatOrigin::Node(x)) =
            (found.prov.float(0, width), args[0].prov.float(0, width))
            && let Some(by) = libm::roughness(math, self.domain.value(x), width)
        {
            self.domain.rough(node, by);
        }
        found
    }

    /// The result of a function of floats.
    fn extern_float(
        &mut self,
        bits: u128,
        width: u8,
        args: &[TrackedVal],
        is_root: bool,
        slopes: impl FnOnce([D::Num; 3], f64) -> [Option<D::Num>; 3],
    ) -> TrackedVal {
        let value = float_of(bits, width);
        let operands: Vec<(FloatOrigin, f64)> =
            args.iter().map(|a| (a.prov.float(0, width), float_of(a.bits, width))).collect();
        let mut bytes = [Byte::Clean; 16];
        if let Some(node) = self.record(value, &operands, |x| slopes(x, value)) {
            // Of a power only the base is under a root.
            if is_root && operands[0].0 != FloatOrigin::Clean {
                self.domain.root(node);
            }
            write_float(&mut bytes, 0, node, width);
        }
        TrackedVal { bits, prov: Prov::new(bytes) }
    }

    /// `ldexp`, `scalbn`, `frexp`, `modf`: a float and an integer or a pointer.
    unsafe fn float_and_int(&mut self, symbol: &str, sig: &Signature, args: &[TrackedVal]) -> Option<Vec<TrackedVal>> {
        let (name, width) = match symbol.strip_suffix('f') {
            Some(name) if name != "mod" => (name, 4),
            _ => (symbol, 8),
        };
        let [x, second] = args else { return None };
        let float = if width == 4 { types::F32 } else { types::F64 };
        let int = sig.params.get(1).map(|p| p.value_type).filter(|t| t.is_int())?;
        if sig.params[0].value_type != float || sig.returns.len() != 1 || sig.returns[0].value_type != float {
            return None;
        }
        let v = float_of(x.bits, width);
        let (value, slope) = match name {
            "ldexp" | "scalbn" | "scalbln" => {
                let n = sext(second.bits, int.bits()).clamp(i32::MIN.into(), i32::MAX.into()) as i32;
                (scale(v, n, width), scale(1.0, n, 8))
            }
            "frexp" => {
                let (m, e) = split_exponent(v);
                // SAFETY: promised by the caller.
                unsafe { self.write(second.bits as usize, 4, &TrackedVal::clean(e as u32 as u128)) };
                (m, scale(1.0, -e, 8))
            }
            "modf" => {
                // SAFETY: promised by the caller.
                unsafe {
                    self.write(second.bits as usize, width as usize, &TrackedVal::clean(bits_of(v.trunc(), width)))
                };
                let fraction = if v.is_infinite() { 0.0 } else { v - v.trunc() };
                (fraction.copysign(v), 1.0)
            }
            _ => return None,
        };
        let one = D::Num::constant(slope);
        Some(vec![self.extern_float(bits_of(value, width), width, &args[..1], false, |_, _| [Some(one), None, None])])
    }

    /// `remquo` and `lgamma_r`, which leave an integer behind a pointer, and powers with an integer
    /// exponent.
    unsafe fn with_a_number_left(
        &mut self,
        symbol: &str,
        sig: &Signature,
        args: &[TrackedVal],
    ) -> Option<Vec<TrackedVal>> {
        let width = match sig.returns.first()?.value_type {
            types::F32 => 4,
            types::F64 => 8,
            _ => return None,
        };
        let single = width == 4;
        let mut left = 0i32;
        let v = |i: usize| float_of(args[i].bits, width);
        let (value, math) = match (symbol, args.len()) {
            // SAFETY: it writes to our variable.
            ("remquo", 3) if !single => (unsafe { c::remquo(v(0), v(1), &mut left) }, Math::Remainder),
            // SAFETY: as above.
            ("remquof", 3) if single => {
                (unsafe { c::remquof(v(0) as f32, v(1) as f32, &mut left) }.into(), Math::Remainder)
            }
            // SAFETY: as above.
            ("lgamma_r", 2) if !single => (unsafe { c::lgamma_r(v(0), &mut left) }, Math::Lgamma),
            // SAFETY: as above.
            ("lgammaf_r", 2) if single => (unsafe { c::lgammaf_r(v(0) as f32, &mut left) }.into(), Math::Lgamma),
            ("__powidf2" | "__powisf2", 2) => {
                let n = args[1].bits as u32 as i32;
                let value = if single { f64::from((v(0) as f32).powi(n)) } else { v(0).powi(n) };
                let slope = |[x, ..]: [D::Num; 3], _| {
                    let (p, k) = (x.primal(), f64::from(n));
                    let along = if n == 1 { 0.0 } else { k * (k - 1.0) * p.powi(n - 2) };
                    [(n != 0).then(|| x.chain(k * p.powi(n - 1), along)), None, None]
                };
                return Some(vec![self.extern_float(bits_of(value, width), width, &args[..1], false, slope)]);
            }
            _ => return None,
        };
        let place = args[args.len() - 1].bits as usize;
        // SAFETY: promised by the caller.
        unsafe { self.write(place, 4, &TrackedVal::clean(left as u32 as u128)) };
        let floats = &args[..args.len() - 1];
        let slopes = |x, value| libm::slopes(math, x, value);
        Some(vec![self.extern_float(bits_of(value, width), width, floats, math.is_root(), slopes)])
    }

    /// Derivatives of `lgamma`, which derived text calls by name.
    fn of_gamma(&mut self, symbol: &str, sig: &Signature, args: &[TrackedVal]) -> Option<Vec<TrackedVal>> {
        let single = symbol.ends_with('f');
        let width = float_signature(sig, args.len()).filter(|&width| single == (width == 4))?;
        let order = match (symbol.trim_end_matches('f'), args.len()) {
            ("brolga_digamma", 1) => 0,
            ("brolga_trigamma", 1) => 1,
            ("brolga_polygamma", 2) => float_of(args[0].bits, width) as i32,
            _ => return None,
        };
        let at = args.len() - 1;
        let x = float_of(args[at].bits, width);
        let [value, slope, next] = [0, 1, 2].map(|k| polygamma(order + k, x));
        let slopes = |operands: [D::Num; 3], _| {
            let mut all = [None; 3];
            all[at] = Some(operands[at].chain(slope, next));
            all
        };
        Some(vec![self.extern_float(bits_of(value, width), width, args, false, slopes)])
    }

    /// Sine and cosine at once, written behind two pointers.
    unsafe fn sincos(&mut self, width: u8, x: &TrackedVal, sin: usize, cos: usize) {
        for (math, address) in [(Math::Sin, sin), (Math::Cos, cos)] {
            let bits = math.eval(width, [x.bits, 0, 0]);
            let args = std::slice::from_ref(x);
            let result = self.extern_float(bits, width, args, math.is_root(), |x, value| libm::slopes(math, x, value));
            // SAFETY: promised by the caller.
            unsafe { self.write(address, width.into(), &result) };
        }
    }

    /// C's memory and integer functions. `None` if there is no such function.
    unsafe fn c_function(&mut self, symbol: &str, sig: &Signature, args: &[TrackedVal]) -> Option<TrackedVal> {
        let a: Vec<usize> = args.iter().map(|a| a.bits as usize).collect();
        let int_bits = |i: usize| sig.params[i].value_type.bits();
        // SAFETY: the program's own accesses, for which the caller vouches.
        let result = unsafe {
            match (symbol, a.as_slice()) {
                ("memcpy" | "memmove", &[dst, src, n]) => {
                    std::ptr::copy(src as *const u8, dst as *mut u8, n);
                    self.observe_overwrite(dst, n);
                    self.copies(dst, src, n);
                    self.marks.copy(dst, src, n);
                    dst as u128
                }
                ("memset", &[dst, byte, n]) => {
                    std::ptr::write_bytes(dst as *mut u8, byte as u8, n);
                    self.observe_overwrite(dst, n);
                    self.writes(dst, n);
                    self.marks.clear(dst, n);
                    dst as u128
                }
                ("memcmp" | "bcmp", &[x, y, n]) => {
                    [x, y].into_iter().for_each(|p| self.reads(p, n));
                    let bytes = |p: usize| std::slice::from_raw_parts(p as *const u8, n);
                    let order = if n == 0 { std::cmp::Ordering::Equal } else { bytes(x).cmp(bytes(y)) };
                    order as i32 as u32 as u128
                }
                ("malloc", &[n]) => self.allocated(libc::malloc(n) as usize, n),
                ("calloc", &[n, m]) => self.allocated(libc::calloc(n, m) as usize, n.saturating_mul(m)),
                ("realloc", &[old, n]) => {
                    let old_n = self.allocations.remove(&old);
                    let known = old_n.or_else(|| usable_size(old)).unwrap_or(0);
                    let marks: Vec<Byte> = (0..known.min(n)).map(|i| self.marks.get(old + i)).collect();
                    self.gives_back(old, known);
                    let new = libc::realloc(old as *mut libc::c_void, n) as usize;
                    let result = self.allocated(new, n);
                    marks.into_iter().enumerate().for_each(|(i, b)| self.marks.set(new + i, b));
                    result
                }
                ("free", &[p]) => {
                    if let Some(n) = self.allocations.remove(&p) {
                        self.gives_back(p, n);
                    }
                    libc::free(p as *mut libc::c_void);
                    0
                }
                // Others may ask for what was there until the run ends.
                ("brolga_free_at_end", &[_]) => 0,
                ("abs" | "labs" | "llabs", &[_]) => {
                    let n = int_bits(0);
                    let bits = sext(args[0].bits, n).wrapping_abs() as u128 & ones(n);
                    let prov = self.mix(n as usize / 8, args);
                    return Some(TrackedVal { bits, prov });
                }
                _ => return None,
            }
        };
        Some(TrackedVal::clean(result))
    }

    /// Remember a fresh block; whatever was there before is forgotten.
    fn allocated(&mut self, p: usize, n: usize) -> u128 {
        if p != 0 {
            self.forget(p, n);
            self.allocations.insert(p, n);
        }
        p as u128
    }
}

/// Call a function of the host's C convention whose parameters are integers, of which there are at
/// most six, so that all of them travel in registers and their widths do not matter.
unsafe fn call_host(address: usize, a: &[u64]) -> Option<u64> {
    use std::mem::transmute;
    macro_rules! call {
        ($($i:literal)*) => {{
            // SAFETY: promised by the caller; what the unused part of a register holds has no
            // meaning in C.
            let f: unsafe extern "C" fn($(call!(@ty $i)),*) -> u64 = unsafe { transmute(address) };
            Some(unsafe { f($(a[$i]),*) })
        }};
        (@ty $i:literal) => { u64 };
    }
    match a.len() {
        0 => call!(),
        1 => call!(0),
        2 => call!(0 1),
        3 => call!(0 1 2),
        4 => call!(0 1 2 3),
        5 => call!(0 1 2 3 4),
        6 => call!(0 1 2 3 4 5),
        _ => None,
    }
}

/// The C library's.
mod c {
    unsafe extern "C" {
        pub(super) fn remquo(x: f64, y: f64, quotient: *mut i32) -> f64;
        pub(super) fn remquof(x: f32, y: f32, quotient: *mut i32) -> f32;
        pub(super) fn lgamma_r(x: f64, sign: *mut i32) -> f64;
        pub(super) fn lgammaf_r(x: f32, sign: *mut i32) -> f32;
    }
}

/// How large the C library says a block is that the interpreter did not allocate.
fn usable_size(p: usize) -> Option<usize> {
    #[cfg(target_os = "linux")]
    // SAFETY: the program passes it to `realloc`, so it is a block of the C library or null.
    return (p != 0).then(|| unsafe { libc::malloc_usable_size(p as *mut libc::c_void) });
    #[cfg(not(target_os = "linux"))]
    {
        let _ = p;
        None
    }
}

/// `v` as a value of type `ty`.
fn cut(v: TrackedVal, ty: Type) -> TrackedVal {
    TrackedVal { bits: v.bits & ones(ty.bits()), ..v }
}

/// x · 2ⁿ, rounded once to `width` bytes.
fn scale(x: f64, n: i32, width: u8) -> f64 {
    mod c {
        unsafe extern "C" {
            pub(crate) safe fn scalbn(x: f64, n: i32) -> f64;
            pub(crate) safe fn scalbnf(x: f32, n: i32) -> f32;
        }
    }
    if width == 4 { c::scalbnf(x as f32, n).into() } else { c::scalbn(x, n) }
}

/// x = m · 2ᵉ with |m| in [1/2, 1).
fn split_exponent(x: f64) -> (f64, i32) {
    unsafe extern "C" {
        fn frexp(x: f64, e: *mut i32) -> f64;
    }
    let mut e = 0;
    // SAFETY: `e` is writable.
    let m = unsafe { frexp(x, &mut e) };
    (m, e)
}
