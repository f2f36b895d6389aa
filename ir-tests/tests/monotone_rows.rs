//! For which functions of `cases/memory/monotone_rows.clif` a run is asked whether rows ascend, and
//! for which of those the caller need not zero the shadow. That the numbers are right, whether rows
//! ascend or not, is what the file tests say of the same functions.

use brolga::stages::dump;
use brolga::{ArgSpec, DerivedRule, Mode, Options, Pass, PassSet, Request, Stage};
use brolga_driver::File;

#[test]
fn rows_are_asked_where_each_begins_as_the_last_ends() {
    let text = include_str!("../cases/memory/monotone_rows.clif");
    let file = File::parse("monotone_rows.clif", text.to_owned()).expect("it is read");
    let expected = [
        // Function, loads that are stored to, whether all of the shadow is overwritten.
        ("sparse", 1, true),
        // Where a row begins is recorded, and what is recorded can be read once.
        ("records", 2, false),
        ("asks_at_its_end", 1, false),
        ("from_and_to", 0, false),
        ("changed", 0, false),
        ("passed_by", 1, false),
        ("not_looked_at", 0, false),
        ("read_as_it_asks", 0, false),
        ("twice", 0, false),
        // Not to be so long that addresses come round, either.
        ("far", 1, false),
    ];
    assert_eq!(file.program.funcs.len(), expected.len());
    for (symbol, stores, whole) in expected {
        let key = file.program.func(symbol).expect("it is there");
        let n = file.program.funcs[key].signature.params.len();
        let args = (0..n).map(|i| if i == 0 { ArgSpec::DUPLICATED.noalias().fresh() } else { ArgSpec::CONST });
        let request = Request::new(key, args);
        for mode in [Mode::Split, Mode::Combined, Mode::Gradient] {
            // Whether it is worth a second pullback is another question, and where nothing is
            // recorded, nothing is to be run again.
            let disabled = PassSet::of(&[Pass::CostModel, Pass::RerunLoops]);
            let options = Options { mode, disabled, ..Options::full() };
            let rule = DerivedRule::new(&file.program, &request, &options).expect("it can be derived");
            assert_eq!(rule.overwrites(0), whole && mode != Mode::Split, "%{symbol}, {mode:?}");
            if mode == Mode::Split {
                continue;
            }
            let dump = dump(&file.program, &request, &options, Stage::Combined).expect("it can be derived");
            let count = |what: &str| dump.lines().filter(|l| l.contains("shadow") && l.contains(what)).count();
            assert_eq!(count("] = v") + count("] = d"), stores, "%{symbol}, {mode:?}\n{dump}");
            assert_eq!(dump.contains("watch d"), stores > 0, "%{symbol}, {mode:?}\n{dump}");
        }
        let disabled = PassSet::from(Pass::MonotoneRows);
        let options = Options { mode: Mode::Gradient, disabled, ..Options::full() };
        let rule = DerivedRule::new(&file.program, &request, &options).expect("it can be derived");
        assert!(!rule.overwrites(0), "%{symbol}");
    }
}
