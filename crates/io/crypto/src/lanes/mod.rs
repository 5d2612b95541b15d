//! RSA-2048 private operations, eight halves at a time.
//!
//! An operation c^d mod n with n = p q is two exponentiations of half the length, mod p and mod q (Chinese remainder
//! theorem, RFC 8017 clause 5.1.2). Each is a lane, with its own modulus, base and exponent: four messages, of four
//! keys if need be, fill the eight lanes of a 512-bit register.
//!
//! ```text
//!  lane      0     1     2     3     4     5     6     7
//!  message   a     a     b     b     c     c     d     d
//!  prime     p_a   q_a   p_b   q_b   p_c   q_c   p_d   q_d
//! ```
//!
//! What an observer of time, of addresses and of branches sees is the same for all keys and messages: windows of fixed
//! length, tables read whole for every choice, no subtraction that depends on a number. Each result c' is checked,
//! c'^e = c mod n, before anyone sees it: a fault in one half would give away p (Boneh, DeMillo, Lipton 1997). All that
//! a key or a message could be told from is wiped after each pass.
//!
//! Read first: `kernel.rs`, then `private.rs`.

mod digits;
mod kernel;
mod private;
mod public;
#[cfg(target_arch = "x86_64")]
mod sys;
#[cfg(test)]
mod tests;
mod vector;

#[cfg(not(target_arch = "x86_64"))]
pub(crate) use Portable as Ifma;
pub(crate) use digits::is_below;
pub(crate) use private::{LaneKey, Parts, Pass};
pub(crate) use public::{LaneModulus, PublicPass};
#[cfg(target_arch = "x86_64")]
pub(crate) use sys::Ifma;

pub(crate) use kernel::{Moduli, PRIME_DIGITS};
use vector::Plain;
pub(crate) use vector::{Row, Wide};

/// Messages in one private pass: two lanes each.
pub(crate) const MESSAGES: usize = vector::LANES / 2;
/// Messages in one public pass.
pub(crate) const PUBLIC_MESSAGES: usize = vector::LANES;

/// Who does the arithmetic.
pub(crate) trait Unit: Copy {
    /// a · b / R mod m.
    fn multiply<const N: usize>(self, out: &mut Wide<N>, a: &Wide<N>, b: &Wide<N>, moduli: &Moduli<N>);
    fn square(self, out: &mut Wide<PRIME_DIGITS>, a: &Wide<PRIME_DIGITS>, moduli: &Moduli<PRIME_DIGITS>);
    fn add<const N: usize>(self, out: &mut Wide<N>, a: &Wide<N>, b: &Wide<N>);
    fn choose<const N: usize>(self, out: &mut Wide<N>, table: &[Wide<N>], index: &Row);
}

/// The same steps without a vector unit; slow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Portable;

#[cfg(not(target_arch = "x86_64"))]
impl Portable {
    /// There is no vector unit that would be worth it.
    pub(crate) fn detect() -> Option<Self> {
        None
    }
}

impl Unit for Portable {
    fn multiply<const N: usize>(self, out: &mut Wide<N>, a: &Wide<N>, b: &Wide<N>, moduli: &Moduli<N>) {
        kernel::multiply::<Plain, N>(out, a, b, moduli);
    }

    fn square(self, out: &mut Wide<PRIME_DIGITS>, a: &Wide<PRIME_DIGITS>, moduli: &Moduli<PRIME_DIGITS>) {
        kernel::square::<Plain>(out, a, moduli);
    }

    fn add<const N: usize>(self, out: &mut Wide<N>, a: &Wide<N>, b: &Wide<N>) {
        kernel::add::<Plain, N>(out, a, b);
    }

    fn choose<const N: usize>(self, out: &mut Wide<N>, table: &[Wide<N>], index: &Row) {
        kernel::choose::<Plain, N>(out, table, index);
    }
}

#[cfg(target_arch = "x86_64")]
impl Unit for Ifma {
    fn multiply<const N: usize>(self, out: &mut Wide<N>, a: &Wide<N>, b: &Wide<N>, moduli: &Moduli<N>) {
        Self::multiply(self, out, a, b, moduli);
    }

    fn square(self, out: &mut Wide<PRIME_DIGITS>, a: &Wide<PRIME_DIGITS>, moduli: &Moduli<PRIME_DIGITS>) {
        Self::square(self, out, a, moduli);
    }

    fn add<const N: usize>(self, out: &mut Wide<N>, a: &Wide<N>, b: &Wide<N>) {
        Self::add(self, out, a, b);
    }

    fn choose<const N: usize>(self, out: &mut Wide<N>, table: &[Wide<N>], index: &Row) {
        Self::choose(self, out, table, index);
    }
}

/// Puts the digits of one number into one lane.
fn put<const N: usize>(wide: &mut Wide<N>, lane: usize, digits: &[u64; N]) {
    for (row, digit) in wide.iter_mut().zip(digits) {
        row.0[lane] = *digit;
    }
}

/// The digits of the number in one lane.
fn take<const N: usize>(wide: &Wide<N>, lane: usize) -> [u64; N] {
    wide.map(|row| row.0[lane])
}
