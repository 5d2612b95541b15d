//! Sends notifications: webhooks, mails, alerts of Alertmanager, messages of the node.
//!
//! In: alarms as they change, routes and receivers ([`Desk`]). Out: messages at their receivers, and what was counted ([`Counts`]).
//!
//! A receiver with a calendar ([`OnCall`]) has addresses of the time when a message is sent; where there is none, nobody is told.
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
mod heartbeat;
mod log;
mod mail;
mod message;
mod on_call;
mod sender;
mod webhook;

pub use address::is_own;
pub use alertmanager::Alertmanager;
pub use counts::{Counts, ReceiverState};
pub use desk::{Calls, Clock, Desk, Full, Publish, Receiver, Receivers};
pub use mail::{Mail, MailTls, is_address};
pub use message::json;
pub use on_call::{OUTLOOK, OnCall, PLACE};
pub use sender::{Envelope, Failure, Sender, SenderKind, WITHIN};
pub use tieline_rota::{Outlook, Shift, Span};
pub use webhook::{Webhook, signature};

/// Whether this build sends mails.
pub const HAS_SMTP: bool = cfg!(feature = "smtp");
