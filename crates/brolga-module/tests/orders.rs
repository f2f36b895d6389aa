//! Derivatives up to the third of functions whose gradients record an unknown number of bytes, in
//! each mix of modes, with results in registers and in structs: each order against differences of
//! the one below it, which is called as a function of all numbers that go in.

use brolga_module::ParamActivity::{Active, Const, Dual, Duplicated};
use brolga_module::{AdError, DerivedSignature, ParamActivity, ParamRole, ResultRole, ReturnActivity, Spec};
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::{Type, types};
use cranelift_module::{FuncId, Linkage};

use crate::common::{Fixture, address, double};

/// s(x, y, n) = x ↦ x·y·sin x, n times; w is the same with a single float y; g(x, y, n) is
/// ln Γ(x)·Γ(y).
const TEXT: &str = "function %s(f64, f64, i64) -> f64 {
    fn0 = %sin(f64) -> f64
block0(v0: f64, v9: f64, v1: i64):
    jump block1(v0, v1)
block1(v2: f64, v3: i64):
    brif v3, block2, block3
block2:
    v4 = call fn0(v2)
    v5 = fmul v4, v2
    v6 = fmul v5, v9
    v7 = iconst.i64 1
    v8 = isub v3, v7
    jump block1(v6, v8)
block3:
    return v2
}
function %g(f64, f64, i64) -> f64 {
    fn0 = %lgamma(f64) -> f64
    fn1 = %tgamma(f64) -> f64
block0(v0: f64, v1: f64, v2: i64):
    v3 = call fn0(v0)
    v4 = call fn1(v1)
    v5 = fmul v3, v4
    return v5
}
function %w(f64, f32, i64) -> f64 {
    fn0 = %sin(f64) -> f64
block0(v0: f64, v10: f32, v1: i64):
    v9 = fpromote.f64 v10
    jump block1(v0, v1)
block1(v2: f64, v3: i64):
    brif v3, block2, block3
block2:
    v4 = call fn0(v2)
    v5 = fmul v4, v2
    v6 = fmul v5, v9
    v7 = iconst.i64 1
    v8 = isub v3, v7
    jump block1(v6, v8)
block3:
    return v2
}";

const ROOM: usize = 1 << 17;
const ITERATIONS: i64 = 3;

/// What a parameter of one of the functions is.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Float(Type),
    /// How often the loop turns.
    Iterations,
    Room,
    RoomBytes,
    /// The struct of results of the function at a level, or a shadow of it.
    Results(usize),
}

/// A derivative, its derivative, and so on.
struct Tower {
    m: Fixture,
    ids: Vec<FuncId>,
}

/// The numbers of a parameter or a result: its own, or those of a struct.
type Numbers = Vec<f64>;

impl Tower {
    fn signature(&self, level: usize) -> &DerivedSignature {
        self.m.module.signature(self.ids[level]).expect("it is derived")
    }

    fn kind(&self, level: usize, k: usize) -> Kind {
        let s = self.signature(level);
        let ty = s.clif.params[k].value_type;
        match s.params[k] {
            _ if ty.is_float() => Kind::Float(ty),
            ParamRole::Workspace => Kind::Room,
            ParamRole::WorkspaceBytes => Kind::RoomBytes,
            ParamRole::Results => Kind::Results(level),
            ParamRole::Primal(i) | ParamRole::Shadow(i) if level > 0 => self.kind(level - 1, i),
            _ => Kind::Iterations,
        }
    }

    /// One order more, of all that moves.
    fn derive(&mut self, reverse: bool, in_struct: bool) -> Result<(), AdError> {
        let level = self.ids.len() - 1;
        let activity = |k: usize| match (self.kind(level, k), reverse) {
            (Kind::Iterations | Kind::RoomBytes, _) => Const,
            (_, false) => Dual,
            (Kind::Float(_), true) => Active,
            (_, true) => Duplicated,
        };
        let params: Vec<ParamActivity> = (0..self.signature(level).params.len()).map(activity).collect();
        let spec = if reverse { Spec::gradient(params) } else { Spec::tangent(params) };
        let spec = Spec { struct_of_results: in_struct, ..spec };
        let embedded = self.m.module.derive(self.ids[level], &spec)?;
        let of_c = ["sin", "cos", "log", "tan", "lgamma", "tgamma", "memset", "memmove"];
        assert!(embedded.imports().iter().all(|s| of_c.contains(&s.as_str())), "{:?}", embedded.imports());
        let id = self.m.module.define(&embedded, &[&format!("of_{level}")], Linkage::Local)?[0];
        self.m.door(id);
        self.ids.push(id);
        Ok(())
    }

    /// The floats in a struct of results, by types and offsets.
    fn fields(&self, level: usize) -> Vec<(Type, usize)> {
        let s = self.signature(level);
        let offsets = &s.layout.as_ref().expect("results are in a struct").offsets;
        let all = s.types.iter().zip(offsets).map(|(&ty, &at)| (ty, at as usize));
        all.filter(|f| f.0.is_float()).collect()
    }

    /// Of how many numbers a parameter of a level consists. Those of its own results do not go in.
    fn size(&self, level: usize, k: usize) -> usize {
        match self.kind(level, k) {
            Kind::Float(_) => 1,
            Kind::Results(of) if of < level => self.fields(of).len(),
            _ => 0,
        }
    }

    /// Call the function of a level with the numbers of its parameters: its results, and what is
    /// in structs of results behind its parameters then.
    fn call(&self, level: usize, numbers: &[Numbers]) -> (Vec<(ResultRole, f64)>, Vec<Numbers>) {
        let s = self.signature(level);
        let mut blocks: Vec<Vec<u8>> = s.params.iter().map(|_| vec![]).collect();
        let mut args = vec![];
        for (k, role) in s.params.iter().enumerate() {
            args.push(match self.kind(level, k) {
                Kind::Float(types::F32) => DataValue::F32((numbers[k][0] as f32).into()),
                Kind::Float(_) => double(numbers[k][0]),
                Kind::Iterations => DataValue::I64(ITERATIONS),
                Kind::RoomBytes => DataValue::I64(ROOM as i64),
                Kind::Room => {
                    // Its own may hold anything, and shadows hold zeros.
                    blocks[k] = vec![if *role == ParamRole::Workspace { 0xaa } else { 0 }; ROOM];
                    address(&mut blocks[k])
                }
                Kind::Results(of) => {
                    let fields = if of < level { self.fields(of) } else { vec![] };
                    blocks[k] = vec![0; 256];
                    for ((ty, at), x) in fields.into_iter().zip(&numbers[k]) {
                        match ty {
                            types::F32 => blocks[k][at..at + 4].copy_from_slice(&(*x as f32).to_ne_bytes()),
                            _ => blocks[k][at..at + 8].copy_from_slice(&x.to_ne_bytes()),
                        }
                    }
                    address(&mut blocks[k])
                }
            });
        }
        let out = self.m.call(self.ids[level], |role| args[s.param(role).expect("it is one")].clone());
        for (role, v) in &out {
            assert!(*role != ResultRole::Status || *v == DataValue::I32(0), "it fits");
        }
        let floats = out.into_iter().filter_map(|(role, v)| match v {
            DataValue::F64(x) => Some((role, x.as_f64())),
            DataValue::F32(x) => Some((role, x.as_f32().into())),
            _ => None,
        });
        let number = |block: &[u8], (ty, at): (Type, usize)| match ty {
            types::F32 => f32::from_ne_bytes(block[at..at + 4].try_into().expect("four bytes")).into(),
            _ => f64::from_ne_bytes(block[at..at + 8].try_into().expect("eight bytes")),
        };
        let left = |(k, block): (usize, &Vec<u8>)| match self.kind(level, k) {
            Kind::Results(of) if of < level => self.fields(of).into_iter().map(|f| number(block, f)).collect(),
            _ => vec![],
        };
        (floats.collect(), blocks.iter().enumerate().map(left).collect())
    }

    /// Compare the function of a level with differences of the one below.
    fn check(&self, level: usize, reverse: bool, noise: &mut Noise) {
        let (s, lower) = (self.signature(level), self.signature(level - 1));
        // The struct of the results of the one below is a parameter here.
        let results_param = lower.param(ParamRole::Results);
        let sizes: Vec<usize> = (0..lower.params.len()).map(|k| self.size(level - 1, k)).collect();
        let base: Vec<Numbers> =
            sizes.iter().map(|&n| noise.numbers(n).iter().map(|x| 0.9 + 0.1 * x).collect()).collect();
        // Which numbers of a parameter are doubles: those of singles have no differences.
        let doubles_of = |k: usize| -> Vec<bool> {
            match self.kind(level - 1, k) {
                Kind::Float(ty) => vec![ty == types::F64],
                Kind::Results(of) => self.fields(of).iter().map(|f| f.0 == types::F64).collect(),
                _ => vec![],
            }
        };
        let mut for_doubles =
            |which: &[bool]| -> Numbers { which.iter().map(|&d| if d { noise.unit() } else { 0.0 }).collect() };
        let along: Vec<Numbers> = (0..sizes.len()).map(|k| for_doubles(&doubles_of(k)[..sizes[k]])).collect();
        let moved = |h: f64| -> (Numbers, Vec<Numbers>) {
            let step = |(b, a): (&Numbers, &Numbers)| b.iter().zip(a).map(|(b, a)| b + h * a).collect();
            let at: Vec<Numbers> = base.iter().zip(&along).map(step).collect();
            let (returned, left) = self.call(level - 1, &at);
            (returned.into_iter().map(|r| r.1).collect(), left)
        };
        let h = 1e-5;
        let (up, down) = (moved(h), moved(-h));
        let slope =
            |a: &Numbers, b: &Numbers| -> Numbers { a.iter().zip(b).map(|(a, b)| (a - b) / (2.0 * h)).collect() };
        let of_results = slope(&up.0, &down.0);
        let of_left: Vec<Numbers> = up.1.iter().zip(&down.1).map(|(a, b)| slope(a, b)).collect();
        let doubles: Vec<bool> = lower.types.iter().filter(|t| t.is_float()).map(|t| *t == types::F64).collect();
        let weights = for_doubles(&doubles);
        let weight_of = |k: usize| if Some(k) == results_param { weights.clone() } else { for_doubles(&doubles_of(k)) };
        let of_memory: Vec<Numbers> = (0..sizes.len()).map(weight_of).collect();
        let mut result = 0;
        let numbers = s.params.iter().map(|role| match *role {
            ParamRole::Primal(k) if Some(k) == results_param => vec![0.5; weights.len()],
            ParamRole::Primal(k) => base[k].clone(),
            ParamRole::Tangent(k) => along[k].clone(),
            ParamRole::Shadow(k) if reverse => of_memory[k].clone(),
            ParamRole::Shadow(k) if Some(k) == results_param => vec![0.25; weights.len()],
            ParamRole::Shadow(k) => along[k].clone(),
            ParamRole::Seed(_) => {
                result += 1;
                vec![weights[result - 1]]
            }
            _ => vec![],
        });
        let numbers: Vec<Numbers> = numbers.collect();
        let (out, left) = self.call(level, &numbers);
        let near = |is: f64, want: f64, what: &str| {
            assert!((is - want).abs() < 2e-6 * want.abs().max(1.0), "order {}, {what}: {is}, not {want}", level + 1);
        };
        let shadow = |k: usize| &left[s.param(ParamRole::Shadow(k)).expect("memory has a shadow")];
        if reverse {
            // Seeds with differences, and cotangents with directions.
            let mut want: f64 = weights.iter().zip(&of_results).map(|(w, d)| w * d).sum();
            let mut is = 0.0;
            for (k, direction) in along.iter().enumerate().filter(|a| !a.1.is_empty()) {
                want += of_memory[k].iter().zip(&of_left[k]).map(|(w, d)| w * d).sum::<f64>();
                let found = match self.kind(level - 1, k) {
                    Kind::Float(_) => vec![of_role(&out, ResultRole::Cotangent(k))],
                    _ => shadow(k).clone(),
                };
                is += found.iter().zip(direction).map(|(c, d)| c * d).sum::<f64>();
            }
            near(is, want, "cotangents");
            results_param.iter().for_each(|&k| assert!(shadow(k).iter().all(|x| *x == 0.0), "consumed"));
            return;
        }
        let tangents: Numbers = match results_param {
            Some(k) => shadow(k).clone(),
            None => out.iter().filter(|r| matches!(r.0, ResultRole::Tangent(_))).map(|r| r.1).collect(),
        };
        assert_eq!(tangents.len(), doubles.len());
        for ((is, want), _) in tangents.iter().zip(&of_results).zip(&doubles).filter(|d| *d.1) {
            near(*is, *want, "tangents of results");
        }
        for (k, want) in of_left.iter().enumerate().filter(|l| !l.1.is_empty()) {
            for ((is, want), double) in shadow(k).iter().zip(want).zip(doubles_of(k)) {
                if double {
                    near(*is, *want, "tangents of memory");
                }
            }
        }
    }
}

fn of_role(results: &[(ResultRole, f64)], role: ResultRole) -> f64 {
    results.iter().find(|r| r.0 == role).expect("it is a result").1
}

/// Numbers between −1 and 1.
struct Noise(u64);

impl Noise {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 11) as f64 / (1_u64 << 52) as f64 - 1.0
    }

    fn numbers(&mut self, n: usize) -> Numbers {
        (0..n).map(|_| self.unit()).collect()
    }
}

/// Derivatives of a function in these modes; `true` is reverse.
fn tower(f: &str, modes: &[bool], in_struct: bool) -> Result<(), AdError> {
    let first = match modes[0] {
        true => Spec::gradient([Active, Active, Const]).results([ReturnActivity::ActiveOnly]),
        false => Spec::tangent([Dual, Dual, Const]),
    };
    let mut m = Fixture::new(TEXT, f);
    let id = m.derivative(f, &Spec { struct_of_results: in_struct, ..first });
    let mut t = Tower { m, ids: vec![id] };
    modes[1..].iter().try_for_each(|&reverse| t.derive(reverse, in_struct))?;
    t.m.finish();
    let mut noise = Noise(5);
    for (k, &reverse) in modes[1..].iter().enumerate() {
        (0..3).for_each(|_| t.check(k + 1, reverse, &mut noise));
    }
    Ok(())
}

#[test]
fn third_orders() {
    for f in ["s", "w"] {
        for bits in 0..16 {
            let modes: Vec<bool> = (0..3).map(|k| bits >> k & 1 == 1).collect();
            println!("%{f}: {modes:?}, in a struct: {}", bits >> 3);
            tower(f, &modes, bits >> 3 == 1).expect("it is derived");
        }
    }
}

#[test]
fn fourth_orders() {
    let mut derived = 0;
    for bits in 0..32 {
        let modes: Vec<bool> = (0..4).map(|k| bits >> k & 1 == 1).collect();
        println!("%w: {modes:?}, in a struct: {}", bits >> 4);
        match tower("w", &modes, bits >> 4 == 1) {
            Ok(()) => derived += 1,
            Err(e) => assert!(modes[1] && modes[2] && e.to_string().contains("AD0140"), "{e}"),
        }
    }
    assert!(derived >= 24, "{derived} of 32");
}

/// Derivatives of `lgamma` and `tgamma` call nothing but functions of C.
#[test]
fn orders_of_the_gamma_function() {
    for bits in 0..8 {
        let modes: Vec<bool> = (0..3).map(|k| bits >> k & 1 == 1).collect();
        tower("g", &modes, false).expect("it is derived");
    }
}
