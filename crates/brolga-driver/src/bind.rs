//! Binding: a call as written, read against the signature of the function that it calls.
//!
//! **Question.** A call is text: numbers, lists, clauses. What does a run of it need?
//!
//! **Answer.** An [`Invocation`], which has everything: typed arguments, contents of buffers and
//! shadows, activities, seeds. What does not fit is reported with the place in the text.
//!
//! Defaults: a float or a vector of floats is active; a buffer of floats is duplicated; everything
//! else is constant. The seed of a float result is 1 in every lane. Initial shadows are zero. An
//! argument that is the buffer of another one shares its shadow, and its activity unless it says
//! otherwise.
//!
//! **Lists of several types.** Of a reversible function a type says what lies in a buffer, four
//! bytes at a time ([`Invocation::words`]); numbers are then read, compared and shown each by its
//! own type ([`Invocation::pairs`], [`Invocation::decode`]).
//!
//! **Cost.** One walk over the call, and a copy of the contents of each buffer.

use std::sync::Arc;

use brolga::drivers::support::{self, Lane};
use brolga::{ArgActivity, ArgSpec, Elem, FuncKey, MemoryMode, Program, Promises, Request};
use brolga_reversible::PlaceWord;
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::{Type, types};

use crate::text::cursor::ParseResult;
use crate::text::number::{parse_f32, parse_f64, parse_int};
use crate::text::{Call, Clauses, ElemType, List, Literal, SpannedNode, SyntaxError};
use crate::value::{Num, bits_of_vector, decode_all, is_float, to_data};
use crate::wasm::Wasm;

/// An argument that is ready to be passed.
#[derive(Clone, Debug, PartialEq)]
pub enum BoundArg {
    /// By value.
    Value(DataValue),
    /// A pointer to a fresh buffer.
    Buffer {
        /// What it holds.
        elem: ElemType,
        /// Initial contents.
        data: Vec<u8>,
        /// Initial contents of the shadow.
        shadow: Vec<u8>,
    },
    /// The pointer that argument `.0` is; that one is a [`BoundArg::Buffer`].
    Same(usize),
}

/// A call that fits its function.
#[derive(Clone, Debug, PartialEq)]
pub struct Invocation {
    /// The function.
    pub func: FuncKey,
    /// Its symbol.
    pub symbol: String,
    /// Types of the parameters.
    pub params: Vec<Type>,
    /// Types of the results.
    pub returns: Vec<Type>,
    /// The arguments.
    pub args: Vec<BoundArg>,
    /// One per argument: its activity, and what is promised of it.
    pub specs: Vec<ArgSpec>,
    /// One per result.
    pub seeds: Vec<DataValue>,
    /// What the pullback does with primal memory.
    pub memory: MemoryMode,
    /// The module whose instances it runs in. Then the function has one more parameter than is
    /// written, the instance, before all others.
    pub wasm: Option<Wasm>,
    /// Of buffers of which a type says it, what each four bytes are: elements of a list may be of
    /// other types than the list. Empty if nothing is known of any argument.
    pub words: Vec<Option<Arc<[PlaceWord]>>>,
    /// Arguments whose lists have numbers of several types, each written as its type.
    pub mixed: Vec<usize>,
}

impl Invocation {
    /// Read `call` and its clauses for the function that it names. `text` is what both were parsed
    /// from.
    pub fn bind(program: &Program, text: &str, call: &Call, clauses: &Clauses) -> ParseResult<Self> {
        let func = find(program, text, &call.func)?;
        let signature = &program.funcs[func].signature;
        // The runner of the call passes an instance; then pointers are offsets into its memory.
        let (hidden, pointer) = if program.vmctx_pointers_only { (1, types::I32) } else { (0, types::I64) };
        let params: Vec<Type> = signature.params[hidden..].iter().map(|p| p.value_type).collect();
        let returns: Vec<Type> = signature.returns.iter().map(|p| p.value_type).collect();
        if call.args.len() != params.len() {
            let message = format!("`%{}` takes {}, not {}", call.func.node, arguments(params.len()), call.args.len());
            let list = |types: &[Type]| types.iter().map(Type::to_string).collect::<Vec<_>>().join(", ");
            let help = match returns[..] {
                _ if hidden == 0 => format!("its signature is {signature}"),
                [] => format!("it takes ({}) and returns nothing", list(&params)),
                _ => format!("it takes ({}) and returns ({})", list(&params), list(&returns)),
            };
            return Err(SyntaxError::new(text, call.span.clone(), message).help(help));
        }
        let mut args = Vec::new();
        for (i, (literal, ty)) in call.args.iter().zip(&params).enumerate() {
            let arg = argument(text, literal, *ty, pointer, i, &args)?;
            args.push(arg);
        }
        let activity = activities(text, clauses, &args, &params)?;
        for (index, list) in &clauses.shadows {
            set_shadow(text, index, list, &mut args, &activity)?;
        }
        let seeds = seeds(text, clauses.seeds.as_ref(), &returns)?;
        let symbol = call.func.node.clone();
        let memory = clauses.memory.unwrap_or_default();
        let mut specs: Vec<ArgSpec> = activity.into_iter().map(ArgSpec::from).collect();
        promise(text, clauses.noalias.as_deref(), &args, &mut specs, ArgSpec::noalias)?;
        promise(text, clauses.fresh.as_deref(), &args, &mut specs, ArgSpec::fresh)?;
        promise(text, clauses.no_need.as_deref(), &args, &mut specs, ArgSpec::no_need)?;
        Ok(Self { func, symbol, params, returns, args, specs, seeds, memory, wasm: None, words: vec![], mixed: vec![] })
    }

    /// Arguments of the function before those that are written.
    pub fn hidden(&self) -> usize {
        usize::from(self.wasm.is_some())
    }

    /// The program that the oracles interpret; `program` is the one that runs.
    pub fn interpreted<'a>(&'a self, program: &'a Program) -> &'a Program {
        self.wasm.as_ref().map_or(program, Wasm::interpreted)
    }

    /// The activity of argument `i`.
    pub fn activity(&self, i: usize) -> ArgActivity {
        self.specs[i].activity
    }

    /// The derivative that this call asks for.
    pub fn request(&self) -> Request {
        let specs = self.specs.iter().enumerate();
        if self.wasm.is_some() {
            // Memory as a whole has a shadow. What a buffer holds is for the program to show:
            // others lie beside it.
            let args = specs.map(|(i, s)| {
                let no_cotangent = s.activity == ArgActivity::Const && self.buffer(i).is_some();
                match s.activity {
                    ArgActivity::Active => ArgSpec::ACTIVE,
                    _ => ArgSpec { promises: Promises { fresh: false, no_cotangent, ..s.promises }, ..ArgSpec::CONST },
                }
            });
            return Request::new(self.func, [ArgSpec::DUPLICATED].into_iter().chain(args));
        }
        // What holds numbers of several types is for the program to show.
        let elem = |i| {
            self.buffer(i).filter(|b| !self.is_mixed(b.0)).map(|(_, elem, ..)| match elem {
                ElemType::F64 => Elem::F64,
                ElemType::F32 => Elem::F32,
                ElemType::Int(_) => Elem::Int,
            })
        };
        Request::new(self.func, specs.map(|(i, s)| ArgSpec { elem: elem(i), ..*s }))
    }

    /// The buffer that argument `i` points at: the argument that owns it, what it holds, contents,
    /// shadow.
    pub fn buffer(&self, i: usize) -> Option<(usize, ElemType, &[u8], &[u8])> {
        match self.args.get(i)? {
            BoundArg::Buffer { elem, data, shadow } => Some((i, *elem, data, shadow)),
            BoundArg::Same(j) => self.buffer(*j),
            BoundArg::Value(_) => None,
        }
    }

    /// The value of an argument that is an integer of at most 64 bits.
    pub fn integer(&self, i: usize) -> Option<i64> {
        match self.args.get(i)? {
            BoundArg::Value(DataValue::I64(n)) => Some(*n),
            BoundArg::Value(DataValue::I32(n)) => Some((*n).into()),
            BoundArg::Value(DataValue::I16(n)) => Some((*n).into()),
            BoundArg::Value(DataValue::I8(n)) => Some((*n).into()),
            _ => None,
        }
    }

    /// What element `k` of a buffer is, by the number that it begins with, where a type says it.
    pub fn word(&self, arg: usize, k: usize) -> Option<PlaceWord> {
        let (owner, elem, ..) = self.buffer(arg)?;
        self.words.get(owner)?.as_ref()?.get(k * elem.bytes() / 4).copied()
    }

    /// Whether a type says that element `k` of a buffer is an integer, or two.
    pub fn is_integer(&self, arg: usize, k: usize) -> bool {
        let Some((owner, elem, ..)) = self.buffer(arg) else { return false };
        let Some(words) = self.words.get(owner).and_then(Option::as_ref) else { return false };
        let of = elem.bytes() / 4;
        let Some(of) = words.get(k * of..(k + 1) * of) else { return false };
        matches!(of[0], PlaceWord::I64 | PlaceWord::I32)
            && of[1..].iter().all(|w| matches!(w, PlaceWord::I32 | PlaceWord::Rest))
    }

    /// A buffer that has singles in elements of eight bytes, which rows and columns of a matrix
    /// cannot name.
    pub fn divided(&self) -> Option<usize> {
        let is_divided = |arg: usize| {
            let Some((owner, ElemType::F64, ..)) = self.buffer(arg) else { return false };
            let words = self.words.get(owner).and_then(Option::as_ref);
            self.activity(arg) == ArgActivity::Duplicated && words.is_some_and(|w| w.contains(&PlaceWord::F32))
        };
        (0..self.args.len()).find(|&arg| is_divided(arg))
    }

    /// The numbers of a buffer: where each begins, and what it is.
    pub fn numbers(&self, arg: usize) -> Vec<(usize, ElemType)> {
        let Some((owner, elem, data, _)) = self.buffer(arg) else { return vec![] };
        let uniform = || (0..data.len() / elem.bytes()).map(|k| (k * elem.bytes(), elem)).collect();
        let Some(Some(words)) = self.words.get(owner) else { return uniform() };
        let one = |(k, word): (usize, &PlaceWord)| match word {
            PlaceWord::F64 | PlaceWord::Q43 => Some((4 * k, ElemType::F64)),
            PlaceWord::F32 => Some((4 * k, ElemType::F32)),
            PlaceWord::I64 => Some((4 * k, ElemType::Int(64))),
            PlaceWord::I32 => Some((4 * k, ElemType::Int(32))),
            PlaceWord::Rest => None,
        };
        words.iter().enumerate().filter_map(one).filter(|(at, elem)| at + elem.bytes() <= data.len()).collect()
    }

    /// Put what one derivative of a batch has for a buffer among what all have: each float of all
    /// is as many floats as the batch is wide, one after the other.
    pub fn interleave(&self, arg: usize, all: &mut [u8], one: &[u8], Lane { k, width }: Lane) {
        for (at, elem) in self.numbers(arg) {
            let n = elem.bytes();
            support::interleave(&mut all[width * at..][..width * n], &one[at..at + n], n, Lane { k, width });
        }
    }

    /// Take it out again.
    pub fn of_direction(&self, arg: usize, all: &[u8], Lane { k, width }: Lane) -> Vec<u8> {
        let mut one = vec![0; all.len() / width];
        for (at, elem) in self.numbers(arg) {
            let n = elem.bytes();
            one[at..at + n].copy_from_slice(&all[width * at + k * n..][..n]);
        }
        one
    }

    /// Floats of two lists of what a buffer holds, or of its shadow, in pairs: each of its own type
    /// where a type says what lies there.
    pub fn pairs(&self, arg: usize, a: &[Num], b: &[Num]) -> Vec<(f64, f64)> {
        let words = self.buffer(arg).and_then(|b| self.words.get(b.0)?.as_deref());
        let mut found = Vec::new();
        for (k, (a, b)) in a.iter().zip(b).enumerate() {
            let is_double = matches!(a, Num::F64(_));
            let word = |i: usize| words.map(|w| w.get(i).copied().unwrap_or(PlaceWord::Rest));
            let first = word(if is_double { 2 * k } else { k });
            let single = |n: &Num, by: u32| f64::from(f32::from_bits((n.as_f64().to_bits() >> by) as u32));
            match (first, is_double) {
                (None, _) if a.is_float() && b.is_float() => found.push((a.as_f64(), b.as_f64())),
                (Some(PlaceWord::F64 | PlaceWord::Q43), _) | (Some(PlaceWord::F32), false) => {
                    found.push((a.as_f64(), b.as_f64()));
                }
                (Some(_), true) => {
                    let halves = [(first, 0), (word(2 * k + 1), 32)];
                    let singles = halves.into_iter().filter(|h| h.0 == Some(PlaceWord::F32));
                    found.extend(singles.map(|(_, by)| (single(a, by), single(b, by))));
                }
                _ => {}
            }
        }
        found
    }

    /// Whether a type says that a buffer holds other numbers than those of its list's type.
    fn is_mixed(&self, owner: usize) -> bool {
        let Some((_, elem, ..)) = self.buffer(owner) else { return false };
        let usual = |w: &PlaceWord| match elem {
            ElemType::F64 => matches!(w, PlaceWord::F64 | PlaceWord::Q43 | PlaceWord::Rest),
            ElemType::F32 => *w == PlaceWord::F32,
            ElemType::Int(_) => matches!(w, PlaceWord::I64 | PlaceWord::I32 | PlaceWord::Rest),
        };
        self.words.get(owner).and_then(Option::as_ref).is_some_and(|words| !words.iter().all(usual))
    }

    /// Write the numbers of lists whose elements are of several types, by the type of each: all of
    /// four bytes, or all of eight. A list that says of what type it is stays as it is.
    ///
    /// # Errors
    /// Numbers that are none of their type, and types of both sizes.
    pub(crate) fn encode_mixed(&mut self, text: &str, call: &Call) -> ParseResult<()> {
        for (i, written) in call.args.iter().enumerate() {
            let Literal::List(list) = written else { continue };
            let Some(words) = self.words.get(i).cloned().flatten().filter(|_| list.elem.is_none() && self.is_mixed(i))
            else {
                continue;
            };
            let is_short = |w: &PlaceWord| matches!(w, PlaceWord::F32 | PlaceWord::I32);
            let numbers = || words.iter().filter(|w| **w != PlaceWord::Rest);
            let of = if numbers().all(is_short) { ElemType::F32 } else { ElemType::F64 };
            if of == ElemType::F64 && numbers().any(is_short) {
                let message = "this place has numbers of four bytes and of eight";
                return Err(SyntaxError::new(text, list.span.clone(), message)
                    .help("write its memory, eight bytes as one double each: `f64[…]`"));
            }
            let mut bytes = Vec::with_capacity(list.len() * of.bytes());
            let items = (0..list.copies).flat_map(|_| &list.items);
            for (k, item) in items.enumerate() {
                let word = words.get(k * of.bytes() / 4).copied();
                let elem = word.map_or(of, |w| word_elem(w, of));
                elem.encode(&item.node, &mut bytes).map_err(|e| SyntaxError::new(text, item.span.clone(), e))?;
            }
            let BoundArg::Buffer { elem, data, shadow } = &mut self.args[i] else { continue };
            let kept = decode_all(*elem, shadow);
            (*elem, *data, *shadow) = (of, bytes, vec![0; list.len() * of.bytes()]);
            self.mixed.push(i);
            for (number, place) in kept.into_iter().zip(shadow.chunks_exact_mut(of.bytes())) {
                number.encode(of, place);
            }
        }
        Ok(())
    }

    /// Numbers in the bytes of argument `i`, each of its own type, unless its list said of what
    /// type all are.
    pub fn decode(&self, i: usize, bytes: &[u8]) -> Option<Vec<Num>> {
        let (owner, elem, ..) = self.buffer(i)?;
        let word = |k| self.word(i, k).filter(|_| self.mixed.contains(&owner));
        let one = |(k, b)| Num::decode(word(k).map_or(elem, |w| word_elem(w, elem)), b);
        Some(bytes.chunks_exact(elem.bytes()).enumerate().map(one).collect())
    }

    /// The first argument that is a duplicated buffer of floats.
    pub fn first_of_floats(&self) -> Option<usize> {
        let floats = |i: usize| self.buffer(i).is_some_and(|b| b.1.is_float());
        (0..self.args.len()).find(|&i| self.activity(i) == ArgActivity::Duplicated && floats(i))
    }

    /// Whether the shadow of argument `i` is this argument's own, not that of an earlier one.
    pub fn owns_shadow(&self, i: usize) -> bool {
        self.activity(i) == ArgActivity::Duplicated
            && self.buffer(i).is_some_and(|(owner, ..)| {
                (0..i).all(|j| {
                    self.activity(j) != ArgActivity::Duplicated || self.buffer(j).is_none_or(|(o, ..)| o != owner)
                })
            })
    }
}

/// The type of a number of a place, in a list of elements of its size.
fn word_elem(word: PlaceWord, list: ElemType) -> ElemType {
    match (word, list) {
        (PlaceWord::I64, ElemType::F64) => ElemType::Int(64),
        (PlaceWord::I32, ElemType::F32) => ElemType::Int(32),
        _ => list,
    }
}

/// Make a promise of the buffers that a clause names.
fn promise(
    text: &str,
    said: Option<&[SpannedNode<usize>]>,
    args: &[BoundArg],
    specs: &mut [ArgSpec],
    promised: fn(ArgSpec) -> ArgSpec,
) -> ParseResult<()> {
    for n in said.unwrap_or_default() {
        match args.get(n.node) {
            Some(BoundArg::Buffer { .. } | BoundArg::Same(_)) => specs[n.node] = promised(specs[n.node]),
            Some(BoundArg::Value(_)) => {
                let message = format!("argument {} is not a buffer", n.node);
                return Err(SyntaxError::new(text, n.span.clone(), message));
            }
            None => {
                let message = format!("there is no argument {}", n.node);
                return Err(SyntaxError::new(text, n.span.clone(), message)
                    .help(format!("arguments are counted from 0; there are {}", args.len())));
            }
        }
    }
    Ok(())
}

/// The function called `name`, which must be defined.
fn find(program: &Program, text: &str, name: &SpannedNode<String>) -> ParseResult<FuncKey> {
    match program.func(&name.node) {
        Some(key) if program.funcs[key].body.is_some() => Ok(key),
        found => {
            let what = if found.is_some() { "is imported, not defined, here" } else { "is not defined" };
            let defined: Vec<_> = program
                .funcs
                .values()
                .filter(|f| f.body.is_some())
                .map(|f| format!("%{}", f.symbol))
                .take(20)
                .collect();
            Err(SyntaxError::new(text, name.span.clone(), format!("`%{}` {what}", name.node))
                .help(format!("the file defines {}", defined.join(", "))))
        }
    }
}

fn argument(
    text: &str,
    literal: &Literal,
    ty: Type,
    pointer: Type,
    i: usize,
    before: &[BoundArg],
) -> ParseResult<BoundArg> {
    let fail = |span, message: String| Err(SyntaxError::new(text, span, message));
    match literal {
        Literal::Number(n) => Ok(BoundArg::Value(scalar(text, n, ty)?)),
        Literal::List(list) if ty.is_vector() => Ok(BoundArg::Value(vector(text, list, ty)?)),
        Literal::List(list) if ty == pointer => {
            if list.len() > 1 && !list.commas {
                let message = format!("argument {i} is a pointer, and this is a vector");
                return fail(list.span.clone(), message).map_err(|e: Box<SyntaxError>| {
                    e.help("separate the elements of a buffer by commas: `[1.0, 2.0]`")
                });
            }
            let (elem, data) = encode_list(text, list, None)?;
            let shadow = vec![0; data.len()];
            Ok(BoundArg::Buffer { elem, data, shadow })
        }
        Literal::List(list) => fail(list.span.clone(), format!("argument {i} is an {ty}, not a buffer")),
        Literal::Same(j) => match before.get(j.node) {
            _ if ty != pointer => fail(j.span.clone(), format!("argument {i} is an {ty}, not a buffer")),
            Some(BoundArg::Buffer { .. }) => Ok(BoundArg::Same(j.node)),
            Some(BoundArg::Same(k)) => Ok(BoundArg::Same(*k)),
            Some(BoundArg::Value(_)) => fail(j.span.clone(), format!("argument {} is not a buffer", j.node)),
            None => fail(j.span.clone(), format!("argument {} does not come before argument {i}", j.node)),
        },
    }
}

pub(crate) fn scalar(text: &str, n: &SpannedNode<String>, ty: Type) -> ParseResult<DataValue> {
    let wrong = |message: String| SyntaxError::new(text, n.span.clone(), message);
    if ty.is_vector() && n.node.starts_with("0x") && !n.node.contains(['.', 'p', 'P']) {
        return bits_of_vector(&n.node, ty).map_err(wrong);
    }
    if ty.is_vector() {
        let lanes = vec!["1.0"; ty.lane_count() as usize].join(" ");
        return Err(
            wrong(format!("a value of type {ty} has {} lanes", ty.lane_count())).help(format!("write `[{lanes}]`"))
        );
    }
    let num = number(&n.node, ty).map_err(wrong)?;
    to_data(ty, |_| num).ok_or_else(|| wrong(format!("values of type {ty} cannot be passed")))
}

pub(crate) fn vector(text: &str, list: &List, ty: Type) -> ParseResult<DataValue> {
    let wrong = |message: String| SyntaxError::new(text, list.span.clone(), message);
    let lanes = ty.lane_count() as usize;
    if list.elem.is_some_and(|e| ElemType::of(ty.lane_type()) != Some(e)) {
        return Err(wrong(format!("this is a buffer, but a value of type {ty} is wanted")));
    }
    if list.len() != lanes {
        return Err(wrong(format!("a value of type {ty} has {lanes} lanes, not {}", list.len())));
    }
    let mut nums = Vec::new();
    for item in &list.items {
        let num = number(&item.node, ty.lane_type());
        nums.push(num.map_err(|e| SyntaxError::new(text, item.span.clone(), e))?);
    }
    to_data(ty, |i| nums[i % nums.len()]).ok_or_else(|| wrong(format!("values of type {ty} cannot be passed")))
}

/// `text` as a scalar of type `ty`.
fn number(text: &str, ty: Type) -> Result<Num, String> {
    match ty {
        types::F64 => parse_f64(text).map(Num::F64),
        types::F32 => parse_f32(text).map(Num::F32),
        t if t.is_int() => parse_int(text, t.bits() as u8).map(Num::Int),
        _ => Err(format!("values of type {ty} cannot be passed")),
    }
}

/// The bytes of a buffer. `elem` says what it must hold, if that is known.
pub(crate) fn encode_list(text: &str, list: &List, elem: Option<ElemType>) -> ParseResult<(ElemType, Vec<u8>)> {
    let elem = match (list.elem, elem) {
        (Some(written), Some(wanted)) if written != wanted => {
            let message = format!("expected elements of type {}, found {}", wanted.name(), written.name());
            return Err(SyntaxError::new(text, list.span.clone(), message));
        }
        (written, wanted) => written.or(wanted).unwrap_or(ElemType::F64),
    };
    let mut data = Vec::with_capacity(list.items.len() * elem.bytes());
    for item in &list.items {
        elem.encode(&item.node, &mut data).map_err(|e| SyntaxError::new(text, item.span.clone(), e))?;
    }
    Ok((elem, data.repeat(list.copies)))
}

fn activities(text: &str, clauses: &Clauses, args: &[BoundArg], params: &[Type]) -> ParseResult<Vec<ArgActivity>> {
    if let Some(given) = &clauses.activity {
        check_activities(given, args, params)
            .map_err(|(message, help)| SyntaxError::new(text, given.span.clone(), message).help(help))?;
        return Ok(given.node.clone());
    }
    let mut out: Vec<ArgActivity> = Vec::new();
    for (arg, ty) in args.iter().zip(params) {
        let activity = match arg {
            BoundArg::Buffer { elem, .. } if elem.is_float() => ArgActivity::Duplicated,
            BoundArg::Same(j) => out[*j],
            _ => default_activity(*ty),
        };
        out.push(activity);
    }
    Ok(out)
}

/// The activity of a parameter that is passed by value, by default.
pub fn default_activity(ty: Type) -> ArgActivity {
    if is_float(ty) { ArgActivity::Active } else { ArgActivity::Const }
}

fn check_activities(
    given: &SpannedNode<Vec<ArgActivity>>,
    args: &[BoundArg],
    params: &[Type],
) -> Result<(), (String, String)> {
    if given.node.len() != params.len() {
        let message =
            format!("{} given for {}", plural(given.node.len(), "activity", "activities"), arguments(params.len()));
        return Err((message, "give one per argument: const, active or duplicated".to_owned()));
    }
    for (i, ((activity, arg), ty)) in given.node.iter().zip(args).zip(params).enumerate() {
        let value = matches!(arg, BoundArg::Value(_));
        match activity {
            ArgActivity::Active if !is_float(*ty) => {
                let message = format!("argument {i} is an {ty}, which cannot be active");
                return Err((message, "only floats are active; buffers are duplicated".to_owned()));
            }
            ArgActivity::Duplicated if value => {
                let message = format!("argument {i} is not a buffer, so it has no shadow");
                return Err((message, "floats by value are active or const".to_owned()));
            }
            _ => {}
        }
    }
    Ok(())
}

fn set_shadow(
    text: &str,
    index: &SpannedNode<usize>,
    list: &List,
    args: &mut [BoundArg],
    activity: &[ArgActivity],
) -> ParseResult<()> {
    let fail = |span: &std::ops::Range<usize>, message: String| Err(SyntaxError::new(text, span.clone(), message));
    let i = index.node;
    if i >= args.len() {
        return fail(&index.span, format!("there is no argument {i}; arguments are counted from 0"));
    }
    let owner = if let BoundArg::Same(j) = args[i] { j } else { i };
    let BoundArg::Buffer { elem, data, shadow } = &mut args[owner] else {
        return fail(&index.span, format!("argument {i} is not a buffer, so it has no shadow"));
    };
    if activity[i] != ArgActivity::Duplicated {
        return fail(&index.span, format!("argument {i} is const, so it has no shadow"));
    }
    let (_, bytes) = encode_list(text, list, Some(*elem))?;
    if bytes.len() != data.len() {
        let n = elem.bytes();
        let message = format!(
            "the shadow of argument {i} has {}, but the buffer has {}",
            plural(bytes.len() / n, "element", "elements"),
            data.len() / n
        );
        return fail(&list.span, message);
    }
    *shadow = bytes;
    Ok(())
}

fn seeds(text: &str, given: Option<&SpannedNode<Vec<Literal>>>, returns: &[Type]) -> ParseResult<Vec<DataValue>> {
    let Some(given) = given else { return Ok(returns.iter().map(|ty| default_seed(*ty)).collect()) };
    if given.node.len() != returns.len() {
        let message = format!(
            "{} given for {}",
            plural(given.node.len(), "seed", "seeds"),
            plural(returns.len(), "result", "results")
        );
        return Err(SyntaxError::new(text, given.span.clone(), message)
            .help("give one per result; what a buffer is seeded with is its `shadow`"));
    }
    let mut out = Vec::new();
    for (seed, ty) in given.node.iter().zip(returns) {
        out.push(match seed {
            // The cotangent of an integer is ignored, however it is written.
            Literal::Number(_) if !is_float(*ty) => zero(*ty),
            Literal::Number(n) => scalar(text, n, *ty)?,
            Literal::List(list) if ty.is_vector() => vector(text, list, *ty)?,
            other => {
                let message = format!("a seed of type {ty} is wanted");
                return Err(SyntaxError::new(text, other.span(), message));
            }
        });
    }
    Ok(out)
}

/// 1 for floats, lane by lane; 0 for what cannot have a cotangent.
pub fn default_seed(ty: Type) -> DataValue {
    if !is_float(ty) {
        return zero(ty);
    }
    to_data(ty, |_| Num::F64(1.0)).unwrap_or_else(|| zero(ty))
}

/// The zero of any type.
pub fn zero(ty: Type) -> DataValue {
    to_data(ty, |_| Num::Int(0)).unwrap_or_else(|| DataValue::read_from_slice_ne(&[0; 16], ty))
}

pub(crate) fn arguments(n: usize) -> String {
    plural(n, "argument", "arguments")
}

fn plural(n: usize, one: &str, many: &str) -> String {
    if n == 1 { format!("1 {one}") } else { format!("{n} {many}") }
}
