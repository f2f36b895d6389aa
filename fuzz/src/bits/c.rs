//! Programs as C.
//!
//! **Question.** A program is statements on places. Which C does what they say, in the way of an
//! access that they name?
//!
//! **Answer.** A text for each statement: bits are had by `memcpy`, a union, words or bytes, and
//! changed by integer operators. All programs of a module share types and helpers.
//!
//! **Cost.** One walk over the statements.

use std::fmt::Write;

use super::program::{
    ARRAYS, Access, Arith, BitOp, Choice, Cond, CopyUnit, Float, Index, LENGTH, Lvalue, NUMBERS, PartOp, Program,
    Shape, Stmt, Storage, WrittenPart,
};

/// What all programs of a module share.
const PRELUDE: &str = "\
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned u32;
typedef unsigned long long u64;
typedef int i32;
typedef long long i64;
typedef u32 lanes __attribute__((vector_size(16), aligned(1)));
typedef u8 bytes __attribute__((vector_size(16), aligned(1)));
#define NOINLINE __attribute__((noinline))
#define EXPORT(name) __attribute__((export_name(#name)))
static union { u8 c[8]; u16 q[4]; u32 h[2]; u64 wide; u32 narrow; double d; float s; } scratch;
static u8 blocks[4096] __attribute__((aligned(16)));
static u32 top;
static NOINLINE void put8(void *p, u32 k, u64 v) { ((u8 *)p)[k] = (u8)v; }
static NOINLINE void put16(void *p, u32 k, u64 v) { ((u16 *)p)[k] = (u16)v; }
static NOINLINE void put32(void *p, u32 k, u64 v) { ((u32 *)p)[k] = (u32)v; }
static NOINLINE void *block(u32 bytes) { void *p = blocks + top; top += bytes + 15 & ~15u; return p; }
";

/// A module with the programs of these numbers, each exported as `f` and its number.
pub fn module<'a>(programs: impl IntoIterator<Item = (u64, &'a Program)>) -> String {
    let mut out = PRELUDE.to_owned();
    for (number, program) in programs {
        out.push_str(&function(program, number));
    }
    out
}

/// A program as a function, with the functions that it calls.
fn function(program: &Program, number: u64) -> String {
    let mut writer = Writer { program, name: format!("f{number}"), helpers: String::new(), out: String::new(), n: 0 };
    writer.begin();
    writer.block(&program.body);
    writer.end();
    format!("\n{}{}", writer.helpers, writer.out)
}

fn name(float: Float) -> &'static str {
    if float == Float::Double { "double" } else { "float" }
}

fn word(float: Float) -> &'static str {
    if float == Float::Double { "u64" } else { "u32" }
}

fn half(float: Float) -> &'static str {
    if float == Float::Double { "u32" } else { "u16" }
}

fn constant(float: Float, bits: u64) -> String {
    if float == Float::Double { format!("{bits:#x}ull") } else { format!("{bits:#x}u") }
}

fn index(index: Index) -> String {
    match index {
        Index::Fixed(k) => k.to_string(),
        Index::Iteration(0) => "i & 3".to_owned(),
        Index::Iteration(k) => format!("(i + {k}) & 3"),
    }
}

/// Statements that declare `b` as the bits of the float `x`.
fn get(float: Float, access: Access, x: &str) -> String {
    let (t, u, h, bytes, bits) = (name(float), word(float), half(float), float.bits() / 8, float.bits());
    let (shift, member) = (bits / 2, if float == Float::Double { "d" } else { "s" });
    match access {
        Access::Copy => format!("{u} b; __builtin_memcpy(&b, &{x}, {bytes});"),
        Access::Union => format!("union {{ {t} f; {u} u; }} g; g.f = {x}; {u} b = g.u;"),
        Access::Cast => format!("{u} b = *({u} *)&{x};"),
        Access::Halves => format!("{h} *g = ({h} *)&{x}; {u} b = ({u})g[1] << {shift} | g[0];"),
        Access::HalfUnion => {
            format!("union {{ {t} f; {h} h[2]; }} g; g.f = {x}; {u} b = g.h[0] + (({u})g.h[1] << {shift});")
        }
        Access::Bytes => {
            format!("{u} b = 0; for (int k = 0; k < {bytes}; k++) b |= ({u})((u8 *)&{x})[k] << 8 * k;")
        }
        Access::BytesDown => format!("{u} b = 0; for (int k = {bytes}; k-- > 0;) b = b << 8 | ((u8 *)&{x})[k];"),
        Access::ByteUnion => {
            let parts: Vec<_> = (0..bytes).map(|k| format!("({u})g.c[{k}] << {}", 8 * k)).collect();
            format!("union {{ {t} f; u8 c[{bytes}]; }} g; g.f = {x}; {u} b = {};", parts.join(" | "))
        }
        Access::Global => {
            let whole = if float == Float::Double { "wide" } else { "narrow" };
            format!("scratch.{member} = {x}; {u} b = scratch.{whole};")
        }
        Access::Volatile => format!("volatile {t} g = {x}; {u} b = *(volatile {u} *)&g;"),
        Access::Frame => format!(
            "u8 g[{bytes}]; for (int k = 0; k < {bytes}; k++) g[k] = ((u8 *)&{x})[k]; {u} b; __builtin_memcpy(&b, g, {bytes});"
        ),
        Access::Quarters => {
            let parts: Vec<_> = (0..bytes / 2).map(|k| format!("({u})((u16 *)&{x})[{k}] << {}", 16 * k)).collect();
            format!("{u} b = {};", parts.join(" | "))
        }
    }
}

/// Statements that make `b` the bits of the float `x`.
fn put(float: Float, access: Access, x: &str) -> String {
    let (t, u, h, bytes, bits) = (name(float), word(float), half(float), float.bits() / 8, float.bits());
    let (shift, member) = (bits / 2, if float == Float::Double { "d" } else { "s" });
    match access {
        Access::Copy => format!("__builtin_memcpy(&{x}, &b, {bytes});"),
        Access::Union => format!("union {{ {t} f; {u} u; }} p; p.u = b; {x} = p.f;"),
        Access::Cast => format!("*({u} *)&{x} = b;"),
        Access::Halves => format!("{h} *p = ({h} *)&{x}; p[0] = ({h})b; p[1] = ({h})(b >> {shift});"),
        Access::HalfUnion => {
            format!("union {{ {t} f; {h} h[2]; }} p; p.h[1] = ({h})(b >> {shift}); p.h[0] = ({h})b; {x} = p.f;")
        }
        Access::Bytes => format!("for (int k = 0; k < {bytes}; k++) ((u8 *)&{x})[k] = (u8)(b >> 8 * k);"),
        Access::BytesDown => {
            format!("for (int k = {bytes}; k-- > 0;) {{ ((u8 *)&{x})[k] = (u8)(b >> {}); b <<= 8; }}", bits - 8)
        }
        Access::ByteUnion => {
            let parts: Vec<_> = (0..bytes).map(|k| format!("p.c[{k}] = (u8)(b >> {});", 8 * k)).collect();
            format!("union {{ {t} f; u8 c[{bytes}]; }} p; {} {x} = p.f;", parts.join(" "))
        }
        Access::Global => {
            let whole = if float == Float::Double { "wide" } else { "narrow" };
            format!("scratch.{whole} = b; {x} = scratch.{member};")
        }
        Access::Volatile => format!("volatile {u} p = b; {x} = *(volatile {t} *)&p;"),
        Access::Frame => format!(
            "u8 p[{bytes}]; __builtin_memcpy(p, &b, {bytes}); for (int k = 0; k < {bytes}; k++) ((u8 *)&{x})[k] = p[k];"
        ),
        Access::Quarters => {
            let parts: Vec<_> =
                (0..bytes / 2).map(|k| format!("((u16 *)&{x})[{k}] = (u16)(b >> {});", 16 * k)).collect();
            parts.join(" ")
        }
    }
}

/// Statements that do something to the bits `b`.
fn op(float: Float, op: BitOp) -> String {
    let (u, bits) = (word(float), float.bits());
    let sign = constant(float, float.sign());
    let below = |m: u32| constant(float, (1 << m) - 1);
    let i = if float == Float::Double { "i64" } else { "i32" };
    match op {
        BitOp::Negate => format!("b ^= {sign};"),
        BitOp::Abs => format!("b &= ~{sign};"),
        BitOp::Below => format!("b |= {sign};"),
        BitOp::NegateIf(k) => format!("b ^= ({u})(h >> {k} & 1) << {};", bits - 1),
        BitOp::Scale(k) => {
            let by = constant(float, u64::from(k.unsigned_abs()) << float.mantissa());
            format!("b {} {by};", if k < 0 { "-=" } else { "+=" })
        }
        BitOp::Cut(m) => format!("b &= ~{};", below(m)),
        BitOp::ShiftOut(m, signed) => {
            format!("b = ({u})(({})b >> {m}) << {m};", if signed { i } else { u })
        }
        BitOp::RoundUp(m) => format!("b = (b + {}) & ~{};", constant(float, 1 << (m - 1)), below(m)),
        BitOp::RoundEven(m) => {
            format!("b += {} + (b >> {m} & 1); b &= ~{};", constant(float, (1 << (m - 1)) - 1), below(m))
        }
        BitOp::RoundRandom(m) => format!("b += h & {}; b &= ~{};", below(m), below(m)),
        BitOp::Step(up) => (if up { "b += 1;" } else { "b -= 1;" }).to_owned(),
        BitOp::OwnBit(m) => format!("b += b >> {m} & 1;"),
        BitOp::OwnDigits(m) => format!("b -= b & {};", below(m)),
        BitOp::Add(n) => format!("b += {n};"),
        BitOp::Mantissa(signed) => {
            let keep = constant(float, float.fraction() | if signed { float.sign() } else { 0 });
            format!("b = (b & {keep}) | {};", constant(float, float.bias() << float.mantissa()))
        }
        BitOp::Root(signed) => {
            let c = constant(float, root_constant(float));
            format!("b &= ~{sign}; b = ({u})(({})b >> 1) + {c};", if signed { i } else { u })
        }
        BitOp::InverseRoot => {
            format!("b &= ~{sign}; b = {} - (b >> 1);", constant(float, inverse_constant(float)))
        }
        BitOp::Key(memory) => {
            let key = constant(float, 0x9e37_79b9_7f4a_7c15 & float.all());
            let member = if float == Float::Double { "wide" } else { "narrow" };
            let through = if memory { format!("scratch.{member} = b; b = scratch.{member}; ") } else { String::new() };
            format!("{{ {u} key = {key} * (h | 1); b ^= key; {through}b ^= key; }}")
        }
        BitOp::Rotate(k) => {
            let back = bits - k;
            format!("b = b << {k} | b >> {back}; scratch.h[0] = 0; b = b >> {k} | b << {back};")
        }
        BitOp::Sent => {
            let member = if float == Float::Double { "wide" } else { "narrow" };
            let swap = format!("__builtin_bswap{bits}");
            format!("{{ volatile {u} *sent = &scratch.{member}; *sent = {swap}(b); b = {swap}(*sent); }}")
        }
        BitOp::Short(even) => {
            let (half, h, member) = (bits / 2, half(float), if float == Float::Double { "h" } else { "q" });
            let below = constant(float, (1 << (half - 1)) - 1);
            let first = if even { format!("b += {below} + (b >> {half} & 1); ") } else { String::new() };
            format!(
                "{{ {first}volatile {h} *kept = scratch.{member}; *kept = b >> {half}; b = ({u})*kept << {half}; }}"
            )
        }
        BitOp::Swap => {
            let swap = format!("__builtin_bswap{bits}(b)");
            format!("b = {swap}; b = {swap};")
        }
    }
}

/// What is added to half the bits of a number to get near its root.
pub(super) fn root_constant(float: Float) -> u64 {
    if float == Float::Double { 0x1ff7_a3be_a91d_9b1b } else { 0x1fbd_1df5 }
}

/// What half the bits of a number are taken from to get near the inverse of its root.
pub(super) fn inverse_constant(float: Float) -> u64 {
    if float == Float::Double { 0x5fe6_eb50_c7b5_37a9 } else { 0x5f37_59df }
}

struct Writer<'a> {
    program: &'a Program,
    name: String,
    helpers: String,
    out: String,
    n: usize,
}

impl Writer<'_> {
    fn line(&mut self, text: &str) {
        writeln!(self.out, "    {text}").expect("writing to a string");
    }

    fn begin(&mut self) {
        let p = self.program;
        let (t, r) = (name(p.kind.float(true)), name(p.kind.float(false)));
        let shared = p.shared;
        let used = self.arrays();
        if shared && (used[2] || used[3]) {
            let (a, b) = (name(p.array(2)), name(p.array(3)));
            let rec = format!("struct {{ {a} a; int tag; {b} b; }} rec_{}[{LENGTH}];", self.name);
            let global = p.local_arrays[0].storage != Storage::Frame;
            if global {
                writeln!(self.helpers, "static {rec}").expect("writing to a string");
            }
            let head = self.head(t, r);
            self.out.push_str(&head);
            if !global {
                self.line(&rec);
            }
        } else {
            let local_arrays: Vec<_> = (2..ARRAYS).filter(|a| used[*a]).collect();
            for a in &local_arrays {
                if let Some(text) = self.global(*a) {
                    writeln!(self.helpers, "{text}").expect("writing to a string");
                }
            }
            let head = self.head(t, r);
            self.out.push_str(&head);
            self.line("top = 0;");
            for a in local_arrays {
                if let Some(text) = self.local(a) {
                    self.line(&text);
                }
            }
        }
        self.line(&format!("{t} v0 = x, v1 = y, v2 = in0[0];"));
        self.line(&format!("{r} v3 = w, v4 = in1[1];"));
        for (a, &is_used) in used.iter().enumerate().skip(2) {
            if is_used {
                let at = self.lvalue(Lvalue::Cell(a, Index::Iteration(0)));
                let tag =
                    if p.tagged(a) { format!(" {} = 1;", self.tag(a, Index::Iteration(0))) } else { String::new() };
                self.line(&format!("for (int i = 0; i < {LENGTH}; i++) {{ {at} = 0.375 * (i + 1);{tag} }}"));
            }
        }
        self.line("int i = 0;");
    }

    fn head(&self, t: &str, r: &str) -> String {
        let name = &self.name;
        format!("EXPORT({name}) {t} {name}({t} x, {t} y, {r} w, u32 h, int n, {t} *in0, {r} *in1) {{\n")
    }

    /// Which arrays occur.
    fn arrays(&self) -> [bool; ARRAYS] {
        let text = format!("{:?}", self.program.body);
        let mut used = [true; ARRAYS];
        for (a, is_used) in used.iter_mut().enumerate().skip(2) {
            let said = ["Cell", "Tag", "CopyCell", "Lanes"].iter().any(|w| text.contains(&format!("{w}({a},")));
            let copied = (0..ARRAYS).any(|o| {
                text.contains(&format!("CopyArray({a}, {o},")) || text.contains(&format!("CopyArray({o}, {a},"))
            });
            *is_used = said || copied || self.program.out[NUMBERS + a - 2];
        }
        if self.program.shared && (used[2] || used[3]) {
            (used[2], used[3]) = (true, true);
        }
        used
    }

    fn global(&self, a: usize) -> Option<String> {
        let (t, n) = (name(self.program.array(a)), &self.name);
        match self.program.local_arrays[a - 2].storage {
            Storage::Global => Some(format!("static {t} a{a}_{n}[{LENGTH}];")),
            Storage::Beside => Some(format!("static struct {{ int tag; {t} f; int tail; }} a{a}_{n}[{LENGTH}];")),
            _ => None,
        }
    }

    fn local(&self, a: usize) -> Option<String> {
        let f = self.program.array(a);
        let (t, u, n, bytes) = (name(f), word(f), &self.name, f.bits() / 8);
        match self.program.local_arrays[a - 2].storage {
            Storage::Frame => Some(format!("{t} a{a}_{n}[{LENGTH}];")),
            Storage::Packed => {
                Some(format!("struct __attribute__((packed)) {{ int tag; {t} f; }} a{a}_{n}[{LENGTH}];"))
            }
            Storage::Union => Some(format!("union {{ {t} f; {u} u; u8 c[{bytes}]; }} a{a}_{n}[{LENGTH}];")),
            Storage::Odd => Some(format!(
                "u8 raw{a}[{}] __attribute__((aligned(16))); {t} *a{a}_{n} = ({t} *)(raw{a} + 4);",
                4 + bytes * LENGTH as u32
            )),
            Storage::Block => Some(format!("{t} *a{a}_{n} = block({});", bytes * LENGTH as u32)),
            Storage::Global | Storage::Beside => None,
        }
    }

    fn element(&self, a: usize, at: Index) -> String {
        let at = index(at);
        match a {
            0 => format!("in0[{at}]"),
            1 => format!("in1[{at}]"),
            _ if self.program.shared => format!("rec_{}[{at}]", self.name),
            _ => format!("a{a}_{}[{at}]", self.name),
        }
    }

    fn lvalue(&self, place: Lvalue) -> String {
        match place {
            Lvalue::Number(n) => format!("v{n}"),
            Lvalue::Cell(a, at) => {
                let element = self.element(a, at);
                let field = match a {
                    0 | 1 => "",
                    _ if self.program.shared => [".a", ".b"][a - 2],
                    _ => match self.program.local_arrays[a - 2].storage {
                        Storage::Packed | Storage::Beside | Storage::Union => ".f",
                        _ => "",
                    },
                };
                format!("{element}{field}")
            }
        }
    }

    fn tag(&self, a: usize, at: Index) -> String {
        format!("{}.tag", self.element(a, at))
    }

    fn end(&mut self) {
        let p = self.program;
        let t = name(p.kind.float(true));
        self.line(&format!("{t} r = 0;"));
        for n in 0..NUMBERS {
            if p.out[n] {
                self.line(&format!("r += ({t}){} * v{n};", Program::weight(n)));
            }
        }
        for a in 2..ARRAYS {
            let which = NUMBERS + a - 2;
            if p.out[which] {
                let at = self.lvalue(Lvalue::Cell(a, Index::Iteration(0)));
                let term = format!("r += ({t}){} * (i + 1) * {at};", Program::weight(which));
                self.line(&format!("for (i = 0; i < {LENGTH}; i++) {term}"));
            }
        }
        self.line("return r;");
        self.out.push_str("}\n");
    }

    fn block(&mut self, body: &[Stmt]) {
        for stmt in body {
            self.statement(stmt);
        }
    }

    fn statement(&mut self, stmt: &Stmt) {
        match stmt {
            Stmt::Move { dst, src, ops, get, put, shape } => self.bits(*dst, *src, ops, (*get, *put), *shape),
            Stmt::Part(at, width, op, access) => self.part(*at, *width, *op, *access),
            Stmt::Arith(dst, a, b, arith) => self.arith(*dst, *a, *b, *arith),
            Stmt::Choose(dst, a, b, choice, access) => self.choose(*dst, *a, *b, *choice, *access),
            Stmt::Handed(dst, a, b, how, apart) => self.handed(*dst, (*a, *b), *how, *apart),
            Stmt::Exchange(a, b) => self.exchange(*a, *b),
            Stmt::Pack(a, b, memory) => self.pack(*a, *b, *memory),
            Stmt::PackState(at, memory) => self.pack_state(*at, *memory),
            Stmt::Next => self.line("h = h * 1664525u + 1013904223u;"),
            Stmt::Hash(at) => {
                let f = self.program.float(*at);
                let x = self.lvalue(*at);
                let g = get(f, Access::Copy, &x);
                self.line(&format!("{{ {g} h ^= (u32)(b >> {}) * 2654435761u; }}", f.bits() - 32));
            }
            Stmt::Uniform(at, wide) => self.uniform(*at, *wide),
            Stmt::Exponent(dst, src) => {
                let (f, x, y) = (self.program.float(*src), self.lvalue(*src), self.lvalue(*dst));
                let g = get(f, Access::Copy, &x);
                let (m, u) = (f.mantissa(), word(f));
                let (mask, bias) = ((1_u64 << (f.bits() - 1 - m)) - 1, f.bias());
                let t = name(f);
                self.line(&format!(
                    "{{ {g} {u} e = b >> {m} & {mask}; e = {bias} + (e & 1); b = e << {m}; {t} k; __builtin_memcpy(&k, &b, sizeof k); {y} *= k; }}"
                ));
            }
            Stmt::Tag(a, at) => {
                if self.program.tagged(*a) {
                    let tag = self.tag(*a, *at);
                    self.line(&format!("{tag} = (int)h;"));
                }
            }
            Stmt::CopyCell(a, to, from, how) => {
                let (to, from) = (self.element(*a, *to), self.element(*a, *from));
                let text = copying(&to, &from, &format!("sizeof {to}"), *how);
                self.line(&text);
            }
            Stmt::CopyArray(to, from, how) => self.copy_array(*to, *from, *how),
            Stmt::Lanes(a, o) => {
                if self.program.plain(*a) {
                    let (at, text) = (self.element(*a, Index::Fixed(0)), lanes(*o));
                    self.line(&format!("{{ lanes b = *(lanes *)&{at}; {text} *(lanes *)&{at} = b; }}"));
                }
            }
            Stmt::Loop(iterations, skip, body) => {
                let bound = if *iterations == LENGTH { "n".to_owned() } else { iterations.to_string() };
                self.line(&format!("for (int i = 0; i < {bound}; i++) {{"));
                if let Some(k) = skip {
                    self.line(&format!("if (i == {k}) continue;"));
                }
                self.block(body);
                self.line("}");
            }
            Stmt::If(cond, body) => {
                let cond = self.cond(*cond);
                self.line(&format!("if ({cond}) {{"));
                self.block(body);
                self.line("}");
            }
        }
    }

    fn bits(&mut self, dst: Lvalue, src: Lvalue, ops: &[BitOp], (g, p): (Access, Access), shape: Shape) {
        let f = self.program.float(dst);
        let (t, u, d, s) = (name(f), word(f), self.lvalue(dst), self.lvalue(src));
        let ops: Vec<_> = ops.iter().map(|o| op(f, *o)).collect();
        let ops = ops.join(" ");
        self.n += 1;
        let helper = format!("m{}_{}", self.n, self.name);
        let (function, text) = match shape {
            Shape::Inline => (None, format!("{{ {} {ops} {} }}", get(f, g, &s), put(f, p, &d))),
            Shape::Value => (
                Some(format!(
                    "{t} {helper}({t} x, u32 h) {{ {} {ops} {t} y; {} return y; }}",
                    get(f, g, "x"),
                    put(f, p, "y")
                )),
                format!("{d} = {helper}({s}, h);"),
            ),
            Shape::Pointer => (
                Some(format!(
                    "void {helper}({t} *y, {t} *x, u32 h) {{ {} {ops} {} }}",
                    get(f, g, "(*x)"),
                    put(f, p, "(*y)")
                )),
                format!("{helper}(({t} *)&{d}, ({t} *)&{s}, h);"),
            ),
            Shape::Bits => (
                Some(format!("{u} {helper}({u} b, u32 h) {{ {ops} return b; }}")),
                format!("{{ {} b = {helper}(b, h); {} }}", get(f, g, &s), put(f, p, &d)),
            ),
        };
        if let Some(function) = function {
            writeln!(self.helpers, "static NOINLINE {function}").expect("writing to a string");
        }
        self.line(&text);
    }

    fn part(&mut self, at: Lvalue, width: u32, op: PartOp, access: Access) {
        let f = self.program.float(at);
        let (x, t) = (self.lvalue(at), name(f));
        let parts = f.bits() / width;
        let (which, change) = match op {
            PartOp::Negate => (parts - 1, format!("^= {:#x}", 1_u64 << (width - 1))),
            PartOp::Abs => (parts - 1, format!("&= {:#x}", (1_u64 << (width - 1)) - 1)),
            PartOp::Scale(k) => (parts - 1, format!("+= {:#x}", u64::from(k) << (f.mantissa() + width - f.bits()))),
            PartOp::Clear => (0, "= 0".to_owned()),
            PartOp::Lowest | PartOp::Uppermost | PartOp::All => {
                let (first, end) = match op {
                    PartOp::Lowest => (0, 1),
                    PartOp::Uppermost => (parts - 1, parts),
                    _ => (0, parts),
                };
                let number = if op == PartOp::Lowest { 0 } else { f.of(1.5) };
                let text = format!(
                    "for (u32 k = {first}; k < {end}; k++) put{width}(&{x}, k, {number:#x}ull >> {width} * k);"
                );
                return self.line(&text);
            }
        };
        let u = format!("u{width}");
        let text = match access {
            Access::Copy => format!(
                "{{ {u} c; __builtin_memcpy(&c, (u8 *)&{x} + {0}, {1}); c {change}; __builtin_memcpy((u8 *)&{x} + {0}, &c, {1}); }}",
                which * width / 8,
                width / 8
            ),
            Access::Union => {
                format!("{{ union {{ {t} f; {u} c[{parts}]; }} g; g.f = {x}; g.c[{which}] {change}; {x} = g.f; }}")
            }
            _ => format!("(({u} *)&{x})[{which}] {change};"),
        };
        self.line(&text);
    }

    fn arith(&mut self, dst: Lvalue, a: Lvalue, b: Lvalue, arith: Arith) {
        let f = self.program.float(dst);
        let (t, d, a, b) = (name(f), self.lvalue(dst), self.lvalue(a), self.lvalue(b));
        let (a, b) = (format!("({t}){a}"), format!("({t}){b}"));
        let root = if f == Float::Double { "__builtin_sqrt" } else { "__builtin_sqrtf" };
        let large = if f == Float::Double { "0x1.8p52" } else { "0x1.8p23f" };
        let text = match arith {
            Arith::Product => format!("{d} = {a} * {b} * ({t})0.5;"),
            Arith::Sum => format!("{d} = {a} * ({t})0.75 + {b} * ({t})0.5;"),
            Arith::Difference => format!("{d} = {a} * ({t})0.75 - {b} * ({t})0.5;"),
            Arith::Quotient => format!("{d} = {a} / (({t})1 + {b} * {b});"),
            Arith::Root => format!("{d} = {root}({a} * {a} + ({t})0.25);"),
            Arith::Round => {
                format!("{{ {t} k = {a} * ({t})8 + {large}; k -= {large}; {d} = {b} + ({a} * ({t})8 - k); }}")
            }
        };
        self.line(&text);
    }

    fn choose(&mut self, dst: Lvalue, a: Lvalue, b: Lvalue, choice: Choice, access: Access) {
        let f = self.program.float(dst);
        let (u, d, a, b) = (word(f), self.lvalue(dst), self.lvalue(a), self.lvalue(b));
        let (ga, gb, p) = (get(f, access, &a), get(f, access, &b), put(f, access, &d));
        let i = if f == Float::Double { "i64" } else { "i32" };
        let sign = constant(f, f.sign());
        let chosen = match choice {
            Choice::CopySign => format!("(ba & ~{sign}) | (bb & {sign})"),
            Choice::Mask(k) => format!("(ba & -({u})(h >> {k} & 1)) | (bb & ~-({u})(h >> {k} & 1))"),
            Choice::Less => format!("(ba & -({u})({a} < {b})) | (bb & ~-({u})({a} < {b}))"),
            Choice::MaxBits => format!("({i})ba > ({i})bb ? ba : bb"),
        };
        self.line(&format!("{{ {u} ba, bb; {{ {ga} ba = b; }} {{ {gb} bb = b; }} {u} b = {chosen}; {p} }}"));
    }

    /// `apart` says whether the callee stays one.
    fn handed(&mut self, dst: Lvalue, (a, b): (Lvalue, Lvalue), how: WrittenPart, apart: bool) {
        let f = self.program.float(dst);
        let (t, h, d, a, b) = (name(f), half(f), self.lvalue(dst), self.lvalue(a), self.lvalue(b));
        let bits = f.bits() / 2;
        let (sign, digits) = (1_u64 << (bits - 1), f.mantissa() - bits);
        let union = format!("union {{ {t} f; {h} h[2]; }}");
        self.n += 1;
        let callee = format!("c{}_{}", self.n, self.name);
        let (function, writes) = match how {
            WrittenPart::Exponent => {
                let (mask, one) = ((1_u64 << (bits - 1 - digits)) - 1, f.bias() << digits);
                let keep = sign | ((1 << digits) - 1);
                (
                    format!(
                        "{t} {callee}({t} x, int *e) {{ {union} g; g.f = x; *e = -1; *e += g.h[1] >> {digits} & {mask}; g.h[1] = (g.h[1] & {keep:#x}) | {one:#x}; return g.f; }}"
                    ),
                    format!("int e; g.f = {callee}({a}, &e); l = 1 + (e & 1); l *= {b};"),
                )
            }
            WrittenPart::Beside => (
                format!("void {callee}({t} *p, {t} x) {{ *p = x * ({t})0.5; }}"),
                format!("g.f = {a}; {callee}(&l, {b});"),
            ),
            WrittenPart::Into => (
                format!("void {callee}({t} *p, {t} x) {{ *p = x * ({t})0.5; }}"),
                format!("g.f = {a}; l = g.f; {callee}(&g.f, {b});"),
            ),
            WrittenPart::Sign => (
                format!("void {callee}({h} *p) {{ p[1] ^= {sign:#x}; }}"),
                format!("g.f = {a}; l = {b}; {callee}(g.h);"),
            ),
            WrittenPart::Exchange => (
                format!("void {callee}({t} *p, {t} *q) {{ {t} k = *p; *p = *q; *q = k; }}"),
                format!("g.f = {a}; l = {b}; {callee}(&l, &g.f);"),
            ),
            WrittenPart::Either(k) => {
                (String::new(), format!("g.f = {a}; l = {a}; *(h >> {k} & 1 ? &l : &g.f) = {b} * ({t})0.5;"))
            }
        };
        if !function.is_empty() {
            let kind = if apart { "static NOINLINE" } else { "static" };
            writeln!(self.helpers, "{kind} {function}").expect("writing to a string");
        }
        self.line(&format!(
            "{{ {union} g; {t} l; {writes} g.h[1] ^= {sign:#x}; {t} k = l * ({t})0.25; {d} = g.f + k; }}"
        ));
    }

    fn exchange(&mut self, a: Lvalue, b: Lvalue) {
        let f = self.program.float(a);
        let (a, b, bytes) = (self.lvalue(a), self.lvalue(b), f.bits() / 8);
        let u = word(f);
        self.line(&format!(
            "{{ {u} k, l; __builtin_memcpy(&k, &{a}, {bytes}); __builtin_memcpy(&l, &{b}, {bytes}); k ^= l; l ^= k; k ^= l; __builtin_memcpy(&{b}, &l, {bytes}); __builtin_memcpy(&{a}, &k, {bytes}); }}"
        ));
    }

    fn pack(&mut self, a: Lvalue, b: Lvalue, memory: bool) {
        let (a, b) = (self.lvalue(a), self.lvalue(b));
        let through = if memory { "scratch.wide = b; b = scratch.wide;" } else { "" };
        self.line(&format!(
            "{{ u32 k, l; __builtin_memcpy(&k, &{a}, 4); __builtin_memcpy(&l, &{b}, 4); u64 b = (u64)k << 32 | l; {through} k = (u32)b; l = (u32)(b >> 32); __builtin_memcpy(&{b}, &l, 4); __builtin_memcpy(&{a}, &k, 4); }}"
        ));
    }

    fn pack_state(&mut self, at: Lvalue, memory: bool) {
        let f = self.program.float(at);
        let (x, g) = (self.lvalue(at), get(f, Access::Copy, &self.lvalue(at)));
        let through = if memory { "scratch.wide = k; k = scratch.wide;" } else { "" };
        let text = match f {
            Float::Single => format!(
                "{{ {g} u64 k = (u64)b << 32 | h; {through} h = (u32)k; b = (u32)(k >> 32); {} }}",
                put(f, Access::Copy, &x)
            ),
            Float::Double => format!(
                "{{ {g} u32 h0 = h & 255; b = b << 8 | b >> 56; b ^= h0; u64 k = b; {through} b = k ^ h0; b = b >> 8 | b << 56; {} }}",
                put(f, Access::Copy, &x)
            ),
        };
        self.line(&text);
    }

    fn uniform(&mut self, at: Lvalue, wide: bool) {
        let x = self.lvalue(at);
        let t = name(self.program.float(at));
        let text = if wide && self.program.float(at) == Float::Double {
            "{ h = h * 1664525u + 1013904223u; u64 b = (u64)h << 20 | 0x3ff0000000000000ull; double k; __builtin_memcpy(&k, &b, 8);"
        } else if wide {
            "{ h = h * 1664525u + 1013904223u; union { float f; u32 u; } g; g.u = h >> 9 | 0x3f800000u; float k = g.f;"
        } else {
            "{ h = h * 1664525u + 1013904223u; float k = 1 + (h >> 9) * 0x1p-23f;"
        };
        self.line(&format!("{text} {x} *= ({t})(k - ({t})0.5); }}"));
    }

    fn copy_array(&mut self, to: usize, from: usize, how: CopyUnit) {
        if self.program.plain(to) && self.program.plain(from) {
            let bytes = self.program.array(to).bits() as usize / 8 * LENGTH;
            let (a, b) = (self.element(to, Index::Fixed(0)), self.element(from, Index::Fixed(0)));
            let text = if how == CopyUnit::Whole {
                format!("__builtin_memmove(&{a}, &{b}, {bytes});")
            } else {
                copying(&a, &b, &bytes.to_string(), how)
            };
            self.line(&text);
            return;
        }
        let (a, b) = (Lvalue::Cell(to, Index::Iteration(0)), Lvalue::Cell(from, Index::Iteration(0)));
        let (a, b) = (self.lvalue(a), self.lvalue(b));
        let text = copying(&a, &b, &format!("sizeof {a}"), how);
        self.line(&format!("for (int i = 0; i < {LENGTH}; i++) {{ {text} }}"));
    }

    fn cond(&self, cond: Cond) -> String {
        match cond {
            Cond::Less(a, b) => format!("{} < {}", self.lvalue(a), self.lvalue(b)),
            Cond::State(k) => format!("h >> {k} & 1"),
            Cond::Sign(at) => {
                let f = self.program.float(at);
                format!("*({} *)&{} >> {}", word(f), self.lvalue(at), f.bits() - 1)
            }
            Cond::Odd => "i & 1".to_owned(),
            Cond::Tag(a, at) if self.program.tagged(a) => format!("{} & 1", self.tag(a, at)),
            Cond::Tag(..) => "1".to_owned(),
        }
    }
}

/// A statement that copies bytes.
fn copying(to: &str, from: &str, bytes: &str, how: CopyUnit) -> String {
    let by = |t: &str, size: usize| {
        format!("for (u32 k = 0; k < ({bytes}) / {size}; k++) (({t} *)&{to})[k] = (({t} *)&{from})[k];")
    };
    match how {
        CopyUnit::Whole if bytes.starts_with("sizeof") => format!("{to} = {from};"),
        CopyUnit::Whole => format!("__builtin_memmove(&{to}, &{from}, {bytes});"),
        CopyUnit::Bytes => by("u8", 1),
        CopyUnit::Words => by("u32", 4),
        // What is left over are four bytes.
        CopyUnit::Doublewords => format!(
            "{} if (({bytes}) % 8) ((u32 *)&{to})[({bytes}) / 4 - 1] = ((u32 *)&{from})[({bytes}) / 4 - 1];",
            by("u64", 8)
        ),
        CopyUnit::Vectors => format!(
            "{} for (u32 k = ({bytes}) / 16 * 4; k < ({bytes}) / 4; k++) ((u32 *)&{to})[k] = ((u32 *)&{from})[k];",
            by("lanes", 16)
        ),
    }
}

/// Statements that do something to four singles at once.
fn lanes(op: BitOp) -> String {
    match op {
        BitOp::Negate => "b ^= 0x80000000u;".to_owned(),
        BitOp::Abs => "b &= 0x7fffffffu;".to_owned(),
        BitOp::Scale(k) => format!("b += {:#x}u;", k.unsigned_abs() << 23),
        BitOp::Cut(m) => format!("b &= ~{:#x}u;", (1_u32 << m) - 1),
        BitOp::RoundUp(m) => format!("b = (b + {:#x}u) & ~{:#x}u;", 1_u32 << (m - 1), (1_u32 << m) - 1),
        BitOp::Add(n) => format!("b += {n}u;"),
        BitOp::RoundEven(m) => {
            format!("b += {:#x}u + (b >> {m} & 1u); b &= ~{:#x}u;", (1_u32 << (m - 1)) - 1, (1_u32 << m) - 1)
        }
        BitOp::Swap => {
            let shuffle = "b = (lanes)__builtin_shufflevector((bytes)b, (bytes)b, 3, 2, 1, 0, 7, 6, 5, 4, 11, 10, 9, 8, 15, 14, 13, 12);";
            format!("{shuffle} {shuffle}")
        }
        _ => String::new(),
    }
}
