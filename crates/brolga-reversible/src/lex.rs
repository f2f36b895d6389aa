//! Lexer: words of a text of the reversible language, with their places.
//!
//! **Question.** Where does each name, number and sign of a `.rev` file stand?
//!
//! **Answer.** One pass over the characters. A comment goes from `;` to the end of its line, with a
//! space before it where something else is: what other languages end a statement by would hide
//! the next one. The end of a line ends a statement, unless a bracket is open.
//!
//! **Errors.** A character that begins no word, a number that has no value, and a comment that may
//! be meant for another thing.
//!
//! **Cost.** Linear in the text, with a walk over the list of signs for each sign.

use crate::ast::SourceSpan;
use crate::error::{ErrorKind, RevError};

/// A word.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Token {
    Name(String),
    /// Without its sign: the least number stands for 2⁶³.
    Int(i64),
    Float(f64),
    Sign(&'static str),
    /// The end of a line.
    Line,
    End,
}

impl Token {
    /// For messages.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Name(n) => format!("`{n}`"),
            Self::Int(n) => format!("`{}`", n.unsigned_abs()),
            Self::Float(x) => format!("`{x}`"),
            Self::Sign(s) => format!("`{s}`"),
            Self::Line => "the end of the line".to_owned(),
            Self::End => "the end of the file".to_owned(),
        }
    }
}

/// Longer ones first.
const SIGNS: [&str; 36] = [
    "<<", ">>", "+=", "-=", "*=", "/=", "^=", "==", "!=", "<=", ">=", "..", "->", "(", ")", "[", "]", "{", "}", ",",
    ":", ".", "=", "+", "-", "*", "/", "%", "&", "|", "^", "<", ">", "~", "!", "@",
];

/// The words of a text.
///
/// # Errors
/// A character that begins none, a number that is none, a comment that may be meant for another
/// thing.
pub(crate) fn tokens(text: &str) -> Result<Vec<(Token, SourceSpan)>, RevError> {
    let mut out: Vec<(Token, SourceSpan)> = Vec::new();
    let mut depth = 0_i32;
    // Some editors put a mark before a text.
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    for (line, whole) in (1..).zip(text.lines()) {
        let code = whole.split(';').next().unwrap_or_default();
        if code.len() < whole.len() && code.ends_with(|c: char| !c.is_whitespace()) {
            let at = SourceSpan { line, column: code.len() as u32 + 1 };
            let e = RevError::new(ErrorKind::Syntax, at, "`;` begins a comment, and what stands in front of it ends");
            return Err(e.help("statements are lines, and an array is `[f64 x 3]`; put a space in front of a comment"));
        }
        let mut rest = code;
        while let Some(first) = rest.trim_start().chars().next() {
            rest = rest.trim_start();
            let at = SourceSpan { line, column: (code.len() - rest.len() + 1) as u32 };
            let (token, len) = if first.is_ascii_digit() {
                number(rest, at)?
            } else if first.is_alphabetic() || first == '_' {
                let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                (Token::Name(rest[..len].to_owned()), len)
            } else if let Some(sign) = SIGNS.iter().find(|s| rest.starts_with(**s)) {
                depth += match *sign {
                    "(" | "[" => 1,
                    ")" | "]" => -1,
                    _ => 0,
                };
                (Token::Sign(sign), sign.len())
            } else {
                let e = RevError::new(ErrorKind::Syntax, at, format!("`{first}` means nothing here"));
                return Err(e.help("a comment begins with `;`"));
            };
            out.push((token, at));
            rest = &rest[len..];
        }
        let ends = out.last().is_some_and(|t| t.0 != Token::Line);
        if depth <= 0 && ends {
            depth = 0;
            out.push((Token::Line, SourceSpan { line, column: code.trim_end().len() as u32 + 1 }));
        }
    }
    let last = SourceSpan { line: text.lines().count().max(1) as u32, column: 1 };
    out.push((Token::End, last));
    Ok(out)
}

fn number(rest: &str, at: SourceSpan) -> Result<(Token, usize), RevError> {
    let digits = |s: &str| s.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(s.len());
    let mut len = digits(rest);
    let mut is_float = false;
    let behind = |len: usize, i: usize| rest[len..].chars().nth(i);
    if behind(len, 0) == Some('.') && behind(len, 1).is_some_and(|c| c.is_ascii_digit()) {
        is_float = true;
        len += 1 + digits(&rest[len + 1..]);
    }
    if let Some('e' | 'E') = behind(len, 0) {
        let sign = usize::from(matches!(behind(len, 1), Some('+' | '-')));
        if behind(len, 1 + sign).is_some_and(|c| c.is_ascii_digit()) {
            is_float = true;
            len += 1 + sign + digits(&rest[len + 1 + sign..]);
        }
    }
    let text = rest[..len].replace('_', "");
    let token = if is_float {
        match text.parse::<f64>() {
            Ok(x) if x.is_finite() => Ok(Token::Float(x)),
            Ok(_) => Err("it is beyond the largest double, 1.8e308".to_owned()),
            Err(e) => Err(e.to_string()),
        }
    } else {
        // The least integer is this one with a sign, which the parser sees.
        match text.parse::<u64>() {
            Ok(n) if n <= 1 << 63 => Ok(Token::Int(n as i64)),
            Ok(_) => Err("it has more than 64 bits".to_owned()),
            Err(e) => Err(e.to_string()),
        }
    };
    match token {
        Ok(token) => Ok((token, len)),
        Err(e) => {
            let e = RevError::new(ErrorKind::Syntax, at, format!("`{text}` is no number: {e}"));
            Err(e.help("numbers are `12`, `1.5`, `1e-3`; an integer has 64 bits with its sign"))
        }
    }
}
