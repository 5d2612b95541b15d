//! What came of the upstream and the bus has not taken yet.
//!
//! It is a queue as long as the bus keeps up. Where more waits than [`QUEUE_MAX`], only the newest value of each topic stays: so
//! it is bounded by the topics, and a bus that was busy goes on with what is true now.

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
/// News of one report.
const REPORT_MAX: usize = 512;

/// The queue.
#[derive(Debug)]
pub struct Inbox {
    queue: std::collections::VecDeque<EdgeNews>,
    /// How many may wait before the queue is looked through.
    max: usize,
    counters: Arc<EdgeCounters>,
    ready: Rc<Notify>,
}

impl Inbox {
    /// An empty one.
    #[must_use]
    pub fn new(counters: Arc<EdgeCounters>) -> Self {
        Self { queue: Default::default(), max: QUEUE_MAX, counters, ready: Rc::default() }
    }

    /// Told where there is something to be taken.
    #[must_use]
    pub fn ready(&self) -> Rc<Notify> {
        Rc::clone(&self.ready)
    }

    /// One more.
    pub fn push(&mut self, news: EdgeNews) {
        self.queue.push_back(news);
        self.ready.notify_one();
        if self.queue.len() > self.max {
            self.leave_out();
        }
    }

    /// What is handed over next.
    pub fn take(&mut self) -> Vec<EdgeNews> {
        let taken = self.queue.drain(..self.queue.len().min(REPORT_MAX)).collect();
        if self.queue.is_empty() {
            self.max = QUEUE_MAX;
        }
        taken
    }

    /// Leaves out values that newer ones take the place of, and the oldest messages above their limit.
    fn leave_out(&mut self) {
        let (mut seen, mut messages) = (HashSet::<Topic>::new(), 0);
        let (mut conflated, mut dropped) = (0, 0);
        let mut kept: Vec<EdgeNews> = Vec::new();
        while let Some(news) = self.queue.pop_back() {
            let stays = match &news {
                EdgeNews::Value { topic, .. } => seen.insert(topic.clone()),
                EdgeNews::Message { message, retain: true, .. } => seen.insert(message.topic.clone()),
                EdgeNews::Message { retain: false, .. } => {
                    messages += 1;
                    let stays = messages <= MESSAGES_MAX;
                    dropped += usize::from(!stays);
                    stays || {
                        continue;
                    }
                }
                EdgeNews::Link(_) | EdgeNews::CaughtUp | EdgeNews::Refused(..) | EdgeNews::Answer { .. } => true,
            };
            conflated += usize::from(!stays);
            if stays {
                kept.push(news);
            }
        }
        self.queue.extend(kept.into_iter().rev());
        self.max = QUEUE_MAX.max(2 * self.queue.len());
        EdgeCounters::add(&self.counters.conflated, conflated);
        EdgeCounters::add(&self.counters.dropped, dropped);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::Ordering;
    use tieline_core::{Body, Instant};
    use tieline_mqtt::Message;

    #[test]
    fn a_busy_bus_gets_the_newest_value_of_each_topic() {
        let counters = Arc::<EdgeCounters>::default();
        let mut inbox = Inbox::new(Arc::clone(&counters));
        let topic = |i: usize| Topic::new(&format!("t{}", i % 100)).unwrap();
        let text = |i: usize| Body::read(format!("\"{i}\"").into());
        inbox.push(EdgeNews::Refused(tieline_core::Filter::new("x").unwrap(), None));
        for i in 0..20_000 {
            inbox.push(EdgeNews::Value { topic: topic(i), body: text(i), ready: None });
            if i % 4 == 0 {
                let message = Box::new(Message::new(topic(i), "m", Instant::ZERO));
                inbox.push(EdgeNews::Message { message, body: Body::empty(), retain: false });
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
