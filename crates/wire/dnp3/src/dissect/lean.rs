//! Lean messages as text. One direction does not show whether an offer was accepted: what follows it does, because no
//! lean message that is sent at that place begins with 05 64.

use super::{Entry, FRAGMENT_BYTES_MAX, fragment_text};
use crate::lean::{
    DATAGRAM_START, HELLO_BYTES, HELLO_START, Head, Hello, Kind, Message, STREAM_HEADER_BYTES, may_be_hello,
};
use crate::link::LinkAddress;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;

/// How a stream goes on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Goes {
    /// In link frames.
    #[default]
    Frames,
    /// An offer was sent; its link frame follows.
    Offered,
    /// In frames if the next bytes are 05 64, else in lean messages.
    Undecided,
    Lean,
    /// The messages can no longer be told apart.
    Lost,
}

/// What one direction of a stream has of lean messages.
#[derive(Clone, Debug, Default)]
pub(super) struct LeanView {
    goes: Goes,
    held: Vec<u8>,
    from_master: bool,
    addresses: Option<(LinkAddress, LinkAddress)>,
}

impl LeanView {
    /// Whether the next bytes may be no link frames; `between` says that no frame has begun.
    pub(super) fn takes(&self, bytes: &[u8], between: bool) -> bool {
        match self.goes {
            Goes::Lean | Goes::Lost | Goes::Undecided => true,
            Goes::Frames | Goes::Offered => !self.held.is_empty() || (between && bytes.first() == HELLO_START.first()),
        }
    }

    /// A link frame was read.
    pub(super) fn note_frame(&mut self) {
        if self.goes == Goes::Offered {
            self.goes = Goes::Undecided;
        }
    }

    /// Bytes that wait for more.
    pub(super) fn partial_bytes(&self) -> usize {
        self.held.len()
    }

    pub(super) fn reset(&mut self) {
        self.held = Vec::new();
    }

    /// Takes the next bytes; those that it returns are link frames.
    pub(super) fn stream<'o>(&mut self, bytes: &'o [u8], entries: &mut Vec<Entry>) -> (Vec<u8>, &'o [u8]) {
        let mut rest = bytes;
        loop {
            match self.goes {
                Goes::Frames | Goes::Offered => {
                    rest = self.take(rest, HELLO_BYTES, may_be_hello);
                    if self.held.len() < HELLO_BYTES && may_be_hello(&self.held) {
                        return (Vec::new(), rest);
                    }
                    let held = core::mem::take(&mut self.held);
                    match held.first_chunk().map(Hello::parse) {
                        Some(Ok(hello)) => self.greet(&hello, entries),
                        Some(Err(error)) => entries.push(refusal(held.len(), error.to_string())),
                        None => entries.push(refusal(held.len(), "no start 05 64".to_string())),
                    }
                    if self.goes != Goes::Lean {
                        return (Vec::new(), rest);
                    }
                }
                Goes::Undecided => {
                    rest = self.take(rest, STREAM_HEADER_BYTES, |held| held != [0x05, 0x64]);
                    match self.held[..] {
                        [] | [0x05] => return (Vec::new(), rest),
                        [0x05, 0x64] => {
                            self.goes = Goes::Frames;
                            return (core::mem::take(&mut self.held), rest);
                        }
                        _ => self.goes = Goes::Lean,
                    }
                }
                Goes::Lean => {
                    rest = self.message(rest, entries);
                    if rest.is_empty() && self.goes == Goes::Lean {
                        return (Vec::new(), rest);
                    }
                }
                Goes::Lost => return (Vec::new(), &[]),
            }
        }
    }

    /// Moves bytes to `held` until it has `max`, or is not what is wanted.
    fn take<'o>(&mut self, bytes: &'o [u8], max: usize, wanted: impl Fn(&[u8]) -> bool) -> &'o [u8] {
        let mut rest = bytes;
        while let Some((byte, after)) = rest.split_first()
            && self.held.len() < max
            && wanted(&self.held)
        {
            self.held.push(*byte);
            rest = after;
        }
        rest
    }

    fn greet(&mut self, hello: &Hello, entries: &mut Vec<Entry>) {
        self.goes = if hello.answer { Goes::Lean } else { Goes::Offered };
        self.from_master = hello.from_master;
        self.addresses = Some((hello.source, hello.destination));
        entries.push(hello_entry(hello));
    }

    fn message<'o>(&mut self, bytes: &'o [u8], entries: &mut Vec<Entry>) -> &'o [u8] {
        let rest = self.take(bytes, STREAM_HEADER_BYTES, |_| true);
        let Some(head) = self.held.first_chunk::<STREAM_HEADER_BYTES>() else { return rest };
        let Ok(head) = Head::parse(*head) else {
            self.goes = Goes::Lost;
            let bytes = core::mem::take(&mut self.held).len() + rest.len();
            entries.push(refusal(bytes, "no lean message has this kind and length".to_string()));
            return &[];
        };
        let whole = STREAM_HEADER_BYTES + usize::from(head.bytes);
        let rest = self.take(rest, whole, |_| true);
        if self.held.len() == whole {
            let held = core::mem::take(&mut self.held);
            let fragment = held.get(STREAM_HEADER_BYTES..).unwrap_or_default();
            entries.push(message_entry(self.from_master, self.addresses, head.kind, fragment));
        }
        rest
    }
}

/// The message or hello that a datagram begins with, and how many bytes it has; None where link frames are expected.
pub(super) fn datagram(bytes: &[u8]) -> Option<(Entry, usize)> {
    if bytes.first() == Some(&DATAGRAM_START) {
        return Some(match Message::parse(bytes) {
            Some((message, used)) => {
                let from_master = message.fragment.get(1).is_some_and(|function| *function < 0x80);
                let addresses = Some((message.source, message.destination));
                (message_entry(from_master, addresses, message.kind, message.fragment), used)
            }
            None => (refusal(bytes.len(), "no lean message is here".to_string()), bytes.len()),
        });
    }
    let hello = bytes.first_chunk::<HELLO_BYTES>().filter(|hello| hello.starts_with(&HELLO_START))?;
    match Hello::parse(hello) {
        Ok(hello) => Some((hello_entry(&hello), HELLO_BYTES)),
        Err(error) => Some((refusal(HELLO_BYTES, error.to_string()), HELLO_BYTES)),
    }
}

fn sender(from_master: bool) -> &'static str {
    if from_master { "master" } else { "outstation" }
}

fn hello_entry(hello: &Hello) -> Entry {
    let word = if hello.answer { "lean-agreed" } else { "lean-offer" };
    let (from, source, destination) = (sender(hello.from_master), hello.source, hello.destination);
    let summary = format!("{from} {source}→{destination} {word} | fragments to {} bytes", hello.fragment_max);
    Entry { summary, addresses: Some((source, destination)), ..Entry::default() }
}

fn message_entry(
    from_master: bool,
    addresses: Option<(LinkAddress, LinkAddress)>,
    kind: Kind,
    fragment: &[u8],
) -> Entry {
    let way = match (addresses, kind) {
        (Some((source, _)), Kind::Broadcast(broadcast)) => format!(" {source}→{}", LinkAddress::of(broadcast)),
        (Some((source, destination)), _) => format!(" {source}→{destination}"),
        (None, _) => String::new(),
    };
    let word = match kind {
        Kind::Fragment | Kind::Broadcast(_) => "lean",
        Kind::StatusRequest => "lean-request-status",
        Kind::Status => "lean-status",
    };
    let summary = format!("{}{way} {word}", sender(from_master));
    let mut entry = Entry { summary, addresses, ..Entry::default() };
    if !fragment.is_empty() {
        fragment_text(fragment.get(..usize::from(FRAGMENT_BYTES_MAX)).unwrap_or(fragment), &mut entry);
    }
    entry
}

fn refusal(bytes: usize, why: String) -> Entry {
    Entry { summary: super::no_frame(bytes), refusal: Some(why), ..Entry::default() }
}
