//! Header options (clause AB.2.3): what stands between the addresses of a message and its payload.
//!
//! ```text
//! marker: 0x80 another follows, 0x40 must be understood, 0x20 has data, 0x1F type     [length, two bytes  data]
//! ```

use crate::{DecodeError, Decoded};
use alloc::vec::Vec;
use tieline_core::Cursor;

const MORE: u8 = 0x80;
const MUST_UNDERSTAND: u8 = 0x40;
const HAS_DATA: u8 = 0x20;
const TYPE: u8 = 0x1F;

/// One option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderOption<'a> {
    /// Its type, 1 to 31.
    pub kind: u8,
    /// Whether who does not know it must refuse the message.
    pub must_understand: bool,
    /// Its data.
    pub data: Option<&'a [u8]>,
}

impl HeaderOption<'_> {
    /// The type that says that a message came over BACnet/SC all the way.
    pub const SECURE_PATH: u8 = 1;
    /// The type of options of vendors.
    pub const PROPRIETARY: u8 = 31;

    /// The marker as it stands where no other option follows.
    #[must_use]
    pub const fn marker(&self) -> u8 {
        let must_understand = if self.must_understand { MUST_UNDERSTAND } else { 0 };
        let has_data = if self.data.is_some() { HAS_DATA } else { 0 };
        must_understand | has_data | (self.kind & TYPE)
    }

    /// Whether this crate knows what it means.
    #[must_use]
    pub const fn is_known(&self) -> bool {
        self.kind == Self::SECURE_PATH
    }
}

/// A list of options, which is well-formed or empty.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options<'a>(&'a [u8]);

impl<'a> Options<'a> {
    /// Takes a list from the front of a message.
    ///
    /// # Errors
    /// It ends early, or an option is of type 0.
    pub(super) fn take(cursor: &mut Cursor<'a>) -> Decoded<Self> {
        let bytes = cursor.rest();
        loop {
            let (option, more) = next(cursor)?;
            if option.kind == 0 {
                return Err(DecodeError::Range("the type of a header option"));
            }
            if !more {
                break;
            }
        }
        let count = bytes.len() - cursor.left();
        Ok(Self(bytes.get(..count).unwrap_or_default()))
    }

    /// Writes options into an empty buffer, and gives the list; data has 65,535 bytes at most.
    pub fn write(options: &[HeaderOption<'_>], out: &'a mut Vec<u8>) -> Self {
        out.clear();
        for (place, option) in (1..).zip(options) {
            let more = if place < options.len() { MORE } else { 0 };
            out.push(option.marker() | more);
            if let Some(data) = option.data {
                out.extend(u16::try_from(data.len()).unwrap_or(u16::MAX).to_be_bytes());
                out.extend(data.iter().take(usize::from(u16::MAX)));
            }
        }
        Self(out)
    }

    /// Whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// As they are on the wire.
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.0
    }

    /// Each.
    pub fn iter(&self) -> impl Iterator<Item = HeaderOption<'a>> + use<'a> {
        let mut cursor = Cursor::new(self.0);
        core::iter::from_fn(
            move || if cursor.is_empty() { None } else { next(&mut cursor).ok().map(|(option, _)| option) },
        )
    }

    /// The first that must be understood, and is not.
    #[must_use]
    pub fn not_understood(&self) -> Option<HeaderOption<'a>> {
        self.iter().find(|option| option.must_understand && !option.is_known())
    }
}

/// One option, and whether another follows.
fn next<'a>(cursor: &mut Cursor<'a>) -> Decoded<(HeaderOption<'a>, bool)> {
    let marker = cursor.u8()?;
    let data = if marker & HAS_DATA != 0 {
        let length = usize::from(cursor.u16_be()?);
        Some(cursor.take(length)?)
    } else {
        None
    };
    let option = HeaderOption { kind: marker & TYPE, must_understand: marker & MUST_UNDERSTAND != 0, data };
    Ok((option, marker & MORE != 0))
}
