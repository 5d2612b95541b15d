//! A node from start to stop: its threads, and the order in which they start and stop.

mod bus_thread;
mod centre;
mod device_counts;
mod folder;
mod http_thread;
mod in_process;
mod joined;
mod member;
mod standby;
mod start_error;
mod upstream;

pub use device_counts::DeviceCounts;
pub use folder::FolderLock;
pub use in_process::{InProcessBroker, InProcessListener, Waiting};
pub use member::{MemberChange, MemberNode};
pub use start_error::StartError;

use crate::access::{Authenticator, CredentialStore, Entrance};
use crate::broker::http_answer;
use crate::broker::listeners::{Addresses, Entrances};
use crate::bus::alarms::{Notifications, Outside, places_of};
use crate::bus::ledger::{LedgerOwner, Opened};
use crate::bus::ownership::{lanes, unpublished};
use crate::bus::reload::{FieldShards, KnownDevices, KnownFiles, Reloader, ShardParts};
use crate::bus::{Answer, BusHandle, BusInput};
use crate::config::Config;
use crate::control::audit::AuditLog;
use crate::control::state::{self, Record};
use crate::control::{Commands, Fence, Tells};
use crate::edge::EdgeThread;
use crate::field::{DeviceTable, Positions, ShardChange};
use crate::history::{HistoryOwner, Joined, OnChange, Recorder};
use crate::http::{About, App, Identities, Logins, state_of};
use crate::sites::SitesThread;
use crate::trace::TraceDisk;
use crate::wall_clock::{self, ClockOwner, WallClock};
use bus_thread::{Binding, start_bus};
use http_thread::{HttpThread, listen_http};
use joined::JoinedParts;
use member::Leading;
use std::hash::{BuildHasher as _, RandomState};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use tieline_core::Timestamp;
use tieline_history::{DerivedParts, DerivedWriter, EditLimits, HistorySource};
use tieline_ledger::Image;
use tieline_net::{Clock, Counters, ShardThread};
use tieline_service::http::places::Places;
use tieline_transport::CertificateCache;
use tieline_views::Views;
use upstream::EdgeParts;

/// A running node. Dropping it stops it: what was acknowledged is stored.
#[derive(Debug)]
pub struct Node {
    // In the order in which they stop: what brings work in goes first.
    http_thread: HttpThread,
    edges: Vec<EdgeThread>,
    sites: Vec<SitesThread>,
    door: Option<centre::Door>,
    reloader: Arc<Reloader>,
    bus: BusHandle,
    bus_thread: ShardThread,
    _derived: Option<DerivedWriter>,
    _kept: (HistoryOwner, LedgerOwner, ClockOwner, FolderLock),
    http: SocketAddr,
    mqtt: Addresses,
    tls: Arc<CertificateCache>,
}

impl Node {
    /// Starts a node whose data is in `folder`.
    ///
    /// # Errors
    /// The folder, an address or a thread cannot be had; nothing runs then.
    pub fn start(config: &Config, folder: &Path) -> Result<Self, StartError> {
        Self::start_as(config, folder, Leading::default())
    }

    /// The same for a node that leads a core: what it keeps goes to the log of the core first.
    ///
    /// # Errors
    /// The folder, an address or a thread cannot be had; nothing runs then.
    #[expect(clippy::too_many_lines, reason = "it names each part of a node once, in the order in which they start")]
    pub(crate) fn start_as(config: &Config, folder: &Path, leading: Leading) -> Result<Self, StartError> {
        let ((bus, inputs), clock, board) = (BusHandle::new(), Clock::start(), Arc::default());
        let (edge, sites) =
            (EdgeParts::of(&config.edge, RandomState::new().hash_one(1)), JoinedParts::of(config, folder, &board));
        let Data { lock, audit, control, ledger, opened, image, wall, clock_owner, source, history, traces, positions } =
            open_data(config, folder, (clock, &bus), sites.joined(), &leading)?;
        let authenticator = start_authenticator(config, clock, bus.clone())?;
        let shards = worker_count(config.node.workers).min(config.devices.len());
        let change = DeviceTable::default().change_to(&config.devices, config.history.enabled, shards);
        let known = KnownDevices::of(change.table.devices());
        let tells = Tells { fence: leading.replication.log.clone().map(Fence), ..bus.tells() };
        let commands = commands_of(config, &change.table, audit, tells)?.restored(clock.now(), control);
        let recorder = Recorder::new(&config.history, history.handle(), unpublished(&config.devices), bus.stored());
        let (mqtt_counters, field_counters) = (Arc::new(Counters::default()), Arc::new(Counters::default()));
        let certificates = Arc::new(CertificateCache::default());
        let (listener, http) = listen_http(config)?;
        let derived = start_derived(config.history.enabled.then(|| source.clone()), clock, &bus)?;
        let joining = centre::joining(config, folder, &leading.replication)?;
        let identities = config.access.oidc.clone().map(|oidc| Arc::new(Identities::new(oidc, clock)));
        let notifications = Notifications::start(&config.notify, folder, (clock, &bus)).map_err(StartError::Notify)?;
        let bind = Binding {
            http_answer: http_answer(http, config.http.tls.is_some()),
            config: config.mqtt.clone(),
            reserved: known.reserved(),
            entrances: entrances(config, authenticator.clone()),
            authenticator: authenticator.clone(),
            certificates: Arc::clone(&certificates),
            views: views_of(config)?,
            derived: (config.derived.clone(), derived.as_ref().map(|writer| writer.handle().clone())),
            lanes: lanes(&config.mqtt, &config.devices),
            rules: config.topics.clone(),
            alarms: config.alarm.clone().map(|alarm| (alarm, places_of(change.table.devices().iter()))),
            notifications: Arc::clone(&notifications),
            pending: (opened, image),
            outside: Outside {
                wall: wall.clone(),
                certificates: Arc::clone(&certificates),
                authenticator: authenticator.clone(),
                sites: Arc::clone(&board),
                break_glass: identities.as_ref().and_then(|identities| identities.break_glass()),
            },
            shown: (edge.as_ref().map(EdgeParts::mirrors).unwrap_or_default(), sites.on_bus()),
            sockets: socket_shards(config.node.workers),
            cluster: leading.board.clone(),
        };
        let (bus_thread, mqtt) = start_bus(bind, clock, Arc::clone(&mqtt_counters), inputs, recorder, commands)?;
        let about = About {
            name: config.node.name.clone(),
            addresses: (http, mqtt.tcp),
            started: clock.now().utc,
            clock,
            wall,
            data: folder.to_path_buf(),
            history: config.history.enabled.then(|| source.clone()),
            field: Arc::clone(&field_counters),
            http: Places::new(config.http.limits),
            recalls: Default::default(),
            requests: Default::default(),
            tails: Default::default(),
            health: Default::default(),
            mqtt: mqtt_counters,
            traces: traces.clone(),
            tls: Arc::clone(&certificates),
            is_edge: config.edge.is_some(),
            edge: edge.as_ref().map(EdgeParts::sockets),
            sites: board,
            cluster: leading.board,
        };
        let shards_max = worker_count(config.node.workers);
        let (counters, lanes, shared) = (field_counters, bus.lanes(), Arc::clone(&certificates));
        let parts = ShardParts { shards_max, clock, counters, certificates: shared, traces, positions, lanes };
        let running = (change.table, known.clone(), FieldShards::new(parts));
        let sites = sites.start(clock, &source, &bus)?;
        let shown = KnownFiles::open(config.console.clone(), folder);
        let parts = (source, Arc::clone(&notifications), shown);
        let reloader = Arc::new(Reloader::new(config, (bus.clone(), clock), running, parts));
        let door = centre::door(config, folder, &joining, clock, &bus)?;
        let app = App {
            bus: bus.clone(),
            known,
            joining,
            notifications,
            reloader: Arc::clone(&reloader),
            about: Arc::new(about),
            has_tls: config.http.tls.is_some(),
            entrance: entrance(config, config.http.listen, &authenticator),
            identities,
            logins: Logins::new(clock, config.access.login_idle, config.access.login_max),
            authenticator,
        };
        let http_thread = HttpThread::start(config, clock, listener, app)?;
        start_field(&bus, reloader.shards(), change.shards, shards)?;
        let edges = edge.map(|parts| parts.start(clock, &bus)).transpose()?.unwrap_or_default();
        let (tls, _kept) = (certificates, (history, ledger, clock_owner, lock));
        Ok(Self {
            http_thread,
            edges,
            sites,
            door,
            reloader,
            bus_thread,
            _derived: derived,
            _kept,
            http,
            mqtt,
            tls,
            bus,
        })
    }

    /// The part that has ended by itself, which none should: the node is no use any more.
    #[must_use]
    pub fn ended_part(&self) -> Option<&'static str> {
        let ended = |name, is_finished: bool| is_finished.then_some(name);
        ended("bus", self.bus_thread.is_finished())
            .or(ended("http", self.http_thread.is_finished()))
            .or(ended("door", self.door.as_ref().is_some_and(centre::Door::is_finished)))
            .or(ended("edge", self.edges.iter().any(EdgeThread::is_finished)))
            .or(ended("sites", self.sites.iter().any(SitesThread::is_finished)))
            .or(ended("field", self.reloader.shards().has_ended()))
    }

    /// Waits until the bus and the HTTP server have each done something more; false where the bus has stopped.
    pub async fn answers(&self) -> bool {
        self.http_thread.beat().await;
        self.bus.call(|_, _| ()).await.is_ok()
    }

    /// Reads all TLS files again, for the handshakes that follow; what is wrong with them is logged, and shown in
    /// health.
    pub fn reload_tls(&self) {
        self.tls.reload(true);
    }

    /// Reads the configuration file again: devices with all that they name, views, TLS files. What is wrong with it is logged,
    /// and nothing has changed then.
    pub async fn reload(&self, who: &str) {
        // It is carried through, whatever becomes of the caller.
        let (reloader, who) = (Arc::clone(&self.reloader), who.to_owned());
        let _ = tokio::spawn(async move { drop(reloader.reload(&who).await) }).await;
    }

    /// How many devices are in which state; nothing once the node has stopped.
    pub async fn device_counts(&self) -> DeviceCounts {
        let devices = self.reloader.known().all();
        let counts = self
            .bus
            .call(move |bus, _| DeviceCounts::of(devices.iter().map(|device| state_of(bus, &device.config.topic))));
        counts.await.unwrap_or_default()
    }

    /// Where HTTP listens.
    #[must_use]
    pub const fn http(&self) -> SocketAddr {
        self.http
    }

    /// Where MQTT listens.
    #[must_use]
    pub const fn mqtt(&self) -> SocketAddr {
        self.mqtt.tcp
    }

    /// Where MQTT listens for TLS, if it does.
    #[must_use]
    pub const fn mqtt_tls(&self) -> Option<SocketAddr> {
        self.mqtt.tls
    }

    /// Where MQTT listens for WebSocket, if it does.
    #[must_use]
    pub const fn mqtt_websocket(&self) -> Option<SocketAddr> {
        self.mqtt.websocket
    }
}

/// What is in a data folder, open.
struct Data {
    lock: FolderLock,
    audit: AuditLog,
    /// What control keeps; none where nothing was kept.
    control: Option<Vec<Record>>,
    ledger: LedgerOwner,
    opened: Option<Opened>,
    image: Image,
    wall: WallClock,
    clock_owner: ClockOwner,
    source: HistorySource,
    history: HistoryOwner,
    traces: TraceDisk,
    positions: Positions,
}

/// Opens a data folder. The clock is looked at before anything is removed by it.
fn open_data(
    config: &Config,
    folder: &Path,
    (clock, bus): (Clock, &BusHandle),
    joined: Vec<Joined>,
    leading: &Leading,
) -> Result<Data, StartError> {
    let replication = &leading.replication;
    let data = |why: String| StartError::Data { folder: folder.to_owned(), why };
    let lock = FolderLock::take(folder).map_err(data)?;
    let control = state::load(folder).map_err(|error| data(error.to_string()))?;
    let audit = AuditLog::start_replicated(folder, config.audit, leading.audit()).map_err(StartError::Thread)?;
    let (ledger, opened, image) =
        LedgerOwner::start(&config.mqtt, folder, clock, bus.clone(), replication.log.clone()).map_err(data)?;
    let alive = Some(image.alive).filter(|alive| *alive > Timestamp::default());
    let last_ran = wall_clock::last_known(folder).or(alive);
    let wall = WallClock::new(clock, last_ran);
    let clock_owner = ClockOwner::start(folder, wall.clone()).map_err(StartError::Thread)?;
    let (believed, told) = (wall.clone(), bus.clone());
    let on_change: OnChange =
        Box::new(move |seen| told.tell_blocking(BusInput::Call(Box::new(move |bus, _| bus.set_history(seen)))));
    let may_remove = Arc::new(move || believed.doubt().is_none());
    let limits = EditLimits { of_topic: config.history.edits_per_topic_max, of_all: config.history.edits_max };
    let source = HistorySource::new(folder).with_edit_limits(limits);
    let history = HistoryOwner::start(&config.history, &source, may_remove, on_change, joined, replication.clone());
    let history = history.map_err(|error| data(error.to_string()))?;
    let is_traced = config.devices.iter().any(|device| device.trace.disk > 0);
    let traces = TraceDisk::start(folder, is_traced).map_err(StartError::Thread)?;
    let keep_past = crate::config::keep_past(config.devices.iter().map(|device| (device, config.history.enabled)));
    let positions = Positions::start(folder, &keep_past, last_ran).map_err(StartError::Thread)?;
    Ok(Data { lock, audit, control, ledger, opened, image, wall, clock_owner, source, history, traces, positions })
}

/// As many threads as are wanted of a kind: one a core where nothing is said.
fn worker_count(workers: usize) -> usize {
    let cores = || std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    if workers == 0 { cores() } else { workers }
}

/// Threads for the sockets of MQTT clients. One worker is the bus itself.
pub(crate) fn socket_shards(workers: usize) -> usize {
    Some(worker_count(workers)).filter(|count| *count > 1).unwrap_or(0)
}

/// The check of users, where there are any. Changed files reach the bus by themselves.
fn start_authenticator(config: &Config, clock: Clock, bus: BusHandle) -> Result<Option<Authenticator>, StartError> {
    if !config.access.is_configured() {
        return Ok(None);
    }
    let batches = CredentialStore::load(&config.access).map_err(|error| StartError::Access(error.to_string()))?;
    let on_change = move |policy| {
        bus.tell_blocking(BusInput::Call(Box::new(move |bus, now| bus.replace_policy(now, policy))));
    };
    Authenticator::start(&config.access, batches, clock, Box::new(on_change)).map(Some).map_err(StartError::Thread)
}

/// What carries commands out.
fn commands_of(
    config: &Config,
    table: &DeviceTable,
    audit: AuditLog,
    tells: Tells,
) -> Result<Commands<Answer>, StartError> {
    let placed = table.places().iter().map(|placed| (&placed.device, placed.shard));
    Commands::new(config, placed, audit, tells).map_err(StartError::Control)
}

/// Starts the field shards with their devices; the bus gets their senders.
fn start_field(
    bus: &BusHandle,
    shards: &FieldShards,
    changes: Vec<ShardChange>,
    count: usize,
) -> Result<(), StartError> {
    shards.start(changes.into_iter().map(|shard| shard.start), count).map_err(StartError::Field)?;
    let senders = shards.senders();
    bus.tell_blocking(BusInput::Call(Box::new(move |bus, _| bus.set_field(senders))));
    Ok(())
}

/// The thread that calculates derived series, where there is a history. Its news goes to the bus.
fn start_derived(
    source: Option<HistorySource>,
    clock: Clock,
    bus: &BusHandle,
) -> Result<Option<DerivedWriter>, StartError> {
    let Some(source) = source else { return Ok(None) };
    let told = bus.clone();
    let tell =
        move |news| told.tell_blocking(BusInput::Call(Box::new(move |bus, now| bus.handle_derived_news(now, news))));
    let parts = DerivedParts { clock: Box::new(move || clock.now().utc), tell: Box::new(tell) };
    DerivedWriter::start(&source, parts).map(Some).map_err(StartError::Thread)
}

/// The views, where there are any.
pub(crate) fn views_of(config: &Config) -> Result<Option<Views>, StartError> {
    if config.views.is_empty() {
        return Ok(None);
    }
    let views = Views::new(config.views.clone(), tieline_views::Limits::default());
    views.map(Some).map_err(|error| StartError::Views(error.to_string()))
}

/// Whether peers at an address show who they are.
fn entrance(config: &Config, listen: SocketAddr, authenticator: &Option<Authenticator>) -> Entrance {
    match authenticator {
        Some(authenticator) if config.access.guards(listen) => Entrance::Guarded(authenticator.clone()),
        Some(_) | None => Entrance::Open,
    }
}

/// The same for the addresses of MQTT.
fn entrances(config: &Config, authenticator: Option<Authenticator>) -> Entrances {
    let config = config.clone();
    Box::new(move |listen| entrance(&config, listen, &authenticator))
}
