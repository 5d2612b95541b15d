//! Coils and discrete inputs, eight in a byte, the lowest address in the lowest bit (Application Protocol 6.1).

use alloc::boxed::Box;
use alloc::vec::Vec;

/// States in a row. Bits beyond the last are zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bits {
    bytes: Box<[u8]>,
    count: u16,
}

impl Bits {
    /// The first `count` of packed bytes; fewer where there are fewer bytes.
    #[must_use]
    pub fn from_packed(bytes: &[u8], count: u16) -> Self {
        let room = u16::try_from(bytes.len().saturating_mul(8)).unwrap_or(u16::MAX);
        let count = count.min(room);
        let mut bytes: Box<[u8]> = bytes.iter().take(usize::from(count.div_ceil(8))).copied().collect();
        if let (Some(last), 1..) = (bytes.last_mut(), count % 8) {
            *last &= (1 << (count % 8)) - 1;
        }
        Self { bytes, count }
    }

    /// How many there are.
    #[must_use]
    pub const fn count(&self) -> u16 {
        self.count
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// As they are on the wire.
    #[must_use]
    pub const fn packed(&self) -> &[u8] {
        &self.bytes
    }

    /// The state at a place from 0; none beyond the last.
    #[must_use]
    pub fn bit(&self, at: u16) -> Option<bool> {
        let byte = self.bytes.get(usize::from(at / 8))?;
        (at < self.count).then_some(byte >> (at % 8) & 1 == 1)
    }

    /// All states in order.
    pub fn iter(&self) -> impl Iterator<Item = bool> + '_ {
        (0..self.count).filter_map(|at| self.bit(at))
    }
}

impl FromIterator<bool> for Bits {
    /// At most 65,535; the rest is left out.
    fn from_iter<T: IntoIterator<Item = bool>>(states: T) -> Self {
        let (mut bytes, mut count) = (Vec::new(), 0_u16);
        for state in states.into_iter().take(usize::from(u16::MAX)) {
            if count % 8 == 0 {
                bytes.push(0);
            }
            if let Some(last) = bytes.last_mut() {
                *last |= u8::from(state) << (count % 8);
            }
            count += 1;
        }
        Self { bytes: bytes.into(), count }
    }
}
