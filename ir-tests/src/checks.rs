//! What each kind of directive asserts.

use brolga::{DerivedRule, Error, FuncKey, Inline, MemoryMode, Options, Request, Trap};
use brolga_driver::check::{Tolerances, check};
use brolga_driver::protocol::{Share, derive, disagreement_with_tape, dump_violations, shape_violations, violations};
use brolga_driver::text::{ErrorLine, GradLine, TrapLine};
use brolga_driver::{Directive, File, Invocation, Memory, compare, guess, run};
use brolga_ir::panics;

use crate::Complaints;

/// A request with a name: `%f(active, const)`.
#[derive(Clone, Debug)]
pub struct NamedRequest {
    /// The name.
    pub name: String,
    /// The request.
    pub request: Request,
}

/// Every derivative that the gradient lines of a file ask for, without repetition.
pub fn requests(file: &File) -> Vec<NamedRequest> {
    let mut out: Vec<NamedRequest> = Vec::new();
    for directive in &file.directives {
        let Directive::Grad(line) = directive else { continue };
        let Ok(call) = Invocation::bind(&file.program, &line.text, &line.call, &line.clauses) else { continue };
        let request = call.request();
        if out.iter().all(|r| r.request != request) {
            let activity: Vec<_> = request.args.iter().map(|a| format!("{:?}", a.activity).to_lowercase()).collect();
            out.push(NamedRequest { name: format!("%{}({})", call.symbol, activity.join(", ")), request });
        }
    }
    out
}

/// `; grad:`, with a share of the protocol if that is wanted.
pub fn grad(file: &File, line: &GradLine, protocol: Option<Share>) -> Complaints {
    caught(|| try_grad(file, line, protocol))
}

fn try_grad(file: &File, line: &GradLine, protocol: Option<Share>) -> Result<Complaints, String> {
    let program = &file.program;
    let call = Invocation::bind(program, &line.text, &line.call, &line.clauses).map_err(|e| e.to_string())?;
    let tol = compare::tolerance(program, &call, &line.clauses);
    let options = Options { memory: call.memory, ..Options::full() };
    let rule = || derive(program, &call.request(), &options);
    let derived = rule().map_err(described)?;
    let outcome = run::gradient(&derived, &call).map_err(described)?;

    let mut complaints = compare::differences(&outcome, &line.expected, &line.clauses, tol);
    complaints.extend(shape_violations(&call, &outcome));

    let tolerances = Tolerances::of(program, &call, line.clauses.tol);
    let found = check(program, &call, &outcome, &rule, tolerances, !line.clauses.nofd).map_err(described)?;
    complaints.extend(found.complaints());
    if let Some(error) = &found.tape_error {
        complaints.push(format!("the tape oracle cannot run: {error}"));
    }
    if let Some(disagreement) = disagreement_with_tape(program, &call, tolerances.tape).map_err(described)? {
        complaints.push(disagreement);
    }
    if let Some(share) = protocol {
        complaints.extend(violations(program, &call, tolerances.tape, share).map_err(described)?);
    }
    Ok(complaints)
}

/// `; trap:`: primal and forward pass end with the code, and the rule survives.
pub fn trap(file: &File, line: &TrapLine) -> Complaints {
    caught(|| try_trap(file, line))
}

fn try_trap(file: &File, line: &TrapLine) -> Result<Complaints, String> {
    let program = &file.program;
    let call = Invocation::bind(program, &line.text, &line.call, &line.clauses).map_err(|e| e.to_string())?;
    let options = Options { memory: call.memory, ..Options::full() };
    let rule = derive(program, &call.request(), &options).map_err(described)?;
    let sound = sound_call(file, &call);
    let before = sound.as_ref().map(|c| run::gradient(&rule, c).map_err(described)).transpose()?;
    let mut complaints = inlined_trap(file, line, &call, &rule)?;
    // A check of derived code: the primal ends, and no cotangent of it is told.
    let of_derivative = ["untracked_bits", "moved_pointer"].contains(&&*line.code);
    for round in 0..2 {
        let primal = run::primal_in(&rule, &call, &mut Memory::new(&call).map_err(described)?).err();
        let gradient = run::gradient(&rule, &call).err();
        let phases = if line.code == "untracked_bits" { ["primal", "pullback"] } else { ["primal", "forward"] };
        for (phase, error) in phases.into_iter().zip([primal, gradient]) {
            match error {
                None if of_derivative && phase == "primal" => {}
                Some(Error::Trap(t)) if t.code == line.code => {
                    if t.phase != phase {
                        complaints.push(format!("the trap in the {phase} is reported as one in the {}", t.phase));
                    }
                    if t.inst.is_some() && t.line.is_none() {
                        complaints.push("the trap names an instruction but no line".to_owned());
                    }
                }
                Some(e) => {
                    complaints.push(format!("run {round}, {phase}: expected trap {}, got {}", line.code, described(e)))
                }
                None => complaints.push(format!("run {round}, {phase}: expected trap {}, but it finished", line.code)),
            }
        }
    }
    if let (Some(call), Some(before)) = (sound, before) {
        let after = run::gradient(&rule, &call).map_err(described)?;
        if !after.same_gradient(&before) && !program.has_writable_data() {
            complaints.push("after a trap, a sound call of the same rule gives another gradient".to_owned());
        }
    }
    Ok(complaints)
}

/// Whichever calls are replaced by what they call, the same instruction traps.
fn inlined_trap(file: &File, line: &TrapLine, call: &Invocation, rule: &DerivedRule) -> Result<Complaints, String> {
    let trap = |rule: &DerivedRule| match run::gradient(rule, call) {
        Err(Error::Trap(t)) => Ok(*t),
        Err(e) => Err(described(e)),
        Ok(_) => Err(format!("expected trap {}, but it finished", line.code)),
    };
    let place = |t: &Trap| (t.code.clone(), t.function.clone(), t.inst, t.line);
    let usual = trap(rule)?;
    let mut complaints = Vec::new();
    for inline in [Inline::Never, Inline::SMALL] {
        let options = Options { memory: call.memory, inline, ..Options::full() };
        let other = trap(&derive(&file.program, &call.request(), &options).map_err(described)?)?;
        if place(&other) != place(&usual) {
            complaints.push(format!("with {inline:?} it is another trap: {other}\ninstead of {usual}"));
        }
    }
    Ok(complaints)
}

/// A call of the same rule that does not trap, if the file has one.
fn sound_call(file: &File, trapping: &Invocation) -> Option<Invocation> {
    file.directives.iter().find_map(|d| {
        let Directive::Grad(line) = d else { return None };
        let call = Invocation::bind(&file.program, &line.text, &line.call, &line.clauses).ok()?;
        (call.request() == trapping.request() && call.memory == trapping.memory).then_some(call)
    })
}

/// `; error:`: the function is refused, with diagnostics that say where, in both memory modes and
/// by every dump.
pub fn error(file: &File, line: &ErrorLine) -> Complaints {
    caught(|| try_error(file, line))
}

fn try_error(file: &File, line: &ErrorLine) -> Result<Complaints, String> {
    let request = error_request(file, line)?;
    let mut complaints = Vec::new();
    for memory in [MemoryMode::Leave, MemoryMode::Restore] {
        for inline in [Inline::Auto, Inline::Never, Inline::SMALL] {
            let options = Options { memory, inline, ..Options::full() };
            match derive(&file.program, &request, &options) {
                Ok(_) => complaints.push(format!("with {inline:?}: expected a refusal, but there is a derivative")),
                Err(Error::Diagnostics(found)) => {
                    let codes: Vec<_> = found.0.iter().map(|d| d.code).collect();
                    if let Some(code) = &line.code
                        && !codes.contains(&code.as_str())
                    {
                        complaints.push(format!("expected {code}, got {found}"));
                    }
                    for d in found.0.iter().filter(|d| d.inst.is_some() && d.line.is_none()) {
                        complaints.push(format!("this diagnostic names an instruction but no line: {d}"));
                    }
                }
                Err(other) => complaints.push(format!("expected diagnostics, got {}", described(other))),
            }
        }
    }
    complaints.dedup();
    Ok(complaints)
}

fn error_request(file: &File, line: &ErrorLine) -> Result<Request, String> {
    if let Some(call) = &line.call {
        let call = Invocation::bind(&file.program, &line.text, call, &line.clauses).map_err(|e| e.to_string())?;
        return Ok(call.request());
    }
    let func: FuncKey =
        file.defined(&line.func.node).ok_or_else(|| format!("the file does not define %{}", line.func.node))?;
    let mut request = guess::request(&file.program, func);
    if let Some(activity) = &line.clauses.activity {
        if activity.node.len() != request.args.len() {
            return Err(format!("{} activities for {} parameters", activity.node.len(), request.args.len()));
        }
        request.args = activity.node.iter().map(|&a| a.into()).collect();
    }
    Ok(request)
}

/// Every stage can be printed, always as the same text, and emitted CLIF can be read. Where options
/// take turns, those whose turn it is.
pub fn dumps(file: &File, request: &NamedRequest, turn: Option<usize>) -> Complaints {
    caught(|| {
        let mut complaints = Vec::new();
        let options = [
            (MemoryMode::Leave, Inline::Never),
            (MemoryMode::Leave, Inline::SMALL),
            (MemoryMode::Restore, Inline::Never),
        ];
        let is_asked = |k: usize| turn.is_none_or(|turn| turn % options.len() == k);
        for (memory, inline) in (0..).zip(options).filter(|(k, _)| is_asked(*k)).map(|(_, o)| o) {
            let options = Options { memory, inline, ..Options::full() };
            complaints.extend(dump_violations(&file.program, &request.request, &options).map_err(described)?);
        }
        Ok(complaints)
    })
}

fn described(e: Error) -> String {
    e.to_string()
}

/// A panic is a failure like any other.
fn caught(work: impl FnOnce() -> Result<Complaints, String>) -> Complaints {
    match panics::catch(work) {
        Ok(Ok(complaints)) => complaints,
        Ok(Err(message)) => vec![message],
        Err(panic) => vec![format!("panic: {panic}")],
    }
}
