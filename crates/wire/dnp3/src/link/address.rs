//! Link addresses (IEEE 1815 9.2.4.1.4).

use core::fmt;

/// The address of a station on a link: any 16 bits; [`LinkAddress::kind`] tells what they mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkAddress(u16);

/// What an address stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    /// One station: 0000-FFEF.
    Station,
    /// FFF0-FFFB: not to be used.
    Reserved,
    /// FFFC: the station that the sender is directly connected to.
    Own,
    /// FFFD-FFFF: every outstation.
    Broadcast(Broadcast),
}

/// The three broadcast addresses: they differ in how the outstation ends reporting IIN1.0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Broadcast {
    /// FFFD: no application confirmation is asked for.
    ConfirmNever,
    /// FFFE: IIN1.0 stays until an application confirmation arrives.
    ConfirmAlways,
    /// FFFF: whether to ask for a confirmation is the outstation's choice.
    ConfirmOptional,
}

impl LinkAddress {
    /// FFFC: the station that the sender is directly connected to.
    pub const OWN: Self = Self(0xFFFC);

    /// From the 16 bits of the wire.
    #[must_use]
    pub const fn new(address: u16) -> Self {
        Self(address)
    }

    /// The 16 bits of the wire.
    #[must_use]
    pub const fn raw(self) -> u16 {
        self.0
    }

    /// What the address stands for.
    #[must_use]
    pub const fn kind(self) -> AddressKind {
        match self.0 {
            0..=0xFFEF => AddressKind::Station,
            0xFFF0..=0xFFFB => AddressKind::Reserved,
            0xFFFC => AddressKind::Own,
            0xFFFD => AddressKind::Broadcast(Broadcast::ConfirmNever),
            0xFFFE => AddressKind::Broadcast(Broadcast::ConfirmAlways),
            0xFFFF => AddressKind::Broadcast(Broadcast::ConfirmOptional),
        }
    }

    /// A broadcast address.
    #[must_use]
    pub const fn of(broadcast: Broadcast) -> Self {
        match broadcast {
            Broadcast::ConfirmNever => Self(0xFFFD),
            Broadcast::ConfirmAlways => Self(0xFFFE),
            Broadcast::ConfirmOptional => Self(0xFFFF),
        }
    }

    /// Whether it can be the address of one station: 0000-FFEF.
    #[must_use]
    pub const fn is_station(self) -> bool {
        matches!(self.kind(), AddressKind::Station)
    }

    /// Which broadcast it is, if any.
    #[must_use]
    pub const fn broadcast(self) -> Option<Broadcast> {
        match self.kind() {
            AddressKind::Broadcast(broadcast) => Some(broadcast),
            AddressKind::Station | AddressKind::Reserved | AddressKind::Own => None,
        }
    }
}

impl Broadcast {
    /// The address that says so.
    #[must_use]
    pub const fn address(self) -> LinkAddress {
        LinkAddress(match self {
            Self::ConfirmNever => 0xFFFD,
            Self::ConfirmAlways => 0xFFFE,
            Self::ConfirmOptional => 0xFFFF,
        })
    }
}

impl From<u16> for LinkAddress {
    fn from(address: u16) -> Self {
        Self(address)
    }
}

impl fmt::Display for LinkAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
