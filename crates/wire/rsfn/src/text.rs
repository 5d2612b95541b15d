//! Text in content. The envelope carries bytes; which encoding a message has, the catalogue of services says.

use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// An encoding of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextEncoding {
    /// UTF-16, high byte first: what messages of the network are written in. A byte order mark is skipped.
    Utf16Be,
    /// UTF-8. A byte order mark is skipped.
    Utf8,
    /// ISO 8859-1.
    Latin1,
}

const BYTE_ORDER_MARK: char = '\u{feff}';

impl TextEncoding {
    /// The bytes of a text, without a byte order mark.
    ///
    /// # Errors
    /// A character that the encoding does not have.
    pub fn encode(self, text: &str) -> Result<Vec<u8>, TextError> {
        match self {
            Self::Utf16Be => Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
            Self::Utf8 => Ok(text.as_bytes().to_vec()),
            Self::Latin1 => {
                let bytes = text.char_indices().map(|(at, c)| u8::try_from(c).map_err(|_| self.error(at)));
                bytes.collect()
            }
        }
    }

    /// The text of bytes.
    ///
    /// # Errors
    /// The bytes are not text in this encoding.
    pub fn decode(self, bytes: &[u8]) -> Result<String, TextError> {
        let mut text = match self {
            Self::Utf16Be => self.decode_utf16(bytes)?,
            Self::Utf8 => core::str::from_utf8(bytes).map_err(|e| self.error(e.valid_up_to()))?.to_string(),
            Self::Latin1 => return Ok(bytes.iter().map(|&byte| char::from(byte)).collect()),
        };
        if text.starts_with(BYTE_ORDER_MARK) {
            text.remove(0);
        }
        Ok(text)
    }

    fn decode_utf16(self, bytes: &[u8]) -> Result<String, TextError> {
        let (units, odd) = bytes.as_chunks();
        let mut text = String::with_capacity(units.len());
        let mut at = 0;
        for c in char::decode_utf16(units.iter().map(|&unit| u16::from_be_bytes(unit))) {
            let c = c.map_err(|_| self.error(at))?;
            at += 2 * c.len_utf16();
            text.push(c);
        }
        if odd.is_empty() { Ok(text) } else { Err(self.error(at)) }
    }

    const fn error(self, at: usize) -> TextError {
        TextError { encoding: self, at }
    }
}

/// Text that does not fit its encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TextError {
    /// The encoding.
    pub encoding: TextEncoding,
    /// The byte, from 0, of the first character that does not fit.
    pub at: usize,
}

impl fmt::Display for TextError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.encoding {
            TextEncoding::Utf16Be => "UTF-16BE",
            TextEncoding::Utf8 => "UTF-8",
            TextEncoding::Latin1 => "ISO 8859-1",
        };
        write!(f, "not {name} at byte {}", self.at)
    }
}

impl core::error::Error for TextError {}
