//! Loader: from the text of a CLIF file to a [`Program`] with lines and directives.
//!
//! **Question.** Which functions, data objects and directives does a file hold, and what is wrong
//! with it?
//!
//! **Answer.** The text is cut into functions; each is read and verified on its own, and then the
//! functions are compared with each other ([`File::parse`]). So everything that is wrong with a
//! file is reported, not only the first thing. Where only some functions are wanted
//! ([`File::parse_for`]), what is wrong with others that they do not lead to is left out together
//! with those.
//!
//! What the text leaves open is settled thus. A function or call without a convention has the
//! host's. A function that is called but not defined is an import. A `stack_limit` is dropped: it
//! guards the stack of the embedder that emitted the code, and here the code runs on the stack of
//! the process, where a guard page does. Source locations, alias regions and global values stay.
//!
//! | code | problem |
//! |---|---|
//! | AD0001 | the file cannot be read, or is not text |
//! | AD0002 | text that is not CLIF |
//! | AD0003 | the file defines no function |
//! | AD0004 | two definitions of one symbol |
//! | AD0005 | Cranelift's verifier rejects the function |
//! | AD0006 | a function is called with another signature than it has |
//! | AD0007 | Cranelift itself gave up on the function |
//! | AD0008 | a directive that cannot be read |
//! | AD0009 | code refers to a data object that nothing defines |
//!
//! A `.rev` file is a program of reversible functions; see [`crate::reversible`].
//!
//! A `.wasm` or `.wat` file is a program too; see [`crate::wasm`]. Its directives are in a file of
//! their own.
//!
//! | code | problem |
//! |---|---|
//! | AD0021 | bytes or text that are no valid module |
//! | AD0022 | a module that uses what is not supported |
//! | AD0023 | imports that nothing provides |
//! | AD0024 | a module that cannot be instantiated |
//!
//! **Invariant.** Nothing here panics, whatever the text; where Cranelift does, the panic becomes a
//! diagnostic.
//!
//! **Cost.** A pass of the reader and of the verifier over each function, and one walk over the
//! references between functions. Calls by address are then resolved from all roots at once, and
//! from one root after another only if that fails.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::Path;

use brolga::{DataObject, Diagnostic, Diagnostics, FuncKey, Options, Program, Request};
use brolga_ir::diag::cut;
use brolga_ir::intrinsics::is_intrinsic;
use brolga_ir::program::{functions_used, symbol_of, symbol_of_func, symbols_used};
use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::entities::AnyEntity;
use cranelift_codegen::ir::{self, ArgumentPurpose, ExternalName};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::packed_option::ReservedValue;
use cranelift_codegen::settings::{self, Flags};
use cranelift_codegen::verify_function;
use cranelift_reader::{ParseOptions, SourceMap, parse_test};
use target_lexicon::Triple;

use crate::bind::Invocation;
use crate::reversible::{KnownInverses, ReversibleFile};
use crate::source::{self, Chunk};
use crate::text::cursor::ParseResult;
use crate::text::{Call, Clauses, DataLine, Directive, InverseLine, SyntaxError, UndoneFunction};
use crate::wasm::{ModuleOptions, Wasm};
use brolga_ir::panics::catch;

/// A CLIF file, read and verified.
#[derive(Debug)]
pub struct File {
    /// Name to show.
    pub name: String,
    /// The text, for excerpts.
    pub text: String,
    /// Its functions and data objects.
    pub program: Program,
    /// The functions that it defines, in order, with the line on which each starts.
    pub functions: Vec<(FuncKey, u32)>,
    /// Its directives, in order.
    pub directives: Vec<Directive>,
    /// Directives that could not be read. They spoil the checks of a file, not its functions.
    pub malformed: Diagnostics,
    /// The module, if the file is one.
    pub wasm: Option<Wasm>,
    /// The reversible functions, if the file is of these.
    pub reversible: Option<ReversibleFile>,
    /// Functions of the file that others undo.
    pub undone: Vec<UndoneFunction>,
}

impl File {
    /// Read a file from disk.
    pub fn read(path: &Path) -> Result<Self, Diagnostics> {
        Self::read_for(path, &ModuleOptions::default(), &[])
    }

    /// The same, for those who ask for some functions only: see [`File::parse_for`]. If it is a
    /// module, it is translated in this way.
    pub fn read_for(path: &Path, options: &ModuleOptions, wanted: &[String]) -> Result<Self, Diagnostics> {
        let name = path.display().to_string();
        let bytes = std::fs::read(path)
            .map_err(|e| Diagnostic::new("AD0001", format!("cannot read `{name}`: {}", io_reason(&e))))?;
        if crate::wasm::is_module(path) {
            let calls = crate::wasm::calls_of(path).and_then(|p| std::fs::read_to_string(p).ok());
            return Self::module_with(&name, &bytes, &calls.unwrap_or_default(), options);
        }
        let text = String::from_utf8(bytes).map_err(|e| {
            let valid = &e.as_bytes()[..e.utf8_error().valid_up_to()];
            let line = 1 + valid.iter().filter(|b| **b == b'\n').count() as u32;
            let mut d = Diagnostic::new("AD0001", format!("`{name}` is not UTF-8 text"));
            d.line = Some(line);
            d.help("CLIF is text; the names of WebAssembly modules end in .wasm or .wat")
        })?;
        Self::parse_for(&name, text, wanted)
    }

    /// Read a module; `calls` holds directives, one per line.
    pub fn module(name: &str, bytes: &[u8], calls: &str) -> Result<Self, Diagnostics> {
        Self::module_with(name, bytes, calls, &ModuleOptions::default())
    }

    fn module_with(name: &str, bytes: &[u8], calls: &str, options: &ModuleOptions) -> Result<Self, Diagnostics> {
        let wasm = Wasm::new(bytes, options)?;
        let (mut directives, mut malformed) = (Vec::new(), Diagnostics::default());
        for (number, comment) in (1..).zip(calls.lines()) {
            match Directive::parse(comment, number) {
                Ok(Some(d)) => directives.push(d),
                Ok(None) => {}
                Err(e) => malformed.push(e.diagnostic("AD0008", Some(number))),
            }
        }
        let (mut functions, mut seen) = (Vec::new(), HashSet::new());
        for key in wasm.module.keys() {
            if seen.insert(key) {
                functions.push((key, 0));
            }
        }
        let program = wasm.module.program().clone();
        Ok(Self {
            name: name.to_owned(),
            text: calls.to_owned(),
            program,
            functions,
            directives,
            malformed,
            wasm: Some(wasm),
            reversible: None,
            undone: vec![],
        })
    }

    /// Options that suit what is in it, where nothing else is asked for.
    pub fn options(&self) -> Options {
        if self.wasm.is_some() { brolga_wasm::options() } else { Options::default() }
    }

    /// What to ask for of a function that no line calls: of a reversible one its types say it, of
    /// another one it is a guess ([`guess`](crate::guess)).
    pub fn request(&self, func: FuncKey) -> Request {
        let known = self.reversible.as_ref().and_then(|r| r.specs(&self.program.funcs[func].symbol));
        match known {
            Some(specs) => Request::new(func, specs),
            None => crate::guess::request(&self.program, func),
        }
    }

    /// Read a call and its clauses for the function of this file that it names. `text` is what both
    /// were parsed from.
    pub fn bind(&self, text: &str, call: &Call, clauses: &Clauses) -> ParseResult<Invocation> {
        let Some(wasm) = &self.wasm else {
            if let Some(reversible) = &self.reversible {
                reversible.takes(text, call, self.program.func(&call.func.node).is_some())?;
            }
            let mut bound = Invocation::bind(&self.program, text, call, clauses)?;
            if let Some(reversible) = &self.reversible {
                bound.words = reversible.fits(text, call, &bound)?;
                bound.encode_mixed(text, call)?;
                // Numbers of four bytes make a list shorter than it was.
                reversible.fits(text, call, &bound)?;
            }
            crate::reversible::states_fit(&self.program, &self.undone, text, call, &bound)?;
            return Ok(bound);
        };
        let mut named = call.clone();
        if let Ok((key, _)) = wasm.module.function(&call.func.node) {
            named.func.node.clone_from(&self.program.funcs[key].symbol);
        }
        let mut bound = Invocation::bind(&self.program, text, &named, clauses)?;
        if let Some(said) = clauses.fresh.iter().flatten().next() {
            let message = "the shadow of a module is one piece, so nothing can be said of that of one argument";
            return Err(SyntaxError::new(text, said.span.clone(), message.to_owned())
                .help("leave `fresh` out: shadows of a new instance hold nothing, and cotangents are added to them"));
        }
        bound.symbol.clone_from(&call.func.node);
        // Arguments of a module are numbers, so a debug run does not see that they lead to one
        // buffer.
        for said in clauses.noalias.iter().flatten() {
            let owner = bound.buffer(said.node).map(|b| b.0);
            if let Some(other) =
                (0..bound.args.len()).find(|&j| j != said.node && bound.buffer(j).map(|b| b.0) == owner)
            {
                let message =
                    format!("argument {} is said to be noalias, but is the buffer of argument {other}", said.node);
                return Err(
                    SyntaxError::new(text, said.span.clone(), message).help("leave it out, or pass another buffer")
                );
            }
        }
        // Later instances are made like this one.
        use brolga_wasm::Error;
        match wasm.place(&bound) {
            // A start function that traps is for the run to say: the call is well written.
            Ok(_) | Err(Error::Trap(_) | Error::Exit(_) | Error::Internal { .. }) => {}
            Err(e) => return Err(SyntaxError::new(text, call.span.clone(), e.to_string())),
        }
        bound.wasm = Some(wasm.clone());
        Ok(bound)
    }

    /// Read a file's text.
    pub fn parse(name: &str, text: impl Into<String>) -> Result<Self, Diagnostics> {
        Self::parse_for(name, text, &[])
    }

    /// The same, for those who ask for functions of these names only, if there are any: what is
    /// wrong with others that they do not lead to is nothing to them. Then those others are left
    /// out, if there is anything wrong.
    pub fn parse_for(name: &str, text: impl Into<String>, wanted: &[String]) -> Result<Self, Diagnostics> {
        let text = text.into();
        if crate::reversible::is_reversible(name) {
            return Self::functions_of(name, text);
        }
        let parts = source::split(&text);
        let mut problems = Diagnostics::default();
        stray_lines(&parts, &mut problems);
        if parts.functions.is_empty() && problems.is_empty() {
            let d = Diagnostic::new("AD0003", format!("`{name}` defines no function"));
            problems.push(d.help("a function looks like `function %f(f64) -> f64 { block0(v0: f64): return v0 }`"));
        }

        let (directives, malformed) = directives_of(&parts);
        // Whatever is asked for: a line that says which function undoes which is part of the
        // program.
        let says_inverse = |c: &&source::SourceLine<'_>| c.text.trim_start_matches([';', ' ']).starts_with("inverse:");
        let lines: Vec<_> = parts.comments.iter().filter(says_inverse).map(|c| Some(c.line)).collect();
        problems.0.extend(malformed.0.iter().filter(|d| lines.contains(&d.line)).cloned());

        let isa = host_isa();
        let mut functions = Vec::new();
        for chunk in &parts.functions {
            match ReadFunction::read(chunk, &isa) {
                Ok(function) => functions.push(function),
                Err(found) => problems.extend(found.0),
            }
        }
        let mut functions = distinct(functions, &mut problems);
        check_references(&functions, &directives, &mut problems);
        // Of a function that is not there it is said what may have been meant to be it.
        let all_there = wanted.iter().all(|w| functions.iter().any(|u| u.symbol == *w));
        let in_part = !wanted.is_empty() && !problems.is_empty() && all_there;
        let asked = (!wanted.is_empty()).then(|| reached(&functions, wanted));
        if in_part {
            let mut reached_symbols = reached(&functions, wanted);
            let undone: Vec<_> =
                undone_in(&directives).filter(|u| reached_symbols.contains(&u.undone.function.node)).collect();
            undone.iter().for_each(|u| reached_symbols.extend(reached(&functions, u.undone.inverse.as_slice())));
            problems.0.retain(|d| d.function.is_empty() || reached_symbols.contains(&d.function));
            functions.retain(|u| reached_symbols.contains(&u.symbol));
        }
        if !problems.is_empty() {
            return Err(by_line(problems));
        }

        let (mut program, functions) = assemble(functions, &directives)?;
        let roots: Vec<FuncKey> = functions.iter().map(|f| f.0).collect();
        let called = |program: &Program, roots: &[FuncKey]| {
            brolga_transform::called::resolved(program, roots, &*isa).map(|p| p.into_owned())
        };
        // A derivative that cannot be made is reported when a function asks for it.
        match called(&program, &roots) {
            Ok(found) => program = found,
            Err(_) => {
                for root in roots {
                    program = called(&program, &[root]).unwrap_or(program);
                }
            }
        }
        let (name, wasm, reversible, undone) = (name.to_owned(), None, None, vec![]);
        let mut file = Self { name, text, program, functions, directives, malformed, wasm, reversible, undone };
        for said in undone_in(&file.directives.clone()) {
            let function = &said.undone.function.node;
            if in_part && file.program.func(function).is_none() {
                continue;
            }
            let is_there = file.program.func(function).is_some();
            match file.undo(&said.undone) {
                // What is wrong with others is nothing to those that are asked for.
                Err(_) if is_there && asked.as_ref().is_some_and(|a| !a.contains(function)) => {}
                Err(d) => return Err(at_line(d, said.line)),
                Ok(()) => {}
            }
        }
        Ok(file)
    }

    /// Define more functions, from a text in CLIF. They may call those of the file.
    ///
    /// # Errors
    /// What is wrong with the text, and symbols that are there already.
    pub fn define(&mut self, text: &str) -> Result<(), Diagnostics> {
        let isa = host_isa();
        for chunk in &source::split(text).functions {
            let function = ReadFunction::read(chunk, &isa)?;
            let redefined = |s| Diagnostic::new("AD0004", format!("`%{s}` is defined twice"));
            self.program.define(&function.symbol, function.func, |_| 0).map_err(redefined)?;
        }
        Ok(())
    }

    /// Let calls of a function be undone by another one, or by an inverse that is derived.
    ///
    /// # Errors
    /// AD0192 if the one cannot undo the other, AD0195 if none is found.
    pub fn undo(&mut self, undone: &UndoneFunction) -> Result<(), Diagnostics> {
        let UndoneFunction { function, inverse, state } = undone;
        match inverse {
            Some(inverse) => self.program.set_inverse(&function.node, inverse, state)?,
            None => brolga::find_inverse(&mut self.program, &function.node, state)?,
        }
        self.undone.push(undone.clone());
        Ok(())
    }

    /// Which of its functions have inverses.
    pub fn inverses(&self) -> KnownInverses<'_> {
        KnownInverses { reversible: self.reversible.as_ref(), undone: &self.undone }
    }

    /// Read reversible functions.
    fn functions_of(name: &str, text: String) -> Result<Self, Diagnostics> {
        let ((program, functions), reversible) = crate::reversible::read(&text, &*host_isa())?;
        let (directives, malformed) = directives_of(&source::split(&text));
        let (name, wasm, reversible, undone) = (name.to_owned(), None, Some(reversible), vec![]);
        Ok(Self { name, text, program, functions, directives, malformed, wasm, reversible, undone })
    }

    /// Symbols of the functions that the file defines, as they are called; of reversible functions,
    /// those that are written.
    pub fn symbols(&self) -> Vec<String> {
        let all = self.functions.iter().map(|(k, _)| &self.program.funcs[*k].symbol);
        let is_written = |s: &&String| self.reversible.is_none() || !s.contains("__");
        all.filter(is_written).map(|s| format!("%{s}")).collect()
    }

    /// The function defined under `symbol`.
    pub fn defined(&self, symbol: &str) -> Option<FuncKey> {
        self.program.func(symbol).filter(|k| self.program.funcs[*k].body.is_some())
    }
}

/// What a file says of functions that others undo.
fn undone_in(directives: &[Directive]) -> impl Iterator<Item = &InverseLine> {
    directives.iter().filter_map(|d| if let Directive::Inverse(line) = d { Some(&**line) } else { None })
}

/// Problems that have no line of their own have that of a directive.
fn at_line(mut found: Diagnostics, line: u32) -> Diagnostics {
    found.0.iter_mut().for_each(|d| d.line = d.line.or(Some(line)));
    found
}

/// The directives of a file, and those that cannot be read.
fn directives_of(parts: &source::Parts<'_>) -> (Vec<Directive>, Diagnostics) {
    let mut directives = Vec::new();
    let mut malformed = Diagnostics::default();
    for comment in &parts.comments {
        match Directive::parse(comment.text, comment.line) {
            Ok(Some(d)) => directives.push(d),
            Ok(None) => {}
            Err(e) => malformed.push(e.diagnostic("AD0008", Some(comment.line))),
        }
    }
    (directives, malformed)
}

/// One function, read and verified.
struct ReadFunction {
    symbol: String,
    line: u32,
    func: ir::Function,
    lines: SecondaryMap<ir::Inst, u32>,
    /// Line of each declaration, by the name that it declares: `fn3`, `gv0`.
    decl_lines: HashMap<String, u32>,
}

impl ReadFunction {
    fn read(chunk: &Chunk<'_>, isa: &OwnedTargetIsa) -> Result<Self, Diagnostics> {
        // Where the text ends too early, the reader names the line after the last.
        let last = chunk.text.lines().count().max(1);
        let located = |line: usize, d: Diagnostic| Diagnostic {
            line: Some(chunk.line + (line.clamp(1, last) as u32) - 1),
            function: cut(&header_symbol(chunk.text)).into_owned(),
            ..d
        };
        let limit = 1_000_000 + chunk.text.len() as u64;
        if let Some((n, line, name)) = source::largest_entity(chunk.text)
            && n > limit
        {
            let d = Diagnostic::new("AD0002", format!("`{name}` is numbered far beyond what this text can define"));
            return Err(located(line as usize, d.help("number values from v0 upwards")).into());
        }
        let options = ParseOptions {
            default_calling_convention: CallConv::triple_default(&Triple::host()),
            ..ParseOptions::default()
        };
        let parsed = match catch(|| parse_test(chunk.text, options)) {
            Ok(Ok(parsed)) => parsed,
            Ok(Err(e)) => {
                return Err(located(e.location.line_number, Diagnostic::new("AD0002", e.message)).into());
            }
            Err(panic) => {
                let d = Diagnostic::new("AD0007", "Cranelift's reader gave up on this function").note(panic);
                return Err(located(1, d).into());
            }
        };
        let Some((mut func, details)) = parsed.functions.into_iter().next() else {
            return Err(located(1, Diagnostic::new("AD0002", "expected a function")).into());
        };
        let symbol = symbol_of_func(&func.name);
        if symbol.is_empty() {
            let d = Diagnostic::new("AD0002", "this function has no name");
            return Err(located(1, d.help("write a name after the percent sign: `function %f(…)`")).into());
        }
        if func.layout.entry_block().is_none() {
            let d = Diagnostic::new("AD0005", "this function has no block");
            return Err(located(
                1,
                d.help("an imported function is declared where it is called: `fn0 = %g(f64) -> f64`"),
            )
            .into());
        }
        func.stack_limit = None;
        fill_gaps(&mut func);
        let line_of = |entity: AnyEntity| {
            details.map.location(entity).map(|l| chunk.line + (l.line_number.clamp(1, last) as u32) - 1)
        };
        verify(&func, &symbol, chunk.line, isa, &details.map, &line_of)?;

        let insts = func.layout.blocks().flat_map(|b| func.layout.block_insts(b));
        let mut lines = SecondaryMap::new();
        lines.resize(func.dfg.num_insts());
        insts.filter_map(|i| Some((i, line_of(i.into())?))).for_each(|(i, line)| lines[i] = line);
        Ok(Self { symbol, line: chunk.line, func, lines, decl_lines: declarations(chunk) })
    }

    fn problem(&self, code: &'static str, at: impl Into<AnyEntity>, message: String) -> Diagnostic {
        let mut d = Diagnostic::new(code, message).in_func(&self.symbol);
        d.line = Some(self.decl_line(at));
        d
    }

    fn decl_line(&self, entity: impl Into<AnyEntity>) -> u32 {
        self.decl_lines.get(&entity.into().to_string()).copied().unwrap_or(self.line)
    }
}

/// Lines of declarations. The reader's source map has the line of whatever token follows them.
fn declarations(chunk: &Chunk<'_>) -> HashMap<String, u32> {
    let declared = |line: &str| line.split_once('=').map(|(name, _)| name.trim().to_owned());
    let lines = chunk.text.lines().take_while(|l| !l.trim_start().starts_with("block"));
    (chunk.line..).zip(lines).filter_map(|(n, l)| declared(l).map(|name| (name, n))).collect()
}

/// Cranelift's verifier, every complaint with its line.
fn verify(
    func: &ir::Function,
    symbol: &str,
    first_line: u32,
    isa: &OwnedTargetIsa,
    map: &SourceMap,
    line_of: &dyn Fn(AnyEntity) -> Option<u32>,
) -> Result<(), Diagnostics> {
    let errors = match catch(|| verify_function(func, &**isa)) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(errors)) => errors,
        Err(panic) => {
            let d = Diagnostic::new("AD0007", "Cranelift's verifier gave up on this function").note(panic);
            return Err(Diagnostic { line: Some(first_line), ..d.in_func(symbol) }.into());
        }
    };
    let mut found = Diagnostics::default();
    for e in errors.0 {
        let mut d = Diagnostic::new("AD0005", e.message).in_func(symbol);
        d.line = line_of(e.location).or(Some(first_line));
        d.inst_text = e.context;
        match e.location {
            AnyEntity::Inst(i) => {
                d.inst = Some(i);
                d.block = func.layout.inst_block(i);
            }
            AnyEntity::Block(b) if map.contains_block(b) => d.block = Some(b),
            _ => {}
        }
        found.push(d);
    }
    Err(found)
}

/// The reader leaves holes where `fn` numbers are skipped, with a signature that does not exist.
/// Give each the contents of a real neighbour, which nothing refers to, so that a walk over the
/// table needs no exception.
fn fill_gaps(func: &mut ir::Function) {
    let real = func.dfg.ext_funcs.values().find(|e| !e.signature.is_reserved_value()).cloned();
    if let Some(real) = real {
        for e in func.dfg.ext_funcs.values_mut().filter(|e| e.signature.is_reserved_value()) {
            *e = real.clone();
        }
    }
}

fn stray_lines(parts: &source::Parts<'_>, problems: &mut Diagnostics) {
    // One report per run of lines: what follows the first is usually the same mistake.
    let mut last = None;
    for stray in &parts.stray {
        if last.is_none_or(|l: u32| stray.line > l + 1) {
            let shown: String = stray.text.chars().take(60).collect();
            let mut d = Diagnostic::new("AD0002", format!("expected `function`, found `{shown}`"));
            d.line = Some(stray.line);
            problems.push(d.help("a CLIF file holds functions; comments start with `;`"));
        }
        last = Some(stray.line);
    }
}

fn distinct(functions: Vec<ReadFunction>, problems: &mut Diagnostics) -> Vec<ReadFunction> {
    let mut first: HashMap<String, u32> = HashMap::new();
    let mut distinct_functions = Vec::new();
    for function in functions {
        if let Some(line) = first.get(&function.symbol) {
            let mut d =
                Diagnostic::new("AD0004", format!("`%{}` is defined twice", function.symbol)).in_func(&function.symbol);
            d.line = Some(function.line);
            problems.push(d.note(format!("the first definition is on line {line}")).help("rename one of them"));
        } else {
            first.insert(function.symbol.clone(), function.line);
            distinct_functions.push(function);
        }
    }
    distinct_functions
}

/// The symbols that some functions lead to, their own included.
fn reached(functions: &[ReadFunction], from: &[String]) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let mut work = from.to_vec();
    while let Some(symbol) = work.pop() {
        if let Some(ReadFunction { func, .. }) = functions.iter().find(|u| u.symbol == symbol) {
            let callees = functions_used(func);
            let named = callees.iter().map(|r| symbol_of(func, &func.dfg.ext_funcs[r].name));
            let globals = symbols_used(func);
            let addressed = globals.iter().filter_map(|gv| match &func.global_values[gv] {
                ir::GlobalValueData::Symbol { name, .. } => Some(symbol_of(func, name)),
                _ => None,
            });
            work.extend(named.chain(addressed).filter(|s| !found.contains(s)));
        } else if let Some((base, _)) = brolga_transform::derived::derivative_of(&symbol) {
            work.push(base.to_owned());
        }
        found.insert(symbol);
    }
    found
}

/// Callers and callees must agree on signatures, and data must exist: the JIT would only find out
/// at link time.
fn check_references(functions: &[ReadFunction], directives: &[Directive], problems: &mut Diagnostics) {
    let mut known: BTreeMap<String, (ir::Signature, String)> = functions
        .iter()
        .map(|u| (u.symbol.clone(), (u.func.signature.clone(), format!("defined on line {}", u.line))))
        .collect();
    let mut data: HashMap<&str, &DataLine> = HashMap::new();
    for line in directives.iter().filter_map(|d| if let Directive::Data(l) = d { Some(l) } else { None }) {
        let symbol = line.symbol.node.as_str();
        if known.contains_key(symbol) || data.insert(symbol, line).is_some() {
            let e = SyntaxError::new(&line.text, line.symbol.span.clone(), format!("`%{symbol}` is defined twice"));
            problems.push(e.diagnostic("AD0004", Some(line.line)));
        }
    }
    for function in functions {
        for fref in functions_used(&function.func).iter() {
            let ext = &function.func.dfg.ext_funcs[fref];
            let symbol = symbol_of(&function.func, &ext.name);
            if ext.signature.is_reserved_value() || data.contains_key(symbol.as_str()) || is_intrinsic(&symbol) {
                continue;
            }
            let sig = &function.func.dfg.signatures[ext.signature];
            match known.get(&symbol) {
                None => {
                    let place = format!("declared on line {}", function.decl_line(fref));
                    known.insert(symbol, (sig.clone(), place));
                }
                Some((other, place)) if !same_signature(sig, other) => {
                    let message = format!("`%{symbol}` is called as {sig}, but it is {place} as {other}");
                    let d = function.problem("AD0006", fref, message);
                    problems.push(d.help("give both the same parameters, results and calling convention"));
                }
                Some(_) => {}
            }
        }
        for gv in symbols_used(&function.func).iter() {
            let ir::GlobalValueData::Symbol { name, .. } = &function.func.global_values[gv] else { continue };
            let symbol = symbol_of(&function.func, name);
            let placeholder = *name == ExternalName::testcase("");
            if !placeholder && !known.contains_key(&symbol) && !data.contains_key(symbol.as_str()) {
                let d = function.problem("AD0009", gv, format!("no data object `%{symbol}` is defined"));
                problems.push(d.help(format!("define it: `; data: %{symbol} = f64[0.0, 0.0] readonly`")));
            }
        }
    }
}

/// Whether a call through `a` reaches a function with signature `b` intact. Purposes that do not
/// change where arguments go (`vmctx`) may differ.
fn same_signature(a: &ir::Signature, b: &ir::Signature) -> bool {
    let same = |x: &[ir::AbiParam], y: &[ir::AbiParam]| {
        let placed = |p: &ir::AbiParam| match p.purpose {
            ArgumentPurpose::VMContext => ArgumentPurpose::Normal,
            other => other,
        };
        x.len() == y.len()
            && x.iter()
                .zip(y)
                .all(|(p, q)| p.value_type == q.value_type && p.extension == q.extension && placed(p) == placed(q))
    };
    a.call_conv == b.call_conv && same(&a.params, &b.params) && same(&a.returns, &b.returns)
}

fn assemble(read: Vec<ReadFunction>, directives: &[Directive]) -> Result<(Program, Vec<(FuncKey, u32)>), Diagnostics> {
    let mut program = Program::new();
    for directive in directives {
        let Directive::Data(line) = directive else { continue };
        let object = data_object(line).map_err(|e| e.diagnostic("AD0008", Some(line.line)))?;
        program.define_data(object).map_err(|s| Diagnostic::new("AD0004", format!("`%{s}` is defined twice")))?;
    }
    // Definitions decide on signatures, so they are declared before any caller mentions them.
    for function in &read {
        program.declare(&function.symbol, &function.func.signature);
    }
    let mut functions = Vec::new();
    for ReadFunction { symbol, line, func, lines, .. } in read {
        let key = program
            .define(&symbol, func, |inst| lines[inst])
            .map_err(|s| Diagnostic::new("AD0004", format!("`%{s}` is defined twice")))?;
        functions.push((key, line));
    }
    Ok((program, functions))
}

fn data_object(line: &DataLine) -> Result<DataObject, Box<SyntaxError>> {
    let bytes = crate::bind::encode_list(&line.text, &line.contents, None)?.1;
    Ok(DataObject { symbol: line.symbol.node.clone(), bytes, align: 16, writable: line.writable, functions: vec![] })
}

/// The symbol in a function's first line, for functions that cannot be read.
fn header_symbol(text: &str) -> String {
    let rest = text.trim_start().strip_prefix("function").unwrap_or("").trim_start();
    let name = rest.split(|c: char| c == '(' || c.is_whitespace()).next().unwrap_or("");
    name.trim_start_matches('%').to_owned()
}

fn by_line(mut problems: Diagnostics) -> Diagnostics {
    problems.0.sort_by_key(|d| d.line.unwrap_or(0));
    problems
}

fn host_isa() -> OwnedTargetIsa {
    static HOST: std::sync::OnceLock<OwnedTargetIsa> = std::sync::OnceLock::new();
    let make = || {
        let flags = Flags::new(settings::builder());
        let builder = cranelift_native::builder().expect("Cranelift supports the host");
        builder.finish(flags).expect("default flags fit the host")
    };
    HOST.get_or_init(make).clone()
}

fn io_reason(e: &std::io::Error) -> String {
    match e.kind() {
        std::io::ErrorKind::NotFound => "there is no such file".to_owned(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        std::io::ErrorKind::IsADirectory => "it is a directory".to_owned(),
        _ => e.to_string(),
    }
}
