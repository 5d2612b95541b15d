//! Certificates, and keys that come with them.

use crate::key::public_pem;
use crate::{KeyError, PrivateKey, PublicKey};
use der::{Decode, Encode};
use p12_keystore::Pkcs12Archive;
use std::fmt;
use x509_cert::Certificate as X509;

/// A certificate (RFC 5280) as far as Tieline reads it. Nothing here says whether it is to be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The serial number, highest octet first, without a leading zero.
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
        let start = serial.iter().position(|&octet| octet != 0).unwrap_or(serial.len());
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
