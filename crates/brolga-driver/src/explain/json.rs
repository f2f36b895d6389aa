//! Explanation as JSON, for programs: one object per call.
//!
//! **Question.** How does a program read why a gradient is what it is?
//!
//! **Answer.** As the JSON of an [`Explanation`] ([`json()`]):
//!
//! ```json
//! {"function": "%f",
//!  "inputs": [{"input": "0", "value": 1.0, "gradient": 0.0,
//!              "why": [{"kind": "rounded", "text": "…", "at": {…}}]}],
//!  "non_finite": [{"at": {…}, "value": 0.0, "cotangent": 1.0, "slope": "inf", "passes": "inf"}],
//!  "non_finite_value": null,
//!  "contributions": {"of": "0", "more": 0,
//!                    "terms": [{"at": {…}, "count": 1, "sum": 2.0, "largest": 2.0}]},
//!  "recorded": {"bytes": 8,
//!               "functions": [{"function": "%f", "frame_bytes": 0, "blocks": [{…}]}]}}
//! ```
//!
//! A place is `{"function", "inst", "text", "line", "offset"}`, where one of the last two is null.
//! Numbers are as in [`crate::output`]. A reason's `kind` is one of `const`, `rounded`,
//! `not_chosen`, `compared`, `locally_constant`, `overwritten`, `stored`, `unused`, `zero_slope`,
//! `underflow`, `cancelled`, `zero_seed`, `not_reached`. Sums of a task are `pending`: `never`,
//! `where_tasks_meet`, or `always`.
//!
//! **Cost.** One walk over the explanation.

use brolga_oracle::Place;
use brolga_transform::plan::remarks::TaskSums;
use serde_json::{Value, json};

use super::plan::{FunctionPlan, RecordedValue, Sums};
use super::{Explanation, GradientEntry, PathBack, ReasonText, Term};
use crate::bind::Invocation;
use crate::output::{line, num_json, offset};
use crate::value::Num;

fn num(x: f64) -> Value {
    num_json(Num::F64(x))
}

fn place(p: &Place) -> Value {
    json!({
        "function": format!("%{}", p.function),
        "inst": p.inst.to_string(),
        "text": p.text,
        "line": line(Some(p.line)),
        "offset": offset(Some(p.line)),
    })
}

/// The JSON of an explanation.
pub fn json(call: &Invocation, e: &Explanation) -> Value {
    let recorded = match &e.plans {
        Ok(plans) => json!({ "bytes": e.tape_bytes, "functions": plans.iter().map(function).collect::<Vec<_>>() }),
        Err(message) => json!({ "error": message }),
    };
    json!({
        "function": format!("%{}", call.symbol),
        "inputs": e.entries.iter().map(entry).collect::<Vec<_>>(),
        "non_finite": e.non_finite.as_ref().map(|way| way.iter().map(step).collect::<Vec<_>>()),
        "non_finite_value": e.non_finite_value.as_ref().map(|(at, v)| {
            json!({ "at": at.as_ref().map(|p| place(p)), "value": num(*v) })
        }),
        "contributions": {
            "of": e.of,
            "terms": e.contributions.iter().map(term).collect::<Vec<_>>(),
            "more": e.more_contributions,
        },
        "recorded": recorded,
    })
}

fn entry(e: &GradientEntry) -> Value {
    json!({
        "input": e.input.name(),
        "value": e.gradient.map(|_| num(e.input.value)),
        "gradient": e.gradient.map(num),
        "compiled": e.compiled.map(num),
        "why": e.why.iter().map(why).collect::<Vec<_>>(),
    })
}

fn why(w: &ReasonText) -> Value {
    json!({ "kind": w.kind, "text": w.text, "at": w.at.as_ref().map(|p| place(p)) })
}

fn step(s: &PathBack) -> Value {
    json!({
        "at": s.at.as_ref().map(|p| place(p)),
        "value": num(s.value),
        "cotangent": num(s.cotangent),
        "slope": s.passed.map(|p| num(p.0)),
        "passes": s.passed.map(|p| num(p.1)),
    })
}

fn term(t: &Term) -> Value {
    json!({ "at": place(&t.at), "count": t.count, "sum": num(t.sum), "largest": num(t.largest) })
}

fn function(f: &FunctionPlan) -> Value {
    let recorded = |list: &[RecordedValue]| -> Vec<Value> {
        list.iter().map(|r| json!({ "what": r.what, "bytes": r.bytes, "for": r.readers, "why": r.why })).collect()
    };
    let blocks = f.blocks.iter().map(|b| {
        let mut block = json!({
            "block": b.block,
            "line": line(Some(b.line)),
            "offset": offset(Some(b.line)),
            "times": b.times,
            "bytes_each": b.bytes_each(),
            "keeps": recorded(&b.keeps),
            "pushes": recorded(&b.pushes),
            "number_bytes": b.number_bytes,
            "holds": recorded(&b.holds),
            "knows": recorded(&b.knows),
            "recomputes": recorded(&b.recomputes),
            "again": b.rerun,
            "lanes": b.lanes,
            "room": b.room,
        });
        if let Some(f) = &b.inlined {
            block["inlined"] = json!(format!("%{f}"));
        }
        block
    });
    let mut all = json!({
        "function": format!("%{}", f.function),
        "frame_bytes": f.frame_bytes,
        "blocks": blocks.collect::<Vec<_>>(),
    });
    if !f.sums.is_empty() {
        let sums = |s: &Sums| json!({ "pointer": s.pointer, "pending": pending(s), "for": s.accesses, "why": s.why });
        all["sums"] = f.sums.iter().map(sums).collect();
    }
    all
}

/// Whether cotangents go to sums of a task's own.
fn pending(s: &Sums) -> &'static str {
    match s.sums {
        TaskSums::Shadow => "never",
        TaskSums::Apart => "where_tasks_meet",
        TaskSums::Pending => "always",
    }
}
