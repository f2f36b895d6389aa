//! Time loops that keep states in a file: gradients have the bits of those that keep them in
//! memory, and where a file fails, the run is an error and nothing else is lost.

use std::fs::{self, OpenOptions};
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::{Arg, Error, LoopStats, Mode, Options};

use crate::time_loops::{Outcome, options, pendulum, planned, rule, run};

/// A folder of the test's, which is removed when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(&self.0).unwrap().next().is_none()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const START: [f64; 2] = [0.9, -0.3];

fn with_files(mode: Mode, budget: usize, folder: &Path) -> Options {
    Options { checkpoint_dir: Some(folder.to_owned()), ..options(mode, budget) }
}

/// The gradient with states in memory only, by calling the pullback so many times.
fn in_memory(func: &str, n: i64) -> Outcome {
    run(&rule(&pendulum(), func, &options(Mode::Combined, 1 << 20)), n, START, 0).unwrap().0
}

#[test]
fn any_budget_gives_the_same_bits() {
    let (p, folder) = (pendulum(), Folder::new("bits"));
    for func in ["f", "nested", "two", "around", "fall"] {
        let lengths = [137, 40, 2, 1, 0].map(|n| (n, in_memory(func, n)));
        let mut written = 0;
        for budget in [1 << 20, 4096, 1000, 200, 64, 33, 32] {
            let combined = rule(&p, func, &with_files(Mode::Combined, budget, &folder.0));
            let split = rule(&p, func, &with_files(Mode::Split, budget, &folder.0));
            // Later runs know what a step takes.
            for (n, same) in lengths.iter().chain(&lengths) {
                let (n, what) = (*n, format!("%{func}, {n} steps, {budget} bytes"));
                let (found, stats) = run(&combined, n, START, 0).unwrap();
                assert_eq!(&found, same, "{what}");
                assert!(stats.disk_writes <= stats.disk_reads || n < 2, "{what}: {stats:?}");
                assert_eq!(stats.disk_writes > 0, stats.disk_bytes > 0, "{what}: {stats:?}");
                assert!(budget < 1 << 20 || stats.disk_writes == 0, "{what}: {stats:?}");
                written += stats.disk_writes;
                for times in 1..=3 {
                    assert_eq!(&run(&split, n, START, times).unwrap().0, same, "{what}, pullback {times}");
                }
                assert!(folder.is_empty(), "{what}: a file has a name");
            }
        }
        assert!(written > 100, "%{func}: {written} states went to a file");
    }
}

/// Each method that a run may choose, for loops that are fixed, that end by themselves, and whose
/// steps have loops: the bits are those of what is recorded at once.
#[test]
fn each_method_gives_the_bits_of_what_is_recorded() {
    let (p, folder) = (pendulum(), Folder::new("methods"));
    let known = &["recorded", "store all", "blocked", "revolve", "two levels"][..];
    let unknown = &["recorded", "online", "two levels"][..];
    for (func, step, expected) in [("f", "step", known), ("nested", "inner", known), ("fall", "goes_on", unknown)] {
        let mut methods = Vec::new();
        let lengths = [1, 137, 0].map(|n| (n, in_memory(func, n)));
        for budget in [1 << 20, 4096, 2000, 1000, 200, 64] {
            for (mode, dir) in [Mode::Combined, Mode::Split].into_iter().flat_map(|m| [(m, false), (m, true)]) {
                let checkpoint_dir = dir.then(|| folder.0.clone());
                let rule = rule(&p, func, &Options { checkpoint_dir, ..options(mode, budget) });
                for (n, same) in &lengths {
                    let times = if mode == Mode::Split { 2 } else { 0 };
                    let what = format!("%{func}, {n} steps, {budget} bytes, {times} pullbacks");
                    let (found, stats, plans) = planned(&rule, *n, START, times).unwrap();
                    assert_eq!(&found, same, "{what}: {plans:?}");
                    let plan = plans.iter().find(|p| p.name == format!("loop of %{step}")).expect("there is a loop");
                    let forecast = plan.selection.and_then(|s| s.forecast);
                    assert!(forecast.is_none_or(|f| stats.forward >= f.forward), "{what}: {stats:?} {plan:?}");
                    methods.push(plan.selection.map_or("recorded", |s| s.method.name()));
                }
            }
        }
        let missing: Vec<_> = expected.iter().filter(|name| !methods.contains(name)).collect();
        let more: Vec<_> = methods.iter().filter(|name| !expected.contains(name)).collect();
        assert!(missing.is_empty() && more.is_empty(), "%{func}: {missing:?} are not chosen, and {more:?} are");
    }
}

#[test]
fn a_trap_in_a_step_leaves_the_rule_as_it_was() {
    let (p, folder) = (pendulum(), Folder::new("trap"));
    for mode in [Mode::Combined, Mode::Split] {
        let rule = rule(&p, "breaks", &with_files(mode, 64, &folder.0));
        let times = usize::from(mode == Mode::Split);
        match run(&rule, 40, START, times) {
            Err(Error::Trap(trap)) => assert_eq!((&trap.code[..], &trap.function[..]), ("user7", "broken")),
            other => panic!("{other:?}"),
        }
        assert_eq!(run(&rule, 20, START, times).unwrap().0, in_memory("f", 20));
        assert!(folder.is_empty());
    }
}

/// What a run does, with a known size of a step.
fn second_run(func: &str, n: i64, options: &Options) -> LoopStats {
    let rule = rule(&pendulum(), func, options);
    run(&rule, n, START, 0).unwrap();
    run(&rule, n, START, 0).unwrap().1
}

#[test]
fn files_save_steps_and_the_budget_is_kept() {
    let folder = Folder::new("steps");
    for (func, budget) in [("f", 64), ("f", 128), ("fall", 1024)] {
        let n = 20_000;
        let without = second_run(func, n, &options(Mode::Combined, budget));
        let with = second_run(func, n, &with_files(Mode::Combined, budget, &folder.0));
        assert!(with.disk_writes > 0, "{func}, {budget} bytes: {with:?}");
        assert!(func == "fall" || 2 * with.forward < without.forward, "{func}, {budget}: {with:?} {without:?}");
        // What one step records is not asked for.
        assert!(with.max_bytes <= if func == "fall" { 1024 } else { 256 }, "{func}, {budget} bytes: {with:?}");
    }
}

#[test]
fn the_limit_of_the_file() {
    let (p, folder) = (pendulum(), Folder::new("limit"));
    // A number of steps that is known makes as much of the limit as there is.
    let mut fewer = u128::MAX;
    for limit in [0, 79, 1000, 10_000, 100_000] {
        let options = Options { checkpoint_limit: limit, ..with_files(Mode::Combined, 64, &folder.0) };
        let stats = second_run("f", 10_000, &options);
        assert!(stats.disk_bytes <= limit && (stats.disk_writes > 0) == (limit >= 1000), "{limit}: {stats:?}");
        assert!(stats.forward <= fewer, "{limit}: {stats:?}");
        fewer = stats.forward;
    }
    // One that turns out may need more.
    let options = Options { checkpoint_limit: 100, ..with_files(Mode::Combined, 64, &folder.0) };
    let message = stopped(run(&rule(&p, "fall", &options), 1_000_000, START, 0));
    assert!(message.contains("`checkpoint_dir`") && message.contains("100 are allowed; allow more"), "{message}");
}

/// Why a run has stopped.
fn stopped<T: std::fmt::Debug>(outcome: Result<T, Error>) -> String {
    match outcome {
        Err(Error::Trap(trap)) if trap.code == "time_loop" => trap.message,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_folder_that_cannot_be_written() {
    let (p, folder) = (pendulum(), Folder::new("unwritable"));
    let file = folder.0.join("a file");
    fs::write(&file, "").unwrap();
    for wrong in [folder.0.join("missing"), file] {
        let rule = rule(&p, "f", &with_files(Mode::Combined, 64, &wrong));
        let message = stopped(run(&rule, 100, START, 0));
        assert!(message.contains(&wrong.display().to_string()), "{message}");
        assert!(message.contains("name a folder that can be written"), "{message}");
        // It is not asked for by a loop that fits.
        assert_eq!(run(&rule, 1, START, 0).unwrap().0, in_memory("f", 1));
    }
}

/// Change a byte of each file of this process that is in the folder.
fn damage(folder: &Path, at: u64) -> usize {
    let mut found = 0;
    for entry in fs::read_dir("/proc/self/fd").unwrap() {
        let name = entry.unwrap().path();
        if fs::read_link(&name).is_ok_and(|to| to.starts_with(folder)) {
            let file = OpenOptions::new().read(true).write(true).open(&name).unwrap();
            let mut byte = [0];
            file.read_exact_at(&mut byte, at).unwrap();
            file.write_all_at(&[!byte[0]], at).unwrap();
            found += 1;
        }
    }
    found
}

#[cfg(target_os = "linux")]
#[test]
fn a_state_that_is_changed_in_the_file_is_an_error() {
    let (p, folder) = (pendulum(), Folder::new("corrupt"));
    let rule = rule(&p, "f", &with_files(Mode::Split, 64, &folder.0));
    let n = 100;
    let same = in_memory("f", n);
    // The first state, of which magic, number of the run, step, state and checksum are changed.
    for at in [3, 10, 24, 41, 57] {
        let (mut state, mut params) = (START, [0.01, 1.3]);
        let (mut ds, mut dp) = ([0.25, -0.5], [0.125, 2.0]);
        let arg = |p: &mut [f64; 2], d: &mut [f64; 2]| Arg::duplicated(p.as_mut_ptr() as u64, d.as_mut_ptr() as u64);
        let args = [arg(&mut state, &mut ds), arg(&mut params, &mut dp), Arg::new(DataValue::I64(n))];
        // SAFETY: the arguments are as the function wants them.
        let (_, mut pullback) = unsafe { rule.forward(&args) }.unwrap();
        let before = state;
        assert_eq!(damage(&folder.0, at), 1);
        for _ in 0..2 {
            // SAFETY: as above.
            let message = stopped(unsafe { pullback.call(&[DataValue::F64(1.5.into())]) });
            assert!(message.contains("does not hold the state before step 0 any more"), "{message}");
            assert!(message.contains("run again"), "{message}");
            assert_eq!(state.map(f64::to_bits), before.map(f64::to_bits), "the state is as it was found");
        }
        // It is as it was.
        assert_eq!(damage(&folder.0, at), 1);
        (ds, dp) = ([0.25, -0.5], [0.125, 2.0]);
        // SAFETY: as above.
        unsafe { pullback.call(&[DataValue::F64(1.5.into())]) }.unwrap();
        assert_eq!(ds.map(f64::to_bits)[..], same.state_shadow[..], "byte {at}");
        assert_eq!(dp.map(f64::to_bits)[..], same.params_shadow[..], "byte {at}");
        // Another run has a file of its own.
        assert_eq!(run(&rule, n, START, 1).unwrap().0, same);
    }
}

/// In the process that is to be killed: keep states, say so, and go on.
#[test]
fn child_that_is_killed() {
    let Some(folder) = std::env::var_os("BROLGA_TEST_CHECKPOINTS") else { return };
    let rule = rule(&pendulum(), "f", &with_files(Mode::Split, 64, Path::new(&folder)));
    loop {
        assert!(run(&rule, 10_000, START, 1).unwrap().1.disk_writes > 0);
        println!("\nkept");
        std::io::stdout().flush().unwrap();
    }
}

#[test]
fn a_killed_process_leaves_nothing_that_a_run_trusts() {
    let folder = Folder::new("killed");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["checkpoint_files::child_that_is_killed", "--exact", "--nocapture"])
        .env("BROLGA_TEST_CHECKPOINTS", &folder.0)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(lines.any(|line| line == "kept"));
    child.kill().unwrap();
    child.wait().unwrap();
    // Files with the names of ours, as they may stay where a file that is open keeps its name.
    let names: Vec<PathBuf> =
        (0..4096).map(|i| folder.0.join(format!("brolga-states-{}-{i}", std::process::id()))).collect();
    names.iter().for_each(|name| fs::write(name, "of another run").unwrap());
    let (found, stats) =
        run(&rule(&pendulum(), "f", &with_files(Mode::Combined, 64, &folder.0)), 137, START, 0).unwrap();
    assert!(found == in_memory("f", 137) && stats.disk_writes > 0, "{stats:?}");
    assert!(names.iter().all(|name| fs::read(name).unwrap() == b"of another run"));
}
