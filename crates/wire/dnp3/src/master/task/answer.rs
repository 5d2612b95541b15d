//! What answers say besides measurements.

use super::{Request, is_control};
use crate::GroupVar;
use crate::app::{CommandStatus, Function, Headers};
use alloc::boxed::Box;
use core::time::Duration;

/// What an answer brought that is no object of a point. It comes before the end of its task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// What became of each control, in the order of the request; only where there were several.
    Statuses(Box<[CommandStatus]>),
    /// How long what was asked for takes (group 52): a restart, a save.
    Delay(Duration),
    /// The measured delay.
    RoundTrip {
        /// From sending the request to its answer.
        both_ways: Duration,
        /// What the outstation says that it took.
        inside: Duration,
    },
    /// Who answered a request to FFFC.
    Address(u16),
    /// The object headers of one fragment, as they are.
    Objects(Box<[u8]>),
}

/// What an echo is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::master) enum Echo {
    /// There are no controls in it.
    Missing,
    /// It is not what was sent.
    Differs,
    /// It is what was sent; the first status that is no success, or success.
    Same(CommandStatus),
}

/// One control as it is on the wire: its object, index, and bytes without the status.
type Sent<'a> = (GroupVar, u32, &'a [u8]);

fn controls(objects: &[u8]) -> impl Iterator<Item = (Sent<'_>, CommandStatus)> {
    let headers = Headers::new(Function::Operate, objects).flatten().filter(|header| is_control(header.object()));
    let items = headers.flat_map(|header| header.items().map(move |item| (header.object(), item)));
    items.filter_map(|(object, item)| {
        let (status, bytes) = item.bytes.split_last()?;
        Some(((object, item.index, bytes), CommandStatus::from_byte(*status)))
    })
}

impl Request {
    /// Compares the objects of an answer with the controls that were sent: all but the status must agree, byte by byte
    /// (IEEE 1815 4.4.2). Another qualifier says the same.
    pub(in crate::master) fn echo(&self, objects: &[u8]) -> Echo {
        let (mut sent, mut echoed) = (controls(&self.objects), controls(objects));
        let mut worst = Echo::Missing;
        loop {
            worst = match (sent.next(), echoed.next()) {
                (None, None) => return worst,
                (Some(_), None) if worst == Echo::Missing => return worst,
                (Some((a, _)), Some((b, status))) if a == b => match worst {
                    Echo::Missing | Echo::Same(CommandStatus::Success) => Echo::Same(status),
                    Echo::Same(_) | Echo::Differs => worst,
                },
                (None | Some(_), None | Some(_)) => return Echo::Differs,
            };
        }
    }

    /// The status of each control of an answer, where there are several.
    pub(in crate::master) fn statuses(objects: &[u8]) -> Option<Answer> {
        let statuses: Box<[_]> = controls(objects).map(|(_, status)| status).collect();
        (statuses.len() > 1).then_some(Answer::Statuses(statuses))
    }
}
