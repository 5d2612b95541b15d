//! Packing: content in, RSA jobs out, results in, sealed message out.
//!
//! ```text
//! Packing::new ──▶ sign_job, wrap_job ──▶ (RSA, alone or in a batch) ──▶ finish ──▶ Sealed
//! ```
//!
//! The content is hashed, then encrypted; the signature covers it as it was before encryption, with the zeros that
//! protocol 2 fills it with. The two jobs do not depend on each other.

use crate::content_key::{ContentKey, padding};
use crate::{
    Authority, CONTENT_BYTES_MAX, Crypto, Digest, ErrorCode, HEADER_BYTES, Header, KeyAlgorithm, Party, Profile,
    Secret, SignJob, TAG_BYTES, TooLarge, Treatment, WrapJob, is_compressed,
};
use alloc::vec::Vec;
use core::fmt;

/// What a message to be packed says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// The special treatment. When it says "compressed", the content is given compressed.
    pub treatment: Treatment,
    /// The error that this message answers with; [`ErrorCode::NONE`] otherwise.
    pub error: ErrorCode,
    /// Whose key signs.
    pub sender: Party,
    /// Whose key opens.
    pub recipient: Party,
}

/// A message whose content is ready and whose header waits for RSA.
#[derive(Debug)]
pub struct Packing {
    header: PackingHeader,
    message: Vec<u8>,
}

/// A whole message: header and content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed(Vec<u8>);

impl Sealed {
    /// The message's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }

    /// The message's bytes.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

impl Packing {
    /// Hashes and encrypts `content`, the bytes as they are to be signed: text encoded, files compressed.
    ///
    /// # Errors
    /// `outgoing` is not what the profile can say, or `content` is not compressed although it says so.
    pub fn new<C: Crypto>(
        crypto: &C,
        profile: &Profile,
        outgoing: &Outgoing,
        content: &[u8],
        secret: Secret,
    ) -> Result<Self, PackError> {
        let header = outgoing.header(profile)?;
        if header.treatment.is_compressed() && !is_compressed(content) {
            return Err(PackError::NotCompressed);
        }
        if u64::try_from(content.len()).is_ok_and(|bytes| bytes > CONTENT_BYTES_MAX) {
            return Err(PackError::TooLarge(TooLarge { limit: CONTENT_BYTES_MAX }));
        }
        let mut message = Vec::with_capacity(HEADER_BYTES + content.len() + TAG_BYTES);
        message.resize(HEADER_BYTES, 0);
        message.extend_from_slice(content);
        if profile.cipher.is_padded() {
            message.extend_from_slice(padding(content.len()));
        }
        let body = message.get_mut(HEADER_BYTES..).unwrap_or_default();
        let digest = crypto.sha256(body);
        let encrypted = header.treatment.is_encrypted();
        let secret = secret.for_cipher(profile.cipher);
        let key = ContentKey::read(profile.cipher, secret.wrapped(profile.cipher)).filter(|_| encrypted);
        if let Some(tag) = key.and_then(|key| key.seal(crypto, body)) {
            message.extend_from_slice(&tag);
        }
        Ok(Self { header: PackingHeader { header, profile: *profile, secret, digest }, message })
    }

    /// What to do with the sender's private key.
    #[must_use]
    pub const fn sign_job(&self) -> SignJob {
        self.header.sign_job()
    }

    /// What to do with the recipient's public key; nothing when the content is clear.
    #[must_use]
    pub fn wrap_job(&self) -> Option<WrapJob<'_>> {
        self.header.wrap_job()
    }

    /// The message. `wrapped_key` is empty when there was no job for it.
    ///
    /// # Errors
    /// A result has not the length of the key that the header names.
    pub fn finish(self, signature: &[u8], wrapped_key: &[u8]) -> Result<Sealed, PackError> {
        let mut message = self.message;
        let header = self.header.finish(signature, wrapped_key)?;
        message.get_mut(..HEADER_BYTES).unwrap_or_default().copy_from_slice(&header);
        Ok(Sealed(message))
    }
}

/// A header that waits for RSA. Of a streamed message, the content went ahead of it.
#[derive(Debug)]
pub struct PackingHeader {
    pub(crate) header: Header,
    pub(crate) profile: Profile,
    pub(crate) secret: Secret,
    pub(crate) digest: Digest,
}

impl PackingHeader {
    /// What to do with the sender's private key.
    #[must_use]
    pub const fn sign_job(&self) -> SignJob {
        SignJob { digest: self.digest, padding: self.profile.signature_padding }
    }

    /// What to do with the recipient's public key; nothing when the content is clear.
    #[must_use]
    pub fn wrap_job(&self) -> Option<WrapJob<'_>> {
        let Self { header, profile, secret, .. } = self;
        let job = || WrapJob { secret: secret.wrapped(profile.cipher), padding: profile.key_padding };
        header.treatment.is_encrypted().then(job)
    }

    /// The 588 bytes of the header. `wrapped_key` is empty when there was no job for it.
    ///
    /// # Errors
    /// A result has not the length of the key that the header names.
    pub fn finish(self, signature: &[u8], wrapped_key: &[u8]) -> Result<Vec<u8>, PackError> {
        let header = &self.header;
        let wrapped = if header.treatment.is_encrypted() { header.recipient.algorithm.block_bytes() } else { 0 };
        for (block, expected) in [(signature, header.sender.algorithm.block_bytes()), (wrapped_key, wrapped)] {
            if block.len() != expected {
                return Err(PackError::BlockLength { bytes: block.len(), expected });
            }
        }
        let mut out = Vec::with_capacity(HEADER_BYTES);
        header.emit(self.profile.cipher, wrapped_key, signature, &mut out);
        Ok(out)
    }
}

impl Outgoing {
    /// Refuses to write what the same profile would not read.
    pub(crate) fn header(&self, profile: &Profile) -> Result<Header, PackError> {
        let Self { treatment, error, sender, recipient } = *self;
        for party in [sender, recipient] {
            if !profile.accepts_key(party.algorithm) {
                return Err(PackError::KeyAlgorithm(party.algorithm));
            }
            if !profile.authorities.contains(party.authority) {
                return Err(PackError::Authority(party.authority));
            }
        }
        Ok(Header { version: profile.version, error, treatment, recipient, sender })
    }
}

/// How the caller misused packing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PackError {
    /// A key's algorithm is not accepted by the profile.
    KeyAlgorithm(KeyAlgorithm),
    /// An authority is not in the profile's set.
    Authority(Authority),
    /// The treatment says "compressed", the content is neither gzip nor zip.
    NotCompressed,
    /// The content has more than [`CONTENT_BYTES_MAX`] bytes.
    TooLarge(TooLarge),
    /// The result of an RSA job is not as long as its key's modulus.
    BlockLength {
        /// Bytes of the result.
        bytes: usize,
        /// Bytes of the modulus; 0 for the key of clear content.
        expected: usize,
    },
}

impl fmt::Display for PackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::KeyAlgorithm(algorithm) => write!(f, "keys of {algorithm:?} are not accepted by the profile"),
            Self::Authority(authority) => write!(f, "authority {authority} is not accepted by the profile"),
            Self::NotCompressed => f.write_str("the treatment says compressed, the content is neither gzip nor zip"),
            Self::TooLarge(large) => large.fmt(f),
            Self::BlockLength { bytes, expected } => {
                write!(f, "an RSA result of {bytes} bytes, expected {expected}")
            }
        }
    }
}

impl core::error::Error for PackError {}
