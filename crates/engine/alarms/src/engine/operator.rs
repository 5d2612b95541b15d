//! What persons do. Whether they may was checked by the caller.

use super::Alarms;
use crate::Transition;
use crate::alarm::{By, Flags, Refusal, Service, Shelf, Target};
use crate::rows::Timer;
use alloc::sync::Arc;
use core::time::Duration;
use tieline_core::Now;

impl Alarms {
    /// Acknowledges one occurrence, and the consequences of the alarm with it.
    ///
    /// # Errors
    /// There is no such alarm, a newer occurrence, or nothing to acknowledge.
    pub fn acknowledge(&mut self, now: Now, target: Target<'_>, seq: u64, by: By<'_>) -> Result<(), Refusal> {
        let id = self.find(target).ok_or(Refusal::Unknown)?;
        self.check_length(by)?;
        let detail = self.detail(id).ok_or(Refusal::NothingToAcknowledge)?;
        if detail.seq != seq {
            return Err(Refusal::OldOccurrence { seq: detail.seq });
        }
        if self.has(id, Flags::ACKED) {
            return Err(Refusal::NothingToAcknowledge);
        }
        let who: Arc<str> = by.who.into();
        self.set_flag(id, Flags::ACKED, true);
        let detail = self.detail_mut(id);
        (detail.acked_by, detail.changed) = (Some(who.clone()), now.utc);
        self.emit(now, id, Transition::Acknowledged, Some(by));
        self.acknowledge_below(now, id, Some(&who));
        self.finish(now, id);
        Ok(())
    }

    /// Shelves an alarm for a time, `once` also until it next returns. An alarm that is shelved already has the new end.
    ///
    /// # Errors
    /// There is no such alarm, no reason is given, or the time is longer than anybody may shelve.
    pub fn shelve(
        &mut self,
        now: Now,
        target: Target<'_>,
        time: Duration,
        once: bool,
        by: By<'_>,
    ) -> Result<(), Refusal> {
        let id = self.find(target).ok_or(Refusal::Unknown)?;
        self.check_why(by)?;
        if time.is_zero() || time > self.settings.shelve_max {
            return Err(Refusal::Time { max: self.settings.shelve_max });
        }
        self.set_flag(id, Flags::SHELVED, true);
        let shelf = Shelf { until: now.utc.later(time), once, who: by.who.into(), why: by.why.trim().into() };
        let detail = self.detail_mut(id);
        (detail.shelf, detail.changed) = (Some(shelf), now.utc);
        self.set_timer(id, Timer::Shelf, Some(now.mono + time));
        self.emit(now, id, Transition::Shelved, Some(by));
        Ok(())
    }

    /// Ends shelving. An alarm that is active is annunciated again.
    ///
    /// # Errors
    /// There is no such alarm, or it is not shelved.
    pub fn unshelve(&mut self, now: Now, target: Target<'_>, by: By<'_>) -> Result<(), Refusal> {
        let id = self.find(target).ok_or(Refusal::Unknown)?;
        self.check_length(by)?;
        if !self.has(id, Flags::SHELVED) {
            return Err(Refusal::NotShelved);
        }
        self.end_shelf(now, id, Some(by));
        Ok(())
    }

    /// Takes an alarm out of service, for a time or until a person ends it.
    ///
    /// # Errors
    /// There is no such alarm, or no reason is given.
    pub fn take_out_of_service(
        &mut self,
        now: Now,
        target: Target<'_>,
        time: Option<Duration>,
        by: By<'_>,
    ) -> Result<(), Refusal> {
        let id = self.find(target).ok_or(Refusal::Unknown)?;
        self.check_why(by)?;
        if time.is_some_and(|time| time.is_zero()) {
            return Err(Refusal::Time { max: Duration::MAX });
        }
        self.set_flag(id, Flags::OUT_OF_SERVICE, true);
        let until = time.map(|time| now.utc.later(time));
        let service = Service { until, who: by.who.into(), why: by.why.trim().into() };
        let detail = self.detail_mut(id);
        (detail.service, detail.changed) = (Some(service), now.utc);
        self.set_timer(id, Timer::Service, time.map(|time| now.mono + time));
        self.emit(now, id, Transition::OutOfService, Some(by));
        Ok(())
    }

    /// Puts an alarm into service again.
    ///
    /// # Errors
    /// There is no such alarm, or it is in service.
    pub fn put_in_service(&mut self, now: Now, target: Target<'_>, by: By<'_>) -> Result<(), Refusal> {
        let id = self.find(target).ok_or(Refusal::Unknown)?;
        self.check_length(by)?;
        if !self.has(id, Flags::OUT_OF_SERVICE) {
            return Err(Refusal::InService);
        }
        self.end_service(now, id, Some(by));
        Ok(())
    }

    /// Resets a latched alarm that is gone and acknowledged.
    ///
    /// # Errors
    /// There is no such alarm, it is not latched, still active, or not acknowledged.
    pub fn reset(&mut self, now: Now, target: Target<'_>, by: By<'_>) -> Result<(), Refusal> {
        let id = self.find(target).ok_or(Refusal::Unknown)?;
        self.check_length(by)?;
        let flags = self.row(id).flags;
        if !flags.has(Flags::LATCHED) {
            return Err(Refusal::NotLatched);
        }
        if flags.has(Flags::ACTIVE) {
            return Err(Refusal::StillActive);
        }
        if !flags.has(Flags::ACKED) {
            return Err(Refusal::NotAcknowledged);
        }
        self.set_flag(id, Flags::LATCHED, false);
        self.detail_mut(id).changed = now.utc;
        self.emit(now, id, Transition::Reset, Some(by));
        self.finish(now, id);
        Ok(())
    }

    /// Writes a note about an alarm.
    ///
    /// # Errors
    /// There is no such alarm, or the note is empty.
    pub fn note(&mut self, now: Now, target: Target<'_>, by: By<'_>) -> Result<(), Refusal> {
        let id = self.find(target).ok_or(Refusal::Unknown)?;
        self.check_why(by)?;
        self.emit(now, id, Transition::Noted, Some(by));
        Ok(())
    }

    fn check_why(&self, by: By<'_>) -> Result<(), Refusal> {
        if by.why.trim().is_empty() {
            return Err(Refusal::WhyMissing);
        }
        self.check_length(by)
    }

    const fn check_length(&self, by: By<'_>) -> Result<(), Refusal> {
        let max = self.settings.why_bytes_max;
        if by.why.len() > max { Err(Refusal::WhyTooLong { max }) } else { Ok(()) }
    }
}
