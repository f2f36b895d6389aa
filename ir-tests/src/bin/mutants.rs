//! Tries mutants of emitted pullbacks: `mutants [FILTER [PER_SUBJECT]]`, by default all of the
//! selection. Exit status 1 if one survives without an excuse, or if an excuse is for none that
//! survives.
//!
//! `mutants --worker …` is the process in which they run.

use std::path::Path;
use std::process::{Command, ExitCode};

use ir_tests::mutants::batch::{self, BatchPlan};
use ir_tests::mutants::equivalent::SELECTION;
use ir_tests::mutants::worker::{self, MutantTask};

fn main() -> ExitCode {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let Some((first, rest)) = args.split_first()
        && first == "--worker"
    {
        let ended = MutantTask::from_args(rest).map(|task| worker::run(root, &task));
        return if matches!(ended, Some(Ok(()))) { ExitCode::SUCCESS } else { ExitCode::from(2) };
    }
    let files = args.first().map_or_else(|| SELECTION.map(str::to_owned).to_vec(), |f| vec![f.clone()]);
    let per_subject = args.get(1).and_then(|n| n.parse().ok()).unwrap_or(usize::MAX);
    let myself = std::env::current_exe().unwrap_or_else(|_| "mutants".into());
    let worker = |task: &MutantTask| {
        let mut command = Command::new(&myself);
        command.arg("--worker").args(task.to_args());
        command
    };
    match batch::run(root, &BatchPlan { files, per_subject }, worker) {
        Ok(report) => {
            print!("{}", report.text());
            let all = args.is_empty();
            if !all {
                print!("{}", report.excused());
            }
            // An excuse that is not needed may one day excuse a mistake.
            let idle = report.idle().filter(|_| all);
            let idle: Vec<String> = idle.map(|e| format!("IDLE excuse: {} {} {}", e.file, e.kind, e.text)).collect();
            idle.iter().for_each(|line| println!("{line}"));
            if report.is_ok() && idle.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(2)
        }
    }
}
