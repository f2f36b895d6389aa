//! Prints every stage of every derivative that the cases ask for. Two runs must print the same;
//! `cargo xtask ci` compares.

use std::path::Path;

use brolga::{Options, Stage};
use brolga_driver::{File, quiet};
use ir_tests::{cases, checks};

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for path in cases::files(root) {
        let Ok(file) = File::read(&path) else { continue };
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        for request in checks::requests(&file) {
            for stage in Stage::ALL {
                println!("==== {name} {} {}", request.name, stage.name());
                let dump = quiet::catch(|| brolga::dump(&file.program, &request.request, &Options::full(), stage));
                match dump {
                    Ok(Ok(text)) => println!("{text}"),
                    Ok(Err(e)) => println!("{e}"),
                    Err(panic) => println!("panic: {panic}"),
                }
            }
        }
    }
}
