//! Races of tasks are found and named, and nothing else is.

use brolga_oracle::{Oracle, OracleError};
use brolga_testing::program;
use cranelift_codegen::data_value::DataValue;

use crate::common::func;

/// `%f` forks `%a` and `%b`, which are given eight words; `%a` forks as well, if it calls `fn2`.
const TWO: &str = "
function %a(i64) {
    ss0 = explicit_slot 16
    fn0 = %c(i64)
    fn1 = %d(i64)
    fn2 = %brolga_par_join(i64, i64, i64, i64)
    fn3 = %malloc(i64) -> i64
    fn4 = %free(i64)
    fn5 = %memcpy(i64, i64, i64) -> i64
    fn6 = %memset(i64, i32, i64) -> i64
    fn7 = %sincos(f64, i64, i64)
    fn8 = %memcmp(i64, i64, i64) -> i32
block0(v0: i64):
    v1 = func_addr.i64 fn0
    v2 = func_addr.i64 fn1
    v3 = iconst.i64 8
    v4 = f64const 0x1.0p0
    A
    return
}
function %b(i64) {
    ss0 = explicit_slot 16
    fn0 = %malloc(i64) -> i64
    fn1 = %free(i64)
    fn2 = %memcpy(i64, i64, i64) -> i64
block0(v0: i64):
    v3 = iconst.i64 8
    v4 = f64const 0x1.0p0
    B
    return
}
function %c(i64) {
    ss0 = explicit_slot 16
block0(v0: i64):
    v4 = f64const 0x1.0p0
    C
    return
}
function %d(i64) {
    ss0 = explicit_slot 16
block0(v0: i64):
    v4 = f64const 0x1.0p0
    D
    return
}
function %f(i64) {
    fn0 = %a(i64)
    fn1 = %b(i64)
    fn2 = %brolga_par_join(i64, i64, i64, i64)
block0(v0: i64):
    v1 = func_addr.i64 fn0
    v2 = func_addr.i64 fn1
    v4 = f64const 0x1.0p0
    store v4, v0
    call fn2(v1, v0, v2, v0)
    v5 = load.f64 v0
    store v5, v0
    return
}
";

/// The instructions of a race, the earlier one first, of tasks that do this.
fn two([a, b, c, d]: [&str; 4]) -> Option<[String; 2]> {
    let text = TWO.replace("    A\n", a).replace("    B\n", b).replace("    C\n", c).replace("    D\n", d);
    let p = program(&text);
    let mut words = [0.5f64; 8];
    let (said, of) = run(&p, &[DataValue::I64(words.as_mut_ptr() as i64)])?;
    // Siblings, or what one has forked and the other.
    let inner = of.iter().all(|site| !site.starts_with("%a") && !site.starts_with("%b"));
    let fork = if inner { "%c and %d" } else { "%a and %b" };
    assert!(said.contains(&format!("note: the tasks are those of %brolga_par_join of {fork}\n")), "{said}");
    Some(of)
}

/// The race of a run of `%f`: what is said, and its instructions.
fn run(p: &brolga_ir::Program, args: &[DataValue]) -> Option<(String, [String; 2])> {
    // SAFETY: the program reads and writes what is there.
    match unsafe { Oracle::new(p).run(func(p, "f"), args) } {
        Ok(_) => None,
        Err(OracleError::Race(race)) => {
            let text = |site: brolga_oracle::InstSite| {
                let f = &p.funcs[site.func];
                let text = f.body.as_ref().unwrap().dfg.display_inst(site.inst).to_string();
                let plain =
                    text.split(';').next().unwrap_or_default().trim_end().replace(".f64", "").replace(".i64", "");
                format!("%{}: {plain}", f.symbol)
            };
            Some((race.diagnostic.to_string(), [race.first, race.second].map(text)))
        }
        Err(other) => panic!("{other}"),
    }
}

const FORK: &str = "call fn2(v1, v0, v2, v0)\n";

#[test]
fn races_are_found() {
    let cases: [([&str; 4], [&str; 2]); 17] = [
        // One writes, the other reads; the other way round; both write.
        (["store v4, v0+8\n", "v5 = load.f64 v0+8\n", "", ""], ["%a: store v4, v0+8", "%b: v5 = load v0+8"]),
        (["v5 = load.f64 v0+8\n", "store v4, v0+8\n", "", ""], ["%a: v5 = load v0+8", "%b: store v4, v0+8"]),
        (["store v4, v0+8\n", "store v4, v0+8\n", "", ""], ["%a: store v4, v0+8", "%b: store v4, v0+8"]),
        // One byte that is common.
        (["store v4, v0+9\n", "v5 = uload8.i64 v0+16\n", "", ""], ["%a: store v4, v0+9", "%b: v5 = uload8 v0+16"]),
        // A child against its sibling, and against its parent's sibling, in both directions.
        ([FORK, "", "store v4, v0+8\n", "v5 = load.f64 v0+8\n"], ["%c: store v4, v0+8", "%d: v5 = load v0+8"]),
        ([FORK, "v5 = load.f64 v0+8\n", "store v4, v0+8\n", ""], ["%c: store v4, v0+8", "%b: v5 = load v0+8"]),
        ([FORK, "v5 = load.f64 v0+8\n", "", "store v4, v0+8\n"], ["%d: store v4, v0+8", "%b: v5 = load v0+8"]),
        ([FORK, "store v4, v0+8\n", "", "v5 = load.f64 v0+8\n"], ["%d: v5 = load v0+8", "%b: store v4, v0+8"]),
        // What a task does before and after its own fork.
        (
            ["store v4, v0+8\n call fn2(v1, v0, v2, v0)\n", "v5 = load.f64 v0+8\n", "", ""],
            ["%a: store v4, v0+8", "%b: v5 = load v0+8"],
        ),
        (
            ["call fn2(v1, v0, v2, v0)\n store v4, v0+8\n", "v5 = load.f64 v0+8\n", "v5 = load.f64 v0+8\n", ""],
            ["%a: store v4, v0+8", "%b: v5 = load v0+8"],
        ),
        // An earlier reader counts, though the child of a task has read since.
        (
            [FORK, "store v4, v0+8\n", "v5 = load.f64 v0+8\n", "v5 = load.f64 v0+8\n"],
            ["%c: v5 = load v0+8", "%b: store v4, v0+8"],
        ),
        // Functions that write and read memory.
        (
            ["v5 = iconst.i32 0\n v6 = call fn6(v0, v5, v3)\n", "v5 = uload8.i64 v0+7\n", "", ""],
            ["%a: v6 = call fn6(v0, v5, v3)", "%b: v5 = uload8 v0+7"],
        ),
        (
            ["v5 = iadd v0, v3\n v6 = call fn5(v0, v5, v3)\n", "store v4, v0+8\n", "", ""],
            ["%a: v6 = call fn5(v0, v5, v3)", "%b: store v4, v0+8"],
        ),
        (
            ["v5 = iadd v0, v3\n v6 = call fn8(v0, v5, v3)\n", "store v4, v0+8\n", "", ""],
            ["%a: v6 = call fn8(v0, v5, v3)", "%b: store v4, v0+8"],
        ),
        (
            ["v5 = iadd v0, v3\n call fn7(v4, v0, v5)\n", "v5 = load.f64 v0+8\n", "", ""],
            ["%a: call fn7(v4, v0, v5)", "%b: v5 = load v0+8"],
        ),
        // An atomic instruction against one that is none.
        (
            ["v5 = atomic_rmw.i64 add v0, v3\n", "v5 = load.i64 v0\n", "", ""],
            ["%a: v5 = atomic_rmw add v0, v3", "%b: v5 = load v0"],
        ),
        (["v5 = atomic_load.i64 v0\n", "store v3, v0\n", "", ""], ["%a: v5 = atomic_load v0", "%b: store v3, v0"]),
    ];
    for (tasks, wanted) in cases {
        let found = two(tasks).unwrap_or_else(|| panic!("{tasks:?}: nothing is found"));
        assert_eq!(found.each_ref().map(String::as_str), wanted, "{tasks:?}");
    }
}

#[test]
fn nothing_else_is_a_race() {
    let slot = "v9 = stack_addr.i64 ss0\n store v4, v9\n v8 = load.f64 v9\n";
    let block = "v9 = call fn0(v3)\n store v4, v9\n v8 = load.f64 v9\n call fn1(v9)\n";
    let blocks = "v9 = call fn3(v3)\n store v4, v9\n v8 = load.f64 v9\n call fn4(v9)\n";
    let cases = [
        // Both read; each has its own; neighbours of one word.
        ["v5 = load.f64 v0\n", "v5 = load.f64 v0\n", "", ""],
        ["store v4, v0+8\n v5 = load.f64 v0+8\n", "store v4, v0+16\n v5 = load.f64 v0\n", "", ""],
        ["istore8 v3, v0+8\n", "istore8 v3, v0+9\n", "", ""],
        ["store v4, v0+9\n", "v5 = uload8.i64 v0+17\n", "", ""],
        // A task, its children, and itself once more.
        [
            "store v4, v0+8\n call fn2(v1, v0, v2, v0)\n v5 = load.f64 v0+16\n store v4, v0+24\n",
            "",
            "v5 = load.f64 v0+8\n store v4, v0+16\n",
            "v5 = load.f64 v0+8\n store v4, v0+24\n",
        ],
        // Two forks, one after the other.
        [
            "call fn2(v1, v0, v2, v0)\n call fn2(v2, v0, v1, v0)\n",
            "",
            "store v4, v0+8\n v5 = load.f64 v0+8\n",
            "v6 = load.f64 v0\n",
        ],
        // Slots and blocks that lie where those of another task were.
        [slot, slot, "", ""],
        [FORK, slot, slot, slot],
        [blocks, block, "", ""],
        // Atomic instructions among themselves.
        ["v5 = atomic_rmw.i64 add v0, v3\n", "", "", ""],
        [FORK, "v5 = atomic_rmw.i64 add v0, v3\n", "v5 = atomic_rmw.i64 add v0, v0\n", "v5 = atomic_load.i64 v0\n"],
    ];
    for tasks in cases {
        let tasks = tasks.map(|t| t.replace("v5 = atomic_rmw.i64 add v0, v3", "v5 = atomic_rmw.i64 add v0, v0"));
        assert_eq!(two(tasks.each_ref().map(String::as_str)), None, "{tasks:?}");
    }
}

#[test]
fn a_block_that_another_task_gives_back() {
    let text = TWO
        .replace("    A\n", "v5 = load.i64 v0+8\n v6 = load.f64 v5\n")
        .replace("    B\n", "v5 = load.i64 v0+8\n call fn1(v5)\n")
        .replace("    C\n", "")
        .replace("    D\n", "")
        .replace("function %f(i64) {", "function %f(i64) {\n fn3 = %malloc(i64) -> i64")
        .replace("    store v4, v0\n", "    v7 = iconst.i64 8\n v8 = call fn3(v7)\n store v4, v8\n store v8, v0+8\n");
    let p = program(&text);
    let mut words = [0.5f64; 8];
    let (_, found) = run(&p, &[DataValue::I64(words.as_mut_ptr() as i64)]).expect("a race");
    assert_eq!(found, ["%a: v6 = load v5", "%b: call fn1(v5)"]);
}

/// Iterations of a loop, in tasks of one each.
fn parallel_loop(body: &str) -> Option<(String, [String; 2])> {
    let text = "
function %body(i64, i64, i64) {
block0(v0: i64, v1: i64, v2: i64):
    v10 = f64const 0.0
    v11 = iconst.i64 3
    v12 = ishl v1, v11
    v13 = iadd v0, v12
    BODY
}
function %f(i64) {
    fn0 = %body(i64, i64, i64)
    fn1 = %brolga_par_for(i64, i64, i64, i64, i64)
block0(v0: i64):
    v1 = func_addr.i64 fn0
    v2 = iconst.i64 0
    v3 = iconst.i64 5
    v4 = iconst.i64 1
    call fn1(v1, v0, v2, v3, v4)
    return
}
";
    let p = program(&text.replace("BODY", body));
    let mut words = [0.5f64; 8];
    run(&p, &[DataValue::I64(words.as_mut_ptr() as i64)])
}

#[test]
fn iterations_that_add_into_one_place() {
    let adds = [
        "v3 = load.f64 v13\n v4 = load.f64 v0+48\n v5 = fadd v4, v3\n store v5, v0+48\n return",
        // The sum is kept in a value until the end.
        "v3 = load.f64 v0+48
         jump block1(v1, v3)
block1(v4: i64, v5: f64):
         v6 = load.f64 v13
         v7 = fadd v5, v6
         v8 = iconst.i64 1
         v9 = iadd v4, v8
         v14 = icmp slt v9, v2
         brif v14, block1(v9, v7), block2
block2:
         store v7, v0+48
         return",
    ];
    for body in adds {
        let (said, found) = parallel_loop(body).expect("a race");
        assert!(found[0].starts_with("%body: store") && found[1].contains("load v0+48"), "{found:?}");
        for part in [
            "error[AD0194]: iterations of a parallel loop add into one place: this one reads what another one writes",
            "--> %body, block0, inst",
            "note: the other one: %body, block",
            "note: the tasks are those of %brolga_par_for of %body",
            "help: return what an iteration adds, and let %brolga_par_reduce_f64 add it up",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
    }
    // A product is none, nor is a place of which iterations read neighbours.
    let others = [
        "v4 = load.f64 v0+48\n v5 = fmul v4, v4\n store v5, v0+48\n return",
        "v3 = load.f64 v13\n v4 = load.f64 v13+8\n v5 = fadd v3, v4\n store v5, v13+8\n return",
    ];
    for body in others {
        let (said, _) = parallel_loop(body).expect("a race");
        assert!(said.contains("error[AD0194]: two tasks race: this one"), "{said}");
    }
    assert_eq!(parallel_loop("v3 = load.f64 v13\n v4 = fadd v3, v3\n store v4, v13\n return"), None);
}

/// Work and span of a run of `%f`, whose tasks do so much.
#[test]
fn a_span_is_that_of_the_longest_task() {
    let more = "v5 = load.f64 v0\n v6 = load.f64 v0\n v7 = load.f64 v0\n";
    let measured = |[a, b, c, d]: [&str; 4]| {
        let text = TWO.replace("    A\n", a).replace("    B\n", b).replace("    C\n", c).replace("    D\n", d);
        let p = program(&text);
        let mut words = [0.5f64; 8];
        let args = [DataValue::I64(words.as_mut_ptr() as i64)];
        // SAFETY: the program reads and writes what is there.
        unsafe { Oracle::new(&p).work_and_span(func(&p, "f"), &args) }.unwrap()
    };
    let (work, span) = measured(["", "", "", ""]);
    assert!(span < work, "{span} {work}");
    // The longer task counts, whichever it is; %a is longer than %b at first, by two instructions.
    assert_eq!(measured([more, "", "", ""]), (work + 3, span + 3));
    assert_eq!(measured(["", more, "", ""]), (work + 3, span + 1));
    assert_eq!(measured([more, more, "", ""]), (work + 6, span + 3));
    // A fork in a task: its longest task counts, and no other.
    let (nested, long) = measured([FORK, "", "", ""]);
    assert_eq!(measured([FORK, "", more, ""]), (nested + 3, long + 3));
    assert_eq!(measured([FORK, "", more, more]), (nested + 6, long + 3));
    assert_eq!(measured([FORK, more, "", ""]), (nested + 3, long));
}
