//! Who is told of alarms: the thread with the messages, and what the bus gives to it.
//!
//! Each change is given when it is on the disk. A thread that is behind gets all alarms that are not normal later, in their place. After a
//! start, and when there are other receivers, it gets them, too: what is missing has returned.

use super::super::handle::BusHandle;
use super::super::state::Bus;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::Duration;
use std::{fs, io};
use tieline_alarms::{Alarm, AlarmId, Flags};
use tieline_core::{Body, Instant, Now, Timestamp, Topic, Words as _};
use tieline_net::Clock;
use tieline_notify::{AlarmName, Holds, Notice, Standing};
use tieline_senders::{Calls, Desk, Full, OnCall, Receivers};

/// The file with what is not delivered yet, in the data folder.
const FILE: &str = "notify.log";
/// Messages of receivers of the kind `mqtt` are published below it.
const TOPIC_PREFIX: &str = "$notify/";
/// How long a thread that is behind is left alone.
const AGAIN: Duration = Duration::from_secs(1);

/// The thread that tells receivers of alarms, once some are configured; shared by the bus, HTTP and reloads.
#[derive(Debug)]
pub struct Notifications {
    desk: OnceLock<Desk>,
    file: PathBuf,
    clock: Clock,
    bus: BusHandle,
    configured: Mutex<Configured>,
}

/// What is shown of the configuration.
#[derive(Debug, Default)]
struct Configured {
    routes: usize,
    calendars: Calendars,
}

/// Calendars of those on call, by the names of their receivers.
pub type Calendars = BTreeMap<Arc<str>, Arc<OnCall>>;

impl Notifications {
    /// Starts the thread where receivers are configured.
    ///
    /// # Errors
    /// The file cannot be opened, or there is no thread.
    pub fn start(receivers: &Receivers, folder: &Path, (clock, bus): (Clock, &BusHandle)) -> io::Result<Arc<Self>> {
        let (desk, file, configured) = (OnceLock::new(), folder.join(FILE), Mutex::default());
        let notifications = Arc::new(Self { desk, file, clock, bus: bus.clone(), configured });
        notifications.set(receivers.clone())?;
        Ok(notifications)
    }

    /// Takes other receivers and routes. [`Bus::tell_standing`] is due then.
    ///
    /// # Errors
    /// The file cannot be opened, there is no thread, or it is behind.
    pub fn set(&self, receivers: Receivers) -> io::Result<()> {
        // Two that set do it one after the other.
        let mut configured = self.configured.lock().unwrap_or_else(PoisonError::into_inner);
        let calendars = calendars_of(&receivers);
        for warning in receivers.warnings(self.clock.now().utc) {
            tracing::warn!("{warning}");
        }
        let other = Configured { routes: receivers.routes.len(), calendars };
        match self.desk.get() {
            Some(desk) => {
                let behind = |Full| io::Error::other("too many notifications wait: try again");
                desk.set_receivers(receivers).map_err(behind)?;
            }
            None if receivers.receivers.is_empty() => {}
            None => {
                let _ = self.desk.set(self.open(receivers)?);
            }
        }
        *configured = other;
        Ok(())
    }

    /// The thread; none where no receiver was ever configured.
    #[must_use]
    pub fn desk(&self) -> Option<&Desk> {
        self.desk.get()
    }

    /// Routes that are configured.
    #[must_use]
    pub fn routes(&self) -> usize {
        self.configured.lock().unwrap_or_else(PoisonError::into_inner).routes
    }

    /// Calendars of those on call, and what time it is.
    #[must_use]
    pub fn calendars(&self) -> (Calendars, Timestamp) {
        (self.configured.lock().unwrap_or_else(PoisonError::into_inner).calendars.clone(), self.clock.now().utc)
    }

    /// A file that cannot be understood is put aside: alarms that call are told again, with the same keys.
    fn open(&self, receivers: Receivers) -> io::Result<Desk> {
        match self.start_desk(receivers.clone()) {
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {
                let aside = self.file.with_extension("damaged");
                let file = aside.display().to_string();
                tracing::warn!(%error, file, "notifications of before cannot be read, and are put aside");
                fs::rename(&self.file, &aside)?;
                self.start_desk(receivers)
            }
            started => started,
        }
    }

    fn start_desk(&self, receivers: Receivers) -> io::Result<Desk> {
        let (clock, bus, turning) = (self.clock, self.bus.clone(), self.bus.clone());
        let publish = move |name: &str, message: String| {
            let topic = format!("{TOPIC_PREFIX}{name}");
            bus.call_from_thread(move |bus, now| bus.publish_notification(now, &topic, message)).is_ok()
        };
        let turn = move || turning.call_from_thread(|_, _| ()).is_ok();
        let calls = Calls { publish: Arc::new(publish), turn: Arc::new(turn) };
        Desk::start(&self.file, receivers, Arc::new(move || clock.now()), calls)
    }
}

fn calendars_of(receivers: &Receivers) -> Calendars {
    let all = receivers.receivers.iter();
    all.filter_map(|(name, receiver)| Some((Arc::clone(name), Arc::clone(receiver.on_call.as_ref()?)))).collect()
}

/// What the bus knows of the thread.
#[derive(Debug, Default)]
pub struct Notifying {
    to: Option<Arc<Notifications>>,
    /// From when on it is to be given all alarms.
    owed: Option<Instant>,
}

impl Notifying {
    /// Gives something; where there is no room, all of it later.
    fn give(&mut self, now: Now, give: impl FnOnce(&Desk) -> Result<(), Full>) {
        if self.owed.is_some() {
            return;
        }
        let Some(desk) = self.desk() else { return };
        if give(desk).is_err() {
            self.owed = Some(now.mono + AGAIN);
        }
    }

    pub(super) fn desk(&self) -> Option<&Desk> {
        self.to.as_ref().and_then(|to| to.desk())
    }

    pub(super) fn give_change(&mut self, now: Now, alarm: &Alarm) {
        self.give(now, |desk| desk.notice(notice_of(alarm)));
    }

    pub(super) fn give_removed(&mut self, now: Now, id: &AlarmId) {
        self.give(now, |desk| desk.gone(name_of(id)));
    }

    pub(super) fn give_flood(&mut self, now: Now, is_on: bool) {
        self.give(now, |desk| desk.flood(is_on));
    }

    pub(super) const fn timeout(&self) -> Option<Instant> {
        self.owed
    }
}

impl Bus {
    /// From here on, receivers are told of alarms.
    pub fn set_notifications(&mut self, now: Now, to: Arc<Notifications>) {
        self.notifying = Notifying { to: Some(to), owed: Some(now.mono) };
        self.work.notify_one();
    }

    /// There are other receivers: they are told of all alarms that are not normal.
    pub fn tell_standing(&mut self, now: Now) {
        self.notifying.owed = Some(now.mono);
        self.work.notify_one();
    }

    /// Gives all alarms that are not normal, where that is due.
    pub(super) fn give_standing(&mut self, now: Now) {
        if self.notifying.owed.is_none_or(|due| due > now.mono) {
            return;
        }
        self.notifying.owed = None;
        // What is not on the disk yet may not be told.
        if self.has_waiting_alarms() {
            self.notifying.owed = Some(now.mono + AGAIN);
            return;
        }
        let standing: Vec<Notice> = self.alarms().map(|alarm| notice_of(&alarm)).collect();
        let is_flood = self.alarm_counts().is_some_and(|(_, stats)| stats.is_flood);
        self.notifying.give(now, |desk| desk.flood(is_flood).and_then(|()| desk.standing(standing)));
    }

    fn publish_notification(&mut self, now: Now, topic: &str, message: String) {
        let Ok(topic) = Topic::new(topic) else { return };
        self.apply_value(now, topic, Body::Opaque(Bytes::from(message)), false);
    }
}

fn name_of(id: &AlarmId) -> AlarmName {
    AlarmName { topic: id.topic.clone(), kind: id.kind.word().into() }
}

fn notice_of(Alarm { record, rule, count }: &Alarm) -> Notice {
    let has = |flag| record.flags.has(flag);
    let holds = Holds {
        is_active: has(Flags::ACTIVE),
        is_acked: has(Flags::ACKED),
        is_hidden: record.flags.is_hidden(),
        is_consequence: record.cause.is_some(),
        is_chattering: has(Flags::CHATTERING),
    };
    Notice {
        alarm: name_of(&record.id),
        seq: record.seq,
        standing: Standing::of(holds),
        priority: rule.priority.word().into(),
        severity: rule.priority.severity(),
        state: record.flags.state().word().into(),
        group: rule.group.to_string().into(),
        text: rule.text.to_string().into(),
        value: record.value.clone(),
        since: record.since,
        count: *count,
    }
}
