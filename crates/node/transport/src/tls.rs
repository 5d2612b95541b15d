//! The cache of TLS certificates: each is loaded once, read again when its file changes, and warned of before it expires.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tieline_core::Timestamp;
use tieline_net::tls::{Expiry, Tls, TlsError, TlsFiles};

/// From when on before its end a certificate is warned of.
pub const EXPIRES_SOON: Duration = Duration::from_secs(30 * 86_400);
/// How often files are looked at for changes.
const LOOK_EVERY: Duration = Duration::from_secs(60);
/// How often a certificate that ends soon is warned of.
const WARN_EVERY: Duration = Duration::from_secs(86_400);

/// All TLS files in use.
#[derive(Debug, Default)]
pub struct CertificateCache {
    known: Mutex<Vec<Arc<Tls>>>,
    /// What was wrong when files were last read again, by the file of the certificate.
    trouble: Mutex<Vec<(PathBuf, String)>>,
}

impl CertificateCache {
    /// What these files hold; read once, however many connections use them.
    ///
    /// # Errors
    /// Everything that is wrong in them.
    pub fn load(&self, files: &TlsFiles) -> Result<Arc<Tls>, TlsError> {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(tls) = known.iter().find(|tls| tls.files() == files) {
            return Ok(Arc::clone(tls));
        }
        let tls = Tls::load(files.clone())?;
        known.push(Arc::clone(&tls));
        Ok(tls)
    }

    /// Reads files again: those that changed, or all.
    pub fn reload(&self, all: bool) {
        for tls in self.all() {
            let reloaded = if all { tls.reload().map(|()| true) } else { tls.reload_changed() };
            let certificate = tls.files().certificate.clone();
            let file = certificate.display();
            let mut trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
            match reloaded {
                Ok(false) => {}
                Ok(true) => {
                    tracing::info!(%file, "TLS files read again: handshakes from here on use them");
                    trouble.retain(|(of, _)| *of != certificate);
                }
                Err(error) => {
                    tracing::warn!(%file, %error, "TLS files cannot be read again: those loaded before stay in use");
                    trouble.retain(|(of, _)| *of != certificate);
                    trouble.push((certificate, error.to_string()));
                }
            }
        }
    }

    /// When certificates end, each once.
    #[must_use]
    pub fn expiries(&self) -> Vec<Expiry> {
        let mut all: Vec<Expiry> = Vec::new();
        for expiry in self.all().iter().flat_map(|tls| tls.expiries()) {
            if !all.contains(&expiry) {
                all.push(expiry);
            }
        }
        all
    }

    /// Whether files that were renewed could not be read again.
    #[must_use]
    pub fn has_unread(&self) -> bool {
        !self.trouble.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// What a person must see to: certificates that have ended or end soon, and files that could not be read again.
    #[must_use]
    pub fn trouble(&self, now: Timestamp) -> Vec<String> {
        let ending = self.expiries().into_iter().filter_map(|Expiry { file, subject, not_after }| {
            let left = left(not_after, now);
            let file = file.display();
            match left {
                ..0 => Some(format!("tls: {file}: the certificate of {subject} ended at {not_after}")),
                _ if left < EXPIRES_SOON.as_secs().cast_signed() => {
                    Some(format!("tls: {file}: the certificate of {subject} ends at {not_after}"))
                }
                _ => None,
            }
        });
        let trouble = self.trouble.lock().unwrap_or_else(PoisonError::into_inner);
        ending.chain(trouble.iter().map(|(_, why)| format!("tls: {why}"))).collect()
    }

    fn all(&self) -> Vec<Arc<Tls>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// Seconds until a certificate ends.
fn left(not_after: Timestamp, now: Timestamp) -> i64 {
    (not_after.millis() - now.millis()) / 1000
}

/// Looks for renewed files once a minute, and warns once a day of certificates that end soon. Never ends.
pub async fn watch(certificates: Arc<CertificateCache>, now: impl Fn() -> Timestamp) {
    let mut looks = tokio::time::interval(LOOK_EVERY);
    let mut warned: Option<Timestamp> = None;
    loop {
        looks.tick().await;
        certificates.reload(false);
        let time = now();
        if warned.is_none_or(|at| left(time, at) >= WARN_EVERY.as_secs().cast_signed()) {
            warned = Some(time);
            certificates.trouble(time).iter().for_each(|trouble| tracing::warn!("{trouble}"));
        }
    }
}
