//! Records updates that pass the bus, with receipts for publishers that wait until they are stored.
//!
//! A turn of the bus gives one batch. A publisher that must not be acknowledged before the batch is durable leaves a
//! receipt with it, which comes back when the journal has it, or has refused it. What a receipt is, history does not know.

use crate::config::HistoryConfig;
use std::collections::HashSet;
use std::time::Duration;
use tieline_core::{Body, Filter, Now, PublishedPoint, Quality, Timestamp, Topic, Update};
use tieline_derived::Reading;
use tieline_history::{HistoryHandle, HistoryState, HistoryStatus};
use tieline_journal::Sample;
use tokio::sync::mpsc;

/// What was stored (true) or was not, told by its receipts.
pub type Stored<R> = (Vec<R>, bool);

/// A sample as history has it: its topic, its time, its value.
pub type Tapped = (Topic, Timestamp, Reading);

/// Where updates are recorded.
#[derive(Debug)]
enum Writer {
    /// History is off.
    Off,
    /// History cannot be opened: nothing is recorded, and what waits is told so.
    Closed { state: HistoryState, dropped: u64, refused: u64 },
    /// History is open. Counts are those of the time before.
    Open { history: HistoryHandle, dropped: u64, refused: u64 },
}

/// Collects what is to be recorded; `R` is a receipt.
#[derive(Debug)]
pub struct Recorder<R> {
    record: Vec<Filter>,
    writer: Writer,
    times: Times,
    samples: Vec<Sample>,
    /// Bytes of their payloads, roughly.
    bytes: usize,
    receipts: Vec<R>,
    /// Devices whose points are not published one by one.
    unpublished: HashSet<Topic>,
    /// Topics that derived series take, and samples of them that were recorded since they were taken.
    tapped: (HashSet<Topic>, Vec<Tapped>),
    /// Bounded by what was recorded: a receipt comes back once.
    stored: mpsc::UnboundedSender<Stored<R>>,
}

impl<R: Send + 'static> Recorder<R> {
    /// Records what the configuration names; `history` is none where it is off. `unpublished` are the devices whose
    /// points are not published one by one. Receipts come back by `stored`.
    #[must_use]
    pub fn new(
        config: &HistoryConfig,
        history: Option<Result<HistoryHandle, HistoryState>>,
        unpublished: HashSet<Topic>,
        stored: mpsc::UnboundedSender<Stored<R>>,
    ) -> Self {
        let (record, writer, times) = (config.record.clone(), Writer::Off, Times::default());
        let (samples, receipts) = (Vec::new(), Vec::new());
        let mut recorder = Self {
            record,
            writer,
            times,
            samples,
            bytes: 0,
            receipts,
            unpublished,
            tapped: Default::default(),
            stored,
        };
        if let Some(history) = history {
            recorder.set_history(history);
        }
        recorder
    }

    /// History was opened, or cannot be.
    pub fn set_history(&mut self, history: Result<HistoryHandle, HistoryState>) {
        let (dropped, refused) = match self.writer {
            Writer::Off => (0, 0),
            Writer::Closed { dropped, refused, .. } | Writer::Open { dropped, refused, .. } => (dropped, refused),
        };
        self.writer = match history {
            Ok(history) => Writer::Open { history, dropped, refused },
            Err(state) => Writer::Closed { state, dropped, refused },
        };
    }

    /// Where samples go in that do not pass the bus; none where history is off or cannot be opened.
    #[must_use]
    pub fn handle(&self) -> Option<HistoryHandle> {
        match &self.writer {
            Writer::Off | Writer::Closed { .. } => None,
            Writer::Open { history, .. } => Some(history.clone()),
        }
    }

    /// Says which devices' points are not published one by one from here on.
    pub fn set_unpublished(&mut self, unpublished: HashSet<Topic>) {
        self.unpublished = unpublished;
    }

    /// Takes an update, if it is to be recorded; `receipt` will come back then.
    ///
    /// # Errors
    /// It is not to be recorded; the receipt.
    pub fn record(&mut self, now: Now, update: &Update, receipt: Option<R>) -> Result<(), Option<R>> {
        if !self.records(update) {
            return Err(receipt);
        }
        let sample = Sample::new(self.times.next(now.utc), update.clone());
        self.record_sample(sample, receipt);
        Ok(())
    }

    /// Takes an update of a time that has passed, if it is to be recorded and was not recorded before.
    pub fn record_past(&mut self, now: Now, update: Update) {
        if self.records(&update) {
            self.record_sample(Sample { again: true, ..Sample::new(now.utc, update) }, None);
        }
    }

    /// Takes an update of the node's own, whatever is to be recorded otherwise.
    pub fn record_own(&mut self, time: Timestamp, update: Update) {
        if !matches!(self.writer, Writer::Off) {
            self.record_sample(Sample::new(time, update), None);
        }
    }

    /// A time that no other message is recorded with: by it a message is known to history when it is recorded again.
    pub fn own_time(&mut self, now: Now) -> Timestamp {
        self.times.own(now.utc)
    }

    /// Takes a sample that is to be recorded; `receipt` will come back.
    pub fn record_sample(&mut self, sample: Sample, receipt: Option<R>) {
        self.tap_sample(&sample);
        self.bytes += bytes_of(&sample.update);
        self.samples.push(sample);
        self.receipts.extend(receipt);
    }

    /// Keeps a sample for [`Recorder::take_tapped`], if its topic is meant: one that is recorded here, or that a site recorded.
    pub fn tap_sample(&mut self, sample: &Sample) {
        if self.taps(&sample.update.topic) {
            self.tapped.1.push(tapped(sample));
        }
    }

    /// Whether samples of a topic are kept.
    #[must_use]
    pub fn taps(&self, topic: &Topic) -> bool {
        !self.tapped.0.is_empty() && self.tapped.0.contains(topic)
    }

    /// Keeps the samples of these topics for [`Recorder::take_tapped`], from here on.
    pub fn tap(&mut self, topics: HashSet<Topic>) {
        self.tapped.0 = topics;
    }

    /// The samples of tapped topics that were recorded since they were taken last.
    pub fn take_tapped(&mut self) -> Vec<Tapped> {
        std::mem::take(&mut self.tapped.1)
    }

    /// Whether there are some.
    #[must_use]
    pub const fn has_tapped(&self) -> bool {
        !self.tapped.1.is_empty()
    }

    /// Whether an update is to be recorded.
    #[must_use]
    pub fn records(&self, update: &Update) -> bool {
        // A cleared topic has no value to record.
        !update.body.is_empty()
            && !matches!(self.writer, Writer::Off)
            && self.record.iter().any(|filter| filter.matches(&update.topic))
    }

    /// Whether an update is to be recorded and history takes nothing now: to be asked before anything is done with what has
    /// to be stored before it is acknowledged. A refusal is counted.
    pub fn refuses(&mut self, update: &Update) -> bool {
        if !self.records(update) {
            return false;
        }
        let (points, bytes) = (self.samples.len() + 1, self.bytes + bytes_of(update));
        let refused = match &mut self.writer {
            Writer::Off => None,
            Writer::Closed { refused, .. } => Some(refused),
            Writer::Open { history, refused, .. } => (!history.has_room(points, bytes)).then_some(refused),
        };
        refused.map(|refused| *refused += 1).is_some()
    }

    /// Whether a device's update is for history alone.
    #[must_use]
    pub fn is_unpublished(&self, update: &Update) -> bool {
        let above = |path: &str| path.rfind('/').and_then(|end| path.get(..end)).map(str::len);
        if self.unpublished.is_empty() || !matches!(update.body, Body::Point(_)) {
            return false;
        }
        let path: &str = &update.topic;
        let ends = std::iter::successors(above(path), |end| above(path.get(..*end)?));
        ends.filter_map(|end| path.get(..end)).any(|device| self.unpublished.contains(device))
    }

    /// Adds somebody who waits for what was recorded so far in this turn.
    pub fn await_stored(&mut self, receipt: R) {
        self.receipts.push(receipt);
    }

    /// Whether there is something for [`Recorder::submit`].
    #[must_use]
    pub const fn has_batch(&self) -> bool {
        !self.samples.is_empty() || !self.receipts.is_empty()
    }

    /// Hands the turn's batch to the journal. Returns the receipts that need not wait, and whether they are stored.
    pub fn submit(&mut self) -> Option<Stored<R>> {
        let receipts = std::mem::take(&mut self.receipts);
        let samples = std::mem::take(&mut self.samples);
        self.bytes = 0;
        if samples.is_empty() {
            return (!receipts.is_empty()).then_some((receipts, true));
        }
        match &mut self.writer {
            Writer::Off => (!receipts.is_empty()).then_some((receipts, true)),
            Writer::Closed { dropped, refused, .. } => {
                let count = if receipts.is_empty() { dropped } else { refused };
                *count += samples.len() as u64;
                (!receipts.is_empty()).then_some((receipts, false))
            }
            Writer::Open { history, .. } if receipts.is_empty() => {
                history.record(samples);
                None
            }
            Writer::Open { history, .. } => {
                let told = self.stored.clone();
                // Who has stopped needs no receipts.
                let told = Box::new(move |stored: Result<_, _>| drop(told.send((receipts, stored.is_ok()))));
                history.submit(samples, told);
                None
            }
        }
    }

    /// How history is doing; none where it is off.
    #[must_use]
    pub fn status(&self) -> Option<HistoryStatus> {
        let (mut status, dropped, refused) = match &self.writer {
            Writer::Off => return None,
            Writer::Closed { state, dropped, refused } => {
                (HistoryStatus { state: state.clone(), ..HistoryStatus::default() }, dropped, refused)
            }
            Writer::Open { history, dropped, refused } => (history.status(), dropped, refused),
        };
        status.dropped_points += dropped;
        status.refused_points += refused;
        Some(status)
    }
}

/// A sample with the time and the value that history has of it.
fn tapped(sample: &Sample) -> Tapped {
    let topic = sample.update.topic.clone();
    let of_published = |point: &PublishedPoint| (point.time(sample.time), Reading::of(point.value(), point.quality()));
    let (time, reading) = match &sample.update.body {
        Body::Point(point) => (sample.time, Reading::of(&point.value, point.quality)),
        Body::Published(point) => of_published(point),
        Body::Opaque(payload) => match Body::read(payload.clone()) {
            Body::Published(point) => of_published(&point),
            Body::Point(_) | Body::Opaque(_) => (sample.time, Reading::unusable(Quality::GOOD)),
        },
    };
    (topic, time, reading)
}

fn bytes_of(update: &Update) -> usize {
    let payload = match &update.body {
        Body::Published(point) => size_of::<PublishedPoint>() + point.payload().len(),
        Body::Opaque(bytes) => bytes.len(),
        Body::Point(_) => 8,
    };
    update.topic.len() + payload
}

/// The times that messages are recorded with: when each came, but for those that have a time of their own.
#[derive(Debug, Default)]
struct Times {
    /// The last that is one message's own.
    own: Timestamp,
    /// The last of all.
    last: Timestamp,
}

impl Times {
    /// The time of a message that came at `at`.
    fn next(&mut self, at: Timestamp) -> Timestamp {
        self.last = past(at, self.own);
        self.last
    }

    fn own(&mut self, at: Timestamp) -> Timestamp {
        self.own = past(past(at, self.own), self.last);
        self.last = self.own;
        self.own
    }
}

/// A time, or the first behind `taken` where that is not behind it. A clock that was set back by more than messages ever run
/// ahead of it is followed.
fn past(at: Timestamp, taken: Timestamp) -> Timestamp {
    const AHEAD_MAX: Duration = Duration::from_secs(1);
    let is_behind = at <= taken && taken <= at.later(AHEAD_MAX);
    if is_behind { taken.later(Duration::from_micros(1)) } else { at }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(micros: i64) -> Timestamp {
        Timestamp::from_micros(micros)
    }

    #[test]
    fn a_time_of_its_own_is_nobody_elses() {
        let mut times = Times::default();
        for (own, came, expect) in [
            (false, 10, 10),
            (false, 10, 10),
            (true, 10, 11),
            (true, 10, 12),
            (false, 10, 13),
            (false, 10, 13),
            (true, 10, 14),
            (false, 20, 20),
            (true, 21, 21),
            // The clock was set back a little, and much.
            (true, 15, 22),
            (false, 15, 23),
            (true, -2_000_000, -2_000_000),
            (false, -2_000_000, -1_999_999),
        ] {
            let time = if own { times.own(at(came)) } else { times.next(at(came)) };
            assert_eq!(time, at(expect), "{own} {came}");
        }
    }
}
