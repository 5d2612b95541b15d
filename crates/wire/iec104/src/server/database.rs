//! What a station has: points, where commands go, selections, and how far its clock is from ours.
//!
//! All connections of a station share one. It is bounded by what its owner adds; a command point has one selection.

use super::config::{Change, Freeze};
use crate::asdu::{Address, CauseCode, Cp56, Element, Form, TimeForm, TimeTag, TypeId};
use alloc::collections::{BTreeMap, BTreeSet};
use core::fmt;
use core::ops::Bound;
use tieline_core::{Instant, Now, Timestamp};

/// Where an object is.
pub(super) type Place = (u16, Address);

/// A point that a station reports.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// What it says.
    pub element: Element,
    /// The group that it is interrogated with besides the station: 1 to 16, of counters 1 to 4; 0 none.
    pub group: u8,
    /// Whether it is sent at intervals.
    pub is_cyclic: bool,
    /// Whether changes are sent with their time.
    pub is_timed: bool,
}

impl Point {
    /// In no group, and with the time of its changes.
    #[must_use]
    pub const fn new(element: Element) -> Self {
        Self { element, group: 0, is_cyclic: false, is_timed: true }
    }
}

/// How the commands of a point are to be given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SelectRule {
    /// At once, or after a selection.
    #[default]
    Either,
    /// After a selection.
    Select,
    /// At once: a selection is refused.
    Direct,
}

/// Why a database does not take something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseError {
    /// The common address is 0 or that of all stations.
    CommonAddress(u16),
    /// There is one at this address.
    Taken(Address),
    /// The element is none that a station reports, or none that it is commanded by.
    Form(Form),
    /// The group is none.
    Group(u8),
}

impl fmt::Display for DatabaseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CommonAddress(number) => write!(f, "the common address is {number}, expected 1 to 65534"),
            Self::Taken(address) => write!(f, "the object address {address} a second time"),
            Self::Form(form) => write!(f, "an object of the kind {form:?} at a place of another kind"),
            Self::Group(group) => write!(f, "the group is {group}, expected 0 to 16, of counters 0 to 4"),
        }
    }
}

impl core::error::Error for DatabaseError {}

#[derive(Clone, Copy, Debug)]
struct Entry {
    point: Point,
    /// A counter as it was frozen.
    frozen: Option<Element>,
    /// The number of the last freeze.
    sequence: u8,
}

#[derive(Clone, Copy, Debug)]
struct Target {
    form: Form,
    rule: SelectRule,
    selection: Option<Selection>,
}

/// An object that a client has selected.
#[derive(Clone, Copy, Debug)]
struct Selection {
    by: u64,
    type_id: TypeId,
    /// As it is to be executed.
    element: Element,
    until: Instant,
}

/// What became of a select or an execute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permission {
    /// There is no such object.
    Unknown,
    Refused,
    Granted,
}

/// The points of a station, or of several behind one connection.
#[derive(Debug, Default)]
pub struct Database {
    stations: BTreeSet<u16>,
    points: BTreeMap<Place, Entry>,
    targets: BTreeMap<Place, Target>,
    /// How far clocks of the station are ahead of UTC.
    utc_offset_minutes: i16,
    /// Microseconds that the station's clock is ahead of ours.
    clock_shift: i64,
    connections: u64,
}

impl Database {
    /// Without points, where clocks are so far ahead of UTC.
    #[must_use]
    pub fn new(utc_offset_minutes: i16) -> Self {
        Self { utc_offset_minutes, ..Self::default() }
    }

    /// Adds a point.
    ///
    /// # Errors
    /// Its address is taken, or it is none that a station reports.
    pub fn add(&mut self, common_address: u16, address: Address, point: Point) -> Result<(), DatabaseError> {
        let form = point.element.form();
        reported_type(form, false).ok_or(DatabaseError::Form(form))?;
        let groups = if form == Form::Totals { 4 } else { 16 };
        if point.group > groups {
            return Err(DatabaseError::Group(point.group));
        }
        self.add_station(common_address)?;
        if self.points.contains_key(&(common_address, address)) {
            return Err(DatabaseError::Taken(address));
        }
        self.points.insert((common_address, address), Entry { point, frozen: None, sequence: 0 });
        Ok(())
    }

    /// Adds an object that takes commands; a point may have the same address.
    ///
    /// # Errors
    /// Its address is taken, or `form` is none of a command.
    pub fn add_command(
        &mut self,
        common_address: u16,
        address: Address,
        form: Form,
        rule: SelectRule,
    ) -> Result<(), DatabaseError> {
        if !is_command(form) {
            return Err(DatabaseError::Form(form));
        }
        self.add_station(common_address)?;
        if self.targets.contains_key(&(common_address, address)) {
            return Err(DatabaseError::Taken(address));
        }
        self.targets.insert((common_address, address), Target { form, rule, selection: None });
        Ok(())
    }

    /// Adds a station, which may have no points.
    ///
    /// # Errors
    /// The common address is none of one station.
    pub fn add_station(&mut self, common_address: u16) -> Result<(), DatabaseError> {
        if matches!(common_address, 0 | u16::MAX) {
            return Err(DatabaseError::CommonAddress(common_address));
        }
        self.stations.insert(common_address);
        Ok(())
    }

    /// What a point says.
    #[must_use]
    pub fn element(&self, common_address: u16, address: Address) -> Option<Element> {
        self.points.get(&(common_address, address)).map(|entry| entry.point.element)
    }

    /// Sets what a point says. Yields the change, which is to be told to each connection with [`crate::Server::report`]; none
    /// where there is no such point, its kind is another, or it says the same.
    pub fn update(
        &mut self,
        now: Now,
        (common_address, address): (u16, Address),
        element: Element,
        cause: CauseCode,
    ) -> Option<Change> {
        let clock = self.clock(now.utc);
        let entry = self.points.get_mut(&(common_address, address))?;
        if entry.point.element.form() != element.form() || same(&entry.point.element, &element) {
            return None;
        }
        entry.point.element = element;
        let timed = TypeId::of(element.form(), TimeForm::Cp56).filter(|_| entry.point.is_timed);
        let bare = TypeId::of(element.form(), TimeForm::None);
        let time = if timed.is_some() || bare.is_none() { TimeTag::Cp56(clock) } else { TimeTag::None };
        Some(Change { common_address, address, element, time, cause })
    }

    /// The station has started again: no counter is frozen, nothing is selected, and the clock is ours.
    pub fn restart(&mut self) {
        self.clock_shift = 0;
        self.targets.values_mut().for_each(|target| target.selection = None);
        for entry in self.points.values_mut() {
            (entry.frozen, entry.sequence) = (None, 0);
            if let Element::Totals { sequence, .. } = &mut entry.point.element {
                *sequence = 0;
            }
        }
    }

    /// What the station's clock shows.
    #[must_use]
    pub fn clock(&self, utc: Timestamp) -> Cp56 {
        Cp56::new(Timestamp::from_micros(utc.micros().saturating_add(self.clock_shift)), self.utc_offset_minutes)
    }

    /// Sets the station's clock; whether the time is one.
    pub(super) fn set_clock(&mut self, utc: Timestamp, time: Cp56) -> bool {
        let Some(set) = time.timestamp(self.utc_offset_minutes).filter(|_| !time.is_invalid()) else { return false };
        self.clock_shift = set.micros().saturating_sub(utc.micros());
        true
    }

    /// A number of a connection that no other has.
    pub(super) const fn connect(&mut self) -> u64 {
        self.connections += 1;
        self.connections
    }

    /// A connection has ended: what it had selected is free.
    pub(super) fn disconnect(&mut self, connection: u64) {
        for target in self.targets.values_mut() {
            target.selection = target.selection.filter(|selection| selection.by != connection);
        }
    }

    pub(super) fn stations(&self) -> impl Iterator<Item = u16> {
        self.stations.iter().copied()
    }

    pub(super) fn has_station(&self, common_address: u16) -> bool {
        self.stations.contains(&common_address)
    }

    pub(super) fn point(&self, place: Place) -> Option<&Point> {
        self.points.get(&place).map(|entry| &entry.point)
    }

    /// The points of a station behind an address, in order.
    pub(super) fn after(&self, station: u16, last: Option<Address>) -> impl Iterator<Item = (Address, &Point)> {
        let from = last.map_or(Bound::Included((station, Address::default())), |last| Bound::Excluded((station, last)));
        let all = self.points.range((from, Bound::Unbounded)).take_while(move |((at, _), _)| *at == station);
        all.map(|((_, address), entry)| (*address, &entry.point))
    }

    /// What a counter interrogation gets of a counter: as it was frozen, or as it is where it never was.
    pub(super) fn count(&self, place: Place) -> Option<Element> {
        let entry = self.points.get(&place)?;
        Some(entry.frozen.unwrap_or(entry.point.element))
    }

    /// Freezes or resets the counters of a group, 5 all.
    pub(super) fn freeze(&mut self, station: u16, group: u8, freeze: Freeze) {
        let of_station =
            self.points.range_mut((station, Address::default())..).take_while(|((at, _), _)| *at == station);
        for (_, entry) in of_station {
            let Element::Totals { sequence, .. } = &mut entry.point.element else { continue };
            if group != ALL_COUNTERS && entry.point.group != group {
                continue;
            }
            if freeze != Freeze::Reset {
                entry.sequence = (entry.sequence + 1) & 0x1F;
                *sequence = entry.sequence;
                entry.frozen = Some(entry.point.element);
            }
            if let Element::Totals { count, .. } = &mut entry.point.element
                && freeze != Freeze::Freeze
            {
                *count = 0;
            }
        }
    }

    /// Whether an object takes commands of a form; none where it takes none at all.
    pub(super) fn takes(&self, place: Place, form: Form) -> Option<bool> {
        self.targets.get(&place).map(|target| target.form == form)
    }

    /// Selects an object for a connection.
    pub(super) fn select(
        &mut self,
        (place, by): (Place, u64),
        (type_id, element): (TypeId, Element),
        now: Instant,
        until: Instant,
    ) -> Permission {
        let Some(target) = self.targets.get_mut(&place) else { return Permission::Unknown };
        let other = target.selection.filter(|selection| selection.until > now && selection.by != by);
        if other.is_some() || target.rule == SelectRule::Direct {
            return Permission::Refused;
        }
        target.selection = Some(Selection { by, type_id, element: element.with_select(false), until });
        Permission::Granted
    }

    /// Whether a connection may execute a command; its selection ends with that.
    pub(super) fn execute(
        &mut self,
        (place, by): (Place, u64),
        (type_id, element): (TypeId, Element),
        now: Instant,
    ) -> Permission {
        let Some(target) = self.targets.get_mut(&place) else { return Permission::Unknown };
        let selection = target.selection.filter(|selection| selection.until > now);
        target.selection = selection.filter(|selection| selection.by != by);
        let needs_select = target.rule == SelectRule::Select && target.form != Form::SetBits;
        match selection {
            Some(selection) if selection.by == by && selection.type_id == type_id => {
                if same(&selection.element, &element) { Permission::Granted } else { Permission::Refused }
            }
            Some(_) => Permission::Refused,
            None if needs_select => Permission::Refused,
            None => Permission::Granted,
        }
    }

    /// Gives up a selection of a connection.
    pub(super) fn deselect(&mut self, place: Place, by: u64, now: Instant) -> Permission {
        let Some(target) = self.targets.get_mut(&place) else { return Permission::Unknown };
        match target.selection.filter(|selection| selection.by == by && selection.until > now) {
            Some(_) => {
                target.selection = None;
                Permission::Granted
            }
            None => Permission::Refused,
        }
    }
}

/// QCC of all counters.
pub(super) const ALL_COUNTERS: u8 = 5;

/// The type that a point is sent as; none of what a station does not report.
pub(super) fn reported_type(form: Form, is_timed: bool) -> Option<TypeId> {
    let bare = TypeId::of(form, TimeForm::None);
    let timed = TypeId::of(form, TimeForm::Cp56);
    let found = if is_timed { timed.or(bare) } else { bare.or(timed) };
    found.filter(|type_id| type_id.0 <= TypeId::M_EP_TF_1.0)
}

/// Whether a form is one of commands.
pub(super) const fn is_command(form: Form) -> bool {
    matches!(
        form,
        Form::SingleCommand
            | Form::DoubleCommand
            | Form::StepCommand
            | Form::SetNormalized
            | Form::SetScaled
            | Form::SetShort
            | Form::SetBits
    )
}

/// Whether two elements say the same; a number that is none is equal to itself.
fn same(one: &Element, other: &Element) -> bool {
    match (one, other) {
        (Element::Short { value, flags }, Element::Short { value: second, flags: others }) => {
            value.to_bits() == second.to_bits() && flags == others
        }
        (Element::SetShort { value, qualifier }, Element::SetShort { value: second, qualifier: others }) => {
            value.to_bits() == second.to_bits() && qualifier == others
        }
        (one, other) => one == other,
    }
}
