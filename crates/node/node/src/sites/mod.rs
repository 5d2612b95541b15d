//! Sites and their centre: a site's journal goes upward in numbered batches, and a centre stores each record once.
//!
//! ```text
//!  journal ─▶ numbers ─▶ Upward ══ batch ══▶ Receiver ─▶ the centre's journal: samples and mark, one record
//!   (site.rs)              ▲                    │                       (centre.rs)   └─▶ the bus: newest values
//!                          └═══ answer: mark ═══┘
//! ```
//!
//! In: what the journal of this node has, or what sites send. Out: batches and answers over the fabric; reports to the bus with the newest
//! values of sites. What is shown of it all is on a [`SitesBoard`].
//!
//! Never: a decision about what continues or what is sent next (`tieline-relay` decides), a connection of its own (`tieline-fabric`).
//!
//! Read first: `numbers.rs`, `marks.rs`, then `site.rs` and `centre.rs`; `events/mod.rs` for messages between sites.

#[cfg(feature = "fabric")]
mod asked;
#[cfg(feature = "fabric")]
mod begun;
mod behind;
mod board;
#[cfg(feature = "fabric")]
mod calling;
mod calls;
#[cfg(feature = "fabric")]
mod centre;
#[cfg(feature = "fabric")]
pub(crate) mod connect;
mod events;
#[cfg(feature = "fabric")]
mod files;
#[cfg(feature = "fabric")]
mod loaded;
#[cfg(feature = "fabric")]
mod marks;
mod names;
#[cfg(feature = "fabric")]
mod numbers;
#[cfg(feature = "fabric")]
mod selected;
#[cfg(feature = "fabric")]
mod served;
#[cfg(feature = "fabric")]
mod site;
#[cfg(feature = "fabric")]
mod standby;
#[cfg(feature = "fabric")]
mod told;
#[cfg(feature = "fabric")]
mod values;

pub mod joining;

pub use behind::Behind;
#[cfg(feature = "fabric")]
pub(crate) use standby::StandbyMarks;

pub use board::{CentreSeen, FabricLink, SiteRow, SiteSeen, SitesBoard};
pub use events::{EventInput, EventPeer, EventsSeen, way_of_events};

pub use calls::{
    ANSWER_BYTES_MAX, CallOfCentre, CallToSite, CallVerb, START_WITHIN, SiteRequest, shown_here, with_topics,
};

use crate::config::{CentreConfig, FabricConfig, SiteConfig};
use std::path::PathBuf;
use std::sync::Arc;
use tieline_core::{Body, Filter, Refusal, Timestamp, Topic};
use tieline_history::{HistoryHandle, HistorySource, JournalFeed};
use tieline_net::{Clock, ShardThread};
use tieline_relay::Event;
use tokio::sync::mpsc;

/// History, once it is open: where samples go in, and the journal.
pub type OpenedHistory = (HistoryHandle, JournalFeed);

/// What the bus is told of sites, a part at a time.
#[derive(Debug)]
pub struct SitesReport(pub Vec<SitesNews>);

/// What a centre tells.
#[derive(Debug)]
pub enum SitesNews {
    /// A site is there, or is away.
    State {
        /// Which.
        site: Arc<str>,
        /// Whether it is there.
        is_up: bool,
    },
    /// Which sites behind one are away.
    Behind {
        /// Behind which.
        site: Arc<str>,
        /// Topics below which their values are, as the site has them.
        away: Vec<String>,
    },
    /// The newest value of a topic of a site.
    Value {
        /// Of which site.
        site: Arc<str>,
        /// The topic here.
        topic: Topic,
        /// When it was so.
        time: Timestamp,
        /// The value.
        body: Body,
    },
    /// A topic of the node's own, `$SYS/sites/…`.
    System(Topic, Body),
    /// A call to a site has ended.
    CallEnded {
        /// Which.
        ticket: u64,
        /// The answer, or why there is none.
        end: Result<String, Refusal>,
    },
    /// The centre of this site asks for something.
    Asked(CallOfCentre),
    /// Messages of other sites.
    Events(Vec<Event>),
    /// The other end of a link for messages is lost, or was started again: its last values may be others by now.
    EventsDoubted(EventPeer),
    /// What a site, or the centre, wants of what programs publish here.
    EventsWanted {
        /// Who wants it.
        by: EventPeer,
        /// All of it.
        filters: Vec<Filter>,
        /// Whether last values are wanted again.
        is_again: bool,
    },
}

/// Whether a node is a site or the centre; one that is both has two threads.
#[expect(clippy::large_enum_variant, reason = "a node has two of them at most")]
#[derive(Clone, Debug)]
pub enum Role {
    /// It sends.
    Site(SiteConfig),
    /// It takes; and whether it is a site, too.
    Centre(CentreConfig, bool),
}

/// What a thread of this room needs.
#[derive(Debug)]
pub struct SitesParts {
    /// How the servers are reached.
    pub fabric: FabricConfig,
    /// What the node is.
    pub role: Role,
    /// The folder below the data folder that has what is known of sites and the centre.
    pub folder: PathBuf,
    /// History as it is read.
    pub source: HistorySource,
    /// Gives history once it is open.
    pub opened: mpsc::UnboundedReceiver<OpenedHistory>,
    /// Calls of a centre to its sites.
    pub calls: mpsc::Receiver<CallToSite>,
    /// Messages between sites.
    pub events: mpsc::Receiver<EventInput>,
    /// What is shown.
    pub board: Arc<SitesBoard>,
    /// The name of this node, where it is a member of a core.
    pub member: Option<String>,
}

/// The thread of a site or a centre. Dropping it ends it.
#[derive(Debug)]
pub struct SitesThread(ShardThread);

impl SitesThread {
    /// Starts the thread; its reports go to `reports`.
    ///
    /// # Errors
    /// The system gives no thread, or this binary has no fabric.
    #[cfg(feature = "fabric")]
    pub fn start<I: From<SitesReport> + Send + 'static>(
        parts: SitesParts,
        clock: Clock,
        reports: mpsc::Sender<I>,
    ) -> std::io::Result<Self> {
        std::fs::create_dir_all(&parts.folder)?;
        let (name, counters) = (parts.role.name(), Arc::default());
        ShardThread::spawn(name, clock, counters, move |shard| async move {
            match parts.role.clone() {
                Role::Site(config) => site::run(shard, parts, config, reports).await,
                Role::Centre(config, is_site) => centre::run(shard, parts, (config, is_site), reports).await,
            }
        })
        .map(Self)
    }

    /// The same of a binary without the fabric.
    ///
    /// # Errors
    /// Always: the configuration refuses the tables before.
    #[cfg(not(feature = "fabric"))]
    pub fn start<I: From<SitesReport> + Send + 'static>(
        parts: SitesParts,
        _: Clock,
        _: mpsc::Sender<I>,
    ) -> std::io::Result<Self> {
        Err(std::io::Error::other(format!("{parts:?}, which this binary was built without")))
    }

    /// Whether it has ended by itself.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

impl Role {
    /// In a word.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Site(_) => "site",
            Self::Centre(..) => "centre",
        }
    }
}
