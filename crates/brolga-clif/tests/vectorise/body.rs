//! Bodies of random loops: accesses, arithmetic, guarded products, sums.

use std::fmt::Write;

use brolga_testing::noise::Noise;

/// Types of a loop's floats, and their size.
#[derive(Clone, Copy)]
pub(super) struct FloatType {
    pub scalar: &'static str,
    pub vector: &'static str,
    pub width: i64,
}

/// The body of a loop, as it grows.
pub(super) struct LoopBody {
    of: FloatType,
    /// Some accesses go the other way.
    against: bool,
    pub text: String,
    /// Floats that can be read, and those of the size of what is in memory.
    pub floats: Vec<String>,
    leaves: Vec<String>,
    /// What the loop carries.
    pub next: String,
    fresh: u32,
    pub stores: usize,
    /// How often it adds to one place in all iterations.
    pub cells: usize,
}

impl LoopBody {
    pub(super) fn new(of: FloatType, against: bool) -> Self {
        let floats = vec!["v5".to_owned(), "v44".to_owned()];
        let leaves = floats.clone();
        let mut text = "v20 = ishl v50, v43\nv24 = isub v2, v20\n".to_owned();
        for p in 0..3 {
            writeln!(text, "v2{} = iadd v{p}, v20", p + 1).unwrap();
        }
        Self { of, against, text, floats, leaves, next: "v11".to_owned(), fresh: 100, stores: 0, cells: 0 }
    }

    fn any(noise: &mut Noise, floats: &[String]) -> String {
        floats[noise.below(floats.len() as u64) as usize].clone()
    }

    fn float(&self, noise: &mut Noise) -> String {
        Self::any(noise, &self.floats)
    }

    fn place(&self, noise: &mut Noise) -> String {
        let off = (noise.below(5) as i64 - 2) * if noise.below(2) == 0 { 0 } else { self.of.width };
        format!("v2{}{off:+}", if self.against && noise.below(3) == 0 { 4 } else { 1 + noise.below(3) })
    }

    /// One more statement.
    pub(super) fn grow(&mut self, noise: &mut Noise) {
        self.fresh += 10;
        let fresh = self.fresh;
        let v = format!("v{fresh}");
        let FloatType { scalar: ty, vector, width } = self.of;
        let text = match noise.below(13) {
            12 => {
                // Adds to one place in all iterations.
                let off = width * (noise.below(7) as i64 - 3);
                let at = format!("v{}{off:+}", noise.one_of(&["0", "1", "2", "2"]));
                let x = Self::any(noise, &self.leaves);
                let by = noise.one_of(&["fadd", "fsub"]);
                writeln!(self.text, "{v} = load.{ty} {at}\nv{0} = {by} {v}, {x}\nstore v{0}, {at}", fresh + 1).unwrap();
                self.cells += 1;
                return;
            }
            0..=2 => {
                self.leaves.push(v.clone());
                format!("{v} = load.{ty} {}", self.place(noise))
            }
            3..=5 => {
                let (x, y) = (self.float(noise), self.float(noise));
                format!("{v} = {} {x}, {y}", noise.one_of(&["fadd", "fmul", "fsub", "fdiv"]))
            }
            6 => {
                let (x, y, z) = (self.float(noise), self.float(noise), self.float(noise));
                let cc = noise.one_of(&["lt", "ge", "ne", "uno", "one", "ueq"]);
                format!("v{0} = fcmp {cc} {x}, {y}\n{v} = select v{0}, {z}, {x}", fresh + 1)
            }
            7 => {
                // A product with a guard.
                let (x, y) = (self.float(noise), self.float(noise));
                let cc = noise.one_of(&["ne", "ne", "lt", "ge"]);
                let lane = noise
                    .one_of(&[&format!("scalar_to_vector.{vector} {x}"), &format!("insertlane v45, {x}, 0")])
                    .clone();
                let [a, b, c, d, e] = [1, 2, 3, 4, 5].map(|n| fresh + n);
                format!(
                    "v{a} = {lane}\nv{b} = fcmp {cc} v{a}, v45\nv{c} = bitcast.{vector} little v{b}\n\
                     v{d} = extractlane v{c}, 0\nv{e} = fmul {x}, {y}\n{v} = band v{e}, v{d}"
                )
            }
            8 => {
                let base = noise.one_of(&["0", "1", "2", "2"]);
                format!("{v} = load.{ty} v{base}{:+}", width * (noise.below(7) as i64 - 3))
            }
            9 if self.next == "v11" || noise.below(2) == 0 => {
                // Of the size of what is in memory, so that it can be said what a rounding is.
                let x = Self::any(noise, &self.leaves);
                writeln!(self.text, "{v} = {} {}, {x}", noise.one_of(&["fadd", "fsub"]), self.next).unwrap();
                if noise.below(4) == 0 {
                    self.floats.push(v.clone());
                }
                self.next = v;
                return;
            }
            _ => {
                let x = self.float(noise);
                let place = self.place(noise);
                writeln!(self.text, "store {x}, {place}").unwrap();
                self.stores += 1;
                return;
            }
        };
        writeln!(self.text, "{text}").unwrap();
        self.floats.push(v);
    }
}
