//! One program at one level of optimisation, with what is right, as the comment before its C.

use anyhow::{Context, Result, bail};

use super::c;
use super::clang::{LEVELS, Level};
use super::dual::{Reference, reference};
use super::generate::TOGETHER;
use super::program::{Float, INPUTS, LENGTH, Program};

/// What is called and what comes out.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// The exported function.
    pub name: String,
    /// How it is compiled.
    pub level: Level,
    /// The types of the first two arguments and the first array, and of the third argument and the
    /// second array.
    pub floats: [Float; 2],
    /// Three arguments by value and two arrays.
    pub inputs: [f64; INPUTS],
    /// The generator's state.
    pub state: u32,
    /// Initial shadows of the arrays.
    pub shadows: [f64; INPUTS],
    /// Whether bits are calculated with.
    pub calculates: bool,
    /// What is right.
    pub right: Reference,
}

impl Case {
    /// The case of a program.
    pub fn new(program: &Program, number: u64, level: usize) -> Self {
        let shadows = std::array::from_fn(|k| if k < 3 { 0.0 } else { program.shadow(k) });
        Case {
            name: format!("f{number}"),
            level: level_of(number, level),
            floats: [program.kind.float(true), program.kind.float(false)],
            inputs: std::array::from_fn(|k| program.input(k).number(program.input(k).of(program.inputs[k]))),
            state: program.state,
            shadows,
            calculates: program.calculates(),
            right: reference(program),
        }
    }

    /// The type of an input.
    pub fn float(&self, input: usize) -> Float {
        self.floats[usize::from(input == 2 || input >= 3 + LENGTH)]
    }

    /// How the command line writes the call.
    pub fn call(&self) -> String {
        let list = |from: usize| {
            let prefix = if self.float(from) == Float::Single { "f32" } else { "" };
            let shadow = &self.shadows[from..from + LENGTH];
            let shadow = if shadow.iter().any(|x| *x != 0.0) { format!(" ~ {shadow:?}") } else { String::new() };
            format!("{prefix}{:?}{shadow}", &self.inputs[from..from + LENGTH])
        };
        let [x, y, w, ..] = self.inputs;
        let state = self.state as i32;
        format!("%{}({x:?}, {y:?}, {w:?}, {state}, {LENGTH}, {}, {})", self.name, list(3), list(3 + LENGTH))
    }

    /// The case and its source as a file.
    pub fn file(&self, source: &str, said: &str) -> String {
        let numbers = |all: &[f64]| all.iter().map(|x| format!("{x:?}")).collect::<Vec<_>>().join(" ");
        let single = |f: Float| if f == Float::Single { "single" } else { "double" };
        let right = &self.right;
        let lines = [
            format!("said {said}"),
            format!("call {}", self.call()),
            format!("name {}", self.name),
            format!("level {} {}", self.level.name(), if self.level.bulk { "bulk" } else { "plain" }),
            format!("floats {} {}", single(self.floats[0]), single(self.floats[1])),
            format!("inputs {}", numbers(&self.inputs)),
            format!("state {}", self.state),
            format!("shadows {}", numbers(&self.shadows)),
            format!("calculates {}", self.calculates),
            format!("value {:?}", right.value),
            format!("gradient {}", numbers(&right.gradient)),
            format!("largest {:?}", right.largest),
            format!("unsure {}", right.unsure.unwrap_or("no")),
        ];
        let lines = lines.map(|l| format!("// {}\n", l.replace('\n', " ")));
        format!("{}{source}", lines.concat())
    }

    /// The case of a file.
    pub fn parse(text: &str) -> Result<Self> {
        let field = |name: &str| {
            let found = text.lines().find_map(|l| l.strip_prefix("// ")?.strip_prefix(name)?.strip_prefix(' '));
            found.with_context(|| format!("there is no line `// {name}`"))
        };
        let numbers = |name: &str| -> Result<[f64; INPUTS]> {
            let all: Vec<f64> = field(name)?.split(' ').map(str::parse).collect::<Result<_, _>>()?;
            all.try_into().map_err(|all: Vec<f64>| anyhow::anyhow!("{} numbers in `{name}`", all.len()))
        };
        let (level, bulk) = field("level")?.split_once(' ').context("a level and how blocks are copied")?;
        let Some(index) = LEVELS.iter().position(|l| l.0 == level) else { bail!("`{level}` is no level") };
        let float = |word: &str| if word == "single" { Float::Single } else { Float::Double };
        let (a, b) = field("floats")?.split_once(' ').context("two types")?;
        let right = Reference {
            value: field("value")?.parse()?,
            gradient: numbers("gradient")?,
            unsure: (field("unsure")? != "no").then_some("said so"),
            largest: field("largest")?.parse()?,
        };
        Ok(Case {
            name: field("name")?.to_owned(),
            level: Level { index, bulk: bulk == "bulk" },
            floats: [float(a), float(b)],
            inputs: numbers("inputs")?,
            state: field("state")?.parse()?,
            shadows: numbers("shadows")?,
            calculates: field("calculates")? == "true",
            right,
        })
    }
}

/// How the programs of a module are compiled.
pub fn level_of(number: u64, index: usize) -> Level {
    Level { index, bulk: (number / TOGETHER).is_multiple_of(2) }
}

/// A program alone, as a file.
pub fn file(program: &Program, number: u64, level: usize, said: &str) -> String {
    let Program { local_arrays, shared, body, .. } = program;
    let source = c::module([(number, program)]);
    format!("{}\n// made {local_arrays:?} {shared} {body:?}\n", Case::new(program, number, level).file(&source, said))
}
