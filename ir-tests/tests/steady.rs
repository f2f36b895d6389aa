//! The second call of a rule allocates nothing, whatever the program: a sample of the cases under
//! an allocator that counts.
//!
//! What programs themselves take from `malloc` does not count; nor do mappings of the tape, which
//! stay with the rule.

use std::path::Path;

use brolga::Options;
use brolga_driver::protocol::derive;
use brolga_driver::{BoundArg, Directive, File, Invocation, Memory};
use brolga_testing::counting::requests;
use ir_tests::cases;

/// Allocations of each of three calls in the same memory. `None` if the call does not finish.
fn allocations(file: &File, call: &Invocation) -> Option<[usize; 3]> {
    let options = Options { memory: call.memory, ..Options::full() };
    let rule = derive(&file.program, &call.request(), &options).ok()?;
    let mut memory = Memory::new(call).ok()?;
    let args = memory.arguments();
    let (mut results, mut cotangents) = (Vec::new(), Vec::new());
    let mut counts = [0; 3];
    for count in &mut counts {
        for (i, arg) in call.args.iter().enumerate() {
            if let (BoundArg::Buffer { data, .. }, Some(b)) = (arg, memory.buffer_mut(i)) {
                b.primal.bytes_mut().copy_from_slice(data);
            }
        }
        memory.reset_shadows(call);
        let before = requests();
        // SAFETY: every pointer is to a live block of `memory`, as the file's own tests pass it.
        unsafe {
            let mut pullback = rule.forward_into(&args, &mut results).ok()?;
            pullback.call_into(&call.seeds, &mut cotangents).ok()?;
        }
        *count = requests() - before;
    }
    Some(counts)
}

#[test]
fn a_second_call_allocates_nothing() {
    let (mut n, mut wrong) = (0, Vec::new());
    let mut some = false;
    for path in cases::files(Path::new(env!("CARGO_MANIFEST_DIR"))) {
        // What moves in pieces is noted down while it is under way; states of time loops and of
        // what inverses undo are kept; where a program forks, it is noted where heap blocks are,
        // and tasks are handed to a pool.
        let notes = [
            "bits/pieces.clif",
            "bits/cut.clif",
            "bits/halves.clif",
            "bits/words.clif",
            "memory/moved_pointers.clif",
            "programs/time_loops.clif",
            "programs/inverse_pairs.clif",
            "programs/dual_numbers.clif",
            "programs/forks.clif",
            "programs/forks_and_loops.clif",
        ];
        if notes.iter().any(|name| path.ends_with(name)) {
            continue;
        }
        let Ok(file) = File::read(&path) else { continue };
        // Every seventh line: a few of each file.
        for directive in file.directives.iter().step_by(7) {
            let Directive::Grad(line) = directive else { continue };
            let Ok(call) = Invocation::bind(&file.program, &line.text, &line.call, &line.clauses) else { continue };
            let Some(counts) = allocations(&file, &call) else { continue };
            n += 1;
            some |= counts[0] > 0;
            if counts[1..] != [0, 0] {
                wrong.push(format!("{}:{}: {counts:?}", path.display(), line.line));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(n > 100, "only {n} calls");
    assert!(some, "the first calls allocate, or the allocator does not count");
}
