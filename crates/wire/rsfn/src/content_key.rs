//! The key of one message's content, as C14 carries it.

use crate::{ContentCipher, Crypto, IvPlace, Secret, Tag};
use zeroize::{Zeroize, ZeroizeOnDrop};

/// Bytes of what C14 may hold.
pub(crate) const fn key_lengths(cipher: ContentCipher) -> &'static [usize] {
    match cipher {
        ContentCipher::TripleDesCbc => &[24],
        ContentCipher::Aes256Gcm(_) => &[44, 32],
    }
}

/// Bytes that triple DES works on at a time.
pub(crate) const BLOCK: usize = 8;

/// Key and initialization vector.
#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) enum ContentKey {
    TripleDes { key: [u8; 24], iv: [u8; BLOCK] },
    Aes { key: [u8; 32], iv: [u8; 12] },
}

impl ContentKey {
    /// From what C14 holds. None when its length is not one of the cipher's.
    pub(crate) fn read(cipher: ContentCipher, bytes: &[u8]) -> Option<Self> {
        match cipher {
            ContentCipher::TripleDesCbc => {
                let key: [u8; 24] = bytes.try_into().ok()?;
                Some(Self::TripleDes { key, iv: *key.first_chunk()? })
            }
            ContentCipher::Aes256Gcm(_) => {
                let (key, rest) = bytes.split_first_chunk::<32>()?;
                let iv = if rest.is_empty() { key.first_chunk()? } else { rest.try_into().ok()? };
                Some(Self::Aes { key: *key, iv: *iv })
            }
        }
    }

    /// Encrypts in place; the tag when the cipher has one. Triple DES takes multiples of [`BLOCK`].
    pub(crate) fn seal(&self, crypto: &impl Crypto, content: &mut [u8]) -> Option<Tag> {
        match self {
            Self::TripleDes { key, iv } => {
                crypto.tdes_cbc_encrypt(key, iv, content);
                None
            }
            Self::Aes { key, iv } => Some(crypto.aes256_gcm_seal(key, iv, content)),
        }
    }
}

impl Secret {
    /// Gives keys of triple DES odd parity, which some hardware insists on.
    pub(crate) fn for_cipher(mut self, cipher: ContentCipher) -> Self {
        if cipher == ContentCipher::TripleDesCbc {
            self.0.iter_mut().for_each(|byte| *byte ^= u8::from(byte.count_ones() % 2 == 0));
        }
        self
    }

    /// The bytes that go into C14.
    pub(crate) fn wrapped(&self, cipher: ContentCipher) -> &[u8] {
        let bytes = match cipher {
            ContentCipher::TripleDesCbc => 24,
            ContentCipher::Aes256Gcm(IvPlace::BehindKey) => 44,
            ContentCipher::Aes256Gcm(IvPlace::KeyPrefix) => 32,
        };
        self.0.get(..bytes).unwrap_or_default()
    }
}

/// Zeros that fill `bytes` up to a multiple of [`BLOCK`].
pub(crate) fn padding(bytes: usize) -> &'static [u8] {
    [0; BLOCK].get(..bytes.wrapping_neg() % BLOCK).unwrap_or_default()
}

/// How many of the last bytes of content of protocol 2 are zeros that may be padding: at most 7.
pub(crate) fn padded_bytes(content: &[u8]) -> usize {
    if !content.len().is_multiple_of(BLOCK) {
        return 0;
    }
    content.iter().rev().take(BLOCK - 1).take_while(|&&byte| byte == 0).count()
}
