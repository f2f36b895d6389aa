//! Tangents of one call in forward mode: what `jvp` prints.
//!
//! **Question.** What are the tangents of results and buffers along a direction?
//!
//! **Answer.** A [`Direction`] has an entry for each argument: the tangent of a float by value, or
//! of a buffer's contents. What is not given is zero. It is written `0=1.5` for a scalar, `0=[1.0
//! 0.0]` for a vector, `1=[1.0, 0.0]` for a buffer. Tangents of buffers are put into their shadows;
//! [`tangents`] runs the rule, and reads those of results and shadows.
//!
//! **Cost.** One run, in fresh memory.

use brolga::{ArgActivity, DerivedRule, Error};
use cranelift_codegen::data_value::DataValue;

use crate::bind::{BoundArg, Invocation, encode_list, scalar, vector};
use crate::inputs::Input;
use crate::memory::Memory;
use crate::run::{contents, items, undamaged};
use crate::text::cursor::{Cursor, ParseResult};
use crate::text::{Literal, SyntaxError, call};
use crate::value::{Item, Num, decode_all, from_data, to_data};

/// A direction, one entry per argument.
#[derive(Clone, Debug, PartialEq)]
pub struct Direction(Vec<ArgTangent>);

/// The tangent of one argument.
#[derive(Clone, Debug, PartialEq)]
enum ArgTangent {
    Zero,
    Value(DataValue),
    Buffer(Vec<u8>),
}

/// What a call and its tangents produced.
#[derive(Clone, Debug, PartialEq)]
pub struct Tangents {
    /// One per result.
    pub value: Vec<Item>,
    /// One per argument: what is in the buffer when all is done.
    pub buffers: Vec<Option<Vec<Num>>>,
    /// One per result: its tangent, if it is a float.
    pub results: Vec<Option<Item>>,
    /// One per argument: the tangent of a duplicated buffer when all is done.
    pub of_buffers: Vec<Option<Vec<Num>>>,
}

impl Direction {
    /// Along nothing.
    pub fn zero(call: &Invocation) -> Self {
        Self(vec![ArgTangent::Zero; call.args.len()])
    }

    /// Read the entries of a direction, each `N=VALUE` or `N=[LIST]`.
    ///
    /// # Errors
    /// An entry that cannot be read, is given twice, or does not fit its argument.
    pub fn parse(call: &Invocation, entries: &[String]) -> ParseResult<Self> {
        let mut found = Self::zero(call);
        for text in entries {
            let mut c = Cursor::new(text);
            let arg = c.count().map_err(|e| e.help("an argument is named by its number, as in `0=1.0`"))?;
            c.expect("=")?;
            let literal = call::literal(&mut c)?;
            if !c.is_done() {
                return Err(c.unexpected("the end of the direction"));
            }
            let (i, fail) = (arg.node, |m: String| SyntaxError::new(text, arg.span.clone(), m));
            if i >= call.args.len() {
                let message = format!("there is no argument {i}; arguments are counted from 0");
                return Err(fail(message).help(those_that_move(call)));
            }
            let owner = if let BoundArg::Same(j) = call.args[i] { j } else { i };
            if found.0[owner] != ArgTangent::Zero {
                let message = match owner == i {
                    true => format!("the tangent of argument {i} is given twice"),
                    false => format!("the tangent of argument {i} is that of argument {owner}, which is given, too"),
                };
                return Err(fail(message).help("give it once; `--next` begins another direction"));
            }
            found.0[owner] = along(call, text, owner, &literal, &fail)?;
        }
        Ok(found)
    }

    /// Read the entries of several directions. One without entries is along nothing.
    ///
    /// # Errors
    /// As of [`Self::parse`].
    pub fn parse_all(call: &Invocation, sets: &[Vec<String>]) -> ParseResult<Vec<Self>> {
        sets.iter().map(|set| Self::parse(call, set)).collect()
    }

    /// The tangent of a float by value, if one is given.
    pub(crate) fn of_value(&self, arg: usize) -> Option<&DataValue> {
        if let ArgTangent::Value(v) = &self.0[arg] { Some(v) } else { None }
    }

    /// The tangent of a buffer that the argument owns, if one is given.
    pub(crate) fn of_buffer(&self, arg: usize) -> Option<&[u8]> {
        if let ArgTangent::Buffer(bytes) = &self.0[arg] { Some(bytes) } else { None }
    }

    /// Write the tangents of buffers into their shadows, and return those of values, one per
    /// parameter of the function.
    pub(crate) fn put(&self, call: &Invocation, memory: &mut Memory) -> Vec<Option<DataValue>> {
        let mut given = vec![None; call.hidden() + call.args.len()];
        for (i, along) in self.0.iter().enumerate() {
            match (along, memory.buffer_mut(i)) {
                (ArgTangent::Value(v), _) => given[call.hidden() + i] = Some(v.clone()),
                (ArgTangent::Buffer(bytes), Some(b)) => b.shadow.bytes_mut().copy_from_slice(bytes),
                (_, Some(b)) if !matches!(call.args[i], BoundArg::Same(_)) => b.shadow.bytes_mut().fill(0),
                _ => {}
            }
        }
        given
    }

    /// Along all inputs ([`crate::inputs::inputs`]), by so much each.
    pub fn along(call: &Invocation, inputs: &[Input], by: &[f64]) -> Self {
        let mut found = Self::zero(call);
        for arg in 0..call.args.len() {
            // An integer among floats has no tangent.
            let one = |(i, x): (&Input, &f64)| if i.is_other() { 0.0 } else { *x };
            let along: Vec<f64> = inputs.iter().zip(by).filter(|(i, _)| i.arg == arg).map(one).collect();
            if along.is_empty() {
                continue;
            }
            found.0[arg] = match call.buffer(arg) {
                Some((_, elem, data, _)) => {
                    let mut bytes = vec![0; data.len()];
                    let places = bytes.chunks_exact_mut(elem.bytes());
                    places.zip(&along).for_each(|(place, x)| Num::F64(*x).encode(elem, place));
                    ArgTangent::Buffer(bytes)
                }
                None => to_data(call.params[arg], |i| Num::F64(along[i])).map_or(ArgTangent::Zero, ArgTangent::Value),
            };
        }
        found
    }
}

fn along(
    call: &Invocation,
    text: &str,
    i: usize,
    literal: &Literal,
    fail: &dyn Fn(String) -> Box<SyntaxError>,
) -> ParseResult<ArgTangent> {
    match (&call.args[i], call.activity(i), literal) {
        (_, ArgActivity::Const, _) => {
            Err(fail(format!("argument {i} is const, so it has no tangent")).help(those_that_move(call)))
        }
        (BoundArg::Value(_), _, Literal::Number(n)) => Ok(ArgTangent::Value(scalar(text, n, call.params[i])?)),
        (BoundArg::Value(_), _, Literal::List(list)) if call.params[i].is_vector() => {
            Ok(ArgTangent::Value(vector(text, list, call.params[i])?))
        }
        (BoundArg::Buffer { elem, data, .. }, _, Literal::List(list)) => {
            if !elem.is_float() {
                let message = format!("the buffer of argument {i} holds no floats, so it has no tangent");
                return Err(fail(message).help(those_that_move(call)));
            }
            let (_, bytes) = encode_list(text, list, Some(*elem))?;
            if bytes.len() != data.len() {
                let n = elem.bytes();
                let (is, want) = (bytes.len() / n, data.len() / n);
                return Err(fail(format!("the tangent of argument {i} has {is} elements, but the buffer has {want}")));
            }
            Ok(ArgTangent::Buffer(bytes))
        }
        (BoundArg::Buffer { .. }, ..) => {
            Err(fail(format!("argument {i} is a buffer: its tangent is a list, such as `{i}=[1.0, 0.0]`")))
        }
        _ => {
            let message = format!("a tangent of type {} is wanted for argument {i}", call.params[i]);
            Err(fail(message).help(format!("write one number, as in `{i}=1.0`")))
        }
    }
}

/// Which arguments have tangents, as help.
fn those_that_move(call: &Invocation) -> String {
    let moves = |i: &usize| match call.activity(*i) {
        ArgActivity::Const => false,
        ArgActivity::Active => true,
        ArgActivity::Duplicated => call.buffer(*i).is_some_and(|b| b.1.is_float()),
    };
    let all: Vec<_> = (0..call.args.len()).filter(moves).map(|i| i.to_string()).collect();
    match &all[..] {
        [] => "no argument of this call has one".to_owned(),
        [one] => format!("argument {one} has one"),
        _ => format!("arguments {} have one", all.join(", ")),
    }
}

/// Value and tangents once, in fresh memory.
///
/// # Errors
/// As of [`DerivedRule::tangent`].
pub fn tangents(rule: &DerivedRule, call: &Invocation, direction: &Direction) -> Result<Tangents, Error> {
    let mut memory = Memory::new(call)?;
    let given = direction.put(call, &mut memory);
    let (mut value, mut found) = (Vec::new(), Vec::new());
    // SAFETY: as in `run::gradient_in`.
    unsafe { rule.tangent(&memory.arguments(), &given, &mut value, &mut found) }?;
    undamaged(&memory)?;
    let results = found.iter().zip(&call.returns).map(|(t, ty)| t.as_ref().map(|t| from_data(t, *ty)));
    let of_buffers = (0..call.args.len())
        .map(|i| memory.shadow(i).filter(|b| b.elem.is_float()).map(|b| decode_all(b.elem, b.shadow.bytes())));
    Ok(Tangents {
        value: items(call, &value),
        buffers: contents(call, &memory),
        results: results.collect(),
        of_buffers: of_buffers.collect(),
    })
}
