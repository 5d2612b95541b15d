//! The bus: one thread that owns the tree of last values, the subscribers, and the way of every command.
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

mod client;
mod counters;
mod deltas;
mod fanout;
mod flow;
mod guarded;
mod handle;
mod live;
mod pump;
mod retained;
mod sessions;
mod share;
mod state;
mod turn;
mod view;
mod views;
mod wire;

pub use counters::BusCounters;
pub use handle::{BusHandle, BusInput, Incoming, Stopped};
pub use live::{LiveFeed, WAITING_MAX as LIVE_WAITING_MAX};
pub use sessions::{Entered, KeptLimits, LastWill};
pub use state::{Bus, SharedBus};
pub use turn::{run, wake};
pub use view::write_topic;
pub use wire::Wire;
