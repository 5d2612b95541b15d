use super::*;
use crate::{DnpTime, DoubleBit, Flags, Measured};
use alloc::vec::Vec;
use proptest::prelude::*;

/// A value that the layout keeps exactly.
fn value_for(layout: &Layout) -> BoxedStrategy<Measured> {
    let bit = any::<bool>().prop_map(Measured::Bit).boxed();
    let double_bit = (0..4_u8).prop_map(|bits| Measured::DoubleBit(DoubleBit::from_bits(bits))).boxed();
    let analog = |s: BoxedStrategy<f64>| s.prop_map(Measured::Analog).boxed();
    match (layout.value, layout.flags) {
        (ValueForm::None, FlagsForm::FlagsDoubleBit) | (ValueForm::DoubleBit, _) => double_bit,
        (ValueForm::None | ValueForm::Bit, _) => bit,
        (ValueForm::U8, _) => any::<u8>().prop_map(|x| Measured::Count(x.into())).boxed(),
        (ValueForm::U16, _) => any::<u16>().prop_map(|x| Measured::Count(x.into())).boxed(),
        (ValueForm::U32, _) => any::<u32>().prop_map(Measured::Count).boxed(),
        (ValueForm::I16, _) => analog(any::<i16>().prop_map(f64::from).boxed()),
        (ValueForm::I32, _) => analog(any::<i32>().prop_map(f64::from).boxed()),
        (ValueForm::F32, _) => analog(any::<f32>().prop_map(f64::from).boxed()),
        (ValueForm::F64, _) => analog(any::<f64>().boxed()),
        (ValueForm::Bytes, _) => {
            let size = layout.bytes().unwrap_or(0);
            prop::collection::vec(any::<u8>(), size).prop_map(|bytes| Measured::Bytes(bytes.into())).boxed()
        }
    }
}

fn object() -> impl Strategy<Value = (Layout, Measured, u8, u64)> {
    let fixed: Vec<Layout> = Layout::all().filter(|layout| layout.bytes().is_some()).collect();
    prop::sample::select(fixed)
        .prop_flat_map(|layout| (Just(layout), value_for(&layout), 0..0x40_u8, 0..DnpTime::MAX.millis()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    #[test]
    fn every_variation_round_trips((layout, value, flags, millis) in object()) {
        let time = match layout.time {
            TimeForm::None => TimeField::None,
            TimeForm::Absolute => TimeField::Absolute(DnpTime::from_millis(millis)),
            TimeForm::Relative => TimeField::Relative(u16::try_from(millis & 0xFFFF).unwrap()),
        };
        let mut bytes = Vec::new();
        layout.encode(&value, Flags(flags), time, &mut bytes).unwrap();
        prop_assert_eq!(Some(bytes.len()), layout.bytes());
        let fields = layout.decode(&bytes).unwrap();
        prop_assert_eq!(fields.time, time);
        prop_assert_eq!(fields.flags, if layout.flags == FlagsForm::None { Flags::ONLINE } else { Flags(flags) });
        let holds_value = layout.value != ValueForm::None || layout.flags != FlagsForm::None;
        prop_assert_eq!(fields.value, holds_value.then_some(value));
        for short in 0..bytes.len() {
            prop_assert!(layout.decode(bytes.get(..short).unwrap()).is_err() || layout.value == ValueForm::Bytes);
        }
    }
}

#[test]
fn layouts_are_found_where_they_are() {
    for layout in Layout::all() {
        assert_eq!(Layout::find(layout.object), Some(layout));
        assert_eq!(Layout::find(GroupVar::new(layout.object.group, 0)), None);
        if let Some((point_type, kind)) = point_group(layout.object.group) {
            assert_eq!(layout.kind, kind);
            assert!(layout.point_type.is_none_or(|found| found == point_type));
        }
    }
    assert_eq!(Layout::find(GroupVar::new(110, 7)).and_then(|layout| layout.bytes()), Some(7));
    assert_eq!(Layout::find(GroupVar::new(30, 7)), None);
}

/// Encodes an analog value into a variation of group 30; expects its bytes.
fn check(variation: u8, value: f64, expect: &[u8]) {
    let (layout, mut out) = (Layout::find(GroupVar::new(30, variation)).unwrap(), Vec::new());
    layout.encode(&Measured::Analog(value), Flags::ONLINE, TimeField::None, &mut out).unwrap();
    assert_eq!(out, expect, "g30v{variation} {value}");
}

#[test]
fn narrow_variations_clamp_and_say_so() {
    check(2, 32767.4, &[0x01, 0xFF, 0x7F]);
    check(2, 32768.0, &[0x21, 0xFF, 0x7F]);
    check(2, -32768.0, &[0x01, 0x00, 0x80]);
    check(2, -40000.0, &[0x21, 0x00, 0x80]);
    check(2, -1.5, &[0x01, 0xFE, 0xFF]);
    check(2, f64::NAN, &[0x21, 0, 0]);
    check(4, 40000.0, &[0xFF, 0x7F]);
    check(1, 3e9, &[0x21, 0xFF, 0xFF, 0xFF, 0x7F]);
    check(1, f64::NEG_INFINITY, &[0x21, 0, 0, 0, 0x80]);
    check(5, 1e39, &[0x21, 0xFF, 0xFF, 0x7F, 0x7F]);
    check(5, f64::INFINITY, &[0x01, 0, 0, 0x80, 0x7F]);
}

#[test]
fn a_value_of_another_kind_is_refused() {
    for layout in Layout::all() {
        let (value, mut out) = (Measured::Bytes([1].into()), Vec::new());
        if layout.point_type.is_some() && layout.value != ValueForm::Bytes {
            let written = layout.encode(&value, Flags::ONLINE, TimeField::None, &mut out);
            let packed = layout.encode_packed(&value);
            assert!(written == Err(WrongValue) && packed == Err(WrongValue) && out.is_empty(), "{}", layout.object);
        }
    }
}
