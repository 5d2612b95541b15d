//! The thread of the bus, with the addresses of MQTT clients.

use super::StartError;
use super::joined::JoinedOnBus;
use crate::access::{Authenticator, Guard};
use crate::broker::listeners::{self, Addresses, Entrances};
use crate::broker::{Broker, STALL};
use crate::bus::alarms::{AlarmPlaces, Notifications, Outside};
use crate::bus::ledger::{LedgerBatches, Opened};
use crate::bus::reserved::Reserved;
use crate::bus::{Answer, Bus, Incoming, KeptLimits, Mirror, Receipt};
use crate::cluster::ClusterBoard;
use crate::config::{AlarmConfig, MqttConfig, TopicRule};
use crate::control::Commands;
use crate::history::Recorder;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use tieline_core::{Filter, Now};
use tieline_derived::Series;
use tieline_history::DerivedHandle;
use tieline_ledger::Image;
use tieline_net::{Clock, Counters, ShardThread, SocketShards};
use tieline_topics::{Lane, Limits};
use tieline_transport::CertificateCache;
use tieline_views::Views;

/// Subscriptions of one client; beyond them SUBACK says that the quota is exceeded.
const CLIENT_SUBSCRIPTIONS_MAX: usize = 100_000;

/// What the MQTT server is told.
pub(super) struct Binding {
    pub(super) http_answer: Box<[u8]>,
    pub(super) config: MqttConfig,
    pub(super) reserved: Arc<Reserved>,
    pub(super) entrances: Entrances,
    pub(super) authenticator: Option<Authenticator>,
    pub(super) certificates: Arc<CertificateCache>,
    pub(super) views: Option<Views>,
    /// Derived series, and who calculates their past.
    pub(super) derived: (Vec<Series>, Option<DerivedHandle>),
    pub(super) lanes: Vec<(Filter, Lane)>,
    pub(super) rules: Vec<TopicRule>,
    pub(super) alarms: Option<(AlarmConfig, AlarmPlaces)>,
    pub(super) notifications: Arc<Notifications>,
    pub(super) pending: (Option<Opened>, Image),
    /// What it knows of the node besides.
    pub(super) outside: Outside,
    /// Topics of upstreams, and of sites.
    pub(super) shown: (Vec<Mirror>, JoinedOnBus),
    /// Threads for the sockets of its clients.
    pub(super) sockets: usize,
    /// What is shown of the core that it leads.
    pub(super) cluster: Option<Arc<ClusterBoard>>,
}

/// Starts the thread of the bus, with the addresses that its clients come to.
///
/// # Errors
/// An address or a thread cannot be had.
pub(super) fn start_bus(
    binding: Binding,
    clock: Clock,
    counters: Arc<Counters>,
    inputs: Incoming,
    recorder: Recorder<Receipt>,
    commands: Commands<Answer>,
) -> Result<(ShardThread, Addresses), StartError> {
    let (report, reported) = sync_channel(1);
    let (listen, socket_threads) = (binding.config.listen, binding.sockets);
    let body = move |shard: Rc<tieline_net::Shard>| async move {
        let Binding {
            http_answer,
            config,
            reserved,
            entrances,
            authenticator,
            certificates,
            rules,
            alarms,
            notifications,
            outside,
            ..
        } = binding;
        let Binding { views, derived, pending: (opened, image), shown: (mirrors, sites), sockets, cluster, .. } =
            binding;
        let (listeners, addresses) = match listeners::bind(&shard, &config, &certificates, &entrances).await {
            Ok(bound) => bound,
            Err(why) => return drop(report.send(Err(StartError::Listen { what: "mqtt", address: listen, why }))),
        };
        let about = (shard.clock(), shard.counters(), STALL);
        let (sockets, _threads) = match SocketShards::start("sockets", sockets, about) {
            Ok(started) => started,
            Err(error) => return drop(report.send(Err(StartError::Thread(error)))),
        };
        let sockets = Rc::new(sockets);
        let broker = Broker::new(listeners, &config, http_answer, Rc::clone(&sockets));
        let _ = report.send(Ok(addresses));
        let mut bus = bus_of(&shard, &config, recorder, commands);
        if let Some(views) = views {
            bus.set_views(views);
        }
        bus.set_derived(shard.now(), derived);
        if let Some(authenticator) = authenticator {
            bus.set_guard(Guard::new(&authenticator));
        }
        bus.set_mirrors(mirrors);
        sites.put(&mut bus);
        bus.set_cluster(cluster);
        bus.set_lanes(binding.lanes);
        bus.set_rules(rules, config.series_bytes_max);
        // By a clock in doubt no time has passed while the node was not there.
        let now = shard.now();
        let utc = if outside.wall.doubt().is_some() { image.alive } else { now.utc };
        bus.set_reserved(reserved);
        if let Some((alarms, places)) = alarms {
            bus.set_alarms(now, alarms, places);
        }
        bus.restore(Now { utc, ..now }, image, LedgerBatches::new(opened));
        bus.set_notifications(now, notifications);
        bus.set_outside(outside);
        bus.settle_holders(now);
        bus.set_sockets(&sockets);
        let bus = Rc::new(RefCell::new(bus));
        broker.serve(&shard, &bus);
        tokio::select! {
            biased;
            () = crate::bus::run(shard, bus, inputs) => {}
            () = sockets.ended() => tracing::error!("a socket shard has ended by itself: the node ends"),
        }
    };
    let thread = match socket_threads {
        0 => ShardThread::spawn_coalescing("bus", clock, counters, body),
        _ => ShardThread::spawn_giving("bus", clock, counters, body),
    };
    let thread = thread.map_err(StartError::Thread)?;
    let ended = || StartError::Thread(std::io::Error::other("the bus ended before it began"));
    Ok((thread, reported.recv().unwrap_or_else(|_| Err(ended()))?))
}

/// A bus with the limits of the configuration.
fn bus_of(
    shard: &Rc<tieline_net::Shard>,
    config: &MqttConfig,
    recorder: Recorder<Receipt>,
    commands: Commands<Answer>,
) -> Bus {
    let limits = Limits {
        topics_max: config.topics_max,
        bytes_max: config.values_bytes_max,
        subscriber_subscriptions_max: CLIENT_SUBSCRIPTIONS_MAX,
        payload_bytes_max: usize::try_from(config.packet_bytes_max).unwrap_or(usize::MAX),
        ..Limits::default()
    };
    let mut bus = Bus::new(shard, limits, recorder, commands);
    bus.set_kept(KeptLimits::of(config));
    bus.set_sys_interval(config.sys_interval);
    bus
}
