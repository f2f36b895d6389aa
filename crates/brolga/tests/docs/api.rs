//! Public items of the crates that an embedder depends on directly. `docs/api` lists them, and this
//! test compares: an item that becomes public by accident shows in a diff of the list. (`pub` means
//! public there, since `unreachable_pub` is a warning.) The other crates change with these.

use super::{files, root};

/// What begins an item, behind `pub`.
const KINDS: [&str; 11] =
    ["use ", "mod ", "fn ", "unsafe fn ", "const fn ", "struct ", "enum ", "trait ", "type ", "const ", "static "];

/// Public items of a file, a line each, but for those that documentation leaves out; of a type the
/// fields as well.
fn items(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let (mut hidden, mut private) = (false, false);
    let (mut open, mut owner) = (None::<String>, String::new());
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
            private = false;
        } else if line.starts_with("struct ") || line.starts_with("pub(crate) struct ") {
            private = !line.ends_with(';');
        } else if code.starts_with("#[doc(hidden)]") || code.starts_with("#[cfg(doctest)]") {
            hidden = true;
        } else if let Some(item) = code.strip_prefix("pub ") {
            let is_field = !KINDS.iter().any(|k| item.starts_with(k));
            let of = if line.starts_with(' ') { owner.as_str() } else { "" };
            open = Some(format!("{}{of}{item}", if is_field { "  " } else { "" }));
        }
        let ends =
            |item: &String| item.ends_with([';', '{', ',']) && item.matches('(').count() == item.matches(')').count();
        let is_use = |item: &String| item.trim_start().starts_with("use ") && !item.ends_with(';');
        if let Some(item) = open.take_if(|item| ends(item) && !is_use(item))
            && !std::mem::take(&mut hidden)
            && !private
        {
            out.push(item.trim_end_matches([' ', ';', '{', ',']).to_owned());
        }
    }
    out
}

#[test]
fn the_public_items_of_crates() {
    for name in ["brolga", "brolga-module", "brolga-reversible", "brolga-schedules", "brolga-wasm"] {
        let source = root().join("crates").join(name).join("src");
        let mut list = String::new();
        for path in files(&source, "rs") {
            let found = items(&std::fs::read_to_string(&path).unwrap());
            if !found.is_empty() {
                list += &format!("{}\n", path.strip_prefix(&source).unwrap().display());
                found.iter().for_each(|item| list += &format!("    {item}\n"));
            }
        }
        expect_test::expect_file![&root().join(format!("docs/api/{name}.txt"))].assert_eq(&list);
    }
}

#[test]
fn items_are_found() {
    let text = "pub mod a;\nmod b;\npub use b::{\n    C, D,\n};\n\nstruct K {\n    pub l: u8,\n}\n\npub struct E {\n    pub f: u8,\n    g: u8,\n}\n\n\
        impl E {\n    /// New.\n    pub fn new(\n        f: u8,\n    ) -> Self {\n    }\n\n    #[doc(hidden)]\n    pub fn h() {\n    }\n\n    \
        pub(crate) fn i() {}\n}\n#[cfg(test)]\nmod tests {\n    pub fn j() {}\n}\n";
    let found = items(text);
    let wanted = ["mod a", "use b::{ C, D, }", "struct E", "  f: u8", "E::fn new( f: u8, ) -> Self"];
    assert_eq!(found, wanted);
}
