//! Random reversible functions: `~f` after `f` is the identity, and the gradient is the tape's.
//!
//! A program is made of statements that can be undone, around places of all kinds, with records,
//! stacks, and functions that call each other and themselves. What a condition, a limit or an
//! ancilla depends on is frozen while it has to stay, so that most checks hold; some do not, and
//! then the state is left as it was.
//!
//! Seen to fail: `neg` that does nothing on its way back.

use brolga::{DerivedRule, Error, InverseCheck, MemoryMode, Mode, Options};
use brolga_driver::check::round_trip::round_trip;
use brolga_driver::check::{Tolerances, check};
use brolga_driver::text::directive::call_with_clauses;
use brolga_driver::{File, Invocation, run};
use brolga_testing::budget;

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}

/// A program that is being made.
struct Maker {
    random: Random,
    text: String,
    depth: usize,
    names: usize,
    /// Places that are not changed for the time being.
    frozen: Vec<String>,
    /// Integers that are read: iterations of loops.
    iterations: Vec<String>,
    floats: Vec<String>,
    fixed: Vec<String>,
    integers: Vec<String>,
    /// Singles, which nothing of another type reads: their roundings are larger.
    singles: Vec<String>,
    /// Complex numbers, whose parts are floats, too.
    complexes: Vec<String>,
    logs: Vec<String>,
    callees: usize,
    /// Whether claims are believed: none is made that holds in one direction only.
    believed: bool,
}

impl Maker {
    fn new(seed: u64) -> Self {
        let (text, frozen, iterations, singles, complexes, logs) = Default::default();
        let names = |root: &str, n: usize| (0..n).map(|i| format!("{root}[{i}]")).collect();
        Self {
            random: Random(seed),
            text,
            depth: 1,
            names: 0,
            frozen,
            iterations,
            floats: names("x", 3),
            fixed: names("q", 2),
            integers: names("k", 3),
            singles,
            complexes,
            logs,
            callees: 0,
            believed: false,
        }
    }

    fn line(&mut self, line: &str) {
        self.text += &"    ".repeat(self.depth);
        self.text += line;
        self.text.push('\n');
    }

    fn fresh(&mut self, of: &str) -> String {
        self.names += 1;
        format!("{of}{}", self.names)
    }

    /// A complex number that may be changed.
    fn changed_complex(&mut self) -> Option<String> {
        let is_free = |z: &&String| !self.frozen.iter().any(|p| *p == format!("{z}.re") || *p == format!("{z}.im"));
        let free: Vec<String> = self.complexes.iter().filter(is_free).cloned().collect();
        (!free.is_empty()).then(|| self.random.pick(&free).clone())
    }

    /// A statement about singles, complex numbers or logarithms.
    fn other(&mut self) {
        match self.random.below(6) {
            0 | 1 => {
                let (Some(p), Some(q)) = (self.changed(&self.singles.clone()), self.changed(&self.singles.clone()))
                else {
                    return;
                };
                let e = self.float("", 1).0;
                match (self.random.below(4), p == q) {
                    (0, false) => self.line(&format!("swap {p}, {q}")),
                    (1, false) => self.line(&format!("rotate {p}, {q} by single(c[1])")),
                    (_, false) => self.line(&format!("{p} += 0.25 * sin({q}) * single({e})")),
                    _ => self.line(&format!("neg {p}")),
                }
            }
            2 | 3 => {
                let (Some(z), Some(w)) = (self.changed_complex(), self.changed_complex()) else { return };
                let e = self.float(&z, 1);
                let reads_it = e.1.iter().any(|p| p.starts_with(&format!("{z}.")));
                match (self.random.below(4), z == w) {
                    (0, false) => self.line(&format!("swap {z}, {w}")),
                    (1, false) if !reads_it => self.line(&format!("{z} -= 0.25 * {w} * complex({}, 0.5)", e.0)),
                    (_, false) => self.line(&format!("{z} += 0.25 * {w} / (2.0 + conj({w}) * {w})")),
                    (_, true) if !reads_it => self.line(&format!("{z} += complex(0.5, {})", e.0)),
                    _ => self.line(&format!("neg {z}")),
                }
            }
            _ => {
                let Some(l) = self.changed(&self.logs.clone()) else { return };
                let e = self.float(&l, 1);
                let op = *self.random.pick(&["*=", "/="]);
                self.line(&format!("{l} {op} 1.25 + abs2({})", e.0));
            }
        }
    }

    /// What is moved to a stack and back, with something between.
    fn stacked(&mut self, deep: usize) {
        let (s, t) = (self.fresh("s"), self.fresh("t"));
        let (e, reads) = self.float("", 1);
        self.line(&format!("let {s}: stack [f64 x 2] = 0"));
        self.line(&format!("let {t}: f64 = {e}"));
        let kept = self.frozen.len();
        self.frozen.extend(reads);
        self.line(&format!("push {s}, {t}"));
        self.stmt(deep - 1);
        if self.random.below(2) == 0 {
            // It is another place that takes it, which is exchanged for the first.
            let u = self.fresh("u");
            self.line(&format!("let {u}: f64 = 0"));
            self.line(&format!("pop {s}, {u}"));
            self.line(&format!("swap {u}, {t}"));
            self.line(&format!("drop {u} = 0"));
        } else {
            self.line(&format!("pop {s}, {t}"));
        }
        self.frozen.truncate(kept);
        self.line(&format!("drop {t} = {e}"));
        self.line(&format!("drop {s} = 0"));
    }

    /// One of some places that may be changed.
    fn changed(&mut self, all: &[String]) -> Option<String> {
        let free: Vec<&String> = all.iter().filter(|p| !self.frozen.contains(p)).collect();
        (!free.is_empty()).then(|| (*self.random.pick(&free)).clone())
    }

    /// A float expression that does not read a place; what it reads.
    fn float(&mut self, not: &str, deep: usize) -> (String, Vec<String>) {
        if deep == 0 || self.random.below(4) == 0 {
            let others: Vec<String> = self.floats.iter().filter(|p| *p != not).cloned().collect();
            return match self.random.below(7) {
                5 if !self.logs.is_empty() && !self.logs.iter().any(|l| l == not) => {
                    let l = self.random.pick(&self.logs.clone()).clone();
                    (format!("atan(float({l}))"), vec![l])
                }
                6 if !self.complexes.is_empty() => {
                    let z = self.random.pick(&self.complexes.clone()).clone();
                    let (re, im) = (format!("{z}.re"), format!("{z}.im"));
                    if [&re, &im].iter().any(|p| *p == not) || z == not {
                        return ("0.5".to_owned(), vec![]);
                    }
                    let of = *self.random.pick(&["im(exp(conj(Z)))", "re(Z * Z)", "0.5 * abs2(Z)", "abs(Z + 3.0)"]);
                    (of.replace('Z', &z), vec![re, im])
                }
                0 => (format!("{:?}", self.random.below(40) as f64 / 16.0 - 1.0), vec![]),
                1 => (format!("c[{}]", self.random.below(2)), vec![]),
                2 => {
                    let q: Vec<String> = self.fixed.iter().filter(|p| *p != not).cloned().collect();
                    let q = self.random.pick(&q).clone();
                    (format!("float({q})"), vec![q])
                }
                _ => {
                    let p = self.random.pick(&others).clone();
                    (p.clone(), vec![p])
                }
            };
        }
        let (a, mut reads) = self.float(not, deep - 1);
        let (b, more) = self.float(not, deep - 1);
        reads.extend(more);
        let text = match self.random.below(9) {
            0 => format!("({a}) + ({b})"),
            1 => format!("({a}) - ({b})"),
            // What grows by its square overflows on its way back.
            2 => format!("0.5 * tanh({a}) * ({b})"),
            3 => format!("sin({a}) * tanh({b})"),
            4 => format!("({a}) / (1.5 + abs2({b}))"),
            5 => format!("sqrt(1.0 + abs2({a})) - atan({b})"),
            6 => format!("exp(-abs2({a})) + cos({b})"),
            7 => format!("max({a}, {b})"),
            _ => {
                let k = self.random.pick(&self.integers.clone()).clone();
                reads.push(k.clone());
                format!("select({k} > 0, {a}, {b})")
            }
        };
        (text, reads)
    }

    fn integer(&mut self, not: &str) -> (String, Vec<String>) {
        let others: Vec<String> = self.integers.iter().filter(|p| *p != not).cloned().collect();
        let p = self.random.pick(&others).clone();
        let q = match self.iterations.is_empty() || self.random.below(2) == 0 {
            true => "n".to_owned(),
            false => self.random.pick(&self.iterations).clone(),
        };
        let text = match self.random.below(5) {
            0 => format!("{p} * 3 + {q}"),
            1 => format!("({p} ^ {q}) >> 1"),
            2 => format!("{q} << 2"),
            3 => format!("min({p}, {q})"),
            _ => format!("{p} & 5 | {q}"),
        };
        (text, vec![p])
    }

    fn block(&mut self, open: &str, deep: usize) {
        self.line(&format!("{open} {{"));
        self.depth += 1;
        for _ in 0..1 + self.random.below(3) {
            self.stmt(deep);
        }
        self.depth -= 1;
    }

    fn stmt(&mut self, deep: usize) {
        let kinds = if deep == 0 { 8 } else { 16 };
        if !self.logs.is_empty() && self.random.below(6) == 0 {
            return self.other();
        }
        match self.random.below(kinds) {
            14 | 15 => self.stacked(deep),
            0 | 1 => {
                let all = [self.floats.clone(), self.fixed.clone()].concat();
                let Some(p) = self.changed(&all) else { return };
                let e = self.float(&p, 2).0;
                let op = *self.random.pick(&["+=", "-="]);
                self.line(&format!("{p} {op} 0.25 * ({e})"));
            }
            2 => {
                let Some(p) = self.changed(&self.integers.clone()) else { return };
                let e = self.integer(&p).0;
                let op = *self.random.pick(&["+=", "-=", "^="]);
                self.line(&format!("{p} {op} {e}"));
            }
            3 => {
                let all = self.random.pick(&[self.floats.clone(), self.fixed.clone(), self.integers.clone()]).clone();
                let (Some(p), Some(q)) = (self.changed(&all), self.changed(&all)) else { return };
                self.line(&format!("swap {p}, {q}"));
            }
            4 => self.rotated(),
            5 => {
                let all = [self.floats.clone(), self.fixed.clone(), self.integers.clone()].concat();
                let Some(p) = self.changed(&all) else { return };
                self.line(&format!("neg {p}"));
            }
            6 if !self.believed => {
                let Some(p) = self.changed(&self.integers.clone()) else { return };
                // A branch that is found again by what it has added.
                self.line(&format!("if ({p} > 0, {p} > 1) {{"));
                self.line(&format!("    {p} += 1"));
                self.line("}");
            }
            6 | 7 => self.call(),
            8 => {
                let k = self.random.pick(&self.integers.clone()).clone();
                self.frozen.push(k.clone());
                let c = match self.random.below(3) {
                    0 => format!("if {k} & 1 == 0"),
                    1 => format!("if not ({k} < n and {k} != 3)"),
                    _ => format!("if {k} > 2 or {k} < 0"),
                };
                self.block(&c, deep - 1);
                self.block("} else", deep - 1);
                self.line("}");
                self.frozen.pop();
            }
            9 => {
                let i = self.fresh("i");
                let back = *self.random.pick(&["", "back "]);
                let to = *self.random.pick(&["3", "n", "n + 1"]);
                self.iterations.push(i.clone());
                self.block(&format!("for {i} in {back}0 .. {to}"), deep - 1);
                self.iterations.pop();
                self.line("}");
            }
            10 => {
                let j = self.fresh("j");
                self.line(&format!("let {j}: i64 = 0"));
                self.iterations.push(j.clone());
                self.block(&format!("from {j} == 0 while {j} < n"), deep - 1);
                self.iterations.pop();
                self.line(&format!("    inc {j}"));
                self.line("}");
                self.line(&format!("drop {j} = n"));
            }
            11 => self.computed(deep),
            12 => {
                let t = self.fresh("t");
                let (e, reads) = self.float("", 1);
                let kept = self.frozen.len();
                self.frozen.extend(reads);
                self.line(&format!("let {t}: f64 = {e}"));
                self.frozen.push(t.clone());
                self.floats.push(t.clone());
                self.stmt(deep - 1);
                self.floats.retain(|p| *p != t);
                self.frozen.truncate(kept);
                self.line(&format!("drop {t} = {e}"));
            }
            _ => {
                let around = std::mem::replace(&mut self.believed, true);
                self.block("check off", deep - 1);
                self.believed = around;
                self.line("}");
            }
        }
    }

    fn rotated(&mut self) {
        let all = self.floats.clone();
        let (Some(p), Some(q)) = (self.changed(&all), self.changed(&all)) else { return };
        if p != q {
            let by = *self.random.pick(&["c[0]", "0.75", "c[1] * c[0]"]);
            let word = *self.random.pick(&["rotate", "unrotate"]);
            self.line(&format!("{word} {p}, {q} by {by}"));
        }
    }

    /// What is computed, used, and undone.
    fn computed(&mut self, deep: usize) {
        if self.random.below(3) == 0 {
            return self.computed_elsewhere(deep);
        }
        let t = self.fresh("t");
        let kind = *self.random.pick(&["f64", "q43"]);
        self.line(&format!("let {t}: {kind} = 0"));
        self.line("compute {");
        let kept = self.frozen.len();
        for _ in 0..2 {
            let (e, reads) = self.float("", 1);
            self.frozen.extend(reads);
            self.line(&format!("    {t} += 0.5 * ({e})"));
        }
        self.frozen.push(t.clone());
        let list = if kind == "f64" { &mut self.floats } else { &mut self.fixed };
        list.push(t.clone());
        self.block("} copy", deep - 1);
        self.line("}");
        self.floats.retain(|p| *p != t);
        self.fixed.retain(|p| *p != t);
        self.frozen.truncate(kept);
        self.line(&format!("drop {t} = 0"));
    }

    /// Integers of an array of its own, which another function computes.
    fn computed_elsewhere(&mut self, deep: usize) {
        let Some(k) = self.changed(&self.integers.clone()) else { return };
        let t = self.fresh("t");
        self.line(&format!("let {t}: [i64 x 3] = 0"));
        self.line("compute {");
        self.line(&format!("    call filled({t}, {k}, n)"));
        let kept = (self.frozen.len(), self.integers.len());
        self.integers.extend((0..3).map(|i| format!("{t}[{i}]")));
        self.frozen.extend(self.integers[kept.1..].iter().cloned().chain([k]));
        self.block("} copy", deep - 1);
        self.line("}");
        self.frozen.truncate(kept.0);
        self.integers.truncate(kept.1);
        self.line(&format!("drop {t} = 0"));
    }

    fn call(&mut self) {
        if self.callees == 0 {
            return;
        }
        let g = self.random.below(self.callees);
        let (Some(a), Some(b)) = (self.changed(&self.floats.clone()), self.changed(&self.floats.clone())) else {
            return;
        };
        let Some(k) = self.changed(&self.integers.clone()) else { return };
        if a != b {
            let word = *self.random.pick(&["call", "uncall"]);
            self.line(&format!("{word} g{g}({a}, {b}, {k}, c, n)"));
        }
    }
}

/// A function of two floats and an integer, which may call itself and those before it.
fn callee(number: usize, seed: u64) -> String {
    let mut m = Maker::new(seed);
    (m.floats, m.fixed) = (vec!["a".into(), "b".into()], vec!["q".into()]);
    m.integers = vec!["k".into(), "m".into()];
    m.callees = number;
    m.depth = 1;
    m.line("let q: q43 = 0.5");
    m.line("let m: i64 = 3");
    m.frozen = vec!["q".into(), "m".into()];
    m.line("if n > 1 {");
    m.line(&format!("    call g{number}(b, a, k, c, n - 1)"));
    m.line("}");
    for _ in 0..3 {
        m.stmt(1);
    }
    m.line("drop m = 3");
    m.line("drop q = 0.5");
    format!("fn g{number}(a: f64, b: f64, k: i64, c: in [f64 x 2], n: in i64) {{\n{}}}\n", m.text)
}

/// A function that changes an array of integers.
fn filled(seed: u64) -> String {
    let mut m = Maker::new(seed);
    m.integers = ["w[0]", "w[1]", "w[2]", "k"].map(String::from).to_vec();
    for _ in 0..4 {
        let all = m.integers.clone();
        let (p, q) = (m.random.pick(&all).clone(), m.random.pick(&all).clone());
        let e = m.integer(&p).0;
        let op = *m.random.pick(&["+=", "-=", "^="]);
        m.line(&format!("{p} {op} {e}"));
        m.line(&format!("swap {p}, {q}"));
    }
    format!("fn filled(w: [i64 x 3], k: i64, n: in i64) {{\n{}}}\n", m.text)
}

fn program(seed: u64) -> String {
    let mut m = Maker::new(seed);
    m.callees = 2;
    m.floats.extend(["r.a", "r.b[0]", "r.b[1]", "z.re", "z.im", "w.im"].map(String::from));
    m.integers.push("r.k".into());
    (m.complexes, m.logs) = (vec!["z".into(), "w".into()], vec!["l".into()]);
    if seed.is_multiple_of(3) {
        m.singles = ["s[0]", "s[1]", "s[2]"].map(String::from).to_vec();
    }
    for _ in 0..6 {
        m.stmt(3);
    }
    let head = "record R { a: f64, k: i64, b: [f64 x 2] }\nfn f(x: [f64 x 3], q: [q43 x 2], k: [i64 x 3], c: in [f64 x 2], n: in i64, r: R, z: complex, w: complex, l: log, s: [f32 x 3]) {\n";
    let others: String = (0..2).map(|i| callee(i, seed ^ (0x1234_5678 << i))).collect();
    format!("{head}{}}}\n{others}{}", m.text, filled(seed ^ 0x5eed))
}

const CALL: &str = "%f([0.51, -0.77, 1.23], [0.5, -0.25], i64[1, 2, -3], [0.3, 0.6], 2, [0.4, 0, -0.6, 0.9], [0.31, -0.4], [0.2, 0.7], [0.35], f32[0.5, -0.25, 1.5]) shadow \
     0=[1.0, 2.0, -1.0] shadow 1=[0.5, 1.5] shadow 5=[1.0, 0.0, 0.5, -1.0] shadow 6=[1.0, 0.25] shadow 7=[-0.5, 1.0] \
     shadow 8=[0.5] shadow 9=SINGLES";

/// How many states were gone back to, refused, and of how many calls the gradient was compared.
#[derive(Default)]
struct Counts {
    undone: u64,
    refused: u64,
    gradients: usize,
}

fn one(seed: u64, counts: &mut Counts) -> Result<(), String> {
    let text = program(seed);
    let said = |what: String| format!("seed {seed}: {what}\n{text}");
    let file = File::parse("random.rev", text.as_str()).map_err(|e| said(e.to_string()))?;
    // Where no statement changes singles, no rounding of theirs is in the gradient.
    let singles = text.contains("single(");
    let given = CALL.replace("SINGLES", if singles { "[1.0, 0.5, -1.0]" } else { "[0.0, 0.0, 0.0]" });
    let (call, clauses) = call_with_clauses(&given).unwrap();
    let call: Invocation = file.bind(&given, &call, &clauses).map_err(|e| said(e.to_string()))?;
    let found = round_trip(&file.program, file.inverses(), &call, InverseCheck::Declared, 40)
        .map_err(|e| said(e.to_string()))?
        .unwrap();
    if let Some(wrong) = found.wrong {
        return Err(said(wrong));
    }
    counts.undone += found.undone;
    counts.refused += found.refused;
    let options = Options { inverse_check: InverseCheck::Off, mode: Mode::Combined, ..Options::default() };
    let rule = || DerivedRule::new(&file.program, &call.request(), &options);
    let outcome = match rule().and_then(|rule| run::gradient(&rule, &call)) {
        Ok(outcome) => outcome,
        // A check has failed, as it may.
        Err(Error::Trap(_)) => return Ok(()),
        Err(e) => return Err(said(e.to_string())),
    };
    let tolerances = Tolerances::of(&file.program, &call, None);
    let checked = check(&file.program, &call, &outcome, &rule, tolerances, false).map_err(|e| said(e.to_string()))?;
    if !checked.complaints().is_empty() || checked.tape_error.is_some() {
        return Err(said(format!("{:?} {:?}", checked.complaints(), checked.tape_error)));
    }
    // The same by recording its statements.
    let recorded = Invocation { memory: MemoryMode::Restore, ..call.clone() };
    let plain = DerivedRule::new(
        &file.program,
        &recorded.request(),
        &Options { memory: MemoryMode::Restore, ..options.clone() },
    );
    match plain.and_then(|rule| run::gradient(&rule, &recorded)) {
        Ok(plain) => {
            if let Some(apart) = outcome.apart(&plain, if singles { 1e-4 } else { 1e-9 }) {
                return Err(said(format!("recorded, the gradient is another: {apart:?}")));
            }
        }
        // An integer beside floats may be one of their bits, as far as an analysis sees.
        Err(Error::Diagnostics(all)) if all.0.iter().all(|d| d.code == "AD0120") && text.contains("r.k") => {}
        Err(e) => return Err(said(e.to_string())),
    }
    counts.gradients += 1;
    Ok(())
}

#[test]
fn random_programs_are_undone_and_differentiated() {
    let mut counts = Counts::default();
    let programs = budget::budget(60, 20);
    for seed in 0..programs {
        if let Err(wrong) = one(seed * 7919 + 1, &mut counts) {
            panic!("{wrong}");
        }
    }
    assert!(counts.undone >= 400, "{} states", counts.undone);
    assert!(counts.gradients >= 10, "{} gradients", counts.gradients);
}
