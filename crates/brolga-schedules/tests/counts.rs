//! Counts are those of the closed forms, for all small numbers of steps and slots.

use brolga_schedules::{Method, Reversal, Schedule, online, periodic, revolve};

use crate::machine::{Machine, drive, run};

const BOTH: [Reversal; 2] = [Reversal::Split, Reversal::Joint];

/// `t(l, c)` by its recurrence, without the closed form.
fn table(units: usize, slots: usize) -> Vec<Vec<u128>> {
    let mut t = vec![vec![0; units + 1]; slots + 1];
    for l in 2..=units {
        t[1][l] = (l * (l - 1) / 2) as u128;
        for c in 2..=slots {
            t[c][l] = (1..l).map(|k| k as u128 + t[c - 1][l - k] + t[c][k]).min().unwrap();
        }
    }
    t
}

#[test]
fn revolve_is_its_recurrence() {
    let table = table(200, 20);
    for c in 1..=20_u64 {
        for l in 1..=200_u64 {
            let want = table[c as usize][l as usize];
            assert_eq!(revolve::untaped(l, c), want, "t({l}, {c})");
            let method = Method::Revolve { block: 1, slots: c };
            let split = run(method, l, Some(l), Reversal::Split);
            assert_eq!(split.stats.forward, want, "{l} steps, {c} slots");
            assert!(split.most[0] as u64 <= c);
            let most = split.runs.iter().copied().max().unwrap();
            assert!(most <= revolve::repetitions(l, c), "{l}, {c}: a step runs {most} times");
            // One step more, and a slot for as long as there is no tape.
            let joint = run(method, l, Some(l), Reversal::Joint);
            assert_eq!(joint.stats.forward, want + 1);
            assert!(joint.stats.max_slots_taped <= c && joint.stats.max_slots <= c + 1);
        }
    }
}

#[test]
fn more_slots_than_units() {
    for slots in [40, 1 << 40, u64::MAX] {
        for method in [
            Method::Revolve { block: 1, slots },
            Method::Treeverse { block: 1, slots },
            Method::Online { block: 1, slots },
            Method::Periodic { block: 1, period: u64::MAX, slots },
            Method::TwoLevels { block: 1, period: 20, slots },
        ] {
            let known = run(method, 30, Some(30), Reversal::Split).stats.forward;
            let stretches = if let Method::TwoLevels { .. } = method { 19 } else { 0 };
            let online = if let Method::Online { .. } = method { 1 } else { 0 };
            assert_eq!(known, 29 + stretches + online, "{method}");
            assert_eq!(method.forecast(30, Reversal::Split).unwrap().forward, known, "{method}");
        }
    }
}

#[test]
fn blocks_cost_as_many_steps_as_blocks() {
    for block in [1, 2, 3, 7, 40, 200] {
        for steps in 1..=90_u64 {
            let (units, last) = (steps.div_ceil(block), (steps - 1) % block + 1);
            for slots in [1, 2, 3, 8] {
                for reversal in BOTH {
                    let more = if reversal == Reversal::Joint { last } else { 0 };
                    let method = Method::Revolve { block, slots };
                    let forward = run(method, steps, Some(steps), reversal).stats.forward;
                    let want = u128::from(block) * revolve::untaped(units, slots) + u128::from(more);
                    assert_eq!(forward, want, "{method}, {steps} steps, {reversal:?}");
                }
            }
        }
    }
}

/// Methods that work for any number of steps.
fn methods() -> Vec<Method> {
    let mut all = vec![Method::StoreAll];
    for block in [1, 3] {
        all.extend([Method::RecomputeAll { block }, Method::Blocked { block }]);
        for slots in [1, 2, 3, 5] {
            all.extend([Method::Revolve { block, slots }, Method::Treeverse { block, slots }]);
            all.push(Method::Online { block, slots });
            for period in [1, 2, 4, 9] {
                all.push(Method::Periodic { block, period, slots: slots - 1 });
                all.push(Method::TwoLevels { block, period, slots: slots - 1 });
            }
        }
        for parts in [2, 3, 5] {
            all.extend([true, false].map(|uncompute| Method::Bennett { block, parts, uncompute }));
        }
    }
    all
}

#[test]
fn forecasts_are_what_runs_count() {
    for method in methods() {
        for steps in 0..=70 {
            for reversal in BOTH {
                let told = (!matches!(method, Method::Online { .. })).then_some(steps);
                let run = run(method, steps, told, reversal);
                let forecast = method.forecast(steps, reversal).unwrap();
                let what = format!("{method}, {steps} steps, {reversal:?}");
                assert_eq!(run.stats.forward, forecast.forward, "{what}");
                assert_eq!(run.stats.taped, u128::from(forecast.taped), "{what}");
                assert!(run.stats.max_slots_taped <= forecast.slots, "{what}: {forecast:?} {:?}", run.stats);
                assert!(run.stats.max_slots <= forecast.slots + u64::from(forecast.has_turn), "{what}: {forecast:?}");
                assert!(run.stats.max_files <= forecast.files, "{what}");
                assert_eq!(run.stats.max_slots, run.most[0] as u64);
                assert_eq!(run.stats.max_files, run.most[1] as u64);
            }
        }
    }
}

#[test]
fn a_number_of_steps_that_turns_out() {
    for method in methods() {
        if Schedule::new(method, None, Reversal::Split).is_err() {
            continue;
        }
        for steps in 0..=70 {
            for reversal in BOTH {
                let unknown = run(method, steps, None, reversal);
                // The sweep goes to the end, whatever is known.
                let joint = method.forecast(steps, Reversal::Joint).unwrap();
                let least = if method == Method::StoreAll { 0 } else { u128::from(steps) };
                assert!(unknown.stats.forward >= least.min(joint.forward), "{method}, {steps} steps");
                if let Method::Blocked { .. } | Method::TwoLevels { slots: 0, .. } = method {
                    assert_eq!(
                        unknown.most[0],
                        if let Method::Blocked { block } = method { steps.div_ceil(block).max(1) as usize } else { 0 }
                    );
                }
            }
        }
    }
}

/// A loop may notice its end a step late: a state is kept that is of no use.
#[test]
fn an_end_that_is_seen_late() {
    for method in methods() {
        let Ok(mut schedule) = Schedule::new(method, None, Reversal::Joint) else { continue };
        for steps in 0..40 {
            let mut machine = Machine::new(steps);
            machine.is_late = true;
            drive(&mut schedule, &mut machine);
            machine.finished(0);
            schedule = Schedule::new(method, None, Reversal::Joint).unwrap();
        }
    }
}

/// A loop may end before the step that was told.
#[test]
fn a_loop_that_ends_early() {
    for method in methods().into_iter().filter(|m| !matches!(m, Method::Bennett { .. })) {
        for (told, reversal) in [1, 2, 5, 17, 30].into_iter().flat_map(|n| BOTH.map(|r| (n, r))) {
            let most = method.forecast(told, reversal).unwrap();
            for steps in 0..told {
                let run = run(method, steps, Some(told), reversal);
                assert!(run.stats.max_slots <= most.slots + 1, "{method}, {steps} of {told}");
            }
        }
    }
}

#[test]
fn online_is_near_the_optimum() {
    let mut worst = 0.0_f64;
    for slots in [3, 4, 5, 8, 10, 16, 20, 32] {
        for steps in (2..200).chain((200..2000).step_by(97)) {
            let online = run(Method::Online { block: 1, slots }, steps, None, Reversal::Joint);
            assert!(online.most[0] as u64 <= slots);
            let best = revolve::untaped(steps, slots) + u128::from(steps);
            let ratio = (online.stats.forward + online.stats.taped) as f64 / best as f64;
            worst = worst.max(ratio);
            assert!(ratio <= 1.334, "{steps} steps, {slots} slots: {ratio}");
        }
    }
    // Two steps take 4 runs, and 3 if their number is known.
    assert!(worst > 1.333, "{worst}");
    for (slots, most) in [(1, 5.0 / 3.0), (2, 1.4)] {
        for steps in 2..400 {
            let online = run(Method::Online { block: 1, slots }, steps, None, Reversal::Split).stats;
            let best = revolve::untaped(steps, slots) + u128::from(steps);
            assert!((online.forward + online.taped) as f64 / best as f64 <= most);
        }
    }
}

#[test]
fn online_placements_and_their_cost() {
    for (steps, slots, expected) in
        [(10, 3, &[0, 4, 7][..]), (35, 3, &[0, 20, 30]), (100, 5, &[0, 56, 91, 95, 98]), (1000, 10, &[])]
    {
        let mut schedule = Schedule::new(Method::Online { block: 1, slots }, None, Reversal::Joint).unwrap();
        let mut machine = Machine::new(steps);
        let mut live = std::collections::BTreeMap::new();
        let mut placed = Vec::new();
        while let Some(action) = schedule.next() {
            use brolga_schedules::Action::{Drop, Store, Turn};
            match action {
                Store { slot, step } => drop(live.insert(slot, step.0)),
                Drop { slot } => drop(live.remove(&slot)),
                Turn => placed = live.values().copied().collect(),
                _ => {}
            }
            if let Some(end) = machine.act(action) {
                schedule.end_of_loop(end).unwrap();
            }
        }
        placed.sort_unstable();
        assert!(expected.is_empty() || placed == expected, "{steps} steps, {slots} slots: {placed:?}");
        assert_eq!(machine.stats.forward, online::untaped(steps, &placed, slots));
    }
    // Where the placement is that of revolve, the way from the last state to the end is extra.
    assert_eq!(online::untaped(10, &[0, 4, 7], 3), 15 + 3);
}

#[test]
fn files_are_written_once() {
    let method = Method::TwoLevels { block: 1, period: 10, slots: 2 };
    let run = run(method, 95, Some(95), Reversal::Split);
    assert_eq!(run.stats.forward, 90 + 9 * revolve::untaped(10, 3) + revolve::untaped(5, 3));
    assert_eq!(run.stats.forward, periodic::untaped(95, 10, 2));
    assert_eq!((run.stats.disk_writes, run.most), (10, [2, 10]));
}

/// All steps are reversed again from the initial state, as often as wanted.
#[test]
fn reversed_again() {
    for method in methods() {
        for steps in [0, 1, 2, 9, 31] {
            for reversal in BOTH {
                let told = (!matches!(method, Method::Online { .. })).then_some(steps);
                let mut schedule = Schedule::new(method, told, reversal).unwrap().reusable();
                let mut machine = Machine::new(steps);
                assert!(schedule.restart().is_err());
                drive(&mut schedule, &mut machine);
                let remaining = usize::from(steps > 0 && !(method == Method::StoreAll && reversal == Reversal::Split));
                machine.finished(remaining);
                for _ in 0..2 {
                    machine.restart();
                    schedule.restart().unwrap();
                    drive(&mut schedule, &mut machine);
                    if remaining == 0 {
                        continue;
                    }
                    machine.finished(remaining);
                    let block = method.block();
                    let units = steps.div_ceil(block);
                    let want = match method {
                        Method::Online { slots, .. } => revolve::untaped(units, slots) * u128::from(block),
                        Method::Bennett { parts, .. } => {
                            // The reverse half alone, of all as one stretch.
                            let (computed, erased) = brolga_schedules::bennett::forward(units, parts, true);
                            (computed + erased - u128::from(units)) * u128::from(block)
                        }
                        _ => method.forecast(steps, Reversal::Split).unwrap().forward,
                    };
                    assert_eq!(machine.stats.forward, want, "{method}, {steps} steps, {reversal:?}");
                }
            }
        }
    }
}
