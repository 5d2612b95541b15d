use super::super::{Fragment, Range, Sequence, Walk};
use super::*;
use crate::{Crob, DoubleBit, Measured, PointType};
use alloc::vec;
use proptest::prelude::*;

const RESPONSE: AppControl = AppControl::single(Sequence::new(3));

/// Writes with a limit of 60 bytes and expects the bytes after the header.
fn check(write: impl FnOnce(&mut FragmentWriter<'_>), expect: &[u8]) {
    let mut out = vec![0xEE];
    let mut writer = FragmentWriter::response(&mut out, 60, RESPONSE, Function::Response, Iin::NONE);
    write(&mut writer);
    assert_eq!(out, [&[0xEE, 0xC3, 0x81, 0, 0], expect].concat());
}

fn analog(index: u16, value: &Measured) -> PointRef<'_> {
    PointRef { index, value, flags: Flags::ONLINE, stamp: None }
}

fn at(millis: u64, synchronized: bool) -> Option<Stamp> {
    Some(Stamp { time: DnpTime::from_millis(millis), synchronized })
}

#[test]
fn headers_of_requests() {
    let g30 = GroupVar::new(30, 0);
    check(|w| w.all(g30).unwrap(), &[30, 0, 6]);
    check(|w| w.span(g30, 3, 255).unwrap(), &[30, 0, 0, 3, 255]);
    check(|w| w.span(g30, 3, 256).unwrap(), &[30, 0, 1, 3, 0, 0, 1]);
    check(|w| w.count(g30, 255).unwrap(), &[30, 0, 7, 255]);
    check(|w| w.count(g30, 256).unwrap(), &[30, 0, 8, 0, 1]);
    check(|w| w.classes(Classes::ALL).unwrap(), &[60, 2, 6, 60, 3, 6, 60, 4, 6, 60, 1, 6]);
    check(|w| w.time(GroupVar::new(50, 1), DnpTime::from_millis(0x0102)).unwrap(), &[50, 1, 7, 1, 2, 1, 0, 0, 0, 0]);
    check(|w| w.delay_ms(5).unwrap(), &[52, 2, 7, 1, 5, 0]);
    check(|w| w.clear_restart().unwrap(), &[80, 1, 0, 7, 7, 0]);
}

#[test]
fn consecutive_static_points_share_a_header() {
    let (g30v2, one) = (GroupVar::new(30, 2), Measured::Analog(1.0));
    let three = |w: &mut FragmentWriter<'_>| {
        for index in [4, 5, 7] {
            w.static_point(g30v2, analog(index, &one)).unwrap();
        }
    };
    check(three, &[30, 2, 0, 4, 5, 1, 1, 0, 1, 1, 0, 30, 2, 0, 7, 7, 1, 1, 0]);
    let over = |w: &mut FragmentWriter<'_>| {
        for index in 255..=257 {
            w.static_point(g30v2, analog(index, &one)).unwrap();
        }
    };
    check(over, &[30, 2, 0, 255, 255, 1, 1, 0, 30, 2, 1, 0, 1, 1, 1, 1, 1, 0, 1, 1, 0]);
    let bits = |w: &mut FragmentWriter<'_>| {
        for index in 0..10 {
            w.static_point(GroupVar::new(1, 1), analog(index, &Measured::Bit(index % 3 == 0))).unwrap();
        }
        w.end_header();
        w.static_point(GroupVar::new(3, 1), analog(10, &Measured::DoubleBit(DoubleBit::On))).unwrap();
    };
    check(bits, &[1, 1, 0, 0, 9, 0b0100_1001, 0b10, 3, 1, 0, 10, 10, 2]);
    let text = Measured::Bytes(b"hello".as_slice().into());
    let string = |w: &mut FragmentWriter<'_>| w.static_point(GroupVar::new(110, 0), analog(1, &text)).unwrap();
    check(string, b"\x6E\x05\x00\x01\x01hello");
}

#[test]
fn events_bring_their_common_time() {
    let value = Measured::Bit(true);
    let g2v3 = GroupVar::new(2, 3);
    let put = |w: &mut FragmentWriter<'_>, index, stamp| {
        w.event(g2v3, PointRef { index, value: &value, flags: Flags::ONLINE, stamp }).unwrap();
    };
    let near = |w: &mut FragmentWriter<'_>| {
        put(w, 1, at(1000, true));
        put(w, 300, at(1000 + 65_535, true));
    };
    check(near, &[51, 1, 7, 1, 0xE8, 3, 0, 0, 0, 0, 2, 3, 0x28, 2, 0, 1, 0, 0x81, 0, 0, 0x2C, 1, 0x81, 0xFF, 0xFF]);
    let other_quality = |w: &mut FragmentWriter<'_>| {
        put(w, 1, at(0, true));
        put(w, 2, at(0, false));
    };
    let one = [51, 1, 7, 1, 0, 0, 0, 0, 0, 0, 2, 3, 0x28, 1, 0, 1, 0, 0x81, 0, 0];
    let two = [51, 2, 7, 1, 0, 0, 0, 0, 0, 0, 2, 3, 0x28, 1, 0, 2, 0, 0x81, 0, 0];
    check(other_quality, &[one, two].concat());
}

#[test]
fn what_does_not_fit_leaves_nothing() {
    let value = Measured::Bit(true);
    let with_time = |index, stamp| PointRef { index, value: &value, flags: Flags::ONLINE, stamp };
    let mut out = Vec::new();
    let mut writer = FragmentWriter::response(&mut out, 30, RESPONSE, Function::Response, Iin::NONE);
    writer.event(GroupVar::new(2, 3), with_time(1, at(0, true))).unwrap();
    let before = writer.fragment().to_vec();
    assert_eq!(writer.event(GroupVar::new(2, 3), with_time(2, at(70_000, true))), Err(WriteError::Full));
    assert_eq!(writer.fragment(), before);
    let wrong = WriteError::WrongObject(GroupVar::new(30, 1));
    assert_eq!(writer.event(GroupVar::new(30, 1), with_time(2, None)), Err(wrong));
    assert_eq!(writer.static_point(GroupVar::new(30, 1), with_time(2, None)), Err(wrong));
    assert_eq!(writer.fragment(), before);
    writer.event(GroupVar::new(2, 3), with_time(2, at(9, true))).unwrap();
    assert_eq!(writer.bytes(), 29);
    assert_eq!(writer.static_point(GroupVar::new(1, 1), with_time(0, None)), Err(WriteError::Full));
    assert_eq!(writer.all(GroupVar::new(1, 1)), Err(WriteError::Full));
    assert_eq!(writer.bytes(), 29);
}

#[test]
fn controls_are_echoed_with_their_qualifier() {
    let crob = Control::Crob(Crob { code: 3, count: 1, on_ms: 100, off_ms: 200 });
    let body = [3, 1, 100, 0, 0, 0, 200, 0, 0, 0];
    for (qualifier, count, index) in
        [(0x17, vec![1], vec![9]), (0x27, vec![1], vec![9, 0]), (0x28, vec![1, 0], vec![9, 0])]
    {
        let write =
            |w: &mut FragmentWriter<'_>| w.control(Qualifier(qualifier), 9, &crob, CommandStatus::Local).unwrap();
        check(write, &[&[12, 1, qualifier], count.as_slice(), &index, &body, &[7]].concat());
    }
    let misfit = |w: &mut FragmentWriter<'_>| {
        let wrong = Err(WriteError::WrongObject(GroupVar::new(12, 1)));
        assert_eq!(w.control(Qualifier::INDEXED_8, 256, &crob, CommandStatus::Success), wrong);
        assert_eq!(w.control(Qualifier::SPAN_8, 1, &crob, CommandStatus::Success), wrong);
    };
    check(misfit, &[]);
}

/// Points with variations that hold them exactly.
fn points() -> impl Strategy<Value = Vec<(GroupVar, Measurement)>> {
    let layouts: Vec<Layout> = Layout::all().filter(|layout| layout.point_type.is_some()).collect();
    let value = |point_type, raw: u16| match point_type {
        PointType::Binary | PointType::BinaryOutput => Measured::Bit(raw & 1 == 1),
        PointType::DoubleBit => Measured::DoubleBit(DoubleBit::from_bits(raw.to_le_bytes()[0])),
        PointType::Counter | PointType::FrozenCounter => Measured::Count(raw.into()),
        PointType::Analog | PointType::FrozenAnalog | PointType::AnalogOutput => {
            Measured::Analog(f64::from(raw) - 32768.0)
        }
        PointType::OctetString => Measured::Bytes(raw.to_le_bytes().into()),
    };
    let point = (prop::sample::select(layouts), prop_oneof![0..300_u16, any::<u16>()], any::<u16>(), 0..0x20_u8)
        .prop_flat_map(move |(layout, index, raw, flags)| {
            let (point_type, has_time) = (layout.point_type.unwrap(), layout.time != TimeForm::None);
            let synchronized =
                prop_oneof![Just(true), any::<bool>().prop_map(move |s| s || layout.time == TimeForm::Absolute)];
            (0..200_000_u64, synchronized, 0..12_u16).prop_map(move |(millis, synchronized, run)| {
                let flags = if layout.carries_flags() { Flags(flags) } else { Flags::ONLINE };
                let stamp = if has_time { at(millis, synchronized) } else { None };
                let object = match point_type {
                    PointType::OctetString => GroupVar::new(layout.object.group, 2),
                    _ => layout.object,
                };
                let one = Measurement { point_type, index, value: value(point_type, raw), flags, stamp };
                (0..=run)
                    .map(move |n| (object, Measurement { index: index.saturating_add(n), ..one.clone() }))
                    .collect::<Vec<_>>()
            })
        });
    prop::collection::vec(point, 0..8).prop_map(|runs| runs.concat())
}

proptest! {
    #[test]
    fn what_was_written_is_read(points in points(), bytes_max in 20..400_u16, index_max in any::<u16>()) {
        let (mut out, mut rest, mut found) = (Vec::new(), points.as_slice(), Vec::new());
        while !rest.is_empty() {
            out.clear();
            let writer = FragmentWriter::response(&mut out, bytes_max, RESPONSE, Function::Response, Iin::NONE);
            let mut writer = writer.with_index_max(index_max);
            let mut written = 0;
            for (object, point) in rest {
                let is_event = Layout::find(*object).is_some_and(|l| l.kind == crate::objects::Kind::Event);
                let put = if is_event { writer.event(*object, point.into()) } else { writer.static_point(*object, point.into()) };
                match put {
                    Ok(()) => written += 1,
                    Err(WriteError::Full) => break,
                    Err(wrong @ WriteError::WrongObject(_)) => return Err(TestCaseError::fail(alloc::format!("{wrong}"))),
                }
            }
            prop_assert!(written > 0 || bytes_max < 32, "an empty fragment takes any object");
            rest = &rest[written.max(1)..];
            prop_assert!(out.len() <= usize::from(bytes_max));
            let fragment = Fragment::parse(&out).unwrap();
            let (mut cto, before) = (None, found.len());
            for header in fragment.headers() {
                let header = header.unwrap();
                cto = header.common_time().or(cto);
                found.extend(header.measurements(cto).map(|m| (header.object(), m)));
            }
            let walked: Vec<_> = Walk::new(fragment.objects).measurements().collect();
            prop_assert_eq!(&walked, &found[before..]);
            prop_assert_eq!(found.len() - before, written);
        }
        if bytes_max >= 32 {
            prop_assert_eq!(found, points);
        }
    }

    #[test]
    fn any_bytes_are_read_in_bounded_work(function in 0..34_u8, bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let Some(function) = Function::from_code(function) else { return Ok(()) };
        let (mut headers, mut last) = (super::super::Headers::new(function, &bytes), 0);
        while let Some(header) = headers.next() {
            let Ok(header) = header else { break };
            prop_assert!(headers.offset() >= last + 3);
            last = headers.offset();
            let work = header.items().count() + header.bits().count() + header.controls().count();
            prop_assert!(work + header.measurements(None).count() <= 18 * bytes.len());
        }
        let (mut walk, mut together, mut counted) = (Walk::new(&bytes), Vec::new(), 0);
        let one_by_one: Vec<_> = core::iter::from_fn(|| walk.next()).collect();
        prop_assert!(one_by_one.len() <= 8 * bytes.len());
        Walk::new(&bytes).for_each(|found| together.push(found));
        // As text: what is no number does not equal itself.
        prop_assert_eq!(alloc::format!("{one_by_one:?}"), alloc::format!("{together:?}"));
        for header in super::super::Headers::new(Function::Response, &bytes).map_while(Result::ok) {
            counted += header.measurement_count();
        }
        prop_assert_eq!(counted, Walk::new(&bytes).measurements().count());
    }
}

#[test]
fn ranges_count_their_objects() {
    assert_eq!(Range::Span { start: 0, stop: u32::MAX }.count(), 1 << 32);
    assert_eq!(Range::Count(7).count(), 7);
    assert_eq!(Range::All.count(), 0);
}
