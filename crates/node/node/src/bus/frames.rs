//! The frames of one update: made once for each version of the protocol, in room that the next update has again.

use bytes::Bytes;
use tieline_mqtt::{Message, Version, append_publish};
use tieline_net::{FrameNumber, SharedFrame};

/// Room of frames that is kept: one for each version.
const ROOMS_MAX: usize = 2;
/// Room that is larger is not kept.
const ROOM_BYTES: usize = 64 * 1024;

/// Room for frames.
#[derive(Debug, Default)]
pub struct FrameRoom(Vec<Vec<u8>>);

/// The frames of one update.
#[derive(Debug, Default)]
pub(super) struct Frames([Option<Frame>; 2]);

/// A frame.
#[derive(Debug)]
pub(super) struct Frame {
    bytes: FrameBytes,
    number: FrameNumber,
}

/// The bytes of a frame: its own while they are only copied, shared once they wait somewhere.
#[derive(Debug)]
pub(super) enum FrameBytes {
    Own(Vec<u8>),
    Shared(Bytes),
}

impl Frames {
    /// The frame of a version; none where the message has expired, or is longer than MQTT can say.
    pub(super) fn of(&mut self, version: Version, message: &Message, room: &mut FrameRoom) -> Option<&mut Frame> {
        let slot = self.0.get_mut(usize::from(version == Version::V5))?;
        if slot.is_none() {
            let mut bytes = room.0.pop().unwrap_or_default();
            if append_publish(version, message, false, message.received, &mut bytes) {
                *slot = Some(Frame { bytes: FrameBytes::Own(bytes), number: FrameNumber::next() });
            }
        }
        slot.as_mut()
    }

    /// Gives the room back.
    pub(super) fn give_back(&mut self, room: &mut FrameRoom) {
        for frame in self.0.iter_mut().filter_map(Option::take) {
            if let FrameBytes::Own(mut bytes) = frame.bytes
                && bytes.capacity() <= ROOM_BYTES
                && room.0.len() < ROOMS_MAX
            {
                bytes.clear();
                room.0.push(bytes);
            }
        }
    }
}

impl Frame {
    /// The frame for connections that are given it past their sessions.
    pub(super) fn shared(&self) -> SharedFrame<'_> {
        SharedFrame::new(self.bytes.as_slice(), self.number)
    }

    /// Its bytes.
    pub(super) const fn bytes_mut(&mut self) -> &mut FrameBytes {
        &mut self.bytes
    }
}

impl FrameBytes {
    /// The bytes, to be copied.
    pub(super) fn as_slice(&self) -> &[u8] {
        match self {
            Self::Own(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }

    /// The bytes, to be kept.
    pub(super) fn share(&mut self) -> Bytes {
        if let Self::Own(bytes) = self {
            *self = Self::Shared(std::mem::take(bytes).into());
        }
        match self {
            Self::Shared(bytes) => bytes.clone(),
            Self::Own(_) => Bytes::new(),
        }
    }
}
