//! Tests of pieces of floats: random moves of bytes against a model that knows where each byte came
//! from, and cases of numbers, digits, records and what is kept.

use proptest::prelude::*;

use super::*;
use crate::calls::pieces::*;
use crate::segment::Segment;
use crate::status;

const WINDOWS: usize = 5;

/// A load of some bytes and a store of them elsewhere.
#[derive(Clone, Copy, Debug)]
struct Move {
    to: usize,
    from: usize,
    n: usize,
}

/// A copy of a window in pieces, in some order; perhaps one is missing, or comes from elsewhere.
fn copy() -> impl Strategy<Value = Vec<Move>> {
    let cut =
        prop_oneof![Just(vec![8]), Just(vec![4, 4]), Just(vec![2, 4, 2]), Just(vec![1; 8]), Just(vec![1, 1, 2, 4])];
    let mishap = prop_oneof![8 => Just(None), 1 => (0..8_usize, 0..WINDOWS + 1).prop_map(Some)];
    (0..WINDOWS, 0..WINDOWS, cut, mishap).prop_flat_map(|(to, from, cut, mishap)| {
        let mut at = 0;
        let mut moves = Vec::new();
        for (i, n) in cut.into_iter().enumerate() {
            let from = match mishap {
                Some((bad, instead)) if bad == i => instead,
                _ => from,
            };
            if from < WINDOWS {
                moves.push(Move { to: 8 * to + at, from: 8 * from + at, n });
            }
            at += n;
        }
        Just(moves).prop_shuffle()
    })
}

/// Two windows change places, piece by piece, by way of the last.
fn swap() -> impl Strategy<Value = Vec<Move>> {
    const LAST: usize = 8 * (WINDOWS - 1);
    (0..WINDOWS - 1, 0..WINDOWS - 1, prop_oneof![Just(1), Just(4), Just(8)]).prop_map(|(a, b, n)| {
        let piece = |at: usize| {
            let (a, b) = (8 * a + at, 8 * b + at);
            [Move { to: LAST, from: a, n }, Move { to: a, from: b, n }, Move { to: b, from: LAST, n }]
        };
        (0..8).step_by(n).flat_map(piece).collect()
    })
}

/// Where each byte comes from, after the moves.
fn origins(moves: &[Move]) -> [usize; 8 * WINDOWS] {
    let mut bytes = std::array::from_fn(|i| i);
    for m in moves {
        bytes.copy_within(m.from..m.from + m.n, m.to);
    }
    bytes
}

/// The reverse of the moves on shadows, which belong to floats of a known size or not.
fn reverse(moves: &[Move], shadow: &mut [f64; WINDOWS], of: u64, typed: u64) -> bool {
    reverse_at((0, false), moves, shadow, of, typed)
}

/// Memory around shadows, on one page.
#[repr(align(128))]
struct Around([u8; 128]);

/// The same where they begin so many bytes after a multiple of eight, in the middle of a page, and
/// where it is said that they may.
fn reverse_at(
    (first, across): (usize, bool),
    moves: &[Move],
    shadow: &mut [f64; WINDOWS],
    of: u64,
    typed: u64,
) -> bool {
    let mut seg = Segment::new(1 << 20).unwrap();
    seg.pieces.across = across;
    let seg: *mut Segment = &mut *seg;
    let mut around = Around([0; 128]);
    let place = &raw mut around.0[32 + first];
    // SAFETY: it is large enough.
    unsafe { place.copy_from(shadow.as_ptr().cast(), 8 * WINDOWS) };
    let base = place as u64;
    let mut known = true;
    // SAFETY: all places lie in the shadow; the segment lives as long as this function.
    unsafe {
        for m in moves.iter().rev() {
            let (to, from, n) = (m.to as u64, m.from as u64, m.n as u64);
            let ticket = brolga_take_bytes(seg, to, base, n, 0);
            known &= brolga_add_bytes(seg, from, base, n, of, ticket) == status::OK;
        }
        for w in 0..WINDOWS as u64 {
            known &= brolga_settle_bytes(seg, 8 * w, base, 8, typed) == status::OK;
        }
        known &= (*seg).end_pullback(&|_| WindowContents::Unknown, &|_| false).is_ok();
        shadow.as_mut_ptr().cast::<u8>().copy_from(place, 8 * WINDOWS);
        known
    }
}

proptest! {
    #[test]
    fn what_is_put_together_is_right(
        copies in prop::collection::vec(prop_oneof![3 => copy(), 1 => swap()], 1..5),
        mut cts in prop::array::uniform5(prop_oneof![Just(0.0), Just(1.0), Just(-2.5), -1.0..1.0f64]),
        hint in prop::bool::ANY,
        place in prop_oneof![Just((0_usize, false)), Just((0, true)), Just((4, true))],
    ) {
        let moves: Vec<Move> = copies.concat();
        let from = origins(&moves);
        let mut wanted = [0.0; WINDOWS];
        let mut complete = true;
        for (w, ct) in cts.iter().enumerate() {
            // Of a double across windows a lower half of zeros may come from elsewhere: those are
            // digits that were cut off.
            let cut = if place.0 == 4 && ct.to_bits() as u32 == 0 { 4 } else { 0 };
            let begins = from[8 * w + cut].wrapping_sub(cut);
            if begins.is_multiple_of(8) && (cut..8).all(|i| from[8 * w + i] == begins + i) {
                wanted[begins / 8] += ct;
            } else {
                complete &= *ct == 0.0;
            }
        }
        let asked = cts;
        let known = reverse_at(place, &moves, &mut cts, if hint && !place.1 { 8 } else { 0 }, 8);
        // What is not whole may have moved nothing but zeros.
        prop_assert!(!complete || known, "{asked:?} by {moves:?}");
        if known {
            let near = cts.iter().zip(&wanted).all(|(x, y)| (x - y).abs() < 1e-12);
            prop_assert!(complete && near, "{cts:?}, not {wanted:?}");
        }
    }

    #[test]
    fn singles_come_from_either_half(
        copies in prop::collection::vec((0..2 * WINDOWS, 0..2 * WINDOWS, prop::bool::ANY), 1..8),
        cts in prop::array::uniform10(prop_oneof![Just(0.0), Just(1.0), -1.0..1.0f32]),
        hint in prop::bool::ANY,
        across in prop::bool::ANY,
    ) {
        let piece = |&(to, from, bytes): &(usize, usize, bool)| match bytes {
            true => (0..4).map(|i| Move { to: 4 * to + i, from: 4 * from + i, n: 1 }).collect(),
            false => vec![Move { to: 4 * to, from: 4 * from, n: 4 }],
        };
        let moves: Vec<Move> = copies.iter().flat_map(piece).collect();
        let from = origins(&moves);
        let mut wanted = [0.0; 2 * WINDOWS];
        cts.iter().enumerate().for_each(|(i, ct)| wanted[from[4 * i] / 4] += ct);
        let bits = |pair: &[f32]| u64::from(pair[0].to_bits()) | u64::from(pair[1].to_bits()) << 32;
        let mut shadow: [f64; WINDOWS] = std::array::from_fn(|w| f64::from_bits(bits(&cts[2 * w..])));
        let of = if hint { 4 } else { 0 };
        prop_assert!(reverse_at((0, across), &moves, &mut shadow, of, 4));
        for (i, want) in wanted.iter().enumerate() {
            let got = f32::from_bits((shadow[i / 2].to_bits() >> (32 * (i % 2))) as u32);
            prop_assert!((got - want).abs() < 1e-5, "{got}, not {want}, at {i} of {shadow:?}");
        }
    }
}

#[test]
fn numbers_are_tickets_and_tickets_numbers() {
    let mut seg = Segment::new(1 << 20).unwrap();
    let seg: *mut Segment = &mut *seg;
    // SAFETY: the segment lives.
    unsafe {
        for x in [1.0, -0.1, 0.0, f64::MIN_POSITIVE] {
            let ticket = brolga_bytes_of_double(seg, x);
            let high = brolga_part_of_bytes(seg, ticket, 0xf0, 0);
            let both = brolga_join_bytes(seg, ticket, high);
            assert_eq!(brolga_double_of_bytes(seg, both), x);
        }
        let ticket = brolga_bytes_of_single(seg, 2.5);
        assert_eq!(brolga_single_of_bytes(seg, ticket), 2.5);
        assert!((*seg).end_pullback(&|_| WindowContents::Unknown, &|_| false).is_ok());
        // Two singles in a word, and what has gone to two places.
        let pair = u64::from(2.5_f32.to_bits()) | u64::from((-0.5_f32).to_bits()) << 32;
        let ticket = brolga_bytes_of_word(seg, f64::from_bits(pair));
        let other = brolga_bytes_of_single(seg, 1.0);
        let high = brolga_part_of_bytes(seg, other, 0xf, 4);
        let (both, three) = (brolga_join_bytes(seg, ticket, high), brolga_bytes_of_double(seg, 3.0));
        assert_eq!(
            brolga_singles_of_bytes(seg, both),
            u64::from(2.5_f32.to_bits()) | u64::from(0.5_f32.to_bits()) << 32
        );
        let four = brolga_bytes_of_double(seg, 4.0);
        let both = brolga_join_bytes(seg, three, four);
        assert_eq!(brolga_double_of_bytes(seg, both), 7.0);
        assert!((*seg).end_pullback(&|_| WindowContents::Unknown, &|_| false).is_ok());
        // Halves of two are no number.
        let (x, y) = (brolga_bytes_of_double(seg, 0.1), brolga_bytes_of_double(seg, 0.3));
        let (x, y) = (brolga_part_of_bytes(seg, x, 0xf, 0), brolga_part_of_bytes(seg, y, 0xf0, 0));
        let both = brolga_join_bytes(seg, x, y);
        brolga_double_of_bytes(seg, both);
        assert!((*seg).end_pullback(&|_| WindowContents::Unknown, &|_| false).is_err());
        // A half is no number, and says so at the end.
        let ticket = brolga_bytes_of_double(seg, 0.1);
        let _ = brolga_part_of_bytes(seg, ticket, 0xf, 0);
        brolga_double_of_bytes(seg, ticket);
        assert!((*seg).end_pullback(&|_| WindowContents::Unknown, &|_| false).is_err());
        assert!((*seg).end_pullback(&|_| WindowContents::Unknown, &|_| false).is_ok());
        // What is one double for certain is no two singles, and a single no half of a double.
        let ticket = brolga_bytes_of_double(seg, 0.1);
        brolga_singles_of_bytes(seg, ticket);
        assert!((*seg).end_pullback(&|_| WindowContents::Unknown, &|_| false).is_err());
        // The shadow lies eight bytes after the place, and nothing is added there.
        let mut place = [0_u64; 2];
        let at = place.as_mut_ptr() as u64;
        let ticket = brolga_bytes_of_double(seg, 0.1);
        assert_eq!(brolga_add_bytes(seg, at, 8, 8, 4, ticket), status::OK);
        assert_eq!(place, [0, 0]);
        assert!((*seg).end_pullback(&|_| WindowContents::Unknown, &|_| false).is_err());
        // Zeros may stay behind.
        let ticket = brolga_bytes_of_double(seg, 1.0);
        let high = brolga_part_of_bytes(seg, ticket, 0xc0, -6);
        assert_eq!((brolga_no_bytes(seg, ticket), brolga_no_bytes(seg, high)), (status::OK, status::UNTRACKED));
    }
}

/// Last digits that a number replaces are none of the float's: the others are the whole.
#[test]
fn digits_that_are_given_up_are_not_missed() {
    let mut seg = Segment::new(1 << 20).unwrap();
    let seg: *mut Segment = &mut *seg;
    // SAFETY: the segment lives.
    unsafe {
        let ends = |known: WindowContents| (*seg).end_pullback(&|_| known, &|_| true).is_ok();
        for (x, numbers, rough, is_complete) in [
            (0.1, 0xf_u64, 0_u64, true),
            (0.1, 0x7, 0x8, true),
            (0.1, 0, 0x1, true),
            // Not in the lower half, or not the last.
            (0.1, 0x1f, 0, false),
            (0.1, 0xf0, 0, false),
            (0.1, 0x7, 0x10, false),
        ] {
            let ticket = brolga_bytes_of_double(seg, x);
            let ticket = brolga_drop_digits(seg, ticket, numbers, rough);
            assert!(brolga_double_of_bytes(seg, ticket) == x || !is_complete);
            assert_eq!(ends(WindowContents::Unknown), is_complete, "{x} {numbers:x} {rough:x}");
        }
        // The upper half of a single, and two singles of which one is a number.
        let ticket = brolga_bytes_of_single(seg, 0.3);
        let ticket = brolga_drop_digits(seg, ticket, 3, 0);
        assert_eq!(brolga_single_of_bytes(seg, ticket), 0.3);
        let pair = u64::from(2.5_f32.to_bits()) | u64::from(0.7_f32.to_bits()) << 32;
        let ticket = brolga_bytes_of_word(seg, f64::from_bits(pair));
        let ticket = brolga_drop_digits(seg, ticket, 0xf, 0);
        assert_eq!(brolga_singles_of_bytes(seg, ticket), u64::from(0.7_f32.to_bits()) << 32);
        assert!(ends(WindowContents::Unknown));
        // Added where nothing says what is there, they wait for an access that does.
        for (known, wanted) in [
            (WindowContents::Unknown, None),
            (WindowContents::Floats(8), Some(pair)),
            (WindowContents::Floats(4), Some(pair >> 32 << 32)),
        ] {
            let mut place = [0_u64; 2];
            let at = place.as_mut_ptr() as u64;
            let ticket = brolga_bytes_of_word(seg, f64::from_bits(pair));
            let ticket = brolga_drop_digits(seg, ticket, 0xf, 0);
            assert_eq!(brolga_add_bytes(seg, at - 8, 8, 8, 0, ticket), status::OK);
            assert_eq!(place, [0, 0]);
            assert_eq!(ends(known), wanted.is_some());
            assert_eq!(place[0], wanted.unwrap_or(0));
        }
    }
}

#[test]
fn nothing_is_kept_longer_than_it_is_under_way() {
    let mut seg = Segment::new(1 << 20).unwrap();
    let seg: *mut Segment = &mut *seg;
    let mut shadow = [0.0f64; 2];
    let base = shadow.as_mut_ptr() as u64;
    // SAFETY: the segment and the shadow live.
    unsafe {
        for iteration in 0..1000 {
            shadow[0] += 0.1;
            for at in (0..8).rev() {
                let ticket = brolga_take_bytes(seg, at, base, 1, 0);
                assert_eq!(brolga_add_bytes(seg, 8 + at, base, 1, 8, ticket), status::OK);
            }
            // A half of a word by way of a register.
            let ticket = brolga_take_bytes(seg, 8, base, 8, 0);
            let low = brolga_part_of_bytes(seg, ticket, 0xf, 0);
            let both = brolga_join_bytes(seg, low, ticket);
            shadow[1] += brolga_double_of_bytes(seg, both);
            assert!((*seg).pieces.records.len() < 8 && (*seg).pieces.tickets.len() < 8, "iteration {iteration}");
        }
        assert_eq!((*seg).waiting, 0);
        assert!((*seg).end_pullback(&|_| WindowContents::Unknown, &|_| false).is_ok());
    }
    assert!((shadow[1] - 100.0).abs() < 1e-9 && shadow[0] == 0.0, "{shadow:?}");
}

/// Where the last byte that is left of a number is the sign of what might be a single, it is a byte
/// of the number.
#[test]
fn the_last_byte_may_be_a_sign() {
    for (last, bytes) in [(3, 0x3fe9_47d0_8012_3456_u64), (7, 0x8001_0203_0405_0607)] {
        let mut shadow = [0.0, f64::from_bits(bytes), 0.0];
        let order = (0..8).filter(|&i| i != last).chain([last]).map(|i| Move { to: 8 + i, from: i, n: 1 });
        let moves: Vec<Move> = order.rev().collect();
        let mut all = [0.0; WINDOWS];
        all[..3].copy_from_slice(&shadow);
        assert!(reverse(&moves, &mut all, 0, 8), "{bytes:x}");
        shadow.swap(0, 1);
        assert_eq!(all[..3], shadow, "{bytes:x}");
    }
}

/// Two pages.
#[repr(align(4096))]
struct Pages([u8; 8192]);

/// Records of a word and three doubles, without a gap, exchanged by words of eight and four bytes
/// by way of the last, in the order in which compilers copy.
#[test]
fn packed_records_by_words() {
    const RECORD: usize = 28;
    let sets: [&[(usize, usize)]; 4] = [
        &[(0, 8), (8, 8), (16, 8), (24, 4)],
        &[(24, 4), (16, 8), (8, 8), (0, 8)],
        &[(0, 4), (4, 8), (12, 8), (20, 8)],
        &[(0, 4), (4, 4), (8, 4), (12, 4), (16, 4), (20, 4), (24, 4)],
    ];
    // On one page, and on two.
    for (parts, first) in sets.iter().flat_map(|&parts| [(parts, 8), (parts, 4060)]) {
        for cts in [[1.0, 0.5, -2.0], [0.1, -0.7, 1.3], [0.0, 0.3, 1.0], [1.0, 0.0, 0.0]] {
            let mut seg = Segment::new(1 << 20).unwrap();
            seg.doubles_may_lie_across();
            let seg: *mut Segment = &mut *seg;
            let mut pages = Box::new(Pages([0; 8192]));
            let base = &raw mut pages.0[first] as u64;
            let double = |record: usize, k: usize| (RECORD * record + 4 + 8 * k) as u64;
            let copy =
                |to: usize, from: usize| parts.iter().map(move |&(at, n)| (RECORD * to + at, RECORD * from + at, n));
            // t = a; a = b; b = t; and then a is read twice, and t again.
            let moves: Vec<_> = copy(2, 0).chain(copy(0, 1)).chain(copy(1, 2)).collect();
            // SAFETY: all places lie in the array; the segment lives.
            unsafe {
                for record in 0..3 {
                    for (k, ct) in cts.iter().enumerate() {
                        ((base + double(record, k)) as *mut f64).write_unaligned(ct * (record + 1) as f64);
                    }
                }
                for (to, from, n) in moves.into_iter().rev() {
                    let ticket = brolga_take_bytes(seg, to as u64, base, n as u64, 0);
                    assert_eq!(brolga_add_bytes(seg, from as u64, base, n as u64, 0, ticket), status::OK);
                }
                for at in (0..3).flat_map(|record| (0..3).map(move |k| double(record, k))) {
                    assert_eq!(brolga_settle_bytes(seg, at, base, 8, 8), status::OK);
                }
                assert!((*seg).end_pullback(&|_| WindowContents::Unknown, &|_| false).is_ok(), "{parts:?}, {cts:?}");
                for (k, ct) in cts.iter().enumerate() {
                    let there = |record| ((base + double(record, k)) as *const f64).read_unaligned();
                    // b was t, which was a; a was b.
                    let close = |x: f64, y: f64| assert!((x - y).abs() < 1e-12, "{parts:?}, {cts:?}: {x}, not {y}");
                    close(there(0), ct * 2.0 + ct * 3.0);
                    close(there(1), ct * 1.0);
                    close(there(2), 0.0);
                }
            }
        }
    }
}
