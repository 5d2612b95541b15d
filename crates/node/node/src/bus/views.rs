//! Derived topics on the bus: each update of a source goes through the views, and what they make is applied like an
//! update of the node's own. It is not recorded: history has the sources.

use super::state::Bus;
use bytes::Bytes;
use tieline_core::{Body, Instant, Now, Topic};
use tieline_views::{Stats, Views};

impl Bus {
    /// From the start on, topics are derived.
    pub fn set_views(&mut self, views: Views) {
        self.views = Some(Box::new(views));
    }

    /// What the views have done; none where there are none.
    #[must_use]
    pub fn view_stats(&self) -> Option<Stats> {
        self.views.as_ref().map(|views| views.stats())
    }

    /// A topic has another value, or none any more.
    pub(super) fn derive(&mut self, now: Now, topic: &Topic, body: &Body) {
        let Some(views) = self.views.as_deref_mut() else { return };
        if views.takes(topic) {
            let gone = matches!(body, Body::Opaque(octets) if octets.is_empty());
            views.handle_update(now.mono, topic, Some(body).filter(|_| !gone));
            self.apply_derived(now);
        }
    }

    /// Applies what is due.
    pub(super) fn derive_due(&mut self, now: Now) {
        let Some(views) = self.views.as_deref_mut() else { return };
        if views.timeout().is_some_and(|due| due <= now.mono) {
            views.handle_timeout(now.mono);
            self.apply_derived(now);
        }
    }

    /// When something is due.
    pub(super) fn views_timeout(&self) -> Option<Instant> {
        self.views.as_ref()?.timeout()
    }

    fn apply_derived(&mut self, now: Now) {
        while let Some(output) = self.views.as_deref_mut().and_then(Views::poll_output) {
            // An empty payload takes the value away ([MQTT-3.3.1-6]).
            let body = output.body.unwrap_or(Body::Opaque(Bytes::new()));
            self.apply_value(now, output.topic, body, true);
        }
    }
}
