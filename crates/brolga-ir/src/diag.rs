//! Diagnostics: what is wrong with an input, where, why, and what to do.
//!
//! **Question.** A program cannot be derived as asked. What is reported of that?
//!
//! **Answer.** A [`Diagnostic`] names function, block and instruction, and the source line where
//! the input was text. All problems of a program are collected in [`Diagnostics`] and reported
//! together. Codes are listed in `docs/DIAGNOSTICS.md`.
//!
//! **Invariant.** A message is readable whatever the input: texts of an input are cut ([`cut`]),
//! and only so many problems are listed.
//!
//! **Cost.** None without a problem. Each one is compared with those before it, of which there are
//! a thousand at most.

use std::borrow::Cow;
use std::fmt;

use cranelift_codegen::ir;

use crate::Program;
use crate::position::position;

/// The most bytes of a text from an input that a message repeats.
const MOST: usize = 1000;

/// A text as a message repeats it: a token of an input may be as long as its file.
pub fn cut(text: &str) -> Cow<'_, str> {
    if text.len() <= MOST {
        return text.into();
    }
    let prefix = &text[..text.floor_char_boundary(MOST)];
    format!("{prefix}… ({} bytes)", text.len()).into()
}

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Stable code, `AD0107`.
    pub code: &'static str,
    /// Symbol of the function, empty if no function is concerned.
    pub function: String,
    /// Block that holds the instruction.
    pub block: Option<ir::Block>,
    /// The instruction, as the input numbers it.
    pub inst: Option<ir::Inst>,
    /// The instruction's text.
    pub inst_text: Option<String>,
    /// Where the instruction stands in the input: see [`position`].
    pub line: Option<u32>,
    /// What is wrong, in a sentence without a full stop.
    pub message: String,
    /// Why, in further sentences.
    pub notes: Vec<String>,
    /// What to do.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A problem that belongs to no instruction.
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            function: String::new(),
            block: None,
            inst: None,
            inst_text: None,
            line: None,
            message: cut(&message.into()).into_owned(),
            notes: Vec::new(),
            help: None,
        }
    }

    /// Say which function.
    pub fn in_func(mut self, symbol: &str) -> Self {
        self.function = cut(symbol).into_owned();
        self
    }

    /// Say which instruction. `inst` is numbered as in the body that the program holds; a copy out
    /// of another function is reported as the instruction there, with the calls by which it came,
    /// and one of a derivative as the instruction that was derived.
    pub fn at(mut self, program: &Program, func: crate::FuncKey, inst: ir::Inst) -> Self {
        let derivative = program.made.contains(func).then(|| &program.funcs[func].symbol);
        let crate::Origin { func, inst, calls } = program.origin(func, inst);
        let derivative = derivative.filter(|_| !program.made.contains(func));
        self.notes.extend(derivative.map(|symbol| format!("it is its derivative %{symbol} that cannot be derived")));
        self.notes.extend(calls.iter().map(|&(f, call)| format!("inlined into {}", program.place(f, call))));
        let f = &program.funcs[func];
        self.function = f.symbol.clone();
        self.notes.extend(f.source_name().map(|name| format!("the function is {name}")));
        if let Some(body) = &f.body {
            if inst.as_u32() as usize >= body.dfg.num_insts() {
                // An instruction of ours that stems from none of the input's.
                return self;
            }
            self.inst = Some(inst);
            self.block = body.layout.inst_block(inst);
            self.inst_text = Some(body.dfg.display_inst(inst).to_string());
        }
        let line = f.lines[inst];
        self.line = (line != 0).then_some(line);
        self
    }

    /// Add a reason.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(cut(&note.into()).into_owned());
        self
    }

    /// Say what to do.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(cut(&help.into()).into_owned());
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.code, self.message)?;
        let function = (!self.function.is_empty()).then(|| format!("%{}", cut(&self.function)));
        let inst = self.inst.map(|i| i.to_string());
        let place = [function, self.block.map(|b| b.to_string()), inst, self.line.map(position)];
        let place: Vec<String> = place.into_iter().flatten().collect();
        if !place.is_empty() {
            write!(f, "\n  --> {}", place.join(", "))?;
        }
        if let Some(t) = &self.inst_text {
            write!(f, "\n   |  {}", cut(t))?;
        }
        for n in &self.notes {
            write!(f, "\n  note: {n}")?;
        }
        if let Some(h) = &self.help {
            write!(f, "\n  help: {h}")?;
        }
        Ok(())
    }
}

/// The most problems that are listed.
const MANY: usize = 1000;

/// All problems of a program, in the order in which they were found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnostics(pub Vec<Diagnostic>);

impl Diagnostics {
    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Add one, unless the same is there already, or there are too many to read.
    pub fn push(&mut self, d: Diagnostic) {
        match self.0.len() {
            _ if self.0.len() > MANY || self.0.contains(&d) => {}
            MANY => self.0.push(Diagnostic::new(d.code, "there are more problems, which are not listed")),
            _ => self.0.push(d),
        }
    }

    /// Add several.
    pub fn extend(&mut self, ds: impl IntoIterator<Item = Diagnostic>) {
        ds.into_iter().for_each(|d| self.push(d));
    }

    /// `Ok(value)` if there is no problem.
    pub fn or_ok<T>(self, value: T) -> Result<T, Diagnostics> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(d: Diagnostic) -> Self {
        Self(vec![d])
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, d) in self.0.iter().enumerate() {
            if i > 0 {
                writeln!(f)?;
            }
            writeln!(f, "{d}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostics {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_repeated_of_an_input_is_cut() {
        let long = "é".repeat(MOST);
        let d = Diagnostic::new("AD0002", &*long).in_func(&long).note(&*long).help(&*long);
        assert!(d.to_string().len() < 5 * MOST, "{}", d.to_string().len());
        assert!(d.message.ends_with("… (2000 bytes)") && cut("short") == "short");
    }

    #[test]
    fn so_many_problems_are_not_listed() {
        let mut all = Diagnostics::default();
        let new = |i: usize| Diagnostic::new("AD0002", format!("problem {i}"));
        all.extend((0..10 * MANY).map(|i| new(i % (2 * MANY))));
        assert_eq!(all.0.len(), MANY + 1);
        assert_eq!((&all.0[MANY - 1], all.0[MANY].message.contains("not listed")), (&new(MANY - 1), true));
    }
}
