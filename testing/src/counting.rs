//! An allocator that counts what each thread asks for, so that tests may run side by side.
//!
//! A test binary that counts declares it: `#[global_allocator] static ALLOCATOR: Counting =
//! Counting;`.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static BYTES: Cell<usize> = const { Cell::new(0) };
    static REQUESTS: Cell<usize> = const { Cell::new(0) };
}

/// The system's allocator with counters. A block that changes its size counts as a new one.
pub struct CountingAllocator;

fn count(bytes: usize) {
    BYTES.set(BYTES.get() + bytes);
    REQUESTS.set(REQUESTS.get() + 1);
}

// SAFETY: defers to the system's allocator.
unsafe impl GlobalAlloc for CountingAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's obligation.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's obligation.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size);
        // SAFETY: the caller's obligation.
        unsafe { System.realloc(p, layout, size) }
    }

    unsafe fn dealloc(&self, p: *mut u8, layout: Layout) {
        // SAFETY: the caller's obligation.
        unsafe { System.dealloc(p, layout) }
    }
}

/// Requests that this thread has made so far.
pub fn requests() -> usize {
    REQUESTS.get()
}

/// Bytes that this thread has asked for so far.
pub fn bytes() -> usize {
    BYTES.get()
}
