//! What the constants of the cost model stand for, measured here: [`mod@brolga_rules::cost`] beside
//! the machine.
//!
//! *Problem.* The model's numbers are those of processors in general. Whether they are this one's
//! is not to be seen from gradients, which depend on everything.
//!
//! *Method.* Small loops in CLIF. A chain of one instruction tells its latency, in cycles: that of
//! an addition of integers. Numbers that are stored one after the other and read again backwards
//! tell what a record takes. An iteration with a chain that does not depend on the iteration
//! before, among instructions that are not waited for, tells how many of these are under way: as
//! many iterations as their latency is longer than the time of one.

use std::fmt::Write;
use std::time::{Duration, Instant};

use brolga::Primal;
use brolga::cranelift_codegen::data_value::DataValue;
use brolga::cranelift_codegen::ir::Opcode;
use brolga_driver::File;
use brolga_rules::cost;

use crate::{Configuration, Failure, Mode};

/// A constant: its name, what the model says, and what is measured.
pub type CostConstant = (&'static str, f64, f64);

/// Instructions of a chain in an iteration.
const CHAIN: usize = 8;
/// Iterations of a loop.
const ITERATIONS: i64 = 2000;
/// Numbers of a record: so many that a call itself is not seen.
const RECORD: i64 = 1 << 14;
/// Instructions beside the chain of an iteration that does not wait for the one before.
const BESIDE: usize = 128;

/// A loop that hands parameters on, beside the number of iterations that are left.
fn iterations(params: &str, first: &str, iteration: &str, next: &str, result: &str) -> String {
    format!(
        "function %f(i64, i64) -> i64 system_v {{
        block0(v0: i64, v1: i64):
            v2 = iconst.i64 0
            v3 = iconst.i64 1
            v4 = f64const 0x1.0p0
            jump block1(v1{first})
        block1(v5: i64{params}):
            {iteration}
            v6 = isub v5, v3
            brif v6, block1(v6{next}), block2
        block2:
            {result}
        }}"
    )
}

/// A chain of one instruction; `P` is the last result.
fn chain(ty: &str, first: &str, inst: &str) -> String {
    let mut iteration = String::new();
    for k in 0..CHAIN {
        let _ = writeln!(iteration, "v{} = {}", 11 + k, inst.replace('P', &format!("v{}", 10 + k)));
    }
    let last = 10 + CHAIN;
    let result = if ty == "f64" { format!("v8 = bitcast.i64 v{last}\nreturn v8") } else { format!("return v{last}") };
    iterations(&format!(", v10: {ty}"), &format!(", {first}"), &iteration, &format!(", v{last}"), &result)
}

/// Numbers that are stored and read again backwards.
fn record() -> String {
    "function %f(i64, i64) -> i64 system_v {
    block0(v0: i64, v1: i64):
        v2 = iconst.i64 8
        v3 = f64const 0x1.0p0
        v4 = iconst.i64 1
        jump block1(v1, v0)
    block1(v5: i64, v6: i64):
        store v3, v6
        v7 = iadd v6, v2
        v8 = isub v5, v4
        brif v8, block1(v8, v7), block2(v1, v7, v4)
    block2(v9: i64, v10: i64, v11: i64):
        v12 = isub v10, v2
        v13 = load.i64 v12
        v14 = bxor v11, v13
        v15 = isub v9, v4
        brif v15, block2(v15, v12, v14), block3
    block3:
        return v14
    }"
    .to_owned()
}

/// Iterations that do not wait for each other.
fn flight() -> String {
    let mut iteration = "v20 = load.f64 v0\n".to_owned();
    for k in 0..CHAIN {
        let _ = writeln!(iteration, "v{} = sqrt v{}", 21 + k, 20 + k);
    }
    let _ = writeln!(iteration, "store v{}, v0+8", 20 + CHAIN);
    let mut sums: Vec<usize> = (10..18).collect();
    for k in 0..BESIDE {
        let op = if k % 16 < 8 { "iadd" } else { "bxor" };
        let _ = writeln!(iteration, "v{} = {op} v{}, v5", 100 + k, sums[k % 8]);
        sums[k % 8] = 100 + k;
    }
    let list = |f: &dyn Fn(usize) -> String| (0..8).map(f).collect::<String>();
    let mut result = String::new();
    for k in 1..8 {
        let with = if k == 1 { sums[0] } else { 300 + k - 1 };
        let _ = writeln!(result, "v{} = bxor v{with}, v{}", 300 + k, sums[k]);
    }
    iterations(
        &list(&|k| format!(", v{}: i64", 10 + k)),
        &list(&|_| ", v2".to_owned()),
        &iteration,
        &list(&|k| format!(", v{}", sums[k])),
        &format!("{result}return v307"),
    )
}

/// How long a call of `%f(memory, n)` takes at least, in nanoseconds.
fn time(text: &str, n: i64) -> Result<f64, Failure> {
    let failed = |message: String| Failure::Call { name: "costs".to_owned(), message };
    let file = File::parse("costs", text).map_err(|e| failed(e.to_string()))?;
    let func = file.program.funcs.keys().next().ok_or_else(|| failed("there is no function".to_owned()))?;
    let primal = Primal::new(&file.program, &[func], &Configuration::from(Mode::Gradient).options());
    let primal = primal.map_err(|e| failed(e.to_string()))?;
    let mut memory = vec![0_u64; RECORD as usize + 2];
    let at = memory.as_mut_ptr();
    memory[0] = at as u64;
    if text.contains("load.f64") {
        memory[0] = 1.0_f64.to_bits();
    }
    let values = [DataValue::I64(at as i64), DataValue::I64(n)];
    let mut best = Duration::MAX;
    for _ in 0..300 {
        let start = Instant::now();
        // SAFETY: the functions above stay within as many numbers as there are.
        unsafe { primal.call(func, &values) }.map_err(|e| failed(e.to_string()))?;
        best = best.min(start.elapsed());
    }
    Ok(best.as_nanos() as f64)
}

/// Measure them.
///
/// # Errors
/// [`Failure::Call`] if a loop is refused.
pub fn run() -> Result<Vec<CostConstant>, Failure> {
    let of_chain = |text: String| Ok::<_, Failure>(time(&text, ITERATIONS)? / (ITERATIONS as f64 * CHAIN as f64));
    let cycle = of_chain(chain("i64", "v2", "iadd P, v0"))?;
    let mut all = Vec::new();
    let chains = [
        ("latency of fadd", Opcode::Fadd, chain("f64", "v4", "fadd P, v4")),
        ("latency of fmul", Opcode::Fmul, chain("f64", "v4", "fmul P, v4")),
        ("latency of fdiv", Opcode::Fdiv, chain("f64", "v4", "fdiv P, v4")),
        ("latency of sqrt", Opcode::Sqrt, chain("f64", "v4", "sqrt P")),
        ("latency of a load", Opcode::Load, chain("i64", "v0", "load.i64 P")),
    ];
    let mut root = 0.0;
    for (name, op, text) in chains {
        let cycles = of_chain(text)? / cycle;
        if op == Opcode::Sqrt {
            root = cycles;
        }
        all.push((name, f64::from(cost::latency(op)), cycles));
    }
    let record = time(&record(), RECORD)? / (8.0 * RECORD as f64) / cycle;
    all.push(("bytes of a record a cycle", f64::from(cost::BYTES_A_CYCLE), 1.0 / record));
    let iteration = time(&flight(), ITERATIONS)? / ITERATIONS as f64 / cycle;
    // The chain, its load and store, what stands beside, and the end of the iteration.
    let insts = (BESIDE + CHAIN + 4) as f64;
    all.push(("instructions in flight", f64::from(cost::IN_FLIGHT), insts * root * CHAIN as f64 / iteration));
    Ok(all)
}
