//! Runs workers, survives their crashes, and counts.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use super::edits::EditKind;
use super::equivalent::{ENTRIES, Excuse, excuse};
use super::worker::MutantTask;
use super::{MODES, Subject, read};
use crate::cases;
use crate::checks::requests;

/// How long one mutant may take. Honest cases take milliseconds.
const PATIENCE: Duration = Duration::from_secs(5);

/// How long a derivative may take as it is, all its checks together, on a busy machine.
const MUCH_PATIENCE: Duration = Duration::from_secs(60);

/// Which mutants to try.
#[derive(Clone, Debug)]
pub struct BatchPlan {
    /// Files whose name contains one of these.
    pub files: Vec<String>,
    /// At most about so many mutants of each derivative; spread evenly over it.
    pub per_subject: usize,
}

/// A mutant that no check noticed.
#[derive(Clone, Debug)]
pub struct Survivor {
    /// `cases/x.clif #0 leave`.
    pub place: String,
    /// The kind of mistake and the instruction.
    pub what: String,
    /// Why that is no wonder, if there is an argument.
    pub excuse: Option<&'static Excuse>,
}

/// Counts of one kind of mistake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many were tried.
    pub tried: usize,
    /// How many were noticed.
    pub killed: usize,
    /// How many survived and are argued to be equivalent.
    pub excused: usize,
}

/// What came out.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// By kind of mistake.
    pub kinds: BTreeMap<&'static str, Tally>,
    /// How many each check noticed first.
    pub checks: BTreeMap<String, usize>,
    /// Those that no check noticed.
    pub survivors: Vec<Survivor>,
    /// Derivatives whose own checks fail before anything is changed.
    pub broken: Vec<String>,
    /// Derivatives looked at.
    pub subjects: usize,
}

impl Report {
    /// Whether every mutant was noticed or is argued to be equivalent.
    pub fn is_ok(&self) -> bool {
        self.broken.is_empty() && self.survivors.iter().all(|s| s.excuse.is_some())
    }

    /// Excuses for the files that were looked at, and for no survivor: they are not needed any
    /// more.
    pub fn idle(&self) -> impl Iterator<Item = &'static Excuse> + '_ {
        let used = |e: &Excuse| self.survivors.iter().any(|s| s.excuse.is_some_and(|u| std::ptr::eq(u, e)));
        ENTRIES.iter().filter(move |e| !used(e))
    }

    /// The survivors that are excused.
    pub fn excused(&self) -> String {
        let lines = self.survivors.iter().filter_map(|s| Some((s, s.excuse?)));
        lines.map(|(s, e)| format!("equivalent {}: {}\n    {}\n", s.place, s.what, e.why)).collect()
    }

    /// As tables.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let mut line = |cells: [String; 5]| {
            let [a, b, c, d, e] = cells;
            writeln!(out, "{a:<16}{b:>8}{c:>8}{d:>12}{e:>10}").expect("writing to a string does not fail");
        };
        line(["mistake", "tried", "killed", "equivalent", "survived"].map(str::to_owned));
        let mut all = Tally::default();
        for kind in EditKind::ALL {
            let t = self.kinds.get(kind.name()).copied().unwrap_or_default();
            all = Tally { tried: all.tried + t.tried, killed: all.killed + t.killed, excused: all.excused + t.excused };
            line(row(kind.name(), t));
        }
        line(row("all", all));
        let counted = all.tried - all.excused;
        let rate = if counted == 0 { 100.0 } else { 100.0 * all.killed as f64 / counted as f64 };
        let by: Vec<String> = self.checks.iter().map(|(check, n)| format!("{check} {n}")).collect();
        out += &format!("\n{rate:.2} % of those that differ, in {} derivatives; first noticed by: ", self.subjects);
        out += &by.join(", ");
        out.push('\n');
        for b in &self.broken {
            out += &format!("BROKEN as it stands: {b}\n");
        }
        for s in self.survivors.iter().filter(|s| s.excuse.is_none()) {
            out += &format!("SURVIVED {}: {}\n", s.place, s.what);
        }
        out
    }
}

fn row(name: &str, t: Tally) -> [String; 5] {
    let survived = t.tried - t.killed - t.excused;
    [name.to_owned(), t.tried.to_string(), t.killed.to_string(), t.excused.to_string(), survived.to_string()]
}

/// Run all mutants of a plan. `worker` makes the command that runs a task.
pub fn run(root: &Path, plan: &BatchPlan, worker: impl Fn(&MutantTask) -> Command) -> std::io::Result<Report> {
    let mut report = Report::default();
    for path in cases::files(root) {
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        if !plan.files.iter().any(|f| name.contains(f)) {
            continue;
        }
        let Some(file) = read(root, &name) else { continue };
        for request in 0..requests(&file).len() {
            for (memory, mode) in MODES {
                let Some(subject) = Subject::new(&file, request, memory) else { continue };
                let n = subject.mutants.len();
                let stride = n.div_ceil(plan.per_subject.max(1)).max(1);
                report.subjects += 1;
                let task = MutantTask { file: name.clone(), request, mode, first: 0, stride };
                drive(task, n, &worker, &mut report)?;
            }
        }
    }
    Ok(report)
}

/// Run one subject to its end, over as many workers as crash on the way.
fn drive(
    mut task: MutantTask,
    n: usize,
    worker: impl Fn(&MutantTask) -> Command,
    report: &mut Report,
) -> std::io::Result<()> {
    let place = format!("{} #{} {}", task.file, task.request, task.mode);
    loop {
        let (mut child, events) = start(worker(&task))?;
        let mut trying: Option<(usize, &'static str)> = None;
        let ended = loop {
            let patience = if trying.is_some() { PATIENCE } else { MUCH_PATIENCE };
            let line = match events.recv_timeout(patience) {
                Ok(line) => line,
                Err(RecvTimeoutError::Timeout) => break "timeout",
                Err(RecvTimeoutError::Disconnected) => break "crash",
            };
            let words: Vec<&str> = line.splitn(4, ' ').collect();
            match words[..] {
                ["try", "unchanged"] => trying = None,
                ["try", number, kind] => trying = number.parse().ok().zip(known(kind)),
                ["killed", _, check] => {
                    if let Some((_, kind)) = trying.take() {
                        report.killed(kind, check);
                    }
                }
                ["survived", _, kind, text] => {
                    trying = None;
                    let excuse = excuse(&task.file, kind, text);
                    let tally = report.kinds.entry(known(kind).unwrap_or("other")).or_default();
                    tally.tried += 1;
                    tally.excused += usize::from(excuse.is_some());
                    report.survivors.push(Survivor { place: place.clone(), what: format!("{kind}: {text}"), excuse });
                }
                ["broken", ref why @ ..] => {
                    report.broken.push(format!("{place}: {}", why.join(" ")));
                    break "done";
                }
                ["done"] | ["none"] => break "done",
                // Whatever else generated code may print.
                _ => {}
            }
        };
        // A worker that is stuck would stay for ever; one that is done is gone already.
        let _ = child.kill();
        child.wait()?;
        if ended == "done" {
            return Ok(());
        }
        let Some((number, kind)) = trying else {
            report.broken.push(format!("{place}: {ended}"));
            return Ok(());
        };
        report.killed(kind, ended);
        task.first = number + task.stride;
        if task.first >= n {
            return Ok(());
        }
    }
}

impl Report {
    fn killed(&mut self, kind: &'static str, check: &str) {
        let tally = self.kinds.entry(kind).or_default();
        tally.tried += 1;
        tally.killed += 1;
        *self.checks.entry(check.to_owned()).or_default() += 1;
    }
}

fn known(kind: &str) -> Option<&'static str> {
    EditKind::ALL.iter().map(|k| k.name()).find(|k| *k == kind)
}

fn start(mut command: Command) -> std::io::Result<(Child, Receiver<String>)> {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let (send, events) = channel();
    let stdout = child.stdout.take();
    std::thread::spawn(move || {
        for line in stdout.into_iter().flat_map(|out| BufReader::new(out).lines()).map_while(Result::ok) {
            if send.send(line).is_err() {
                return;
            }
        }
    });
    Ok((child, events))
}
