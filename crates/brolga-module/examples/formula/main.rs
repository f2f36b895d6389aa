//! A language of formulas, their gradients and Hessians: a frontend whose module is wrapped.
//!
//! `docs/EMBEDDING.md` goes through it. Run it with
//!
//! ```text
//! cargo run -p brolga-module --example formula -- FILE.formula 'rosenbrock([1.0, 2.0], 2)'
//! cargo run -p brolga-module --example formula -- -e 'x^2 * sin(y)' x=1.5 y=0.5
//! ```

mod codegen;
mod parse;
mod run;

use std::process::ExitCode;

use parse::{Block, Expr, Function, Kind, Type};
use run::{Arg, Formulas};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const USAGE: &str =
    "usage: formula [--hessian] FILE 'NAME(ARGUMENT, …)'\n       formula [--hessian] -e 'EXPRESSION' NAME=NUMBER …";

fn main() -> ExitCode {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let hessian = words.first().is_some_and(|w| w == "--hessian");
    words.drain(..usize::from(hessian));
    match answer(&words, hessian) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::FAILURE
        }
    }
}

fn answer(words: &[String], hessian: bool) -> Result<()> {
    let (program, name, mut args) = match words {
        [flag, text, values @ ..] if flag == "-e" => {
            let (mut params, mut args) = (Vec::new(), Vec::new());
            for v in values {
                let (name, number) = v.split_once('=').ok_or("values are given as NAME=NUMBER")?;
                params.push((name.to_owned(), Type::Float));
                args.push(Arg::Float(number.parse().map_err(|_| format!("`{number}` is no number"))?));
            }
            let e = parse::expression(text).map_err(|e| format!("expression:{e}"))?;
            let body = Block { stmts: vec![], value: Some(Box::new(e)) };
            (vec![Function { at: parse::At(1, 1), name: "it".to_owned(), params, body }], "it".to_owned(), args)
        }
        [file, call] => {
            let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
            let program = parse::program(&text).map_err(|e| format!("{file}:{e}"))?;
            let call = parse::expression(call).map_err(|e| format!("call:{e}"))?;
            let Kind::Call(name, args) = call.kind else { return Err(USAGE.into()) };
            (program, name, args.iter().map(constant).collect::<Result<Vec<_>>>()?)
        }
        _ => return Err(USAGE.into()),
    };
    let whence = words.first().filter(|w| *w != "-e").map_or("expression", String::as_str);
    let mut formulas = Formulas::new(&program).map_err(|e| format!("{whence}:{e}"))?;
    if let Some(f) = program.iter().find(|f| f.name == name) {
        // `1` is a float where one is wanted.
        for (a, p) in args.iter_mut().zip(&f.params) {
            if let (Arg::Int(n), Type::Float) = (&*a, p.1) {
                *a = Arg::Float(*n as f64);
            }
        }
    }
    println!("value {:?}", formulas.value(&name, &mut args.clone())?);
    let mut gradient: Vec<Arg> = args.iter().map(Arg::zero).collect();
    formulas.gradient(&name, &mut args.clone(), 1.0, &mut gradient)?;
    let params = program.iter().find(|f| f.name == name).map_or(&[][..], |f| &f.params);
    for ((name, _), g) in params.iter().zip(&gradient) {
        match g {
            Arg::Float(x) => println!("gradient {name} {x:?}"),
            Arg::Array(x) => println!("gradient {name} {x:?}"),
            Arg::Int(_) => {}
        }
    }
    if hessian {
        rows(&mut formulas, &name, &args)?;
    }
    Ok(())
}

/// Print the Hessian: a product for each float of the arguments.
fn rows(formulas: &mut Formulas, name: &str, args: &[Arg]) -> Result<()> {
    for i in 0..args.len() {
        for k in 0..args[i].clone().floats().len() {
            let mut vector: Vec<Arg> = args.iter().map(Arg::zero).collect();
            vector[i].floats()[k] = 1.0;
            let mut row = formulas.product(name, args, &vector)?;
            let row: Vec<f64> = row.iter_mut().flat_map(|a| a.floats().to_vec()).collect();
            println!("hessian {row:?}");
        }
    }
    Ok(())
}

/// A number or an array of numbers.
fn constant(e: &Expr) -> Result<Arg> {
    Ok(match &e.kind {
        Kind::Float(x) => Arg::Float(*x),
        Kind::Int(n) => Arg::Int(*n),
        Kind::Neg(e) => match constant(e)? {
            Arg::Float(x) => Arg::Float(-x),
            Arg::Int(n) => Arg::Int(-n),
            Arg::Array(_) => return Err("call: an array has no sign".into()),
        },
        Kind::Array(items) => Arg::Array(
            items
                .iter()
                .map(|e| match constant(e)? {
                    Arg::Float(x) => Ok(x),
                    Arg::Int(n) => Ok(n as f64),
                    Arg::Array(_) => Err("call: an array holds numbers".into()),
                })
                .collect::<Result<_>>()?,
        ),
        _ => return Err(format!("call:{}:{}: arguments are numbers and arrays of them", e.at.0, e.at.1).into()),
    })
}
