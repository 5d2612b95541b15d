//! The security envelope of the Brazilian financial network (RSFN): pack and unpack in stages, without I/O.
//!
//! In: content, a random secret from the caller, and the results of RSA jobs. Out: RSA jobs ([`SignJob`], [`WrapJob`],
//! [`UnwrapJob`], [`VerifyJob`]), and a [`Sealed`] message or [`Verified`] content.
//!
//! RSA jobs are data, so that a server can combine the private-key operations of several messages into one batch.
//! Hashing and content ciphers are called through the trait [`Crypto`], which the node implements with `io/crypto`.
//! [`pack`] and [`unpack`] process one message in one call.
//!
//! Never: a key, the bytes of a certificate, a random number, a clock, a file.
//!
//! Read first: `profile.rs` (known facts about the format, and assumptions), then `pack.rs` and `unpack.rs`.
#![no_std]
extern crate alloc;
#[cfg(test)]
extern crate std;

mod compression;
mod content_key;
mod crypto;
mod fault;
mod field;
mod header;
mod pack;
mod profile;
mod stream;
mod text;
mod unpack;
mod whole;

#[cfg(test)]
mod tests;

pub use compression::{
    GzipWriter, InflateError, InflateLimits, InflateProgress, Inflater, PIECE_BYTES_MAX, gzip, inflate, is_compressed,
};
pub use crypto::{
    Crypto, DIGEST_BYTES, Digest, GcmStream, Hasher, SECRET_BYTES, Secret, SignJob, TAG_BYTES, Tag, UnwrapJob,
    VerifyJob, WrapJob,
};
pub use fault::{ErrorCode, Fault, Refused, TooLarge};
pub use field::{Authority, KeyAlgorithm, Serial, Treatment, Version};
pub use header::{HEADER_BYTES, Header, HeaderView, Party};
pub use pack::{Outgoing, PackError, Packing, PackingHeader, Sealed};
pub use profile::{AuthoritySet, ContentCipher, IvPlace, KeyPadding, Profile, RSFN_V2, RSFN_V3, SignaturePadding};
pub use stream::{PackingStream, UnpackingStream};
pub use text::{TextEncoding, TextError};
pub use unpack::{
    Acceptance, Admitted, CONTENT_BYTES_MAX, Certificate, Incoming, Opened, OpenedStream, Standing, Verified,
};
pub use whole::{PackFailure, Rsa, pack, unpack};
