//! The public form of a refusal: what a client learns of it.
//!
//! An attacker who can send messages of his own making to a key and learn whether C14's padding, the content's tag or the
//! signature was wrong can decrypt with the key (Bleichenbacher 1998). So these three are one to a client, unless the
//! configuration says otherwise; the audit log has the exact code.

use crate::protocol::Reason;
use crate::work::Refusal;
use tieline_rsfn::{ErrorCode, Fault, Refused};

/// A refusal as the client gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicRefusal {
    /// Why.
    pub reason: Reason,
    /// The value of C03; 0 where no message is to blame.
    pub code: ErrorCode,
    /// In words.
    pub text: String,
}

impl PublicRefusal {
    /// Without a message to blame.
    pub fn new(reason: Reason, text: impl Into<String>) -> Self {
        Self { reason, code: ErrorCode::NONE, text: text.into() }
    }

    /// Too many operations wait.
    pub fn busy() -> Self {
        Self::new(Reason::Busy, "too many operations wait")
    }

    /// The client may not.
    pub fn right() -> Self {
        Self::new(Reason::Right, "this token is unknown, or has not the right")
    }

    /// The server ends.
    pub fn closing() -> Self {
        Self::new(Reason::Closing, "the server is stopping")
    }
}

impl Refusal {
    /// The exact value of C03; 0 where no message is to blame.
    pub const fn code(&self) -> ErrorCode {
        match self {
            Self::Message(refused) => refused.code(),
            Self::Compression(error) => error.code(),
            Self::Request(_) | Self::Failed(_) => ErrorCode::NONE,
        }
    }

    /// The exact reason in words.
    pub fn text(&self) -> String {
        match self {
            Self::Request(text) => text.clone(),
            Self::Message(refused) => refused.to_string(),
            Self::Compression(error) => error.to_string(),
            Self::Failed(text) => (*text).to_owned(),
        }
    }

    /// What a client is told.
    pub fn told(&self, exact: bool) -> PublicRefusal {
        let reason = match self {
            Self::Request(_) => Reason::Request,
            Self::Message(Refused::TooLarge(_)) => Reason::TooLarge,
            Self::Message(Refused::Fault(_)) | Self::Compression(_) => Reason::Message,
            Self::Failed(_) => Reason::Failed,
        };
        match self {
            Self::Message(Refused::Fault(Fault::KeyExtraction | Fault::ContentCipher | Fault::Signature)) if !exact => {
                let text =
                    format!("the message cannot be opened or its signature is wrong, code {}", Fault::Other.code());
                PublicRefusal { reason, code: Fault::Other.code(), text }
            }
            other => PublicRefusal { reason, code: other.code(), text: other.text() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_oracle_needs_is_one_answer() {
        let told = |fault: Fault, exact| Refusal::Message(fault.into()).told(exact);
        let uniform = told(Fault::KeyExtraction, false);
        for fault in Fault::ALL {
            let secret = [Fault::KeyExtraction, Fault::ContentCipher, Fault::Signature].contains(&fault);
            assert_eq!(told(fault, false) == uniform, secret, "{fault}");
            assert_eq!(told(fault, true).code, fault.code());
        }
    }
}
