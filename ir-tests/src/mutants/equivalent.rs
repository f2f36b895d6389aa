//! Mutants that compute the same thing, each with the reason why.
//!
//! An entry names a file, a kind of mistake and a part of the instruction's text (the pullback that
//! it is in, or its role in brackets); `*` stands for any file or kind. It excuses survivors, it
//! does not spare mutants: one that a check notices after all is simply killed.
//!
//! [`SELECTION`] is the part of the cases in which every survivor must have an excuse. In the rest
//! most survivors are of the data: a factor that happens to be 1, a path that no line takes,
//! cotangents that are zero or equal. They are listed to find lines that are worth adding, and
//! prove nothing against a rule that is caught elsewhere.

/// Why a mutant cannot be told from the original.
#[derive(Clone, Copy, Debug)]
pub struct Excuse {
    /// The file, or `*`.
    pub file: &'static str,
    /// Name of the kind, or `*`.
    pub kind: &'static str,
    /// Part of the text of the instruction.
    pub text: &'static str,
    /// The argument.
    pub why: &'static str,
}

/// Files with generic data, which together use every structural rule: selects and joins, loops,
/// loads, stores over what was read, bounds checks, calls.
pub const SELECTION: [&str; 9] = [
    "cases/scalar/select.clif",
    "cases/scalar/round.clif",
    "cases/vector/select.clif",
    "cases/control/joins.clif",
    "cases/control/loops.clif",
    "cases/memory/loads.clif",
    "cases/memory/inplace.clif",
    "cases/pointers/checked.clif",
    "cases/calls/many.clif",
];

const fn entry(file: &'static str, kind: &'static str, text: &'static str, why: &'static str) -> Excuse {
    Excuse { file, kind, text, why }
}

const CURSOR: &str = "the cursor of the tape is written back before every call and return, mostly unchanged, and a caller \
                      takes it from its own frame; where it matters, the assertion that stacks end empty sees it";
const GUARD: &str = "the constant of a strong zero, or an arm at a kink: it matters only where a cotangent is exactly zero \
                     or the point is the kink, and scalar/strong_zero.clif and scalar/kinks.clif have such points";
const BLANK: &str = "a vector whose lanes are all replaced afterwards";
const UNIFORM: &str = "a mask that is made in a vector register from one scalar, so all lanes are the same";
const IN_PLACE: &str = "written over what was read from the same place: its shadow has just been cleared, so adding to it \
                        and storing into it are the same";
const TWO_SLOTS: &str =
    "the number is recorded twice, once to be restored and once as an operand, in neighbouring slots";

const NOTHING_PASSES: &str = "the floats of this function are behind or before its loops, so no cotangent passes back through \
                              them and nothing that is restored in them is read: going back another way, or fewer iterations, or \
                              not at all, is the same. The end of the frame takes their records off the tape. Other numbers of \
                              iterations than what a fresh tape holds, zero, end in a trap or do not end";

/// The list.
pub static ENTRIES: &[Excuse] = &[
    entry("*", "*", "[cursor]", CURSOR),
    entry("*", "constant", "[guard]", GUARD),
    entry("*", "constant", "[blank]", BLANK),
    entry("*", "lane", "[uniform]", UNIFORM),
    entry("cases/memory/inplace.clif", "only-second", "", IN_PLACE),
    entry("cases/pointers/checked.clif", "only-second", "cold_trap__pullback", IN_PLACE),
    entry("cases/memory/inplace.clif", "slot", "", TWO_SLOTS),
    entry("cases/pointers/checked.clif", "slot", "cold_trap__pullback", TWO_SLOTS),
    entry("cases/memory/loads.clif", "slot", "load_flags__pullback", "three loads of one element record one number"),
    entry(
        "cases/control/joins.clif",
        "edge-arguments",
        "dominating_value__pullback",
        "on this edge both factors of the product are the same value, so their cotangents are equal",
    ),
    entry(
        "cases/control/loops.clif",
        "*",
        "newton_sqrt__",
        "the iteration has converged: its step does not depend on the previous iterate, and successive iterates are equal",
    ),
    entry("cases/control/loops.clif", "targets", "collatz__pullback", NOTHING_PASSES),
    entry("cases/control/loops.clif", "no-store", "collatz__forward", NOTHING_PASSES),
    entry("cases/control/loops.clif", "*", "bound_from_loop__", NOTHING_PASSES),
    entry("cases/control/loops.clif", "constant", "nothing__forward", "what this function returns is not read"),
    entry(
        "cases/control/loops.clif",
        "slot",
        "break_continue__pullback",
        "the loop variable begins at 1, so at the end it is the number of rounds, which is kept beside it",
    ),
    entry(
        "cases/control/loops.clif",
        "slot",
        "mixed_counter__pullback",
        "the numbers recorded are 0, 1, 2, … and only their sum counts: one slot further on it lacks the zero",
    ),
    entry(
        "cases/memory/inplace.clif",
        "no-store",
        "square_repeated__forward",
        "the loop counts down to zero, and zero is kept, which a fresh tape holds anyway",
    ),
    entry(
        "cases/pointers/checked.clif",
        "slot",
        "spectre_guard__pullback",
        "the bound of a check that never fails: what is read instead is an address, which is larger still",
    ),
    entry(
        "cases/calls/many.clif",
        "*",
        "six_results__forward",
        "half of the six results are not used by the caller; where this function is the root all of them are compared",
    ),
];

/// The entry that excuses a survivor.
pub fn excuse(file: &str, kind: &str, text: &str) -> Option<&'static Excuse> {
    let fits = |pattern: &str, name: &str| pattern == "*" || pattern == name;
    ENTRIES.iter().find(|e| fits(e.file, file) && fits(e.kind, kind) && text.contains(e.text))
}
