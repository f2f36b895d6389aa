//! Cursor: a place in a line of text, and errors that point at one.
//!
//! **Question.** What comes next in a line, and where is it?
//!
//! **Answer.** A [`Cursor`] passes over white space, and reads tokens, words, numbers and counts.
//! What it reads has a [`Span`], so that a [`SyntaxError`] shows the text with carets below the
//! place.
//!
//! **Cost.** Each character is looked at a few times; nothing is copied but numbers, and the text
//! in an error.

use std::fmt;
use std::ops::Range;

use brolga::Diagnostic;

/// Byte range in the text that was parsed.
pub type Span = Range<usize>;

/// Something with the place where it was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpannedNode<T> {
    /// What was written.
    pub node: T,
    /// Where.
    pub span: Span,
}

/// A line that cannot be read, or does not fit the function it is about. Prints with a caret under
/// the place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    /// The whole text.
    pub text: String,
    /// The offending part.
    pub span: Span,
    /// What is wrong with it.
    pub message: String,
    /// What to write instead.
    pub help: Option<String>,
}

impl SyntaxError {
    /// An error about `span` of `text`.
    pub fn new(text: &str, span: Span, message: impl Into<String>) -> Box<Self> {
        Box::new(Self { text: text.to_owned(), span, message: message.into(), help: None })
    }

    /// Say what to write instead.
    pub fn help(mut self: Box<Self>, help: impl Into<String>) -> Box<Self> {
        self.help = Some(help.into());
        self
    }

    /// The text with a line of carets below the place; of a long text, what lies around it.
    pub fn excerpt(&self) -> String {
        const MOST: usize = 400;
        let (mut from, mut to) = (0, self.text.len());
        if to > MOST {
            from = self.text.floor_char_boundary(self.span.start.saturating_sub(MOST / 4));
            to = self.text.floor_char_boundary(from + MOST);
        }
        let (start, end) = (self.span.start.min(to), self.span.end.min(to));
        let before = self.text[from..start].chars().count();
        let width = self.text[start..end].chars().count().max(1);
        format!("{}\n{}{}", &self.text[from..to], " ".repeat(before), "^".repeat(width))
    }

    /// As a diagnostic about a line of a file.
    pub fn diagnostic(&self, code: &'static str, line: Option<u32>) -> Diagnostic {
        let mut d = Diagnostic::new(code, self.message.clone()).note(self.excerpt());
        d.line = line;
        d.help = self.help.clone();
        d
    }
}

impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        for line in self.excerpt().lines() {
            write!(f, "\n    {line}")?;
        }
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for SyntaxError {}

/// Result of a parser. Errors are boxed: they are rare, and large compared with what is parsed.
pub type ParseResult<T> = Result<T, Box<SyntaxError>>;

/// A reading position in a text.
pub struct Cursor<'a> {
    text: &'a str,
    pos: usize,
}

impl<'a> Cursor<'a> {
    /// At the start of `text`.
    pub fn new(text: &'a str) -> Self {
        Self { text, pos: 0 }
    }

    /// The whole text.
    pub fn text(&self) -> &'a str {
        self.text
    }

    /// Byte offset of the next character that is not white space.
    pub fn at(&mut self) -> usize {
        let rest = &self.text[self.pos..];
        self.pos += rest.len() - rest.trim_start().len();
        self.pos
    }

    /// What is left, without leading white space.
    pub fn rest(&mut self) -> &'a str {
        let at = self.at();
        &self.text[at..]
    }

    /// Whether nothing is left.
    pub fn is_done(&mut self) -> bool {
        self.rest().is_empty()
    }

    /// The next character.
    pub fn peek(&mut self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Consume `token` if it comes next.
    pub fn eat(&mut self, token: &str) -> bool {
        let found = self.rest().starts_with(token);
        if found {
            self.pos += token.len();
        }
        found
    }

    /// Consume `word` if it comes next and ends there.
    pub fn eat_word(&mut self, word: &str) -> bool {
        let rest = self.rest();
        let found = rest.strip_prefix(word).is_some_and(|r| !r.starts_with(is_word_char));
        if found {
            self.pos += word.len();
        }
        found
    }

    /// Consume `token` or complain.
    pub fn expect(&mut self, token: &str) -> ParseResult<()> {
        if self.eat(token) { Ok(()) } else { Err(self.unexpected(&format!("`{token}`"))) }
    }

    /// The longest run of characters that satisfy `accept`, possibly empty.
    pub fn take_while(&mut self, mut accept: impl FnMut(char) -> bool) -> SpannedNode<&'a str> {
        let start = self.at();
        let rest = &self.text[start..];
        let len = rest.find(|c| !accept(c)).unwrap_or(rest.len());
        self.pos = start + len;
        SpannedNode { node: &rest[..len], span: start..start + len }
    }

    /// A word of letters, digits and underscores, possibly empty.
    pub fn word(&mut self) -> SpannedNode<&'a str> {
        self.take_while(is_word_char)
    }

    /// A number as written: sign, digits, radix point, exponent, or `inf`, `nan:0x1`, `true`.
    pub fn number(&mut self) -> ParseResult<SpannedNode<String>> {
        let start = self.at();
        let rest = &self.text[start..];
        let body = rest.strip_prefix(['+', '-']).unwrap_or(rest);
        let hex = body.starts_with("0x") || body.starts_with("0X");
        let sign = rest.len() - body.len();
        let mut previous = ' ';
        let len = body
            .find(|c: char| {
                let exponent = matches!(previous, 'p' | 'P') || (!hex && matches!(previous, 'e' | 'E'));
                let part = is_word_char(c) || c == '.' || c == ':' || (exponent && matches!(c, '+' | '-'));
                previous = c;
                !part
            })
            .unwrap_or(body.len());
        if len == 0 {
            return Err(self.unexpected("a number"));
        }
        self.pos = start + sign + len;
        Ok(SpannedNode { node: rest[..sign + len].to_owned(), span: start..self.pos })
    }

    /// An unsigned count in decimal.
    pub fn count(&mut self) -> ParseResult<SpannedNode<usize>> {
        let digits = self.take_while(|c| c.is_ascii_digit());
        match digits.node.parse() {
            Ok(node) => Ok(SpannedNode { node, span: digits.span }),
            Err(_) => Err(self.error(digits.span, "expected a whole number")),
        }
    }

    /// An error about `span`.
    pub fn error(&self, span: Span, message: impl Into<String>) -> Box<SyntaxError> {
        SyntaxError::new(self.text, span, message)
    }

    /// An error that something else was expected here.
    pub fn unexpected(&mut self, wanted: &str) -> Box<SyntaxError> {
        let start = self.at();
        let word = self.word();
        match self.text[start..].chars().next() {
            None => self.error(start..start, format!("expected {wanted}, but the text ends here")),
            Some(c) if word.node.is_empty() => {
                self.error(start..start + c.len_utf8(), format!("expected {wanted}, found `{c}`"))
            }
            Some(_) => self.error(word.span.clone(), format!("expected {wanted}, found `{}`", word.node)),
        }
    }
}

/// Characters of names and keywords.
fn is_word_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}
