//! Verifies the certificate of a peer.

use super::Fingerprint;
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ParsedCertificate, VerifierBuilderError, WebPkiClientVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, RootCertStore, SignatureScheme};
use std::sync::Arc;
use std::time::Duration;
use tieline_core::Timestamp;

/// What vouches for peers.
#[derive(Debug)]
pub(super) enum Anchors {
    Authorities(Arc<RootCertStore>),
    Pinned {
        certificates: Vec<CertificateDer<'static>>,
        keys: Vec<Fingerprint>,
    },
    /// Of servers alone: those whose own certificates are listed, whatever names they hold, and those that authorities
    /// vouch for.
    Servers {
        listed: Vec<CertificateDer<'static>>,
        roots: Arc<RootCertStore>,
    },
    AnyClient,
}

#[derive(Debug)]
enum Judge {
    Authorities { servers: Arc<WebPkiServerVerifier>, clients: Arc<dyn ClientCertVerifier> },
    Pinned { certificates: Vec<CertificateDer<'static>>, keys: Vec<Fingerprint> },
    Servers { listed: Vec<CertificateDer<'static>>, vouched: Arc<WebPkiServerVerifier> },
    Nobody,
}

/// Judges both kinds of peers.
#[derive(Debug)]
pub(super) struct PeerVerifier {
    judge: Judge,
    client_names: Vec<ServerName<'static>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl PeerVerifier {
    pub(super) fn new(
        anchors: Anchors,
        client_names: &[String],
        provider: &Arc<CryptoProvider>,
    ) -> Result<Self, VerifierBuilderError> {
        let judge = match anchors {
            Anchors::Authorities(roots) => Judge::Authorities {
                servers: WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(provider))
                    .build()?,
                clients: WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(provider)).build()?,
            },
            Anchors::Pinned { certificates, keys } => Judge::Pinned { certificates, keys },
            Anchors::Servers { listed, roots } => {
                let vouched = WebPkiServerVerifier::builder_with_provider(roots, Arc::clone(provider)).build()?;
                Judge::Servers { listed, vouched }
            }
            Anchors::AnyClient => Judge::Nobody,
        };
        // Names were checked with the configuration; one that is none matches nobody.
        let client_names = client_names.iter().filter_map(|name| ServerName::try_from(name.clone()).ok()).collect();
        Ok(Self { judge, client_names, algorithms: provider.signature_verification_algorithms })
    }
}

/// Whether a certificate is pinned, and good at this time.
pub(super) fn check_pinned(
    shown: &CertificateDer<'_>,
    certificates: &[CertificateDer<'static>],
    keys: &[Fingerprint],
    now: UnixTime,
) -> Result<(), Error> {
    let known = certificates.iter().any(|pinned| pinned == shown)
        || Fingerprint::of(shown).is_some_and(|fingerprint| keys.contains(&fingerprint));
    if !known {
        return Err(CertificateError::UnknownIssuer.into());
    }
    let info = super::CertificateInfo::of(shown).ok_or(CertificateError::BadEncoding)?;
    let moment = |time: Timestamp| {
        UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(time.millis() / 1000).unwrap_or(0)))
    };
    let (not_before, not_after) = (moment(info.not_before), moment(info.not_after));
    if now > not_after {
        return Err(CertificateError::ExpiredContext { time: now, not_after }.into());
    }
    if now < not_before {
        return Err(CertificateError::NotValidYetContext { time: now, not_before }.into());
    }
    Ok(())
}

impl ServerCertVerifier for PeerVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.judge {
            Judge::Authorities { servers, .. } => {
                servers.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            Judge::Pinned { certificates, keys } => {
                check_pinned(end_entity, certificates, keys, now).map(|()| ServerCertVerified::assertion())
            }
            Judge::Servers { listed, .. } if listed.contains(end_entity) => {
                check_pinned(end_entity, listed, &[], now).map(|()| ServerCertVerified::assertion())
            }
            Judge::Servers { vouched, .. } => {
                vouched.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
            }
            Judge::Nobody => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for PeerVerifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        match &self.judge {
            Judge::Authorities { clients, .. } => clients.root_hint_subjects(),
            Judge::Pinned { .. } | Judge::Servers { .. } | Judge::Nobody => &[],
        }
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match &self.judge {
            Judge::Authorities { clients, .. } => {
                let verified = clients.verify_client_cert(end_entity, intermediates, now)?;
                let shown = ParsedCertificate::try_from(end_entity)?;
                let fits = |name| rustls::client::verify_server_name(&shown, name).is_ok();
                if !self.client_names.is_empty() && !self.client_names.iter().any(fits) {
                    return Err(CertificateError::NotValidForName.into());
                }
                Ok(verified)
            }
            Judge::Pinned { certificates, keys } => {
                check_pinned(end_entity, certificates, keys, now).map(|()| ClientCertVerified::assertion())
            }
            Judge::Servers { .. } | Judge::Nobody => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, dss, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, dss, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
