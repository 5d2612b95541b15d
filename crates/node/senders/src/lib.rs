//! Sends notifications: webhooks, mails, alerts of Alertmanager, messages of the node.
//!
//! In: alarms as they change, routes and receivers ([`Desk`]). Out: messages at their receivers, and what was counted ([`Counts`]).
//!
//! Never: a decision about who is told and when, which is `tieline_notify`'s; a topic: the node publishes.
//!
//! A receiver that is told once, without the rest, is a [`Sender`]: it waits for its peer, [`WITHIN`] at most for each step of a
//! conversation, and says whether another attempt makes sense ([`Failure`]). Secrets are read from their files at each message, so
//! that a new one needs no restart.
//!
//! Read first: `desk.rs`, `sender.rs`, `message.rs`.

mod address;
mod alertmanager;
mod counts;
mod desk;
mod log;
mod mail;
mod message;
mod sender;
mod webhook;

pub use address::is_own;
pub use alertmanager::Alertmanager;
pub use counts::{Counts, ReceiverState};
pub use desk::{Clock, Desk, Full, Publish, Receiver, Receivers};
pub use mail::{Mail, MailTls, is_address};
pub use message::json;
pub use sender::{Envelope, Failure, Sender, SenderKind, WITHIN};
pub use webhook::{Webhook, signature};

/// Whether this build sends mails.
pub const HAS_SMTP: bool = cfg!(feature = "smtp");
