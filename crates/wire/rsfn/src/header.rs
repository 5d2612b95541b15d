//! The 588 bytes in front of every content.
//!
//! | field | offset | bytes | meaning |
//! |---|---|---|---|
//! | C01 | 0 | 2 | length of the header, 588, high byte first |
//! | C02 | 2 | 1 | version |
//! | C03 | 3 | 1 | error code |
//! | C04 | 4 | 1 | special treatment |
//! | C05 | 5 | 1 | reserved, 0 |
//! | C06 | 6 | 1 | algorithm of the recipient's key |
//! | C07 | 7 | 1 | content's cipher |
//! | C08 | 8 | 1 | algorithm of the sender's key |
//! | C09 | 9 | 1 | hash |
//! | C10 | 10 | 1 | authority of the recipient's certificate |
//! | C11 | 11 | 32 | serial of the recipient's certificate |
//! | C12 | 43 | 1 | authority of the sender's certificate |
//! | C13 | 44 | 32 | serial of the sender's certificate |
//! | C14 | 76 | 256 | content's key, encrypted to the recipient |
//! | C15 | 332 | 256 | signature of the content |
//!
//! An RSA block of 128 bytes stands on the left of C14 or C15, zeros follow.

use crate::field::SERIAL_BYTES;
use crate::{Authority, ContentCipher, ErrorCode, Fault, KeyAlgorithm, Profile, Serial, Treatment, Version};
use alloc::vec::Vec;
use tieline_core::{Cursor, Truncated};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 588;
/// Bytes of C14 and of C15.
pub const BLOCK_BYTES: usize = 256;

/// The value of C01.
const LENGTH: u16 = 588;
/// The value of C09 for SHA-256. 02 is SHA-1, which no profile accepts.
const SHA256: u8 = 0x03;

/// The header as it stands in a message: complete, and nothing judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeaderView<'a> {
    /// C01.
    pub length: u16,
    /// C02.
    pub version: u8,
    /// C03.
    pub error: ErrorCode,
    /// C04.
    pub treatment: u8,
    /// C05.
    pub reserved: u8,
    /// C06.
    pub recipient_algorithm: u8,
    /// C07.
    pub content_algorithm: u8,
    /// C08.
    pub sender_algorithm: u8,
    /// C09.
    pub hash: u8,
    /// C10.
    pub recipient_authority: Authority,
    /// C11.
    pub recipient_serial: [u8; SERIAL_BYTES],
    /// C12.
    pub sender_authority: Authority,
    /// C13.
    pub sender_serial: [u8; SERIAL_BYTES],
    /// C14, 256 bytes.
    pub wrapped_key: &'a [u8],
    /// C15, 256 bytes.
    pub signature: &'a [u8],
}

impl<'a> HeaderView<'a> {
    /// Reads the first 588 bytes of a message.
    ///
    /// # Errors
    /// There are fewer.
    pub fn parse(message: &'a [u8]) -> Result<Self, Truncated> {
        let mut cursor = Cursor::new(message);
        Ok(Self {
            length: cursor.u16_be()?,
            version: cursor.u8()?,
            error: ErrorCode(cursor.u8()?),
            treatment: cursor.u8()?,
            reserved: cursor.u8()?,
            recipient_algorithm: cursor.u8()?,
            content_algorithm: cursor.u8()?,
            sender_algorithm: cursor.u8()?,
            hash: cursor.u8()?,
            recipient_authority: Authority(cursor.u8()?),
            recipient_serial: cursor.array()?,
            sender_authority: Authority(cursor.u8()?),
            sender_serial: cursor.array()?,
            wrapped_key: cursor.take(BLOCK_BYTES)?,
            signature: cursor.take(BLOCK_BYTES)?,
        })
    }

    /// Appends the 588 bytes. Blocks that are not 256 bytes long are cut or filled with zeros on the right.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let Self { length, version, error, treatment, reserved, recipient_algorithm, content_algorithm, .. } = *self;
        out.extend_from_slice(&length.to_be_bytes());
        out.extend_from_slice(&[version, error.0, treatment, reserved, recipient_algorithm, content_algorithm]);
        out.extend_from_slice(&[self.sender_algorithm, self.hash, self.recipient_authority.0]);
        out.extend_from_slice(&self.recipient_serial);
        out.push(self.sender_authority.0);
        out.extend_from_slice(&self.sender_serial);
        for block in [self.wrapped_key, self.signature] {
            let end = out.len() + BLOCK_BYTES;
            out.extend_from_slice(block.get(..BLOCK_BYTES).unwrap_or(block));
            out.resize(end, 0);
        }
    }

    /// Whether this is the header of a message without security: version 0, serials of binary or decimal zeros.
    #[must_use]
    pub fn is_empty_header(&self) -> bool {
        let zero = |serial: &[u8; SERIAL_BYTES]| *serial == [0; SERIAL_BYTES] || *serial == [b'0'; SERIAL_BYTES];
        self.version == 0 && zero(&self.recipient_serial) && zero(&self.sender_serial)
    }
}

/// One side of a message, as the header names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Party {
    /// The algorithm of its key.
    pub algorithm: KeyAlgorithm,
    /// Who issued its certificate.
    pub authority: Authority,
    /// The serial of its certificate.
    pub serial: Serial,
}

/// A header whose every field is legal for the profile that it was read with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The version.
    pub version: Version,
    /// The error code. Not authenticated: tell it, never decide by it.
    pub error: ErrorCode,
    /// The special treatment. Not authenticated.
    pub treatment: Treatment,
    /// Who may open the content.
    pub recipient: Party,
    /// Who signed the content.
    pub sender: Party,
}

impl Header {
    /// Judges a view by the profile of its version.
    ///
    /// # Errors
    /// The lowest code of what is wrong with the header alone.
    pub fn parse(view: &HeaderView<'_>, profile: &Profile) -> Result<Self, Fault> {
        if view.length != LENGTH {
            return Err(Fault::HeaderLength);
        }
        if view.version != profile.version as u8 {
            return Err(Fault::Version);
        }
        let treatment = Treatment::from_code(view.treatment);
        let recipient_algorithm = algorithm(view.recipient_algorithm, profile).ok_or(Fault::RecipientKeyAlgorithm)?;
        let clear = treatment.is_some_and(|t| !t.is_encrypted());
        if view.content_algorithm != profile.cipher.code() && !(clear && view.content_algorithm == 0) {
            return Err(Fault::ContentAlgorithm);
        }
        let sender_algorithm = algorithm(view.sender_algorithm, profile).ok_or(Fault::SenderKeyAlgorithm)?;
        if view.hash != SHA256 {
            return Err(Fault::HashAlgorithm);
        }
        if !profile.authorities.contains(view.recipient_authority) {
            return Err(Fault::RecipientAuthority);
        }
        let recipient_serial = Serial::from_digits(&view.recipient_serial).ok_or(Fault::RecipientSerial)?;
        if !profile.authorities.contains(view.sender_authority) {
            return Err(Fault::SenderAuthority);
        }
        let sender_serial = Serial::from_digits(&view.sender_serial).ok_or(Fault::SenderSerial)?;
        // A key beside clear content is a sign that C04 was changed on the way.
        let treatment = treatment.ok_or(Fault::Treatment)?;
        if !treatment.is_encrypted() && view.wrapped_key.iter().any(|&byte| byte != 0) {
            return Err(Fault::Treatment);
        }
        let recipient =
            Party { algorithm: recipient_algorithm, authority: view.recipient_authority, serial: recipient_serial };
        let sender = Party { algorithm: sender_algorithm, authority: view.sender_authority, serial: sender_serial };
        Ok(Self { version: profile.version, error: view.error, treatment, recipient, sender })
    }

    /// Appends the 588 bytes, with the two blocks on the left of their fields.
    pub fn emit(&self, cipher: ContentCipher, wrapped_key: &[u8], signature: &[u8], out: &mut Vec<u8>) {
        let view = HeaderView {
            length: LENGTH,
            version: self.version as u8,
            error: self.error,
            treatment: self.treatment.code(),
            reserved: 0,
            recipient_algorithm: self.recipient.algorithm as u8,
            content_algorithm: cipher.code(),
            sender_algorithm: self.sender.algorithm as u8,
            hash: SHA256,
            recipient_authority: self.recipient.authority,
            recipient_serial: *self.recipient.serial.digits(),
            sender_authority: self.sender.authority,
            sender_serial: *self.sender.serial.digits(),
            wrapped_key,
            signature,
        };
        view.emit(out);
    }
}

fn algorithm(code: u8, profile: &Profile) -> Option<KeyAlgorithm> {
    KeyAlgorithm::from_code(code).filter(|&algorithm| profile.accepts_key(algorithm))
}
