//! A lean message that is short and all there: the usual command, report or confirm. It is found without the heap and
//! without the steps that a message in pieces needs, because what finds it runs on a processor that had other things to
//! do: each line of memory it touches is fetched from afar.

use super::Endpoint;
use super::extras::{Extras, Phase};
use crate::lean::{Head, Kind, Message, STREAM_HEADER_OCTETS};
use crate::link::LinkAddress;

/// Octets of a fragment that is kept beside the state of the connection: one or two events with time, or a command.
const OCTETS: usize = 40;

/// A complete short fragment, or none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Short {
    /// 0: none.
    len: u8,
    octets: [u8; OCTETS],
}

impl Short {
    pub(super) const fn new() -> Self {
        Self { len: 0, octets: [0; OCTETS] }
    }

    pub(super) fn fragment(&self) -> Option<&[u8]> {
        self.octets.get(..usize::from(self.len)).filter(|fragment| !fragment.is_empty())
    }

    pub(super) const fn release(&mut self) {
        self.len = 0;
    }

    /// None: it is too long for this place.
    fn keep(&mut self, fragment: &[u8]) -> Option<()> {
        self.octets.get_mut(..fragment.len())?.copy_from_slice(fragment);
        self.len = u8::try_from(fragment.len()).ok()?;
        Some(())
    }
}

impl Endpoint {
    /// Takes a short fragment that the octets begin with: how many octets it used, and who sent it. None, and nothing
    /// has happened: the octets are something else.
    pub(super) fn take_short(&mut self, extras: &mut Extras, octets: &[u8]) -> Option<(usize, LinkAddress)> {
        if extras.phase != Phase::Lean || extras.missing > 0 || extras.replays || !extras.held.is_empty() {
            return None;
        }
        let (fragment, source, used) = if extras.has_datagrams() {
            let (message, used) = Message::parse(octets)?;
            let heard = message.source.is_station() && self.config.remote.is_none_or(|remote| remote == message.source);
            let ours = message.kind == Kind::Fragment && message.destination == self.config.local;
            (heard && ours).then_some((message.fragment, message.source, used))?
        } else {
            let (head, rest) = octets.split_first_chunk::<STREAM_HEADER_OCTETS>()?;
            let head = Head::parse(*head).ok().filter(|head| head.kind == Kind::Fragment)?;
            let fragment = rest.get(..usize::from(head.octets))?;
            (fragment, extras.peer, STREAM_HEADER_OCTETS + fragment.len())
        };
        if fragment.len() > usize::from(self.config.fragment_max) {
            return None;
        }
        extras.short.keep(fragment)?;
        self.reassembler.count_whole();
        Some((used, source))
    }
}
