//! From a base and a value to hunks.
//!
//! Most updates overwrite fields: both values are compared at the same places, 32 bytes at a time. Where a field
//! changed its length, the places are found again by trying shifts in the order of their size. Work is bounded by
//! a budget of compared bytes: what is left when it is spent is one hunk. Output is bounded by the caller, who sends the
//! whole value where it would be more.

use alloc::vec::Vec;
use tieline_core::varint;

/// Equal bytes that are not worth a hunk of their own: they would cost as much.
const GAP: usize = 4;
/// Bytes after a difference among which the places are looked for.
const WINDOW: usize = 96;
/// The largest shift tried.
const SHIFT_MAX: usize = 64;
/// Equal bytes that make a place believable.
const MATCH_MIN: usize = 6;
/// Equal bytes after which no better place is looked for.
const MATCH_SURE: usize = 24;
/// Bytes compared for each byte of the longer value.
const BUDGET: usize = 8;
/// A value that is shorter has the budget of one of so many bytes.
const SHORT: usize = 1024;
/// What a shift costs of that, besides the bytes compared.
const SHIFT_COST: usize = 8;

pub(super) fn diff(base: &[u8], value: &[u8], delta_bytes_max: usize, out: &mut Vec<u8>) -> bool {
    let start = out.len();
    if base.len() == value.len() {
        // A field that moved makes everything after it differ: then the places are looked for.
        let quarter = delta_bytes_max.min(base.len() / 4 + 16);
        if same_places(base, value, start + quarter, out) {
            return true;
        }
        out.truncate(start);
    }
    let budget = BUDGET * base.len().max(value.len()).max(SHORT);
    let mut work = Work { base, value, copied: 0, budget, end: start + delta_bytes_max };
    work.run(out).is_some()
}

/// Hunks of two strings of one length, place by place.
fn same_places(base: &[u8], value: &[u8], end: usize, out: &mut Vec<u8>) -> bool {
    let (mut base, mut value) = (base, value);
    loop {
        let copy = common_prefix(base, value);
        (base, value) = (after(base, copy), after(value, copy));
        if value.is_empty() {
            return true;
        }
        let run = different(base, value);
        let (ins, rest) = value.split_at_checked(run).unwrap_or((value, &[]));
        (base, value) = (after(base, run), rest);
        put_hunk(out, copy, run, ins);
        if out.len() > end {
            return false;
        }
    }
}

/// Bytes until `GAP` equal ones, or the end; at least one.
fn different(base: &[u8], value: &[u8]) -> usize {
    let (mut run, mut equal) = (0, 0);
    for (at, (a, b)) in base.iter().zip(value).enumerate() {
        if a == b {
            equal += 1;
            if equal == GAP {
                return run;
            }
        } else {
            equal = 0;
            run = at + 1;
        }
    }
    run
}

struct Work<'a> {
    base: &'a [u8],
    value: &'a [u8],
    copied: usize,
    budget: usize,
    end: usize,
}

impl Work<'_> {
    /// None when it is more than it may be.
    fn run(&mut self, out: &mut Vec<u8>) -> Option<()> {
        let tail = common_suffix(self.base, self.value);
        self.base = self.base.get(..self.base.len() - tail)?;
        self.value = self.value.get(..self.value.len() - tail)?;
        loop {
            self.copied += self.equal();
            if self.base.is_empty() && self.value.is_empty() {
                return Some(());
            }
            let (del, ins) = self.next_place();
            let (hunk, rest) = self.value.split_at_checked(ins)?;
            if hunk.len() <= self.end {
                put_hunk(out, self.copied, del, hunk);
            }
            if hunk.len().max(out.len()) > self.end {
                return None;
            }
            self.copied = 0;
            (self.base, self.value) = (after(self.base, del), rest);
        }
    }

    /// Steps over what is equal at the present place.
    fn equal(&mut self) -> usize {
        let count = common_prefix(self.base, self.value);
        (self.base, self.value) = (after(self.base, count), after(self.value, count));
        count
    }

    /// Where both go on together: bytes of the base to leave out, bytes of the value to insert.
    fn next_place(&mut self) -> (usize, usize) {
        let all = (self.base.len(), self.value.len());
        if self.budget < SHIFT_COST {
            return all;
        }
        let (del_max, ins_max) = (all.0.min(WINDOW), all.1.min(WINDOW));
        // Where that is all that is left, the equal bytes behind it are certain.
        let least = if all == (del_max, ins_max) { MATCH_MIN } else { 0 };
        let mut best = (least, (del_max, ins_max));
        for shift in 0..=SHIFT_MAX.min(del_max.max(ins_max)) {
            for (del, ins) in [(0, shift), (shift, 0)] {
                let Some((skip, length)) = self.along(after(self.base, del), after(self.value, ins)) else { continue };
                let (del, ins) = (del + skip, ins + skip);
                let score = (length + WINDOW + SHIFT_MAX).saturating_sub(ins + usize::from(shift > 0));
                if score > best.0 {
                    best = (score, (del, ins));
                }
                if length >= MATCH_SURE {
                    return best.1;
                }
                if shift == 0 {
                    break;
                }
            }
            match self.budget.checked_sub(SHIFT_COST) {
                Some(budget) => self.budget = budget,
                None if best.0 > least => return best.1,
                None => return all,
            }
        }
        best.1
    }

    /// The first run of equal bytes with both at fixed places: bytes before it, and its length up to `MATCH_SURE`.
    fn along(&mut self, base: &[u8], value: &[u8]) -> Option<(usize, usize)> {
        let (mut looked, mut equal) = (0, 0);
        for (a, b) in base.iter().zip(value).take(WINDOW + MATCH_SURE) {
            if a == b {
                looked += 1;
                equal += 1;
                if equal == MATCH_SURE {
                    break;
                }
            } else if equal >= MATCH_MIN || looked >= WINDOW {
                break;
            } else {
                looked += 1;
                equal = 0;
            }
        }
        self.budget = self.budget.saturating_sub(looked);
        (equal >= MATCH_MIN).then_some((looked - equal, equal))
    }
}

fn put_hunk(out: &mut Vec<u8>, copy: usize, del: usize, ins: &[u8]) {
    let copy = u64::try_from(copy).unwrap_or(u64::MAX >> 1);
    varint::put(out, copy << 1 | u64::from(del != ins.len()));
    varint::put_len(out, ins.len());
    if del != ins.len() {
        varint::put_len(out, del);
    }
    out.extend_from_slice(ins);
}

fn after(bytes: &[u8], count: usize) -> &[u8] {
    bytes.get(count..).unwrap_or_default()
}

/// Equal bytes from the start.
fn common_prefix(a: &[u8], b: &[u8]) -> usize {
    let wide = a.as_chunks::<32>().0.iter().zip(b.as_chunks::<32>().0).take_while(|(a, b)| a == b).count() * 32;
    let (a, b) = (after(a, wide), after(b, wide));
    let mut count = wide;
    for (a, b) in a.as_chunks::<8>().0.iter().zip(b.as_chunks::<8>().0) {
        let differ = u64::from_le_bytes(*a) ^ u64::from_le_bytes(*b);
        if differ != 0 {
            return count + (differ.trailing_zeros() / 8) as usize;
        }
        count += 8;
    }
    let (a, b) = (after(a, count - wide), after(b, count - wide));
    count + a.iter().zip(b).take_while(|(a, b)| a == b).count()
}

/// Equal bytes from the end.
fn common_suffix(a: &[u8], b: &[u8]) -> usize {
    let wide = a.as_rchunks::<8>().1.iter().rev().zip(b.as_rchunks::<8>().1.iter().rev());
    let count = wide.take_while(|(a, b)| a == b).count() * 8;
    let rest = |bytes: &[u8]| bytes.len() - count;
    let (a, b) = (a.get(..rest(a)).unwrap_or_default(), b.get(..rest(b)).unwrap_or_default());
    count + a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count()
}
