//! Certificates, keys and trusted authorities of TLS (1.2 and 1.3), from files that may be renewed while sessions go on.
//!
//! In: a certificate, its key, and what vouches for peers: authorities, or peers' certificates pinned one by one. Out:
//! what connections are made with. [`Tls::reload`] takes renewed files for handshakes to come; sessions that exist go
//! on. Nothing is resumed: every connection proves its keys.
//!
//! Read first: `files.rs`, then `verify.rs`.

mod certificate;
mod client;
mod fault;
mod files;
mod shown;
mod stream;
mod verify;

#[cfg(test)]
mod tests;

pub use certificate::{CertificateInfo, Fingerprint, read_certificates};
pub use client::{ClientTls, read_authorities};
pub use fault::{TlsError, TlsFault};
pub use files::{Pin, TlsFiles, TlsVersion, Trust};
pub use shown::{ShownCertificate, UserRole, UserRoles};
pub(crate) use stream::{DetachedTls, HandshakeLimit, TlsStream, count};

use files::{Loaded, Seen};
use rustls::{ClientConfig, ServerConfig};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use tieline_core::Timestamp;

/// Who we are and whom we trust. Shared by all threads whose connections use the same files.
#[derive(Debug)]
pub struct Tls {
    files: TlsFiles,
    current: Mutex<Loaded>,
}

/// When a certificate ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expiry {
    /// The file in which it stands.
    pub file: PathBuf,
    /// Whose it is.
    pub subject: String,
    /// The last second in which it is good.
    pub not_after: Timestamp,
}

impl Tls {
    /// Reads all files.
    ///
    /// # Errors
    /// Everything that is wrong in any of them. A certificate that has expired is no error: it is for the peer to
    /// refuse it, and for [`Tls::expiries`] to show it.
    pub fn load(files: TlsFiles) -> Result<Arc<Self>, TlsError> {
        let loaded = files.load()?;
        Ok(Arc::new(Self { files, current: Mutex::new(loaded) }))
    }

    /// The files in use.
    #[must_use]
    pub const fn files(&self) -> &TlsFiles {
        &self.files
    }

    /// Reads all files again, for the handshakes that follow.
    ///
    /// # Errors
    /// Everything that is wrong in them; what was loaded before stays in use.
    pub fn reload(&self) -> Result<(), TlsError> {
        let loaded = self.files.load()?;
        *self.current() = loaded;
        Ok(())
    }

    /// Reads all files again where one of them was replaced or changed since it was read, or since this was last asked;
    /// says whether that was so.
    ///
    /// # Errors
    /// Everything that is wrong in them; what was loaded before stays in use.
    pub fn reload_changed(&self) -> Result<bool, TlsError> {
        let seen = Seen::of(&self.files);
        if std::mem::replace(&mut self.current().seen, seen.clone()) == seen {
            return Ok(false);
        }
        self.reload().map(|()| true)
    }

    /// When the certificates end that these files hold, our own first.
    #[must_use]
    pub fn expiries(&self) -> Vec<Expiry> {
        self.current().expiries.clone()
    }

    /// What a client's connections are made with.
    pub fn client(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.current().client)
    }

    /// What a server's connections are made with.
    pub fn server(&self) -> Arc<ServerConfig> {
        Arc::clone(&self.current().server)
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Loaded> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
