//! Fields in and out: a reader over one packet's body, and a sink that either keeps bytes or only counts them.

use crate::text::check_text;
use crate::{Binary, DecodeError, PacketId, Text};
use alloc::vec::Vec;
use bytes::Bytes;
use tieline_core::Cursor;

/// The largest variable byte integer (section 1.5.5).
pub(crate) const VARIABLE_MAX: u32 = 268_435_455;

/// Reads fields of a packet's body; texts and binary data share the body's memory.
pub(crate) struct Reader<'a> {
    body: &'a Bytes,
    cursor: Cursor<'a>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(body: &'a Bytes) -> Self {
        Self::within(body, body)
    }

    /// Reads a part of a body.
    pub(crate) fn within(body: &'a Bytes, part: &'a [u8]) -> Self {
        Self { body, cursor: Cursor::new(part) }
    }

    /// Bytes that were not read.
    pub(crate) fn left(&self) -> usize {
        self.cursor.left()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.cursor.is_empty()
    }

    pub(crate) fn u8(&mut self) -> Result<u8, DecodeError> {
        Ok(self.cursor.u8()?)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, DecodeError> {
        Ok(self.cursor.u16_be()?)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, DecodeError> {
        Ok(self.cursor.u32_be()?)
    }

    pub(crate) fn packet_id(&mut self) -> Result<PacketId, DecodeError> {
        PacketId::new(self.u16()?).ok_or(DecodeError::PacketIdZero)
    }

    pub(crate) fn variable(&mut self) -> Result<u32, DecodeError> {
        let mut value = Variable::default();
        loop {
            if let Some(whole) = value.push(self.u8()?)? {
                return Ok(whole);
            }
        }
    }

    pub(crate) fn take(&mut self, count: usize) -> Result<Bytes, DecodeError> {
        let bytes = self.cursor.take(count)?;
        Ok(self.share(bytes))
    }

    /// What was read, sharing the body's memory.
    pub(crate) fn share(&self, bytes: &'a [u8]) -> Bytes {
        // `slice_ref` panics on a slice of other memory; the cursor walks this very body.
        self.body.slice_ref(bytes)
    }

    /// The bytes of a field with its length in front.
    pub(crate) fn field(&mut self) -> Result<&'a [u8], DecodeError> {
        let count = usize::from(self.u16()?);
        Ok(self.cursor.take(count)?)
    }

    /// The bytes of a text that was checked.
    pub(crate) fn checked_text(&mut self) -> Result<&'a [u8], DecodeError> {
        let bytes = self.field()?;
        check_text(bytes)?;
        Ok(bytes)
    }

    pub(crate) fn binary(&mut self) -> Result<Binary, DecodeError> {
        let count = usize::from(self.u16()?);
        Ok(Binary::new(self.take(count)?)?)
    }

    pub(crate) fn text(&mut self) -> Result<Text, DecodeError> {
        let count = usize::from(self.u16()?);
        Ok(Text::from_bytes(self.take(count)?)?)
    }

    pub(crate) fn rest(&mut self) -> Result<Bytes, DecodeError> {
        self.take(self.cursor.left())
    }

    pub(crate) fn finish(self) -> Result<(), DecodeError> {
        if self.cursor.is_empty() { Ok(()) } else { Err(DecodeError::Trailing) }
    }
}

/// A variable byte integer that arrives byte by byte.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Variable {
    value: u32,
    bytes: u8,
}

impl Variable {
    /// Takes one byte; the value when it was the last.
    pub(crate) fn push(&mut self, byte: u8) -> Result<Option<u32>, DecodeError> {
        self.value |= u32::from(byte & 0x7F) << (7 * u32::from(self.bytes));
        self.bytes += 1;
        if byte & 0x80 != 0 {
            return if self.bytes == 4 { Err(DecodeError::VariableByteInteger) } else { Ok(None) };
        }
        // [MQTT-1.5.5-1]: the fewest bytes that hold the value.
        if byte == 0 && self.bytes > 1 {
            return Err(DecodeError::VariableByteInteger);
        }
        Ok(Some(self.value))
    }

    /// Bytes taken so far.
    pub(crate) fn bytes(self) -> u8 {
        self.bytes
    }
}

/// Where encoded bytes go.
pub(crate) trait Sink {
    fn put(&mut self, bytes: &[u8]);

    fn u8(&mut self, value: u8) {
        self.put(&[value]);
    }

    fn u16(&mut self, value: u16) {
        self.put(&value.to_be_bytes());
    }

    fn u32(&mut self, value: u32) {
        self.put(&value.to_be_bytes());
    }

    fn variable(&mut self, value: u32) {
        let mut rest = value.min(VARIABLE_MAX);
        loop {
            let [low, ..] = rest.to_le_bytes();
            rest >>= 7;
            if rest == 0 {
                return self.u8(low & 0x7F);
            }
            self.u8(low | 0x80);
        }
    }

    /// A field with its length in front. Callers hold [`Text`], [`Binary`] or a topic, which are never longer than
    /// 65,535 bytes.
    fn field(&mut self, bytes: &[u8]) {
        self.u16(u16::try_from(bytes.len()).unwrap_or(u16::MAX));
        self.put(bytes.get(..usize::from(u16::MAX)).unwrap_or(bytes));
    }
}

impl Sink for Vec<u8> {
    fn put(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Counts what would be written.
#[derive(Default)]
pub(crate) struct Count(pub(crate) usize);

impl Sink for Count {
    fn put(&mut self, bytes: &[u8]) {
        self.0 += bytes.len();
    }
}

/// Whether a text is one that a message may be published to, as far as wildcards go ([MQTT-3.3.2-2], [MQTT-4.7.3-1]).
pub(crate) fn is_topic_name(bytes: &[u8]) -> bool {
    !bytes.is_empty() && !bytes.contains(&b'+') && !bytes.contains(&b'#')
}

/// Bytes of a variable byte integer.
pub(crate) const fn variable_len(value: usize) -> usize {
    match value {
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        _ => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(bytes: &[u8], expect: Result<u32, DecodeError>) {
        let body = Bytes::copy_from_slice(bytes);
        assert_eq!(Reader::new(&body).variable(), expect, "{bytes:02x?}");
        if let Ok(value) = expect {
            let mut out = Vec::new();
            out.variable(value);
            assert_eq!(out, bytes);
            assert_eq!(variable_len(usize::try_from(value).unwrap()), bytes.len());
        }
    }

    #[test]
    fn variable_byte_integers_mqtt_1_5_5() {
        check(&[0x00], Ok(0));
        check(&[0x7F], Ok(127));
        check(&[0x80, 0x01], Ok(128));
        check(&[0xFF, 0x7F], Ok(16_383));
        check(&[0x80, 0x80, 0x01], Ok(16_384));
        check(&[0xFF, 0xFF, 0x7F], Ok(2_097_151));
        check(&[0x80, 0x80, 0x80, 0x01], Ok(2_097_152));
        check(&[0xFF, 0xFF, 0xFF, 0x7F], Ok(VARIABLE_MAX));
        check(&[0xFF, 0xFF, 0xFF, 0xFF], Err(DecodeError::VariableByteInteger));
        check(&[0x80, 0x00], Err(DecodeError::VariableByteInteger));
        check(&[0x81, 0x80, 0x00], Err(DecodeError::VariableByteInteger));
        check(&[0x80], Err(DecodeError::Truncated));
    }
}
