//! Random programs that move floats in pieces, in a module of Cranelift's: gradients, forward
//! passes with pullbacks, and tangents, against the run time.
//!
//! Each program has two blocks of eight words, doubles or pairs of singles, one of the caller's and
//! one on the stack. Its steps copy floats from word to word, in pieces of one to eight bytes, one
//! after the other or all loaded before the first is stored, and put words together by shifts; in
//! between they calculate. `BROLGA_PIECES=1000` tries as many. A run that traps where the run time
//! does not ends the test.

use std::fmt::Write;

use brolga_testing::budget;

use crate::embedded::{Tally, judge_text};

/// Numbers from a seed (splitmix64).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ z >> 31) % n as u64) as usize
    }

    fn shuffle<T>(&mut self, all: &mut [T]) {
        (1..all.len()).rev().for_each(|i| all.swap(i, self.below(i + 1)));
    }
}

/// Writes a program.
struct Writer {
    random: Random,
    single: bool,
    text: String,
    next: usize,
}

impl Writer {
    fn emit(&mut self, line: &str) -> usize {
        self.next += 1;
        writeln!(self.text, "    v{} = {line}", self.next).expect("it is a string");
        self.next
    }

    fn store(&mut self, what: &str, v: usize, at: usize) {
        writeln!(self.text, "    {what} v{v}, {}", self.place(at)).expect("it is a string");
    }

    /// A byte of both blocks: 64 of the first, 64 of the second.
    fn place(&self, at: usize) -> String {
        format!("v{}+{}", at / 64, at % 64)
    }

    fn size(&self) -> usize {
        if self.single { 4 } else { 8 }
    }

    fn float(&self) -> &'static str {
        if self.single { "f32" } else { "f64" }
    }

    fn any_float(&mut self) -> usize {
        let size = self.size();
        self.random.below(128 / size) * size
    }

    /// Copy some floats, by pieces in any order.
    fn copies(&mut self) {
        let mut pieces = Vec::new();
        let (mut to, mut from) = (Vec::new(), Vec::new());
        let at_once = self.random.below(2) == 0;
        for _ in 0..=self.random.below(3) {
            let (src, dst) = (self.any_float(), self.any_float());
            if to.contains(&dst) || !at_once && (from.contains(&dst) || to.contains(&src) || src == dst) {
                continue;
            }
            to.push(dst);
            from.push(src);
            let width = 1 << self.random.below(if self.single { 3 } else { 4 });
            pieces.extend((0..self.size()).step_by(width).map(|i| (src + i, dst + i, width)));
        }
        self.random.shuffle(&mut pieces);
        let load = |w: &mut Self, (src, _, n): (usize, usize, usize)| {
            let place = w.place(src);
            w.emit(&format!("load.i{} {place}", 8 * n))
        };
        if at_once {
            let mut loaded: Vec<_> = pieces.iter().map(|&p| (load(self, p), p.1)).collect();
            self.random.shuffle(&mut loaded);
            loaded.into_iter().for_each(|(v, at)| self.store("store", v, at));
        } else {
            for p in pieces {
                let v = load(self, p);
                self.store("store", v, p.1);
            }
        }
    }

    /// A word that is put together from its halves, or taken apart.
    fn shifts(&mut self) {
        let [src, dst] = [0, 0].map(|_| self.random.below(16) * 8);
        let bits = self.emit("iconst.i64 32");
        if self.random.below(2) == 0 {
            let places = [self.place(src), self.place(src + 4)];
            let [low, high] = places.map(|p| self.emit(&format!("uload32 {p}")));
            let high = self.emit(&format!("ishl v{high}, v{bits}"));
            let word = self.emit(&format!("bor v{low}, v{high}"));
            self.store("store", word, dst);
        } else {
            let place = self.place(src);
            let word = self.emit(&format!("load.i64 {place}"));
            let high = self.emit(&format!("ushr v{word}, v{bits}"));
            self.store("istore32", word, dst);
            self.store("istore32", high, dst + 4);
        }
    }

    /// A float that is calculated from two.
    fn product(&mut self) {
        let (float, places) = (self.float(), [0, 0].map(|_| self.any_float()).map(|at| self.place(at)));
        let [a, b] = places.map(|p| self.emit(&format!("load.{float} {p}")));
        let product = self.emit(&format!("fmul v{a}, v{b}"));
        let third = self.emit(&format!("{float}const 0x1.8p-1"));
        let product = self.emit(&format!("fmul v{product}, v{third}"));
        let at = self.any_float();
        self.store("store", product, at);
    }

    fn program(seed: u64) -> String {
        let mut w = Self { random: Random(seed), single: seed % 2 == 1, text: String::new(), next: 1 };
        let (float, size) = (w.float(), w.size());
        for at in (0..64).step_by(size) {
            let place = w.place(at);
            let x = w.emit(&format!("load.{float} {place}"));
            let y = w.emit(&format!("fneg v{x}"));
            w.store("store", y, 64 + at);
        }
        for _ in 0..4 + w.random.below(12) {
            match w.random.below(4) {
                0 => w.product(),
                1 => w.shifts(),
                _ => w.copies(),
            }
        }
        let mut sum = w.emit(&format!("{float}const 0.0"));
        for at in (0..128).step_by(size) {
            let place = w.place(at);
            let x = w.emit(&format!("load.{float} {place}"));
            let y = w.emit(&format!("{float}const 0x1.{:x}", at % 16));
            let x = w.emit(&format!("fmul v{x}, v{y}"));
            sum = w.emit(&format!("fadd v{sum}, v{x}"));
        }
        let numbers = |w: &mut Self| {
            let all: Vec<String> = (0..64 / size).map(|_| format!("{}.5", w.random.below(3))).collect();
            all.join(", ")
        };
        let prefix = if w.single { "f32" } else { "" };
        let (x, shadow) = (numbers(&mut w), numbers(&mut w));
        format!(
            "; grad: %f({prefix}[{x}]) nofd shadow 0={prefix}[{shadow}] == [[{x}]]\n\
             function %f(i64) -> {float} system_v {{\n    ss0 = explicit_slot 64, align = 8\nblock0(v0: i64):\n    \
             v1 = stack_addr.i64 ss0\n{}    return v{sum}\n}}\n",
            w.text
        )
    }
}

#[test]
fn floats_in_pieces() {
    let programs = budget::asked("BROLGA_PIECES").unwrap_or(budget::budget(40, 10));
    let mut tally = Tally::default();
    (0..programs).for_each(|seed| judge_text(&mut tally, seed, Writer::program(seed)));
    println!("{} compared, rooms {:?}, refused {:?}", tally.compared, tally.rooms, tally.refused);
    tally.wrong.iter().for_each(|w| println!("  WRONG: {w}"));
    assert!(tally.wrong.is_empty(), "{} are wrong", tally.wrong.len());
    assert!(tally.compared as u64 > 2 * programs && tally.rooms["unknown"] as u64 > 2 * programs, "{}", tally.compared);
    assert!(tally.refused.is_empty());
}
