//! What a response brings, one by one.

use super::header::Header;
use super::object::{self, Object};
use super::{Fragment, Function, Headers, Measurements};
use crate::{GroupVar, Measurement, Stamp};
use alloc::vec::Vec;
use core::fmt;

/// What a walk finds.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// A value of a point.
    Measurement {
        /// The group and variation it came as.
        object: GroupVar,
        /// The value.
        measurement: Measurement,
        /// Whether it is a reported change and not a present state.
        event: bool,
    },
    /// Something else.
    Object {
        /// What.
        object: Object,
        /// Whether it reports a change.
        event: bool,
    },
}

impl Found {
    /// Whether it is a report of a change and not a present state.
    #[must_use]
    pub const fn is_event(&self) -> bool {
        match self {
            Self::Measurement { event, .. } | Self::Object { event, .. } => *event,
        }
    }
}

/// Walks over the objects of a response, in the order of the wire; ends at the first header that cannot be read.
///
/// All at once ([`Iterator::for_each`], [`Iterator::fold`] and what is made of them) costs less than one by one.
#[derive(Clone, Debug)]
pub struct Walk<'a> {
    headers: Headers<'a>,
    open: Option<Open<'a>>,
    cto: Option<Stamp>,
}

#[derive(Clone, Copy, Debug)]
struct Open<'a> {
    header: Header<'a>,
    position: usize,
}

impl<'a> Walk<'a> {
    /// A walk over the objects of a response.
    #[must_use]
    pub const fn new(objects: &'a [u8]) -> Self {
        Self { headers: Headers::new(Function::Response, objects), open: None, cto: None }
    }

    /// The measurements and the group and variation that each came as; other objects are passed over.
    pub fn measurements(self) -> impl Iterator<Item = (GroupVar, Measurement)> {
        self.filter_map(|found| match found {
            Found::Measurement { object, measurement, .. } => Some((object, measurement)),
            Found::Object { .. } => None,
        })
    }

    /// Opens the next header.
    fn advance(&mut self) -> Option<()> {
        let header = self.headers.next()?.ok()?;
        self.cto = header.common_time().or(self.cto);
        self.open = Some(Open { header, position: 0 });
        Some(())
    }
}

impl Iterator for Walk<'_> {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            if let Some(open) = &mut self.open {
                if let Some(found) = open.next(self.cto) {
                    return Some(found);
                }
                self.open = None;
            }
            self.advance()?;
        }
    }

    #[inline]
    fn fold<B, F: FnMut(B, Found) -> B>(mut self, init: B, mut f: F) -> B {
        let mut all = init;
        loop {
            if let Some(mut open) = self.open.take() {
                let (header, cto) = (open.header, self.cto);
                if header.brings_measurements() {
                    let (object, event) = (header.object(), header.is_event());
                    let rest = Measurements::starting_at(header, cto, open.position);
                    all = rest.fold(all, |all, measurement| f(all, Found::Measurement { object, measurement, event }));
                } else {
                    while let Some(found) = open.next(cto) {
                        all = f(all, found);
                    }
                }
            }
            if self.advance().is_none() {
                return all;
            }
        }
    }
}

impl Open<'_> {
    fn next(&mut self, cto: Option<Stamp>) -> Option<Found> {
        let Header { shape, data } = self.header;
        if self.header.brings_measurements() {
            let measurement = shape.measurement(data, self.position, cto)?;
            self.position += 1;
            return Some(Found::Measurement { object: shape.object, measurement, event: self.header.is_event() });
        }
        let layout = shape.layout.as_ref().filter(|layout| object::brings_objects(layout))?;
        let event = object::is_event(layout);
        let (object, bytes) = object::read(&shape, data, self.position, cto)?;
        self.position += 1;
        self.header.data = data.get(bytes..)?;
        Some(Found::Object { object, event })
    }
}

/// What one response brought: values of points and other objects, in the order of the wire. It holds the fragment and
/// reads it as it is walked over.
#[derive(Clone, PartialEq)]
pub struct Values {
    fragment: Vec<u8>,
}

impl Values {
    /// The objects of a response.
    pub(crate) const fn new(fragment: Vec<u8>) -> Self {
        Self { fragment }
    }

    /// What it brought, first to last.
    #[must_use]
    pub fn iter(&self) -> Walk<'_> {
        Walk::new(Fragment::parse(&self.fragment).map_or(&[], |fragment| fragment.objects))
    }
}

impl<'v> IntoIterator for &'v Values {
    type Item = Found;
    type IntoIter = Walk<'v>;

    fn into_iter(self) -> Walk<'v> {
        self.iter()
    }
}

impl fmt::Debug for Values {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self).finish()
    }
}
