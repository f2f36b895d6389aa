//! Names of derived CLIF: symbols as CLIF text can spell them.
//!
//! **Problem.** CLIF text allows letters, digits and `_` in a `%name`, and symbols have other
//! characters. Derived code calls C's functions by their names, as programs do, and a program may
//! have a function of its own of such a name (its own `cos`, a `log` that writes messages).
//!
//! **Answer.** A symbol such as `u0:3` is spelled `u0_3` ([`Names::spell()`]); [`Names`] finds the
//! symbol again ([`Names::symbol()`]). Where the program has a function of C's name, C's is called
//! by another ([`Names::of_c()`]).
//!
//! **Invariant.** No two symbols have one spelling.
//!
//! **Cost.** A look-up or two for a symbol that is known. A new one is copied, and numbered where
//! its spelling is taken.

use crate::map::{HashMap, IndexMap, IndexSet};

/// What the name of a function of the program that stands for one of C ends in.
pub const THUNK: &str = "__thunk";

/// A two-way table of symbols and their spelling in CLIF text.
#[derive(Clone, Debug, Default)]
pub struct Names {
    /// Names stay as they are (`u0:3` too): for functions that stay within one program.
    pub verbatim: bool,
    /// What C's functions are called of whose name the program has one of its own.
    pub of_c: HashMap<String, String>,
    /// Symbols that are spelled as they are, as most are.
    same: IndexSet<String>,
    /// How the others are spelled, and which of them is spelled so.
    spelling: IndexMap<String, String>,
    symbol: IndexMap<String, String>,
}

impl Names {
    /// A table that changes nothing.
    pub fn verbatim() -> Self {
        Self { verbatim: true, ..Self::default() }
    }

    /// The spelling of a symbol.
    pub fn spell(&mut self, symbol: &str) -> &str {
        if !self.same.contains(symbol) && !self.spelling.contains_key(symbol) {
            let spelled = |c: char| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' };
            let is_free = |names: &Self, s: &str| !names.same.contains(s) && !names.symbol.contains_key(s);
            if symbol.chars().all(|c| spelled(c) == c) && is_free(self, symbol) {
                self.same.insert(symbol.to_owned());
            } else {
                let base: String = symbol.chars().map(spelled).collect();
                let mut s = base.clone();
                let mut n = 1;
                while !is_free(self, &s) {
                    n += 1;
                    s = format!("{base}_{n}");
                }
                self.symbol.insert(s.clone(), symbol.to_owned());
                self.spelling.insert(symbol.to_owned(), s);
            }
        }
        let other = self.spelling.get(symbol).or_else(|| self.same.get(symbol));
        other.expect("it is spelled in one way or the other")
    }

    /// The name by which derived code calls a function of C's.
    pub fn of_c<'s>(&'s self, symbol: &'s str) -> &'s str {
        self.of_c.get(symbol).map_or(symbol, String::as_str)
    }

    /// The symbol that is spelled so.
    pub fn symbol(&self, spelling: &str) -> Option<&str> {
        self.symbol.get(spelling).or_else(|| self.same.get(spelling)).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_symbol_has_a_spelling_of_its_own() {
        let mut names = Names::default();
        let symbols = ["u0_3", "u0:3", "u0;3", "f", "g.h", "g_h", "g_h_2", "g:h", "", "g/h"];
        let spelled: Vec<String> = symbols.iter().map(|s| names.spell(s).to_owned()).collect();
        assert_eq!(spelled, ["u0_3", "u0_3_2", "u0_3_3", "f", "g_h", "g_h_2", "g_h_2_2", "g_h_3", "", "g_h_4"]);
        for (symbol, spelling) in symbols.iter().zip(&spelled) {
            assert_eq!(names.spell(symbol), spelling);
            assert_eq!(names.symbol(spelling), Some(*symbol));
        }
        assert_eq!(names.symbol("h"), None);
    }
}
