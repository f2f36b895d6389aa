//! Calls in forward mode: values and tangents at once.

use brolga_ir::ArgActivity;
use brolga_ir::request::Elem;
use brolga_runtime::pieces::There;
use cranelift_codegen::data_value::DataValue;

use super::declared::Places;
use super::traps::Phase;
use super::{Arg, Derived, DerivedRule, Run, fits, read, with_cells, write};
use crate::Error;

impl DerivedRule {
    /// Values and their tangents along one direction (a Jacobian-vector product), of a rule that
    /// was derived in [`Mode::Tangent`](brolga_ir::Mode::Tangent).
    ///
    /// `directions` has one entry per argument: for an active one its tangent, of its type, or
    /// `None` for zero; for others `None`. The shadow of a duplicated pointer holds the tangent of
    /// the memory behind it, and after the call that of what the function has left there. `results`
    /// are the primal's, `tangents` one entry per result: `Some` for floats that are not constant.
    ///
    /// # Errors
    /// [`Error::Usage`] for arguments or directions that do not fit, or a rule of another mode;
    /// [`Error::Trap`] if the primal traps, or if a tangent depends on bits that are not followed.
    ///
    /// # Safety
    /// As for [`Self::forward`].
    pub unsafe fn tangent(
        &self,
        args: &[Arg],
        directions: &[Option<DataValue>],
        results: &mut Vec<DataValue>,
        tangents: &mut Vec<Option<DataValue>>,
    ) -> Result<Run, Error> {
        // SAFETY: our contract.
        self.counted(|| unsafe { self.now().tangent_once(args, directions, results, tangents) })
    }

    /// The same, of this rule.
    unsafe fn tangent_once(
        &self,
        args: &[Arg],
        directions: &[Option<DataValue>],
        results: &mut Vec<DataValue>,
        tangents: &mut Vec<Option<DataValue>>,
    ) -> Result<Run, Error> {
        let inner = &*self.0;
        let Derived::Tangent { entry, segment } = inner.derived else {
            let message = "this rule was not derived in forward mode (Mode::Tangent)";
            return Err(Error::Usage(message.to_owned()));
        };
        self.check_args(args)?;
        self.check_directions(directions)?;
        let mut tape = if segment { Some(self.begin(args)?) } else { None };
        let abi = &inner.abi;
        let returns = &inner.signature.returns;
        let fixed = args.len() + abi.deltas.len() + 1;
        let out = returns.len() + abi.n_result_deltas;
        with_cells((fixed + abi.cotangents.len()).max(out + abi.seeds.len()), |cells| {
            self.fill(cells, args, tape.as_mut())?;
            for (c, &i) in cells[fixed..].iter_mut().zip(&abi.cotangents) {
                // Cells begin as zeros.
                if let Some(given) = &directions[i] {
                    write(c, given);
                }
            }
            // SAFETY: our contract; the segment is ours alone.
            unsafe { self.enter(Phase::Tangent, entry, cells) }?;
            if let Some(tape) = &mut tape {
                let places = self.places(args);
                // SAFETY: our contract.
                unsafe { tape.end_tangent(&|window| self.floats_at(args, &places, window as u64)) };
            }
            results.clear();
            results.extend(cells.iter().zip(returns).map(|(c, r)| read(c, r.value_type)));
            tangents.clear();
            tangents.resize(returns.len(), None);
            for (c, &i) in cells[out..].iter().zip(&abi.seeds) {
                let tangent = read(c, returns[i].value_type);
                if is_poison(&tangent) {
                    return Err(self.untracked("tangent", POISONED.to_owned()));
                }
                tangents[i] = Some(tangent);
            }
            Ok(Run { rule: self.clone(), tape })
        })
    }

    /// What floats the caller knows to be at eight bytes of shadow.
    fn floats_at(&self, args: &[Arg], places: &Places, window: u64) -> There {
        let within = |a: &Arg| a.shadow != 0 && a.len.is_some_and(|n| window.wrapping_sub(a.shadow) < n);
        let declared = self.0.request.args.iter().zip(args).filter(|(_, a)| within(a)).find_map(|(spec, _)| spec.elem);
        match declared {
            Some(Elem::F64) => There::Floats(8),
            Some(Elem::F32) => There::Floats(4),
            _ => places.at(window),
        }
    }

    fn check_directions(&self, directions: &[Option<DataValue>]) -> Result<(), Error> {
        let request = &self.0.request.args;
        if directions.len() != request.len() {
            let (is, want) = (directions.len(), request.len());
            return Err(Error::Usage(format!("{is} directions are given, {want} are wanted, one per argument")));
        }
        for (i, given) in directions.iter().enumerate() {
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

/// What is said of a tangent that is not known.
const POISONED: &str = "the tangent of a result depends on bits of a float that integer arithmetic has changed in a way that is \
                        not followed";

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
