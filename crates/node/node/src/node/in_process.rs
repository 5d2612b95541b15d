//! An in-process broker: a bus and its MQTT broker on the present thread, without listening sockets. Clients connect
//! over connections that the caller provides.

use super::upstream::EdgeParts;
use super::{StartError, socket_shards, views_of};
use crate::access::Guard;
use crate::broker::Broker;
use crate::broker::STALL;
use crate::bus::{Bus, BusHandle, KeptLimits, SharedBus};
use crate::config::Config;
use crate::control::Commands;
use crate::control::audit::AuditLog;
use crate::edge::{GivenWay, MakeConnection};
use crate::history::Recorder;
use bytes::Bytes;
use std::cell::RefCell;
use std::collections::HashSet;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;
use tieline_access::Policy;
use tieline_net::{Connection, Shard, SocketShards};
use tieline_topics::Limits;

/// A bus and its broker on the present thread. It has no devices and no history, and everybody may do everything, unless it is
/// given users.
#[derive(Debug)]
pub struct InProcessBroker {
    listener: InProcessListener,
    /// The bus runs as long as there is one.
    _handle: BusHandle,
}

/// Takes the connections of an in-process broker's clients.
#[derive(Clone, Debug)]
pub struct InProcessListener {
    shard: Rc<Shard>,
    bus: SharedBus,
    broker: Rc<Broker>,
    /// Whether each client is the user that it names.
    believes: bool,
}

impl InProcessListener {
    /// Serves a client over a connection; `number` is unique among the connections.
    pub fn enter(&self, connection: Connection, number: u64) {
        let Self { broker, shard, bus, believes } = self.clone();
        let served = async move { broker.serve_one(&shard, &bus, connection, (number, believes)).await };
        tokio::task::spawn_local(served);
    }
}

/// What waits in an in-process broker to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Bytes of messages kept for clients that are away.
    pub away_bytes: usize,
    /// Clients that are connected.
    pub clients: usize,
    /// Messages and topics that wait for them.
    pub messages: usize,
    /// Bytes that wait for them.
    pub bytes: usize,
}

impl InProcessBroker {
    /// Starts a broker. Its bus runs as a task of the present `LocalSet` until the broker is dropped.
    ///
    /// # Errors
    /// There is no thread for the audit log, whose file would be in `folder`; or the views cannot live together.
    pub fn open(shard: &Rc<Shard>, config: &Config, folder: &Path) -> Result<Self, StartError> {
        Self::start(shard, config, folder, None)
    }

    /// Starts the broker of an edge, whose connections with its upstream are given to it.
    ///
    /// # Errors
    /// As of [`Self::open`].
    pub fn open_edge(
        shard: &Rc<Shard>,
        config: &Config,
        folder: &Path,
        (connect, seed): (MakeConnection, u64),
    ) -> Result<Self, StartError> {
        Self::start(shard, config, folder, Some(GivenWay { connect, seed }))
    }

    fn start(
        shard: &Rc<Shard>,
        config: &Config,
        folder: &Path,
        upstream: Option<GivenWay>,
    ) -> Result<Self, StartError> {
        let audit = AuditLog::start(folder, config.audit).map_err(StartError::Thread)?;
        let (handle, inputs) = BusHandle::new();
        let commands = Commands::new(config, [], audit, handle.tells()).map_err(StartError::Control)?;
        let recorder = Recorder::new(&config.history, None, HashSet::new(), handle.stored());
        let mqtt = &config.mqtt;
        let payload_bytes_max = usize::try_from(mqtt.packet_bytes_max).unwrap_or(usize::MAX);
        let limits = Limits { topics_max: mqtt.topics_max, payload_bytes_max, ..Limits::default() };
        let mut bus = Bus::new(shard, limits, recorder, commands);
        bus.set_kept(KeptLimits::of(mqtt));
        bus.set_sys_interval(mqtt.sys_interval);
        if let Some(views) = views_of(config)? {
            bus.set_views(views);
        }
        bus.set_rules(config.topics.clone(), mqtt.series_bytes_max);
        let edge = upstream.and_then(|way| Some((EdgeParts::of(&config.edge, way.seed.wrapping_add(1))?, way)));
        if let Some((parts, way)) = edge {
            bus.set_mirrors(parts.mirrors());
            parts.start_here(shard, &handle, &way);
        }
        let bus = Rc::new(RefCell::new(bus));
        let sockets = SocketShards::local(shard, socket_shards(config.node.workers), STALL);
        let broker = Rc::new(Broker::new(Vec::new(), mqtt, Box::default(), sockets.into()));
        tokio::task::spawn_local(crate::bus::run(Rc::clone(shard), Rc::clone(&bus), inputs));
        let listener = InProcessListener { shard: Rc::clone(shard), bus, broker, believes: false };
        Ok(Self { listener, _handle: handle })
    }

    /// The same with users: each client is the one that its CONNECT names, and is asked for nothing besides.
    #[must_use]
    pub fn with_users(mut self, policy: Arc<Policy>) -> Self {
        self.listener.bus.borrow_mut().set_guard(Guard::of(policy, tieline_access::Limits::default()));
        self.listener.believes = true;
        self
    }

    /// Other users and roles hold from now on.
    pub fn replace_policy(&self, policy: Arc<Policy>) {
        let now = self.listener.shard.now();
        self.listener.bus.borrow_mut().replace_policy(now, policy);
    }

    /// What takes connections of clients.
    #[must_use]
    pub fn listener(&self) -> InProcessListener {
        self.listener.clone()
    }

    /// The version of a topic's last value, as it is told.
    #[must_use]
    pub fn version(&self, topic: &str) -> Option<u64> {
        let bus = self.listener.bus.borrow();
        let tree = bus.tree();
        tree.version_told(&tree.get(topic)?)
    }

    /// A topic's last value as clients get it.
    #[must_use]
    pub fn value(&self, topic: &str) -> Option<Bytes> {
        let bus = self.listener.bus.borrow();
        let view = bus.tree().get(topic)?;
        Some(view.body.to_payload())
    }

    /// What waits to be sent.
    #[must_use]
    pub fn waiting(&self) -> Waiting {
        let bus = self.listener.bus.borrow();
        let lag = bus.lag(self.listener.shard.now().mono);
        Waiting { away_bytes: bus.away().1, clients: bus.client_count(), messages: lag.waiting, bytes: lag.bytes }
    }
}
