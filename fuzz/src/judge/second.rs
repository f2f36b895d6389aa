//! Second derivatives of a program: a Hessian-vector product against the oracle's of the primal,
//! and where the two are apart, differences of gradients, which decide.

use brolga::Options;
use brolga_driver::check::second::{ProductRow, second};
use brolga_driver::check::{DotProduct, RowVerdict, Tolerances};
use brolga_driver::protocol::derive;
use brolga_driver::{File, Invocation, Outcome};
use brolga_oracle::fd::Verdict as Difference;

use super::verdict::{Verdict, checked, is_trivial, refusal, wrong};

/// Judge a program whose gradient is right.
pub(super) fn judge(file: &File, call: &Invocation, outcome: &Outcome, wild: bool) -> Result<Verdict, Verdict> {
    let options = Options::full();
    let hessian = brolga_driver::second::rules(&file.program, call, &options);
    hessian(1).map_err(refusal)?;
    let rule = || derive(&file.program, &call.request(), &Options::full());
    let tolerances = Tolerances::of(&file.program, call, None);
    let ask = |differences| second(&file.program, call, &hessian, &rule, tolerances, differences).map_err(checked);
    let found = ask(false)?;
    let scale = found.rows.iter().map(|r| r.product.abs()).filter(|x| x.is_finite()).fold(1.0, f64::max);
    let close =
        |r: &ProductRow| r.oracle.is_none_or(|o| (r.product - o).abs() <= tolerances.tape * scale || !o.is_finite());
    let apart = |r: &&ProductRow| r.verdict.is_wrong() && r.product.is_finite() && !close(r);
    if let Some(row) = found.rows.iter().find(apart) {
        let detail = |says: &str| format!("input {}: {:?}, {says}", row.input.name(), row.product);
        let differences = ask(true)?;
        let twin = differences.rows.iter().find(|r| r.input == row.input).and_then(|r| r.difference);
        return match twin {
            Some(v @ Difference::Smooth { .. }) if v.accepts(row.product, tolerances.differences) => {
                Err(Verdict::Unjudged(detail(&format!("differences agree, the oracle says {:?}", row.oracle))))
            }
            // Where rounding is all that is left, neither is known to be right.
            Some(Difference::Smooth { value, .. }) if !wild => {
                let says = format!("differences say {value:?}, the oracle {:?}", row.oracle);
                Err(wrong("product", detail(&says)))
            }
            _ if wild => Err(Verdict::Unjudged(detail("differences say nothing, in a program of wild numbers"))),
            _ => Err(wrong("product against the oracle", detail(&format!("the oracle says {:?}", row.oracle)))),
        };
    }
    let DotProduct { forward, reverse, .. } = found.symmetry;
    if let Some((input, [beside, alone])) = found.gradients.first().filter(|_| !wild) {
        return Err(wrong(
            "gradient beside the product",
            format!("input {}: {beside:?}, {alone:?} alone", input.name()),
        ));
    }
    // What cancels inside of an entry is not seen in the sum.
    if found.symmetric == Some(false)
        && !wild
        && (forward - reverse).abs() > tolerances.tape * (scale + forward.abs().max(reverse.abs()))
    {
        return Err(wrong("symmetry", format!("{forward:?} and {reverse:?}")));
    }
    let silent = found.rows.iter().all(|r| r.verdict == RowVerdict::Unknown || r.product == 0.0);
    Ok(if silent || is_trivial(call, outcome) { Verdict::Trivial } else { Verdict::Useful })
}
