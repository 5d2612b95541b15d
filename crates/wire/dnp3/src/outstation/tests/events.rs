//! The event buffer against a naive model, and the database against the rules of change detection.

use crate::outstation::database::{Change, Database, DatabaseError};
use crate::outstation::events::{Event, EventBuffer, EventLimits, Mark, Room, Wanted};
use crate::outstation::point::PointConfig;
use crate::{Classes, DnpTime, EventClass, Flags, Measured, Measurement, PointType, Stamp};
use alloc::vec;
use alloc::vec::Vec;
use proptest::prelude::*;

const LIMIT: u16 = 4;

#[derive(Clone, Copy, Debug)]
enum Step {
    Push(PointType, EventClass),
    Command(EventClass),
    Select(u8, Wanted, usize),
    Write(u8, usize),
    Report(EventClass, usize),
    Confirm,
    Rearm,
    Unselect,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Modelled {
    number: u16,
    point_type: PointType,
    class: EventClass,
    mark: Mark,
    is_command: bool,
}

fn class() -> impl Strategy<Value = EventClass> {
    prop_oneof![Just(EventClass::Class1), Just(EventClass::Class2), Just(EventClass::Class3)]
}

fn point_type() -> impl Strategy<Value = PointType> {
    prop_oneof![Just(PointType::Binary), Just(PointType::BinaryOutput), Just(PointType::OctetString)]
}

fn wanted() -> impl Strategy<Value = Wanted> {
    let classes = prop_oneof![Just(Classes::CLASS_1), Just(Classes::CLASS_3), Just(Classes::EVENTS)];
    prop_oneof![
        classes.prop_map(Wanted::Classes),
        point_type().prop_map(Wanted::Type),
        Just(Wanted::Commands(PointType::BinaryOutput)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        6 => (point_type(), class()).prop_map(|(t, c)| Step::Push(t, c)),
        2 => class().prop_map(Step::Command),
        3 => (0..3u8, wanted(), 0..6usize).prop_map(|(h, w, n)| Step::Select(h, w, n)),
        6 => (0..3u8, 0..6usize).prop_map(|(h, n)| Step::Write(h, n)),
        3 => (class(), 1..6usize).prop_map(|(c, n)| Step::Report(c, n)),
        2 => Just(Step::Confirm),
        1 => Just(Step::Rearm),
        1 => Just(Step::Unselect),
    ]
}

fn model_holds(wanted: Wanted, e: &Modelled) -> bool {
    match wanted {
        Wanted::Classes(classes) => classes.contains(e.class.into()),
        Wanted::Type(point_type) => e.point_type == point_type && !e.is_command,
        Wanted::Commands(point_type) => e.point_type == point_type && e.is_command,
    }
}

/// Applies a step to the model.
fn apply(model: &mut Vec<Modelled>, step: Step, number: u16) {
    match step {
        Step::Push(..) | Step::Command(_) => {
            let (point_type, class, is_command) = match step {
                Step::Push(point_type, class) => (point_type, class, false),
                Step::Command(class) => (PointType::BinaryOutput, class, true),
                _ => unreachable!(),
            };
            if model.iter().filter(|e| e.point_type == point_type).count() == usize::from(LIMIT) {
                let oldest = model.iter().position(|e| e.point_type == point_type).unwrap();
                model.remove(oldest);
            }
            model.push(Modelled { number, point_type, class, mark: Mark::Idle, is_command });
        }
        Step::Select(header, wanted, limit) => {
            let idle = model.iter_mut().filter(|e| e.mark == Mark::Idle && model_holds(wanted, e));
            idle.take(limit).for_each(|e| e.mark = Mark::Selected(header));
        }
        Step::Write(header, count) => {
            let selected = model.iter_mut().filter(|e| e.mark == Mark::Selected(header));
            selected.take(count).for_each(|e| e.mark = Mark::Written);
        }
        Step::Report(class, limit) => {
            let idle = model.iter_mut().filter(|e| e.mark == Mark::Idle && e.class == class);
            idle.take(limit).for_each(|e| e.mark = Mark::Written);
        }
        Step::Confirm => model.retain(|e| e.mark != Mark::Written),
        Step::Rearm => model.iter_mut().for_each(|e| e.mark = Mark::Idle),
        Step::Unselect => {
            let selected = model.iter_mut().filter(|e| matches!(e.mark, Mark::Selected(_)));
            selected.for_each(|e| e.mark = Mark::Idle);
        }
    }
}

fn apply_to_buffer(buffer: &mut EventBuffer, step: Step, number: u16) {
    let stamp = Stamp { time: DnpTime::from_millis(u64::from(number)), synchronized: true };
    match step {
        Step::Push(point_type, class) => {
            let change = Change { class, event_variation: 1, bits: u64::from(number), flags: Flags::ONLINE };
            buffer.push(point_type, number, change, &number.to_le_bytes(), stamp);
        }
        Step::Command(class) => {
            let change = Change { class, event_variation: 1, bits: 1, flags: Flags(0) };
            buffer.push_command(PointType::BinaryOutput, number, change, stamp);
        }
        Step::Select(header, wanted, limit) => {
            buffer.select(header, wanted, limit);
        }
        Step::Write(header, count) => write_first(buffer, Mark::Selected(header), count),
        Step::Report(class, limit) => {
            let mut left = limit;
            buffer.write_marked(Mark::Idle, Some(class), &mut left, |run, _| (run.len(), Room::Enough));
        }
        Step::Confirm => {
            buffer.confirm();
        }
        Step::Rearm => buffer.rearm(),
        Step::Unselect => buffer.unselect(),
    }
}

/// Writes the first events with a mark.
fn write_first(buffer: &mut EventBuffer, mark: Mark, count: usize) {
    let (mut left, mut all) = (count, usize::MAX);
    buffer.write_marked(mark, None, &mut all, |run, bytes| {
        let like = |event: &Event| (event.kind, event.mark);
        assert!(run.iter().all(|event| like(event) == like(&run[0])));
        if run[0].kind.point_type == PointType::OctetString {
            assert_eq!((run.len(), bytes), (1, &run[0].index.to_le_bytes()[..]));
        }
        let written = left.min(run.len());
        left -= written;
        (written, if written == run.len() { Room::Enough } else { Room::Full })
    });
}

fn all(buffer: &EventBuffer) -> Vec<Modelled> {
    let event = |e: &Event| Modelled {
        number: e.index,
        point_type: e.kind.point_type,
        class: e.kind.class,
        mark: e.mark,
        is_command: e.kind.is_command,
    };
    buffer.iter().map(event).collect()
}

proptest! {
    #[test]
    fn the_buffer_is_a_list_in_order(steps in prop::collection::vec(step(), 1..60)) {
        let mut buffer = EventBuffer::new(EventLimits::all(LIMIT));
        let mut model: Vec<Modelled> = vec![];
        for (number, step) in (0u16..).zip(steps) {
            apply(&mut model, step, number);
            apply_to_buffer(&mut buffer, step, number);
            prop_assert_eq!(&all(&buffer), &model);
            let waiting = |class| model.iter().filter(|e| e.class == class && e.mark != Mark::Written).count();
            for class in [EventClass::Class1, EventClass::Class2, EventClass::Class3] {
                prop_assert_eq!(buffer.waiting(class.into()) as usize, waiting(class));
            }
        }
    }
}

#[test]
fn overflow_is_said_until_there_is_room() {
    let mut buffer = EventBuffer::new(EventLimits::all(2));
    let change = Change { class: EventClass::Class1, event_variation: 1, bits: 0, flags: Flags::ONLINE };
    let stamp = Stamp { time: DnpTime::default(), synchronized: true };
    for index in 0..3 {
        assert_eq!(buffer.is_overflown(), index > 2);
        buffer.push(PointType::Binary, index, change, &[], stamp);
    }
    assert!(buffer.is_overflown());
    assert_eq!((buffer.dropped(), all(&buffer)[0].number), (1, 1));
    buffer.tell_overflow();
    buffer.confirm();
    assert!(buffer.is_overflown());
    buffer.select(0, Wanted::Type(PointType::Binary), 1);
    write_first(&mut buffer, Mark::Selected(0), 1);
    buffer.tell_overflow();
    assert_eq!(buffer.confirm(), 1);
    assert!(!buffer.is_overflown());
}

fn update(database: &mut Database, m: Measurement) -> Result<Option<Change>, DatabaseError> {
    database.update(m)
}

proptest! {
    #[test]
    fn points_are_found_whatever_was_found_before(
        present in prop::collection::btree_set((point_type(), 0..12u16), 1..24),
        steps in prop::collection::vec(((point_type(), 0..12u16), any::<bool>()), 1..80),
    ) {
        let (mut database, mut left) = (Database::new(), present.clone());
        for (point_type, index) in present {
            database.add(point_type, index, PointConfig::of(point_type)).unwrap();
        }
        for ((point_type, index), remove) in steps {
            let value = match point_type {
                PointType::Binary | PointType::BinaryOutput => Measured::Bit(index % 2 == 1),
                PointType::Analog => Measured::Analog(f64::from(index)),
                _ => Measured::Bytes(index.to_le_bytes().into()),
            };
            let m = Measurement { point_type, index, value: value.clone(), flags: Flags::ONLINE, stamp: None };
            let known = left.contains(&(point_type, index));
            prop_assert_eq!(update(&mut database, m).is_ok(), known);
            prop_assert_eq!(database.get(point_type, index).map(|m| m.value), known.then_some(value));
            if remove {
                prop_assert_eq!(database.remove(point_type, index), left.remove(&(point_type, index)));
            }
        }
    }
}

#[test]
fn overflow_is_said_until_a_confirmed_response_said_it() {
    let mut buffer = EventBuffer::new(EventLimits::all(1));
    let change = Change { class: EventClass::Class1, event_variation: 1, bits: 0, flags: Flags::ONLINE };
    let stamp = Stamp { time: DnpTime::default(), synchronized: true };
    let report = |buffer: &mut EventBuffer| {
        buffer.select(0, Wanted::Type(PointType::Binary), 9);
        write_first(buffer, Mark::Selected(0), 1);
        buffer.tell_overflow();
    };
    buffer.push(PointType::Binary, 0, change, &[], stamp);
    report(&mut buffer);
    // Dropped while the confirm of a response that could not know it is on its way.
    buffer.push(PointType::Binary, 1, change, &[], stamp);
    buffer.push(PointType::Binary, 2, change, &[], stamp);
    buffer.confirm();
    assert!(buffer.is_overflown());
    report(&mut buffer);
    // The response is lost.
    buffer.rearm();
    assert!(buffer.is_overflown());
    report(&mut buffer);
    buffer.confirm();
    assert!(!buffer.is_overflown());
}

fn analog(index: u16, value: f64) -> Measurement {
    Measurement {
        point_type: PointType::Analog,
        index,
        value: Measured::Analog(value),
        flags: Flags::ONLINE,
        stamp: None,
    }
}

#[test]
fn a_dead_band_is_measured_from_the_last_report() {
    let mut database = Database::new();
    let config = PointConfig { dead_band: 5.0, ..PointConfig::of(PointType::Analog) };
    database.add(PointType::Analog, 7, config).unwrap();
    let check = |database: &mut Database, value: f64, expect: bool| {
        assert_eq!(update(database, analog(7, value)).unwrap().is_some(), expect, "{value}");
        assert_eq!(database.get(PointType::Analog, 7).unwrap().value, Measured::Analog(value));
    };
    check(&mut database, 0.0, true); // the flags change
    check(&mut database, 3.0, false);
    check(&mut database, 5.0, false);
    check(&mut database, 5.1, true);
    check(&mut database, 8.0, false);
    check(&mut database, 0.0, true);
}

#[test]
fn points_are_found_by_type_and_index() {
    let mut database = Database::new();
    for point_type in PointType::ALL {
        for index in [65535, 0, 1024, 41] {
            database.add(point_type, index, PointConfig::of(point_type)).unwrap();
        }
    }
    let text = |index, bytes: &[u8]| Measurement {
        point_type: PointType::OctetString,
        index,
        value: Measured::Bytes(bytes.into()),
        flags: Flags::ONLINE,
        stamp: None,
    };
    database.set(text(1024, b"west")).unwrap();
    assert_eq!(database.set(text(1024, b"")), Err(DatabaseError::WrongValue));
    assert_eq!(database.set(text(1, b"x")), Err(DatabaseError::Unknown));
    assert_eq!(
        database.set(Measurement { value: Measured::Bit(true), ..analog(0, 0.0) }),
        Err(DatabaseError::WrongValue)
    );
    assert_eq!(database.add(PointType::Binary, 41, PointConfig::of(PointType::Binary)), Err(DatabaseError::Exists));
    let wrong = PointConfig { static_variation: 3, ..PointConfig::of(PointType::Binary) };
    assert_eq!(database.add(PointType::Binary, 42, wrong), Err(DatabaseError::WrongVariation));
    assert!(database.remove(PointType::OctetString, 41));
    assert!(!database.remove(PointType::OctetString, 41));
    assert_eq!(database.remove_all(PointType::Counter), 4);
    assert_eq!((database.len(), database.count(PointType::AnalogOutput)), (31, 4));
    assert_eq!(database.get(PointType::OctetString, 1024).unwrap().value, Measured::Bytes(b"west"[..].into()));
    assert_eq!(database.get(PointType::OctetString, 0).unwrap().value, Measured::Bytes([0][..].into()));
    assert_eq!(database.slots_between(PointType::Binary, 1, 1024).len(), 2);
    assert_eq!(database.slots_between(PointType::Counter, 0, 65535).len(), 0);
}
