//! `[device.NAME.iec104]`.
//!
//! ```toml
//! [device.substation7]
//! protocol = "iec104"
//! address = "10.1.2.3:2404"
//! points = "substation7.csv"
//! poll = { interrogation = "15m", clock = "1h" }
//! iec104 = { common_address = 7 }
//! ```

use super::parse;
use super::points::PointConfig;
use super::reader::{Document, Expected, Section};
use super::settings::{
    DEVICE_IEC104_COMMAND_END, DEVICE_IEC104_COMMAND_TIME, DEVICE_IEC104_COMMON_ADDRESS, DEVICE_IEC104_FREEZE,
    DEVICE_IEC104_K, DEVICE_IEC104_ORIGINATOR, DEVICE_IEC104_RESPONSE_TIMEOUT, DEVICE_IEC104_SELECT, DEVICE_IEC104_T1,
    DEVICE_IEC104_T2, DEVICE_IEC104_T3, DEVICE_IEC104_UTC_OFFSET, DEVICE_IEC104_W, DEVICE_POLL_CLOCK,
    DEVICE_POLL_COUNTERS, DEVICE_POLL_INTERROGATION,
};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::CommandMode;
use tieline_iec104::{CommandEnd, Freeze, LinkConfig};
use tieline_transport::{End, Over, Transport};
use toml::Spanned;
use toml::de::DeValue;

/// `[device.NAME.iec104]`, and what of `[device.NAME.poll]` its connection needs.
#[derive(Clone, Debug, PartialEq)]
pub struct Iec104Config {
    /// The common address of points that have none of their own.
    pub common_address: u16,
    /// All common addresses of the device, in order.
    pub common_addresses: Vec<u16>,
    /// The originator address of the node.
    pub originator: u8,
    /// Windows and deadlines of the link.
    pub link: LinkConfig,
    /// How long an answer may take.
    pub response_timeout: Duration,
    /// Whether commands are selected first, of points that do not say.
    pub select: bool,
    /// When a command has ended.
    pub command_end: CommandEnd,
    /// Whether commands carry the time.
    pub command_time: bool,
    /// How far the clock of the station is ahead of UTC.
    pub utc_offset_minutes: i16,
    /// Groups of states that are asked for; the whole station where there are none.
    pub groups: Vec<u8>,
    /// Groups of counters that are asked for; all where there are none.
    pub counter_groups: Vec<u8>,
    /// What is done to counters before a poll reads them.
    pub freeze: Option<Freeze>,
    /// Whether counters are asked for at the start.
    pub counters: bool,
    /// How often the clock is set; none never.
    pub clock_every: Option<Duration>,
    /// Where the station is reached besides its address: connections that stand by.
    pub standby: Vec<Transport>,
}

/// QOI of the whole station; those of groups follow.
const STATION: u8 = 20;
/// QCC of all counters.
const ALL_COUNTERS: u8 = 5;
/// Connections that stand by at most.
const STANDBY_MAX: usize = 7;
/// Groups of states, and of counters.
const GROUPS: RangeInclusive<u8> = 1..=16;
const COUNTER_GROUPS: RangeInclusive<u8> = 1..=4;

impl Iec104Config {
    /// QOI of each request for states.
    pub fn interrogations(&self) -> Vec<u8> {
        match self.groups.is_empty() {
            true => vec![STATION],
            false => self.groups.iter().map(|group| STATION + group).collect(),
        }
    }

    /// QCC of each request for counts.
    pub fn counter_reads(&self) -> Vec<u8> {
        if self.counter_groups.is_empty() { vec![ALL_COUNTERS] } else { self.counter_groups.clone() }
    }

    /// QCC of each request of a poll of counters: all are frozen before the first is read.
    pub fn counter_polls(&self) -> Vec<u8> {
        let reads = self.counter_reads();
        let freezes = self.freeze.iter().flat_map(|freeze| reads.iter().map(|group| freeze.qualifier(*group)));
        freezes.chain(reads.iter().copied()).collect()
    }
}

/// A list of groups, each once.
fn groups(range: RangeInclusive<u8>) -> impl FnOnce(&DeValue<'_>) -> Result<Vec<u8>, Expected> {
    move |value| {
        let words = || format!("a list of groups from {} to {}, each once", range.start(), range.end());
        let items = value.as_array().ok_or_else(words)?;
        let group = |item: &Spanned<DeValue<'_>>| parse::integer(range.clone())(item.get_ref()).map_err(|_| words());
        let groups = items.iter().map(group).collect::<Result<Vec<u8>, _>>()?;
        let is_once = groups.iter().enumerate().all(|(at, group)| !groups.iter().take(at).any(|other| other == group));
        if is_once { Ok(groups) } else { Err(words()) }
    }
}

/// Reads `[device.NAME.poll]`: how often everything is asked for, then, where it is said, how often counters are. What is
/// asked at the start of a connection goes to the settings of the device.
pub fn read_polls(doc: &mut Document<'_>, mut s: Section<'_>, device: Option<&mut Iec104Config>) -> Vec<Duration> {
    let interrogation = DEVICE_POLL_INTERROGATION.read(&mut s, doc);
    let counters = DEVICE_POLL_COUNTERS.optional(&mut s, doc);
    let clock_every = DEVICE_POLL_CLOCK.optional(&mut s, doc);
    s.finish(doc);
    if let Some(device) = device {
        (device.counters, device.clock_every) = (counters.is_some(), clock_every);
    }
    std::iter::once(interrogation).chain(counters).collect()
}

/// Reads `[device.NAME.iec104]` of a device that is reached by `transport`.
pub fn read_iec104(
    doc: &mut Document<'_>,
    device: &mut Section<'_>,
    transport: Option<&Transport>,
    points: &[PointConfig],
) -> Iec104Config {
    if device.has("channel") {
        let expected = "address or listen: each IEC 104 station has a connection of its own".to_owned();
        doc.report(device.value_at("channel"), &device.key("channel"), "a shared connection".to_owned(), expected);
    }
    let mut s = device.section(doc, "iec104");
    if let Some(Over::Udp(_) | Over::Serial(_)) = transport.map(|transport| &transport.over) {
        let expected = "transport = \"tcp\" or \"tls\": IEC 104 has no datagrams and no serial lines".to_owned();
        doc.report(s.at(), &s.key("common_address"), "another transport".to_owned(), expected);
    }
    let common_address = DEVICE_IEC104_COMMON_ADDRESS.read(&mut s, doc);
    let own = points.iter().filter_map(|point| point.address.iec104()?.common_address);
    let mut common_addresses: Vec<u16> = own.chain([common_address]).collect();
    common_addresses.sort_unstable();
    common_addresses.dedup();
    let link = LinkConfig {
        k: DEVICE_IEC104_K.read(&mut s, doc),
        w: DEVICE_IEC104_W.read(&mut s, doc),
        t1: DEVICE_IEC104_T1.read(&mut s, doc),
        t2: DEVICE_IEC104_T2.read(&mut s, doc),
        t3: DEVICE_IEC104_T3.read(&mut s, doc),
    };
    if link.t2 >= link.t1 {
        let (found, expected) = (format!("{:?}", link.t2), format!("less than t1, which is {:?}", link.t1));
        doc.report(s.value_at("t2"), &s.key("t2"), found, expected);
    }
    let config = Iec104Config {
        common_address,
        common_addresses,
        originator: DEVICE_IEC104_ORIGINATOR.read(&mut s, doc),
        link,
        response_timeout: DEVICE_IEC104_RESPONSE_TIMEOUT.read(&mut s, doc),
        select: DEVICE_IEC104_SELECT.read(&mut s, doc),
        command_end: DEVICE_IEC104_COMMAND_END.read(&mut s, doc, [CommandEnd::Confirmation, CommandEnd::Termination]),
        command_time: DEVICE_IEC104_COMMAND_TIME.read(&mut s, doc),
        utc_offset_minutes: minutes(DEVICE_IEC104_UTC_OFFSET.read(&mut s, doc)),
        groups: s.or(doc, "groups", Vec::new(), groups(GROUPS)),
        counter_groups: s.or(doc, "counter_groups", Vec::new(), groups(COUNTER_GROUPS)),
        freeze: DEVICE_IEC104_FREEZE.read(&mut s, doc, [None, Some(Freeze::Freeze), Some(Freeze::FreezeAndReset)]),
        counters: false,
        clock_every: None,
        standby: read_standby(doc, &mut s, transport),
    };
    s.finish(doc);
    config
}

/// Reads the further addresses of a station that is reached by `transport`: all else is as there.
fn read_standby(doc: &mut Document<'_>, s: &mut Section<'_>, transport: Option<&Transport>) -> Vec<Transport> {
    let expected = "a list of hosts with ports, as in [\"10.1.2.4:2404\"]";
    let address = |text: &str| parse::peer_address(&DeValue::String(text.into()));
    let addresses = s.each_text(doc, "standby", expected, address);
    let Some(transport) = transport.filter(|_| !addresses.is_empty()) else { return Vec::new() };
    let (at, key) = (s.value_at("standby"), s.key("standby"));
    let End::Connect(first) = &transport.end else {
        let expected = "address = \"host:port\" for the device: a station that connects to the node has one connection";
        doc.report(at, &key, "further addresses".to_owned(), expected.to_owned());
        return Vec::new();
    };
    if addresses.len() > STANDBY_MAX {
        doc.report(at, &key, format!("{} addresses", addresses.len()), format!("{STANDBY_MAX} at most"));
    }
    let mut seen = vec![first];
    for address in &addresses {
        if seen.contains(&address) {
            doc.report(at, &key, format!("{address:?} a second time"), "each address once".to_owned());
        }
        seen.push(address);
    }
    let standby = |address: String| Transport { end: End::Connect(address), over: transport.over.clone() };
    addresses.into_iter().map(standby).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "the range of the setting is 14 hours")]
fn minutes(hours: f64) -> i16 {
    (hours * 60.0).round() as i16
}

/// The points of a device with the way in which it is asked where the list does not say.
pub fn with_mode(points: Arc<[PointConfig]>, device: &Iec104Config) -> Arc<[PointConfig]> {
    let is_open = |point: &PointConfig| {
        point.address.iec104().and_then(|point| point.output).is_some_and(|output| output.mode.is_none())
    };
    if device.select || !points.iter().any(is_open) {
        return points;
    }
    let direct = |point: &PointConfig| {
        let mut direct = point.clone();
        if let Some(control) = direct.control.as_mut().filter(|_| is_open(point)) {
            control.mode = CommandMode::DirectOperate;
        }
        direct
    };
    points.iter().map(direct).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigError, DeviceConfig, from_text};

    const LIST: &str = "name,type,index,common_address,control,mode,operate,qualifier\n\
        breaker,double-point,1,,5001,,,1\n\
        tap,step-position,2,9,5002,direct,step,\n\
        power,short-float,3,3,,,,\n";

    /// The device with these keys and this list, or what is wrong with them.
    fn read(keys: &str, list: &str) -> Result<DeviceConfig, Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.csv"), list).unwrap();
        let text = format!("[device.d]\nprotocol='iec104'\npoints='p.csv'\n{keys}\n");
        let folder_name = format!("{}/", folder.path().display());
        match from_text("n.toml", &text, folder.path()) {
            Ok(mut config) => Ok(config.devices.remove(0)),
            Err(ConfigError(all)) => Err(all.iter().map(|one| one.to_string().replace(&folder_name, "")).collect()),
        }
    }

    fn check_wrong(keys: &str, list: &str, expect: &[&str]) {
        assert_eq!(read(keys, list).unwrap_err(), expect, "{keys}\n{list}");
    }

    #[test]
    fn a_device_has_the_common_addresses_of_its_points() {
        let device = read("address='r:2404'", LIST).unwrap();
        let iec104 = device.protocol.iec104().unwrap();
        assert_eq!((iec104.common_address, &iec104.common_addresses[..]), (1, &[1, 3, 9][..]));
        assert_eq!((iec104.link, iec104.counters, iec104.clock_every), (LinkConfig::DEFAULT, false, None));
        assert_eq!(device.polls, [Duration::from_secs(3600)]);
        let keys = "address='r:2404'\npoll={interrogation='5m', counters='1m', clock='1h'}\niec104={common_address=7, utc_offset=-3.5}";
        let device = read(keys, LIST).unwrap();
        let iec104 = device.protocol.iec104().unwrap();
        assert_eq!((&iec104.common_addresses[..], iec104.utc_offset_minutes), (&[3, 7, 9][..], -210));
        assert_eq!((iec104.counters, iec104.clock_every), (true, Some(Duration::from_secs(3600))));
        assert_eq!(device.polls, [Duration::from_secs(300), Duration::from_secs(60)]);
    }

    #[test]
    fn further_addresses_of_a_station_are_reached_as_the_first_is() {
        let device = read("address='r:2404'\niec104={standby=['s:2404', 't:19']}", LIST).unwrap();
        let standby: Vec<_> = device.protocol.iec104().unwrap().standby.iter().map(ToString::to_string).collect();
        assert_eq!(standby, ["s:2404", "t:19"]);
        assert_eq!(read("address='r:2404'", LIST).unwrap().protocol.iec104().unwrap().standby, []);
        let key = "n.toml:5:17: device.d.iec104.standby: found";
        check_wrong(
            "address='r:2404'\niec104={standby=['s:2404', 's']}",
            LIST,
            &[
                "n.toml:5:28: device.d.iec104.standby: found \"s\", expected a host and a port, as in \"10.1.2.3:20000\"",
            ],
        );
        check_wrong(
            "address='r:2404'\niec104={standby=['s:2404', 'r:2404']}",
            LIST,
            &[&format!("{key} \"r:2404\" a second time, expected each address once")],
        );
        let many: Vec<_> = (1..9).map(|port| format!("s:{port}")).collect();
        check_wrong(
            &format!("address='r:2404'\niec104={{standby={many:?}}}"),
            LIST,
            &[&format!("{key} 8 addresses, expected 7 at most")],
        );
        check_wrong(
            "listen='127.0.0.1:1'\niec104={standby=['s:2404']}",
            LIST,
            &[&format!(
                "{key} further addresses, expected address = \"host:port\" for the device: a station that connects to the node has one connection"
            )],
        );
    }

    #[test]
    fn groups_and_freezes_are_qualifiers_of_requests() {
        let check = |keys: &str, states: &[u8], reads: &[u8], polls: &[u8]| {
            let device = read(&format!("address='r:2404'\n{keys}"), LIST).unwrap();
            let iec104 = device.protocol.iec104().unwrap();
            assert_eq!((iec104.interrogations(), iec104.counter_reads()), (states.to_vec(), reads.to_vec()), "{keys}");
            assert_eq!(iec104.counter_polls(), polls, "{keys}");
        };
        check("", &[20], &[5], &[5]);
        check("iec104={groups=[1, 16], freeze='freeze'}", &[21, 36], &[5], &[0x45, 5]);
        check("iec104={counter_groups=[4, 1], freeze='freeze_reset'}", &[20], &[4, 1], &[0x84, 0x81, 4, 1]);
        check_wrong(
            "address='r:2404'\niec104={groups=[17], counter_groups=[1, 1]}",
            LIST,
            &[
                "n.toml:5:16: device.d.iec104.groups: found an array of 1, expected a list of groups from 1 to 16, each once",
                "n.toml:5:37: device.d.iec104.counter_groups: found an array of 2, expected a list of groups from 1 to 4, each once",
            ],
        );
    }

    #[test]
    fn commands_are_selected_unless_the_list_or_the_device_says_otherwise() {
        let modes = |keys: &str| {
            let device = read(&format!("address='r:2404'\n{keys}"), LIST).unwrap();
            let modes = device.points.iter().map(|point| point.control.as_ref().map(|control| control.mode));
            modes.collect::<Vec<_>>()
        };
        let (select, direct) = (Some(CommandMode::SelectBeforeOperate), Some(CommandMode::DirectOperate));
        assert_eq!(modes(""), [select, direct, None]);
        assert_eq!(modes("iec104={select=false}"), [direct, direct, None]);
    }

    #[test]
    fn what_is_wrong_with_a_device_is_told() {
        check_wrong(
            "address='r:2404'\ntransport='udp'\niec104={t1='5s', t2='5s', common_address=65535}",
            LIST,
            &[
                "n.toml:6:8: device.d.iec104.common_address: found another transport, expected transport = \"tcp\" or \"tls\": IEC 104 has no datagrams and no serial lines",
                "n.toml:6:21: device.d.iec104.t2: found 5s, expected less than t1, which is 5s",
                "n.toml:6:42: device.d.iec104.common_address: found 65535, expected a whole number from 1 to 65534",
            ],
        );
        check_wrong(
            "channel='c'\n[channel.c]\naddress='r:2404'",
            LIST,
            &[
                "n.toml:4:9: device.d.channel: found a shared connection, expected address or listen: each IEC 104 station has a connection of its own",
            ],
        );
    }

    #[test]
    fn a_list_says_how_a_server_sends_a_point() {
        let list = |rows: &str| format!("name,type,index,group,cyclic\n{rows}");
        let rows = "a,scaled,1,16,true\nb,integrated-totals,2,4,\nc,scaled,3,,\n";
        let device = read("address='r:2404'", &list(rows)).unwrap();
        let served = device.points.iter().map(|point| point.address.iec104().unwrap().served);
        let served: Vec<_> = served.map(|served| (served.group, served.is_cyclic)).collect();
        assert_eq!(served, [(16, true), (4, false), (0, false)]);
        let check = |row: &str, expect: &str| {
            check_wrong("address='r:2404'", &list(row), &[&format!("p.csv:2:1: {expect}")]);
        };
        check("a,scaled,1,17,\n", "group: found \"17\", expected a whole number from 1 to 16 for this type");
        check("a,integrated-totals,1,5,\n", "group: found \"5\", expected a whole number from 1 to 4 for this type");
        check(
            "a,integrated-totals,1,,true\n",
            "cyclic: found \"true\", expected false: counters are not sent at intervals",
        );
    }

    #[test]
    fn what_is_wrong_with_a_list_is_told() {
        let addresses = "expected a whole number from 0 to 16777215, which is an information object address";
        let check = |row: &str, expect: &str| {
            check_wrong("address='r:2404'", &format!("{}{row}\n", LIST), &[&format!("p.csv:5:1: {expect}")]);
        };
        check("a,single-point,16777216", &format!("index: found \"16777216\", {addresses}"));
        check("a,single-point,7,,-1", &format!("control: found \"-1\", {addresses}"));
        check("a,single-point,7,0", "common_address: found \"0\", expected a whole number from 1 to 65534");
        check("a,bitstring,7,,8,select", "mode: found \"select\", expected direct: a bitstring cannot be selected");
        check(
            "a,single-point,7,,8,,,32",
            "qualifier: found \"32\", expected a whole number from 0 to 31 for this command",
        );
        check(
            "a,integrated-totals,7,,8",
            "operate: found nothing, expected single, double, step, normalized, scaled, short-float or bitstring",
        );
        // One object has one type.
        check("a,scaled,1", "index: found scaled 1 a second time, expected each point once");
        assert!(read("address='r:2404'", &format!("{LIST}a,scaled,1,2\n")).is_ok());
    }
}
