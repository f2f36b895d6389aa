//! Explanations: for each way in which a gradient becomes zero a small function, the instruction
//! that does it, and where a gradient stops being finite, what it is made of, and what is recorded
//! for it.

use brolga::{Effort, Mode};
use brolga_driver::explain::{ExplainRequest, Explanation, explain, json, text};
use brolga_driver::text::directive::call_with_clauses;
use brolga_driver::{File, Invocation};
use expect_test::{Expect, expect};

/// The explanation of a call of a function with these instructions.
fn explained(source: &str, call: &str, wrt: Option<(usize, Option<usize>)>) -> (Explanation, Invocation) {
    explained_in(Mode::Split, source, call, wrt)
}

fn explained_in(
    mode: Mode,
    source: &str,
    call: &str,
    wrt: Option<(usize, Option<usize>)>,
) -> (Explanation, Invocation) {
    let file = File::parse("test.clif", source).unwrap_or_else(|e| panic!("{e}"));
    let (parsed, clauses) = call_with_clauses(call).unwrap();
    let bound = Invocation::bind(&file.program, call, &parsed, &clauses).unwrap();
    // What is recorded is what a run of the explained plan records.
    let wanted = ExplainRequest { wrt, top: 5, mode, effort: Effort::Full, ..ExplainRequest::default() };
    let found = explain(&file.program, &bound, wanted).unwrap();
    (found, bound)
}

/// The reasons for the gradient of each input, a line for each.
fn why(source: &str, call: &str, want: &Expect) {
    let (found, _) = explained(source, call, None);
    let mut out = String::new();
    for e in &found.entries {
        assert_eq!(e.compiled, None, "the compiled gradient differs");
        let gradient = e.gradient.map_or("none".to_owned(), |g| format!("{g:?}"));
        out += &format!("{}: {gradient}\n", e.input.name());
        for w in &e.why {
            let at = w.at.as_ref().map_or(String::new(), |p| format!(" @ {}: {}", p.line, p.text));
            out += &format!("  {}: {}{at}\n", w.kind, w.text);
        }
    }
    want.assert_eq(&out);
}

#[test]
fn rounded_compared_and_not_chosen() {
    let f = "function %f(f64, f64, f64) -> f64 system_v {
block0(v0: f64, v1: f64, v2: f64):
    v3 = floor v0
    v4 = fcvt_to_sint_sat.i64 v0
    v5 = fcvt_from_sint.f64 v4
    v6 = fadd v3, v5
    v7 = fcmp lt v1, v2
    v8 = select v7, v6, v2
    v9 = fmax v8, v2
    return v9
}";
    why(
        f,
        "%f(1.5, 2.0, 1.0)",
        &expect![[r#"
            0: 0.0
              rounded: rounded to an integral number, which has no slope @ 3: v3 = floor.f64 v0
              rounded: rounded to an integral number, which has no slope @ 4: v4 = fcvt_to_sint_sat.i64 v0
            1: 0.0
              compared: only compared @ 7: v7 = fcmp.f64 lt v1, v2
            2: 1.0
        "#]],
    );
    let f = "function %f(f64, f64) -> f64 system_v {
block0(v0: f64, v1: f64):
    v2 = f64const 0.0
    v3 = fcmp gt v0, v2
    v4 = select v3, v0, v2
    v5 = call fn0(v1)
    v6 = fmul v5, v5
    v7 = fadd v4, v6
    return v7
}"
    .replace("system_v {", "system_v {\n    fn0 = %round(f64) -> f64 system_v");
    why(
        &f,
        "%f(-1.5, 0.6)",
        &expect![[r#"
        0: 0.0
          not_chosen: not chosen: another operand was taken @ 6: v4 = select.f64 v3, v0, v2
        1: 0.0
          rounded: rounded to an integral number, which has no slope @ 7: v5 = call fn0(v1)
    "#]],
    );
}

#[test]
fn minimum_branch_and_edge() {
    let f = "function %f(f64, f64, f64) -> f64 system_v {
block0(v0: f64, v1: f64, v2: f64):
    v3 = fmin v0, v1
    v4 = fcmp gt v3, v1
    brif v4, block1(v2), block2
block1(v5: f64):
    v6 = fmul v5, v2
    return v6
block2:
    return v3
}";
    why(
        f,
        "%f(3.0, 2.0, 5.0)",
        &expect![[r#"
        0: 0.0
          not_chosen: not chosen: another operand was taken @ 3: v3 = fmin.f64 v0, v1
        1: 1.0
        2: 0.0
          not_chosen: not chosen: another operand was taken @ 5: brif.i8 v4, block1(v2), block2
    "#]],
    );
}

#[test]
fn memory_that_is_overwritten_or_never_read() {
    let f = "function %f(i64, f64, i64) -> f64 system_v {
    ss0 = explicit_slot 16
block0(v0: i64, v1: f64, v2: i64):
    v3 = f64const 0x1.0
    store v3, v0
    v4 = load.f64 v0
    v5 = stack_addr.i64 ss0
    v6 = fmul v1, v1
    store v6, v5+8
    store v1, v2
    return v4
}";
    why(
        f,
        "%f([4.0, 5.0], 3.0, [0.0])",
        &expect![[r#"
        0[0]: 0.0
          overwritten: overwritten in memory before anything that counts read it @ 5: store.f64 v3, v0
        0[1]: 0.0
          unused: not used by any instruction that was executed
        1: 0.0
          zero_seed: it ends up in element 0 of argument 2, whose initial shadow is zero
          stored: stored, but nothing that counts reads it back @ 9: store.f64 v6, v5+8
        2[0]: 0.0
          overwritten: overwritten in memory before anything that counts read it @ 10: store.f64 v1, v2
    "#]],
    );
}

#[test]
fn zero_slopes_cancelling_terms_and_seeds() {
    let f = "function %f(f64, f64, f64) -> f64, f64 system_v {
block0(v0: f64, v1: f64, v2: f64):
    v3 = fmul v0, v1
    v4 = fsub v1, v1
    v5 = fadd v3, v4
    v6 = fmul v2, v2
    return v5, v6
}";
    why(
        f,
        "%f(0.0, 0.0, 3.0) seed 1.0, 0.0",
        &expect![[r#"
        0: 0.0
          zero_slope: multiplied by zero (cotangent 1.0) @ 3: v3 = fmul.f64 v0, v1
        1: 0.0
          zero_slope: multiplied by zero (cotangent 1.0) @ 3: v3 = fmul.f64 v0, v1
          cancelled: its terms cancel: +1.0 from inst1 (line 4), -1.0 from inst1 (line 4)
        2: 0.0
          zero_seed: it reaches result 1, whose seed is zero
    "#]],
    );
    why(
        "function %f(f64) -> f64 system_v {
block0(v0: f64):
    v1 = f64const 0x1.0p-800
    v2 = fmul v0, v1
    v3 = fmul v2, v1
    return v3
}",
        "%f(1.0)",
        &expect![[r#"
            0: 0.0
              underflow: the product of cotangent and slope is too small @ 4: v2 = fmul.f64 v0, v1
        "#]],
    );
}

#[test]
fn constant_unused_and_sign_only() {
    let f = "function %f(f64, f64, f64, i64) -> f64 system_v {
block0(v0: f64, v1: f64, v2: f64, v3: i64):
    v4 = fcopysign v0, v1
    v5 = load.f64 v3
    v6 = fmul v4, v5
    return v6
}";
    why(
        f,
        "%f(2.0, -1.0, 7.0, [3.0, 1.0]) activity active, active, active, const",
        &expect![[r#"
        0: -3.0
        1: 0.0
          locally_constant: used where only its sign or a constant counts @ 3: v4 = fcopysign.f64 v0, v1
        2: 0.0
          unused: not used by any instruction that was executed
        3[0]: none
          const: argument 3 is constant: nothing is differentiated with respect to it
    "#]],
    );
}

const NORM: &str = "function %norm(i64, i64) -> f64 system_v {
block0(v0: i64, v1: i64):
    v2 = f64const 0.0
    jump block1(v0, v1, v2)
block1(v3: i64, v4: i64, v5: f64):
    v6 = load.f64 v3
    v7 = fmul v6, v6
    v8 = fadd v5, v7
    v9 = iconst.i64 8
    v10 = iadd v3, v9
    v11 = iconst.i64 -1
    v12 = iadd v4, v11
    brif v12, block1(v10, v12, v8), block2
block2:
    v13 = sqrt v8
    return v13
}";

#[test]
fn the_first_cotangent_that_is_not_finite() {
    // A cube root does not turn back at zero.
    let text = NORM.replace("sqrt v8", "call fn0(v8)");
    let text = text.replace("{\nblock0", "{\n    fn0 = %cbrt(f64) -> f64 system_v\nblock0");
    let (found, _) = explained(&text, "%norm([0.0, 0.0], 2)", None);
    expect![[r#"
        %norm([0.0, 0.0], 2)

        Gradient
          0[0]     nan            at 0.0
          0[1]     nan            at 0.0

        First cotangent that is not finite, and how it came about
          %norm, line 16: `v13 = call fn0(v8)`
              value 0.0, cotangent 1.0
              passes on 1.0 · inf = inf
          %norm, line 9: `v8 = fadd.f64 v5, v7`
              value 0.0, cotangent inf

        Largest contributions (cotangent · slope)
          nan in 4 terms, the largest nan
              at %norm, line 8: `v7 = fmul.f64 v6, v6`
          inf in 3 terms, the largest inf
              at %norm, line 9: `v8 = fadd.f64 v5, v7`
          inf
              at %norm, line 16: `v13 = call fn0(v8)`

        Recorded: 72 bytes
          %norm: an activation frame of 48 bytes
            block0 (line 4), entered 1 time: pushes nothing
              keeps v1, parameter 1 of the function, 8 bytes
                for computing v3, parameter 0 of block1 again
                for the reverse of block1, which holds it
                since the caller passes it to the forward pass only
              keeps v0, parameter 0 of the function, 8 bytes
                for computing v3, parameter 0 of block1 again
                since the caller passes it to the forward pass only
              keeps the shadow of the pointer v0, parameter 0 of the function, 8 bytes
                for the reverse of block1, which holds it
                since the caller passes it to the forward pass only
            block1 (line 7), entered 2 times: pushes 8 bytes each time
              its loop runs iteration by iteration, since it records
              the reverse of its loop runs 4 iterations at a time
              its loop asks once whether there is room on the tape, for 8 bytes an iteration
              pushes `v6 = load.f64 v3` (line 7), 8 bytes
                for the reverse of `v7 = fmul.f64 v6, v6` (line 8)
                since the memory may be another when the pullback runs
              holds v3, parameter 0 of block1
                for the reverse of `v6 = load.f64 v3` (line 7)
                for the reverse of block1, which holds it
                since its value before a step of the loop follows from the value after it
              holds the shadow of the pointer v0, parameter 0 of the function
                for the reverse of `v6 = load.f64 v3` (line 7)
                since all iterations of the loop read the same value
              holds v4, parameter 1 of block1
                for the reverse of block1, which holds it
                for finding the way back
                since its value before a step of the loop follows from the value after it
              holds v1, parameter 1 of the function
                for finding the way back
                since all iterations of the loop read the same value
              computes again `v9 = iconst.i64 8` (line 10)
                for the reverse of block1, for which it gives v3, parameter 0 of block1
                since it is the same wherever it is computed
              computes again `v11 = iconst.i64 -1` (line 12)
                for the reverse of block1, for which it gives v4, parameter 1 of block1
                since it is the same wherever it is computed
            block2 (line 16), entered 1 time: pushes nothing
              keeps `v13 = call fn0(v8)` (line 16), 8 bytes
                for the reverse of `v13 = call fn0(v8)` (line 16)
                since a call is not made again
              knows v3, parameter 0 of block1
                for the reverse of block1, which holds it
                since it has gone as many steps as a number that was compared with its bound
              knows v4, parameter 1 of block1
                for the reverse of block1, which holds it
                since the loop has ended where it was compared with its bound
              computes again `iconst.i64 0` in front of `jump block1(v0, v1, v2)` (line 5)
                for computing v3, parameter 0 of block1 again
                for computing v4, parameter 1 of block1 again
                since it is the same wherever it is computed
    "#]]
    .assert_eq(&text::text("%norm([0.0, 0.0], 2)", &found));
}

#[test]
fn terms_of_one_gradient_and_what_is_recorded() {
    let (found, call) = explained(NORM, "%norm([3.0, 4.0], 2)", Some((0, Some(1))));
    let sum: f64 = found.contributions.iter().map(|c| c.sum).sum();
    assert_eq!(Some(sum), found.entries[0].gradient);
    let object = json::json(&call, &found);
    let without = |key: &str| {
        object
            .as_object()
            .unwrap()
            .iter()
            .filter(|(k, _)| *k != key)
            .map(|(k, v)| (k.clone(), v.clone()))
            .collect::<serde_json::Map<_, _>>()
    };
    expect![[r#"
        {
          "function": "%norm",
          "inputs": [
            {
              "input": "0[1]",
              "value": 4.0,
              "gradient": 0.8,
              "compiled": null,
              "why": []
            }
          ],
          "non_finite": null,
          "non_finite_value": null,
          "contributions": {
            "of": "0[1]",
            "terms": [
              {
                "at": {
                  "function": "%norm",
                  "inst": "inst3",
                  "text": "v7 = fmul.f64 v6, v6",
                  "line": 7,
                  "offset": null
                },
                "count": 2,
                "sum": 0.8,
                "largest": 0.4
              }
            ],
            "more": 0
          }
        }"#]]
    .assert_eq(&serde_json::to_string_pretty(&without("recorded")).unwrap());
    let functions = object["recorded"]["functions"].as_array().unwrap();
    let bytes: u64 = functions
        .iter()
        .flat_map(|f| f["blocks"].as_array().unwrap())
        .map(|b| b["bytes_each"].as_u64().unwrap() * b["times"].as_u64().unwrap())
        .sum();
    // Beside records there are the frame and the link to it.
    let frame = functions[0]["frame_bytes"].as_u64().unwrap();
    let link = if frame == 0 { 0 } else { 8 };
    assert_eq!(bytes + frame + link, object["recorded"]["bytes"].as_u64().unwrap());
}

/// The sum of `sqrt(x[i]) exp(v) floor(w)` backwards over an array, which it overwrites, times the
/// larger of `floor(w)` and 2: its loop counts, reads from outside, and needs what it loaded.
const LOOP: &str = "function %f(i64, i64, f64, f64) -> f64 system_v {
    fn0 = %exp(f64) -> f64 system_v
block0(v0: i64, v1: i64, v2: f64, v21: f64):
    v3 = f64const 0.0
    v4 = floor v21
    v20 = call fn0(v2)
    jump block1(v1, v3)
block1(v5: i64, v6: f64):
    v7 = iconst.i64 -1
    v8 = iadd v5, v7
    v9 = iconst.i64 3
    v10 = ishl v8, v9
    v11 = iadd v0, v10
    v12 = load.f64 v11
    v13 = sqrt v12
    v14 = fmul v13, v4
    v15 = fmul v14, v20
    v16 = fadd v6, v15
    store v16, v11
    brif v8, block1(v8, v16), block2
block2:
    v17 = f64const 0x1.0p1
    v18 = fmax v4, v17
    v19 = fmul v16, v18
    return v19
}";

#[test]
fn a_loop_in_every_mode() {
    let (mut seen, mut recorded) = (Vec::new(), Vec::new());
    for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
        let (found, call) = explained_in(mode, LOOP, "%f([4.0, 0.0, 9.0], 3, 0.5, 3.5)", None);
        // The edges that cut, the first cotangent that is not finite and the largest terms are the
        // primal's affair.
        let cut: Vec<_> = found.entries.iter().flat_map(|e| &e.why).map(|w| (w.kind, w.at.clone())).collect();
        let mut way = found.non_finite.iter().flatten();
        let first = way.find(|s| s.passed.is_some_and(|p| !p.1.is_finite())).and_then(|s| s.at.clone()).unwrap();
        assert_eq!(first.text, "v13 = sqrt.f64 v12");
        let largest = found.contributions[0].clone();
        seen.push((cut, first, largest.at, largest.count));
        // What is recorded is the mode's; each value has readers and a reason.
        for f in found.plans.as_ref().unwrap() {
            for b in &f.blocks {
                for r in b.keeps.iter().chain(&b.pushes).chain(&b.holds).chain(&b.knows).chain(&b.recomputes) {
                    assert!(!r.readers.is_empty(), "{mode:?}: {} of {} has no reader", r.what, b.block);
                    assert!(!r.why.is_empty());
                }
            }
        }
        let object = json::json(&call, &found);
        let why: Vec<&serde_json::Value> = object["recorded"]["functions"][0]["blocks"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|b| ["keeps", "pushes", "holds", "knows", "recomputes"].map(|k| &b[k]))
            .flat_map(|list| list.as_array().unwrap())
            .map(|r| &r["why"])
            .collect();
        assert!(!why.is_empty() && why.iter().all(|w| w.is_string()));
        let said = text::text("", &found);
        let (_, said) = said.split_once("\nRecorded").unwrap();
        recorded.push(said.to_owned());
    }
    assert!(seen.windows(2).all(|w| w[0] == w[1]), "{seen:?}");
    let kinds: Vec<&str> = seen[0].0.iter().map(|c| c.0).collect();
    expect!["rounded"].assert_eq(&kinds.join(" "));
    expect![[r#"
        : 96 bytes
          %f: an activation frame of 64 bytes
            block0 (line 4), entered 1 time: pushes nothing
              keeps `v20 = call fn0(v2)` (line 6), 8 bytes
                for the reverse of `v20 = call fn0(v2)` (line 6)
                for the reverse of block1, which holds it
                since a call is not made again
              keeps v0, parameter 0 of the function, 8 bytes
                for the reverse of block1, which holds it
                since the caller passes it to the forward pass only
              keeps the shadow of the pointer v0, parameter 0 of the function, 8 bytes
                for the reverse of block1, which holds it
                since the caller passes it to the forward pass only
              keeps `v4 = floor.f64 v21` (line 5), 8 bytes
                for the reverse of block1, which holds it
                since a place for it costs less than computing it again
              keeps v1, parameter 1 of the function, 8 bytes
                for the reverse of block1, which holds it
                since the caller passes it to the forward pass only
            block1 (line 9), entered 3 times: pushes 8 bytes each time
              its loop runs iteration by iteration, since it records
              the reverse of its loop runs iteration by iteration, since it does not read and write neighbours one after the other
              its loop asks once whether there is room on the tape, for 8 bytes an iteration
              pushes `v13 = sqrt.f64 v12` (line 15), 8 bytes
                for the reverse of `v13 = sqrt.f64 v12` (line 15)
                for computing `v14 = fmul.f64 v13, v4` (line 16) again
                since computing it again would need more bytes of operands, or more time
              holds v0, parameter 0 of the function
                for computing `v11 = iadd.i64 v0, v10` (line 13) again
                since all iterations of the loop read the same value
              holds v5, parameter 0 of block1
                for computing `v8 = iadd.i64 v5, v7` (line 10) again
                for the reverse of block1, which holds it
                for finding the way back
                since its value before a step of the loop follows from the value after it
              holds the shadow of the pointer v0, parameter 0 of the function
                for the reverse of `v12 = load.f64 v11` (line 14)
                for the reverse of `store.f64 v16, v11` (line 19)
                since all iterations of the loop read the same value
              holds `v4 = floor.f64 v21` (line 5)
                for the reverse of `v14 = fmul.f64 v13, v4` (line 16)
                for computing `v14 = fmul.f64 v13, v4` (line 16) again
                since all iterations of the loop read the same value
              holds `v20 = call fn0(v2)` (line 6)
                for the reverse of `v15 = fmul.f64 v14, v20` (line 17)
                since all iterations of the loop read the same value
              holds v1, parameter 1 of the function
                for finding the way back
                since all iterations of the loop read the same value
              computes again `v7 = iconst.i64 -1` (line 9)
                for computing `v8 = iadd.i64 v5, v7` (line 10) again
                for the reverse of block1, for which it gives v5, parameter 0 of block1
                since it is the same wherever it is computed
              computes again `v8 = iadd.i64 v5, v7` (line 10)
                for computing `v10 = ishl.i64 v8, v9` (line 12) again
                since this costs less than memory, and the operands are there
              computes again `v9 = iconst.i64 3` (line 11)
                for computing `v10 = ishl.i64 v8, v9` (line 12) again
                since it is the same wherever it is computed
              computes again `v10 = ishl.i64 v8, v9` (line 12)
                for computing `v11 = iadd.i64 v0, v10` (line 13) again
                since this costs less than memory, and the operands are there
              computes again `v11 = iadd.i64 v0, v10` (line 13)
                for the reverse of `v12 = load.f64 v11` (line 14)
                for the reverse of `store.f64 v16, v11` (line 19)
                since this costs less than memory, and the operands are there
              computes again `v14 = fmul.f64 v13, v4` (line 16)
                for the reverse of `v15 = fmul.f64 v14, v20` (line 17)
                since this costs less than memory, and the operands are there
            block2 (line 22), entered 1 time: pushes nothing
              keeps `v18 = fmax.f64 v4, v17` (line 23), 8 bytes
                for the reverse of `v19 = fmul.f64 v16, v18` (line 24)
                since a place for it costs less than computing it again
              knows v5, parameter 0 of block1
                for the reverse of block1, which holds it
                since the loop has ended where it was compared with its bound
              computes again `iconst.i64 0` in front of `jump block1(v1, v3)` (line 7)
                for computing v5, parameter 0 of block1 again
                since it is the same wherever it is computed
    "#]]
    .assert_eq(&recorded[0]);
    // What one function for both halves does otherwise.
    let only = recorded[1].lines().filter(|l| !recorded[0].lines().any(|m| m == *l)).map(|l| format!("{l}\n"));
    expect![[r#"
        : 24 bytes
          %f: no activation frame
                since both halves are one function, so it stays where it is
                since both halves are one function, so it stays where it is
                since both halves are one function, so it stays where it is
                since both halves are one function, so it stays where it is
                since both halves are one function, so it stays where it is
                since both halves are one function, so it stays where it is
    "#]]
    .assert_eq(&only.collect::<String>());
}

#[test]
fn a_loop_that_runs_again_records_nothing() {
    let f = "function %f(i64, i64, i64) -> f64 system_v {
block0(v0: i64, v1: i64, v2: i64):
    v3 = f64const 0.0
    v4 = iconst.i64 3
    jump block1(v2, v3)
block1(v5: i64, v6: f64):
    v7 = ishl v5, v4
    v8 = iadd v0, v7
    v9 = load.f64 v8
    v10 = fadd v6, v9
    v11 = iadd v1, v7
    v12 = load.i64 v11
    brif v12, block1(v12, v10), block2
block2:
    return v10
}";
    let call = "%f([1.0, 2.0, 4.0], i64[2, 0, 1], 0) noalias 0, 1";
    let (found, _) = explained_in(Mode::Gradient, f, call, None);
    assert_eq!(found.tape_bytes, Some(0));
    let found = text::text("", &found);
    let (_, recorded) = found.split_once("Recorded").unwrap();
    expect![[r#"
        : 0 bytes
          %f: no activation frame
            block0 (line 3), entered 1 time: pushes nothing
              keeps v2, parameter 2 of the function, 8 bytes
                for the loop of block1, which runs again
                since both halves are one function, so it stays where it is
              keeps v0, parameter 0 of the function, 8 bytes
                for the loop of block1, which runs again
                since both halves are one function, so it stays where it is
              keeps the shadow of the pointer v0, parameter 0 of the function, 8 bytes
                for the loop of block1, which runs again
                since both halves are one function, so it stays where it is
              keeps v1, parameter 1 of the function, 8 bytes
                for the loop of block1, which runs again
                since both halves are one function, so it stays where it is
              computes again `v3 = f64const 0.0` (line 3)
                for the loop of block1, which runs again
                since it is the same wherever it is computed
              computes again `iconst.i64 0` in front of `jump block1(v2, v3)` (line 5)
                for the loop of block1, which runs again
                since it is the same wherever it is computed
              computes again `v4 = iconst.i64 3` (line 4)
                for the loop of block1, which runs again
                since it is the same wherever it is computed
            block1 (line 7), entered 3 times: pushes nothing
              runs in the reverse half, forwards, since its loop does nothing but add up
              its loop, run again, runs iteration by iteration, since where it reads or writes is not in steps
            block2 (line 15), entered 1 time: pushes nothing
    "#]]
    .assert_eq(recorded);
}

/// Numbers that are not in order, a block that is never reached, a parameter that is always the
/// same, and one that normalisation adds: the normalised function has other numbers.
const OUT_OF_ORDER: &str = "function %f(i64, i64, f64) -> f64 system_v {
block3(v100: i64, v101: i64, v102: f64):
    v50 = iconst.i64 0
    v51 = f64const 0x1.0
    jump block9(v102, v50, v51)
block9(v60: f64, v40: i64, v41: f64):
    v8 = iconst.i64 8
    v9 = imul v40, v8
    v10 = iadd v100, v9
    v11 = load.f64 v10
    v12 = fmul v41, v11
    v13 = fmul v12, v60
    v14 = fsub v13, v11
    v20 = iconst.i64 1
    v21 = iadd v40, v20
    v22 = icmp slt v21, v101
    brif v22, block9(v60, v21, v14), block5
block7:
    return v102
block5:
    return v14
}";

/// Names of values and blocks in a text.
fn names(text: &str) -> std::collections::BTreeSet<&str> {
    let words = text.split(|c: char| !c.is_alphanumeric());
    let is_name = |w: &&str| {
        let number = w.strip_prefix("block").or_else(|| w.strip_prefix('v'));
        number.is_some_and(|n| !n.is_empty() && n.bytes().all(|b| b.is_ascii_digit()))
    };
    words.filter(is_name).collect()
}

#[test]
fn names_are_those_of_the_file() {
    let source = OUT_OF_ORDER;
    for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
        let (found, _) = explained_in(mode, source, "%f([1.0, 2.0, 4.0], 3, 0.5)", None);
        let found = text::text("", &found);
        let (_, recorded) = found.split_once("Recorded").unwrap();
        let strange: Vec<&str> = names(recorded).difference(&names(source)).copied().collect();
        assert!(strange.is_empty(), "{mode:?}: {strange:?}\n{recorded}");
        // The product that is handed on is the third parameter of its block in the file.
        let handed = "v41, parameter 2 of block9";
        assert!(recorded.contains(handed), "{mode:?}\n{recorded}");
        assert!(!recorded.contains("parameter 1 of block9") || recorded.contains("v40, parameter 1 of block9"));
    }
}

/// Of a sine that is multiplied the cosine is computed beside it, which the file does not have.
#[test]
fn a_call_that_was_put_in_is_told_from_that_of_the_file() {
    let source = "function %f(f64, f64) -> f64 system_v {
    fn3 = %sin(f64) -> f64 system_v
block0(v10: f64, v20: f64):
    v30 = call fn3(v10)
    v40 = fmul v30, v20
    return v40
}";
    let (found, _) = explained_in(Mode::Split, source, "%f(0.5, 2.0)", None);
    let found = text::text("", &found);
    for note in ["keeps `v30 = call fn3(v10)` (line 4)", "keeps `call %cos(v10)` beside `v30 = call fn3(v10)` (line 4)"]
    {
        assert_eq!(found.matches(note).count(), 1, "{note}\n{found}");
    }
}

/// What a task reads of its caller's memory, and what of its own.
#[test]
fn sums_of_tasks() {
    let source = "function %squared(i64) {
block0(v0: i64):
    v1 = load.f64 v0
    v2 = fmul v1, v1
    store v2, v0
    return
}

function %body(i64, i64, i64) {
    ss0 = explicit_slot 8, align = 8
    fn0 = %squared(i64)
block0(v0: i64, v1: i64, v8: i64):
    v2 = iconst.i64 3
    v3 = ishl v1, v2
    v4 = iadd v0, v3
    v5 = load.f64 v4
    v6 = stack_addr.i64 ss0
    store v5, v6
    call fn0(v6)
    v7 = load.f64 v6
    store v7, v4+16
    return
}

function %f(i64) {
    fn0 = %body(i64, i64, i64)
    fn1 = %brolga_par_for(i64, i64, i64, i64, i64)
block0(v0: i64):
    v1 = func_addr.i64 fn0
    v2 = iconst.i64 0
    v3 = iconst.i64 2
    v4 = iconst.i64 1
    call fn1(v1, v0, v2, v3, v4)
    return
}";
    let (found, _) = explained(source, "%f([1.0, 2.0, 0.0, 0.0])", None);
    let mut out = String::new();
    for f in found.plans.expect("it is derived").iter().filter(|f| !f.sums.is_empty()) {
        out += &format!("%{}\n", f.function);
        for s in &f.sums {
            let place = format!("{:?}", s.sums);
            out += &format!("  {place}, by {}: {}\n", s.pointer, s.accesses.join("; "));
        }
    }
    expect![[r#"
        %brolga_par_for__body__task
          Apart, by v0, parameter 0 of the function: `v5 = load.f64 v4` of %body (line 16); `store.f64 v7, v4+16` of %body (line 21)
          Shadow, by `v6 = stack_addr.i64 ss0` of %body (line 17): `store.f64 v5, v6` of %body (line 18); `v1 = load.f64 v0` of %squared (line 3); `store.f64 v2, v0` of %squared (line 5); `v7 = load.f64 v6` of %body (line 20)
    "#]].assert_eq(&out);
}
