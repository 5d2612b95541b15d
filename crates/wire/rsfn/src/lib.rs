//! The security envelope of the Brazilian financial network (RSFN): pack and unpack as stages, without I/O.
//!
//! In: content, a secret drawn by the caller, and the results of RSA jobs. Out: RSA jobs ([`SignJob`], [`WrapJob`],
//! [`UnwrapJob`], [`VerifyJob`]), and a [`Sealed`] message or [`Verified`] content.
//!
//! RSA is asked for as data, so that a server can gather the private-key operations of several messages into one
//! batch; hashing and content ciphers are called through the trait [`Crypto`], which the node implements with what
//! `io/crypto` offers. [`pack`] and [`unpack`] do one message in one call.
//!
//! Never: a key, a certificate's bytes, a random number, a clock, a file.
//!
//! Read first: `profile.rs` (what is known of the format and what is assumed), then `pack.rs` and `unpack.rs`.
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
