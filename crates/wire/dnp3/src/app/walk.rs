//! A place in the measurements of a fragment that somebody else holds.

use super::header::Shape;
use super::{Function, Headers};
use crate::{GroupVar, Measurement, Stamp};

/// Walks over the measurements of a response, one a call, without borrowing it between calls: a master gives its events
/// from the fragment itself and needs no queue of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Walk {
    /// Where the next header begins.
    at: usize,
    open: Option<Open>,
    cto: Option<Stamp>,
}

#[derive(Clone, Copy, Debug)]
struct Open {
    shape: Shape,
    /// Where the objects of the header begin and how many octets they take.
    data_at: usize,
    data_octets: usize,
    position: usize,
}

impl Walk {
    /// A walk that begins at the first header.
    #[must_use]
    pub const fn new() -> Self {
        Self { at: 0, open: None, cto: None }
    }

    /// The next measurement of `objects` (those of the same response at every call) with the group and variation it came
    /// as. None at the end, and at the first header that cannot be read.
    #[inline]
    pub fn next(&mut self, objects: &[u8]) -> Option<(GroupVar, Measurement)> {
        loop {
            if let Some(open) = &mut self.open {
                let data = objects.get(open.data_at..)?.get(..open.data_octets)?;
                if let Some(measurement) = open.shape.measurement(data, open.position, self.cto) {
                    open.position += 1;
                    return Some((open.shape.object, measurement));
                }
                self.open = None;
            }
            let mut headers = Headers::new(Function::Response, objects.get(self.at..)?);
            let header = headers.next()?.ok()?;
            self.at += headers.offset();
            self.cto = header.common_time().or(self.cto);
            let data_octets = header.data.len();
            self.open = Some(Open { shape: header.shape, data_at: self.at - data_octets, data_octets, position: 0 });
        }
    }
}
