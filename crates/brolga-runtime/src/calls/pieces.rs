//! Helpers for cotangents in pieces: what generated code calls where a float's bytes are moved or
//! stored one by one ([`crate::pieces`]).
//!
//! **Question.** A pullback reverses stores and loads of integers that are bytes of floats, or may
//! be. Where do the cotangents go?
//!
//! **Answer.** Such an integer's cotangent is a *ticket*, the number of a record of bytes; zero is
//! no cotangent, and a *demand* is one that waits until a store says whether a float lies there.
//!
//! | in the primal | in the pullback |
//! |---|---|
//! | a store of a piece | [`brolga_take_bytes`]: a ticket for what its shadow holds |
//! | a load of a piece | [`brolga_add_bytes`]: the ticket's bytes go to the shadow of the place |
//! | a piece that has two uses | [`brolga_join_bytes`] |
//! | a shift, or a mask, of a piece | [`brolga_part_of_bytes`], [`brolga_drop_digits`] |
//! | bits of a float become an integer | [`brolga_double_of_bytes`], and that of singles |
//! | an integer becomes a float | [`brolga_bytes_of_double`], and that of singles |
//! | a load or a store of a float where pieces may wait | [`brolga_settle_bytes`] |
//! | numbers stored over parts of floats, or over blocks | [`brolga_cut_bytes`], [`brolga_clear`] |
//! | a store, a load of a computed integer | [`brolga_take_demand`], [`brolga_add_demand`] |
//! | a copy of floats, with such integers between them | [`brolga_move_demand`] |
//!
//! **Errors.** [`status::UNTRACKED`] where bytes have a cotangent, and it cannot be told whose it
//! is.
//!
//! **Safety.** Generated code passes a segment that it alone uses, tickets of this run, and shadows
//! that are valid for the bytes and for the multiples of eight around them.
//!
//! **Cost.** Records of eight bytes in the segment's lists, looked up by window; a shadow that is
//! not there (a delta of zero) costs one test.

use crate::pieces::across::ANYWHERE;
use crate::pieces::cut::{complete_floats, tears};
use crate::pieces::demand::{SettledContents, bytes_of};
use crate::pieces::{ACCOUNT, DEMAND, STRICT};
use crate::pieces::{TicketPart, WINDOW};
use crate::segment::Segment;
use crate::status;

/// Take the cotangent of `n` bytes at `p` that were stored as a piece of something: a ticket.
/// `elem` is as for [`brolga_add_bytes`].
///
/// # Safety
/// `seg` is a valid segment that no other thread uses; the shadow, if there is one, is valid for
/// the bytes and the multiples of eight around them.
pub(crate) unsafe extern "C" fn brolga_take_bytes(seg: *mut Segment, p: u64, delta: u64, n: u64, elem: u64) -> u64 {
    if delta == 0 {
        return 0;
    }
    // SAFETY: our contract.
    let seg = unsafe { &mut *seg };
    let (at, n) = (p.wrapping_add(delta) as usize, n as usize);
    // SAFETY: our contract.
    let odd_ticket = if elem == ANYWHERE { unsafe { seg.pieces.take_odd(at, n) } } else { None };
    // SAFETY: the same.
    let ticket = odd_ticket.unwrap_or_else(|| unsafe { seg.pieces.take(at, n) });
    seg.note_waiting();
    ticket
}

/// Add what a ticket stands for to the shadow of `n` bytes at `p`, from which a piece was loaded.
/// `elem` is the size of the floats there, 0 if that is not known, or [`ANYWHERE`]. Returns
/// [`status::UNTRACKED`] if the bytes cannot be told.
///
/// # Safety
/// As for [`brolga_take_bytes`], in the same run.
pub(crate) unsafe extern "C" fn brolga_add_bytes(
    seg: *mut Segment,
    p: u64,
    delta: u64,
    n: u64,
    elem: u64,
    ticket: u64,
) -> u64 {
    if ticket == 0 {
        return status::OK;
    }
    // SAFETY: our contract.
    let seg = unsafe { &mut *seg };
    if delta == 0 && ticket != DEMAND {
        for part in seg.pieces.redeem(ticket) {
            seg.pieces.done(part.record, part.bytes);
        }
    }
    if delta == 0 {
        return status::OK;
    }
    let (at, n) = (p.wrapping_add(delta) as usize, n as usize);
    let of = if elem == ANYWHERE { 0 } else { elem as usize };
    // SAFETY: our contract.
    let known = unsafe { elem == ANYWHERE && seg.pieces.add_odd(at, n, ticket) || seg.pieces.add(at, n, of, ticket) };
    seg.note_waiting();
    if known { status::OK } else { status::UNTRACKED }
}

/// A ticket for what two tickets stand for: a piece that has gone to two places.
///
/// # Safety
/// `seg` is a valid segment that no other thread uses, and the tickets are of this run.
pub(crate) unsafe extern "C" fn brolga_join_bytes(seg: *mut Segment, a: u64, b: u64) -> u64 {
    if a == 0 || b == 0 {
        return a | b;
    }
    // SAFETY: our contract.
    let pieces = unsafe { &mut (*seg).pieces };
    let mut parts = pieces.redeem(a.max(b));
    parts.extend(pieces.redeem(a.min(b)));
    if a == DEMAND || b == DEMAND {
        parts.iter().for_each(|part| pieces.done(part.record, part.bytes));
        return DEMAND;
    }
    pieces.ticket(parts)
}

/// Those bytes of what a ticket stands for whose bits are set in `mask`, the first in the lowest
/// bit, moved up by so many bytes. The ticket keeps the others.
///
/// # Safety
/// As for [`brolga_join_bytes`].
pub(crate) unsafe extern "C" fn brolga_part_of_bytes(seg: *mut Segment, ticket: u64, mask: u64, up: i64) -> u64 {
    if ticket == DEMAND {
        return DEMAND;
    }
    // SAFETY: our contract.
    let pieces = unsafe { &mut (*seg).pieces };
    let Some(Some(parts)) = pieces.tickets.get_mut((ticket as usize).wrapping_sub(1)) else { return 0 };
    let mut taken = Vec::new();
    for part in parts.iter_mut() {
        let place = |i: usize| i as isize + part.at;
        let is_ours = |i: &usize| part.bytes & 1 << i != 0 && place(*i) >= 0 && mask >> place(*i).min(63) & 1 != 0;
        let bytes = (0..WINDOW).filter(is_ours).fold(0, |m, i| m | 1 << i);
        if bytes != 0 {
            part.bytes &= !bytes;
            taken.push(TicketPart { bytes, at: part.at + up as isize, ..*part });
        }
    }
    parts.retain(|part| part.bytes != 0);
    pieces.ticket(taken)
}

/// What is left of a ticket where numbers stand in place of some of its bytes, the first in the
/// lowest bit of `numbers`, and in place of some bits of those in `rough`: the float that the
/// others are of is whole if these are its last digits.
///
/// # Safety
/// As for [`brolga_join_bytes`].
pub(crate) unsafe extern "C" fn brolga_drop_digits(seg: *mut Segment, ticket: u64, numbers: u64, rough: u64) -> u64 {
    // SAFETY: our contract.
    unsafe { &mut (*seg).pieces }.drop_digits(ticket, numbers, rough)
}

/// Whether a ticket stands for anything but zeros, or for a demand: [`status::UNTRACKED`] if so. It
/// is used up.
///
/// # Safety
/// As for [`brolga_join_bytes`].
pub(crate) unsafe extern "C" fn brolga_no_bytes(seg: *mut Segment, ticket: u64) -> u64 {
    // SAFETY: our contract.
    let pieces = unsafe { &mut (*seg).pieces };
    let parts = pieces.redeem(ticket);
    let none = ticket != DEMAND && parts.iter().all(|part| !pieces.any(part.record, part.bytes));
    parts.iter().for_each(|part| pieces.done(part.record, part.bytes));
    if none { status::OK } else { status::UNTRACKED }
}

/// A ticket for the bytes of a cotangent.
///
/// # Safety
/// As for [`brolga_join_bytes`].
pub(crate) unsafe extern "C" fn brolga_bytes_of_double(seg: *mut Segment, ct: f64) -> u64 {
    // SAFETY: our contract.
    unsafe { &mut (*seg).pieces }.of_number(ct.to_le_bytes(), 8, 8)
}

/// The same for a word that is a double or two singles.
///
/// # Safety
/// As for [`brolga_join_bytes`].
pub(crate) unsafe extern "C" fn brolga_bytes_of_word(seg: *mut Segment, ct: f64) -> u64 {
    // SAFETY: our contract.
    unsafe { &mut (*seg).pieces }.of_number(ct.to_le_bytes(), 8, 0)
}

/// The same for a single.
///
/// # Safety
/// As for [`brolga_join_bytes`].
pub(crate) unsafe extern "C" fn brolga_bytes_of_single(seg: *mut Segment, ct: f32) -> u64 {
    let mut bytes = [0; WINDOW];
    bytes[..4].copy_from_slice(&ct.to_le_bytes());
    // SAFETY: our contract.
    unsafe { &mut (*seg).pieces }.of_number(bytes, 4, 4)
}

/// The cotangent of a double whose bytes a ticket stands for. If they are no such number, the
/// pullback will say so when it ends.
///
/// # Safety
/// As for [`brolga_join_bytes`].
pub(crate) unsafe extern "C" fn brolga_double_of_bytes(seg: *mut Segment, ticket: u64) -> f64 {
    // SAFETY: our contract.
    unsafe { &mut (*seg).pieces }.number(ticket, 8)
}

/// The same for a single.
///
/// # Safety
/// As for [`brolga_join_bytes`].
pub(crate) unsafe extern "C" fn brolga_single_of_bytes(seg: *mut Segment, ticket: u64) -> f32 {
    // SAFETY: our contract.
    unsafe { &mut (*seg).pieces }.number(ticket, 4) as f32
}

/// The same for two singles in a word, the first in its lower half. Bytes of a place may as well be
/// a double's, of which the sum of two halves would be another number, and nothing here tells: who
/// asks is sure that they are singles, because the word was made of them or is only read as such. A
/// word that is merely moved, and is thought to be singles for what happens on another way, stays a
/// ticket (`brolga_analysis::activity::ambiguous_width`).
///
/// # Safety
/// As for [`brolga_join_bytes`].
pub(crate) unsafe extern "C" fn brolga_singles_of_bytes(seg: *mut Segment, ticket: u64) -> u64 {
    // SAFETY: our contract.
    let [x, y] = unsafe { &mut (*seg).pieces }.numbers(ticket).map(|x| u64::from((x as f32).to_bits()));
    x | y << 32
}

/// The reverse of a copy of `n` bytes from `src` to `dst`, which may overlap, by pieces: of floats
/// of `elem` bytes, or of unknown size. False if something cannot be told.
///
/// # Safety
/// Both are shadows, valid for `n` bytes and the multiples of eight around them; `seg` as for
/// [`brolga_take_bytes`].
pub(crate) unsafe fn moved(seg: &mut Segment, dst: *mut u8, src: *mut u8, n: usize, elem: usize) -> bool {
    let (dst, src) = (dst as usize, src as usize);
    seg.pieces.move_demand(dst, src, n);
    // SAFETY: our contract.
    let step = |at: usize| (WINDOW - (dst + at) % WINDOW).min(n - at);
    let mut taken = Vec::new();
    let mut at = 0;
    while at < n {
        // SAFETY: our contract.
        let ticket = unsafe { seg.pieces.take(dst + at, step(at)) };
        taken.extend((ticket != 0).then_some((at, ticket)));
        at += step(at);
    }
    let mut all = true;
    for (at, ticket) in taken {
        // SAFETY: our contract.
        all &= unsafe { seg.pieces.add(src + at, step(at), elem, ticket) };
    }
    seg.note_waiting();
    all
}

/// The shadow of `n` bytes at `p` is about to be read as that of floats of `elem` bytes, or to be
/// cleared if that is 0: what waits there is added first, or forgotten. Returns
/// [`status::UNTRACKED`] if it is no such float. An `elem` of all ones says that an integer was
/// stored of which it is not known whether it is a constant: then a demand that waits there leads
/// to the loads that it may have been computed from, or, with one less, is lost, since none of
/// those asks; or, with two less, leads there and is all that counts. With
/// [`MOVED`](crate::pieces::MOVED) it is an integer that may be a float, whose
/// cotangent is not known if there is a demand.
///
/// # Safety
/// As for [`brolga_take_bytes`].
pub(crate) unsafe extern "C" fn brolga_settle_bytes(seg: *mut Segment, p: u64, delta: u64, n: u64, elem: u64) -> u64 {
    if delta == 0 {
        return status::OK;
    }
    // SAFETY: our contract.
    let seg = unsafe { &mut *seg };
    let (at, n, stored) = (p.wrapping_add(delta) as usize, n as usize, SettledContents::of(elem));
    let demanded = seg.pieces.take_demands(at, n);
    // SAFETY: our contract.
    let known = unsafe {
        seg.pieces.settle(at, n, stored.size(), matches!(stored, SettledContents::Integer | SettledContents::Demanded))
    };
    let mut lost = false;
    match stored {
        _ if demanded.is_empty() => {}
        SettledContents::Integer => {}
        SettledContents::Computed | SettledContents::Demanded => seg.asked = 1,
        SettledContents::Moved(size) => {
            let asked = |float: &usize| demanded.iter().any(|d| d.1 & bytes_of(d.0, *float, size) != 0);
            for float in (at..at + n).step_by(size).filter(asked) {
                // SAFETY: our contract.
                unsafe { seg.poison(float, size) };
            }
        }
        SettledContents::Unasked | SettledContents::Float(_) => lost = true,
    }
    seg.note_waiting();
    let known = known && !lost;
    if known { status::OK } else { status::UNTRACKED }
}

/// Numbers have been stored over `n` bytes at `p`, which may be a part of a float of `elem` bytes,
/// or of one of unknown size if that is 0.
///
/// # Safety
/// As for [`brolga_take_bytes`].
pub(crate) unsafe extern "C" fn brolga_cut_bytes(seg: *mut Segment, p: u64, delta: u64, n: u64, elem: u64) {
    if delta != 0 {
        // SAFETY: our contract.
        let seg = unsafe { &mut *seg };
        let (at, n) = (p.wrapping_add(delta) as usize, n as usize);
        // SAFETY: our contract.
        if unsafe { !seg.cut_in_task(at, n) } {
            // SAFETY: our contract.
            unsafe { seg.pieces.cut(at, n, elem as usize) };
            seg.note_waiting();
        }
    }
}

/// Clear `n` bytes at `p`, which were filled with numbers, where floats of `elem` bytes may lie (or
/// floats of unknown size, if that is 0). Returns [`status::UNTRACKED`] if no account is kept and
/// these are a part of a float whose cotangent is not zero, unless they are its lower digits: those
/// stay, as the slope is 1.
///
/// # Safety
/// As for [`brolga_take_bytes`].
pub(crate) unsafe extern "C" fn brolga_clear(seg: *mut Segment, p: u64, delta: u64, n: u64, elem: u64) -> u64 {
    if delta == 0 || n == 0 {
        return status::OK;
    }
    let (at, n, of) = (p.wrapping_add(delta) as usize, n as usize, (elem % ACCOUNT) as usize);
    let (end, size) = (at + n, if of == 0 { WINDOW } else { of });
    let (first, last) = complete_floats(at, end, size);
    if elem & ACCOUNT != 0 {
        let parts = [(at, first), (last, end)].into_iter().filter(|(from, to)| from < to);
        // SAFETY: our contract; the borrow ends here.
        if unsafe { (*seg).keeps_account() } {
            // SAFETY: the same.
            unsafe { (*seg).pieces.cover(at, n, true) };
            // SAFETY: the same.
            parts.for_each(|(from, to)| unsafe { (*seg).pieces.give_up(from, to - from, of) });
        } else {
            // SAFETY: the same.
            parts.for_each(|(from, to)| _ = unsafe { (*seg).cut_in_task(from, to - from) });
        }
        // SAFETY: the same.
        unsafe { (*seg).note_waiting() };
        // SAFETY: the same.
        if unsafe { (*seg).waiting } != 0 {
            // SAFETY: our contract.
            unsafe { brolga_settle_bytes(seg, p + (first - at) as u64, delta, (last - first) as u64, 0) };
        }
    } else {
        // SAFETY: our contract.
        if unsafe { tears(at, end, size, elem & STRICT != 0) } {
            return status::UNTRACKED;
        }
    }
    // SAFETY: our contract.
    unsafe { (first as *mut u8).write_bytes(0, last - first) };
    status::OK
}

/// Take the cotangent of `n` bytes at `p` that were stored as an integer which had been computed: 1
/// if there is one, or a demand.
///
/// # Safety
/// As for [`brolga_take_bytes`].
pub(crate) unsafe extern "C" fn brolga_take_demand(seg: *mut Segment, p: u64, delta: u64, n: u64) -> u64 {
    if delta == 0 {
        return 0;
    }
    // SAFETY: our contract.
    let seg = unsafe { &mut *seg };
    // SAFETY: our contract.
    let any = unsafe { seg.pieces.take_computed(p.wrapping_add(delta) as usize, n as usize) };
    seg.note_waiting();
    any.into()
}

/// A demand arrives at the place from which an integer of `n` bytes was loaded.
///
/// # Safety
/// As for [`brolga_take_bytes`].
pub(crate) unsafe extern "C" fn brolga_add_demand(seg: *mut Segment, p: u64, delta: u64, n: u64) -> u64 {
    if delta != 0 {
        // SAFETY: our contract.
        let seg = unsafe { &mut *seg };
        seg.pieces.demand(p.wrapping_add(delta) as usize, n as usize);
        seg.note_waiting();
    }
    status::OK
}

/// The reverse of a copy of `n` bytes of floats from `src` to `dst`: what is demanded of integers
/// that lie between them goes along.
///
/// # Safety
/// As for [`brolga_take_bytes`].
pub(crate) unsafe extern "C" fn brolga_move_demand(
    seg: *mut Segment,
    dst: u64,
    dst_delta: u64,
    src: u64,
    src_delta: u64,
    n: u64,
) -> u64 {
    // SAFETY: our contract.
    let seg = unsafe { &mut *seg };
    let [dst, src] = [(dst, dst_delta), (src, src_delta)].map(|(p, delta)| p.wrapping_add(delta) as usize);
    match (dst_delta, src_delta) {
        (0, _) => {}
        // Constants are copied.
        (_, 0) => drop(seg.pieces.take_demand(dst, n as usize)),
        _ => seg.pieces.move_demand(dst, src, n as usize),
    }
    seg.note_waiting();
    status::OK
}

/// Whether a ticket stands for anything but zeros, or for a demand. It is used up.
///
/// # Safety
/// As for [`brolga_join_bytes`].
pub(crate) unsafe extern "C" fn brolga_any_bytes(seg: *mut Segment, ticket: u64) -> u64 {
    // SAFETY: our contract.
    u64::from(unsafe { brolga_no_bytes(seg, ticket) } != status::OK)
}
