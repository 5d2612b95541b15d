//! Topics that are sent as deltas (docs/delta.md): each delta is computed once; here stands what each client has.
//!
//! ```text
//! topic ─▶ stream: value, what leads to it             of bytes that all hold: nothing but the tree's value
//!          delivered: [client, alias, updates behind]…      8 bytes each, sorted by client
//! ```
//!
//! What was delivered to clients is stored with the topic and not with the client: one look finds all whom an update
//! goes to, and when the topic's value goes, what was delivered of it goes too. A client that has gone leaves entries
//! that mean nobody; they
//! are swept out where room is needed.

use bytes::Bytes;
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashSet;
use std::num::NonZeroU16;
use std::ops::RangeInclusive;
use std::rc::Rc;
use tieline_core::Body;
use tieline_delta::{CodecSet, Codecs, MARK, PROPERTY, Pace, RING_MAX, ReadyDelta, Revision, Stream, VERSION};
use tieline_mqtt::{Properties, Property, Text};
use tieline_topics::{Applied, Change, TopicId, View};

/// Topics of which somebody was told as what changed.
#[derive(Debug)]
pub struct Deltas {
    codecs: Codecs,
    /// By the topic's number.
    topics: Vec<Option<Followed>>,
    count: usize,
    /// What clients take, all together: other codecs are not run.
    wanted: CodecSet,
    followers: Rc<Followers>,
    last_number: u32,
}

/// The numbers of clients that take deltas.
#[derive(Debug, Default)]
struct Followers {
    here: RefCell<HashSet<u32>>,
    /// Those that are told versions.
    counting: RefCell<HashSet<u32>>,
}

/// A client that takes deltas.
#[derive(Debug)]
pub struct Follower {
    accepts: CodecSet,
    /// Whether it is told versions.
    counts: bool,
    /// Topic aliases that it has not been given yet.
    aliases: RangeInclusive<u16>,
    /// No other client has it, now or later.
    number: u32,
    all: Rc<Followers>,
}

/// A topic, and what clients were told of it.
#[derive(Debug)]
pub struct Followed {
    delivered: Vec<Delivered>,
    /// None where all who were told bytes hold them: the tree's value is all there is to know.
    live: Option<Box<Live>>,
    /// What the stream goes on with.
    pace: Pace,
    revision: Revision,
}

/// What leads to a topic's value.
#[derive(Debug)]
struct Live {
    stream: Stream,
    /// How many were told a value before the present one, and can be told what has changed since.
    late: usize,
}

/// What one client was told of one topic.
#[derive(Clone, Copy, Debug)]
struct Delivered {
    follower: u32,
    /// 0 where it was given none.
    alias: u16,
    /// Updates since then, or [`NOT_DELIVERED`].
    behind: u8,
    /// Whether it is told versions, and cannot count on from the last one: the next message has the topic's name.
    has_leapt: bool,
}

/// The next message is a whole value, with the topic's name.
const NOT_DELIVERED: u8 = u8::MAX;
/// What brings a client to the present value.
#[derive(Debug)]
pub struct Next {
    /// The payload.
    pub payload: Bytes,
    /// The topic's alias, and whether the client knows it.
    pub alias: Option<(NonZeroU16, bool)>,
}

/// What brings several clients to the present value, but for the alias that each knows the topic by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedDelta {
    behind: u8,
    accepts: CodecSet,
}

/// Where it stands what a client was told of a topic, until another client is told of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place(usize);

impl Default for Deltas {
    fn default() -> Self {
        let (topics, followers) = Default::default();
        Self { codecs: Codecs::built_in(), topics, count: 0, wanted: CodecSet::NONE, followers, last_number: 0 }
    }
}

impl Deltas {
    /// What of a client's offer will be used: `(the set, its words)`; none where nothing is.
    pub fn agree(&mut self, offer: &str) -> Option<(CodecSet, String)> {
        let set = self.codecs.agree(offer);
        let words = self.codecs.offer(set)?;
        self.wanted = self.wanted.with(set);
        Some((set, words))
    }

    /// What of a publisher's offer is taken; none where nothing is.
    #[must_use]
    pub fn takes(&self, offer: &str) -> Option<String> {
        self.codecs.offer(self.codecs.agree(offer))
    }

    /// The codecs.
    pub const fn codecs_mut(&mut self) -> &mut Codecs {
        &mut self.codecs
    }

    /// A client that takes these codecs, and these topic aliases, and `counts` versions or not. It was told nothing yet.
    #[must_use]
    pub fn follow(&mut self, accepts: CodecSet, counts: bool, aliases: RangeInclusive<u16>) -> Follower {
        loop {
            self.last_number = self.last_number.wrapping_add(1);
            if self.last_number == 0 {
                // Numbers come again: what was told to those who had them before is forgotten.
                (self.topics, self.count) = (Vec::new(), 0);
            }
            if self.followers.here.borrow_mut().insert(self.last_number) {
                if counts {
                    self.followers.counting.borrow_mut().insert(self.last_number);
                }
                return Follower {
                    accepts,
                    counts,
                    aliases,
                    number: self.last_number,
                    all: Rc::clone(&self.followers),
                };
            }
        }
    }

    /// The topic was updated; `before` is the value that it had, if it had one.
    pub fn update(&mut self, applied: Applied, before: Option<&Body>, body: &Body) {
        self.update_ready(applied, before, body, None);
    }

    /// The same where what leads from the value before to this one may be known.
    pub fn update_ready(&mut self, applied: Applied, before: Option<&Body>, body: &Body, ready: Option<&ReadyDelta>) {
        if self.count == 0 {
            return;
        }
        if self.followers.here.borrow().is_empty() {
            (self.topics, self.count, self.wanted) = (Vec::new(), 0, CodecSet::NONE);
            return;
        }
        let Some(slot) = self.topics.get_mut(index(applied.topic)) else { return };
        let Some(followed) = slot else { return };
        let is_followed = match applied.change {
            Change::Stored => {
                // The number may stand for another topic than before.
                let is_next = followed.revision.next() == revision(applied.version);
                if is_next {
                    followed.update(before, body, (self.wanted, ready), &mut self.codecs);
                }
                is_next
            }
            Change::Cleared => false,
            Change::Passed => true,
        };
        if !is_followed {
            *slot = None;
            self.count -= 1;
        }
    }

    /// What the clients of an update were told of its topic, where that can be told as what changed.
    pub fn followed(&mut self, applied: Applied) -> Option<&mut Followed> {
        let stored = applied.change == Change::Stored;
        self.topics.get_mut(index(applied.topic)).filter(|_| stored)?.as_mut()
    }

    /// What brings a client to the topic's present value, which it is told with that; `restart` where it is to be
    /// whole.
    pub fn since(&mut self, follower: &mut Follower, view: &View<'_>, restart: bool) -> Next {
        let (at, now) = (index(view.id), revision(view.version));
        if self.topics.len() <= at {
            self.topics.resize_with(at + 1, || None);
        }
        let wanted = self.wanted;
        let slot = &mut self.topics[at];
        self.count += usize::from(slot.is_none());
        slot.get_or_insert_with(|| Followed::new(now, view.body, wanted)).next(follower, view.body, restart)
    }

    /// The client's next message of the topic is a whole value, with its name.
    pub fn void(&mut self, follower: Option<&Follower>, topic: TopicId) {
        let followed = self.topics.get_mut(index(topic)).and_then(Option::as_mut);
        if let (Some(followed), Some(follower)) = (followed, follower)
            && let Ok(place) = followed.place(follower)
        {
            followed.set_behind(place, NOT_DELIVERED);
        }
    }

    /// The topic's version as it is told does not go on from the one before: who counts is told it with the next value.
    pub fn leap(&mut self, topic: TopicId) {
        let counting = self.followers.counting.borrow();
        if counting.is_empty() {
            return;
        }
        let Some(followed) = self.topics.get_mut(index(topic)).and_then(Option::as_mut) else { return };
        for delivered in followed.delivered.iter_mut().filter(|delivered| counting.contains(&delivered.follower)) {
            delivered.has_leapt = true;
        }
    }

    /// Topics that are followed.
    #[must_use]
    pub const fn topics(&self) -> usize {
        self.count
    }
}

impl Followed {
    fn new(revision: Revision, body: &Body, wanted: CodecSet) -> Self {
        let live = Box::new(Live { stream: Stream::new(revision, &in_form(body, wanted)), late: 0 });
        Self { delivered: Vec::new(), live: Some(live), pace: Pace::default(), revision }
    }

    fn update(
        &mut self,
        before: Option<&Body>,
        body: &Body,
        (wanted, ready): (CodecSet, Option<&ReadyDelta>),
        codecs: &mut Codecs,
    ) {
        if let (None, Some(before)) = (&self.live, before) {
            self.wake(before);
        }
        let Some(Live { stream, late }) = self.live.as_deref_mut() else {
            // Nothing leads from a value that is not known.
            self.delivered.iter_mut().for_each(|delivered| delivered.behind = NOT_DELIVERED);
            *self = Self {
                delivered: std::mem::take(&mut self.delivered),
                ..Self::new(self.revision.next(), body, wanted)
            };
            return;
        };
        stream.update_ready(&in_form(body, wanted), ready, wanted, codecs);
        self.revision = stream.revision();
        *late = 0;
        for delivered in &mut self.delivered {
            delivered.behind =
                if usize::from(delivered.behind) < RING_MAX { delivered.behind + 1 } else { NOT_DELIVERED };
            *late += usize::from(is_late(delivered));
        }
    }

    /// The stream, where it rests at this value.
    fn wake(&mut self, value: &Body) -> &mut Stream {
        let (revision, pace) = (self.revision, self.pace);
        let resume = || {
            let stream = match value {
                Body::Opaque(_) | Body::Published(_) => Stream::resume(revision, value.to_payload(), pace),
                Body::Point(_) => Stream::new(revision, value),
            };
            Box::new(Live { stream, late: 0 })
        };
        &mut self.live.get_or_insert_with(resume).stream
    }

    /// What brings a client to the present value, where it may share that with others.
    pub fn shared_delta(&self, follower: &Follower) -> Option<(SharedDelta, Place, NonZeroU16)> {
        self.live.as_ref()?;
        let place = self.place(follower).ok()?;
        let delivered =
            self.delivered.get(place).filter(|delivered| delivered.behind != NOT_DELIVERED && !delivered.has_leapt)?;
        Some((
            SharedDelta { behind: delivered.behind, accepts: follower.accepts },
            Place(place),
            NonZeroU16::new(delivered.alias)?,
        ))
    }

    /// The payload of a shared delta.
    pub fn payload(&mut self, shared_delta: SharedDelta) -> Option<Bytes> {
        let base = Revision(self.revision.0.wrapping_sub(shared_delta.behind.into()));
        Some(self.live.as_mut()?.stream.since(Some(base), shared_delta.accepts).to_bytes())
    }

    /// The client was sent what brings it to the present value.
    pub fn leapt(&mut self, place: Place) {
        self.set_behind(place.0, 0);
    }

    /// Gives up what led to the present value, where nobody waits for it; where the tree's value is all there is to know then,
    /// the stream too.
    pub fn settle(&mut self) {
        let Some(live) = self.live.as_deref_mut().filter(|live| live.late == 0) else { return };
        live.stream.settle();
        if let Some(pace) = live.stream.rest() {
            (self.live, self.pace) = (None, pace);
        }
    }

    fn set_behind(&mut self, place: usize, behind: u8) {
        let Some(delivered) = self.delivered.get_mut(place) else { return };
        let was_late = std::mem::replace(delivered, Delivered { behind, ..*delivered });
        if let Some(live) = self.live.as_deref_mut().filter(|_| is_late(&was_late)) {
            live.late -= 1;
        }
    }

    fn next(&mut self, follower: &mut Follower, value: &Body, restart: bool) -> Next {
        let place = self.place(follower).unwrap_or_else(|_| self.enter(follower));
        let delivered = &mut self.delivered[place];
        let was_delivered = delivered.behind != NOT_DELIVERED && !restart;
        let base = was_delivered.then(|| Revision(self.revision.0.wrapping_sub(delivered.behind.into())));
        if delivered.alias == 0 {
            delivered.alias = follower.aliases.next().unwrap_or(0);
        }
        let has_leapt = std::mem::take(&mut delivered.has_leapt);
        let alias = NonZeroU16::new(delivered.alias).map(|alias| (alias, was_delivered && !has_leapt));
        self.set_behind(place, 0);
        let payload = self.wake(value).since(base, follower.accepts).to_bytes();
        self.settle();
        Next { payload, alias }
    }

    /// Makes a place for a client that has none.
    fn enter(&mut self, follower: &Follower) -> usize {
        if self.delivered.len() == self.delivered.capacity() {
            let here = follower.all.here.borrow();
            self.delivered.retain(|delivered| here.contains(&delivered.follower));
            if let Some(live) = &mut self.live {
                live.late = self.delivered.iter().filter(|delivered| is_late(delivered)).count();
            }
            if self.delivered.len() == self.delivered.capacity() {
                // There are many short lists.
                self.delivered.reserve_exact(1 + self.delivered.len() / 8);
            }
        }
        let place = self.place(follower).unwrap_or_else(|place| place);
        self.delivered
            .insert(place, Delivered { follower: follower.number, alias: 0, behind: NOT_DELIVERED, has_leapt: false });
        place
    }

    fn place(&self, follower: &Follower) -> Result<usize, usize> {
        self.delivered.binary_search_by_key(&follower.number, |delivered| delivered.follower)
    }
}

/// Whether a client can be told what has changed since it was told something.
const fn is_late(delivered: &Delivered) -> bool {
    !matches!(delivered.behind, 0 | NOT_DELIVERED)
}

impl Follower {
    /// What it takes.
    #[must_use]
    pub const fn accepts(&self) -> CodecSet {
        self.accepts
    }

    /// Whether it is told versions.
    #[must_use]
    pub const fn counts(&self) -> bool {
        self.counts
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        self.all.here.borrow_mut().remove(&self.number);
        if self.counts {
            self.all.counting.borrow_mut().remove(&self.number);
        }
    }
}

/// The properties of a message that names its topic and whose payload says what changed of it.
#[must_use]
pub fn marked(properties: &Properties) -> Properties {
    properties.with(&Property::UserProperty((Text::truncated(PROPERTY), Text::truncated(MARK))))
}

/// The same with the version of the value; what its publisher has said of one is not it.
#[must_use]
pub fn counted(properties: &Properties, version: u64) -> Properties {
    let told = Property::UserProperty((Text::truncated(VERSION), Text::truncated(&version.to_string())));
    uncounted(properties).with(&told)
}

/// The same where the version is not known.
#[must_use]
pub fn uncounted(properties: &Properties) -> Properties {
    if properties.is_empty() { properties.clone() } else { properties.without_user_property(VERSION) }
}

/// Whether a message of a client says that its payload is one of docs/delta.md. Nobody else is to see that: subscribers would
/// believe it.
#[must_use]
pub fn is_marked(properties: &Properties) -> bool {
    properties.own_property(PROPERTY).is_some()
}

/// The form in which what changes of a value is told best: of a client's payload that is exactly a point's JSON, the point.
fn in_form(body: &Body, wanted: CodecSet) -> Cow<'_, Body> {
    let Body::Published(point) = body else { return Cow::Borrowed(body) };
    let point = if wanted.contains(CodecSet::POINT) { point.exact() } else { None };
    point.map_or(Cow::Borrowed(body), |point| Cow::Owned(Body::Point(point)))
}

/// The count of a topic's versions is that of its revisions; it wraps.
#[expect(clippy::cast_possible_truncation, reason = "revisions wrap")]
const fn revision(version: u64) -> Revision {
    Revision(version as u32)
}

fn index(topic: TopicId) -> usize {
    usize::try_from(topic.0).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests;
