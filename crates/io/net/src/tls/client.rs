//! A client's trusted authorities and its own certificate, from files that are read once: for programs that come, ask and go.

use super::certificate::read_certificates;
use super::files::{keep, own, read_key};
use super::verify::{Anchors, PeerVerifier};
use super::{TlsError, TlsFault};
use rustls::client::Resumption;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::CertificateDer;
use rustls::sign::SingleCertAndKey;
use rustls::{ClientConfig, RootCertStore};
use std::path::Path;
use std::sync::Arc;

/// What stands for a file's name where none was given.
const SYSTEM: &str = "the certificates of the system";
const EXPECTED: &str = "certificates of authorities, or the server's own";

/// The certificates of authorities, each in DER: those of a file, or those that the machine trusts.
///
/// # Errors
/// The file cannot be read, or has none.
pub fn read_authorities(file: Option<&Path>) -> Result<Vec<Vec<u8>>, TlsFault> {
    let found = match file {
        Some(file) => read_certificates(file)?.into_iter().map(|(der, _)| der).collect(),
        None => rustls_native_certs::load_native_certs().certs,
    };
    let is_usable =
        |der: &CertificateDer<'_>| RootCertStore::empty().add_parsable_certificates([der.clone().into_owned()]).0 > 0;
    let usable: Vec<Vec<u8>> = found.into_iter().filter(is_usable).map(|der| der.to_vec()).collect();
    if usable.is_empty() {
        let file = file.unwrap_or(Path::new(SYSTEM));
        return Err(TlsFault::new(file, "none that can be trusted".to_owned(), EXPECTED));
    }
    Ok(usable)
}

/// What the connections of a client are made with.
#[derive(Clone, Debug)]
pub struct ClientTls(Arc<ClientConfig>);

impl ClientTls {
    /// Reads the files. `trusted` holds certificates of authorities, or servers' own; none stands for the authorities
    /// that the machine trusts. `identity` is a certificate and its key.
    ///
    /// # Errors
    /// Everything that is wrong in them.
    pub fn load(trusted: Option<&Path>, identity: Option<(&Path, &Path)>) -> Result<Self, TlsError> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut faults = Vec::new();
        let listed = trusted.map_or(Some(Vec::new()), |file| {
            let read = keep(&mut faults, read_certificates(file))?;
            Some(read.into_iter().map(|(der, _)| der).collect())
        });
        let own = identity.and_then(|(certificate, file)| {
            let chain = keep(&mut faults, read_certificates(certificate));
            let key = keep(&mut faults, read_key(file));
            let own = chain.zip(key).map(|(chain, key)| own(&provider, (certificate, chain), (file, key)));
            keep(&mut faults, own?)
        });
        let Some(listed) = listed.filter(|_| faults.is_empty()) else { return Err(TlsError(faults)) };
        let unusable = |error: &dyn std::fmt::Display| {
            let file = trusted.unwrap_or(Path::new(SYSTEM));
            TlsError(vec![TlsFault::new(file, format!("none that can be trusted ({error})"), EXPECTED)])
        };
        let mut roots = RootCertStore::empty();
        let system = if trusted.is_none() { rustls_native_certs::load_native_certs().certs } else { Vec::new() };
        roots.add_parsable_certificates(listed.iter().cloned().chain(system));
        let anchors = Anchors::Servers { listed, roots: Arc::new(roots) };
        let verifier = PeerVerifier::new(anchors, &[], &provider).map_err(|error| unusable(&error))?;
        let config = ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let config = config.map_err(|error| unusable(&error))?.dangerous();
        let config = config.with_custom_certificate_verifier(Arc::new(verifier));
        let mut config = match own {
            Some(own) => config.with_client_cert_resolver(Arc::new(SingleCertAndKey::from(own))),
            None => config.with_no_client_auth(),
        };
        config.resumption = Resumption::disabled();
        Ok(Self(Arc::new(config)))
    }

    /// The configuration of its connections.
    #[must_use]
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.0)
    }
}
