//! Many programs, one after the other: workers, statistics, finds.
//!
//! A worker process judges programs by number and prints a line before and after each. If it dies,
//! the program that it was at is a find, and a new worker goes on after it.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use crate::outside::{PATIENCE, ProcessFiles, Report, manner_of_death};
use crate::reduce::reduce;
use crate::text_of;

/// Programs that one worker judges before it is replaced.
const BATCH: u64 = 200;

/// What a campaign's programs are.
pub trait Target {
    /// Arguments of a process that judges so many programs from this number on.
    fn worker(&self, first: u64, count: u64) -> Vec<String>;

    /// Whether a find most likely is one that has been kept.
    fn known(&self, _number: u64, _class: &str) -> bool {
        false
    }

    /// Make a failing program small and write it down.
    fn keep(&self, outside: &ProcessFiles, number: u64, class: &str, finds: &Path) -> Result<PathBuf>;
}

/// Programs in CLIF.
pub struct Programs {
    /// Whether second derivatives are asked for.
    pub second: bool,
}

impl Target for Programs {
    fn worker(&self, first: u64, count: u64) -> Vec<String> {
        let mut args = vec!["--worker".to_owned(), first.to_string(), "--count".to_owned(), count.to_string()];
        args.extend(self.second.then(|| "--second".to_owned()));
        args
    }

    fn keep(&self, outside: &ProcessFiles, number: u64, class: &str, finds: &Path) -> Result<PathBuf> {
        let small = reduce(outside, &text_of(number, self.second), class)?;
        let said = outside.judge(&small, "clif")?.line;
        let slug: String = class.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
        let path = finds.join(format!("{}-{number}.clif", slug.trim_matches('-')));
        std::fs::create_dir_all(finds).with_context(|| format!("creating {}", finds.display()))?;
        let text = format!("{small}; program {number}: {}\n", said.replace('\t', ": "));
        std::fs::write(&path, text).with_context(|| format!("writing {}", path.display()))?;
        Ok(path)
    }
}

/// What a campaign is to do.
#[derive(Clone, Debug)]
pub struct CampaignPlan {
    /// How long.
    pub time: Duration,
    /// The number of the first program.
    pub first: u64,
    /// Where finds are kept.
    pub finds: PathBuf,
    /// How many finds of one class are made small and kept.
    pub per_class: usize,
    /// Where to write the table of statistics, over and over.
    pub statistics: Option<PathBuf>,
    /// Whether a refusal is a find too. Each is right about what it says, but it may be more than
    /// needs to be refused.
    pub refusals: bool,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Statistics {
    /// Seconds since the beginning.
    pub seconds: u64,
    /// Programs judged.
    pub programs: usize,
    /// Programs by verdict, refusals by code.
    pub verdicts: BTreeMap<String, usize>,
    /// Numbers of failing programs by class.
    pub wrong: BTreeMap<String, Vec<u64>>,
}

impl Statistics {
    fn count(&mut self, seed: u64, report: &Report) {
        self.programs += 1;
        if let Some(class) = &report.class {
            self.wrong.entry(class.clone()).or_default().push(seed);
            *self.verdicts.entry("wrong".to_owned()).or_default() += 1;
        } else {
            let words: Vec<_> = report.line.split_whitespace().take(2).collect();
            let name = if words[0] == "unjudged" { words[0].to_owned() } else { words.join(" ") };
            *self.verdicts.entry(name).or_default() += 1;
        }
    }

    /// The table that is printed at the end.
    pub fn table(&self) -> String {
        let percent = |n: usize| 100.0 * n as f64 / self.programs.max(1) as f64;
        let mut out = format!("{} programs in {} minutes\n", self.programs, self.seconds / 60);
        for (verdict, n) in &self.verdicts {
            out += &format!("  {verdict:<24} {n:>7} {:>5.1} %\n", percent(*n));
        }
        for (class, seeds) in &self.wrong {
            let shown: Vec<_> = seeds.iter().take(5).map(u64::to_string).collect();
            out += &format!("  {:>5} × {class}: {}\n", seeds.len(), shown.join(" "));
        }
        out
    }
}

/// Run a campaign.
pub fn run(target: &dyn Target, plan: &CampaignPlan) -> Result<Statistics> {
    let outside = ProcessFiles::new()?;
    let start = Instant::now();
    let end = start + plan.time;
    let mut statistics = Statistics::default();
    let mut kept: BTreeMap<String, usize> = BTreeMap::new();
    let mut next = plan.first;
    while Instant::now() < end {
        for (seed, report) in batch(target, &outside, &mut next, end)? {
            statistics.count(seed, &report);
            let class = report.key();
            if report.class.is_none() && !(plan.refusals && class.starts_with("refused")) {
                continue;
            }
            println!("{seed}: {}", report.line);
            let n = kept.entry(class.to_owned()).or_default();
            if *n < plan.per_class && Instant::now() < end && !target.known(seed, class) {
                *n += 1;
                let path = target.keep(&outside, seed, class, &plan.finds)?;
                println!("  reduced to {}", path.display());
            }
        }
        statistics.seconds = start.elapsed().as_secs();
        if let Some(path) = &plan.statistics {
            std::fs::write(path, statistics.table()).with_context(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(statistics)
}

/// Verdicts of one worker's life. `next` moves after the last program that it was at.
fn batch(target: &dyn Target, outside: &ProcessFiles, next: &mut u64, end: Instant) -> Result<Vec<(u64, Report)>> {
    let mut child = outside.spawn(&target.worker(*next, BATCH))?;
    let output = child.stdout.take().context("the worker's output")?;
    let (sender, lines) = channel();
    let reader = std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let mut found = Vec::new();
    let finished = follow(&lines, &mut found, next, end);
    if finished != EndReason::Silent {
        // It hangs, or the time is up. A process that is gone cannot be killed, which is fine.
        let _ = child.kill();
    }
    let status = child.wait()?;
    // The reader ends with its pipe.
    let _ = reader.join();
    let died = finished == EndReason::Silent && !status.success();
    if died || finished == EndReason::Hang {
        let how = if died { manner_of_death(status) } else { "hang".to_owned() };
        found.push((*next, Report::death(&how)));
        *next += 1;
    }
    Ok(found)
}

/// Why a worker was listened to no longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndReason {
    /// Its output ended.
    Silent,
    /// It said nothing for too long.
    Hang,
    /// The campaign's time is up.
    Time,
}

fn follow(lines: &Receiver<String>, found: &mut Vec<(u64, Report)>, next: &mut u64, end: Instant) -> EndReason {
    loop {
        match lines.recv_timeout(PATIENCE) {
            Ok(line) => {
                if let Some((seed, verdict)) = line.split_once(' ')
                    && let Ok(seed) = seed.parse()
                {
                    found.push((seed, Report::parse(verdict)));
                    *next = seed + 1;
                }
                if Instant::now() > end {
                    return EndReason::Time;
                }
            }
            Err(RecvTimeoutError::Timeout) => return EndReason::Hang,
            Err(RecvTimeoutError::Disconnected) => return EndReason::Silent,
        }
    }
}
