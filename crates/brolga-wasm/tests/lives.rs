//! Random lives of blocks: the bytes of a block are another's later on, in the middle of it, with a
//! header on top of them. Each program has its gradient by forward differentiation beside it, and
//! derives its allocator or calls it as it is.
//!
//! `BROLGA_LIVES=100..200` tries those seeds.

use std::fmt::Write as _;

use brolga_testing::{budget, is_quick};
use brolga_wasm::brolga::{ArgActivity, MemoryMode, Mode, Options, Pass};
use brolga_wasm::{Gradient, Instance, Module, Val};

const LISTS: &str = include_str!("../../../ir-tests/wasm/text/lists.wat");
/// Where the input lies, and what it is.
const AT: u32 = 1024;
const X: [f64; 4] = [0.75, -1.25, 0.5, 1.5];

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) % n as u64) as usize
    }
}

/// A number and its derivatives.
#[derive(Clone, Copy, Default)]
struct Dual(f64, [f64; 4]);

impl Dual {
    fn input(i: usize) -> Self {
        let mut slopes = [0.0; 4];
        slopes[i] = 1.0;
        Self(X[i], slopes)
    }

    fn plus(self, other: Self) -> Self {
        Self(self.0 + other.0, std::array::from_fn(|i| self.1[i] + other.1[i]))
    }

    fn times(self, other: Self) -> Self {
        Self(self.0 * other.0, std::array::from_fn(|i| self.1[i] * other.0 + self.0 * other.1[i]))
    }
}

/// A block's words; none where nothing has been stored.
type Words = Vec<Option<Dual>>;

/// A program, as text and as it runs.
struct Program {
    random: Random,
    text: String,
    blocks: [Option<Words>; 4],
    sum: Dual,
}

impl Program {
    fn new(seed: u64) -> Self {
        let mut program = Self {
            random: Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)),
            text: String::new(),
            blocks: Default::default(),
            sum: Dual::default(),
        };
        (0..80).for_each(|_| program.step());
        for i in 0..4 {
            if program.blocks[i].take().is_some() {
                program.say(&format!("(call $free (local.get $p{i}))"));
            }
        }
        program
    }

    fn say(&mut self, line: &str) {
        writeln!(self.text, "{line}").unwrap();
    }

    /// A word that something has been stored to: how it is read, and what it is.
    fn word(&mut self) -> Option<(String, Dual)> {
        let words =
            self.blocks.iter().enumerate().flat_map(|(i, b)| b.iter().flatten().enumerate().map(move |w| (i, w)));
        let known: Vec<_> = words.filter_map(|(i, (k, w))| Some((i, k, (*w)?))).collect();
        let &(i, k, word) = known.get(self.random.below(known.len().max(1)))?;
        Some((format!("(f64.load offset={} (local.get $p{i}))", 8 * k), word))
    }

    fn step(&mut self) {
        let i = self.random.below(4);
        let n = 1 + self.random.below(6);
        let (what, a) = (self.random.below(10), self.random.below(4));
        let x = format!("(f64.load offset={} (local.get $x))", 8 * a);
        match (what, self.blocks[i].take()) {
            (0..=1, None) => {
                self.say(&format!("(local.set $p{i} (call $malloc (i32.const {})))", 8 * n));
                self.blocks[i] = Some(vec![None; n]);
            }
            (2, None) => {
                self.say(&format!("(local.set $p{i} (call $calloc (i32.const {n}) (i32.const 8)))"));
                self.blocks[i] = Some(vec![Some(Dual::default()); n]);
            }
            (0..=1, Some(_)) => self.say(&format!("(call $free (local.get $p{i}))")),
            (2, Some(mut words)) => {
                self.say(&format!("(local.set $p{i} (call $realloc (local.get $p{i}) (i32.const {})))", 8 * n));
                words.resize(n, None);
                self.blocks[i] = Some(words);
            }
            (_, None) => {
                if let Some((text, word)) = self.word() {
                    self.say(&format!("(local.set $sum (f64.add (local.get $sum) {text}))"));
                    self.sum = self.sum.plus(word);
                }
            }
            (_, Some(mut words)) => {
                let k = self.random.below(words.len());
                let (text, value) = match self.word() {
                    Some((text, word)) => (format!("(f64.mul {text} {x})"), word.times(Dual::input(a))),
                    None => (x, Dual::input(a)),
                };
                self.say(&format!("(f64.store offset={} (local.get $p{i}) {text})", 8 * k));
                words[k] = Some(value);
                self.blocks[i] = Some(words);
            }
        }
    }

    /// The module: the program runs twice, over what the first iteration has left of the lists.
    fn module(&self) -> String {
        LISTS.trim_end().strip_suffix(')').unwrap().to_owned()
            + "(func (export \"f\") (param $x i32) (result f64) (local $sum f64) (local $iterations i32)
                (local $p0 i32) (local $p1 i32) (local $p2 i32) (local $p3 i32)
                (loop $again\n"
            + &self.text
            + "(br_if $again (i32.lt_u (local.tee $iterations (i32.add (local.get $iterations) (i32.const 1))) (i32.const 2))))
                (local.get $sum)))"
    }
}

/// Value, gradient, and memory.
fn run(module: &Module, options: &Options) -> (Option<f64>, Vec<f64>, Vec<u8>) {
    let gradient = Gradient::with_options(module, "f", &[ArgActivity::Const], options).unwrap();
    let mut instance = Instance::new(module).unwrap();
    instance.write_f64(AT, &X).unwrap();
    let (args, one) = ([Val::I32(AT as i32)], [Val::F64(1.0)]);
    let values = if options.mode == Mode::Split {
        let (values, mut pullback) = instance.forward(&gradient, &args).unwrap();
        instance.pullback(&mut pullback, &one).unwrap();
        values
    } else {
        instance.gradient(&gradient, &args, &one).unwrap().values
    };
    let slopes = instance.shadow_f64(AT, X.len()).unwrap();
    instance.shadow_mut()[AT as usize..][..8 * X.len()].fill(0);
    assert!(instance.shadow_mut().iter().all(|&b| b == 0), "a cotangent is left behind");
    let value = values.first().map(|v| match v {
        Val::F64(v) => *v,
        other => panic!("{other:?}"),
    });
    (value, slopes, instance.memory().to_vec())
}

#[test]
fn gradients_of_random_lives() {
    let asked = std::env::var("BROLGA_LIVES");
    let seeds = asked.clone().unwrap_or(budget("0..12", "0..2").to_owned());
    let (from, to) = seeds.split_once("..").expect("a range of seeds");
    let mut telling = 0;
    for seed in from.parse::<u64>().unwrap()..to.parse().unwrap() {
        let program = Program::new(seed);
        let module = Module::new(program.module()).unwrap();
        let doubled = program.sum.plus(program.sum);
        let mut primal = Instance::new(&module).unwrap();
        primal.write_f64(AT, &X).unwrap();
        let value = primal.call("f", &[Val::I32(AT as i32)]).unwrap();
        telling += u32::from(doubled.1.iter().all(|&d| d != 0.0));
        for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
            for memory in [MemoryMode::Leave, MemoryMode::Restore] {
                let [derived, plain] = [false, true].map(|plain| {
                    let disabled = Pass::REORDERING.set(Pass::OpaqueAllocator, !plain);
                    run(&module, &Options { mode, memory, disabled, ..Options::full() })
                });
                assert!(derived == plain, "seed {seed}, {mode:?}, {memory:?}: {:?} and {:?}", derived.1, plain.1);
                assert!(memory == MemoryMode::Restore || plain.2 == primal.memory(), "seed {seed}: other memory");
                assert!(plain.0.is_none_or(|v| [Val::F64(v)] == value[..]), "seed {seed}: another value");
                for (i, (is, want)) in plain.1.iter().zip(doubled.1).enumerate() {
                    let close = (is - want).abs() <= 1e-10 * (1.0 + want.abs());
                    assert!(close, "seed {seed}, {mode:?}, {memory:?}: slope {i} is {is}, {want} expected");
                }
            }
        }
    }
    assert!(telling > 0 || asked.is_ok() || is_quick());
}
