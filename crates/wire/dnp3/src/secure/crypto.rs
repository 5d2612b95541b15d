//! Keys, MACs and key wrap (IEEE 1815 7.5.2), from the crates of RustCrypto.
//!
//! Keys are zeroized when they are dropped and never shown; MACs are compared in constant time.

use super::{KeyChangeMethod, KeyWrap, MacAlgorithm};
use aes::cipher::{BlockCipherEncrypt, KeyInit};
use aes::{Aes128, Aes256};
use aes_kw::{IV_LEN as WRAP_EXTRA_BYTES, KwAes128, KwAes256};
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use ghash::GHash;
use ghash::universal_hash::UniversalHash;
use hmac::{Hmac, Mac as _};
use sha1::Sha1;
use sha2::Sha256;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// Where a machine gets its challenges and session keys from. It must be unpredictable, as of the operating system.
pub trait Random {
    /// Fills all bytes.
    fn fill(&mut self, bytes: &mut [u8]);
}

/// The random source of a machine.
pub type BoxedRandom = alloc::boxed::Box<dyn Random + Send>;

/// Bytes of the longest key.
const KEY_BYTES_MAX: usize = 32;
/// Bytes of the longest MAC, not truncated.
const MAC_BYTES_MAX: usize = 32;

/// A key of 16 or 32 bytes, for AES-128 or AES-256.
#[derive(Clone, PartialEq, Eq, Zeroize, ZeroizeOnDrop)]
pub struct Key {
    bytes: [u8; KEY_BYTES_MAX],
    len: usize,
}

impl Key {
    /// A key of these bytes; None unless there are 16 or 32.
    #[must_use]
    pub fn new(bytes: &[u8]) -> Option<Self> {
        if !matches!(bytes.len(), 16 | 32) {
            return None;
        }
        let mut key = Self { bytes: [0; KEY_BYTES_MAX], len: bytes.len() };
        key.bytes.get_mut(..bytes.len())?.copy_from_slice(bytes);
        Some(key)
    }

    /// A key of random bytes, as long as `wrap` asks for.
    #[must_use]
    pub fn random(wrap: KeyWrap, random: &mut dyn Random) -> Self {
        let len = match wrap {
            KeyWrap::Aes128 => 16,
            KeyWrap::Aes256 => 32,
        };
        let mut key = Self { bytes: [0; KEY_BYTES_MAX], len };
        if let Some(bytes) = key.bytes.get_mut(..len) {
            random.fill(bytes);
        }
        key
    }

    /// Its bytes: for an owner that must keep it.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// The key wrap that it is for.
    #[must_use]
    pub const fn wrap_algorithm(&self) -> KeyWrap {
        if self.len == 16 { KeyWrap::Aes128 } else { KeyWrap::Aes256 }
    }

    /// Wraps bytes (RFC 3394), filled up with zeros to a multiple of 8.
    #[must_use]
    pub fn wrap(&self, plain: &[u8]) -> Vec<u8> {
        let mut padded = Zeroizing::new(Vec::with_capacity(plain.len() + 7));
        padded.extend_from_slice(plain);
        padded.resize(plain.len().next_multiple_of(8), 0);
        let mut out = vec![0; padded.len() + WRAP_EXTRA_BYTES];
        let wrapped = match self.wrap_algorithm() {
            KeyWrap::Aes128 => {
                KwAes128::new_from_slice(self.bytes()).map(|kek| kek.wrap_key(&padded, &mut out).is_ok())
            }
            KeyWrap::Aes256 => {
                KwAes256::new_from_slice(self.bytes()).map(|kek| kek.wrap_key(&padded, &mut out).is_ok())
            }
        };
        debug_assert_eq!(wrapped, Ok(true), "{} bytes", plain.len());
        out
    }

    /// What was wrapped with this key, with its filling; None when it was not.
    #[must_use]
    pub fn unwrap(&self, wrapped: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
        let mut out = Zeroizing::new(vec![0; wrapped.len().checked_sub(WRAP_EXTRA_BYTES)?]);
        // The algorithm is defined from two blocks on.
        if out.len() < 16 || !out.len().is_multiple_of(8) {
            return None;
        }
        let opened = match self.wrap_algorithm() {
            KeyWrap::Aes128 => KwAes128::new_from_slice(self.bytes()).ok()?.unwrap_key(wrapped, &mut out).is_ok(),
            KeyWrap::Aes256 => KwAes256::new_from_slice(self.bytes()).ok()?.unwrap_key(wrapped, &mut out).is_ok(),
        };
        opened.then_some(out)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({} bytes)", self.len)
    }
}

/// The two keys of a session: what a master sends is authenticated with one, what an outstation sends with the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SessionKeys {
    /// Control direction (CDSK).
    pub(super) control: Key,
    /// Monitoring direction (MDSK).
    pub(super) monitor: Key,
}

/// A value that proves a message.
#[derive(Clone, Copy)]
pub struct Mac {
    bytes: [u8; MAC_BYTES_MAX],
    len: usize,
}

impl Mac {
    fn new(bytes: &[u8], len: usize) -> Self {
        let mut mac = Self { bytes: [0; MAC_BYTES_MAX], len: len.min(bytes.len()).min(MAC_BYTES_MAX) };
        mac.bytes.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        mac
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..self.len).unwrap_or_default()
    }

    /// Whether a received value is this one, in a time that does not tell where they differ.
    #[must_use]
    pub fn matches(&self, received: &[u8]) -> bool {
        self.bytes().ct_eq(received).into()
    }
}

impl fmt::Debug for Mac {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Mac({} bytes)", self.len)
    }
}

/// What a MAC is for, with what makes the initialization vector of AES-GMAC differ from every other under its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacUse {
    /// 1 a reply, 2 an aggressive mode request, 3 a session key status.
    pub kind: u8,
    /// Whose keys.
    pub user: u16,
    /// Challenge or key change sequence number.
    pub sequence: u32,
}

impl MacUse {
    /// Of a reply to a challenge.
    pub(super) const fn reply(user: u16, sequence: u32) -> Self {
        Self { kind: 1, user, sequence }
    }

    /// Of an aggressive mode request.
    pub(super) const fn aggressive(user: u16, sequence: u32) -> Self {
        Self { kind: 2, user, sequence }
    }

    /// Of a session key status.
    pub(super) const fn key_status(user: u16, sequence: u32) -> Self {
        Self { kind: 3, user, sequence }
    }

    /// `user 2 | sequence 4 | kind 1 | zeros 5`: unique, because session keys are not used twice and a sequence number
    /// is used once for each kind under its keys. The standard's own layout could not be checked (docs/dnp3-secure.md).
    fn vector(self) -> [u8; 12] {
        let ([a, b], [c, d, e, f]) = (self.user.to_le_bytes(), self.sequence.to_le_bytes());
        [a, b, c, d, e, f, self.kind, 0, 0, 0, 0, 0]
    }
}

/// The MAC over several parts, as if they were one.
#[must_use]
pub fn mac(algorithm: MacAlgorithm, key: &Key, of: MacUse, parts: &[&[u8]]) -> Mac {
    let len = algorithm.bytes();
    match algorithm {
        MacAlgorithm::HmacSha1x4 | MacAlgorithm::HmacSha1x8 | MacAlgorithm::HmacSha1x10 => {
            Mac::new(&hmac_sha1(key.bytes(), parts), len)
        }
        MacAlgorithm::HmacSha256x8 | MacAlgorithm::HmacSha256x16 => Mac::new(&hmac_sha256(key.bytes(), parts), len),
        MacAlgorithm::AesGmac => Mac::new(&gmac(key, of.vector(), parts), len),
    }
}

/// The MAC of changes to users and update keys, not truncated; None for methods that this crate does not do.
#[must_use]
pub fn change_mac(method: KeyChangeMethod, key: &Key, parts: &[&[u8]]) -> Option<Mac> {
    match method {
        KeyChangeMethod::Aes128Sha1 => Some(Mac::new(&hmac_sha1(key.bytes(), parts), 20)),
        KeyChangeMethod::Aes256Sha256 => Some(Mac::new(&hmac_sha256(key.bytes(), parts), 32)),
        KeyChangeMethod::Aes256Gmac
        | KeyChangeMethod::Rsa1024Sha1
        | KeyChangeMethod::Rsa2048Sha256
        | KeyChangeMethod::Rsa3072Sha256
        | KeyChangeMethod::Rsa2048Gmac
        | KeyChangeMethod::Rsa3072Gmac => None,
    }
}

fn hmac_sha1(key: &[u8], parts: &[&[u8]]) -> [u8; 20] {
    let Ok(mut hmac) = Hmac::<Sha1>::new_from_slice(key) else { return [0; 20] };
    parts.iter().for_each(|part| hmac.update(part));
    hmac.finalize().into_bytes().into()
}

fn hmac_sha256(key: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let Ok(mut hmac) = Hmac::<Sha256>::new_from_slice(key) else { return [0; 32] };
    parts.iter().for_each(|part| hmac.update(part));
    hmac.finalize().into_bytes().into()
}

fn encrypt(key: &Key, block: [u8; 16]) -> [u8; 16] {
    let mut block = block.into();
    match key.wrap_algorithm() {
        KeyWrap::Aes128 => {
            if let Ok(aes) = Aes128::new_from_slice(key.bytes()) {
                aes.encrypt_block(&mut block);
            }
        }
        KeyWrap::Aes256 => {
            if let Ok(aes) = Aes256::new_from_slice(key.bytes()) {
                aes.encrypt_block(&mut block);
            }
        }
    }
    block.into()
}

/// AES-GCM of no plain text (NIST SP 800-38D 6.4, 7.1): `GHASH(H, parts | padding | bits of parts | 0) ^ E(iv | 1)`.
fn gmac(key: &Key, vector: [u8; 12], parts: &[&[u8]]) -> [u8; 16] {
    let hash_key = Zeroizing::new(encrypt(key, [0; 16]));
    let mut hash = GHash::new_from_slice(hash_key.as_slice()).unwrap_or_else(|_| GHash::new(&[0; 16].into()));
    let mut bytes: u64 = 0;
    let mut block = [0; 16];
    let mut filled = 0;
    for byte in parts.iter().copied().flatten() {
        if let Some(place) = block.get_mut(filled) {
            *place = *byte;
        }
        (filled, bytes) = (filled + 1, bytes + 1);
        if filled == block.len() {
            hash.update(&[block.into()]);
            (block, filled) = ([0; 16], 0);
        }
    }
    if filled > 0 {
        hash.update(&[block.into()]);
    }
    let mut lengths = [0; 16];
    let [bits, _] = lengths.as_chunks_mut::<8>().0 else { return [0; 16] };
    *bits = (bytes * 8).to_be_bytes();
    hash.update(&[lengths.into()]);
    let sum: [u8; 16] = hash.finalize().into();
    let mut counter = [0; 16];
    counter.iter_mut().zip(vector).for_each(|(to, from)| *to = from);
    if let Some(last) = counter.last_mut() {
        *last = 1;
    }
    let mut tag = encrypt(key, counter);
    tag.iter_mut().zip(sum).for_each(|(to, from)| *to ^= from);
    tag
}

#[cfg(test)]
#[path = "tests/crypto.rs"]
mod tests;
