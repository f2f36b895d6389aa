//! Functions of the C library that were compiled into a module and do what C says to the bit: block
//! copies, taking floats apart, complex division.
//!
//! **Problem.** A library's `memcpy` moves words and bytes. Whose bits they are cannot be told in a
//! module that keeps floats of both sizes in memory, nor of a byte in any; `frexp` and `modf` are
//! integer arithmetic on float bits, and division of complex numbers scales by such. **Answer.**
//! Such a function is found by its name and type (`frexp` and `modf` by their type alone, if they
//! handle bits of floats), and has to prove that it is what it is called: it is run, in an instance
//! of its own, and must leave the bytes that C's leaves, and everything else as it was (so one that
//! keeps variables in memory, as without optimisation, stays). Then the host's takes its place
//! ([`ProvidedFunction`]), as if the module had imported it, and has the rule that it has there.
//! These functions are exact, so no result changes. What a trap leaves of a block that reaches
//! beyond the end of memory may.
//!
//! Functions whose last digits depend on the library keep their bodies
//! ([`crate::library::mathlib`]).
//!
//! **Cost.** As a module is loaded, at most 1331 calls of each candidate.

use brolga::{FuncKey, Options, Primal};
use brolga_rules::{MathKind, Ty, math_rule};
use wasmparser::{FuncType, ValType};

use crate::error::Error;
use crate::imports::complex::{quotient, quotient_of_singles};
use crate::imports::library;
use crate::instance::Instance;
use crate::library::around::float_at;
use crate::library::mathlib::FUEL;
use crate::library::unnamed::handles_bits;
use crate::module::Module;
use crate::parse::Info;
use crate::provided::{ProvidedFunction, Replacements};
use crate::val::Val;

/// A function that may be one of C's.
pub(crate) struct LibraryCandidate {
    index: u32,
    name: String,
    ty: FuncType,
    provided: ProvidedFunction,
}

/// Names of functions that are exact.
const NAMES: [&str; 9] = ["memcpy", "memmove", "memset", "frexp", "frexpf", "modf", "modff", "__divdc3", "__divsc3"];

/// Functions of a module that have such a name, and the type.
pub(crate) fn candidates(info: &Info<'_>) -> Vec<LibraryCandidate> {
    let mut out = Vec::new();
    // The host's work on the only memory, and have to be tried in it.
    if !matches!(&info.memories[..], [m] if m.ty.initial > 0) {
        return out;
    }
    for index in (0..info.funcs.len() as u32).filter(|&i| info.funcs[i as usize].body.is_some()) {
        let ty = info.type_of(index);
        let found =
            info.names_of(index).filter(|n| NAMES.contains(&n.as_str())).find_map(|n| Some((n, library(n, ty)?)));
        if let Some((name, provided)) = found {
            out.push(LibraryCandidate { index, name: name.clone(), ty: ty.clone(), provided });
        } else if takes_apart_type(ty) && handles_bits(info, index) {
            // Without such a name it may be one of these all the same.
            let of = |name: &&str| {
                Some(LibraryCandidate { index, name: (*name).to_owned(), ty: ty.clone(), provided: library(name, ty)? })
            };
            out.extend(["frexp", "frexpf", "modf", "modff"].iter().filter_map(of));
        }
    }
    out
}

/// The type of `frexp` and `modf`.
fn takes_apart_type(ty: &FuncType) -> bool {
    matches!((ty.params(), ty.results()), ([x, ValType::I32], [y]) if x == y && matches!(x, ValType::F64 | ValType::F32))
}

/// What takes the place of the candidates that are what they are called. The module is translated
/// for fuel.
pub(crate) fn confirmed(module: &Module, candidates: Vec<LibraryCandidate>) -> Result<Replacements, Error> {
    let keyed: Vec<(FuncKey, LibraryCandidate)> =
        candidates.into_iter().filter_map(|c| Some((module.0.translated.funcs[c.index as usize]?, c))).collect();
    if keyed.is_empty() {
        return Ok(Replacements::default());
    }
    let mut roots: Vec<FuncKey> = keyed.iter().map(|k| k.0).collect();
    roots.dedup();
    let primal = Primal::new(module.program(), &roots, &Options::default())?;
    let mut out = Replacements::default();
    for (key, c) in keyed {
        let mut instance = Instance::not_started(module)?;
        instance.set_fuel(FUEL);
        let before = instance.globals_and_data(BYTES);
        let mut call = |args: &[Val], memory: &mut [u8; BYTES]| {
            instance.memory_mut()[..BYTES].copy_from_slice(memory);
            let found = instance.enter_in(&primal, key, &c.ty, args).ok()?;
            memory.copy_from_slice(&instance.memory()[..BYTES]);
            Some(found)
        };
        let agrees = match math_rule(&c.name).map(|r| &r.kind) {
            _ if c.name.starts_with("__div") => divides(c.ty.params()[1] == ValType::F32, &mut call),
            Some(MathKind::Writes(_, outs)) => takes_apart(c.ty.params()[0] == ValType::F32, outs[0].ty, &mut call),
            _ => BLOCKS.iter().all(|&block| moves(&c.name, block, &mut call)),
        };
        // Nor may it do anything else: count its calls, say.
        if agrees && instance.globals_and_data(BYTES) == before {
            out.insert(c.index, c.provided);
        }
    }
    Ok(out)
}

/// Memory in which functions are tried.
const BYTES: usize = 1024;

/// Calls a function on such memory.
type Callable<'c> = dyn FnMut(&[Val], &mut [u8; BYTES]) -> Option<Vec<Val>> + 'c;

/// Blocks: to, from, length. In the last ones source and destination overlap, or are the same.
const BLOCKS: [[u32; 3]; 16] = [
    [512, 64, 0],
    [512, 64, 1],
    [513, 64, 3],
    [512, 66, 4],
    [520, 67, 7],
    [512, 64, 8],
    [515, 65, 15],
    [512, 64, 16],
    [514, 64, 17],
    [512, 71, 31],
    [513, 66, 64],
    [512, 64, 200],
    [519, 61, 333],
    [64, 512, 128],
    [100, 64, 150],
    [64, 100, 150],
];

fn moves(name: &str, [to, from, n]: [u32; 3], call: &mut Callable<'_>) -> bool {
    let mut memory: [u8; BYTES] = std::array::from_fn(|i| (i as u8).wrapping_mul(37).wrapping_add((i >> 8) as u8));
    let (at, source, len) = (to as usize, from as usize, n as usize);
    if name == "memcpy" && at.abs_diff(source) < len {
        return true;
    }
    let mut wanted = memory;
    if name == "memset" {
        wanted[at..at + len].fill(from as u8);
    } else {
        wanted.copy_within(source..source + len, at);
    }
    // Of what is written as a byte, the rest does not count.
    let second = if name == "memset" { from | 0x5a00 } else { from };
    let args = [to, second, n].map(|x| Val::I32(x as i32));
    call(&args, &mut memory) == Some(vec![Val::I32(to as i32)]) && memory == wanted
}

/// Numbers that are taken apart.
const POINTS: [f64; 14] =
    [-3.25e9, -31.75, -2.0, -1.5, -0.375, -1e-3, 0.0, 1e-9, 0.5, 0.9375, 1.0, 2.5, 1024.0, 7.1e20];

fn takes_apart(single: bool, out: Ty, call: &mut Callable<'_>) -> bool {
    const AT: usize = 512;
    POINTS.iter().all(|&x| {
        let x = if single { f64::from(x as f32) } else { x };
        let arg = if single { Val::F32(x as f32) } else { Val::F64(x) };
        let mut memory = [0x55; BYTES];
        let Some(found) = call(&[arg, Val::I32(AT as i32)], &mut memory) else { return false };
        let value = match found[..] {
            [Val::F64(v)] => v,
            [Val::F32(v)] => v.into(),
            _ => return false,
        };
        let four: [u8; 4] = memory[AT..AT + 4].try_into().expect("four bytes");
        let (wanted, part, part_wanted) = match out {
            Ty::I32 => {
                let (m, e) = parts(x);
                (m, f64::from(i32::from_le_bytes(four)), f64::from(e))
            }
            Ty::F32 => (x.fract(), f32::from_le_bytes(four).into(), x.trunc()),
            _ => (x.fract(), f64::from_le_bytes(memory[AT..AT + 8].try_into().expect("eight bytes")), x.trunc()),
        };
        value == wanted && part == part_wanted
    })
}

/// Parts of numbers that are divided: large and small ones, and what is none.
const PARTS: [f64; 11] =
    [0.0, -0.0, 1.0, -2.5, 0.3, 3e30, -7e-31, 1.25e-38, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];

fn divides(single: bool, call: &mut Callable<'_>) -> bool {
    const AT: usize = 512;
    let same = |x: f64, y: f64| x.to_bits() == y.to_bits() || x.is_nan() && y.is_nan();
    // Not all of fourteen thousand, but all pairs of numerators, of divisors, and of one of each.
    let n = PARTS.len();
    (0..n * n * n).all(|k| {
        let [a, b, c] = [k % n, k / n % n, k / n / n];
        let [a, b, c, d] = [a, b, c, (2 * a + 3 * b + 5 * c + 1) % n].map(|i| PARTS[i]);
        let mut memory = [0x55; BYTES];
        let place = [Val::I32(AT as i32)];
        let (args, wanted) = if single {
            let [a, b, c, d] = [a, b, c, d].map(|x| x as f32);
            ([a, b, c, d].map(Val::F32), quotient_of_singles(a, b, c, d).map(f64::from))
        } else {
            ([a, b, c, d].map(Val::F64), quotient(a, b, c, d))
        };
        if call(&[&place[..], &args].concat(), &mut memory).is_none_or(|found| !found.is_empty()) {
            return false;
        }
        let size = if single { 4 } else { 8 };
        let part = |k: usize| float_at(&memory, AT + k * size, single);
        let left = memory[..AT].iter().chain(&memory[AT + 2 * size..]).all(|&b| b == 0x55);
        left && same(part(0), wanted[0]) && same(part(1), wanted[1])
    })
}

/// A number between a half and one, in magnitude, and a power of two.
pub(crate) fn parts(x: f64) -> (f64, i32) {
    if x == 0.0 {
        return (x, 0);
    }
    let e = x.abs().log2().floor() as i32 + 1;
    (x / f64::from(e).exp2(), e)
}

#[cfg(test)]
mod tests {
    use super::parts;

    #[test]
    fn fractions_and_powers() {
        assert_eq!(parts(1.0), (0.5, 1));
        assert_eq!(parts(-0.375), (-0.75, -1));
        assert_eq!(parts(1024.0), (0.5, 11));
        assert_eq!(parts(0.0), (0.0, 0));
    }
}
