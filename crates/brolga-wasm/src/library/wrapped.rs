//! Functions of a module around which others are written: which may be, by name and type, and which
//! are, by what they compute.
//!
//! **Question.** Which functions of a module are those of a library that need a wrapper?
//!
//! **Answer.** Those with the name and the type of one, or with the type of `frexp` if they handle
//! bits of floats: provided that they give what the library's function gives at a fixed set of
//! arguments.
//!
//! **Before.** A module, translated for fuel. **After.** What takes the place of functions that
//! agree with their names ([`crate::library::around`] has what is common to them).
//!
//! **Cost.** For each function, a walk over the exports, for its names. If there are candidates,
//! all of them are compiled, and each is run on a fixed set of arguments, with bounded fuel for all
//! its runs.

use std::sync::Arc;

use brolga::{FuncKey, Options, Primal};

use crate::error::Error;
use crate::instance::Instance;
use crate::library::complexes::ComplexMath;
use crate::library::mathlib::{FUEL, plain};
use crate::library::parts::FloatParts;
use crate::library::quads::Quad;
use crate::library::remquo::Remquo;
use crate::library::unnamed::handles_bits;
use crate::module::Module;
use crate::parse::Info;
use crate::provided::{ProvidedFunction, Replacements, WrapperFunction};
use crate::val::Val;

/// A function of a module that may be known.
pub(crate) struct WrappedCandidate {
    index: u32,
    around: Arc<dyn WrapperFunction>,
}

/// Functions of a module that have such a name, and the type.
pub(crate) fn candidates(info: &Info<'_>) -> Vec<WrappedCandidate> {
    // They write to the only memory.
    if !matches!(&info.memories[..], [m] if m.ty.initial > 0) {
        return Vec::new();
    }
    let of = |index: u32| {
        let right = |a: &Arc<dyn WrapperFunction>| a.ty() == *info.type_of(index);
        let around = info.names_of(index).find_map(|name| {
            let name = plain(name);
            let quad = || Quad::named(&name).map(|q| Arc::new(q) as Arc<dyn WrapperFunction>);
            let parts =
                || FloatParts::named(&name, info.type_of(index)).map(|p| Arc::new(p) as Arc<dyn WrapperFunction>);
            let complex = ComplexMath::named(&name).map(|c| Arc::new(c) as Arc<dyn WrapperFunction>);
            let remquo = || Remquo::named(&name).map(|r| Arc::new(r) as Arc<dyn WrapperFunction>);
            complex.filter(right).or_else(|| quad().filter(right)).or_else(|| remquo().filter(right)).or_else(parts)
        });
        let by_type = || FloatParts::named("frexp", info.type_of(index)).filter(|_| handles_bits(info, index));
        let around = around.or_else(|| by_type().map(|p| Arc::new(p) as Arc<dyn WrapperFunction>))?;
        Some(WrappedCandidate { index, around })
    };
    (0..info.funcs.len() as u32).filter(|&i| info.funcs[i as usize].body.is_some()).filter_map(of).collect()
}

/// Bytes of memory that a trial tells.
const TOLD: usize = 1024;

/// What takes the place of the candidates that are what they are called. The module is translated
/// for fuel.
pub(crate) fn confirmed(module: &Module, candidates: Vec<WrappedCandidate>) -> Result<Replacements, Error> {
    let key = |c: &WrappedCandidate| module.0.translated.funcs[c.index as usize];
    let roots: Vec<FuncKey> = candidates.iter().filter_map(key).collect();
    if roots.is_empty() {
        return Ok(Replacements::default());
    }
    let primal = Primal::new(module.program(), &roots, &Options::default())?;
    let mut instance = Instance::not_started(module)?;
    let mut out = Replacements::default();
    for c in candidates {
        let Some(key) = key(&c) else { continue };
        let ty = c.around.ty();
        instance.set_fuel(FUEL);
        let mut trial = |memory: &[(usize, Vec<u8>)], args: &[Val]| {
            for (at, bytes) in memory {
                instance.memory_mut()[*at..*at + bytes.len()].copy_from_slice(bytes);
            }
            let found = instance.enter_in(&primal, key, &ty, args).ok()?;
            Some((found, instance.memory()[..TOLD].to_vec()))
        };
        if c.around.agrees(&mut trial) {
            out.insert(c.index, ProvidedFunction::Around(c.around));
        }
    }
    Ok(out)
}
