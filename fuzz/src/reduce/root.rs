//! Edits of the function that is called, which change the call too.
//!
//! **Question.** A parameter or a result of the called function is left out. What becomes of the
//! call that a file has in its `; grad:` line?
//!
//! **Answer.** The line is read as lists, and loses the same entry.
//!
//! **Cost.** A copy of the program for each edit.

use cranelift_codegen::ir::{Function, Opcode, ValueList};

use super::edit::drop_entry_param;
use super::program::ReducibleProgram;

/// A call in the form that generated programs and reduced ones have.
struct RootCall {
    args: Vec<String>,
    activity: Vec<String>,
    seeds: Vec<String>,
    shadows: Vec<(usize, String)>,
}

impl RootCall {
    fn parse(text: &str) -> Option<Self> {
        let (args, rest) = text.split_once('(')?.1.split_once(')')?;
        let rest = rest.split("nofd").next()?;
        let (rest, shadows) = match rest.split_once(" shadow ") {
            Some((rest, shadows)) => (rest, shadows.split(" shadow ").collect::<Vec<_>>()),
            None => (rest, vec![]),
        };
        let (activity, seeds) = rest
            .trim()
            .strip_prefix("activity")?
            .split_once(" seed ")
            .unwrap_or((rest.trim().strip_prefix("activity")?, ""));
        let shadows = shadows.iter().map(|s| {
            let (n, list) = s.split_once('=')?;
            Some((n.trim().parse().ok()?, list.trim().to_owned()))
        });
        Some(Self {
            args: split(args),
            activity: split(activity),
            seeds: split(seeds),
            shadows: shadows.collect::<Option<_>>()?,
        })
    }

    fn text(&self) -> String {
        let seeds = if self.seeds.is_empty() { String::new() } else { format!(" seed {}", self.seeds.join(", ")) };
        let shadows: String = self.shadows.iter().map(|(n, list)| format!(" shadow {n}={list}")).collect();
        let open = vec!["_"; self.args.len()].join(", ");
        let (args, activity) = (self.args.join(", "), self.activity.join(","));
        format!("%f({args}) activity {activity}{seeds}{shadows} nofd == [{open}]")
    }

    /// Whether another argument is the same buffer.
    fn is_aliased(&self, i: usize) -> bool {
        self.args.iter().any(|a| *a == format!("@{i}"))
    }

    fn remove_arg(&mut self, i: usize) {
        self.args.remove(i);
        self.activity.remove(i);
        self.shadows.retain(|(n, _)| *n != i);
        for (n, _) in &mut self.shadows {
            *n -= usize::from(*n > i);
        }
        for arg in &mut self.args {
            if let Some(n) = arg.strip_prefix('@').and_then(|n| n.parse::<usize>().ok())
                && n > i
            {
                *arg = format!("@{}", n - 1);
            }
        }
    }
}

/// The entries of a list, whose own lists stay whole.
fn split(list: &str) -> Vec<String> {
    let mut out = vec![String::new()];
    let mut depth = 0;
    for c in list.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            ',' if depth == 0 => {
                out.push(String::new());
                continue;
            }
            _ => {}
        }
        out.last_mut().expect("there is one").push(c);
    }
    let mut out: Vec<String> = out.into_iter().map(|s| s.trim().to_owned()).collect();
    out.retain(|s| !s.is_empty());
    out
}

/// An argument of the call becomes zero inside.
pub(super) fn drop_param(p: &ReducibleProgram, n: usize) -> Option<ReducibleProgram> {
    (n < p.functions.first()?.signature.params.len()).then_some(())?;
    let mut out = p.clone();
    let mut call = RootCall::parse(&p.call)?;
    if !call.is_aliased(n) {
        call.remove_arg(n);
        drop_entry_param(&mut out.functions[0], n)?;
        out.call = call.text();
    }
    Some(out)
}

/// A result of the called function goes.
pub(super) fn drop_result(p: &ReducibleProgram, n: usize) -> Option<ReducibleProgram> {
    (n < p.functions.first()?.signature.returns.len()).then_some(())?;
    let mut out = p.clone();
    let mut call = RootCall::parse(&p.call)?;
    call.seeds.remove(n);
    out.call = call.text();
    remove_result(&mut out.functions[0], n).then_some(())?;
    Some(out)
}

/// Whether it could be done: not if the function ends by calling another.
fn remove_result(f: &mut Function, n: usize) -> bool {
    f.signature.returns.remove(n);
    for block in f.layout.blocks().collect::<Vec<_>>() {
        let Some(last) = f.layout.last_inst(block) else { continue };
        match f.dfg.insts[last].opcode() {
            Opcode::Return => {
                let mut values = f.dfg.inst_args(last).to_vec();
                values.remove(n);
                let args = ValueList::from_iter(values, &mut f.dfg.value_lists);
                f.dfg.insts[last] = cranelift_codegen::ir::InstructionData::MultiAry { opcode: Opcode::Return, args };
            }
            Opcode::ReturnCall | Opcode::ReturnCallIndirect => return false,
            _ => {}
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::RootCall;

    #[test]
    fn calls_survive_and_shrink() {
        let text = "%f(1.5, [1.0, 2.0], @1, [0.5 1.5]) activity active,duplicated,duplicated,const seed 2, [1 0] \
                    shadow 1=[0.5, 0.5] nofd == [_, _, _, _]";
        let mut call = RootCall::parse(text).expect("a call");
        assert_eq!(call.text(), text);
        assert!(call.is_aliased(1));
        call.remove_arg(0);
        assert_eq!(
            call.text(),
            "%f([1.0, 2.0], @0, [0.5 1.5]) activity duplicated,duplicated,const seed 2, [1 0] shadow 0=[0.5, 0.5] \
             nofd == [_, _, _]"
        );
    }
}
