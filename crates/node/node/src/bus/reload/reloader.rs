//! One reload: the file is read with all checks, and what it changes is carried out, or nothing has changed.
//!
//! ```text
//! file ─▶ Config ─▶ TableChange ─┬─ 1 bus: topics of both tables are the node's, commands are checked
//!                                ├─ 2 shards: who leaves; wait until all that they told is read
//!                                ├─ 3 bus: commands go to the new devices
//!                                ├─ 4 shards: who changes in place, who is started
//!                                └─ 5 bus: topics of the new table, views
//! ```
//!
//! One reload at a time. What a device tells before it leaves is read before another takes its topic (2), and a command that
//! was made for a point list that has changed is not sent (its revision).

use super::known::KnownDevices;
use super::shards::FieldShards;
use super::shown::KnownFiles;
use super::status::{NotStarted, ReloadStatus};
use super::{ReloadError, load_config};
use crate::access::denial;
use crate::bus::alarms::{Notifications, places_of};
use crate::bus::ownership::{BusChange, lanes, staying, unpublished};
use crate::bus::reserved::Reserved;
use crate::bus::{Bus, BusHandle};
use crate::config::{AlarmConfig, Config, ConsoleConfig, Numbered, Source, restart_needed};
use crate::control::DeviceChange;
use crate::field::{ChangeCounts, DeviceTable, ShardChange, TableChange};
use std::sync::{Arc, Mutex, PoisonError};
use tieline_core::{Filter, Now, Topic};
use tieline_derived::Series;
use tieline_history::HistorySource;
use tieline_net::Clock;
use tieline_senders::Receivers;
use tieline_views::View;
use tokio::sync::Mutex as Turn;

/// Reloads the configuration of a node.
pub struct Reloader {
    /// What the node was started with, without its devices.
    started: Config,
    bus: BusHandle,
    clock: Clock,
    shards: FieldShards,
    known: KnownDevices,
    shown: Arc<KnownFiles>,
    history: HistorySource,
    notifications: Arc<Notifications>,
    running: Turn<Running>,
    status: Mutex<ReloadStatus>,
}

/// What runs, of what can be reloaded.
struct Running {
    table: DeviceTable,
    views: Vec<View>,
    derived: Vec<Series>,
    alarm: Option<AlarmConfig>,
    notify: Receivers,
    /// What an edge shows although no client asks for it.
    keep: Vec<Filter>,
}

/// What a reload has done.
#[derive(Clone, Debug)]
pub struct Reloaded {
    /// Devices.
    pub counts: ChangeCounts,
    /// Devices that could not be started: they are away, and the next reload tries again.
    pub not_started: Vec<NotStarted>,
    /// Views that there are.
    pub views: usize,
    /// Topics that they derive.
    pub derived: usize,
    /// Derived series that there are.
    pub derived_series: usize,
    /// Settings that hold after a restart only.
    pub restart_needed: Vec<&'static str>,
}

/// What a change of devices means for the bus and for who shows them: of many devices it is much.
struct Prepared {
    devices: Arc<[Numbered]>,
    reserved: Arc<Reserved>,
    /// Reserved while the devices change.
    both: Arc<Reserved>,
    staying: Arc<Reserved>,
    commands: DeviceChange,
}

impl Prepared {
    fn of(known: &KnownDevices, before: &DeviceTable, change: &TableChange) -> Self {
        let devices = change.table.devices();
        let reserved = Arc::new(Reserved::of(devices.iter()));
        let both = Arc::new(known.reserved().as_ref().clone().with(&reserved));
        let staying = Arc::new(staying(&known.all(), devices.iter()));
        Self { both, staying, commands: commands_of(before, &change.table), devices, reserved }
    }
}

impl Reloader {
    /// For a node that runs these devices.
    #[must_use]
    pub fn new(
        config: &Config,
        (bus, clock): (BusHandle, Clock),
        (table, known, shards): (DeviceTable, KnownDevices, FieldShards),
        (history, notifications, shown): (HistorySource, Arc<Notifications>, KnownFiles),
    ) -> Self {
        let views = config.views.clone();
        let started = Config { devices: Vec::new(), ..config.clone() };
        let (derived, alarm, keep) = (config.derived.clone(), config.alarm.clone(), kept_of(config));
        let notify = config.notify.clone();
        let running = Running { table, views, derived, alarm, notify, keep };
        let (running, status) = (Turn::new(running), Mutex::default());
        let shown = Arc::new(shown);
        Self { started, bus, clock, shards, known, shown, history, notifications, running, status }
    }

    /// The field shards.
    #[must_use]
    pub const fn shards(&self) -> &FieldShards {
        &self.shards
    }

    /// The devices that there are.
    #[must_use]
    pub const fn known(&self) -> &KnownDevices {
        &self.known
    }

    /// The diagrams and boards that there are.
    #[must_use]
    pub const fn shown(&self) -> &Arc<KnownFiles> {
        &self.shown
    }

    /// What came of all reloads.
    #[must_use]
    pub fn status(&self) -> ReloadStatus {
        self.status.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the configuration again, and lets what it changes take effect. Once it has begun it is to be carried through: the
    /// future must not be dropped before its end.
    ///
    /// # Errors
    /// There is no file, or something is wrong with it; nothing has changed then.
    pub async fn reload(&self, who: &str) -> Result<Reloaded, ReloadError> {
        let mut running = self.running.lock().await;
        let done = self.reload_now(&mut running, who).await;
        self.note(&done);
        if let Err(error) = &done {
            self.note_refused(who, "reload_refused", "$config", error).await;
        }
        match &done {
            Ok(Reloaded { counts, not_started, views, restart_needed, .. }) => {
                let ChangeCounts { added, removed, changed, kept_connection, unchanged } = *counts;
                tracing::info!(
                    who,
                    added,
                    removed,
                    changed,
                    kept_connection,
                    unchanged,
                    views,
                    "the configuration was reloaded"
                );
                for NotStarted { name, why } in not_started {
                    tracing::warn!(device = name, why, "a device could not be started");
                }
                if !restart_needed.is_empty() {
                    tracing::warn!(settings = restart_needed.join(", "), "restart needed: these settings have changed");
                }
            }
            Err(ReloadError::NoFile) => tracing::info!(who, "there is no configuration file to be reloaded"),
            Err(error) => tracing::warn!(who, %error, "the configuration was refused, and nothing has changed"),
        }
        done
    }

    async fn reload_now(&self, running: &mut Running, who: &str) -> Result<Reloaded, ReloadError> {
        let (source, recorded) = (self.started.source.clone(), self.started.history.enabled);
        let (table, known) = (running.table.clone(), self.known.clone());
        let (shards_max, shards_now) = (self.shards.count_for(usize::MAX), self.shards.count_for(0));
        // It reads files and compares tables.
        let read = tokio::task::spawn_blocking(move || {
            let config = read_again(&source)?;
            let shards = shards_max.min(config.devices.len()).max(shards_now);
            let change = table.change_to(&config.devices, recorded, shards);
            let prepared = Prepared::of(&known, &table, &change);
            Ok::<_, ReloadError>((config, change, prepared))
        });
        let (config, change, prepared) = read.await.map_err(|error| ReloadError::Node(error.to_string()))??;
        self.check_tls(&change)?;
        let restart_needed = restart_needed(&self.started, &config);
        let counts = change.counts;
        let failed = self.carry_out(running, (change, prepared), &config).await?;
        self.history.set_rules(config.history.retention.clone());
        self.take_files(config.console.clone()).await?;
        self.take_keep(running, kept_of(&config)).await?;
        let derived_series = config.derived.len();
        if config.alarm != running.alarm {
            let (alarm, places) = (config.alarm.clone(), places_of(self.known.all().iter()));
            self.bus.call(move |bus: &mut Bus, now| bus.replace_alarms(now, alarm, places)).await.map_err(stopped)?;
            running.alarm.clone_from(&config.alarm);
        }
        self.take_receivers(running, &config.notify).await?;
        if config.derived != running.derived {
            let series = config.derived.clone();
            self.bus.call(move |bus: &mut Bus, now| bus.set_derived_series(now, series)).await.map_err(stopped)?;
            running.derived.clone_from(&config.derived);
        }
        let is_other = config.views != running.views;
        let (views, derived) = self.take_views(running, (config.views, is_other), who).await?;
        self.shards.certificates().reload(true);
        let (words, by) = (words_of(&counts, views), who.to_owned());
        let note = move |bus: &mut Bus, now: Now| {
            bus.note_access(denial(now, &by, "reload", "admin", "$config", "", words));
        };
        self.bus.call(note).await.map_err(stopped)?;
        Ok(Reloaded { counts, not_started: failed, views, derived, derived_series, restart_needed })
    }

    /// Lets others be told of alarms.
    async fn take_receivers(&self, running: &mut Running, receivers: &Receivers) -> Result<(), ReloadError> {
        if running.notify == *receivers {
            return Ok(());
        }
        let (notifications, others) = (Arc::clone(&self.notifications), receivers.clone());
        let set = tokio::task::spawn_blocking(move || notifications.set(others)).await;
        let node = |error: &dyn std::fmt::Display| ReloadError::Node(format!("notifications: {error}"));
        set.map_err(|error| node(&error))?.map_err(|error| node(&error))?;
        self.bus.call(|bus: &mut Bus, now| bus.tell_standing(now)).await.map_err(stopped)?;
        running.notify.clone_from(receivers);
        Ok(())
    }

    /// Lets other diagrams and boards be shown.
    async fn take_files(&self, files: ConsoleConfig) -> Result<(), ReloadError> {
        let shown = Arc::clone(&self.shown);
        let set = tokio::task::spawn_blocking(move || shown.set(files)).await;
        set.map_err(|error| ReloadError::Node(error.to_string()))
    }

    /// Lets an edge keep other topics of its upstream.
    async fn take_keep(&self, running: &mut Running, keep: Vec<Filter>) -> Result<(), ReloadError> {
        if running.keep != keep {
            let (before, after) = (std::mem::replace(&mut running.keep, keep.clone()), keep);
            let exchange = move |bus: &mut Bus, now: Now| bus.exchange_wants(now, &before, &after);
            self.bus.call(exchange).await.map_err(stopped)?;
        }
        Ok(())
    }

    /// TLS files of devices that are started.
    fn check_tls(&self, change: &TableChange) -> Result<(), ReloadError> {
        let mut wrong = Vec::new();
        for Numbered { config, .. } in change.shards.iter().flat_map(|shard| &shard.start) {
            let second = config.second_connection().map(|(transport, _)| transport);
            for transport in config.transport.iter().chain(second) {
                if let Err(error) = transport.route(self.shards.certificates(), 1) {
                    wrong.push(format!("device.{}: {error}", config.name));
                }
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(ReloadError::Tls(wrong.join("\n"))) }
    }

    /// Lets a change of devices take effect; those that could not be started.
    async fn carry_out(
        &self,
        running: &mut Running,
        (change, prepared): (TableChange, Prepared),
        config: &Config,
    ) -> Result<Vec<NotStarted>, ReloadError> {
        let TableChange { shards, mut table, .. } = change;
        let Prepared { devices, reserved, both, staying, commands } = prepared;
        if shards.iter().all(ShardChange::is_empty) {
            running.table = table;
            self.known.set(devices, reserved);
            return Ok(Vec::new());
        }
        let (checked, during) = (commands.clone(), Arc::clone(&both));
        let begun = self.bus.call(move |bus, _| bus.begin_change(during, staying, &checked)).await.map_err(stopped)?;
        begun.map_err(|error| ReloadError::Node(error.to_string()))?;
        if let Err(error) = self.start_shards(&shards, &devices).await {
            let before = self.known.reserved();
            self.bus.call(move |bus, _| bus.set_reserved(before)).await.map_err(stopped)?;
            return Err(error);
        }
        self.known.set(self.known.all(), both);
        self.shards.leave(&shards).await;
        self.shards.positions().keep(&keep_past(&devices));
        let (unpublished, lanes) = (unpublished(&config.devices), lanes(&self.started.mqtt, &config.devices));
        let news = BusChange { unpublished, lanes, commands, places: places_of(devices.iter()) };
        let changed = self.bus.call(move |bus, now| bus.change_devices(now, news)).await.map_err(stopped)?;
        if let Err(error) = changed {
            tracing::error!(%error, "points that can be commanded stay as they were");
        }
        let failed = self.shards.change(shards).await;
        self.known.set(Arc::clone(&devices), Arc::clone(&reserved));
        self.bus.call(move |bus, _| bus.set_reserved(reserved)).await.map_err(stopped)?;
        let not_started = failed.into_iter().map(|(device, why)| {
            table.note_failure(device);
            let name = devices.iter().find(|known| known.id == device).map(|known| known.config.name.clone());
            NotStarted { name: name.unwrap_or_default(), why }
        });
        let not_started = not_started.collect();
        running.table = table;
        Ok(not_started)
    }

    /// Threads for shards that are new, and for traces on the disk.
    async fn start_shards(&self, shards: &[ShardChange], devices: &[Numbered]) -> Result<(), ReloadError> {
        let failed = |error: std::io::Error| ReloadError::Node(format!("a thread cannot be started: {error}"));
        if devices.iter().any(|device| device.config.trace.disk > 0) {
            self.shards.traces().begin_writing().map_err(failed)?;
        }
        self.shards.positions().begin(&keep_past(devices)).map_err(failed)?;
        self.shards.start(std::iter::empty(), shards.len()).map_err(failed)?;
        let senders = self.shards.senders();
        self.bus.call(move |bus, _| bus.set_field(senders)).await.map_err(stopped)
    }

    async fn take_views(
        &self,
        running: &mut Running,
        (views, is_other): (Vec<View>, bool),
        who: &str,
    ) -> Result<(usize, usize), ReloadError> {
        let count = views.len();
        if !is_other {
            let derived = |bus: &mut Bus, _| bus.view_stats().map_or(0, |stats| stats.derived);
            return Ok((count, self.bus.call(derived).await.map_err(stopped)?));
        }
        let (by, new) = (who.to_owned(), views.clone());
        let replaced = self.bus.call(move |bus: &mut Bus, now| bus.reload_views(now, new, &by)).await;
        let derived = replaced.map_err(stopped)??;
        running.views = views;
        Ok((count, derived))
    }

    /// Reads the views alone again.
    ///
    /// # Errors
    /// There is no file, or something is wrong with it; nothing has changed then.
    pub async fn reload_views(&self, who: &str) -> Result<(usize, usize), ReloadError> {
        let mut running = self.running.lock().await;
        let done = self.reload_views_now(&mut running, who).await;
        if let Err(error) = &done {
            self.note_refused(who, "views_refused", "$views", error).await;
        }
        done
    }

    async fn reload_views_now(&self, running: &mut Running, who: &str) -> Result<(usize, usize), ReloadError> {
        let source = self.started.source.clone();
        let read = tokio::task::spawn_blocking(move || Ok::<_, ReloadError>(read_again(&source)?.views));
        let views = read.await.map_err(|error| ReloadError::Node(error.to_string()))??;
        // What they derive is told again, whether they have changed or not.
        self.take_views(running, (views, true), who).await
    }

    /// Writes to the audit log that nothing has changed, and why. A bus that has stopped writes no records.
    async fn note_refused(&self, who: &str, phase: &'static str, topic: &'static str, error: &ReloadError) {
        let (by, reason, detail) = (who.to_owned(), error.reason(), error.line());
        let note = move |bus: &mut Bus, now: Now| {
            bus.note_access(denial(now, &by, phase, "admin", topic, reason, detail));
        };
        let _ = self.bus.call(note).await;
    }

    fn note(&self, done: &Result<Reloaded, ReloadError>) {
        let mut status = self.status.lock().unwrap_or_else(PoisonError::into_inner);
        match done {
            Ok(done) => {
                status.done += 1;
                status.error = None;
                let (sum, counts) = (&mut status.counts, &done.counts);
                sum.added += counts.added;
                sum.removed += counts.removed;
                sum.changed += counts.changed;
                sum.kept_connection += counts.kept_connection;
                sum.unchanged = counts.unchanged;
                status.not_started.clone_from(&done.not_started);
                status.restart_needed.clone_from(&done.restart_needed);
            }
            Err(ReloadError::NoFile) => {}
            Err(error) => {
                status.refused += 1;
                status.error = Some((self.clock.now().utc, error.to_string()));
            }
        }
    }
}

impl std::fmt::Debug for Reloader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reloader").field("status", &self.status()).finish_non_exhaustive()
    }
}

fn stopped(error: crate::bus::Stopped) -> ReloadError {
    ReloadError::Node(error.to_string())
}

/// The configuration as it is now, with the devices of the demonstration where it is shown.
fn read_again(source: &Source) -> Result<Config, ReloadError> {
    let file = source.file.as_deref().ok_or(ReloadError::NoFile)?;
    let mut config = load_config(file).map_err(ReloadError::Config)?;
    if let Some(more) = &source.devices_of {
        let more = load_config(more).map_err(ReloadError::Config)?;
        config.devices.extend(more.devices);
        config.alarm = config.alarm.or(more.alarm);
        config.console = config.console.with(more.console);
    }
    Ok(config)
}

/// The devices that keep their own past.
fn keep_past(devices: &[Numbered]) -> Vec<Topic> {
    crate::config::keep_past(devices.iter().map(|device| (&device.config, device.recorded)))
}

/// Which devices can be commanded otherwise than before.
fn commands_of(before: &DeviceTable, after: &DeviceTable) -> DeviceChange {
    let revisions = |table: &DeviceTable| -> std::collections::HashMap<_, _> {
        table.places().iter().map(|placed| (placed.device.id, placed.device.revision)).collect()
    };
    let (old, new) = (revisions(before), revisions(after));
    let is_changed = |device: &Numbered| old.get(&device.id) != Some(&device.revision);
    let changed = after.places().iter().filter(|placed| is_changed(&placed.device));
    DeviceChange {
        removed: old.keys().filter(|id| !new.contains_key(id)).copied().collect(),
        changed: changed.map(|placed| (placed.device.clone(), placed.shard)).collect(),
    }
}

fn words_of(counts: &ChangeCounts, views: usize) -> String {
    let ChangeCounts { added, removed, changed, unchanged, .. } = counts;
    format!("devices: {added} added, {removed} removed, {changed} changed, {unchanged} unchanged; {views} views")
}

/// What an edge shows although no client asks for it.
fn kept_of(config: &Config) -> Vec<Filter> {
    config.edge.as_ref().map(|edge| edge.keep().collect()).unwrap_or_default()
}
