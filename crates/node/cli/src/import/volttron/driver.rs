//! The `driver_config` of a device: where it is, and what only its driver has.

use super::device::{Reader, Refused, refuse};
use super::modbus::{BIG, Orders};
use super::modbus_tk::{Addressing, Style};
use super::point::{Cells, Mapped, Refusal};
use super::{bacnet, dnp3, fake, modbus, modbus_tk};
use tieline_modbus::layout::Order;

/// A driver of VOLTTRON that Tieline has a protocol for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Driver {
    Bacnet,
    Modbus,
    ModbusTk,
    Dnp3,
    Fake,
}

impl Driver {
    pub fn of(name: &str) -> Option<Self> {
        Some(match name.to_lowercase().as_str() {
            "bacnet" => Self::Bacnet,
            "modbus" => Self::Modbus,
            "modbus_tk" | "modbustk" => Self::ModbusTk,
            "dnp3" => Self::Dnp3,
            "fakedriver" | "fake" => Self::Fake,
            _ => return None,
        })
    }

    /// The word of `protocol`.
    pub const fn protocol(self) -> &'static str {
        match self {
            Self::Bacnet => "bacnet",
            Self::Modbus | Self::ModbusTk => "modbus",
            Self::Dnp3 => "dnp3",
            Self::Fake => "simulated",
        }
    }

    /// The columns of its point lists.
    pub const fn columns(self) -> &'static [&'static str] {
        match self {
            Self::Bacnet => &bacnet::COLUMNS,
            Self::Modbus | Self::ModbusTk => &modbus::COLUMNS,
            Self::Dnp3 => &dnp3::COLUMNS,
            Self::Fake => &fake::COLUMNS,
        }
    }

    /// The columns of its registries that only it has.
    pub const fn known(self) -> &'static [&'static str] {
        match self {
            Self::Bacnet => &bacnet::KNOWN,
            Self::Modbus => &modbus::KNOWN,
            Self::ModbusTk => &modbus_tk::KNOWN,
            Self::Dnp3 => &dnp3::KNOWN,
            Self::Fake => &fake::KNOWN,
        }
    }

    pub const fn poll_key(self) -> &'static str {
        match self {
            Self::Dnp3 => "poll.integrity",
            Self::Bacnet | Self::Modbus | Self::ModbusTk | Self::Fake => "poll.every",
        }
    }

    /// A row of a registry as a point, with the row of the register map of the same register.
    pub fn point(
        self,
        row: &Cells<'_>,
        map: Option<&Cells<'_>>,
        style: Style,
        min_priority: u8,
    ) -> Result<Mapped, Refusal> {
        match self {
            Self::Bacnet => bacnet::point(row, min_priority),
            Self::Modbus => modbus::point(row),
            Self::ModbusTk => modbus_tk::point(row, map, style),
            Self::Dnp3 => dnp3::point(row),
            Self::Fake => fake::point(row),
        }
    }
}

/// How a device is reached, in TOML.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Connection {
    /// `address`.
    Address(String),
    /// `serial`, an inline table, and the port in it.
    Serial { port: String, table: String },
    /// A simulated device has none.
    None,
}

const UNIT: &str = "modbus.unit";
/// What a device has whose driver does not say.
pub const STYLE: Style = Style { addressing: Addressing::Offset, orders: BIG };
/// The least priority of a device that does not say.
pub const MIN_PRIORITY: u8 = 8;

/// Reads what only the driver has.
pub fn read_driver(r: &mut Reader<'_, '_>, driver: Driver) -> Result<(Connection, Style, u8), Refused> {
    match driver {
        Driver::Bacnet => {
            let min_priority = bacnet_priority(r)?;
            Ok((read_bacnet(r)?, STYLE, min_priority))
        }
        Driver::Modbus => Ok((read_modbus(r)?, STYLE, MIN_PRIORITY)),
        Driver::ModbusTk => {
            let (connection, style) = read_modbus_tk(r)?;
            Ok((connection, style, MIN_PRIORITY))
        }
        Driver::Dnp3 => Ok((read_dnp3(r)?, STYLE, MIN_PRIORITY)),
        Driver::Fake => {
            r.leaves.mark_below("driver_config", &crate::import::report::Outcome::NotNeeded("of no use".to_owned()));
            Ok((Connection::None, STYLE, MIN_PRIORITY))
        }
    }
}

/// An address with its port; that of IPv6 in brackets.
fn with_port(host: &str, port: u32) -> String {
    match host.parse::<std::net::Ipv6Addr>() {
        Ok(_) => format!("[{host}]:{port}"),
        Err(_) => format!("{host}:{port}"),
    }
}

fn quote(text: &str) -> String {
    toml_edit::Value::from(text).to_string()
}

/// The host of a device; none may have blanks.
fn host(r: &mut Reader<'_, '_>, paths: &[&'static str]) -> Result<String, Refused> {
    let target = r.target("address");
    let found = r.leaves.map(paths, target).and_then(|json| json.plain()).map(str::to_owned);
    let path = paths.first().copied().unwrap_or("driver_config");
    match found {
        Some(host) if !host.is_empty() && !host.contains(char::is_whitespace) => Ok(host),
        Some(host) => refuse(path, format!("it is {host:?}, expected an address")),
        None => refuse("driver_type", format!("no {path}")),
    }
}

fn read_modbus(r: &mut Reader<'_, '_>) -> Result<Connection, Refused> {
    let host = host(r, &["driver_config.device_address"])?;
    let port = r.integer("driver_config.port", 502, 65_535)?;
    let unit = r.integer("driver_config.slave_id", 0, 255)?;
    let (address, own) = (r.target("address"), r.target(UNIT));
    r.leaves.map(&["driver_config.port"], address);
    r.leaves.map(&["driver_config.slave_id"], own);
    r.set(UNIT, unit.to_string());
    // The driver writes registers with function 16 alone.
    r.set("modbus.write_single", "false");
    r.not_needed("driver_config.name", "the topic is its name");
    Ok(Connection::Address(with_port(&host, port)))
}

fn read_modbus_tk(r: &mut Reader<'_, '_>) -> Result<(Connection, Style), Refused> {
    let host = host(r, &["driver_config.device_address"])?;
    let port = r.integer("driver_config.port", 0, 65_535)?;
    let is_serial = port == 0;
    let unit = r.integer("driver_config.slave_id", 1, if is_serial { 247 } else { 255 })?;
    if is_serial && unit == 0 {
        return refuse("driver_config.slave_id", "it is 0, expected 1 to 247 on a serial line");
    }
    let (own, points) = (r.target("modbus"), r.target("points"));
    let unit_target = r.target(UNIT);
    r.leaves.map(&["driver_config.slave_id"], unit_target);
    r.set(UNIT, unit.to_string());
    let style = style(r)?;
    if style.orders != BIG {
        r.set("modbus.words", "\"little\"");
        r.set("modbus.bytes", "\"little\"");
    }
    let words = ["0", "f", "n", "false", "no", ""];
    let multiple = r.leaves.get("driver_config.write_multiple_registers").is_none_or(|json| {
        let text = json.plain().map(str::to_lowercase);
        text.map_or_else(|| json.is_true(), |text| !words.contains(&text.as_str()))
    });
    if multiple {
        r.set("modbus.write_single", "false");
    }
    r.leaves.map(&["driver_config.write_multiple_registers"], own);
    r.leaves.map(&["driver_config.register_map"], points);
    for path in ["driver_config.name", "driver_config.device_type", "driver_config.description"] {
        r.not_needed(path, "the topic is its name");
    }
    let connection = if is_serial { serial(r, &host)? } else { Connection::Address(with_port(&host, port)) };
    let target = if is_serial { "serial" } else { "address" };
    let target = r.target(target);
    r.leaves.map(&["driver_config.port"], target);
    if !is_serial {
        for name in ["baudrate", "bytesize", "parity", "stopbits", "xonxoff"] {
            r.not_needed(&format!("driver_config.{name}"), "of serial lines");
        }
    }
    Ok((connection, style))
}

fn style(r: &mut Reader<'_, '_>) -> Result<Style, Refused> {
    let (points, own) = (r.target("points"), r.target("modbus"));
    let addressing = match r.plain("driver_config.addressing").unwrap_or_default().to_lowercase().as_str() {
        "" | "offset" => Addressing::Offset,
        "offset_plus" => Addressing::OffsetPlus,
        "address" => Addressing::Address,
        other => {
            let why = format!("it is {other:?}, expected offset, offset_plus or address");
            return refuse("driver_config.addressing", why);
        }
    };
    let endian = r.plain("driver_config.endian").unwrap_or_default().to_lowercase();
    let orders: Orders = if endian == "little" { (Order::Little, Order::Little) } else { BIG };
    r.leaves.map(&["driver_config.addressing"], points);
    if orders == BIG {
        r.not_needed("driver_config.endian", "big is the default");
    } else {
        r.leaves.map(&["driver_config.endian"], own);
    }
    Ok(Style { addressing, orders })
}

fn serial(r: &mut Reader<'_, '_>, port: &str) -> Result<Connection, Refused> {
    let baud = r.integer("driver_config.baudrate", 9600, 4_000_000)?;
    let stop_bits = r.integer("driver_config.stopbits", 1, 2)?;
    let parity = r.plain("driver_config.parity").unwrap_or_else(|| "none".to_owned()).to_lowercase();
    if !["none", "even", "odd"].contains(&parity.as_str()) {
        return refuse("driver_config.parity", format!("it is {parity:?}, expected none, even or odd"));
    }
    if r.integer("driver_config.bytesize", 8, 8)? != 8 {
        return refuse("driver_config.bytesize", "expected 8: RTU has bytes of 8 bits");
    }
    for name in ["device_address", "baudrate", "stopbits", "parity"] {
        let target = r.target("serial");
        r.leaves.map(&[&format!("driver_config.{name}")], target);
    }
    r.not_needed("driver_config.bytesize", "RTU has bytes of 8 bits");
    match r.leaves.get("driver_config.xonxoff").is_some_and(super::jsonc::Json::is_true) {
        true => r.left_out("driver_config.xonxoff", "RTU cannot have flow control by characters"),
        false => r.not_needed("driver_config.xonxoff", "RTU cannot have flow control by characters"),
    }
    let table = format!(
        "{{ port = {}, baud = {baud}, parity = {}, stop_bits = {} }}",
        quote(port),
        quote(&parity),
        stop_bits.max(1)
    );
    Ok(Connection::Serial { port: port.to_owned(), table })
}

fn read_dnp3(r: &mut Reader<'_, '_>) -> Result<Connection, Refused> {
    if r.leaves.get("driver_config.outstation_ip").is_none() && r.leaves.get("driver_config.dnp3_agent_id").is_some() {
        let why = "the driver of older versions, which is an outstation; see tieline dnp3 outstation";
        return refuse("driver_config.dnp3_agent_id", why);
    }
    let host = host(r, &["driver_config.outstation_ip"])?;
    let port = r.integer("driver_config.port", 20_000, 65_535)?;
    let master = r.integer("driver_config.master_id", 2, 65_519)?;
    let outstation = r.integer("driver_config.outstation_id", 1, 65_519)?;
    let (address, own) = (r.target("address"), r.target("dnp3"));
    r.leaves.map(&["driver_config.port"], address);
    r.leaves.map(&["driver_config.master_id"], own);
    let own = r.target("dnp3.outstation");
    r.leaves.map(&["driver_config.outstation_id"], own);
    r.set("dnp3.master", master.to_string());
    r.set("dnp3.outstation", outstation.to_string());
    r.not_needed("driver_config.master_ip", "the system chooses the local address");
    Ok(Connection::Address(with_port(&host, port)))
}

fn bacnet_priority(r: &Reader<'_, '_>) -> Result<u8, Refused> {
    let path = "driver_config.min_priority";
    match u8::try_from(r.integer(path, MIN_PRIORITY.into(), 16)?) {
        Ok(priority @ 1..) => Ok(priority),
        _ => refuse(path, "it is 0, expected a priority from 1 to 16"),
    }
}

fn read_bacnet(r: &mut Reader<'_, '_>) -> Result<Connection, Refused> {
    let paths = ["driver_config.device_address", "driver_config.target_address"];
    let address = host(r, &paths)?;
    let path = paths.into_iter().find(|path| r.leaves.get(path).is_some()).unwrap_or("driver_type");
    if r.plain("driver_config.device_id").is_none() {
        return refuse("driver_type", "no driver_config.device_id");
    }
    let instance = r.integer("driver_config.device_id", 0, 4_194_303)?;
    let port = r.integer("driver_config.bacnet_port", 47_808, 65_535)?;
    let own = r.target("bacnet");
    r.set("bacnet.instance", instance.to_string());
    let address = bacnet_address(r, path, &address, port)?;
    r.set("bacnet.min_priority", bacnet_priority(r)?.to_string());
    for (path, key) in [("driver_config.max_per_request", "max_per_request"), ("driver_config.apdu_retries", "retries")]
    {
        if r.leaves.get(path).is_some() {
            let number = r.integer(path, 0, 100_000)?;
            r.set(&format!("bacnet.{key}"), number.to_string());
            r.leaves.map(&[path], own.clone());
        }
    }
    for (path, key) in [("driver_config.cov_lifetime", "cov_lifetime"), ("driver_config.apdu_timeout", "apdu_timeout")]
    {
        if let Some(duration) = r.duration(path) {
            r.set(&format!("bacnet.{key}"), quote(&duration));
            r.leaves.map(&[path], own.clone());
        }
    }
    if let Some(json) = r.leaves.map(&["driver_config.use_read_multiple"], own.clone()) {
        r.set("bacnet.read_multiple", json.is_true().to_string());
    }
    r.leaves.map(&["driver_config.min_priority"], own);
    let instance_target = r.target("bacnet.instance");
    r.leaves.map(&["driver_config.device_id"], instance_target);
    let address_target = r.target("address");
    r.leaves.map(&["driver_config.bacnet_port"], address_target);
    let proxy = "a node speaks BACnet itself, without a proxy";
    for name in ["proxy_address", "timeout", "ping_retry_interval", "local_interface"] {
        r.not_needed(&format!("driver_config.{name}"), proxy);
    }
    Ok(Connection::Address(address))
}

/// `HOST[/BITS][:PORT]`, or `NETWORK:STATION[@ROUTER]` behind a router.
fn bacnet_address(r: &mut Reader<'_, '_>, path: &'static str, text: &str, port: u32) -> Result<String, Refused> {
    let (place, router) = text.split_once('@').map_or((text, None), |(place, router)| (place, Some(router)));
    let remote = place.split_once(':').filter(|(network, _)| network.parse::<u16>().is_ok());
    let Some((network, station)) = remote else {
        return match ip(place, port) {
            Some(address) => Ok(address),
            None => refuse(path, format!("it is {text:?}, expected an address, as in 10.0.0.5 or 10.0.0.5:47808")),
        };
    };
    let network = network.parse::<u16>().unwrap_or_default();
    let Some(mac) = mac(station) else {
        return refuse(path, format!("it is {text:?}, expected a station of a network, as in 12:3 or 12:0x0a"));
    };
    let router = router.map(str::to_owned).or_else(|| r.routers.get(&network).cloned());
    let Some(router) = router.and_then(|router| ip(&router, port)) else {
        let why = format!(
            "the router to network {network} is not in VOLTTRON's files, as it looks for it; say --bacnet-router {network}=ADDRESS"
        );
        return refuse(path, why);
    };
    let target = r.target("bacnet.network");
    r.leaves.map(&[path], target);
    r.set("bacnet.network", network.to_string());
    r.set("bacnet.mac", quote(&mac));
    Ok(router)
}

fn ip(text: &str, port: u32) -> Option<String> {
    let (host, own_port) = match text.rsplit_once(':') {
        Some((host, own)) if !host.contains(':') => (host, own.parse::<u16>().ok()?.into()),
        _ => (text, port),
    };
    let host = host.split_once('/').map_or(host, |(host, _)| host);
    let legal = !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || ".-_:".contains(c));
    legal.then(|| with_port(host, own_port))
}

/// The address of a station behind a router in hexadecimal digits: a number, digits, or an address of IP.
fn mac(text: &str) -> Option<String> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    if let Ok(station) = text.parse::<u8>() {
        return Some(hex(&[station]));
    }
    let digits = text.strip_prefix("0x").or_else(|| text.strip_prefix("X'").and_then(|rest| rest.strip_suffix('\'')));
    if let Some(digits) = digits {
        let is_hex = digits.chars().all(|c| c.is_ascii_hexdigit());
        return (is_hex && digits.len() % 2 == 0 && (2..=14).contains(&digits.len())).then(|| digits.to_lowercase());
    }
    let (host, port) = text.split_once(':').unwrap_or((text, "47808"));
    let (host, port) = (host.parse::<std::net::Ipv4Addr>().ok()?, port.parse::<u16>().ok()?);
    Some(hex(&[&host.octets()[..], &port.to_be_bytes()].concat()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_bacnet() {
        assert_eq!(ip("10.0.0.5", 47_808).as_deref(), Some("10.0.0.5:47808"));
        assert_eq!(ip("10.0.0.5/24:47809", 47_808).as_deref(), Some("10.0.0.5:47809"));
        assert_eq!(ip("10.0.0.5:x", 47_808), None);
        assert_eq!(ip("", 47_808), None);
        assert_eq!(mac("3").as_deref(), Some("03"));
        assert_eq!(mac("0x0A0b").as_deref(), Some("0a0b"));
        assert_eq!(mac("10.0.0.5").as_deref(), Some("0a000005bac0"));
        assert_eq!(mac("300"), None);
    }
}
