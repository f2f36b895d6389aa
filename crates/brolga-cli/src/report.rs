//! Report: failures on the terminal, with the line of the file that they are about.
//!
//! **Question.** How does a user see what is wrong, and where?
//!
//! **Answer.** [`print()`] shows a [`Failure`] on the standard error stream: of diagnostics and
//! traps the line that is meant with its neighbours, and what to underline in it. A note that
//! repeats the line with carets below only says where to point. Text goes to the standard output by
//! [`show`], failures in JSON by [`told`], and [`Progress`] says on a terminal how far long work
//! is.
//!
//! **Errors.** A reader that stops early (`| head`) is no failure.
//!
//! **Cost.** The file is read once more for its lines. Of a long line a part is shown.

use std::io::{ErrorKind, IsTerminal, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};
use brolga::{Diagnostic, Diagnostics, Error, Trap};
use brolga_driver::reversible::is_reversible;
use brolga_driver::wasm::{calls_of, is_module};

use crate::failure::{Failure, failure_json};

/// Lines shown around the one that is meant.
const CONTEXT: usize = 1;

/// Print a failure on the standard error stream.
pub fn print(failure: &Failure, file: Option<&Path>) {
    // Whatever cannot be read is shown without excerpts; that it cannot be read has been reported
    // by then.
    let about = file.map(|path| of_what(failure, path));
    let source = about.and_then(|path| Some((path.display().to_string(), std::fs::read_to_string(path).ok()?)));
    let shown = match failure {
        Failure::Usage(message) => format!("error: {message}\n\nFor more information, try '--help'."),
        Failure::Problems(problems) => diagnostics(problems, source.as_ref()),
        Failure::Run(what, Error::Diagnostics(problems)) => {
            let races = problems.0.iter().all(|d| d.code == "AD0194");
            let all = if races { format!("tasks of {what} race") } else { format!("cannot differentiate {what}") };
            format!("{}\nerror: {all}", diagnostics(problems, source.as_ref()))
        }
        Failure::Run(what, Error::Trap(t)) => format!("{}\nerror: {what} did not finish", trap(t, source.as_ref())),
        Failure::Run(what, error) => format!("error: {what}: {error}"),
        Failure::Mismatch(message) | Failure::Oracle(message) | Failure::Other(message) => format!("error: {message}"),
    };
    complain(&shown);
}

/// The file whose lines a failure counts: directives of a module stand beside it.
fn of_what(failure: &Failure, path: &Path) -> PathBuf {
    let directives = matches!(failure, Failure::Problems(all) if all.0.iter().all(|d| d.code == "AD0008"));
    let beside = (directives && is_module(path)).then(|| calls_of(path)).flatten();
    beside.unwrap_or_else(|| path.to_owned())
}

/// Print a line on the standard error stream, without its colours where they are not wanted. That
/// there may be no reader is no failure.
pub fn complain(line: &str) {
    let _ = writeln!(anstream::stderr(), "{line}");
}

/// Print on the standard output. The reader may stop early (`| head`); then there is nothing left
/// to do.
pub fn show(text: &str) {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Ok(()) => {}
        Err(e) if e.kind() == ErrorKind::BrokenPipe => std::process::exit(0),
        Err(e) => {
            let failure = Failure::Other(format!("the output cannot be written: {e}"));
            print(&failure, None);
            std::process::exit(failure.status().into());
        }
    }
}

/// A failure as JSON too, if that is asked for.
pub fn told(json: bool, work: impl FnOnce() -> Result<(), Failure>) -> Result<(), Failure> {
    let result = work();
    if json && let Err(failure) = &result {
        show(&format!("{}\n", failure_json(failure)));
    }
    result
}

/// How far long work is, on a terminal, once it has taken a while.
pub struct Progress {
    what: String,
    told: Option<Instant>,
    start: Instant,
}

impl Progress {
    /// Until something is told, and between two times.
    const PAUSE: Duration = Duration::from_millis(500);

    /// Of work that begins.
    pub fn new(what: String) -> Self {
        Self { what, told: None, start: Instant::now() }
    }

    /// So many steps are done, of so many.
    pub fn at(&mut self, done: usize, of: usize) {
        let mut err = std::io::stderr();
        if self.told.unwrap_or(self.start).elapsed() >= Self::PAUSE && err.is_terminal() {
            self.told = Some(Instant::now());
            let _ = write!(err, "\r{}: {done} of {of}", self.what);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.told.is_some() {
            let _ = write!(std::io::stderr(), "\r{:width$}\r", "", width = self.what.chars().count() + 24);
        }
    }
}

type SourceText = (String, String);

fn diagnostics(problems: &Diagnostics, source: Option<&SourceText>) -> String {
    problems.0.iter().map(|d| diagnostic(d, source)).collect::<Vec<_>>().join("\n\n")
}

fn diagnostic(d: &Diagnostic, source: Option<&SourceText>) -> String {
    let place = match source {
        // What a reversible function is lowered to has its name in front.
        Some((name, _)) if is_reversible(name) && !d.function.is_empty() => {
            format!("in `{}`", d.function.split("__").next().unwrap_or_default())
        }
        _ => place(&d.function, d.block.map(|b| b.to_string()), d.inst.map(|i| i.to_string())),
    };
    let excerpt = source.zip(d.line).and_then(|((name, text), line)| Excerpt::new(name, text, line));
    let Some(mut excerpt) = excerpt else { return d.to_string() };
    let mut notes = Vec::new();
    for note in &d.notes {
        // A note that repeats the line with carets below only says where to point.
        match caret_range(note, excerpt.line_text()) {
            Some(range) => excerpt.span = range,
            None => notes.push(note.as_str()),
        }
    }
    let mut group = excerpt.group(Level::ERROR.primary_title(d.message.as_str()).id(d.code), &place);
    for note in notes {
        group = group.element(Level::NOTE.message(note));
    }
    if let Some(help) = &d.help {
        group = group.element(Level::HELP.message(help.as_str()));
    }
    Renderer::styled().render(&[group]).to_string()
}

fn trap(t: &Trap, source: Option<&SourceText>) -> String {
    // A reversible function is known by the user's name, not by that of what it was lowered to.
    let source_name = source.filter(|s| is_reversible(&s.0)).map(|_| t.source_name.as_deref().unwrap_or(&t.function));
    let place = match source_name {
        Some(name) => format!("in `{name}`"),
        None => place(&t.function, t.block.map(|b| b.to_string()), t.inst.map(|i| i.to_string())),
    };
    let excerpt = source.zip(t.line).and_then(|((name, text), line)| Excerpt::new(name, text, line));
    let Some(excerpt) = excerpt else { return t.to_string() };
    let phase = if t.phase == "forward" { "forward pass" } else { t.phase };
    let title = format!("trap {} in the {phase}: {}", t.code, t.message);
    let group = excerpt.group(Level::ERROR.primary_title(title.as_str()), &place);
    let notes = t.notes().filter(|_| source_name.is_none());
    let group = notes.fold(group, |group, note| group.element(Level::NOTE.message(note)));
    Renderer::styled().render(&[group]).to_string()
}

fn place(function: &str, block: Option<String>, inst: Option<String>) -> String {
    let function = (!function.is_empty()).then(|| format!("%{function}"));
    function.into_iter().chain(block).chain(inst).collect::<Vec<_>>().join(", ")
}

/// A line of a file with its neighbours.
struct Excerpt<'a> {
    name: &'a str,
    text: &'a str,
    first_line: usize,
    /// The line that is meant, in `text`.
    line: Range<usize>,
    /// What to underline, in the line.
    span: Range<usize>,
}

impl<'a> Excerpt<'a> {
    fn new(name: &'a str, text: &'a str, line: u32) -> Option<Self> {
        let mut starts = vec![0];
        starts.extend(text.match_indices('\n').map(|(i, _)| i + 1));
        let index = (line as usize).checked_sub(1).filter(|i| *i < starts.len())?;
        let end_of = |i: usize| starts.get(i + 1).map_or(text.len(), |next| next - 1);
        let first = index.saturating_sub(CONTEXT);
        let base = starts[first];
        let excerpt = &text[base..end_of((index + CONTEXT).min(starts.len() - 1)).max(base)];
        let full_line = text[starts[index]..end_of(index).max(starts[index])].trim_end();
        let indent = full_line.len() - full_line.trim_start().len();
        let code_end = full_line.split(" ;").next().map_or(full_line.len(), |code| code.trim_end().len()).max(indent);
        Some(Self {
            name,
            text: excerpt,
            first_line: first + 1,
            line: starts[index] - base..starts[index] - base + full_line.len(),
            span: indent..code_end,
        })
    }

    fn line_text(&self) -> &'a str {
        &self.text[self.line.clone()]
    }

    fn group<'b>(&'b self, title: annotate_snippets::Title<'b>, place: &'b str) -> Group<'b> {
        let (mut source, mut mark) = (String::new(), 0..0);
        let mut at = 0;
        for line in self.text.split_inclusive('\n') {
            let ours = at == self.line.start;
            at += line.len();
            let text = line.trim_end_matches('\n');
            let span = if ours { self.span.clone() } else { 0..0 };
            let shown = window(text, &span);
            if ours {
                let inside = |i: usize| source.len() + i.clamp(shown.start, shown.end) - shown.start;
                mark = inside(span.start)..inside(span.end);
            }
            source += &text[shown];
            source += &line[text.len()..];
        }
        let mark = AnnotationKind::Primary.span(mark);
        let mark = if place.is_empty() { mark } else { mark.label(place) };
        title.element(Snippet::source(source).path(self.name).line_start(self.first_line).annotation(mark))
    }
}

/// The most bytes of a line that are shown.
const WIDTH: usize = 400;

/// The part of a line that is shown: all of it, or what lies around the start of `span`.
fn window(line: &str, span: &Range<usize>) -> Range<usize> {
    if line.len() <= WIDTH {
        return 0..line.len();
    }
    let from = line.floor_char_boundary(span.start.saturating_sub(WIDTH / 4));
    from..line.floor_char_boundary(from + WIDTH)
}

/// The range of `line` below which `note` draws carets.
fn caret_range(note: &str, line: &str) -> Option<Range<usize>> {
    let (quoted, carets) = note.split_once('\n')?;
    let width = carets.trim_start_matches(' ').len();
    if width == 0 || carets.contains(|c| c != ' ' && c != '^') {
        return None;
    }
    let from = line.find(quoted)?;
    let skip = carets.len() - width;
    let offset = |n: usize| quoted.char_indices().nth(n).map_or(quoted.len(), |(i, _)| i);
    let end = offset(skip + width).max(offset(skip));
    Some(from + offset(skip)..from + end)
}

#[cfg(test)]
mod tests {
    use super::{Excerpt, caret_range};

    #[test]
    fn carets_become_ranges() {
        let line = "; grad: %f(é, x) == [1]";
        let note = "%f(é, x) == [1]\n      ^";
        let range = caret_range(note, line).unwrap();
        assert_eq!(&line[range], "x");
        assert_eq!(caret_range("a note\nin two lines", line), None);
    }

    #[test]
    fn long_lines_are_cut_around_what_is_meant() {
        use super::{WIDTH, window};
        assert_eq!(window("é short", &(1..2)), 0..8);
        let long = "é".repeat(100_000_000);
        assert_eq!(window(&long, &(0..long.len())), 0..WIDTH);
        let middle = window(&long, &(50_001..50_004));
        assert!(middle.contains(&50_001) && middle.len() <= WIDTH && long.is_char_boundary(middle.start));
        let excerpt = Excerpt::new("f", &long, 1).unwrap();
        let group = excerpt.group(super::Level::ERROR.primary_title("wrong"), "");
        assert!(super::Renderer::plain().render(&[group]).to_string().len() < 10 * WIDTH);
    }

    #[test]
    fn excerpts_at_the_edges_of_a_file() {
        let text = "one\n  two ; comment\nthree";
        let shown = |line| Excerpt::new("f", text, line).map(|e| (e.text, e.line_text()[e.span.clone()].to_owned()));
        assert_eq!(shown(1), Some(("one\n  two ; comment", "one".to_owned())));
        assert_eq!(shown(2), Some((text, "two".to_owned())));
        assert_eq!(shown(3).unwrap().1, "three");
        assert!(shown(0).is_none() && shown(4).is_none());
        assert!(Excerpt::new("f", "", 1).is_some());
    }
}
