//! Private keys.

use crate::content::DIGEST_BYTES;
use crate::lanes::{LaneKey, Parts};
use crate::padding::pad_digest;
use crate::single::RawKey;
use crate::token::{Found, TokenKey};
use crate::{Certificate, CryptoError, KeyError, MODULUS_BYTES, PublicKey, TokenUri};
use aws_lc_rs::digest::{Digest, SHA256};
use aws_lc_rs::encoding::{AsDer, Pkcs8V1Der, PublicKeyX509Der};
use aws_lc_rs::rsa::{KeyPair, KeySize, OAEP_SHA256_MGF1SHA256, OaepPrivateDecryptingKey, PrivateDecryptingKey};
use aws_lc_rs::signature::{KeyPair as _, RSA_PKCS1_SHA256, RSA_PSS_SHA256, RsaEncoding};
use der::asn1::UintRef;
use der::{Decode, Document, SecretDocument};
use pkcs8::{EncryptedPrivateKeyInfoRef, ObjectIdentifier, PrivateKeyInfoRef};
use std::fmt;
use std::sync::Arc;
use zeroize::Zeroizing;

/// rsaEncryption (RFC 8017 clause A.1).
const RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.1");

/// RFC 8017 clause A.1.2, two primes.
#[derive(der::Sequence)]
struct RsaPrivateKey<'a> {
    version: u8,
    modulus: UintRef<'a>,
    public_exponent: UintRef<'a>,
    private_exponent: UintRef<'a>,
    prime_p: UintRef<'a>,
    prime_q: UintRef<'a>,
    exponent_p: UintRef<'a>,
    exponent_q: UintRef<'a>,
    coefficient: UintRef<'a>,
}

/// An RSA-2048 private key, in memory or in a token. Clones share it. In memory, its numbers were checked against each
/// other, and it is wiped with the last clone.
#[derive(Clone)]
pub struct PrivateKey(Arc<Inner>);

struct Inner {
    public: PublicKey,
    place: Place,
}

enum Place {
    Memory(Box<Held>),
    Token(TokenKey),
}

struct Held {
    signer: KeyPair,
    oaep: OaepPrivateDecryptingKey,
    raw: RawKey,
    lane: Option<LaneKey>,
}

impl PrivateKey {
    /// From the DER of PKCS#8, not encrypted (RFC 5958).
    ///
    /// # Errors
    /// Not DER, not RSA, not of 2048 bits, or numbers that do not belong together.
    pub fn from_pkcs8_der(pkcs8: &[u8]) -> Result<Self, KeyError> {
        let info = PrivateKeyInfoRef::from_der(pkcs8).map_err(|e| KeyError::Malformed(format!("PKCS#8: {e}")))?;
        if info.algorithm.oid != RSA {
            return Err(KeyError::NotRsa);
        }
        Self::from_pkcs1_der(info.private_key.as_bytes())
    }

    /// From the DER of encrypted PKCS#8 (PBES2: PBKDF2 or scrypt, AES).
    ///
    /// # Errors
    /// As [`PrivateKey::from_pkcs8_der`], and [`KeyError::Password`].
    pub fn from_encrypted_pkcs8_der(pkcs8: &[u8], password: &str) -> Result<Self, KeyError> {
        let malformed = |e| KeyError::Malformed(format!("encrypted PKCS#8: {e}"));
        let info = EncryptedPrivateKeyInfoRef::from_der(pkcs8).map_err(malformed)?;
        let opened = info.decrypt(password.as_bytes()).map_err(|_| KeyError::Password)?;
        Self::from_pkcs8_der(opened.as_bytes())
    }

    /// From the DER of an `RSAPrivateKey` (PKCS#1).
    ///
    /// # Errors
    /// As [`PrivateKey::from_pkcs8_der`].
    pub fn from_pkcs1_der(pkcs1: &[u8]) -> Result<Self, KeyError> {
        let numbers = RsaPrivateKey::from_der(pkcs1).map_err(|e| KeyError::Malformed(format!("RSA key: {e}")))?;
        let modulus = numbers.modulus.as_bytes();
        if numbers.version != 0 || modulus.len() != MODULUS_BYTES || modulus[0] < 0x80 {
            return Err(KeyError::Size(modulus.len() * 8));
        }
        let signer = KeyPair::from_der(pkcs1).map_err(|_| KeyError::Inconsistent)?;
        let raw = RawKey::from_pkcs1(pkcs1).ok_or(KeyError::Inconsistent)?;
        let spki: PublicKeyX509Der<'_> = signer.public_key().as_der().map_err(|_| KeyError::Inconsistent)?;
        let public = PublicKey::from_spki_der(spki.as_ref())?;
        let parts = Parts {
            prime_p: numbers.prime_p.as_bytes(),
            prime_q: numbers.prime_q.as_bytes(),
            exponent_p: numbers.exponent_p.as_bytes(),
            exponent_q: numbers.exponent_q.as_bytes(),
            coefficient: numbers.coefficient.as_bytes(),
        };
        // The lanes check their results with e = 65537.
        let lane = public.lane().and_then(|_| LaneKey::new(&parts));
        let pkcs8: Pkcs8V1Der<'_> = signer.as_der().map_err(|_| KeyError::Inconsistent)?;
        let decrypting = PrivateDecryptingKey::from_pkcs8(pkcs8.as_ref()).map_err(|_| KeyError::Inconsistent)?;
        let oaep = OaepPrivateDecryptingKey::new(decrypting).map_err(|_| KeyError::Inconsistent)?;
        let place = Place::Memory(Box::new(Held { signer, oaep, raw, lane }));
        Ok(Self(Arc::new(Inner { public, place })))
    }

    /// From a token, which keeps it. The certificate is `certificate`, or the one that lies beside the key.
    ///
    /// # Errors
    /// [`KeyError::Token`]: what the token or its module says; [`KeyError::Password`]: of the PIN; [`KeyError::Keys`]:
    /// how many keys have that name, unless one; [`KeyError::Certificate`]: there is none;
    /// [`KeyError::Inconsistent`]: it is that of another key.
    pub fn from_token(
        uri: &TokenUri,
        pin: Option<&str>,
        certificate: Option<Certificate>,
    ) -> Result<(Self, Certificate), KeyError> {
        let Found { key, certificate: beside } = TokenKey::find(uri, pin)?;
        let certificate = certificate.or(beside).ok_or(KeyError::Certificate)?;
        let public = certificate.public_key.clone();
        if !key.belongs_to(&public)? {
            return Err(KeyError::Inconsistent);
        }
        Ok((Self(Arc::new(Inner { public, place: Place::Token(key) })), certificate))
    }

    /// From PEM: `PRIVATE KEY`, `ENCRYPTED PRIVATE KEY` with its password, or `RSA PRIVATE KEY`.
    ///
    /// # Errors
    /// As [`PrivateKey::from_pkcs8_der`], and [`KeyError::Password`].
    pub fn from_pem(pem: &str, password: Option<&str>) -> Result<Self, KeyError> {
        let malformed = |e| KeyError::Malformed(format!("PEM: {e}"));
        let (label, der) = SecretDocument::from_pem(pem).map_err(malformed)?;
        match label {
            "PRIVATE KEY" => Self::from_pkcs8_der(der.as_bytes()),
            "RSA PRIVATE KEY" => Self::from_pkcs1_der(der.as_bytes()),
            "ENCRYPTED PRIVATE KEY" => {
                Self::from_encrypted_pkcs8_der(der.as_bytes(), password.ok_or(KeyError::Password)?)
            }
            other => Err(KeyError::Malformed(format!("PEM: a private key is expected, not {other}"))),
        }
    }

    /// Makes a new key, and gives its PKCS#8 out this once. Takes about a tenth of a second.
    ///
    /// # Errors
    /// [`KeyError::Inconsistent`]: the library could not make one.
    pub fn generate() -> Result<(Self, Zeroizing<Vec<u8>>), KeyError> {
        let pair = KeyPair::generate(KeySize::Rsa2048).map_err(|_| KeyError::Inconsistent)?;
        let pkcs8: Pkcs8V1Der<'_> = pair.as_der().map_err(|_| KeyError::Inconsistent)?;
        let pkcs8 = Zeroizing::new(pkcs8.as_ref().to_vec());
        Ok((Self::from_pkcs8_der(&pkcs8)?, pkcs8))
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> &PublicKey {
        &self.0.public
    }

    /// Signs a SHA-256 digest by RSASSA-PKCS1-v1_5.
    ///
    /// # Errors
    /// [`CryptoError::Fault`]: the library failed.
    pub fn sign(&self, digest: &[u8; DIGEST_BYTES]) -> Result<[u8; MODULUS_BYTES], CryptoError> {
        if let Place::Token(key) = &self.0.place {
            return key.raw(&pad_digest(digest)).map(|signature| *signature);
        }
        self.sign_with(&RSA_PKCS1_SHA256, digest)
    }

    /// Signs a SHA-256 digest by RSASSA-PSS with a salt of 32 bytes; a key in a token does not.
    ///
    /// # Errors
    /// [`CryptoError::Fault`]: the library failed.
    pub fn sign_pss(&self, digest: &[u8; DIGEST_BYTES]) -> Result<[u8; MODULUS_BYTES], CryptoError> {
        self.sign_with(&RSA_PSS_SHA256, digest)
    }

    fn sign_with(
        &self,
        encoding: &'static dyn RsaEncoding,
        digest: &[u8; DIGEST_BYTES],
    ) -> Result<[u8; MODULUS_BYTES], CryptoError> {
        let Place::Memory(held) = &self.0.place else { return Err(CryptoError::Token) };
        let mut out = [0; MODULUS_BYTES];
        let digest = Digest::import_less_safe(digest, &SHA256).map_err(|_| CryptoError::Fault)?;
        held.signer.sign_digest(encoding, &digest, &mut out).map_err(|_| CryptoError::Fault)?;
        Ok(out)
    }

    /// Decrypts by RSAES-OAEP, SHA-256 in both places, no label; none when that fails, as for a key in a token.
    pub(crate) fn decrypt_oaep(&self, block: &[u8; MODULUS_BYTES]) -> Option<Zeroizing<Vec<u8>>> {
        let Place::Memory(held) = &self.0.place else { return None };
        let mut out = Zeroizing::new(vec![0; MODULUS_BYTES]);
        let text = held.oaep.decrypt(&OAEP_SHA256_MGF1SHA256, block, &mut out, None).ok()?.len();
        out.truncate(text);
        Some(out)
    }

    /// number^d mod n, one at a time; the number is between 2 and n - 2.
    pub(crate) fn raw(&self, number: &[u8; MODULUS_BYTES]) -> Result<Zeroizing<[u8; MODULUS_BYTES]>, CryptoError> {
        match &self.0.place {
            Place::Memory(held) => held.raw.private(number),
            Place::Token(key) => key.raw(number),
        }
    }

    /// Whether operations wait for a token, and several are better asked for at once.
    #[must_use]
    pub fn is_in_token(&self) -> bool {
        matches!(self.0.place, Place::Token(_))
    }

    pub(crate) fn lane(&self) -> Option<&LaneKey> {
        match &self.0.place {
            Place::Memory(held) => held.lane.as_ref(),
            Place::Token(_) => None,
        }
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PrivateKey of {:?}", self.0.public)
    }
}

/// Encrypts a PKCS#8 key with a password (PBES2: scrypt, AES-256-CBC) and returns its PEM.
///
/// # Errors
/// [`KeyError::Malformed`]: not the DER of PKCS#8.
pub fn encrypt_pkcs8(pkcs8: &[u8], password: &str) -> Result<Zeroizing<String>, KeyError> {
    let malformed = |e: String| KeyError::Malformed(format!("PKCS#8: {e}"));
    let info = PrivateKeyInfoRef::from_der(pkcs8).map_err(|e| malformed(e.to_string()))?;
    let closed = info.encrypt(password.as_bytes()).map_err(|e| malformed(e.to_string()))?;
    closed.to_pem("ENCRYPTED PRIVATE KEY", pkcs8::LineEnding::LF).map_err(|e| malformed(e.to_string()))
}

/// The DER inside a PEM of a public thing, and its label.
pub(crate) fn public_pem(pem: &str) -> Result<(&str, Document), KeyError> {
    Document::from_pem(pem).map_err(|e| KeyError::Malformed(format!("PEM: {e}")))
}
