//! Demangling: what programmers call the functions whose symbols a compiler has mangled.
//!
//! **Problem.** A diagnostic that says
//! `_ZN4core3f6421_$LT$impl$u20$f64$GT$9total_cmp17h5420b5ac21f16e92E` is exact, and unreadable.
//!
//! **Answer.** Compilers write such symbols by published rules (Rust's two manglings, the Itanium
//! ABI of C++), so that a name can be had of the symbol alone ([`demangled`]). Where a frontend has
//! the name itself (linkers write C++'s to WebAssembly modules as they are in the source), it says
//! so: [`Func::called`](crate::Func::called). Two things are done to such names:
//!
//! - CLIF text has no `$`, which Rust's older mangling writes punctuation with, and readers put `_`
//!   in its place; that is undone first, in symbols that end in the hash such names have.
//! - A name with the arguments of its templates can be longer than a page. What is in brackets is
//!   left out, innermost first, until it is short.
//!
//! **Cost.** In proportion to the length of the symbol; for a long name, a walk over it for each
//! depth of brackets that is left out, sixteen at most.

/// Names up to this length are given in full.
const LONGEST: usize = 120;

/// Deeper brackets than this are not counted.
const DEEPEST: usize = 16;

/// The name of a function as its source spells it, if the symbol is mangled: `core::f64::<impl
/// f64>::total_cmp`.
pub(crate) fn demangled(symbol: &str) -> Option<String> {
    let rust = rustc_demangle::try_demangle(&with_punctuation(symbol)).ok().map(|d| format!("{d:#}"));
    rust.or_else(|| cpp(symbol)).map(shortened)
}

/// A name that a frontend gives, which may be mangled.
pub(crate) fn in_short(name: &str) -> String {
    demangled(name).unwrap_or_else(|| shortened(name.to_owned()))
}

fn cpp(symbol: &str) -> Option<String> {
    // Copies that compilers or readers make of a function have a suffix.
    let symbol = symbol.split('.').next()?;
    if !symbol.starts_with("_Z") {
        return None;
    }
    let options = cpp_demangle::DemangleOptions::new().no_params().no_return_type();
    cpp_demangle::Symbol::new(symbol).ok()?.demangle_with_options(&options).ok()
}

/// Rust's `$LT$`, where it has become `_LT_`.
fn with_punctuation(symbol: &str) -> String {
    let is_hash = |h: &str| h.len() >= 20 && h.starts_with("17h") && h.as_bytes()[19] == b'E';
    if !symbol.starts_with("_ZN") || !symbol.rfind("17h").is_some_and(|at| is_hash(&symbol[at..])) {
        return symbol.to_owned();
    }
    let (mut out, mut rest) = (String::new(), symbol);
    while let Some(c) = rest.chars().next() {
        let escape = rest.strip_prefix('_').and_then(|r| r.split_once('_')).filter(|(e, _)| is_escape(e));
        rest = match escape {
            Some((e, after)) => {
                out += &format!("${e}$");
                after
            }
            None => {
                out.push(c);
                &rest[c.len_utf8()..]
            }
        };
    }
    out
}

fn is_escape(e: &str) -> bool {
    let hex =
        |h: &str| (2..=4).contains(&h.len()) && h.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    matches!(e, "SP" | "BP" | "RF" | "LT" | "GT" | "LP" | "RP" | "C") || e.strip_prefix('u').is_some_and(hex)
}

fn shortened(name: String) -> String {
    let size = |s: &str| s.chars().count();
    if size(&name) <= LONGEST {
        return name;
    }
    let mut shorter = (1..=DEEPEST).rev().map(|depth| without_brackets(&name, depth));
    shorter.find(|s| size(s) <= LONGEST).unwrap_or_else(|| {
        let end: String = name.chars().skip(size(&name) - LONGEST).collect();
        format!("…{end}")
    })
}

/// What comes before a bracket that neither opens nor closes anything, but is C++'s operator.
const OPERATORS: [&str; 5] = ["operator", "operator<", "operator>", "operator<=", "operator("];

/// What brackets of this depth and deeper hold becomes `…`.
fn without_brackets(name: &str, depth: usize) -> String {
    let (mut out, mut open, mut left_out) = (String::new(), 0, false);
    for (at, c) in name.char_indices() {
        let before = &name[..at];
        let is_arrow = c == '>' && before.ends_with('-');
        let is_bracket = !is_arrow && !OPERATORS.iter().any(|op| before.ends_with(op));
        if is_bracket && matches!(c, '>' | ')') {
            if open == depth && std::mem::take(&mut left_out) {
                out.push('…');
            }
            open = usize::saturating_sub(open, 1);
        }
        if open < depth {
            out.push(c);
        } else {
            left_out = true;
        }
        if is_bracket && matches!(c, '<' | '(') {
            open += 1;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_source() {
        let name = |s| demangled(s).unwrap_or_default();
        assert_eq!(
            name("_ZN4core3f6421_$LT$impl$u20$f64$GT$9total_cmp17h5420b5ac21f16e92E"),
            "core::f64::<impl f64>::total_cmp"
        );
        assert_eq!(name("_RNvNtCs1234_7mycrate3foo3bar"), "mycrate::foo::bar");
        assert_eq!(name("_ZN5Eigen8internal3dotIdEEdPKd"), "Eigen::internal::dot<double>");
        assert_eq!(
            name("_ZNSt6vectorIdSaIdEE9push_backEOd"),
            "std::vector<double, std::allocator<double> >::push_back"
        );
        assert_eq!(name("_ZlsRSoRK3Vec.12"), "operator<<");
    }

    #[test]
    fn punctuation_that_clif_has_not_is_put_back() {
        let clif = "_ZN5alloc5slice29__LT_impl_u20__u5b_T_u5d__GT_7sort_by17h4eda7175ccd1b10aE";
        assert_eq!(demangled(clif).as_deref(), Some("alloc::slice::<impl [T]>::sort_by"));
        assert_eq!(
            demangled("_ZN4core3f6421__LT_impl_u20_f64_GT_9total_cmp17h5420b5ac21f16e92E.7").as_deref(),
            Some("core::f64::<impl f64>::total_cmp.7")
        );
    }

    #[test]
    fn other_symbols_are_their_own_names() {
        for s in ["f", "u0_3", "_Z", "_ZN", "_R", "loss", "_LT_", "_ZN17h", "", "_ZNé17h5420b5ac21f16e92E"] {
            assert_eq!(demangled(s), None, "{s}");
        }
        assert_eq!(in_short("loss"), "loss");
    }

    #[test]
    fn long_names_lose_what_is_in_their_brackets() {
        let inner = "N".repeat(80);
        assert_eq!(shortened(format!("a<b<{inner}>, c<{inner}>>::f")), "a<b<…>, c<…>>::f");
        assert_eq!(shortened(format!("a<b<{inner}>, {inner}{inner}>::operator<<")), "a<…>::operator<<");
        assert_eq!(shortened(format!("a<fn({inner}) -> {inner}{inner}>::f")), "a<…>::f");
        for op in ["()", "<", "<<", ">", ">>", "<=>", "->", "-"] {
            let name = format!("a<&c<int>::operator{op}, {inner}{inner}>::operator{op}");
            assert_eq!(shortened(name), format!("a<…>::operator{op}"));
        }
        assert_eq!(shortened("N".repeat(200)).chars().count(), LONGEST + 1);
        assert_eq!(shortened("a<b<c>>".to_owned()), "a<b<c>>");
    }
}
