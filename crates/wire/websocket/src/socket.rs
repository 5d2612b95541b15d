//! One connection: handshake, frames in, frames out, close.
//!
//! ```text
//!         request, response         close of either side, a broken rule
//!   Greeting ───────────▶ Open ───────────────────────────────────────▶ Closed
//!       └────────── refused ───────────────────────────────────────────▶┘
//! ```
//!
//! The protocol inside is given bytes as they come, and is asked for its own: nothing of either is kept here. An
//! open connection holds no memory but itself, and at most one control frame of 125 bytes.

use crate::client::{Client, RESPONSE_BYTES_MAX, Request, ResponseFault};
use crate::frame::{CloseCode, Head, Heading, Opcode, masked_header, push};
use crate::handshake::{Offer, REQUEST_BYTES_MAX, answer};
use crate::header;
use crate::text::Utf8;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Bytes of pongs that may wait to be sent before no more is read.
pub const ANSWER_BYTES_MAX: usize = 4096;
/// Bytes that are unmasked at a time.
const PIECE_BYTES: usize = 2048;

/// One side of one connection.
#[derive(Debug)]
pub struct WebSocket {
    role: Role,
    phase: Phase,
    /// A request that is not whole, then a control frame that is not.
    held: Vec<u8>,
    /// Answers to be sent: the handshake's, pongs, the close.
    answers: Vec<u8>,
    /// Whether a message has begun and not ended.
    fragmented: bool,
    /// What of a text was read, where the message is one.
    text: Option<Utf8>,
    /// Whether the peer broke a rule.
    faulty: bool,
    /// Messages that came to their end.
    messages: u32,
}

#[derive(Debug)]
enum Role {
    Server(Arc<Offer>),
    Client(Box<Client>),
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    Greeting,
    Heading(Heading),
    /// Within a frame; how much of it was read.
    Payload(Head, u64),
    Closed,
}

impl WebSocket {
    /// The server's side of a connection that has just begun.
    #[must_use]
    pub const fn new(offer: Arc<Offer>) -> Self {
        Self::begin_as(Role::Server(offer), Vec::new())
    }

    /// The client's side of a connection that has just begun. It takes one message at a call of
    /// [`WebSocket::handle_input`], so that its end is seen in [`WebSocket::messages`].
    #[must_use]
    pub fn client(request: &Request) -> Self {
        Self::begin_as(Role::Client(Box::new(Client::new(request))), request.text().into_bytes())
    }

    const fn begin_as(role: Role, answers: Vec<u8>) -> Self {
        Self {
            role,
            phase: Phase::Greeting,
            held: Vec::new(),
            answers,
            fragmented: false,
            text: None,
            faulty: false,
            messages: 0,
        }
    }

    /// Whether nothing more is read, and nothing is sent but what [`WebSocket::poll_transmit`] still has.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        matches!(self.phase, Phase::Closed)
    }

    /// Whether the handshake is over and the connection open.
    #[must_use]
    pub const fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Heading(_) | Phase::Payload(..))
    }

    /// Whether the peer broke a rule of the handshake or of frames, and was closed on.
    #[must_use]
    pub const fn is_faulty(&self) -> bool {
        self.faulty
    }

    /// Why the response of the server was refused, where this is a client's side.
    #[must_use]
    pub fn response_fault(&self) -> Option<ResponseFault> {
        match &self.role {
            Role::Client(client) => client.fault,
            Role::Server(_) => None,
        }
    }

    /// The code with which the server has closed, where this is a client's side; 1005 where it gave none.
    #[must_use]
    pub fn close_code(&self) -> Option<u16> {
        match &self.role {
            Role::Client(client) => client.close_code,
            Role::Server(_) => None,
        }
    }

    const fn is_client(&self) -> bool {
        matches!(self.role, Role::Client(_))
    }

    /// Messages that came to their end; begins again after the largest number.
    #[must_use]
    pub const fn messages(&self) -> u32 {
        self.messages
    }

    /// Whether the last message that began is a text.
    #[must_use]
    pub const fn is_text(&self) -> bool {
        self.text.is_some()
    }

    /// Takes bytes of the peer and says how many. `inside` is given those of messages, and says how many it
    /// took; when it takes none, the call ends.
    pub fn handle_input(&mut self, bytes: &[u8], mut inside: impl FnMut(&[u8]) -> usize) -> usize {
        let (mut used, messages) = (0, self.messages);
        while let Some(rest) = bytes.get(used..).filter(|rest| !rest.is_empty()) {
            if self.answers.len() >= ANSWER_BYTES_MAX {
                break;
            }
            let taken = match self.phase {
                Phase::Closed => return bytes.len(),
                Phase::Greeting => self.greet(rest),
                Phase::Heading(heading) => self.head(heading, rest),
                Phase::Payload(head, at) if head.opcode.is_control() => self.control(head, at, rest),
                Phase::Payload(head, at) => self.data(head, at, rest, &mut inside),
            };
            if taken == 0 {
                break;
            }
            used += taken;
            if self.is_client() && self.messages != messages {
                break;
            }
        }
        used
    }

    /// Appends what is to be sent: answers first, then a frame around what `inside` appends, which says whether it
    /// appended anything. False when nothing was appended.
    pub fn poll_transmit(&mut self, out: &mut Vec<u8>, inside: impl FnOnce(&mut Vec<u8>) -> bool) -> bool {
        if !self.answers.is_empty() {
            out.append(&mut self.answers);
            self.answers = Vec::new();
            return true;
        }
        if !self.is_open() {
            return false;
        }
        // Room for the head of a server's frame of 126 to 65,535 bytes; another length moves the payload.
        const ROOM: usize = 4;
        let start = out.len();
        out.extend([0; ROOM]);
        if !inside(out) {
            out.truncate(start);
            return false;
        }
        let bytes = out.len() - start - ROOM;
        match &mut self.role {
            Role::Server(_) => {
                let (head, count) = header(bytes);
                let head = head.get(..count).unwrap_or_default();
                out.splice(start..start + ROOM, head.iter().copied());
            }
            Role::Client(client) => {
                let (head, count) = masked_header(bytes);
                let head = head.get(..count).unwrap_or_default();
                out.splice(start..start + ROOM, head.iter().copied());
                client.mask(out.get_mut(start..).unwrap_or_default(), count);
            }
        }
        true
    }

    /// Ends the connection once, with a close that says why.
    pub fn close(&mut self, code: CloseCode) {
        if self.is_open() {
            self.answer(Opcode::Close, &code.number().to_be_bytes());
            self.faulty = !matches!(code, CloseCode::Normal);
        }
        self.end();
    }

    fn end(&mut self) {
        self.phase = Phase::Closed;
        self.held = Vec::new();
    }

    /// Appends a control frame to what is to be sent.
    fn answer(&mut self, opcode: Opcode, payload: &[u8]) {
        let start = self.answers.len();
        push(opcode, payload, &mut self.answers);
        if let Role::Client(client) = &mut self.role {
            // Control frames are short: their heads have two bytes.
            let head = start + 2;
            if let Some(second) = self.answers.get_mut(start + 1) {
                *second |= 0x80;
            }
            self.answers.splice(head..head, [0; 4]);
            client.mask(self.answers.get_mut(start..).unwrap_or_default(), 6);
        }
    }

    fn greet(&mut self, bytes: &[u8]) -> usize {
        match &self.role {
            Role::Server(offer) => {
                let offer = Arc::clone(offer);
                self.greet_client(bytes, &offer)
            }
            Role::Client(_) => self.greet_server(bytes),
        }
    }

    fn greet_client(&mut self, bytes: &[u8], offer: &Offer) -> usize {
        let before = self.held.len();
        let room = REQUEST_BYTES_MAX.saturating_sub(before);
        let piece = bytes.get(..room).unwrap_or(bytes);
        self.held.extend_from_slice(piece);
        match answer(&self.held, offer) {
            Ok(None) => piece.len(),
            Ok(Some((used, text))) => {
                self.answers.extend_from_slice(text.as_bytes());
                self.held = Vec::new();
                self.phase = Phase::Heading(Heading::default());
                used - before
            }
            Err(refusal) => {
                self.answers.extend_from_slice(refusal.answer().as_bytes());
                self.faulty = true;
                self.end();
                bytes.len()
            }
        }
    }

    /// Takes the response of a server. Without one, nothing is said to it any more.
    fn greet_server(&mut self, bytes: &[u8]) -> usize {
        let Role::Client(client) = &mut self.role else { return bytes.len() };
        let before = self.held.len();
        let room = RESPONSE_BYTES_MAX.saturating_sub(before);
        let piece = bytes.get(..room).unwrap_or(bytes);
        self.held.extend_from_slice(piece);
        match client.read(&self.held) {
            Ok(None) => piece.len(),
            Ok(Some(used)) => {
                self.held = Vec::new();
                self.phase = Phase::Heading(Heading::default());
                used.saturating_sub(before)
            }
            Err(fault) => {
                client.fault = Some(fault);
                self.faulty = true;
                self.end();
                bytes.len()
            }
        }
    }

    fn head(&mut self, mut heading: Heading, bytes: &[u8]) -> usize {
        let masked = !self.is_client();
        for (at, byte) in bytes.iter().enumerate() {
            match heading.push(*byte, masked) {
                Ok(None) => {}
                Ok(Some(head)) => {
                    match self.begin(head) {
                        Ok(()) => self.phase = Phase::Payload(head, 0),
                        Err(code) => self.close(code),
                    }
                    self.finish_empty(head);
                    return at + 1;
                }
                Err(code) => {
                    self.close(code);
                    return bytes.len();
                }
            }
        }
        self.phase = Phase::Heading(heading);
        bytes.len()
    }

    /// Whether a frame may come here (section 5.4).
    fn begin(&mut self, head: Head) -> Result<(), CloseCode> {
        match head.opcode {
            Opcode::Close | Opcode::Ping | Opcode::Pong => return Ok(()),
            Opcode::Text if !self.fragmented && !self.takes_texts() => return Err(CloseCode::Unsupported),
            Opcode::Text if !self.fragmented => self.text = Some(Utf8::default()),
            Opcode::Binary if !self.fragmented => self.text = None,
            Opcode::Continuation if self.fragmented => {}
            Opcode::Text | Opcode::Binary | Opcode::Continuation => return Err(CloseCode::Protocol),
        }
        self.fragmented = !head.is_last;
        Ok(())
    }

    fn takes_texts(&self) -> bool {
        matches!(&self.role, Role::Server(offer) if offer.texts)
    }

    /// A frame without a payload ends with its head.
    fn finish_empty(&mut self, head: Head) {
        if head.bytes == 0 && self.is_open() {
            self.finish(head);
        }
    }

    fn data(&mut self, head: Head, at: u64, bytes: &[u8], inside: &mut impl FnMut(&[u8]) -> usize) -> usize {
        let left = usize::try_from(head.bytes - at).unwrap_or(usize::MAX).min(PIECE_BYTES);
        let piece = bytes.get(..left).unwrap_or(bytes);
        let mut plain = [0; PIECE_BYTES];
        let plain = plain.get_mut(..piece.len()).unwrap_or_default();
        unmask(piece, plain, head.mask, at);
        let taken = inside(plain).min(piece.len());
        // A close follows at once (section 8.1): what was given inside is half a message, and stays that.
        if self.text.as_mut().is_some_and(|text| !text.push(plain.get(..taken).unwrap_or_default())) {
            self.close(CloseCode::Payload);
            return bytes.len();
        }
        self.advance(head, at, taken);
        taken
    }

    fn control(&mut self, head: Head, at: u64, bytes: &[u8]) -> usize {
        let left = usize::try_from(head.bytes - at).unwrap_or(usize::MAX);
        let piece = bytes.get(..left).unwrap_or(bytes);
        let start = self.held.len();
        self.held.resize(start + piece.len(), 0);
        unmask(piece, self.held.get_mut(start..).unwrap_or_default(), head.mask, at);
        self.advance(head, at, piece.len());
        piece.len()
    }

    fn advance(&mut self, head: Head, at: u64, taken: usize) {
        let at = at + taken as u64;
        self.phase = Phase::Payload(head, at);
        if at == head.bytes {
            self.finish(head);
        }
    }

    /// A frame is whole.
    fn finish(&mut self, head: Head) {
        self.phase = Phase::Heading(Heading::default());
        if !head.opcode.is_control() {
            return self.finish_data(head);
        }
        let payload = core::mem::take(&mut self.held);
        match head.opcode {
            Opcode::Ping => self.answer(Opcode::Pong, &payload),
            Opcode::Close => self.closed(&payload),
            Opcode::Pong | Opcode::Continuation | Opcode::Text | Opcode::Binary => {}
        }
    }

    fn finish_data(&mut self, head: Head) {
        if head.is_last && self.text.is_some_and(|text| !text.is_whole()) {
            return self.close(CloseCode::Payload);
        }
        self.messages = self.messages.wrapping_add(u32::from(head.is_last));
    }

    /// The peer closes: it is answered with its own code (section 5.5.1).
    fn closed(&mut self, payload: &[u8]) {
        const NO_STATUS: u16 = 1005;
        let code = match payload {
            [] => return self.answer_close(NO_STATUS, &[]),
            [_] => return self.close(CloseCode::Protocol),
            [high, low, reason @ ..] => {
                let code = u16::from_be_bytes([*high, *low]);
                if !matches!(code, 1000..=1003 | 1007..=1014 | 3000..=4999) {
                    return self.close(CloseCode::Protocol);
                }
                if core::str::from_utf8(reason).is_err() {
                    return self.close(CloseCode::Payload);
                }
                code
            }
        };
        self.answer_close(code, &code.to_be_bytes());
    }

    fn answer_close(&mut self, code: u16, payload: &[u8]) {
        if let Role::Client(client) = &mut self.role {
            client.close_code = Some(code);
        }
        self.answer(Opcode::Close, payload);
        self.end();
    }
}

/// Takes the mask off (section 5.3): `at` bytes of the frame came before.
fn unmask(masked: &[u8], plain: &mut [u8], mask: [u8; 4], at: u64) {
    let mut key = mask;
    key.rotate_left(usize::try_from(at % 4).unwrap_or(0));
    let word = u32::from_ne_bytes(key);
    let (mut from, mut to) = (masked.chunks_exact(4), plain.chunks_exact_mut(4));
    for (masked, plain) in from.by_ref().zip(to.by_ref()) {
        if let Ok(four) = masked.try_into() {
            plain.copy_from_slice(&(u32::from_ne_bytes(four) ^ word).to_ne_bytes());
        }
    }
    for ((masked, plain), key) in from.remainder().iter().zip(to.into_remainder()).zip(key) {
        *plain = masked ^ key;
    }
}
