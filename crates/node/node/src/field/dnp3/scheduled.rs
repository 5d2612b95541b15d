//! Scheduled tasks of a device: freezes, and dead-bands that are written when it can be asked.

use super::counters::FreezeCounters;
use super::link::Link;
use crate::config::{Dnp3Config, FreezeClock, FreezePlan, PointConfig};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use std::time::Duration;
use tieline_core::{Now, Timestamp, Topic};
use tieline_dnp3::master::{DeadBand, Freeze, Master, Request, Selection};
use tieline_dnp3::{DnpTime, PointType};
use tieline_net::Shard;
use tokio::task::AbortHandle;

/// Marks the tokens of scheduled tasks: neither a poll's nor the identifier of a command.
const TASK_TOKEN: u64 = 1 << 62;
/// A freeze by the node's clock.
pub(super) const FREEZE_TOKEN: u64 = TASK_TOKEN;
/// Something that is said at the start.
pub(super) const START_TOKEN: u64 = TASK_TOKEN | 1;
/// A freeze that is so late freezes something else.
const LATE: Duration = Duration::from_secs(1);
/// How often a schedule looks at the clock, which may have been set.
const LOOK: Duration = Duration::from_secs(30);
/// Dead-bands in one request: they fit the shortest fragment that a device must take.
const DEAD_BANDS_MAX: usize = 30;

/// What a device is told when it can be asked, and after each of its restarts: one request after the other.
#[derive(Debug, Default)]
pub(super) struct ScheduledTasks {
    bands: Vec<(u16, DeadBand)>,
    dead_bands: Vec<Request>,
    freezes: Vec<FreezePlan>,
    /// What is still to be said.
    waiting: RefCell<VecDeque<Request>>,
    is_asking: Cell<bool>,
}

/// Whether they say the same.
impl PartialEq for ScheduledTasks {
    fn eq(&self, other: &Self) -> bool {
        (&self.bands, &self.freezes) == (&other.bands, &other.freezes)
    }
}

impl ScheduledTasks {
    /// None where there is nothing to do.
    pub(super) fn of(dnp3: &Dnp3Config, points: &[PointConfig]) -> Option<Rc<Self>> {
        let bands: Vec<(u16, DeadBand)> = points.iter().filter_map(dead_band).collect();
        let requests = bands.chunks(DEAD_BANDS_MAX).map(Request::write_dead_bands);
        // As many as fit were taken.
        let dead_bands: Vec<Request> = requests.filter_map(Result::ok).collect();
        let freezes: Vec<_> = dnp3.freezes.iter().filter(|plan| plan.by == FreezeClock::Device).cloned().collect();
        let is_idle = dead_bands.is_empty() && freezes.is_empty();
        (!is_idle).then(|| Rc::new(Self { bands, dead_bands, freezes, ..Self::default() }))
    }

    /// Says it from the beginning. The device forgets the freezes that it was told before, so that each is there once.
    pub(super) fn start(&self, now: Now, link: &Link) {
        let mut requests: VecDeque<Request> = self.dead_bands.iter().cloned().collect();
        for plan in &self.freezes {
            let interval_ms = u32::try_from(plan.every.as_millis()).unwrap_or(u32::MAX);
            let time = DnpTime::from(now.utc.later(until_next(now.utc, plan.every)));
            let no_longer = Freeze::AtTime { time: DnpTime::MAX, interval_ms: 0 };
            requests.push_back(Request::freeze(no_longer, true, &selections(plan)));
            requests.push_back(Request::freeze(Freeze::AtTime { time, interval_ms }, true, &selections(plan)));
        }
        *self.waiting.borrow_mut() = requests;
        if !self.is_asking.get() {
            self.go_on(link);
        }
    }

    /// The request that was out is done, well or not.
    pub(super) fn go_on(&self, link: &Link) {
        let next = self.waiting.borrow_mut().pop_front();
        let taken = next.and_then(|request| link.with(|master, now| master.submit(now, request, START_TOKEN)));
        self.is_asking.set(matches!(taken, Some(Ok(()))));
        // Without a connection the next one begins again.
        if let Some(Err(error)) = taken {
            tracing::debug!(%error, "dead-bands or freezes wait for the next connection");
        }
    }
}

/// Keeps the schedules that go by the node's clock, until they are aborted.
pub(super) fn keep_freezing(
    shard: &Rc<Shard>,
    counters: &Rc<FreezeCounters>,
    topic: &Topic,
    link: &Link,
    plans: &[FreezePlan],
) -> Vec<AbortHandle> {
    let mut tasks = Vec::new();
    for plan in plans.iter().filter(|plan| plan.by == FreezeClock::Node) {
        let (shard, counters, topic, link, plan) =
            (Rc::clone(shard), Rc::clone(counters), topic.clone(), link.clone(), plan.clone());
        let task = tokio::task::spawn_local(async move {
            loop {
                let now = shard.now().utc;
                let due = now.later(until_next(now, plan.every));
                while let Some(left) = left_until(shard.now().utc, due) {
                    tokio::time::sleep(left.min(LOOK)).await;
                }
                let asked = is_in_time(shard.now().utc, due) && ask(&link, &plan);
                if !asked {
                    counters.missed.update(|count| count + 1);
                    tracing::warn!(device = %topic, at = %due, "a freeze was missed");
                }
            }
        });
        tasks.push(task.abort_handle());
    }
    tasks
}

fn ask(link: &Link, plan: &FreezePlan) -> bool {
    let freeze = if plan.clear { Freeze::Clear } else { Freeze::Immediate };
    let asked = link.with(|master: &mut Master, now| {
        let request = Request::freeze(freeze, true, &selections(plan)).until(now.mono + LATE);
        master.is_online() && master.submit(now, request, FREEZE_TOKEN).is_ok()
    });
    asked.unwrap_or(false)
}

fn selections(plan: &FreezePlan) -> Vec<Selection> {
    plan.objects.iter().map(|object| Selection::all(*object)).collect()
}

/// From a moment to the next multiple of an interval since 1970.
fn until_next(now: Timestamp, every: Duration) -> Duration {
    let every = i64::try_from(every.as_micros()).unwrap_or(i64::MAX).max(1);
    Duration::from_micros((every - now.micros().rem_euclid(every)).unsigned_abs())
}

/// The time that is left until `due`; none where it has come.
fn left_until(now: Timestamp, due: Timestamp) -> Option<Duration> {
    let left = due.micros() - now.micros();
    (left > 0).then(|| Duration::from_micros(left.unsigned_abs()))
}

fn is_in_time(now: Timestamp, due: Timestamp) -> bool {
    left_until(due, now).is_none_or(|late| late <= LATE)
}

/// The dead-band of an analog, in raw units.
fn dead_band(point: &PointConfig) -> Option<(u16, DeadBand)> {
    let address = point.address.dnp3().filter(|address| address.point_type == PointType::Analog)?;
    let band = address.dead_band?;
    #[expect(clippy::cast_possible_truncation, reason = "group 34 has single precision; the range was checked")]
    Some((address.index, DeadBand::F32((band / point.scale.abs()) as f32)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn freezes_are_on_a_grid_of_the_clock() {
        let check = |seconds: i64, every: u64, expect: u64| {
            let left = until_next(Timestamp::from_millis(seconds * 1000), Duration::from_secs(every));
            assert_eq!(left, Duration::from_secs(expect), "{seconds} {every}");
        };
        check(0, 900, 900);
        check(1, 900, 899);
        check(899, 900, 1);
        check(900, 900, 900);
        check(-1, 900, 1);
        // 2026-11-20T13:51:00Z to 14:00.
        check(1_795_182_660, 3600, 540);
    }

    #[test]
    fn a_freeze_that_comes_late_is_missed() {
        let at = Timestamp::from_millis;
        assert_eq!(left_until(at(1000), at(3000)), Some(Duration::from_secs(2)));
        assert_eq!(left_until(at(3000), at(3000)), None);
        assert!(is_in_time(at(3000), at(3000)) && is_in_time(at(4000), at(3000)));
        assert!(!is_in_time(at(4001), at(3000)));
    }
}
