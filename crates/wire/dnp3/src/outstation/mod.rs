//! An outstation: serves a database of points to one master.
//!
//! ```text
//!  owner ── update ──▶ Database ── change ──▶ EventBuffer ◀── select · written · confirm ──┐
//!                          └── values ──────────────────────────────┐                     │
//!  link ── Endpoint ── fragment ──▶ Application (requests · replies · unsolicited) ── report ──▶ out
//!                                        └── ControlHandler decides · OutstationEvent tells
//! ```
//!
//! In: bytes, deadlines, and the owner's [`update`](Outstation::update). Out: bytes, and [`OutstationEvent`].
//!
//! | functions | served |
//! |---|---|
//! | read | groups 0-4, 10, 11, 13, 20-23, 30-34, 40, 42, 43, 110, 111 in all their common variations, 50 and 60; all qualifiers |
//! | write | IIN1.7 (group 80), the time (group 50 variations 1 and 3), octet strings (group 110), dead-bands (group 34), device attributes (group 0) |
//! | select, operate, direct operate | group 12 variation 1, group 41 |
//! | immediate freeze, freeze and clear, freeze at time | groups 20 and 30 |
//! | cold and warm restart, delay measure, record current time | |
//! | initialize, start and stop application, save and activate configuration | where the owner gives a [`ManagementHandler`] |
//! | enable and disable unsolicited, assign class | group 60, static groups |
//! | open, close, delete, abort file, file information, authenticate file; read and write of blocks | group 70, where [`Outstation::serve_files`] was called |
//!
//! Everything else is answered with IIN2.0 or 2.1. One master, or several as a [`Group`]; link confirms are answered, not asked for.
//!
//! An idle session holds its points and nothing else on the heap. A response is built when it is sent, from the
//! database and from the events; to repeat an unconfirmed one the events are marked, no bytes are kept.
//!
//! Read first: `application.rs` (what happens to a fragment), then `events.rs`.

mod application;
mod attributes;
mod clock;
mod config;
mod controls;
mod database;
mod dead_band;
mod events;
mod extras;
mod files;
mod freeze;
mod group;
mod machine;
mod management;
mod point;
mod read;
mod rivals;
mod secured;
mod select;
mod sharing;
mod stats;
mod timers;
mod transmit;
mod unsolicited;
mod write;

pub use attributes::DeviceAttributes;
pub use config::{OutstationConfig, UnsolicitedConfig};
pub use controls::{AcceptAll, BoxedControlHandler, ControlHandler, Operate, OutstationEvent, RefuseAll};
pub use database::{BYTES_MAX, Database, DatabaseError};
pub use events::EventLimits;
#[cfg(test)]
pub(crate) use files::tests::Memory;
pub use files::{
    BoxedFileHandler, FileAnswer, FileClose, FileConfig, FileCounters, FileEntry, FileHandler, FileOpen, FileOpened,
};
pub use group::{Group, GroupCounters, GroupLine, MASTERS_MAX};
pub use management::{
    Activation, ApplicationStep, BoxedManagementHandler, ConfigurationName, Managed, ManagementHandler,
};
pub use point::PointConfig;
pub use rivals::{Arrival, Rivals};
pub use stats::OutstationStats;

use crate::endpoint::{Endpoint, EndpointConfig, LinkService, PrimaryCounters, Role, Trace};
use crate::link::LinkAddress;
use crate::{Iin, Measurement, PointType};
use application::Application;
use core::fmt;
use tieline_core::Now;

/// An outstation's end of one association: a [`Machine`](tieline_core::Machine).
pub struct Outstation {
    endpoint: Endpoint,
    application: Application,
    secure: secured::Secure,
}

impl Outstation {
    /// An outstation that has just started: IIN1.7 is set, no event waits.
    #[must_use]
    pub fn new(config: OutstationConfig, database: Database, controls: BoxedControlHandler) -> Self {
        let mut endpoint = Endpoint::new(EndpointConfig {
            role: Role::Outstation,
            local: LinkAddress::new(config.address),
            remote: Some(LinkAddress::new(config.master)),
            self_address: config.answers_self_address,
            fragment_max: config.fragment_bytes_received_max,
        });
        endpoint.set_lean(config.lean);
        Self { endpoint, application: Application::new(config, database, controls), secure: None }
    }

    /// The same with a function that is called at each boundary of its fragments' way.
    #[must_use]
    pub fn with_trace(mut self, trace: Trace) -> Self {
        self.endpoint.set_trace(trace);
        self
    }

    /// Lets the link layer confirm user data, or ask for its status by itself; none, the default, does neither. Takes
    /// effect with the next connection.
    pub fn set_link_service(&mut self, service: Option<LinkService>) {
        self.endpoint.set_link_service(service);
    }

    /// What the link layer has seen where it does more than send unconfirmed user data.
    #[must_use]
    pub fn link_counters(&self) -> PrimaryCounters {
        self.endpoint.primary_counters()
    }

    /// Whether lean messages were agreed on.
    #[must_use]
    pub fn is_lean(&self) -> bool {
        self.endpoint.is_lean()
    }

    /// Gives a point a value, as an event if it changed (by more than its dead-band) and its point has a class. Without
    /// a stamp of its own the event bears the outstation's time; until the outstation's clock is synchronized
    /// ([`OutstationConfig::clock_synchronized`], or a master has set it) no event's time is told as synchronized. An event
    /// may be due at once: poll for output after it.
    ///
    /// # Errors
    /// There is no such point, or the value is not of its type; nothing changed.
    pub fn update(&mut self, now: Now, measurement: Measurement) -> Result<(), DatabaseError> {
        self.application.update(now, measurement)
    }

    /// Gives points values as [`Outstation::update`] does, one after the other, as one report: worth it from a few values on,
    /// and whatever hold time there is begins with the last.
    ///
    /// # Errors
    /// There is no such point, or the value is not of its type; those before it have theirs, those behind it do not.
    pub fn update_all(
        &mut self,
        now: Now,
        measurements: impl IntoIterator<Item = Measurement>,
    ) -> Result<(), DatabaseError> {
        self.application.update_all(now, measurements)
    }

    /// The points and their values.
    #[must_use]
    pub const fn database(&self) -> &Database {
        &self.application.database
    }

    /// To add points, or to set values without events.
    pub const fn database_mut(&mut self) -> &mut Database {
        &mut self.application.database
    }

    /// Takes a point away and says whether it was there. Its events stay until they are reported.
    pub fn remove(&mut self, point_type: PointType, index: u16) -> bool {
        self.application.database.remove(point_type, index)
    }

    /// Local mode: every control is refused with status 7, IIN1.5 is set, and all outputs read as locally forced.
    pub const fn set_local(&mut self, is_local: bool) {
        self.application.is_local = is_local;
    }

    /// Sets or clears indications that are the application's to give: IIN1.1 to 1.6, 2.3 and 2.5; other bits are
    /// ignored. A class bit or 2.3 given here is reported on top of what the event buffer says. IIN1.4 is cleared when
    /// the master sets the time.
    pub const fn set_indications(&mut self, bits: Iin, given: bool) {
        let bits = Iin(bits.0 & OWNED.0);
        let kept = self.application.indications.without(bits);
        self.application.indications = if given { kept.with(bits) } else { kept };
    }

    /// Says what it is: device attributes (group 0) from here on. Until then the group is unknown (IIN2.1).
    pub fn set_attributes(&mut self, attributes: DeviceAttributes) {
        self.application.extras_mut().attributes = Some(attributes);
    }

    /// Lets masters manage the device: functions 16 to 19 and 31.
    pub fn set_management(&mut self, handler: BoxedManagementHandler) {
        self.application.extras_mut().management = Some(handler);
    }

    /// What it says of itself, with what masters wrote.
    #[must_use]
    pub fn attributes(&self) -> Option<&DeviceAttributes> {
        self.application.attributes()
    }

    /// Starts again, as after a power cycle: events, selections and enabled classes are forgotten, IIN1.7 is set. The
    /// points keep their values; the owner ends the connection if there is one.
    pub fn restart(&mut self, now: Now) {
        self.application.restart(now);
        if let Some(secure) = &mut self.secure {
            secure.restart();
        }
    }

    /// Whether it takes no input until its events are drained.
    pub(super) fn is_full(&self) -> bool {
        self.application.outbox.len() >= application::OUTBOX_MAX
    }

    /// What it counted.
    #[must_use]
    pub fn stats(&self) -> OutstationStats {
        let events = &self.application.events;
        let waiting = u64::try_from(events.len()).unwrap_or(u64::MAX);
        self.application.stats.with(self.endpoint.counters(), events.dropped(), waiting)
    }

    /// How it was configured.
    #[must_use]
    pub const fn config(&self) -> &OutstationConfig {
        &self.application.config
    }
}

impl fmt::Debug for Outstation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outstation")
            .field("address", &self.application.config.address)
            .field("points", &self.application.database.len())
            .field("events", &self.application.events.len())
            .finish_non_exhaustive()
    }
}

/// The indications that the application may give.
const OWNED: Iin = Iin::CLASS_1
    .with(Iin::CLASS_2)
    .with(Iin::CLASS_3)
    .with(Iin::NEED_TIME)
    .with(Iin::LOCAL_CONTROL)
    .with(Iin::DEVICE_TROUBLE)
    .with(Iin::EVENT_BUFFER_OVERFLOW)
    .with(Iin::CONFIG_CORRUPT);

#[cfg(test)]
pub(crate) mod tests;
