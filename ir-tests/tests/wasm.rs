//! The programs of `ir-tests/wasm`: every line of every `NAME.run`, for every folder with a
//! `NAME.wasm`.
//!
//! What is asserted of a line is what the file tests assert of theirs: expected results and
//! gradients; finite differences along random directions, forward mode, and the tape, which
//! interprets the module's CLIF in the memory of an instance; and the protocol: bits of the primal
//! result and of memory, both memory modes, seeds and shadows that are not zero, a pullback that is
//! called again, a second run, two threads at once, linearity.
//!
//! A buffer of a call is memory that the instance allocates. To read and to move arguments, the
//! driver sees a function whose pointers are 64 bits wide, as in CLIF: see [`facade`].

use std::collections::HashMap;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock};

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::cranelift_codegen::ir::{AbiParam, Function, InstBuilder, Signature, TrapCode, Type, UserFuncName, types};
use brolga::cranelift_codegen::isa::CallConv;
use brolga::{ArgActivity, FuncKey, Inline, MemoryMode, Mode, Options, Pass, PassSet, Program, Promises};
use brolga_driver::inputs::{Input, flatten, inputs, with_inputs};
use brolga_driver::noise::Noise;
use brolga_driver::protocol::reseeded;
use brolga_driver::text::{Call, Clauses, Directive, ElemType, GradLine, Literal, TrapLine};
use brolga_driver::value::{decode_all, from_data};
use brolga_driver::{BoundArg, Invocation, Item, Num, Outcome, compare};
use brolga_ir::panics;
use brolga_oracle::{BufferRef, Elem, Oracle, OracleArg, Tangent, fd};
use brolga_testing::budget::{Depth, depth};
use brolga_wasm::{FuncType, Gradient, Instance, Module, Val, ValType};
use libtest_mimic::{Failed, Trial};

/// Largest difference to the tape and to expectations, relative and absolute; for finite
/// differences beside their own error.
#[derive(Clone, Copy)]
struct Tolerances {
    expected: f64,
    tape: f64,
    differences: fd::Options,
}

const DOUBLE: Tolerances = Tolerances {
    expected: compare::TOL_F64,
    tape: 1e-9,
    differences: fd::Options {
        precision: f64::EPSILON,
        f32_inputs: false,
        noise: 0.0,
        steps: 0.0,
        size: 0.0,
        unit: 0.0,
    },
};
const SINGLE: Tolerances = Tolerances {
    expected: compare::TOL_F32,
    tape: 1e-4,
    differences: fd::Options {
        precision: f32::EPSILON as f64,
        f32_inputs: false,
        noise: 0.0,
        steps: 0.0,
        size: 0.0,
        unit: 0.0,
    },
};

/// A function, what is made of it, and which arguments are said to be `noalias`.
type Asked = (String, Kind, Vec<bool>);

/// A module with the derivatives that were asked for so far.
struct Loaded {
    module: Module,
    gradients: Mutex<HashMap<Asked, Gradient>>,
    /// The calls whose gradients are looked at.
    calls: Vec<String>,
    /// The number of the first of them: another one for each module and level of optimisation.
    first: usize,
}

/// A test for each line about each module.
pub(crate) fn trials(root: &Path) -> Vec<Trial> {
    let mut all = Vec::new();
    for path in ir_tests::modules(root) {
        let folder = path.parent().and_then(|p| p.file_name()).expect("a folder").display().to_string();
        let stem = path.file_stem().expect("a file has a name").to_string_lossy().into_owned();
        let text = std::fs::read_to_string(root.join(format!("{stem}.run"))).expect("every module has calls");
        let loaded = Arc::new(OnceLock::new());
        let directives = (1..).zip(text.lines()).map(|(n, l)| Directive::parse(l, n).expect("the line can be read"));
        let calls: Vec<String> = directives
            .filter_map(|d| match d {
                Some(Directive::Grad(line)) => Some(line.text),
                _ => None,
            })
            .collect();
        let mut n = 0;
        for (number, comment) in (1..).zip(text.lines()) {
            let directive = Directive::parse(comment, number).expect("the line can be read");
            let (what, text) = match &directive {
                Some(Directive::Grad(line)) => ("grad", &line.text),
                Some(Directive::Trap(line)) => ("trap", &line.text),
                _ => continue,
            };
            n += 1;
            let short: String = text.chars().take(40).collect();
            let name = format!("wasm/{folder}/{stem}.wasm:{number} {what} {short}");
            let (path, loaded, calls) = (path.clone(), loaded.clone(), calls.clone());
            all.push(Trial::test(name, move || {
                let loaded: &Result<Loaded, String> = loaded.get_or_init(|| load(&path, calls));
                let complaints = match loaded {
                    Ok(loaded) => panics::catch(|| match &directive {
                        Some(Directive::Trap(line)) => check_trap(loaded, line),
                        Some(Directive::Grad(line)) => check(loaded, line),
                        _ => Ok(Vec::new()),
                    })
                    .unwrap_or_else(|panic| Err(format!("panic: {panic}"))),
                    Err(message) => Err(message.clone()),
                };
                match complaints {
                    Ok(complaints) if complaints.is_empty() => Ok(()),
                    Ok(complaints) => Err(Failed::from(complaints.join("\n"))),
                    Err(message) => Err(Failed::from(message)),
                }
            }));
        }
        assert!(n > 0, "{stem}.run asks for nothing");
    }
    all
}

fn load(path: &Path, calls: Vec<String>) -> Result<Loaded, String> {
    let bytes = std::fs::read(path).map_err(|e| e.to_string())?;
    let folder = path.parent().and_then(Path::file_name);
    let level = ir_tests::FOLDERS.iter().position(|f| folder.is_some_and(|is| is == *f)).unwrap_or_default();
    let first = path.file_stem().map_or(0, |stem| stem.as_encoded_bytes().iter().map(|&b| usize::from(b)).sum());
    let module = Module::new(bytes).map_err(described)?;
    Ok(Loaded { module, gradients: Mutex::default(), calls, first: first + level })
}

fn described(e: brolga_wasm::Error) -> String {
    e.to_string()
}

/// Which derivative of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Kind {
    mode: Mode,
    memory: MemoryMode,
    debug: bool,
    /// Passes that are left out.
    disabled: PassSet,
    /// Which calls are replaced by what they call.
    inline: Inline,
    /// Whether buffers are said to be reached through their arguments alone, where no two are one.
    noalias: bool,
}

/// A forward pass and a pullback that leaves memory alone, in which calls stay calls.
const LEAVE: Kind = Kind {
    mode: Mode::Split,
    memory: MemoryMode::Leave,
    debug: false,
    disabled: PassSet::NONE,
    inline: Inline::Never,
    noalias: false,
};

/// Functions of a module with a library, which takes a second to derive.
const LARGE: usize = 64;
/// Calls that share out what is derived in more ways ([`Subject::has_turn`]); of a module with a
/// library, the second.
const SHARES: [usize; 2] = [4, 12];

/// Without it a gradient adds in the order of two functions.
const IN_ORDER: Pass = Pass::RerunLoops;

/// The same, but that it restores memory.
const RESTORE: Kind = Kind { memory: MemoryMode::Restore, ..LEAVE };

/// What is wrong with the gradients of a line.
fn check(loaded: &Loaded, line: &GradLine) -> Result<Vec<String>, String> {
    let subject = Subject::new(loaded, line)?;
    let mut found = Vec::new();
    let call = &subject.call;
    let leave = subject.gradient(call, LEAVE)?;
    found.extend(compare::differences(&leave.outcome, &line.expected, &line.clauses, subject.tolerances.expected));
    subject.protocol(&leave, &mut found)?;
    subject.linearity(&leave.outcome, &mut found)?;
    subject.threads(&leave.outcome, &mut found);
    let noise = subject.tape(call, &leave.outcome, "", &mut found)?;
    let noisy = reseeded(call, 5);
    let outcome = subject.gradient(&noisy, LEAVE)?.outcome;
    subject.tape(&noisy, &outcome, "random seeds and shadows: ", &mut found)?;
    subject.forward_mode(&leave.outcome, &mut found)?;
    if !line.clauses.nofd {
        subject.differences(&leave.outcome, noise, &mut found);
    }
    Ok(found)
}

/// What is wrong with the traps of a line: the primal and every derivative end with its code, time
/// and again.
fn check_trap(loaded: &Loaded, line: &TrapLine) -> Result<Vec<String>, String> {
    let subject = Subject::of(loaded, &line.text, &line.call, &line.clauses)?;
    let (call, mut found) = (&subject.call, Vec::new());
    let (mut instance, at) = subject.place(call)?;
    let (args, seeds) = (subject.values(call, &at), subject.seeds(call));
    let mut ended = |who: &str, error: Option<brolga_wasm::Error>| match error {
        Some(brolga_wasm::Error::Trap(t)) if t.code == line.code => {}
        Some(e) => found.push(format!("{who}: expected trap {}, got {e}", line.code)),
        None => found.push(format!("{who}: expected trap {}, but it finished", line.code)),
    };
    for _ in 0..2 {
        ended("primal", instance.call(call.symbol.trim_start_matches('%'), &args).err());
        for kind in [LEAVE, RESTORE] {
            ended("forward pass", instance.forward(&subject.derivative(kind)?, &args).err());
            let whole = subject.derivative(Kind { mode: Mode::Combined, ..kind })?;
            ended("one function", instance.gradient(&whole, &args, &seeds).err());
        }
    }
    Ok(found)
}

/// A call of an export.
struct Subject<'a> {
    loaded: &'a Loaded,
    /// The function in the module's program, whose first parameter is the instance.
    func: FuncKey,
    ty: FuncType,
    call: Invocation,
    /// Which of the module's calls it is, where modules begin with different ones.
    turn: usize,
    tolerances: Tolerances,
}

/// One forward run with a pullback, and what memory looked like.
struct Run {
    outcome: Outcome,
    /// Before the forward pass, after it (unknown of one function for both), and after the
    /// pullback.
    memory: [Vec<u8>; 3],
}

/// The export as the driver sees it: where a buffer is passed, a parameter is a pointer.
fn facade(call: &Call, ty: &FuncType) -> Result<Program, String> {
    let clif = |t: &ValType| match t {
        ValType::I32 => Ok(types::I32),
        ValType::I64 => Ok(types::I64),
        ValType::F32 => Ok(types::F32),
        ValType::F64 => Ok(types::F64),
        other => Err(format!("a parameter of type {other} cannot be written")),
    };
    let mut sig = Signature::new(CallConv::Fast);
    for (i, t) in ty.params().iter().enumerate() {
        let pointer = matches!(call.args.get(i), Some(Literal::List(_) | Literal::Same(_)));
        sig.params.push(AbiParam::new(if pointer { types::I64 } else { clif(t)? }));
    }
    for t in ty.results() {
        sig.returns.push(AbiParam::new(clif(t)?));
    }
    let mut body = Function::with_name_signature(UserFuncName::default(), sig);
    let block = body.dfg.make_block();
    body.layout.append_block(block);
    let params: Vec<Type> = body.signature.params.iter().map(|p| p.value_type).collect();
    for t in params {
        body.dfg.append_block_param(block, t);
    }
    let mut cursor = brolga::cranelift_codegen::cursor::FuncCursor::new(&mut body);
    brolga::cranelift_codegen::cursor::Cursor::goto_bottom(&mut cursor, block);
    cursor.ins().trap(TrapCode::unwrap_user(1));
    let mut program = Program::new();
    program.define(call.func.node.trim_start_matches('%'), body, |_| 0)?;
    Ok(program)
}

impl<'a> Subject<'a> {
    fn new(loaded: &'a Loaded, line: &GradLine) -> Result<Self, String> {
        Self::of(loaded, &line.text, &line.call, &line.clauses)
    }

    fn of(loaded: &'a Loaded, text: &str, call: &Call, clauses: &Clauses) -> Result<Self, String> {
        let name = call.func.node.trim_start_matches('%');
        let (func, ty) = loaded.module.function(name).map_err(described)?;
        let program = facade(call, ty)?;
        let call = Invocation::bind(&program, text, call, clauses).map_err(|e| e.to_string())?;
        let single = ty.params().iter().chain(ty.results()).any(|t| *t == ValType::F32)
            || (0..call.args.len()).any(|i| call.buffer(i).is_some_and(|b| b.1 == ElemType::F32));
        let usual = if single { SINGLE } else { DOUBLE };
        let wider = |tol: f64| Tolerances { expected: tol, tape: usual.tape.max(tol), ..usual };
        let tolerances = clauses.tol.map_or(usual, wider);
        let turn = loaded.first + loaded.calls.iter().position(|c| c == text).unwrap_or_default();
        Ok(Self { loaded, func, ty: ty.clone(), call, turn, tolerances })
    }

    /// A fresh instance with the buffers of a call; addresses of buffers, by argument.
    fn place(&self, call: &Invocation) -> Result<(Instance, Vec<Option<u32>>), String> {
        let mut instance = Instance::new(&self.loaded.module).map_err(described)?;
        let mut at = Vec::new();
        for arg in &call.args {
            at.push(match arg {
                BoundArg::Value(_) => None,
                BoundArg::Same(other) => at[*other],
                BoundArg::Buffer { elem, data, .. } => {
                    let p = instance.alloc(data.len().max(1) as u32).map_err(described)?;
                    instance.memory_mut()[p as usize..][..data.len()].copy_from_slice(data);
                    if elem.is_float() {
                        let n = data.len() / elem.bytes();
                        instance.declare_floats(p, n, elem.bytes() as u32).map_err(described)?;
                    }
                    Some(p)
                }
            });
        }
        Ok((instance, at))
    }

    fn values(&self, call: &Invocation, at: &[Option<u32>]) -> Vec<Val> {
        let args = call.args.iter().zip(at).zip(self.ty.params());
        args.map(|((arg, at), ty)| match (arg, at) {
            (BoundArg::Value(v), _) => Val::from_data(v, *ty),
            (_, at) => Val::I32(at.unwrap_or_default() as i32),
        })
        .collect()
    }

    fn seeds(&self, call: &Invocation) -> Vec<Val> {
        call.seeds.iter().zip(self.ty.results()).map(|(s, t)| Val::from_data(s, *t)).collect()
    }

    fn derivative(&self, kind: Kind) -> Result<Gradient, String> {
        let args = &self.call.args;
        let alone = |i| matches!(args[i], BoundArg::Buffer { .. }) && !args.contains(&BoundArg::Same(i));
        let said: Vec<bool> = (0..args.len()).map(|i| kind.noalias && alone(i)).collect();
        let key = (self.call.symbol.clone(), kind, said.clone());
        let mut known = self.loaded.gradients.lock().map_err(|_| "another test panicked".to_owned())?;
        if let Some(gradient) = known.get(&key) {
            return Ok(gradient.clone());
        }
        let activity: Vec<_> = self.ty.params().iter().map(|t| brolga_wasm::default_activity(*t)).collect();
        let Kind { mode, memory, debug, disabled, inline, noalias: _ } = kind;
        let options = Options { mode, memory, debug, disabled, inline, ..Options::full() };
        let name = self.call.symbol.trim_start_matches('%');
        let mut request = self.loaded.module.request(name, &activity).map_err(described)?;
        for (arg, &noalias) in request.args[1..].iter_mut().zip(&said) {
            // With the gradient alone, the buffers are not read either.
            arg.promises = Promises { noalias, no_need: noalias && mode == Mode::Gradient, ..Promises::default() };
        }
        let gradient = Gradient::with_request(&self.loaded.module, &request, &options).map_err(described)?;
        known.insert(key, gradient.clone());
        Ok(gradient)
    }

    /// Set all shadows to those of the call.
    fn set_shadows(instance: &mut Instance, call: &Invocation, at: &[Option<u32>]) {
        instance.clear_shadow();
        for (i, (arg, at)) in call.args.iter().zip(at).enumerate() {
            if let (BoundArg::Buffer { elem, shadow, .. }, Some(at)) = (arg, at)
                && elem.is_float()
                && call.activity(i) == ArgActivity::Duplicated
            {
                instance.shadow_mut()[*at as usize..][..shadow.len()].copy_from_slice(shadow);
            }
        }
    }

    fn collect(&self, instance: &Instance, at: &[Option<u32>], value: &[Val], cotangents: &[Option<Val>]) -> Outcome {
        let buffer = |i: usize, memory: &[u8]| {
            let (_, elem, data, _) = self.call.buffer(i)?;
            Some(decode_all(elem, &memory[at[i]? as usize..][..data.len()]))
        };
        let indices = 0..self.call.args.len();
        let gradient = indices.clone().map(|i| match self.call.activity(i) {
            ArgActivity::Const => None,
            ArgActivity::Active => cotangents[i].map(|v| from_data(&v.to_data(), self.call.params[i])),
            ArgActivity::Duplicated => {
                buffer(i, instance.shadow()).filter(|b| b.iter().all(|n| n.is_float())).map(Item::Many)
            }
        });
        Outcome {
            value: value.iter().zip(&self.call.returns).map(|(v, t)| from_data(&v.to_data(), *t)).collect(),
            gradient: gradient.collect(),
            buffers: indices.map(|i| buffer(i, instance.memory())).collect(),
            tape_bytes: 0,
            loops: brolga::LoopStats::default(),
            plans: Vec::new(),
            inverses: brolga::InverseStats::default(),
        }
    }

    /// Run a derivative in a fresh instance.
    fn gradient(&self, call: &Invocation, kind: Kind) -> Result<Run, String> {
        let gradient = self.derivative(kind)?;
        let (mut instance, at) = self.place(call)?;
        Self::set_shadows(&mut instance, call, &at);
        let before = instance.memory().to_vec();
        if kind.mode != Mode::Split {
            let found = instance.gradient(&gradient, &self.values(call, &at), &self.seeds(call)).map_err(described)?;
            let outcome = self.collect(&instance, &at, &found.values, &found.cotangents);
            return Ok(Run { outcome, memory: [before, Vec::new(), instance.memory().to_vec()] });
        }
        let (value, mut pullback) = instance.forward(&gradient, &self.values(call, &at)).map_err(described)?;
        let between = instance.memory().to_vec();
        let cotangents = instance.pullback(&mut pullback, &self.seeds(call)).map_err(described)?;
        let outcome = self.collect(&instance, &at, &value, &cotangents);
        let after = instance.memory().to_vec();
        Ok(Run { outcome, memory: [before, between, after] })
    }

    /// Run the primal in a fresh instance: its results, and the instance.
    fn primal(&self, call: &Invocation) -> Result<(Outcome, Instance), String> {
        let (mut instance, at) = self.place(call)?;
        let name = self.call.symbol.trim_start_matches('%');
        let value = instance.call(name, &self.values(call, &at)).map_err(described)?;
        let none = vec![None; call.args.len()];
        Ok((self.collect(&instance, &at, &value, &none), instance))
    }

    fn protocol(&self, leave: &Run, found: &mut Vec<String>) -> Result<(), String> {
        let mut say = |broken: bool, what: &str| {
            if broken {
                found.push(what.to_owned());
            }
        };
        let (primal, instance) = self.primal(&self.call)?;
        let memory = instance.memory();
        say(!primal.same_value(&leave.outcome), "the forward pass returns something else than the primal");
        say(memory != &leave.memory[1][..], "the forward pass leaves something else in memory than the primal");
        say(memory != &leave.memory[2][..], "the pullback does not leave memory alone");
        let again = self.gradient(&self.call, LEAVE)?;
        say(!again.outcome.same_gradient(&leave.outcome), "a second run gives another gradient");
        let (twice, fresh) = self.pullback_twice(LEAVE)?;
        say(!twice.same_gradient(&fresh), "a pullback that is called again gives something else");
        if self.has_turn(0) {
            self.restored(leave, memory, found)?;
        }
        self.as_one(leave, found)
    }

    /// Whether this call is asked about a share of what is derived in more ways. In a full run each
    /// is asked about all; but calls of a module with a library share it out in any case.
    fn has_turn(&self, share: usize) -> bool {
        let large = self.loaded.module.program().funcs.len() > LARGE;
        let apart = match (depth() == Depth::Full, large) {
            (true, false) => 1,
            (true, true) => SHARES[0].min(self.loaded.calls.len()),
            (false, large) => SHARES[usize::from(large)],
        };
        share % apart == self.turn % apart
    }

    /// What is promised where memory is restored, and of debug runs. `memory` is the primal's.
    fn restored(&self, leave: &Run, memory: &[u8], found: &mut Vec<String>) -> Result<(), String> {
        let mut say = |broken: bool, what: &str| {
            if broken {
                found.push(what.to_owned());
            }
        };
        let restore = self.gradient(&self.call, RESTORE)?;
        say(!restore.outcome.same_gradient(&leave.outcome), "the gradient depends on the memory mode");
        say(
            &restore.memory[1][..] != memory,
            "the forward pass that restores leaves something else in memory than the primal",
        );
        // What the primal has grown by is gone, or zero.
        let (was, is) = (&restore.memory[0], &restore.memory[2]);
        let grown = is.get(was.len()..).unwrap_or_default();
        let restored = is.starts_with(was) && grown.iter().all(|b| *b == 0);
        say(!restored, "memory is not restored");
        let debug = self.gradient(&self.call, Kind { debug: true, ..LEAVE })?;
        say(!debug.outcome.same_gradient(&leave.outcome), "a debug run gives another gradient");
        let (twice, fresh) = self.pullback_twice(RESTORE)?;
        say(!twice.same_gradient(&fresh), "memory restored: a pullback that is called again gives something else");
        for kind in [
            Kind { mode: Mode::Combined, debug: true, ..RESTORE },
            Kind { inline: Inline::SMALL, ..RESTORE },
            Kind { mode: Mode::Combined, noalias: true, ..RESTORE },
        ] {
            self.compare(kind, &restore, found)?;
        }
        Ok(())
    }

    /// One function for value and gradient gives the numbers that two give, bit by bit; but where
    /// loops are run again, or calls are inlined, in another order.
    fn as_one(&self, leave: &Run, found: &mut Vec<String>) -> Result<(), String> {
        // Some of the passes, others for each call; a module's own functions may round in another
        // way than the host's (`share-calls`).
        let hash = |h: u32, b: u8| (h ^ u32::from(b)).wrapping_mul(0x0100_0193);
        let bits = format!("{}{:?}", self.call.symbol, self.call.args).bytes().fold(0x811c_9dc5, hash) >> 7;
        let some = PassSet::of_bits(!bits).set(Pass::ShareCalls, false);
        let again = PassSet::from(Pass::CostModel);
        let kinds = [
            Kind { mode: Mode::Combined, ..LEAVE },
            Kind { mode: Mode::Gradient, disabled: IN_ORDER.into(), ..LEAVE },
            Kind { mode: Mode::Gradient, ..LEAVE },
            Kind { mode: Mode::Gradient, disabled: again, ..LEAVE },
            Kind { mode: Mode::Combined, disabled: some, ..LEAVE },
            Kind { disabled: some, ..LEAVE },
            Kind { mode: Mode::Gradient, inline: Inline::SMALL, ..LEAVE },
            Kind { mode: Mode::Combined, inline: Inline::Auto, ..LEAVE },
            Kind { mode: Mode::Combined, noalias: true, ..LEAVE },
            Kind { mode: Mode::Gradient, disabled: IN_ORDER.into(), noalias: true, ..LEAVE },
        ];
        for (n, kind) in (0..).zip(kinds) {
            // The first share is `restored`.
            if self.has_turn(n + 1) {
                self.compare(kind, leave, found)?;
            }
        }
        Ok(())
    }

    /// What another derivative does differently from two functions, of which `two` is a run.
    fn compare(&self, kind: Kind, two: &Run, found: &mut Vec<String>) -> Result<(), String> {
        let run = self.gradient(&self.call, kind)?;
        let in_order = PassSet::from(IN_ORDER);
        let reordered = kind.inline != Inline::Never || kind.mode == Mode::Gradient && kind.disabled != in_order;
        let same = if reordered {
            run.outcome.apart(&two.outcome, self.tolerances.tape).is_none()
        } else if kind.disabled == LEAVE.disabled {
            run.outcome.same_gradient(&two.outcome)
        } else {
            run.outcome.equal_gradient(&two.outcome)
        };
        if !same {
            found.push(format!("{kind:?} gives another gradient"));
        }
        if kind.mode != Mode::Gradient && !run.outcome.same_value(&two.outcome) {
            found.push(format!("{kind:?} gives another value"));
        }
        if !(kind.mode == Mode::Gradient && kind.noalias) && run.memory[2] != two.memory[2] {
            found.push(format!("{kind:?} leaves other memory"));
        }
        Ok(())
    }

    /// One forward run and two pullbacks, the second with other seeds and shadows; and a fresh run
    /// with those.
    fn pullback_twice(&self, kind: Kind) -> Result<(Outcome, Outcome), String> {
        let other = reseeded(&self.call, 2);
        let gradient = self.derivative(kind)?;
        let (mut instance, at) = self.place(&self.call)?;
        Self::set_shadows(&mut instance, &self.call, &at);
        let (value, mut pullback) = instance.forward(&gradient, &self.values(&self.call, &at)).map_err(described)?;
        instance.pullback(&mut pullback, &self.seeds(&self.call)).map_err(described)?;
        Self::set_shadows(&mut instance, &other, &at);
        let cotangents = instance.pullback(&mut pullback, &self.seeds(&other)).map_err(described)?;
        let twice = self.collect(&instance, &at, &value, &cotangents);
        Ok((twice, self.gradient(&other, kind)?.outcome))
    }

    /// G(s + r) = G(s) + G(r), for seeds and initial shadows together.
    fn linearity(&self, outcome: &Outcome, found: &mut Vec<String>) -> Result<(), String> {
        let other = reseeded(&self.call, 3);
        let g = [outcome.clone(), self.gradient(&other, LEAVE)?.outcome];
        let sum = self.gradient(&added(&self.call, &other), LEAVE)?.outcome;
        let all = inputs(&self.call);
        let (a, b, c) = (flatten(&g[0], &all), flatten(&g[1], &all), flatten(&sum, &all));
        for (i, input) in all.iter().enumerate() {
            let scale = 1.0 + a[i].abs().max(b[i].abs());
            if !compare::close(c[i] / scale, (a[i] + b[i]) / scale, self.tolerances.tape) {
                found.push(format!("{}: not linear: {} + {} is not {}", input.name(), a[i], b[i], c[i]));
            }
        }
        Ok(())
    }

    /// Two instances in two threads, one derivative.
    fn threads(&self, first: &Outcome, found: &mut Vec<String>) {
        let work = || panics::catch(|| self.gradient(&self.call, LEAVE));
        let outcomes = std::thread::scope(|s| [s.spawn(work), s.spawn(work)].map(|h| h.join()));
        for outcome in outcomes {
            match outcome {
                Ok(Ok(Ok(run))) if run.outcome.same_gradient(first) => {}
                Ok(Ok(Ok(_))) => found.push("two threads at once: another gradient".to_owned()),
                Ok(Ok(Err(e))) => found.push(format!("two threads at once: {e}")),
                Ok(Err(e)) => found.push(format!("two threads at once: panic: {e}")),
                Err(_) => found.push("two threads at once: a thread died".to_owned()),
            }
        }
    }

    /// The oracle, its arguments, and which of its extra buffers belongs to an argument. The
    /// instance must outlive its runs.
    fn oracle(
        &self,
        call: &Invocation,
        instance: &Instance,
        at: &[Option<u32>],
    ) -> (Oracle<'a>, Vec<OracleArg>, Vec<usize>) {
        let mut oracle = Oracle::new(self.loaded.module.program());
        let mut args = vec![OracleArg::constant(DataValue::I64(instance.vmctx() as i64))];
        let mut owners = Vec::new();
        for (i, value) in self.values(call, at).into_iter().enumerate() {
            let value = value.to_data();
            args.push(match call.activity(i) {
                ArgActivity::Active => OracleArg::active(value),
                _ => OracleArg::constant(value),
            });
            let (BoundArg::Buffer { elem, data, shadow }, Some(at)) = (&call.args[i], at[i]) else { continue };
            let kind = match elem {
                ElemType::F64 => Elem::F64,
                ElemType::F32 => Elem::F32,
                ElemType::Int(_) => continue,
            };
            let addr = instance.vmctx() as usize + at as usize;
            let shadow = decode_all(*elem, shadow).iter().map(|n| n.as_f64()).collect();
            oracle = oracle.extra_buffer(BufferRef { addr, len_bytes: data.len(), elem: kind }, Some(shadow));
            owners.push(i);
        }
        (oracle, args, owners)
    }

    /// Compare with the tape, which also says how much noise roundings leave in the objective, in
    /// terms of the precision of the arithmetic.
    fn tape(&self, call: &Invocation, outcome: &Outcome, what: &str, found: &mut Vec<String>) -> Result<f64, String> {
        let (instance, at) = self.place(call)?;
        let (oracle, args, owners) = self.oracle(call, &instance, &at);
        // SAFETY: the program runs in the memory of an instance that lives until the end.
        let tape = match unsafe { oracle.gradient(self.func, &args, &call.seeds) } {
            Ok(tape) => tape,
            Err(e) => {
                found.push(format!("{what}the tape cannot run: {e}"));
                return Ok(0.0);
            }
        };
        let rounded = tape.noise;
        let value: Vec<_> = tape.values.iter().zip(&call.returns).map(|(v, t)| from_data(v, *t)).collect();
        let same =
            |a: &Item, b: &Item| compare::close(a.nums()[0].as_f64(), b.nums()[0].as_f64(), self.tolerances.tape);
        if !value.iter().zip(&outcome.value).all(|(a, b)| same(a, b)) {
            found.push(format!("{what}the interpreter returns {value:?}, compiled code {:?}", outcome.value));
        }
        let mut gradient: Vec<Option<Vec<f64>>> = tape.arg_lanes[1..].to_vec();
        for (i, shadow) in owners.into_iter().zip(tape.reverse.extra_shadows) {
            gradient[i] = Some(shadow);
        }
        let scale = gradient.iter().flatten().flatten().fold(1.0, |m: f64, x| m.max(x.abs()));
        for (i, entry) in gradient.iter().enumerate() {
            let (Some(tape), Some(is)) = (entry, &outcome.gradient[i]) else {
                let gradient = &outcome.gradient[i];
                if call.owns_shadow(i) && (entry.is_some() || gradient.is_some()) {
                    found.push(format!("{what}argument {i}: gradient {gradient:?}, but the tape says {entry:?}"));
                }
                continue;
            };
            let tol = self.tolerances.tape;
            let agrees = |t: f64, n: f64| compare::close(n, t, tol) || (n - t).abs() <= 1e-3 * tol * scale;
            let wrong = tape.iter().zip(is.nums()).position(|(t, n)| !agrees(*t, n.as_f64()));
            if let Some(k) = wrong {
                let (is, tape) = (is.nums()[k].as_f64(), tape[k]);
                found.push(format!("{what}argument {i}, element {k}: {is:?}, but the tape says {tape:?}"));
            }
        }
        Ok(rounded)
    }

    /// A random direction, one number per input.
    fn direction(all: &[Input], seed: u64) -> Vec<f64> {
        let mut noise = Noise::new(seed);
        all.iter().map(|_| noise.unit()).collect()
    }

    /// ⟨ȳ, Jẋ⟩ = ⟨Jᵀȳ, ẋ⟩ for a random direction.
    fn forward_mode(&self, outcome: &Outcome, found: &mut Vec<String>) -> Result<(), String> {
        let (all, call) = (inputs(&self.call), &self.call);
        let direction = Self::direction(&all, 1);
        let (instance, at) = self.place(call)?;
        let (oracle, args, owners) = self.oracle(call, &instance, &at);
        let part =
            |arg: usize| all.iter().zip(&direction).filter(|(i, _)| i.arg == arg).map(|(_, d)| *d).collect::<Vec<_>>();
        let mut tangents = vec![Tangent::Zero];
        tangents.extend((0..call.args.len()).map(|i| match call.activity(i) {
            ArgActivity::Active => Tangent::Lanes(part(i)),
            _ => Tangent::Zero,
        }));
        tangents.extend(owners.iter().map(|i| Tangent::Buffer(part(*i))));
        // SAFETY: as in `tape`.
        let r = unsafe { oracle.tangent(self.func, &args, &tangents) }.map_err(|e| format!("forward mode: {e}"))?;
        let mut terms: Vec<f64> = Vec::new();
        for ((seed, ty), tangent) in call.seeds.iter().zip(&call.returns).zip(&r.results) {
            let seed = from_data(seed, *ty);
            terms.extend(tangent.iter().flatten().zip(seed.nums()).map(|(t, s)| s.as_f64() * t));
        }
        for (i, tangent) in owners.iter().zip(&r.extra) {
            let Some((_, elem, _, shadow)) = call.buffer(*i) else { continue };
            terms.extend(decode_all(elem, shadow).iter().zip(tangent).map(|(s, t)| s.as_f64() * t));
        }
        let reverse: Vec<f64> = flatten(outcome, &all).iter().zip(&direction).map(|(g, d)| g * d).collect();
        let size = |terms: &[f64]| terms.iter().map(|t| t.abs()).sum::<f64>();
        let (a, b) = (terms.iter().sum::<f64>(), reverse.iter().sum::<f64>());
        // False where either is NaN.
        let agrees = (a - b).abs() <= self.tolerances.tape * (1.0 + size(&terms).max(size(&reverse)));
        if !agrees {
            found.push(format!("forward mode says {a} along a direction, the gradient {b}"));
        }
        Ok(())
    }

    /// Σ seed · result + Σ initial shadow · final contents, by the primal; NaN if it does not
    /// finish.
    fn objective(&self, call: &Invocation) -> f64 {
        let Ok((outcome, _)) = self.primal(call) else { return f64::NAN };
        let mut sum = 0.0;
        let mut add = |seed: Num, value: Num| {
            if value.is_float() && seed.as_f64() != 0.0 {
                sum += seed.as_f64() * value.as_f64();
            }
        };
        for ((item, seed), ty) in outcome.value.iter().zip(&call.seeds).zip(&call.returns) {
            item.nums().iter().zip(from_data(seed, *ty).nums()).for_each(|(v, s)| add(*s, *v));
        }
        for i in (0..call.args.len()).filter(|i| call.owns_shadow(*i)) {
            let (Some((_, elem, _, shadow)), Some(is)) = (call.buffer(i), &outcome.buffers[i]) else { continue };
            decode_all(elem, shadow).iter().zip(is).for_each(|(s, v)| add(*s, *v));
        }
        sum
    }

    /// Finite differences along random directions, scaled so that no input moves more than by a
    /// part of itself.
    fn differences(&self, outcome: &Outcome, noise: f64, found: &mut Vec<String>) {
        let options = self.tolerances.differences;
        let options = fd::Options { noise: (noise * options.precision).max(f64::MIN_POSITIVE), ..options };
        let all = inputs(&self.call);
        let x: Vec<f64> = all.iter().map(|i| i.value).collect();
        for seed in [11, 12, 13] {
            let noise = Self::direction(&all, seed);
            let direction: Vec<f64> = noise.iter().zip(&x).map(|(d, x)| d * x.abs().max(1e-2)).collect();
            let f = |at: &[f64]| Ok(self.objective(&with_inputs(&self.call, &all, at)));
            let verdict = fd::directional(f, &x, &direction, &options);
            let slope: f64 = flatten(outcome, &all).iter().zip(&direction).map(|(g, d)| g * d).sum();
            let tolerance = if self.tolerances.differences.precision > 1e-12 { 2e-3 } else { 1e-6 };
            match verdict {
                fd::Verdict::Unreliable(why) => found.push(format!("finite differences say nothing: {}", why.text())),
                v if v.accepts(slope, tolerance) => {}
                v => found.push(format!("finite differences along a direction: {v:?}, the gradient says {slope}")),
            }
        }
    }
}

/// The call with the sum of the seeds and initial shadows of two.
fn added(a: &Invocation, b: &Invocation) -> Invocation {
    let mut out = a.clone();
    for (s, t) in out.seeds.iter_mut().zip(&b.seeds) {
        match (&s, t) {
            (DataValue::F64(x), DataValue::F64(y)) => *s = DataValue::F64((x.as_f64() + y.as_f64()).into()),
            (DataValue::F32(x), DataValue::F32(y)) => *s = DataValue::F32((x.as_f32() + y.as_f32()).into()),
            _ => {}
        }
    }
    for (x, y) in out.args.iter_mut().zip(&b.args) {
        if let (BoundArg::Buffer { elem, shadow, .. }, BoundArg::Buffer { shadow: other, .. }) = (x, y)
            && elem.is_float()
        {
            let n = elem.bytes();
            for (s, t) in shadow.chunks_exact_mut(n).zip(other.chunks_exact(n)) {
                Num::F64(Num::decode(*elem, s).as_f64() + Num::decode(*elem, t).as_f64()).encode(*elem, s);
            }
        }
    }
    out
}
