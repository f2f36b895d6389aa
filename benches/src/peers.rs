//! Other ways to the same gradients: gcc, Enzyme, JAX, as far as they are installed.
//!
//! A script in `peers/` compiles the problems in C++ and measures. It is handed inputs and
//! gradients as files of numbers, tells of each peer how far its gradient is off, and prints JSON:
//! for each problem the nanoseconds of each peer. It runs after our own measurements, not between
//! them, so columns of peers compare with each other better than with ours.

use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::problem::Size;
use crate::problems::ProblemConstructor;

/// What the script prints: problem, peer, nanoseconds.
pub type PeerTimes = serde_json::Map<String, Value>;

/// Measure peers on these problems.
///
/// # Errors
/// If the script cannot be run, or does not print what it should.
pub fn run(problems: &[ProblemConstructor]) -> Result<PeerTimes, String> {
    let folder = std::env::temp_dir().join(format!("brolga-peers-{}", std::process::id()));
    let result = write(problems, &folder).and_then(|()| script(&folder));
    // What was written there is of no further use, and a failure to remove it is no reason to fail.
    drop(std::fs::remove_dir_all(&folder));
    result
}

fn write(problems: &[ProblemConstructor], folder: &Path) -> Result<(), String> {
    std::fs::create_dir_all(folder).map_err(|e| format!("{}: {e}", folder.display()))?;
    for make in problems {
        let problem = make(Size::Full);
        let floats = |x: &[f64]| -> Vec<u8> { x.iter().flat_map(|x| x.to_ne_bytes()).collect() };
        let integers: Vec<u8> = problem.integers().iter().flat_map(|n| n.to_ne_bytes()).collect();
        let gradient = &problem.reference.gradient;
        for (kind, bytes) in [("x", floats(&problem.inputs())), ("ip", integers), ("g", floats(gradient))] {
            let path = folder.join(format!("{}.{kind}", problem.name));
            std::fs::write(&path, bytes).map_err(|e| format!("{}: {e}", path.display()))?;
        }
    }
    Ok(())
}

fn script(folder: &Path) -> Result<PeerTimes, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/peers.py");
    let python = std::env::var("PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let output = Command::new(&python)
        .arg(&script)
        .arg(folder)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| format!("`{python}` does not run: {e}; set PYTHON to a Python 3"))?;
    if !output.status.success() {
        return Err(format!("{} failed with {}", script.display(), output.status));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| format!("{} printed no JSON: {e}", script.display()))
}
