//! Data types that are more than a number: object identifier, bit string, date, time, and addresses.

use crate::names::{ObjectType, UnknownName};
use crate::{DecodeError, Decoded};
use core::fmt;
use core::net::SocketAddrV4;
use core::str::FromStr;
use tieline_core::Timestamp;

/// Instances end here; this one stands for the device that is asked, whatever its instance (clause 12.11).
pub const INSTANCE_ANY: u32 = 0x3F_FFFF;

/// The type and the instance of an object, 10 and 22 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId(u32);

impl ObjectId {
    /// Of the lower 10 bits of a type and the lower 22 of an instance.
    #[must_use]
    pub fn new(object_type: ObjectType, instance: u32) -> Self {
        Self(u32::from(object_type.0 & 0x3FF) << 22 | (instance & INSTANCE_ANY))
    }

    /// A device object.
    #[must_use]
    pub fn device(instance: u32) -> Self {
        Self::new(ObjectType::DEVICE, instance)
    }

    /// From its 32 bits.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self(bits)
    }

    /// Its 32 bits.
    #[must_use]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// What the object is.
    #[must_use]
    pub fn object_type(self) -> ObjectType {
        ObjectType(u16::try_from(self.0 >> 22).unwrap_or(u16::MAX))
    }

    /// Its number among those of its type.
    #[must_use]
    pub const fn instance(self) -> u32 {
        self.0 & INSTANCE_ANY
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Decoded<Self> {
        let bytes = <[u8; 4]>::try_from(bytes).map_err(|_| DecodeError::Range("the length of an object identifier"))?;
        Ok(Self(u32::from_be_bytes(bytes)))
    }
}

impl fmt::Display for ObjectId {
    /// `analog-input,1`, as the standard's examples write it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.object_type(), self.instance())
    }
}

impl FromStr for ObjectId {
    type Err = UnknownName;

    /// Reads `analog-input,1` and `analog-input:1`; the type may be a number.
    fn from_str(text: &str) -> Result<Self, UnknownName> {
        let unknown = UnknownName { kind: "object" };
        let (object_type, instance) = text.split_once([',', ':']).ok_or(unknown)?;
        let object_type = object_type.parse::<ObjectType>()?;
        let instance = instance.parse().ok().filter(|instance| *instance <= INSTANCE_ANY).ok_or(unknown)?;
        if object_type.0 > 0x3FF { Err(unknown) } else { Ok(Self::new(object_type, instance)) }
    }
}

/// Up to 256 bits, the first first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BitString {
    length: u16,
    bytes: [u8; 32],
}

impl BitString {
    /// Bits at most; the longest of the standard has 64.
    pub const BITS_MAX: usize = 256;

    /// Of these bits; those beyond [`Self::BITS_MAX`] are left out.
    #[must_use]
    pub fn new(bits: &[bool]) -> Self {
        let mut string = Self::default();
        for bit in bits.iter().take(Self::BITS_MAX) {
            string.length += 1;
            string.set(usize::from(string.length) - 1, *bit);
        }
        string
    }

    /// How many bits there are.
    #[must_use]
    pub fn len(&self) -> usize {
        usize::from(self.length)
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.length == 0
    }

    /// One bit; false beyond the end.
    #[must_use]
    pub fn bit(&self, place: usize) -> bool {
        place < self.len() && self.bytes.get(place / 8).is_some_and(|byte| byte & (0x80 >> (place % 8)) != 0)
    }

    /// Sets a bit within the length.
    pub fn set(&mut self, place: usize, bit: bool) {
        let is_inside = place < self.len();
        if let Some(byte) = self.bytes.get_mut(place / 8).filter(|_| is_inside) {
            let mask = 0x80 >> (place % 8);
            *byte = if bit { *byte | mask } else { *byte & !mask };
        }
    }

    /// The bits, the first first.
    pub fn iter(&self) -> impl Iterator<Item = bool> + '_ {
        (0..self.len()).map(|place| self.bit(place))
    }

    /// The unused bits of the last byte, and the bytes.
    pub(crate) fn content(&self) -> (u8, &[u8]) {
        let unused = u8::try_from((8 - self.len() % 8) % 8).unwrap_or(0);
        (unused, self.bytes.get(..self.len().div_ceil(8)).unwrap_or_default())
    }

    pub(crate) fn from_content(content: &[u8]) -> Decoded<Self> {
        let (unused, bytes) = content.split_first().ok_or(DecodeError::Range("the length of a bit string"))?;
        let bits = (bytes.len() * 8).checked_sub(usize::from(*unused)).filter(|_| *unused < 8);
        let bits =
            bits.filter(|bits| *bits <= Self::BITS_MAX).ok_or(DecodeError::Range("the length of a bit string"))?;
        let mut string = Self { length: u16::try_from(bits).unwrap_or(0), bytes: [0; 32] };
        for (to, from) in string.bytes.iter_mut().zip(bytes) {
            *to = *from;
        }
        if let Some(last) = bytes.len().checked_sub(1).and_then(|last| string.bytes.get_mut(last)) {
            *last &= 0xFF << unused;
        }
        Ok(string)
    }
}

/// A field of a date or time that says "any".
pub const ANY: u8 = 0xFF;

/// A date, or a pattern of dates: [`ANY`] leaves a field open, months 13 and 14 are odd and even ones, day 32 the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Date {
    /// Years since 1900.
    pub year: u8,
    /// From 1.
    pub month: u8,
    /// From 1.
    pub day: u8,
    /// Monday is 1.
    pub weekday: u8,
}

/// A time of day, or a pattern: [`ANY`] leaves a field open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time {
    /// 0 to 23.
    pub hour: u8,
    /// 0 to 59.
    pub minute: u8,
    /// 0 to 59.
    pub second: u8,
    /// 0 to 99.
    pub hundredths: u8,
}

impl Date {
    /// All fields open.
    pub const ANY: Self = Self { year: ANY, month: ANY, day: ANY, weekday: ANY };

    pub(crate) const fn bytes(self) -> [u8; 4] {
        [self.year, self.month, self.day, self.weekday]
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Decoded<Self> {
        let [year, month, day, weekday] = *bytes else { return Err(DecodeError::Range("the length of a date")) };
        Ok(Self { year, month, day, weekday })
    }
}

impl fmt::Display for Date {
    /// `2026-11-25`; an open field is `*`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.year {
            ANY => f.write_str("*")?,
            year => write!(f, "{}", 1900 + u16::from(year))?,
        }
        for field in [self.month, self.day] {
            match field {
                ANY => f.write_str("-*")?,
                field => write!(f, "-{field:02}")?,
            }
        }
        Ok(())
    }
}

impl Time {
    /// All fields open.
    pub const ANY: Self = Self { hour: ANY, minute: ANY, second: ANY, hundredths: ANY };

    pub(crate) const fn bytes(self) -> [u8; 4] {
        [self.hour, self.minute, self.second, self.hundredths]
    }

    pub(crate) fn from_bytes(bytes: &[u8]) -> Decoded<Self> {
        let [hour, minute, second, hundredths] = *bytes else { return Err(DecodeError::Range("the length of a time")) };
        Ok(Self { hour, minute, second, hundredths })
    }
}

impl fmt::Display for Time {
    /// `17:03:09.25`; an open field is `*`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (separator, field) in [("", self.hour), (":", self.minute), (":", self.second), (".", self.hundredths)] {
            match field {
                ANY => write!(f, "{separator}*")?,
                field => write!(f, "{separator}{field:02}")?,
            }
        }
        Ok(())
    }
}

/// A date and a time of day, in the local time of a device unless a service says UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DateTime {
    /// The day.
    pub date: Date,
    /// The time of day.
    pub time: Time,
}

/// From 1970-01-01 to 1900-01-01 and to 2154-12-31, the first and the last day that a date has.
const DAYS: (i64, i64) = (-25_567, 67_569);
const MICROS_PER_DAY: i64 = 86_400_000_000;

impl DateTime {
    /// All fields open.
    pub const ANY: Self = Self { date: Date::ANY, time: Time::ANY };

    /// The moment on a clock that is `offset_minutes` ahead of UTC, rounded down to a hundredth of a second; years
    /// before 1900 and after 2154 are held there.
    #[must_use]
    pub fn from_timestamp(at: Timestamp, offset_minutes: i16) -> Self {
        let local = at.micros().saturating_add(i64::from(offset_minutes) * 60_000_000);
        let days = local.div_euclid(MICROS_PER_DAY).clamp(DAYS.0, DAYS.1);
        let (year, month, day, _) = Timestamp::from_micros(days * MICROS_PER_DAY).day();
        let hundredths = local.rem_euclid(MICROS_PER_DAY) / 10_000;
        let field = |number: i64| u8::try_from(number).unwrap_or(ANY);
        Self {
            date: Date {
                year: field(year - 1900),
                month: field(month),
                day: field(day),
                weekday: field((days + 3).rem_euclid(7) + 1),
            },
            time: Time {
                hour: field(hundredths / 360_000),
                minute: field(hundredths / 6000 % 60),
                second: field(hundredths / 100 % 60),
                hundredths: field(hundredths % 100),
            },
        }
    }

    /// The moment of a clock that is `offset_minutes` ahead of UTC; none of a pattern or of what is no date. Open
    /// hundredths are 0.
    #[must_use]
    pub fn timestamp(self, offset_minutes: i16) -> Option<Timestamp> {
        let (date, time) = (self.date, self.time);
        if date.year == ANY || time.hour > 23 || time.minute > 59 || time.second > 59 {
            return None;
        }
        let midnight = Timestamp::of_day(1900 + i64::from(date.year), date.month.into(), date.day.into())?;
        let hundredths = if time.hundredths > 99 { 0 } else { time.hundredths };
        let seconds = i64::from(time.hour) * 3600 + i64::from(time.minute) * 60 + i64::from(time.second);
        let in_day = seconds * 1_000_000 + i64::from(hundredths) * 10_000;
        Some(Timestamp::from_micros(midnight.micros() + in_day - i64::from(offset_minutes) * 60_000_000))
    }
}

impl fmt::Display for DateTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.date, self.time)
    }
}

/// An address on a data link: up to eight bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Mac {
    length: u8,
    bytes: [u8; 8],
}

impl Mac {
    /// Bytes at most; those of the standard's data links have 1 to 7.
    pub const BYTES_MAX: usize = 8;

    /// Of these bytes; none where they are too many.
    #[must_use]
    pub fn new(address: &[u8]) -> Option<Self> {
        let mut bytes = [0; 8];
        bytes.get_mut(..address.len())?.copy_from_slice(address);
        Some(Self { length: u8::try_from(address.len()).ok()?, bytes })
    }

    /// Its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.bytes.get(..usize::from(self.length)).unwrap_or_default()
    }
}

/// A device on another network, behind a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Station {
    /// The number of the network, 1 to 65534.
    pub network: u16,
    /// Its address there.
    pub mac: Mac,
}

/// A device as it is reached: the address of the datagram, and the station where that is a router's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer {
    /// The device's own address, or its router's.
    pub address: SocketAddrV4,
    /// Where it is behind a router.
    pub station: Option<Station>,
}

impl Peer {
    /// A device that has an IP address itself.
    #[must_use]
    pub const fn direct(address: SocketAddrV4) -> Self {
        Self { address, station: None }
    }

    /// A device behind a router.
    #[must_use]
    pub const fn routed(router: SocketAddrV4, station: Station) -> Self {
        Self { address: router, station: Some(station) }
    }
}

impl fmt::Display for Peer {
    /// `10.0.0.5:47808`, or `10.0.0.5:47808/100/0c` with network and address in hex.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        let Some(station) = self.station else { return Ok(()) };
        write!(f, "/{}/", station.network)?;
        station.mac.bytes().iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;

    #[test]
    fn objects_are_read_as_they_are_shown() {
        let object = ObjectId::new(ObjectType::ANALOG_VALUE, 17);
        assert_eq!(object.to_string(), "analog-value,17");
        assert_eq!("analog-value:17".parse(), Ok(object));
        assert_eq!("300,4194303".parse(), Ok(ObjectId::new(ObjectType(300), 4_194_303)));
        assert!("analog-value,4194304".parse::<ObjectId>().is_err());
        assert!("1024,1".parse::<ObjectId>().is_err());
        assert!("analog-value".parse::<ObjectId>().is_err());
    }

    #[test]
    fn dates_are_those_of_the_calendar() {
        let check = |text: &str, weekday: u8| {
            let at: Timestamp = text.parse().unwrap();
            let local = DateTime::from_timestamp(at, 0);
            assert_eq!(local.date.weekday, weekday, "{text}");
            assert_eq!(local.to_string().replace(' ', "T") + "0Z", text);
            assert_eq!(local.timestamp(0), Some(at));
        };
        check("2026-11-25T16:15:26.250Z", 3);
        check("2000-02-29T00:00:00.000Z", 2);
        check("2100-02-28T23:59:59.990Z", 7);
        check("2100-03-01T00:00:00.000Z", 1);
        check("1900-01-01T00:00:00.000Z", 1);
        check("1970-01-01T12:00:00.000Z", 4);
        assert_eq!(DateTime::ANY.timestamp(0), None);
        // No such day.
        let day = Date { year: 126, month: 2, day: 29, weekday: ANY };
        let at = |date| DateTime { date, time: Time { hour: 0, minute: 0, second: 0, hundredths: 0 } }.timestamp(0);
        assert_eq!((at(day), at(Date { year: 124, ..day }).is_some()), (None, true));
        // Held in the years of the format.
        assert_eq!(DateTime::from_timestamp(Timestamp::from_micros(i64::MAX), 0).date.year, 254);
    }

    proptest! {
        #[test]
        fn moments_round_trip(hundredths in 0_i64..567_000_000_000, offset in -840_i16..840) {
            let at = Timestamp::from_micros(hundredths * 10_000);
            prop_assert_eq!(DateTime::from_timestamp(at, offset).timestamp(offset), Some(at));
        }

        #[test]
        fn bit_strings_round_trip(bits in prop::collection::vec(any::<bool>(), 0..256)) {
            let string = BitString::new(&bits);
            let (unused, bytes) = string.content();
            let content: std::vec::Vec<u8> = core::iter::once(unused).chain(bytes.iter().copied()).collect();
            prop_assert_eq!(BitString::from_content(&content), Ok(string));
            prop_assert_eq!(string.iter().collect::<std::vec::Vec<_>>(), bits);
        }
    }
}
