//! Entry point of the command `brolga`: see [`brolga_cli::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    brolga_cli::cli::main()
}
