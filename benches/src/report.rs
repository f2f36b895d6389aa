//! Rows as a table for people, and as JSON for programs.

use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use crate::measure::Row;

/// An aligned table. `/ primal` and `/ hand` are ratios of the gradient within the same run; the last row has their geometric
/// means over all problems with an adjoint written by hand.
pub fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let columns = [
        "problem",
        "primal",
        "gradient",
        "by hand",
        "/ primal",
        "hand's",
        "/ hand",
        "tape",
        "a step",
        "guarded",
        "differentiate",
        "compile",
        "/ Cranelift",
        "",
    ];
    table.set_header(columns);
    let ratio = |x: f64| format!("{x:.2}x");
    let or_dash = |x: Option<String>| x.unwrap_or_else(|| "-".to_owned());
    for row in rows {
        table.add_row([
            row.name.to_owned(),
            time(row.primal_ns),
            time(row.gradient_ns),
            or_dash(row.hand_ns.map(time)),
            ratio(row.gradient_ns / row.primal_ns),
            or_dash(row.hand_ns.map(|hand| ratio(hand / row.primal_ns))),
            or_dash(row.hand_ns.map(|hand| ratio(row.gradient_ns / hand))),
            bytes(row.tape_bytes as f64),
            bytes(row.tape_bytes as f64 / row.iterations.max(1) as f64),
            time(row.guarded_ns),
            time(row.differentiate_us * 1e3),
            time(row.compile_us * 1e3),
            ratio((row.differentiate_us + row.compile_us) / row.primal_compile_us),
            row.about.to_owned(),
        ]);
    }
    let with_hand = || rows.iter().filter_map(|row| row.hand_ns.map(|hand| (row, hand)));
    if with_hand().next().is_some() {
        let mut mean = vec![String::new(); columns.len()];
        mean[0] = "geometric mean".to_owned();
        mean[4] = ratio(geometric_mean(with_hand().map(|(row, _)| row.gradient_ns / row.primal_ns)));
        mean[5] = ratio(geometric_mean(with_hand().map(|(row, hand)| hand / row.primal_ns)));
        mean[6] = ratio(geometric_mean(with_hand().map(|(row, hand)| row.gradient_ns / hand)));
        table.add_row(mean);
    }
    for i in 1..columns.len() - 1 {
        if let Some(column) = table.column_mut(i) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.trim_fmt()
}

/// The mean of ratios; NaN if there are none.
pub fn geometric_mean(ratios: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = ratios.fold((0.0, 0.0), |(sum, n), x| (sum + x.ln(), n + 1.0));
    (sum / n).exp()
}

/// An array with one object per row.
pub fn json(rows: &[Row]) -> Value {
    let tenths = |x: f64| (x * 10.0).round() / 10.0;
    rows.iter()
        .map(|row| {
            json!({
                "name": row.name,
                "primal_ns": tenths(row.primal_ns),
                "gradient_ns": tenths(row.gradient_ns),
                "hand_ns": row.hand_ns.map(tenths),
                "tape_bytes": row.tape_bytes,
                "differentiate_us": tenths(row.differentiate_us),
                "compile_us": tenths(row.compile_us),
            })
        })
        .collect()
}

/// Three digits or so and a unit.
fn scaled(x: f64, units: &[(f64, &str)]) -> String {
    let &(size, unit) = units.iter().rev().find(|(size, _)| x >= *size).unwrap_or(&units[0]);
    let x = x / size;
    let digits = if x >= 100.0 || x == x.trunc() { 0 } else { 1 };
    format!("{x:.digits$} {unit}")
}

fn time(ns: f64) -> String {
    scaled(ns, &[(1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s")])
}

fn bytes(n: f64) -> String {
    scaled(n, &[(1.0, "B"), (1e3, "kB"), (1e6, "MB"), (1e9, "GB")])
}

#[cfg(test)]
mod tests {
    use super::{bytes, time};

    #[test]
    fn units() {
        assert_eq!(time(0.5), "0.5 ns");
        assert_eq!(time(12.34), "12.3 ns");
        assert_eq!(time(5170.0), "5.2 us");
        assert_eq!(time(158_000.0), "158 us");
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(240_000.0), "240 kB");
    }
}
