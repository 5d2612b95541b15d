//! A place in the objects of a fragment that somebody else holds.

use super::header::Shape;
use super::object::{self, Object};
use super::{Function, Headers};
use crate::{GroupVar, Measurement, Stamp};

/// What a walk finds.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// A value of a point, and the group and variation it came as.
    Measurement(GroupVar, Measurement),
    /// Something else.
    Object {
        /// What.
        object: Object,
        /// Whether it reports a change.
        event: bool,
    },
}

/// Walks over the objects of a response, one a call, without borrowing it between calls: a master gives its events
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
    /// as; other objects are passed over. None at the end, and at the first header that cannot be read.
    #[inline]
    pub fn next(&mut self, objects: &[u8]) -> Option<(GroupVar, Measurement)> {
        loop {
            match self.step(objects)? {
                Found::Measurement(object, measurement) => return Some((object, measurement)),
                Found::Object { .. } => {}
            }
        }
    }

    /// The next thing that `objects` bring.
    #[inline]
    pub fn step(&mut self, objects: &[u8]) -> Option<Found> {
        loop {
            if let Some(open) = &mut self.open {
                let data = objects.get(open.data_at..)?.get(..open.data_octets)?;
                if let Some(measurement) = open.shape.measurement(data, open.position, self.cto) {
                    open.position += 1;
                    return Some(Found::Measurement(open.shape.object, measurement));
                }
                let other = open.shape.layout.as_ref().is_some_and(object::brings_objects);
                if other && let Some(found) = open.object(data, self.cto) {
                    return Some(found);
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

impl Open {
    /// The first object that is no measurement, which then is behind.
    #[cold]
    fn object(&mut self, data: &[u8], cto: Option<Stamp>) -> Option<Found> {
        let event = object::is_event(self.shape.layout.as_ref()?);
        let (object, octets) = object::read(&self.shape, data, self.position, cto)?;
        self.position += 1;
        self.data_at += octets;
        self.data_octets -= octets;
        Some(Found::Object { object, event })
    }
}
