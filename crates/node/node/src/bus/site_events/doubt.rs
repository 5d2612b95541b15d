//! Last values of other sites whose link is lost: they are marked `away`, a slice a turn, as an edge marks those of its upstream.
//!
//! The other end sends its last values again when the link is back: what came since the doubt is not marked, and what is marked has
//! its own quality again. A centre tells the sites that want them.

use super::{PREFIX, Side};
use crate::bus::apply::Origin;
use crate::bus::asks::Step;
use crate::bus::sites::marked;
use crate::bus::state::Bus;
use crate::sites::EventPeer;
use std::collections::BTreeMap;
use std::sync::Arc;
use tieline_core::{Body, Now, Topic};
use tieline_mqtt::Message;
use tieline_relay::Event;

/// Values that are marked in a step.
const STEP: usize = 256;
/// For whom the bus works through values.
const USER: &str = "$site-events";

impl Bus {
    /// The other end of a link is lost, or is another process: what it does not send again is in doubt.
    pub(in crate::bus) fn doubt_events(&mut self, from: &EventPeer) {
        let Some(events) = self.site_events.as_deref_mut() else { return };
        events.doubts += 1;
        let doubts = events.doubts;
        let below = from.as_ref().map_or_else(|| PREFIX.to_owned(), |site| format!("{PREFIX}{site}/"));
        let mut left: Vec<Topic> =
            events.shown.keys().filter(|topic| topic.starts_with(below.as_str())).cloned().collect();
        if left.is_empty() {
            return;
        }
        let ask = move |bus: &mut Self, now| {
            let some = left.split_off(left.len().saturating_sub(STEP));
            bus.mark_events(now, &some, doubts);
            if left.is_empty() { Step::Done } else { Step::Again }
        };
        self.ask_on(&USER.into(), Box::new(ask));
    }

    fn mark_events(&mut self, now: Now, topics: &[Topic], doubts: u64) {
        self.learn_rights(None);
        let mut onward: BTreeMap<Arc<str>, Vec<Event>> = BTreeMap::new();
        for topic in topics {
            if !self.mark_event(now, topic, doubts) {
                continue;
            }
            let Some(Side::Centre { peers, .. }) = self.site_events.as_deref().map(|events| &events.side) else {
                continue;
            };
            for (site, _) in peers.iter().filter(|(_, peer)| peer.wants(topic)) {
                let event = self.tree.get(topic).and_then(|view| self.state_event(Some(site), view));
                if let Some(event) = event {
                    onward.entry(Arc::clone(site)).or_default().push(event);
                }
            }
        }
        if let Some(events) = self.site_events.as_deref_mut() {
            onward.into_iter().for_each(|(site, some)| events.send(Some(site), some));
        }
    }

    /// Marks a value that did not come since; whether it is another one now.
    fn mark_event(&mut self, now: Now, topic: &Topic, doubts: u64) -> bool {
        let shown = self.site_events.as_deref().and_then(|events| events.shown.get(topic));
        let is_late = shown.is_some_and(|shown| shown.doubts < doubts);
        let Some(view) = self.tree.get(topic).filter(|_| is_late) else { return false };
        // Of what states no quality, none can be changed.
        let Some(point) = marked(view.body, view.time) else { return false };
        let metadata = self.retained.metadata(&view, now.mono);
        let (qos, properties) = (metadata.qos, metadata.properties.clone());
        let payload = Body::Point(point).to_payload();
        let body = Body::read(payload.clone());
        let message = Message { topic: topic.clone(), payload, properties, received: now.mono };
        let marked = self.apply_from(now, message, &body, (qos, true), Origin::Upstream(None, None));
        if marked.is_err() {
            self.count_left_out();
        }
        marked.is_ok()
    }
}
