//! An allocator of a module, known or not: gradients are the same, what is recorded is not, and
//! memory is left alike.

use brolga_wasm::brolga::{Allocator, ArgActivity, MemoryMode, Mode, Options};
use brolga_wasm::{Allocators, Bounds, Gradient, Instance, Module, ModuleOptions, Val};

const BLOCKS: &str = include_str!("../../../ir-tests/wasm/text/blocks.wat");

/// The functions of the file, with what they are called with beside the address.
const CALLS: &[(&str, &[i32])] = &[
    ("reuse", &[3]),
    ("two", &[3]),
    ("swap", &[3]),
    ("escaped", &[256]),
    ("held", &[]),
    ("again", &[]),
    ("between", &[]),
    ("moved", &[]),
    ("told", &[]),
];

/// An allocator that is called as it is.
const LISTS: &str = include_str!("../../../ir-tests/wasm/text/lists.wat");
const LISTS_CALLS: &[(&str, &[i32])] = &[("nodes", &[3]), ("grows", &[5]), ("counted", &[3]), ("calls", &[])];

/// Each text with each of its calls.
fn all() -> impl Iterator<Item = (&'static str, &'static str, &'static [i32])> {
    let of = |text, calls: &'static [(&str, &[i32])]| calls.iter().map(move |&(name, rest)| (text, name, rest));
    of(BLOCKS, CALLS).chain(of(LISTS, LISTS_CALLS))
}

fn module(text: &str, allocators: Allocators) -> Module {
    Module::with_options(text, &ModuleOptions { allocators, ..ModuleOptions::default() }).unwrap()
}

struct Found {
    value: Vec<Val>,
    gradient: Vec<f64>,
    memory: Vec<u8>,
    tape: usize,
}

fn run(module: &Module, name: &str, x: &[f64], rest: &[i32], options: &Options) -> Found {
    let ty = module.function(name).unwrap().1;
    let activity = vec![ArgActivity::Const; ty.params().len()];
    let gradient = Gradient::with_options(module, name, &activity, options).unwrap();
    let mut instance = Instance::new(module).unwrap();
    let at = 1024;
    instance.write_f64(at, x).unwrap();
    let args: Vec<Val> = [at as i32].iter().chain(rest).map(|&i| Val::I32(i)).collect();
    let found = instance.gradient(&gradient, &args, &[Val::F64(1.0)]).unwrap();
    let slopes = instance.shadow_f64(at, x.len()).unwrap();
    assert_eq!(instance.memory().len(), instance.shadow_mut().len());
    for i in (0..x.len()).map(|i| at as usize + 8 * i) {
        instance.shadow_mut()[i..i + 8].fill(0);
    }
    assert!(instance.shadow_mut().iter().all(|&b| b == 0), "{name}: a cotangent is left behind");
    Found { value: found.values, gradient: slopes, memory: instance.memory().to_vec(), tape: found.tape_bytes }
}

#[test]
fn gradients_do_not_depend_on_it() {
    let x = [3.0, 7.0, 0.5];
    let mut saved = 0;
    for (text, name, rest) in all() {
        let (known, unknown) = (module(text, Allocators::default()), module(text, Allocators::none()));
        for mode in [Mode::Combined, Mode::Gradient] {
            for memory in [MemoryMode::Leave, MemoryMode::Restore] {
                let options = Options { mode, memory, ..Options::as_calls() };
                let [a, b] = [&known, &unknown].map(|m| run(m, name, &x, rest, &options));
                assert_eq!((&a.value, &a.gradient), (&b.value, &b.gradient), "{name}");
                assert!(a.tape <= b.tape, "{name} records {} bytes instead of {}", a.tape, b.tape);
                assert!(a.memory == b.memory, "{name} leaves other memory in {mode:?}, {memory:?}");
                saved += usize::from(a.tape < b.tape);
            }
        }
    }
    assert!(saved > 8, "{saved}");
}

#[test]
fn memory_is_left_as_by_a_call() {
    // The allocator's lists too, after releases that have waited.
    let x = [3.0, 7.0, 0.5];
    for (text, name, rest) in all() {
        let module = module(text, Allocators::default());
        let mut instance = Instance::new(&module).unwrap();
        instance.write_f64(1024, &x).unwrap();
        let args: Vec<Val> = [1024].iter().chain(rest).map(|&i| Val::I32(i)).collect();
        let value = instance.call(name, &args).unwrap();
        let found = run(&module, name, &x, rest, &Options { mode: Mode::Combined, ..Options::as_calls() });
        assert_eq!(found.value, value);
        assert!(found.memory == instance.memory(), "{name}");
    }
}

#[test]
fn many_releases_wait_and_each_happens_once() {
    // The next block is the one that was released last, so addresses tell the order.
    let text = BLOCKS.trim_end().strip_suffix(')').unwrap().to_owned()
        + r#"(func (export "next") (result i32) (call $malloc (i32.const 8)))
            (func (export "row") (param $x i32) (param $n i32) (result f64) (local $i i32) (local $row i32) (local $sum f64)
                (local.set $row (call $malloc (i32.const 64)))
                (loop $fill
                    (i32.store (i32.add (local.get $row) (i32.shl (local.get $i) (i32.const 2))) (call $malloc (i32.const 8)))
                    (f64.store (i32.load (i32.add (local.get $row) (i32.shl (local.get $i) (i32.const 2))))
                        (f64.mul (f64.load (local.get $x)) (f64.convert_i32_s (local.get $i))))
                    (br_if $fill (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
                (local.set $i (i32.const 0))
                (loop $add
                    (local.set $sum (f64.add (f64.mul (local.get $sum) (f64.load (local.get $x)))
                        (f64.load (i32.load (i32.add (local.get $row) (i32.shl (local.get $i) (i32.const 2)))))))
                    (br_if $add (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
                (local.set $i (i32.const 0))
                (loop $release
                    (call $free (i32.load (i32.add (local.get $row) (i32.shl (local.get $i) (i32.const 2)))))
                    (br_if $release (i32.lt_s (local.tee $i (i32.add (local.get $i) (i32.const 1))) (local.get $n))))
                (call $free (local.get $row))
                (local.get $sum)))"#;
    let module = module(&text, Allocators::default());
    let gradient = Gradient::new(&module, "row").map(Gradient::settled).unwrap();
    let [mut one, mut other] = [(); 2].map(|()| Instance::new(&module).unwrap());
    for instance in [&mut one, &mut other] {
        instance.write_f64(1024, &[2.0]).unwrap();
    }
    let args = [Val::I32(1024), Val::I32(5)];
    for _ in 0..3 {
        one.clear_shadow();
        let found = one.gradient(&gradient, &args, &[Val::F64(1.0)]).unwrap();
        assert_eq!(other.call("row", &args).unwrap(), found.values);
        // The sum of i x^(5 - i).
        assert_eq!(one.shadow_f64(1024, 1).unwrap(), [4.0 * 8.0 + 2.0 * 3.0 * 4.0 + 3.0 * 2.0 * 2.0 + 4.0]);
        assert!(one.memory() == other.memory());
    }
    for _ in 0..8 {
        assert_eq!(one.call("next", &[]).unwrap(), other.call("next", &[]).unwrap());
    }
}

/// An allocator that is not recognised.
const UNKNOWN_ALLOCATOR: &str = r#"(module (memory (export "memory") 1)
    (global $end (mut i32) (i32.const 4096))
    (func $grab (param $size i64) (result i32) (local $block i32)
        (local.set $block (global.get $end))
        (global.set $end (i32.add (local.get $block) (i32.wrap_i64 (local.get $size))))
        (local.get $block))
    (func $drop_it (param $why i32) (param $block i32) (i64.store (local.get $block) (i64.const -1)))
    (func (export "f") (param $x i32) (param $n i32) (result f64) (local $p i32) (local $q i32) (local $r f64)
        (local.set $p (call $grab (i64.const 8)))
        (local.set $q (call $grab (i64.const 8)))
        (f64.store (local.get $p) (f64.load (local.get $x)))
        (f64.store (local.get $q) (f64.const 1))
        (loop $next
            (f64.store (local.get $q) (f64.mul (f64.load (local.get $q)) (f64.load (local.get $p))))
            (br_if $next (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
        (local.set $r (f64.load (local.get $q)))
        (call $drop_it (i32.const 1) (local.get $q))
        (local.get $r)))"#;

#[test]
fn one_that_has_to_be_named() {
    let said = Allocators {
        known: true,
        also: vec![
            ("grab".to_owned(), Allocator::Allocate { zeroed: false }),
            ("drop_it".to_owned(), Allocator::Release { pointer: 2 }),
        ],
    };
    let options = Options { mode: Mode::Gradient, ..Options::as_calls() };
    let [known, unknown] =
        [said, Allocators::default()].map(|a| run(&module(UNKNOWN_ALLOCATOR, a), "f", &[2.0], &[100], &options));
    assert_eq!(known.gradient, unknown.gradient);
    assert_eq!(known.gradient, [100.0 * 2f64.powi(99)]);
    // What is multiplied with is read again; what is multiplied is overwritten, and recorded.
    assert!(known.tape + 100 * 8 <= unknown.tape, "{} and {}", known.tape, unknown.tape);
}

#[test]
fn where_bounds_are_checked_too() {
    let options = ModuleOptions { bounds: Bounds::Checked, ..ModuleOptions::default() };
    for (text, name, rest) in all() {
        let [checked, guarded] = [Module::with_options(text, &options).unwrap(), Module::new(text).unwrap()];
        let options = Options { mode: Mode::Gradient, ..Options::as_calls() };
        let [a, b] = [&checked, &guarded].map(|m| run(m, name, &[3.0, 7.0, 0.5], rest, &options));
        assert_eq!(a.gradient, b.gradient, "{name}");
    }
}

#[test]
fn an_allocator_that_is_not_there() {
    let allocators: Allocators = "nosuch,other=free".parse().unwrap();
    let options = ModuleOptions { allocators, ..ModuleOptions::default() };
    let found =
        Module::with_options("(module (func (export \"other\") (param f64)))", &options).err().unwrap().to_string();
    assert_eq!(
        found,
        "the module has no function with a body and the type of an allocator that is called nosuch, other"
    );
}

#[test]
fn memory_for_the_host_is_the_allocators_to_give() {
    // A heap of all that lies after 4096, as a C library has it, from the allocator that gives out
    // memory there: buffers in pages that the host grows memory by would be a part of it.
    let module = |functions: &str| {
        let text = format!(
            r#"(module (memory 1) (global $top (mut i32) (i32.const 4096))
                (func $take (param $n i32) (result i32)
                    (global.get $top)
                    (global.set $top (i32.and (i32.add (i32.add (global.get $top) (local.get $n)) (i32.const 15)) (i32.const -16))))
                {functions}
                (func (export "f") (param $p i32) (result f64) (local $own i32)
                    (local.set $own (call $take (i32.const 48000)))
                    (memory.fill (local.get $own) (i32.const 1) (i32.const 40000))
                    (f64.mul (f64.load (local.get $p)) (f64.load (i32.add (local.get $p) (i32.const 8))))))"#
        );
        Module::new(text).unwrap()
    };
    let malloc = "(func $malloc (param i32) (result i32) (call $take (local.get 0)))";
    let calloc = "(func $calloc (param i32 i32) (result i32) (call $take (i32.mul (local.get 0) (local.get 1))))";
    let rust = "(func $__rust_alloc (param i32 i32) (result i32) (call $take (local.get 0)))";
    let other = "(func $malloc (param i64) (result i32) (i32.const 8))";
    let new = r#"(func (export "operator new(unsigned long)") (param i32) (result i32) (call $take (local.get 0)))"#;
    for (functions, at) in [
        (malloc.to_owned(), 4096),
        (calloc.to_owned(), 4096),
        (rust.to_owned(), 4096),
        (new.to_owned(), 4096),
        (format!("{calloc} {malloc}"), 4096),
        // What is exported is meant for the host.
        (
            format!(
                "{rust} (func (export \"malloc\") (param i32) (result i32) (i32.add (call $take (i32.add (local.get 0) (i32.const 64))) (i32.const 64)))"
            ),
            4160,
        ),
        // No allocator, or none of C's.
        (String::new(), 65536),
        (other.to_owned(), 65536),
    ] {
        let module = module(&functions);
        let gradient = Gradient::new(&module, "f").map(Gradient::settled).unwrap();
        let mut instance = Instance::new(&module).unwrap();
        let p = instance.alloc_f64(&[3.0, 5.0]).unwrap();
        assert_eq!(p, at, "{functions}");
        let found = instance.gradient(&gradient, &[Val::I32(p as i32)], &[Val::F64(1.0)]).unwrap();
        assert_eq!(found.values, [Val::F64(15.0)], "{functions}");
        assert_eq!(instance.shadow_f64(p, 2).unwrap(), [5.0, 3.0], "{functions}");
        let next = instance.alloc_f64(&[1.0]).unwrap();
        assert!(next > p && next.is_multiple_of(16), "{functions}");
    }
}
