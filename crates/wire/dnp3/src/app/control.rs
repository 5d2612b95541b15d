//! The application control byte (IEEE 1815 4.2.2.4).

/// A sequence number of fragments, 0..=15.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Sequence(u8);

impl Sequence {
    /// From the low four bits.
    #[must_use]
    pub const fn new(number: u8) -> Self {
        Self(number & 0x0F)
    }

    /// The number, 0..=15.
    #[must_use]
    pub const fn number(self) -> u8 {
        self.0
    }

    /// The one that follows; 0 after 15.
    #[must_use]
    pub const fn next(self) -> Self {
        Self::new(self.0 + 1)
    }
}

/// The first byte of every fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AppControl {
    /// The first fragment of its message.
    pub fir: bool,
    /// The last fragment of its message.
    pub fin: bool,
    /// An application confirmation is asked for.
    pub con: bool,
    /// Unsolicited response, or the confirmation of one.
    pub uns: bool,
    /// The number of the fragment.
    pub sequence: Sequence,
}

impl AppControl {
    /// A message of one fragment that asks for no confirmation: every request, most responses.
    #[must_use]
    pub const fn single(sequence: Sequence) -> Self {
        Self { fir: true, fin: true, con: false, uns: false, sequence }
    }

    /// An unsolicited response, which always asks for a confirmation.
    #[must_use]
    pub const fn unsolicited(sequence: Sequence) -> Self {
        Self { fir: true, fin: true, con: true, uns: true, sequence }
    }

    /// Reads the byte: every value is one.
    #[must_use]
    pub const fn parse(byte: u8) -> Self {
        Self {
            fir: byte & 0x80 != 0,
            fin: byte & 0x40 != 0,
            con: byte & 0x20 != 0,
            uns: byte & 0x10 != 0,
            sequence: Sequence::new(byte),
        }
    }

    /// The byte.
    #[must_use]
    pub const fn emit(self) -> u8 {
        (if self.fir { 0x80 } else { 0 })
            | (if self.fin { 0x40 } else { 0 })
            | (if self.con { 0x20 } else { 0 })
            | (if self.uns { 0x10 } else { 0 })
            | self.sequence.0
    }
}
