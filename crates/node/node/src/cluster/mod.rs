//! A core that survives: nodes of which one leads, while the others keep their data folders as the leader's is.
//!
//! ```text
//!  leader:   ledger, journal ─▶ commits ─▶ Writer ══ message ══▶ the log (NATS) ══▶ standbys: replica ─▶ ledger, journal
//!               (blocked)    ◀── place ──────┘  acknowledged
//! ```
//!
//! In: records of the ledger and of the journal of a leader, messages of the log. Out: the place of each record once the log has it;
//! events ([`ClusterEvent`]) that say when this node leads, and when no longer. What is shown of it is on a [`ClusterBoard`].
//!
//! A record is in the log before it is in the folder of the leader, and it is acknowledged to nobody before: so no folder has a record
//! that the log does not have. Each record in a folder has its place in the log with it, which says where to go on after a restart.
//!
//! Never: a decision about who leads (`tieline-relay` decides), a connection of its own (`tieline-fabric`), a client.
//!
//! Read first: `parts.rs`, `replica.rs`, then `member.rs`.

mod board;
#[cfg(feature = "fabric")]
mod commits;
#[cfg(feature = "fabric")]
mod member;
#[cfg(feature = "fabric")]
mod parts;
#[cfg(feature = "fabric")]
mod places;
#[cfg(feature = "fabric")]
mod replica;

pub use board::{ClusterBoard, ClusterRole, ClusterSeen, MemberSeen};

use crate::config::{AuditConfig, ClusterConfig, Config, FabricConfig, HistoryConfig};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tieline_history::Replication;
use tieline_net::{Clock, ShardThread};
use tokio::sync::mpsc;

/// What a member needs.
#[derive(Clone, Debug)]
pub struct ClusterParts {
    /// The name of this node.
    pub node: String,
    /// How the servers are reached.
    pub fabric: FabricConfig,
    /// Of which core it is a member.
    pub config: ClusterConfig,
    /// What is recorded.
    pub history: HistoryConfig,
    /// Whether it is the centre of sites.
    pub is_centre: bool,
    /// The files of the audit log.
    pub audit: AuditConfig,
    /// Bytes that the ledger may have.
    pub ledger_bytes_max: u64,
    /// The data folder. Nobody else uses it until this node leads.
    pub folder: PathBuf,
    /// What is shown.
    pub board: Arc<ClusterBoard>,
}

impl ClusterParts {
    /// The parts, where the configuration makes the node a member.
    #[must_use]
    pub fn of(config: &Config, folder: &Path) -> Option<Self> {
        let fabric = config.fabric.clone()?;
        let cluster = fabric.cluster.clone()?;
        let board = Arc::new(ClusterBoard::new(&cluster, &config.node.name));
        Some(Self {
            node: config.node.name.clone(),
            fabric,
            config: cluster,
            history: config.history.clone(),
            is_centre: config.centre.is_some(),
            audit: config.audit,
            ledger_bytes_max: config.mqtt.ledger_bytes_max,
            folder: folder.to_owned(),
            board,
        })
    }
}

/// What the owner of a member learns.
pub enum ClusterEvent {
    /// This node leads: the folder is as the log is, and nobody uses it. Records go to the log from here on, behind the last one.
    Elected(Replication),
    /// It leads no longer: sessions must be sent to another member, and the node that runs on the folder must stop.
    Deposed,
}

/// What a member is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ClusterOrder {
    /// Records that wait for the log wait no longer.
    Fail,
    /// Nobody uses the folder: it can be kept as the leader's is.
    Follow,
    /// The node stops: records do not wait for the log once another may lead.
    Stop,
    /// It leaves: if it leads, another may take over at once.
    Leave,
}

/// The thread of a member. Dropping it has the member leave.
#[derive(Debug)]
pub struct ClusterThread {
    orders: mpsc::UnboundedSender<ClusterOrder>,
    thread: Option<ShardThread>,
}

impl ClusterThread {
    /// Starts the thread; what happens comes by the channel.
    ///
    /// # Errors
    /// The system gives no thread, or this binary has no fabric.
    #[cfg(feature = "fabric")]
    pub fn start(parts: ClusterParts, clock: Clock) -> std::io::Result<(Self, mpsc::UnboundedReceiver<ClusterEvent>)> {
        let (orders, taken) = mpsc::unbounded_channel();
        let (told, events) = mpsc::unbounded_channel();
        let body = move |shard| member::run(shard, parts, told, taken);
        let thread = ShardThread::spawn("cluster", clock, Arc::default(), body)?;
        Ok((Self { orders, thread: Some(thread) }, events))
    }

    /// The same of a binary without the fabric.
    ///
    /// # Errors
    /// Always: the configuration refuses the tables before.
    #[cfg(not(feature = "fabric"))]
    pub fn start(parts: ClusterParts, _: Clock) -> std::io::Result<(Self, mpsc::UnboundedReceiver<ClusterEvent>)> {
        Err(std::io::Error::other(format!("{parts:?}, which this binary was built without")))
    }

    /// Has records that wait for the log wait no longer.
    pub fn fail(&self) {
        let _ = self.orders.send(ClusterOrder::Fail);
    }

    /// Says that nobody uses the folder any more.
    pub fn follow(&self) {
        let _ = self.orders.send(ClusterOrder::Follow);
    }

    /// Says that the node stops, and what it has left goes to the log if that takes it.
    pub fn stop(&self) {
        let _ = self.orders.send(ClusterOrder::Stop);
    }

    /// Whether it has ended by itself.
    #[must_use]
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(ShardThread::is_finished)
    }
}

impl Drop for ClusterThread {
    fn drop(&mut self) {
        const PATIENCE: std::time::Duration = std::time::Duration::from_secs(2);
        let _ = self.orders.send(ClusterOrder::Leave);
        let until = std::time::Instant::now() + PATIENCE;
        while !self.is_finished() && std::time::Instant::now() < until {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        self.thread = None;
    }
}
