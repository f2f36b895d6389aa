//! Which functions of a module are its allocator.
//!
//! **Problem.** Memory of a module is one piece, and a store to one array may be a store to any
//! other, unless it is known where arrays begin and end. A C library's `malloc` knows; it is in the
//! module, as code like any other.
//!
//! **Answer.** It is known by its name: from the name section, or as an export. Names are those of
//! C, of C++'s operators (as the linker writes them, and mangled), and of Rust. A function of such
//! a name whose type does not fit is none. An embedder can name other allocators. What is then
//! taken to hold is said in [`brolga_ir::Allocator`].
//!
//! What places a block where it is told to (placement `new`) or leaves its address in memory
//! (`posix_memalign`) is not listed: its blocks are taken for anything.
//!
//! **Cost.** A look at the names of each function.

use std::str::FromStr;

use brolga::Allocator;
use wasmparser::{ExternalKind, FuncType, ValType};

use crate::error::Error;
use crate::parse::Info;
use crate::val::Val;

const ALLOCATE: Allocator = Allocator::Allocate { zeroed: false };
const ZEROED: Allocator = Allocator::Allocate { zeroed: true };
const RELEASE: Allocator = Allocator::Release { pointer: 1 };
const REALLOCATE: Allocator = Allocator::Reallocate { pointer: 1 };

/// Names and what functions of these names do.
const KNOWN: &[(Allocator, &[&str])] = &[
    (ZEROED, &["calloc", "dlcalloc", "emmalloc_calloc", "__rust_alloc_zeroed", "__rdl_alloc_zeroed"]),
    (
        ALLOCATE,
        &[
            "malloc",
            "aligned_alloc",
            "memalign",
            "dlmalloc",
            "dlmemalign",
            "emmalloc",
            "operator new(unsigned long)",
            "operator new[](unsigned long)",
            "operator new(unsigned long, std::align_val_t)",
            "operator new[](unsigned long, std::align_val_t)",
            "operator new(unsigned long, std::nothrow_t const&)",
            "operator new[](unsigned long, std::nothrow_t const&)",
            "_Znwm",
            "_Znam",
            "_ZnwmSt11align_val_t",
            "_ZnamSt11align_val_t",
            "_ZnwmRKSt9nothrow_t",
            "_ZnamRKSt9nothrow_t",
            "__rust_alloc",
            "__rdl_alloc",
        ],
    ),
    (
        RELEASE,
        &[
            "free",
            "dlfree",
            "emmalloc_free",
            "operator delete(void*)",
            "operator delete[](void*)",
            "operator delete(void*, unsigned long)",
            "operator delete[](void*, unsigned long)",
            "operator delete(void*, std::align_val_t)",
            "operator delete[](void*, std::align_val_t)",
            "operator delete(void*, unsigned long, std::align_val_t)",
            "operator delete[](void*, unsigned long, std::align_val_t)",
            "_ZdlPv",
            "_ZdaPv",
            "_ZdlPvm",
            "_ZdaPvm",
            "_ZdlPvSt11align_val_t",
            "_ZdaPvSt11align_val_t",
            "_ZdlPvmSt11align_val_t",
            "_ZdaPvmSt11align_val_t",
            "__rust_dealloc",
            "__rdl_dealloc",
        ],
    ),
    (REALLOCATE, &["realloc", "dlrealloc", "emmalloc_realloc", "__rust_realloc", "__rdl_realloc"]),
];

/// Which functions of a module are its allocator, by name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocators {
    /// Those of the usual names: `malloc`, `free`, C++'s `new` and `delete`, Rust's.
    pub known: bool,
    /// Others. What the variants of [`Allocator`] say of parameters counts the instance as the
    /// first.
    pub also: Vec<(String, Allocator)>,
}

impl Default for Allocators {
    fn default() -> Self {
        Self { known: true, also: Vec::new() }
    }
}

impl Allocators {
    /// No function is an allocator: all of memory is one object.
    pub fn none() -> Self {
        Self { known: false, also: Vec::new() }
    }

    /// What a function of this name does.
    fn named(&self, name: &str) -> Option<Allocator> {
        let known = || KNOWN.iter().find(|(_, names)| names.contains(&plain(name))).map(|k| k.0);
        let said = self.also.iter().find(|(n, _)| n == name).map(|a| a.1);
        said.or_else(|| self.known.then(known).flatten())
    }

    /// The functions of a module that are part of its allocator, by index. What the embedder names
    /// must be there, and have the type.
    pub(crate) fn of(&self, info: &Info<'_>) -> Result<Vec<(u32, Allocator)>, Error> {
        let mut out = Vec::new();
        let mut missing: Vec<&str> = self.also.iter().map(|(name, _)| &name[..]).collect();
        for i in (0..info.funcs.len() as u32).filter(|&i| info.funcs[i as usize].body.is_some()) {
            let names: Vec<_> = info.names_of(i).collect();
            if let Some(kind) = names.iter().find_map(|n| self.named(n))
                && fits(kind, info.type_of(i))
            {
                missing.retain(|m| !names.iter().any(|n| n == m));
                out.push((i, kind));
            }
        }
        match missing.as_slice() {
            [] => Ok(out),
            missing => Err(Error::Usage(format!(
                "the module has no function with a body and the type of an allocator that is called {}",
                missing.join(", ")
            ))),
        }
    }
}

/// A function that gives out memory to a module's host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeapSource {
    /// Which function.
    pub index: u32,
    /// What it is told, for so many bytes.
    pub args: fn(u32) -> Vec<Val>,
}

/// Names of functions that give out memory, the best first, with what they are told.
type AllocatorName = (&'static str, fn(u32) -> Vec<Val>);
const GIVERS: [AllocatorName; 6] = [
    ("malloc", |n| vec![Val::I32(n as i32)]),
    ("dlmalloc", |n| vec![Val::I32(n as i32)]),
    ("emmalloc", |n| vec![Val::I32(n as i32)]),
    ("calloc", |n| vec![Val::I32(1), Val::I32(n as i32)]),
    ("operator new(unsigned long)", |n| vec![Val::I32(n as i32)]),
    ("__rust_alloc", |n| vec![Val::I32(n as i32), Val::I32(16)]),
];

/// The function of a module that gives out memory to its host: one that is exported, or else one
/// that has such a name.
pub(crate) fn source(info: &Info<'_>) -> Option<HeapSource> {
    let defined = || (0..info.funcs.len() as u32).filter(|&i| info.funcs[i as usize].body.is_some());
    let is_it = |i: u32, (name, args): AllocatorName, exported: bool| {
        let ty = info.type_of(i);
        let takes = args(0).len() == ty.params().len() && ty.params().iter().all(|t| *t == ValType::I32);
        let of_export =
            || info.exports.iter().any(|e| e.index == i && e.kind == ExternalKind::Func && plain(&e.name) == name);
        let has_name = || info.names_of(i).any(|n| plain(n) == name);
        takes && ty.results() == [ValType::I32] && if exported { of_export() } else { has_name() }
    };
    [true, false].into_iter().find_map(|exported| {
        let giver = |&g: &AllocatorName| {
            defined().find(|&i| is_it(i, g, exported)).map(|index| HeapSource { index, args: g.1 })
        };
        GIVERS.iter().find_map(giver)
    })
}

/// `none`, or names separated by commas, which are added to the known ones: `NAME` or `NAME=malloc`
/// allocates, `NAME=calloc` zeros, too, `NAME=free` releases and `NAME=realloc` does both with what
/// its first parameter points at. `none` among names turns the known ones off.
impl FromStr for Allocators {
    type Err = String;

    fn from_str(list: &str) -> Result<Self, String> {
        let mut found = Self::default();
        for item in list.split(',').map(str::trim).filter(|i| !i.is_empty()) {
            if item == "none" {
                found.known = false;
                continue;
            }
            let (name, kind) = match item.rsplit_once('=') {
                None => (item, ALLOCATE),
                Some((name, "malloc")) => (name, ALLOCATE),
                Some((name, "calloc")) => (name, ZEROED),
                Some((name, "free")) => (name, RELEASE),
                Some((name, "realloc")) => (name, REALLOCATE),
                Some((_, other)) => return Err(format!("`{other}` is none of malloc, calloc, free and realloc")),
            };
            found.also.push((name.to_owned(), kind));
        }
        Ok(found)
    }
}

/// Rust's names stand at the end of a path: a list of names, each after its length, and an
/// underscore if it begins with one.
fn plain(name: &str) -> &str {
    let inner = |at: usize| {
        let short = &name[at..];
        name.starts_with("_R") && name[..at].ends_with(&format!("{}_", short.len()))
    };
    match name.rfind("__r") {
        Some(at) if inner(at) => &name[at..],
        _ => name,
    }
}

/// Whether a function of this type can do that.
fn fits(kind: Allocator, ty: &FuncType) -> bool {
    let pointer = |p: usize| ty.params().get(p.wrapping_sub(1)) == Some(&ValType::I32);
    let gives = ty.results() == [ValType::I32];
    match kind {
        Allocator::Allocate { .. } => gives,
        Allocator::Release { pointer: p } => pointer(p),
        Allocator::Reallocate { pointer: p } => pointer(p) && gives,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        let all = Allocators::default();
        assert_eq!(all.named("malloc"), Some(ALLOCATE));
        assert_eq!(all.named("_RNvCsfLfy6EI15iL_7___rustc14___rust_dealloc"), Some(RELEASE));
        assert_eq!(all.named("_RNvCsfLfy6EI15iL_7___rustc35___rust_no_alloc_shim_is_unstable_v2"), None);
        assert_eq!(all.named("operator new(unsigned long, void*)"), None);
        assert_eq!(all.named("my_malloc"), None);
        let said: Allocators = "none, take, put=free, more=realloc".parse().unwrap();
        assert_eq!(said.named("malloc"), None);
        assert_eq!(said.named("take"), Some(ALLOCATE));
        assert_eq!(said.named("put"), Some(RELEASE));
        assert_eq!(said.named("more"), Some(REALLOCATE));
        assert!("take=steal".parse::<Allocators>().is_err());
    }
}
