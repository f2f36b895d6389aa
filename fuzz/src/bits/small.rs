//! Smaller programs that fail in the same way.
//!
//! **Question.** Which statements of a program does a failure need?
//!
//! **Answer.** One thing is left out at a time, coarse ones first, as long as the program still
//! fails; every edit takes something away for good, so it ends.
//!
//! **Cost.** A judgement for each edit that is tried.

use anyhow::Result;

use super::program::{Access, Arith, Array, Index, Kind, LENGTH, Lvalue, Program, Shape, Stmt, Storage};

/// Make a program smaller while `still` says that it fails as before.
pub fn reduce(program: &Program, mut still: impl FnMut(&Program) -> Result<bool>) -> Result<Program> {
    let mut best = program.clone();
    let mut at = 0;
    let mut kept = false;
    loop {
        // An edit that is kept shifts the others, so the number stays.
        match candidates(&best).into_iter().nth(at) {
            Some(candidate) if still(&candidate)? => (best, kept) = (candidate, true),
            Some(_) => at += 1,
            None if kept => (at, kept) = (0, false),
            None => return Ok(best),
        }
    }
}

/// Programs with one thing less, coarse edits first. Every edit takes something away for good.
fn candidates(program: &Program) -> Vec<Program> {
    let with = |change: &dyn Fn(&mut Program)| {
        let mut p = program.clone();
        change(&mut p);
        p
    };
    let mut all: Vec<_> = blocks(&program.body).into_iter().map(|body| with(&|p| p.body.clone_from(&body))).collect();
    for i in (0..program.out.len()).filter(|i| program.out[*i]) {
        all.push(with(&|p| p.out[i] = false));
    }
    if program.shadows {
        all.push(with(&|p| p.shadows = false));
    }
    if program.shared {
        all.push(with(&|p| p.shared = false));
    }
    for i in 0..2 {
        if program.local_arrays[i].storage != Storage::Frame {
            all.push(with(&|p| p.local_arrays[i].storage = Storage::Frame));
        }
    }
    if program.kind == Kind::Mixed {
        for (kind, float) in [Kind::Doubles, Kind::Singles].map(|k| (k, k.float(true))) {
            let local_arrays = program.local_arrays.map(|a| Array { float, ..a });
            all.push(with(&|p| (p.kind, p.local_arrays) = (kind, local_arrays)));
        }
    }
    all.retain(valid);
    all
}

/// Whether what must be of one type still is.
fn valid(program: &Program) -> bool {
    fn block(p: &Program, body: &[Stmt]) -> bool {
        body.iter().all(|stmt| match stmt {
            Stmt::Pack(..) => p.kind != Kind::Doubles,
            Stmt::Lanes(a, _) => p.array(*a) == super::program::Float::Single && p.plain(*a),
            Stmt::Move { ops, dst, .. } => ops.iter().all(|o| o.fits(p.float(*dst))),
            Stmt::Part(at, width, ..) => *width < p.float(*at).bits(),
            Stmt::Loop(_, _, body) | Stmt::If(_, body) => block(p, body),
            _ => true,
        })
    }
    block(program, &program.body)
}

fn blocks(body: &[Stmt]) -> Vec<Vec<Stmt>> {
    let replaced = |i: usize, by: &[Stmt]| [&body[..i], by, &body[i + 1..]].concat();
    let mut all: Vec<_> = (0..body.len()).map(|i| replaced(i, &[])).collect();
    for (i, stmt) in body.iter().enumerate() {
        if let Stmt::Loop(_, _, inner) | Stmt::If(_, inner) = stmt {
            all.push(replaced(i, inner));
        }
        all.extend(statements(stmt).into_iter().map(|s| replaced(i, &[s])));
    }
    all
}

/// The statement with one thing less.
fn statements(stmt: &Stmt) -> Vec<Stmt> {
    let mut all = Vec::new();
    match stmt {
        Stmt::Move { dst, src, ops, get, put, shape } => {
            let make =
                |dst, src, ops: &[_], get, put, shape| Stmt::Move { dst, src, ops: ops.to_vec(), get, put, shape };
            for i in 0..ops.len() {
                all.push(make(*dst, *src, &[&ops[..i], &ops[i + 1..]].concat(), *get, *put, *shape));
            }
            if *shape != Shape::Inline {
                all.push(make(*dst, *src, ops, *get, *put, Shape::Inline));
            }
            if *get != Access::Copy {
                all.push(make(*dst, *src, ops, Access::Copy, *put, *shape));
            }
            if *put != Access::Copy {
                all.push(make(*dst, *src, ops, *get, Access::Copy, *shape));
            }
            let fixed = (still(*dst), still(*src));
            if fixed != (*dst, *src) {
                all.push(make(fixed.0, fixed.1, ops, *get, *put, *shape));
            }
        }
        Stmt::Part(at, width, op, access) => {
            if *access != Access::Cast {
                all.push(Stmt::Part(*at, *width, *op, Access::Cast));
            }
            if still(*at) != *at {
                all.push(Stmt::Part(still(*at), *width, *op, *access));
            }
        }
        Stmt::Arith(dst, a, b, arith) => {
            if *arith != Arith::Sum {
                all.push(Stmt::Arith(*dst, *a, *b, Arith::Sum));
            }
            if a != b {
                all.push(Stmt::Arith(*dst, *a, *a, *arith));
            }
            let fixed = [*dst, *a, *b].map(still);
            if fixed != [*dst, *a, *b] {
                all.push(Stmt::Arith(fixed[0], fixed[1], fixed[2], *arith));
            }
        }
        Stmt::Choose(dst, a, b, choice, access) if *access != Access::Copy => {
            all.push(Stmt::Choose(*dst, *a, *b, *choice, Access::Copy));
        }
        Stmt::Loop(iterations, skip, body) => {
            if skip.is_some() {
                all.push(Stmt::Loop(*iterations, None, body.clone()));
            }
            if *iterations > 2 {
                all.push(Stmt::Loop(if *iterations == LENGTH { 3 } else { 2 }, *skip, body.clone()));
            }
            all.extend(blocks(body).into_iter().map(|body| Stmt::Loop(*iterations, *skip, body)));
        }
        Stmt::If(cond, body) => all.extend(blocks(body).into_iter().map(|body| Stmt::If(*cond, body))),
        _ => {}
    }
    all
}

/// The place, but the same in each iteration.
fn still(place: Lvalue) -> Lvalue {
    match place {
        Lvalue::Cell(a, Index::Iteration(k)) => Lvalue::Cell(a, Index::Fixed(k)),
        other => other,
    }
}
