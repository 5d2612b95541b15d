//! What came of the upstream and the bus has not taken yet.
//!
//! It is a queue as long as the bus keeps up. Where more waits than [`QUEUE_MAX`], only the newest value of each topic stays: a bus
//! that was busy goes on with what is true now. From [`BYTES_MAX`] on the upstream has to wait, and conflates in its turn: what an
//! edge needs is bounded, however many topics there are and however large their values.

use super::desk::Upward;
use super::{EdgeCounters, EdgeNews};
use std::collections::HashSet;
use std::rc::Rc;
use std::sync::Arc;
use tieline_core::Topic;
use tokio::sync::Notify;

/// News that wait before older values are left out.
const QUEUE_MAX: usize = 8192;
/// Messages that are no last values and stay then.
const MESSAGES_MAX: usize = 4096;
/// Bytes that wait before no more is read. The upstream goes on when half of them are gone.
const BYTES_MAX: usize = 32 * 1024 * 1024;
/// What one of the news takes besides its payload.
const NEWS_BYTES: usize = 256;
/// News of one report.
const REPORT_MAX: usize = 512;

/// The queue.
#[derive(Debug)]
pub struct Inbox {
    queue: std::collections::VecDeque<EdgeNews>,
    /// How many may wait before the queue is looked through.
    max: usize,
    /// What the news in the queue take.
    bytes: usize,
    is_held: bool,
    counters: Arc<EdgeCounters>,
    ready: Rc<Notify>,
}

impl Inbox {
    /// An empty one.
    #[must_use]
    pub fn new(counters: Arc<EdgeCounters>) -> Self {
        Self { queue: Default::default(), max: QUEUE_MAX, bytes: 0, is_held: false, counters, ready: Rc::default() }
    }

    /// Told where there is something to be taken.
    #[must_use]
    pub fn ready(&self) -> Rc<Notify> {
        Rc::clone(&self.ready)
    }

    /// One more.
    pub fn push(&mut self, news: EdgeNews) {
        self.bytes += size(&news);
        self.queue.push_back(news);
        self.ready.notify_one();
        if self.queue.len() > self.max {
            self.leave_out();
        }
    }

    /// What is handed over next.
    pub fn take(&mut self) -> Vec<EdgeNews> {
        let taken: Vec<_> = self.queue.drain(..self.queue.len().min(REPORT_MAX)).collect();
        self.bytes -= taken.iter().map(size).sum::<usize>();
        if self.queue.is_empty() {
            self.max = QUEUE_MAX;
        }
        taken
    }

    /// Lets the upstream wait, or go on.
    pub fn hold(&mut self, session: &Upward) {
        if let Some(is_held) = self.poll_hold() {
            session.with(|m, _| m.hold_input(is_held));
        }
    }

    /// Whether the upstream has to wait, where that has changed since it was asked last.
    fn poll_hold(&mut self) -> Option<bool> {
        let is_held = self.bytes > if self.is_held { BYTES_MAX / 2 } else { BYTES_MAX };
        let has_changed = std::mem::replace(&mut self.is_held, is_held) != is_held;
        EdgeCounters::add(&self.counters.held, usize::from(has_changed && is_held));
        has_changed.then_some(is_held)
    }

    /// Leaves out values that newer ones take the place of, and the oldest messages above their limit.
    fn leave_out(&mut self) {
        let (mut seen, mut messages) = (HashSet::<Topic>::new(), 0);
        let (mut conflated, mut dropped) = (0, 0);
        let mut kept: Vec<EdgeNews> = Vec::new();
        while let Some(news) = self.queue.pop_back() {
            let stays = match &news {
                EdgeNews::Value { topic, .. } | EdgeNews::Removed(topic) => seen.insert(topic.clone()),
                EdgeNews::Message { message, retain: true, .. } => seen.insert(message.topic.clone()),
                EdgeNews::Message { retain: false, .. } => {
                    messages += 1;
                    let stays = messages <= MESSAGES_MAX;
                    dropped += usize::from(!stays);
                    stays || {
                        continue;
                    }
                }
                EdgeNews::Link(_)
                | EdgeNews::Connected(_)
                | EdgeNews::Again
                | EdgeNews::CaughtUp
                | EdgeNews::Nodes(_)
                | EdgeNews::Refused(..)
                | EdgeNews::Answer { .. }
                | EdgeNews::Reply { .. } => true,
            };
            conflated += usize::from(!stays);
            if stays {
                kept.push(news);
            }
        }
        self.bytes = kept.iter().map(size).sum();
        self.queue.extend(kept.into_iter().rev());
        self.max = QUEUE_MAX.max(2 * self.queue.len());
        EdgeCounters::add(&self.counters.conflated, conflated);
        EdgeCounters::add(&self.counters.dropped, dropped);
    }
}

fn size(news: &EdgeNews) -> usize {
    NEWS_BYTES
        + match news {
            EdgeNews::Value { body, .. } => body.value_bytes(),
            EdgeNews::Message { message, .. } => message.payload.len(),
            EdgeNews::Reply { payload, .. } => payload.len(),
            EdgeNews::Link(_)
            | EdgeNews::Connected(_)
            | EdgeNews::Again
            | EdgeNews::CaughtUp
            | EdgeNews::Nodes(_)
            | EdgeNews::Refused(..)
            | EdgeNews::Removed(_)
            | EdgeNews::Answer { .. } => 0,
        }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;
    use tieline_core::{Body, Instant};
    use tieline_mqtt::Message;

    #[test]
    fn the_upstream_waits_while_too_many_bytes_do() {
        let mut inbox = Inbox::new(Arc::default());
        let body = Body::read(vec![b'x'; BYTES_MAX / 8].into());
        let value = |at: usize| EdgeNews::Value { topic: topic(at), body: body.clone(), ready: None, version: None };
        let mut changes = Vec::new();
        for at in 0..8 {
            inbox.push(value(at));
            changes.push(inbox.poll_hold());
        }
        assert_eq!((changes.pop(), changes), (Some(Some(true)), [None; 7].into()));
        assert_eq!((inbox.take().len(), inbox.poll_hold(), inbox.bytes), (8, Some(false), 0));
    }

    fn topic(at: usize) -> Topic {
        Topic::new(&format!("t{}", at % 100)).unwrap()
    }

    #[test]
    fn a_busy_bus_gets_the_newest_value_of_each_topic() {
        let counters = Arc::<EdgeCounters>::default();
        let mut inbox = Inbox::new(Arc::clone(&counters));
        let text = |i: usize| Body::read(format!("\"{i}\"").into());
        inbox.push(EdgeNews::Refused(tieline_core::Filter::new("x").unwrap(), None));
        for i in 0..20_000 {
            inbox.push(EdgeNews::Value { topic: topic(i), body: text(i), ready: None, version: None });
            if i % 4 == 0 {
                let message = Box::new(Message::new(topic(i), "m", Instant::ZERO));
                inbox.push(EdgeNews::Message { message, body: Body::empty(), retain: false, version: None });
            }
        }
        let news: Vec<EdgeNews> =
            std::iter::from_fn(|| Some(inbox.take()).filter(|news| !news.is_empty())).flatten().collect();
        assert!(news.len() < 2 * QUEUE_MAX, "{}", news.len());
        assert!(matches!(news.first(), Some(EdgeNews::Refused(..))), "what is no value stays");
        for i in 0..100 {
            let last = news.iter().rev().find_map(|news| match news {
                EdgeNews::Value { topic: of, body, .. } if *of == topic(i) => Some(body.clone()),
                _ => None,
            });
            assert_eq!(last, Some(text(19_900 + i)));
        }
        let of = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let messages = news.iter().filter(|news| matches!(news, EdgeNews::Message { .. })).count();
        assert_eq!(of(&counters.dropped) + u64::try_from(messages).unwrap(), 5000);
        assert_eq!(of(&counters.conflated) + of(&counters.dropped) + u64::try_from(news.len()).unwrap(), 25_001);
    }
}
