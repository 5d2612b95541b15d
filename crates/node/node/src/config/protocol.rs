//! The protocols of devices.

use super::bacnet::BacnetConfig;
use super::dnp3::Dnp3Config;
use super::goose::GooseConfig;
use super::iec104::Iec104Config;
use super::modbus::ModbusConfig;
use super::points::PointConfig;
use super::simulated::SimulatedConfig;

/// The protocol of a device, with its own settings.
#[derive(Clone, Debug, PartialEq)]
pub enum Protocol {
    /// IEEE 1815.
    Dnp3(Dnp3Config),
    /// Modbus.
    Modbus(ModbusConfig),
    /// BACnet.
    Bacnet(BacnetConfig),
    /// IEC 60870-5-104.
    Iec104(Iec104Config),
    /// GOOSE of IEC 61850-8-1.
    Goose(GooseConfig),
    /// None: the device does not exist.
    Simulated(SimulatedConfig),
}

impl Protocol {
    /// Which.
    #[must_use]
    pub const fn name(&self) -> ProtocolName {
        match self {
            Self::Dnp3(_) => ProtocolName::Dnp3,
            Self::Modbus(_) => ProtocolName::Modbus,
            Self::Bacnet(_) => ProtocolName::Bacnet,
            Self::Iec104(_) => ProtocolName::Iec104,
            Self::Goose(_) => ProtocolName::Goose,
            Self::Simulated(_) => ProtocolName::Simulated,
        }
    }

    /// Requests that may be out to the device at a time.
    #[must_use]
    pub const fn in_flight(&self) -> u8 {
        match self {
            Self::Modbus(modbus) => modbus.line.in_flight,
            Self::Dnp3(_) | Self::Iec104(_) | Self::Goose(_) | Self::Simulated(_) => 1,
            Self::Bacnet(bacnet) => bacnet.in_flight,
        }
    }

    /// Whether the device is to tell changes of a point that is polled, too.
    #[must_use]
    pub fn tells(&self, point: &PointConfig) -> bool {
        match (self, point.address.bacnet()) {
            (Self::Bacnet(bacnet), Some(address)) => address.wants_cov(bacnet.cov),
            (
                Self::Bacnet(_)
                | Self::Dnp3(_)
                | Self::Modbus(_)
                | Self::Iec104(_)
                | Self::Goose(_)
                | Self::Simulated(_),
                _,
            ) => false,
        }
    }

    /// The settings of DNP3; none of a device that speaks another protocol.
    #[must_use]
    pub const fn dnp3(&self) -> Option<&Dnp3Config> {
        match self {
            Self::Dnp3(dnp3) => Some(dnp3),
            Self::Modbus(_) | Self::Bacnet(_) | Self::Iec104(_) | Self::Goose(_) | Self::Simulated(_) => None,
        }
    }

    /// The settings of Modbus; none of a device that speaks another protocol.
    #[must_use]
    pub const fn modbus(&self) -> Option<&ModbusConfig> {
        match self {
            Self::Modbus(modbus) => Some(modbus),
            Self::Dnp3(_) | Self::Bacnet(_) | Self::Iec104(_) | Self::Goose(_) | Self::Simulated(_) => None,
        }
    }

    /// The settings of a simulated device; none of one that exists.
    #[must_use]
    pub const fn simulated(&self) -> Option<&SimulatedConfig> {
        match self {
            Self::Simulated(simulated) => Some(simulated),
            Self::Dnp3(_) | Self::Modbus(_) | Self::Bacnet(_) | Self::Iec104(_) | Self::Goose(_) => None,
        }
    }

    /// The settings of BACnet; none of a device that speaks another protocol.
    #[must_use]
    pub const fn bacnet(&self) -> Option<&BacnetConfig> {
        match self {
            Self::Bacnet(bacnet) => Some(bacnet),
            Self::Dnp3(_) | Self::Modbus(_) | Self::Iec104(_) | Self::Goose(_) | Self::Simulated(_) => None,
        }
    }

    /// The same, to be completed while they are read.
    pub(super) const fn iec104_mut(&mut self) -> Option<&mut Iec104Config> {
        match self {
            Self::Iec104(iec104) => Some(iec104),
            Self::Dnp3(_) | Self::Modbus(_) | Self::Bacnet(_) | Self::Goose(_) | Self::Simulated(_) => None,
        }
    }

    /// The settings of GOOSE; none of a device that speaks another protocol.
    #[must_use]
    pub const fn goose(&self) -> Option<&GooseConfig> {
        match self {
            Self::Goose(goose) => Some(goose),
            Self::Dnp3(_) | Self::Modbus(_) | Self::Bacnet(_) | Self::Iec104(_) | Self::Simulated(_) => None,
        }
    }

    /// The settings of IEC 60870-5-104; none of a device that speaks another protocol.
    #[must_use]
    pub const fn iec104(&self) -> Option<&Iec104Config> {
        match self {
            Self::Iec104(iec104) => Some(iec104),
            Self::Dnp3(_) | Self::Modbus(_) | Self::Bacnet(_) | Self::Goose(_) | Self::Simulated(_) => None,
        }
    }
}

/// A protocol without its settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ProtocolName {
    /// IEEE 1815.
    Dnp3,
    /// Modbus.
    Modbus,
    /// BACnet/IP.
    Bacnet,
    /// IEC 60870-5-104.
    Iec104,
    /// GOOSE of IEC 61850-8-1.
    Goose,
    /// None: the device does not exist.
    Simulated,
}

impl ProtocolName {
    /// All.
    pub const ALL: [Self; 6] = [Self::Dnp3, Self::Modbus, Self::Bacnet, Self::Iec104, Self::Goose, Self::Simulated];

    /// Each with its word.
    pub(super) const WORDS: [(&'static str, Self); 6] = [
        ("dnp3", Self::Dnp3),
        ("modbus", Self::Modbus),
        ("bacnet", Self::Bacnet),
        ("iec104", Self::Iec104),
        ("goose", Self::Goose),
        ("simulated", Self::Simulated),
    ];

    /// The word in the configuration, the API and the names of metrics.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Dnp3 => "dnp3",
            Self::Modbus => "modbus",
            Self::Bacnet => "bacnet",
            Self::Iec104 => "iec104",
            Self::Goose => "goose",
            Self::Simulated => "simulated",
        }
    }
}
