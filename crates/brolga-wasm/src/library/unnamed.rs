//! Functions of C's mathematical library that are in a module under no name, or under an unknown
//! one.
//!
//! **Problem.** What is published has been made small: functions have no names, and `exp` is
//! integer arithmetic on float bits like any other, so everything that calls it would be refused.
//! Other compilers have libraries of their own, with names of their own. **Answer.** A function is
//! known by what it computes. Whatever takes and returns floats, and handles bits of floats, is run
//! at many points (`Points`): of any size, of both signs, at the ends of ranges, at infinities and
//! no numbers. If it is a known function's value everywhere, it is taken for that function, as if
//! it had its name ([`crate::library::mathlib`]): it keeps its body.
//!
//! What could be wrong, and what is asked for that reason:
//!
//! - It might be a known function on a part of its domain only, as one that clamps its argument. So
//!   there are points close to where results overflow and vanish, and differences count in relation
//!   to the value, however small it is.
//! - It might do something else besides. So it must leave memory as it was, but for a piece below
//!   an address that some global holds (the stack), and globals that only such functions read.
//! - Most functions of the type are none of a library's. They differ at one of the first points, so
//!   that they cost a call or two, and only those are looked at that have not many instructions,
//!   call no import, and nothing through a table.
//!
//! A function without bits of its own whose callees are all known is left alone: its derivative
//! follows from theirs.
//!
//! **Cost.** As a module is loaded, calls of each candidate until none of the known functions is
//! left, at some thousand points at most. A candidate has at most 16 KiB of code in each of some
//! two dozen functions.

use std::collections::HashSet;

use brolga::{FuncKey, Options, Primal};
use brolga_rules::{MathKind, MathRule, Ty, math_rules};
use wasmparser::{FuncType, ValType};

use crate::error::Error;
use crate::instance::Instance;
use crate::library::mathlib::{FUEL, Host};
use crate::module::Module;
use crate::parse::Info;
use crate::val::Val;

/// Bytes of code of the longest function that may be one of a library's, and how many functions it
/// may consist of.
const LONGEST: u64 = 16 << 10;
const MOST: usize = 24;

/// Bytes below the stack pointer that a function may use.
const STACK: usize = 16 << 10;

/// Largest differences, in relation to the value.
const CLOSE_F64: f64 = 1e-12;
const CLOSE_F32: f64 = 2e-6;

/// Rules that no function is recognised by: what they compute is their operand, or next to it.
const VAGUE: [&str; 4] = ["nextafter", "nextafterf", "drem", "dremf"];

/// A function that may be known, with all that it calls.
struct UnnamedCandidate {
    index: u32,
    ty: FuncType,
    all: HashSet<u32>,
}

/// Whether it is worth a look.
pub(crate) fn may_be_there(info: &Info<'_>) -> bool {
    !candidates(info, &HashSet::new()).is_empty()
}

/// Which functions of the module compute what: index and symbol. `known` need not be looked at. The
/// module is translated for fuel.
pub(crate) fn confirmed(
    module: &Module,
    info: &Info<'_>,
    mut known: HashSet<u32>,
) -> Result<Vec<(u32, &'static str)>, Error> {
    let candidates = candidates(info, &known);
    let key = |c: &UnnamedCandidate| module.0.translated.funcs[c.index as usize];
    let roots: Vec<FuncKey> = candidates.iter().filter_map(key).collect();
    if roots.is_empty() {
        return Ok(Vec::new());
    }
    // They may share globals in which one leaves something for another.
    let library: HashSet<u32> = candidates.iter().flat_map(|c| &c.all).copied().collect();
    let primal = Primal::new(module.program(), &roots, &Options::default())?;
    let mut trial = Trial { info, library, instance: Instance::not_started(module)?, primal, started: None };
    let mut out = Vec::new();
    // Those that only call others come when those are known.
    let (first, second): (Vec<_>, Vec<_>) = candidates.into_iter().partition(|c| info.uses[c.index as usize].bits);
    for c in first.into_iter().chain(second) {
        let open = |f: &u32| info.uses[*f as usize].bits && !known.contains(f);
        if c.all.iter().any(open)
            && let Some(key) = key(&c)
            && let Some(symbol) = trial.known(key, &c)
        {
            known.insert(c.index);
            out.push((c.index, symbol));
        }
    }
    Ok(out)
}

/// Functions of floats that handle bits of floats, or call what does.
fn candidates(info: &Info<'_>, known: &HashSet<u32>) -> Vec<UnnamedCandidate> {
    let mut out = Vec::new();
    for index in (0..info.funcs.len() as u32).filter(|i| !known.contains(i)) {
        let ty = info.type_of(index);
        if rules(ty).next().is_none() {
            continue;
        }
        let Some(all) = reached(info, index) else { continue };
        if all.iter().any(|&f| info.uses[f as usize].bits) {
            out.push(UnnamedCandidate { index, ty: ty.clone(), all });
        }
    }
    out
}

/// Whether a function may be one of a library's, of whatever name, that handles bits of floats
/// itself.
pub(crate) fn handles_bits(info: &Info<'_>, index: u32) -> bool {
    info.uses[index as usize].bits && reached(info, index).is_some()
}

/// A function and all that it calls, if nothing there speaks against a library's.
fn reached(info: &Info<'_>, from: u32) -> Option<HashSet<u32>> {
    let (mut all, mut open) = (HashSet::from([from]), vec![from]);
    while let Some(f) = open.pop() {
        let (uses, body) = (&info.uses[f as usize], info.funcs[f as usize].body.as_ref()?);
        let range = body.range();
        if uses.other || range.end - range.start > LONGEST || all.len() > MOST {
            return None;
        }
        open.extend(uses.calls.iter().copied().filter(|&c| all.insert(c)));
    }
    Some(all)
}

/// Rules for functions of a type.
fn rules(ty: &FuncType) -> impl Iterator<Item = &'static MathRule> {
    let fits = |t: &Ty, v: &ValType| {
        matches!((t, v), (Ty::F64, ValType::F64) | (Ty::F32, ValType::F32) | (Ty::I32, ValType::I32))
    };
    let same = move |ts: &[Ty], vs: &[ValType]| ts.len() == vs.len() && ts.iter().zip(vs).all(|(t, v)| fits(t, v));
    let is_internal =
        |r: &MathRule| r.symbol.starts_with("brolga_") || r.symbol.starts_with("__") || VAGUE.contains(&&*r.symbol);
    math_rules().filter(move |r| {
        matches!(r.kind, MathKind::Expr(_))
            && !is_internal(r)
            && same(&r.params, ty.params())
            && same(&r.rets, ty.results())
    })
}

/// An instance in which functions are tried.
struct Trial<'t, 'a> {
    info: &'t Info<'a>,
    library: HashSet<u32>,
    instance: Instance,
    primal: Primal,
    /// Globals and memory before anything was called.
    started: Option<(Vec<u128>, Vec<u8>)>,
}

impl Trial<'_, '_> {
    /// The known function that a candidate computes.
    fn known(&mut self, key: FuncKey, c: &UnnamedCandidate) -> Option<&'static str> {
        let mut left: Vec<(&'static str, Host)> =
            rules(&c.ty).filter_map(|r| Some((&*r.symbol, Host::of(&r.symbol)?))).collect();
        self.instance.set_fuel(FUEL);
        if self.started.is_none() {
            self.started = Some(self.instance.globals_and_data(0));
        }
        for point in points(&c.ty) {
            let value = |(ty, x): (&ValType, f64)| match ty {
                ValType::I32 => Val::I32(x as i32),
                ValType::F32 => Val::F32(x as f32),
                _ => Val::F64(x),
            };
            let args: Vec<Val> = c.ty.params().iter().zip(point).map(value).collect();
            let found = self.instance.enter_in(&self.primal, key, &c.ty, &args).ok()?;
            let (found, tolerance) = match found[..] {
                [Val::F64(v)] => (v, CLOSE_F64),
                [Val::F32(v)] => (v.into(), CLOSE_F32),
                _ => return None,
            };
            left.retain(|(_, host)| is_close(found, host.call(point), tolerance));
            if left.is_empty() {
                break;
            }
        }
        let symbol = left.first().map(|l| l.0);
        // Whatever it was, the next one finds what it would find at first.
        let clean = self.is_clean();
        if !clean {
            self.instance = Instance::not_started(&self.instance.module().clone()).ok()?;
        }
        symbol.filter(|_| clean)
    }

    /// Whether all that has been called has left things as they were, as far as others can see.
    fn is_clean(&self) -> bool {
        let Some((globals, memory)) = &self.started else { return false };
        let (globals_now, memory_now) = self.instance.globals_and_data(0);
        let changed = |i: usize| globals[i] != globals_now[i];
        let of_library = |i: usize| {
            let readers = self.info.uses.iter().enumerate().filter(|(_, u)| u.globals.contains(&(i as u32)));
            let exported =
                self.info.exports.iter().any(|e| e.kind == wasmparser::ExternalKind::Global && e.index == i as u32);
            !exported && readers.map(|(f, _)| f as u32).all(|f| self.library.contains(&f))
        };
        if memory.len() != memory_now.len() || !(0..globals.len()).all(|i| !changed(i) || of_library(i)) {
            return false;
        }
        let tops: Vec<usize> = globals.iter().filter_map(|&g| usize::try_from(g).ok()).collect();
        let differs = memory.chunks(64).zip(memory_now.chunks(64)).enumerate().filter(|(_, (a, b))| a != b);
        differs.map(|(i, _)| i * 64).all(|at| tops.iter().any(|&top| at < top && at + STACK >= top))
    }
}

/// Whether a number is the wanted one but for `tolerance` of it, or both are none. What is too
/// small for a full number of digits may be anything so small.
fn is_close(found: f64, wanted: f64, tolerance: f64) -> bool {
    let small = if tolerance == CLOSE_F32 { f64::from(f32::MIN_POSITIVE) } else { f64::MIN_POSITIVE };
    (found - wanted).abs() <= tolerance * wanted.abs() + tolerance * small
        || found == wanted
        || found.is_nan() && wanted.is_nan()
}

/// Points at which functions of a type are tried, the ones that tell them apart soonest first.
fn points(ty: &FuncType) -> Vec<[f64; 3]> {
    let single = ty.params().first() == Some(&ValType::F32);
    let floats = ty.params().iter().filter(|t| **t != ValType::I32).count();
    let line = line(single);
    let one = |x: f64| [x, 0.0, 0.0];
    let some: Vec<f64> =
        line.iter().copied().filter(|x| x.is_finite()).step_by(if floats == 2 { 9 } else { 40 }).collect();
    match (floats, ty.params().len()) {
        (1, 1) => line.into_iter().map(one).collect(),
        (1, _) => {
            let powers = [0, 1, -1, 2, -7, 30, -64, 200, -400, 1023, -1074, 3000];
            line.into_iter().flat_map(|x| powers.map(|n| [x, f64::from(n), 0.0])).collect()
        }
        (2, _) => some.iter().flat_map(|&x| some.iter().map(move |&y| [x, y, 0.0])).collect(),
        _ => {
            let some = &some;
            some.iter().flat_map(|&x| some.iter().flat_map(move |&y| some.iter().map(move |&z| [x, y, z]))).collect()
        }
    }
}

/// Numbers of all sizes and both signs, more of them where functions change; numbers at which
/// something overflows or vanishes; and what is none.
fn line(single: bool) -> Vec<f64> {
    let mut out = vec![0.37, -0.83, 2.41, -7.3, 1.0, 0.0, 0.5, 11.3, -1.0, -0.0, 57.9, -31.7, 2.0, 3.0, 10.0];
    // Exponents at even steps: from 2^-40 to 2^27, so that a threshold anywhere lies between two of
    // them.
    let mut fraction = 0.0;
    for k in 0..200 {
        // Steps of the golden ratio meet no pattern.
        fraction = (fraction + 0.618_033_988_749_894_9_f64) % 1.0;
        let e = -40.0 + 67.0 * f64::from(k) / 200.0 + fraction / 3.0;
        let x = e.exp2();
        out.extend([x, -x]);
    }
    // Between a hundred and a thousand, and below ninety, is where exponentials end.
    out.extend((1..60).flat_map(|k| [12.5 * f64::from(k) + 0.3, -12.5 * f64::from(k) - 0.3]));
    out.extend((1..30).flat_map(|k| [3.1 * f64::from(k), -3.1 * f64::from(k)]));
    let ends: &[f64] = if single {
        &[88.7, -87.3, -103.9, 127.9, -149.5, 38.5, -44.8, 1e30, -1e30, 1e-30, 3e38, 1e-40]
    } else {
        &[709.7, -708.3, -745.1, 1023.9, -1074.5, 308.2, -323.2, 1e300, -1e300, 1e-300, 1e150, 5e-320]
    };
    out.extend_from_slice(ends);
    out.extend([f64::INFINITY, f64::NEG_INFINITY, f64::NAN]);
    if single {
        // What is no single would be rounded on one side only.
        out.iter_mut().for_each(|x| *x = f64::from(*x as f32));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_told_from_every_other() {
        let doubles = FuncType::new([ValType::F64], [ValType::F64]);
        let all: Vec<_> = rules(&doubles).map(|r| &*r.symbol).collect();
        assert!(all.contains(&"exp") && all.contains(&"floor") && !all.contains(&"brolga_digamma"));
        // These are the same but for what they signal.
        let alike = [
            ["roundeven", "rint"],
            ["roundeven", "nearbyint"],
            ["rint", "nearbyint"],
            ["nearbyint", "rint"],
            ["rint", "roundeven"],
            ["nearbyint", "roundeven"],
        ];
        for a in &all {
            for b in all.iter().filter(|b| *b != a) {
                let (f, g) = (Host::of(a).unwrap(), Host::of(b).unwrap());
                let same = points(&doubles).into_iter().all(|p| is_close(f.call(p), g.call(p), CLOSE_F64));
                assert_eq!(same, alike.contains(&[*a, *b]), "{a} and {b}");
            }
        }
    }
}
