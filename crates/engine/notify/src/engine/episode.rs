//! An alarm that calls or has called, and where it is on its routes.

use crate::notice::Notice;
use crate::record::{CourseRecord, EpisodeRecord};
use crate::route::RouteId;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Instant, Now, Timestamp};

#[derive(Debug)]
pub(super) struct Episode {
    /// The alarm as it was told last.
    pub notice: Notice,
    /// Whether it was acknowledged, hidden, or became a consequence.
    pub is_stopped: bool,
    /// Who was told.
    pub told: BTreeSet<Arc<str>>,
    pub courses: Vec<Course>,
}

/// An alarm on a route.
#[derive(Debug)]
pub(super) struct Course {
    pub route: RouteId,
    /// What is next; the number of steps: a repetition.
    pub step: u16,
    pub repeats: u32,
    /// When; none where nothing is next, or a flood holds it.
    pub due: Option<Instant>,
    /// The same on the wall clock as it was then.
    pub due_utc: Timestamp,
}

impl Course {
    /// Sets when the next thing is due, from now on.
    pub fn wait(&mut self, now: Now, pause: Option<Duration>) -> Option<Instant> {
        self.due = pause.map(|pause| now.mono + pause);
        self.due_utc = now.utc.later(pause.unwrap_or_default());
        self.due
    }
}

impl Episode {
    pub fn record(&self) -> EpisodeRecord {
        let course = |course: &Course| CourseRecord {
            route: course.route,
            step: course.step,
            repeats: course.repeats,
            due: course.due_utc,
        };
        EpisodeRecord {
            notice: self.notice.clone(),
            is_stopped: self.is_stopped,
            told: self.told.iter().cloned().collect(),
            courses: self.courses.iter().map(course).collect(),
        }
    }
}
