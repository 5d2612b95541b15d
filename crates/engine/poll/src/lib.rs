//! Decides when to poll which device, converts its readings, and tracks its health.
//!
//! In: devices with their point tables, raw [`Reading`](tieline_core::Reading)s, results of links and polls, time. Out:
//! requests to poll, [`Update`](tieline_core::Update)s in engineering units, and the health of each device as topics.
//!
//! Never: a protocol, a socket, a decision about a command.
//!
//! # Topics of a device
//!
//! | topic | body | when |
//! |---|---|---|
//! | `<device>/<point>` | a point | at the start (null, `initial`), with each reading, when its quality changes; [`Publish::each`] |
//! | `<device>/all` | `{"<point>": {"v": …, "q": …, "t": …}, …}` | after a change, at most every [`Publish::all_every`]; [`Publish::all`] |
//! | `$SYS/devices/<device>/state` | a point of text: a name of [`DeviceState`] | when it changes, at most once a second |
//! | `$SYS/devices/<device>/stats` | `{"polls": …, …}`: [`DeviceHealth::write_json`] | after a change, at most every [`Limits::stats_every`] |
//!
//! # Quality
//!
//! A reading has the quality reasons of the device. The reasons in this table are added here to the last value,
//! published once, and removed by the next reading of the point:
//!
//! | reason | added to | when |
//! |---|---|---|
//! | `initial` | each point | until its first reading; the value is null |
//! | `away` | each point | the link is lost |
//! | `restart` | each point that was read | the device reports that it restarted |
//! | `stale` | a point | [`DeviceSpec::stale_after`] passed since its last reading |
//! | `stale` | a point | so many polls of its class were missed: [`Collection::stale_after_missed`] |
//! | `stale` | each point that was read | two polls in a row failed, unless missed polls are counted |
//! | `stale` | each point that was read | invalid data arrived three times without valid data |
//!
//! # Schedule
//!
//! A poll class of a device has parts, one unless its driver says how many ([`Poller::set_parts`]). Its parts are due at
//! evenly spaced moments of each interval, shifted by a fraction that depends on the class and on the device's place in
//! its group, or its number. Successive places are spread evenly for any count (the golden-ratio sequence), nothing
//! drifts, and only the number of the next moment is stored. A part that is due while it waits or is outstanding is skipped and
//! counted, or made up for once: [`Missed`].
//!
//! With [`Collection::first_round`] all parts are due at once when the device comes online, and the plan goes on when
//! each has ended. Such requests of all devices together are [`Limits::first_round_gap`] apart, so that many devices that
//! come back at once are not all asked at once.
//!
//! A device that has something to ask waits for its turn: it has at most [`Collection::in_flight_max`] outstanding polls,
//! and its gateway and network have theirs and a shortest gap ([`GroupSpec`]). Turns have deadlines: an interval after
//! they came up, but a minute at most; none for protection, four times as long for bulk. The earliest goes first, so the
//! urgent and the frequent go before others, and no device waits forever. A device has one turn at a time, however many
//! requests it has.
//!
//! After two timeouts in a row a device is polled rarely ([`Collection::back_off_max`]); its first answer restores the
//! normal intervals.
//!
//! # Limits
//!
//! | limit | when full | counter |
//! |---|---|---|
//! | [`Limits::devices_max`], [`Limits::groups_max`], [`POINTS_MAX`], [`POLLS_MAX`] | what is added is refused | – |
//! | [`Limits::updates_max`] waiting updates of an [`Urgency`] | only the latest state of a point is kept | [`Stats::conflated`] |
//! | [`Limits::events_max`] waiting events | the oldest is dropped | [`Stats::events_dropped`] |
//!
//! A point uses 64 bytes and its topic; its table entry is shared by all devices with the same table. A device has one
//! timer of 16 bytes.
//!
//! # Example
//!
//! ```
//! use core::time::Duration;
//! use tieline_core::{DeviceId, Now, PointId, Quality, Reading, Topic, Value};
//! use tieline_poll::{
//!     Collection, DeviceSpec, Limits, LinkState, PointSpec, PointTable, PollClass, PollResult, PollSpec, Poller, Publish, Urgency,
//! };
//!
//! let (start, device) = (Now::default(), DeviceId(1));
//! let mut poller = Poller::new(Limits::default());
//! let volts = PointSpec { scale: 0.1, ..PointSpec::new("volts") };
//! let spec = DeviceSpec {
//!     topic: Topic::new("feeder/meter")?,
//!     table: PointTable::new(vec![volts])?,
//!     polls: vec![PollSpec { class: PollClass(0), every: Duration::from_secs(1) }],
//!     gap_min: Duration::ZERO,
//!     slow_after: None,
//!     stale_after: Some(Duration::from_secs(10)),
//!     publish: Publish::default(),
//!     urgency: Urgency::Monitoring,
//!     collection: Collection::POLLED,
//! };
//! poller.add_device(start, device, spec)?;
//! poller.handle_link(start, device, LinkState::Online);
//! while poller.poll_update().is_some() {}
//!
//! let now = start.later(Duration::from_secs(1));
//! poller.handle_timeout(now);
//! let (device, class, part) = poller.poll_request(now).ok_or("nothing is due")?;
//! let quality = Quality::GOOD;
//! let reading = Reading { point: PointId(0), value: Value::Int(2300), quality, time: None, event: false };
//! poller.handle_reading(now, device, reading);
//! poller.handle_poll_done(now, device, class, part, PollResult::Ok);
//! poller.handle_batch_end(now, device);
//! assert_eq!(poller.poll_update().ok_or("no update")?.topic.as_str(), "feeder/meter/volts");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Read first: `spec.rs`, then `poller.rs`; `rounds.rs` for what is due, `gates.rs` for whose turn it is.
#![no_std]
extern crate alloc;

mod device;
mod gates;
mod health;
mod outbox;
mod parts;
mod poller;
mod rounds;
mod scale;
mod schedule;
mod spec;
mod spec_error;

pub use health::{ConnectionHealth, DeviceCounts, DeviceHealth, DeviceState, PollTimes};
pub use outbox::{PollEvent, Stats};
pub use poller::{LinkState, PollResult, Poller};
pub use spec::{
    Collection, DeviceSpec, GroupId, GroupKind, GroupSpec, Heartbeat, HeartbeatValue, IN_FLIGHT_MAX, Kind, Limits,
    Missed, POINTS_MAX, POLLS_MAX, PointSpec, PointTable, PollClass, PollSpec, Publish, Urgency,
};
pub use spec_error::SpecError;

#[cfg(test)]
mod tests;
