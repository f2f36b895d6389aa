//! The campaign's side: programs by number, each at every level, and finds as C.
//!
//! **Question.** What does a campaign about bits judge, and which finds are new?
//!
//! **Answer.** Case `n` is program `n / 4` at level `n % 4`. A find is known if a small program of
//! its class consists of the same words.
//!
//! **Cost.** One compilation for the programs of a module.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use brolga_wasm::Module;

use super::c;
use super::case::{self, Case, level_of};
use super::clang::{Clang, LEVELS, Level};
use super::generate::{TOGETHER, program};
use super::judge::{BitsVerdict, Judgement, judge};
use super::program::Program;
use super::small::reduce;
use crate::campaign::Target;
use crate::outside::ProcessFiles;

const LEVEL_COUNT: u64 = LEVELS.len() as u64;

/// Programs about bits: case `n` is program `n / 4` at level `n % 4`.
pub struct Bits {
    /// Words of what was made small, by class: a program with all of them most likely fails for the
    /// same reason.
    known: RefCell<Vec<(String, BTreeSet<String>)>>,
}

impl Bits {
    /// If there is a compiler.
    pub fn new() -> Result<Self> {
        Clang::find()?;
        Ok(Bits { known: RefCell::default() })
    }
}

impl Target for Bits {
    fn worker(&self, first: u64, count: u64) -> Vec<String> {
        ["--bits".to_owned(), "--worker".to_owned(), first.to_string(), "--count".to_owned(), count.to_string()].into()
    }

    fn known(&self, number: u64, class: &str) -> bool {
        let (words, class) = (words(&program(number / LEVEL_COUNT)), manner(class));
        self.known.borrow().iter().any(|(c, known)| c == class && known.is_subset(&words))
    }

    fn keep(&self, outside: &ProcessFiles, number: u64, class: &str, finds: &Path) -> Result<PathBuf> {
        let (number, level) = (number / LEVEL_COUNT, (number % LEVEL_COUNT) as usize);
        let whole = program(number);
        let said = |p: &Program| outside.judge(&case::file(p, number, level, ""), "c");
        let key = class.to_owned();
        let text = if said(&whole)?.key() == key {
            let small = reduce(&whole, |p| Ok(said(p)?.key() == key))?;
            self.known.borrow_mut().push((manner(&key).to_owned(), words(&small)));
            case::file(&small, number, level, &said(&small)?.line)
        } else {
            // What else is in the module plays a part.
            Case::new(&whole, number, level).file(&source(number), class)
        };
        let slug: String = class.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
        let path = finds.join(format!("{}-{number}.c", slug.trim_matches('-')));
        std::fs::create_dir_all(finds).with_context(|| format!("creating {}", finds.display()))?;
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }
}

/// A class without its last word, which is the level.
fn manner(class: &str) -> &str {
    class.rsplit_once(' ').map_or(class, |c| c.0)
}

/// The words of a program's statements, and where its arrays lie.
fn words(program: &Program) -> BTreeSet<String> {
    let text = format!("{:?} {:?}", program.body, program.local_arrays.map(|a| a.storage));
    let split = text.split(|c: char| !c.is_ascii_alphabetic()).filter(|w| w.len() > 3 && *w != "Frame");
    split.map(str::to_owned).collect()
}

/// The module that a program is in.
pub fn source(number: u64) -> String {
    let first = number / TOGETHER * TOGETHER;
    let programs: Vec<_> = (first..first + TOGETHER).map(|n| (n, program(n))).collect();
    c::module(programs.iter().map(|(n, p)| (*n, p)))
}

/// Judge cases one after the other and print what is said of each.
pub fn work(first: u64, count: u64) -> Result<()> {
    let clang = Clang::find()?;
    let folder = std::env::temp_dir().join(format!("brolga-bits-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let mut modules = HashMap::new();
    for n in first..first + count {
        let (number, index) = (n / LEVEL_COUNT, (n % LEVEL_COUNT) as usize);
        let group = (number / TOGETHER, index);
        if let std::collections::hash_map::Entry::Vacant(entry) = modules.entry(group) {
            let bytes = clang.compile(&source(number), level_of(number, index), &folder)?;
            entry.insert(Module::new(bytes));
        }
        let case = Case::new(&program(number), number, index);
        // One write for each line: the process may be gone after it, and the line must be whole.
        let line = format!("{n} {}\n", judged(&modules[&group], &case));
        std::io::stdout().write_all(line.as_bytes())?;
    }
    std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))
}

/// Judge a file with a case.
pub fn check(text: &str) -> Result<Judgement> {
    let case = Case::parse(text)?;
    let folder = std::env::temp_dir().join(format!("brolga-bits-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    let bytes = Clang::find()?.compile(text, case.level, &folder);
    std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
    Ok(judged(&Module::new(bytes?), &case))
}

/// Compile a file with a case at every level; modules are written beside it.
pub fn build(path: &Path) -> Result<()> {
    let text = std::fs::read_to_string(path).with_context(|| format!("reading {}", path.display()))?;
    let (case, clang) = (Case::parse(&text)?, Clang::find()?);
    let folder = std::env::temp_dir().join(format!("brolga-bits-{}", std::process::id()));
    std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
    for (index, (name, _)) in LEVELS.iter().enumerate() {
        let bytes = clang.compile(&text, Level { index, ..case.level }, &folder)?;
        let to = path.with_extension(format!("{name}.wasm"));
        std::fs::write(&to, bytes).with_context(|| format!("writing {}", to.display()))?;
    }
    std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))
}

fn judged(module: &Result<Module, brolga_wasm::Error>, case: &Case) -> Judgement {
    match module {
        Ok(module) => judge(module, case),
        Err(e) => {
            let verdict = BitsVerdict::Wrong("module".to_owned(), e.to_string());
            Judgement { level: case.level.name(), calculates: case.calculates, verdict }
        }
    }
}
