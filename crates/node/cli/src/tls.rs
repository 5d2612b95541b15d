//! Flags that say who we are in TLS, and whom we trust.

use anyhow::{Result, bail};
use clap::Args;
use std::path::{Path, PathBuf};
use tieline_net::tls::{Pin, TlsFiles, TlsVersion, Trust};
use tieline_transport::{TlsOptions, parse_pin};

/// TLS files and trust where both sides show a certificate.
#[derive(Debug, Args)]
pub struct TlsArgs {
    /// Our certificate in PEM, for TLS
    #[arg(long, value_name = "FILE", requires = "tls_key", help_heading = "TLS")]
    pub tls_cert: Option<PathBuf>,
    /// The private key of our certificate, in PEM
    #[arg(long, value_name = "FILE", requires = "tls_cert", help_heading = "TLS")]
    pub tls_key: Option<PathBuf>,
    /// Certificates of authorities that vouch for the peer, in PEM
    #[arg(long, value_name = "FILE", conflicts_with = "tls_pin", help_heading = "TLS")]
    pub tls_ca: Option<PathBuf>,
    /// The peer's certificate, or the fingerprint of its key; may be repeated
    #[arg(long, value_name = "FILE|sha256:HEX", value_parser = pin, help_heading = "TLS")]
    pub tls_pin: Vec<Pin>,
    /// The name that the peer's certificate must be for [default: the host of the address, any client]
    #[arg(long, value_name = "NAME", help_heading = "TLS")]
    pub tls_name: Option<String>,
    /// Speak TLS 1.3 only
    #[arg(long, help_heading = "TLS")]
    pub tls13: bool,
}

/// TLS files of a client, which need not show a certificate.
#[derive(Debug, Args)]
pub struct ClientTlsArgs {
    /// Certificates of authorities to trust over TLS, or the server's own, in PEM; without it those of the system
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
    /// Certificate to show over TLS, in PEM
    #[arg(long, value_name = "FILE", requires = "key")]
    pub cert: Option<PathBuf>,
    /// Private key of the certificate
    #[arg(long, value_name = "FILE", requires = "cert")]
    pub key: Option<PathBuf>,
}

fn pin(text: &str) -> Result<Pin, String> {
    parse_pin(text, Path::new(""))
}

impl TlsArgs {
    /// What the flags say; none where there are none.
    pub fn options(&self) -> Result<Option<TlsOptions>> {
        let (Some(certificate), Some(key)) = (self.tls_cert.clone(), self.tls_key.clone()) else {
            let is_given = self.tls_ca.is_some() || !self.tls_pin.is_empty() || self.tls_name.is_some() || self.tls13;
            if is_given {
                bail!("TLS needs --tls-cert and --tls-key: both sides show who they are");
            }
            return Ok(None);
        };
        let trust = match &self.tls_ca {
            Some(authorities) => Trust::Authorities(authorities.clone()),
            None if self.tls_pin.is_empty() => bail!("TLS needs --tls-ca or --tls-pin: whom to trust"),
            None => Trust::Pinned(self.tls_pin.clone()),
        };
        let version_min = if self.tls13 { TlsVersion::Tls13 } else { TlsVersion::Tls12 };
        let client_names = self.tls_name.iter().cloned().collect();
        let files = TlsFiles { certificate, key, trust, client_names, version_min };
        Ok(Some(TlsOptions { files, name: self.tls_name.clone() }))
    }
}
