//! The padding of PKCS#1 v1.5 (RFC 8017 clauses 7.2 and 9.2), on blocks of 256 bytes.

use crate::content::{DIGEST_BYTES, fill_random};
use crate::{CryptoError, MODULUS_BYTES};
use std::fmt;
use subtle::{Choice, ConditionallySelectable, ConstantTimeEq};
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

/// The longest content key in bytes that comes out of a block; RSFN needs 44.
pub const KEY_BYTES_MAX: usize = 64;

/// Padding bytes that a block has at least (RFC 8017 clause 7.2.1), and the three around them.
const PADDING_MIN: usize = 8 + 3;

/// The DER of "this is a SHA-256 digest" (RFC 8017 clause 9.2 note 1).
const SHA256_PREFIX: [u8; 19] =
    [0x30, 0x31, 0x30, 0x0d, 0x06, 0x09, 0x60, 0x86, 0x48, 0x01, 0x65, 0x03, 0x04, 0x02, 0x01, 0x05, 0x00, 0x04, 0x20];

/// EMSA-PKCS1-v1_5: 00 01 FF…FF 00, what the hash is, the digest.
pub(crate) fn pad_digest(digest: &[u8; DIGEST_BYTES]) -> [u8; MODULUS_BYTES] {
    let mut block = [0xff; MODULUS_BYTES];
    let (front, digest_place) = block.split_at_mut(MODULUS_BYTES - DIGEST_BYTES);
    digest_place.copy_from_slice(digest);
    let (front, prefix) = front.split_at_mut(front.len() - SHA256_PREFIX.len());
    prefix.copy_from_slice(&SHA256_PREFIX);
    front[0] = 0;
    front[1] = 1;
    front[front.len() - 1] = 0;
    block
}

/// EME-PKCS1-v1_5: 00 02, random bytes but zero, 00, the text.
pub(crate) fn pad_key(text: &[u8]) -> Result<Zeroizing<[u8; MODULUS_BYTES]>, CryptoError> {
    let random = MODULUS_BYTES.checked_sub(text.len() + 3).filter(|_| text.len() + PADDING_MIN <= MODULUS_BYTES);
    let random = random.ok_or(CryptoError::Length)?;
    let mut block = Zeroizing::new([0; MODULUS_BYTES]);
    block[1] = 2;
    fill_nonzero(&mut block[2..2 + random])?;
    block[MODULUS_BYTES - text.len()..].copy_from_slice(text);
    Ok(block)
}

/// Draws again for each zero; one byte of 256 is.
fn fill_nonzero(out: &mut [u8]) -> Result<(), CryptoError> {
    fill_random(out)?;
    for byte in out {
        while *byte == 0 {
            fill_random(std::slice::from_mut(byte))?;
        }
    }
    Ok(())
}

/// A decrypted text, or random bytes in its place. Wiped when dropped.
///
/// An attacker who learns whether the padding of a block of his own making was right can decrypt with the key
/// (D. Bleichenbacher 1998, H. Kario 2023). So a wrong padding looks like a right one: random bytes of a length that
/// is asked for come out, and the content's tag or signature fails later, as for any wrong key.
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct KeyBlock {
    bytes: [u8; KEY_BYTES_MAX],
    length: usize,
    genuine: u8,
}

impl KeyBlock {
    /// What was decrypted, or as many random bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Whether the padding was right. For the audit after the answer was sent; an answer must not depend on it.
    #[must_use]
    pub fn is_genuine(&self) -> bool {
        self.genuine == 1
    }
}

impl fmt::Debug for KeyBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyBlock(..)")
    }
}

/// Takes the text out of a padded block, if it has one of `lengths` (1 to 64 bytes each); else random bytes of the
/// first length. `possible` is whether the block came out of a legal number.
///
/// Reads the same bytes and takes the same steps for every block. With more than one length, the length of what comes
/// out tells which it was; to have a block of a wrong length accepted takes a right padding.
pub(crate) fn unpad(block: &[u8; MODULUS_BYTES], lengths: &[usize], possible: Choice) -> Result<KeyBlock, CryptoError> {
    let first = lengths.first().copied().ok_or(CryptoError::Length)?;
    if lengths.iter().any(|length| !(1..=KEY_BYTES_MAX).contains(length)) {
        return Err(CryptoError::Length);
    }
    let mut key = KeyBlock { bytes: [0; KEY_BYTES_MAX], length: first, genuine: 0 };
    fill_random(&mut key.bytes)?;
    let mut chosen_length = first as u64;
    for &length in lengths {
        let here = possible & is_padded(block, length);
        for (byte, text) in key.bytes.iter_mut().zip(&block[MODULUS_BYTES - length..]) {
            byte.conditional_assign(text, here);
        }
        chosen_length.conditional_assign(&(length as u64), here);
        key.genuine |= here.unwrap_u8();
    }
    key.length = chosen_length as usize;
    Ok(key)
}

/// As [`unpad`], for a padding that the library took off; none when it was wrong.
pub(crate) fn from_text(text: Option<&[u8]>, lengths: &[usize]) -> Result<KeyBlock, CryptoError> {
    let mut block = Zeroizing::new([1; MODULUS_BYTES]);
    let text = text.filter(|text| text.len() + PADDING_MIN <= MODULUS_BYTES);
    let genuine = Choice::from(u8::from(text.is_some()));
    let text = text.unwrap_or_default();
    (block[0], block[1], block[MODULUS_BYTES - text.len() - 1]) = (0, 2, 0);
    block[MODULUS_BYTES - text.len()..].copy_from_slice(text);
    unpad(&block, lengths, genuine)
}

/// Whether the block is 00 02, no zero, 00, and `length` bytes.
fn is_padded(block: &[u8; MODULUS_BYTES], length: usize) -> Choice {
    let end = MODULUS_BYTES - length - 1;
    let mut right = block[0].ct_eq(&0) & block[1].ct_eq(&2) & block[end].ct_eq(&0);
    for byte in &block[2..end] {
        right &= !byte.ct_eq(&0);
    }
    right
}
