//! Executes `docs/KINKS.md`: each line of its tables against the row, and against the function
//! where that can be measured.

use brolga_rules::check::{Probe, Slope, Width, check, measure};
use brolga_rules::{ExprRow, MathKind, OpcodeRule, math_rule, opcode_rule};
use cranelift_codegen::ir::{Opcode, types};

use crate::subjects::{Compiled, Foreign};

const PAGE: &str = include_str!("../../../docs/KINKS.md");

/// What is differentiated on a line.
pub(crate) enum Subject {
    Opcode(Opcode),
    Function(&'static str),
}

/// A line of a table.
pub(crate) struct Line {
    pub subject: Subject,
    pub text: &'static str,
    pub operands: Vec<f64>,
    /// By result, then by operand.
    pub partials: Vec<Vec<f64>>,
    kind: &'static str,
}

impl Line {
    pub(crate) fn row(&self) -> &'static ExprRow {
        match self.subject {
            Subject::Opcode(op) => match opcode_rule(op) {
                OpcodeRule::Expr(row) => row,
                other => panic!("{}: {other:?}", self.text),
            },
            Subject::Function(symbol) => match math_rule(symbol).map(|rule| &rule.kind) {
                Some(MathKind::Expr(row) | MathKind::Writes(row, _)) => row,
                other => panic!("{}: {other:?}", self.text),
            },
        }
    }

    /// The function, and which of its operands are floats.
    #[expect(clippy::type_complexity, reason = "used once")]
    fn function(&self) -> (Box<dyn Fn(&[f64]) -> Vec<f64>>, Vec<bool>) {
        match self.subject {
            Subject::Opcode(op) => {
                let n = self.operands.len();
                let code = Compiled::opcode(op, types::F64, n);
                (Box::new(move |x| vec![code.run_scalar(Width::F64, x)]), vec![true; n])
            }
            Subject::Function(symbol) => {
                let f = Foreign::new(math_rule(symbol).expect("a rule"));
                let floats = (0..self.operands.len()).map(|i| f.is_continuous(i)).collect();
                (Box::new(move |x| f.call(x)), floats)
            }
        }
    }

    /// Whether the row says what the line says.
    pub(crate) fn agrees(&self, row: &ExprRow) -> Result<(), String> {
        let results = self.function().0(&self.operands);
        for (r, o, partial) in row.partials() {
            let (got, want) = (partial.eval(1.0, &self.operands, &results), self.partials[r][o]);
            if !(got == want || got.is_nan() && want.is_nan()) {
                return Err(format!("{}: ∂{r}/∂{o} is {got}, not {want}", self.text));
            }
        }
        Ok(())
    }

    fn measured(&self) -> Vec<Probe> {
        let (f, floats) = self.function();
        measure(&f, Width::F64, std::slice::from_ref(&self.operands), |_, i| floats[i])
    }
}

/// All lines.
pub(crate) fn lines() -> Vec<Line> {
    let mut lines = Vec::new();
    let mut heading = "";
    for line in PAGE.lines() {
        if let Some(h) = line.strip_prefix("## ") {
            heading = h;
        }
        let cells: Vec<&'static str> = line.split('|').map(str::trim).collect();
        let [_, at, partials, kind, _, _, _] = cells[..] else { continue };
        let (Some(at), Some(partials)) = (code(at), code(partials)) else { continue };
        let (name, operands) = at.strip_suffix(')').and_then(|a| a.split_once('(')).expect("a call");
        let numbers = |s: &str| {
            s.split(',').map(|n| n.trim().parse().unwrap_or_else(|_| panic!("{at}: {n}"))).collect::<Vec<f64>>()
        };
        let subject = match heading {
            "Instructions" => Subject::Opcode(name.parse().unwrap_or_else(|e| panic!("{name}: {e}"))),
            _ => Subject::Function(name),
        };
        let partials = partials.split(';').map(numbers).collect();
        lines.push(Line { subject, text: at, operands: numbers(operands), partials, kind });
    }
    assert!(lines.len() > 50, "the tables were not found");
    lines
}

fn code(cell: &'static str) -> Option<&'static str> {
    cell.strip_prefix('`')?.strip_suffix('`')
}

#[test]
fn rows_say_what_the_page_says() {
    let wrong: Vec<String> = lines().iter().filter_map(|line| line.agrees(line.row()).err()).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_page_says_what_differences_say() {
    for line in lines() {
        let probes = line.measured();
        match line.kind {
            "mean" | "smooth" => {
                let probe = probes.first().unwrap_or_else(|| panic!("{} is not finite", line.text));
                check(line.row(), Width::F64, &probes).unwrap_or_else(|e| panic!("{}: {}", line.text, e[0]));
                assert!(matches!(probe.slopes[0][0], Slope::Value { .. }), "{}", line.text);
            }
            "infinite" => {
                let expected = line.partials[0][0];
                assert_eq!(probes[0].slopes[0][0], Slope::Infinite(expected), "{}", line.text);
            }
            "pole" => assert!(probes.is_empty(), "{} is finite", line.text),
            "jump" | "limit" | "NaN" => {}
            other => panic!("{}: what is {other}?", line.text),
        }
    }
}
