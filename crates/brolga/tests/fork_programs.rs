//! Random programs of nested forks: gradients are those of the same program with calls in place of
//! forks, with the same bits on any number of threads; and with the bits of those calls where
//! floats are added as written (seen to fail: tasks with tapes of their own there).

use std::fmt::Write as _;

use brolga::{FloatOrder, Mode, Options, Program};
use brolga_testing::{asked, budget, program};

use crate::forks::{options, outcome, rule};

/// Cells of memory that random programs work on.
const CELLS: usize = 6;

/// A generator of numbers: SplitMix64.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % n as u64) as usize
    }
}

/// A statement of a task that has a number.
enum Statement {
    /// It becomes so much of itself, and so much of a cell.
    Load(usize, [i32; 2]),
    Store(usize),
    /// Tasks, by number, that run at the same time.
    Fork(Vec<usize>),
}

/// A random program of nested forks without races: what a task writes, no concurrent one accesses.
struct Tree {
    tasks: Vec<Vec<Statement>>,
}

impl Tree {
    fn new(seed: u64) -> Self {
        let mut this = Self { tasks: Vec::new() };
        let all: Vec<usize> = (0..CELLS).collect();
        this.task(3, &all, &all, &mut Random(seed));
        this
    }

    /// A task that may write to some cells and read others; its number.
    fn task(&mut self, depth: usize, writes: &[usize], reads: &[usize], r: &mut Random) -> usize {
        let me = self.tasks.len();
        self.tasks.push(Vec::new());
        for _ in 0..1 + r.below(6) {
            let dice = r.below(20);
            let statement = if depth > 0 && dice < 7 {
                Statement::Fork(self.fork(depth - 1, writes, reads, r))
            } else if dice < 14 && !reads.is_empty() {
                let part = |r: &mut Random| r.below(7) as i32 - 3;
                Statement::Load(reads[r.below(reads.len())], [part(r), part(r)])
            } else if !writes.is_empty() {
                Statement::Store(writes[r.below(writes.len())])
            } else {
                continue;
            };
            self.tasks[me].push(statement);
        }
        me
    }

    /// Each cell that may be written is one task's, or is read by all.
    fn fork(&mut self, depth: usize, writes: &[usize], reads: &[usize], r: &mut Random) -> Vec<usize> {
        let n = 2 + r.below(2);
        let owner: Vec<usize> = (0..CELLS).map(|c| if writes.contains(&c) { r.below(n + 1) } else { n }).collect();
        let mut tasks = Vec::new();
        for k in 0..n {
            let task_cells: Vec<usize> = (0..CELLS).filter(|&c| owner[c] == k).collect();
            let seen: Vec<usize> = reads.iter().copied().filter(|&c| owner[c] == k || owner[c] == n).collect();
            tasks.push(self.task(depth, &task_cells, &seen, r));
        }
        tasks
    }

    /// The program, with forks, or with calls in their place. Forks of two are joins, others go
    /// through pointers.
    fn text(&self, forks: bool) -> String {
        let mut text = String::new();
        for (t, statements) in self.tasks.iter().enumerate() {
            let (name, result) = if t == 0 { ("root".to_owned(), " -> f64") } else { (format!("t{t}"), "") };
            writeln!(text, "function %{name}(i64){result} {{\nss0 = explicit_slot 48, align = 8").unwrap();
            let called = statements.iter().flat_map(|s| if let Statement::Fork(tasks) = s { &tasks[..] } else { &[] });
            called.for_each(|c| writeln!(text, "fn{c} = %t{c}(i64)").unwrap());
            writeln!(text, "fn900 = %brolga_par_join(i64, i64, i64, i64)\nfn901 = %brolga_par_n(i64, i64)").unwrap();
            writeln!(text, "block0(v0: i64):\nv1 = f64const 0x1.8p-1\nv2 = stack_addr.i64 ss0").unwrap();
            let (mut v, mut acc) = (3, 1);
            for s in statements {
                match s {
                    Statement::Load(cell, [scale, part]) => {
                        let (a, b) = (f64::from(*scale) * 0.25, f64::from(*part) * 0.5);
                        let flag = if v % 2 == 0 { " notrap aligned" } else { "" };
                        writeln!(text, "v{v} = load.f64{flag} v0+{}", 8 * cell).unwrap();
                        writeln!(text, "v{} = f64const {}\nv{} = f64const {}", v + 1, hex(a), v + 2, hex(b)).unwrap();
                        writeln!(text, "v{} = fmul v{acc}, v{}\nv{} = fmul v{v}, v{}", v + 3, v + 1, v + 4, v + 2)
                            .unwrap();
                        writeln!(text, "v{} = fmul v{}, v{v}\nv{} = fadd v{}, v{}", v + 5, v + 4, v + 6, v + 3, v + 5)
                            .unwrap();
                        (acc, v) = (v + 6, v + 7);
                    }
                    Statement::Store(cell) => writeln!(text, "store v{acc}, v0+{}", 8 * cell).unwrap(),
                    Statement::Fork(tasks) if !forks => {
                        tasks.iter().for_each(|t| writeln!(text, "call fn{t}(v0)").unwrap());
                    }
                    Statement::Fork(tasks) => {
                        for (k, t) in tasks.iter().enumerate() {
                            writeln!(text, "v{} = func_addr.i64 fn{t}", v + k).unwrap();
                        }
                        if let [_, _] = tasks[..] {
                            writeln!(text, "call fn900(v{v}, v0, v{}, v0)", v + 1).unwrap();
                        } else {
                            for k in 0..tasks.len() {
                                writeln!(text, "store v{}, v2+{}\nstore v0, v2+{}", v + k, 16 * k, 16 * k + 8).unwrap();
                            }
                            writeln!(text, "v{} = iconst.i64 {}", v + 9, tasks.len()).unwrap();
                            writeln!(text, "call fn901(v2, v{})", v + 9).unwrap();
                        }
                        v += 10;
                    }
                }
            }
            writeln!(text, "return{}\n}}", if t == 0 { format!(" v{acc}") } else { String::new() }).unwrap();
        }
        text
    }
}

/// A float as CLIF writes it.
fn hex(x: f64) -> String {
    if x == 0.0 {
        return "0.0".to_owned();
    }
    let bits = x.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i64 - 1023;
    format!("{}0x1.{:013x}p{exponent}", if x < 0.0 { "-" } else { "" }, bits & ((1 << 52) - 1))
}

fn near(a: &[u64], b: &[u64]) -> bool {
    let near = |(&a, &b): (&u64, &u64)| {
        let (a, b) = (f64::from_bits(a), f64::from_bits(b));
        a.to_bits() == b.to_bits() || (a - b).abs() <= 1e-10 * a.abs().max(b.abs()).max(1.0)
    };
    a.len() == b.len() && a.iter().zip(b).all(near)
}

#[test]
fn random_programs() {
    let first = asked("BROLGA_FORKS_SEED").unwrap_or(1_u64);
    let n = asked("BROLGA_FORKS_PROGRAMS").unwrap_or(budget(40, 8));
    let (mut forks, mut shared) = (0, 0);
    for seed in first..first + n {
        let tree = Tree::new(seed);
        // Of every second program all numbers are exact.
        let step = if seed % 2 == 0 { 0.25 } else { 0.3 };
        let cells: Vec<f64> = (0..CELLS).map(|i| 0.75 - step * i as f64).collect();
        let (serial, parallel) = (program(&tree.text(false)), program(&tree.text(true)));
        forks += usize::from(tree.tasks.len() > 1);
        for mode in [Mode::Split, Mode::Gradient, Mode::Tangent] {
            let run = |p: &Program, threads| {
                let rule = rule(p, "root", &options(mode, threads));
                outcome(&rule, &cells, &[], mode, seed % 4 < 2).unwrap_or_else(|e| panic!("seed {seed}: {e}"))
            };
            let (wanted, one) = (run(&serial, 1), run(&parallel, 1));
            assert!(near(&wanted, &one), "seed {seed}, {mode:?}:\n{}\n{wanted:x?}\n{one:x?}", tree.text(true));
            // Forward mode adds nothing up.
            assert!(mode != Mode::Tangent || wanted == one, "seed {seed}");
            shared += usize::from(wanted != one);
            for threads in [2, 3, 7] {
                assert_eq!(one, run(&parallel, threads), "seed {seed}, {mode:?}, {threads} threads");
            }
            // In the order of the serial program there is no sum of a task's own.
            let in_order = |p: &Program, threads| {
                let options = Options { float_order: FloatOrder::AsWritten, ..options(mode, threads) };
                outcome(&rule(p, "root", &options), &cells, &[], mode, seed % 4 < 2).expect("it runs")
            };
            assert_eq!(in_order(&serial, 1), in_order(&parallel, 3), "seed {seed}, {mode:?}, in order");
        }
    }
    println!("{forks} of {n} programs fork; sums of {shared} runs have other bits than the serial ones");
    assert!(forks > n as usize / 2);
}
