//! The security envelope of the Brazilian financial network (RSFN): pack and unpack as stages, without I/O.
//!
//! In: content, a secret drawn by the caller, and the results of RSA jobs. Out: RSA jobs ([`SignJob`], [`WrapJob`],
//! [`UnwrapJob`], [`VerifyJob`]), and a sealed message or a verified content.
//!
//! RSA is asked for as data, so that a server can gather the private-key operations of several messages into one
//! batch; hashing and content ciphers are called through the trait [`Crypto`], which the node implements with what
//! `io/crypto` offers.
//!
//! Never: a key, a certificate's bytes, a random number, a clock, a file.
//!
//! Read first: `profile.rs` (what is known of the format and what is assumed), then `crypto.rs`.
#![no_std]

mod crypto;
mod profile;

pub use crypto::{
    Crypto, DIGEST_OCTETS, Digest, GcmStream, Hasher, SECRET_OCTETS, Secret, SignJob, TAG_OCTETS, Tag, UnwrapJob,
    VerifyJob, WrapJob,
};
pub use profile::{KeyPadding, SignaturePadding};
