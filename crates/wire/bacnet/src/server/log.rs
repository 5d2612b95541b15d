//! ReadRange of trend logs (clause 15.8).

use super::Server;
use super::properties::{UNKNOWN_OBJECT, UNKNOWN_PROPERTY};
use crate::names::{ErrorClass, ErrorCode};
use crate::service::{LogRecord, Range, RangeAck, RangeRequest};
use crate::{PropertyId, ServiceError};
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Bytes of an answer beside its records.
const FRAME_BYTES: usize = 40;

/// Records from one place to another, the first is 0.
struct Found {
    start: usize,
    end: usize,
    /// The newest are kept where not all fit.
    backwards: bool,
}

impl Server {
    /// The answer to a ReadRange that has at most so many bytes.
    pub(super) fn read_range(&self, request: &RangeRequest, bytes_max: usize) -> Result<Vec<u8>, ServiceError> {
        let object = self.objects.get(&request.reference.object).ok_or(UNKNOWN_OBJECT)?;
        if request.reference.property != PropertyId::LOG_BUFFER {
            let exists = self.properties(object.id, PropertyId::ALL)?.contains(&request.reference.property);
            let no_list = ServiceError::new(ErrorClass::SERVICES, ErrorCode::PROPERTY_IS_NOT_A_LIST);
            return Err(if exists { no_list } else { UNKNOWN_PROPERTY });
        }
        let log = object.log.as_ref().ok_or(UNKNOWN_PROPERTY)?;
        let count = log.records.len();
        let first_sequence = log.total.wrapping_sub(u32::try_from(count).unwrap_or(0)).wrapping_add(1);
        let found = find(&log.records, first_sequence, request.range);
        let (start, items, has_more) = fitting(&log.records, &found, bytes_max.saturating_sub(FRAME_BYTES));
        let by_position = matches!(request.range, None | Some(Range::Position(..)));
        let sequence = first_sequence.wrapping_add(u32::try_from(start).unwrap_or(0));
        let taken = items.len();
        let bytes: Vec<u8> = items.into_iter().flatten().collect();
        let ack = RangeAck {
            reference: request.reference,
            has_first: taken > 0 && start == 0,
            has_last: taken > 0 && start + taken == count,
            has_more,
            count: u32::try_from(taken).unwrap_or(u32::MAX),
            items: &bytes,
            first_sequence: (!by_position && taken > 0).then_some(sequence),
        };
        let mut out = Vec::new();
        ack.emit(&mut out);
        Ok(out)
    }
}

fn find(records: &VecDeque<LogRecord>, first_sequence: u32, range: Option<Range>) -> Found {
    let of = |start: i64, count: i32| {
        let count = i64::from(count);
        let (from, to) = if count > 0 { (start, start + count) } else { (start + count + 1, start + 1) };
        let place = |at: i64| usize::try_from(at.max(0)).unwrap_or(0).min(records.len());
        // What begins outside the list finds nothing, it is not moved into it.
        let is_inside = usize::try_from(start).is_ok_and(|start| start < records.len());
        let (start, end) = if is_inside { (place(from), place(to)) } else { (0, 0) };
        Found { start, end, backwards: count < 0 }
    };
    match range {
        None => Found { start: 0, end: records.len(), backwards: false },
        Some(Range::Position(start, count)) => of(i64::from(start) - 1, count),
        Some(Range::Sequence(start, count)) => of(i64::from(start.wrapping_sub(first_sequence)), count),
        Some(Range::Time(at, count)) => {
            let after = records.iter().position(|record| record.at > at);
            let before = records.iter().rposition(|record| record.at < at);
            let place = if count > 0 { after } else { before };
            of(place.and_then(|place| i64::try_from(place).ok()).unwrap_or(-1), count)
        }
    }
}

/// The records that fit: where they start, each in bytes, whether some were left out.
fn fitting(records: &VecDeque<LogRecord>, found: &Found, bytes_max: usize) -> (usize, Vec<Vec<u8>>, bool) {
    let places: Vec<usize> = (found.start..found.end).collect();
    let (mut left, mut items) = (bytes_max, Vec::new());
    let mut take = |place: &usize| {
        let mut bytes = Vec::with_capacity(24);
        records.get(*place)?.emit(&mut bytes);
        left = left.checked_sub(bytes.len())?;
        items.push(bytes);
        Some(())
    };
    let all = if found.backwards {
        places.iter().rev().try_for_each(|place| take(place).ok_or(()))
    } else {
        places.iter().try_for_each(|place| take(place).ok_or(()))
    };
    let taken = items.len();
    if found.backwards {
        items.reverse();
        return (found.end - taken, items, all.is_err());
    }
    (found.start, items, all.is_err())
}
