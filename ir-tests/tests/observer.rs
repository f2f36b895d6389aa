//! An observer of a derivation sees what is compiled: statements that are not observed are spent on
//! the way, and graphs of long functions take their place.

use std::path::Path;

use brolga::{Effort, Mode, Options, jit};
use brolga_driver::{Directive, File};
use brolga_testing::budget;
use brolga_transform::{Derivation, derive, derive_with};
use ir_tests::cases;

/// All that was derived, as text.
fn text(d: &Derivation) -> Vec<String> {
    d.codegen_units().iter().map(|part| d.func(part).display().to_string()).collect()
}

#[test]
fn it_makes_no_difference() {
    let isa = jit::host_isa(&Options::full()).expect("there is a host");
    let mut seen = 0;
    for path in cases::files(Path::new(env!("CARGO_MANIFEST_DIR"))).iter().step_by(budget(1, 8)) {
        let source = std::fs::read_to_string(path).expect("it is there");
        let Ok(file) = File::parse(&path.display().to_string(), source) else { continue };
        let calls = file.directives.iter().filter_map(|d| match d {
            Directive::Grad(line) => file.bind(&line.text, &line.call, &line.clauses).ok(),
            _ => None,
        });
        for request in calls.map(|c| c.request()) {
            for mode in [Mode::Split, Mode::Gradient] {
                let options = Options { mode, effort: Effort::Quick, ..Options::default() };
                let Ok(plain) = derive(&file.program, &request, &options, &*isa) else { continue };
                let looked = derive_with(&file.program, &request, &options, &*isa, |_| {}).expect("the same");
                assert_eq!(text(&plain), text(&looked), "{}", path.display());
                seen += 1;
            }
        }
    }
    assert!(seen > budget(1000, 100), "{seen}");
}
