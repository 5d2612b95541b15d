//! A message as a mail, and its way to the server.

use super::{Mail, MailTls};
use crate::message::{subject, text};
use crate::sender::{Envelope, Failure, WITHIN, read_secret};
use lettre::Transport as _;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Mailbox, MessageBuilder};
use lettre::transport::smtp::authentication::Credentials;
use lettre::transport::smtp::client::{Certificate, Tls, TlsParameters, TlsParametersBuilder};
use lettre::transport::smtp::{Error, SmtpTransport};
use std::fs;
use tieline_notify::Message;

/// Whether a text is an address of a mail, with a name or without.
pub fn is_address(text: &str) -> bool {
    text.parse::<Mailbox>().is_ok()
}

impl Mail {
    pub(crate) fn send(&self, envelope: Envelope<'_>, message: &Message) -> Result<(), Failure> {
        let letter = self.letter(envelope, message)?;
        let mut builder =
            SmtpTransport::builder_dangerous(&self.host).port(self.port).timeout(Some(WITHIN)).tls(self.tls()?);
        if let Some((name, file)) = &self.user {
            builder = builder.credentials(Credentials::new(name.clone(), read_secret(file)?));
        }
        builder.build().send(&letter).map(drop).map_err(|error| failure(&error))
    }

    fn letter(&self, envelope: Envelope<'_>, message: &Message) -> Result<lettre::Message, Failure> {
        let address = |text: &str| text.parse::<Mailbox>().map_err(|error| Failure::never(format!("{text}: {error}")));
        let from = address(&self.from)?;
        let domain = from.email.domain().to_owned();
        let mut builder = MessageBuilder::new().from(from);
        for to in envelope.to {
            builder = builder.to(address(to)?);
        }
        let key = message.key();
        // A mail that comes twice has one identifier, and most mailboxes show it once.
        let id = format!("<{key}.{}@{domain}>", message.to);
        let mut letter = builder
            .message_id(Some(id))
            .subject(subject(message))
            .header(ContentType::TEXT_PLAIN)
            .body(text(envelope.node, message))
            .map_err(Failure::never)?;
        let headers = letter.headers_mut();
        headers.insert_raw(HeaderValue::new(HeaderName::new_from_ascii_str("X-Tieline-Key"), key));
        headers.insert_raw(HeaderValue::new(HeaderName::new_from_ascii_str("Auto-Submitted"), "auto-generated".into()));
        Ok(letter)
    }

    fn tls(&self) -> Result<Tls, Failure> {
        Ok(match self.tls {
            MailTls::None => Tls::None,
            MailTls::StartTls => Tls::Required(self.parameters()?),
            MailTls::Tls => Tls::Wrapper(self.parameters()?),
        })
    }

    fn parameters(&self) -> Result<TlsParameters, Failure> {
        let mut builder: TlsParametersBuilder = TlsParameters::builder(self.host.clone());
        if let Some(file) = &self.authorities {
            let pem = fs::read(file).map_err(|error| Failure::again(format!("{}: {error}", file.display())))?;
            builder = builder.certificate_store(lettre::transport::smtp::client::CertificateStore::None);
            builder = builder.add_root_certificate(Certificate::from_pem(&pem).map_err(Failure::again)?);
        }
        builder.build_rustls().map_err(Failure::again)
    }
}

/// Whether the server will ever take it.
fn failure(error: &Error) -> Failure {
    use std::error::Error as _;
    let why = error.source().map_or_else(|| error.to_string(), |source| format!("{error}: {source}"));
    // A password can be mended; that a mailbox is not there cannot.
    let code = error.status().map_or(0, u16::from);
    let is_about_access = matches!(code, 530 | 534 | 535 | 538);
    if error.is_permanent() && !is_about_access { Failure::never(why) } else { Failure::again(why) }
}
