use super::*;
use crate::app::write::{PointRef, WriteError};
use crate::app::{AppControl, Function, Sequence};
use crate::objects::{FlagsForm, Kind, Layout, ValueForm};
use crate::{DnpTime, DoubleBit, Iin, Measured};
use alloc::vec::Vec;
use proptest::prelude::*;

/// The layouts of events whose value is a number: changes of points, and controls.
fn layouts() -> Vec<Layout> {
    let is_event = |layout: &Layout| layout.kind == Kind::Event || matches!(layout.object.group, 13 | 43);
    Layout::all()
        .filter(|layout| is_event(layout) && layout.flags != FlagsForm::None && layout.value.number_of(0).is_some())
        .collect()
}

/// What bits stand for, by the layout that is to hold it.
fn value(layout: &Layout, bits: u64) -> Measured {
    let [b0, b1, b2, b3, ..] = bits.to_le_bytes();
    match (layout.value, layout.flags) {
        (ValueForm::None, FlagsForm::FlagsDoubleBit) => Measured::DoubleBit(DoubleBit::from_bits(b0)),
        (ValueForm::None, _) => Measured::Bit(bits != 0),
        (ValueForm::U16 | ValueForm::U32, _) => Measured::Count(u32::from_le_bytes([b0, b1, b2, b3])),
        (ValueForm::I16 | ValueForm::I32 | ValueForm::F32 | ValueForm::F64, _) => {
            Measured::Analog(f64::from_bits(bits))
        }
        (other, _) => panic!("{other:?}"),
    }
}

fn sample() -> impl Strategy<Value = Sample> {
    let bits =
        prop_oneof![any::<u64>(), any::<f64>().prop_map(f64::to_bits), (-9e4..9e4).prop_map(f64::to_bits), 0..4_u64];
    let index = prop_oneof![9 => 0..=255_u16, 1 => any::<u16>()];
    let stamp = (0..100_000_u64, prop::bool::weighted(0.9));
    (index, any::<u8>(), bits, stamp).prop_map(|(index, flags, bits, (millis, synchronized))| {
        let stamp = Stamp { time: DnpTime::from_millis(millis), synchronized };
        Sample { index, flags: Flags(flags), bits, stamp }
    })
}

/// Writes until something does not fit; together or one by one.
fn write(layout: &Layout, samples: &[Sample], bytes_max: u16, index_max: u16, together: bool) -> (Vec<u8>, usize) {
    let (mut out, control) = (Vec::new(), AppControl::single(Sequence::new(0)));
    let mut writer =
        FragmentWriter::response(&mut out, bytes_max, control, Function::Response, Iin::NONE).with_index_max(index_max);
    let mut done = 0;
    while let Some(sample) = samples.get(done) {
        let value = value(layout, sample.bits);
        let point = PointRef { index: sample.index, value: &value, flags: sample.flags, stamp: Some(sample.stamp) };
        match writer.event(layout.object, point) {
            Ok(()) => done += 1,
            Err(WriteError::Full) => break,
            Err(wrong @ WriteError::WrongObject(_)) => panic!("{wrong}"),
        }
        if together {
            done += writer.join_events(layout.object, samples.iter().skip(done).copied());
        }
    }
    (out, done)
}

proptest! {
    #[test]
    fn together_they_are_written_as_one_by_one(
        layout in prop::sample::select(layouts()),
        samples in prop::collection::vec(sample(), 0..400),
        bytes_max in prop_oneof![20..400_u16, Just(2048)],
        wide in any::<bool>(),
    ) {
        let index_max = samples.iter().map(|sample| sample.index).max().unwrap_or(0).max(if wide { 256 } else { 0 });
        let together = write(&layout, &samples, bytes_max, index_max, true);
        prop_assert_eq!(together, write(&layout, &samples, bytes_max, index_max, false));
    }
}

#[test]
fn most_of_a_run_is_written_together() {
    for layout in layouts() {
        let stamp = Stamp { time: DnpTime::from_millis(7), synchronized: true };
        let sample = |index| Sample { index, flags: Flags::ONLINE, bits: 1, stamp };
        let samples: Vec<Sample> = (0..10).map(sample).collect();
        let (mut out, control) = (Vec::new(), AppControl::single(Sequence::new(0)));
        let mut writer = FragmentWriter::response(&mut out, 2048, control, Function::Response, Iin::NONE);
        let value = value(&layout, 1);
        let point = PointRef { index: 0, value: &value, flags: Flags::ONLINE, stamp: Some(stamp) };
        assert_eq!(writer.join_events(layout.object, samples.iter().copied()), 0, "no header is open");
        writer.event(layout.object, point).unwrap();
        assert_eq!(writer.join_events(layout.object, samples.iter().copied()), 10, "{}", layout.object);
    }
}
