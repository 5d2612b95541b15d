//! Certificates, and keys that come with them.

use crate::key::public_pem;
use crate::{KeyError, PrivateKey, PublicKey, sha256};
use der::asn1::{Any, BitString, ObjectIdentifier, SetOfVec};
use der::pem::LineEnding;
use der::{Decode, Encode, EncodePem};
use p12_keystore::Pkcs12Archive;
use std::fmt;
use std::str::FromStr;
use x509_cert::Certificate as X509;
use x509_cert::name::Name;
use x509_cert::request::{CertReq, CertReqInfo, Version};
use x509_cert::spki::{AlgorithmIdentifierOwned, SubjectPublicKeyInfoOwned};

/// sha256WithRSAEncryption (RFC 8017 clause A.2.4).
const SHA256_WITH_RSA: ObjectIdentifier = ObjectIdentifier::new_unwrap("1.2.840.113549.1.1.11");

/// A certificate (RFC 5280) as far as Tieline reads it. Nothing here says whether it is to be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The serial number, highest byte first, without a leading zero.
    pub serial: Vec<u8>,
    /// The subject's name, as RFC 4514 writes it.
    pub subject: String,
    /// The issuer's name, as RFC 4514 writes it.
    pub issuer: String,
    /// The first second of its validity, since 1970-01-01T00:00:00Z.
    pub not_before: u64,
    /// The last second of its validity, since 1970-01-01T00:00:00Z.
    pub not_after: u64,
    /// The key that it speaks for.
    pub public_key: PublicKey,
    /// The whole certificate.
    pub der: Vec<u8>,
}

impl Certificate {
    /// Reads the DER of a certificate.
    ///
    /// # Errors
    /// Not a certificate, or its key is not RSA of 2048 bits.
    pub fn from_der(der: &[u8]) -> Result<Self, KeyError> {
        let malformed = |e: der::Error| KeyError::Malformed(format!("certificate: {e}"));
        let x509 = X509::from_der(der).map_err(malformed)?;
        let body = x509.tbs_certificate();
        let spki = body.subject_public_key_info().to_der().map_err(malformed)?;
        let serial = body.serial_number().as_bytes();
        let start = serial.iter().position(|&byte| byte != 0).unwrap_or(serial.len());
        let validity = body.validity();
        Ok(Self {
            serial: serial.get(start..).unwrap_or_default().to_vec(),
            subject: body.subject().to_string(),
            issuer: body.issuer().to_string(),
            not_before: validity.not_before.to_unix_duration().as_secs(),
            not_after: validity.not_after.to_unix_duration().as_secs(),
            public_key: PublicKey::from_spki_der(&spki)?,
            der: der.to_vec(),
        })
    }

    /// Reads the PEM of one certificate.
    ///
    /// # Errors
    /// As [`Certificate::from_der`].
    pub fn from_pem(pem: &str) -> Result<Self, KeyError> {
        match public_pem(pem)? {
            ("CERTIFICATE", der) => Self::from_der(der.as_bytes()),
            (other, _) => Err(KeyError::Malformed(format!("PEM: a certificate is expected, not {other}"))),
        }
    }
}

/// Asks an authority for a certificate: PKCS#10 (RFC 2986), signed with `key`, as PEM. `subject` is written as RFC 4514
/// has it, the most special part first: `CN=BANK T001,OU=ISPB-12345678,O=ICP-Brasil,C=BR`.
///
/// # Errors
/// [`KeyError::Malformed`]: the subject is not such a name. [`KeyError::Inconsistent`]: the key cannot sign.
pub fn certificate_request(key: &PrivateKey, subject: &str) -> Result<String, KeyError> {
    let malformed = |e: der::Error| KeyError::Malformed(format!("subject: {e}"));
    let info = CertReqInfo {
        version: Version::V1,
        subject: Name::from_str(subject).map_err(malformed)?,
        public_key: SubjectPublicKeyInfoOwned::from_der(key.public().spki_der()).map_err(malformed)?,
        attributes: SetOfVec::default(),
    };
    let signature = key.sign(&sha256(&info.to_der().map_err(malformed)?)).map_err(|_| KeyError::Inconsistent)?;
    let algorithm = AlgorithmIdentifierOwned { oid: SHA256_WITH_RSA, parameters: Some(Any::null()) };
    let signature = BitString::from_bytes(&signature).map_err(malformed)?;
    CertReq { info, algorithm, signature }.to_pem(LineEnding::LF).map_err(malformed)
}

/// A private key, and the certificates that came in the same container.
#[derive(Clone)]
pub struct Identity {
    /// The key.
    pub key: PrivateKey,
    /// The certificate of that key, if it was there.
    pub certificate: Option<Certificate>,
    /// The DER of the other certificates, in the container's order.
    pub others: Vec<Vec<u8>>,
}

impl Identity {
    /// Opens a PKCS#12 container (RFC 7292) that holds one private key.
    ///
    /// # Errors
    /// Not PKCS#12, a wrong password, more keys than one, or a key that [`PrivateKey::from_pkcs8_der`] refuses.
    pub fn from_pkcs12(der: &[u8], password: &str) -> Result<Self, KeyError> {
        let archive = Pkcs12Archive::from_pkcs12(der, password).map_err(|e| blame(&e))?;
        let [bag] = archive.keys.as_slice() else { return Err(KeyError::Keys(archive.keys.len())) };
        let key = PrivateKey::from_pkcs8_der(bag.key.as_der())?;
        let mut identity = Self { key, certificate: None, others: Vec::new() };
        for bag in &archive.certs {
            let der = bag.cert.as_der();
            match Certificate::from_der(der) {
                Ok(own) if own.public_key == *identity.key.public() && identity.certificate.is_none() => {
                    identity.certificate = Some(own);
                }
                // An authority's key may be of any kind.
                Ok(_) | Err(_) => identity.others.push(der.to_vec()),
            }
        }
        Ok(identity)
    }
}

fn blame(error: &p12_keystore::error::Error) -> KeyError {
    use p12_keystore::error::Error;
    match error {
        Error::MacError(_) | Error::Pkcs5Error(_) => KeyError::Password,
        other => KeyError::Malformed(format!("PKCS#12: {other}")),
    }
}

impl fmt::Debug for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("key", &self.key).field("certificate", &self.certificate).finish()
    }
}
