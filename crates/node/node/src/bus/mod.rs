//! The bus: one thread that owns the tree of last values, the subscribers, and the path of every command.
//!
//! ```text
//!  field shards ── reports ──▶ ┌───────────────────────────────┐ ──▶ MQTT sessions (on this thread)
//!  MQTT sessions ─ publish ──▶ │ tree · subscribers · commands │ ──▶ live feeds of HTTP
//!  HTTP ── calls ────────────▶ └───────────────────────────────┘ ──▶ history (receipts come back as inputs)
//! ```
//!
//! Everything that arrives while a turn runs is applied first; then each session that has something is written to
//! once, history gets one batch, and commands go out. So a burst costs one write a session, and a single update goes
//! out at once.
//!
//! Read first: `state.rs`.

#[cfg(test)]
mod alone;
mod asks;
mod census;
mod client;
mod compaction;
mod counters;
mod declared;
mod deltas;
mod ends;
mod fanout;
mod flow;
mod guarded;
mod handle;
mod lag;
mod live;
#[cfg(test)]
mod outages;
mod persistence;
mod publishers;
mod pump;
mod put;
mod receipts;
mod restore;
mod retained;
mod sessions;
mod share;
mod state;
mod stated;
mod statistics;
mod system_topics;
mod turn;
mod view;
mod views;
mod watchers;
mod wire;

pub use asks::Step;
pub use client::DeltaStart;
pub use counters::BusCounters;
pub use deltas::is_marked;
pub use ends::Ends;
pub use handle::{AskError, BusHandle, BusInput, Incoming, Stopped};
pub use lag::{Lag, SessionOrder};
pub use live::{Groups, LiveFeed, LiveMessage, WAITING_MAX as LIVE_WAITING_MAX};
pub use put::PutError;
pub use sessions::{Entered, KeptLimits, LastWill};
pub use state::{Bus, SharedBus};
pub use turn::{run, wake};
pub use view::{write_body, write_head, write_topic};
pub use watchers::watch_of;
pub use wire::Wire;
