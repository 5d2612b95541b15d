//! A device's session on its shard: polls and commands over its connections.

use super::link::Link;
use super::scheduled::ScheduledTasks;
use super::translate::PointIndex;
use crate::config::PointConfig;
use crate::field::driver::{DeviceSession, EVENTS, INTEGRITY};
use crate::field::lanes::{Lane, Lanes};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;
use tieline_core::{Command, Instant, Refusal, Topic, json_value};
use tieline_dnp3::Classes;
use tieline_dnp3::master::{Master, SubmitError};
use tieline_poll::PollClass;

/// Marks the tokens of polls, so that they never equal the identifier of a command.
pub(super) const POLL_TOKEN: u64 = 1 << 63;

/// A device's session on its shard.
pub(super) struct Dnp3Session {
    /// Its topic, in logs.
    pub(super) topic: Topic,
    pub(super) index: RefCell<PointIndex>,
    pub(super) main: Association,
    /// The connection for what is urgent, where it has one.
    pub(super) urgent: Option<Association>,
    /// None with one connection.
    pub(super) lanes: Option<RefCell<Lanes>>,
    /// What the device is told when it can be asked; over its main connection.
    pub(super) tasks: RefCell<Option<Rc<ScheduledTasks>>>,
}

/// One of a device's connections.
#[derive(Clone)]
pub(super) struct Association {
    pub(super) link: Link,
    /// Fragments whose confirm is held, since the start.
    held: Rc<Cell<u64>>,
}

impl Association {
    pub(super) fn new(link: Link) -> Self {
        Self { link, held: Rc::default() }
    }

    /// Counts a fragment whose confirm is held.
    pub(super) fn next_held(&self) -> u64 {
        self.held.update(|held| held + 1);
        self.held.get()
    }

    fn is_online(&self) -> bool {
        self.link.with(|master, _| master.is_online()).unwrap_or(false)
    }
}

impl DeviceSession for Dnp3Session {
    /// Classes 1, 2 and 3; and 0 where everything is asked for.
    fn poll(&self, class: PollClass, _part: u16) -> bool {
        let classes = if class == EVENTS { Classes::EVENTS } else { Classes::ALL };
        let asked = self.main.link.with(|master, now| master.poll(now, classes, POLL_TOKEN | u64::from(class.0)));
        asked.is_some_and(|asked| asked.is_ok())
    }

    /// Over the urgent connection where that is up.
    fn command(&self, command_id: u64, command: &Command, until: Instant) -> Result<(), Refusal> {
        let wrong = || {
            let mut value = String::new();
            json_value(&command.value, &mut value);
            Refusal::new("out_of_range", format!("the value {value} does not fit the object that the point takes"))
        };
        let (index, control) = self.index.borrow().to_control(command).ok_or_else(wrong)?;
        let association = self.urgent.as_ref().filter(|urgent| urgent.is_online()).unwrap_or(&self.main);
        let taken =
            association.link.with(|master, now| master.command(now, control, index, command.mode, until, command_id));
        taken.unwrap_or(Err(SubmitError::NotConnected)).map_err(|error| Refusal::new(error.name(), error.to_string()))
    }

    /// Confirms to the device what it reported on a connection, once the last of it is settled.
    fn settle(&self, lane: Lane, fragments: u64) {
        let association = match lane {
            Lane::Main => Some(&self.main),
            Lane::Urgent => self.urgent.as_ref(),
            Lane::Standby(_) => None,
        };
        if let Some(association) = association.filter(|association| association.held.get() == fragments) {
            association.link.with(Master::release_confirm);
        }
    }
}

impl Dnp3Session {
    pub(super) fn tasks(&self) -> Option<Rc<ScheduledTasks>> {
        self.tasks.borrow().clone()
    }

    /// Gives the device other tasks; whether they are to be run.
    pub(super) fn set_tasks(&self, tasks: Option<Rc<ScheduledTasks>>) -> bool {
        if *self.tasks.borrow() == tasks {
            return false;
        }
        *self.tasks.borrow_mut() = tasks;
        self.main.is_online()
    }

    /// The device has other points from here on: all are read, where any has another address or another number.
    pub(super) fn set_points(&self, points: &Arc<[PointConfig]>) {
        let index = PointIndex::new(Arc::clone(points));
        if !index.finds_same(&self.index.borrow()) {
            if let Some(lanes) = &self.lanes {
                lanes.borrow_mut().set_points(points.len());
            }
            // Where it cannot be asked now, it is read when it comes.
            let token = POLL_TOKEN | u64::from(INTEGRITY.0);
            let _ = self.main.link.with(|master, now| master.poll(now, Classes::ALL, token));
        }
        *self.index.borrow_mut() = index;
    }

    pub(super) fn links(&self) -> impl Iterator<Item = &Link> {
        [Some(&self.main), self.urgent.as_ref()].into_iter().flatten().map(|association| &association.link)
    }
}
