//! Derivatives in a module of Cranelift's, for each call of `cases`, against [`DerivedRule`], which
//! has other tests: the gradient in one function, forward pass and pullback (which is called
//! twice), and the tangent. Values and what the primal writes are the same bits.
//!
//! The module has Cranelift's default flags; functions that it does not compile with them are left
//! out. Room on the tape is given in two sizes: one in which each run fits, and one in which many
//! do not, which has to say so, or to ask for more and go on.

use std::collections::BTreeMap;

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::cranelift_codegen::ir::Type;
use brolga::{ArgActivity, DerivedRule, Error, Mode, Options, ResultActivity};
use brolga_driver::inputs::inputs;
use brolga_driver::noise::Noise;
use brolga_driver::value::{Num, decode_all, from_data, to_data};
use brolga_driver::{Directive, File, Invocation, Memory};
use brolga_ir::panics;
use brolga_module::{
    AdError, AdModule, DataActivity, DerivedSignature, ParamActivity, ParamRole, ParamSpec, ResultRole, ReturnActivity,
    Spec,
};
use brolga_testing::budget;
use brolga_testing::module::{entry, load};
use cranelift_jit::JITModule;
use cranelift_module::{DataDescription, FuncId, Linkage, Module};
use ir_tests::cases::at_least;

#[derive(Default)]
pub(crate) struct Tally {
    pub compared: usize,
    /// Calls of each kind of workspace.
    pub rooms: BTreeMap<&'static str, usize>,
    pub refused: BTreeMap<String, usize>,
    /// The primal is not compiled with default flags.
    unsupported: usize,
    full: usize,
    grown: usize,
    /// What the run time follows and a module does not (KNOWN-LIMITS.md).
    trapped: usize,
    pub wrong: Vec<String>,
}

const MODES: [Mode; 3] = [Mode::Combined, Mode::Split, Mode::Tangent];

fn all_calls(mode: Mode) {
    let mut tally = Tally::default();
    for line in ir_tests::cases::lines(&["errors", "real", "nested"], mode as usize) {
        judge(&mut tally, &line.file, &line.call, &line.name(), mode);
    }
    let Tally { compared, rooms, refused, unsupported, full, grown, trapped, wrong } = &tally;
    println!(
        "{mode:?}: {compared} compared, rooms {rooms:?}, {unsupported} not compiled, {full} did not fit, \
         {grown} grew, {trapped} trapped"
    );
    refused.iter().for_each(|(why, n)| println!("  {n} refused: {why}"));
    wrong.iter().for_each(|w| println!("  WRONG: {w}"));
    assert!(wrong.is_empty(), "{} are wrong", wrong.len());
    assert!(*compared > at_least(3000), "{compared}");
    assert!(*trapped <= 10, "{trapped} trap where the run time does not");
    assert!(mode == Mode::Tangent || *grown > at_least(30), "{grown}");
}

#[test]
fn gradients() {
    all_calls(MODES[0]);
}

#[test]
fn pairs() {
    all_calls(MODES[1]);
}

#[test]
fn tangents() {
    all_calls(MODES[2]);
}

/// Programs of the generator, as the oracles have others of.
#[test]
fn random_programs() {
    let mut tally = Tally::default();
    for seed in 0..budget(30, 6) {
        let text = brolga_fuzz::text_of(seed, false);
        let Ok(file) = File::parse("random.clif", text) else { continue };
        for d in &file.directives {
            let Directive::Grad(line) = d else { continue };
            let Ok(call) = Invocation::bind(&file.program, &line.text, &line.call, &line.clauses) else { continue };
            for mode in MODES {
                judge(&mut tally, &file, &call, &format!("seed {seed}, {mode:?}: {}", line.text), mode);
            }
        }
    }
    println!("{} compared, rooms {:?}, refused {:?}", tally.compared, tally.rooms, tally.refused);
    tally.wrong.iter().for_each(|w| println!("  WRONG: {w}"));
    assert!(tally.wrong.is_empty(), "{} are wrong", tally.wrong.len());
    assert!(tally.compared > 10);
}

/// Judge all derivatives of a program.
pub(crate) fn judge_text(tally: &mut Tally, seed: u64, text: String) {
    let file = File::parse("random.clif", text.clone()).unwrap_or_else(|e| panic!("{e}:\n{text}"));
    for d in &file.directives {
        let Directive::Grad(line) = d else { continue };
        let call = Invocation::bind(&file.program, &line.text, &line.call, &line.clauses);
        let call = call.unwrap_or_else(|e| panic!("{e}:\n{text}"));
        for mode in MODES {
            judge(tally, &file, &call, &format!("seed {seed}, {mode:?}: {}", line.text), mode);
        }
    }
}

/// What comes out of a run.
#[derive(Debug)]
struct Found {
    values: Vec<DataValue>,
    /// Cotangents by parameter, or tangents by result.
    derivatives: BTreeMap<usize, DataValue>,
    memory: Memory,
    /// The run has asked for more workspace.
    grown: bool,
}

/// Bytes of a workspace, and of those so many that are given at first, if it may grow.
#[derive(Clone, Copy)]
struct Space {
    bytes: usize,
    given: Option<usize>,
}

/// What a workspace may have, and whether it was asked for.
struct Growing {
    most: i64,
    asked: bool,
}

extern "C" fn grow(context: *mut Growing, bytes: i64) -> i64 {
    // SAFETY: the test passes it.
    let context = unsafe { &mut *context };
    context.asked = true;
    bytes.min(context.most)
}

fn judge(tally: &mut Tally, file: &File, call: &Invocation, name: &str, mode: Mode) {
    if call.memory != brolga::MemoryMode::Leave {
        return;
    }
    let mut noise = Noise::new(5);
    let direction: Vec<f64> = inputs(call).iter().map(|_| noise.unit()).collect();
    let Some(wanted) = reference(file, call, mode, &direction) else { return };
    let room: usize = 1 << 22;
    match embedded(tally, file, call, mode, &direction, Space { bytes: room, given: None }) {
        Ok(Some(found)) => compare(tally, call, name, &wanted, &found),
        Ok(None) => tally.wrong.push(format!("{name}: it does not fit into {room} bytes")),
        Err(AdError::Diagnostics(d)) => {
            let first = &d.0[0];
            *tally.refused.entry(format!("{} {}", first.code, first.message)).or_default() += 1;
        }
        Err(AdError::Module { .. }) => tally.unsupported += 1,
        Err(e) => *tally.refused.entry(e.to_string()).or_default() += 1,
    }
    // Of those that do not fit, some may grow.
    let grows = name.len().is_multiple_of(2);
    let space = if grows { Space { bytes: room, given: Some(400) } } else { Space { bytes: 400, given: None } };
    match embedded(&mut Tally::default(), file, call, mode, &direction, space) {
        Ok(None) if grows => tally.wrong.push(format!("{name}: it does not grow")),
        Ok(None) => tally.full += 1,
        Ok(Some(found)) => {
            compare(tally, call, name, &wanted, &found);
            tally.grown += usize::from(found.grown);
        }
        Err(_) => {}
    }
}

/// Whether a run ends without a signal: a child process tries it.
fn ends(run: impl FnOnce()) -> bool {
    let mut status = 0;
    // SAFETY: the child does nothing but the run, which is derived code, and leaves without
    // destructors; the parent waits for it.
    unsafe {
        match libc::fork() {
            0 => {
                run();
                libc::_exit(0)
            }
            child => assert!(child > 0 && libc::waitpid(child, &raw mut status, 0) == child, "there is a child"),
        }
    }
    libc::WIFEXITED(status)
}

/// What the run time computes; nothing, if it refuses or traps.
fn reference(file: &File, call: &Invocation, mode: Mode, direction: &[f64]) -> Option<Found> {
    let rule = DerivedRule::new(&file.program, &call.request(), &Options { mode, ..Options::full() }).ok()?;
    let mut memory = Memory::new(call).expect("memory");
    if mode == Mode::Tangent {
        set_directions(call, &mut memory, direction);
    }
    let args = memory.arguments();
    let (mut values, mut found) = (Vec::new(), Vec::new());
    // SAFETY: buffers are as long as the call says.
    let run = unsafe {
        match mode {
            Mode::Tangent => {
                let directions: Vec<Option<DataValue>> =
                    (0..call.params.len()).map(|i| tangent(call, direction, i)).collect();
                rule.tangent(&args, &directions, &mut values, &mut found).map(drop)
            }
            _ => rule.gradient(&args, &call.seeds, &mut values, &mut found).map(drop),
        }
    };
    match run {
        Ok(()) => {}
        Err(Error::Trap(_)) => return None,
        Err(e) => panic!("{}: {e}", call.symbol),
    }
    let derivatives = found.into_iter().enumerate().filter_map(|(i, v)| Some((i, v?))).collect();
    Some(Found { values, derivatives, memory, grown: false })
}

/// The tangent of an active argument.
fn tangent(call: &Invocation, direction: &[f64], arg: usize) -> Option<DataValue> {
    if call.specs[arg].activity != ArgActivity::Active {
        return None;
    }
    let lanes: Vec<f64> = inputs(call).iter().zip(direction).filter(|(i, _)| i.arg == arg).map(|(_, x)| *x).collect();
    to_data(call.params[arg], |i| Num::F64(lanes[i]))
}

fn set_directions(call: &Invocation, memory: &mut Memory, direction: &[f64]) {
    for i in 0..call.args.len() {
        let Some(b) = memory.buffer_mut(i) else { continue };
        b.shadow.bytes_mut().fill(0);
    }
    for (input, x) in inputs(call).iter().zip(direction) {
        let Some(b) = memory.buffer_mut(input.arg) else { continue };
        let (n, at) = (b.elem.bytes(), input.index.expect("an element"));
        let elem = b.elem;
        Num::F64(*x).encode(elem, &mut b.shadow.bytes_mut()[at * n..(at + 1) * n]);
    }
}

fn spec(call: &Invocation, mode: Mode) -> Spec {
    let tangent = mode == Mode::Tangent;
    let request = call.request();
    let input = |s: &brolga::ArgSpec| {
        let activity = match (s.activity, tangent) {
            (ArgActivity::Const, _) => ParamActivity::Const,
            (_, true) if s.promises.no_need => ParamActivity::DualOnly,
            (_, true) => ParamActivity::Dual,
            (ArgActivity::Active, _) => ParamActivity::Active,
            (ArgActivity::Duplicated, _) if s.promises.no_need => ParamActivity::DuplicatedOnly,
            (ArgActivity::Duplicated, _) => ParamActivity::Duplicated,
        };
        ParamSpec { activity, elem: s.elem, noalias: s.promises.noalias, consumed: None }
    };
    let inputs: Vec<ParamSpec> = request.args.iter().map(input).collect();
    let spec = match mode {
        Mode::Tangent => Spec::tangent(inputs),
        Mode::Split => Spec::pair(inputs),
        _ => Spec::gradient(inputs),
    };
    let constant = |i: usize| request.results.get(i) == Some(&ResultActivity::Const);
    let outputs = call.returns.iter().enumerate().map(|(i, ty)| {
        let is_float =
            brolga_driver::value::is_float(*ty) && ty.lane_type().bits() >= 32 && ty.lane_type().bits() <= 64;
        match (is_float && !constant(i), tangent) {
            (false, _) => ReturnActivity::Const,
            (true, true) => ReturnActivity::Dual,
            (true, false) => ReturnActivity::Active,
        }
    });
    spec.results(outputs.collect::<Vec<_>>())
}

#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct AbiValue([u8; 16]);

/// One call of a function of the module: values by role.
struct Caller<'a> {
    module: &'a JITModule,
    call: &'a Invocation,
    workspace: &'a mut [u8],
    given: usize,
    growing: Growing,
    direction: &'a [f64],
}

impl Caller<'_> {
    fn run_all(&mut self, doors: &[FuncId], signatures: &[DerivedSignature], memory: &Memory) {
        doors.iter().zip(signatures).for_each(|(&door, s)| drop(self.run(door, s, memory)));
    }

    fn run(&mut self, f: FuncId, s: &DerivedSignature, memory: &Memory) -> Vec<(ResultRole, DataValue)> {
        let mut results = vec![0_u8; 4096];
        let mut abi_values = vec![AbiValue([0; 16]); s.params.len().max(s.results.len())];
        for (role, abi_value) in s.params.iter().zip(&mut abi_values) {
            let v = match *role {
                ParamRole::Primal(i) => memory.values()[i].clone(),
                ParamRole::Shadow(i) => DataValue::I64(memory.shadow(i).expect("duplicated").shadow.address() as i64),
                ParamRole::Tangent(i) => tangent(self.call, self.direction, i).expect("active"),
                ParamRole::Seed(k) => self.call.seeds[k].clone(),
                ParamRole::Workspace => DataValue::I64(self.workspace.as_mut_ptr() as i64),
                ParamRole::WorkspaceBytes => DataValue::I64(self.given as i64),
                ParamRole::Grow => DataValue::I64(grow as *const () as i64),
                ParamRole::GrowContext => DataValue::I64(std::ptr::from_mut(&mut self.growing) as i64),
                ParamRole::Results => DataValue::I64(results.as_mut_ptr() as i64),
            };
            let n = v.ty().bytes() as usize;
            v.write_to_slice_ne(&mut abi_value.0[..n]);
        }
        let code = self.module.get_finalized_function(f);
        // SAFETY: an entry point of one pointer, to as many ABI values as there are arguments or
        // results.
        let code: extern "C" fn(*mut AbiValue) = unsafe { std::mem::transmute(code) };
        code(abi_values.as_mut_ptr());
        let value = |k: usize, ty: Type| {
            let n = ty.bytes() as usize;
            match &s.layout {
                Some(l) => DataValue::read_from_slice_ne(&results[l.offsets[k] as usize..][..n], ty),
                None => DataValue::read_from_slice_ne(&abi_values[k].0[..n], ty),
            }
        };
        s.results.iter().enumerate().map(|(k, role)| (*role, value(k, s.types[k]))).collect()
    }
}

extern "C" fn with_value(_: f64, v: f64) -> f64 {
    v
}

extern "C" fn with_valuef(_: f32, v: f32) -> f32 {
    v
}

/// The same by functions of a module. `None` if a run does not fit into so many bytes.
fn embedded(
    tally: &mut Tally,
    file: &File,
    call: &Invocation,
    mode: Mode,
    direction: &[f64],
    space: Space,
) -> Result<Option<Found>, AdError> {
    let mut builder = brolga_testing::jit::host();
    // The functions themselves call these; their derivatives have bodies of them.
    builder.symbol("brolga_with_value", with_value as *const u8);
    builder.symbol("brolga_with_valuef", with_valuef as *const u8);
    let mut module = AdModule::new(JITModule::new(builder));
    // Cranelift panics on some functions with these flags.
    let loaded = panics::catch(|| load(&mut module, &file.program, call.func));
    let Ok(Ok(loaded)) = loaded else {
        tally.unsupported += 1;
        return Err(AdError::Usage("the primal is not compiled".to_owned()));
    };
    let mut shadows = Vec::new();
    for d in file.program.data.values().filter(|d| d.writable) {
        let shadow = module.declare_data(&format!("{}.shadow", d.symbol), Linkage::Local, true, false).expect("new");
        let mut zeros = DataDescription::new();
        zeros.define_zeroinit(d.bytes.len());
        zeros.set_align(d.align.max(8));
        module.define_data(shadow, &zeros).expect("zeros");
        module.set_data(loaded.data[&d.symbol], DataActivity::Shadow(shadow));
        shadows.push(shadow);
    }
    let f = loaded.functions[&call.symbol];
    let spec = Spec { growing: space.given.is_some(), ..spec(call, mode) };
    let ids = match mode {
        Mode::Split => <[FuncId; 2]>::from(module.pair(f, &spec)?).to_vec(),
        _ => vec![module.derivative(f, &spec)?],
    };
    let kind = match module.room(ids[0]).expect("it is derived") {
        brolga_module::Room::Nothing => "nothing",
        brolga_module::Room::Stack(_) => "stack",
        brolga_module::Room::Bytes(_) => "bytes",
        brolga_module::Room::Unknown => "unknown",
    };
    *tally.rooms.entry(kind).or_default() += 1;
    let mut doors = Vec::new();
    for &id in &ids {
        doors.push(entry(&mut *module, id).map_err(|e| AdError::Usage(e.to_string()))?);
    }
    module.finalize_definitions().expect("it is linked");
    let mut memory = Memory::new(call).expect("memory");
    if mode == Mode::Tangent {
        set_directions(call, &mut memory, direction);
    }
    let mut workspace = vec![0xaa_u8; space.bytes];
    let signatures: Vec<DerivedSignature> =
        ids.iter().map(|&id| module.signature(id).expect("derived").clone()).collect();
    let jit = &*module;
    // Only what has no bound may grow.
    let growing = Growing { most: space.bytes as i64, asked: false };
    let given = space.given.filter(|_| signatures[0].param(ParamRole::Grow).is_some()).unwrap_or(space.bytes);
    let mut caller = Caller { module: jit, call, workspace: &mut workspace, given, growing, direction };
    let failed =
        |out: &[(ResultRole, DataValue)]| out.iter().any(|r| r.0 == ResultRole::Status && r.1 != DataValue::I32(0));
    // Where all cases are run there are some that trap, which ends the process.
    if budget(true, false) && !ends(|| caller.run_all(&doors, &signatures, &memory)) {
        tally.trapped += 1;
        return Err(AdError::Usage("a trap".to_owned()));
    }
    let mut out = caller.run(doors[0], &signatures[0], &memory);
    if failed(&out) {
        let all_nan = out.iter().all(|(_, v)| match v {
            DataValue::F64(x) => x.is_nan(),
            DataValue::F32(x) => x.is_nan(),
            _ => true,
        });
        assert!(all_nan, "floats of a run that does not fit are no numbers");
        return Ok(None);
    }
    if mode == Mode::Split {
        let first = caller.run(doors[1], &signatures[1], &memory);
        if failed(&first) {
            return Ok(None);
        }
        // Again, from the same record.
        memory.reset_shadows(call);
        for &s in &shadows {
            let (at, n) = jit.get_finalized_data(s);
            // SAFETY: data of the module, which nothing else uses.
            unsafe { std::slice::from_raw_parts_mut(at.cast_mut(), n) }.fill(0);
        }
        out.extend(caller.run(doors[1], &signatures[1], &memory));
    }
    let (mut values, mut derivatives) = (Vec::new(), BTreeMap::new());
    for (role, v) in out {
        match role {
            ResultRole::Value(_) => values.push(v),
            ResultRole::Cotangent(i) | ResultRole::Tangent(i) => drop(derivatives.insert(i, v)),
            ResultRole::Shadow(_) | ResultRole::Status => {}
        }
    }
    Ok(Some(Found { values, derivatives, memory, grown: caller.growing.asked }))
}

fn compare(tally: &mut Tally, call: &Invocation, name: &str, wanted: &Found, found: &Found) {
    tally.compared += 1;
    let mut wrong = |what: String| tally.wrong.push(format!("{name}: {what}"));
    if let Some(damage) = found.memory.damage() {
        wrong(damage);
    }
    let bits = |v: &DataValue, ty: Type| from_data(v, ty);
    for (i, (is, want)) in found.values.iter().zip(&wanted.values).enumerate() {
        let (a, b) = (bits(is, call.returns[i]), bits(want, call.returns[i]));
        // The run time has a few functions of C's of its own.
        let near = |a: f64, b: f64| (a - b).abs() <= 1e-13 * b.abs();
        if !a.same_bits(&b) && !a.nums().iter().zip(b.nums()).all(|(a, b)| near(a.as_f64(), b.as_f64())) {
            wrong(format!("result {i}: {is}, not {want}"));
        }
    }
    let single = |ty: Type| ty.lane_type().bits() == 32;
    let close = |is: f64, want: f64, tol: f64| {
        is == want || is.is_nan() && want.is_nan() || (is - want).abs() <= tol * want.abs().max(1.0)
    };
    for (i, want) in &wanted.derivatives {
        let ty = want.ty();
        let Some(is) = found.derivatives.get(i) else {
            wrong(format!("derivative {i} is missing"));
            continue;
        };
        let tol = if single(ty) { 1e-5 } else { 1e-12 };
        let (a, b) = (bits(is, ty), bits(want, ty));
        if a.nums().iter().zip(b.nums()).any(|(a, b)| !close(a.as_f64(), b.as_f64(), tol)) {
            wrong(format!("derivative {i}: {is}, not {want}"));
        }
    }
    for i in 0..call.args.len() {
        let (Some(is), Some(want)) = (found.memory.buffer(i), wanted.memory.buffer(i)) else { continue };
        if is.primal.bytes() != want.primal.bytes() && !call.specs[i].promises.no_need && is.elem.is_float() {
            wrong(format!("buffer {i}: {:?}, not {:?}", is.primal.bytes(), want.primal.bytes()));
        }
        if call.specs[i].activity == ArgActivity::Duplicated && is.elem.is_float() {
            let tol = if is.elem.bytes() == 4 { 1e-5 } else { 1e-12 };
            let pairs =
                decode_all(is.elem, is.shadow.bytes()).into_iter().zip(decode_all(want.elem, want.shadow.bytes()));
            for (k, (a, b)) in pairs.enumerate() {
                if !close(a.as_f64(), b.as_f64(), tol) {
                    wrong(format!("shadow {i}[{k}]: {}, not {}", a.as_f64(), b.as_f64()));
                }
            }
        }
    }
}
