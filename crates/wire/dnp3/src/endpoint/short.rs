//! A lean message that is short and all there: the usual command, report or confirm. It is found without the heap and
//! without the steps that a message in pieces needs, because what finds it runs on a processor that had other things to
//! do: each line of memory it touches is fetched from afar.

use super::Endpoint;
use super::extras::{Extras, Phase};
use crate::lean::{Head, Kind, Message, STREAM_HEADER_BYTES};
use crate::link::LinkAddress;

/// Bytes of a fragment that is kept beside the state of the connection: one or two events with time, or a command.
const BYTES: usize = 40;

/// A complete short fragment, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Short {
    /// 0: none.
    len: u8,
    bytes: [u8; BYTES],
}

impl Short {
    pub(super) const fn new() -> Self {
        Self { len: 0, bytes: [0; BYTES] }
    }

    pub(super) fn fragment(&self) -> Option<&[u8]> {
        self.bytes.get(..usize::from(self.len)).filter(|fragment| !fragment.is_empty())
    }

    pub(super) const fn release(&mut self) {
        self.len = 0;
    }

    /// None: it is too long for this place.
    fn keep(&mut self, fragment: &[u8]) -> Option<()> {
        self.bytes.get_mut(..fragment.len())?.copy_from_slice(fragment);
        self.len = u8::try_from(fragment.len()).ok()?;
        Some(())
    }
}

impl Endpoint {
    /// Takes a short fragment that the bytes begin with: how many bytes it used, and who sent it. None, and nothing
    /// has happened: the bytes are something else.
    pub(super) fn take_short(&mut self, extras: &mut Extras, bytes: &[u8]) -> Option<(usize, LinkAddress)> {
        if extras.phase != Phase::Lean || extras.missing > 0 || extras.replays || !extras.held.is_empty() {
            return None;
        }
        let (fragment, source, used) = if extras.has_datagrams() {
            let (message, used) = Message::parse(bytes)?;
            let heard = message.source.is_station() && self.config.remote.is_none_or(|remote| remote == message.source);
            let ours = message.kind == Kind::Fragment && message.destination == self.config.local;
            (heard && ours).then_some((message.fragment, message.source, used))?
        } else {
            let (head, rest) = bytes.split_first_chunk::<STREAM_HEADER_BYTES>()?;
            let head = Head::parse(*head).ok().filter(|head| head.kind == Kind::Fragment)?;
            let fragment = rest.get(..usize::from(head.bytes))?;
            (fragment, extras.peer, STREAM_HEADER_BYTES + fragment.len())
        };
        if fragment.len() > usize::from(self.config.fragment_max) {
            return None;
        }
        extras.short.keep(fragment)?;
        self.reassembler.count_whole();
        Some((used, source))
    }
}
