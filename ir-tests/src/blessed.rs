//! Dumps that are kept beside their file and compared with every run.
//!
//! `pow.clif` keeps its dumps in `pow.stages.txt`: the stages that its `; bless:` line lists, for
//! every derivative that its gradient lines ask for. With `BROLGA_BLESS=1` the file is rewritten
//! instead of compared; `cargo xtask bless` does that and shows what changed.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use brolga::{Options, Stage};
use brolga_driver::{Directive, File};
use brolga_ir::panics;
use similar::TextDiff;

use crate::Complaints;
use crate::checks::requests;

/// Whether the file has dumps to compare.
pub fn is_wanted(file: &File, path: &Path) -> bool {
    !stages(file).is_empty() || beside(path).exists()
}

/// Whether this run is to bless what it finds.
pub fn is_blessing() -> bool {
    std::env::var_os("BROLGA_BLESS").is_some_and(|v| v == "1")
}

/// Compare the dumps with those that were blessed, or bless them.
pub fn check(file: &File, path: &Path, bless: bool) -> Result<(), Complaints> {
    let stages = stages(file);
    let blessed_path = beside(path);
    if stages.is_empty() {
        return Err(vec![format!("{} exists, but no `; bless:` line asks for it", blessed_path.display())]);
    }
    let actual = render(file, path, &stages).map_err(|e| vec![e])?;
    if bless {
        return std::fs::write(&blessed_path, actual).map_err(|e| vec![format!("{}: {e}", blessed_path.display())]);
    }
    let expected = std::fs::read_to_string(&blessed_path).unwrap_or_default();
    if expected == actual {
        return Ok(());
    }
    let diff = TextDiff::from_lines(&expected, &actual);
    let diff = diff.unified_diff().context_radius(3).header("blessed", "now").to_string();
    Err(vec![format!("{} is out of date (`cargo xtask bless` rewrites it):\n{diff}", blessed_path.display())])
}

fn stages(file: &File) -> Vec<Stage> {
    let lists = file.directives.iter().filter_map(|d| if let Directive::Bless(s) = d { Some(s) } else { None });
    Stage::ALL.into_iter().filter(|s| lists.clone().any(|l| l.contains(s))).collect()
}

fn beside(path: &Path) -> PathBuf {
    path.with_extension("stages.txt")
}

fn render(file: &File, path: &Path, stages: &[Stage]) -> Result<String, String> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let mut out = format!("Stages of {name}. Rewritten by `cargo xtask bless`.\n");
    for request in requests(file) {
        let dumps = panics::catch(|| brolga::dumps(&file.program, &request.request, &Options::full(), stages))
            .map_err(|panic| format!("dump: panic: {panic}"))?
            .map_err(|e| format!("dump: {e}"))?;
        for (stage, dump) in stages.iter().zip(dumps) {
            write!(out, "\n==== {} {} ====\n\n{}\n", request.name, stage.name(), dump.trim_end())
                .map_err(|e| e.to_string())?;
        }
    }
    Ok(out)
}
