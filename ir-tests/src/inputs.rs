//! Oracles for what people control: text that is not CLIF, calls that fit nothing, requests that
//! make no sense.
//!
//! Each function here takes arbitrary input and panics if a promise is broken; nothing else may.
//! The promises: whatever the text, reading it ends in a value or in errors whose places lie inside
//! the text; whatever the request, there is a rule whose calls end in a gradient or an error, or
//! there is an error, and never an internal one.
//!
//! The functions serve three drivers: `fuzz/libfuzzer`, which searches by coverage;
//! `tests/inputs.rs`, which tries for a moment in every test run; and finds, which are replayed by
//! passing the same bytes again.
//!
//! What is out of reach: calls with wild pointers or buffers that are too short. They are unsafe to
//! make, and what they do is theirs. So in [`activities`] the arguments are those of the file's own
//! calls, and everything else is arbitrary.

use std::path::Path;
use std::sync::LazyLock;

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{ArgActivity, ArgSpec, DerivedRule, Diagnostics, Effort, Elem, Error, MemoryMode, Options, Request};
use brolga_driver::noise::Noise;
use brolga_driver::protocol::derive;
use brolga_driver::text::SyntaxError;
use brolga_driver::text::directive::call_with_clauses;
use brolga_driver::{Call, Directive, File, Invocation, Memory};

use crate::cases;

/// Bytes read as numbers. When they run out, zeros follow, so every input means something.
pub struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    /// At the start of `bytes`.
    pub fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// A number below `n`, which is at least 1.
    pub fn below(&mut self, n: usize) -> usize {
        (usize::from(self.byte()) << 8 | usize::from(self.byte())) % n
    }

    /// The next eight bytes.
    pub fn bits(&mut self) -> u64 {
        (0..8).fold(0, |n, _| n << 8 | u64::from(self.byte()))
    }
}

/// The text of a CLIF file: it is read, or there are diagnostics about lines of the text.
pub fn clif_text(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let n_lines = text.lines().count().max(1) as u32;
    match File::parse("input.clif", text.as_ref()) {
        Ok(file) => {
            assert!(!file.functions.is_empty(), "a file without functions is refused");
            in_range(&file.malformed, n_lines);
            for directive in &file.directives {
                bound(&file, directive);
            }
        }
        Err(problems) => {
            assert!(!problems.is_empty(), "a refusal has reasons");
            in_range(&problems, n_lines);
        }
    }
}

fn in_range(problems: &Diagnostics, n_lines: u32) {
    for d in &problems.0 {
        assert!(!d.code.is_empty() && !d.message.is_empty() && !d.to_string().is_empty());
        assert!(d.line.is_none_or(|l| (1..=n_lines).contains(&l)), "line {:?} of {n_lines}: {d}", d.line);
    }
}

/// Reading a directive's call against the function that it names.
fn bound(file: &File, directive: &Directive) {
    let (text, call, clauses) = match directive {
        Directive::Grad(l) => (&l.text, &l.call, &l.clauses),
        Directive::Trap(l) => (&l.text, &l.call, &l.clauses),
        Directive::Error(_) | Directive::Data(_) | Directive::Inverse(_) | Directive::Bless(_) => return,
    };
    if let Err(e) = Invocation::bind(&file.program, text, call, clauses) {
        points_into(&e);
    }
}

/// Calls and directives: they are read, or the error's carets lie under the text.
pub fn call_syntax(text: &str) {
    for result in [Call::parse(text).err(), call_with_clauses(text).err()].into_iter().flatten() {
        points_into(&result);
    }
    for keyword in ["grad", "trap", "error", "data", "inverse", "bless"] {
        let comment = format!("; {keyword}: {text}");
        match Directive::parse(&comment, 1) {
            Ok(read) => assert!(read.is_some() || text.contains(['\n', '\r']), "`{comment}` is no directive"),
            Err(e) => points_into(&e),
        }
    }
}

fn points_into(e: &SyntaxError) {
    let SyntaxError { text, span, message, .. } = e;
    assert!(span.start <= span.end && span.end <= text.len(), "{span:?} lies outside of `{text}`");
    assert!(text.is_char_boundary(span.start) && text.is_char_boundary(span.end), "{span:?} cuts `{text}`");
    assert!(!message.is_empty() && !e.to_string().is_empty());
}

/// Small files of the cases, with their calls that give a gradient.
static SUBJECTS: LazyLock<Vec<(File, Vec<Invocation>)>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut out = Vec::new();
    for path in cases::files(root) {
        // The real programs are long; here speed counts.
        let Ok(file) = File::read(&path) else { continue };
        if file.text.len() > 20_000 {
            continue;
        }
        let lines = file.directives.iter().filter_map(|d| if let Directive::Grad(l) = d { Some(l) } else { None });
        let calls: Vec<_> =
            lines.filter_map(|l| Invocation::bind(&file.program, &l.text, &l.call, &l.clauses).ok()).collect();
        if !calls.is_empty() {
            out.push((file, calls));
        }
    }
    assert!(out.len() > 20, "the cases were not found");
    out
});

/// A sound call with arbitrary activities, element types, options, seeds and initial shadows: an
/// error or a gradient.
pub fn activities(bytes: &[u8]) {
    let mut b = Bytes::new(bytes);
    let (file, calls) = &SUBJECTS[b.below(SUBJECTS.len())];
    let mut call = calls[b.below(calls.len())].clone();
    // Without a caller's help the number of activities is anything.
    let n = if b.byte() < 16 { b.below(5) } else { call.args.len() };
    let given: Vec<ArgActivity> = (0..n)
        .map(|i| match (b.below(8), call.specs.get(i)) {
            (0, _) => ArgActivity::Const,
            (1, _) => ArgActivity::Active,
            (2, _) => ArgActivity::Duplicated,
            (_, spec) => spec.map_or(ArgActivity::Const, |s| s.activity),
        })
        .collect();
    let memory = if b.byte() & 1 == 0 { MemoryMode::Leave } else { MemoryMode::Restore };
    let effort = if b.byte() & 3 == 0 { Effort::Quick } else { Effort::Full };
    let options = Options { memory, effort, ..Options::full() };
    let stated = call.request();
    let mut request = Request::new(call.func, given.iter().copied());
    // A claim about contents that is false may send the pullback after pointers that are none, so
    // such rules only compile.
    let mut runs = true;
    for (i, ArgSpec { elem, .. }) in request.args.iter_mut().enumerate() {
        *elem = stated.args.get(i).and_then(|a| a.elem);
        if b.byte() < 16 {
            *elem = [None, Some(Elem::F64), Some(Elem::F32), Some(Elem::Int), Some(Elem::Pointer)][b.below(5)];
            runs = false;
        }
    }
    let rule = match derive(&file.program, &request, &options) {
        Ok(rule) => rule,
        Err(e) => return acceptable(&e),
    };
    // An integer with an activity of its own is no buffer; where the call passes no buffer there is
    // nothing to pass.
    let fits = (0..given.len()).all(|i| given[i] != ArgActivity::Duplicated || call.buffer(i).is_some());
    if !runs || !fits {
        return;
    }
    call.specs = given.into_iter().map(ArgSpec::from).collect();
    let mut noise = Noise::new(b.bits());
    scramble(&mut call, &mut b, &mut noise);
    run(&rule, &call, &mut b);
}

/// Other seeds and initial shadows, of any bit pattern.
fn scramble(call: &mut Invocation, b: &mut Bytes<'_>, noise: &mut Noise) {
    for seed in &mut call.seeds {
        let ty = seed.ty();
        let bytes: Vec<u8> = (0..2).flat_map(|_| noise.bits().to_le_bytes()).collect();
        if b.byte() & 1 == 1 {
            *seed = DataValue::read_from_slice_ne(&bytes[..ty.bytes() as usize], ty);
        }
    }
    for arg in &mut call.args {
        // Shadows of integers hold addresses of shadows, which must be true.
        if let brolga_driver::BoundArg::Buffer { elem, shadow, .. } = arg
            && elem.is_float()
            && b.byte() & 1 == 1
        {
            shadow.iter_mut().for_each(|x| *x = noise.bits() as u8);
        }
    }
}

/// Call a rule, sometimes with too few or too many arguments and seeds, or with some of the wrong
/// type.
fn run(rule: &DerivedRule, call: &Invocation, b: &mut Bytes<'_>) {
    let Ok(memory) = Memory::new(call) else { return };
    let mut args = memory.arguments();
    let mut seeds = call.seeds.clone();
    match b.byte() {
        0..8 => drop(args.pop()),
        8..16 => args.extend(args.first().cloned()),
        16..24 => {
            // Never one that would pass for a pointer.
            if let Some(a) = args.last_mut() {
                a.value = DataValue::I8(1);
            }
        }
        _ => {}
    }
    match b.byte() {
        0..8 => drop(seeds.pop()),
        8..16 => seeds.push(DataValue::I8(1)),
        16..24 => seeds.iter_mut().for_each(|s| *s = DataValue::I16(1)),
        _ => {}
    }
    // SAFETY: the pointers are to live blocks, as long as those of the file's own call.
    let (_, mut pullback) = match unsafe { rule.forward(&args) } {
        Ok(r) => r,
        Err(e) => return acceptable(&e),
    };
    // SAFETY: `memory` is alive.
    match unsafe { pullback.call(&seeds) } {
        Ok(cotangents) => assert_eq!(cotangents.len(), call.args.len()),
        Err(e) => acceptable(&e),
    }
    assert_eq!(memory.damage(), None);
}

fn acceptable(e: &Error) {
    assert!(!matches!(e, Error::Internal { .. }), "{e}");
    assert!(!e.to_string().is_empty());
}

/// A case's text with a few edits: characters, words and lines left out, doubled, or taken from
/// somewhere else.
///
/// Most random bytes fail at the first token; such texts get further.
pub fn mangled(bytes: &[u8]) -> String {
    let mut b = Bytes::new(bytes);
    let mut lines: Vec<String> = SUBJECTS[b.below(SUBJECTS.len())].0.text.lines().map(str::to_owned).collect();
    let other = &SUBJECTS[b.below(SUBJECTS.len())].0.text;
    for _ in 0..=b.below(6) {
        if lines.is_empty() {
            break;
        }
        let i = b.below(lines.len());
        match b.below(7) {
            0 => drop(lines.remove(i)),
            1 => lines.insert(b.below(lines.len()), lines[i].clone()),
            2 => lines.insert(i, other.lines().nth(b.below(other.lines().count())).unwrap_or("").to_owned()),
            3 => {
                let j = b.below(lines.len());
                lines.swap(i, j);
            }
            4 => {
                let mut chars: Vec<char> = lines[i].chars().collect();
                if !chars.is_empty() {
                    let at = b.below(chars.len());
                    chars[at] = ODD[b.below(ODD.len())];
                    lines[i] = chars.into_iter().collect();
                }
            }
            k => {
                let mut words: Vec<&str> = lines[i].split(' ').collect();
                let at = b.below(words.len());
                if k == 5 {
                    words[at] = other.split_whitespace().nth(b.below(400)).unwrap_or("v0");
                } else {
                    words.remove(at);
                }
                lines[i] = words.join(" ");
            }
        }
    }
    lines.join("\n")
}

/// Characters that mean something somewhere, or nothing anywhere.
const ODD: [char; 20] =
    ['{', '}', '(', ')', '[', ']', ',', ';', '=', '%', '"', '-', '9', 'x', '@', ':', '\0', 'é', '𝕊', '\t'];

/// A directive of a case, with a few edits.
pub fn mangled_directive(bytes: &[u8]) -> String {
    let text = mangled(bytes);
    let directives: Vec<&str> =
        text.lines().filter_map(|l| l.strip_prefix("; ")?.split_once(": ")).map(|d| d.1).collect();
    let pick = Bytes::new(&bytes[bytes.len() / 2..]).below(directives.len().max(1));
    let mut chars: Vec<char> = directives.get(pick).copied().unwrap_or("%f(1.0) == [1.0]").chars().collect();
    let mut b = Bytes::new(&bytes[bytes.len() / 3..]);
    for _ in 0..b.below(4) {
        let at = b.below(chars.len() + 1);
        match b.below(3) {
            0 => chars.insert(at, ODD[b.below(ODD.len())]),
            1 => chars.truncate(at),
            _ => drop((at < chars.len()).then(|| chars.remove(at))),
        }
    }
    chars.into_iter().collect()
}
