//! How evenly the requests of one controller with many points leave, in virtual time: the poller of a node, and a controller
//! that answers each request after a while. Beside it a scrape: all requests of an interval one after the other, as fast as
//! answers come, as drivers do that read a whole device at once.
//!
//! The first interval is not counted: a node asks for everything at once when a device comes online.

use super::{Experiment, Figures, Row};
use crate::rounds::{number, short};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;
use tieline_core::{DeviceId, Instant, Now, Topic};
use tieline_poll::{
    Collection, DeviceSpec, Limits, LinkState, PointTable, PollClass, PollResult, PollSpec, Poller, Publish, Urgency,
};

/// Points of the controller.
const POINTS: u16 = 9000;
/// How long an answer takes.
const ANSWER: Duration = Duration::from_millis(20);
/// Requests that the controller takes at a time.
const IN_FLIGHT: u8 = 4;
/// From a read of a point to the next.
const EVERY: Duration = Duration::from_secs(900);
/// Intervals that are counted.
const INTERVALS: u32 = 4;
/// What a rate is counted over.
const WINDOW: Duration = Duration::from_secs(10);
/// Points of a request: one by one, and as an answer of BACnet holds them.
const POINTS_A_REQUEST: [u16; 2] = [1, 20];

/// What a row measured.
#[derive(Clone, Debug, Serialize)]
pub struct SpreadFigures {
    /// Requests a second, on average.
    pub mean_per_s: f64,
    /// The most requests of any 10 s, a second.
    pub peak_per_s: f64,
    /// Peak over mean.
    pub peak_to_mean: f64,
    /// The same of a scrape.
    pub scrape_peak_to_mean: f64,
    /// Requests a second in each 10 s of the first counted interval.
    pub per_s: Vec<f64>,
    /// The same of a scrape.
    pub scrape_per_s: Vec<f64>,
}

/// The rows of the experiment; nothing in them depends on the machine.
pub fn rows() -> Vec<Row> {
    let row = |points: u16| {
        let (figures, invalid) = match measure(POINTS.div_ceil(points)) {
            Ok(figures) => (Some(Figures::Spread(figures)), None),
            Err(why) => (None, Some(format!("{points} points a request: {why:#}"))),
        };
        Row { points: Some(points.into()), figures, invalid, ..Row::new(Experiment::Spread) }
    };
    POINTS_A_REQUEST.into_iter().map(row).collect()
}

fn measure(parts: u16) -> Result<SpreadFigures> {
    let end = Instant::ZERO + EVERY * (INTERVALS + 1);
    let asked = ask(parts, end)?;
    let counted: Vec<Instant> = asked.into_iter().filter(|at| *at >= Instant::ZERO + EVERY).collect();
    let expected = usize::try_from(INTERVALS)? * usize::from(parts);
    ensure!(counted.len().abs_diff(expected) <= 1, "{} of {expected} requests left", counted.len());
    let mean = number(counted.len() as u64) / (EVERY * INTERVALS).as_secs_f64();
    let scraped: Vec<Instant> =
        (0..parts).map(|part| Instant::ZERO + EVERY + ANSWER * u32::from(part / u16::from(IN_FLIGHT))).collect();
    let (peak, scrape_peak) = (peak_per_s(&counted), peak_per_s(&scraped));
    Ok(SpreadFigures {
        mean_per_s: short(mean),
        peak_per_s: short(peak),
        peak_to_mean: short(peak / mean),
        scrape_peak_to_mean: short(scrape_peak / mean),
        per_s: rates(&counted),
        scrape_per_s: rates(&scraped),
    })
}

/// When the poller asks for the parts of one poll of one device, until `end`.
fn ask(parts: u16, end: Instant) -> Result<Vec<Instant>> {
    let (device, class) = (DeviceId(1), PollClass(0));
    let mut poller = Poller::new(Limits::default());
    let spec = DeviceSpec {
        topic: Topic::new("bench/controller")?,
        table: PointTable::new(Vec::new())?,
        polls: vec![PollSpec { class, every: EVERY }],
        gap_min: Duration::ZERO,
        slow_after: None,
        stale_after: None,
        publish: Publish::default(),
        urgency: Urgency::Monitoring,
        collection: Collection { in_flight_max: IN_FLIGHT, ..Collection::POLLED },
    };
    let mut now = Now::default();
    poller.add_device(now, device, spec)?;
    poller.set_parts(now, device, class, parts);
    poller.handle_link(now, device, LinkState::Online);
    let (mut asked, mut waiting) = (Vec::new(), VecDeque::<(Instant, u16)>::new());
    let mut due = BTreeSet::new();
    while now.mono < end {
        while let Some((_, _, part)) = poller.poll_request(now) {
            asked.push(now.mono);
            waiting.push_back((now.mono + ANSWER, part));
            ensure!(waiting.len() <= usize::from(IN_FLIGHT), "{} requests were in flight", waiting.len());
            due.insert(part);
        }
        while poller.poll_update().is_some() {}
        while poller.poll_event().is_some() {}
        let next = poller.timeout().into_iter().chain(waiting.front().map(|(at, _)| *at)).min();
        let next = next.context("the poller waits for nothing")?;
        // A deadline that has passed already is looked at again a moment later.
        now = now.later(next.since(now.mono).max(Duration::from_micros(1)));
        while let Some((_, part)) = waiting.pop_front_if(|(at, _)| *at <= now.mono) {
            poller.handle_poll_done(now, device, class, part, PollResult::Ok);
        }
        poller.handle_timeout(now);
    }
    ensure!(due.len() == usize::from(parts), "{} of {parts} parts were asked for", due.len());
    Ok(asked)
}

/// The most requests of any window, a second.
fn peak_per_s(asked: &[Instant]) -> f64 {
    let mut first = 0;
    let mut most = 0;
    for (last, at) in asked.iter().enumerate() {
        while asked.get(first).is_some_and(|earlier| at.since(*earlier) >= WINDOW) {
            first += 1;
        }
        most = most.max(last + 1 - first);
    }
    number(most as u64) / WINDOW.as_secs_f64()
}

/// Requests a second in each window of the first counted interval.
fn rates(asked: &[Instant]) -> Vec<f64> {
    let windows = usize::try_from(EVERY.as_secs() / WINDOW.as_secs()).unwrap_or(0);
    let mut counts = vec![0_u64; windows];
    for at in asked {
        let window = at.since(Instant::ZERO + EVERY).as_secs() / WINDOW.as_secs();
        if let Some(count) = usize::try_from(window).ok().and_then(|window| counts.get_mut(window)) {
            *count += 1;
        }
    }
    counts.into_iter().map(|count| short(number(count) / WINDOW.as_secs_f64())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_is_of_any_window() {
        let at = |ms: &[u64]| ms.iter().map(|ms| Instant::ZERO + Duration::from_millis(*ms)).collect::<Vec<_>>();
        assert_eq!(peak_per_s(&at(&[0, 9_999, 10_000, 10_001])), 0.3);
        assert_eq!(peak_per_s(&at(&[0, 10_000, 20_000])), 0.1);
        assert_eq!(peak_per_s(&[]), 0.0);
    }

    #[test]
    fn requests_are_spread_and_a_scrape_is_not() {
        let figures = measure(POINTS / 20).unwrap();
        assert!(figures.peak_to_mean <= 1.2, "{figures:?}");
        assert!(figures.scrape_peak_to_mean > 50.0, "{figures:?}");
        assert_eq!((figures.mean_per_s, figures.per_s.len()), (0.5, 90));
    }
}
