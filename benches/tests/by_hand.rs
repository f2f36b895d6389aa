//! The adjoints written by hand in C give the gradients that are derived: for the calls that the
//! tests of their programs make, as they are and with other seeds and shadows.

use benches::Mode;
use benches::by_hand::ByHand;
use benches::calls::{elements, repeated};
use benches::wasm::root;
use brolga_driver::protocol::reseeded;
use brolga_driver::text::Directive;
use brolga_driver::text::directive::call_with_clauses;
use brolga_driver::timing::TimedCall;
use brolga_driver::{BoundArg, File, Invocation};

/// Calls that only the adjoints have a reason to make: branches of theirs that no other call takes.
const MORE: &[(&str, &str)] = &[
    (
        "ba",
        "%ba_residuals(1, [1e-6, -2e-6, 3e-6, 34.5, 39.7, 53.9, 419.2, 5.9, -8.5, 0.09, 0.003], [7.2, 0.1, 3.0], [0.4], i32[0, 0], \
         [271.8, 834.2], [0.0, 0.0], [0.0]) shadow 6=[1.0, 0.5] shadow 7=[2.0]",
    ),
    ("cg", "%cg_loss(2, i32[0, 1, 2], i32[0, 1], [4.0, 5.0], [1.0, -0.5], [0.2, 0.1], 0.0, 0)"),
    ("heat", "%heat_loss(1, 2, 0, 0.1, [0.4, 0.7], [0.7, 0.9], [0.5, 1.1])"),
    // As deep as it goes.
    ("quadrature", "%quadrature(2, -1.0, 1.0, 0.0001, 0.0, 1e-14)"),
];

/// Programs with an adjoint.
fn names() -> Vec<String> {
    let entries = std::fs::read_dir(root().join("by_hand")).expect("the folder is there");
    let paths = entries.flatten().map(|e| e.path()).filter(|p| p.extension().is_some_and(|e| e == "wasm"));
    let mut names: Vec<String> = paths.filter_map(|p| Some(p.file_stem()?.to_str()?.to_owned())).collect();
    names.sort();
    names
}

fn file(name: &str) -> File {
    File::read(&root().join(format!("O2/{name}.wasm"))).unwrap_or_else(|e| panic!("{e}"))
}

/// The calls of a program.
fn calls(name: &str, file: &File) -> Vec<Invocation> {
    let lines = file.directives.iter().filter_map(|d| match d {
        Directive::Grad(line) => Some((line.text.as_str(), line.call.clone(), line.clauses.clone())),
        _ => None,
    });
    let more = MORE.iter().filter(|(of, _)| *of == name).map(|(_, text)| {
        let (call, clauses) = call_with_clauses(text).unwrap_or_else(|_| panic!("{text}"));
        (*text, call, clauses)
    });
    let bound = lines.chain(more).map(|(text, call, clauses)| {
        file.bind(text, &call, &clauses).unwrap_or_else(|e| panic!("{name}: {}", e.diagnostic("AD0008", None)))
    });
    bound.collect()
}

/// Derive the gradient of one call, and compare that of another by hand; false if there is none.
fn compare(name: &str, file: &File, derived: &Invocation, by_hand: &Invocation) -> Result<bool, String> {
    let Some(mut hand) = ByHand::of(&root(), name, by_hand).map_err(|e| e.to_string())? else { return Ok(false) };
    let (mut r, _) = repeated(&file.program, derived, Mode::Gradient.into()).map_err(|e| e.to_string())?;
    r.time(TimedCall::Gradient, 1).map_err(|e| e.to_string())?;
    // Nothing is left over from one run that another could find.
    for _ in 0..2 {
        hand.run().map_err(|e| e.to_string())?;
        hand.compare(&elements(&r)).map_err(|e| e.to_string())?;
    }
    Ok(true)
}

#[test]
fn adjoints_in_c() {
    let names = names();
    assert!(names.len() >= 9, "{names:?}");
    let mut wrong = Vec::new();
    for name in &names {
        let file = file(name);
        let mut compared = 0;
        for call in calls(name, &file) {
            for call in [call.clone(), reseeded(&call, 7)] {
                match compare(name, &file, &call, &call) {
                    Ok(some) => compared += usize::from(some),
                    Err(message) => wrong.push(format!("%{}: {message}", call.symbol)),
                }
            }
        }
        assert!(compared > 0 || !wrong.is_empty(), "nothing was compared of {name}");
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn wrong_adjoints_in_c_are_noticed() {
    let file = file("lstm");
    let call = calls("lstm", &file).remove(0);
    let mut other = call.clone();
    let BoundArg::Buffer { data, .. } = &mut other.args[6] else { panic!("the sequence") };
    // The last element is a target only, so few things follow from it.
    let last = data.len() - 8;
    let x = f64::from_le_bytes(data[last..].try_into().expect("a float has eight bytes"));
    data[last..].copy_from_slice(&(x + 1e-6).to_le_bytes());
    let message = compare("lstm", &file, &call, &other).expect_err("one number is another");
    assert!(message.starts_with("by_hand/lstm: argument 3, element 0: ") && message.ends_with(" derived"), "{message}");
}
