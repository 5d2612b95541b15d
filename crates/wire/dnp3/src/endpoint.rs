//! What an outstation and a master both stand on: link frames in, fragments out, and the link layer's own service.
//!
//! ```text
//! handle_input ─ link::Decoder ─┬─ user data ─ transport::Reassembler ─ fragment()
//!                               └─ reset, test, status ─ reply ─ poll_transmit
//! ```
//!
//! An endpoint serves one session with one peer at a time. Idle, it holds no heap. Lean messages in the place of link
//! frames are in `endpoint/lean.rs`.

mod broadcast;
mod extras;
mod lean;
mod lean_out;
mod primary;
mod short;

pub use extras::{Boundary, LeanCounters, Trace};
pub use primary::{LinkService, PrimaryCounters};

use crate::link::{
    AddressKind, Broadcast, Control, Decoder, Frame, Function, HEADER_BYTES, Header, LinkAddress, LinkCounters,
    frame_bytes,
};
use crate::transport::{FRAGMENT_BYTES_DEFAULT, Reassembler, SEGMENT_BYTES_MAX, SegmentHeader, TransportCounters};
use alloc::boxed::Box;
use alloc::vec::Vec;
use broadcast::BroadcastFrame;
use extras::Extras;
use primary::Primary;

/// Replies that wait for `poll_transmit`; one more is dropped and counted: the peer asks again.
const REPLIES_MAX: usize = 4;

/// Which side of the association this station is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Sends requests; DIR is set in its frames.
    Master,
    /// Sends responses.
    Outstation,
}

/// Who an endpoint is and whom it hears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndpointConfig {
    /// This side of the association.
    pub role: Role,
    /// This station's address.
    pub local: LinkAddress,
    /// The only peer that is heard; None hears all.
    pub remote: Option<LinkAddress>,
    /// Whether frames to FFFC are taken as ours (IEEE 1815 9.2.4.1.4; only an outstation should).
    pub self_address: bool,
    /// Bytes of a received fragment at most.
    pub fragment_max: u16,
}

impl EndpointConfig {
    /// A station that hears every peer, takes 2048 bytes a fragment and leaves the self-address off.
    #[must_use]
    pub const fn new(role: Role, local: LinkAddress) -> Self {
        Self { role, local, remote: None, self_address: false, fragment_max: FRAGMENT_BYTES_DEFAULT }
    }
}

/// What arrived for the machine above.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// A fragment: see [`Endpoint::fragment`].
    Fragment {
        /// Who sent it.
        source: LinkAddress,
        /// Set when it went to every outstation: it must not be answered.
        broadcast: Option<Broadcast>,
    },
    /// The answer to [`Endpoint::request_link_status`].
    LinkStatus {
        /// Who sent it.
        source: LinkAddress,
    },
}

/// What an endpoint has seen, in events since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounters {
    /// Of the decoder.
    pub link: LinkCounters,
    /// Of the reassembler.
    pub transport: TransportCounters,
    /// Of the link layer's service.
    pub service: ServiceCounters,
    /// Of lean messages.
    pub lean: LeanCounters,
}

/// Frames that were whole and yet not taken, and replies that were not sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServiceCounters {
    /// Frames to other stations.
    pub not_ours: u64,
    /// Frames from peers that are not heard, or from an address that no station may have.
    pub unknown_source: u64,
    /// Frames whose DIR says that our own side sent them.
    pub wrong_direction: u64,
    /// Frames with a reserved function, or with FCV or user data that does not fit the function.
    pub malformed: u64,
    /// Confirmed frames that repeat the last frame count: acknowledged again, not taken again. Also broadcasts that repeat
    /// the frame before: not taken again.
    pub repeated: u64,
    /// Replies dropped because too many waited.
    pub replies_dropped: u64,
}

/// Turns bytes into fragments and back, for one session.
#[derive(Clone, Debug)]
pub struct Endpoint {
    config: EndpointConfig,
    decoder: Decoder,
    reassembler: Reassembler,
    /// Who reset the link, and the FCB expected next.
    reset_by: Option<(LinkAddress, bool)>,
    /// The frame before, where it was a broadcast as confirmed user data.
    broadcast: BroadcastFrame,
    sequence: u8,
    replies: [Option<(Control, LinkAddress)>; REPLIES_MAX],
    service: ServiceCounters,
    /// Lean messages and a trace; none where both are off.
    extras: Option<Box<Extras>>,
    /// Confirmed user data and keep-alive; none where both are off.
    primary: Option<Box<Primary>>,
}

impl Endpoint {
    /// An endpoint of a session that has not begun.
    #[must_use]
    pub fn new(config: EndpointConfig) -> Self {
        Self {
            config,
            decoder: Decoder::new(),
            reassembler: Reassembler::new(config.fragment_max),
            reset_by: None,
            broadcast: BroadcastFrame::NONE,
            sequence: 0,
            replies: [None; REPLIES_MAX],
            service: ServiceCounters::default(),
            extras: None,
            primary: None,
        }
    }

    /// Who it is and whom it hears.
    #[must_use]
    pub const fn config(&self) -> &EndpointConfig {
        &self.config
    }

    /// Hears one peer, or all.
    pub const fn hear_only(&mut self, remote: Option<LinkAddress>) {
        self.config.remote = remote;
    }

    /// What was seen so far; survives [`Endpoint::reset`].
    #[must_use]
    pub fn counters(&self) -> EndpointCounters {
        EndpointCounters {
            link: self.decoder.counters(),
            transport: self.reassembler.counters(),
            service: self.service,
            lean: self.extras.as_ref().map(|extras| extras.counters()).unwrap_or_default(),
        }
    }

    /// Forgets everything of a connection that is gone: partial frames, fragments, replies, the frame count.
    pub fn reset(&mut self) {
        self.decoder.reset();
        self.reassembler.release();
        self.reset_by = None;
        self.broadcast = BroadcastFrame::NONE;
        self.replies = [None; REPLIES_MAX];
        if let Some(extras) = &mut self.extras {
            extras.reset();
        }
        if let Some(primary) = &mut self.primary {
            primary.reset(None);
        }
    }

    /// Whether a frame or a fragment has begun and is not complete: what a machine gives up after a time without input.
    #[must_use]
    pub fn is_partial(&self) -> bool {
        self.decoder.is_partial()
            || self.reassembler.is_partial()
            || self.extras.as_ref().is_some_and(|extras| extras.is_partial())
    }

    /// Drops a frame and a fragment that have begun and are not complete, and their heap.
    pub fn drop_partial(&mut self) {
        self.decoder.reset();
        if self.reassembler.is_partial() {
            self.reassembler.release();
        }
        if let Some(extras) = &mut self.extras {
            extras.drop_partial();
        }
    }

    /// Takes bytes until something arrived for the machine above; returns how many were used. While a fragment is
    /// held, nothing is used: [`Endpoint::release`] it first. Frames that a damaged frame had swallowed follow at the
    /// next call, even one without bytes.
    pub fn handle_input(&mut self, bytes: &[u8]) -> (usize, Option<Received>) {
        if self.reassembler.is_complete() {
            return (0, None);
        }
        match self.extras.take() {
            Some(extras) => self.handle_extra_input(extras, bytes),
            None => self.take_frames(bytes),
        }
    }

    fn take_frames(&mut self, bytes: &[u8]) -> (usize, Option<Received>) {
        let Self { config, decoder, reassembler, reset_by, broadcast, replies, service, primary, .. } = self;
        let mut link = Service { config, reassembler, reset_by, broadcast, replies, primary, counters: service };
        let mut rest = bytes;
        while let Some(decoded) = decoder.decode(&mut rest) {
            // The decoder has counted what it refused.
            let Ok(frame) = decoded else { continue };
            if let Some(received) = link.handle_frame(&frame) {
                return (bytes.len() - rest.len(), Some(received));
            }
        }
        (bytes.len(), None)
    }

    /// The fragment that arrived last, until it is released; empty when there is none.
    #[must_use]
    pub fn fragment(&self) -> &[u8] {
        let short = self.extras.as_ref().and_then(|extras| extras.short.fragment());
        short.unwrap_or_else(|| self.reassembler.fragment())
    }

    /// Hands the fragment over, so that input is taken again.
    pub(crate) fn take_fragment(&mut self) -> Vec<u8> {
        let short = self.extras.as_ref().and_then(|extras| extras.short.fragment()).map(<[u8]>::to_vec);
        let fragment = short.unwrap_or_else(|| self.reassembler.take());
        self.release();
        fragment
    }

    /// Frees the fragment, so that input is taken again.
    pub fn release(&mut self) {
        self.decoder.release();
        self.reassembler.release();
        if let Some(extras) = &mut self.extras {
            extras.short.release();
        }
    }

    /// Appends to `out` all link frames of a fragment, as unconfirmed user data.
    pub fn write_fragment(&mut self, destination: LinkAddress, fragment: &[u8], out: &mut Vec<u8>) {
        let start = out.len();
        out.reserve(framed_bytes(fragment.len()));
        out.extend_from_slice(fragment);
        self.frame_in_place(destination, out, start);
    }

    /// Turns the fragment `out[start..]` into its link frames where it stands: what an
    /// [`app::FragmentWriter`](crate::app::FragmentWriter) wrote needs no second buffer.
    pub fn frame_in_place(&mut self, destination: LinkAddress, out: &mut Vec<u8>, start: usize) {
        let trace = self.extras.as_ref().and_then(|extras| extras.trace);
        if let Some(trace) = trace {
            trace(Boundary::Built);
        }
        if !self.wrap_in_place(destination, out, start) {
            self.link_frames_in_place(destination, out, start);
            if self.primary.is_some() {
                self.hold_frames(destination, out, start);
            }
        }
        if let Some(trace) = trace {
            trace(Boundary::Framed);
        }
    }

    fn link_frames_in_place(&mut self, destination: LinkAddress, out: &mut Vec<u8>, start: usize) {
        let fragment_bytes = out.len().saturating_sub(start);
        let segments = fragment_bytes.div_ceil(SEGMENT_BYTES_MAX);
        out.resize(start + framed_bytes(fragment_bytes), 0);
        let Some(room) = out.get_mut(start..) else { return };
        let from_master = self.config.role == Role::Master;
        let header = Header::new(from_master, Function::UnconfirmedUserData, destination, self.config.local);
        let full_frame = frame_bytes(SEGMENT_BYTES_MAX + 1);
        // From the last segment to the first: a frame never begins before its segment did, so no segment is
        // overwritten before it was copied.
        for number in (0..segments).rev() {
            let (from, to) = (number * SEGMENT_BYTES_MAX, number * full_frame);
            let bytes = SEGMENT_BYTES_MAX.min(fragment_bytes - from);
            let segment = SegmentHeader {
                fin: number + 1 == segments,
                fir: number == 0,
                sequence: self.sequence.wrapping_add(u8::try_from(number % 64).unwrap_or(0)),
            };
            let mut user_data = [0; SEGMENT_BYTES_MAX + 1];
            let copied = (|| {
                let (first, rest) = user_data.split_first_mut()?;
                *first = segment.emit();
                rest.get_mut(..bytes)?.copy_from_slice(room.get(from..from + bytes)?);
                header.emit_into(user_data.get(..=bytes)?, room.get_mut(to..to + frame_bytes(bytes + 1))?);
                Some(())
            })();
            debug_assert!(copied.is_some(), "segment {number} of {segments} lies outside its buffer");
        }
        self.sequence = self.sequence.wrapping_add(u8::try_from(segments % 64).unwrap_or(0)) & 0x3F;
    }

    /// Queues a request for the link's status: the keep-alive of IEEE 1815 13.2.
    pub fn request_link_status(&mut self, destination: LinkAddress) {
        let control = Control::new(self.config.role == Role::Master, Function::RequestStatus);
        queue(&mut self.replies, &mut self.service, control, destination);
    }

    /// Appends what the link layer itself has to say, all of it, and says whether there was anything.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>) -> bool {
        if let Some(sent) = self.poll_extra(out) {
            return sent;
        }
        let before = out.len();
        for reply in &mut self.replies {
            let Some((control, destination)) = reply.take() else { break };
            out.reserve(HEADER_BYTES);
            Header { control, destination, source: self.config.local }.emit(&[], out);
        }
        if self.primary.is_some() {
            self.transmit_primary(out);
        }
        out.len() > before
    }
}

/// Bytes on the wire of a fragment with so many bytes.
#[must_use]
pub const fn framed_bytes(fragment_bytes: usize) -> usize {
    let (full, rest) = (fragment_bytes / SEGMENT_BYTES_MAX, fragment_bytes % SEGMENT_BYTES_MAX);
    full * frame_bytes(SEGMENT_BYTES_MAX + 1) + if rest > 0 { frame_bytes(rest + 1) } else { 0 }
}

fn queue(
    replies: &mut [Option<(Control, LinkAddress)>; REPLIES_MAX],
    counters: &mut ServiceCounters,
    control: Control,
    destination: LinkAddress,
) {
    match replies.iter_mut().find(|reply| reply.is_none()) {
        Some(free) => *free = Some((control, destination)),
        None => counters.replies_dropped += 1,
    }
}

/// The link layer's service over one frame: all of an endpoint but its decoder, which lends the frame.
struct Service<'e> {
    config: &'e EndpointConfig,
    reassembler: &'e mut Reassembler,
    reset_by: &'e mut Option<(LinkAddress, bool)>,
    broadcast: &'e mut BroadcastFrame,
    replies: &'e mut [Option<(Control, LinkAddress)>; REPLIES_MAX],
    primary: &'e mut Option<Box<Primary>>,
    counters: &'e mut ServiceCounters,
}

impl Service<'_> {
    fn handle_frame(&mut self, frame: &Frame<'_>) -> Option<Received> {
        let Header { control, destination, source } = frame.header();
        if !self.is_for_us(destination) {
            self.counters.not_ours += 1;
            return None;
        }
        if !source.is_station() || self.config.remote.is_some_and(|remote| remote != source) {
            self.counters.unknown_source += 1;
            return None;
        }
        if control.from_master() == (self.config.role == Role::Master) {
            self.counters.wrong_direction += 1;
            return None;
        }
        // Reserved and obsolete functions get no answer: a station that sends them cannot know what one means.
        let Some(function) = control.function() else {
            self.counters.malformed += 1;
            return None;
        };
        let fits = function.counts_frames().is_none_or(|counts| counts == control.fcv())
            && function.carries_user_data() == (frame.user_bytes() > 0);
        // To all there is nothing to say but user data (IEEE 1815 9.2.4.1.4): everything else wants an answer.
        if !fits || (destination.broadcast().is_some() && !function.carries_user_data()) {
            self.counters.malformed += 1;
            return None;
        }
        if destination.broadcast().is_some() {
            return self.take_broadcast(function, frame);
        }
        *self.broadcast = BroadcastFrame::NONE;
        self.serve(function, control, frame)
    }

    fn is_for_us(&self, destination: LinkAddress) -> bool {
        match destination.kind() {
            AddressKind::Station => destination == self.config.local,
            AddressKind::Own => self.config.self_address,
            AddressKind::Broadcast(_) => self.config.role == Role::Outstation,
            AddressKind::Reserved => false,
        }
    }

    fn serve(&mut self, function: Function, control: Control, frame: &Frame<'_>) -> Option<Received> {
        let source = frame.header().source;
        match function {
            Function::UnconfirmedUserData => self.take(frame),
            Function::ConfirmedUserData => {
                let first_time = self.check_frame_count(control, source)?;
                self.reply(Function::Ack, source);
                if first_time { self.take(frame) } else { None }
            }
            Function::ResetLink => {
                *self.reset_by = Some((source, true));
                self.reply(Function::Ack, source);
                None
            }
            Function::TestLink => {
                self.check_frame_count(control, source)?;
                self.reply(Function::Ack, source);
                None
            }
            Function::RequestStatus => {
                self.reply(Function::Status, source);
                None
            }
            Function::Status => {
                self.answered(function, control);
                Some(Received::LinkStatus { source })
            }
            Function::Ack | Function::Nack | Function::NotSupported => {
                self.answered(function, control);
                None
            }
        }
    }

    /// The peer has answered what we sent as primary station; of a secondary frame, FCV is DFC.
    fn answered(&mut self, function: Function, control: Control) {
        if let Some(primary) = self.primary {
            primary.handle_answer(function, control.fcv());
        }
    }

    /// Whether the frame count is the expected one. None: the link was not reset by this peer, which was told so.
    fn check_frame_count(&mut self, control: Control, source: LinkAddress) -> Option<bool> {
        match self.reset_by {
            Some((by, expected)) if *by == source => {
                let first_time = control.fcb() == *expected;
                if first_time {
                    *expected = !*expected;
                } else {
                    self.counters.repeated += 1;
                }
                Some(first_time)
            }
            Some(_) | None => {
                self.reply(Function::Nack, source);
                None
            }
        }
    }

    fn take(&mut self, frame: &Frame<'_>) -> Option<Received> {
        let Header { source, destination, .. } = frame.header();
        // The reassembler has counted what it refused.
        let complete = self.reassembler.push(frame) == Ok(true);
        complete.then_some(Received::Fragment { source, broadcast: destination.broadcast() })
    }

    fn reply(&mut self, function: Function, to: LinkAddress) {
        let control = Control::new(self.config.role == Role::Master, function);
        queue(self.replies, self.counters, control, to);
    }
}

#[cfg(test)]
mod tests;
