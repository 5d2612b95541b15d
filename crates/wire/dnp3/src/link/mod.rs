//! The data link layer (IEEE 1815 clause 9).
//!
//! ```text
//! 05 64 | LEN | CTRL | DST lo hi | SRC lo hi | CRC lo hi     header block, 10 octets
//! up to 16 octets of user data | CRC lo hi                   as many as needed, at most 250 octets of user data
//!
//! LEN  = 5 + octets of user data, CRCs not counted: 5..=255
//! CTRL = DIR 80 | PRM 40 | FCB 20 | FCV (from a primary) or DFC (from a secondary) 10 | function 0F
//! ```
//!
//! [`Frame`] is a view on a checked frame, [`Header`] the small sane form of its first block, [`Decoder`] finds frames in
//! a stream.

mod address;
mod control;
mod decoder;
mod frame;

pub use address::{AddressKind, Broadcast, LinkAddress};
pub use control::{Control, Function};
pub use decoder::{Decoder, LinkCounters, LinkError, Refused};
pub use frame::{FRAME_OCTETS_MAX, Frame, HEADER_OCTETS, Header, USER_OCTETS_MAX, frame_octets};
