//! Explanations: for each way in which a gradient becomes zero a small function, the instruction that does it, and where a
//! gradient stops being finite, what it is made of, and what is recorded for it.

use brolga_driver::explain::{Explanation, Wanted, explain, json, text};
use brolga_driver::text::directive::call_with_clauses;
use brolga_driver::{File, Invocation};
use expect_test::{Expect, expect};

/// The explanation of a call of a function with these instructions.
fn explained(source: &str, call: &str, wrt: Option<(usize, Option<usize>)>) -> (Explanation, Invocation) {
    let file = File::parse("test.clif", source).unwrap_or_else(|e| panic!("{e}"));
    let (parsed, clauses) = call_with_clauses(call).unwrap();
    let bound = Invocation::bind(&file.program, call, &parsed, &clauses).unwrap();
    let found = explain(&file.program, &bound, Wanted { wrt, top: 5 }).unwrap();
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
              rounded: rounded to an integral number, which has no slope @ 4: v4 = fcvt_to_sint_sat.f64.i64 v0
            1: 0.0
              compared: only compared @ 7: v7 = fcmp.f64 lt v1, v2
            2: 1.0
        "#]],
    );
    why(f, "%f(-1.5, 0.0, 1.0)", &expect![[r#""#]]);
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
    why(f, "%f(3.0, 2.0, 5.0)", &expect![[r#""#]]);
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
    why(f, "%f([4.0, 5.0], 3.0, [0.0])", &expect![[r#""#]]);
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
    why(f, "%f(0.0, 0.0, 3.0) seed 1.0, 0.0", &expect![[r#""#]]);
    why(
        "function %f(f64) -> f64 system_v {
block0(v0: f64):
    v1 = f64const 0x1.0p-800
    v2 = fmul v0, v1
    v3 = fmul v2, v1
    return v3
}",
        "%f(1.0)",
        &expect![[r#""#]],
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
    why(f, "%f(2.0, -1.0, 7.0, [3.0, 1.0]) activity active, active, active, const", &expect![[r#""#]]);
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
    let (found, _) = explained(NORM, "%norm([0.0, 0.0], 2)", None);
    expect![[r#""#]].assert_eq(&text::text("%norm([0.0, 0.0], 2)", &found));
}

#[test]
fn terms_of_one_gradient_and_what_is_recorded() {
    let (found, call) = explained(NORM, "%norm([3.0, 4.0], 2)", Some((0, Some(1))));
    let sum: f64 = found.contributions.iter().map(|c| c.sum).sum();
    assert_eq!(Some(sum), found.entries[0].gradient);
    let object = json::json(&call, &found);
    let text = serde_json::to_string_pretty(&object).unwrap();
    expect![[r#""#]].assert_eq(&text);
    let functions = object["recorded"]["functions"].as_array().unwrap();
    let bytes: u64 = functions
        .iter()
        .flat_map(|f| f["blocks"].as_array().unwrap())
        .map(|b| b["bytes_each"].as_u64().unwrap() * b["times"].as_u64().unwrap())
        .sum();
    // Beside records there are the frame and the link to it.
    assert_eq!(bytes + 24 + 8, object["recorded"]["bytes"].as_u64().unwrap());
}
