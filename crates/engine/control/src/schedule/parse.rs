//! A request, read and checked in VOLTTRON's order, with its words for each failure.

use super::request::{NewSchedule, Owner, Priority, ScheduleLimits, ScheduleResult, Slot, SlotRequest};
use alloc::format;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Timestamp, Topic};

/// A request that contradicts neither itself nor the limits; slots are sorted by device and start.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) owner: Owner,
    pub(super) priority: Priority,
    pub(super) slots: Vec<Slot>,
    pub(super) lease: Option<Duration>,
}

/// Reads a request. Whether its task is there already has been checked.
pub(super) fn parse(request: &NewSchedule, limits: &ScheduleLimits) -> Result<Asked, ScheduleResult> {
    let fail = |info: &str| Err(ScheduleResult::failure(info));
    let Some(task) = &request.task else { return fail("MISSING_TASK_ID") };
    let Some(priority) = &request.priority else { return fail("MISSING_PRIORITY") };
    let Some(priority) = Priority::from_name(priority) else { return fail("INVALID_PRIORITY") };
    let Some(requester) = &request.requester else { return fail("MISSING_AGENT_ID") };
    if request.slots.is_empty() {
        return fail("MALFORMED_REQUEST_EMPTY");
    }
    let max = limits.name_bytes_max;
    for (name, what) in [(requester, "agentid"), (task, "taskid")] {
        if name.is_empty() {
            return fail(&format!("MALFORMED_REQUEST: TypeError: {what} must be a nonempty string"));
        }
        if name.len() > max {
            let found = name.len();
            return fail(&format!("MALFORMED_REQUEST: ValueError: {what} has {found} bytes, expected at most {max}"));
        }
    }
    let max = limits.slots_max;
    if request.slots.len() > max {
        let found = request.slots.len();
        return fail(&format!("MALFORMED_REQUEST: ValueError: {found} time slots, expected at most {max}"));
    }
    let slots: Result<Vec<Slot>, ScheduleResult> = request.slots.iter().map(slot).collect();
    let mut slots = slots?;
    slots.sort_by(|a, b| (&a.device, a.start, a.end).cmp(&(&b.device, b.start, b.end)));
    let is_crossed = |pair: &[Slot]| match pair {
        [a, b] => a.device == b.device && a.end > b.start,
        _ => false,
    };
    if slots.windows(2).any(is_crossed) {
        return fail("REQUEST_CONFLICTS_WITH_SELF");
    }
    let owner = Owner { requester: requester.as_str().into(), task: task.as_str().into() };
    Ok(Asked { owner, priority, slots, lease: request.lease })
}

fn slot(request: &SlotRequest) -> Result<Slot, ScheduleResult> {
    let malformed = |what: &str| ScheduleResult::failure(format!("MALFORMED_REQUEST: ValueError: {what}"));
    let name = request.device.trim_matches('/');
    let device = Topic::new(name).map_err(|error| malformed(&format!("device {:?}: {error}", cut(name))))?;
    let time = |text: &str| {
        let parsed = text.parse().or_else(|_| format!("{text}Z").parse::<Timestamp>());
        parsed.map_err(|error| malformed(&format!("time {:?}: {error}", cut(text))))
    };
    let (start, end) = (time(&request.start)?, time(&request.end)?);
    if end < start {
        return Err(malformed("Invalid start and end values."));
    }
    Ok(Slot { device, start, end })
}

fn cut(text: &str) -> alloc::string::String {
    crate::point::cut(text)
}
