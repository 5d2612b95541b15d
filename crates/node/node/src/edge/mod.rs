//! The column of an edge: its session at an upstream, over which topics of another node come. Each upstream has a thread of its own.
//!
//! ```text
//!  upstream ── deltas ──▶ session ── values ──▶ inbox ── reports ──▶ the bus
//!          ◀─ filters, messages ─┘ ◀─────────── inputs ────────────── the bus
//! ```
//!
//! In: what to ask for, and messages of clients that go upward. Out: values and messages of the upstream, answers, and how the
//! link is. The thread holds what it could not hand over by topic, so that a busy bus gets the newest value of each.
//!
//! Never: a decision about who may do what, or about what is asked for.
//!
//! Read first: `link.rs`, then `desk.rs`.

mod chain;
mod desk;
mod inbox;
mod link;
mod received;
mod way;

pub use chain::{NODES_TOPIC, Nodes, node_of};
pub use desk::with_response_topic;
pub use way::{GivenWay, MakeConnection, Way};

use crate::config::{Priority, UpstreamConfig};
use bytes::Bytes;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tieline_core::{Body, Filter, Topic};
use tieline_delta::ReadyDelta;
use tieline_mqtt::{Message, Qos, ReasonCode};
use tieline_net::{Clock, Counters, Shard, ShardThread};
use tokio::sync::mpsc;

/// Answers to what has this response topic go to the client that asked, and to nobody else. It needs no subscription, and no
/// right.
pub const ANSWER_TOPIC: &str = "$tieline/answer";
/// Where a lock is given back.
pub const RELEASE_TOPIC: &str = "$locks/release";
/// Inputs that may wait for the thread.
const INPUTS_MAX: usize = 1024;

/// What the thread is told.
#[derive(Debug)]
pub enum EdgeInput {
    /// A filter is wanted from here on.
    Begin(Filter),
    /// It is no longer.
    End(Filter),
    /// A client's message goes upward.
    Publish {
        /// What its answer will name.
        ticket: u64,
        /// What.
        message: Box<Message>,
        /// How surely.
        qos: Qos,
        /// Whether it is to be its topic's value.
        retain: bool,
        /// The connection over which it goes, as [`EdgeNews::Connected`] numbered it: over no later one.
        connection: u64,
    },
}

/// What the thread tells.
#[derive(Debug)]
pub enum EdgeNews {
    /// How the link is.
    Link(LinkState),
    /// The upstream has let this node in, by the connection with this number.
    Connected(u64),
    /// A topic's value; an empty one removes it.
    Value {
        /// Whose.
        topic: Topic,
        /// The value.
        body: Body,
        /// What leads to it from the value before, where it came as that.
        ready: Option<Box<ReadyDelta>>,
        /// Its version at the node that it is of, where that is known.
        version: Option<u64>,
    },
    /// A message that says more than a value: it has properties, or is no last value.
    Message {
        /// What; its payload is that of `body`.
        message: Box<Message>,
        /// What the payload says.
        body: Body,
        /// Whether it is its topic's value.
        retain: bool,
        /// The version of that, where it is known.
        version: Option<u64>,
    },
    /// A topic's value was removed, and no message says so.
    Removed(Topic),
    /// All last values come once more: what was removed meanwhile is not known.
    Again,
    /// All last values of what is asked for have come since the link is up, or since they come once more.
    CaughtUp,
    /// The nodes whose values this node has by this upstream.
    Nodes(Nodes),
    /// The upstream does not let this node have what the filter selects, or now it does.
    Refused(Filter, Option<String>),
    /// What became of a client's message.
    Answer {
        /// Which.
        ticket: u64,
        /// Why it was refused; none where it was taken.
        refused: Option<(ReasonCode, String)>,
    },
    /// What the upstream answers to a request.
    Reply {
        /// Which, as its correlation data says.
        request: u64,
        /// The answer.
        payload: Bytes,
    },
}

/// What the bus reads at a time.
#[derive(Debug)]
pub struct EdgeReport {
    /// Of which upstream: its place in the configuration.
    pub upstream: usize,
    /// What is new.
    pub news: Vec<EdgeNews>,
}

/// What the thread of one upstream has to know.
#[derive(Clone, Debug)]
pub struct EdgeLink {
    /// Its place in the configuration.
    pub at: usize,
    /// The upstream.
    pub upstream: UpstreamConfig,
    /// How urgent its topics are on the bus.
    pub priority: Priority,
    /// This node in [`Nodes`]: the same for all upstreams.
    pub node: String,
    /// The longest wait between attempts to connect.
    pub retry_max: Duration,
    /// How long the upstream may collect values for one write.
    pub window: Duration,
    /// How long the upstream may say nothing.
    pub silence: Duration,
}

/// How the link to the upstream is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It was never up.
    Connecting,
    /// The upstream has let this node in.
    Up {
        /// Which upstream.
        upstream: String,
    },
    /// The upstream has let this node in, and has its values from this node itself: none are taken.
    Circle {
        /// Which upstream.
        upstream: String,
        /// The nodes of the circle, this one first, each the edge of the next.
        nodes: Vec<String>,
    },
    /// It is not up.
    Away {
        /// Which upstream was tried last.
        upstream: String,
        /// Why.
        why: String,
    },
}

impl LinkState {
    /// A word of it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Up { .. } => "up",
            Self::Circle { .. } => "circle",
            Self::Away { .. } => "away",
        }
    }

    /// All words.
    pub const NAMES: [&'static str; 4] = ["connecting", "up", "circle", "away"];

    /// How much it needs to be seen to.
    #[must_use]
    pub const fn gravity(&self) -> u8 {
        match self {
            Self::Up { .. } => 0,
            Self::Connecting => 1,
            Self::Circle { .. } => 2,
            Self::Away { .. } => 3,
        }
    }

    /// Whether this node has a session at the upstream.
    #[must_use]
    pub const fn is_connected(&self) -> bool {
        matches!(self, Self::Up { .. } | Self::Circle { .. })
    }

    /// Whether values come.
    #[must_use]
    pub const fn is_up(&self) -> bool {
        matches!(self, Self::Up { .. })
    }
}

/// Counters of the thread.
#[derive(Debug, Default)]
pub struct EdgeCounters {
    /// Values that came whole.
    pub values: AtomicU64,
    /// Values that came as what changed.
    pub deltas: AtomicU64,
    /// Values that were lost, and asked for.
    pub lost: AtomicU64,
    /// Messages that are no last values.
    pub messages: AtomicU64,
    /// Values that a newer one took the place of, because the bus was busy.
    pub conflated: AtomicU64,
    /// Messages dropped for the same reason.
    pub dropped: AtomicU64,
    /// Times that the upstream had to wait for the same reason.
    pub held: AtomicU64,
    /// Connections that the upstream let in.
    pub connected: AtomicU64,
}

impl EdgeCounters {
    fn add(counter: &AtomicU64, count: usize) {
        counter.fetch_add(u64::try_from(count).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Keeps the connection to an upstream as a task of the present thread, until the bus is gone.
pub fn run_here<I: From<EdgeReport> + Send + 'static>(
    shard: Rc<Shard>,
    (link, way): (EdgeLink, Way),
    handle: &EdgeHandle,
    asked: mpsc::Receiver<EdgeInput>,
    reports: mpsc::Sender<I>,
) {
    let way = (way, Arc::clone(&handle.counters));
    tokio::task::spawn_local(link::run(shard, link, way, asked, reports));
}

/// The thread of an upstream. Dropping it says nothing to the upstream and ends it.
#[derive(Debug)]
pub struct EdgeThread(ShardThread);

/// What others have of it.
#[derive(Clone, Debug)]
pub struct EdgeHandle {
    /// Takes inputs; full where the thread is behind.
    pub inputs: mpsc::Sender<EdgeInput>,
    /// What it counts.
    pub counters: Arc<EdgeCounters>,
    /// What its sockets count.
    pub sockets: Arc<Counters>,
}

impl EdgeHandle {
    /// A handle, and what the thread reads. The sockets of all threads are counted together.
    #[must_use]
    pub fn new(sockets: &Arc<Counters>) -> (Self, mpsc::Receiver<EdgeInput>) {
        let (inputs, asked) = mpsc::channel(INPUTS_MAX);
        (Self { inputs, counters: Arc::default(), sockets: Arc::clone(sockets) }, asked)
    }
}

impl EdgeThread {
    /// Starts the thread; its reports go to `reports`.
    ///
    /// # Errors
    /// The system gives no thread.
    pub fn start<I: From<EdgeReport> + Send + 'static>(
        link: EdgeLink,
        clock: Clock,
        handle: &EdgeHandle,
        asked: mpsc::Receiver<EdgeInput>,
        reports: mpsc::Sender<I>,
    ) -> std::io::Result<Self> {
        let counters = Arc::clone(&handle.counters);
        let body = move |shard| link::run(shard, link, (Way::Network, counters), asked, reports);
        ShardThread::spawn("edge", clock, Arc::clone(&handle.sockets), body).map(Self)
    }

    /// Whether it has ended by itself.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}
