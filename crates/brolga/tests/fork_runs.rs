//! Tasks of forks as they run: on which threads, with which bits, and what a trap in one names.

use std::collections::HashSet;
use std::sync::Mutex;
use std::thread::{self, Builder, ThreadId};

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Error, Mode, Program, Trap};
use brolga_testing::program;

use crate::forks::{cells, options, outcome, rule};

/// A join in a loop; each task calls the host.
const CALLS: &str = "
function %task(i64) {
    fn0 = %seen() system_v
block0(v0: i64):
    call fn0()
    return
}
function %f(i64, i64) -> f64 {
    fn0 = %task(i64)
    fn1 = %brolga_par_join(i64, i64, i64, i64)
block0(v0: i64, v1: i64):
    v2 = func_addr.i64 fn0
    jump block1(v1)
block1(v3: i64):
    call fn1(v2, v0, v2, v0)
    v4 = iconst.i64 -1
    v5 = iadd v3, v4
    brif v5, block1(v5), block2
block2:
    v6 = load.f64 v0
    v7 = fmul v6, v6
    return v7
}
";

/// Threads that have run a task.
static SEEN: Mutex<Option<HashSet<ThreadId>>> = Mutex::new(None);

extern "C" fn seen() {
    SEEN.lock().unwrap().get_or_insert_default().insert(thread::current().id());
}

/// A thread that has stack for them runs tasks of its own forks: a join of small tasks need not
/// wait for another thread. Seen to fail: tasks were run by threads of the pool only.
#[test]
fn the_calling_thread_runs_tasks() {
    let mut program = program(CALLS);
    let declared = program.funcs[program.func("seen").unwrap()].signature.clone();
    // SAFETY: the function takes nothing, and returns nothing.
    unsafe { program.define_host("seen", &declared, seen as *const () as usize) }.unwrap();
    let rule = rule(&program, "f", &options(Mode::Gradient, 2));
    let run = move || {
        let found = outcome(&rule, &[3.0], &[200], Mode::Gradient, true).unwrap();
        assert_eq!(f64::from_bits(found[0]), 3.0);
        let seen = SEEN.lock().unwrap().take().unwrap();
        (seen.contains(&thread::current().id()), seen.len())
    };
    let (here, threads) = Builder::new().stack_size(16 << 20).spawn(run).unwrap().join().unwrap();
    // Of the pool there are two, of which tasks within tasks may need both.
    assert!(here == cfg!(target_os = "linux") && threads <= 3, "{here} {threads}");
}

/// A tree of joins, and ranges within tasks, many times: whichever thread takes a task, bits are
/// those of one thread.
#[test]
fn bits_do_not_depend_on_who_takes_a_task() {
    let text = "
    function %add(i64, i64, i64) -> f64 {
    block0(v0: i64, v1: i64, v2: i64):
        v3 = f64const 0.0
        jump block1(v1, v3)
    block1(v4: i64, v5: f64):
        v6 = icmp slt v4, v2
        brif v6, block2, block3
    block2:
        v7 = iconst.i64 7
        v8 = band v4, v7
        v9 = iconst.i64 3
        v10 = ishl v8, v9
        v11 = iadd v0, v10
        v12 = load.f64 v11
        v13 = fmul v12, v12
        v14 = fadd v5, v13
        v15 = iconst.i64 1
        v16 = iadd v4, v15
        jump block1(v16, v14)
    block3:
        return v5
    }
    function %sums(i64) {
        fn0 = %add(i64, i64, i64) -> f64
        fn1 = %brolga_par_reduce_f64(i64, i64, i64, i64, i64) -> f64
    block0(v0: i64):
        v1 = load.i64 v0
        v2 = func_addr.i64 fn0
        v3 = iconst.i64 0
        v4 = iconst.i64 100
        v5 = iconst.i64 9
        v6 = call fn1(v2, v1, v3, v4, v5)
        store v6, v0+8
        return
    }
    function %f(i64) -> f64 {
        ss0 = explicit_slot 16, align = 8
        ss1 = explicit_slot 16, align = 8
        fn0 = %sums(i64)
        fn1 = %brolga_par_join(i64, i64, i64, i64)
    block0(v0: i64):
        v1 = stack_addr.i64 ss0
        v2 = stack_addr.i64 ss1
        store v0, v1
        store v0, v2
        v3 = func_addr.i64 fn0
        call fn1(v3, v1, v3, v2)
        v4 = load.f64 v1+8
        v5 = load.f64 v2+8
        v6 = fmul v4, v5
        return v6
    }";
    let program = program(text);
    let cells = &cells()[..8];
    let wanted = outcome(&rule(&program, "f", &options(Mode::Split, 1)), cells, &[], Mode::Split, true).unwrap();
    thread::scope(|s| {
        for (threads, stack) in [(2, 16), (2, 2), (3, 16), (7, 16)] {
            let (program, wanted) = (&program, &wanted);
            let run = move || {
                let rule = rule(program, "f", &options(Mode::Split, threads));
                for _ in 0..100 {
                    assert_eq!(outcome(&rule, cells, &[], Mode::Split, true).unwrap(), *wanted, "{threads}");
                }
            };
            Builder::new().stack_size(stack << 20).spawn_scoped(s, run).unwrap();
        }
    });
}

/// Tasks that access what is not there.
const WILD: &str = "
function %square(i64) {
block0(v0: i64):
    v1 = load.f64 v0
    v2 = fmul v1, v1
    store v2, v0
    return
}
function %joins(i64, i64) -> f64 {
    fn0 = %square(i64)
    fn1 = %brolga_par_join(i64, i64, i64, i64)
block0(v0: i64, v1: i64):
    v2 = func_addr.i64 fn0
    call fn1(v2, v0, v2, v1)
    v3 = load.f64 v0
    return v3
}
function %entries(i64, i64) -> f64 {
    fn0 = %square(i64)
    fn1 = %brolga_par_n(i64, i64)
block0(v0: i64, v1: i64):
    v2 = func_addr.i64 fn0
    v3 = iconst.i64 2
    call fn1(v1, v3)
    v4 = load.f64 v0
    return v4
}
";

/// The trap of a call whose second argument is a wild address.
fn trap(program: &Program, func: &str, mode: Mode) -> Trap {
    for threads in [1, 2] {
        match outcome(&rule(program, func, &options(mode, threads)), &cells(), &[24], mode, true) {
            Err(Error::Trap(trap)) if threads == 2 => return *trap,
            Err(Error::Trap(_)) => {}
            other => panic!("{other:?}"),
        }
    }
    unreachable!("it traps on two threads")
}

/// What a trap in a task names is of the program, and not of functions that are made for its forks.
/// Seen to fail: `%brolga_par_n_indirect__task, block2, inst12`, and the like in the notes.
#[test]
fn traps_in_tasks_name_the_program() {
    for mode in [Mode::Split, Mode::Gradient, Mode::Tangent] {
        let found = trap(&program(WILD), "joins", mode);
        let place = (&*found.function, found.block.map(|b| b.to_string()), found.inst_text.as_deref());
        assert_eq!(place, ("square", Some("block0".to_owned()), Some("v1 = load.f64 v0")), "{found}");
        assert!(found.inlined.iter().all(|at| at.starts_with("%joins, block0, inst1")), "{found}");
        let found = trap(&program(WILD), "entries", mode);
        let place = (&*found.function, found.block.map(|b| b.to_string()), found.inst.map(|i| i.as_u32()));
        assert_eq!(place, ("entries", Some("block0".to_owned()), Some(2)), "{found}");
        assert!(found.inlined.is_empty() && found.message.contains("0x18"), "{found}");
    }
    // Of two calls it is not known which one has forked.
    let twice = WILD.replacen("call fn1(v1, v3)", "call fn1(v1, v3)\n    call fn1(v1, v3)", 1);
    let found = trap(&program(&twice), "entries", Mode::Split);
    assert_eq!((&*found.function, found.inst), ("brolga_par_n", None), "{found}");
}

/// The function itself names the same.
#[test]
fn traps_in_tasks_of_the_primal_name_the_program() {
    let program = program(WILD);
    let rule = rule(&program, "entries", &options(Mode::Split, 1));
    let args = [DataValue::I64(0), DataValue::I64(24)];
    // SAFETY: what is not there is not accessed.
    let Err(Error::Trap(found)) = (unsafe { rule.primal(&args) }) else { panic!("it traps") };
    assert_eq!((&*found.function, found.inst.map(|i| i.as_u32())), ("entries", Some(2)), "{found}");
}
