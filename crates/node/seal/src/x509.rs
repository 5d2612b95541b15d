//! Certificates and certificate requests as an institution of the network needs them, written as DER (X.690).
//!
//! Reading is `tieline-crypto`'s; here a subject is written, a request for an authority, and a certificate that signs
//! itself, for tests and first steps.

use crate::Ispb;
use base64::Engine as _;
use tieline_crypto::{CryptoError, PrivateKey, fill_random, sha256};

/// Bytes of a serial that is drawn here; the highest bit is 0 (RFC 5280 clause 4.1.2.2: at most 20 bytes).
const SERIAL_BYTES: usize = 16;
/// sha256WithRSAEncryption (RFC 4055 clause 5) and its NULL.
const SHA256_RSA: [u8; 15] = [0x30, 0x0d, 0x06, 0x09, 0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01, 0x0b, 0x05, 0x00];

const COUNTRY: u8 = 6;
const ORGANIZATION: u8 = 10;
const UNIT: u8 = 11;
const COMMON_NAME: u8 = 3;

/// Whom a certificate is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subject {
    /// The common name, as in `BANCO X P001`.
    pub name: String,
    /// The institution.
    pub ispb: Ispb,
    /// The authority, written as `OU=CSPB-n`.
    pub authority: Option<u8>,
}

impl Subject {
    fn der(&self) -> Vec<u8> {
        let mut units = vec![format!("ISPB-{}", self.ispb)];
        units.extend(self.authority.map(|authority| format!("CSPB-{authority}")));
        let mut names = vec![named(COUNTRY, "BR"), named(ORGANIZATION, "ICP-Brasil")];
        names.extend(units.iter().map(|unit| named(UNIT, unit)));
        names.push(named(COMMON_NAME, &self.name));
        tlv(0x30, &names.concat())
    }
}

/// A certification request (PKCS#10, RFC 2986) as DER.
///
/// # Errors
/// The library failed to sign.
pub fn request(key: &PrivateKey, subject: &Subject) -> Result<Vec<u8>, CryptoError> {
    let body = [tlv(0x02, &[0]), subject.der(), key.public().spki_der().to_vec(), tlv(0xa0, &[])].concat();
    signed(key, &tlv(0x30, &body))
}

/// A certificate that signs itself, as DER; valid between two times, in seconds since 1970-01-01T00:00:00Z.
///
/// # Errors
/// The library failed to sign or gave no random serial.
pub fn self_signed(
    key: &PrivateKey,
    subject: &Subject,
    not_before: u64,
    not_after: u64,
) -> Result<Vec<u8>, CryptoError> {
    let mut serial = [0; SERIAL_BYTES];
    fill_random(&mut serial)?;
    // Positive, and without a zero in front.
    serial[0] = serial[0] & 0x3f | 0x40;
    let name = subject.der();
    let validity = tlv(0x30, &[time(not_before), time(not_after)].concat());
    let spki = key.public().spki_der().to_vec();
    let version = tlv(0xa0, &tlv(0x02, &[2]));
    let body = [version, tlv(0x02, &serial), SHA256_RSA.to_vec(), name.clone(), validity, name, spki].concat();
    signed(key, &tlv(0x30, &body))
}

/// DER as PEM (RFC 7468).
#[must_use]
pub fn pem(label: &str, der: &[u8]) -> String {
    let text = base64::engine::general_purpose::STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}

fn signed(key: &PrivateKey, body: &[u8]) -> Result<Vec<u8>, CryptoError> {
    let signature = key.sign(&sha256(body))?;
    let bits = [&[0], signature.as_slice()].concat();
    Ok(tlv(0x30, &[body, &SHA256_RSA, &tlv(0x03, &bits)].concat()))
}

/// One relative name: SET of one type (2.5.4.n) and value; countries are PrintableString, all else UTF8String.
fn named(attribute: u8, text: &str) -> Vec<u8> {
    let value = tlv(if attribute == COUNTRY { 0x13 } else { 0x0c }, text.as_bytes());
    tlv(0x31, &tlv(0x30, &[tlv(0x06, &[0x55, 0x04, attribute]), value].concat()))
}

/// GeneralizedTime; RFC 5280 clause 4.1.2.5 wants UTCTime before 2050.
fn time(seconds: u64) -> Vec<u8> {
    let stamp = tieline_core::Timestamp::from_millis(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1000));
    let digits: String = stamp.to_string().chars().filter(char::is_ascii_digit).take(14).collect();
    match digits.split_at_checked(2) {
        Some(("20", short)) if short < "50" => tlv(0x17, format!("{short}Z").as_bytes()),
        Some(_) | None => tlv(0x18, format!("{digits}Z").as_bytes()),
    }
}

fn tlv(tag: u8, value: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = value.len().to_be_bytes();
    match u8::try_from(value.len()) {
        Ok(short @ 0..0x80) => out.push(short),
        Ok(_) | Err(_) => {
            let start = length.iter().position(|&byte| byte != 0).unwrap_or(length.len());
            let bytes = length.get(start..).unwrap_or_default();
            out.push(0x80 | u8::try_from(bytes.len()).unwrap_or(0));
            out.extend_from_slice(bytes);
        }
    }
    out.extend_from_slice(value);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_crypto::Certificate;

    #[test]
    fn a_certificate_reads_as_it_was_written() {
        let (key, _) = PrivateKey::generate().unwrap();
        let ispb = Ispb::from_text("12345678").unwrap();
        let subject = Subject { name: "BANCO É T001".to_owned(), ispb, authority: Some(2) };
        let (from, to) = (1_700_000_000, 4_000_000_000);
        let der = self_signed(&key, &subject, from, to).unwrap();
        let read = Certificate::from_der(&der).unwrap();
        assert_eq!((read.not_before, read.not_after, read.serial.len()), (from, to, SERIAL_BYTES));
        assert!(read.subject.contains("OU=ISPB-12345678"), "{}", read.subject);
        assert!(read.subject.contains("OU=CSPB-2"), "{}", read.subject);
        assert_eq!(read.public_key, *key.public());
        assert_eq!(Certificate::from_pem(&pem("CERTIFICATE", &der)).unwrap(), read);
    }
}
