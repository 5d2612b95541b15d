//! One record of a trace, in memory and on the disk alike.
//!
//! ```text
//! payload bytes 4   kind 1   connection 1   monotonic time 8 (ns)   wall clock 8 (µs since 1970)   payload
//! ```
//!
//! Numbers have their low byte first. The payload of bytes that moved are the bytes; that of a note is the number of its device (4
//! bytes, all ones for all devices of the connection) and a text in UTF-8.

use tieline_core::{Cursor, DeviceId, Now, Timestamp};

/// Bytes before the payload.
pub const HEADER_BYTES: usize = 22;
/// The note is of all devices of the connection.
const ALL: u32 = u32::MAX;

/// What a record is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Kind {
    /// Bytes of the peer.
    Received,
    /// Bytes to the peer.
    Sent,
    /// A connection begins; with whom.
    Connected,
    /// The connection has ended, or could not be made; why.
    Closed,
    /// The state of the device is another one.
    State,
    /// Something failed: a poll, a command.
    Failed,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 6] = [Self::Received, Self::Sent, Self::Connected, Self::Closed, Self::State, Self::Failed];

    const fn code(self) -> u8 {
        match self {
            Self::Received => 0,
            Self::Sent => 1,
            Self::Connected => 2,
            Self::Closed => 3,
            Self::State => 4,
            Self::Failed => 5,
        }
    }

    fn of_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Whether the payload are bytes that moved.
    #[must_use]
    pub const fn is_bytes(self) -> bool {
        matches!(self, Self::Received | Self::Sent)
    }

    /// The word in the API.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Sent => "sent",
            Self::Connected => "connected",
            Self::Closed => "closed",
            Self::State => "state",
            Self::Failed => "failed",
        }
    }
}

/// One record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// What it is.
    pub kind: Kind,
    /// On which connection of the device: 0, or 1 for what is urgent, or from 1 on those that stand by. The protocol's decoder
    /// knows which ([`Decoder::connection_name`](super::Decoder::connection_name)).
    pub connection: u8,
    /// When, in nanoseconds of the clock that deadlines are measured on.
    pub mono: u64,
    /// When.
    pub at: Timestamp,
    /// See the head of this file.
    pub payload: &'a [u8],
}

impl<'a> Record<'a> {
    /// Reads one record from the front of `bytes`; none where there is no whole one. The second part is what follows.
    #[must_use]
    pub fn read(bytes: &'a [u8]) -> Option<(Self, &'a [u8])> {
        let mut cursor = Cursor::new(bytes);
        let length = usize::try_from(cursor.u32_le().ok()?).ok()?;
        let (kind, connection) = (Kind::of_code(cursor.u8().ok()?)?, cursor.u8().ok()?);
        let (mono, micros) = (cursor.u64_le().ok()?, cursor.u64_le().ok()?);
        let at = Timestamp::from_micros(micros.cast_signed());
        let payload = cursor.take(length).ok()?;
        Some((Self { kind, connection, mono, at, payload }, cursor.rest()))
    }

    /// What a note says, and of which device; none of bytes.
    #[must_use]
    pub fn note(&self) -> Option<(Option<DeviceId>, String)> {
        let (device, text) = self.payload.split_first_chunk::<4>().filter(|_| !self.kind.is_bytes())?;
        let device = Some(u32::from_le_bytes(*device)).filter(|device| *device != ALL).map(DeviceId);
        Some((device, String::from_utf8_lossy(text).into_owned()))
    }
}

/// The header of a record.
#[must_use]
pub fn header(kind: Kind, connection: u8, now: Now, payload_bytes: u32) -> [u8; HEADER_BYTES] {
    let mut header = [0; HEADER_BYTES];
    let fields = [
        &payload_bytes.to_le_bytes()[..],
        &[kind.code(), connection],
        &now.mono.0.to_le_bytes(),
        &now.utc.micros().to_le_bytes(),
    ];
    let mut rest = header.as_mut_slice();
    for field in fields {
        let Some((place, after)) = rest.split_at_mut_checked(field.len()) else { break };
        place.copy_from_slice(field);
        rest = after;
    }
    header
}

/// The payload of a note.
#[must_use]
pub fn note(device: Option<DeviceId>, text: &str) -> Vec<u8> {
    let mut payload = device.map_or(ALL, |device| device.0).to_le_bytes().to_vec();
    payload.extend_from_slice(text.as_bytes());
    payload
}

/// The records in some bytes, as far as they are whole.
#[derive(Clone, Copy, Debug)]
pub struct Records<'a>(pub &'a [u8]);

impl<'a> Iterator for Records<'a> {
    type Item = Record<'a>;

    fn next(&mut self) -> Option<Record<'a>> {
        let (record, rest) = Record::read(self.0)?;
        self.0 = rest;
        Some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use tieline_core::Instant;

    proptest! {
        #[test]
        fn a_record_is_read_as_it_was_written(
            code in 0..6_u8, connection: u8, mono: u64, micros: i64, payload: Vec<u8>, more: Vec<u8>, cut in 1..40_usize,
        ) {
            let kind = Kind::of_code(code).unwrap();
            let now = Now { mono: Instant(mono), utc: Timestamp::from_micros(micros) };
            let head = header(kind, connection, now, u32::try_from(payload.len()).unwrap());
            let bytes = [&head[..], &payload, &more].concat();
            let (record, rest) = Record::read(&bytes).unwrap();
            prop_assert_eq!(record, Record { kind, connection, mono, at: now.utc, payload: &payload });
            prop_assert_eq!(rest, more.as_slice());
            let whole = head.len() + payload.len();
            prop_assert_eq!(Record::read(&bytes[..whole.saturating_sub(cut)]), None);
        }

        #[test]
        fn any_bytes_are_survived(bytes: Vec<u8>) {
            let read: usize = Records(&bytes).map(|record| HEADER_BYTES + record.payload.len()).sum();
            prop_assert!(read <= bytes.len());
            Records(&bytes).for_each(|record| drop(record.note()));
        }
    }

    #[test]
    fn notes_are_of_one_device_or_of_all() {
        for device in [None, Some(DeviceId(7))] {
            let payload = note(device, "no answer");
            let record =
                Record { kind: Kind::Failed, connection: 0, mono: 0, at: Timestamp::default(), payload: &payload };
            assert_eq!(record.note(), Some((device, "no answer".to_owned())));
            assert_eq!(Record { kind: Kind::Sent, ..record }.note(), None);
        }
    }
}
