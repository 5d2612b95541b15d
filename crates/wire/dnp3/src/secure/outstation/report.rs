//! The statistics as points: reads of groups 121 and 122, answered here when a request reads nothing else.

use super::{FragmentAction, Outgoing, OutstationSecurity};
use crate::DnpTime;
use crate::app::{AppControl, Fragment, Function, Header, Qualifier, Range};
use crate::objects::bytes_of_time;
use crate::secure::{STATISTICS, Statistic};
use alloc::vec::Vec;
use tieline_core::Now;

/// Events kept until they are read and confirmed; beyond, the oldest is dropped.
const STATISTIC_EVENTS_MAX: usize = 32;
/// Flags of a statistic: online.
const ONLINE: u8 = 1;

/// A count that reached a multiple of its threshold.
#[derive(Clone, Copy, Debug)]
pub(super) struct StatisticEvent {
    statistic: Statistic,
    count: u32,
    time: DnpTime,
}

impl OutstationSecurity {
    pub(super) fn keep_statistic_event(&mut self, now: Now, statistic: Statistic, count: u32) {
        if self.statistic_events.len() >= STATISTIC_EVENTS_MAX {
            self.statistic_events.pop_front();
            // What was reported and is not confirmed is one less.
            if let Some((_, reported)) = &mut self.reported {
                *reported = reported.saturating_sub(1);
            }
        }
        self.statistic_events.push_back(StatisticEvent { statistic, count, time: DnpTime::from(now.utc) });
    }

    /// Answers a read of statistics; other reads, and mixed ones, are the application's.
    pub(super) fn handle_read(&mut self, fragment: &Fragment<'_>) -> FragmentAction {
        let is_ours = |header: &Header<'_>| {
            matches!((header.object().group, header.object().variation), (121, 0 | 1) | (122, 0..=2))
        };
        let ours = fragment.headers().all(|header| header.as_ref().is_ok_and(is_ours));
        if !ours || fragment.objects.is_empty() || self.outgoing.len() >= super::OUTGOING_MAX {
            return FragmentAction::Pass;
        }
        let mut objects = Vec::new();
        let mut events = 0;
        for header in fragment.headers().flatten().filter(is_ours) {
            if header.object().group == 121 {
                self.write_static(&header, &mut objects);
            } else {
                events += self.write_events(&header, events, &mut objects);
            }
        }
        let sequence = fragment.control.sequence;
        self.reported = (events > 0).then_some((sequence, events));
        let control = AppControl { con: events > 0, ..AppControl::single(sequence) };
        self.outgoing.push_back(Outgoing { control, function: Function::Response, objects, is_challenge: false });
        FragmentAction::Done
    }

    /// A confirm of statistic events; all others are the application's.
    pub(super) fn handle_confirm(&mut self, fragment: &Fragment<'_>) -> FragmentAction {
        let control = fragment.control;
        match self.reported.take_if(|(sequence, _)| !control.uns && *sequence == control.sequence) {
            Some((_, count)) => {
                self.statistic_events.drain(..count.min(self.statistic_events.len()));
                FragmentAction::Done
            }
            None => FragmentAction::Pass,
        }
    }

    fn write_static(&self, header: &Header<'_>, out: &mut Vec<u8>) {
        let last = u32::try_from(STATISTICS).unwrap_or(0).saturating_sub(1);
        let (start, stop) = match header.range() {
            Range::All => (0, last),
            Range::Span { start, stop } => (start, stop.min(last)),
            Range::Count(count) => (0, count.saturating_sub(1).min(last)),
        };
        let (Ok(first), Ok(end)) = (u8::try_from(start), u8::try_from(stop)) else { return };
        if start > stop {
            return;
        }
        out.extend_from_slice(&[121, 1, Qualifier::SPAN_8.0, first, end]);
        for (statistic, count) in self.statistics().iter() {
            if (start..=stop).contains(&u32::from(statistic.index())) {
                self.write_fields(count, out);
            }
        }
    }

    /// Writes events after the first `skip`; says how many.
    fn write_events(&self, header: &Header<'_>, skip: usize, out: &mut Vec<u8>) -> usize {
        let most = match header.range() {
            Range::Count(count) => usize::try_from(count).unwrap_or(usize::MAX),
            Range::All | Range::Span { .. } => usize::MAX,
        };
        let variation = if header.object().variation == 1 { 1 } else { 2 };
        let count = self.statistic_events.len().saturating_sub(skip).min(most);
        let Some(byte) = u8::try_from(count).ok().filter(|count| *count > 0) else { return 0 };
        out.extend_from_slice(&[122, variation, Qualifier::INDEXED_8.0, byte]);
        for event in self.statistic_events.iter().skip(skip).take(count) {
            out.push(u8::try_from(event.statistic.index()).unwrap_or(u8::MAX));
            self.write_fields(event.count, out);
            if variation == 2 {
                out.extend_from_slice(&bytes_of_time(event.time));
            }
        }
        count
    }

    fn write_fields(&self, count: u32, out: &mut Vec<u8>) {
        out.push(ONLINE);
        out.extend_from_slice(&self.config().association.to_le_bytes());
        out.extend_from_slice(&count.to_le_bytes());
    }
}
