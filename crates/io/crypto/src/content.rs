//! Hash, content ciphers, random bytes: one message at a time.

use crate::CryptoError;
use aes::Aes256;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::{digest, rand};
use cbc::cipher::{BlockModeDecrypt, BlockModeEncrypt, KeyIvInit, StreamCipher};
use ctr::Ctr32BE;
use des::TdesEde3;
use ghash::{GHash, universal_hash::UniversalHash};
use subtle::ConstantTimeEq;

/// Bytes of a SHA-256 digest.
pub const DIGEST_BYTES: usize = 32;
/// Bytes of an AES-GCM tag.
pub const TAG_BYTES: usize = 16;

const BLOCK_BYTES: usize = 16;
const TDES_BLOCK_BYTES: usize = 8;

/// Fills `out` from the library's generator, which the system seeds.
///
/// # Errors
/// [`CryptoError::Fault`]: the system gave no entropy.
pub fn fill_random(out: &mut [u8]) -> Result<(), CryptoError> {
    rand::fill(out).map_err(|_| CryptoError::Fault)
}

/// SHA-256 (FIPS 180-4) of `bytes`.
#[must_use]
pub fn sha256(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    to_array(digest::digest(&digest::SHA256, bytes).as_ref())
}

/// A SHA-256 over bytes that come piece by piece.
#[derive(Clone)]
pub struct Sha256(digest::Context);

impl Default for Sha256 {
    fn default() -> Self {
        Self(digest::Context::new(&digest::SHA256))
    }
}

impl Sha256 {
    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The digest of all that was taken.
    #[must_use]
    pub fn finish(self) -> [u8; DIGEST_BYTES] {
        to_array(self.0.finish().as_ref())
    }
}

/// A digest has 32 bytes by definition of the algorithm.
fn to_array(bytes: &[u8]) -> [u8; DIGEST_BYTES] {
    bytes.try_into().unwrap_or_default()
}

/// Encrypts `content` in place with AES-256-GCM (SP 800-38D), without additional data, and returns the tag.
///
/// # Errors
/// [`CryptoError::Length`]: more than 64 GiB.
pub fn aes256_gcm_seal(key: &[u8; 32], iv: &[u8; 12], content: &mut [u8]) -> Result<[u8; TAG_BYTES], CryptoError> {
    let nonce = Nonce::assume_unique_for_key(*iv);
    let sealed = gcm_key(key)?.seal_in_place_separate_tag(nonce, Aad::empty(), content);
    sealed.ok().and_then(|tag| tag.as_ref().try_into().ok()).ok_or(CryptoError::Length)
}

/// Decrypts `content` in place and says whether `tag` matches, comparing in constant time. When it does not, what
/// `content` holds is unspecified.
#[must_use]
pub fn aes256_gcm_open(key: &[u8; 32], iv: &[u8; 12], content: &mut [u8], tag: &[u8; TAG_BYTES]) -> bool {
    let nonce = Nonce::assume_unique_for_key(*iv);
    gcm_key(key).is_ok_and(|key| key.open_in_place_separate_tag(nonce, Aad::empty(), tag, content).is_ok())
}

fn gcm_key(key: &[u8; 32]) -> Result<LessSafeKey, CryptoError> {
    UnboundKey::new(&AES_256_GCM, key).map(LessSafeKey::new).map_err(|_| CryptoError::Fault)
}

/// An AES-256-GCM over bytes that come piece by piece, of any lengths; for files. One value either encrypts or
/// decrypts. Its keys are wiped when it is dropped.
pub struct GcmStream {
    counter: Ctr32BE<Aes256>,
    hash: GHash,
    /// Bytes of ciphertext that do not fill a block yet.
    held: [u8; BLOCK_BYTES],
    bytes: u64,
    mask: [u8; TAG_BYTES],
}

impl GcmStream {
    /// Begins with a key and an initialization vector that are used once.
    #[must_use]
    pub fn new(key: &[u8; 32], iv: &[u8; 12]) -> Self {
        let mut first = [0; BLOCK_BYTES];
        first[..iv.len()].copy_from_slice(iv);
        first[BLOCK_BYTES - 1] = 1;
        // SP 800-38D clause 6.5: the hash key is the cipher of the zero block, the tag's mask that of counter 1.
        let mut hash_key = zeroize::Zeroizing::new([0; BLOCK_BYTES]);
        Ctr32BE::<Aes256>::new(key.into(), &[0; BLOCK_BYTES].into()).apply_keystream(hash_key.as_mut());
        let mut counter = Ctr32BE::<Aes256>::new(key.into(), &first.into());
        let mut mask = [0; TAG_BYTES];
        counter.apply_keystream(&mut mask);
        Self { counter, hash: GHash::new((&*hash_key).into()), held: [0; BLOCK_BYTES], bytes: 0, mask }
    }

    /// Encrypts the next bytes in place.
    pub fn encrypt(&mut self, bytes: &mut [u8]) {
        self.counter.apply_keystream(bytes);
        self.absorb(bytes);
    }

    /// Decrypts the next bytes in place. They are not authentic before the tag was compared.
    pub fn decrypt(&mut self, bytes: &mut [u8]) {
        self.absorb(bytes);
        self.counter.apply_keystream(bytes);
    }

    /// The tag of all that was given.
    #[must_use]
    pub fn finish(mut self) -> [u8; TAG_BYTES] {
        let held = self.held_bytes();
        if held > 0 {
            self.hash.update_padded(&self.held[..held]);
        }
        let mut lengths = [0; BLOCK_BYTES];
        lengths[8..].copy_from_slice(&(self.bytes * 8).to_be_bytes());
        self.hash.update(&[lengths.into()]);
        let mut tag: [u8; TAG_BYTES] = self.hash.finalize().into();
        for (tag, mask) in tag.iter_mut().zip(self.mask) {
            *tag ^= mask;
        }
        tag
    }

    /// As [`GcmStream::finish`], and whether `tag` is the same; compared in constant time.
    #[must_use]
    pub fn finish_matches(self, tag: &[u8; TAG_BYTES]) -> bool {
        self.finish().ct_eq(tag).into()
    }

    fn held_bytes(&self) -> usize {
        (self.bytes % BLOCK_BYTES as u64) as usize
    }

    fn absorb(&mut self, ciphertext: &[u8]) {
        let held = self.held_bytes();
        let missing = (BLOCK_BYTES - held) % BLOCK_BYTES;
        let (head, rest) = ciphertext.split_at(missing.min(ciphertext.len()));
        self.held[held..held + head.len()].copy_from_slice(head);
        if !head.is_empty() && head.len() == missing {
            self.hash.update(&[self.held.into()]);
        }
        let whole = rest.len() - rest.len() % BLOCK_BYTES;
        self.hash.update_padded(&rest[..whole]);
        let tail = &rest[whole..];
        if !tail.is_empty() {
            self.held[..tail.len()].copy_from_slice(tail);
        }
        self.bytes += ciphertext.len() as u64;
    }
}

/// Encrypts `blocks` in place with three-key triple DES in CBC mode (SP 800-67, SP 800-38A), without padding.
///
/// # Errors
/// [`CryptoError::Length`]: not a multiple of 8 bytes.
pub fn tdes_cbc_encrypt(key: &[u8; 24], iv: &[u8; 8], bytes: &mut [u8]) -> Result<(), CryptoError> {
    let mut cipher = cbc::Encryptor::<TdesEde3>::new(key.into(), iv.into());
    let (blocks, rest) = bytes.as_chunks_mut::<TDES_BLOCK_BYTES>();
    for block in &mut *blocks {
        cipher.encrypt_block(block.into());
    }
    if rest.is_empty() { Ok(()) } else { Err(CryptoError::Length) }
}

/// The inverse of [`tdes_cbc_encrypt`].
///
/// # Errors
/// [`CryptoError::Length`]: not a multiple of 8 bytes.
pub fn tdes_cbc_decrypt(key: &[u8; 24], iv: &[u8; 8], bytes: &mut [u8]) -> Result<(), CryptoError> {
    let mut cipher = cbc::Decryptor::<TdesEde3>::new(key.into(), iv.into());
    let (blocks, rest) = bytes.as_chunks_mut::<TDES_BLOCK_BYTES>();
    for block in &mut *blocks {
        cipher.decrypt_block(block.into());
    }
    if rest.is_empty() { Ok(()) } else { Err(CryptoError::Length) }
}
