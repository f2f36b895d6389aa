//! Ahead-of-time compilation: `brolga compile`, derivatives in an object file, with a header for C
//! and declarations for Rust.
//!
//! **Question.** What lies in the object file, under which names, and for which machine?
//!
//! **Answer.** [`run`] reads the file for the functions that are asked for; what has the host's
//! calling convention gets the target's. Each function is derived in each mode ([`CompileMode`]) as
//! an embedded derivative; one that C could not return from is derived once more, with its results
//! in a struct. A name is that of one thing, free in the program, and no keyword of C, C++ or Rust.
//! The modules:
//!
//! | module | what it is for |
//! |---|---|
//! | [`target`] | the machine, from triple and flags |
//! | [`object`] | the object file |
//! | [`binding`] | what parameters and results are, in sentences |
//! | [`header`], [`rust`] | declarations in a language |
//!
//! **Invariant.** Nothing is written unless everything can be made.
//!
//! **Cost.** A derivation for each function and mode, two for some, and Cranelift's compilation of
//! what comes out.

mod binding;
mod header;
mod object;
mod rust;
mod target;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use brolga::{ArgActivity, Elem, Error, FuncKey, MemoryMode, Options, Program, Request};
use brolga_driver::{File, guess};
use brolga_ir::panics;
use brolga_module::{
    DerivedSignature, EmbeddedFunction, EmbeddedFunctions, FloatCount, ParamActivity, ParamRole, ParamSpec, ResultRole,
    ReturnActivity, Room, Spec, embed, is_function_of_c,
};
use clap::{Args, ValueEnum, ValueHint};
use cranelift_codegen::ir::{ArgumentExtension, types};
use cranelift_codegen::isa::{CallConv, TargetIsa};
use target_lexicon::{Endianness, Triple};

use crate::args::{FileArg, Inline, MemoryArg, Untracked};
use crate::choice;
use crate::failure::Failure;
use crate::jobs::{read_for, untracked};
use crate::report::show;

use binding::{DerivedPart, Image, ObjectDescription, PrimalView, SignedFunction, is_read_only};
use object::ExportedFunctions;

/// `compile`.
#[derive(Args)]
pub struct CompileArgs {
    /// The file.
    #[command(flatten)]
    pub input: FileArg,
    /// A function. May be repeated; not needed if the file defines only one. Lists of the options
    /// below are given once, for all functions, or once for each, in the same order.
    #[arg(long = "func", short, value_name = "NAME")]
    pub funcs: Vec<String>,
    /// What is derived, separated by commas: one function for value and gradient (NAME_gradient), a
    /// forward pass and a pullback (NAME_forward, NAME_pullback), or forward mode (NAME_tangent).
    #[arg(long = "mode", value_name = "LIST", value_enum, value_delimiter = ',', default_value = "gradient")]
    pub modes: Vec<CompileMode>,
    /// The object file to write.
    #[arg(long, short, value_name = "FILE", required_unless_present_any = ["header", "rust"])]
    #[arg(value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// The header to write, for C and C++; - prints it.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub header: Option<PathBuf>,
    /// The declarations to write, for Rust; - prints them.
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub rust: Option<PathBuf>,
    /// One activity per argument: const, active or duplicated. The default is that of the file's
    /// first `; grad:` line for the function, and without one: floats active, what serves as an
    /// address duplicated, the rest constant.
    #[arg(long, value_name = "LIST")]
    pub activity: Vec<String>,
    /// One activity per result: active, active-only (its value is not returned), const, omitted
    /// (neither), or duplicated for a pointer. The default is active for floats, and const.
    #[arg(long, value_name = "LIST")]
    pub results: Vec<String>,
    /// Arguments, counted from 0, whose memory is reached through no other pointer (`restrict`):
    /// 0,2.
    #[arg(long, value_name = "LIST")]
    pub noalias: Vec<String>,
    /// Arguments, counted from 0, whose memory is not read after the call: 0,2.
    #[arg(long, value_name = "LIST")]
    pub no_need: Vec<String>,
    /// Arguments, counted from 0, behind which so many floats are an output, whose seeds are
    /// consumed also where the function only adds to them: 1=f64*3, or as many as argument 2
    /// says, 1=f32*p2.
    #[arg(long, value_name = "LIST")]
    pub consumed: Vec<String>,
    /// What the names of the derivatives begin with, one for each function. The default is the
    /// function's own name.
    #[arg(long, value_name = "NAME")]
    pub name: Vec<String>,
    /// Return results through a struct, even where there is only one.
    #[arg(long)]
    pub in_struct: bool,
    /// Ask a function of the caller's for more workspace, where nothing says how much is enough,
    /// before a run is given up.
    #[arg(long)]
    pub growing: bool,
    /// What becomes of memory that a function overwrites.
    #[arg(long, value_enum)]
    pub memory: Option<MemoryArg>,
    /// Put the functions themselves into the object, too, under their names.
    #[arg(long)]
    pub with_primal: bool,
    /// The machine, such as aarch64-unknown-linux-gnu. Other architectures than the host's need a
    /// `brolga` that was built with the feature `all-arch`.
    #[arg(long, value_name = "TRIPLE")]
    pub target: Option<String>,
    /// Make code that may be loaded anywhere (the default).
    #[arg(long, overrides_with = "no_pic")]
    pub pic: bool,
    /// Make code for programs that are linked at a fixed address.
    #[arg(long)]
    pub no_pic: bool,
    /// A flag of Cranelift, such as opt_level=speed_and_size, or of the machine, such as
    /// has_avx2=true. May be repeated.
    #[arg(long = "set", value_name = "FLAG=VALUE", value_parser = flag)]
    pub flags: Vec<(String, String)>,
    /// Replace calls of short functions by their bodies before differentiation.
    #[arg(long, value_enum, num_args = 0..=1, require_equals = true, default_value_t, default_missing_value = "small")]
    pub inline: Inline,
    /// What becomes of operations on bits of floats that have no known derivative.
    #[arg(long, value_enum)]
    pub untracked: Option<Untracked>,
}

/// What is derived.
#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CompileMode {
    /// One function for value and gradient.
    Gradient,
    /// A forward pass, and a pullback that runs afterwards.
    Split,
    /// Tangents beside values.
    Forward,
}

fn flag(text: &str) -> Result<(String, String), String> {
    let found = text.split_once('=').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
    found.ok_or_else(|| "FLAG=VALUE is wanted, as opt_level=none".to_owned())
}

/// Run the command.
pub fn run(args: &CompileArgs) -> Result<(), Failure> {
    one_file_each(args)?;
    let isa = target::isa(args.target.as_deref(), !args.no_pic, &args.flags)?;
    let wanted: Vec<String> = args.funcs.iter().map(|f| f.trim_start_matches('%').to_owned()).collect();
    let mut file = read_for(&args.input, &wanted, true)?;
    let image = image(&file, &args.input.file, &*isa)?;
    speak(&mut file.program, isa.default_call_conv());
    let (mut roots, mut functions) = (Vec::new(), Vec::new());
    for wanted in WantedFunction::all(&file, args)? {
        wanted.derive(&file, args, &*isa, &mut roots, &mut functions)?;
    }
    names_are_free(&file.program, &roots, image.as_ref(), args.rust.is_some())?;
    let triple = isa.triple().clone();
    let bytes = image.as_ref().map(|i| (&i.symbol[..], &i.contents[..]));
    // Cranelift panics where a machine lacks what a function asks for, such as vectors.
    let object = panics::catch(|| object::object(isa, &in_short(&args.input.file), &roots, bytes)).unwrap_or_else(
        |message| Err(Failure::Other(format!("Cranelift makes no code of it for {triple}: {message}"))),
    )?;
    let version = env!("CARGO_PKG_VERSION");
    let mut made = vec![
        format!("Derivatives of functions of {}.", in_short(&args.input.file)),
        format!("Made by brolga {version} with Cranelift {} for {triple}.", cranelift_codegen::VERSION),
    ];
    if !object.undefined.is_empty() {
        let names = object.undefined.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
        made.push(format!("To be linked with what defines {names}."));
    }
    if args.header.is_some() || args.rust.is_some() {
        object.data.iter().try_for_each(|d| can_be_written(&d.symbol, "give the data another one"))?;
    }
    let contents = ObjectDescription { made, functions, data: object.data, image };
    // Nothing is written unless everything can be made.
    let header = args.header.as_deref().map(|path| (path, header::header(&contents, &guard(path))));
    let rust = match args.rust.as_deref() {
        Some(path) => Some((path, rust::declarations(&contents)?)),
        None => None,
    };
    for (path, text) in header.into_iter().chain(rust) {
        if path == Path::new("-") { show(&text) } else { write(path, text.as_bytes())? }
    }
    args.output.as_deref().map_or(Ok(()), |path| write(path, &object.bytes))
}

/// No file is written twice, and not over the input.
fn one_file_each(args: &CompileArgs) -> Result<(), Failure> {
    let full = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let mut taken = vec![full(&args.input.file)];
    let written = [&args.output, &args.header, &args.rust].into_iter().flatten();
    for path in written.map(PathBuf::as_path).filter(|path| *path != Path::new("-")) {
        if taken.contains(&full(path)) {
            return Err(Failure::Usage(format!("{} is named twice: each file needs one of its own", path.display())));
        }
        taken.push(full(path));
    }
    Ok(())
}

/// A module's instance as it begins. Code for the machine reads its header as that machine would.
fn image(file: &File, path: &Path, isa: &dyn TargetIsa) -> Result<Option<Image>, Failure> {
    let Some(wasm) = &file.wasm else { return Ok(None) };
    if isa.triple().endianness() != Ok(Endianness::Little) {
        return Err(Failure::Usage(format!("{} is big-endian, and an instance of a module is not", isa.triple())));
    }
    let (header, memory) = wasm.image()?;
    let stem = identifier(&path.file_stem().unwrap_or_default().to_string_lossy());
    let stem = if stem.starts_with(|c: char| c.is_ascii_digit()) { format!("module_{stem}") } else { stem };
    let (n, bytes) = (header.len(), header.len() + memory.len());
    let mut contents = [header, memory].concat();
    let end = contents.iter().rposition(|b| *b != 0).map_or(1, |last| last + 1);
    contents.truncate(end);
    Ok(Some(Image { symbol: format!("{stem}_image"), stem, contents, header: n, bytes }))
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    std::fs::write(path, bytes).map_err(|e| Failure::Other(format!("{} cannot be written: {e}", path.display())))
}

fn in_short(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn guard(header: &Path) -> String {
    let name = if header == Path::new("-") { "DERIVATIVES_H".to_owned() } else { in_short(header) };
    let name = identifier(&name).to_uppercase();
    if name.starts_with(|c: char| c.is_ascii_alphabetic()) { name } else { format!("H_{name}") }
}

fn identifier(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

/// What has the host's convention has the target's.
fn speak(program: &mut Program, target: CallConv) {
    let host = CallConv::triple_default(&Triple::host());
    let change = |conv: &mut CallConv| {
        if *conv == host {
            *conv = target;
        }
    };
    for key in program.funcs.keys() {
        let f = program.func_mut(key);
        change(&mut f.signature.call_conv);
        let Some(body) = &mut f.body else { continue };
        change(&mut body.signature.call_conv);
        body.dfg.signatures.values_mut().for_each(|s| change(&mut s.call_conv));
    }
}

/// Symbols are names of one thing each, and of nothing in the program, and can be written in the
/// languages that have declarations of them.
fn names_are_free(
    program: &Program,
    roots: &[ExportedFunctions],
    image: Option<&Image>,
    rust: bool,
) -> Result<(), Failure> {
    let mut types = BTreeSet::new();
    let mut seen: BTreeSet<String> = image.map(|i| i.symbol.to_uppercase()).into_iter().collect();
    for (embedded, names) in roots {
        for name in names {
            let itself = embedded.functions[0].symbol == *name;
            let taken = !itself && (program.func(name).is_some() || program.data_object(name).is_some());
            // Macros are in capitals.
            if taken || !seen.insert(name.to_uppercase()) {
                return Err(Failure::Usage(format!("`{name}` would be the name of two things: --name gives another")));
            }
            if itself && is_function_of_c(name) {
                let why = "is a function of C's, which derivatives may call: --name gives another";
                return Err(Failure::Usage(format!("`{name}` {why}")));
            }
            can_be_written(name, "--name gives another")?;
            // Types in Rust have no underscores.
            if rust && !types.insert(name.replace('_', "").to_uppercase()) {
                let why = "would have results of the type of another function's in Rust: --name gives another";
                return Err(Failure::Usage(format!("`{name}` {why}")));
            }
        }
    }
    Ok(())
}

/// Words that are no names in C, in C++ or in Rust.
const KEYWORDS: &str = "abstract alignas alignof as asm async auto await become bool box break case catch char class \
    const const_cast constexpr continue crate decltype default delete do double dyn dynamic_cast else enum explicit \
    export extern false final float fn for friend gen goto if impl in inline int let long loop macro match mod move \
    mut mutable namespace new noexcept nullptr operator override priv private protected pub public ref register \
    reinterpret_cast restrict return self short signed sizeof static static_assert static_cast struct super switch \
    template this thread_local throw trait true try type typedef typeid typename typeof union unsafe unsigned unsized \
    use using virtual void volatile wchar_t where while yield _";

fn can_be_written(name: &str, help: &str) -> Result<(), Failure> {
    match KEYWORDS.split(' ').any(|word| word == name) {
        true => Err(Failure::Usage(format!("`{name}` is no name in C, in C++ or in Rust: {help}"))),
        false => Ok(()),
    }
}

/// A function whose derivatives are asked for.
struct WantedFunction {
    func: FuncKey,
    base: String,
    params: Vec<ParamSpec>,
    returns: Option<Vec<ResultUse>>,
    primal: PrimalView,
}

/// How a result takes part, in either mode.
#[derive(Clone, Copy)]
enum ResultUse {
    Active,
    ActiveOnly,
    Duplicated,
    Const,
    Omitted,
}

impl WantedFunction {
    fn all(file: &File, args: &CompileArgs) -> Result<Vec<Self>, Failure> {
        let funcs: Vec<Option<&str>> = match &args.funcs[..] {
            [] => vec![None],
            funcs => funcs.iter().map(|f| Some(f.as_str())).collect(),
        };
        if !args.name.is_empty() && args.name.len() != funcs.len() {
            return Err(Failure::Usage(format!(
                "--name is given {} times for {} functions",
                args.name.len(),
                funcs.len()
            )));
        }
        funcs.iter().enumerate().map(|(i, name)| Self::new(file, args, *name, (i, funcs.len()))).collect()
    }

    fn new(file: &File, args: &CompileArgs, name: Option<&str>, at: (usize, usize)) -> Result<Self, Failure> {
        let func = choice::function(file, name)?;
        let f = &file.program.funcs[func];
        let request = choice::request(file, func, list(&args.activity, at, "--activity")?)?;
        let (n, hidden) = (f.signature.params.len(), usize::from(file.wasm.is_some()));
        let noalias = numbers(list(&args.noalias, at, "--noalias")?, n, hidden)?;
        let no_need = numbers(list(&args.no_need, at, "--no-need")?, n, hidden)?;
        let address = if file.wasm.is_some() { types::I32 } else { types::I64 };
        if let Some(&i) = noalias.iter().find(|&&i| f.signature.params[i].value_type != address) {
            return Err(Failure::Usage(format!("--noalias: argument {} of %{} is no pointer", i - hidden, f.symbol)));
        }
        if let Some(&i) = no_need.iter().find(|&&i| request.args[i].activity != ArgActivity::Duplicated) {
            return Err(Failure::Usage(format!(
                "--no-need: argument {} of %{} is not duplicated (--activity says what each is)",
                i - hidden,
                f.symbol
            )));
        }
        let mut params = params(&request, &noalias, &no_need);
        for (i, elem, count) in consumed(list(&args.consumed, at, "--consumed")?, n, hidden)? {
            params[i] = params[i].consumed(elem, count);
        }
        let returns = list(&args.results, at, "--results")?.map(returned).transpose()?;
        if let Some(given) = returns.as_ref().map(Vec::len).filter(|&n| n != f.signature.returns.len()) {
            let n = f.signature.returns.len();
            return Err(Failure::Usage(format!("--results has {given} activities, but %{} has {n} results", f.symbol)));
        }
        let base = args.name.get(at.0).cloned().unwrap_or_else(|| identifier(&f.symbol));
        if identifier(&base) != base || base.starts_with(|c: char| c.is_ascii_digit()) || base.is_empty() {
            return Err(Failure::Usage(format!("`{base}` is no name in C: --name gives another")));
        }
        let guessed = guess::request(&file.program, func);
        let is_pointer = |i: usize| {
            let activity = |r: &Request| r.args[i].activity == ArgActivity::Duplicated;
            activity(&guessed) || activity(&request) || request.args[i].elem.is_some()
        };
        let primal = PrimalView {
            name: format!("%{}", f.symbol),
            params: params.clone(),
            hidden,
            pointers: (0..n).map(is_pointer).collect(),
            is_read_only: is_read_only(&file.program, func),
        };
        Ok(Self { func, base, params, returns, primal })
    }

    /// Derive all that is asked for of it.
    fn derive(
        &self,
        file: &File,
        args: &CompileArgs,
        isa: &dyn TargetIsa,
        roots: &mut Vec<ExportedFunctions>,
        functions: &mut Vec<binding::Binding>,
    ) -> Result<(), Failure> {
        if args.with_primal {
            let embedded = itself(&file.program, self.func, isa)?;
            self.add(embedded, &[DerivedPart::Primal], roots, functions)?;
        }
        let options = Options {
            inline: args.inline.into(),
            untracked: untracked(file, args.untracked),
            memory: args.memory.map_or(MemoryMode::Leave, Into::into),
            ..Options::full()
        };
        for (k, &mode) in args.modes.iter().enumerate() {
            if args.modes[..k].contains(&mode) {
                continue;
            }
            let parts: &[DerivedPart] = match mode {
                CompileMode::Gradient => &[DerivedPart::Gradient],
                CompileMode::Split => &[DerivedPart::Forward, DerivedPart::Pullback, DerivedPart::Release],
                CompileMode::Forward => &[DerivedPart::Tangent],
            };
            let mut spec = self.spec(mode);
            (spec.struct_of_results, spec.growing) = (args.in_struct, args.growing);
            let derive = |spec: &Spec| {
                panics::catch(|| embed(&file.program, self.func, spec, &options, isa).map_err(Error::Diagnostics))
                    .unwrap_or_else(|message| Err(Error::Internal { stage: "compile", message }))
                    .map_err(|e| Failure::Run(self.primal.name.clone(), e))
            };
            let mut embedded = derive(&spec)?;
            if !embedded.signatures.iter().all(returns_as_in_c) {
                embedded = derive(&spec.in_struct())?;
            }
            let parts = &parts[..embedded.signatures.len()];
            self.add(embedded, parts, roots, functions)?;
        }
        Ok(())
    }

    fn add(
        &self,
        embedded: EmbeddedFunctions,
        parts: &[DerivedPart],
        roots: &mut Vec<ExportedFunctions>,
        functions: &mut Vec<binding::Binding>,
    ) -> Result<(), Failure> {
        if let Some(host) = object::of_host(&embedded) {
            return Err(Failure::Other(format!(
                "{} calls the host of the module (%{host}), which an object has not: differentiate it from Rust with \
                 `brolga_wasm`",
                self.primal.name
            )));
        }
        let names: Vec<String> = parts.iter().map(|p| format!("{}{}", self.base, p.ending())).collect();
        for ((part, signature), symbol) in parts.iter().zip(&embedded.signatures).zip(&names) {
            let (part, symbol, base, room) = (*part, symbol.clone(), &self.base[..], embedded.room);
            functions.push(self.primal.binding(&SignedFunction { part, symbol, base, signature, room }));
        }
        roots.push((embedded, names));
        Ok(())
    }

    fn spec(&self, mode: CompileMode) -> Spec {
        let forward = mode == CompileMode::Forward;
        let params = self.params.iter().map(|p| ParamSpec {
            activity: match p.activity {
                ParamActivity::Active | ParamActivity::Duplicated if forward => ParamActivity::Dual,
                ParamActivity::DuplicatedOnly if forward => ParamActivity::DualOnly,
                other => other,
            },
            // Of seeds, which forward mode has not.
            consumed: p.consumed.filter(|_| !forward),
            ..*p
        });
        let spec = match mode {
            CompileMode::Gradient => Spec::gradient(params),
            CompileMode::Split => Spec::pair(params),
            CompileMode::Forward => Spec::tangent(params),
        };
        spec.results(self.returns.iter().flatten().map(|r| match r {
            ResultUse::Active if forward => ReturnActivity::Dual,
            ResultUse::ActiveOnly if forward => ReturnActivity::DualOnly,
            ResultUse::Active => ReturnActivity::Active,
            ResultUse::ActiveOnly => ReturnActivity::ActiveOnly,
            ResultUse::Duplicated => ReturnActivity::Duplicated,
            ResultUse::Const => ReturnActivity::Const,
            ResultUse::Omitted => ReturnActivity::Omitted,
        }))
    }
}

/// Whether a function of C returns like this. Some machines ask that registers are filled with the
/// sign or with zeros, so a small integer has to say with which.
fn returns_as_in_c(signature: &DerivedSignature) -> bool {
    match &signature.clif.returns[..] {
        [] => true,
        [one] => {
            let is_small = one.value_type.is_int() && one.value_type.bits() < 64;
            !is_small || one.extension != ArgumentExtension::None
        }
        _ => false,
    }
}

/// A function as it is, in the form of a derivative.
fn itself(program: &Program, func: FuncKey, isa: &dyn TargetIsa) -> Result<EmbeddedFunctions, Failure> {
    let f = &program.funcs[func];
    if f.signature.returns.len() > 1 {
        return Err(Failure::Usage(format!(
            "%{} returns {} results, which no function of C does: leave --with-primal out",
            f.symbol,
            f.signature.returns.len()
        )));
    }
    if f.signature.call_conv != isa.default_call_conv() {
        return Err(Failure::Usage(format!(
            "%{} has the convention {}, which C has not: leave --with-primal out",
            f.symbol, f.signature.call_conv
        )));
    }
    let signature = DerivedSignature {
        params: (0..f.signature.params.len()).map(ParamRole::Primal).collect(),
        results: (0..f.signature.returns.len()).map(ResultRole::Value).collect(),
        types: f.signature.returns.iter().map(|r| r.value_type).collect(),
        layout: None,
        clif: f.signature.clone(),
    };
    let body = f.body.clone().expect("it is defined");
    Ok(EmbeddedFunctions {
        functions: vec![EmbeddedFunction { symbol: f.symbol.clone(), func: body, of: func }],
        signatures: vec![signature],
        room: Room::Nothing,
        func,
        spec: Spec::gradient(f.signature.params.iter().map(|_| ParamActivity::Const)),
        shadows: vec![],
        program: program.clone(),
    })
}

fn params(request: &Request, noalias: &[usize], no_need: &[usize]) -> Vec<ParamSpec> {
    let param = |(i, arg): (usize, &brolga::ArgSpec)| ParamSpec {
        activity: match arg.activity {
            ArgActivity::Active => ParamActivity::Active,
            ArgActivity::Duplicated if no_need.contains(&i) => ParamActivity::DuplicatedOnly,
            ArgActivity::Duplicated => ParamActivity::Duplicated,
            _ => ParamActivity::Const,
        },
        elem: arg.elem,
        noalias: noalias.contains(&i),
        consumed: None,
    };
    request.args.iter().enumerate().map(param).collect()
}

/// The list for one of several functions.
fn list<'a>(given: &'a [String], (i, n): (usize, usize), option: &str) -> Result<Option<&'a str>, Failure> {
    match given {
        [] => Ok(None),
        [one] => Ok(Some(one)),
        many if many.len() == n => Ok(Some(&many[i])),
        many => Err(Failure::Usage(format!("{option} is given {} times for {n} functions", many.len()))),
    }
}

/// Arguments as they are counted in calls.
fn numbers(list: Option<&str>, n: usize, hidden: usize) -> Result<Vec<usize>, Failure> {
    let n = n - hidden;
    let number = |text: &str| match text.trim().parse::<usize>() {
        Ok(i) if i < n => Ok(i + hidden),
        _ => {
            Err(Failure::Usage(format!("`{}` is no argument: they are counted from 0, and there are {n}", text.trim())))
        }
    };
    list.map_or(Ok(vec![]), |list| list.split(',').map(number).collect())
}

/// Outputs: `1=f64*3,2=f32*p0`.
fn consumed(list: Option<&str>, n: usize, hidden: usize) -> Result<Vec<(usize, Elem, FloatCount)>, Failure> {
    let output = |text: &str| {
        let (i, what) = text.split_once('=')?;
        let (elem, count) = what.split_once('*')?;
        let elem = match elem.trim() {
            "f64" => Elem::F64,
            "f32" => Elem::F32,
            _ => return None,
        };
        let argument = |i: &str| numbers(Some(i), n, hidden).ok().map(|i| i[0]);
        let count = match count.trim().strip_prefix('p') {
            Some(k) => FloatCount::Param(argument(k)?),
            None => FloatCount::Fixed(count.trim().parse().ok()?),
        };
        Some((argument(i)?, elem, count))
    };
    let checked = |text: &str| {
        output(text).ok_or_else(|| {
            let text = text.trim();
            Failure::Usage(format!("`{text}` is no output: write 1=f64*3, or 1=f32*p2, by the numbers of arguments"))
        })
    };
    list.map_or(Ok(vec![]), |list| list.split(',').map(checked).collect())
}

fn returned(list: &str) -> Result<Vec<ResultUse>, Failure> {
    let activity = |word: &str| match word.trim() {
        "active" => Ok(ResultUse::Active),
        "active-only" => Ok(ResultUse::ActiveOnly),
        "duplicated" => Ok(ResultUse::Duplicated),
        "const" => Ok(ResultUse::Const),
        "omitted" => Ok(ResultUse::Omitted),
        other => Err(Failure::Usage(format!(
            "`{other}` is no activity of a result: they are active, active-only, duplicated, const and omitted"
        ))),
    };
    list.split(',').map(activity).collect()
}
