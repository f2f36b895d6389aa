//! Programs that fork on the command line: threads, races, and what is said of forks.

use brolga_testing::command::TempFile;

/// y[i] = x[i]², and where all iterations add into y[0].
const FORKS: &str = "\
function %square(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    v3 = iconst.i64 3
    v4 = ishl v1, v3
    v5 = load.i64 v0
    v6 = load.i64 v0+8
    v7 = iadd v5, v4
    v8 = iadd v6, v4
    v9 = load.f64 v7
    v10 = fmul v9, v9
    store v10, v8
    return
}
function %add(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    v3 = iconst.i64 3
    v4 = ishl v1, v3
    v5 = load.i64 v0
    v6 = load.i64 v0+8
    v7 = iadd v5, v4
    v9 = load.f64 v7
    v10 = load.f64 v6
    v11 = fadd v10, v9
    store v11, v6
    return
}
function %squares(i64, i64, i64) {
    ss0 = explicit_slot 16, align = 8
    fn0 = %square(i64, i64, i64)
    fn1 = %brolga_par_for(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = stack_addr.i64 ss0
    store v0, v3
    store v1, v3+8
    v4 = func_addr.i64 fn0
    v5 = iconst.i64 0
    v6 = iconst.i64 1
    call fn1(v4, v3, v5, v2, v6)
    return
}
function %sum(i64, i64, i64) {
    ss0 = explicit_slot 16, align = 8
    fn0 = %add(i64, i64, i64)
    fn1 = %brolga_par_for(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64, v2: i64):
    v3 = stack_addr.i64 ss0
    store v0, v3
    store v1, v3+8
    v4 = func_addr.i64 fn0
    v5 = iconst.i64 0
    v6 = iconst.i64 1
    call fn1(v4, v3, v5, v2, v6)
    return
}
";

#[test]
fn threads_of_tasks() {
    let file = TempFile::new(env!("CARGO_BIN_EXE_brolga"), "threads.clif", FORKS);
    let call = ["--call", "%squares([1.0, 2.0, 3.0], [0.0, 0.0, 0.0], 3)", "--shadow", "1=[1.0, 1.0, 1.0]"];
    for threads in ["1", "2", "7"] {
        let found = file.run("grad", &[&call[..], &["--task-threads", threads, "--json"]].concat()).expect(0).json();
        assert_eq!(found[0]["gradient"][0], serde_json::json!([2.0, 4.0, 6.0]), "{threads}: {found:?}");
    }
    file.run("check", &[&call[..], &["--task-threads", "2"]].concat()).expect(0);
    for (wrong, said) in [("0", "tasks run on one thread at least: write 1, or leave it out"), ("two", "such as 2")] {
        file.run("grad", &[&call[..], &["--task-threads", wrong]].concat()).expect(2).says("--task-threads").says(said);
    }
}

#[test]
fn forks_are_listed() {
    let file = TempFile::new(env!("CARGO_BIN_EXE_brolga"), "listed.clif", FORKS);
    let call = ["--call", "%squares([1.0, 2.0], [0.0, 0.0], 2)", "--shadow", "1=[1.0, 1.0]"];
    let text = file.run("explain", &call).expect(0).stdout;
    let shown = "\nForks, whose tasks run on threads (1 in all):\n  %brolga_par_for of %square, called at %squares, block0, inst6, ";
    assert!(text.contains(shown) && text.contains("line 38"), "{text}");
    for of in ["the function", "its forward pass", "its pullback"] {
        assert!(text.contains(&format!("\n  {of}: work ")) && text.contains(" instructions; span, "), "{text}");
    }
    let found = file.run("explain", &[&call[..], &["--json"]].concat()).expect(0).json();
    assert_eq!(found[0]["forks"].as_array().map(Vec::len), Some(1), "{found:?}");
    // Two tasks do the same, and about half of it counts.
    for of in ["work_and_span", "forward_work_and_span", "pullback_work_and_span"] {
        let [work, span] = [0, 1].map(|i| found[0][of][i].as_u64().unwrap());
        assert!(span < work && 2 * span > work, "{of}: {found:?}");
    }
}

/// A fork whose body is declared in another way has no meaning.
#[test]
fn a_wrong_body_is_named() {
    let text = "function %body(i64, i64) {
block0(v0: i64, v1: i64):
    return
}
function %f(i64, i64) -> f64 {
    fn0 = %body(i64, i64)
    fn1 = %brolga_par_for(i64, i64, i64, i64, i64)
block0(v0: i64, v1: i64):
    v2 = func_addr.i64 fn0
    v3 = iconst.i64 0
    v4 = iconst.i64 1
    call fn1(v2, v0, v3, v1, v4)
    v5 = load.f64 v0
    return v5
}";
    let file = TempFile::new(env!("CARGO_BIN_EXE_brolga"), "wrong.clif", text);
    for command in ["grad", "explain"] {
        let run = file.run(command, &["--call", "%f([1.0, 2.0], 2)"]).expect(1);
        run.says("error[AD0191]: `%brolga_par_for` is given `%body`").says("(i64 ctx, i64 lo, i64 hi)");
    }
}

#[test]
fn races_are_named() {
    let file = TempFile::new(env!("CARGO_BIN_EXE_brolga"), "racing.clif", FORKS);
    let call = ["--call", "%sum([1.0, 2.0], [0.0], 2)", "--shadow", "1=[1.0]"];
    for command in ["check", "explain"] {
        file.run(command, &call)
            .expect(1)
            .says("error[AD0194]: iterations of a parallel loop add into one place")
            .says("%add, block0, inst6")
            .says("the other one: %add, block0, inst8, ")
            .says("line 24")
            .says("%brolga_par_reduce_f64")
            .says("error: tasks of %sum race");
    }
    // One task has nothing to race with.
    file.run("check", &["--call", "%sum([1.0], [0.0], 1)", "--shadow", "1=[1.0]"]).expect(0);
}
