//! Ethernet frames that carry GOOSE.
//!
//! ```text
//!  destination 6 | source 6 | [81 00 | priority 3, DEI 1, VLAN 12] | 88 B8 | APPID 2 | length 2 | reserved1 2 | reserved2 2 | APDU
//!                                                                           └─────────────── length ─────────────────────────┘
//! ```
//!
//! The first bit of `reserved1` says that the message is simulated. What follows the APDU, such as padding, is no part of it.

use alloc::vec::Vec;
use core::fmt;
use core::str::FromStr;

/// The type of Ethernet frames that carry GOOSE.
pub const ETHERTYPE: u16 = 0x88B8;
/// The type of a tag of IEEE 802.1Q.
const TAG_TYPE: u16 = 0x8100;
/// Bytes of the longest frame: 1500 of content behind addresses, tag and type.
pub const FRAME_BYTES_MAX: usize = 1518;
/// APPID, length and both reserved fields.
const HEAD_BYTES: u16 = 8;
/// Bytes of the longest APDU.
const APDU_BYTES_MAX: usize = 1492;
/// S of `reserved1`.
const SIMULATION: u16 = 0x8000;

/// An address of Ethernet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// Whether it is that of a group.
    #[must_use]
    pub const fn is_multicast(self) -> bool {
        let [first, ..] = self.0;
        first & 1 != 0
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (byte, at) in self.0.iter().zip(0..) {
            let separator = if at == 0 { "" } else { ":" };
            write!(f, "{separator}{byte:02x}")?;
        }
        Ok(())
    }
}

/// Two digits for each byte, with `:` or `-` between them.
impl FromStr for MacAddress {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let mut parts = text.split([':', '-']);
        let mut bytes = [0; 6];
        for byte in &mut bytes {
            let part =
                parts.next().filter(|part| part.len() == 2 && part.bytes().all(|digit| digit.is_ascii_hexdigit()));
            *byte = part.and_then(|part| u8::from_str_radix(part, 16).ok()).ok_or(())?;
        }
        if parts.next().is_some() { Err(()) } else { Ok(Self(bytes)) }
    }
}

/// A tag of IEEE 802.1Q.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VlanTag {
    /// 0 to 7, the most urgent last.
    pub priority: u8,
    /// Whether it may be dropped first.
    pub is_drop_eligible: bool,
    /// 0 to 4095; 0 has a priority alone.
    pub id: u16,
}

impl VlanTag {
    fn from_bytes(bytes: [u8; 2]) -> Self {
        let raw = u16::from_be_bytes(bytes);
        let [high, _] = bytes;
        Self { priority: high >> 5, is_drop_eligible: high & 0x10 != 0, id: raw & 0x0FFF }
    }

    fn to_bytes(self) -> [u8; 2] {
        let drop = if self.is_drop_eligible { 0x1000 } else { 0 };
        (u16::from(self.priority & 7) << 13 | drop | (self.id & 0x0FFF)).to_be_bytes()
    }
}

/// What a frame says before its APDU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHead {
    /// Where it goes.
    pub destination: MacAddress,
    /// Who sent it.
    pub source: MacAddress,
    /// Its tag; a network card may have taken it off.
    pub tag: Option<VlanTag>,
    /// The identifier of the application.
    pub app_id: u16,
    /// `reserved1` without S.
    pub reserved1: u16,
    /// `reserved2`.
    pub reserved2: u16,
    /// Whether the frame says that the message is simulated.
    pub is_simulated: bool,
}

/// A frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What stands before the APDU.
    pub head: FrameHead,
    /// The message, and what follows it within the length.
    pub apdu: &'a [u8],
}

/// Why bytes are no frame of GOOSE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameError {
    /// It ends too early.
    Truncated,
    /// It carries something else.
    EtherType(u16),
    /// Its length is that of no APDU, or longer than the frame.
    Length(u16),
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Truncated => write!(f, "a frame that ends before its APDU"),
            Self::EtherType(found) => write!(f, "a frame of type {found:#06x}, expected {ETHERTYPE:#06x}"),
            Self::Length(found) => write!(f, "a length of {found} bytes, expected that of what follows the type"),
        }
    }
}

impl core::error::Error for FrameError {}

fn take<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], FrameError> {
    let (taken, behind) = rest.split_first_chunk().ok_or(FrameError::Truncated)?;
    *rest = behind;
    Ok(*taken)
}

impl<'a> Frame<'a> {
    /// Reads a frame, without its check sequence.
    ///
    /// # Errors
    /// It is none of GOOSE.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let mut rest = bytes;
        let (destination, source) = (MacAddress(take(&mut rest)?), MacAddress(take(&mut rest)?));
        let mut ether_type = u16::from_be_bytes(take(&mut rest)?);
        let mut tag = None;
        if ether_type == TAG_TYPE {
            tag = Some(VlanTag::from_bytes(take(&mut rest)?));
            ether_type = u16::from_be_bytes(take(&mut rest)?);
        }
        if ether_type != ETHERTYPE {
            return Err(FrameError::EtherType(ether_type));
        }
        let app_id = u16::from_be_bytes(take(&mut rest)?);
        let length = u16::from_be_bytes(take(&mut rest)?);
        let reserved1 = u16::from_be_bytes(take(&mut rest)?);
        let reserved2 = u16::from_be_bytes(take(&mut rest)?);
        let apdu = length.checked_sub(HEAD_BYTES).and_then(|length| rest.get(..usize::from(length)));
        let is_simulated = reserved1 & SIMULATION != 0;
        let reserved1 = reserved1 & !SIMULATION;
        let head = FrameHead { destination, source, tag, app_id, reserved1, reserved2, is_simulated };
        Ok(Self { head, apdu: apdu.ok_or(FrameError::Length(length))? })
    }
}

impl FrameHead {
    /// Appends a frame with this APDU; false where the APDU is too long, and nothing was appended.
    #[must_use]
    pub fn emit(&self, apdu: &[u8], out: &mut Vec<u8>) -> bool {
        let length = u16::try_from(apdu.len()).ok().filter(|_| apdu.len() <= APDU_BYTES_MAX);
        let Some(length) = length.and_then(|length| length.checked_add(HEAD_BYTES)) else { return false };
        out.extend_from_slice(&self.destination.0);
        out.extend_from_slice(&self.source.0);
        if let Some(tag) = self.tag {
            out.extend_from_slice(&TAG_TYPE.to_be_bytes());
            out.extend_from_slice(&tag.to_bytes());
        }
        let simulation = if self.is_simulated { SIMULATION } else { 0 };
        let reserved1 = self.reserved1 & !SIMULATION | simulation;
        for word in [ETHERTYPE, self.app_id, length, reserved1, self.reserved2] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.extend_from_slice(apdu);
        true
    }
}
