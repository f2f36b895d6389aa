//! Second derivatives in a module of Cranelift's, for each call of `cases`, against
//! [`HessianRule`], which has other tests: the tangent of the gradient, and the gradient of the
//! gradient, whose products with the same vector are the same.

use std::collections::BTreeMap;

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::cranelift_codegen::ir::Type;
use brolga::second::{ArgDirection, HessianProducts};
use brolga::{Arg, ArgActivity, HessianRule, Options, ResultActivity};
use brolga_driver::noise::Noise;
use brolga_driver::text::ElemType;
use brolga_driver::value::{Num, decode_all, from_data, to_data};
use brolga_driver::{File, Invocation, Memory};
use brolga_ir::panics;
use brolga_module::{
    AdError, AdModule, DerivedSignature, ParamActivity, ParamRole, ParamSpec, ResultRole, ReturnActivity, Spec,
    StructLayout,
};
use brolga_testing::module::{entry, load};
use cranelift_jit::JITModule;
use cranelift_module::FuncId;
use ir_tests::cases::at_least;

const ROOM: usize = 1 << 18;

#[derive(Default)]
struct Tally {
    compared: usize,
    recording: usize,
    refused: BTreeMap<String, usize>,
    wrong: Vec<String>,
}

/// What is behind a pointer, and what belongs to it.
#[derive(Clone)]
struct Block {
    primal: Vec<u8>,
    shadow: Vec<u8>,
    direction: Vec<u8>,
    product: Vec<u8>,
}

/// One call in memory of its own.
struct Run<'a> {
    call: &'a Invocation,
    /// By argument: memory of pointers, zero-filled where a constant pointer has no other.
    blocks: Vec<Option<Block>>,
    args: Vec<DataValue>,
    directions: Vec<Option<DataValue>>,
}

/// Cotangents and products of the arguments.
type Found = (Vec<Option<DataValue>>, Vec<Option<DataValue>>);

impl<'a> Run<'a> {
    /// `None` where arguments share memory.
    fn new(call: &'a Invocation) -> Option<Self> {
        let memory = Memory::new(call).ok()?;
        let mut noise = Noise::new(11);
        let (mut blocks, mut args, mut directions) = (vec![], vec![], vec![]);
        for (i, spec) in call.specs.iter().enumerate() {
            let ty = call.params[i];
            let buffer = memory.buffer(i);
            if buffer.is_none() && (spec.activity == ArgActivity::Duplicated || memory.shadow(i).is_some()) {
                return None;
            }
            let mut random = |bytes: &mut Vec<u8>, elem: ElemType| {
                if elem.is_float() {
                    for at in bytes.chunks_exact_mut(elem.bytes()) {
                        Num::F64(noise.unit()).encode(elem, at);
                    }
                }
            };
            blocks.push(buffer.map(|b| {
                let primal = b.primal.bytes().to_vec();
                let mut direction = vec![0; primal.len()];
                random(&mut direction, b.elem);
                let product = vec![0; primal.len()];
                Block { shadow: b.shadow.bytes().to_vec(), primal, direction, product }
            }));
            args.push(memory.values()[i].clone());
            let is_active = spec.activity == ArgActivity::Active;
            directions.push(if is_active { Some(to_data(ty, |_| Num::F64(noise.unit()))?) } else { None });
        }
        Some(Self { call, blocks, args, directions })
    }

    fn arg(&mut self, i: usize) -> DataValue {
        match &mut self.blocks[i] {
            Some(b) => DataValue::I64(b.primal.as_mut_ptr() as i64),
            None => self.args[i].clone(),
        }
    }

    /// What the facade computes.
    fn reference(&mut self, file: &File) -> Option<Found> {
        let call = self.call;
        let rule = HessianRule::new(&file.program, &call.request(), &Options::full()).ok()?;
        let (mut args, mut along) = (vec![], vec![]);
        for i in 0..call.args.len() {
            let value = self.arg(i);
            let duplicated = call.specs[i].activity == ArgActivity::Duplicated;
            let block = self.blocks[i].as_mut().filter(|_| duplicated);
            let moves = |b: &mut Block| ArgDirection::Memory {
                tangent: b.direction.as_mut_ptr() as u64,
                product: b.product.as_mut_ptr() as u64,
            };
            let shadow = block.as_ref().map_or(0, |b| b.shadow.as_ptr() as u64);
            let still = || self.directions[i].clone().map_or(ArgDirection::Still, ArgDirection::Value);
            along.push(block.map_or_else(still, moves));
            args.push(Arg { value, shadow, ..Arg::new(DataValue::I64(0)) });
        }
        let mut out = HessianProducts::default();
        // SAFETY: blocks are as long as the call says.
        let run = unsafe { rule.product(&args, &along, &call.seeds, &mut out) };
        run.ok()?;
        Some((out.cotangents, out.products))
    }
}

/// The gradient alone of a call.
fn gradient(call: &Invocation, in_struct: bool) -> Spec {
    let request = call.request();
    let params = request.args.iter().map(|s| ParamSpec {
        activity: match s.activity {
            ArgActivity::Const => ParamActivity::Const,
            ArgActivity::Active => ParamActivity::Active,
            ArgActivity::Duplicated if s.promises.no_need => ParamActivity::DuplicatedOnly,
            ArgActivity::Duplicated => ParamActivity::Duplicated,
        },
        elem: s.elem,
        noalias: s.promises.noalias,
        consumed: None,
    });
    let results = call.returns.iter().enumerate().map(|(i, ty)| {
        let is_float = ty.lane_type().is_float() && matches!(ty.lane_type().bits(), 32 | 64);
        match is_float && request.results.get(i) != Some(&ResultActivity::Const) {
            true => ReturnActivity::ActiveOnly,
            false => ReturnActivity::Omitted,
        }
    });
    Spec { struct_of_results: in_struct, ..Spec::gradient(params).results(results.collect::<Vec<_>>()) }
}

/// What is asked of a gradient: all that moves, moves.
fn again(call: &Invocation, gradient: &DerivedSignature, forward: bool) -> Spec {
    let params = gradient.params.iter().map(|role| match *role {
        ParamRole::Primal(i) | ParamRole::Shadow(i) => match (call.specs[i].activity, forward) {
            (ArgActivity::Const, _) => ParamActivity::Const,
            (_, true) => ParamActivity::Dual,
            (ArgActivity::Active, false) => ParamActivity::Active,
            (ArgActivity::Duplicated, false) => ParamActivity::Duplicated,
        },
        ParamRole::Workspace | ParamRole::Results if forward => ParamActivity::Dual,
        ParamRole::Workspace | ParamRole::Results => ParamActivity::Duplicated,
        _ => ParamActivity::Const,
    });
    let params: Vec<ParamActivity> = params.collect();
    let results = gradient.clif.returns.iter().map(|r| match (r.value_type.lane_type().is_float(), forward) {
        (false, _) => ReturnActivity::Const,
        (true, true) => ReturnActivity::Dual,
        (true, false) => ReturnActivity::Active,
    });
    let spec = if forward { Spec::tangent(params) } else { Spec::gradient(params) };
    spec.results(results.collect::<Vec<_>>())
}

#[repr(C, align(16))]
#[derive(Clone, Copy)]
struct AbiValue([u8; 16]);

#[repr(C, align(16))]
struct Space([u8; 4096]);

fn read(bytes: &[u8], ty: Type) -> DataValue {
    DataValue::read_from_slice_ne(&bytes[..ty.bytes() as usize], ty)
}

/// The same by functions of a module: whether the gradient records, and what was found.
fn embedded(file: &File, run: &mut Run<'_>, (forward, in_struct): (bool, bool)) -> Result<(bool, Found), AdError> {
    let call = run.call;
    let refused = |why: &str| AdError::Usage(why.to_owned());
    let mut module = AdModule::new(JITModule::new(brolga_testing::jit::host()));
    let Ok(Ok(loaded)) = panics::catch(|| load(&mut module, &file.program, call.func)) else {
        return Err(refused("the primal is not compiled"));
    };
    let first = module.derivative(loaded.functions[&call.symbol], &gradient(call, in_struct))?;
    let g = module.signature(first).expect("it is derived").clone();
    if in_struct && g.param(ParamRole::Workspace).is_none() {
        return Err(refused("it has no workspace"));
    }
    let second = module.derivative(first, &again(call, &g, forward))?;
    let h = module.signature(second).expect("it is derived").clone();
    let door: FuncId = entry(&mut *module, second).map_err(|e| refused(&e.to_string()))?;
    module.finalize_definitions().expect("it is linked");

    let mut results = Box::new(Space([0; 4096]));
    // The struct of the gradient's results, and its tangent or cotangents.
    let (mut of_first, mut of_first_shadow) = (Box::new(Space([0; 4096])), Box::new(Space([0; 4096])));
    let (mut tape, mut tape_shadow, mut own) = (vec![0xaa_u8; ROOM], vec![0_u8; ROOM], vec![0xaa_u8; ROOM]);
    let direction_of = |run: &mut Run<'_>, i: usize| run.directions[i].clone().expect("it is active");
    let field = |k: usize| g.layout.as_ref().expect("there is a struct").offsets[k] as usize;
    if !forward {
        for (k, (role, &ty)) in g.results.iter().zip(&g.types).enumerate() {
            if let (ResultRole::Cotangent(i), true) = (role, g.layout.is_some()) {
                let n = ty.bytes() as usize;
                direction_of(run, *i).write_to_slice_ne(&mut of_first_shadow.0[field(k)..][..n]);
            }
        }
    }
    let mut abi_values = vec![AbiValue([0; 16]); h.params.len().max(h.results.len())];
    for (role, abi_value) in h.params.iter().zip(&mut abi_values) {
        let of_block = |run: &mut Run<'_>, i: usize, f: fn(&mut Block) -> &mut Vec<u8>| {
            DataValue::I64(f(run.blocks[i].as_mut().expect("it is memory")).as_mut_ptr() as i64)
        };
        let v = match *role {
            ParamRole::Primal(k) => match g.params[k] {
                ParamRole::Primal(i) => run.arg(i),
                ParamRole::Shadow(i) => of_block(run, i, |b| &mut b.shadow),
                ParamRole::Seed(i) => call.seeds[i].clone(),
                ParamRole::Workspace => DataValue::I64(tape.as_mut_ptr() as i64),
                ParamRole::WorkspaceBytes => DataValue::I64(ROOM as i64),
                ParamRole::Results => DataValue::I64(of_first.0.as_mut_ptr() as i64),
                role => unreachable!("{role:?} of a gradient"),
            },
            // In reverse mode the cotangents of shadows are the vector, and those of what is
            // differentiated are the product.
            ParamRole::Shadow(k) => match (g.params[k], forward) {
                (ParamRole::Primal(i), true) | (ParamRole::Shadow(i), false) => of_block(run, i, |b| &mut b.direction),
                (ParamRole::Shadow(i), true) | (ParamRole::Primal(i), false) => of_block(run, i, |b| &mut b.product),
                (ParamRole::Workspace, _) => DataValue::I64(tape_shadow.as_mut_ptr() as i64),
                _ => DataValue::I64(of_first_shadow.0.as_mut_ptr() as i64),
            },
            ParamRole::Tangent(k) => match g.params[k] {
                ParamRole::Primal(i) => direction_of(run, i),
                _ => unreachable!("seeds are constant"),
            },
            ParamRole::Seed(k) => match g.results[k] {
                ResultRole::Cotangent(i) => direction_of(run, i),
                _ => unreachable!("there are cotangents only"),
            },
            ParamRole::Workspace => DataValue::I64(own.as_mut_ptr() as i64),
            ParamRole::WorkspaceBytes => DataValue::I64(ROOM as i64),
            ParamRole::Results => DataValue::I64(results.0.as_mut_ptr() as i64),
            ParamRole::Grow | ParamRole::GrowContext => unreachable!("it was not asked for"),
        };
        v.write_to_slice_ne(&mut abi_value.0[..v.ty().bytes() as usize]);
    }
    let code = module.get_finalized_function(door);
    // SAFETY: an entry point of one pointer, to as many ABI values as there are arguments or
    // results.
    let code: extern "C" fn(*mut AbiValue) = unsafe { std::mem::transmute(code) };
    code(abi_values.as_mut_ptr());

    let of_first = g.layout.as_ref().map(|l| (l, &of_first.0[..], &of_first_shadow.0[..]));
    let of_second = h.results.iter().enumerate().map(|(k, role)| {
        let ty = h.types[k];
        let value = match &h.layout {
            Some(l) => read(&results.0[l.offsets[k] as usize..], ty),
            None => read(&abi_values[k].0, ty),
        };
        (*role, value)
    });
    let found = collected(call.args.len(), &g, of_first, of_second, forward);
    // SAFETY: nothing of it runs, and no address of it is kept.
    unsafe { module.into_inner().free_memory() };
    Ok((g.param(ParamRole::Workspace).is_some(), found))
}

/// Cotangents and products, from the gradient's struct of results with its shadow, if it has one,
/// and the results of the second derivative.
fn collected(
    n: usize,
    g: &DerivedSignature,
    of_first: Option<(&StructLayout, &[u8], &[u8])>,
    of_second: impl Iterator<Item = (ResultRole, DataValue)>,
    forward: bool,
) -> Found {
    let (mut cotangents, mut products) = (vec![None; n], vec![None; n]);
    if let Some((layout, values, shadow)) = of_first {
        for ((role, &ty), &at) in g.results.iter().zip(&g.types).zip(&layout.offsets) {
            let at = at as usize;
            match role {
                ResultRole::Cotangent(i) => {
                    cotangents[*i] = Some(read(&values[at..], ty));
                    if forward {
                        products[*i] = Some(read(&shadow[at..], ty));
                    }
                }
                _ => assert_eq!(read(&values[at..], ty), DataValue::I32(0), "it fits"),
            }
        }
    }
    for (role, v) in of_second {
        let of = |k: usize| match g.results[k] {
            ResultRole::Cotangent(i) => Some(i),
            _ => None,
        };
        match role {
            ResultRole::Status => assert_eq!(v, DataValue::I32(0), "it fits"),
            ResultRole::Value(k) => match of(k) {
                Some(i) => cotangents[i] = Some(v),
                None => assert_eq!(v, DataValue::I32(0), "it fits"),
            },
            ResultRole::Tangent(k) => products[of(k).expect("it has a tangent")] = Some(v),
            ResultRole::Cotangent(k) => match g.params[k] {
                ParamRole::Primal(i) => products[i] = Some(v),
                _ => unreachable!("seeds are constant"),
            },
            ResultRole::Shadow(_) => unreachable!("no pointer is returned"),
        }
    }
    (cotangents, products)
}

fn same(is: f64, want: f64, single: bool) -> bool {
    let tol = if single { 2e-4 } else { 1e-10 };
    is == want || is.is_nan() && want.is_nan() || (is - want).abs() <= tol * want.abs().max(1.0)
}

fn compare(call: &Invocation, wanted: (&Run<'_>, &Found), is: (&Run<'_>, &Found), forward: bool) -> Vec<String> {
    let mut wrong = vec![];
    for (what, is, wanted) in [("cotangent", &is.1.0, &wanted.1.0), ("product", &is.1.1, &wanted.1.1)] {
        for (i, want) in wanted.iter().enumerate() {
            let (Some(want), is) = (want, &is[i]) else { continue };
            let Some(is) = is else {
                wrong.push(format!("{what} {i} is missing"));
                continue;
            };
            let ty = call.params[i];
            let (a, b) = (from_data(is, ty), from_data(want, ty));
            let single = ty.lane_type().bits() == 32;
            if a.nums().iter().zip(b.nums()).any(|(a, b)| !same(a.as_f64(), b.as_f64(), single)) {
                wrong.push(format!("{what} {i}: {is}, not {want}"));
            }
        }
    }
    for (i, (a, b)) in is.0.blocks.iter().zip(&wanted.0.blocks).enumerate() {
        let (Some(a), Some(b)) = (a, b) else { continue };
        let elem = Memory::new(call).expect("memory").buffer(i).expect("a buffer").elem;
        if call.specs[i].activity != ArgActivity::Duplicated || !elem.is_float() {
            continue;
        }
        let mut all = vec![("shadow", &a.shadow, &b.shadow), ("product", &a.product, &b.product)];
        if forward {
            all.push(("tangent", &a.direction, &b.direction));
        }
        for (what, a, b) in all {
            for (k, (a, b)) in decode_all(elem, a).into_iter().zip(decode_all(elem, b)).enumerate() {
                if !same(a.as_f64(), b.as_f64(), elem.bytes() == 4) {
                    wrong.push(format!("{what} {i}[{k}]: {}, not {}", a.as_f64(), b.as_f64()));
                }
            }
        }
    }
    wrong
}

fn all_calls(forward: bool, in_struct: bool, least: usize) {
    let mut tally = Tally::default();
    let search = 2 * usize::from(forward) + usize::from(in_struct);
    for line in ir_tests::cases::lines(&["errors", "real", "nested"], search) {
        let (file, call) = (&line.file, &line.call);
        let of_the_run_time = |symbol: &str| symbol.starts_with("brolga_");
        if file.program.data.values().any(|d| d.writable)
            || file.program.funcs.values().any(|f| of_the_run_time(&f.symbol))
        {
            continue;
        }
        // Where differences say nothing, the two orders may see two sides of a kink.
        if line.no_differences && !forward {
            continue;
        }
        let Some(mut wanted) = Run::new(call).filter(|_| call.memory == brolga::MemoryMode::Leave) else {
            continue;
        };
        // In reverse mode what a function writes has cotangents in place of directions.
        let writes = call.specs.iter().any(|s| s.activity == ArgActivity::Duplicated) && !forward;
        let mut run = Run::new(call).expect("as before");
        let Some(found) = wanted.reference(file) else { continue };
        let written = wanted.blocks.iter().zip(&run.blocks).any(|(a, b)| match (a, b) {
            (Some(a), Some(b)) => a.primal != b.primal || a.direction != b.direction,
            _ => false,
        });
        if writes && written {
            continue;
        }
        match embedded(file, &mut run, (forward, in_struct)) {
            Ok((recording, is)) => {
                tally.compared += 1;
                tally.recording += usize::from(recording);
                let wrong = compare(call, (&wanted, &found), (&run, &is), forward);
                tally.wrong.extend(wrong.into_iter().map(|w| format!("{}: {w}", line.name())));
            }
            Err(AdError::Diagnostics(d)) => {
                let why = format!("{} {} {:?}", d.0[0].code, d.0[0].message, d.0[0].notes.first());
                *tally.refused.entry(why).or_default() += 1;
            }
            Err(e) => *tally.refused.entry(e.to_string()).or_default() += 1,
        }
    }
    println!("{} compared, of which {} have a workspace", tally.compared, tally.recording);
    tally.refused.iter().for_each(|(why, n)| println!("  {n} refused: {why}"));
    tally.wrong.iter().for_each(|w| println!("  WRONG: {w}"));
    assert!(tally.wrong.is_empty(), "{} are wrong", tally.wrong.len());
    assert!(tally.compared >= at_least(least), "{}", tally.compared);
}

#[test]
fn forward_over_reverse() {
    all_calls(true, false, 1621);
}

#[test]
fn reverse_over_reverse() {
    all_calls(false, false, 1275);
}

/// A status beside floats, in memory of the caller's.
#[test]
fn forward_over_reverse_with_a_workspace_and_a_struct() {
    all_calls(true, true, 364);
}

#[test]
fn reverse_over_reverse_with_a_workspace_and_a_struct() {
    all_calls(false, true, 267);
}
