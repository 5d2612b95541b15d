//! A member of a core with standbys: a node while it leads, and otherwise servers that say who does.

use super::standby::Standby;
use super::{FolderLock, Node, StartError};
use crate::bus::{Bus, BusInput};
use crate::cluster::{ClusterBoard, ClusterEvent, ClusterParts, ClusterRole, ClusterThread};
use crate::config::Config;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline_history::Replication;
use tieline_net::Clock;
use tokio::sync::mpsc;

/// Addresses that another server of this process had are free soon after.
const FREE_WITHIN: Duration = Duration::from_secs(5);
const FREE_LOOK: Duration = Duration::from_millis(20);
/// How long clients have to go elsewhere.
const GO_WITHIN: Duration = Duration::from_millis(100);

/// A member of a core. Dropping it stops it; where it leads, another may take over at once.
#[derive(Debug)]
pub struct MemberNode {
    // In the order in which they stop: what a node keeps last goes to the log.
    state: State,
    cluster: ClusterThread,
    events: mpsc::UnboundedReceiver<ClusterEvent>,
    config: Config,
    parts: ClusterParts,
    clock: Clock,
}

#[derive(Debug)]
enum State {
    Leading(Box<Node>),
    Following {
        _servers: Standby,
        _lock: FolderLock,
    },
    /// Between the two.
    Neither,
}

/// That a member leads, or leads no longer; for [`MemberNode::apply`].
pub struct MemberChange(ClusterEvent);

/// What a node has of the core that it leads; nothing where it is alone.
#[derive(Debug, Default)]
pub(crate) struct Leading {
    /// Where what it keeps goes first.
    pub(crate) replication: Replication,
    /// What is shown of it.
    pub(crate) board: Option<Arc<ClusterBoard>>,
}

impl Leading {
    /// What the audit log has of it: where its lines go first, and who leads.
    pub(crate) fn audit(&self) -> (Replication, String) {
        let seen = self.board.as_ref().map(|board| board.look()).unwrap_or_default();
        (self.replication.clone(), format!("{} leads {} in term {}", seen.node, seen.cluster, seen.term))
    }
}

impl Node {
    /// Sends all MQTT clients to another server, and waits until they are gone.
    fn send_elsewhere(&self, reference: Option<String>) {
        let (gone, all_gone) = std::sync::mpsc::channel();
        let send = move |bus: &mut Bus, _| bus.send_elsewhere(reference.as_deref(), gone);
        self.bus.tell_blocking(BusInput::Call(Box::new(send)));
        // Nothing is ever sent: it ends with the last client, or with the bus.
        let _ = all_gone.recv_timeout(GO_WITHIN);
    }
}

impl MemberNode {
    /// Starts a standby whose data is in `folder`; none where the configuration makes the node no member.
    ///
    /// # Errors
    /// The folder, an address or a thread cannot be had; nothing runs then.
    pub fn start(config: &Config, folder: &Path) -> Result<Option<Self>, StartError> {
        let Some(mut parts) = ClusterParts::of(config, folder) else { return Ok(None) };
        let (mut config, clock) = (config.clone(), Clock::start());
        let lock = lock(folder)?;
        let standby = Standby::start(&config, &parts.board, clock)?;
        // Clients find the node and the standby at the same addresses.
        (config.http.listen, config.mqtt.listen) = standby.addresses();
        if !config.mqtt.listen.ip().is_unspecified() {
            parts.config.reference.get_or_insert_with(|| config.mqtt.listen.to_string());
        }
        let (cluster, events) = ClusterThread::start(parts.clone(), clock).map_err(StartError::Thread)?;
        let state = State::Following { _servers: standby, _lock: lock };
        Ok(Some(Self { state, cluster, events, config, parts, clock }))
    }

    /// The node, where this member leads.
    #[must_use]
    pub const fn node(&self) -> Option<&Node> {
        match &self.state {
            State::Leading(node) => Some(node),
            State::Following { .. } | State::Neither => None,
        }
    }

    /// Where HTTP and MQTT listen.
    #[must_use]
    pub const fn addresses(&self) -> (SocketAddr, SocketAddr) {
        (self.config.http.listen, self.config.mqtt.listen)
    }

    /// The part that has ended by itself, which none should.
    #[must_use]
    pub fn ended_part(&self) -> Option<&'static str> {
        let of_node = self.node().and_then(Node::ended_part);
        of_node.or_else(|| self.cluster.is_finished().then_some("cluster"))
    }

    /// Waits until something changes. It can be dropped before its end.
    pub async fn changed(&mut self) -> MemberChange {
        match self.events.recv().await {
            Some(event) => MemberChange(event),
            // The thread has ended: `ended_part` says so.
            None => std::future::pending().await,
        }
    }

    /// Carries a change out; it blocks, and must not be called from a runtime.
    ///
    /// # Errors
    /// The folder, an address or a thread cannot be had.
    pub fn apply(&mut self, change: MemberChange) -> Result<(), StartError> {
        match change.0 {
            ClusterEvent::Elected(replication) => self.lead(&replication),
            ClusterEvent::Deposed => self.follow(),
        }
    }

    fn lead(&mut self, replication: &Replication) -> Result<(), StartError> {
        let since = Instant::now();
        // The folder and the addresses are the node's.
        self.state = State::Neither;
        let node = when_free(|| {
            let board = Some(Arc::clone(&self.parts.board));
            Node::start_as(&self.config, &self.parts.folder, Leading { replication: replication.clone(), board })
        })?;
        tracing::info!(ms = since.elapsed().as_millis(), "this node leads, and serves");
        self.parts.board.note(|seen| (seen.serves, seen.role) = (true, ClusterRole::Leader));
        self.state = State::Leading(Box::new(node));
        Ok(())
    }

    fn follow(&mut self) -> Result<(), StartError> {
        self.parts.board.note(|seen| seen.serves = false);
        if let State::Leading(node) = std::mem::replace(&mut self.state, State::Neither) {
            let leader = self.parts.board.look().leader.filter(|leader| leader.name != self.parts.node);
            node.send_elsewhere(leader.and_then(|leader| leader.reference));
            self.cluster.fail();
            drop(node);
        }
        let lock = lock(&self.parts.folder)?;
        let standby = when_free(|| Standby::start(&self.config, &self.parts.board, self.clock))?;
        self.state = State::Following { _servers: standby, _lock: lock };
        self.cluster.follow();
        Ok(())
    }
}

impl Drop for MemberNode {
    fn drop(&mut self) {
        self.cluster.stop();
    }
}

fn lock(folder: &Path) -> Result<FolderLock, StartError> {
    FolderLock::take(folder).map_err(|why| StartError::Data { folder: folder.to_owned(), why })
}

/// Starts servers at addresses that other servers of this process have just left.
fn when_free<T>(start: impl Fn() -> Result<T, StartError>) -> Result<T, StartError> {
    let until = Instant::now() + FREE_WITHIN;
    loop {
        match start() {
            Err(StartError::Listen { why, .. })
                if why.kind() == std::io::ErrorKind::AddrInUse && Instant::now() < until =>
            {
                std::thread::sleep(FREE_LOOK);
            }
            done => return done,
        }
    }
}

impl std::fmt::Debug for MemberChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.0 {
            ClusterEvent::Elected(_) => "Elected",
            ClusterEvent::Deposed => "Deposed",
        })
    }
}
