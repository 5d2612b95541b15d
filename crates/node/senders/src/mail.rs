//! Mails: the server, and who writes. Without the feature `smtp`, none is sent.

#[cfg(feature = "smtp")]
mod transport;

use std::path::PathBuf;
use tieline_core::Words;

#[cfg(feature = "smtp")]
pub use transport::is_address;

/// Whether a text looks like an address of a mail.
#[cfg(not(feature = "smtp"))]
#[must_use]
pub fn is_address(text: &str) -> bool {
    text.rsplit_once('@').is_some_and(|(user, host)| !user.is_empty() && !host.is_empty())
}

/// How a mail server is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MailTls {
    /// In plain text at first, then TLS: a server that does not offer it gets nothing.
    StartTls,
    /// TLS from the first byte.
    Tls,
    /// In plain text.
    None,
}

impl Words for MailTls {
    const WORDS: &'static [(&'static str, Self)] =
        &[("starttls", Self::StartTls), ("tls", Self::Tls), ("none", Self::None)];
}

/// A mail server, and who writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mail {
    /// The name or address of the server.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// How it is reached.
    pub tls: MailTls,
    /// A file with certificates of authorities; none: those that the machine trusts.
    pub authorities: Option<PathBuf>,
    /// The user's name, and the file of the password.
    pub user: Option<(String, PathBuf)>,
    /// Who writes.
    pub from: String,
}

#[cfg(not(feature = "smtp"))]
impl Mail {
    #[expect(clippy::unused_self, reason = "as with the feature")]
    pub(crate) fn send(
        &self,
        _: crate::sender::Envelope<'_>,
        _: &tieline_notify::Message,
    ) -> Result<(), crate::sender::Failure> {
        Err(crate::sender::Failure::never("this binary was built without the feature smtp"))
    }
}
