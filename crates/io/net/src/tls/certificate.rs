//! Certificates in PEM files: what they say, and the fingerprints by which they are pinned.

use super::TlsFault;
use aws_lc_rs::digest::{SHA256, digest};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::ParsedCertificate;
use std::fmt;
use std::path::Path;
use std::str::FromStr;
use tieline_core::Timestamp;
use x509_cert::Certificate;
use x509_cert::der::{Decode, oid::AssociatedOid};
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

/// Bytes of a file at most: a chain of some certificates, or a bundle of authorities.
pub(super) const FILE_BYTES_MAX: u64 = 4 << 20;

/// SHA-256 over the DER of a public key (its SubjectPublicKeyInfo), as RFC 7469 pins keys: it stays the same when the
/// certificate is renewed with the same key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Of the key of a certificate.
    pub(super) fn of(certificate: &CertificateDer<'_>) -> Option<Self> {
        let parsed = ParsedCertificate::try_from(certificate).ok()?;
        let hash = digest(&SHA256, &parsed.subject_public_key_info());
        hash.as_ref().try_into().ok().map(Self)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("sha256:")?;
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Fingerprint {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const EXPECTED: &str = "a fingerprint like \"sha256:\" and 64 hexadecimal digits";
        let digits: Vec<u32> = text
            .strip_prefix("sha256:")
            .ok_or(EXPECTED)?
            .chars()
            .filter(|c| *c != ':')
            .map(|c| c.to_digit(16).ok_or(EXPECTED))
            .collect::<Result<_, _>>()?;
        let byte =
            |pair: &[u32]| pair.iter().try_fold(0_u8, |byte, digit| u8::try_from(*digit).ok().map(|d| byte << 4 | d));
        let bytes: Option<Vec<u8>> = digits.chunks(2).map(byte).collect();
        let whole = bytes.filter(|_| digits.len() == 64).and_then(|bytes| bytes.try_into().ok());
        whole.map(Self).ok_or(EXPECTED)
    }
}

/// What a certificate says. Nothing here says whether it is to be trusted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateInfo {
    /// Whose it is, as RFC 4514 writes it.
    pub subject: String,
    /// Who vouches for it, as RFC 4514 writes it.
    pub issuer: String,
    /// The host names and addresses that it is for.
    pub names: Vec<String>,
    /// The first second in which it is good.
    pub not_before: Timestamp,
    /// The last second in which it is good.
    pub not_after: Timestamp,
    /// Of its key.
    pub fingerprint: Fingerprint,
}

impl CertificateInfo {
    /// Reads the DER of a certificate.
    pub(super) fn of(der: &CertificateDer<'_>) -> Option<Self> {
        let certificate = Certificate::from_der(der).ok()?;
        let body = certificate.tbs_certificate();
        let seconds =
            |seconds: u64| Timestamp::from_micros(i64::try_from(seconds).unwrap_or(i64::MAX).saturating_mul(1_000_000));
        let validity = body.validity();
        Some(Self {
            subject: body.subject().to_string(),
            issuer: body.issuer().to_string(),
            names: names_of(&certificate),
            not_before: seconds(validity.not_before.to_unix_duration().as_secs()),
            not_after: seconds(validity.not_after.to_unix_duration().as_secs()),
            fingerprint: Fingerprint::of(der)?,
        })
    }
}

fn names_of(certificate: &Certificate) -> Vec<String> {
    let extensions = certificate.tbs_certificate().extensions().into_iter().flatten();
    let alternative = extensions.filter(|extension| extension.extn_id == SubjectAltName::OID);
    let names = alternative.filter_map(|extension| SubjectAltName::from_der(extension.extn_value.as_bytes()).ok());
    names.flat_map(|names| names.0).filter_map(|name| shown(&name)).collect()
}

fn shown(name: &GeneralName) -> Option<String> {
    match name {
        GeneralName::DnsName(name) => Some(name.to_string()),
        GeneralName::IpAddress(bytes) => {
            let bytes = bytes.as_bytes();
            let v4 = <[u8; 4]>::try_from(bytes).map(|bytes| std::net::IpAddr::from(bytes).to_string());
            v4.or_else(|_| <[u8; 16]>::try_from(bytes).map(|bytes| std::net::IpAddr::from(bytes).to_string())).ok()
        }
        _ => None,
    }
}

/// Reads all certificates of a PEM file, at least one.
///
/// # Errors
/// What is wrong with the file.
pub fn read_certificates(file: &Path) -> Result<Vec<(CertificateDer<'static>, CertificateInfo)>, TlsFault> {
    const EXPECTED: &str = "a file with certificates in PEM (-----BEGIN CERTIFICATE-----)";
    let bytes = read_file(file, EXPECTED)?;
    let mut all = Vec::new();
    for item in CertificateDer::pem_slice_iter(&bytes) {
        let der = item.map_err(|error| TlsFault::new(file, format!("damaged PEM ({error})"), EXPECTED))?;
        let info = CertificateInfo::of(&der);
        let number = all.len() + 1;
        let info = info.ok_or_else(|| {
            TlsFault::new(
                file,
                format!("something else in place of certificate {number}"),
                "a certificate (X.509 version 3)",
            )
        })?;
        all.push((der, info));
    }
    match all.is_empty() {
        false => Ok(all),
        true => Err(TlsFault::new(file, without(&bytes, "certificate"), EXPECTED)),
    }
}

/// Says what a file is that lacks something in PEM.
pub(super) fn without(bytes: &[u8], what: &str) -> String {
    let holds = |mark: &[u8]| bytes.windows(mark.len()).any(|part| part == mark);
    match bytes {
        [] => "an empty file".to_owned(),
        [0x30, ..] => "DER".to_owned(),
        _ if holds(b"PRIVATE KEY-----") => format!("PEM with a private key and no {what}"),
        _ if holds(b"-----BEGIN CERTIFICATE-----") => format!("PEM with certificates and no {what}"),
        _ if holds(b"-----BEGIN ") => format!("PEM without a {what}"),
        _ => "no PEM".to_owned(),
    }
}

/// Reads a small file.
pub(super) fn read_file(file: &Path, expected: &str) -> Result<Vec<u8>, TlsFault> {
    use std::io::Read;
    let fault = |error: std::io::Error| TlsFault::new(file, format!("nothing readable ({error})"), expected);
    let mut bytes = Vec::new();
    let read = std::fs::File::open(file).and_then(|open| open.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes));
    match read.map_err(fault)? as u64 > FILE_BYTES_MAX {
        false => Ok(bytes),
        true => Err(TlsFault::new(file, format!("more than {FILE_BYTES_MAX} bytes"), expected)),
    }
}
