//! Public keys.

use crate::content::DIGEST_BYTES;
use crate::lanes::LaneModulus;
use crate::{CryptoError, KeyError, MODULUS_BYTES};
use aws_lc_rs::digest::{Digest, SHA256};
use aws_lc_rs::rsa::{
    OAEP_SHA256_MGF1SHA256, OaepPublicEncryptingKey, Pkcs1PublicEncryptingKey, PublicEncryptingKey,
    PublicKey as Numbers,
};
use aws_lc_rs::signature::{ParsedPublicKey, RSA_PKCS1_2048_8192_SHA256, RSA_PSS_2048_8192_SHA256};
use std::fmt;
use std::sync::Arc;
use subtle::ConstantTimeEq;

/// The exponent that nearly every key has, and the only one that the lanes serve.
const F4: [u8; 3] = [1, 0, 1];

/// An RSA-2048 public key. Clones share it.
#[derive(Clone)]
pub struct PublicKey(Arc<Inner>);

struct Inner {
    spki: Vec<u8>,
    modulus: [u8; MODULUS_BYTES],
    lane: Option<LaneModulus>,
    encrypt: Pkcs1PublicEncryptingKey,
    encrypt_oaep: OaepPublicEncryptingKey,
    verify: ParsedPublicKey,
    verify_pss: ParsedPublicKey,
}

impl PublicKey {
    /// From the DER of a `SubjectPublicKeyInfo` (RFC 5280 clause 4.1.2.7).
    ///
    /// # Errors
    /// Not DER, not RSA, or not of 2048 bits.
    pub fn from_spki_der(spki: &[u8]) -> Result<Self, KeyError> {
        let unusable = |_| KeyError::Inconsistent;
        let numbers = Numbers::from_der(spki).map_err(|e| KeyError::Malformed(format!("public key: {e}")))?;
        let modulus = numbers.modulus();
        let bytes = modulus.big_endian_without_leading_zero();
        let modulus = bytes.try_into().ok().filter(|m: &[u8; MODULUS_BYTES]| m[0] >= 0x80);
        let modulus = modulus.ok_or(KeyError::Size(bits(bytes)))?;
        let f4 = numbers.exponent().big_endian_without_leading_zero() == F4;
        let encrypting = || PublicEncryptingKey::from_der(spki).map_err(|_| KeyError::NotRsa);
        Ok(Self(Arc::new(Inner {
            spki: spki.to_vec(),
            modulus,
            lane: f4.then(|| LaneModulus::new(&modulus)),
            encrypt: Pkcs1PublicEncryptingKey::new(encrypting()?).map_err(unusable)?,
            encrypt_oaep: OaepPublicEncryptingKey::new(encrypting()?).map_err(unusable)?,
            verify: ParsedPublicKey::new(&RSA_PKCS1_2048_8192_SHA256, spki).map_err(|_| KeyError::NotRsa)?,
            verify_pss: ParsedPublicKey::new(&RSA_PSS_2048_8192_SHA256, spki).map_err(|_| KeyError::NotRsa)?,
        })))
    }

    /// The DER of the `SubjectPublicKeyInfo`.
    #[must_use]
    pub fn spki_der(&self) -> &[u8] {
        &self.0.spki
    }

    /// The modulus, highest byte first.
    #[must_use]
    pub fn modulus(&self) -> &[u8; MODULUS_BYTES] {
        &self.0.modulus
    }

    /// Whether `signature` is one of `digest` (SHA-256) by RSASSA-PKCS1-v1_5.
    #[must_use]
    pub fn verify(&self, digest: &[u8; DIGEST_BYTES], signature: &[u8]) -> bool {
        verify_with(&self.0.verify, digest, signature)
    }

    /// Whether `signature` is one of `digest` by RSASSA-PSS, SHA-256, a salt of 32 bytes.
    #[must_use]
    pub fn verify_pss(&self, digest: &[u8; DIGEST_BYTES], signature: &[u8]) -> bool {
        verify_with(&self.0.verify_pss, digest, signature)
    }

    /// Encrypts up to 245 bytes by RSAES-PKCS1-v1_5.
    ///
    /// # Errors
    /// [`CryptoError::Length`]: the text is too long.
    pub fn encrypt(&self, text: &[u8]) -> Result<[u8; MODULUS_BYTES], CryptoError> {
        let mut out = [0; MODULUS_BYTES];
        self.0.encrypt.encrypt(text, &mut out).map_err(|_| CryptoError::Length)?;
        Ok(out)
    }

    /// Encrypts up to 190 bytes by RSAES-OAEP, SHA-256 in both places, no label.
    ///
    /// # Errors
    /// [`CryptoError::Length`]: the text is too long.
    pub fn encrypt_oaep(&self, text: &[u8]) -> Result<[u8; MODULUS_BYTES], CryptoError> {
        let mut out = [0; MODULUS_BYTES];
        let done = self.0.encrypt_oaep.encrypt(&OAEP_SHA256_MGF1SHA256, text, &mut out, None);
        done.map_err(|_| CryptoError::Length)?;
        Ok(out)
    }

    pub(crate) fn lane(&self) -> Option<&LaneModulus> {
        self.0.lane.as_ref()
    }
}

fn verify_with(key: &ParsedPublicKey, digest: &[u8; DIGEST_BYTES], signature: &[u8]) -> bool {
    Digest::import_less_safe(digest, &SHA256).is_ok_and(|digest| key.verify_digest_sig(&digest, signature).is_ok())
}

fn bits(number: &[u8]) -> usize {
    number.first().map_or(0, |first| number.len() * 8 - first.leading_zeros() as usize)
}

impl PartialEq for PublicKey {
    fn eq(&self, other: &Self) -> bool {
        self.0.spki.ct_eq(&other.0.spki).into()
    }
}

impl Eq for PublicKey {}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, ..] = self.0.modulus;
        write!(f, "PublicKey({a:02x}{b:02x}{c:02x}{d:02x}..)")
    }
}
