//! Rule cache: rules of a file for one call after another.
//!
//! **Problem.** A large module takes minutes to derive, and calls of one function mostly ask for
//! the same derivative.
//!
//! **Answer.** The last rule is kept, and serves again where request and options are the same
//! ([`Rules::get`]). Where runs leave traces in data objects each gets a rule of its own.
//!
//! **Cost.** A comparison of request and options. One rule is in memory at a time.

use std::cell::RefCell;

use brolga::{DerivedRule, Error, Options, Program, Request};
use brolga_driver::File;
use brolga_driver::protocol::derive;

/// Rules of a file.
pub struct Rules<'a> {
    file: &'a File,
    last: RefCell<Option<(Request, Options, DerivedRule)>>,
}

impl<'a> Rules<'a> {
    /// Of a file, none yet.
    pub fn new(file: &'a File) -> Self {
        Self { file, last: RefCell::new(None) }
    }

    /// What the file defines.
    pub fn program(&self) -> &'a Program {
        &self.file.program
    }

    /// The rule that is asked for, as good as new.
    pub fn get(&self, request: &Request, options: &Options) -> Result<DerivedRule, Error> {
        if let Some((r, o, rule)) = &*self.last.borrow()
            && (r, o) == (request, options)
        {
            return Ok(rule.clone());
        }
        // Two large ones need not be there at once.
        self.last.replace(None);
        let rule = derive(&self.file.program, request, options)?;
        if !self.file.program.has_writable_data() {
            self.last.replace(Some((request.clone(), options.clone(), rule.clone())));
        }
        Ok(rule)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brolga::MemoryMode;
    use brolga_driver::text::directive::call_with_clauses;

    fn bound(file: &File, call: &str) -> Request {
        let (parsed, clauses) = call_with_clauses(call).expect("the call is fine");
        file.bind(call, &parsed, &clauses).expect("the call fits").request()
    }

    const FUNCTION: &str = "function %f(f64, f64) -> f64 system_v {
block0(v0: f64, v1: f64):
    v2 = fmul v0, v1
    return v2
}
";

    #[test]
    fn the_same_is_derived_once() {
        let file = File::parse("test.clif", FUNCTION).expect("the file is fine");
        let (rules, options) = (Rules::new(&file), Options::full());
        let first = rules.get(&bound(&file, "%f(1.0, 2.0)"), &options).unwrap();
        assert!(first.is(&rules.get(&bound(&file, "%f(3.0, 5.0)"), &options).unwrap()));
        let other = bound(&file, "%f(3.0, 5.0) activity active, const");
        let second = rules.get(&other, &options).unwrap();
        assert!(!first.is(&second));
        let restore = Options { memory: MemoryMode::Restore, ..options };
        assert!(!second.is(&rules.get(&other, &restore).unwrap()));
    }

    #[test]
    fn data_are_as_at_the_start() {
        let text = format!("; data: %count = i64[0]\n{FUNCTION}");
        let file = File::parse("test.clif", &text).expect("the file is fine");
        assert!(file.program.has_writable_data(), "there is a data object");
        let (rules, options, call) = (Rules::new(&file), Options::full(), bound(&file, "%f(1.0, 2.0)"));
        let first = rules.get(&call, &options).unwrap();
        assert!(!first.is(&rules.get(&call, &options).unwrap()));
    }
}
