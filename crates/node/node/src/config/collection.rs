//! How the values of a device are collected: what `[device.NAME.poll]` says of polls that are missed or time out, the heartbeat
//! that a device gets, and `[network.NAME]`, whose limits devices share.
//!
//! ```toml
//! [network.campus]
//! in_flight = 20               # requests to all its devices at a time
//! gap = "20ms"                 # between two requests
//!
//! [device.ahu1]
//! network = "campus"
//! poll = { every = "60s", missed = "once", back_off_max = "10m", stale_after_missed = 5 }
//! heartbeat = { point = "watchdog", every = "30s", value = "toggle" }
//! ```

use super::hub::{BacnetHub, read_hub};
use super::parse;
use super::points::{PointConfig, Takes};
use super::reader::{Document, Section};
use super::settings::{
    DEVICE_HEARTBEAT_EVERY, DEVICE_HEARTBEAT_MAX, DEVICE_HEARTBEAT_VALUE, DEVICE_POLL_BACK_OFF_MAX, DEVICE_POLL_EVERY,
    DEVICE_POLL_MISSED, DEVICE_POLL_STALE_AFTER_MISSED, NETWORK_GAP, NETWORK_IN_FLIGHT,
};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);
/// Different intervals of one device.
const RATES_MAX: usize = 16;

/// What happens to polls that are missed or time out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CollectionConfig {
    /// Whether one poll takes the place of those that were missed; otherwise they are left out.
    pub missed_once: bool,
    /// The longest interval of a device whose polls time out.
    pub back_off_max: Duration,
    /// Polls in a row that bring a point nothing, and it is stale.
    pub stale_after_missed: u32,
}

impl CollectionConfig {
    /// Reads the keys of `[device.NAME.poll]` that all polled protocols have.
    pub fn read(doc: &mut Document<'_>, s: &mut Section<'_>) -> Self {
        Self {
            missed_once: DEVICE_POLL_MISSED.read(s, doc, [false, true]),
            back_off_max: DEVICE_POLL_BACK_OFF_MAX.read(s, doc),
            stale_after_missed: DEVICE_POLL_STALE_AFTER_MISSED.read(s, doc),
        }
    }
}

/// How often the points of a polled device are read.
#[derive(Clone, Copy)]
pub struct Rates<'a> {
    /// The points.
    pub points: &'a [PointConfig],
    /// Whether the device tells changes of a point: it is polled rarely then.
    pub is_told: &'a dyn Fn(&PointConfig) -> bool,
}

/// The interval of a point whose changes are told, of one that is polled as often otherwise.
#[must_use]
pub fn rarely(every: Duration) -> Duration {
    (every * 10).min(7 * DAY)
}

/// Reads `[device.NAME.poll]`: the interval of points that have none of their own, first, then those that points have.
pub fn read_polls(doc: &mut Document<'_>, mut s: Section<'_>, rates: Rates<'_>) -> (Vec<Duration>, CollectionConfig) {
    let every = DEVICE_POLL_EVERY.read(&mut s, doc);
    let mut polls = vec![every];
    for point in rates.points {
        let own = point.every.unwrap_or(every);
        let told = (rates.is_told)(point).then(|| rarely(own));
        for every in std::iter::once(own).chain(told) {
            if !polls.contains(&every) {
                polls.push(every);
            }
        }
    }
    if polls.len() > RATES_MAX {
        let found = format!("{} different intervals with those of the points", polls.len());
        doc.report(s.value_at("every"), &s.key("every"), found, format!("at most {RATES_MAX}"));
        polls.truncate(RATES_MAX);
    }
    let collection = CollectionConfig::read(doc, &mut s);
    s.finish(doc);
    (polls, collection)
}

/// A value that is written to a device again and again: it shows the device that its master is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeartbeatConfig {
    /// The number of the point in the list.
    pub point: u32,
    /// How often.
    pub every: Duration,
    /// The greatest number, of one that counts from 0 and begins again; none: false and true in turn.
    pub count_max: Option<u32>,
}

/// Reads `[device.NAME.heartbeat]`; none where there is none, or it is wrong (which has been reported then).
pub fn read_heartbeat(doc: &mut Document<'_>, s: &mut Section<'_>, points: &[PointConfig]) -> Option<HeartbeatConfig> {
    let is_given = s.has("heartbeat");
    let mut s = s.section(doc, "heartbeat");
    let name = match is_given {
        true => s.required(doc, "point", "the name of a writable point of the device", parse::text),
        false => None,
    };
    let every = DEVICE_HEARTBEAT_EVERY.read(&mut s, doc);
    let counts = DEVICE_HEARTBEAT_VALUE.read(&mut s, doc, [false, true]);
    let max = DEVICE_HEARTBEAT_MAX.read(&mut s, doc);
    let at = s.value_at("point");
    let key = s.key("point");
    s.finish(doc);
    let name = name?;
    // The list is wrong, which is reported, or there is a device without points.
    if points.is_empty() {
        return None;
    }
    let found = points.iter().zip(0..).find(|(point, _)| point.name == name);
    let takes = found.and_then(|(point, number)| Some((&point.control.as_ref()?.takes, number)));
    let expected = match (takes, counts) {
        (Some((Takes::Bool, point)), false) => return Some(HeartbeatConfig { point, every, count_max: None }),
        (Some((Takes::Number { raw, .. }, point)), _) => {
            let count_max = if counts { max } else { 1 };
            if raw.contains(&f64::from(count_max)) && raw.contains(&0.0) {
                return Some(HeartbeatConfig { point, every, count_max: Some(count_max) });
            }
            "a point that takes the numbers of the heartbeat"
        }
        (Some((Takes::Bool, _)), true) => "a point that takes numbers, or value = \"toggle\"",
        (None, _) => "the name of a writable point of the device",
    };
    doc.report(at, &key, format!("{name:?}"), expected.to_owned());
    None
}

/// `[network.NAME]`: what its devices share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkConfig {
    /// The key of its table.
    pub name: String,
    /// Requests to all its devices at a time.
    pub in_flight: u16,
    /// The shortest time between two of them.
    pub gap: Duration,
    /// The hub of its BACnet devices; none where they are reached by datagrams.
    pub hub: Option<Arc<BacnetHub>>,
    /// Whether there is one in its table, right or wrong.
    pub has_hub: bool,
}

/// Networks, by name.
pub type Networks = HashMap<String, NetworkConfig>;

/// Reads `[network.NAME]`; files are found beside `folder`.
pub fn read_networks(mut all: Section<'_>, doc: &mut Document<'_>, folder: &Path) -> Networks {
    let sections = all.sections(doc);
    let read = |(name, mut s): (String, Section<'_>)| {
        let in_flight = NETWORK_IN_FLIGHT.read(&mut s, doc);
        let gap = NETWORK_GAP.read(&mut s, doc);
        let (has_hub, hub) = (s.has("hub"), read_hub(doc, &mut s, folder, &name));
        s.finish(doc);
        (name.clone(), NetworkConfig { name, in_flight, gap, hub, has_hub })
    };
    sections.into_iter().map(read).collect()
}

/// Reads the network of a device; none where it has none, or the name is of none (which has been reported then).
pub fn read_network(doc: &mut Document<'_>, s: &mut Section<'_>, networks: &Networks) -> Option<NetworkConfig> {
    let name = s.optional(doc, "network", parse::text)?;
    let network = networks.get(&name).cloned();
    if network.is_none() {
        let expected = format!("the name of a [network.{name}] in this file");
        doc.report(s.value_at("network"), &s.key("network"), format!("{name:?}"), expected);
    }
    network
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigError, DeviceConfig, from_text};

    const SECOND: Duration = Duration::from_secs(1);

    /// The device with these keys, or what is wrong with it.
    fn read(keys: &str) -> Result<DeviceConfig, Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        let list =
            "name,type,index,writable\nspeed,holding-register,1,true\nrun,coil,1,true\nlevel,input-register,1,\n";
        std::fs::write(folder.path().join("p.csv"), list).unwrap();
        let text = format!(
            "[network.n]\nin_flight = 2\n[device.d]\nprotocol='modbus'\naddress='h:1'\npoints='p.csv'\n{keys}\n"
        );
        match from_text("t.toml", &text, folder.path()) {
            Ok(mut config) => Ok(config.devices.remove(0)),
            Err(ConfigError(all)) => Err(all.iter().map(ToString::to_string).collect()),
        }
    }

    fn check_wrong(keys: &str, expect: &str) {
        assert_eq!(read(keys).unwrap_err(), [format!("t.toml:{expect}")], "{keys}");
    }

    #[test]
    fn a_heartbeat_is_of_a_writable_point() {
        let heartbeat = |keys: &str| read(keys).unwrap().heartbeat;
        let minute = 60 * SECOND;
        assert_eq!(heartbeat(""), None);
        let toggled = HeartbeatConfig { point: 1, every: minute, count_max: None };
        assert_eq!(heartbeat("heartbeat.point = 'run'"), Some(toggled));
        let counted = |max| HeartbeatConfig { point: 0, every: minute, count_max: Some(max) };
        assert_eq!(heartbeat("heartbeat = { point = 'speed' }"), Some(counted(1)));
        assert_eq!(heartbeat("heartbeat = { point = 'speed', value = 'count', max = 9 }"), Some(counted(9)));
        let expected = "expected the name of a writable point of the device";
        check_wrong(
            "heartbeat.point = 'level'",
            &format!("7:19: device.d.heartbeat.point: found \"level\", {expected}"),
        );
        check_wrong("heartbeat.point = 'no'", &format!("7:19: device.d.heartbeat.point: found \"no\", {expected}"));
        check_wrong(
            "heartbeat = { point = 'run', value = 'count' }",
            "7:23: device.d.heartbeat.point: found \"run\", expected a point that takes numbers, or value = \"toggle\"",
        );
    }

    #[test]
    fn polls_and_networks_are_read() {
        let device = read("network = 'n'\npoll = { every = '3s', missed = 'once', stale_after_missed = 9 }").unwrap();
        assert_eq!(device.network.unwrap().in_flight, 2);
        assert_eq!(device.polls, [3 * SECOND]);
        let collection = CollectionConfig { missed_once: true, back_off_max: 300 * SECOND, stale_after_missed: 9 };
        assert_eq!(device.collection, Some(collection));
        let expected = "expected the name of a [network.m] in this file";
        check_wrong("network = 'm'", &format!("7:11: device.d.network: found \"m\", {expected}"));
    }
}
