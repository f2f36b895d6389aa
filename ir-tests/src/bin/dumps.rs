//! Prints every stage of every derivative that the cases ask for. Two runs must print the same;
//! `cargo xtask ci` compares.

use std::path::Path;

use brolga::{Options, Stage};
use brolga_driver::File;
use brolga_ir::panics;
use ir_tests::{cases, checks};

fn main() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for path in cases::files(root) {
        let Ok(file) = File::read(&path) else { continue };
        let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
        for request in checks::requests(&file) {
            println!("==== {name} {}", request.name);
            let all = || brolga::dumps(&file.program, &request.request, &Options::full(), &Stage::ALL);
            match panics::catch(all) {
                Ok(Ok(all)) => all.iter().zip(Stage::ALL).for_each(|(text, s)| println!("---- {}\n{text}", s.name())),
                Ok(Err(e)) => println!("{e}"),
                Err(panic) => println!("panic: {panic}"),
            }
        }
    }
}
