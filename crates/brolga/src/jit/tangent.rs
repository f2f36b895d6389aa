//! Calls in forward mode: values and tangents at once.
//!
//! **Question.** How do directions get into a function of forward mode, and tangents out of it,
//! along one direction or along several?
//!
//! **Answer.** [`DerivedRule::tangent`] writes arguments, deltas and directions to ABI values, runs
//! the entry point, and reads results and tangents. Of several directions, lanes of floats share
//! ABI values as they share the vectors that a batch is passed in:
//!
//! ```text
//! three doubles     ABI value 0: t0 t1    ABI value 1: t2
//! ```
//!
//! **Errors.** [`Error::Usage`] for what does not fit, and for rules of another mode. A tangent
//! that is the NaN of lost bits is an [`Error::Trap`]: of results always, of memory where it is
//! asked ([`DerivedRule::known_tangents`]).
//!
//! **Safety.** As of [`DerivedRule::forward`], with shadows as many times as large as there are
//! directions.
//!
//! **Cost.** A copy of each argument, direction, result and tangent. In the steady state nothing is
//! allocated, but for programs that keep account of floats in pieces.

use brolga_ir::ArgActivity;
use brolga_ir::request::Elem;
use brolga_runtime::pieces::WindowContents;
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::{AbiParam, Type, types};

use super::abi_values::{AbiValue, fits, read, with_abi_values};
use super::arg::Arg;
use super::declared::ShadowPlaces;
use super::rule::{DerivedRule, RootEntries};
use super::runs::Run;
use super::traps::{Phase, explained};
use crate::Error;

impl DerivedRule {
    /// Values and their tangents along one direction (a Jacobian-vector product), of a rule that
    /// was derived in [`Mode::Tangent`](brolga_ir::Mode::Tangent); or along as many as the rule's
    /// [width](brolga_ir::Options::width) says.
    ///
    /// `directions` has one entry per argument: for an active one its tangent, of its type, or
    /// `None` for zero; for others `None`. The shadow of a duplicated pointer holds the tangent of
    /// the memory behind it, and after the call that of what the function has left there. `results`
    /// are the primal's, `tangents` one entry per result: `Some` for floats that are not constant.
    ///
    /// Of several directions `directions` and `tangents` have the entries one direction after the
    /// other. A shadow is as many times as large as its primal: the tangents of a float along all
    /// directions lie side by side, those of the float at byte `k` from byte `width · k` on. Where
    /// the primal has a pointer, its shadow is in the first eight bytes of its place.
    ///
    /// ```text
    /// primal   x0           x1              two doubles
    /// shadow   x0' x0' x0'  x1' x1' x1'     their tangents along three directions
    /// ```
    ///
    /// # Errors
    /// [`Error::Usage`] for arguments or directions that do not fit, or a rule of another mode;
    /// [`Error::Trap`] if the primal traps, or if a tangent depends on bits that are not followed.
    ///
    /// # Safety
    /// As for [`Self::forward`], with shadows as large as said above.
    pub unsafe fn tangent(
        &self,
        args: &[Arg],
        directions: &[Option<DataValue>],
        results: &mut Vec<DataValue>,
        tangents: &mut Vec<Option<DataValue>>,
    ) -> Result<Run, Error> {
        // SAFETY: our contract.
        self.counted(|| unsafe { self.now().tangent_uncounted(args, directions, results, tangents) })
    }

    /// How many derivatives a run computes: [`Options::width`](brolga_ir::Options::width).
    ///
    /// ```
    /// # use brolga::{Arg, ArgSpec, DerivedRule, Effort, Error, Mode, Options, Request, TapeKind, cranelift_codegen::data_value::DataValue};
    /// # let text = "function %square(f64) -> f64 { block0(v0: f64): v1 = fmul v0, v0 return v1 }";
    /// # let mut program = brolga::Program::new();
    /// # let square = program.define("square", cranelift_reader::parse_functions(text)?.remove(0), |_| 0)?;
    /// let options = Options { mode: Mode::Tangent, width: 3, ..Options::default() };
    /// assert_eq!(DerivedRule::new(&program, &Request::new(square, [ArgSpec::ACTIVE]), &options)?.width(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn width(&self) -> usize {
        self.0.width
    }

    /// The same, of this rule.
    unsafe fn tangent_uncounted(
        &self,
        args: &[Arg],
        directions: &[Option<DataValue>],
        results: &mut Vec<DataValue>,
        tangents: &mut Vec<Option<DataValue>>,
    ) -> Result<Run, Error> {
        let inner = &*self.0;
        let RootEntries::Tangent { entry, segment } = inner.derived else {
            let message = "this rule was not derived in forward mode (Mode::Tangent)";
            return Err(Error::Usage(message.to_owned()));
        };
        self.check_args(args)?;
        self.check_directions(directions)?;
        let mut tape = if segment { Some(self.begin(args)?) } else { None };
        let (abi, width) = (&inner.abi, inner.width);
        let (params, returns) = (&inner.signature.params, &inner.signature.returns);
        let fixed = args.len() + abi.deltas.len() + 1;
        let out = returns.len() + abi.n_result_deltas;
        let n = (fixed + self.room(&abi.cotangents, params)).max(out + self.room(&abi.seeds, returns));
        with_abi_values(n, |abi_values| {
            self.fill(abi_values, args, tape.as_mut())?;
            // ABI values begin as zeros.
            self.write_wide(&mut abi_values[fixed..], &abi.cotangents, params, |k, i| {
                directions[k * args.len() + i].as_ref()
            });
            // SAFETY: our contract; the segment is ours alone.
            unsafe { self.enter(Phase::Tangent, entry, abi_values) }
                .map_err(|e| explained(self.0.of_runs(), Phase::Tangent, e, tape.as_ref()))?;
            if let Some(tape) = &mut tape {
                let places = self.places(args);
                // SAFETY: our contract.
                unsafe { tape.end_tangent(&|window| self.floats_at(args, &places, window as u64)) };
            }
            results.clear();
            results.extend(abi_values.iter().zip(returns).map(|(c, r)| read(c, r.value_type)));
            tangents.clear();
            tangents.resize(returns.len() * width, None);
            let mut poisoned = false;
            self.read_wide(&abi_values[out..], &abi.seeds, returns, |k, i, tangent| {
                poisoned |= is_poison(&tangent);
                tangents[k * returns.len() + i] = Some(tangent);
            });
            if poisoned {
                return Err(self.untracked("tangent", POISONED.to_owned()));
            }
            Ok(Run { rule: self.clone(), tape })
        })
    }

    /// How many ABI values the derivatives of these parameters or results take.
    pub(super) fn room(&self, of: &[usize], all: &[AbiParam]) -> usize {
        of.iter().map(|&i| cells_of(all[i].value_type, self.0.width)).sum()
    }

    /// Write the derivatives of these parameters or results: of number `i` in set `k`.
    pub(super) fn write_wide<'v>(
        &self,
        abi_values: &mut [AbiValue],
        of: &[usize],
        all: &[AbiParam],
        given: impl Fn(usize, usize) -> Option<&'v DataValue>,
    ) {
        let (width, mut at) = (self.0.width, 0);
        for &i in of {
            let ty = all[i].value_type;
            for k in 0..width {
                if let Some(v) = given(k, i) {
                    write_lane(&mut abi_values[at..], k, width, v, ty);
                }
            }
            at += cells_of(ty, width);
        }
    }

    /// Read them.
    pub(super) fn read_wide(
        &self,
        abi_values: &[AbiValue],
        of: &[usize],
        all: &[AbiParam],
        mut put: impl FnMut(usize, usize, DataValue),
    ) {
        let (width, mut at) = (self.0.width, 0);
        for &i in of {
            let ty = all[i].value_type;
            (0..width).for_each(|k| put(k, i, read_lane(&abi_values[at..], k, width, ty)));
            at += cells_of(ty, width);
        }
    }

    /// What floats the caller knows to be at eight bytes of shadow.
    fn floats_at(&self, args: &[Arg], places: &ShadowPlaces, window: u64) -> WindowContents {
        let within = |a: &Arg| a.shadow != 0 && a.len.is_some_and(|n| window.wrapping_sub(a.shadow) < n);
        let declared = self.0.request.args.iter().zip(args).filter(|(_, a)| within(a)).find_map(|(spec, _)| spec.elem);
        match declared {
            Some(Elem::F64) => WindowContents::Floats(8),
            Some(Elem::F32) => WindowContents::Floats(4),
            _ => places.at(window),
        }
    }

    fn check_directions(&self, directions: &[Option<DataValue>]) -> Result<(), Error> {
        let request = &self.0.request.args;
        let width = self.0.width;
        if directions.len() != request.len() * width {
            let (is, want) = (directions.len(), request.len() * width);
            let each = if width == 1 { "one per argument" } else { "one per argument, for each direction" };
            return Err(Error::Usage(format!("{is} directions are given, {want} are wanted, {each}")));
        }
        for (at, given) in directions.iter().enumerate() {
            let i = at % request.len();
            let (Some(given), ty) = (given, self.0.signature.params[i].value_type) else { continue };
            let wrong = match request[i].activity {
                ArgActivity::Active if fits(given, ty) => continue,
                ArgActivity::Active => format!("the direction of argument {i} has type {}, {ty} is wanted", given.ty()),
                ArgActivity::Duplicated => {
                    format!("argument {i} is a pointer: its direction lies in its shadow, and is no value")
                }
                ArgActivity::Const => format!("argument {i} is constant, and has no direction"),
            };
            return Err(Error::Usage(wrong));
        }
        Ok(())
    }
}

/// Lanes of a type that share an ABI value: those of the vectors that a batch is passed in.
fn in_a_cell(ty: Type) -> usize {
    match ty {
        types::F64 => 2,
        types::F32 => 4,
        _ => 1,
    }
}

/// How many ABI values so many tangents of a type take: full ones, and one for each that is left.
fn cells_of(ty: Type, width: usize) -> usize {
    width / in_a_cell(ty) + width % in_a_cell(ty)
}

/// Where number `k` of them is: the ABI value, and bytes from its beginning.
fn lane(k: usize, width: usize, ty: Type) -> (usize, usize) {
    let n = in_a_cell(ty);
    let full = width / n;
    if k < full * n { (k / n, k % n * ty.bytes() as usize) } else { (full + k - full * n, 0) }
}

fn write_lane(abi_values: &mut [AbiValue], k: usize, width: usize, v: &DataValue, ty: Type) {
    let (abi_value, at) = lane(k, width, ty);
    v.write_to_slice_ne(&mut abi_values[abi_value].0[at..at + ty.bytes() as usize]);
}

fn read_lane(abi_values: &[AbiValue], k: usize, width: usize, ty: Type) -> DataValue {
    let (abi_value, at) = lane(k, width, ty);
    DataValue::read_from_slice_ne(&abi_values[abi_value].0[at..at + ty.bytes() as usize], ty)
}

impl DerivedRule {
    /// That tangents which a run has left in memory are known. A run refuses unknown ones of
    /// results only: which memory matters, its caller knows. A driver of
    /// [outputs in memory](crate::drivers::FlatFunction) asks this of them.
    ///
    /// # Errors
    /// [`Error::Trap`] if one is the NaN that stands for bits that are lost.
    pub fn known_tangents(&self, tangents: &[f64]) -> Result<(), Error> {
        match tangents.iter().any(|x| is_poison(&DataValue::F64((*x).into()))) {
            true => Err(self.untracked("tangent", IN_MEMORY.to_owned())),
            false => Ok(()),
        }
    }

    /// Whether tangents in memory are known: floats with an address, the size of one, and the bytes
    /// of all.
    ///
    /// # Safety
    /// Those bytes are valid.
    pub(crate) unsafe fn all_known(&self, floats: impl Iterator<Item = (u64, u32, u64)>) -> Result<(), Error> {
        for (at, size, len) in floats {
            // SAFETY: our contract.
            let bytes = unsafe { std::slice::from_raw_parts(at as *const u8, len as usize) };
            let ty = if size == 8 { types::F64 } else { types::F32 };
            if bytes.chunks_exact(size as usize).any(|x| is_poison(&DataValue::read_from_slice_ne(x, ty))) {
                return Err(self.untracked("tangent", IN_MEMORY.to_owned()));
            }
        }
        Ok(())
    }
}

/// What is said of a tangent that is not known.
const POISONED: &str = "the tangent of a result depends on bits of a float that integer arithmetic has changed in a way that is \
                        not followed";

/// The same of a tangent in memory.
const IN_MEMORY: &str = "a derivative in memory depends on bits of a float that integer arithmetic has changed in a way that \
                         is not followed";

/// Whether a lane of a tangent is the NaN that stands for bits that are lost
/// ([`POISON`](brolga_transform::POISON)), as arithmetic hands it on: it keeps what digits there
/// are room for.
fn is_poison(tangent: &DataValue) -> bool {
    const F64: u64 = 0x7fff_ffff_e000_0000;
    const F32: u32 = 0x7fff_ffff;
    let f64 = |bits: u64| bits & F64 == F64;
    let f32 = |bits: u32| bits & F32 == F32;
    match tangent {
        DataValue::F64(x) => f64(x.bits()),
        DataValue::F32(x) => f32(x.bits()),
        _ => false,
    }
}
