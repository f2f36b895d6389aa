//! Unmooring: outcomes as they would read if memory lay elsewhere, so that two runs can be
//! compared.
//!
//! **Question.** Two runs return addresses, each of its own memory. Do these point to the same
//! places?
//!
//! **Answer.** An address inside a buffer or a shadow becomes a number beyond all addresses, which
//! names the block and the offset ([`RelocatedView`]); then bits are compared, and messages say the
//! argument.
//!
//! **Cost.** For each integer that comes out a look at all blocks.

use brolga::{DerivedRule, Error};

use crate::bind::Invocation;
use crate::memory::{Block, Memory};
use crate::run::{Outcome, contents, gradient_in};
use crate::value::{Item, Num};

/// Contents of all buffers, addresses unmoored.
pub(super) type Contents = Vec<Option<Vec<Num>>>;

pub(super) fn same_contents(who: &str, expected: &Contents, actual: &Contents, found: &mut Vec<String>) {
    for (arg, (e, a)) in expected.iter().zip(actual).enumerate() {
        let (Some(e), Some(a)) = (e, a) else { continue };
        if let Some(i) = e.iter().zip(a).position(|(e, a)| !e.same_bits(*a)) {
            let (e, a) = (told(e[i]), told(a[i]));
            found.push(format!("{who} leaves {a} in element {i} of argument {arg} instead of {e}"));
        }
    }
}

/// Numbers as they would read if memory lay elsewhere: an address inside a buffer becomes a number
/// beyond all addresses that names the argument and the offset. The end of a buffer counts as
/// inside; fences keep it from being another's start.
pub(super) struct RelocatedView<'a> {
    call: &'a Invocation,
    memory: &'a Memory,
    /// Start and length of every buffer and every shadow.
    blocks: Vec<(u64, u64)>,
}

/// Where unmoored addresses begin, and how far blocks are apart there.
const SEA: i128 = 1 << 100;
const BERTH: i128 = 1 << 64;

impl<'a> RelocatedView<'a> {
    pub(super) fn new(call: &'a Invocation, memory: &'a Memory) -> Self {
        let extent = |b: Option<&Block>| b.map_or((0, 0), |b| (b.address(), b.bytes().len() as u64));
        let buffers = (0..call.args.len()).map(|i| memory.buffer(i));
        let blocks = buffers.flat_map(|b| [extent(b.map(|b| &b.primal)), extent(b.map(|b| &b.shadow))]).collect();
        Self { call, memory, blocks }
    }

    fn num(&self, num: Num) -> Num {
        let Num::Int(v) = num else { return num };
        let Ok(address) = i64::try_from(v).map(|v| v as u64) else { return num };
        let inside = |(start, len): &(u64, u64)| *start != 0 && (*start..=start + len).contains(&address);
        match self.blocks.iter().position(inside) {
            Some(k) => Num::Int(SEA + k as i128 * BERTH + i128::from(address - self.blocks[k].0)),
            None => num,
        }
    }

    fn item(&self, item: &Item) -> Item {
        match item {
            Item::One(n) => Item::One(self.num(*n)),
            Item::Many(v) => Item::Many(v.iter().map(|n| self.num(*n)).collect()),
        }
    }

    pub(super) fn items(&self, results: &[Item]) -> Vec<Item> {
        results.iter().map(|v| self.item(v)).collect()
    }

    pub(super) fn contents(&self) -> Contents {
        let all = contents(self.call, self.memory);
        all.into_iter().map(|c| c.map(|nums| nums.into_iter().map(|n| self.num(n)).collect())).collect()
    }

    pub(super) fn outcome(&self, o: &Outcome) -> Outcome {
        Outcome {
            value: self.items(&o.value),
            buffers: self.contents(),
            gradient: o.gradient.iter().map(|g| g.as_ref().map(|g| self.item(g))).collect(),
            tape_bytes: o.tape_bytes,
            loops: o.loops,
            plans: o.plans.clone(),
            inverses: o.inverses,
        }
    }
}

/// A number as a person would say it.
fn told(num: Num) -> String {
    match num {
        Num::Int(v) if v >= SEA => {
            let (block, offset) = ((v - SEA) / BERTH, (v - SEA) % BERTH);
            let what = if block % 2 == 0 { "argument" } else { "the shadow of argument" };
            format!("the address of {what} {} + {offset}", block / 2)
        }
        other => format!("{other:?}"),
    }
}

/// [`crate::run::gradient`], its addresses unmoored.
pub(super) fn run_anywhere(rule: &DerivedRule, call: &Invocation) -> Result<Outcome, Error> {
    let mut memory = Memory::new(call)?;
    let outcome = gradient_in(rule, call, &mut memory)?;
    Ok(RelocatedView::new(call, &memory).outcome(&outcome))
}

/// A gradient as text.
pub(super) fn describe(outcome: &Outcome) -> String {
    let entries: Vec<_> =
        outcome.gradient.iter().map(|g| g.as_ref().map_or_else(|| "null".to_owned(), crate::output::show)).collect();
    format!("[{}]", entries.join(", "))
}
