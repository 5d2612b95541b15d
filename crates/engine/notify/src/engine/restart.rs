//! What was saved, and routes that change.

use super::{Course, Episode, Notify};
use crate::notice::{AlarmName, Notice, Standing};
use crate::record::{CourseRecord, EpisodeRecord, Saved};
use crate::route::Route;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::Now;

impl Notify {
    /// Takes in what was saved; only before anything else. `receivers` are those that are configured.
    pub fn restore(&mut self, now: Now, saved: Saved, is_known: &dyn Fn(&str) -> bool) {
        for (alarm, record) in saved.episodes {
            self.restore_episode(now, &alarm, record);
        }
        for message in saved.messages.into_values() {
            self.outbox.restore(now.mono, message);
        }
        self.outbox.retain(now.mono, is_known, &mut self.stats);
        let told: Vec<Arc<str>> = saved.flood.into_iter().filter(|to| is_known(to)).collect();
        self.end_saved_flood(now, &told);
    }

    /// All alarms that are not normal, at any time: the others have returned.
    pub fn handle_all(&mut self, now: Now, notices: Vec<Notice>) {
        let mut gone: BTreeSet<AlarmName> = self.episodes.keys().cloned().collect();
        for notice in notices {
            gone.remove(&notice.alarm);
            self.handle_notice(now, notice);
        }
        for alarm in gone {
            self.handle_gone(now, &alarm);
        }
    }

    /// An alarm is no more, or is normal: it has returned.
    pub fn handle_gone(&mut self, now: Now, alarm: &AlarmName) {
        let Some(episode) = self.episodes.get(alarm) else { return };
        let state = "normal".into();
        self.resolve(now, Notice { standing: Standing::Returned, state, ..episode.notice.clone() });
    }

    /// Other routes: alarms go on where they are on routes that stay, and begin on new ones.
    pub fn handle_routes(&mut self, now: Now, routes: Vec<Route>, is_known: &dyn Fn(&str) -> bool) {
        self.routes = routes.into_iter().map(|route| (route.id(), route)).collect();
        self.outbox.retain(now.mono, is_known, &mut self.stats);
        let alarms: Vec<AlarmName> = self.episodes.keys().cloned().collect();
        for alarm in alarms {
            self.leave_routes(&alarm, is_known);
            self.begin_routes(now, &alarm);
        }
    }

    fn leave_routes(&mut self, alarm: &AlarmName, is_known: &dyn Fn(&str) -> bool) {
        let Some(episode) = self.episodes.get_mut(alarm) else { return };
        episode.told.retain(|to| is_known(to));
        let (stay, leave) = core::mem::take(&mut episode.courses)
            .into_iter()
            .partition(|course| self.routes.get(&course.route).is_some_and(|route| route.takes(&episode.notice)));
        episode.courses = stay;
        for course in leave {
            let key = (alarm.clone(), course.route);
            self.flood.release(&key);
            if let Some(due) = course.due {
                self.deadlines.remove(due, key);
            }
        }
        self.changed.insert(alarm.clone());
    }

    fn restore_episode(&mut self, now: Now, alarm: &AlarmName, record: EpisodeRecord) {
        let EpisodeRecord { notice, is_stopped, told, courses } = record;
        let told: BTreeSet<_> = told.into_iter().collect();
        let mut episode = Episode { notice, is_stopped, told, courses: Vec::new() };
        for CourseRecord { route, step, repeats, due } in courses {
            let Some(way) = self.routes.get(&route) else { continue };
            let left = u64::try_from(due.micros().saturating_sub(now.utc.micros())).unwrap_or(0);
            let pause = way.pause(step).map(|pause| pause.min(Duration::from_micros(left)));
            let mut course = Course { route, step, repeats, due: None, due_utc: now.utc };
            if let Some(at) = course.wait(now, pause) {
                self.deadlines.add(at, (alarm.clone(), route));
                // The wall clock was set: what is written is put right, too.
                if course.due_utc != due {
                    self.changed.insert(alarm.clone());
                }
            }
            episode.courses.push(course);
        }
        self.episodes.insert(alarm.clone(), episode);
    }
}
