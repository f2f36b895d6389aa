//! Public items of the crates that can be published. `docs/api` lists them, and this test compares:
//! an item that becomes public by accident shows in a diff of the list. The lint `unreachable_pub`
//! leaves no `pub` on what other crates cannot name. Types that a crate has from another one of the
//! workspace, and exports, stand at the end of its list, with their members.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::{files, root};

/// What begins an item, after `pub`.
const KINDS: [&str; 13] = [
    "use ",
    "mod ",
    "fn ",
    "unsafe fn ",
    "const fn ",
    "extern \"C\" fn ",
    "unsafe extern \"C\" fn ",
    "struct ",
    "enum ",
    "trait ",
    "type ",
    "const ",
    "static ",
];

/// Whose lines these are: they are members although they do not say `pub`.
enum Inside {
    Enum,
    Trait(String),
}

/// Public items of a file, a line each, but for those that documentation leaves out; of a type the
/// fields, variants or functions as well.
fn items(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let (mut hidden, mut private) = (false, false);
    let (mut open, mut owner, mut inside) = (None::<String>, String::new(), None);
    let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    for line in text.lines() {
        let code = line.trim();
        if let Some(item) = &mut open {
            item.push(' ');
            item.push_str(code);
        } else if let Some(rest) = line.strip_prefix("impl") {
            // Of `impl<'a> Trait for Type<'a> {` the type.
            let of = rest.split(" for ").last().unwrap_or(rest).trim_start_matches(|c| c != ' ').trim();
            owner = format!("{}::", of.trim_end_matches([' ', '{', '}']));
        } else if line == "}" {
            owner.clear();
            (private, inside) = (false, None);
        } else if line.starts_with("struct ") || line.starts_with("pub(") && line.contains(") struct ") {
            private = !line.ends_with([';', '}']);
        } else if code.starts_with("#[doc(hidden)]") || code.starts_with("#[cfg(doctest)]") {
            hidden = true;
        } else if let Some(item) = code.strip_prefix("pub ") {
            let is_field = !KINDS.iter().any(|k| item.starts_with(k));
            let of = if line.starts_with(' ') { owner.as_str() } else { "" };
            if !line.starts_with(' ') && line.ends_with('{') {
                private = hidden;
                inside = item.strip_prefix("trait ").map(|rest| Inside::Trait(name(rest).to_owned()));
                inside = item.starts_with("enum ").then_some(Inside::Enum).or(inside);
            }
            open = Some(format!("{}{of}{item}", if is_field { "  " } else { "" }));
        } else if let Some(inside) = &inside {
            let deep = line.len() - line.trim_start().len();
            let is_item = ["fn ", "unsafe fn ", "type ", "const "].iter().any(|k| code.starts_with(k));
            match inside {
                Inside::Enum if deep == 4 && code.starts_with(char::is_uppercase) => open = Some(format!("  {code}")),
                Inside::Enum if deep == 8 && code.starts_with(char::is_lowercase) => open = Some(format!("    {code}")),
                Inside::Trait(of) if deep == 4 && is_item => open = Some(format!("{of}::{code}")),
                _ => {}
            }
        }
        let ends =
            |item: &String| item.ends_with([';', '{', ',']) && item.matches('(').count() == item.matches(')').count();
        let is_use = |item: &String| item.trim_start().starts_with("use ") && !item.ends_with(';');
        if let Some(item) = open.take_if(|item| (ends(item) || item.ends_with('}')) && !is_use(item))
            && !std::mem::take(&mut hidden)
            && !private
        {
            // What a constant is, is no part of the list.
            let is_constant =
                ["const ", "static "].iter().any(|k| item.starts_with(k) || item.contains(&format!("::{k}")));
            let item = item.split(" = ").next().filter(|_| is_constant && !item.contains(" fn ")).unwrap_or(&item);
            let item = item.strip_suffix("{}").unwrap_or(item);
            out.push(item.trim_end_matches([' ', ';', '{', ',']).to_owned());
        }
    }
    out
}

/// The name that a text begins with.
fn name(text: &str) -> &str {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default()
}

/// Of a list of items those of these names, and their members.
fn of_names<'i>(items: impl Iterator<Item = &'i String>, names: &BTreeSet<String>) -> Vec<&'i String> {
    let mut wanted = false;
    let of_these = items.filter(|item| {
        if !item.starts_with(' ') {
            let kind = KINDS.iter().find(|k| item.starts_with(*k));
            wanted = !["use ", "mod "].iter().any(|k| item.starts_with(k))
                && names.contains(name(&item[kind.map_or(0, |k| k.len())..]));
        }
        wanted
    });
    of_these.collect()
}

/// Public items of each crate, by files.
type Crates = BTreeMap<String, BTreeMap<String, Vec<String>>>;

fn crates() -> Crates {
    let folder = root().join("crates");
    let manifests = files(&folder, "toml").into_iter().filter(|p| p.ends_with("Cargo.toml"));
    let read = |package: &Path| {
        let source = package.join("src");
        let found = files(&source, "rs").into_iter().map(|path| {
            let text = std::fs::read_to_string(&path).unwrap();
            (path.strip_prefix(&source).unwrap().display().to_string(), items(&text))
        });
        found.filter(|(_, items)| !items.is_empty()).collect()
    };
    let named = |p: &Path| p.file_name().unwrap().to_string_lossy().into_owned();
    manifests.map(|m| (named(m.parent().unwrap()), read(m.parent().unwrap()))).collect()
}

/// Names that a crate exports from others of the workspace, by crates: all, or those of `only`.
fn exported(all: &Crates, of: &str, only: Option<&BTreeSet<String>>, out: &mut BTreeMap<String, BTreeSet<String>>) {
    for item in all[of].values().flatten() {
        let Some((from, rest)) = item.strip_prefix("use ").and_then(|u| u.split_once("::")) else { continue };
        let from = from.replace('_', "-");
        let words = rest.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|w| !w.is_empty());
        let names = words.filter(|w| only.is_none_or(|only| only.contains(*w)));
        let names: BTreeSet<String> = names.map(str::to_owned).collect();
        if all.contains_key(&from) && !names.is_empty() {
            exported(all, &from, Some(&names), out);
            out.entry(from).or_default().extend(names);
        }
    }
}

#[test]
fn the_public_items_of_crates() {
    let all = crates();
    for (name, by_file) in &all {
        let mut list = String::new();
        let mut add = |head: &str, found: Vec<&String>| {
            if !found.is_empty() {
                list += &format!("{head}\n");
                found.iter().for_each(|item| list += &format!("    {item}\n"));
            }
        };
        by_file.iter().for_each(|(file, items)| add(file, items.iter().collect()));
        let mut from = BTreeMap::new();
        exported(&all, name, None, &mut from);
        for (other, names) in &from {
            add(&format!("\nexported from {other}"), of_names(all[other].values().flatten(), names));
        }
        expect_test::expect_file![&root().join(format!("docs/api/{name}.txt"))].assert_eq(&list);
    }
}

#[test]
fn items_are_found() {
    let text = "pub mod a;\nmod b;\npub use b::{\n    C, D,\n};\n\nstruct K {\n    pub l: u8,\n}\n\npub struct E {\n    pub f: u8,\n    g: u8,\n}\n\n\
        impl E {\n    /// New.\n    pub fn new(\n        f: u8,\n    ) -> Self {\n    }\n\n    #[doc(hidden)]\n    pub fn h() {\n    }\n\n    \
        pub(crate) fn i() {}\n}\n\npub enum M {\n    /// A.\n    N,\n    O(u8, u8),\n    P {\n        q: u8,\n    },\n}\n\n\
        pub trait R {\n    fn s(&self) -> u8;\n}\n\n#[cfg(test)]\nmod tests {\n    pub fn j() {}\n}\n";
    let found = items(text);
    let of_e = ["struct E", "  f: u8", "E::fn new( f: u8, ) -> Self"];
    let of_m = ["enum M", "  N", "  O(u8, u8)", "  P", "    q: u8"];
    let of_r = ["trait R", "R::fn s(&self) -> u8"];
    assert_eq!(found, [&["mod a", "use b::{ C, D, }"], &of_e[..], &of_m, &of_r].concat());
    let named = of_names(found.iter(), &["E", "R"].map(str::to_owned).into());
    assert_eq!(named, [&of_e[..], &of_r].concat());
}
