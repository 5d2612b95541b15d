//! The engine: alarms in, messages and records out.

mod episode;
mod flood;
mod outbox;
mod restart;

pub use self::outbox::{End, Outcome};

use self::episode::{Course, Episode};
use self::flood::Flood;
use self::outbox::Outbox;
use crate::notice::{AlarmName, Message, MessageKind, Notice, Standing};
use crate::record::Record;
use crate::route::{Route, RouteId};
use crate::settings::{Settings, Stats};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Deadlines, Instant, Now};

/// Who is told of which alarm.
#[derive(Debug)]
pub struct Notify {
    settings: Settings,
    routes: BTreeMap<RouteId, Route>,
    episodes: BTreeMap<AlarmName, Episode>,
    deadlines: Deadlines<(AlarmName, RouteId)>,
    flood: Flood,
    outbox: Outbox,
    changed: BTreeSet<AlarmName>,
    stats: Stats,
}

impl Notify {
    /// Nobody was told of anything. Of routes that differ in their times only, the last is taken.
    #[must_use]
    pub fn new(settings: Settings, routes: Vec<Route>) -> Self {
        Self {
            settings,
            routes: routes.into_iter().map(|route| (route.id(), route)).collect(),
            episodes: BTreeMap::new(),
            deadlines: Deadlines::default(),
            flood: Flood::default(),
            outbox: Outbox::default(),
            changed: BTreeSet::new(),
            stats: Stats::default(),
        }
    }

    /// What was counted.
    #[must_use]
    pub const fn stats(&self) -> Stats {
        self.stats
    }

    /// Messages that have not arrived yet.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.outbox.len()
    }

    /// Messages for one receiver that have not arrived yet.
    #[must_use]
    pub fn waiting_for(&self, receiver: &str) -> usize {
        self.outbox.waiting_for(receiver)
    }

    /// An alarm has changed.
    pub fn handle_notice(&mut self, now: Now, notice: Notice) {
        match notice.standing {
            Standing::Calling => self.call(now, notice),
            Standing::Acknowledged | Standing::Hidden | Standing::Consequence => self.stop(notice),
            Standing::Returned => self.resolve(now, notice),
        }
    }

    /// What is due.
    pub fn handle_timeout(&mut self, now: Now) {
        while let Some((_, (alarm, route))) = self.deadlines.take_next(now.mono) {
            self.step(now, &alarm, route);
        }
        for to in self.flood.take_due(now.mono) {
            self.summarise(now, &to, MessageKind::Flood);
        }
    }

    /// Sends a message that says nothing, and returns its number; none where the outbox is full.
    pub fn send_test(&mut self, now: Now, to: &Arc<str>) -> Option<u64> {
        let draft = Message {
            id: 0,
            to: Arc::clone(to),
            made: now.utc,
            kind: MessageKind::Test,
            route: RouteId::default(),
            step: 0,
            repeats: 0,
            total: 0,
            alarms: Vec::new(),
        };
        self.outbox.add(now.mono, draft, &self.settings, &mut self.stats)
    }

    /// The next record. All there are go to the disk before anything is sent.
    pub fn poll_record(&mut self) -> Option<Record> {
        if let Some(record) = self.outbox.poll_record() {
            return Some(record);
        }
        if let Some(alarm) = self.changed.pop_first() {
            return Some(match self.episodes.get(&alarm) {
                Some(episode) => Record::Episode(episode.record()),
                None => Record::EpisodeOver(alarm),
            });
        }
        self.flood.poll_record().or_else(|| self.outbox.poll_over())
    }

    /// The next message to send; [`Notify::handle_outcome`] is due for each.
    pub fn poll_send(&mut self, now: Now) -> Option<Message> {
        self.outbox.poll_send(now.mono)
    }

    /// What became of an attempt to send: whether that is the end of the message.
    pub fn handle_outcome(&mut self, now: Now, id: u64, outcome: Outcome) -> Option<End> {
        let (message, end) = self.outbox.finish(now.mono, id, outcome, &self.settings, &mut self.stats)?;
        if end == End::Nobody && message.kind == MessageKind::Raised {
            self.hurry(now, &message);
        }
        Some(end)
    }

    /// When [`Notify::handle_timeout`] or [`Notify::poll_send`] has something to do next.
    #[must_use]
    pub fn timeout(&self) -> Option<Instant> {
        let deadlines = [self.deadlines.timeout(), self.flood.timeout(), self.outbox.timeout()];
        deadlines.into_iter().flatten().min()
    }

    /// An alarm calls: a new occurrence begins at the first steps.
    fn call(&mut self, now: Now, notice: Notice) {
        let alarm = notice.alarm.clone();
        let is_new = self.episodes.get(&alarm).is_none_or(|episode| episode.notice.seq < notice.seq);
        if is_new {
            self.stop_courses(&alarm);
            let is_followed = self.episodes.contains_key(&alarm);
            if !is_followed && self.routes.values().all(|route| !route.takes(&notice)) {
                return;
            }
            if !is_followed && self.episodes.len() >= self.settings.alarms_max {
                self.stats.not_followed += 1;
                return;
            }
            let told = self.episodes.remove(&alarm).map(|episode| episode.told).unwrap_or_default();
            let courses = Vec::new();
            self.episodes.insert(alarm.clone(), Episode { notice, is_stopped: false, told, courses });
            self.changed.insert(alarm.clone());
        } else if let Some(episode) = self.episodes.get_mut(&alarm) {
            episode.notice = notice;
        }
        self.begin_routes(now, &alarm);
    }

    /// Routes that the alarm takes and is not on yet.
    fn begin_routes(&mut self, now: Now, alarm: &AlarmName) {
        let Some(episode) = self.episodes.get_mut(alarm).filter(|episode| !episode.is_stopped) else { return };
        for (id, route) in &self.routes {
            if episode.courses.iter().any(|course| course.route == *id) || !route.takes(&episode.notice) {
                continue;
            }
            let mut course = Course { route: *id, step: 0, repeats: 0, due: None, due_utc: now.utc };
            if let Some(due) = course.wait(now, route.pause(0)) {
                self.deadlines.add(due, (alarm.clone(), *id));
            }
            episode.courses.push(course);
            self.changed.insert(alarm.clone());
        }
    }

    /// Nothing more is said until the alarm returns or calls again.
    fn stop(&mut self, notice: Notice) {
        let Some(episode) = self.episodes.get_mut(&notice.alarm) else { return };
        let alarm = notice.alarm.clone();
        if episode.notice.seq != notice.seq {
            self.changed.insert(alarm.clone());
        }
        episode.notice = notice;
        if episode.is_stopped {
            return;
        }
        episode.is_stopped = true;
        self.changed.insert(alarm.clone());
        self.stop_courses(&alarm);
        if self.episodes.get(&alarm).is_some_and(|episode| episode.told.is_empty()) {
            self.episodes.remove(&alarm);
        }
    }

    fn resolve(&mut self, now: Now, notice: Notice) {
        self.stop_courses(&notice.alarm);
        let Some(episode) = self.episodes.remove(&notice.alarm) else { return };
        self.changed.insert(notice.alarm.clone());
        for to in episode.told {
            let draft = Message {
                id: 0,
                to,
                made: now.utc,
                kind: MessageKind::Resolved,
                route: RouteId::default(),
                step: 0,
                repeats: 0,
                total: 1,
                alarms: vec![notice.clone()],
            };
            self.outbox.add(now.mono, draft, &self.settings, &mut self.stats);
        }
    }

    fn stop_courses(&mut self, alarm: &AlarmName) {
        let Some(episode) = self.episodes.get_mut(alarm) else { return };
        for course in episode.courses.drain(..) {
            let key = (alarm.clone(), course.route);
            self.flood.release(&key);
            if let Some(due) = course.due {
                self.deadlines.remove(due, key);
            }
        }
    }

    /// What is next on a route is due.
    fn step(&mut self, now: Now, alarm: &AlarmName, id: RouteId) {
        let is_flood = self.flood.is_on();
        let Some((route, course)) = self.course(alarm, id) else { return };
        course.due = None;
        let at = course.step;
        match route.step(at).map(|step| Arc::clone(&step.to)) {
            Some(to) if alarm.is_about(&to) => self.leave_out(now, alarm, id),
            Some(to) if is_flood => self.flood.hold(now.mono, to, (alarm.clone(), id), &self.settings),
            Some(to) => {
                self.tell(now, alarm, id, &[to], (at, MessageKind::Raised));
                self.advance(now, alarm, id);
            }
            None if is_flood => self.schedule(now, alarm, id),
            None => {
                course.repeats = course.repeats.saturating_add(1);
                let receivers: BTreeSet<Arc<str>> = route.steps().iter().map(|step| Arc::clone(&step.to)).collect();
                let receivers: Vec<_> = receivers.into_iter().filter(|to| !alarm.is_about(to)).collect();
                self.tell(now, alarm, id, &receivers, (at, MessageKind::Repeated));
                self.schedule(now, alarm, id);
            }
        }
    }

    /// A step is done.
    fn advance(&mut self, now: Now, alarm: &AlarmName, id: RouteId) {
        if let Some((_, course)) = self.course(alarm, id) {
            course.step = course.step.saturating_add(1);
        }
        self.schedule(now, alarm, id);
    }

    /// A step leads to the receiver that the alarm is about: the next one is due at once.
    fn leave_out(&mut self, now: Now, alarm: &AlarmName, id: RouteId) {
        let Some((route, course)) = self.course(alarm, id) else { return };
        course.step = course.step.saturating_add(1);
        let pause = if route.step(course.step).is_some() { Some(Duration::ZERO) } else { route.pause(course.step) };
        if let Some(due) = course.wait(now, pause) {
            self.deadlines.add(due, (alarm.clone(), id));
        }
        self.changed.insert(alarm.clone());
    }

    /// What is next on a route becomes due after its pause.
    fn schedule(&mut self, now: Now, alarm: &AlarmName, id: RouteId) {
        let Some((route, course)) = self.course(alarm, id) else { return };
        if let Some(due) = course.wait(now, route.pause(course.step)) {
            self.deadlines.add(due, (alarm.clone(), id));
        }
        self.changed.insert(alarm.clone());
    }

    /// Nobody was on call for a step: the next one is due at once.
    fn hurry(&mut self, now: Now, message: &Message) {
        let Some(notice) = message.alarms.first() else { return };
        let alarm = &notice.alarm;
        if let Some(episode) = self.episodes.get_mut(alarm) {
            episode.told.remove(&message.to);
            self.changed.insert(alarm.clone());
        }
        let is_same = self.episodes.get(alarm).is_some_and(|episode| episode.notice.seq == notice.seq);
        let Some((route, course)) = self.course(alarm, message.route).filter(|_| is_same) else { return };
        if course.step == message.step + 1
            && route.step(course.step).is_some()
            && let Some(due) = course.due
        {
            course.wait(now, Some(Duration::ZERO));
            self.deadlines.remove(due, (alarm.clone(), message.route));
            self.deadlines.add(now.mono, (alarm.clone(), message.route));
        }
    }

    fn tell(
        &mut self,
        now: Now,
        alarm: &AlarmName,
        route: RouteId,
        receivers: &[Arc<str>],
        (step, kind): (u16, MessageKind),
    ) {
        let Some(episode) = self.episodes.get_mut(alarm) else { return };
        let repeats = episode.courses.iter().find(|course| course.route == route).map_or(0, |course| course.repeats);
        for to in receivers {
            let alarms = vec![episode.notice.clone()];
            let to = Arc::clone(to);
            episode.told.insert(Arc::clone(&to));
            let draft = Message { id: 0, to, made: now.utc, kind, route, step, repeats, total: 1, alarms };
            self.outbox.add(now.mono, draft, &self.settings, &mut self.stats);
        }
        self.changed.insert(alarm.clone());
    }

    fn course(&mut self, alarm: &AlarmName, id: RouteId) -> Option<(&Route, &mut Course)> {
        let course = self.episodes.get_mut(alarm)?.courses.iter_mut().find(|course| course.route == id)?;
        Some((self.routes.get(&id)?, course))
    }
}
