//! Tickets as numbers, and numbers as tickets.
//!
//! **Question.** Which float is it that the parts of a ticket add up to? **Answer.** The sum of the
//! floats of which it has all bytes, at their places; a part of a float is no number, and the run
//! is lost. Where doubles may lie across two windows, [`super::across`] takes its parts first.
//!
//! **Cost.** Quadratic in the parts of a ticket.

use super::{DEMAND, HALF, Mask, Pieces, TicketPart, WINDOW, low, nonzero, within, without_signs_of_zero};

impl Pieces {
    /// A ticket for `n` bytes, which are a number of `of` bytes, if that is known.
    pub(crate) fn of_number(&mut self, bytes: [u8; WINDOW], n: usize, of: usize) -> u64 {
        let bytes = without_signs_of_zero(bytes);
        if bytes == [0; WINDOW] {
            return 0;
        }
        let (record, all) = (self.note(bytes, 0), within(0, 0, n as isize));
        let r = &mut self.records[record as usize];
        (r.left, r.under_way, r.of) = (0, all.count_ones(), of);
        self.ticket(vec![TicketPart { record, bytes: all, at: 0 }])
    }

    /// Whether some bytes of a record, which are zeros, may end in a float of `of` bytes: what else
    /// is of the same float must be zero, too, since it went elsewhere. Where doubles may lie
    /// across, the rest may be of another one; but a number must not be stored over it.
    pub(crate) fn ends(&mut self, record: u32, zeros: Mask, of: usize) -> bool {
        let half = |mask: Mask| if zeros & mask != 0 { mask } else { 0 };
        let float = if of == WINDOW && !self.across { 0xff } else { half(0xf) | half(0xf0) };
        let r = &mut self.records[record as usize];
        r.ended |= of == WINDOW;
        nonzero(&r.bytes) & (float | if r.ended { r.cut } else { 0 }) == 0
    }

    /// The sum of the numbers of `n` bytes that some parts are: of each record all bytes of one
    /// number, in order, or none that is not zero.
    pub(crate) fn sum(&mut self, parts: &[TicketPart], n: usize) -> f64 {
        let mut sum = 0.0;
        for (i, first) in parts.iter().enumerate() {
            let of_it = |part: &&TicketPart| part.record == first.record && self.any(part.record, part.bytes);
            if parts[..i].iter().any(|part| part.record == first.record) {
                continue;
            }
            let Some(at) = parts.iter().find(of_it).map(|part| part.at) else {
                let zeros = parts.iter().filter(|part| part.record == first.record).fold(0, |m, part| m | part.bytes);
                self.lost |= !self.ends(first.record, zeros, n);
                continue;
            };
            let known = self.records[first.record as usize].of;
            let (mut have, mut torn) = (0, known != 0 && known != n);
            // Whatever is not at the same place is to be nothing.
            for part in parts.iter().filter(|part| part.record == first.record) {
                if part.at == at {
                    torn |= have & part.bytes != 0;
                    have |= part.bytes;
                } else {
                    torn |= self.any(part.record, part.bytes);
                }
            }
            let all = within(at, 0, n as isize);
            let is_complete = self.records[first.record as usize].is_complete(have, all);
            torn |= at % n as isize != 0 || all.count_ones() as usize != n || !is_complete;
            self.lost |= torn || self.any(first.record, have & !all);
            let mut number = [0; WINDOW];
            for i in (0..WINDOW).filter(|i| all & 1 << i != 0) {
                number[(i as isize + at) as usize] = self.records[first.record as usize].bytes[i];
            }
            sum += if n == 4 { f32::from_le_bytes(*low(&number)).into() } else { f64::from_le_bytes(number) };
        }
        sum
    }

    /// What a demand is as a number: an integer that may be a float was moved as one.
    fn no_number(&mut self) -> f64 {
        self.poisoned = true;
        f64::from_bits(u64::MAX)
    }

    /// The number of `n` bytes that a ticket stands for.
    pub(crate) fn number(&mut self, ticket: u64, n: usize) -> f64 {
        let parts = self.redeem(ticket);
        if ticket == DEMAND || self.are_demanded(&parts, 0, n as isize) {
            parts.iter().for_each(|part| self.done(part.record, part.bytes));
            return self.no_number();
        }
        let (across, left) = if n == WINDOW { self.sum_across(&parts) } else { (0.0, parts.clone()) };
        let sum = across + self.sum(&left, n);
        parts.iter().for_each(|part| self.done(part.record, part.bytes));
        sum
    }

    /// The two numbers of four bytes each that a ticket stands for.
    pub(crate) fn numbers(&mut self, ticket: u64) -> [f64; 2] {
        if ticket == DEMAND {
            return [self.no_number(); 2];
        }
        let parts = self.redeem(ticket);
        let asked = [0, 4].map(|from| self.are_demanded(&parts, from, 4));
        let half = |k: isize| {
            let within = |part: &TicketPart| TicketPart {
                bytes: part.bytes & within(part.at, 4 * k, 4 * k + 4),
                at: part.at - 4 * k,
                ..*part
            };
            parts.iter().map(within).filter(|part| part.bytes != 0).collect::<Vec<_>>()
        };
        let found = [0, 1].map(|k| match asked[k] {
            true => self.no_number(),
            false => self.sum(&half(k as isize), HALF),
        });
        let outside = |part: &TicketPart| self.any(part.record, part.bytes & !within(part.at, 0, WINDOW as isize));
        self.lost |= parts.iter().any(outside);
        parts.iter().for_each(|part| self.done(part.record, part.bytes));
        found
    }
}
