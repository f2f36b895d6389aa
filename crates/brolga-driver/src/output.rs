//! Output: outcomes as text for people and as JSON for programs.
//!
//! **Question.** What does a command print of a call, of a loop's plan and of an error?
//!
//! **Answer.** For people a table of lines ([`text`]), where long buffers are cut short. For
//! programs the JSON of a call, in one line ([`json()`]):
//!
//! ```json
//! {"function": "%f", "value": [3.5], "buffers": [null, [1.0, 2.0]],
//!  "gradient": [355.6, [0.25, 0.5]]}
//! ```
//!
//! `value` has one entry per result, `buffers` and `gradient` one per argument; `null` stands where
//! an argument is no buffer, or is constant. Vectors and buffers are arrays. Finite floats are JSON
//! numbers that read back as the same bits (a 32-bit float is shown as the double that it is
//! exactly); the others are the strings `"nan"`, `"inf"` and `"-inf"`. Integers beyond 64 bits are
//! strings of digits, and 128-bit floats that are no doubles are strings as CLIF writes them
//! (`"0x1.8p3"`).
//!
//! Where time loops have run, `loops` counts steps (`forward` without a record, `taped`,
//! `reversed`), states in memory (`stores`, `restores`, `max_slots`) and in the file
//! (`disk_writes`, `disk_reads`, `disk_bytes`), and `max_bytes`. Its `plans` say of each `loop` how
//! many there were (`runs`), how many steps of the last one its forward pass `recorded`, and by
//! which `method`, with which `parameters` and forecast, the others were reversed. Where calls have
//! run that others undo, `inverses` counts them.
//!
//! **Cost.** One walk over what is shown.

use brolga::{Diagnostic, Diagnostics, Error, InverseStats, LoopReport, LoopStats, Trap};
use cranelift_codegen::ir::immediates::Ieee128;
use serde_json::{Value, json};

use crate::bind::Invocation;
use crate::run::Outcome;
use crate::value::{Item, Num};

/// A number as JSON.
pub fn num_json(n: Num) -> Value {
    match n {
        Num::Int(v) => match (i64::try_from(v), u64::try_from(v)) {
            (Ok(v), _) => v.into(),
            (_, Ok(v)) => v.into(),
            _ => v.to_string().into(),
        },
        Num::F128(bits) if !is_a_double(bits) => Ieee128::with_bits(bits).to_string().into(),
        float => {
            let v = float.as_f64();
            serde_json::Number::from_f64(v).map_or_else(|| non_finite(v).into(), Value::Number)
        }
    }
}

/// Whether a 128-bit float is a double, or none of both is a number.
fn is_a_double(bits: u128) -> bool {
    let v = Num::F128(bits).as_f64();
    let exact = bits & ((1 << 60) - 1) == 0 && (v.is_normal() || bits << 1 == 0);
    exact || bits >> 112 & 0x7fff == 0x7fff
}

fn non_finite(v: f64) -> &'static str {
    if v.is_nan() {
        "nan"
    } else if v > 0.0 {
        "inf"
    } else {
        "-inf"
    }
}

/// A number, or a list of numbers, as JSON.
pub fn item_json(item: &Item) -> Value {
    match item {
        Item::One(n) => num_json(*n),
        Item::Many(v) => v.iter().map(|n| num_json(*n)).collect(),
    }
}

/// The JSON of a call, as described in the module's documentation.
pub fn json(call: &Invocation, outcome: &Outcome) -> Value {
    let mut all = json!({
        "function": format!("%{}", call.symbol),
        "value": outcome.value.iter().map(item_json).collect::<Vec<_>>(),
        "buffers": outcome.buffers.iter().map(|b| b.as_ref().map(|b| item_json(&Item::Many(b.clone())))).collect::<Vec<_>>(),
        "gradient": outcome.gradient.iter().map(|g| g.as_ref().map(item_json)).collect::<Vec<_>>(),
    });
    if let (Some(fields), true) = (all.as_object_mut(), outcome.loops != LoopStats::default()) {
        let mut loops = loops_json(&outcome.loops);
        loops["plans"] = outcome.plans.iter().map(plan_json).collect();
        fields.insert("loops".to_owned(), loops);
    }
    if let (Some(fields), true) = (all.as_object_mut(), outcome.inverses != InverseStats::default()) {
        let InverseStats { calls, undone, recorded, chains, max_bytes } = outcome.inverses;
        let found = json!({
            "calls": calls,
            "undone": undone,
            "recorded": recorded,
            "chains": chains,
            "max_bytes": max_bytes,
        });
        fields.insert("inverses".to_owned(), found);
    }
    all
}

/// What time loops have done: steps without a record, with one, and reversed; states that were kept
/// and put back; most states and bytes at a time.
fn loops_json(loops: &LoopStats) -> Value {
    let LoopStats { forward, taped, reversed, stores, restores, max_slots, max_bytes, .. } = *loops;
    let LoopStats { disk_writes, disk_reads, disk_bytes, .. } = *loops;
    let steps = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
    json!({
        "forward": steps(forward),
        "taped": steps(taped),
        "reversed": steps(reversed),
        "stores": stores,
        "restores": restores,
        "disk_writes": disk_writes,
        "disk_reads": disk_reads,
        "disk_bytes": disk_bytes,
        "max_slots": max_slots,
        "max_bytes": max_bytes,
    })
}

/// How loops of a step were reversed: how many there were, what the forward pass of the last one
/// recorded, and what was to be done with its other steps.
pub fn plan_json(plan: &LoopReport) -> Value {
    let LoopReport { name, runs, recorded, selection } = plan;
    let mut all = json!({ "loop": name, "runs": runs, "recorded": recorded });
    if let Some(chosen) = selection {
        let number = |n: u128| u64::try_from(n).unwrap_or(u64::MAX);
        all["method"] = json!(chosen.method.name());
        all["parameters"] = json!(chosen.method.to_string());
        all["steps"] = json!(chosen.size.steps);
        all["forward"] = json!(chosen.forecast.map(|f| number(f.forward)));
        all["state"] = json!(chosen.size.state);
        all["bytes"] = json!(number(chosen.bytes()));
        all["disk_bytes"] = json!(number(chosen.file_bytes()));
    }
    all
}

/// How loops of a step were reversed, for people.
pub fn plan_text(plan: &LoopReport) -> String {
    let LoopReport { name, runs, recorded, selection } = plan;
    let times = if *runs == 1 { String::new() } else { format!(", the last of {runs}") };
    let mut out = format!("  {name}{times}: ");
    match selection {
        None => out += &format!("all {recorded} steps recorded as they run\n"),
        Some(chosen) => {
            if *recorded > 0 {
                out += &format!("{recorded} steps recorded as they run, then ");
            }
            out += &chosen.to_string().replace('\n', "\n    ");
            out.push('\n');
        }
    }
    out
}

/// The JSON of a call without derivatives: as [`json()`], without `gradient`.
pub fn primal_json(call: &Invocation, outcome: &Outcome) -> Value {
    let mut all = json(call, outcome);
    if let Some(fields) = all.as_object_mut() {
        fields.shift_remove("gradient");
    }
    all
}

/// The JSON of an error: `{"error": {"kind": …, "message": …, …}}`.
///
/// `kind` is `diagnostics` (with the list `diagnostics`), `trap` (with `code`, `function`, `line`,
/// `phase`), `usage`, `mismatch`, `oracle` (the interpreter cannot follow the call) or `internal`.
pub fn error_json(error: &Error) -> Value {
    let body = match error {
        Error::Diagnostics(ds) => return diagnostics_json(ds),
        Error::Trap(t) => trap_json(t),
        Error::Usage(message) => json!({ "kind": "usage", "message": message }),
        Error::Internal { stage, message } => json!({ "kind": "internal", "stage": stage, "message": message }),
    };
    json!({ "error": body })
}

/// The JSON of a list of problems.
pub fn diagnostics_json(ds: &Diagnostics) -> Value {
    let message = ds.0.first().map(|d| d.message.clone()).unwrap_or_default();
    let list: Vec<_> = ds.0.iter().map(diagnostic_json).collect();
    json!({ "error": { "kind": "diagnostics", "message": message, "diagnostics": list } })
}

/// The JSON of an error without structure.
pub fn message_json(kind: &str, message: &str) -> Value {
    json!({ "error": { "kind": kind, "message": message } })
}

/// A position, if it is a line of a text.
pub(crate) fn line(at: Option<u32>) -> Option<u32> {
    at.filter(|at| *at != 0 && at & brolga_ir::OFFSET == 0)
}

/// A position, if it is a byte offset in a binary file.
pub(crate) fn offset(at: Option<u32>) -> Option<u32> {
    at.filter(|at| at & brolga_ir::OFFSET != 0).map(|at| at & !brolga_ir::OFFSET)
}

fn diagnostic_json(d: &Diagnostic) -> Value {
    json!({
        "code": d.code,
        "message": d.message,
        "function": (!d.function.is_empty()).then(|| format!("%{}", d.function)),
        "line": line(d.line),
        "offset": offset(d.line),
        "block": d.block.map(|b| b.to_string()),
        "inst": d.inst.map(|i| i.to_string()),
        "text": d.inst_text,
        "notes": d.notes,
        "help": d.help,
    })
}

fn trap_json(t: &Trap) -> Value {
    let mut body = json!({
        "kind": "trap",
        "message": t.message,
        "code": t.code,
        "function": format!("%{}", t.function),
        "line": line(t.line),
        "offset": offset(t.line),
        "block": t.block.map(|b| b.to_string()),
        "inst": t.inst.map(|i| i.to_string()),
        "text": t.inst_text,
        "phase": t.phase,
    });
    if let Some(name) = &t.source_name {
        body["source_name"] = json!(name);
    }
    if !t.inlined.is_empty() {
        body["inlined"] = json!(t.inlined);
    }
    body
}

/// An item for people: shortest digits that read back as the same number.
pub fn show(item: &Item) -> String {
    match item {
        Item::One(n) => show_num(*n),
        Item::Many(v) => {
            // A long buffer is summarised: the JSON output has all of it.
            let shown: Vec<_> = v.iter().take(MAX_SHOWN).map(|n| show_num(*n)).collect();
            let more = if v.len() > MAX_SHOWN { format!(", … {} more", v.len() - MAX_SHOWN) } else { String::new() };
            format!("[{}{more}]", shown.join(", "))
        }
    }
}

const MAX_SHOWN: usize = 32;

/// A number for people.
pub fn show_num(n: Num) -> String {
    match n {
        Num::Int(v) => v.to_string(),
        Num::F32(v) if v.is_finite() => format!("{v:?}"),
        Num::F64(v) if v.is_finite() => format!("{v:?}"),
        Num::F128(bits) if !is_a_double(bits) => Ieee128::with_bits(bits).to_string(),
        Num::F16(_) | Num::F128(_) if n.as_f64().is_finite() => format!("{:?}", n.as_f64()),
        float => non_finite(float.as_f64()).to_owned(),
    }
}

/// A call's outcome for people.
pub fn text(written: &str, call: &Invocation, outcome: &Outcome) -> String {
    let mut out = primal_text(written, outcome);
    for (i, g) in outcome.gradient.iter().enumerate() {
        let shown = g.as_ref().map_or_else(|| "const".to_owned(), show);
        out += &format!("  {:<12} {shown}\n", format!("gradient {i}"));
    }
    debug_assert_eq!(outcome.gradient.len(), call.args.len());
    out += &format!("  {:<12} {} bytes\n", "recorded", outcome.tape_bytes);
    if outcome.loops != LoopStats::default() {
        let LoopStats { forward, taped, stores, restores, max_slots, max_bytes, .. } = outcome.loops;
        let LoopStats { disk_writes, disk_reads, disk_bytes, .. } = outcome.loops;
        out += &format!("  {:<12} {forward} steps run, {taped} recorded and reversed\n", "time loops");
        out += &format!(
            "  {:<12} {stores} states kept, {restores} put back; {max_slots} and {max_bytes} bytes at most\n",
            ""
        );
        if disk_writes > 0 {
            let more = format!("{disk_writes} states written to a file, {disk_reads} read; {disk_bytes} bytes at most");
            out += &format!("  {:<12} {more}\n", "");
        }
        out.extend(outcome.plans.iter().map(plan_text));
    }
    if outcome.inverses != InverseStats::default() {
        let InverseStats { calls, undone, recorded, chains, max_bytes } = outcome.inverses;
        out += &format!("  {:<12} {calls} calls, {undone} undone, {recorded} words recorded\n", "inverses");
        out += &format!("  {:<12} {chains} states kept; {max_bytes} bytes at most\n", "");
    }
    out
}

/// What a call without derivatives gave, for people.
pub fn primal_text(written: &str, outcome: &Outcome) -> String {
    values_text(written, &outcome.value, &outcome.buffers)
}

/// A call, its results, and what is in its buffers, for people.
pub fn values_text(written: &str, value: &[Item], buffers: &[Option<Vec<Num>>]) -> String {
    let mut out = format!("{written}\n");
    for (i, v) in value.iter().enumerate() {
        let name = if value.len() == 1 { "value".to_owned() } else { format!("value {i}") };
        out += &format!("  {name:<12} {}\n", show(v));
    }
    for (i, b) in buffers.iter().enumerate() {
        if let Some(b) = b {
            out += &format!("  {:<12} {}\n", format!("buffer {i}"), show(&Item::Many(b.clone())));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::{num_json, show_num};
    use crate::value::Num;

    #[test]
    fn numbers_round_trip() {
        for v in [0.1, -0.0, 1e300, 5e-324, 1.0 / 3.0, 2.0] {
            let back: f64 = serde_json::from_str(&num_json(Num::F64(v)).to_string()).unwrap();
            assert_eq!(back.to_bits(), v.to_bits());
            assert_eq!(show_num(Num::F64(v)).parse::<f64>().unwrap().to_bits(), v.to_bits());
        }
        let back: f64 = serde_json::from_str(&num_json(Num::F32(0.1)).to_string()).unwrap();
        assert_eq!(back as f32, 0.1f32);
        assert_eq!(num_json(Num::F64(f64::NEG_INFINITY)), "-inf");
        assert_eq!(num_json(Num::F32(f32::NAN)), "nan");
        assert_eq!([Num::F16(0x3e00), Num::F128(0x3fff_8000 << 96)].map(show_num), ["1.5", "1.5"]);
        assert_eq!(num_json(Num::F16(0x3e00)), 1.5);
        // One more digit than a double has.
        let long = Num::F128((0x3fff << 112) | 1);
        assert_eq!(show_num(long), "0x1.0000000000000000000000000001p0");
        assert_eq!(num_json(long), show_num(long));
        assert_eq!(num_json(Num::Int(u64::MAX.into())), u64::MAX);
        assert_eq!(num_json(Num::Int(i128::MAX)), i128::MAX.to_string());
    }
}
