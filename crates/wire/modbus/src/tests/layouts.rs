use crate::layout::{Kind, Layout, LayoutError, Order, Size, Write, WriteStyle};
use crate::{Request, Table};
use proptest::prelude::*;
use std::string::ToString;
use std::vec::Vec;
use tieline_core::Value;

fn layout(text: &str) -> Layout {
    text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[track_caller]
fn check(format: &str, registers: &[u16], value: impl Into<Value>) {
    let (layout, value) = (layout(format), value.into());
    assert_eq!(layout.decode(registers), Ok(value.clone()), "{format}");
    assert_eq!(layout.encode(&value).as_deref(), Ok(registers), "{format}");
}

#[test]
fn values_lie_in_registers() {
    check("u16", &[0xFFFF], 65_535);
    check("i16", &[0xFFFF], -1);
    check("u32", &[0x1122, 0x3344], 0x1122_3344);
    check("i32", &[0xFFFF, 0xFFFE], -2);
    check("u64", &[0, 1, 0, 2], 0x1_0000_0002);
    check("i64", &[0xFFFF, 0xFFFF, 0xFFFF, 0xFFFD], -3);
    check("f32", &[0x42F6, 0xE979], 123.456);
    check("f64", &[0x405E, 0xDD2F, 0x1A9F, 0xBE77], 123.456);
    check("bool", &[1], true);
    check("bcd16", &[0x1234], 1234);
    check("bcd32", &[0x1234, 0x5678], 12_345_678);
    check("bcd64", &[0x9999, 0x9999, 0x9999, 0x9999], 9_999_999_999_999_999);
    check("mod10k32", &[1234, 5678], 12_345_678);
    check("mod10k48", &[0xFFFF, 0xFFFE, 0], -100_020_000);
    check("string[6]", &[0x4142, 0x4300, 0], "ABC");
    check("bytes[2]", &[1, 2], Value::Bytes([0, 1, 0, 2].into()));
    check("bit[15]", &[0x8000], true);
    check("bits[4..7]", &[0x0090], 9);
    check("bits[0..15]", &[0x1234], 0x1234);
    assert_eq!(layout("string[4]").decode(&[0x41E9, 0x2020]), Ok("Aé".into()));
    assert_eq!(layout("u64").decode(&[0x8000, 0, 0, 0]), Ok(Value::Float(9_223_372_036_854_775_808.0)));
    assert_eq!(layout("u64").encode(&Value::Float(9_223_372_036_854_775_808.0)), Ok([0x8000, 0, 0, 0].into()));
    assert_eq!(layout("u16").encode(&Value::Float(214.999_99)), Ok([215].into()));
}

#[test]
fn orders_of_words_and_bytes() {
    for (words, bytes, expect) in [
        (Order::Big, Order::Big, [0x1122, 0x3344]),
        (Order::Big, Order::Little, [0x2211, 0x4433]),
        (Order::Little, Order::Big, [0x3344, 0x1122]),
        (Order::Little, Order::Little, [0x4433, 0x2211]),
    ] {
        let layout = Layout { kind: Kind::Unsigned(Size::Two), words, bytes };
        assert_eq!(layout.decode(&expect), Ok(Value::Int(0x1122_3344)));
        assert_eq!(layout.encode(&Value::Int(0x1122_3344)), Ok(expect.into()));
    }
    let text = Layout { words: Order::Little, bytes: Order::Little, ..layout("string[4]") };
    assert_eq!(text.decode(&[0x4241, 0x4443]), Ok("ABCD".into()));
}

#[test]
fn struct_formats_of_python() {
    // What struct.unpack gives of the bytes that come from the device.
    check(">f", &[0x42F6, 0xE979], 123.456);
    check("<f", &[0x79E9, 0xF642], 123.456);
    check("<H", &[0x3412], 0x1234);
    check(">h", &[0xFFFF], -1);
    check("!I", &[1, 2], 65_538);
    check("<i", &[0xFEFF, 0xFFFF], -2);
    check(">l", &[0, 5], 5);
    check("<L", &[0x0500, 0], 5);
    check("l", &[0x0500, 0, 0, 0], 5);
    check(">q", &[0, 0, 0, 5], 5);
    check("<Q", &[0x0500, 0, 0, 0], 5);
    check(">1d", &[0x405E, 0xDD2F, 0x1A9F, 0xBE77], 123.456);
    check(">4s", &[0x4142, 0x4344], "ABCD");
    check(">2H", &[0x4142, 0x4344], Value::Bytes(b"ABCD"[..].into()));
    check("<2H", &[0x4142, 0x4344], Value::Bytes(b"BADC"[..].into()));
    assert_eq!(layout("BOOL").kind, Kind::Bool);
    for wrong in [
        "",
        ">",
        ">B",
        ">2f",
        ">ff",
        "x",
        "bit[16]",
        "bits[7..4]",
        "bit[-1]",
        "bit[65535]",
        "string[0]",
        "string[251]",
        ">999s",
        "bits[0..65535]",
        "é",
        ">é",
        "f16",
        "u16]",
        "bit[99999999999]",
    ] {
        assert!(wrong.parse::<Layout>().is_err(), "{wrong}");
    }
    assert!("x".parse::<Layout>().unwrap_err().to_string().contains("expected bool"));
}

#[test]
fn values_that_do_not_fit() {
    let refused = |format: &str, value: Value| layout(format).encode(&value).unwrap_err();
    assert_eq!(refused("u16", Value::Int(65_536)), LayoutError::Range { min: 0, max: 65_535 });
    assert_eq!(refused("u16", Value::Int(-1)), LayoutError::Range { min: 0, max: 65_535 });
    assert_eq!(refused("i16", Value::Int(32_768)), LayoutError::Range { min: -32_768, max: 32_767 });
    assert_eq!(refused("u64", Value::Float(1.9e19)), LayoutError::Range { min: 0, max: i128::from(u64::MAX) });
    assert_eq!(refused("f32", Value::Float(1e39)), LayoutError::FloatRange);
    assert_eq!(refused("bcd16", Value::Int(10_000)), LayoutError::Range { min: 0, max: 9999 });
    assert_eq!(refused("bits[0..2]", Value::Int(8)), LayoutError::Range { min: 0, max: 7 });
    assert_eq!(refused("string[2]", "ABC".into()), LayoutError::TooLong { found: 3, max: 2 });
    assert_eq!(refused("u16", true.into()), LayoutError::Type { expected: "a number" });
    assert_eq!(refused("bit[1]", Value::Int(2)), LayoutError::Range { min: 0, max: 1 });
    assert_eq!(layout("u32").decode(&[1]), Err(LayoutError::Registers { found: 1, expected: 2 }));
    assert_eq!(layout("bcd16").decode(&[0x00A0]), Err(LayoutError::Bcd(0x00A0)));
    assert_eq!(layout("mod10k32").decode(&[0, 10_000]), Err(LayoutError::Mod10k(10_000)));
    assert_eq!(layout("mod10k32").decode(&[1, 0xFFFF]), Err(LayoutError::Mod10k(0xFFFF)));
}

#[test]
fn what_writes_a_value() {
    let style = WriteStyle::default();
    let write = |format: &str, table, value: Value, style| layout(format).write(table, 7, &value, style);
    let holding = Table::HoldingRegisters;
    assert_eq!(
        write("u16", holding, Value::Int(5), style),
        Ok(Write::Request(Request::WriteRegister { address: 7, value: 5 }))
    );
    let multiple = WriteStyle { single: false, mask: false };
    let registers = |values: &[u16]| Ok(Write::Request(Request::WriteRegisters { start: 7, values: values.into() }));
    assert_eq!(write("u16", holding, Value::Int(5), multiple), registers(&[5]));
    assert_eq!(write("u32", holding, Value::Int(5), style), registers(&[0, 5]));
    assert_eq!(
        write("bool", Table::Coils, true.into(), style),
        Ok(Write::Request(Request::WriteCoil { address: 7, on: true }))
    );
    assert_eq!(write("u16", Table::InputRegisters, Value::Int(5), style), Err(LayoutError::Table));
    assert_eq!(write("u16", Table::Coils, Value::Int(5), style), Err(LayoutError::Table));
    assert_eq!(
        write("bit[4]", holding, true.into(), style),
        Ok(Write::Request(Request::MaskWrite { address: 7, and: 0xFFEF, or: 0x0010 }))
    );
    let Ok(Write::ReadModifyWrite(change)) = write("bits[4..7]", holding, Value::Int(5), multiple) else { panic!() };
    assert_eq!(change.read(), Request::Read { table: holding, start: 7, count: 1 });
    assert_eq!(change.write(0xFFFF), Request::WriteRegisters { start: 7, values: [0xFF5F].into() });
    assert_eq!(write("string[250]", holding, "a".into(), style), Err(LayoutError::Address));
    assert_eq!(layout("u32").write(holding, 0xFFFF, &Value::Int(1), style), Err(LayoutError::Address));
}

fn layouts() -> impl Strategy<Value = Layout> {
    let size = prop::sample::select(std::vec![Size::One, Size::Two, Size::Four]);
    let order = prop::sample::select(std::vec![Order::Big, Order::Little]);
    let kind = prop_oneof![
        Just(Kind::Bool),
        (0..16_u8, 1..=16_u8).prop_map(|(first, count)| Kind::Bits { first, count: count.min(16 - first) }),
        size.clone().prop_map(Kind::Unsigned),
        size.clone().prop_map(Kind::Signed),
        size.prop_map(Kind::Bcd),
        Just(Kind::Float32),
        Just(Kind::Float64),
        (2..=4_u8).prop_map(Kind::Mod10k),
        (1..=250_u16).prop_map(Kind::Text),
        (1..=125_u16).prop_map(Kind::Bytes),
    ];
    (kind, order.clone(), order).prop_map(|(kind, words, bytes)| Layout { kind, words, bytes })
}

proptest! {
    #[test]
    fn what_is_decoded_is_encoded_again(layout in layouts(), words in prop::collection::vec(any::<u16>(), 125)) {
        let registers: Vec<u16> = words[..usize::from(layout.registers())].to_vec();
        if let Ok(value) = layout.decode(&registers)
            && let Ok(encoded) = layout.encode(&value)
        {
            prop_assert_eq!(encoded.len(), registers.len());
            let again = layout.decode(&encoded).unwrap();
            let is_nan = matches!(value, Value::Float(x) if x.is_nan());
            prop_assert!(is_nan || again == value, "{:?} {:?} {:?}", layout, value, again);
        }
    }

    #[test]
    fn any_text_is_a_format_or_an_error(text in ".{0,12}") {
        if let Ok(layout) = text.parse::<Layout>() {
            prop_assert!((1..=125).contains(&layout.registers()));
        }
    }
}
