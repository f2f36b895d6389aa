//! What an installed command has beside its work: completions, manual pages, colours, and times of
//! one call.

use brolga_cli::cli::Cli;
use brolga_testing::command::{TempFile, run};
use clap::CommandFactory;
use serde_json::Value;

const PROGRAM: &str = env!("CARGO_BIN_EXE_brolga");

/// Names of the commands, and of all options of each.
fn commands() -> Vec<(String, Vec<String>)> {
    let mut all = Cli::command();
    all.build();
    let options = |c: &clap::Command| c.get_arguments().filter_map(|a| a.get_long().map(str::to_owned)).collect();
    let named = |c: &clap::Command| (c.get_name().to_owned(), options(c));
    all.get_subcommands().filter(|c| c.get_name() != "help").map(named).collect()
}

#[test]
fn completions_know_all_commands_and_options() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(PROGRAM, &["completions", shell]).expect(0).stdout;
        for (command, options) in commands() {
            let named = script.split(|c: char| !c.is_alphanumeric()).any(|word| word == command);
            assert!(named, "{shell} does not complete {command}");
            for option in options {
                // Fish calls them `-l NAME`.
                let is_there = [format!("--{option}"), format!("-l {option}")].iter().any(|o| script.contains(o));
                assert!(is_there, "{shell} does not complete --{option} of {command}");
            }
        }
    }
}

/// Shells that are installed can read theirs.
#[test]
fn shells_read_completions() {
    for shell in ["bash", "zsh", "fish"] {
        let script = run(PROGRAM, &["completions", shell]).expect(0).stdout;
        let script = TempFile::new(PROGRAM, shell, script);
        if let Ok(output) = std::process::Command::new(shell).args(["-n", script.path()]).output() {
            assert!(output.status.success(), "{shell}: {}", String::from_utf8_lossy(&output.stderr));
        }
    }
}

/// What bash makes of it.
#[test]
fn bash_completes() {
    let script = run(PROGRAM, &["completions", "bash"]).expect(0).stdout;
    for (words, answer) in [("gr", "grad\n"), ("dump --stage comb", "combined\n"), ("man --col", "--color\n")] {
        let last = words.split(' ').count();
        let (word, before) = (words.rsplit(' ').next().unwrap_or(""), words.rsplit(' ').nth(1).unwrap_or("brolga"));
        let ask = format!(
            "\nCOMP_WORDS=(brolga {words}); COMP_CWORD={last}; _brolga brolga {word} {before}; echo \"${{COMPREPLY[@]}}\"\n"
        );
        let found = run("bash", &["-c", &format!("{script}{ask}")]).expect(0);
        assert_eq!((found.stdout.as_str(), found.stderr.as_str()), (answer, ""), "{words}");
    }
}

#[test]
fn manual_pages() {
    let page = run(PROGRAM, &["man"]).expect(0).stdout;
    assert!(page.contains(".TH brolga 1") && page.contains(".SH \"EXIT STATUS\""), "{page}");
    for (command, options) in commands() {
        assert!(page.contains(&format!("brolga\\-{command}(1)")), "{command} is not in\n{page}");
        let page = run(PROGRAM, &["man", &command]).expect(0).stdout;
        assert!(page.contains(&format!(".TH brolga-{command} 1")), "{page}");
        for option in options {
            let shown = format!("\\-\\-{}", option.replace('-', "\\-"));
            assert!(page.contains(&shown), "--{option} is not in the page of {command}");
        }
    }
}

const SQUARE: &str = "; a square\nfunction %f(f64) -> f64 system_v {\nblock0(v0: f64):\n    v1 = fmul v0, v0\n    \
    return v1\n}\nfunction %g(f64) -> f64 system_v {\n    fn0 = %unknown_to_all(f64) -> f64 system_v\n\
    block0(v0: f64):\n    v1 = call fn0(v0)\n    return v1\n}\n";

/// Of output that goes into a file.
#[test]
fn colours_are_for_terminals() {
    let file = TempFile::new(PROGRAM, "colours.clif", SQUARE);
    let refused = ["grad", file.path(), "--call", "%g(1.0)"];
    for args in [&refused[..], &["grad"], &["--help"]] {
        let coloured = |more: &[&str]| {
            let run = run(PROGRAM, &[more, args].concat());
            (run.stdout + &run.stderr).contains('\u{1b}')
        };
        assert!(!coloured(&[]), "{args:?}");
        assert!(coloured(&["--color", "always"]), "{args:?}");
        assert!(!coloured(&["--color=never"]), "{args:?}");
    }
}

#[test]
fn no_color_is_heard_on_a_terminal() {
    // `script` of util-linux gives its command a terminal.
    let file = TempFile::new(PROGRAM, "terminal.clif", SQUARE);
    let on_terminal = |environment: &str, more: &str| {
        let command = format!("{environment} {PROGRAM} {more} grad {} --call '%g(1.0)'", file.path());
        let output = std::process::Command::new("script").args(["-qec", &command, "/dev/null"]).output().ok()?;
        Some(output.stdout.contains(&0x1b))
    };
    let Some(plain) = on_terminal("env -u NO_COLOR TERM=xterm", "") else { return };
    assert!(plain, "a terminal has colours");
    assert_eq!(on_terminal("NO_COLOR=1 TERM=xterm", ""), Some(false));
    assert_eq!(on_terminal("env -u NO_COLOR TERM=xterm", "--color never"), Some(false));
    assert_eq!(on_terminal("NO_COLOR=1 TERM=xterm", "--color always"), Some(true));
}

const SUM: &str = "\
; the sum of x[i]^2, and a function that scales its buffer in place
function %sum(i64, i64) -> f64 system_v {
block0(v0: i64, v1: i64):
    v2 = f64const 0.0
    jump block1(v0, v1, v2)
block1(v3: i64, v4: i64, v5: f64):
    brif v4, block2, block3
block2:
    v6 = load.f64 v3
    v7 = fmul v6, v6
    v8 = fadd v5, v7
    v11 = iconst.i64 8
    v12 = iconst.i64 1
    v9 = iadd v3, v11
    v10 = isub v4, v12
    jump block1(v9, v10, v8)
block3:
    return v5
}

function %scale(i64, i64, f64) system_v {
block0(v0: i64, v1: i64, v2: f64):
    jump block1(v0, v1)
block1(v3: i64, v4: i64):
    brif v4, block2, block3
block2:
    v6 = load.f64 v3
    v7 = fmul v6, v2
    store v7, v3
    v11 = iconst.i64 8
    v12 = iconst.i64 1
    v9 = iadd v3, v11
    v10 = isub v4, v12
    jump block1(v9, v10)
block3:
    return
}
";

#[test]
fn times_of_calls() {
    let file = TempFile::new(PROGRAM, "sum.clif", SUM);
    let list = vec!["1.5"; 2000].join(", ");
    let calls = [format!("%sum([{list}], 2000)"), format!("%scale([{list}], 2000, 2.0)")];
    let args = ["--call", &calls[0], "--call", &calls[1], "--budget", "0.2"];
    let found = file.run("bench", &[&args[..], &["--json"]].concat()).expect(0).json();
    assert_eq!(found.len(), 2);
    for (found, name) in found.iter().zip(["%sum", "%scale"]) {
        let keys = ["function", "primal", "gradient", "tangent", "guard_ns", "spread_ns", "tape_bytes", "rounds"];
        assert_eq!(found.as_object().unwrap().keys().collect::<Vec<_>>(), keys);
        assert_eq!(found["function"], name);
        let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value} is no number in {found}"));
        // Two thousand products take some hundred nanoseconds anywhere.
        let primal = number(&found["primal"]["ns"]);
        assert!(primal > 100.0, "{found}");
        for derivative in ["gradient", "tangent"] {
            let (ns, ratio) = (number(&found[derivative]["ns"]), number(&found[derivative]["ratio"]));
            assert!(ns > 100.0 && ratio > 0.01 && ratio < 1000.0, "{found}");
            let [low, high] = [0, 1].map(|i| number(&found[derivative]["quartiles"][i]));
            assert!(low <= ratio && ratio <= high, "{found}");
        }
        assert!(number(&found["rounds"]) >= 5.0);
    }
    // What is scaled is needed for the slope of the factor.
    assert_eq!(found[1]["tape_bytes"].as_u64().map(|bytes| bytes >= 16_000), Some(true), "{}", found[1]);

    let text = file.run("bench", &args).expect(0).stdout;
    for says in ["primal", "gradient", "tangent", "/ primal", "recorded"] {
        assert_eq!(text.matches(says).count() / 2, if says == "primal" { 2 } else { 1 }, "{says}: {text}");
    }
}

#[test]
fn what_is_too_short_is_not_compared() {
    let file = TempFile::new(
        PROGRAM,
        "short.clif",
        "; nothing\nfunction %f(f64) -> f64 {\nblock0(v0: f64):\n    return v0\n}\n",
    );
    let args = ["--call", "%f(1.0)", "--budget", "0.2"];
    // On a machine that does other work nothing may seem to take time.
    let mut tries = 0..10;
    assert!(tries.any(|_| file.run("bench", &args).expect(0).stdout.contains("too short to be compared")));
    let json = || file.run("bench", &[&args[..], &["--json"]].concat()).expect(0).json();
    let compared = |found: &Value| found["gradient"]["ns"].is_number() && !found["gradient"]["ratio"].is_null();
    let mut tries = 0..10;
    assert!(tries.any(|_| !compared(&json()[0])));
    assert!(json()[0]["gradient"]["ns"].is_number());
}

/// Bits of floats that are lost trap along a direction, where no cotangent arrives.
#[test]
fn a_tangent_that_cannot_be_had_is_left_out() {
    let text = "; the bits of a product as a number, whose slope is not asked for\nfunction %f(f64) -> f64, f64 system_v {\n\
        block0(v0: f64):\n    v1 = bitcast.i64 v0\n    v2 = iconst.i64 3\n    v3 = imul v1, v2\n    v4 = bitcast.f64 v3\n    \
        v5 = fmul v0, v0\n    return v4, v5\n}\n";
    let file = TempFile::new(PROGRAM, "lost.clif", text);
    let args = ["--call", "%f(1.0) seed 0,1", "--untracked", "trap", "--budget", "0.01"];
    assert!(file.run("bench", &args).expect(0).stdout.contains("tangent: not measured"));
    let found = file.run("bench", &[&args[..], &["--json"]].concat()).expect(0).json();
    assert_eq!(found[0]["tangent"]["error"]["code"], "untracked_bits", "{}", found[0]);
}
