//! What an envelope asks of cryptography.
//!
//! Cheap operations (hash, content cipher; 1 µs per KiB) are calls through [`Crypto`]. RSA is a job: plain data that
//! the caller carries to a key and whose result it brings back, alone or in a batch with the jobs of other messages.
//! A job does not name its key: the caller chose it, and keeps it beside the job.

use crate::{KeyPadding, SignaturePadding};
use core::fmt;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Bytes of a SHA-256 digest.
pub const DIGEST_BYTES: usize = 32;
/// Bytes of an authentication tag of AES-GCM.
pub const TAG_BYTES: usize = 16;
/// Random bytes that one message needs: a key of 32 and an initialization vector of 12. Protocol 2 uses the first 24.
pub const SECRET_BYTES: usize = 44;

/// A SHA-256 digest.
pub type Digest = [u8; DIGEST_BYTES];
/// An authentication tag of AES-GCM.
pub type Tag = [u8; TAG_BYTES];

/// Hashing and content ciphers. No operation can fail but by a tag that does not match.
pub trait Crypto {
    /// A SHA-256 that grows.
    type Hasher: Hasher;
    /// An AES-256-GCM that grows.
    type Gcm: GcmStream;

    /// SHA-256 (FIPS 180-4) of `bytes`.
    fn sha256(&self, bytes: &[u8]) -> Digest;

    /// Begins a SHA-256 over bytes that come piece by piece.
    fn sha256_start(&self) -> Self::Hasher;

    /// Encrypts `content` in place with AES-256-GCM (SP 800-38D) without additional data and returns the tag.
    fn aes256_gcm_seal(&self, key: &[u8; 32], iv: &[u8; 12], content: &mut [u8]) -> Tag;

    /// Decrypts `content` in place and says whether `tag` matches. When it does not, what `content` holds is
    /// unspecified. The tag is compared in constant time.
    fn aes256_gcm_open(&self, key: &[u8; 32], iv: &[u8; 12], content: &mut [u8], tag: &Tag) -> bool;

    /// Begins an AES-256-GCM over bytes that come piece by piece.
    fn aes256_gcm_start(&self, key: &[u8; 32], iv: &[u8; 12]) -> Self::Gcm;

    /// Encrypts `blocks` in place with three-key triple DES in CBC mode (SP 800-67, SP 800-38A), without padding.
    /// The length of `blocks` is a multiple of 8.
    fn tdes_cbc_encrypt(&self, key: &[u8; 24], iv: &[u8; 8], blocks: &mut [u8]);

    /// The inverse of [`Crypto::tdes_cbc_encrypt`].
    fn tdes_cbc_decrypt(&self, key: &[u8; 24], iv: &[u8; 8], blocks: &mut [u8]);
}

/// A SHA-256 over bytes that come piece by piece.
pub trait Hasher {
    /// Takes the next bytes.
    fn update(&mut self, bytes: &[u8]);
    /// The digest of all that was taken.
    fn finish(self) -> Digest;
}

/// An AES-256-GCM over bytes that come piece by piece, of any lengths. One value either encrypts or decrypts.
pub trait GcmStream {
    /// Encrypts the next bytes in place.
    fn encrypt(&mut self, bytes: &mut [u8]);
    /// Decrypts the next bytes in place. They are not authentic before the tag was compared.
    fn decrypt(&mut self, bytes: &mut [u8]);
    /// The tag of all that was given.
    fn finish(self) -> Tag;
}

/// The random bytes of one message, drawn by the caller and never used twice. Wiped when dropped.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Secret(pub(crate) [u8; SECRET_BYTES]);

impl Secret {
    /// From bytes of a cryptographic random source.
    #[must_use]
    pub const fn new(random: [u8; SECRET_BYTES]) -> Self {
        Self(random)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Sign with the sender's private key. Result: a signature as long as the key's modulus (C15).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignJob {
    /// SHA-256 of the content.
    pub digest: Digest,
    /// How to pad it.
    pub padding: SignaturePadding,
}

/// Encrypt with the recipient's public key. Result: a block as long as the key's modulus (C14).
#[derive(Clone, Copy)]
pub struct WrapJob<'a> {
    /// The content's key; 24, 32 or 44 bytes. Wiped when the stage that lent it is dropped.
    pub secret: &'a [u8],
    /// How to pad it.
    pub padding: KeyPadding,
}

/// Decrypt with the recipient's private key. Result: the content's key, or none when key or padding are wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnwrapJob<'a> {
    /// The block, as long as the modulus that the header names (128 or 256 bytes).
    pub block: &'a [u8],
    /// How it is padded.
    pub padding: KeyPadding,
    /// The lengths that the key may have, the usual one first. A result of another length is none.
    pub lengths: &'static [usize],
}

/// Check with the sender's public key. Result: whether the signature is right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VerifyJob<'a> {
    /// SHA-256 of the content.
    pub digest: Digest,
    /// The signature, as long as the modulus that the header names (128 or 256 bytes).
    pub signature: &'a [u8],
    /// How it is padded.
    pub padding: SignaturePadding,
}
