//! `[device.NAME.bacnet]`, and where a device that speaks it is.
//!
//! ```toml
//! [device.ahu1]
//! protocol = "bacnet"
//! address = "10.0.0.5"
//! points = "ahu.csv"
//! poll = { every = "30s" }
//! bacnet = { instance = 1001, cov = true }
//! ```

use super::collection::NetworkConfig;
use super::hub::{BacnetHub, parse_vmac};
use super::parse;
use super::points::{PointAddress, PointConfig};
use super::reader::{Document, Expected, Section};
use super::settings::{
    DEVICE_BACNET_APDU_TIMEOUT, DEVICE_BACNET_BACKFILL_MAX, DEVICE_BACNET_COV, DEVICE_BACNET_COV_CONFIRMED,
    DEVICE_BACNET_COV_LIFETIME, DEVICE_BACNET_FOREIGN_LIFETIME, DEVICE_BACNET_IN_FLIGHT, DEVICE_BACNET_INSTANCE,
    DEVICE_BACNET_MAX_PER_REQUEST, DEVICE_BACNET_MIN_PRIORITY, DEVICE_BACNET_NETWORK, DEVICE_BACNET_READ_MULTIPLE,
    DEVICE_BACNET_RETRIES, DEVICE_BACNET_STATUS_FLAGS, DEVICE_BACNET_TIME_SYNC, DEVICE_BACNET_WRITE_PRIORITY,
};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;
use tieline_bacnet::client::ForeignConfig;
use tieline_bacnet::sc::Directory;
use tieline_bacnet::{Mac, Peer, Station};
use tieline_transport::{End, Over, Transport, UdpOptions};
use toml::de::DeValue;

/// The port of BACnet/IP.
const PORT: u16 = 0xBAC0;

/// `[device.NAME.bacnet]`.
#[derive(Clone, Debug, PartialEq)]
pub struct BacnetConfig {
    /// Where it is.
    pub peer: Peer,
    /// Its instance; none: it is asked.
    pub instance: Option<u32>,
    /// The socket that it is reached by; the same for all devices that share one.
    pub socket: BacnetSocket,
    /// Requests that may be out at a time.
    pub in_flight: u8,
    /// Properties that one request reads at most; none: as many as fit.
    pub max_per_request: Option<u16>,
    /// Whether one request may read several properties, if the device offers that.
    pub read_multiple: bool,
    /// Whether status flags are read with present values.
    pub status_flags: bool,
    /// Whether points that do not say are subscribed to.
    pub cov: bool,
    /// Whether the device waits until a change it tells has arrived, and tells it again.
    pub cov_confirmed: bool,
    /// How long a subscription lasts; it is renewed at half of that.
    pub cov_lifetime: Duration,
    /// The priority of commands, of points that do not say.
    pub write_priority: u8,
    /// What the clock of the device is set to, each day.
    pub time_sync: ClockSync,
    /// From how long ago on trend logs are read.
    pub backfill_max: Duration,
}

/// A socket that devices share, or the connection to a hub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BacnetSocket {
    /// The hub of BACnet/SC; none of BACnet/IP.
    pub hub: Option<Arc<BacnetHub>>,
    /// Its address; port 0: any free one.
    pub local: SocketAddrV4,
    /// The broadcast management device that it registers with.
    pub foreign: Option<ForeignConfig>,
    /// How long an answer may take before the request is repeated.
    pub apdu_timeout: Duration,
    /// How often a read is repeated.
    pub retries: u8,
}

/// What the clock of a device is set to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockSync {
    /// It is left as it is.
    Off,
    /// UTC.
    Utc,
    /// The local time of the node.
    Local,
}

/// Where a device is.
#[derive(Clone, Debug, Default)]
pub struct BacnetPlace {
    /// Its address, or its router's: of BACnet/IP, or a virtual one.
    pub address: Option<SocketAddrV4>,
    /// The hub by which it is reached.
    pub hub: Option<Arc<BacnetHub>>,
}

/// Reads where a device is: the keys of other transports are refused.
pub fn read_address(
    doc: &mut Document<'_>,
    s: &mut Section<'_>,
    network: Option<&NetworkConfig>,
) -> (BacnetPlace, Option<Transport>) {
    let Some(network) = network.filter(|network| network.has_hub) else {
        let (address, transport) = read_ip_address(doc, s).unzip();
        return (BacnetPlace { address, hub: None }, transport);
    };
    for key in ["listen", "serial", "channel", "tls", "udp", "transport"] {
        if s.has(key) {
            let expected = "nothing: the device is reached by the hub of its network".to_owned();
            doc.report(s.value_at(key), &s.key(key), format!("the key {key:?}"), expected);
        }
        let _ = s.optional(doc, key, |_| Ok(()));
    }
    let address = s.optional(doc, "address", parse_vmac).map(|vmac| vmac.to_address());
    let transport = network.hub.as_ref().map(|hub| hub.primary.transport.clone());
    (BacnetPlace { address, hub: network.hub.clone() }, transport)
}

/// Reads where a device of BACnet/IP is.
fn read_ip_address(doc: &mut Document<'_>, s: &mut Section<'_>) -> Option<(SocketAddrV4, Transport)> {
    for key in ["listen", "serial", "channel", "tls", "udp"] {
        if s.has(key) {
            let expected = "nothing: BACnet/IP has address = \"10.0.0.5:47808\" alone, and datagrams".to_owned();
            doc.report(s.value_at(key), &s.key(key), format!("the key {key:?}"), expected);
        }
        let _ = s.optional(doc, key, |_| Ok(()));
    }
    let _ = s.optional(doc, "transport", parse::word(&[("udp", ())]));
    let address = s.required(doc, "address", "an IPv4 address, as in \"10.0.0.5\"", parse_peer)?;
    let over = Over::Udp(UdpOptions::default());
    Some((address, Transport { end: End::Connect(address.to_string()), over }))
}

/// An IPv4 address, with a port where it is not that of the standard.
fn parse_peer(value: &DeValue<'_>) -> Result<SocketAddrV4, Expected> {
    let text = value.as_str().unwrap_or_default();
    let plain = || text.parse::<Ipv4Addr>().ok().map(|ip| SocketAddrV4::new(ip, PORT));
    let address = text.parse().ok().or_else(plain).filter(|address: &SocketAddrV4| address.port() > 0);
    let is_one = |ip: &Ipv4Addr| !ip.is_unspecified() && !ip.is_broadcast() && !ip.is_multicast();
    let words =
        || "an IPv4 address of one device, with a port other than 47808 behind it, as in \"10.0.0.5:47809\"".to_owned();
    address.filter(|address| is_one(address.ip())).ok_or_else(words)
}

/// Reads `[device.NAME.bacnet]`.
pub fn read_bacnet(
    doc: &mut Document<'_>,
    mut s: Section<'_>,
    place: &BacnetPlace,
    points: &[PointConfig],
) -> BacnetConfig {
    let station = read_station(doc, &mut s);
    let instance = DEVICE_BACNET_INSTANCE.optional(&mut s, doc);
    let address = address_of(doc, &s, place, station, instance);
    let apdu_timeout = DEVICE_BACNET_APDU_TIMEOUT.read(&mut s, doc);
    let retries = DEVICE_BACNET_RETRIES.read(&mut s, doc);
    let local = s.or(doc, "local", SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0), parse_local);
    let bbmd = s.optional(doc, "bbmd", parse_peer);
    let lifetime = DEVICE_BACNET_FOREIGN_LIFETIME.read(&mut s, doc);
    let lifetime_s = u16::try_from(lifetime.as_secs()).unwrap_or(u16::MAX);
    let foreign = bbmd.map(|bbmd| ForeignConfig { bbmd, lifetime_s });
    // Priorities above the default are of life safety and of people at the equipment (clause 19.2).
    let min_priority = DEVICE_BACNET_MIN_PRIORITY.read(&mut s, doc);
    let clocks = [ClockSync::Off, ClockSync::Utc, ClockSync::Local];
    let config = BacnetConfig {
        peer: station.map_or(Peer::direct(address), |station| Peer::routed(address, station)),
        instance,
        socket: BacnetSocket { hub: place.hub.clone(), local, foreign, apdu_timeout, retries },
        in_flight: DEVICE_BACNET_IN_FLIGHT.read(&mut s, doc),
        max_per_request: DEVICE_BACNET_MAX_PER_REQUEST.optional(&mut s, doc),
        read_multiple: DEVICE_BACNET_READ_MULTIPLE.read(&mut s, doc),
        status_flags: DEVICE_BACNET_STATUS_FLAGS.read(&mut s, doc),
        cov: DEVICE_BACNET_COV.read(&mut s, doc),
        cov_confirmed: DEVICE_BACNET_COV_CONFIRMED.read(&mut s, doc),
        cov_lifetime: DEVICE_BACNET_COV_LIFETIME.read(&mut s, doc),
        write_priority: DEVICE_BACNET_WRITE_PRIORITY.read(&mut s, doc),
        time_sync: DEVICE_BACNET_TIME_SYNC.read(&mut s, doc, clocks),
        backfill_max: DEVICE_BACNET_BACKFILL_MAX.read(&mut s, doc),
    };
    check_priorities(doc, &s, &config, min_priority, points);
    s.finish(doc);
    config
}

/// The address of a device. One that is reached by a hub may be found by its instance.
fn address_of(
    doc: &mut Document<'_>,
    s: &Section<'_>,
    place: &BacnetPlace,
    station: Option<Station>,
    instance: Option<u32>,
) -> SocketAddrV4 {
    let given = place.address.unwrap_or(SocketAddrV4::new(Ipv4Addr::LOCALHOST, PORT));
    if place.hub.is_none() {
        return given;
    }
    for key in ["local", "bbmd"].into_iter().filter(|key| s.has(key)) {
        let expected = "nothing: the device is reached by the hub of its network".to_owned();
        doc.report(s.value_at(key), &s.key(key), format!("the key {key:?}"), expected);
    }
    match (place.address, station, instance) {
        (Some(address), ..) => address,
        (None, None, Some(instance)) => Directory::alias(instance).to_address(),
        (None, Some(_), _) => {
            let expected = "address, the virtual address of the router, as in \"02:00:00:00:00:01\"".to_owned();
            doc.report(s.value_at("network"), &s.key("network"), "a network behind a router".to_owned(), expected);
            given
        }
        (None, None, None) => {
            let expected = "the instance by which the device is found, or its virtual address in address".to_owned();
            doc.report(s.at(), &s.key("instance"), "neither address nor bacnet.instance".to_owned(), expected);
            given
        }
    }
}

/// The network and the address of a device behind a router; both or none.
fn read_station(doc: &mut Document<'_>, s: &mut Section<'_>) -> Option<Station> {
    let (has_network, has_mac) = (s.has("network"), s.has("mac"));
    let network = DEVICE_BACNET_NETWORK.optional(s, doc);
    let mac = s.optional(doc, "mac", parse_mac);
    if has_network != has_mac {
        let (given, absent) = if has_network { ("network", "mac") } else { ("mac", "network") };
        let expected = format!("{absent}, too: a router needs both");
        doc.report(s.value_at(given), &s.key(absent), "nothing".to_owned(), expected);
    }
    Some(Station { network: network?, mac: mac? })
}

/// An address behind a router: a number for one of MS/TP or ARCNET, hex bytes, or that of BACnet/IP.
fn parse_mac(value: &DeValue<'_>) -> Result<Mac, Expected> {
    let words =
        || "a number up to 255 (MS/TP), hex bytes as in \"0a:00:00:05:ba:c0\", or \"10.0.0.5:47808\"".to_owned();
    if let Ok(number) = parse::integer(0..=u8::MAX)(value) {
        return Mac::new(&[number]).ok_or_else(words);
    }
    let text = value.as_str().unwrap_or_default();
    if let Ok(address) = text.parse::<SocketAddrV4>() {
        let port = address.port().to_be_bytes();
        return Mac::new(&[&address.ip().octets()[..], &port[..]].concat()).ok_or_else(words);
    }
    let digits: String = text.trim_start_matches("0x").chars().filter(|c| !matches!(c, ':' | '-')).collect();
    let byte = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(byte).collect();
    bytes.filter(|bytes| !bytes.is_empty()).and_then(|bytes| Mac::new(&bytes)).ok_or_else(words)
}

/// An IPv4 address of this machine, with a port.
fn parse_local(value: &DeValue<'_>) -> Result<SocketAddrV4, Expected> {
    match parse::listen_address(value) {
        Ok(SocketAddr::V4(address)) => Ok(address),
        Ok(SocketAddr::V6(_)) | Err(_) => Err("an IPv4 address with a port, as in \"0.0.0.0:47808\"".to_owned()),
    }
}

/// Commands with a priority that is not for the node.
fn check_priorities(
    doc: &mut Document<'_>,
    s: &Section<'_>,
    config: &BacnetConfig,
    min_priority: u8,
    points: &[PointConfig],
) {
    if config.write_priority < min_priority {
        let expected = format!("at least min_priority, which is {min_priority}");
        let found = config.write_priority.to_string();
        doc.report(s.value_at("write_priority"), &s.key("write_priority"), found, expected);
    }
    for point in points {
        let PointAddress::Bacnet(address) = &point.address else { continue };
        if let Some(priority) = address.write_priority.filter(|priority| *priority < min_priority) {
            let found = format!("{min_priority}, and point {:?} with write_priority {priority}", point.name);
            let expected = format!("min_priority = {priority}, or a write_priority of at least {min_priority}");
            return doc.report(s.value_at("min_priority"), &s.key("min_priority"), found, expected);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigError, DeviceConfig, from_text};

    fn read(keys: &str, list: &str) -> Result<DeviceConfig, Vec<String>> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.csv"), list).unwrap();
        let text = format!("[device.d]\nprotocol='bacnet'\npoints='p.csv'\n{keys}\n");
        let folder_text = format!("{}/", folder.path().display());
        match from_text("t.toml", &text, folder.path()) {
            Ok(mut config) => Ok(config.devices.remove(0)),
            Err(ConfigError(all)) => Err(all.iter().map(|line| line.to_string().replace(&folder_text, "")).collect()),
        }
    }

    /// What is wrong with a list of points, and with the device that names it.
    fn check(keys: &str, list: &str, expect: &[&str]) {
        assert_eq!(read(keys, list).err().unwrap_or_default(), expect, "{keys}\n{list}");
    }

    const LIST: &str = "name,type,index\na,analog-input,0\n";

    #[test]
    fn points_are_read_or_say_what_is_wrong() {
        let good = "name,type,index,property,array_index,every,cov,writable,write_priority,min,states\n\
                    a,analog-output,7,,,2s,true,true,8,-5,\nb,binary-value,4194302,,,,,true,,,off/on\n\
                    c,multi-state-input,0,,,,false,,,,\nd,analog-output,7,priority-array,8,,,,,,\n\
                    e,device,12,object-name,,,,,,,\nf,200,1,512,,,,,,,\ng,analog-input,1,out-of-service,,,,true,,,\n";
        check("address='10.0.0.5'", good, &[]);
        check(
            "address='10.0.0.5'",
            "name,type,index,property,array_index,every,cov,writable,write_priority,scale\n\
             a,analogue-input,0,,,,,,,\nb,analog-input,4194303,,,,,,,\nc,analog-input,1,,,,,true,,\n\
             d,analog-value,2,high-limits,,,,,,\ne,analog-value,3,high-limit,,,true,,,\nf,analog-value,4,,x,,,,,\n\
             g,analog-value,5,,,,,true,17,\nh,analog-value,6,object-name,,,,true,,\ni,analog-value,7,,,,,,9,\n\
             j,binary-value,8,,,,,,,2\nk,analog-value,9,,,1ms,,,,\n",
            &[
                "p.csv:2:1: type: found \"analogue-input\", expected an object type of BACnet such as analog-input, analog-output, \
                 analog-value, binary-input, binary-output, binary-value, multi-state-input, multi-state-output or \
                 multi-state-value, or its number up to 1023",
                "p.csv:3:1: index: found \"4194303\", expected an instance from 0 to 4194302",
                "p.csv:4:1: writable: found true, expected false: the present value of an input is measured",
                "p.csv:5:1: property: found \"high-limits\", expected a property of BACnet such as present-value, high-limit or \
                 object-name, or its number",
                "p.csv:6:1: cov: found true, expected false: devices tell changes of present-value only",
                "p.csv:7:1: array_index: found \"x\", expected a whole number",
                "p.csv:8:1: write_priority: found \"17\", expected a priority from 1 (the highest) to 16",
                "p.csv:9:1: writable: found true, expected false: only numbers and states can be commanded",
                "p.csv:10:1: write_priority: found \"9\", expected nothing, or writable = true",
                "p.csv:11:1: scale: found \"2\", expected nothing: the value of a point of type binary-value is true or false",
                "p.csv:12:1: every: found \"1ms\", expected an interval from 100ms to 7d, as in 1s",
            ],
        );
    }

    #[test]
    fn settings_are_read_or_say_what_is_wrong() {
        let device = read("address='10.0.0.5'\nbacnet={network=100, mac=12, bbmd='10.0.0.9'}", LIST).unwrap();
        let bacnet = device.protocol.bacnet().unwrap();
        assert_eq!(bacnet.peer.to_string(), "10.0.0.5:47808/100/0c");
        assert_eq!(bacnet.socket.foreign.unwrap().bbmd.to_string(), "10.0.0.9:47808");
        let mac = |text: &str| read(&format!("address='10.0.0.5:47809'\nbacnet={{network=7, mac='{text}'}}"), LIST);
        let shown = |text| mac(text).unwrap().protocol.bacnet().unwrap().peer.to_string();
        assert_eq!(shown("0A:00:00:05:ba:c0"), "10.0.0.5:47809/7/0a000005bac0");
        assert_eq!(shown("10.0.0.5:47808"), "10.0.0.5:47809/7/0a000005bac0");
        assert_eq!(shown("0x7f"), "10.0.0.5:47809/7/7f");
        assert!(mac("7f0").is_err() && mac("").is_err() && mac("000102030405060708").is_err());
        let nothing = "expected nothing: BACnet/IP has address = \"10.0.0.5:47808\" alone, and datagrams";
        check(
            "transport='tcp'\nserial.port='/dev/ttyS0'\nbacnet={network=1}",
            LIST,
            &[
                "t.toml:1:1: device.d.address: found nothing, expected an IPv4 address, as in \"10.0.0.5\"",
                "t.toml:4:11: device.d.transport: found \"tcp\", expected \"udp\"",
                &format!("t.toml:5:1: device.d.serial: found the key \"serial\", {nothing}"),
                "t.toml:6:17: device.d.bacnet.mac: found nothing, expected mac, too: a router needs both",
            ],
        );
        check(
            "address='ahu1.example:47808'\nbacnet={local='[::1]:0', in_flight=17}",
            LIST,
            &[
                "t.toml:4:9: device.d.address: found \"ahu1.example:47808\", expected an IPv4 address of one device, with a port \
                 other than 47808 behind it, as in \"10.0.0.5:47809\"",
                "t.toml:5:15: device.d.bacnet.local: found \"[::1]:0\", expected an IPv4 address with a port, as in \"0.0.0.0:47808\"",
                "t.toml:5:36: device.d.bacnet.in_flight: found 17, expected a whole number from 1 to 16",
            ],
        );
    }

    #[test]
    fn priorities_above_the_limit_must_be_meant() {
        let list = "name,type,index,writable,write_priority\na,analog-output,0,true,5\n";
        check("address='10.0.0.5'\nbacnet.min_priority=5", list, &[]);
        check(
            "address='10.0.0.5'\nbacnet={write_priority=7}",
            list,
            &[
                "t.toml:5:8: device.d.bacnet.min_priority: found 8, and point \"a\" with write_priority 5, expected min_priority = 5, \
                 or a write_priority of at least 8",
                "t.toml:5:24: device.d.bacnet.write_priority: found 7, expected at least min_priority, which is 8",
            ],
        );
    }

    #[test]
    fn trend_logs_are_instances_or_objects() {
        let list = "name,type,index,trend_log\na,analog-input,1,7\nb,analog-input,2,trend-log:8\nc,analog-input,3,\n\
                    d,analog-input,4,trend-log-multiple:9\n";
        let device = read("address='10.0.0.5'\nbacnet.backfill_max='30d'", list).unwrap();
        let logs = device.points.iter().map(|point| point.address.bacnet().unwrap().trend_log);
        let shown: Vec<_> = logs.map(|log| log.map(|log| log.to_string())).collect();
        let expect = [Some("trend-log,7"), Some("trend-log,8"), None, Some("trend-log-multiple,9")];
        assert_eq!(shown.iter().map(Option::as_deref).collect::<Vec<_>>(), expect);
        assert!(device.keeps_past());
        assert_eq!(device.protocol.bacnet().unwrap().backfill_max, Duration::from_secs(30 * 86_400));
        let wrong = "expected the instance of a trend log, as in 7, or trend-log-multiple:7";
        for cell in ["analog-input:1", "4194303", "trend-log:4194303", "x"] {
            let list = format!("name,type,index,trend_log\na,analog-input,1,{cell}\n");
            check("address='10.0.0.5'", &list, &[&format!("p.csv:2:1: trend_log: found {cell:?}, {wrong}")]);
        }
        check(
            "address='10.0.0.5'\nbacnet.backfill_max='1s'",
            "name,type,index\na,analog-input,1\n",
            &["t.toml:5:21: device.d.bacnet.backfill_max: found \"1s\", expected a duration from 1m to 366d"],
        );
    }

    #[test]
    fn subscribed_points_are_polled_rarely() {
        let list = "name,type,index,cov,every\na,analog-input,0,,\nb,analog-input,1,false,\nc,analog-input,2,true,2s\nd,analog-input,3,,100s\n";
        let device = read("address='10.0.0.5'\npoll={every='10s'}\nbacnet.cov=true", list).unwrap();
        let every: Vec<_> = device.points.iter().map(|point| device.every_of(point)).collect();
        assert_eq!(every, [100, 10, 20, 1000].map(Duration::from_secs));
        assert_eq!(device.polls, [10, 100, 2, 20, 1000].map(Duration::from_secs));
        let device = read("address='10.0.0.5'\npoll={every='10s'}", list).unwrap();
        assert_eq!(device.polls, [10, 2, 20, 100].map(Duration::from_secs));
    }

    #[test]
    fn devices_of_one_port_share_its_socket() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.csv"), LIST).unwrap();
        let device = |name: &str, bacnet: &str| {
            format!("[device.{name}]\nprotocol='bacnet'\naddress='10.0.0.5'\npoints='p.csv'\nbacnet={{{bacnet}}}\n")
        };
        let check = |one: &str, other: &str, expect: Option<&str>| {
            let text = device("a", one) + &device("b", other);
            let found = from_text("t.toml", &text, folder.path()).err().map(|error| error.0[0].to_string());
            assert_eq!(found.as_deref(), expect);
        };
        check("local='0.0.0.0:47808'", "local='0.0.0.0:47808', instance=2", None);
        check("retries=1", "retries=2", None);
        let socket = "t.toml:6:1: device.b.bacnet: found another apdu_timeout, retries, bbmd or foreign_lifetime than those that \
                      device.a has with the same local port, expected the same for all devices of a port";
        check("local='0.0.0.0:47808', retries=1", "local='0.0.0.0:47808'", Some(socket));
    }
}
