//! The addresses and the units that a discovery looks at.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::str::FromStr;
use tieline_bacnet::bvlc;

/// Addresses of one discovery at most.
pub const HOSTS_MAX: usize = 65_536;

/// Addresses with a port, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hosts {
    names: Vec<String>,
    port: Option<u16>,
}

/// What an argument should be.
const EXPECTED: &str =
    "a host, as in 10.1.2.3 or meter.example:502, a network, as in 10.1.2.0/24, or a range, as in 10.1.2.10-10.1.2.40";

impl FromStr for Hosts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (place, port) = match text.rsplit_once(':') {
            Some((place, port)) => (place, Some(port.parse().map_err(|_| EXPECTED.to_owned())?)),
            None => (text, None),
        };
        let names = of_network(place).or_else(|| of_range(place)).unwrap_or_else(|| one(place));
        match names {
            Ok(names) => Ok(Self { names, port }),
            Err(error) => Err(error),
        }
    }
}

impl Hosts {
    /// Each as `host:port`.
    pub fn addresses(&self, port: u16) -> impl Iterator<Item = String> + '_ {
        let port = self.port.unwrap_or(port);
        self.names.iter().map(move |name| format!("{name}:{port}"))
    }
}

/// `10.1.2.0/24`, without the address of the network and that for all.
fn of_network(text: &str) -> Option<Result<Vec<String>, String>> {
    let (address, bits) = text.split_once('/')?;
    let parsed = address.parse::<Ipv4Addr>().ok().zip(bits.parse::<u32>().ok().filter(|bits| *bits <= 32));
    let Some((address, bits)) = parsed else { return Some(Err(EXPECTED.to_owned())) };
    let mask = u32::MAX.checked_shl(32 - bits).unwrap_or(0);
    let (first, last) = (u32::from(address) & mask, u32::from(address) | !mask);
    Some(if bits >= 31 { between(first, last) } else { between(first + 1, last - 1) })
}

/// `10.1.2.10-10.1.2.40`.
fn of_range(text: &str) -> Option<Result<Vec<String>, String>> {
    let (first, last) = text.split_once('-')?;
    let (first, last) = (first.parse::<Ipv4Addr>().ok()?, last.parse::<Ipv4Addr>().ok()?);
    Some(between(first.into(), last.into()))
}

fn between(first: u32, last: u32) -> Result<Vec<String>, String> {
    if first > last {
        return Err(format!("found a range that ends before it begins, expected {EXPECTED}"));
    }
    let count = usize::try_from(last - first).unwrap_or(usize::MAX).saturating_add(1);
    if count > HOSTS_MAX {
        return Err(format!("found {count} addresses, expected at most {HOSTS_MAX}"));
    }
    Ok((first..=last).map(|address| Ipv4Addr::from(address).to_string()).collect())
}

fn one(text: &str) -> Result<Vec<String>, String> {
    let fits = !text.is_empty() && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'-' | b'_'));
    if fits { Ok(vec![text.to_owned()]) } else { Err(EXPECTED.to_owned()) }
}

/// Units, as in `1,2,10-20`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Units(pub Vec<u8>);

impl FromStr for Units {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || "units from 0 to 255, as in 1,2,10-20".to_owned();
        let mut units = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse::<u8>(), last.trim().parse::<u8>());
            let (Ok(first), Ok(last)) = (first, last) else { return Err(expected()) };
            units.extend(first..=last);
        }
        if units.is_empty() { Err(expected()) } else { Ok(Self(units)) }
    }
}

/// An IPv4 address, with a port where it is not that of BACnet.
pub fn ipv4(text: &str) -> Result<SocketAddrV4, String> {
    let plain = text.parse().ok().map(|ip: Ipv4Addr| SocketAddrV4::new(ip, bvlc::PORT));
    text.parse().ok().or(plain).ok_or_else(|| "expected an IPv4 address, as in 10.1.2.3 or 10.1.2.3:47809".to_owned())
}

/// Link addresses of one discovery at most.
const LINK_ADDRESSES_MAX: usize = 4096;
/// The greatest link address of a station (IEEE 1815 9.2.4.1.3).
const LINK_ADDRESS_MAX: u16 = 65_519;

/// Link addresses of DNP3, as in `1,4,10-20`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkAddresses(pub Vec<u16>);

impl FromStr for LinkAddresses {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || format!("expected up to {LINK_ADDRESSES_MAX} addresses from 0 to 65519, as in 1,4,10-20");
        let mut addresses = Vec::new();
        for part in text.split(',') {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (first, last) = (first.trim().parse::<u16>(), last.trim().parse::<u16>());
            let (Ok(first), Ok(last)) = (first, last) else { return Err(expected()) };
            addresses.extend(first..=last);
        }
        let fits = (1..=LINK_ADDRESSES_MAX).contains(&addresses.len());
        let fits = fits && addresses.iter().all(|address| *address <= LINK_ADDRESS_MAX);
        if fits { Ok(Self(addresses)) } else { Err(expected()) }
    }
}

/// The greatest instance of a BACnet device.
const INSTANCE_MAX: u32 = 4_194_302;

/// Instances of BACnet devices, from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instances(pub u32, pub u32);

impl FromStr for Instances {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (low, high) = text.split_once('-').unwrap_or((text, text));
        let parsed = low.trim().parse().ok().zip(high.trim().parse().ok());
        let instances = parsed.filter(|(low, high)| low <= high && *high <= INSTANCE_MAX);
        let expected = || "instances from 0 to 4194302, as in 1000-1999".to_owned();
        instances.map(|(low, high)| Self(low, high)).ok_or_else(expected)
    }
}

/// Networks that a discovery asks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Networks {
    /// All.
    All,
    /// Some.
    Some {
        /// The one without a number, which the socket is on.
        local: bool,
        /// Those behind routers.
        behind: Vec<u16>,
    },
}

impl FromStr for Networks {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "all" {
            return Ok(Self::All);
        }
        let (mut local, mut behind) = (false, Vec::new());
        for part in text.split(',').map(str::trim) {
            match part.parse() {
                Ok(network @ 1..=65_534) => behind.push(network),
                _ if part == "local" => local = true,
                _ => {
                    return Err(
                        "expected all, local, or numbers of networks from 1 to 65534, as in local,100,200".to_owned()
                    );
                }
            }
        }
        Ok(Self::Some { local, behind })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expect: &[&str]) {
        let found: Vec<String> = text.parse::<Hosts>().unwrap().addresses(502).collect();
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn hosts_are_names_networks_and_ranges() {
        check("10.1.2.3", &["10.1.2.3:502"]);
        check("meter-1.example:1502", &["meter-1.example:1502"]);
        check("10.1.2.0/30", &["10.1.2.1:502", "10.1.2.2:502"]);
        check("10.1.2.7/31:5020", &["10.1.2.6:5020", "10.1.2.7:5020"]);
        check("10.1.2.254-10.1.3.1", &["10.1.2.254:502", "10.1.2.255:502", "10.1.3.0:502", "10.1.3.1:502"]);
        for wrong in ["", "10.0.0.0/8", "10.1.2.0/33", "10.1.2.9-10.1.2.3", "a b", "h:x"] {
            assert!(wrong.parse::<Hosts>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn units_are_numbers_and_ranges() {
        assert_eq!("1,3-5,255".parse(), Ok(Units(vec![1, 3, 4, 5, 255])));
        for wrong in ["", "256", "5-3", "a"] {
            assert!(wrong.parse::<Units>().is_err(), "{wrong}");
        }
    }
    #[test]
    fn link_addresses_are_numbers_and_ranges() {
        assert_eq!("1,4-6".parse(), Ok(LinkAddresses(vec![1, 4, 5, 6])));
        for wrong in ["", "65520", "0-65519", "6-4", "a"] {
            assert!(wrong.parse::<LinkAddresses>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn networks_instances_and_addresses_of_bacnet() {
        assert_eq!("all".parse(), Ok(Networks::All));
        assert_eq!("local".parse(), Ok(Networks::Some { local: true, behind: Vec::new() }));
        assert_eq!("100, 200".parse(), Ok(Networks::Some { local: false, behind: vec![100, 200] }));
        assert_eq!("7".parse(), Ok(Instances(7, 7)));
        assert_eq!("1000-1999".parse(), Ok(Instances(1000, 1999)));
        for wrong in ["", "0", "65535", "all,1", "1-2"] {
            assert!(wrong.parse::<Networks>().is_err(), "{wrong}");
        }
        for wrong in ["", "2-1", "0-4194303", "a"] {
            assert!(wrong.parse::<Instances>().is_err(), "{wrong}");
        }
        assert_eq!(ipv4("10.0.0.5").unwrap().to_string(), "10.0.0.5:47808");
        assert_eq!(ipv4("10.0.0.5:1").unwrap().to_string(), "10.0.0.5:1");
        assert!(ipv4("site.example").is_err());
    }
}
