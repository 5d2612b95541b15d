//! `[device.NAME.dnp3]`, and the tables beside it that only this protocol has.
//!
//! ```toml
//! [device.relay1.dnp3]
//! outstation = 10
//! link_confirms = true
//!
//! [[device.relay1.freeze]]
//! every = "15m"                # at the whole quarters of the hour, UTC
//! objects = ["g20v0"]
//!
//! [device.relay1.lane]         # a second connection, for what is urgent
//! master = 2
//! priority = "protection"
//! classes = [1]
//! ```

use super::device::Priority;
use super::parse;
use super::reader::{Document, Expected, Section};
use super::settings::{
    DEVICE_DNP3_CONFIRM, DEVICE_DNP3_KEEP_ALIVE, DEVICE_DNP3_LEAN, DEVICE_DNP3_LINK_CONFIRMS, DEVICE_DNP3_LINK_RETRIES,
    DEVICE_DNP3_LINK_TIMEOUT, DEVICE_DNP3_MASTER, DEVICE_DNP3_OUTSTATION, DEVICE_DNP3_RESPONSE_TIMEOUT,
    DEVICE_DNP3_TIME_SYNC, DEVICE_DNP3_UNSOLICITED, DEVICE_FREEZE_BY, DEVICE_FREEZE_CLEAR, DEVICE_FREEZE_EVERY,
    DEVICE_LANE_MASTER, DEVICE_LANE_PRIORITY, DEVICE_POLL_EVENTS, DEVICE_POLL_INTEGRITY,
};
use std::path::Path;
use std::time::Duration;
use tieline_dnp3::secure::MasterSecurityConfig;
use tieline_dnp3::{Classes, GroupVar};
use tieline_transport::classes;
use tieline_transport::secure::read_device_security;
use tieline_transport::{End, Over, Transport};
use toml::de::DeValue;

/// Schedules of freezes that a device may have.
const FREEZES_MAX: usize = 16;

/// How a master's clock is given to the outstation when it asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimeSync {
    /// The LAN procedure: record current time, then write g50v3.
    Lan,
    /// The procedure for slow lines: measure the delay, then write g50v1.
    Delay,
    /// Not at all.
    Off,
}

/// `[device.NAME.dnp3]`.
#[derive(Clone, Debug, PartialEq)]
pub struct Dnp3Config {
    /// This node's link address.
    pub master: u16,
    /// The device's link address.
    pub outstation: u16,
    /// Whether the device is told to report by itself.
    pub unsolicited: bool,
    /// How long a response may take.
    pub response_timeout: Duration,
    /// Silence after which the line is tested.
    pub keep_alive: Duration,
    /// How the device's clock is set.
    pub time_sync: TimeSync,
    /// Whether events are confirmed only after history has stored them, so that none is lost with this node.
    pub confirm_stored: bool,
    /// Whether lean messages are offered to the device, or accepted from it.
    pub lean: bool,
    /// How the link layer confirms user data; none does not.
    pub link_confirms: Option<LinkConfirms>,
    /// How it proves who it is; none does not.
    pub secure: Option<Box<MasterSecurityConfig>>,
    /// When its counters and analogs are frozen.
    pub freezes: Vec<FreezePlan>,
    /// Its second connection, if it has one.
    pub lane: Option<Box<LaneConfig>>,
}

/// Confirmed user data (IEEE 1815 9.2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkConfirms {
    /// How long an acknowledgement may take.
    pub timeout: Duration,
    /// How often a frame is repeated.
    pub retries: u8,
}

/// `[[device.NAME.freeze]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FreezePlan {
    /// How often: at the multiples of it since 1970, UTC.
    pub every: Duration,
    /// Whether counters begin at 0 again.
    pub clear: bool,
    /// Whose clock says when.
    pub by: FreezeClock,
    /// What is frozen: variation 0 of groups 20 and 30.
    pub objects: Vec<GroupVar>,
}

/// Whose clock says when to freeze.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FreezeClock {
    /// The node's: it asks each time (functions 7 and 9).
    Node,
    /// The device's, which is told once when to begin and how often (function 11).
    Device,
}

/// `[device.NAME.lane]`: a second connection to the same device, with an association of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct LaneConfig {
    /// How it is reached.
    pub transport: Transport,
    /// How urgent it is.
    pub priority: Priority,
    /// This node's link address on it.
    pub master: u16,
    /// The event classes that the device reports by itself on it.
    pub classes: Classes,
}

/// Reads `[device.NAME.poll]`: how often everything is read, then, where it is said, how often the event classes are.
pub fn read_polls(doc: &mut Document<'_>, mut s: Section<'_>) -> Vec<Duration> {
    let integrity = DEVICE_POLL_INTEGRITY.read(&mut s, doc);
    let events = DEVICE_POLL_EVENTS.optional(&mut s, doc);
    s.finish(doc);
    std::iter::once(integrity).chain(events).collect()
}

/// Reads the tables that only a DNP3 device has; none where something essential is missing (which has been reported then).
pub fn read_dnp3_device(
    doc: &mut Document<'_>,
    s: &mut Section<'_>,
    folder: &Path,
    transport: Option<&Transport>,
) -> Option<Dnp3Config> {
    let mut dnp3 = read_dnp3(s.section(doc, "dnp3"), doc);
    let secure = read_device_security(doc, s, folder);
    let freezes = read_freezes(doc, s);
    let lane = read_lane(doc, s, transport, dnp3.as_ref());
    if let Some(dnp3) = &mut dnp3 {
        (dnp3.secure, dnp3.freezes, dnp3.lane) = (secure.map(Box::new), freezes, lane.map(Box::new));
    }
    if s.has("channel") && dnp3.as_ref().is_some_and(|dnp3| dnp3.lean) {
        let expected = "lean = false: lean messages have no addresses to tell devices of a channel apart by";
        doc.report(s.value_at("dnp3"), &s.key("dnp3.lean"), "true".to_owned(), expected.to_owned());
    }
    dnp3
}

/// Reads `[device.NAME.dnp3]`; none where something essential is missing (which has been reported then).
fn read_dnp3(mut s: Section<'_>, doc: &mut Document<'_>) -> Option<Dnp3Config> {
    let master = DEVICE_DNP3_MASTER.read(&mut s, doc);
    let outstation = DEVICE_DNP3_OUTSTATION.required(&mut s, doc, "the device's link address, from 0 to 65519");
    let config = Dnp3Config {
        master,
        outstation: outstation.unwrap_or_default(),
        unsolicited: DEVICE_DNP3_UNSOLICITED.read(&mut s, doc),
        response_timeout: DEVICE_DNP3_RESPONSE_TIMEOUT.read(&mut s, doc),
        keep_alive: DEVICE_DNP3_KEEP_ALIVE.read(&mut s, doc),
        time_sync: DEVICE_DNP3_TIME_SYNC.read(&mut s, doc, [TimeSync::Lan, TimeSync::Delay, TimeSync::Off]),
        confirm_stored: DEVICE_DNP3_CONFIRM.read(&mut s, doc, [true, false]),
        lean: DEVICE_DNP3_LEAN.read(&mut s, doc),
        link_confirms: read_link_confirms(doc, &mut s),
        secure: None,
        freezes: Vec::new(),
        lane: None,
    };
    if config.lean && config.link_confirms.is_some() {
        let expected = "lean = false: lean messages have no link layer that could confirm";
        doc.report(s.value_at("link_confirms"), &s.key("link_confirms"), "true".to_owned(), expected.to_owned());
    }
    s.finish(doc);
    outstation.map(|_| config)
}

fn read_link_confirms(doc: &mut Document<'_>, s: &mut Section<'_>) -> Option<LinkConfirms> {
    let wanted = DEVICE_DNP3_LINK_CONFIRMS.read(s, doc);
    let timeout = DEVICE_DNP3_LINK_TIMEOUT.read(s, doc);
    let retries = DEVICE_DNP3_LINK_RETRIES.read(s, doc);
    for name in ["link_timeout", "link_retries"].into_iter().filter(|name| !wanted && s.has(name)) {
        let found = "a limit of confirms that are off".to_owned();
        doc.report(s.value_at(name), &s.key(name), found, "link_confirms = true beside it".to_owned());
    }
    wanted.then_some(LinkConfirms { timeout, retries })
}

/// Reads `[[device.NAME.freeze]]`.
fn read_freezes(doc: &mut Document<'_>, device: &mut Section<'_>) -> Vec<FreezePlan> {
    let mut plans = Vec::new();
    for mut s in device.array(doc, "freeze") {
        if plans.len() == FREEZES_MAX {
            doc.report(s.at(), &s.key("every"), "one more".to_owned(), format!("{FREEZES_MAX} schedules at most"));
        }
        let every = DEVICE_FREEZE_EVERY.required(&mut s, doc, "how often, as in \"15m\"");
        let clear = DEVICE_FREEZE_CLEAR.read(&mut s, doc);
        let by = DEVICE_FREEZE_BY.read(&mut s, doc, [FreezeClock::Node, FreezeClock::Device]);
        let objects = s.or(doc, "objects", vec![GroupVar::new(20, 0)], frozen_objects);
        if clear && by == FreezeClock::Device {
            let expected = "by = \"node\": there is no function that freezes and clears at a time";
            doc.report(s.value_at("clear"), &s.key("clear"), "true".to_owned(), expected.to_owned());
        }
        s.finish(doc);
        plans.extend(every.map(|every| FreezePlan { every, clear, by, objects }));
    }
    plans
}

fn frozen_objects(value: &DeValue<'_>) -> Result<Vec<GroupVar>, Expected> {
    let expected = || "a list of \"g20v0\" (counters) and \"g30v0\" (analogs)".to_owned();
    let words = parse::texts(value).ok().filter(|words| !words.is_empty()).ok_or_else(expected)?;
    let object = |word: &String| match word.as_str() {
        "g20v0" => Ok(GroupVar::new(20, 0)),
        "g30v0" => Ok(GroupVar::new(30, 0)),
        _ => Err(expected()),
    };
    words.iter().map(object).collect()
}

/// Reads `[device.NAME.lane]` of a device that is reached by `transport`; none where it has none, or an error was
/// reported.
fn read_lane(
    doc: &mut Document<'_>,
    device: &mut Section<'_>,
    transport: Option<&Transport>,
    dnp3: Option<&Dnp3Config>,
) -> Option<LaneConfig> {
    let is_there = device.has("lane");
    let (at, key) = (device.value_at("lane"), device.key("lane"));
    let is_shared = device.has("channel");
    let mut s = device.section(doc, "lane");
    if !is_there {
        return None;
    }
    let expected = "the node's link address on it, another than dnp3.master";
    let master = DEVICE_LANE_MASTER.required(&mut s, doc, expected);
    let priority = DEVICE_LANE_PRIORITY.read(&mut s, doc, Priority::ALL);
    let classes = s.or(doc, "classes", Classes::CLASS_1, event_classes);
    let connect = s.optional(doc, "address", parse::peer_address).map(End::Connect);
    let listen = s.optional(doc, "listen", parse::listen_address).map(End::Listen);
    if master.is_some() && master == dnp3.map(|dnp3| dnp3.master) {
        let found = format!("{}, which the device's other connection has", master.unwrap_or_default());
        doc.report(s.value_at("master"), &s.key("master"), found, expected.to_owned());
    }
    s.finish(doc);
    let transport = transport?;
    let fits = match (&transport.end, connect.is_some(), listen.is_some()) {
        _ if is_shared => Err("a device with a connection of its own: none that is shared has a second one"),
        (End::Line(_), ..) => Err("a device that is reached by address or listen: a serial line is one connection"),
        (_, true, true) | (End::Connect(_), _, true) => Err("address, as the device has"),
        (End::Listen(_), true, _) => Err("listen, as the device has"),
        (End::Listen(_), false, false) => {
            Err("listen = \"address:port\": a port of its own, where the device connects")
        }
        (End::Connect(_) | End::Listen(_), ..) => Ok(connect.or(listen).unwrap_or_else(|| transport.end.clone())),
    };
    let end = match fits {
        Ok(end) => end,
        Err(expected) => {
            doc.report(at, &key, "a second connection".to_owned(), expected.to_owned());
            return None;
        }
    };
    if let (End::Connect(_), Over::Udp(udp)) = (&end, &transport.over)
        && udp.local.is_some_and(|local| local.port() != 0)
    {
        let expected = "udp.local with port 0, or none: two connections cannot have one local port";
        doc.report(at, &key, "a second connection".to_owned(), expected.to_owned());
    }
    Some(LaneConfig { transport: Transport { end, over: transport.over.clone() }, priority, master: master?, classes })
}

fn event_classes(value: &DeValue<'_>) -> Result<Classes, Expected> {
    classes::event_classes(value).and_then(|classes| match classes.is_empty() {
        true => Err("a list of event classes, as in [1]".to_owned()),
        false => Ok(classes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigError, from_text};

    const SECOND: Duration = Duration::from_secs(1);
    const HOUR: Duration = Duration::from_secs(3600);

    /// The settings of a device with these keys, or what is wrong with them.
    fn read(keys: &str) -> Result<Dnp3Config, Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.csv"), "name,type,index\na,analog,0\n").unwrap();
        let text = format!("[device.d]\nprotocol='dnp3'\npoints='p.csv'\n{keys}\n");
        match from_text("n.toml", &text, folder.path()) {
            Ok(config) => {
                let dnp3 = config.devices[0].protocol.dnp3().unwrap().clone();
                Ok(dnp3)
            }
            Err(ConfigError(all)) => Err(all.iter().map(ToString::to_string).collect()),
        }
    }

    fn check_wrong(keys: &str, expect: &[&str]) {
        assert_eq!(read(keys).unwrap_err(), expect, "{keys}");
    }

    #[test]
    fn link_confirms_are_read_or_say_what_is_wrong() {
        let confirms =
            |keys: &str| read(&format!("address='r:1'\ndnp3={{outstation=10{keys}}}")).unwrap().link_confirms;
        assert_eq!(confirms(""), None);
        assert_eq!(confirms(", link_confirms=true"), Some(LinkConfirms { timeout: SECOND, retries: 2 }));
        let slow = Some(LinkConfirms { timeout: 3 * SECOND, retries: 0 });
        assert_eq!(confirms(", link_confirms=true, link_timeout='3s', link_retries=0"), slow);
        check_wrong(
            "address='r:1'\ndnp3={outstation=10, link_retries=3}",
            &[
                "n.toml:5:35: device.d.dnp3.link_retries: found a limit of confirms that are off, expected link_confirms = true beside it",
            ],
        );
        check_wrong(
            "address='r:1'\ndnp3={outstation=10, lean=true, link_confirms=true}",
            &[
                "n.toml:5:47: device.d.dnp3.link_confirms: found true, expected lean = false: lean messages have no link layer that could confirm",
            ],
        );
    }

    #[test]
    fn freezes_are_read_or_say_what_is_wrong() {
        let device = "address='r:1'\ndnp3.outstation=10\n";
        let plans = "[[device.d.freeze]]\nevery='15m'\nclear=true\n[[device.d.freeze]]\nevery='24h'\nby='device'\nobjects=['g30v0','g20v0']\n";
        let (counters, analogs) = (GroupVar::new(20, 0), GroupVar::new(30, 0));
        let plan = |every, clear, by, objects| FreezePlan { every, clear, by, objects };
        assert_eq!(
            read(&format!("{device}{plans}")).unwrap().freezes,
            [
                plan(900 * SECOND, true, FreezeClock::Node, vec![counters]),
                plan(24 * HOUR, false, FreezeClock::Device, vec![analogs, counters]),
            ]
        );
        check_wrong(
            &format!("{device}[[device.d.freeze]]\nclear=true\nby='device'\nobjects=['g1v0']\n"),
            &[
                "n.toml:6:1: device.d.freeze[0].every: found nothing, expected how often, as in \"15m\"",
                "n.toml:7:7: device.d.freeze[0].clear: found true, expected by = \"node\": there is no function that freezes and clears at a time",
                "n.toml:9:9: device.d.freeze[0].objects: found an array of 1, expected a list of \"g20v0\" (counters) and \"g30v0\" (analogs)",
            ],
        );
    }

    fn check_lane(device: &str, lane: &str, expect: Result<&str, &str>) {
        let keys = format!("{device}\ndnp3={{outstation=10}}\nlane={{{lane}}}");
        let found = read(&keys).map(|dnp3| dnp3.lane.unwrap().transport.to_string());
        let found =
            found.map_err(|all| all.iter().map(|one| one.split_once(": ").unwrap().1.to_owned()).collect::<Vec<_>>());
        assert_eq!(found, expect.map(str::to_owned).map_err(|one| vec![one.to_owned()]), "{keys}");
    }

    #[test]
    fn lanes_are_read_or_say_what_is_wrong() {
        check_lane("address='r:1'", "master=2", Ok("r:1"));
        check_lane("address='r:1'", "master=2, address='r:2', classes=[1,2], priority='bulk'", Ok("r:2"));
        check_lane("listen='127.0.0.1:1'", "master=2, listen='127.0.0.1:2'", Ok("listening on 127.0.0.1:2"));
        let second = "device.d.lane: found a second connection, expected";
        check_lane(
            "listen='127.0.0.1:1'",
            "master=2",
            Err(&format!("{second} listen = \"address:port\": a port of its own, where the device connects")),
        );
        check_lane(
            "address='r:1'",
            "master=2, listen='127.0.0.1:2'",
            Err(&format!("{second} address, as the device has")),
        );
        check_lane(
            "serial={port='/dev/ttyS0'}",
            "master=2",
            Err(&format!("{second} a device that is reached by address or listen: a serial line is one connection")),
        );
        check_lane(
            "address='r:1'\ntransport='udp'\nudp={local='0.0.0.0:7'}",
            "master=2",
            Err(&format!("{second} udp.local with port 0, or none: two connections cannot have one local port")),
        );
        check_lane(
            "address='r:1'",
            "master=1",
            Err(
                "device.d.lane.master: found 1, which the device's other connection has, expected the node's link address on it, another than dnp3.master",
            ),
        );
        check_lane(
            "address='r:1'",
            "master=2, classes=[]",
            Err("device.d.lane.classes: found an array of 0, expected a list of event classes, as in [1]"),
        );
    }
}
