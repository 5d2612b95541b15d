//! Keys, hashes, ciphers and RSA: single operations by aws-lc, several at a time in eight SIMD lanes.
//!
//! In: bytes, keys ([`PrivateKey`], [`PublicKey`], from PKCS#8, PKCS#12, PKCS#11 and certificates), jobs
//! ([`PrivateJob`], [`PublicJob`]). Out: bytes, and the result of each job, in the order of the jobs.
//!
//! Private-key operations of RSA-2048 are nearly all of the cost of an envelope. [`PrivateQueue`] takes the waiting
//! jobs and never waits for more: a single job is done by aws-lc, two to eight jobs are done together in the lanes, if
//! the processor has AVX-512 IFMA ([`Engine::has_lanes`]).
//!
//! Never: a protocol, a file, a socket, a thread; an unchecked private-key result; the reason of a failed decryption,
//! except for a caller that asks [`KeyBlock::is_genuine`] for its audit log.
//!
//! Read first: `queue.rs`, then `engine.rs`; the arithmetic is in `lanes`.

mod certificate;
mod content;
mod engine;
mod error;
mod key;
mod lanes;
mod padding;
mod public;
mod queue;
mod single;
#[cfg(test)]
mod tests;
mod token;
mod worker;

pub use certificate::{Certificate, Identity, certificate_request};
pub use content::{
    DIGEST_BYTES, GcmStream, Sha256, TAG_BYTES, aes256_gcm_open, aes256_gcm_seal, fill_random, sha256,
    tdes_cbc_decrypt, tdes_cbc_encrypt,
};
pub use engine::{
    BATCH_MAX, Engine, EngineCounters, KeyPadding, PrivateJob, PrivateOutcome, PublicJob, PublicOutcome, Recovered,
    SignaturePadding,
};
pub use error::{CryptoError, KeyError};
pub use key::{PrivateKey, encrypt_pkcs8};
pub use padding::{KEY_BYTES_MAX, KeyBlock};
pub use public::PublicKey;
pub use queue::{PrivateQueue, QueueCounters};
pub use token::TokenUri;

/// Bytes of an RSA-2048 modulus, and of what is signed or encrypted with it.
pub const MODULUS_BYTES: usize = 256;
