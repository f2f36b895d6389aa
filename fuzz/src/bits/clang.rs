//! The compiler that makes modules of programs.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// How a module is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Which of [`LEVELS`].
    pub index: usize,
    /// Whether blocks are copied by instructions for that, or by functions of the module.
    pub bulk: bool,
}

/// Names of levels and their flags.
pub const LEVELS: [(&str, &[&str]); 4] =
    [("O0", &["-O0"]), ("O1", &["-O1"]), ("O2", &["-O2"]), ("O3", &["-O3", "-msimd128"])];

impl Level {
    /// The name.
    pub fn name(self) -> &'static str {
        LEVELS[self.index].0
    }
}

/// A compiler for C that can make WebAssembly.
#[derive(Clone, Debug)]
pub struct Clang {
    program: PathBuf,
}

impl Clang {
    /// `$CLANG`, or else `clang-19`, or else `clang`, whichever makes a module.
    pub fn find() -> Result<Self> {
        let said = std::env::var_os("CLANG").map(PathBuf::from);
        let candidates = said.map_or_else(|| vec!["clang-19".into(), "clang".into()], |c| vec![c]);
        let mut complaints = Vec::new();
        let folder = std::env::temp_dir().join(format!("brolga-clang-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("creating {}", folder.display()))?;
        for program in candidates {
            let clang = Clang { program };
            let level = Level { index: 3, bulk: true };
            match clang.compile("__attribute__((export_name(\"f\"))) double f(double x) { return x; }", level, &folder)
            {
                Ok(_) => {
                    std::fs::remove_dir_all(&folder).with_context(|| format!("removing {}", folder.display()))?;
                    return Ok(clang);
                }
                Err(e) => complaints.push(format!("{}: {e:#}", clang.program.display())),
            }
        }
        bail!(
            "the target `bits` needs a clang that can make WebAssembly (with wasm-ld), and there is none: {}\n  help: install clang-19 and lld-19, or say which clang by the variable CLANG",
            complaints.join("; ")
        )
    }

    /// The module of a source; files lie in `folder` meanwhile.
    pub fn compile(&self, source: &str, level: Level, folder: &Path) -> Result<Vec<u8>> {
        let (input, output) = (folder.join("module.c"), folder.join("module.wasm"));
        std::fs::write(&input, source).with_context(|| format!("writing {}", input.display()))?;
        let mut command = Command::new(&self.program);
        command.args([
            "--target=wasm32",
            "-w",
            "-nostdlib",
            "-ffreestanding",
            "-fno-strict-aliasing",
            "-ffp-contract=off",
        ]);
        command.args(["-Wl,--no-entry", "-Wl,--stack-first"]).args(LEVELS[level.index].1);
        if level.bulk {
            command.arg("-mbulk-memory");
        }
        command.arg(&input).arg("-o").arg(&output).stdin(Stdio::null());
        let done = command.output().context("starting it")?;
        if !done.status.success() {
            bail!("{}", String::from_utf8_lossy(&done.stderr).trim());
        }
        std::fs::read(&output).with_context(|| format!("reading {}", output.display()))
    }
}
