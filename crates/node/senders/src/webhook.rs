//! A message as a POST of JSON, signed.
//!
//! ```text
//! X-Tieline-Time: 1764381600                 seconds since 1970, when it was sent
//! X-Tieline-Signature: sha256=<hex>          HMAC-SHA256 with the secret over time "." body
//! X-Tieline-Key: 12.5bd1e995.0               drops doubles: the same for each attempt
//! ```

use crate::sender::{Envelope, Failure, WITHIN, judge, read_secret, tls_of};
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use std::fmt::Write as _;
use std::path::PathBuf;
use tieline_client::Post;
use tieline_notify::Message;

/// Bytes of an answer that are read.
const ANSWER_BYTES_MAX: usize = 4096;

/// A program that takes messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Where.
    pub url: String,
    /// The file of the secret that messages are signed with.
    pub secret_file: Option<PathBuf>,
    /// A file with certificates of authorities; none: those that the machine trusts.
    pub authorities: Option<PathBuf>,
    /// Whether it may be at an address of this machine.
    pub may_be_own: bool,
}

impl Webhook {
    pub(crate) fn send(&self, envelope: Envelope<'_>, message: &Message) -> Result<(), Failure> {
        let body = crate::json(envelope.node, message).to_string();
        let time = (envelope.now.millis() / 1000).to_string();
        let key = message.key();
        let mut headers = vec![
            ("content-type", "application/json"),
            ("user-agent", "tieline"),
            ("x-tieline-key", &*key),
            ("x-tieline-time", &*time),
        ];
        let signed = match &self.secret_file {
            Some(file) => Some(signature(&read_secret(file)?, &time, body.as_bytes())),
            None => None,
        };
        if let Some(signed) = &signed {
            headers.push(("x-tieline-signature", signed));
        }
        let post = Post {
            url: &self.url,
            headers: &headers,
            body: body.as_bytes(),
            within: WITHIN,
            bytes_max: ANSWER_BYTES_MAX,
            refuses: if self.may_be_own { |_| false } else { crate::is_own },
        };
        judge(post.send(tls_of(&self.url, self.authorities.as_deref())?))
    }
}

/// The header `X-Tieline-Signature` of a body that is sent at a time.
#[must_use]
pub fn signature(secret: &str, time: &str, body: &[u8]) -> String {
    let mut text = "sha256=".to_owned();
    let Ok(mut mac) = Hmac::<Sha256>::new_from_slice(secret.as_bytes()) else { return text };
    mac.update(time.as_bytes());
    mac.update(b".");
    mac.update(body);
    for byte in mac.finalize().into_bytes() {
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_is_that_of_another_implementation() {
        // printf '1764381600.{"a":1}' | openssl dgst -sha256 -hmac secret
        let expect = "sha256=0f24de6a6815d544d22de24c7fae939d554bcd5ae1f5ba5503d09263b510f639";
        assert_eq!(signature("secret", "1764381600", br#"{"a":1}"#), expect);
    }
}
