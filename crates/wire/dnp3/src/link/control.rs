//! The control byte of a link frame (IEEE 1815 9.2.4.1.3).

/// The control byte: every value of it exists on some wire, so every value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Control(pub u8);

/// What a frame is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Function {
    /// Primary 0: set the secondary station's frame count.
    ResetLink,
    /// Primary 2: is the secondary station there, with its frame count.
    TestLink,
    /// Primary 3: user data, to be acknowledged.
    ConfirmedUserData,
    /// Primary 4: user data.
    UnconfirmedUserData,
    /// Primary 9: how is the link.
    RequestStatus,
    /// Secondary 0: positive acknowledgement.
    Ack,
    /// Secondary 1: negative acknowledgement.
    Nack,
    /// Secondary 11: the answer to a request for status.
    Status,
    /// Secondary 15: the function is not implemented.
    NotSupported,
}

impl Function {
    /// The name that the standard gives it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ResetLink => "reset-link",
            Self::TestLink => "test-link",
            Self::ConfirmedUserData => "confirmed-user-data",
            Self::UnconfirmedUserData => "unconfirmed-user-data",
            Self::RequestStatus => "request-link-status",
            Self::Ack => "ack",
            Self::Nack => "nack",
            Self::Status => "link-status",
            Self::NotSupported => "not-supported",
        }
    }

    /// Bits 0-3, and PRM.
    const fn bits(self) -> u8 {
        match self {
            Self::ResetLink => 0x40,
            Self::TestLink => 0x42,
            Self::ConfirmedUserData => 0x43,
            Self::UnconfirmedUserData => 0x44,
            Self::RequestStatus => 0x49,
            Self::Ack => 0x00,
            Self::Nack => 0x01,
            Self::Status => 0x0B,
            Self::NotSupported => 0x0F,
        }
    }

    /// Whether FCV must be set with it; None for secondary functions, where the bit is DFC.
    #[must_use]
    pub const fn counts_frames(self) -> Option<bool> {
        match self {
            Self::TestLink | Self::ConfirmedUserData => Some(true),
            Self::ResetLink | Self::UnconfirmedUserData | Self::RequestStatus => Some(false),
            Self::Ack | Self::Nack | Self::Status | Self::NotSupported => None,
        }
    }

    /// Whether frames of this function carry user data.
    #[must_use]
    pub const fn carries_user_data(self) -> bool {
        matches!(self, Self::ConfirmedUserData | Self::UnconfirmedUserData)
    }
}

impl Control {
    const DIR: u8 = 0x80;
    const PRM: u8 = 0x40;
    const FCB: u8 = 0x20;
    const FCV: u8 = 0x10;

    /// For a function, without frame count bits.
    #[must_use]
    pub const fn new(from_master: bool, function: Function) -> Self {
        Self(if from_master { Self::DIR } else { 0 } | function.bits())
    }

    /// The same with FCV set and FCB as given.
    #[must_use]
    pub const fn with_frame_count(self, fcb: bool) -> Self {
        Self(self.0 & !Self::FCB | Self::FCV | if fcb { Self::FCB } else { 0 })
    }

    /// DIR: a master sent it.
    #[must_use]
    pub const fn from_master(self) -> bool {
        self.0 & Self::DIR != 0
    }

    /// PRM: the sender starts a transaction.
    #[must_use]
    pub const fn primary(self) -> bool {
        self.0 & Self::PRM != 0
    }

    /// FCB: the frame count bit.
    #[must_use]
    pub const fn fcb(self) -> bool {
        self.0 & Self::FCB != 0
    }

    /// FCV of a primary frame: the frame count bit counts. Of a secondary frame this bit is DFC: its buffers are full.
    #[must_use]
    pub const fn fcv(self) -> bool {
        self.0 & Self::FCV != 0
    }

    /// The function code, 0-15.
    #[must_use]
    pub const fn code(self) -> u8 {
        self.0 & 0x0F
    }

    /// The function; None for a reserved or obsolete code.
    #[must_use]
    pub const fn function(self) -> Option<Function> {
        Some(match self.0 & 0x4F {
            0x40 => Function::ResetLink,
            0x42 => Function::TestLink,
            0x43 => Function::ConfirmedUserData,
            0x44 => Function::UnconfirmedUserData,
            0x49 => Function::RequestStatus,
            0x00 => Function::Ack,
            0x01 => Function::Nack,
            0x0B => Function::Status,
            0x0F => Function::NotSupported,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_function_is_found_again() {
        let found: alloc::vec::Vec<_> = (0..=u8::MAX).filter_map(|bits| Control(bits).function()).collect();
        assert_eq!(found.len(), 9 * 8);
        for function in found {
            for from_master in [false, true] {
                let control = Control::new(from_master, function);
                assert_eq!((control.function(), control.from_master()), (Some(function), from_master));
            }
        }
    }
}
