//! Messages between sites on the bus: `$sites/<site>/<topic>` is what a program publishes to `<topic>` at the site.
//!
//! ```text
//!  at a site    subscriptions below $sites/ ─▶ what is wanted of others;  messages that are shared and asked for ─▶ the centre
//!  at a centre  what clients and sites have subscribed ─▶ what each site is asked for;  a message of a site ─▶ clients, and sites that may read it
//! ```
//!
//! A site decides what leaves it, the rules of the centre which site may read it, those of each node what its clients may. Topics that begin
//! with `$` are not shared: so what came from other sites goes no further, and there are no circles.

mod doubt;
#[cfg(test)]
mod doubt_tests;
mod filters;
mod interest;

use self::filters::{at_site, below, without_covered};
use super::apply::Origin;
use super::state::Bus;
use crate::access::ReadFilter;
use crate::sites::{EventInput, EventPeer};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use tieline_core::{Body, Filter, Now, Topic};
use tieline_mqtt::{Message, Properties, Qos};
use tieline_relay::{Event, EventClass};
use tieline_topics::{Lane, TopicId};
use tokio::sync::mpsc;

/// Topics of messages of other sites begin with it.
pub const PREFIX: &str = "$sites/";
/// Last values of other sites that are kept here.
const SHOWN_MAX: usize = 1 << 16;
/// Filters of this node's clients that are asked for.
const LOCAL_MAX: usize = 1024;

/// Messages between sites, as the bus has them.
#[derive(Debug)]
pub struct SiteEvents {
    inputs: mpsc::Sender<EventInput>,
    side: Side,
    /// Filters of this node's clients, below [`PREFIX`].
    local: BTreeSet<Filter>,
    /// What is wanted may have changed.
    is_changed: bool,
    /// A filter has ended: values may be wanted by nobody.
    has_ended: bool,
    /// Last values of other sites that are here.
    shown: HashMap<Topic, ShownEvent>,
    /// How often values of other sites came in doubt.
    doubts: u64,
    seen: SiteEventsSeen,
}

/// A last value of another site.
#[derive(Clone, Copy, Debug)]
struct ShownEvent {
    class: EventClass,
    /// The doubts before it was sent last.
    doubts: u64,
}

#[derive(Debug)]
enum Side {
    Site {
        /// What may leave this node.
        share: Vec<Filter>,
        /// What the centre asks for, as far as it is shared.
        asked: Vec<Filter>,
    },
    Centre {
        peers: BTreeMap<Arc<str>, Peer>,
        /// The last run and number of the messages of a site, by class.
        latest: HashMap<Arc<str>, [(u64, u64); EventClass::ALL.len()]>,
    },
}

/// A site, at its centre.
#[derive(Debug, Default)]
struct Peer {
    /// What it wants, below [`PREFIX`].
    filters: Vec<Filter>,
    /// What it may read; none: it is not known.
    read: Option<ReadFilter>,
    /// What it is asked for.
    asked: Vec<Filter>,
}

/// Messages between sites since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SiteEventsSeen {
    /// Filters of this node's clients.
    pub filters: usize,
    /// Last values of other sites.
    pub topics: usize,
    /// Messages of other sites that were published here.
    pub shown: u64,
    /// Messages that were lost because the thread that sends them was busy.
    pub full: u64,
    /// Messages that a site had subscribed to and may not read.
    pub denied: u64,
    /// Messages that could not be published here: a topic that is too long, a full tree.
    pub left_out: u64,
}

impl SiteEvents {
    /// A site that shares these topics.
    #[must_use]
    pub fn of_site(share: &[Filter], inputs: mpsc::Sender<EventInput>) -> Self {
        Self::new(inputs, Side::Site { share: share.to_vec(), asked: Vec::new() })
    }

    /// A centre.
    #[must_use]
    pub fn of_centre(inputs: mpsc::Sender<EventInput>) -> Self {
        Self::new(inputs, Side::Centre { peers: BTreeMap::new(), latest: HashMap::new() })
    }

    fn new(inputs: mpsc::Sender<EventInput>, side: Side) -> Self {
        let (local, shown, seen) = (BTreeSet::new(), HashMap::new(), SiteEventsSeen::default());
        Self { inputs, side, local, is_changed: true, has_ended: false, shown, doubts: 0, seen }
    }

    /// The first client has subscribed to a filter, or the last one has ended that.
    pub(super) fn filter_changed(&mut self, filter: &Filter, is_first: bool) {
        if !filter.starts_with(PREFIX) {
            return;
        }
        if is_first && self.local.len() < LOCAL_MAX {
            self.is_changed |= self.local.insert(filter.clone());
        } else if !is_first && self.local.remove(filter) {
            (self.is_changed, self.has_ended) = (true, true);
        }
    }

    /// A site is known.
    pub(super) fn add_site(&mut self, site: Arc<str>) {
        if let Side::Centre { peers, .. } = &mut self.side {
            peers.entry(site).or_default();
            self.is_changed = true;
        }
    }

    /// Whether somebody here wants a topic below [`PREFIX`].
    fn is_wanted(&self, topic: &str) -> bool {
        let peers = match &self.side {
            Side::Site { .. } => None,
            Side::Centre { peers, .. } => Some(peers),
        };
        let of_peers = || peers.into_iter().flatten().any(|(_, peer)| peer.wants(topic));
        self.local.iter().any(|filter| filter.matches(topic)) || of_peers()
    }

    fn send(&mut self, to: EventPeer, events: Vec<Event>) {
        let count = u64::try_from(events.len()).unwrap_or(u64::MAX);
        if count > 0 && self.inputs.try_send(EventInput::Send(to, events)).is_err() {
            self.seen.full += count;
        }
    }

    /// Tells the thread what is wanted; false where it has no room.
    fn tell(&mut self) -> bool {
        let Self { side, local, inputs, .. } = self;
        let peers = match side {
            Side::Site { .. } => {
                let filters = without_covered(&local.iter().filter_map(below).collect());
                return inputs.try_send(EventInput::Want(None, filters)).is_ok();
            }
            Side::Centre { peers, .. } => peers,
        };
        let asked: Vec<Vec<Filter>> = peers
            .keys()
            .map(|site| {
                let of_others = peers.iter().filter(|(name, _)| *name != site).flat_map(|(_, peer)| &peer.filters);
                let there: BTreeSet<Filter> = local.iter().chain(of_others).filter_map(|f| at_site(f, site)).collect();
                without_covered(&there)
            })
            .collect();
        for ((site, peer), asked) in peers.iter_mut().zip(asked) {
            if peer.asked == asked {
                continue;
            }
            if inputs.try_send(EventInput::Want(Some(Arc::clone(site)), asked.clone())).is_err() {
                return false;
            }
            peer.asked = asked;
        }
        true
    }
}

impl Peer {
    fn wants(&self, topic: &str) -> bool {
        self.filters.iter().any(|filter| filter.matches(topic))
    }
}

const fn class_of(lane: Lane) -> EventClass {
    match lane {
        Lane::Protection => EventClass::Protection,
        Lane::Monitoring => EventClass::Monitoring,
        Lane::Bulk => EventClass::Bulk,
    }
}

impl Bus {
    /// The bus is that of a site or of a centre from here on.
    pub fn set_site_events(&mut self, events: SiteEvents) {
        self.tree.tell_filters();
        self.site_events = Some(Box::new(events));
    }

    /// What is shown of messages between sites; none where the node is neither a site nor a centre.
    #[must_use]
    pub fn site_events(&self) -> Option<SiteEventsSeen> {
        let events = self.site_events.as_deref()?;
        Some(SiteEventsSeen { filters: events.local.len(), topics: events.shown.len(), ..events.seen })
    }

    /// The rules have changed: what a site may read is not known any more.
    pub(super) fn forget_rights_of_sites(&mut self) {
        if let Some(Side::Centre { peers, .. }) = self.site_events.as_deref_mut().map(|events| &mut events.side) {
            peers.values_mut().for_each(|peer| peer.read = None);
        }
    }

    /// Sends a value of this node to the centre, where it is shared and asked for.
    pub(super) fn share_value(&mut self, (topic, id): (&Topic, TopicId), body: &Body, retain: bool) {
        if self.is_shared(topic) {
            let message = (topic.clone(), Bytes::new(), body.to_payload());
            self.send_to_centre(id, message, Qos::AtLeastOnce, retain);
        }
    }

    /// The same for a message.
    pub(super) fn share_message(&mut self, id: TopicId, message: &Message, qos: Qos, retain: bool) {
        if self.is_shared(&message.topic) {
            let Message { topic, payload, properties, .. } = message;
            self.send_to_centre(id, (topic.clone(), properties.bytes(), payload.clone()), qos, retain);
        }
    }

    fn is_shared(&self, topic: &str) -> bool {
        match self.site_events.as_deref().map(|events| &events.side) {
            Some(Side::Site { asked, .. }) => asked.iter().any(|filter| filter.matches(topic)),
            Some(Side::Centre { .. }) | None => false,
        }
    }

    fn send_to_centre(
        &mut self,
        id: TopicId,
        (topic, properties, payload): (Topic, Bytes, Bytes),
        qos: Qos,
        retain: bool,
    ) {
        let class = class_of(self.tree.lane(id));
        let (source, qos) = (Arc::from(""), qos.bits());
        let event =
            Event { source, run: 0, number: 0, class, qos, retain, is_state: false, topic, properties, payload };
        if let Some(events) = self.site_events.as_deref_mut() {
            events.send(None, vec![event]);
        }
    }

    /// Takes messages of other sites: to clients here, and at a centre to the sites that want them.
    pub(super) fn take_events(&mut self, now: Now, all: Vec<Event>) {
        self.learn_rights(None);
        let has_guard = self.guard.is_some();
        let mut onward: BTreeMap<Arc<str>, Vec<Event>> = BTreeMap::new();
        for event in all {
            let Ok(topic) = Topic::new(&format!("{PREFIX}{}/{}", event.source, event.topic)) else {
                self.count_left_out();
                continue;
            };
            let Some(events) = self.site_events.as_deref_mut() else { return };
            if let Side::Centre { latest, .. } = &mut events.side
                && let Some(mark) = latest.entry(Arc::clone(&event.source)).or_default().get_mut(event.class.place())
            {
                *mark = (event.run, event.number);
            }
            // It was on its way when it was no longer asked for.
            if !events.is_wanted(&topic) {
                continue;
            }
            if let Side::Centre { peers, .. } = &events.side {
                for (name, peer) in peers.iter().filter(|(name, _)| **name != event.source) {
                    if !peer.wants(&topic) {
                        continue;
                    }
                    if has_guard && !may_read(peer, &topic) {
                        events.seen.denied += 1;
                        continue;
                    }
                    onward.entry(Arc::clone(name)).or_default().push(event.clone());
                }
            }
            self.show_event(now, topic, event);
        }
        if let Some(events) = self.site_events.as_deref_mut() {
            onward.into_iter().for_each(|(site, some)| events.send(Some(site), some));
        }
        self.work.notify_one();
    }

    fn count_left_out(&mut self) {
        if let Some(events) = self.site_events.as_deref_mut() {
            events.seen.left_out += 1;
        }
    }

    /// Publishes a message of a site here.
    fn show_event(&mut self, now: Now, topic: Topic, event: Event) {
        let Event { class, qos, retain, is_state, properties, payload, .. } = event;
        let (Ok(properties), Some(qos)) = (Properties::of_message(properties), Qos::from_bits(qos)) else {
            return self.count_left_out();
        };
        let is_there = is_state && self.tree.get(&topic).is_some_and(|view| view.body.to_payload() == payload);
        let Some(events) = self.site_events.as_deref_mut() else { return };
        let shown = ShownEvent { class, doubts: events.doubts };
        if is_there {
            events.shown.entry(topic).and_modify(|known| *known = shown);
            return;
        }
        let has_room = events.shown.len() < SHOWN_MAX || events.shown.contains_key(&topic);
        let retain = retain && (has_room || payload.is_empty());
        match (retain, payload.is_empty()) {
            (true, false) => drop(events.shown.insert(topic.clone(), shown)),
            (true, true) => drop(events.shown.remove(&topic)),
            (false, _) => {}
        }
        events.seen.shown += 1;
        let body = Body::read(payload.clone());
        let message = Message { topic, payload, properties, received: now.mono };
        // A last value comes again after a restart; what is none waits for sessions over a restart.
        let origin = if retain { Origin::Upstream(None, None) } else { Origin::Client(None) };
        if self.apply_from(now, message, &body, (qos, retain), origin).is_err() {
            self.count_left_out();
        }
    }
}

/// Whether a site may read a topic; where there are no rules, each may.
fn may_read(peer: &Peer, topic: &str) -> bool {
    peer.read.as_ref().is_none_or(|read| read.allows(topic))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters(texts: &[&str]) -> Vec<Filter> {
        texts.iter().map(|text| Filter::new(text).unwrap()).collect()
    }

    /// What is told to the thread: whom is asked for what.
    fn told(inputs: &mut mpsc::Receiver<EventInput>) -> Vec<String> {
        std::iter::from_fn(|| inputs.try_recv().ok())
            .map(|input| match input {
                EventInput::Want(of, filters) => {
                    let texts: Vec<&str> = filters.iter().map(|filter| &**filter).collect();
                    format!("{}: {}", of.as_deref().unwrap_or("centre"), texts.join(" "))
                }
                EventInput::Send(..) => panic!("nothing is sent"),
            })
            .collect()
    }

    #[test]
    fn a_site_is_asked_for_what_others_have_subscribed_and_not_for_what_it_has_itself() {
        let (sender, mut inputs) = mpsc::channel(8);
        let mut events = SiteEvents::of_centre(sender);
        ["north", "south"].into_iter().for_each(|site| events.add_site(site.into()));
        assert!(events.tell());
        assert_eq!(told(&mut inputs), Vec::<String>::new());
        let Side::Centre { peers, .. } = &mut events.side else { panic!("a centre") };
        peers.get_mut("north").unwrap().filters = filters(&["$sites/+/alarms/#"]);
        assert!(events.tell());
        assert_eq!(told(&mut inputs), ["south: alarms/#"]);
        events.filter_changed(&filters(&["$sites/north/notes"])[0], true);
        events.filter_changed(&filters(&["plant/#"])[0], true);
        events.filter_changed(&filters(&["$sites/south/alarms/1"])[0], true);
        assert!(events.tell());
        // What another filter covers is not asked for besides.
        assert_eq!(told(&mut inputs), ["north: notes"]);
        events.filter_changed(&filters(&["$sites/north/notes"])[0], false);
        assert!(events.tell());
        assert_eq!(told(&mut inputs), ["north: "]);
        assert!(events.is_wanted("$sites/south/alarms/1") && !events.is_wanted("$sites/south/notes"));
    }

    #[test]
    fn what_the_thread_has_no_room_for_is_counted() {
        let (sender, mut inputs) = mpsc::channel(1);
        let mut events = SiteEvents::of_site(&filters(&["alarms/#"]), sender);
        events.filter_changed(&filters(&["$sites/south/a"])[0], true);
        assert!(events.tell() && !events.tell());
        assert_eq!(told(&mut inputs), ["centre: south/a"]);
    }
}
