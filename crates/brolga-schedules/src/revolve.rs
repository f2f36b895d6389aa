//! Revolve: the fewest steps for a known number of them.
//!
//! **Question.** A loop has l units and there are slots for c states, the initial one among them.
//! Where are states to be kept, so that the reverse half runs as few units again as possible?
//!
//! **Answer.** If no unit may run more than r times, `β(c, r) = C(c + r, c)` units are in reach.
//! With the least r such that `β(c, r) ≥ l`, the fewest units run without a tape are `t(l, c) = r·l
//! − β(c + 1, r − 1)`, which solves `t(l, c) = min over k of k + t(l − k, c − 1) + t(k, c)`.
//! [`split`] is a k of the least, the one that stores least often.
//!
//! **Before and after.** `revolve(10, 3)` keeps 0, 4 and 7, tapes unit 9 at once, and runs 15 units
//! without a tape; with one slot it would be 45.
//!
//! **Cost.** A split takes r multiplications.
//!
//! **Source.** A. Griewank, A. Walther: Algorithm 799: Revolve. ACM Transactions on Mathematical
//! Software 26 (2000).

/// `β(s, t) = C(s + t, s)`, or as much as fits.
pub fn reach(slots: u64, repetitions: u64) -> u128 {
    let (few, many) = (slots.min(repetitions), slots.max(repetitions));
    let mut product: u128 = 1;
    for i in 1..=u128::from(few) {
        let Some(next) = product.checked_mul(u128::from(many) + i) else { return u128::MAX };
        // The product of i consecutive numbers is a multiple of i!.
        product = next / i;
    }
    product
}

/// How often a unit runs without a tape at most: the least r such that `β(c, r) ≥ l`.
pub fn repetitions(units: u64, slots: u64) -> u64 {
    if slots == 1 {
        return units.saturating_sub(1);
    }
    let reaches = |r: &u64| reach(slots, *r) >= u128::from(units);
    // It doubles at least, and is between the last two.
    let above = std::iter::successors(Some(1_u64), |r| Some(r * 2)).find(reaches).unwrap_or(u64::MAX);
    let (mut low, mut high) = (0, above);
    while low < high {
        let middle = low.midpoint(high);
        (low, high) = if reaches(&middle) { (low, middle) } else { (middle + 1, high) };
    }
    low
}

/// `t(l, c)`: how many units run without a tape, if the last of them is taped by the first sweep.
pub fn untaped(units: u64, slots: u64) -> u128 {
    // No more are of use.
    let slots = slots.min(units);
    let r = repetitions(units, slots);
    if r == 0 { 0 } else { u128::from(r) * u128::from(units) - reach(slots + 1, r - 1) }
}

/// Where the next state is kept, if that of unit `at` is, all below `end` are to be reversed, and
/// `free` slots are left: after `at`, before `end`.
pub(crate) fn split(at: u64, end: u64, free: u64) -> u64 {
    if free == 0 {
        return end - 1;
    }
    // That of `at` is one of them.
    let (len, av) = (u128::from(end - at), u128::from(free.min(end - at)) + 1);
    let (mut r, mut range) = (0_u128, 1_u128);
    while range < len {
        r += 1;
        range = range * (r + av) / r;
    }
    let b1 = range * r / (av + r);
    let b2 = if av > 1 { b1 * av / (av + r - 1) } else { 1 };
    let b3 = match av {
        1 => 0,
        2 => 1,
        _ => b2 * (av - 1) / (av + r - 2),
    };
    let b4 = b2 * (r - 1) / av;
    let b5 = match av {
        1 | 2 => 0,
        3 => 1,
        _ => b3 * (av - 1) / r,
    };
    let distance = if len <= b1 + b3 {
        b4
    } else if len >= range - b5 {
        b1
    } else {
        len - b2 - b3
    };
    // Less than `len`, so it fits.
    at + (distance as u64).max(1)
}
