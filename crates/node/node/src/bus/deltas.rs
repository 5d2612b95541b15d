//! Topics that are sent as what changed (docs/delta.md): each change computed once, and what each client was told.

use bytes::{BufMut, Bytes, BytesMut};
use std::collections::HashMap;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::rc::Rc;
use tieline_core::Body;
use tieline_delta::{CodecSet, Codecs, Header, Kind, Revision, Stream};
use tieline_mqtt::Message;
use tieline_topics::{Applied, Change, TopicId, View};

/// Topics of which somebody was told as what changed.
#[derive(Debug)]
pub struct Deltas {
    codecs: Codecs,
    streams: HashMap<TopicId, Stream>,
    /// What clients take, all together: other codecs are not run.
    wanted: CodecSet,
    /// One more for each client that takes deltas.
    followers: Rc<()>,
}

/// What one client was told.
#[derive(Debug)]
pub struct Told {
    accepts: CodecSet,
    topics: HashMap<TopicId, Said>,
    aliases: RangeInclusive<u16>,
    follower: Rc<()>,
}

#[derive(Clone, Copy, Debug)]
struct Said {
    revision: Revision,
    alias: Option<NonZeroU16>,
}

/// What brings a client to the present value.
#[derive(Debug)]
pub struct Next {
    /// The payload.
    pub payload: Bytes,
    /// The topic's alias, and whether the client knows it.
    pub alias: Option<(NonZeroU16, bool)>,
}

impl Default for Deltas {
    fn default() -> Self {
        Self { codecs: Codecs::built_in(), streams: HashMap::new(), wanted: CodecSet::NONE, followers: Rc::new(()) }
    }
}

impl Deltas {
    /// What of a client's offer will be used: `(the set, its words)`; none where nothing is.
    pub fn agree(&mut self, offer: &str) -> Option<(CodecSet, String)> {
        let set = self.codecs.agree(offer).without(CodecSet::BATCH);
        let words = self.codecs.offer(set)?;
        self.wanted = self.wanted.with(set);
        Some((set, words))
    }

    /// A client that takes these codecs, and these topic aliases.
    #[must_use]
    pub fn follow(&self, accepts: CodecSet, aliases: RangeInclusive<u16>) -> Told {
        Told { accepts, topics: HashMap::new(), aliases, follower: Rc::clone(&self.followers) }
    }

    /// The topic was updated.
    pub fn update(&mut self, applied: Applied, body: &Body) {
        if self.streams.is_empty() {
            return;
        }
        if Rc::strong_count(&self.followers) == 1 {
            (self.streams, self.wanted) = (HashMap::new(), CodecSet::NONE);
            return;
        }
        match applied.change {
            Change::Stored => {
                if let Some(stream) = self.streams.get_mut(&applied.topic) {
                    stream.update(body, self.wanted, &mut self.codecs);
                    if stream.revision() != revision(applied.version) {
                        // The number stands for another topic than before.
                        self.streams.remove(&applied.topic);
                    }
                }
            }
            Change::Cleared => drop(self.streams.remove(&applied.topic)),
            Change::Passed => {}
        }
    }

    /// What brings a client to the topic's present value, which it is told with that.
    pub fn since(&mut self, told: &mut Told, view: &View<'_>) -> Next {
        let now = revision(view.version);
        let stream = self.streams.entry(view.id).or_insert_with(|| Stream::new(now, view.body));
        let said = told.topics.get(&view.id).copied();
        let payload = stream.since(said.map(|said| said.revision), told.accepts).to_bytes();
        let alias = match said {
            Some(said) => said.alias.map(|alias| (alias, true)),
            None => told.aliases.next().and_then(NonZeroU16::new).map(|alias| (alias, false)),
        };
        told.topics.insert(view.id, Said { revision: now, alias: alias.map(|(alias, _)| alias) });
        Next { payload, alias }
    }

    /// Topics that are followed.
    #[must_use]
    pub fn topics(&self) -> usize {
        self.streams.len()
    }
}

impl Told {
    /// The same client, who was told nothing yet.
    #[must_use]
    pub fn again(before: &Self, aliases: RangeInclusive<u16>) -> Self {
        Self { accepts: before.accepts, topics: HashMap::new(), aliases, follower: Rc::clone(&before.follower) }
    }

    /// The client's next payload of the topic is a whole value, by its name.
    pub fn forget(&mut self, topic: TopicId) {
        self.topics.remove(&topic);
    }
}

/// The count of a topic's versions is that of its revisions; it wraps.
#[expect(clippy::cast_possible_truncation, reason = "revisions wrap")]
const fn revision(version: u64) -> Revision {
    Revision(version as u32)
}

/// A message that is no value of its topic, as the whole value that it is to who takes deltas.
#[must_use]
pub fn whole(message: &Message) -> Message {
    if message.payload.is_empty() {
        return message.clone();
    }
    let mut head = Vec::with_capacity(1);
    Header { kind: Kind::Octets, revision: Revision(0).low() }.emit(&mut head);
    let mut payload = BytesMut::with_capacity(1 + message.payload.len());
    payload.put_slice(&head);
    payload.put_slice(&message.payload);
    Message { payload: payload.freeze(), ..message.clone() }
}
