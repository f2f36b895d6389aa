//! The four compositions of forward and reverse mode, for each call of `cases`, against the oracle
//! of the *primal* ([`on_oracle`]), which knows no derived text.
//!
//! With `L = Σ seed · result + Σ initial shadow · final contents`, a direction `u` and another one
//! `v`, each gives a part of the Hessian `H` of `L`. Memory takes part four times: the primal, the
//! shadow of the inner derivative, and the shadows of both of the outer one.
//!
//! | outer over inner | shadow of the inner | shadow of the primal | shadow of the shadow | gives |
//! |---|---|---|---|---|
//! | forward over reverse | initial shadow → `∇L` | `u` | 0 → **`Hu`** | `Hu` |
//! | reverse over reverse | initial shadow → `∇L` | 0 → **`Hu`** | `u` | `Hu` |
//! | reverse over forward | `u` | 0 → **`Hu`** | initial shadow | `Hu` |
//! | forward over forward | `u` | `v` | 0, read with the initial shadow | **`v·Hu`** |

use std::collections::{BTreeMap, BTreeSet};

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::jit::host_isa;
use brolga::{Arg, ArgActivity, ArgSpec, DerivedRule, Effort, Elem, Error, Mode, Options, Promises, Request};
use brolga_driver::check::second::on_oracle;
use brolga_driver::inputs::{Input, inputs};
use brolga_driver::memory::Block;
use brolga_driver::noise::Noise;
use brolga_driver::value::{Num, decode_all, from_data, to_data};
use brolga_driver::{Directive, File, Invocation, Wasm, bind, compare};
use brolga_runtime::Workspace;
use brolga_testing::budget::{Depth, depth};
use brolga_transform::nested::{self, NestedDerivative, NestedParam, NestedResult};
use brolga_wasm::Instance;
use ir_tests::cases::at_least;

/// So many results may be no numbers where the oracle has one, in each composition: at kinks and
/// poles of the first derivative, where there is none.
const POLES: usize = 9;
/// The same of the derivative of a tangent: where a root is zero, its slope is infinite.
const POLES_OF_TANGENTS: usize = 33;

/// What each composition is compared on, and the cases that have it. (Modules have tests of their
/// own.)
const KINDS: [(&str, &str); 12] = [
    ("scalar", "scalar/"),
    ("f32", ""),
    ("vectors", "vector/"),
    ("loop", "control/loops.clif"),
    ("br_table", "control/br_table.clif"),
    ("memory", "memory/"),
    ("aliasing", "memory/aliases.clif"),
    ("calls", "calls/direct.clif"),
    ("recursion", "calls/recursive.clif"),
    ("indirect", "calls/indirect.clif"),
    ("libm", "scalar/libm_f64.clif"),
    ("heap", "memory/heap.clif"),
];

#[derive(Default)]
struct Tally {
    compared: usize,
    /// By kind: how many results of what calls were compared.
    kinds: BTreeMap<&'static str, usize>,
    refused: usize,
    trapped: BTreeSet<String>,
    wrong: Vec<String>,
    poles: Vec<String>,
}

fn all_calls(outer: Mode, inner: Mode) {
    let mut tally = Tally::default();
    let search = 2 * (outer as usize) + inner as usize;
    for line in ir_tests::cases::lines(&["errors", "real"], search) {
        of_call(&mut tally, &line.file, &line.path, &line.call, &line.name(), (outer, inner));
    }
    tally.print((outer, inner));
    let Tally { compared, kinds, trapped, wrong, poles, .. } = &tally;
    for (kind, _) in KINDS {
        // Other runs look at some lines only.
        let seen = kinds.get(kind).is_some_and(|n| *n > 1);
        assert!(seen || depth() != Depth::Full, "{kind} is not compared: {kinds:?}");
    }
    assert!(wrong.is_empty(), "{} are wrong", wrong.len());
    let most = if inner == Mode::Tangent { POLES_OF_TANGENTS } else { POLES };
    assert!(poles.len() <= most, "{} at poles, not {most} at most", poles.len());
    // A tangent whose last digits are taken off is not followed.
    let most = if (outer, inner) == (Mode::Combined, Mode::Tangent) { 7 } else { 4 };
    assert!(trapped.len() <= most, "{} trap", trapped.len());
    assert!(*compared > at_least(1000), "{compared}");
}

/// The same of modules. What the inner derivative takes as shadows lies in the instance's, and what
/// the outer one takes in the region of second derivatives.
fn all_modules(outer: Mode, inner: Mode) {
    let mut tally = Tally::default();
    for name in ir_tests::NESTED_MODULES {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("wasm").join(name);
        calls_of(&mut tally, &path, (outer, inner));
    }
    tally.print((outer, inner));
    let Tally { compared, refused, trapped, wrong, poles, .. } = &tally;
    assert!(wrong.is_empty() && poles.is_empty() && trapped.is_empty());
    // Integrands by function pointer, without inlining.
    assert!(*refused <= 3, "{refused}");
    assert!(*compared > if (outer, inner) == (Mode::Tangent, Mode::Tangent) { 15 } else { 300 }, "{compared}");
}

fn calls_of(tally: &mut Tally, path: &std::path::Path, of: (Mode, Mode)) {
    let file = File::read(path).expect("it is read");
    let name = path.file_stem().expect("a name").display().to_string();
    for d in &file.directives {
        let Directive::Grad(line) = d else { continue };
        let Ok(call) = file.bind(&line.text, &line.call, &line.clauses) else { continue };
        of_call(tally, &file, path, &call, &format!("{name}/{}", line.text), of);
    }
}

fn of_call(tally: &mut Tally, file: &File, path: &std::path::Path, call: &Invocation, name: &str, of: (Mode, Mode)) {
    let (place, before) = (path.display().to_string(), tally.compared);
    judge(tally, file, call, name, of);
    for (kind, part) in KINDS {
        let has = if kind == "f32" { compare::uses_f32(&file.program, call.func) } else { place.contains(part) };
        *tally.kinds.entry(kind).or_default() += if has { tally.compared - before } else { 0 };
    }
}

impl Tally {
    fn print(&self, (outer, inner): (Mode, Mode)) {
        let Tally { compared, kinds, refused, trapped, wrong, poles } = self;
        println!("{outer:?} over {inner:?}: {compared} compared, {refused} refused, {} trapped", trapped.len());
        println!("  {kinds:?}");
        trapped.iter().for_each(|t| println!("  trap: {t}"));
        poles.iter().for_each(|p| println!("  at a pole: {p}"));
        wrong.iter().for_each(|p| println!("  WRONG: {p}"));
    }
}

#[test]
fn forward_over_reverse() {
    all_calls(Mode::Tangent, Mode::Combined);
}

#[test]
fn forward_over_reverse_in_modules() {
    all_modules(Mode::Tangent, Mode::Combined);
}

#[test]
fn reverse_over_reverse() {
    all_calls(Mode::Combined, Mode::Combined);
}

#[test]
fn reverse_over_reverse_in_modules() {
    all_modules(Mode::Combined, Mode::Combined);
}

#[test]
fn reverse_over_forward() {
    all_calls(Mode::Combined, Mode::Tangent);
}

#[test]
fn reverse_over_forward_in_modules() {
    all_modules(Mode::Combined, Mode::Tangent);
}

#[test]
fn forward_over_forward() {
    all_calls(Mode::Tangent, Mode::Tangent);
}

#[test]
fn forward_over_forward_in_modules() {
    all_modules(Mode::Tangent, Mode::Tangent);
}

fn judge(tally: &mut Tally, file: &File, call: &Invocation, name: &str, of: (Mode, Mode)) {
    let inputs = inputs(call);
    let mut noise = Noise::new(3);
    let mut direction = || -> Vec<f64> { inputs.iter().map(|_| noise.unit()).collect() };
    let (u, v) = (direction(), direction());
    let Ok([_, hu]) = on_oracle(&file.program, call, &inputs, &u) else { return };
    let nested = match composed(file, call, of) {
        Ok(nested) => nested,
        Err(Error::Diagnostics(_)) => return tally.refused += 1,
        Err(e) => panic!("{name}: {e}"),
    };
    let found = match (Run { call, inputs: &inputs, of, u: &u, v: &v, nested: &nested.0 }).run(&nested.1) {
        Ok(found) => found,
        Err(Error::Trap(t)) => {
            tally.trapped.insert(format!("{name}: {t}"));
            return;
        }
        Err(e) => panic!("{name}: {e}"),
    };
    let single = compare::uses_f32(&file.program, call.func);
    let tol = if single { 1e-4 } else { 1e-9 };
    let wanted = if of == (Mode::Tangent, Mode::Tangent) {
        vec![v.iter().zip(&hu).map(|(v, h)| v * h).sum()]
    } else {
        hu.clone()
    };
    let scale = hu.iter().map(|x| x.abs()).filter(|x| x.is_finite()).fold(1.0, f64::max);
    for (i, (is, wanted)) in found.iter().zip(&wanted).enumerate() {
        tally.compared += 1;
        let same = (is - wanted).abs() <= tol * scale;
        if wanted.is_finite() && !same {
            let found = format!("{name}: entry {i}: {is}, not {wanted}");
            if is.is_finite() { tally.wrong.push(found) } else { tally.poles.push(found) }
        }
    }
}

/// The inner derivative, and the rule of the outer one.
fn composed(
    file: &File,
    call: &Invocation,
    (outer, inner): (Mode, Mode),
) -> Result<(NestedDerivative, DerivedRule), Error> {
    let request = call.request();
    let options = |mode| Options { mode, effort: Effort::Quick, ..file.options() }.settled();
    let isa = host_isa(&options(inner))?;
    let nest = if inner == Mode::Tangent { nested::tangent } else { nested::gradient };
    let nested = nest(&file.program, &request, &options(inner), &*isa).map_err(Error::Diagnostics)?;
    let args = nested.params.iter().map(|role| match *role {
        NestedParam::Primal(i) | NestedParam::Shadow(i) => ArgSpec { promises: Promises::default(), ..request.args[i] },
        NestedParam::Seed(_) | NestedParam::Direction(_) => ArgSpec::CONST,
        NestedParam::Workspace => ArgSpec::duplicated(Elem::Pointer),
    });
    let again = Request::new(nested.func, args);
    let rule = DerivedRule::new(&nested.program, &again, &options(outer))?;
    Ok((nested, rule))
}

/// A number of an argument, and a lane of it.
type Entry = ((usize, usize), f64);

/// One call of a composition.
struct Run<'a> {
    call: &'a Invocation,
    inputs: &'a [Input],
    of: (Mode, Mode),
    u: &'a [f64],
    v: &'a [f64],
    nested: &'a NestedDerivative,
}

/// An instance that holds the buffers of a call.
struct Inside {
    instance: Instance,
    /// Where buffers lie.
    at: Vec<Option<u32>>,
    /// The memory of the instance, as one buffer has it: addresses.
    whole: [u64; 4],
}

impl Inside {
    /// An instance, with what blocks hold.
    fn new(call: &Invocation, wasm: &Wasm, blocks: &[Option<Four>]) -> Self {
        let (mut instance, at) = wasm.place(call).expect("there is room");
        for (four, at) in blocks.iter().zip(&at) {
            let (Some(four), Some(at)) = (four, at) else { continue };
            let place = *at as usize..*at as usize + four.primal.bytes().len();
            instance.shadow_mut()[place.clone()].copy_from_slice(four.inner.bytes());
            instance.tangents_mut(1).expect("there is room")[place.clone()].copy_from_slice(four.of_primal.bytes());
            instance.products_mut(1).expect("there is room")[place].copy_from_slice(four.of_inner.bytes());
        }
        let [of_primal, of_inner] = [
            instance.tangents_mut(1).expect("there is room").as_ptr() as u64,
            instance.products_mut(1).expect("there is room").as_ptr() as u64,
        ];
        let whole = [instance.vmctx() as u64, instance.shadow_vmctx() as u64, of_primal, of_inner];
        Self { instance, at, whole }
    }

    /// What is left, in blocks.
    fn take(&mut self, blocks: &mut [Option<Four>]) {
        for (four, at) in blocks.iter_mut().zip(&self.at) {
            let (Some(four), Some(at)) = (four, at) else { continue };
            let place = *at as usize..*at as usize + four.primal.bytes().len();
            let tangents = self.instance.tangents_mut(1).expect("it is there");
            four.of_primal.bytes_mut().copy_from_slice(&tangents[place.clone()]);
            four.of_inner.bytes_mut().copy_from_slice(&self.instance.products_left(1)[place]);
        }
    }
}

/// The memory behind one buffer: the primal, and what the module's table calls shadows.
struct Four {
    primal: Block,
    inner: Block,
    of_primal: Block,
    of_inner: Block,
}

impl Run<'_> {
    /// A direction as the contents of a buffer.
    fn contents(&self, of: usize, direction: &[f64]) -> Vec<u8> {
        let (_, elem, data, _) = self.call.buffer(of).expect("it is a buffer");
        let mut bytes = vec![0; data.len()];
        for (input, x) in self.inputs.iter().zip(direction) {
            if self.call.buffer(input.arg).is_some_and(|b| b.0 == of) {
                let (n, at) = (elem.bytes(), input.index.expect("an element"));
                Num::F64(*x).encode(elem, &mut bytes[at * n..(at + 1) * n]);
            }
        }
        bytes
    }

    /// The same as a value.
    fn value(&self, arg: usize, direction: &[f64]) -> DataValue {
        let lanes: Vec<f64> =
            self.inputs.iter().zip(direction).filter(|(i, _)| i.arg == arg).map(|(_, x)| *x).collect();
        to_data(self.call.params[arg], |i| Num::F64(lanes[i])).expect("an active argument is a float")
    }

    fn buffers(&self) -> Vec<Option<Four>> {
        let (outer, inner) = self.of;
        let four = |i: usize| {
            let (owner, _, data, shadow) = self.call.buffer(i).filter(|b| b.0 == i)?;
            let zeros = vec![0; data.len()];
            let u = self.contents(owner, self.u);
            let [in_inner, of_primal, of_inner] = match (outer == Mode::Tangent, inner == Mode::Tangent) {
                (true, false) => [shadow.to_vec(), u, zeros],
                (false, false) => [shadow.to_vec(), zeros, u],
                (false, true) => [u, zeros, shadow.to_vec()],
                (true, true) => [u, self.contents(owner, self.v), zeros],
            };
            let [inner, of_primal, of_inner] = [in_inner, of_primal, of_inner].map(|b| Block::new(&b));
            Some(Four { primal: Block::new(data), inner, of_primal, of_inner })
        };
        (0..self.call.args.len()).map(four).collect()
    }

    /// What the outer derivative is called with.
    fn arguments(&self, blocks: &[Option<Four>], inside: Option<&Inside>, tape: &mut Workspace) -> Vec<Arg> {
        let hidden = self.call.hidden();
        let block = |i: usize| blocks[self.call.buffer(i)?.0].as_ref();
        let is_dup = |i: usize| self.call.specs[i].activity == ArgActivity::Duplicated;
        let mut arg = |role: &NestedParam| match (*role, inside) {
            (NestedParam::Primal(0), Some(inside)) => Arg::duplicated(inside.whole[0], inside.whole[2]),
            (NestedParam::Shadow(0), Some(inside)) => Arg::duplicated(inside.whole[1], inside.whole[3]),
            (NestedParam::Primal(i), Some(inside)) if self.call.buffer(i - hidden).is_some() => {
                let (owner, ..) = self.call.buffer(i - hidden).expect("it is a buffer");
                Arg::new(DataValue::I32(inside.at[owner].expect("it has been placed") as i32))
            }
            (NestedParam::Primal(i), _) => match (block(i - hidden), &self.call.args[i - hidden]) {
                (Some(b), _) if is_dup(i) => {
                    Arg::duplicated_len(b.primal.address(), b.of_primal.address(), b.primal.size())
                }
                (Some(b), _) => Arg::new(DataValue::I64(b.primal.address() as i64)),
                (None, bind::BoundArg::Value(v)) => Arg::new(v.clone()),
                (None, _) => unreachable!("a buffer has blocks"),
            },
            (NestedParam::Shadow(i), _) => {
                let b = block(i).expect("what is duplicated is a buffer");
                Arg::duplicated_len(b.inner.address(), b.of_inner.address(), b.inner.size())
            }
            (NestedParam::Seed(k), _) => Arg::new(self.call.seeds[k].clone()),
            (NestedParam::Direction(i), _) => Arg::new(self.value(i - hidden, self.u)),
            (NestedParam::Workspace, _) => Arg::duplicated(tape.address(0), tape.address(1)),
        };
        self.nested.params.iter().map(&mut arg).collect()
    }

    fn run(&self, rule: &DerivedRule) -> Result<Vec<f64>, Error> {
        let mut tape = Workspace::new(1 << 24, 2, 1).expect("there is room");
        let mut blocks = self.buffers();
        let mut inside = self.call.wasm.as_ref().map(|wasm| Inside::new(self.call, wasm, &blocks));
        let args = self.arguments(&blocks, inside.as_ref(), &mut tape);
        let entries = if self.of.0 == Mode::Tangent { self.forward(rule, &args)? } else { self.reverse(rule, &args)? };
        if let Some(inside) = &mut inside {
            inside.take(&mut blocks);
        }
        let block = |i: usize| blocks[self.call.buffer(i)?.0].as_ref();
        let is_dup = |i: usize| self.call.specs[i].activity == ArgActivity::Duplicated;
        // Products of memory.
        let of_buffer = |i: usize, index: usize| {
            let b = block(i).expect("an input in memory has blocks");
            let elem = self.call.buffer(i).expect("it is a buffer").1;
            let at = if self.of == (Mode::Tangent, Mode::Combined) { &b.of_inner } else { &b.of_primal };
            decode_all(elem, at.bytes())[index].as_f64()
        };
        if self.of == (Mode::Tangent, Mode::Tangent) {
            let mut sum = entries.iter().map(|e| e.1).sum::<f64>();
            for (i, b) in blocks.iter().enumerate() {
                let Some(b) = b.as_ref().filter(|_| is_dup(i)) else { continue };
                let (_, elem, _, shadow) = self.call.buffer(i).expect("it is a buffer");
                if elem.is_float() {
                    let pairs = decode_all(elem, b.of_inner.bytes()).into_iter().zip(decode_all(elem, shadow));
                    sum += pairs.filter(|p| p.1.as_f64() != 0.0).map(|(x, w)| x.as_f64() * w.as_f64()).sum::<f64>();
                }
            }
            return Ok(vec![sum]);
        }
        let entry = |input: &Input| match input.index.filter(|_| self.call.buffer(input.arg).is_some()) {
            Some(index) => of_buffer(input.arg, index),
            None => {
                let lane = (input.arg, input.index.unwrap_or(0));
                entries.iter().find(|e| e.0 == lane).map_or(0.0, |e| e.1)
            }
        };
        Ok(self.inputs.iter().map(entry).collect())
    }

    /// Tangents of the cotangents by argument and lane; or of the tangents, each times its seed.
    fn forward(&self, rule: &DerivedRule, args: &[Arg]) -> Result<Vec<Entry>, Error> {
        let direction = if self.of.1 == Mode::Tangent { self.v } else { self.u };
        let directions: Vec<Option<DataValue>> = self
            .nested
            .params
            .iter()
            .map(|role| match *role {
                NestedParam::Primal(i) => {
                    let i = i.checked_sub(self.call.hidden())?;
                    (self.call.specs[i].activity == ArgActivity::Active).then(|| self.value(i, direction))
                }
                _ => None,
            })
            .collect();
        let (mut values, mut tangents) = (Vec::new(), Vec::new());
        // SAFETY: pointers are to live blocks, each as large as the primal's.
        drop(unsafe { rule.tangent(args, &directions, &mut values, &mut tangents) }?);
        let mut out = Vec::new();
        for (given, t) in self.nested.results.iter().zip(&tangents) {
            let Some(t) = t else { continue };
            match *given {
                NestedResult::Value(_) | NestedResult::Shadow(_) => {}
                NestedResult::Cotangent(i) => {
                    let i = i - self.call.hidden();
                    let lanes = from_data(t, self.call.params[i]);
                    out.extend(lanes.nums().iter().enumerate().map(|(l, n)| ((i, l), n.as_f64())));
                }
                NestedResult::Tangent(k) => {
                    let ty = self.call.returns[k];
                    let (lanes, seeds) = (from_data(t, ty), from_data(&self.call.seeds[k], ty));
                    let pairs = lanes.nums().iter().zip(seeds.nums()).map(|(t, s)| [t, s].map(|n| n.as_f64()));
                    // A result that is not asked for may have any derivative.
                    out.extend(pairs.filter(|p| p[1] != 0.0).map(|[t, s]| ((0, 0), t * s)));
                }
            }
        }
        Ok(out)
    }

    /// Cotangents of the active arguments by argument and lane.
    fn reverse(&self, rule: &DerivedRule, args: &[Arg]) -> Result<Vec<Entry>, Error> {
        let ty = |given: &NestedResult| match *given {
            NestedResult::Value(k) | NestedResult::Shadow(k) | NestedResult::Tangent(k) => self.call.returns[k],
            NestedResult::Cotangent(i) => self.call.params[i - self.call.hidden()],
        };
        let seed = |given: &NestedResult| match *given {
            NestedResult::Value(_) | NestedResult::Shadow(_) => bind::zero(ty(given)),
            NestedResult::Tangent(k) => self.call.seeds[k].clone(),
            NestedResult::Cotangent(i) => self.value(i - self.call.hidden(), self.u),
        };
        let seeds: Vec<DataValue> = self.nested.results.iter().map(seed).collect();
        let (mut values, mut found) = (Vec::new(), Vec::new());
        // SAFETY: as in `forward`.
        drop(unsafe { rule.gradient(args, &seeds, &mut values, &mut found) }?);
        let mut out = Vec::new();
        for (role, ct) in self.nested.params.iter().zip(&found) {
            if let (NestedParam::Primal(i), Some(ct)) = (role, ct) {
                let i = i - self.call.hidden();
                let lanes = from_data(ct, self.call.params[i]);
                out.extend(lanes.nums().iter().enumerate().map(|(l, n)| ((i, l), n.as_f64())));
            }
        }
        Ok(out)
    }
}
