//! SUBSCRIBE, SUBACK, UNSUBSCRIBE and UNSUBACK (MQTT 5.0 sections 3.8 to 3.11).

use super::connect::{read_properties, write_properties};
use super::{PacketId, Properties, Qos, Version, place, read_reason};
use crate::cursor::{Reader, Sink};
use crate::{DecodeError, ReasonCode, Text};
use alloc::vec::Vec;

/// The most filters that one SUBSCRIBE or UNSUBSCRIBE may hold: each costs more memory than it has bytes.
pub const FILTERS_MAX: usize = 4096;

/// When retained messages are sent to a new subscription (section 3.8.3.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum RetainHandling {
    /// On every SUBSCRIBE.
    #[default]
    Always,
    /// Only where the subscription did not exist.
    IfNew,
    /// Never.
    Never,
}

/// How a client wants the messages of a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct SubscriptionOptions {
    /// The highest QoS.
    pub qos: Qos,
    /// Leave out what the client itself published.
    pub no_local: bool,
    /// Keep the RETAIN flag as it was published.
    pub retain_as_published: bool,
    /// Retained messages at the start.
    pub retain_handling: RetainHandling,
}

impl SubscriptionOptions {
    /// From the byte of MQTT 5.0.
    ///
    /// # Errors
    /// It is none.
    pub fn from_bits(byte: u8) -> Result<Self, DecodeError> {
        Self::read(Version::V5, byte)
    }

    /// The byte of MQTT 5.0.
    #[must_use]
    pub const fn bits(self) -> u8 {
        self.byte(Version::V5)
    }

    fn read(version: Version, byte: u8) -> Result<Self, DecodeError> {
        let reserved = match version {
            Version::V311 => 0xFC,
            Version::V5 => 0xC0,
        };
        if byte & reserved != 0 {
            return Err(DecodeError::SubscriptionOptions);
        }
        let retain_handling = match byte >> 4 & 3 {
            0 => RetainHandling::Always,
            1 => RetainHandling::IfNew,
            2 => RetainHandling::Never,
            _ => return Err(DecodeError::RetainHandling),
        };
        let qos = Qos::from_bits(byte & 3).ok_or(DecodeError::Qos)?;
        Ok(Self { qos, no_local: byte & 4 != 0, retain_as_published: byte & 8 != 0, retain_handling })
    }

    const fn byte(self, version: Version) -> u8 {
        let qos = self.qos.bits();
        match version {
            Version::V311 => qos,
            Version::V5 => {
                let handling = match self.retain_handling {
                    RetainHandling::Always => 0,
                    RetainHandling::IfNew => 0x10,
                    RetainHandling::Never => 0x20,
                };
                let no_local = if self.no_local { 4 } else { 0 };
                let as_published = if self.retain_as_published { 8 } else { 0 };
                qos | handling | no_local | as_published
            }
        }
    }
}

/// One filter of a SUBSCRIBE, as it came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionFilter {
    /// The filter's text.
    pub filter: Text,
    /// How the messages are wanted.
    pub options: SubscriptionOptions,
}

/// A client asks for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscribe {
    /// What SUBACK names.
    pub packet_id: PacketId,
    /// Properties; empty in 3.1.1.
    pub properties: Properties,
    /// At least one.
    pub filters: Vec<SubscriptionFilter>,
}

impl Subscribe {
    pub(super) fn read(version: Version, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let packet_id = reader.packet_id()?;
        let properties = read_properties(version, place::SUBSCRIBE, reader)?;
        let mut filters = Vec::new();
        while !reader.is_empty() {
            check_count(filters.len())?;
            let filter = reader.text()?;
            filters.push(SubscriptionFilter { filter, options: SubscriptionOptions::read(version, reader.u8()?)? });
        }
        if filters.is_empty() {
            return Err(DecodeError::Empty);
        }
        Ok(Self { packet_id, properties, filters })
    }

    pub(super) fn write(&self, version: Version, out: &mut impl Sink) {
        out.u16(self.packet_id.get());
        write_properties(version, &self.properties, out);
        for SubscriptionFilter { filter, options } in &self.filters {
            out.field(filter.as_bytes());
            out.u8(options.byte(version));
        }
    }
}

/// The server answers a SUBSCRIBE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Suback {
    /// Which SUBSCRIBE.
    pub packet_id: PacketId,
    /// Properties; empty in 3.1.1.
    pub properties: Properties,
    /// One a filter, in their order: the QoS granted, or why not.
    pub reasons: Vec<ReasonCode>,
}

impl Suback {
    pub(super) fn read(version: Version, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let packet_id = reader.packet_id()?;
        let properties = read_properties(version, place::SUBACK, reader)?;
        let reasons = read_reasons(version, place::SUBACK, reader)?;
        Ok(Self { packet_id, properties, reasons })
    }

    pub(super) fn write(&self, version: Version, out: &mut impl Sink) {
        out.u16(self.packet_id.get());
        write_properties(version, &self.properties, out);
        for reason in &self.reasons {
            // 3.1.1 knows one failure, which is also 5.0's unspecified error.
            let plain = version == Version::V311 && reason.is_error();
            out.u8(if plain { ReasonCode::UnspecifiedError.code() } else { reason.code() });
        }
    }
}

/// A client asks for no more messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsubscribe {
    /// What UNSUBACK names.
    pub packet_id: PacketId,
    /// Properties; empty in 3.1.1.
    pub properties: Properties,
    /// At least one.
    pub filters: Vec<Text>,
}

impl Unsubscribe {
    pub(super) fn read(version: Version, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let packet_id = reader.packet_id()?;
        let properties = read_properties(version, place::UNSUBSCRIBE, reader)?;
        let mut filters = Vec::new();
        while !reader.is_empty() {
            check_count(filters.len())?;
            filters.push(reader.text()?);
        }
        if filters.is_empty() {
            return Err(DecodeError::Empty);
        }
        Ok(Self { packet_id, properties, filters })
    }

    pub(super) fn write(&self, version: Version, out: &mut impl Sink) {
        out.u16(self.packet_id.get());
        write_properties(version, &self.properties, out);
        self.filters.iter().for_each(|filter| out.field(filter.as_bytes()));
    }
}

/// The server answers an UNSUBSCRIBE.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsuback {
    /// Which UNSUBSCRIBE.
    pub packet_id: PacketId,
    /// Properties; empty in 3.1.1.
    pub properties: Properties,
    /// One a filter, in their order; none in 3.1.1.
    pub reasons: Vec<ReasonCode>,
}

impl Unsuback {
    pub(super) fn read(version: Version, reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let packet_id = reader.packet_id()?;
        let properties = read_properties(version, place::UNSUBACK, reader)?;
        let reasons = match version {
            Version::V311 => Vec::new(),
            Version::V5 => read_reasons(version, place::UNSUBACK, reader)?,
        };
        Ok(Self { packet_id, properties, reasons })
    }

    pub(super) fn write(&self, version: Version, out: &mut impl Sink) {
        out.u16(self.packet_id.get());
        write_properties(version, &self.properties, out);
        if version == Version::V5 {
            self.reasons.iter().for_each(|reason| out.u8(reason.code()));
        }
    }
}

const fn check_count(held: usize) -> Result<(), DecodeError> {
    if held < FILTERS_MAX { Ok(()) } else { Err(DecodeError::TooManyFilters) }
}

fn read_reasons(version: Version, place: u16, reader: &mut Reader<'_>) -> Result<Vec<ReasonCode>, DecodeError> {
    let mut reasons = Vec::new();
    while !reader.is_empty() {
        let reason = read_reason(place, reader.u8()?)?;
        if version == Version::V311 && reason.is_error() && reason != ReasonCode::UnspecifiedError {
            return Err(DecodeError::Reason(reason.code()));
        }
        reasons.push(reason);
    }
    if reasons.is_empty() { Err(DecodeError::Empty) } else { Ok(reasons) }
}
