//! Rows as a table for people, and as JSON for programs.

use brolga::Pass;
use comfy_table::{CellAlignment, Table, presets};
use serde_json::{Value, json};

use crate::calls::CallRow;
use crate::costs::CostConstant;
use crate::forks::ForkRow;
use crate::latency::Latency;
use crate::loops::LoopRow;
use crate::measure::MeasuredRow;
use crate::passes::{Part, PassGain};
use crate::peers::PeerTimes;
use crate::reversible::{DriftRow, HessianRow, ReversibleRow, StepRow, TargetRow};
use crate::scaling::Rows;
use crate::second::{EmbeddingRow, ProductRow};
use crate::tangents::TangentRow;

/// An aligned table. `/ primal` and `/ hand` are ratios of the gradient within the same run; the
/// last row has their geometric means over all problems with an adjoint written by hand.
pub fn table(rows: &[MeasuredRow]) -> String {
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

/// Constants of the cost model, and what was measured.
pub fn costs(all: &[CostConstant]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["constant", "model", "measured"]);
    for (name, model, measured) in all {
        table.add_row([(*name).to_owned(), format!("{model:.0}"), format!("{measured:.1}")]);
    }
    table.trim_fmt()
}

/// A table of tangents: `/ primal` is the time of value and one tangent, `/ 8 runs` that of eight
/// tangents in one run, `/ 8 back` that of a forward pass and a pullback of eight seeds beside one
/// and eight pullbacks, `/ Cranelift` that until one can be called, with little effort. The last
/// row has the geometric means.
pub fn tangents(rows: &[TangentRow]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header([
        "problem",
        "primal",
        "tangent",
        "/ primal",
        "eight",
        "/ 8 runs",
        "seeds",
        "/ 8 back",
        "ready",
        "/ Cranelift",
    ]);
    let ratio = |x: f64| format!("{x:.2}x");
    let (run, ready) = (|r: &TangentRow| r.tangent_ns / r.primal_ns, |r: &TangentRow| r.ready_us / r.cranelift_us);
    let seeds = |r: &TangentRow| r.pullback_ns / r.pullbacks_ns;
    let eight = |r: &TangentRow| r.eight_ns / (8.0 * r.tangent_ns);
    for row in rows {
        let [primal, tangent, all] = [row.primal_ns, row.tangent_ns, row.eight_ns].map(time);
        let [run, eight, seeds, ready] = [run(row), eight(row), seeds(row), ready(row)].map(ratio);
        let (name, back, us) = (row.name.to_owned(), time(row.pullback_ns), time(row.ready_us * 1e3));
        table.add_row([name, primal, tangent, run, all, eight, back, seeds, us, ready]);
    }
    if rows.len() > 1 {
        let mean = |of: &dyn Fn(&TangentRow) -> f64| ratio(geometric_mean(rows.iter().map(of)));
        let [run, eight, seeds, ready] = [mean(&run), mean(&eight), mean(&seeds), mean(&ready)];
        let none = String::new;
        let name = "geometric mean".to_owned();
        table.add_row([name, none(), none(), run, none(), eight, none(), seeds, none(), ready]);
    }
    table.column_iter_mut().skip(1).for_each(|c| c.set_cell_alignment(CellAlignment::Right));
    table.trim_fmt()
}

/// A table of time loops: what a step takes, of the gradient of a short plain loop and of the time
/// loop within its budget; `/ plain` is their ratio. `again` counts the steps that run without a
/// tape, in both halves, a step of the loop.
pub fn loops(rows: &[LoopRow]) -> String {
    let cells = |r: &LoopRow| {
        [
            r.name.to_owned(),
            r.steps.to_string(),
            bytes(r.budget as f64),
            time(r.primal_ns),
            time(r.plain_ns),
            time(r.loop_ns),
            format!("{:.2}x", r.loop_ns / r.plain_ns),
            format!("{:.3}", r.stats.forward as f64 / f64::from(r.steps)),
            r.stats.max_slots.to_string(),
            bytes(r.stats.max_bytes as f64),
        ]
    };
    let header = ["loop", "steps", "budget", "primal", "plain", "a step", "/ plain", "again", "states", "most bytes"];
    of_numbers(header, rows.iter().map(cells))
}

/// A table of programs that fork: gradients without forks, on one thread and on two, what they
/// record, and what a fork costs in both halves where its tasks do nothing. Work and span count
/// instructions of the primal; their ratio is the most that threads can gain.
pub fn forks(rows: &[ForkRow]) -> String {
    let cells = |r: &ForkRow| {
        let counts = r.work_and_span;
        [
            r.name.to_owned(),
            time(r.serial_ns),
            time(r.one_ns),
            format!("{:.2}x", r.one_ns / r.serial_ns),
            time(r.two_ns),
            format!("{:.2}x", r.two_ns / r.one_ns),
            counts.map_or_else(String::new, |(work, _)| work.to_string()),
            counts.map_or_else(String::new, |(_, span)| span.to_string()),
            bytes(r.bytes as f64),
            r.fork_ns.map_or_else(String::new, time),
        ]
    };
    let one = "1 thread";
    let header = ["program", "serial", one, "/ serial", "2 threads", "/ one", "work", "span", "bytes", "a fork"];
    of_numbers(header, rows.iter().map(cells))
}

/// A table of Hessian-vector products: `/ gradient` is what value, gradient and one product take,
/// as a multiple of the gradient. The last row has the geometric mean.
pub fn products(rows: &[ProductRow]) -> String {
    let ratio = |r: &ProductRow| r.product_ns / r.gradient_ns;
    let cells =
        |r: &ProductRow| [r.name.to_owned(), time(r.gradient_ns), time(r.product_ns), format!("{:.2}x", ratio(r))];
    let mean = format!("{:.2}x", geometric_mean(rows.iter().map(ratio)));
    let mean = ["geometric mean".to_owned(), String::new(), String::new(), mean];
    of_numbers(["problem", "gradient", "product", "/ gradient"], rows.iter().map(cells).chain([mean]))
}

/// A table of the embedding: `/ primal` is the gradient's ratio, `/ gradients` that of the Hessian
/// to as many gradients as there are parameters.
pub fn embeddings(rows: &[EmbeddingRow]) -> String {
    let cells = |r: &EmbeddingRow| {
        [
            format!("in {} dimensions", r.dimension),
            time(r.primal_ns),
            time(r.gradient_ns),
            format!("{:.2}x", r.gradient_ns / r.primal_ns),
            time(r.hessian_ns),
            format!("{:.2}x", r.hessian_ns / (10.0 * r.dimension as f64 * r.gradient_ns)),
        ]
    };
    of_numbers(["embedding", "primal", "gradient", "/ primal", "Hessian", "/ gradients"], rows.iter().map(cells))
}

/// A table of reversible functions. `/ plain` is the gradient's ratio to the function in CLIF, by
/// tape and without; `/ own` that to the reversible function.
pub fn reversible(rows: &[ReversibleRow]) -> String {
    let cells = |r: &ReversibleRow| {
        [
            r.name.clone(),
            time(r.plain_ns),
            time(r.tape_ns),
            format!("{:.2}x", r.tape_ns / r.plain_ns),
            bytes(r.tape_bytes as f64),
            time(r.call_ns),
            format!("{:.2}x", r.uncall_ns / r.call_ns),
            time(r.gradient_ns),
            format!("{:.2}x", r.gradient_ns / r.plain_ns),
            format!("{:.2}x", r.gradient_ns / r.call_ns),
            bytes(r.bytes as f64),
        ]
    };
    let header =
        ["function", "plain", "by tape", "/ plain", "tape", "call", "un-call", "gradient", "/ plain", "/ own", "keeps"];
    of_numbers(header, rows.iter().map(cells))
}

/// A table of steps.
pub fn steps(rows: &[StepRow]) -> String {
    let first = rows.first().map_or(1.0, |r| r.step_ns);
    let cells = |r: &StepRow| {
        [
            r.how.to_owned(),
            r.steps.to_string(),
            time(r.primal_ns),
            time(r.step_ns),
            format!("{:.2}x", r.step_ns / r.primal_ns),
            format!("{:.2}x", r.step_ns / first),
            format!("{:.1} B", r.bytes),
            format!("{:.2}", r.forward),
        ]
    };
    let header = ["loop", "steps", "a step", "gradient", "/ step", "/ first", "keeps", "forwards"];
    of_numbers(header, rows.iter().map(cells))
}

/// A table of Hessians of reversible functions. `/ gradients` is the ratio to as many gradients as
/// there are inputs.
pub fn hessians(rows: &[HessianRow]) -> String {
    let cells = |r: &HessianRow| {
        let gradients = r.inputs as f64 * r.gradient_ns;
        [
            r.name.to_owned(),
            r.inputs.to_string(),
            time(r.gradient_ns),
            time(r.hessian_ns),
            format!("{:.2}x", r.hessian_ns / gradients),
        ]
    };
    of_numbers(["Hessian", "inputs", "gradient", "Hessian", "/ gradients"], rows.iter().map(cells))
}

/// A table of steps that are undone.
pub fn drifts(rows: &[DriftRow]) -> String {
    let cells = |r: &DriftRow| {
        let drift = [r.drift, r.by_hand].map(|x| format!("{x:.1e}"));
        [
            "leapfrog".to_owned(),
            r.steps.to_string(),
            drift[0].clone(),
            drift[1].clone(),
            format!("{:.2}x", r.drift / r.by_hand),
        ]
    };
    of_numbers(["there and back", "steps", "drift", "by hand", "/ hand"], rows.iter().map(cells))
}

/// A table of what was aimed at.
pub fn targets(rows: &[TargetRow]) -> String {
    let cells = |r: &TargetRow| [r.what.to_owned(), format!("{:.3}x", r.target), format!("{:.3}x", r.found)];
    of_numbers(["ratio", "target", "is"], rows.iter().map(cells))
}

/// A table of names and numbers.
fn of_numbers<const N: usize>(header: [&str; N], rows: impl Iterator<Item = [String; N]>) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(header);
    table.add_rows(rows);
    table.column_iter_mut().skip(1).for_each(|c| c.set_cell_alignment(CellAlignment::Right));
    table.trim_fmt()
}

/// A table of calls. `/ native` is the primal's ratio, `hand's` that of the adjoint written by hand
/// to the primal; `/ primal` and `/ hand` are the gradient's. The last row has their geometric
/// means over the rows that have them. Columns without entries are left out.
pub fn calls(rows: &[CallRow]) -> String {
    let ratio = |x: f64| format!("{x:.2}x");
    type Column<'a> = (&'a str, bool, Box<dyn Fn(&CallRow) -> Option<f64>>, Box<dyn Fn(f64) -> String>);
    // Title, whether it has a mean, the number, how it is shown.
    fn column(
        title: &str,
        mean: bool,
        of: impl Fn(&CallRow) -> Option<f64> + 'static,
        shown: impl Fn(f64) -> String + 'static,
    ) -> Column<'_> {
        (title, mean, Box::new(of), Box::new(shown))
    }
    let all = [
        column("native", false, |r| r.native_ns, time),
        column("primal", false, |r| Some(r.primal_ns), time),
        column("/ native", true, |r| Some(r.primal_ns / r.native_ns?), ratio),
        column("gradient", false, |r| Some(r.gradient_ns), time),
        column("by hand", false, |r| r.hand_ns, time),
        column("/ primal", true, |r| Some(r.gradient_ns / r.primal_ns), ratio),
        column("hand's", true, |r| Some(r.hand_ns? / r.primal_ns), ratio),
        column("/ hand", true, |r| Some(r.gradient_ns / r.hand_ns?), ratio),
        column("tape", false, |r| Some(r.tape_bytes as f64), bytes),
        column("differentiate", false, |r| Some(r.differentiate_us * 1e3), time),
        column("compile", false, |r| Some(r.compile_us * 1e3), time),
    ];
    let columns: Vec<_> = all.into_iter().filter(|(_, _, of, _)| rows.iter().any(|r| of(r).is_some())).collect();
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["call"].into_iter().chain(columns.iter().map(|c| c.0)));
    for row in rows {
        let cells = columns.iter().map(|(_, _, of, shown)| of(row).map_or_else(|| "-".to_owned(), shown));
        table.add_row([row.name.clone()].into_iter().chain(cells));
    }
    if rows.len() > 1 {
        let means =
            columns.iter().map(
                |(_, mean, of, shown)| {
                    if *mean { shown(geometric_mean(rows.iter().filter_map(of))) } else { String::new() }
                },
            );
        table.add_row(["geometric mean".to_owned()].into_iter().chain(means));
    }
    table.column_iter_mut().skip(1).for_each(|c| c.set_cell_alignment(CellAlignment::Right));
    table.trim_fmt()
}

/// The same as an array with one object per row.
pub fn calls_json(rows: &[CallRow]) -> Vec<Value> {
    let tenths = |x: f64| (x * 10.0).round() / 10.0;
    let object = |row: &CallRow| {
        json!({
            "name": row.name,
            "native_ns": row.native_ns.map(tenths),
            "primal_ns": tenths(row.primal_ns),
            "gradient_ns": tenths(row.gradient_ns),
            "hand_ns": row.hand_ns.map(tenths),
            "tape_bytes": row.tape_bytes,
            "differentiate_us": tenths(row.differentiate_us),
            "compile_us": tenths(row.compile_us),
        })
    };
    rows.iter().map(object).collect()
}

/// The mean of ratios; NaN if there are none.
pub fn geometric_mean(ratios: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = ratios.fold((0.0, 0.0), |(sum, n), x| (sum + x.ln(), n + 1.0));
    (sum / n).exp()
}

/// The series, each with a table of its own. Times a step are times divided by the length.
pub fn series(series: &Rows) -> String {
    let mut text = String::new();
    for (name, rows) in series {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_header(
            [name, "primal", "a step", "gradient", "a step", "/ primal", "/ hand", "tape a step"].into_iter().chain([
                "differentiate",
                "compile",
                "/ Cranelift",
            ]),
        );
        for (n, row) in rows {
            let (steps, ratio) = (row.iterations.max(1) as f64, |x: f64| format!("{x:.2}x"));
            table.add_row([
                n.to_string(),
                time(row.primal_ns),
                time(row.primal_ns / steps),
                time(row.gradient_ns),
                time(row.gradient_ns / steps),
                ratio(row.gradient_ns / row.primal_ns),
                row.hand_ns.map_or("-".to_owned(), |hand| ratio(row.gradient_ns / hand)),
                bytes(row.tape_bytes as f64 / steps),
                time(row.differentiate_us * 1e3),
                time(row.compile_us * 1e3),
                ratio((row.differentiate_us + row.compile_us) / row.primal_compile_us),
            ]);
        }
        table.column_iter_mut().for_each(|c| c.set_cell_alignment(CellAlignment::Right));
        text += &format!("{}\n\n", table.trim_fmt());
    }
    text
}

/// What it takes to get ready. The last row has the geometric mean of the ratios.
pub fn latencies(rows: &[Latency]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let head = ["problem", "instructions", "Cranelift", "differentiate", "", "compile", "", "/ Cranelift"];
    let head = [head.as_slice(), &["alone", "/ alone", "first gradient"]].concat();
    table.set_header(head.clone());
    let ratio = |x: f64| format!("{x:.2}x");
    for row in rows {
        table.add_row([
            row.name.clone(),
            row.insts.to_string(),
            time(row.cranelift_us * 1e3),
            time(row.differentiate_us * 1e3),
            ratio(row.differentiate_us / row.cranelift_us),
            time(row.compile_us * 1e3),
            ratio(row.compile_us / row.cranelift_us),
            ratio(row.ratio()),
            time(row.alone_us * 1e3),
            ratio(row.to_alone()),
            time(row.first_us * 1e3),
        ]);
    }
    let mut mean = vec![String::new(); head.len()];
    mean[0] = "geometric mean".to_owned();
    mean[4] = ratio(geometric_mean(rows.iter().map(|r| r.differentiate_us / r.cranelift_us)));
    mean[6] = ratio(geometric_mean(rows.iter().map(|r| r.compile_us / r.cranelift_us)));
    mean[7] = ratio(geometric_mean(rows.iter().map(Latency::ratio)));
    mean[9] = ratio(geometric_mean(rows.iter().map(Latency::to_alone)));
    table.add_row(mean);
    table.column_iter_mut().skip(1).for_each(|c| c.set_cell_alignment(CellAlignment::Right));
    table.trim_fmt()
}

/// The same as an array with one object per row.
pub fn latencies_json(rows: &[Latency]) -> Vec<Value> {
    let tenths = |x: f64| (x * 10.0).round() / 10.0;
    let object = |row: &Latency| {
        json!({
            "name": row.name,
            "insts": row.insts,
            "cranelift_us": tenths(row.cranelift_us),
            "alone_us": tenths(row.alone_us),
            "differentiate_us": tenths(row.differentiate_us),
            "compile_us": tenths(row.compile_us),
            "first_us": tenths(row.first_us),
        })
    };
    rows.iter().map(object).collect()
}

/// Peers beside us: nanoseconds, then how long our gradient takes in multiples of theirs, with
/// geometric means. Columns of peers that are not installed are left out.
pub fn peers(rows: &[MeasuredRow], peers: &PeerTimes) -> String {
    const NAMES: [&str; 5] = ["gcc primal", "gcc by hand", "Enzyme primal", "Enzyme", "JAX"];
    let of = |row: &MeasuredRow, peer: &str| peers.get(row.name).and_then(|p| p.get(peer)).and_then(Value::as_f64);
    let present: Vec<_> = NAMES.into_iter().filter(|p| rows.iter().any(|row| of(row, p).is_some())).collect();
    let gradients: Vec<_> = present.iter().copied().filter(|p| !p.ends_with("primal")).collect();
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    let head = ["problem", "primal", "gradient", "by hand"].into_iter().map(str::to_owned);
    let ratios = gradients.iter().map(|p| format!("/ {p}"));
    table.set_header(head.chain(present.iter().map(|p| (*p).to_owned())).chain(ratios));
    let dash = || "-".to_owned();
    for row in rows.iter().filter(|row| peers.contains_key(row.name)) {
        let own = [Some(row.primal_ns), Some(row.gradient_ns), row.hand_ns].into_iter();
        let times = own.chain(present.iter().map(|p| of(row, p))).map(|ns| ns.map_or_else(dash, time));
        let ratios =
            gradients.iter().map(|p| of(row, p).map_or_else(dash, |ns| format!("{:.2}x", row.gradient_ns / ns)));
        table.add_row([row.name.to_owned()].into_iter().chain(times).chain(ratios));
    }
    let mean = |p: &&str| {
        let mean = geometric_mean(rows.iter().filter_map(|row| Some(row.gradient_ns / of(row, p)?)));
        if mean.is_nan() { dash() } else { format!("{mean:.2}x") }
    };
    let empty = std::iter::repeat_n(String::new(), 3 + present.len());
    table.add_row(["geometric mean".to_owned()].into_iter().chain(empty).chain(gradients.iter().map(mean)));
    table.column_iter_mut().skip(1).for_each(|c| c.set_cell_alignment(CellAlignment::Right));
    table.trim_fmt()
}

/// An array with one object per row, and in each the peers' nanoseconds if there are any.
pub fn json(rows: &[MeasuredRow], peers: Option<&PeerTimes>) -> Vec<Value> {
    let tenths = |x: f64| (x * 10.0).round() / 10.0;
    rows.iter()
        .map(|row| {
            let mut object = json!({
                "name": row.name,
                "primal_ns": tenths(row.primal_ns),
                "gradient_ns": tenths(row.gradient_ns),
                "hand_ns": row.hand_ns.map(tenths),
                "tape_bytes": row.tape_bytes,
                "differentiate_us": tenths(row.differentiate_us),
                "compile_us": tenths(row.compile_us),
            });
            if let Some(peers) = peers {
                object["peers"] = peers.get(row.name).cloned().unwrap_or_default();
            }
            object
        })
        .collect()
}

/// For each pass: how many problems it has a part in, how long these take without it (the geometric
/// mean), where that matters most and least, and what is recorded where that changes most.
pub fn worths(worths: &[PassGain]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_header(["without", "problems", "time", "most", "least", "tape"]);
    for (pass, parts) in worths {
        let mut by_time: Vec<&Part> = parts.iter().collect();
        by_time.sort_by(|a, b| b.time.total_cmp(&a.time));
        let shown = |p: &&Part| format!("{} {:.2}x", p.problem, p.time);
        let n = by_time.len();
        let most = by_time.iter().take(3).map(shown).collect::<Vec<_>>().join(", ");
        let least = by_time.iter().skip(3.max(n.saturating_sub(2))).map(shown).collect::<Vec<_>>().join(", ");
        let grows = |p: &&&Part| (p.tape[1] + 1) as f64 / (p.tape[0] + 1) as f64;
        let most_tape = by_time.iter().filter(|p| p.tape[0] != p.tape[1]).max_by(|a, b| grows(a).total_cmp(&grows(b)));
        let tape = |p: &&Part| format!("{} {} -> {}", p.problem, bytes(p.tape[0] as f64), bytes(p.tape[1] as f64));
        let mean = geometric_mean(parts.iter().map(|p| p.time));
        let mean = if parts.is_empty() { "-".to_owned() } else { format!("{mean:.2}x") };
        table.add_row([pass.to_string(), n.to_string(), mean, most, least, most_tape.map(tape).unwrap_or_default()]);
    }
    table.column_iter_mut().skip(1).take(2).for_each(|c| c.set_cell_alignment(CellAlignment::Right));
    table.trim_fmt()
}

/// The same as an array with one object for each pass and problem.
pub fn worths_json(worths: &[PassGain]) -> Vec<Value> {
    let object = |pass: Pass, p: &Part| {
        json!({
            "without": pass.name(),
            "name": p.problem,
            "time_ratio": (p.time * 1000.0).round() / 1000.0,
            "tape_bytes": p.tape[0],
            "tape_bytes_without": p.tape[1],
        })
    };
    worths.iter().flat_map(|(pass, parts)| parts.iter().map(move |p| object(*pass, p))).collect()
}

/// Three digits or so and a unit.
fn scaled(x: f64, units: &[(f64, &str)]) -> String {
    let &(size, unit) = units.iter().rev().find(|(size, _)| x >= *size).unwrap_or(&units[0]);
    let x = x / size;
    let digits = if x >= 100.0 || x == x.trunc() { 0 } else { 1 };
    format!("{x:.digits$} {unit}")
}

/// Nanoseconds in the unit that fits.
pub(crate) fn time(ns: f64) -> String {
    scaled(ns, &[(1.0, "ns"), (1e3, "us"), (1e6, "ms"), (1e9, "s")])
}

/// Bytes in the unit that fits.
pub(crate) fn bytes(n: f64) -> String {
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
