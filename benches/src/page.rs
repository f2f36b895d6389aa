//! The tables of `docs/PERFORMANCE.md`, made from `benches/results.json`.
//!
//! *Problem.* A table that is copied by hand is out of date, and says nothing of the machine.
//!
//! *Answer.* `bench --write` puts what it has measured into a section of the file of results
//! ([`problems`], [`peers`], [`passes`], [`latency`]), with the machine that it ran on, and makes
//! the page anew: what stands between `<!-- bench SECTION -->` and `<!-- end -->` ([`page`]). Peers
//! are columns of the problems. A test holds the page to the file. What a row is about is kept from
//! the file, by its name.

use std::path::{Path, PathBuf};

use brolga::Pass;
use serde_json::{Map, Value, json};

use crate::calls::CallRow;
use crate::latency::Latency;
use crate::measure::MeasuredRow;
use crate::passes::PassGain;
use crate::peers::PeerTimes;
use crate::report::{bytes, geometric_mean, time};

/// The file of results.
pub fn results() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("results.json")
}

/// The page.
pub fn document() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../docs/PERFORMANCE.md")
}

/// Two digits after the point.
fn short(x: f64) -> f64 {
    (x * 100.0).round() / 100.0
}

/// What this runs on: the processor, how many of them, and the profile.
fn machine() -> String {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|l| l.strip_prefix("model name")).and_then(|l| l.split(": ").nth(1));
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let profile = if cfg!(debug_assertions) { "development" } else { "release" };
    format!("{}, {cores} cores, {profile} profile", model.unwrap_or(std::env::consts::ARCH))
}

/// Put a section in its place: its machine, what else it has, and rows that keep what they are
/// about.
fn put(all: &mut Value, section: &str, rows: Vec<Value>) {
    let old = all[section]["rows"].as_array().cloned().unwrap_or_default();
    let about = |name: &Value, key: &str| old.iter().find(|o| o[key] == *name).map(|o| o["about"].clone());
    let rows = rows.into_iter().map(|mut row| {
        let key = if row.get("name").is_some() { "name" } else { "without" };
        if let Some(about) = about(&row[key], key).filter(|a| !a.is_null()) {
            row["about"] = about;
        }
        row
    });
    all[section]["rows"] = rows.collect();
    all[section]["machine"] = machine().into();
}

/// Results of problems in CLIF and of programs.
pub fn problems(all: &mut Value, rows: &[MeasuredRow], calls: &[CallRow]) {
    let row = |r: &MeasuredRow| {
        json!({
            "name": r.name, "about": r.about, "gradient": short(r.gradient_ns / r.primal_ns),
            "hand": r.hand_ns.map(|hand| short(hand / r.primal_ns)), "tape_bytes": r.tape_bytes,
            "differentiate_ms": short(r.differentiate_us / 1e3), "compile_ms": short(r.compile_us / 1e3),
        })
    };
    put(all, "problems", rows.iter().map(row).collect());
    let programs = calls.iter().filter_map(|c| Some((c, c.name.strip_prefix("wasm/").filter(|n| !n.contains('/'))?)));
    let row = |(c, name): (&CallRow, &str)| {
        json!({
            "name": name, "native_ns": c.native_ns, "primal_ns": c.primal_ns, "gradient_ns": c.gradient_ns,
            "hand_ns": c.hand_ns, "tape_bytes": c.tape_bytes,
            "differentiate_ms": short(c.differentiate_us / 1e3), "compile_ms": short(c.compile_us / 1e3),
        })
    };
    put(all, "programs", programs.map(row).collect());
}

/// Results of peers.
pub fn peers(all: &mut Value, rows: &[MeasuredRow], peers: &PeerTimes) {
    let row = |r: &MeasuredRow| {
        let of = |peer: &str| peers.get(r.name).and_then(|p| p.get(peer)).cloned();
        let [gcc, enzyme] = PEERS.map(of);
        (gcc.is_some() || enzyme.is_some())
            .then(|| json!({ "name": r.name, "gradient_ns": r.gradient_ns, PEERS[0]: gcc, PEERS[1]: enzyme }))
    };
    put(all, "peers", rows.iter().filter_map(row).collect());
}

/// Peers that the page has.
const PEERS: [&str; 2] = ["gcc by hand", "Enzyme"];

/// Results of passes: where each matters most, and where a gradient is better without it.
pub fn passes(all: &mut Value, worths: &[PassGain]) {
    let row = |(pass, parts): &PassGain| {
        let mut parts: Vec<_> = parts.iter().collect();
        parts.sort_by(|a, b| b.time.total_cmp(&a.time));
        let pair = |p: &&crate::passes::Part| json!([p.problem, short(p.time)]);
        let grown = parts.iter().filter(|p| p.tape[0] != p.tape[1]);
        let grows = |p: &crate::passes::Part| (p.tape[1] + 1) as f64 / (p.tape[0] + 1) as f64;
        let tape = grown.max_by(|a, b| grows(a).total_cmp(&grows(b)));
        json!({
            "without": pass.name(), "concerns": parts.len(),
            "mean": (!parts.is_empty()).then(|| short(geometric_mean(parts.iter().map(|p| p.time)))),
            "most": parts.iter().take(3).filter(|p| p.time >= 1.0).map(pair).collect::<Vec<_>>(),
            "least": parts.iter().filter(|p| p.time <= 0.95).map(pair).collect::<Vec<_>>(),
            "tape": tape.map(|p| json!([p.problem, p.tape[0], p.tape[1]])),
        })
    };
    put(all, "passes", worths.iter().map(row).collect());
}

/// How long a gradient takes to be there, of one tier (`quick` or `full`).
pub fn latency(all: &mut Value, tier: &str, rows: &[Latency]) {
    let mean = |of: fn(&Latency) -> f64| short(geometric_mean(rows.iter().map(of)));
    all["latency"]["mean"][tier] = json!({
        "differentiate": mean(|r| r.differentiate_us / r.cranelift_us),
        "compile": mean(|r| r.compile_us / r.cranelift_us),
        "both": mean(Latency::ratio), "alone": mean(Latency::to_alone),
    });
    let old = all["latency"]["rows"].as_array().cloned().unwrap_or_default();
    let row = |r: &Latency| {
        let kept = old.iter().find(|o| o["name"] == r.name.as_str()).and_then(Value::as_object);
        let mut row = kept.cloned().unwrap_or_default();
        row.insert("name".into(), r.name.as_str().into());
        row.insert("insts".into(), r.insts.into());
        row.insert("cranelift_us".into(), short(r.cranelift_us).into());
        row.insert(tier.into(), short(r.ratio()).into());
        Value::Object(row)
    };
    put(all, "latency", rows.iter().map(row).collect());
}

/// The file of results as text: one row a line, so that a difference shows which changed.
pub fn text(all: &Value) -> String {
    let none = Map::new();
    let section = |(name, body): (&String, &Value)| {
        let fields = body.as_object().unwrap_or(&none).iter().map(|(key, value)| match value.as_array() {
            Some(rows) => {
                let rows: Vec<String> = rows.iter().map(|r| format!("      {r}")).collect();
                format!("    \"{key}\": [\n{}\n    ]", rows.join(",\n"))
            }
            None => format!("    \"{key}\": {value}"),
        });
        format!("  \"{name}\": {{\n{}\n  }}", fields.collect::<Vec<_>>().join(",\n"))
    };
    let sections: Vec<String> = all.as_object().unwrap_or(&none).iter().map(section).collect();
    format!("{{\n{}\n}}\n", sections.join(",\n"))
}

/// Put what was measured into the file of results, and make the page anew.
///
/// # Errors
/// What cannot be read or written, or what [`page`] says.
pub fn write(put: impl FnOnce(&mut Value)) -> Result<(), String> {
    let (results, document) = (results(), document());
    let fails = |e: &dyn std::fmt::Display| format!("{} or {}: {e}", results.display(), document.display());
    let read = |path: &Path| std::fs::read_to_string(path).map_err(|e| fails(&e));
    let mut all = serde_json::from_str(&read(&results)?).map_err(|e| fails(&e))?;
    put(&mut all);
    let page = page(&read(&document)?, &all)?;
    std::fs::write(&results, text(&all)).and_then(|()| std::fs::write(&document, page)).map_err(|e| fails(&e))
}

/// The page with its tables made from results.
///
/// # Errors
/// A section that is not there, or a region without an end.
pub fn page(text: &str, all: &Value) -> Result<String, String> {
    let mut out = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        out += &format!("{line}\n");
        let Some(section) = line.strip_prefix("<!-- bench ").and_then(|l| l.strip_suffix(" -->")) else { continue };
        out += &table(section, all).ok_or_else(|| format!("no results of `{section}`"))?;
        let end = lines.by_ref().find(|l| *l == "<!-- end -->");
        out += &format!("{}\n", end.ok_or_else(|| format!("`{line}` has no end"))?);
    }
    Ok(out)
}

/// A section's table, under the machine that it is of, unless that is the first table's.
fn table(section: &str, all: &Value) -> Option<String> {
    let rows = all[section]["rows"].as_array()?;
    let body = match section {
        "problems" => problem_table(rows, all["peers"]["rows"].as_array()?),
        "programs" => program_table(rows),
        "passes" => pass_table(rows),
        "latency" => latency_table(&all["latency"]["mean"], rows),
        _ => return None,
    };
    let machine = |section: &str| all[section]["machine"].as_str();
    let is_same = section != "problems" && machine(section) == machine("problems");
    let head = if is_same { String::new() } else { format!("Measured on {}:\n\n", machine(section)?) };
    Some(head + &body)
}

/// A table: head, how columns are aligned, rows.
fn markdown(head: &[&str], left: usize, rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut out = line(&head.iter().map(|h| (*h).to_owned()).collect::<Vec<_>>());
    let rule = (0..head.len()).map(|i| if i < left { "---" } else { "--:" });
    out += &format!("|{}|\n", rule.collect::<Vec<_>>().join("|"));
    rows.into_iter().for_each(|cells| out += &line(&cells));
    out
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64()
}

fn ratio(x: Option<f64>) -> String {
    x.map_or_else(String::new, |x| format!("{x:.2}"))
}

fn name(row: &Value) -> String {
    format!("`{}`", row["name"].as_str().unwrap_or_default())
}

fn string(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The geometric mean of what rows have.
fn mean(rows: &[Value], of: impl Fn(&Value) -> Option<f64>) -> Option<f64> {
    let all: Vec<f64> = rows.iter().filter_map(of).collect();
    (!all.is_empty()).then(|| geometric_mean(all.into_iter()))
}

/// One field over another.
fn over<'a>(a: &'a str, b: &'a str) -> impl Fn(&Value) -> Option<f64> + 'a {
    move |row| Some(number(&row[a])? / number(&row[b])?)
}

fn ready(row: &Value) -> [String; 2] {
    ["differentiate_ms", "compile_ms"].map(|key| number(&row[key]).map_or_else(String::new, |ms| format!("{ms:.1}")))
}

/// Problems, beside what peers take for them.
fn problem_table(rows: &[Value], peers: &[Value]) -> String {
    let head = [
        "problem",
        "",
        "gradient",
        "by hand",
        "gradient / by hand",
        "/ gcc, by hand",
        "/ Enzyme",
        "tape",
        "derive, ms",
        "compile, ms",
    ];
    let row = |r: &Value| {
        let peer = peers.iter().find(|p| p["name"] == r["name"]);
        let mut cells = vec![name(r), string(&r["about"])];
        cells.extend(["gradient", "hand"].map(|key| ratio(number(&r[key]))));
        cells.push(ratio(over("gradient", "hand")(r)));
        cells.extend(PEERS.map(|p| ratio(peer.and_then(over("gradient_ns", p)))));
        cells.push(bytes(number(&r["tape_bytes"]).unwrap_or_default()));
        cells.extend(ready(r));
        cells
    };
    let with_hand: Vec<Value> = rows.iter().filter(|r| !r["hand"].is_null()).cloned().collect();
    let mut last = vec!["geometric mean".to_owned(), "where there is the other".to_owned()];
    last.extend(["gradient", "hand"].map(|key| ratio(mean(&with_hand, |r| number(&r[key])))));
    last.push(ratio(mean(&with_hand, over("gradient", "hand"))));
    last.extend(PEERS.map(|p| ratio(mean(peers, over("gradient_ns", p)))));
    last.resize(head.len(), String::new());
    markdown(&head, 2, rows.iter().map(row).chain([last]))
}

fn program_table(rows: &[Value]) -> String {
    let head = [
        "program",
        "",
        "primal",
        "primal / native",
        "gradient / primal",
        "by hand / primal",
        "gradient / by hand",
        "tape",
        "derive, ms",
        "compile, ms",
    ];
    let ratios = [
        ("primal_ns", "native_ns"),
        ("gradient_ns", "primal_ns"),
        ("hand_ns", "primal_ns"),
        ("gradient_ns", "hand_ns"),
    ];
    let row = |r: &Value| {
        let primal = time(number(&r["primal_ns"]).unwrap_or_default());
        let mut cells = vec![name(r), string(&r["about"]), primal];
        cells.extend(ratios.map(|(a, b)| ratio(over(a, b)(r))));
        cells.push(bytes(number(&r["tape_bytes"]).unwrap_or_default()));
        cells.extend(ready(r));
        cells
    };
    let mut last = vec!["geometric mean".to_owned(), String::new(), String::new()];
    last.extend(ratios.map(|(a, b)| ratio(mean(rows, over(a, b)))));
    last.resize(head.len(), String::new());
    markdown(&head, 2, rows.iter().map(row).chain([last]))
}

fn pass_table(rows: &[Value]) -> String {
    let head = ["without", "what it does", "concerns", "mean", "most", "better without", "tape with, without"];
    let pairs = |value: &Value| {
        let pairs = value.as_array().into_iter().flatten();
        let shown = pairs.map(|p| format!("`{}` {}", string(&p[0]), ratio(number(&p[1]))));
        shown.collect::<Vec<_>>().join(", ")
    };
    let row = |r: &Value| {
        let tape = &r["tape"];
        let [with, without] = [1, 2].map(|i| bytes(number(&tape[i]).unwrap_or_default()));
        let tape = if tape.is_null() { String::new() } else { format!("`{}` {with}, {without}", string(&tape[0])) };
        let pass = string(&r["without"]);
        let about = pass.parse::<Pass>().map_or("", Pass::about);
        let about = about.split(". ").next().unwrap_or_default().trim_end_matches('.').to_owned();
        let concerns = r["concerns"].to_string();
        let mean = ratio(number(&r["mean"]));
        vec![format!("`{pass}`"), about, concerns, mean, pairs(&r["most"]), pairs(&r["least"]), tape]
    };
    markdown(&head, head.len(), rows.iter().map(row))
}

fn latency_table(means: &Value, rows: &[Value]) -> String {
    let head = ["multiples of Cranelift's time for the primal", "first tier", "full effort"];
    let tiers = ["quick", "full"];
    let kinds = [
        ("differentiate", "derive"),
        ("compile", "verify and compile"),
        ("both", "both"),
        ("alone", "both, over `Context::compile` alone"),
    ];
    let of_kind = |(key, title): (&str, &str)| {
        let mut cells = vec![format!("{title}, geometric mean")];
        cells.extend(tiers.map(|tier| ratio(number(&means[tier][key]))));
        cells
    };
    let largest = tiers.map(|tier| {
        let with = rows.iter().filter_map(|r| Some((number(&r[tier])?, r)));
        let most = with.max_by(|a, b| a.0.total_cmp(&b.0));
        most.map_or_else(String::new, |(x, r)| format!("{x:.2} ({})", name(r)))
    });
    let last = [vec!["both, the largest of all problems".to_owned()], largest.to_vec()].concat();
    markdown(&head, 1, kinds.into_iter().map(of_kind).chain([last]))
}

#[cfg(test)]
mod tests {
    use brolga::Pass;
    use serde_json::{Value, json};

    use super::{document, latency, page, passes, results, text};
    use crate::latency::Latency;
    use crate::passes::Part;

    fn stored() -> Value {
        serde_json::from_str(&std::fs::read_to_string(results()).unwrap()).unwrap()
    }

    /// `cargo xtask bless` makes it so.
    #[test]
    fn the_page_says_what_was_measured() {
        let found = std::fs::read_to_string(document()).unwrap();
        let fresh = page(&found, &stored()).unwrap();
        if std::env::var_os("UPDATE_EXPECT").is_some() {
            std::fs::write(document(), fresh).unwrap();
        } else {
            assert!(found == fresh, "docs/PERFORMANCE.md is not what benches/results.json says: UPDATE_EXPECT=1");
        }
    }

    #[test]
    fn results_are_one_row_a_line() {
        let found = std::fs::read_to_string(results()).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text(&stored())).unwrap(), stored());
        assert_eq!(found.lines().count(), text(&stored()).lines().count());
    }

    #[test]
    fn a_pass_has_its_extremes() {
        let mut all = json!({});
        let part = |problem: &str, time, tape| Part { problem: problem.to_owned(), time, tape };
        let parts = vec![part("ba", 1.284, [100, 100]), part("nn", 0.9, [8, 16])];
        passes(&mut all, &[(Pass::MinCut, parts), (Pass::SlpDivisions, vec![])]);
        let row = &all["passes"]["rows"][0];
        assert_eq!(row["concerns"], json!(2));
        assert_eq!((&row["most"], &row["least"]), (&json!([["ba", 1.28]]), &json!([["nn", 0.9]])));
        assert_eq!(row["tape"], json!(["nn", 8, 16]));
        assert!(all["passes"]["rows"][1]["mean"].is_null());
    }

    #[test]
    fn tiers_share_rows() {
        let row = |both: f64| Latency {
            name: "sum".to_owned(),
            insts: 14,
            cranelift_us: 10.0,
            alone_us: 5.0,
            differentiate_us: both / 2.0,
            compile_us: both / 2.0,
            first_us: 100.0,
        };
        let mut all = json!({});
        latency(&mut all, "quick", &[row(20.0)]);
        latency(&mut all, "full", &[row(40.0)]);
        let row = &all["latency"]["rows"][0];
        assert_eq!((&row["quick"], &row["full"]), (&json!(2.0), &json!(4.0)));
        assert_eq!(all["latency"]["mean"]["full"]["alone"], json!(8.0));
        all["problems"]["machine"] = "another one".into();
        let shown = page("<!-- bench latency -->\n<!-- end -->\n", &all).unwrap();
        assert!(shown.contains("Measured on"));
        assert!(shown.contains("| both, geometric mean | 2.00 | 4.00 |"), "{shown}");
    }
}
