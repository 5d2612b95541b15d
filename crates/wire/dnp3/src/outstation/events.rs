//! Events that wait to be reported and confirmed: one queue in the order they happened, 24 bytes an event, no heap
//! while it is empty and small.
//!
//! An event goes `Idle → Selected(header) → Written → gone` (confirmed), or back to `Idle` when the confirm does not
//! come or another request takes its place: nothing leaves the queue unconfirmed except by overflow.

use super::database::Change;
use crate::app::Sample;
use crate::{Classes, EventClass, Flags, PointType, Stamp};
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// Events that keep their place when the queue is empty; a longer queue gives its memory back.
const KEPT_CAPACITY: usize = 16;

/// How many events of each type are kept before the oldest of that type is dropped (and IIN2.3 is set).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventLimits([u16; 9]);

impl EventLimits {
    /// The same limit for every type; zero keeps no events.
    #[must_use]
    pub const fn all(limit: u16) -> Self {
        Self([limit; 9])
    }

    /// The same with another limit for one type.
    #[must_use]
    pub fn with(mut self, point_type: PointType, limit: u16) -> Self {
        if let Some(kept) = self.0.get_mut(point_type as usize) {
            *kept = limit;
        }
        self
    }

    /// The limit of a type.
    #[must_use]
    pub fn of(&self, point_type: PointType) -> u16 {
        self.0.get(point_type as usize).copied().unwrap_or(0)
    }
}

impl Default for EventLimits {
    /// 100 of each type.
    fn default() -> Self {
        Self::all(100)
    }
}

/// How far an event is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// Waits to be asked for.
    Idle,
    /// Chosen by that object header of the request; not yet in a fragment.
    Selected(u8),
    /// In a fragment that awaits its confirm.
    Written,
}

/// What events of one kind have in common: all but octet strings, which differ in their length, are reported as one group and
/// variation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub(super) point_type: PointType,
    pub(super) class: EventClass,
    pub(super) variation: u8,
    /// It tells of a control (groups 13 and 43): the flags are its status, the bits what was commanded.
    pub(super) is_command: bool,
}

/// One event: 24 bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Event {
    /// The value's bits; for octet strings the number of the text.
    pub(super) bits: u64,
    millis_low: u32,
    millis_high: u16,
    pub(super) index: u16,
    pub(super) kind: Kind,
    pub(super) mark: Mark,
    pub(super) flags: Flags,
    synchronized: bool,
}

const _: () = assert!(size_of::<Event>() == 24);

impl Event {
    /// The group that it is reported in.
    pub(super) const fn group(&self) -> u8 {
        match (self.kind.is_command, self.kind.point_type) {
            (true, PointType::BinaryOutput) => 13,
            (true, PointType::AnalogOutput) => 43,
            (_, point_type) => point_type.event_group(),
        }
    }

    pub(super) fn stamp(&self) -> Stamp {
        let millis = u64::from(self.millis_low) | u64::from(self.millis_high) << 32;
        Stamp { time: crate::DnpTime::from_millis(millis), synchronized: self.synchronized }
    }

    /// What a fragment tells of it; of octet strings the bytes besides.
    pub(super) fn sample(&self) -> Sample {
        Sample { index: self.index, flags: self.flags, bits: self.bits, stamp: self.stamp() }
    }

    fn is_waiting(&self) -> bool {
        self.mark != Mark::Written
    }
}

/// Whether all that was to be written fitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Room {
    Enough,
    Full,
}

/// Which events an object header asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    Classes(Classes),
    /// Changes of points of a type.
    Type(PointType),
    /// Controls of points of a type.
    Commands(PointType),
}

impl Wanted {
    fn holds(self, kind: Kind) -> bool {
        match self {
            Self::Classes(classes) => classes.contains(kind.class.into()),
            Self::Type(point_type) => kind.point_type == point_type && !kind.is_command,
            Self::Commands(point_type) => kind.point_type == point_type && kind.is_command,
        }
    }
}

/// All events of one outstation.
#[derive(Debug)]
pub(super) struct EventBuffer {
    events: VecDeque<Event>,
    /// Bytes by number, ascending.
    texts: VecDeque<(u64, Box<[u8]>)>,
    next_text: u64,
    limits: EventLimits,
    counts: [u16; 9],
    /// Events not written, by class.
    waiting: [u32; 3],
    /// Types that dropped an event and have had no room since, or not told it since.
    overflown: u16,
    /// Types among them of which the response that awaits its confirm tells.
    told: u16,
    /// A written event was dropped: a repeated response cannot be the same.
    written_lost: bool,
    dropped: u64,
}

impl EventBuffer {
    pub(super) const fn new(limits: EventLimits) -> Self {
        Self {
            events: VecDeque::new(),
            texts: VecDeque::new(),
            next_text: 0,
            limits,
            counts: [0; 9],
            waiting: [0; 3],
            overflown: 0,
            told: 0,
            written_lost: false,
            dropped: 0,
        }
    }

    /// Keeps an event, dropping the oldest of its type when that type is full.
    #[inline]
    pub(super) fn push(&mut self, point_type: PointType, index: u16, change: Change, bytes: &[u8], stamp: Stamp) {
        if !self.has_room(point_type) && !self.make_room(point_type) {
            return;
        }
        let mut bits = change.bits;
        if point_type == PointType::OctetString {
            bits = self.next_text;
            self.next_text += 1;
            self.texts.push_back((bits, bytes.into()));
        }
        self.append(point_type, index, Change { bits, ..change }, stamp, false);
    }

    /// Keeps an event that tells of a control, in the room of its point's type.
    pub(super) fn push_command(&mut self, point_type: PointType, index: u16, command: Change, stamp: Stamp) {
        if self.has_room(point_type) || self.make_room(point_type) {
            self.append(point_type, index, command, stamp, true);
        }
    }

    fn has_room(&self, point_type: PointType) -> bool {
        self.count(point_type) < self.limits.of(point_type)
    }

    /// Where the queue must grow for an event of a type, and so many updates follow at once, it grows by what it holds
    /// several times over, so that a report does not move it often; and by no more than those can need.
    pub(super) fn grow(&mut self, point_type: PointType, updates: usize) {
        let len = self.events.len();
        if len == self.events.capacity() && self.has_room(point_type) {
            self.events.reserve_exact(updates.min(3 * len + 4));
        }
    }

    /// Drops the oldest event of a type that is full; says whether events of the type are kept at all.
    #[cold]
    fn make_room(&mut self, point_type: PointType) -> bool {
        let limit = self.limits.of(point_type);
        if limit > 0 {
            self.overflown |= bit(point_type);
            self.told &= !bit(point_type);
            self.dropped += 1;
            self.drop_oldest(point_type);
        }
        limit > 0
    }

    #[inline]
    fn append(&mut self, point_type: PointType, index: u16, change: Change, stamp: Stamp, is_command: bool) {
        let [a, b, c, d, e, f, ..] = stamp.time.millis().to_le_bytes();
        self.events.push_back(Event {
            bits: change.bits,
            millis_low: u32::from_le_bytes([a, b, c, d]),
            millis_high: u16::from_le_bytes([e, f]),
            index,
            kind: Kind { point_type, class: change.class, variation: change.event_variation, is_command },
            mark: Mark::Idle,
            flags: change.flags,
            synchronized: stamp.synchronized,
        });
        add(&mut self.counts, point_type as usize, 1);
        add(&mut self.waiting, change.class as usize, 1);
    }

    /// Marks the idle events that a header asks for, oldest first, at most `limit`.
    pub(super) fn select(&mut self, header: u8, wanted: Wanted, limit: usize) -> usize {
        let idle = self.events.iter_mut().filter(|e| e.mark == Mark::Idle && wanted.holds(e.kind));
        idle.take(limit).map(|e| e.mark = Mark::Selected(header)).count()
    }

    /// Gives the events with a mark to `write`, oldest first, at most `left` of them, as many of one kind at once as follow one
    /// another; an octet string by itself, with its bytes. `write` says how many it wrote, and whether that was for
    /// want of room. Of one class, or of all.
    pub(super) fn write_marked(
        &mut self,
        mark: Mark,
        class: Option<EventClass>,
        left: &mut usize,
        mut write: impl FnMut(&[Event], &[u8]) -> (usize, Room),
    ) -> Room {
        let Self { events, texts, waiting, .. } = self;
        let is_meant = |event: &Event| event.mark == mark && class.is_none_or(|class| event.kind.class == class);
        let (front, back) = events.as_mut_slices();
        for mut rest in [front, back] {
            while *left > 0
                && let Some(begin) = rest.iter().position(is_meant)
            {
                let (_, begun) = rest.split_at_mut(begin);
                let Some((first, others)) = begun.split_first() else { break };
                let is_text = first.kind.point_type == PointType::OctetString;
                let (bytes, most) = if is_text { (bytes(texts, first), 0) } else { (&[][..], *left - 1) };
                let is_like = |event: &&Event| event.kind == first.kind && event.mark == mark;
                let (kind, more) = (first.kind, others.iter().take(most).take_while(is_like).count());
                let (run, after) = begun.split_at_mut(1 + more);
                let (written, room) = write(run, bytes);
                let run = run.get_mut(..written).unwrap_or_default();
                run.iter_mut().for_each(|event| event.mark = Mark::Written);
                *left -= run.len();
                if mark != Mark::Written {
                    sub(waiting, kind.class as usize, u32::try_from(run.len()).unwrap_or(u32::MAX));
                }
                if room == Room::Full {
                    return room;
                }
                rest = after;
            }
        }
        Room::Enough
    }

    /// The confirm came: what was written is gone.
    pub(super) fn confirm(&mut self) -> usize {
        let before = self.events.len();
        let (counts, texts) = (&mut self.counts, &mut self.texts);
        if self.waiting == [0; 3] {
            self.events.clear();
            texts.clear();
            counts.fill(0);
        } else {
            self.events.retain(|event| {
                let keep = event.is_waiting();
                if !keep {
                    sub(counts, event.kind.point_type as usize, 1);
                    forget_text(texts, event);
                }
                keep
            });
        }
        self.written_lost = false;
        for point_type in PointType::ALL {
            if self.count(point_type) < self.limits.of(point_type) {
                self.overflown &= !(bit(point_type) & self.told);
            }
        }
        self.told = 0;
        if self.events.is_empty() && self.events.capacity() > KEPT_CAPACITY {
            self.events = VecDeque::new();
            self.texts = VecDeque::new();
        }
        before - self.events.len()
    }

    /// The confirm did not come: everything waits again.
    pub(super) fn rearm(&mut self) {
        for event in &mut self.events {
            if event.mark == Mark::Written {
                add(&mut self.waiting, event.kind.class as usize, 1);
            }
            event.mark = Mark::Idle;
        }
        (self.written_lost, self.told) = (false, 0);
    }

    /// The response that is being written, to be confirmed, tells of the overflow as it is.
    pub(super) const fn tell_overflow(&mut self) {
        self.told = self.overflown;
    }

    /// What was written and not confirmed waits again; what was chosen stays so.
    pub(super) fn rearm_written(&mut self) {
        for event in self.events.iter_mut().filter(|event| event.mark == Mark::Written) {
            add(&mut self.waiting, event.kind.class as usize, 1);
            event.mark = Mark::Idle;
        }
        self.written_lost = false;
    }

    /// Whether an event of these classes is chosen by a request that is being answered.
    pub(super) fn has_selected(&self, classes: Classes) -> bool {
        self.events.iter().any(|e| matches!(e.mark, Mark::Selected(_)) && classes.contains(e.kind.class.into()))
    }

    /// What was chosen and did not fit waits again.
    pub(super) fn unselect(&mut self) {
        for event in &mut self.events {
            if let Mark::Selected(_) = event.mark {
                event.mark = Mark::Idle;
            }
        }
    }

    /// Whether a written event was dropped since it was written.
    pub(super) const fn written_lost(&self) -> bool {
        self.written_lost
    }

    /// How many events of these classes are not written.
    pub(super) fn waiting(&self, classes: Classes) -> u32 {
        let of = |class: EventClass| if classes.contains(class.into()) { self.waiting_in(class) } else { 0 };
        of(EventClass::Class1) + of(EventClass::Class2) + of(EventClass::Class3)
    }

    fn waiting_in(&self, class: EventClass) -> u32 {
        self.waiting.get(class as usize).copied().unwrap_or(0)
    }

    pub(super) const fn is_overflown(&self) -> bool {
        self.overflown != 0
    }

    /// How many events were dropped since the start.
    pub(super) const fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(super) fn len(&self) -> usize {
        self.events.len()
    }

    #[cfg(test)]
    pub(super) fn iter(&self) -> impl Iterator<Item = &Event> {
        self.events.iter()
    }

    /// Forgets everything: the device restarts.
    pub(super) fn clear(&mut self) {
        *self = Self { dropped: self.dropped, ..Self::new(self.limits) };
    }

    fn count(&self, point_type: PointType) -> u16 {
        self.counts.get(point_type as usize).copied().unwrap_or(0)
    }

    fn drop_oldest(&mut self, point_type: PointType) {
        let Some(slot) = self.events.iter().position(|e| e.kind.point_type == point_type) else { return };
        let Some(event) = self.events.remove(slot) else { return };
        sub(&mut self.counts, point_type as usize, 1);
        forget_text(&mut self.texts, &event);
        if event.is_waiting() {
            sub(&mut self.waiting, event.kind.class as usize, 1);
        } else {
            self.written_lost = true;
        }
    }
}

/// The bytes of an octet string's event.
fn bytes<'t>(texts: &'t VecDeque<(u64, Box<[u8]>)>, event: &Event) -> &'t [u8] {
    let found = texts.binary_search_by_key(&event.bits, |(number, _)| *number).ok();
    found.and_then(|at| texts.get(at)).map_or(&[], |(_, bytes)| bytes)
}

fn forget_text(texts: &mut VecDeque<(u64, Box<[u8]>)>, event: &Event) {
    if event.kind.point_type == PointType::OctetString
        && let Ok(at) = texts.binary_search_by_key(&event.bits, |(number, _)| *number)
    {
        texts.remove(at);
    }
}

const fn bit(point_type: PointType) -> u16 {
    1 << point_type as u8
}

fn add<T: Copy + core::ops::AddAssign>(counts: &mut [T], at: usize, by: T) {
    if let Some(count) = counts.get_mut(at) {
        *count += by;
    }
}

fn sub<T: Copy + core::ops::SubAssign>(counts: &mut [T], at: usize, by: T) {
    if let Some(count) = counts.get_mut(at) {
        *count -= by;
    }
}
