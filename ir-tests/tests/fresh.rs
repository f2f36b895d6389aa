//! For which functions of `cases/memory/fresh.clif` shadows are stored to, and for which the caller
//! need not even zero them. That the numbers are right is what the file tests say of the same
//! functions.

use std::collections::BTreeMap;

use brolga::cranelift_codegen::data_value::DataValue;
use brolga::cranelift_codegen::ir::types;
use brolga::stages::dump;
use brolga::{Arg, ArgSpec, DerivedRule, Mode, Options, Pass, PassSet, Request, Stage};
use brolga_driver::File;

/// Per function: stores in the reverse, and for each pointer whether its shadow is overwritten.
fn expected() -> BTreeMap<&'static str, (usize, &'static [bool])> {
    BTreeMap::from([
        ("in_order", (1, &[true][..])),
        ("from_the_end", (1, &[true])),
        ("rows", (1, &[true, false])),
        ("rows_that_overlap", (0, &[false])),
        ("rows_read_as_they_ask", (0, &[false])),
        ("walk", (1, &[true])),
        ("walk_that_stays", (0, &[false])),
        ("neighbours", (0, &[false])),
        ("pairs", (2, &[true])),
        ("every_other", (1, &[false])),
        ("twice", (1, &[true])),
        ("some", (1, &[false, false])),
        ("again", (0, &[false])),
        ("either", (0, &[false, false])),
        ("until_negative", (1, &[true])),
        ("triangle", (0, &[false])),
        ("record", (3, &[true])),
        ("singles", (1, &[true])),
        ("vectors", (1, &[false])),
        ("passed_on", (0, &[false])),
    ])
}

#[test]
fn stores_are_where_each_place_is_read_once() {
    let text = include_str!("../cases/memory/fresh.clif");
    let file = File::parse("fresh.clif", text.to_owned()).expect("it is read");
    let mut expected = expected();
    for (key, f) in &file.program.funcs {
        let Some((stores, over)) = expected.remove(f.symbol.as_str()) else { continue };
        let pointers = f.signature.params.iter().take(over.len()).all(|p| p.value_type == types::I64);
        assert!(pointers, "%{}: the first parameters are pointers", f.symbol);
        let arg = |i| if i < over.len() { ArgSpec::DUPLICATED.noalias().fresh() } else { ArgSpec::CONST };
        let mut request = Request::new(key, (0..f.signature.params.len()).map(arg));
        for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
            let options = Options { mode, ..Options::full() };
            let rule = DerivedRule::new(&file.program, &request, &options).expect("it can be derived");
            let found: Vec<bool> = (0..over.len()).map(|i| rule.overwrites(i)).collect();
            assert_eq!(found, over, "%{}, {mode:?}", f.symbol);
        }
        // One pullback, with its guards.
        let once = Options { disabled: PassSet::from(Pass::VersionGuards), ..Options::full() };
        let dump = dump(&file.program, &request, &once, Stage::Pullback).expect("it can be derived");
        let stored = dump.lines().filter(|l| l.contains("shadow") && l.contains("] = ") && !l.contains("take")).count();
        assert_eq!(stored, stores, "%{}\n{dump}", f.symbol);
        // Without the claim that nothing else leads there, nothing is stored.
        request.args.iter_mut().for_each(|a| a.promises.noalias = false);
        let rule = DerivedRule::new(&file.program, &request, &Options::full()).expect("it can be derived");
        assert!((0..over.len()).all(|i| !rule.overwrites(i)), "%{}", f.symbol);
    }
    assert!(expected.is_empty(), "not in the file: {:?}", expected.keys());
}

#[test]
fn what_is_read_in_pieces_is_added_to() {
    let text = include_str!("../cases/bits/pieces.clif");
    let file = File::parse("pieces.clif", text.to_owned()).expect("it is read");
    let func = file.program.func("only_by_bytes").expect("it is there");
    let request = Request::new(func, [ArgSpec::DUPLICATED.noalias().fresh()]);
    let rule = DerivedRule::new(&file.program, &request, &Options::full()).expect("it can be derived");
    assert!(!rule.overwrites(0));
}

#[test]
fn a_debug_run_looks_for_the_zeros() {
    let text = include_str!("../cases/memory/fresh.clif");
    let file = File::parse("fresh.clif", text.to_owned()).expect("it is read");
    for (symbol, fails) in [("neighbours", true), ("in_order", false)] {
        let func = file.program.func(symbol).expect("it is there");
        let request = Request::new(func, [ArgSpec::DUPLICATED.noalias().fresh(), ArgSpec::CONST]);
        let options = Options { debug: true, ..Options::full() };
        let rule = DerivedRule::new(&file.program, &request, &options).expect("it can be derived");
        let (x, mut shadow) = ([1.0, 2.0, 3.0], [0.5; 3]);
        let pointer = Arg {
            value: DataValue::I64(x.as_ptr() as i64),
            shadow: shadow.as_mut_ptr() as u64,
            len: Some(24),
            floats: None,
        };
        let args = [pointer, Arg::new(DataValue::I64(2))];
        // SAFETY: both arrays have three elements, of which at most that many are read.
        let run = unsafe { rule.gradient(&args, &[DataValue::F64(1.0.into())], &mut vec![], &mut vec![]) };
        match run {
            Err(e) if fails => assert!(e.to_string().contains("fresh"), "{e}"),
            Ok(_) if !fails => {}
            Err(e) => panic!("%{symbol}: {e}"),
            Ok(_) => panic!("%{symbol}: a shadow that is not zero was not noticed"),
        }
    }
}
