//! A budget is kept, and nothing that fits runs many fewer steps.

use brolga_schedules::{Budget, FileBudget, LoopSize, Method, Reversal, Selection, SlotId, choose};
use proptest::prelude::*;

use crate::machine::{Machine, run};

const MEMORY: fn(u64) -> Budget = |memory| Budget { memory, files: None };
const MIB: u64 = 1 << 20;

fn chosen(steps: Option<u64>, state: u64, tape: u64, budget: Budget, reversal: Reversal) -> Selection {
    choose(LoopSize { steps, state, tape }, budget, reversal).unwrap()
}

#[test]
fn simulations() {
    let joint = |steps, state, tape, memory| chosen(Some(steps), state, tape, MEMORY(memory), Reversal::Joint);
    // Ten bodies, 10^6 and 10^7 steps; heat on 64 x 64.
    let bodies = joint(1_000_000, 480, 4800, 16 * MIB);
    assert!(matches!(bodies.method, Method::Blocked { block: 40..=54 }), "{bodies}");
    assert!(bodies.bytes() < 11_000_000);
    assert_eq!(bodies.forecast.unwrap().forward, 1_000_000);
    let long = joint(10_000_000, 480, 4800, 64 * MIB);
    assert!(matches!(long.method, Method::Blocked { block: 72..=110 }), "{long}");
    let heat = joint(100_000, 32_768, 163_000, 64 * MIB);
    assert!(matches!(heat.method, Method::Blocked { .. }), "{heat}");
    // Within a mebibyte each step runs twice more at most.
    for (steps, most) in [(1_000_000, 1.92), (10_000_000, 2.0)] {
        let small = joint(steps, 480, 4800, MIB);
        let forecast = small.forecast.unwrap();
        assert!(matches!(small.method, Method::Revolve { .. }), "{small}");
        assert!(forecast.forward as f64 <= most * steps as f64, "{small}");
    }
    // What fits is taped at once.
    let fitting = chosen(Some(1000), 480, 4800, MEMORY(16 * MIB), Reversal::Split);
    assert_eq!((fitting.method, fitting.forecast.unwrap().forward), (Method::StoreAll, 0));
}

#[test]
fn a_choice_explains_itself() {
    let lines = |choice: Selection| choice.to_string();
    assert_eq!(
        lines(chosen(Some(1_000_000), 480, 4800, MEMORY(16 * MIB), Reversal::Joint)),
        "blocked, blocks of 54\n\
         steps: 1000000 taped, 1000000 more without a tape (1.000 a step)\n\
         memory: 18518 states of 480 bytes, a tape of 54 steps of 4800 bytes\n\
         at most 8.7 MiB of 16.0 MiB"
    );
    assert_eq!(
        lines(chosen(None, 480, 4800, MEMORY(MIB), Reversal::Split)),
        "online, blocks of 72, 512 slots\n\
         steps: as many as there turn out to be\n\
         reach: 36936 steps run about once more, 9492552 twice\n\
         memory: 512 states of 480 bytes, a tape of 72 steps of 4800 bytes\n\
         at most 577.5 KiB of 1.0 MiB"
    );
    let files = Some(FileBudget { bytes: 1 << 30, steps_per_state: 100 });
    let budget = Budget { memory: 100_000, files };
    assert_eq!(
        lines(chosen(Some(1_000_000), 480, 4800, budget, Reversal::Joint)),
        "two levels, blocks of 11, a file every 100 blocks, 98 slots between\n\
         steps: 1000000 taped, 1989901 more without a tape (1.989 a step)\n\
         memory: 98 states of 480 bytes, a tape of 11 steps of 4800 bytes\n\
         files: 910 states, 426.5 KiB\n\
         at most 97.5 KiB of 97.6 KiB"
    );
    let error = choose(LoopSize { steps: None, state: 480, tape: 4800 }, MEMORY(500), Reversal::Joint).unwrap_err();
    assert_eq!(
        error.to_string(),
        "a budget of 500 bytes is too small: one state takes 480 bytes and the tape of one step 4800, so that a loop \
         can be reversed within 5280 bytes or more"
    );
}

/// Bytes that a run takes at most.
fn most_bytes(choice: &Selection, machine: &mut Machine) -> u64 {
    let mut schedule = choice.schedule().unwrap();
    let LoopSize { state, tape, .. } = choice.size;
    let mut most = 0;
    while let Some(action) = schedule.next() {
        if let Some(end) = machine.act(action) {
            schedule.end_of_loop(end).unwrap();
        }
        let slots = machine.live().filter(|s| matches!(s, SlotId::Memory(_))).count() as u64;
        most = most.max(slots * state + machine.on_tape() * tape);
    }
    machine.finished(0);
    most
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    /// Whatever is chosen stays within its budget, and costs what was forecast.
    #[test]
    fn budgets_are_kept(
        steps in 0..200_u64, state in 0..50_u64, tape in 0..50_u64, memory in 0..3000_u64,
        files in proptest::option::of((0..3000_u64, 0..5_u64)), is_joint: bool, is_known: bool,
    ) {
        let files = files.map(|(bytes, steps_per_state)| FileBudget { bytes, steps_per_state });
        let (budget, reversal) = (Budget { memory, files }, if is_joint { Reversal::Joint } else { Reversal::Split });
        let size = LoopSize { steps: is_known.then_some(steps), state, tape };
        match choose(size, budget, reversal) {
            Ok(choice) => {
                let mut machine = Machine::new(steps);
                let most = most_bytes(&choice, &mut machine);
                prop_assert!(most <= memory, "{most} bytes: {choice}");
                prop_assert!(u128::from(most) <= choice.bytes());
                if let Some(forecast) = choice.forecast {
                    prop_assert_eq!(machine.stats.forward, forecast.forward);
                    prop_assert!(machine.stats.max_files * state <= files.map_or(0, |f| f.bytes));
                }
            }
            Err(error) => {
                prop_assert!(memory < error.least);
                let enough = choose(size, Budget { memory: error.least, files }, reversal);
                prop_assert!(enough.is_ok());
            }
        }
    }

    /// Nothing that fits runs more than a twentieth fewer steps.
    #[test]
    fn choices_are_near_the_best(
        steps in 1..60_u64, state in 1..50_u64, tape in 1..50_u64, memory in 0..2000_u64, is_joint: bool,
    ) {
        let reversal = if is_joint { Reversal::Joint } else { Reversal::Split };
        let fits = |method: &Method| {
            let forecast = method.forecast(steps, reversal).unwrap();
            forecast.bytes(state, tape) <= u128::from(memory)
        };
        let blocks = (1..=steps).flat_map(|block| (1..=steps).map(move |slots| Method::Revolve { block, slots }));
        let all = blocks.chain([Method::StoreAll]).filter(fits);
        let best = all.map(|m| m.forecast(steps, reversal).unwrap().forward).min();
        let choice = choose(LoopSize { steps: Some(steps), state, tape }, MEMORY(memory), reversal);
        prop_assert_eq!(best.is_some(), choice.is_ok());
        if let (Some(best), Ok(choice)) = (best, choice) {
            let (best, is) = (best + u128::from(steps), choice.forecast.unwrap().forward + u128::from(steps));
            prop_assert!(is * 20 <= best * 21, "{is} steps, not {best}: {choice}");
        }
    }
}

/// The least bytes are those that a search finds.
#[test]
fn the_least_bytes() {
    let files = [None, Some(0), Some(1000)].map(|f| f.map(|bytes| FileBudget { bytes, steps_per_state: 1 }));
    for (state, tape) in [(10, 3), (3, 10), (0, 4), (4, 0), (7, 7)] {
        for steps in [Some(0), Some(1), Some(2), Some(5), Some(40), None] {
            for (reversal, files) in [Reversal::Split, Reversal::Joint].into_iter().flat_map(|r| files.map(|f| (r, f)))
            {
                let size = LoopSize { steps, state, tape };
                let fits = |memory| choose(size, Budget { memory, files }, reversal);
                let least = (0..100).find(|memory| fits(*memory).is_ok()).unwrap();
                for memory in 0..least {
                    assert_eq!(fits(memory).unwrap_err().least, least, "{size:?} {reversal:?} {files:?}");
                }
                assert!((least..100).all(|memory| fits(memory).is_ok()));
                assert!(least <= state + tape.max(state), "{size:?} {reversal:?}: {least}");
            }
        }
    }
}

/// Huge loops are forecast without a run.
#[test]
fn forecasts_are_quick() {
    let steps = 1_000_000_000_000;
    let choice = chosen(Some(steps), 24, 264, MEMORY(64 << 10), Reversal::Joint);
    assert!(choice.forecast.unwrap().forward < 10 * u128::from(steps), "{choice}");
    let small = chosen(Some(200), 24, 264, MEMORY(1000), Reversal::Joint);
    assert_eq!(run(small.method, 200, Some(200), Reversal::Joint).stats.forward, small.forecast.unwrap().forward);
}
