//! Declarations of pointer arguments: what a caller says of them, and what can be checked of it
//! before anything runs.
//!
//! **Question.** Do shadows, primals and promises fit each other, and where does the caller know
//! floats to be?
//!
//! **Answer.** With declared lengths an overlap of a shadow with a primal is seen at once, in a few
//! comparisons; that is always done ([`check`]). In a debug run the declarations also go into the
//! segment, where generated code looks at each shadow access, and a constant argument must not
//! overlap one that has a shadow: what is read through it would have no derivative.
//!
//! What the caller has said of floats in memory ([`Arg::floats`]) is asked for when a pullback
//! ends, by cotangents that have moved in pieces (`brolga_runtime::pieces`) to where the program
//! has written nothing ([`ShadowPlaces`]). And where a program that has floats of one size moves
//! words which may be floats, the shadows of floats of the other size must be the same before a
//! pullback and after it.
//!
//! **Errors.** [`Error::Usage`] for what does not fit.
//!
//! **Safety.** Shadows are read only as far as the caller has said how long they are, or that
//! floats are there.
//!
//! **Cost.** Comparisons for each two pointer arguments, if a length is declared at all. A debug
//! run reads fresh shadows. Shadows of floats of the other size are copied before a pullback, and
//! compared after it; where derivatives may be unknown, known shadows are searched for NaN.

use std::sync::Arc;

use brolga_ir::program::InstanceMemory;
use brolga_ir::request::Elem;
use brolga_ir::{ArgActivity, ArgSpec, Request};
use brolga_runtime::calls::debug::overlap;
use brolga_runtime::pieces::WindowContents;
use brolga_runtime::{DeclaredPointer, Floats, Segment, SharedInstance};
use cranelift_codegen::data_value::DataValue;
use smallvec::SmallVec;

use super::arg::Arg;
use crate::Error;

/// The pointer arguments, each with its number and declaration.
fn pointers<'a>(
    args: &'a [Arg],
    specs: &'a [ArgSpec],
) -> impl Iterator<Item = (usize, DeclaredPointer)> + Clone + use<'a> {
    args.iter().zip(specs).enumerate().filter_map(|(i, (arg, spec))| {
        let &DataValue::I64(primal) = &arg.value else { return None };
        let dup = spec.activity == ArgActivity::Duplicated;
        // A constant number that is not declared is as likely a size as a pointer.
        (dup || arg.len.is_some()).then_some((
            i,
            DeclaredPointer { primal: primal as u64, shadow: if dup { arg.shadow } else { 0 }, len: arg.len },
        ))
    })
}

/// Refuse arguments whose shadows, of so many derivatives, lie on primals; in a program that forks,
/// shadows that lie on each other where their primals do not, since different tasks may clear them;
/// and in a debug run what else was promised and does not hold.
///
/// # Errors
/// [`Error::Usage`].
pub(crate) fn check(
    args: &[Arg],
    request: &Request,
    debug: bool,
    forks: bool,
    width: u64,
    overwrites: impl Fn(usize) -> bool,
) -> Result<(), Error> {
    let specs = &request.args;
    if args.iter().all(|a| a.len.is_none()) {
        return Ok(());
    }
    for (i, a) in pointers(args, specs) {
        if let (true, Some(n)) = (debug && a.shadow != 0 && specs[i].promises.fresh && !overwrites(i), a.len) {
            // SAFETY: a shadow is as large as its primal, which is what the caller promises.
            let shadow = unsafe { std::slice::from_raw_parts(a.shadow as *const u8, n as usize) };
            if shadow.iter().any(|&x| x != 0) {
                return Err(Error::Usage(format!(
                    "the shadow of argument {i} is said to be fresh, but is not zero, and the gradient is added to it"
                )));
            }
        }
        for (j, b) in pointers(args, specs) {
            let (Some(n), Some(m)) = (a.len, b.len) else { continue };
            if a.shadow != 0 && overlap(a.shadow, n.saturating_mul(width), b.primal, m) {
                let whose = if i == j { "its own primal".to_owned() } else { format!("the primal of argument {j}") };
                return Err(Error::Usage(format!("the shadow of argument {i} overlaps {whose}")));
            }
            let (delta_a, delta_b) = (a.shadow.wrapping_sub(a.primal), b.shadow.wrapping_sub(b.primal));
            let are_two = i < j && a.shadow != 0 && b.shadow != 0 && delta_a != delta_b;
            if forks && width == 1 && are_two && overlap(a.shadow, n, b.shadow, m) {
                return Err(Error::Usage(format!(
                    "the shadows of arguments {i} and {j} overlap, but not as the arguments do, and tasks of a fork may \
                     write to both: give each a shadow of its own"
                )));
            }
            if debug && i != j && specs[i].promises.noalias && overlap(a.primal, n, b.primal, m) {
                return Err(Error::Usage(format!("argument {i} is said to be noalias, but overlaps argument {j}")));
            }
            if debug && a.shadow == 0 && b.shadow != 0 && overlap(a.primal, n, b.primal, m) {
                return Err(Error::Usage(format!(
                    "argument {i} is constant, but overlaps argument {j}, which has a shadow: what is read through \
                     argument {i} would have no derivative"
                )));
            }
        }
    }
    Ok(())
}

/// Tell a run of its arguments: one that checks accesses of shadows, or that keeps states of loops
/// which are in memory of its arguments.
pub(crate) fn register(args: &[Arg], specs: &[ArgSpec], segment: &mut Segment) {
    for (_, declared) in pointers(args, specs) {
        segment.declare(declared);
    }
}

/// The instance that an argument points at, if its tasks may run at the same time.
pub(crate) fn shared(layout: &InstanceMemory, arg: &Arg) -> Option<SharedInstance> {
    let (stacks, memory) = (layout.stacks.as_ref()?, layout.memories.first()?);
    let DataValue::I64(base) = arg.value else { return None };
    let at = |bytes: u64| arg.shadow.wrapping_add(bytes) as usize;
    (arg.shadow != 0).then(|| SharedInstance {
        shadow: at(0) - layout.header as usize..at(stacks.end),
        memory: at(memory.offset as u64),
        size: (base as u64).wrapping_add_signed(memory.size_at.into()) as usize,
        stacks: at(stacks.start)..at(stacks.end),
    })
}

/// Where the shadows of floats lie that the caller knows of.
#[derive(Default)]
pub(crate) struct ShadowPlaces {
    /// For each argument with a shadow of which the caller has said where floats are, the address
    /// of the shadow.
    known: SmallVec<[(u64, Arc<[Floats]>); 8]>,
    /// Of all arguments with a shadow it is known where floats are.
    all_said: bool,
    /// Shadows of arguments of which the caller has said no more than how long they are, or that
    /// they hold floats: address, length, and whether there is nothing else.
    by_length: SmallVec<[(u64, u64, bool); 8]>,
    /// Shadows of floats of another size than those which a program moves as integers: address and
    /// length.
    others: Vec<(u64, usize)>,
}

impl ShadowPlaces {
    /// What was said with some arguments.
    pub(crate) fn of(args: &[Arg], specs: &[ArgSpec]) -> Self {
        let shadowed = || args.iter().enumerate().filter(|a| a.1.shadow != 0);
        let known = shadowed().filter_map(|(_, a)| Some((a.shadow, a.floats.clone()?))).collect();
        let no_floats = |i: usize| matches!(specs.get(i).and_then(|a| a.elem), Some(Elem::Int | Elem::Pointer));
        let only_floats = |i: usize| matches!(specs.get(i).and_then(|a| a.elem), Some(Elem::F32 | Elem::F64));
        let by_length = shadowed().filter(|&(i, a)| a.floats.is_none() && !no_floats(i));
        let all_said = shadowed().all(|(i, a)| a.floats.is_some() || no_floats(i));
        Self {
            known,
            all_said,
            by_length: by_length.filter_map(|(i, a)| Some((a.shadow, a.len?, only_floats(i)))).collect(),
            others: Vec::new(),
        }
    }

    /// The same, and where floats are of another size than those that a program moves as integers,
    /// if it moves any: of 4 bytes if the lowest bit of `guessed` is set, of 8 if the next is; and
    /// loads or stores none of that other size, as the next two bits say of either size.
    pub(crate) fn beside(mut self, args: &[Arg], guessed: u8) -> Self {
        let other = |size: u32| size == 8 && guessed & 0b1001 == 0b0001 || size == 4 && guessed & 0b0110 == 0b0010;
        for a in args.iter().filter(|a| guessed != 0 && a.shadow != 0) {
            let all = a.floats.iter().flat_map(|f| f.iter()).filter(|f| other(f.size));
            self.others.extend(all.map(|f| (a.shadow.wrapping_add(f.offset), f.len as usize)));
        }
        self
    }

    /// The shadows of those floats as they are now.
    pub(crate) fn other_floats(&self) -> Vec<u8> {
        // SAFETY: a shadow is as large as its primal, where the caller has said that there are
        // floats.
        let bytes = |&(at, len): &(u64, usize)| unsafe { std::slice::from_raw_parts(at as *const u8, len) }.to_vec();
        self.others.iter().flat_map(bytes).collect()
    }

    /// Whether they have changed: nothing but moves, or numbers, as long as floats of the wrong
    /// size can have done that.
    pub(crate) fn other_floats_have_moved(&self, before: &[u8]) -> bool {
        !self.others.is_empty() && self.other_floats() != before
    }

    /// Whether the cotangent of a float of which the caller has said where it is is a NaN; or, of
    /// floats of which it is not known how long they are, one such as those that are not known.
    ///
    /// `only_floats`: where nothing else can lie.
    pub(crate) fn any_poison(&self, only_floats: bool) -> bool {
        let is_such = |word: &[u8]| word.try_into().is_ok_and(|w| u32::from_le_bytes(w) | 1 << 31 == u32::MAX);
        let any_by_length = self.by_length.iter().filter(|w| w.2 || !only_floats).any(|&(at, len, _)| {
            // SAFETY: a shadow is as large as its primal, as far as the caller has said.
            let bytes = unsafe { std::slice::from_raw_parts(at as *const u8, len as usize) };
            bytes.chunks_exact(4).any(is_such)
        });
        let all = self.known.iter().flat_map(|(base, all)| all.iter().map(move |f| (base.wrapping_add(f.offset), f)));
        any_by_length
            || all.filter(|(_, f)| f.size != 0).any(|(at, f)| {
                // SAFETY: a shadow is as large as its primal, where floats are said to be.
                let bytes = unsafe { std::slice::from_raw_parts(at as *const u8, f.len as usize) };
                let is_nan = |float: &[u8]| match *float {
                    [a, b, c, d] => f32::from_le_bytes([a, b, c, d]).is_nan(),
                    _ => float.try_into().is_ok_and(|bytes| f64::from_le_bytes(bytes).is_nan()),
                };
                bytes.chunks_exact(f.size as usize).any(is_nan)
            })
    }

    /// Where eight bytes of shadow are, for who can say what lies there.
    pub(crate) fn tell(&self, address: u64) -> Option<String> {
        let offset = self.known.iter().map(|(base, _)| address.wrapping_sub(*base)).min()?;
        let advice = if self.has_float(address) {
            "which the caller has put there: where its bits went, integer arithmetic has changed some, or not all were \
             moved. Use float instructions; what sorts by bits of floats can move the floats beside them"
        } else {
            "which the program has only copied: if the caller has put floats there, it can say so (`declare_floats`, \
             `Arg::floats`)"
        };
        Some(format!("; what is left of it is of the float at byte {offset} (of memory 0, in WebAssembly), {advice}"))
    }

    /// Whether the byte whose shadow is at this address may be of a float that the caller has put
    /// there.
    pub(crate) fn has_float(&self, address: u64) -> bool {
        let holds = |base: u64, f: &Floats| f.size != 0 && address.wrapping_sub(base.wrapping_add(f.offset)) < f.len;
        self.by_length.iter().any(|&(base, len, _)| address.wrapping_sub(base) < len)
            || self.known.iter().any(|(base, all)| all.iter().any(|f| holds(*base, f)))
    }

    /// What is there whose shadow is the eight bytes at this address? A single may have half of
    /// them for itself.
    pub(crate) fn at(&self, address: u64) -> WindowContents {
        let holds = |at: u64, len: u64, base: u64, f: &Floats| {
            let at = at.wrapping_sub(base.wrapping_add(f.offset));
            let at_float = f.size == 0 || at.is_multiple_of(f.size.into());
            at.checked_add(len).is_some_and(|end| end <= f.len) && at_float
        };
        let size = |at: u64, len: u64| {
            let mut all = self.known.iter().flat_map(|(base, all)| all.iter().map(move |f| (*base, f)));
            all.find(|(base, f)| holds(at, len, *base, f)).map(|f| f.1.size)
        };
        let single = || {
            let halves = [address, address.wrapping_add(4)].map(|at| size(at, 4));
            let other = (0..8).any(|i| self.has_float(address.wrapping_add(i)) && halves[i as usize / 4].is_none());
            let singles = halves.iter().flatten().all(|&size| size == 4) && !other;
            halves.iter().flatten().next().filter(|_| singles).copied()
        };
        match size(address, 8).or_else(single) {
            None if self.all_said => WindowContents::Nothing,
            None => WindowContents::Unknown,
            Some(0) => WindowContents::Constants,
            Some(size) => WindowContents::Floats(size as usize),
        }
    }
}

#[cfg(test)]
mod tests {
    use brolga_ir::lower::debug::answer;
    use brolga_runtime::calls::debug;

    #[test]
    fn run_time_and_generated_code_agree_on_answers() {
        assert_eq!(answer::SHADOW_BOUNDS as u64, debug::SHADOW_BOUNDS);
        assert_eq!(answer::SHADOW_ALIASES_PRIMAL as u64, debug::SHADOW_ALIASES_PRIMAL);
        assert_eq!(answer::CONST_ALIAS as u64, debug::CONST_ALIAS);
        assert_eq!(brolga_ir::lower::segment::ACCOUNT as u64, brolga_runtime::pieces::ACCOUNT);
        assert_eq!(brolga_ir::lower::segment::STRICT as u64, brolga_runtime::pieces::STRICT);
        assert_eq!(brolga_ir::lower::segment::MOVED as u64, brolga_runtime::pieces::MOVED);
    }

    #[test]
    fn run_time_and_generated_code_agree_on_workspaces() {
        use brolga_ir::lower::{Channel, Position, segment};
        use brolga_runtime::segment::workspace;
        assert_eq!(workspace::COUNT, Channel::TYPED.len());
        for (k, channel) in Channel::TYPED.into_iter().enumerate() {
            for (i, position) in [Position::Top, Position::Limit, Position::Cursor].into_iter().enumerate() {
                assert_eq!(segment::field(channel, position) as usize, workspace::CHANNELS + 8 * (3 * k + i));
            }
        }
    }

    #[test]
    fn run_time_and_generated_code_agree_on_loops() {
        use brolga_ir::driver::{part, run};
        use brolga_runtime::states::loops::{self, HEAD, LoopForward, PART, VALUE_BYTES, offset};
        let generated = [run::FROM, run::TO, run::WORDS, run::ENDED, run::TAPED, run::VALUES, run::COTANGENTS];
        let offsets = [offset::FROM, offset::TO, offset::WORDS, offset::ENDED, offset::TAPED];
        let offsets = [&offsets[..], &[offset::VALUES, offset::COTANGENTS]].concat();
        assert_eq!(generated.map(|at| at as usize)[..], offsets);
        assert_eq!((run::HEAD, run::PART, run::VALUE_BYTES as usize), (HEAD, PART, VALUE_BYTES));
        let told = [LoopForward::Over, LoopForward::Steps, LoopForward::NoRoom].map(|told| told as i64);
        assert_eq!([run::OVER, run::STEPS, run::NO_ROOM], told);
        let kinds = [loops::part::BYTES, loops::part::PAGES, loops::part::PAGES_UP_TO, loops::part::OBJECT];
        assert_eq!([part::BYTES, part::PAGES, part::PAGES_UP_TO, part::OBJECT], kinds);
    }

    #[test]
    fn run_time_and_generated_code_agree_on_inverses() {
        use brolga_ir::driver::inverse;
        use brolga_runtime::calls::inverses::code;
        let generated = [inverse::BEGIN, inverse::END, inverse::COMPARE, inverse::UNDO, inverse::REDO, inverse::DONE];
        assert_eq!(generated, [code::BEGIN, code::END, code::COMPARE, code::UNDO, code::REDO, code::DONE]);
        let generated = [inverse::PARTS, inverse::CHECK, inverse::BITS, inverse::RECORD, inverse::WITHIN];
        assert_eq!(generated, [code::PARTS, code::CHECK, code::BITS, code::RECORD, code::WITHIN]);
    }

    #[test]
    fn floats_are_known_as_far_as_they_reach() {
        use super::{Arg, Floats, ShadowPlaces, WindowContents};
        let floats = |offset, len, size| Floats { offset, len, size };
        let arg = Arg::duplicated(0x1000, 0x5000)
            .with_floats([floats(16, 24, 8), floats(64, 12, 4), floats(88, 20, 0)].into());
        let places = ShadowPlaces::of(&[arg.clone(), Arg { shadow: 0, ..arg }], &[]);
        let found: Vec<WindowContents> = (0..14).map(|k| places.at(0x5000 + 8 * k)).collect();
        // The caller has said of all that has a shadow where floats are.
        let (no, double, single) = (WindowContents::Nothing, WindowContents::Floats(8), WindowContents::Floats(4));
        // The last single has half of the bytes for itself; of the last constants nothing says what
        // is beside them.
        let constants = WindowContents::Constants;
        let wanted = [no, no, double, double, double, no, no, no, single, single, no, constants, constants, no];
        assert_eq!(found, wanted);
        // A single beside half of a double.
        let beside = Arg::duplicated(0x1000, 0x5000).with_floats([floats(0, 4, 4), floats(4, 16, 8)].into());
        let places = ShadowPlaces::of(&[beside], &[]);
        assert_eq!([0x5000, 0x5004, 0x5010].map(|at| places.at(at)), [no, double, no]);
        assert_eq!([0x5014, 0x1010].map(|at| places.at(at)), [no, no]);
        let said = Arg::duplicated(0x1000, 0x5000).with_floats([floats(16, 24, 8)].into());
        let places = ShadowPlaces::of(&[said, Arg::duplicated(0x2000, 0x6000)], &[]);
        assert_eq!(
            [0x5010, 0x5028, 0x6000].map(|at| places.at(at)),
            [double, WindowContents::Unknown, WindowContents::Unknown]
        );
    }
}
