//! The receiver's side of a topic.

use crate::{CodecId, Codecs, DeltaError, Kind, Low, Parts, PointState, items};
use alloc::vec::Vec;
use bytes::Bytes;
use tieline_core::{Body, Cursor};

/// The receiver's side of one topic: the value that the next delta is told against.
///
/// It belongs to one connection: a receiver that connects again starts with nothing.
#[derive(Clone, Debug)]
pub struct Decoder {
    held: Held,
    revision: Low,
    waiting: bool,
    value_bytes_max: usize,
}

#[derive(Clone, Debug)]
enum Held {
    Nothing,
    Bytes(Bytes),
    Point(PointState),
}

/// What a payload was.
#[derive(Clone, Debug, PartialEq)]
pub enum Decoded {
    /// The topic's next value.
    Value(Body),
    /// The sender says that the value held is the present one. It is no event of the topic.
    Checked,
    /// A delta that starts from a value which was lost: dropped, as the error before it said.
    Waiting,
}

impl Decoder {
    /// A receiver that takes values of up to so many bytes.
    #[must_use]
    pub const fn new(value_bytes_max: usize) -> Self {
        Self { held: Held::Nothing, revision: Low::new(0), waiting: false, value_bytes_max }
    }

    /// The value held, as far as it is known to be the sender's.
    #[must_use]
    pub fn value(&self) -> Option<Body> {
        if self.waiting { None } else { self.held.body() }
    }

    /// The bytes held, where the value is bytes.
    pub(crate) const fn bytes(&self) -> Option<&Bytes> {
        match &self.held {
            Held::Bytes(bytes) => Some(bytes),
            Held::Nothing | Held::Point(_) => None,
        }
    }

    /// Whether a whole value must come before anything else is understood.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        self.waiting
    }

    /// The revision held.
    #[must_use]
    pub const fn revision(&self) -> Low {
        self.revision
    }

    /// Takes a payload.
    ///
    /// # Errors
    /// It cannot be applied. The owner asks for the whole value, once; until it comes deltas are
    /// [`Decoded::Waiting`].
    pub fn apply(&mut self, payload: &Bytes, codecs: &mut Codecs) -> Result<Decoded, DeltaError> {
        if payload.is_empty() {
            // The topic was cleared.
            (self.held, self.waiting) = (Held::Nothing, false);
            return Ok(Decoded::Value(Body::Opaque(Bytes::new())));
        }
        let decoded = self.try_apply(payload, codecs);
        self.waiting |= decoded.is_err();
        decoded
    }

    fn try_apply(&mut self, payload: &Bytes, codecs: &mut Codecs) -> Result<Decoded, DeltaError> {
        let parts = match Parts::parse(payload) {
            Err(_) if self.waiting => return Ok(Decoded::Waiting),
            parts => parts?,
        };
        let next = match parts.header.kind {
            Kind::Bytes if parts.rest.len() > self.value_bytes_max => {
                return Err(DeltaError::TooLong { bytes_max: self.value_bytes_max });
            }
            Kind::Bytes => Held::Bytes(payload.slice_ref(parts.rest)),
            Kind::Point => Held::Point(PointState::parse(parts.rest, self.value_bytes_max)?),
            Kind::Same | Kind::Delta(_) | Kind::Several if self.waiting => return Ok(Decoded::Waiting),
            Kind::Same | Kind::Delta(_) | Kind::Several => self.next(&parts, codecs)?,
        };
        if parts.crc.is_some_and(|crc| next.crc() != crc) {
            return Err(DeltaError::Mismatch);
        }
        let is_event = parts.count > 0 || parts.header.kind != Kind::Several;
        (self.held, self.revision, self.waiting) = (next, parts.result(), false);
        Ok(if is_event { self.held.body().map_or(Decoded::Checked, Decoded::Value) } else { Decoded::Checked })
    }

    /// The value that a delta makes of the value held.
    fn next(&self, parts: &Parts<'_>, codecs: &mut Codecs) -> Result<Held, DeltaError> {
        if matches!(self.held, Held::Nothing) {
            return Err(DeltaError::NoBase);
        }
        let base = parts.header.revision;
        if base != self.revision {
            return Err(DeltaError::Gap { have: self.revision, base });
        }
        match parts.header.kind {
            Kind::Delta(codec) => self.held.apply(codec, parts.rest, self.value_bytes_max, codecs),
            Kind::Several => {
                let mut held = self.held.clone();
                for (at, item) in items(parts.rest).enumerate() {
                    let (codec, delta) = item?;
                    if at >= usize::from(parts.count) {
                        return Err(DeltaError::Malformed("more deltas than updates"));
                    }
                    held = held.apply(codec, delta, self.value_bytes_max, codecs)?;
                }
                Ok(held)
            }
            Kind::Same | Kind::Bytes | Kind::Point => {
                if Cursor::new(parts.rest).is_empty() {
                    Ok(self.held.clone())
                } else {
                    Err(DeltaError::Malformed("bytes after a repeated value"))
                }
            }
        }
    }
}

impl Held {
    fn apply(
        &self,
        codec: CodecId,
        delta: &[u8],
        value_bytes_max: usize,
        codecs: &mut Codecs,
    ) -> Result<Self, DeltaError> {
        match self {
            Self::Nothing => Err(DeltaError::NoBase),
            Self::Point(state) if codec == CodecId::POINT => state.apply(delta, value_bytes_max).map(Self::Point),
            Self::Bytes(base) if codec != CodecId::POINT => {
                let known = codecs.by_id(codec).ok_or(DeltaError::UnknownCodec(codec))?;
                let mut value = Vec::new();
                known.apply(base, delta, value_bytes_max, &mut value)?;
                Ok(Self::Bytes(value.into()))
            }
            Self::Point(_) | Self::Bytes(_) => Err(DeltaError::WrongForm),
        }
    }

    fn crc(&self) -> u32 {
        match self {
            Self::Nothing => 0,
            Self::Bytes(value) => crc32fast::hash(value),
            Self::Point(state) => state.crc(),
        }
    }

    fn body(&self) -> Option<Body> {
        match self {
            Self::Nothing => None,
            Self::Bytes(value) => Some(Body::Opaque(value.clone())),
            Self::Point(state) => Some(Body::Point(state.to_point())),
        }
    }
}
