//! Tasks that run one after the other.
//!
//! **Question.** Tasks of a module's forks see one memory, and each has a stack of C. What else do
//! they share, of which each of them would need one of its own? **Answer.** What memory grows by,
//! globals, output and the host's other means, blocks of an allocator, and fuel. A fork whose tasks
//! may come to one of these is a loop, and says why (`Func::serial`). What tasks may call is all
//! that is called from them, through tables as well.
//!
//! **Errs** on the side of a loop.
//!
//! **Cost.** A walk over the functions that each task reaches.

use std::collections::{HashMap, HashSet};

use brolga::{FuncKey, Program};
use brolga_ir::driver::Driver;

use crate::function::env::CodeOptions;
use crate::parse::Info;
use crate::translate::TranslatedModule;

/// Tasks run one after the other where they would share more than memory: what memory grows
/// by, globals, output and the host's other means, blocks of an allocator, fuel.
pub(crate) fn leave(translated: &mut TranslatedModule, info: &Info<'_>, mode: CodeOptions) {
    let program = &mut translated.program;
    let drivers: Vec<(FuncKey, FuncKey)> = (program.funcs.iter())
        .filter_map(|(key, f)| match &f.driver {
            Some(Driver::Tasks(task)) => Some((key, program.func(task)?)),
            _ => None,
        })
        .collect();
    let mut known = HashMap::new();
    for (driver, task) in drivers {
        let why = if info.memories.len() > 1 {
            Some("the module has several memories".to_owned())
        } else if mode.fuel {
            Some("the fuel of an instance is one number".to_owned())
        } else {
            shares(program, task, &translated.sets_globals, &mut known)
        };
        if why.is_some() {
            let driver = program.func_mut(driver);
            (driver.driver, driver.serial) = (None, why);
        }
    }
}

/// What a task reaches that there is one of.
fn shares(
    program: &Program,
    task: FuncKey,
    sets_globals: &[FuncKey],
    known: &mut HashMap<FuncKey, Option<String>>,
) -> Option<String> {
    let reason = |k: FuncKey| {
        let f = &program.funcs[k];
        let name = f.source_name().unwrap_or_else(|| format!("%{}", f.symbol));
        if f.allocator.is_some() {
            return Some(format!("a task may call {name}, which allocates or releases memory"));
        }
        match f.host {
            Some(_) if f.symbol == crate::imports::GROW.symbol => Some("a task may let memory grow".to_owned()),
            // It does nothing that is seen outside of it.
            Some(_) if f.repeatable => None,
            Some(_) => Some(format!("a task may call {name}, which is the host's")),
            None => sets_globals.contains(&k).then(|| format!("a task may call {name}, which sets a global")),
        }
    };
    let (mut seen, mut open) = (HashSet::from([task]), vec![task]);
    let mut at = 0;
    while let Some(&k) = open.get(at) {
        at += 1;
        if let Some(why) = known.entry(k).or_insert_with(|| reason(k)) {
            return Some(why.clone());
        }
        let Some(body) = &program.funcs[k].body else { continue };
        open.extend(body.dfg.ext_funcs.keys().filter_map(|r| program.callee(body, r)).filter(|&c| seen.insert(c)));
    }
    None
}
