//! A rule that is called in a loop allocates nothing after the first call, and what is dropped is
//! unmapped.

use std::sync::Arc;

use brolga_runtime::{CodeRanges, Plan, Pool, Segment, call_guarded};
use brolga_testing::child::alone;
use brolga_testing::counting::requests;

fn allocations(what: impl FnOnce()) -> usize {
    let before = requests();
    what();
    requests() - before
}

/// Stands for generated code: records through the layout that generated code knows.
unsafe extern "C" fn record(segment: *mut u8) {
    let top = segment.cast::<*mut f64>();
    // SAFETY: the test passes a segment, whose first field is the top of a tape with ample room.
    unsafe {
        for i in 0..1000 {
            (*top).write(f64::from(i));
            *top = (*top).add(1);
        }
    }
}

fn one_call(pool: &Arc<Pool>, code: &CodeRanges) {
    let mut segment = pool.lease().unwrap();
    // SAFETY: `record` does not trap.
    unsafe { call_guarded(record, segment.as_mut_ptr().cast(), code) }.unwrap();
    assert_eq!(segment.bytes_used(), 8000);
    segment.begin_pullback();
}

#[test]
fn the_second_call_allocates_nothing() {
    let pool = Arc::new(Pool::new(Plan { capacity: 1 << 30, ..Plan::default() }));
    let code = CodeRanges::default();
    assert!(allocations(|| one_call(&pool, &code)) > 0);
    assert_eq!(allocations(|| (0..100).for_each(|_| one_call(&pool, &code))), 0);
}

/// In a process of its own, since mappings are the process's.
#[test]
#[cfg(target_os = "linux")]
fn dropped_segments_are_unmapped() {
    let mappings = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    alone(module_path!(), "dropped_segments_are_unmapped", || {
        let before = mappings();
        for _ in 0..1000 {
            let mut segment = Segment::new(8 << 30).unwrap();
            // SAFETY: as in `one_call`.
            unsafe { record(segment.as_mut_ptr().cast()) };
        }
        assert!(mappings().abs_diff(before) < 10);
    });
}
