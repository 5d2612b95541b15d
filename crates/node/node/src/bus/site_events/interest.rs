//! What is wanted of messages: what this end tells the others, and the last values that they get for what they ask.

use super::{PREFIX, Side, class_of, may_read};
use crate::bus::state::Bus;
use crate::sites::EventPeer;
use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;
use tieline_core::{Filter, Now, Topic};
use tieline_relay::Event;

/// Last values that are sent at a time to who asks for them, and their bytes.
const STATE_MAX: usize = 10_000;
const STATE_BYTES_MAX: usize = 4 << 20;
/// Topics of a page of them.
const PAGE: usize = 512;

impl Bus {
    /// Tells the thread what clients, and sites, have subscribed since; removes what nobody wants any more.
    pub(in crate::bus) fn tell_interest(&mut self, now: Now) {
        let Some(events) = self.site_events.as_deref_mut() else { return };
        if events.is_changed {
            events.is_changed = !events.tell();
        }
        if std::mem::take(&mut events.has_ended) {
            let unwanted: Vec<Topic> = events.shown.keys().filter(|topic| !events.is_wanted(topic)).cloned().collect();
            for topic in unwanted {
                if let Some(events) = self.site_events.as_deref_mut() {
                    events.shown.remove(&topic);
                }
                self.remove_value(now, &topic);
            }
        }
    }

    /// Takes what a site, or the centre, wants of what is published here. Last values go first.
    pub(in crate::bus) fn take_interest(&mut self, by: EventPeer, filters: Vec<Filter>, is_again: bool) {
        let Some(events) = self.site_events.as_deref_mut() else { return };
        let known = match (&mut events.side, &by) {
            (Side::Site { share, asked }, None) => {
                let common = |filter: &Filter| share.iter().filter_map(|shared| shared.common(filter)).collect();
                let there: BTreeSet<Filter> =
                    filters.iter().flat_map(|filter| -> Vec<Filter> { common(filter) }).collect();
                std::mem::replace(asked, there.into_iter().collect())
            }
            (Side::Centre { peers, .. }, Some(site)) => {
                let here = |filter: &Filter| Filter::new(&format!("{PREFIX}{filter}")).ok();
                let peer = peers.entry(Arc::clone(site)).or_default();
                (events.is_changed, events.has_ended) = (true, true);
                std::mem::replace(&mut peer.filters, filters.iter().filter_map(here).collect())
            }
            (Side::Site { .. }, Some(_)) | (Side::Centre { .. }, None) => return,
        };
        let now = match &events.side {
            Side::Site { asked, .. } => asked,
            Side::Centre { peers, .. } => match by.as_ref().and_then(|site| peers.get(site)) {
                Some(peer) => &peer.filters,
                None => return,
            },
        };
        let new: Vec<Filter> = now.iter().filter(|filter| is_again || !known.contains(filter)).cloned().collect();
        self.send_state(by, &new);
        self.work.notify_one();
    }

    /// Sends the last values that filters select.
    fn send_state(&mut self, to: EventPeer, filters: &[Filter]) {
        self.learn_rights(to.as_deref());
        let (mut state, mut known, mut bytes) = (Vec::new(), HashSet::new(), 0);
        for filter in filters {
            let mut after = None;
            loop {
                let page = self.tree.list(filter, after.as_ref(), PAGE);
                for view in page.items {
                    let Some(event) =
                        self.state_event(to.as_deref(), view).filter(|_| known.insert(view.topic.clone()))
                    else {
                        continue;
                    };
                    bytes += event.bytes();
                    state.push(event);
                }
                after = page.after.and_then(|after| Topic::new(&after).ok());
                if after.is_none() || state.len() >= STATE_MAX || bytes >= STATE_BYTES_MAX {
                    break;
                }
            }
        }
        if let Some(events) = self.site_events.as_deref_mut() {
            events.send(to, state);
        }
    }

    /// A last value as the message that it was; none where it is not for this end.
    pub(super) fn state_event(&self, to: Option<&str>, view: tieline_topics::View<'_>) -> Option<Event> {
        let events = self.site_events.as_deref()?;
        let metadata = self.retained.metadata(&view, self.now().mono);
        let (source, topic, class, (run, number)) = match &events.side {
            Side::Site { .. } => (Arc::from(""), view.topic.clone(), class_of(view.lane), (0, 0)),
            Side::Centre { peers, latest } => {
                let class = events.shown.get(view.topic)?.class;
                let (site, topic) = view.topic.strip_prefix(PREFIX)?.split_once('/')?;
                if Some(site) == to || !may_read(peers.get(to?)?, view.topic) {
                    return None;
                }
                let (source, numbers) = latest.get_key_value(site)?;
                (Arc::clone(source), Topic::new(topic).ok()?, class, *numbers.get(class.place())?)
            }
        };
        let (qos, properties, payload) = (metadata.qos.bits(), metadata.properties.bytes(), view.body.to_payload());
        Some(Event { source, run, number, class, qos, retain: true, is_state: true, topic, properties, payload })
    }

    /// Finds what a site may read, where that is not known.
    pub(super) fn learn_rights(&mut self, site: Option<&str>) {
        let Self { guard, site_events, .. } = self;
        let (Some(guard), Some(Side::Centre { peers, .. })) = (guard, site_events.as_deref_mut().map(|e| &mut e.side))
        else {
            return;
        };
        for (name, peer) in
            peers.iter_mut().filter(|(name, peer)| peer.read.is_none() && site.is_none_or(|s| s == &***name))
        {
            peer.read = Some(guard.read_filter_of_site(name));
        }
    }
}
