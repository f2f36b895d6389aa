//! Published tables, and sequences of actions.

use brolga_schedules::{Method, Reversal, Schedule, bennett, revolve};

use crate::machine::run;

/// `t(l, c)`: the first row is c, the first column l.
const TABLE: &str = "
0 1 2 3 4 5 8 10 16 20 32
10 45 20 15 14 13 10 9 9 9 9
20 190 65 45 39 33 30 28 22 19 19
32 496 140 93 75 68 54 52 46 42 31
50 1225 285 180 144 122 95 88 82 78 66
64 2016 420 258 200 172 137 116 110 106 94
100 4950 845 490 374 316 245 222 182 178 166
128 8128 1240 694 516 430 329 306 238 234 222
200 19900 2470 1305 948 790 580 522 429 378 366
256 32640 3608 1845 1330 1074 804 690 597 515 478
500 124750 10044 4680 3213 2576 1785 1636 1329 1247 966
1000 499500 28820 12155 7998 6284 4285 3636 2860 2747 2405
10000 49995000 932820 278730 157496 112868 68560 57624 44015 37976 32860
";

#[test]
fn least_steps() {
    let rows: Vec<Vec<u64>> =
        TABLE.lines().skip(1).map(|l| l.split(' ').map(|n| n.parse().unwrap()).collect()).collect();
    for row in &rows[1..] {
        for (slots, want) in rows[0].iter().zip(row).skip(1) {
            assert_eq!(revolve::untaped(row[0], *slots), u128::from(*want), "t({}, {slots})", row[0]);
            if row[0] <= 1000 || *slots > 1 {
                let method = Method::Revolve { block: 1, slots: *slots };
                let run = run(method, row[0], Some(row[0]), Reversal::Split);
                assert_eq!(run.stats.forward, u128::from(*want));
            }
        }
    }
    assert_eq!(revolve::untaped(100_000, 3), 6_176_445);
    assert_eq!(revolve::untaped(100_000, 9), 915_244);
}

fn actions(method: Method, steps: u64, reversal: Reversal) -> String {
    let schedule = Schedule::new(method, Some(steps), reversal).unwrap();
    schedule.map(|a| a.to_string()).filter(|a| !a.starts_with("drop")).collect::<Vec<_>>().join(", ")
}

#[test]
fn actions_of_revolve() {
    let method = Method::Revolve { block: 1, slots: 3 };
    assert_eq!(
        actions(method, 10, Reversal::Split),
        "store 0 in m0, advance 0..4, store 4 in m1, advance 4..7, store 7 in m2, advance 7..9, tape 9..10, turn, \
         reverse 9..10, restore 7 from m2, advance 7..8, tape 8..9, reverse 8..9, restore 7 from m2, tape 7..8, \
         reverse 7..8, restore 4 from m1, advance 4..5, store 5 in m2, advance 5..6, tape 6..7, reverse 6..7, \
         restore 5 from m2, tape 5..6, reverse 5..6, restore 4 from m1, tape 4..5, reverse 4..5, restore 0 from m0, \
         advance 0..1, store 1 in m1, advance 1..2, store 2 in m2, advance 2..3, tape 3..4, reverse 3..4, restore 2 \
         from m2, tape 2..3, reverse 2..3, restore 1 from m1, tape 1..2, reverse 1..2, restore 0 from m0, tape 0..1, \
         reverse 0..1"
    );
    assert_eq!(
        actions(Method::Blocked { block: 4 }, 10, Reversal::Joint),
        "store 0 in m0, advance 0..4, store 4 in m1, advance 4..8, store 8 in m2, advance 8..10, turn, restore 8 \
         from m2, joint 8..10, restore 4 from m1, joint 4..8, restore 0 from m0, joint 0..4"
    );
}

#[test]
fn treeverse() {
    for (slots, want) in
        [(5, 113_095), (10, 60_227), (20, 37_972), (40, 29_128), (80, 27_138), (160, 19_837), (320, 19_681)]
    {
        let run = run(Method::Treeverse { block: 1, slots }, 9999, Some(9999), Reversal::Split);
        assert_eq!(run.stats.forward, want, "{slots} slots");
        assert!(run.most[0] as u64 <= slots);
    }
    // As good as revolve where the loop fits its repetitions, and worse elsewhere.
    for (steps, slots, want) in [
        (20, 3, 45),
        (35, 3, 105),
        (70, 4, 224),
        (120, 4, 474),
        (126, 4, 504),
        (20, 4, 43),
        (30, 5, 67),
        (7, 5, 9),
        (10, 8, 13),
    ] {
        let run = run(Method::Treeverse { block: 1, slots }, steps, Some(steps), Reversal::Split);
        assert_eq!(run.stats.forward, want, "{steps} steps, {slots} slots");
    }
    for slots in 1..12 {
        for steps in 1..400 {
            let run = run(Method::Treeverse { block: 1, slots }, steps, Some(steps), Reversal::Split);
            let best = revolve::untaped(steps, slots);
            assert!(
                100 * run.stats.forward <= 131 * best,
                "{steps} steps, {slots} slots: {} {best}",
                run.stats.forward
            );
        }
    }
}

#[test]
fn bennett_counts() {
    for (parts, levels) in [(2_u64, 1_u32), (2, 5), (3, 3), (4, 3), (5, 3), (10, 2)] {
        let steps = parts.pow(levels);
        let all = u128::from(2 * parts - 1).pow(levels);
        assert_eq!(bennett::forward(steps, parts, true), (all.div_ceil(2), all / 2));
        let run = run(Method::Bennett { block: 1, parts, uncompute: true }, steps, Some(steps), Reversal::Joint);
        // The mirror image tapes each step once.
        assert_eq!(run.stats.forward, 2 * all - u128::from(steps));
        assert_eq!(run.most[0] as u64, u64::from(levels) * (parts - 1) + 2);
    }
    for (steps, parts, uncompute, want, most) in [
        (100, 4, true, (424, 423), 12),
        (100, 4, false, (244, 240), 12),
        (100, 20, true, (176, 175), 25),
        (100, 20, false, (100, 80), 25),
    ] {
        assert_eq!(bennett::forward(steps, parts, uncompute), want);
        let run = run(Method::Bennett { block: 1, parts, uncompute }, steps, Some(steps), Reversal::Split);
        assert_eq!(run.most[0], most);
        assert_eq!(run.stats.forward, bennett::untaped(steps, parts, uncompute));
    }
    for (parts, want, most) in
        [(5, 178_601, 24), (10, 68_588, 38), (20, 56_936, 53), (40, 36_758, 82), (80, 29_836, 143), (160, 19_839, 221)]
    {
        let (computed, erased) = bennett::forward(9999, parts, false);
        assert_eq!(computed + erased, want);
        let run = run(Method::Bennett { block: 1, parts, uncompute: false }, 9999, Some(9999), Reversal::Split);
        assert_eq!(run.most[0], most);
        assert_eq!(run.stats.forward, 2 * want - 9999);
    }
}
