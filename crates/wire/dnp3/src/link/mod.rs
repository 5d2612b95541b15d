//! The data link layer (IEEE 1815 clause 9).
//!
//! ```text
//! 05 64 | LEN | CTRL | DST lo hi | SRC lo hi | CRC lo hi     header block, 10 bytes
//! up to 16 bytes of user data | CRC lo hi                   as many as needed, at most 250 bytes of user data
//!
//! LEN  = 5 + bytes of user data, CRCs not counted: 5..=255
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
pub use frame::{FRAME_BYTES_MAX, Frame, HEADER_BYTES, Header, USER_BYTES_MAX, frame_bytes};
