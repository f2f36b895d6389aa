//! WebAssembly modules as files with functions to call.
//!
//! **Question.** How is an exported function of a module called, run and interpreted?
//!
//! **Answer.** A call is written as a call of a CLIF function: `%loss([1.0, 2.0], 2)`. What differs
//! is where things lie. Every run gets an instance of its own; a buffer is memory that the instance
//! allocates; the argument that is passed is its 32-bit address; and before all arguments that are
//! written there is a hidden one, the instance. The shadow of a buffer is where it lies in the
//! shadow of the instance.
//!
//! The oracles interpret, in the memory of an instance, another translation of the same module: one
//! that checks bounds by comparisons, since an interpreter has no guard pages ([`Wasm`] has both).
//!
//! **Cost.** Two translations of the module.

use std::path::{Path, PathBuf};

use brolga::{Diagnostic, Diagnostics, Program};
pub use brolga_wasm::{Allocators, Imports, ModuleOptions};
use brolga_wasm::{Bounds, Error, Instance, Module};

/// A module, translated for running and for being interpreted. Function keys are the same in both.
#[derive(Clone, Debug, PartialEq)]
pub struct Wasm {
    /// For running.
    pub module: Module,
    /// For being interpreted.
    pub checked: Module,
}

/// Whether a path names a module, in binary form or as text.
pub fn is_module(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "wasm" || e == "wat")
}

/// The file with a module's calls: `NAME.run` beside it or in the folder above.
pub fn calls_of(path: &Path) -> Option<PathBuf> {
    let beside = path.with_extension("run");
    // A path that is a name alone has the folder "" above it, and nothing above that.
    let folder = beside.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let above = folder.canonicalize().ok().and_then(|f| Some(f.parent()?.join(beside.file_name()?)));
    [Some(beside), above].into_iter().flatten().find(|p| p.is_file())
}

impl Wasm {
    /// Translate a module.
    pub fn new(bytes: &[u8], options: &ModuleOptions) -> Result<Self, Diagnostics> {
        let module = Module::with_options(bytes, options).map_err(diagnostics)?;
        let options = ModuleOptions { bounds: Bounds::Checked, ..options.clone() };
        let checked = Module::with_options(bytes, &options).map_err(diagnostics)?;
        Ok(Self { module, checked })
    }

    /// A fresh instance as bytes: what lies before the instance pointer, and memory behind it.
    pub fn image(&self) -> Result<(Vec<u8>, Vec<u8>), Diagnostics> {
        let image = Instance::new(&self.module).map_err(diagnostics)?.image();
        image.ok_or_else(|| diagnostics(Error::Usage("the module has several memories".to_owned())))
    }

    /// The program that the oracles interpret.
    pub fn interpreted(&self) -> &Program {
        self.checked.program()
    }
}

/// What is wrong with a module, as a diagnostic.
pub fn diagnostics(e: Error) -> Diagnostics {
    let d = match e {
        Error::Diagnostics(all) => return all,
        Error::Invalid { message, offset } => {
            let mut d = Diagnostic::new("AD0021", format!("not a valid WebAssembly module: {message}"));
            d.line = (offset != 0).then_some(offset as u32 | brolga_ir::OFFSET);
            d
        }
        Error::Unsupported { what, offset, help } => {
            let mut d = Diagnostic::new("AD0022", format!("{what} is not supported"));
            d.line = (offset != 0).then_some(offset as u32 | brolga_ir::OFFSET);
            d.help(help)
        }
        Error::Imports(missing) => missing
            .into_iter()
            .fold(Diagnostic::new("AD0023", "nothing provides what the module imports"), Diagnostic::note)
            .help(
                "define it in the module (a linker makes one of several), or say what it is (`--import MODULE.NAME=FUNCTION`, `Imports::means`, `Imports::global`): C's mathematics and WASI \
                 preview 1 are provided; a function that is never called does no harm (`--missing-imports trap`)",
            ),
        other => Diagnostic::new("AD0024", other.to_string()),
    };
    d.into()
}
