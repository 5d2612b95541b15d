//! What devices of each protocol are to a node: their tables, their point lists, and who begins.

use super::{POINTS, address_of};
use std::fmt::Write as _;
use std::time::Duration;

/// What the simulated devices speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// Modbus/TCP: the node reads.
    Modbus,
    /// BACnet/IP: the node reads values with their status flags.
    Bacnet,
    /// DNP3 over TCP: devices report by themselves, and the node confirms.
    Dnp3,
    /// IEC 60870-5-104: devices report by themselves, and the node acknowledges some of it.
    Iec104,
}

impl Protocol {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Modbus, Self::Bacnet, Self::Dnp3, Self::Iec104];

    /// As it is written in a configuration.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Modbus => "modbus",
            Self::Bacnet => "bacnet",
            Self::Dnp3 => "dnp3",
            Self::Iec104 => "iec104",
        }
    }

    /// Whether the node asks for values; else devices report them.
    #[must_use]
    pub const fn is_polled(self) -> bool {
        matches!(self, Self::Modbus | Self::Bacnet)
    }

    /// Whether messages are datagrams.
    #[must_use]
    pub const fn is_datagrams(self) -> bool {
        matches!(self, Self::Bacnet)
    }

    /// The point list of all devices.
    #[must_use]
    pub fn point_list(self) -> String {
        let (heading, kind) = match self {
            Self::Modbus => return modbus_list(),
            Self::Bacnet => ("name,type,index\n", "analog-input"),
            Self::Dnp3 => ("name,type,index\n", "analog"),
            Self::Iec104 => ("name,type,index\n", "short-float"),
        };
        let mut list = heading.to_owned();
        for point in 0..POINTS {
            let name = match point {
                0 => "stamp".to_owned(),
                1 => "count".to_owned(),
                other => format!("p{other:02}"),
            };
            let _ = writeln!(list, "{name},{kind},{}", self.index_of(point));
        }
        list
    }

    /// The index of a point in its device.
    #[must_use]
    pub const fn index_of(self, point: u16) -> u16 {
        match self {
            Self::Modbus | Self::Bacnet | Self::Dnp3 => point,
            // 0 is no object.
            Self::Iec104 => point + 1,
        }
    }

    /// What the table of a device says besides the keys that all have.
    #[must_use]
    pub fn table(self, device: usize, port: u16, every: Duration) -> String {
        let (word, address) = (self.word(), address_of(device, port));
        let more = match self {
            Self::Modbus | Self::Bacnet => format!("poll = {{ every = \"{}ms\" }}", every.as_millis()),
            // As outstations of ours are by default.
            Self::Dnp3 => "dnp3 = { master = 1, outstation = 10 }".to_owned(),
            Self::Iec104 => "iec104 = { common_address = 1 }".to_owned(),
        };
        format!("protocol = \"{word}\"\naddress = \"{address}\"\n{more}\n")
    }
}

impl std::str::FromStr for Protocol {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|known| known.word() == word);
        known.ok_or_else(|| "expected modbus, bacnet, dnp3 or iec104".to_owned())
    }
}

fn modbus_list() -> String {
    let mut list = "name,type,index,format\nstamp,holding-register,0,u64\ncount,holding-register,4,u16\n".to_owned();
    for point in 2..POINTS {
        let _ = writeln!(list, "p{point:02},holding-register,{},u16", point + 3);
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_protocol_has_all_points() {
        for protocol in Protocol::ALL {
            let list = protocol.point_list();
            assert_eq!(list.lines().count(), usize::from(POINTS) + 1, "{list}");
            assert!(list.contains("\nstamp,") && list.contains("\np17,"), "{list}");
            assert_eq!(protocol.word().parse(), Ok(protocol));
        }
        assert!("opc".parse::<Protocol>().is_err());
    }
}
