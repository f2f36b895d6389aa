//! Sketch of a random program: what functions it has and how it is called, before any of them has a
//! body.
//!
//! **Question.** A random program is to end, and its calls are to have matching signatures. What
//! has to be decided before the first body is built?
//!
//! **Answer.** A [`Sketch`] has an [`Outline`] of each function: its role, parameters, results,
//! calling convention and number of statements. It also has the data objects ([`Sketch::globals`]),
//! and writes the line that calls the program, with activities, seeds and initial shadows
//! ([`Sketch::call_line`]).
//!
//! **Termination.** Functions stand in a list: the one that is differentiated, plain ones, the
//! recursive ones, leaves. A function calls only functions behind it. The recursive ones also call
//! each other, but each takes a depth as its first parameter, returns at once where that is not
//! positive, and passes on one less. Pointers to functions are to leaves only, which call nothing,
//! so they may be passed anywhere.
//!
//! **Cost.** A few draws for each function.

use cranelift_codegen::ir::{AbiParam, Signature};
use cranelift_codegen::isa::CallConv;

use super::feature::{Feature, Size};
use super::kind::{Bits, FloatElem, Kind};
use super::source::Source;

/// Which part of the list a function belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// The one that is differentiated.
    Root,
    /// Calls what is after it.
    Plain,
    /// Takes a depth; calls others like it.
    Recursive,
    /// Calls nothing that is generated.
    Leaf {
        /// Leaves of one group have one signature.
        group: usize,
    },
}

/// A function without its body.
#[derive(Clone, Debug)]
pub(super) struct Outline {
    /// Symbol.
    pub name: String,
    /// Where it stands.
    pub role: Role,
    /// What it takes.
    pub params: Vec<Kind>,
    /// What it returns.
    pub returns: Vec<Kind>,
    /// How it is called.
    pub conv: CallConv,
    /// Statements in its body.
    pub statements: usize,
}

impl Outline {
    /// The signature.
    pub(super) fn signature(&self) -> Signature {
        let mut signature = Signature::new(self.conv);
        signature.params.extend(self.params.iter().map(|k| AbiParam::new(k.ty())));
        signature.returns.extend(self.returns.iter().map(|k| AbiParam::new(k.ty())));
        signature
    }
}

/// A program without bodies.
#[derive(Clone, Debug)]
pub(super) struct Sketch {
    /// What may occur.
    pub features: Vec<Feature>,
    /// In the order of the header.
    pub functions: Vec<Outline>,
    /// For each parameter of the first function: the earlier parameter with the same buffer.
    aliases: Vec<Option<usize>>,
}

impl Sketch {
    /// A random sketch.
    pub(super) fn new(source: &mut Source, features: &[Feature], size: Size) -> Self {
        let mut sketch = Sketch { features: features.to_vec(), functions: Vec::new(), aliases: Vec::new() };
        let helpers = if sketch.has(Feature::Calls) { source.between(1, size.helpers) } else { 0 };
        let recursive = if sketch.has(Feature::Recursion) { source.between(1, 2) } else { 0 };
        let groups = if sketch.has(Feature::Indirect) { source.between(1, 2) } else { 0 };

        let root = sketch.root(source, size);
        sketch.functions.push(root);
        let mut n = 0;
        let mut name = || {
            n += 1;
            format!("g{n}")
        };
        for _ in 0..helpers {
            let outline = sketch.helper(source, name(), Role::Plain, groups, size);
            sketch.functions.push(outline);
        }
        for _ in 0..recursive {
            let mut outline = sketch.helper(source, name(), Role::Recursive, groups, size);
            outline.params.insert(0, Kind::I32);
            sketch.functions.push(outline);
        }
        for group in 0..groups {
            let first = sketch.helper(source, name(), Role::Leaf { group }, 0, size);
            for i in 0..source.between(1, 3) {
                let name = if i == 0 { first.name.clone() } else { name() };
                sketch.functions.push(Outline { name, ..first.clone() });
            }
        }
        sketch
    }

    /// Whether the program may use `feature`.
    pub(super) fn has(&self, feature: Feature) -> bool {
        self.features.contains(&feature)
    }

    /// Lines that define the data objects, see [`Sketch::globals`].
    pub(super) fn data_lines(&self, source: &mut Source) -> Vec<String> {
        let lines = self.globals().into_iter().map(|(name, elem, writable)| {
            let numbers: Vec<_> = (0..BUFFER).map(|_| source.number().to_string()).collect();
            let ty = if elem == FloatElem::F32 { "f32" } else { "f64" };
            let tail = if writable { "" } else { " readonly" };
            format!("; data: %{name} = {ty}[{}]{tail}", numbers.join(", "))
        });
        lines.collect()
    }

    /// Data objects by name, contents, and whether they can be written.
    pub(super) fn globals(&self) -> Vec<(String, FloatElem, bool)> {
        if !self.has(Feature::Globals) || !self.has(Feature::Memory) {
            return vec![];
        }
        let name = |e: FloatElem, w: bool| format!("{}{}", if w { "w" } else { "r" }, e.bytes());
        // Objects that change need a fresh copy of everything for every run.
        let writable: &[bool] = if self.functions.len().is_multiple_of(3) { &[false, true] } else { &[false] };
        self.elems().into_iter().flat_map(|e| writable.iter().map(move |&w| (name(e, w), e, w))).collect()
    }

    /// The leaves of a group.
    pub(super) fn leaves(&self, group: usize) -> Vec<usize> {
        (0..self.functions.len()).filter(|&i| self.functions[i].role == Role::Leaf { group }).collect()
    }

    /// The kinds of floats that occur.
    pub(super) fn floats(&self) -> Vec<Kind> {
        let wanted = |k: &Kind| {
            (self.has(Feature::Single) || k.elem() != Some(FloatElem::F32))
                && (self.has(Feature::Vectors) || !k.is_vector())
        };
        Kind::FLOATS.into_iter().filter(wanted).collect()
    }

    /// The elements that memory holds.
    pub(super) fn elems(&self) -> Vec<FloatElem> {
        FloatElem::ALL.into_iter().filter(|e| self.has(Feature::Single) || *e == FloatElem::F64).collect()
    }

    /// A random kind of number, scalars and doubles more often.
    pub(super) fn float(&self, source: &mut Source) -> Kind {
        if source.chance(50) { Kind::F64 } else { source.choose(&self.floats()) }
    }

    /// A random kind for a parameter, an argument of a block or a result. `groups` is how many
    /// groups of leaves a function may know.
    pub(super) fn kind(&self, source: &mut Source, groups: usize) -> Kind {
        let memory = if self.has(Feature::Memory) { 3 } else { 0 };
        let bits = if self.has(Feature::Bits) { 2 } else { 0 };
        let code = if groups > 0 { 1 } else { 0 };
        let table = if self.has(Feature::Pointers) { memory / 3 } else { 0 };
        match source.weighted(&[(8, 0), (1, 1), (1, 2), (memory, 3), (bits, 4), (code, 5), (memory / 3, 6), (table, 7)])
        {
            0 => self.float(source),
            1 => Kind::I32,
            2 => Kind::I64,
            3 => Kind::Ptr(source.choose(&self.elems())),
            4 => Kind::Bits(self.bits(source)),
            5 => Kind::Code(source.below(groups)),
            6 => Kind::ReadPtr(source.choose(&self.elems())),
            _ => Kind::Table(source.choose(&self.elems())),
        }
    }

    /// A random kind for a parameter or a result. An `i128` cannot be either without an extension
    /// of the ABI.
    fn param_kind(&self, source: &mut Source, groups: usize, bits: bool) -> Kind {
        match self.kind(source, groups) {
            Kind::Bits(_) if !bits => self.float(source),
            Kind::Bits(Bits::F64Pair) => Kind::Bits(Bits::F64),
            kind => kind,
        }
    }

    /// A random form of float bits.
    pub(super) fn bits(&self, source: &mut Source) -> Bits {
        let elems = self.elems();
        let forms: Vec<Bits> = Bits::ALL.into_iter().filter(|b| elems.contains(&b.elem())).collect();
        source.choose(&forms)
    }

    fn root(&mut self, source: &mut Source, size: Size) -> Outline {
        let mut params = vec![];
        for _ in 0..source.between(1, 5) {
            // What arrives from outside is a number or a buffer.
            let kind = self.kind(source, 0);
            params.push(if matches!(kind, Kind::Bits(_) | Kind::Table(_)) { self.float(source) } else { kind });
        }
        while params.iter().filter(|k| k.is_float() || matches!(k, Kind::Ptr(_))).count() < 2 {
            params.push(Kind::F64);
        }
        let conv = source.weighted(&[(8, CallConv::SystemV), (1, CallConv::Fast), (1, CallConv::Tail)]);
        let mut returns: Vec<Kind> = (0..source.between(0, 2)).map(|_| self.float(source)).collect();
        if returns.is_empty() && !params.iter().any(|k| matches!(k, Kind::Ptr(_))) {
            returns.push(self.float(source));
        }
        if source.chance(15) {
            returns.push(Kind::I32);
        }
        for i in 0..params.len() {
            let same = (0..i).find(|&j| params[j] == params[i] && self.aliases[j].is_none());
            let alias = same.filter(|_| matches!(params[i], Kind::Ptr(_)) && source.chance(25));
            self.aliases.push(alias);
        }
        Outline { name: "f".to_owned(), role: Role::Root, params, returns, conv, statements: size.statements }
    }

    fn helper(&self, source: &mut Source, name: String, role: Role, groups: usize, size: Size) -> Outline {
        // Bits may only be passed to callees that are known, except that this is refused as it
        // should.
        let bits = !matches!(role, Role::Leaf { .. }) || source.chance(5);
        let params = (0..source.between(1, 5)).map(|_| self.param_kind(source, groups, bits)).collect();
        let conv = source.weighted(&[(4, CallConv::SystemV), (1, CallConv::Fast), (2, CallConv::Tail)]);
        let mut returns: Vec<Kind> = vec![];
        for _ in 0..source.between(0, 3) {
            let kind = self.param_kind(source, groups, bits);
            // Results are in registers, of which there are two for each class. Pointers may be to
            // what dies with the callee.
            let in_register = |k: &Kind| match k {
                Kind::Bits(Bits::F64Bytes | Bits::F32Bytes) => (0, 1),
                k if k.is_float() => (0, 1),
                _ => (1, 0),
            };
            let used = returns.iter().chain([&kind]).map(in_register).fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
            if used.0 <= 2 && used.1 <= 2 && !kind.is_address() {
                returns.push(kind);
            }
        }
        let statements = source.between(1, size.helper_statements);
        Outline { name, role, params, returns, conv, statements }
    }

    /// The text of a call of the first function, with activities, seeds and initial shadows.
    pub(super) fn call_line(&self, source: &mut Source) -> String {
        let root = &self.functions[0];
        let numbers = |source: &mut Source, n: usize| (0..n).map(|_| source.number().to_string()).collect::<Vec<_>>();
        let mut args = Vec::new();
        let mut activity = Vec::new();
        let mut shadows = String::new();
        for (i, kind) in root.params.iter().enumerate() {
            let constant = source.chance(12);
            let (arg, active) = match kind {
                Kind::F64 | Kind::F32 => (source.number().to_string(), "active"),
                k if k.is_vector() => {
                    let lanes = k.ty().lane_count() as usize;
                    (format!("[{}]", numbers(source, lanes).join(" ")), "active")
                }
                Kind::Ptr(elem) | Kind::ReadPtr(elem) => {
                    let prefix = if *elem == FloatElem::F32 { "f32" } else { "" };
                    let contents = format!("{prefix}[{}]", numbers(source, BUFFER as usize).join(", "));
                    // Storing to a constant buffer is an error that we are not after.
                    let constant = constant && matches!(kind, Kind::ReadPtr(_));
                    if !constant && self.aliases[i].is_none() {
                        shadows += &format!(" shadow {i}={prefix}[{}]", numbers(source, BUFFER as usize).join(", "));
                    }
                    let arg = self.aliases[i].map_or(contents, |j| format!("@{j}"));
                    (arg, if constant { "const" } else { "duplicated" })
                }
                _ => (source.below(5).to_string(), "const"),
            };
            args.push(arg);
            activity.push(if constant && kind.is_float() { "const" } else { active });
        }
        let seeds: Vec<String> = root
            .returns
            .iter()
            .map(|k| match k {
                k if k.is_vector() => format!("[{}]", numbers(source, k.ty().lane_count() as usize).join(" ")),
                k if k.is_float() => source.number().to_string(),
                _ => "0".to_owned(),
            })
            .collect();
        let seeds = if seeds.is_empty() { String::new() } else { format!(" seed {}", seeds.join(", ")) };
        let open = vec!["_"; root.params.len()].join(", ");
        format!("%f({}) activity {}{seeds}{shadows} nofd == [{open}]", args.join(", "), activity.join(","))
    }
}

/// Elements of every buffer and stack slot.
pub(super) const BUFFER: i64 = 8;
