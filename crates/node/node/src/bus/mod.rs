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

pub mod admission;
pub mod alarms;
#[cfg(test)]
mod alone;
mod apply;
mod asks;
mod census;
mod changes;
mod client;
mod compaction;
pub mod conditions;
mod control;
mod counters;
mod counting;
mod declared;
pub mod delivery_options;
mod deltas;
mod derived_series;
mod durations;
mod ends;
mod fanout;
pub mod fetch;
mod flow;
mod frames;
mod gathered;
mod grade;
mod guarded;
mod handle;
mod kept_limits;
mod lag;
pub mod ledger;
mod live;
pub mod locks;
mod locks_above;
mod mirror;
#[cfg(test)]
mod outages;
pub mod ownership;
mod passages;
mod persistence;
#[cfg(test)]
mod points;
pub mod process;
mod publishers;
mod pump;
mod put;
mod questions;
pub mod reasons;
mod receipts;
pub mod reload;
mod replays;
pub mod reserved;
mod restore;
mod retained;
mod sessions;
mod share;
mod site_calls;
mod site_events;
mod sites;
mod state;
mod statistics;
mod system_topics;
mod tags;
mod turn;
pub mod upward;
mod view;
mod views;
pub mod wanted;
mod watchers;
mod wire;
pub mod written;

pub use asks::Step;
pub use control::{Asked, Callback};
pub use counters::BusCounters;
pub use counting::Groups;
pub use deltas::is_marked;
pub use derived_series::DerivedSeen;
pub use ends::Ends;
pub use guarded::line_of;
pub use handle::{AskError, BusHandle, BusInput, Incoming, Stopped};
pub use kept_limits::KeptLimits;
pub use lag::{Lag, SessionOrder};
pub use live::{LiveFeed, LiveMessage, WAITING_MAX as LIVE_WAITING_MAX};
pub use locks_above::{LockAsker, SESSION_BYTES_MAX};
pub use mirror::{Mirror, MirrorCounts, MirrorSeen};
pub use put::PutError;
pub use questions::{OfSeveralNodes, Question, Unanswered};
pub use receipts::Receipt;
pub use reload::load_config;
pub use replays::DeltaStart;
pub use sessions::{Entered, LastWill};
pub use site_calls::{CentreRights, SiteCalls, SiteCallsSeen, refusal_of, way_to_sites};
pub use site_events::{SiteEvents, SiteEventsSeen};
pub use sites::JoinedSites;
pub use state::{Answer, Bus, SharedBus};
pub use turn::{run, wake, wake_after_update};
pub use view::{write_body, write_head, write_topic};
pub use watchers::watch_of;
pub use wire::Wire;
