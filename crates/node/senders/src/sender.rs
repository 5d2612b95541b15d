//! A receiver, and what becomes of a message to it.

use crate::mail::Mail;
use crate::{Alertmanager, Webhook};
use std::fmt;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::time::Duration;
use tieline_client::ClientTls;
use tieline_core::{Timestamp, Words};
use tieline_notify::{Message, Outcome};

/// How long a request may take, and a step of a conversation with a mail server.
pub const WITHIN: Duration = Duration::from_secs(10);
/// Bytes of a file with a secret.
const SECRET_BYTES_MAX: u64 = 4096;
/// Characters of an answer that are shown.
const ANSWER_CHARS: usize = 200;

/// What goes with a message.
#[derive(Clone, Copy, Debug)]
pub struct Envelope<'a> {
    /// The name of the node.
    pub node: &'a str,
    /// When it is sent.
    pub now: Timestamp,
    /// Addresses of persons, of a receiver that has some.
    pub to: &'a [String],
}

/// Why a message has not arrived.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Whether another attempt makes sense.
    pub outcome: Outcome,
    /// What a person can read.
    pub why: String,
}

impl Failure {
    pub(crate) fn again(why: impl fmt::Display) -> Self {
        Self { outcome: Outcome::Failed, why: why.to_string() }
    }

    pub(crate) fn nobody() -> Self {
        Self { outcome: Outcome::Nobody, why: "nobody is on call".to_owned() }
    }

    pub(crate) fn never(why: impl fmt::Display) -> Self {
        Self { outcome: Outcome::Refused, why: why.to_string() }
    }
}

/// What a receiver is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SenderKind {
    /// A POST to a program.
    Webhook,
    /// Alerts for Alertmanager.
    Alertmanager,
    /// A mail.
    Smtp,
    /// A message of the node.
    Mqtt,
}

impl Words for SenderKind {
    const WORDS: &'static [(&'static str, Self)] =
        &[("webhook", Self::Webhook), ("alertmanager", Self::Alertmanager), ("smtp", Self::Smtp), ("mqtt", Self::Mqtt)];
}

/// A way to a receiver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sender {
    /// A POST to a program.
    Webhook(Webhook),
    /// Alerts for Alertmanager.
    Alertmanager(Alertmanager),
    /// A mail.
    Mail(Mail),
    /// A message that the node publishes.
    Mqtt,
}

impl Sender {
    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> SenderKind {
        match self {
            Self::Webhook(_) => SenderKind::Webhook,
            Self::Alertmanager(_) => SenderKind::Alertmanager,
            Self::Mail(_) => SenderKind::Smtp,
            Self::Mqtt => SenderKind::Mqtt,
        }
    }

    /// Sends a message, and returns when it has arrived.
    ///
    /// # Errors
    /// It has not.
    pub fn send(&self, envelope: Envelope<'_>, message: &Message) -> Result<(), Failure> {
        match self {
            Self::Webhook(webhook) => webhook.send(envelope, message),
            Self::Alertmanager(alertmanager) => alertmanager.send(envelope, message),
            Self::Mail(mail) => mail.send(envelope, message),
            Self::Mqtt => Err(Failure::never("only a node publishes")),
        }
    }
}

/// TLS for an address that needs it.
pub(crate) fn tls_of(url: &str, authorities: Option<&Path>) -> Result<Option<ClientTls>, Failure> {
    if !url.starts_with("https://") {
        return Ok(None);
    }
    ClientTls::load(authorities, None).map(Some).map_err(Failure::again)
}

/// What the status of an answer means.
pub(crate) fn judge(answer: Result<(u16, Vec<u8>), String>) -> Result<(), Failure> {
    let (status, body) = answer.map_err(Failure::again)?;
    if (200..300).contains(&status) {
        return Ok(());
    }
    let said: String = String::from_utf8_lossy(&body).trim().chars().take(ANSWER_CHARS).collect();
    let why = format!("it answers {status}: {said}");
    // The same bytes have the same answer; anything else may be mended.
    Err(if matches!(status, 400 | 413 | 422) { Failure::never(why) } else { Failure::again(why) })
}

/// The first line of a file.
pub(crate) fn read_secret(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = |text: &mut String| -> io::Result<()> {
        File::open(file)?.take(SECRET_BYTES_MAX).read_to_string(text)?;
        Ok(())
    };
    read(&mut text).map_err(|error| Failure::again(format!("{}: {error}", file.display())))?;
    Ok(text.lines().next().unwrap_or_default().trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_says_whether_another_attempt_makes_sense() {
        let check = |status: u16, expect: Option<Outcome>| {
            let judged = judge(Ok((status, b" why ".to_vec())));
            assert_eq!(judged.err().map(|failure| failure.outcome), expect, "{status}");
        };
        check(200, None);
        check(204, None);
        for status in [400, 413, 422] {
            check(status, Some(Outcome::Refused));
        }
        for status in [100, 301, 302, 401, 403, 404, 408, 429, 500, 503] {
            check(status, Some(Outcome::Failed));
        }
        let silent = judge(Err("timeout: global".to_owned()));
        assert_eq!(silent, Err(Failure { outcome: Outcome::Failed, why: "timeout: global".to_owned() }));
        let long = judge(Ok((400, vec![b'x'; 4000]))).unwrap_err();
        assert_eq!(long.why.len(), "it answers 400: ".len() + ANSWER_CHARS);
    }
}
