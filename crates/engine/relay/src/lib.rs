//! What a site owes its centre and how far it came, and which node of a centre leads.
//!
//! In: numbers of durable records, the records themselves when they are asked for, answers, marks, heartbeats, leases, time. Out:
//! batches with numbers without gaps, transactions for the centre's store, answers with its mark, the right to lead with its term,
//! conditional appends.
//!
//! Never: a socket, a file, a clock, a guess about what is on another's disk.
//!
//! # Upward
//!
//! ```text
//!  the site's journal ─▶ Upward ══ batch ══▶ Receiver ─▶ the centre's store: records and mark, one transaction
//!                          ▲                     │
//!                          └═══ answer: mark ════┘
//! ```
//!
//! The records of each [`Stream`] of a site are numbered from 1 without gaps. A [`Receiver`] takes only what continues after its mark,
//! and answers with the mark; an [`Upward`] goes on from the number after the mark whenever it is in doubt. So each record is stored
//! once, whatever is lost, doubled, delayed or killed in between. A record that a site no longer has is named as lost, and counted.
//!
//! # Events
//!
//! An [`EventOutbox`] has what programs published for the other end of a link, by urgency and within a limit; an [`EventInbox`] takes each
//! event once, however often it comes. They keep nothing over a restart.
//!
//! # Leading
//!
//! [`Lead`] decides by heartbeats and a lease which node leads, and in which term; [`Writer`] appends what that node decides to a
//! stream, and ends when the stream has a higher term.
//!
//! Read first: `batch.rs`, `answer.rs` and `call.rs` (the formats), then `upward/mod.rs`, `receiver.rs`, `lead.rs`, `writer.rs`;
//! `events/mod.rs`, `events/outbox.rs`.
#![no_std]
extern crate alloc;

mod answer;
mod batch;
mod call;
mod clock_offset;
mod events;
mod frame;
mod lead;
mod pace;
mod pause;
mod receiver;
mod stream;
mod upward;
mod writer;

pub use answer::{Answer, Mark, Outcome};
pub use batch::{
    BATCH_BYTES_MAX, Batch, BatchError, BatchReader, BatchWriter, RECORDS_BYTES_MAX, Records, SITE_BYTES_MAX,
};
pub use call::{CALL_BYTES_MAX, CallAnswer, CallOutcome, SiteCall};
pub use clock_offset::{ClockOffset, Offset};
pub use events::{
    EVENT_BYTES_MAX, EVENTS_BYTES_MAX, Event, EventAnswer, EventBatch, EventClass, EventInbox, EventMessage,
    EventOutbox, EventOutcome, FILTERS_MAX, InboxStats, Interest, OutboxLimits, OutboxStats,
};
pub use lead::{Lead, LeadAction, LeadEvent, LeadLimits, Lease, LeaseError, Reason};
pub use pace::PaceLimits;
pub use receiver::{Part, Receiver, ReceiverLimits, ReceiverStats, Reply};
pub use stream::Stream;
pub use upward::{Outgoing, Read, Upward, UpwardEvent, UpwardLimits, UpwardStats};
pub use writer::{AppendError, Last, Writer, WriterAction, WriterEvent, WriterFull, WriterLimits, message_records};

#[cfg(test)]
mod sim;
