//! Causes and their consequences.
//!
//! An alarm is the consequence of the nearest active alarm above it: `high` of `high_high` of the same topic, and otherwise of
//! the `away` of its device, of the channel or link of that, of the site. The tree is that of the places. What it became the
//! consequence of stays its cause, although a nearer one may come later.

use super::Alarms;
use crate::Transition;
use crate::alarm::{By, Flags};
use crate::rows::{NEVER, NONE, Timer};
use alloc::sync::Arc;
use alloc::vec::Vec;
use tieline_core::Now;

impl Alarms {
    /// An alarm was raised: puts it below its cause, or into the list of its place.
    pub(super) fn find_cause(&mut self, now: Now, id: u32) {
        let cause = self.detail(id).map_or(NONE, |detail| detail.cause);
        if cause != NONE {
            if self.has(cause, Flags::ACTIVE) {
                self.inherit(now, id, cause);
                return;
            }
            self.detach(id);
            self.finish(now, cause);
        }
        match self.cause_above(id) {
            Some(cause) => self.attach(now, id, cause),
            None => self.open(id),
        }
    }

    /// The nearest active alarm above.
    fn cause_above(&self, id: u32) -> Option<u32> {
        let row = self.row(id);
        let outer = row.kind.outer().and_then(|kind| self.row_of(row.input, kind));
        if let Some(outer) = outer.filter(|outer| self.has(*outer, Flags::ACTIVE)) {
            return Some(outer);
        }
        let mut at = self.place_below_causes(id);
        while let Some(place) = self.places.get(at as usize) {
            let presence = self.row_of(place.input, crate::Kind::Away);
            if let Some(cause) = presence.filter(|cause| *cause != id && self.has(*cause, Flags::ACTIVE)) {
                return Some(cause);
            }
            at = place.parent;
        }
        None
    }

    /// The first place whose `away` may be the cause of a row.
    fn place_below_causes(&self, id: u32) -> u32 {
        let place = self.inputs[self.row(id).input as usize].place;
        if self.is_presence(id) { self.places.get(place as usize).map_or(NONE, |place| place.parent) } else { place }
    }

    /// Whether one row may be the cause of another by where they are.
    pub(super) fn may_be_cause(&self, cause: u32, id: u32) -> bool {
        let (above, row) = (self.row(cause), self.row(id));
        if above.input == row.input && row.kind.outer() == Some(above.kind) {
            return true;
        }
        let mut at = self.place_below_causes(id);
        while let Some(place) = self.places.get(at as usize) {
            if place.input == above.input {
                return self.is_presence(cause) && cause != id;
            }
            at = place.parent;
        }
        false
    }

    /// An alarm was raised: what came not long before it, below it, becomes its consequence.
    pub(super) fn gather(&mut self, now: Now, id: u32) {
        let row = self.row(id);
        if let Some(inner) = row.kind.inner().and_then(|kind| self.row_of(row.input, kind)) {
            let is_alone = self.detail(inner).is_some_and(|detail| detail.cause == NONE);
            if is_alone && self.has(inner, Flags::ACTIVE) {
                self.fold(now, inner, id);
            }
        }
        if !self.is_presence(id) {
            return;
        }
        let mut places = alloc::vec![self.inputs[self.row(id).input as usize].place];
        while let Some(place) = places.pop().and_then(|place| self.places.get(place as usize)) {
            places.extend_from_slice(&place.children);
            for open in place.open.clone() {
                let raised_at = self.detail(open).map_or(NEVER, |detail| detail.raised_at);
                let is_new = raised_at != NEVER && now.mono.since(raised_at) <= self.settings.gather;
                if is_new && open != id {
                    self.fold(now, open, id);
                }
            }
        }
    }

    /// An active alarm that stood for itself becomes a consequence.
    fn fold(&mut self, now: Now, id: u32, cause: u32) {
        self.close(id);
        self.attach(now, id, cause);
        self.detail_mut(id).changed = now.utc;
        self.emit(now, id, Transition::Folded, None);
    }

    /// A cause has returned: its consequences follow within `gather`, or stand for themselves.
    pub(super) fn let_go(&mut self, now: Now, id: u32) {
        if self.detail(id).is_none_or(|detail| detail.consequences.is_empty()) {
            return;
        }
        if self.is_presence(id) && !self.settings.gather.is_zero() {
            self.set_timer(id, Timer::Release, Some(now.mono + self.settings.gather));
        } else {
            self.release(now, id);
        }
    }

    /// Consequences that are still active leave a cause that is not; all do, once it is normal.
    pub(super) fn release(&mut self, now: Now, id: u32) {
        self.set_timer(id, Timer::Release, None);
        if self.has(id, Flags::ACTIVE) {
            return;
        }
        let is_limit = !self.is_presence(id);
        let is_done = self.row(id).flags.is_normal();
        let mut rows = self.detail(id).map_or_else(Vec::new, |detail| detail.consequences.clone());
        rows.sort_unstable();
        for row in rows {
            let is_active = self.has(row, Flags::ACTIVE);
            if is_active || is_done {
                self.detach(row);
                self.detail_mut(row).changed = now.utc;
                self.stand(now, row, is_limit);
            }
        }
        self.finish(now, id);
    }

    /// A row that has left its cause finds another, or stands for itself. Where the cause was a limit of the same topic, it was
    /// heard of before, and is not annunciated again.
    pub(super) fn stand(&mut self, now: Now, id: u32, is_quiet: bool) {
        if !self.has(id, Flags::ACTIVE) {
            self.emit(now, id, Transition::Unfolded, None);
            return;
        }
        if let Some(cause) = self.cause_above(id).filter(|_| !is_quiet) {
            self.attach(now, id, cause);
            self.emit(now, id, Transition::Folded, None);
            return;
        }
        self.open(id);
        if is_quiet {
            self.emit(now, id, Transition::Unfolded, None);
        } else {
            self.reannunciate(now, id, Transition::Unfolded, None);
        }
    }

    pub(super) fn attach(&mut self, now: Now, id: u32, cause: u32) {
        let list = &mut self.detail_mut(cause).consequences;
        let position = u32::try_from(list.len()).unwrap_or(NONE);
        list.push(id);
        let detail = self.detail_mut(id);
        (detail.cause, detail.position) = (cause, position);
        let more = detail.count.saturating_add(1);
        self.count_up(cause, |count| count.saturating_add(more));
        self.inherit(now, id, cause);
    }

    /// A consequence of what was acknowledged is acknowledged with it.
    fn inherit(&mut self, now: Now, id: u32, cause: u32) {
        if !self.has(cause, Flags::ACKED) {
            return;
        }
        let who = self.detail(cause).and_then(|detail| detail.acked_by.clone());
        if !self.has(id, Flags::ACKED) {
            self.set_flag(id, Flags::ACKED, true);
            self.detail_mut(id).acked_by.clone_from(&who);
        }
        self.acknowledge_below(now, id, who.as_ref());
    }

    /// Takes a row from its cause, where it has one.
    pub(super) fn detach(&mut self, id: u32) {
        let Some(detail) = self.row_mut(id).detail.as_deref_mut().filter(|detail| detail.cause != NONE) else { return };
        let (cause, position) = (detail.cause, detail.position);
        (detail.cause, detail.position) = (NONE, NONE);
        let fewer = detail.count.saturating_add(1);
        let list = &mut self.detail_mut(cause).consequences;
        list.swap_remove(position as usize);
        if let Some(moved) = list.get(position as usize).copied() {
            self.detail_mut(moved).position = position;
        }
        self.count_up(cause, |count| count.saturating_sub(fewer));
    }

    /// Changes the counts of a cause and of the causes of that.
    fn count_up(&mut self, cause: u32, change: impl Fn(u32) -> u32) {
        let mut at = cause;
        while at != NONE {
            let detail = self.detail_mut(at);
            detail.count = change(detail.count);
            let above = detail.cause;
            self.counted.insert(at);
            at = above;
        }
    }

    /// Puts an active row into the list of its place.
    pub(super) fn open(&mut self, id: u32) {
        let place = self.inputs[self.row(id).input as usize].place;
        let Some(list) = self.places.get_mut(place as usize).map(|place| &mut place.open) else { return };
        let position = u32::try_from(list.len()).unwrap_or(NONE);
        list.push(id);
        self.detail_mut(id).position = position;
    }

    /// Takes a row from the list of its place, where it is in it.
    pub(super) fn close(&mut self, id: u32) {
        let place = self.inputs[self.row(id).input as usize].place;
        let is_listed = self.detail(id).is_some_and(|detail| detail.cause == NONE && detail.position != NONE);
        if !is_listed {
            return;
        }
        let position = core::mem::replace(&mut self.detail_mut(id).position, NONE);
        let Some(list) = self.places.get_mut(place as usize).map(|place| &mut place.open) else { return };
        list.swap_remove(position as usize);
        if let Some(moved) = list.get(position as usize).copied() {
            self.detail_mut(moved).position = position;
        }
    }

    /// Acknowledges all consequences of a row, and theirs. Those that are done with it are dropped.
    pub(super) fn acknowledge_below(&mut self, now: Now, id: u32, who: Option<&Arc<str>>) {
        let mut rows = self.detail(id).map_or_else(Vec::new, |detail| detail.consequences.clone());
        let mut at = 0;
        while let Some(row) = rows.get(at).copied() {
            at += 1;
            rows.extend_from_slice(self.detail(row).map_or(&[], |detail| &detail.consequences));
        }
        for row in rows.into_iter().rev() {
            if !self.has(row, Flags::ACKED) {
                self.set_flag(row, Flags::ACKED, true);
                let detail = self.detail_mut(row);
                (detail.acked_by, detail.changed) = (who.cloned(), now.utc);
                let by = who.map(|who| By { who, why: "" });
                self.emit(now, row, Transition::Acknowledged, by);
            }
            self.finish(now, row);
        }
    }
}
