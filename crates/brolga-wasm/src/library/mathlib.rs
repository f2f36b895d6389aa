//! Functions of C's mathematical library that were compiled into a module.
//!
//! **Problem.** `exp` of a C library is integer arithmetic on float bits, which has no derivative
//! that could be read off it. **Answer.** Such a function keeps its body, which gives the value,
//! bit for bit; its derivative is that of the function that it computes. It is found by its name,
//! and then has to prove it: it is run at some points, and has to agree there with the host's
//! function of that name. A function of another meaning that only has the name is left as it is.
//!
//! Names are C's, or those that Rust (`…compiler_builtins…math…3exp`) and Zig
//! (`compiler_rt.exp.exp`, `math.tanh.tanh64`) give to their own copies.
//!
//! **Cost.** As a module is loaded, at most 350 calls of each candidate, with one allowance of fuel
//! for all.

use std::borrow::Cow;

use brolga::{FuncKey, Options, Primal};
use brolga_rules::{MathKind, Ty, math_rule};
use wasmparser::{FuncType, ValType};

use crate::error::Error;
use crate::instance::Instance;
use crate::module::Module;
use crate::parse::Info;
use crate::val::Val;

/// Largest difference, relative to 1 + |value|.
pub(crate) const AGREES_F64: f64 = 1e-12;
const AGREES_F32: f64 = 1e-5;

/// Where functions are compared. Some are outside of a function's domain, and there both must give
/// NaN.
pub(crate) const POINTS: [f64; 14] =
    [-31.7, -7.3, -1.6, -0.83, -0.21, -1e-3, 0.0, 1e-9, 0.37, 0.92, 1.0, 2.41, 11.3, 57.9];

/// Calls and iterations of loops after which a function is none of C's.
pub(crate) const FUEL: u64 = 1 << 20;

/// A function that may be one of C's.
pub(crate) struct MathCandidate {
    index: u32,
    symbol: &'static str,
    ty: FuncType,
}

/// Functions of a module whose name and type are those of a known function.
pub(crate) fn candidates(info: &Info<'_>) -> Vec<MathCandidate> {
    let mut out = Vec::new();
    for (i, f) in info.funcs.iter().enumerate().filter(|(_, f)| f.body.is_some()) {
        let i = i as u32;
        let ty = &info.types[f.ty as usize];
        let fits = |name: &str| {
            let rule = math_rule(name).filter(|r| matches!(r.kind, MathKind::Expr(_)))?;
            let same = |ts: &[Ty], vs: &[ValType]| {
                ts.len() == vs.len()
                    && ts.iter().zip(vs).all(|(t, v)| {
                        matches!((t, v), (Ty::F64, ValType::F64) | (Ty::F32, ValType::F32) | (Ty::I32, ValType::I32))
                    })
            };
            // What compilers call for a power with an integer exponent multiplies, which can be
            // differentiated as it is.
            let known = !rule.symbol.starts_with("__");
            (known && same(&rule.params, ty.params()) && same(&rule.rets, ty.results())).then_some(&*rule.symbol)
        };
        // Languages with generic functions have one name for both widths.
        let of = |n: &String| fits(&plain(n)).or_else(|| fits(&format!("{}f", plain(n))));
        if let Some(symbol) = info.names_of(i).find_map(of) {
            out.push(MathCandidate { index: i, symbol, ty: ty.clone() });
        }
    }
    out
}

/// The name that C has for a function of a mathematical library of Rust's or Zig's, or the name as
/// it is.
pub(crate) fn plain(name: &str) -> Cow<'_, str> {
    of_zig(name).unwrap_or_else(|| Cow::Borrowed(of_rust(name)))
}

/// The last part of a Zig path in `std.math` or `compiler_rt`, without the number of an instance;
/// the width is part of C's name.
fn of_zig(name: &str) -> Option<Cow<'_, str>> {
    let path = name.strip_prefix("std.").unwrap_or(name);
    if !path.starts_with("math.") && !path.starts_with("compiler_rt.") {
        return None;
    }
    let last = path.rsplit('.').next()?;
    let last = ["__func_", "__anon_"].iter().find_map(|mark| Some(last.split_once(mark)?.0)).unwrap_or(last);
    let of_width = |marks: &[&str], c: &str| {
        let stem = marks.iter().find_map(|mark| last.strip_suffix(mark))?;
        Some(Cow::Owned(format!("{stem}{c}")))
    };
    let double = || of_width(&["_f64", "_64", "64"], "");
    let single = || of_width(&["_f32", "_32", "32"], "f");
    Some(of_width(&["_f128", "_128", "128"], "l").or_else(double).or_else(single).unwrap_or(Cow::Borrowed(last)))
}

/// The last part of a Rust path in a mathematical library, or the name as it is.
fn of_rust(name: &str) -> &str {
    if !(name.starts_with("_R") || name.starts_with("_ZN")) || !(name.contains("math") || name.contains("libm")) {
        return name;
    }
    // Paths are lists of names, each after its length; old ones end in a hash, `17h…E`.
    let body = name.find("17h").map_or(name, |at| &name[..at]);
    let start = body.rfind(|c: char| c.is_ascii_digit()).map_or(0, |at| at + 1);
    let last = &body[start..];
    // Digits may belong to the name (`log10`, `exp2`): then the length stands before a letter
    // further left.
    let longer = body.char_indices().filter(|(i, c)| c.is_ascii_digit() && *i < start);
    for (i, _) in longer {
        let digits: String = body[i..].chars().take_while(char::is_ascii_digit).collect();
        if digits.parse() == Ok(body.len() - i - digits.len()) {
            return &body[i + digits.len()..];
        }
    }
    last
}

/// Which candidates compute what their names say: index and symbol. The module is translated for
/// fuel.
pub(crate) fn confirmed(module: &Module, candidates: &[MathCandidate]) -> Result<Vec<(u32, &'static str)>, Error> {
    let key = |c: &MathCandidate| module.0.translated.funcs[c.index as usize];
    let roots: Vec<FuncKey> = candidates.iter().filter_map(key).collect();
    if roots.is_empty() {
        return Ok(Vec::new());
    }
    let primal = Primal::new(module.program(), &roots, &Options::default())?;
    let mut instance = Instance::not_started(module)?;
    let mut out = Vec::new();
    for c in candidates {
        instance.set_fuel(FUEL);
        if let Some(key) = key(c)
            && agrees(&mut instance, &primal, key, c)
        {
            out.push((c.index, c.symbol));
        }
    }
    Ok(out)
}

fn agrees(instance: &mut Instance, primal: &Primal, key: FuncKey, c: &MathCandidate) -> bool {
    let Some(host) = Host::of(c.symbol) else { return false };
    points(c.ty.params().len()).all(|point| {
        let value = |(ty, x): (&ValType, f64)| match ty {
            ValType::I32 => Val::I32(x as i32),
            ValType::F32 => Val::F32(x as f32),
            _ => Val::F64(x),
        };
        let args: Vec<Val> = c.ty.params().iter().zip(point).map(value).collect();
        let Ok(found) = instance.enter_in(primal, key, &c.ty, &args) else { return false };
        let (found, tolerance) = match found[..] {
            [Val::F64(v)] => (v, AGREES_F64),
            [Val::F32(v)] => (v.into(), AGREES_F32),
            _ => return false,
        };
        is_close(found, host.call(point), tolerance)
    })
}

/// Where a function of so many operands is compared: some of the points for the second and third,
/// if there are any.
pub(crate) fn points(operands: usize) -> impl Iterator<Item = [f64; 3]> {
    let some = move |k: usize| POINTS.into_iter().step_by(if k < operands { 3 } else { POINTS.len() });
    POINTS.into_iter().flat_map(move |x| some(1).flat_map(move |y| some(2).map(move |z| [x, y, z])))
}

/// Whether numbers are the same but for `tolerance`, relative to 1 + |wanted|, or none both.
pub(crate) fn is_close(found: f64, wanted: f64, tolerance: f64) -> bool {
    (found - wanted).abs() <= tolerance * (1.0 + wanted.abs()) || found == wanted || found.is_nan() && wanted.is_nan()
}

/// A known function of the host's: of up to three floats, or of a float and an integer.
pub(crate) struct Host {
    address: *const u8,
    single: bool,
    operands: usize,
    scales: bool,
}

impl Host {
    /// The function of a symbol, if it is one.
    pub(crate) fn of(symbol: &str) -> Option<Self> {
        let rule = math_rule(symbol).filter(|r| matches!(r.kind, MathKind::Expr(_)))?;
        let address = brolga_runtime::symbols().into_iter().find(|s| s.0 == symbol)?.1;
        let (scales, operands) = (rule.params.last() == Some(&Ty::I32), rule.params.len());
        let fits = if scales { operands == 2 } else { operands <= 3 };
        let floats = rule.params[..operands - usize::from(scales)].iter().all(|t| t == &rule.rets[0]);
        (fits && floats).then(|| Self { address, single: rule.rets[0] == Ty::F32, operands, scales })
    }

    /// Call it; what is no double is what is left of one.
    pub(crate) fn call(&self, [x, y, z]: [f64; 3]) -> f64 {
        use std::mem::transmute;
        let [a, b, c] = [x, y, z].map(|x| x as f32);
        let f = self.address;
        // SAFETY: the symbol is a C function, of whose signature the rule says that it is this one.
        unsafe {
            match (self.single, self.operands) {
                (false, _) if self.scales => transmute::<*const u8, extern "C" fn(f64, i32) -> f64>(f)(x, y as i32),
                (true, _) if self.scales => {
                    transmute::<*const u8, extern "C" fn(f32, i32) -> f32>(f)(a, y as i32).into()
                }
                (false, 1) => transmute::<*const u8, extern "C" fn(f64) -> f64>(f)(x),
                (false, 2) => transmute::<*const u8, extern "C" fn(f64, f64) -> f64>(f)(x, y),
                (false, _) => transmute::<*const u8, extern "C" fn(f64, f64, f64) -> f64>(f)(x, y, z),
                (true, 1) => transmute::<*const u8, extern "C" fn(f32) -> f32>(f)(a).into(),
                (true, 2) => transmute::<*const u8, extern "C" fn(f32, f32) -> f32>(f)(a, b).into(),
                (true, _) => transmute::<*const u8, extern "C" fn(f32, f32, f32) -> f32>(f)(a, b, c).into(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::plain;

    #[test]
    fn names_of_rust_libraries() {
        assert_eq!(plain("exp"), "exp");
        assert_eq!(plain("_RNvNtNtCs5zM4GgcuceN_17compiler_builtins4math20partial_availability3log"), "log");
        assert_eq!(plain("_RNvNtCsabc_17compiler_builtins4math5log10"), "log10");
        assert_eq!(plain("_ZN17compiler_builtins4math4libm3exp3exp17h0123456789abcdefE"), "exp");
        assert_eq!(plain("_RNvCs_4mine3exp"), "_RNvCs_4mine3exp");
    }

    #[test]
    fn names_of_zig_libraries() {
        assert_eq!(plain("compiler_rt.sin.sin"), "sin");
        assert_eq!(plain("compiler_rt.sin.sinf"), "sinf");
        assert_eq!(plain("compiler_rt.sqrt.sqrt_f128"), "sqrtl");
        assert_eq!(plain("math.tanh.tanh64"), "tanh");
        assert_eq!(plain("math.expm1.expm1_32"), "expm1f");
        assert_eq!(plain("std.math.pow.pow__anon_180"), "pow");
        assert_eq!(plain("math.log2.log2__func_149"), "log2");
        assert_eq!(plain("mine.math.exp"), "mine.math.exp");
    }
}
