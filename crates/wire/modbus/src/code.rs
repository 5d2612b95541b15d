//! Numbers of the protocol: units, functions, exceptions.

use core::fmt;

/// The address of a device behind a connection: 1 to 247, 0 for all on a serial line (Serial Line 2.2); TCP devices
/// without others behind them often take 255 or 0 (Messaging on TCP/IP 4.4.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Unit(pub u8);

impl Unit {
    /// All devices of a serial line: written, never read.
    pub const BROADCAST: Self = Self(0);
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

macro_rules! functions {
    ($($code:literal $variant:ident $name:literal;)*) => {
        /// The functions that this crate knows (Application Protocol 6).
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Function {
            $(#[doc = concat!($code, ": ", $name, ".")] $variant,)*
        }

        impl Function {
            /// All of them, by code.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// What a code means; none for functions that this crate does not know.
            #[must_use]
            pub const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The code on the wire.
            #[must_use]
            pub const fn code(self) -> u8 {
                match self {
                    $(Self::$variant => $code,)*
                }
            }

            /// Its name in the standard, in lower case.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

functions! {
    1 ReadCoils "read coils";
    2 ReadDiscreteInputs "read discrete inputs";
    3 ReadHoldingRegisters "read holding registers";
    4 ReadInputRegisters "read input registers";
    5 WriteSingleCoil "write single coil";
    6 WriteSingleRegister "write single register";
    15 WriteMultipleCoils "write multiple coils";
    16 WriteMultipleRegisters "write multiple registers";
    22 MaskWriteRegister "mask write register";
    23 ReadWriteMultipleRegisters "read/write multiple registers";
    43 EncapsulatedInterface "encapsulated interface transport";
}

/// Why a device refuses a request (Application Protocol 7). Codes that the standard does not name are kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ExceptionCode(pub u8);

impl ExceptionCode {
    /// The device does not know the function.
    pub const ILLEGAL_FUNCTION: Self = Self(1);
    /// The device has not all of the addresses.
    pub const ILLEGAL_DATA_ADDRESS: Self = Self(2);
    /// A value, a count or a length is not allowed.
    pub const ILLEGAL_DATA_VALUE: Self = Self(3);
    /// The device failed while it carried the request out.
    pub const SERVER_DEVICE_FAILURE: Self = Self(4);
    /// Accepted, and takes long.
    pub const ACKNOWLEDGE: Self = Self(5);
    /// The device is busy with another request.
    pub const SERVER_DEVICE_BUSY: Self = Self(6);
    /// The device found a parity error in its memory.
    pub const MEMORY_PARITY_ERROR: Self = Self(8);
    /// A gateway has no way to the unit.
    pub const GATEWAY_PATH_UNAVAILABLE: Self = Self(10);
    /// A gateway had no answer from the unit.
    pub const GATEWAY_TARGET_FAILED: Self = Self(11);

    /// A stable word in `snake_case`; `exception` for codes without a name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ILLEGAL_FUNCTION => "illegal_function",
            Self::ILLEGAL_DATA_ADDRESS => "illegal_data_address",
            Self::ILLEGAL_DATA_VALUE => "illegal_data_value",
            Self::SERVER_DEVICE_FAILURE => "server_device_failure",
            Self::ACKNOWLEDGE => "acknowledge",
            Self::SERVER_DEVICE_BUSY => "server_device_busy",
            Self::MEMORY_PARITY_ERROR => "memory_parity_error",
            Self::GATEWAY_PATH_UNAVAILABLE => "gateway_path_unavailable",
            Self::GATEWAY_TARGET_FAILED => "gateway_target_failed",
            Self(_) => "exception",
        }
    }

    /// Whether a gateway says it and not the unit: the unit did not answer.
    #[must_use]
    pub const fn is_of_gateway(self) -> bool {
        matches!(self, Self::GATEWAY_PATH_UNAVAILABLE | Self::GATEWAY_TARGET_FAILED)
    }
}

impl fmt::Display for ExceptionCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exception {} ({})", self.0, self.name())
    }
}

/// Some of the 256 units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnitSet([u64; 4]);

impl UnitSet {
    /// No unit.
    pub const NONE: Self = Self([0; 4]);
    /// All of them.
    pub const ALL: Self = Self([u64::MAX; 4]);

    /// Adds one.
    pub fn insert(&mut self, unit: Unit) {
        if let Some(word) = self.0.get_mut(usize::from(unit.0 / 64)) {
            *word |= 1 << (unit.0 % 64);
        }
    }

    /// Whether it is in.
    #[must_use]
    pub fn has(&self, unit: Unit) -> bool {
        self.0.get(usize::from(unit.0 / 64)).is_some_and(|word| word >> (unit.0 % 64) & 1 == 1)
    }

    /// Whether all of another set are in.
    #[must_use]
    pub fn has_all(&self, of: &Self) -> bool {
        self.0.iter().zip(&of.0).all(|(mine, other)| mine & other == *other)
    }
}

impl FromIterator<Unit> for UnitSet {
    fn from_iter<T: IntoIterator<Item = Unit>>(units: T) -> Self {
        let mut set = Self::NONE;
        units.into_iter().for_each(|unit| set.insert(unit));
        set
    }
}
