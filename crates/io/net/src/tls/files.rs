//! The files of one identity, read and checked against each other.

use super::certificate::{CertificateInfo, Fingerprint, read_certificates, read_file, without};
use super::verify::{Anchors, PeerVerifier};
use super::{Expiry, TlsError, TlsFault};
use rustls::client::Resumption;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::NoServerSessionStorage;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore, ServerConfig, SupportedProtocolVersion, version};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Which files make an identity, and whom it trusts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// Our certificate in PEM, followed by those of the authorities between it and the root, if any.
    pub certificate: PathBuf,
    /// Its private key in PEM (PKCS#8, PKCS#1 or SEC1), not encrypted, and readable by its owner (and group) alone.
    pub key: PathBuf,
    /// Whom we trust.
    pub trust: Trust,
    /// Names of which a client must show one, where we are the server and authorities vouch; none: any client that
    /// they vouch for.
    pub client_names: Vec<String>,
    /// The oldest version that is spoken.
    pub version_min: TlsVersion,
}

/// Whom we trust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trust {
    /// Peers whose certificate was issued by one of the authorities in this PEM file. A server's must be for the
    /// name under which we connect to it.
    Authorities(PathBuf),
    /// Peers that show one of these certificates, whatever names it holds.
    Pinned(Vec<Pin>),
    /// As a server, every client: it is not asked for a certificate. As a client, nobody.
    AnyClient,
}

/// What a peer is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pin {
    /// One of the certificates of this PEM file, to the byte.
    Certificate(PathBuf),
    /// A certificate with this key.
    Key(Fingerprint),
}

/// A version of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum TlsVersion {
    /// RFC 5246.
    #[default]
    Tls12,
    /// RFC 8446.
    Tls13,
}

impl TlsVersion {
    fn and_later(self) -> &'static [&'static SupportedProtocolVersion] {
        const FROM_12: &[&SupportedProtocolVersion] = &[&version::TLS13, &version::TLS12];
        const FROM_13: &[&SupportedProtocolVersion] = &[&version::TLS13];
        match self {
            Self::Tls12 => FROM_12,
            Self::Tls13 => FROM_13,
        }
    }
}

/// What files were read into.
#[derive(Debug)]
pub(super) struct Loaded {
    pub(super) client: Arc<ClientConfig>,
    pub(super) server: Arc<ServerConfig>,
    pub(super) expiries: Vec<Expiry>,
    pub(super) seen: Seen,
}

/// What tells that a file was replaced or changed: its number, length and time, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Seen(Vec<Option<(u64, u64, i64, i64)>>);

impl Seen {
    pub(super) fn of(files: &TlsFiles) -> Self {
        let stamp = |file: &PathBuf| {
            let meta = std::fs::metadata(file).ok()?;
            Some((meta.ino(), meta.len(), meta.mtime(), meta.mtime_nsec()))
        };
        Self(files.each().map(stamp).collect())
    }
}

impl TlsFiles {
    /// Every file.
    fn each(&self) -> impl Iterator<Item = &PathBuf> {
        let (authorities, pins) = match &self.trust {
            Trust::Authorities(file) => (Some(file), [].as_slice()),
            Trust::Pinned(pins) => (None, pins.as_slice()),
            Trust::AnyClient => (None, [].as_slice()),
        };
        let pinned = pins.iter().filter_map(|pin| match pin {
            Pin::Certificate(file) => Some(file),
            Pin::Key(_) => None,
        });
        [&self.certificate, &self.key].into_iter().chain(authorities).chain(pinned)
    }

    /// Reads all of them.
    pub(super) fn load(&self) -> Result<Loaded, TlsError> {
        // Taken first: what changes while it is read is read again.
        let seen = Seen::of(self);
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut faults = Vec::new();
        let mut expiries = Vec::new();
        let chain = keep(&mut faults, read_certificates(&self.certificate));
        expiries.extend(chain.iter().flatten().map(|(_, info)| expiry(&self.certificate, info)));
        let key = keep(&mut faults, read_key(&self.key));
        let anchors = self.anchors(&mut faults, &mut expiries);
        let own = chain.zip(key).map(|(chain, key)| own(&provider, (&self.certificate, chain), (&self.key, key)));
        let own = own.and_then(|own| keep(&mut faults, own));
        match (own, anchors) {
            (Some(own), Some(anchors)) if faults.is_empty() => {
                let (client, server) = self.configs(&provider, own, anchors).map_err(|fault| TlsError(vec![fault]))?;
                Ok(Loaded { client: Arc::new(client), server: Arc::new(server), expiries, seen })
            }
            _ => Err(TlsError(faults)),
        }
    }

    fn anchors(&self, faults: &mut Vec<TlsFault>, expiries: &mut Vec<Expiry>) -> Option<Anchors> {
        match &self.trust {
            Trust::AnyClient => Some(Anchors::AnyClient),
            Trust::Authorities(file) => {
                let read = keep(faults, read_certificates(file))?;
                let mut roots = RootCertStore::empty();
                for (number, (der, info)) in (1..).zip(read) {
                    expiries.push(expiry(file, &info));
                    if let Err(error) = roots.add(der) {
                        let found = format!("a certificate {number} that vouches for none ({error})");
                        faults.push(TlsFault::new(file, found, "certificates of authorities"));
                    }
                }
                Some(Anchors::Authorities(Arc::new(roots)))
            }
            Trust::Pinned(pins) => {
                let (mut certificates, mut keys) = (Vec::new(), Vec::new());
                for pin in pins {
                    match pin {
                        Pin::Key(fingerprint) => keys.push(*fingerprint),
                        Pin::Certificate(file) => {
                            let read = keep(faults, read_certificates(file)).unwrap_or_default();
                            expiries.extend(read.iter().map(|(_, info)| expiry(file, info)));
                            certificates.extend(read.into_iter().map(|(der, _)| der));
                        }
                    }
                }
                Some(Anchors::Pinned { certificates, keys })
            }
        }
    }

    fn configs(
        &self,
        provider: &Arc<CryptoProvider>,
        own: CertifiedKey,
        anchors: Anchors,
    ) -> Result<(ClientConfig, ServerConfig), TlsFault> {
        let own = Arc::new(SingleCertAndKey::from(own));
        let unusable = |error: &dyn std::fmt::Display| {
            let file = self.each().nth(2).unwrap_or(&self.certificate);
            TlsFault::new(file, format!("what cannot be used ({error})"), "certificates that peers can be checked by")
        };
        let asks = !matches!(anchors, Anchors::AnyClient);
        let verifier = PeerVerifier::new(anchors, &self.client_names, provider).map_err(|error| unusable(&error))?;
        let verifier = Arc::new(verifier);
        let versions = self.version_min.and_later();
        let client = ClientConfig::builder_with_provider(Arc::clone(provider)).with_protocol_versions(versions);
        let client = client.map_err(|error| unusable(&error))?.dangerous();
        let client = client.with_custom_certificate_verifier(verifier.clone());
        let mut client = client.with_client_cert_resolver(own.clone());
        client.resumption = Resumption::disabled();
        let server = ServerConfig::builder_with_provider(Arc::clone(provider)).with_protocol_versions(versions);
        let server = server.map_err(|error| unusable(&error))?;
        let server = if asks { server.with_client_cert_verifier(verifier) } else { server.with_no_client_auth() };
        let mut server = server.with_cert_resolver(own);
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        Ok((client, server))
    }
}

/// A certificate with those of the authorities above it, and its key, each with its file.
pub(super) fn own(
    provider: &CryptoProvider,
    (certificate, chain): (&Path, Vec<(CertificateDer<'static>, CertificateInfo)>),
    (file, key): (&Path, PrivateKeyDer<'static>),
) -> Result<CertifiedKey, TlsFault> {
    let key = provider.key_provider.load_private_key(key);
    let expected = "a private key of RSA (2048 bits and more), ECDSA (P-256, P-384, P-521) or Ed25519";
    let key = key.map_err(|error| TlsFault::new(file, format!("a key that cannot be used ({error})"), expected))?;
    let own = CertifiedKey::new(chain.into_iter().map(|(der, _)| der).collect(), key);
    own.keys_match().map_err(|_| {
        let expected = format!("the key of the first certificate in {}", certificate.display());
        TlsFault::new(file, "the key of another certificate", expected)
    })?;
    Ok(own)
}

fn expiry(file: &Path, info: &CertificateInfo) -> Expiry {
    Expiry { file: file.to_owned(), subject: info.subject.clone(), not_after: info.not_after }
}

pub(super) fn keep<T>(faults: &mut Vec<TlsFault>, result: Result<T, TlsFault>) -> Option<T> {
    result.map_err(|fault| faults.push(fault)).ok()
}

pub(super) fn read_key(file: &Path) -> Result<PrivateKeyDer<'static>, TlsFault> {
    const EXPECTED: &str = "a private key in PEM, not encrypted";
    let bytes = read_file(file, EXPECTED)?;
    // Read by anyone, it proves nothing.
    let mode = std::fs::metadata(file).map_or(0, |meta| meta.permissions().mode() & 0o777);
    if mode & 0o007 != 0 {
        let found = format!("a key that every user may read or change (mode {mode:04o})");
        return Err(TlsFault::new(file, found, "mode 0600 or 0640"));
    }
    if bytes.windows(9).any(|part| part == b"ENCRYPTED") {
        return Err(TlsFault::new(file, "an encrypted key", EXPECTED));
    }
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|_| TlsFault::new(file, without(&bytes, "private key"), EXPECTED))
}
