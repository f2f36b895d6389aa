//! A language of formulas, their gradients and Hessians: a frontend whose module is wrapped.
//!
//! `docs/EMBEDDING.md` goes through it. Run it with
//!
//! ```text
//! cargo run -p brolga-module --example formula -- FILE.formula 'rosenbrock([1.0, 2.0])'
//! ```

mod codegen;
mod run;

use run::Formulas;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [file, call] = &words[..] else {
        return Err("usage: formula FILE 'NAME([NUMBER, …])'".into());
    };
    let (name, numbers) = call.trim_end_matches("])").split_once("([").ok_or("a call is NAME([NUMBER, …])")?;
    let mut x = numbers.split(',').map(|n| n.trim().parse()).collect::<Result<Vec<f64>, _>>()?;
    let mut formulas = Formulas::new(&std::fs::read_to_string(file)?).map_err(|e| format!("{file}:{e}"))?;

    println!("value {:?}", formulas.value(name, &mut x)?);
    let mut gradient = vec![0.0; x.len()];
    formulas.gradient(name, &mut x, &mut gradient)?;
    println!("gradient {gradient:?}");
    for i in 0..x.len() {
        let mut row = vec![0.0; x.len()];
        row[i] = 1.0;
        println!("hessian {:?}", formulas.product(name, &mut x, &mut row)?);
    }
    Ok(())
}
