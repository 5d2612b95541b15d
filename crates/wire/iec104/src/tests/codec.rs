use super::{hex, vectors};
use crate::asdu::{Form, TimeForm};
use crate::*;
use proptest::collection::vec;
use proptest::prelude::*;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;
use tieline_core::Timestamp;

fn shown(asdu: &Asdu<'_>) -> String {
    let Header { type_id, cause, common_address, .. } = asdu.header;
    let mut marks = String::new();
    marks.extend(cause.is_negative.then_some('-'));
    marks.extend(cause.is_test.then_some('~'));
    let object = |object: Object| {
        let time = if object.time == TimeTag::None { String::new() } else { format!(" {:?}", object.time) };
        format!("{} {:?}{time}", object.address, object.element)
    };
    let objects: Vec<String> = asdu.objects().map(object).collect();
    let (name, code) = (type_id.name().unwrap(), cause.code.name());
    format!("{name} {code}{marks} {} {common_address}: {}", cause.originator, objects.join("; "))
}

fn emitted(header: &Header, objects: &[Object]) -> Vec<u8> {
    let mut out = Vec::new();
    emit(header, objects, &mut out).unwrap();
    out
}

#[test]
fn frames_of_the_standard() {
    for (bytes, expect) in vectors(include_str!("../../tests/vectors/frames.txt")) {
        let bytes = hex(bytes);
        let apdu = Apdu::parse(&bytes).unwrap();
        assert_eq!(format!("{apdu:?}"), expect);
        let mut out = Vec::new();
        apdu.emit(&mut out);
        assert_eq!(out, bytes, "{expect}");
    }
}

#[test]
fn what_is_no_frame_is_refused() {
    let check = |bytes: &str, expect: ApduError| assert_eq!(Apdu::parse(&hex(bytes)), Err(expect), "{bytes}");
    check("67 04 07 00 00 00", ApduError::Start(0x67));
    check("68 03 07 00 00", ApduError::Length(3));
    check("68 FE 00 00 00 00", ApduError::Length(254));
    check("68 05 07 00 00 00 00", ApduError::Length(5));
    check("68 05 01 00 00 00 00", ApduError::Length(5));
    check("68 04 07 00 00 00 00", ApduError::Length(5));
    check("68 04 0F 00 00 00", ApduError::Control([0x0F, 0, 0, 0]));
    check("68 04 03 00 00 00", ApduError::Control([3, 0, 0, 0]));
    check("", ApduError::Truncated);
    check("68", ApduError::Truncated);
}

#[test]
fn asdus_of_the_standard() {
    for (bytes, expect) in vectors(include_str!("../../tests/vectors/asdus.txt")) {
        let bytes = hex(bytes);
        let asdu = Asdu::parse(&bytes).unwrap_or_else(|error| panic!("{error}: {expect}"));
        assert_eq!(shown(&asdu), expect);
        let objects: Vec<Object> = asdu.objects().collect();
        assert_eq!((objects.len(), emitted(&asdu.header, &objects)), (asdu.count(), bytes), "{expect}");
    }
}

#[test]
fn what_is_no_asdu_is_refused() {
    for (bytes, expect) in vectors(include_str!("../../tests/vectors/illegal.txt")) {
        assert_eq!(Asdu::parse(&hex(bytes)).map_err(AsduError::name).err(), Some(expect), "{bytes}");
    }
}

#[test]
fn objects_that_make_no_asdu_are_refused() {
    let header = Header {
        type_id: TypeId::M_SP_NA_1,
        is_sequence: false,
        cause: Cause::of(CauseCode::SPONTANEOUS),
        common_address: 1,
    };
    let object = |address: u32| Object {
        address: Address::new(address).unwrap(),
        element: Element::SinglePoint { on: true, flags: Flags::GOOD },
        time: TimeTag::None,
    };
    let check = |header: Header, objects: &[Object], expect: EmitError| {
        let mut out = Vec::new();
        assert_eq!(emit(&header, objects, &mut out), Err(expect));
        assert!(out.is_empty());
    };
    check(Header { type_id: TypeId(99), ..header }, &[object(1)], EmitError::Type(TypeId(99)));
    check(Header { type_id: TypeId::M_SP_TB_1, ..header }, &[object(1)], EmitError::Object);
    check(Header { type_id: TypeId::M_DP_NA_1, ..header }, &[object(1)], EmitError::Object);
    check(Header { is_sequence: true, ..header }, &[object(1), object(3)], EmitError::Address);
    check(header, &[], EmitError::Count(0));
    check(header, &std::vec![object(1); 128], EmitError::Count(128));
    // 61 objects with addresses are 244 bytes.
    check(header, &std::vec![object(1); 61], EmitError::Count(61));
    assert_eq!(emitted(&header, &std::vec![object(1); 60]).len(), 246);
    assert_eq!(Address::new(ADDRESS_MAX + 1), None);
}

#[test]
fn times_are_those_of_clocks() {
    let at: Timestamp = "2026-11-20T09:30:10Z".parse().unwrap();
    // A Friday.
    assert_eq!(Cp56::new(at, 0), Cp56([0x10, 0x27, 30, 9, 5 << 5 | 20, 11, 26]));
    let check = |bytes: &str, offset: i16, expect: Option<&str>| {
        let time = Cp56(hex(bytes).try_into().unwrap());
        assert_eq!(time.timestamp(offset).map(|at| at.to_string()).as_deref(), expect, "{bytes}");
    };
    check("10 27 1E 09 B4 0B 1A", 0, Some("2026-11-20T09:30:10.000Z"));
    check("10 27 9E 09 14 0B 1A", 0, Some("2026-11-20T09:30:10.000Z"));
    check("10 27 1E 09 B4 0B 1A", 60, Some("2026-11-20T08:30:10.000Z"));
    check("10 27 1E 89 B4 0B 1A", 60, Some("2026-11-20T07:30:10.000Z"));
    check("10 27 1E 09 B4 0B 5A", 0, Some("1990-11-20T09:30:10.000Z"));
    check("5F EA 3B 17 1F 0C 45", 0, Some("2069-12-31T23:59:59.999Z"));
    for illegal in [
        "60 EA 1E 09 B4 0B 1A",
        "10 27 3C 09 B4 0B 1A",
        "10 27 1E 18 B4 0B 1A",
        "10 27 1E 09 A0 0B 1A",
        "10 27 1E 09 B4 0D 1A",
    ] {
        check(illegal, 0, None);
    }
    assert!(Cp56([0, 0, 0x80, 0, 0, 0, 0]).is_invalid() && !Cp56::new(at, 0).is_invalid());
    assert!(Cp56::new(at, 0).invalid().is_invalid());
}

#[test]
fn times_within_an_hour_are_of_the_nearest_one() {
    let check = |received: &str, bytes: &str, expect: Option<&str>| {
        let time = Cp24(hex(bytes).try_into().unwrap());
        let found = time.timestamp(received.parse().unwrap()).map(|at| at.to_string());
        assert_eq!(found.as_deref(), expect, "{received} {bytes}");
    };
    check("2026-11-20T09:30:10Z", "E8 03 1D", Some("2026-11-20T09:29:01.000Z"));
    check("2026-11-20T10:00:01Z", "5F EA 3B", Some("2026-11-20T09:59:59.999Z"));
    check("2026-11-20T09:59:59Z", "E8 03 80", Some("2026-11-20T10:00:01.000Z"));
    check("2026-11-20T09:59:59Z", "60 EA 00", None);
    check("2026-11-20T09:59:59Z", "00 00 3C", None);
    assert!(Cp24([0, 0, 0x80]).is_invalid() && !Cp24([0, 0, 0x3B]).is_invalid());
}

fn flags(mask: u8) -> impl Strategy<Value = Flags> {
    any::<u8>().prop_map(move |byte| match mask {
        0xF0 => Flags::from_state(byte),
        0xF8 => Flags::from_qdp(byte),
        _ => Flags::from_qds(byte),
    })
}

fn qualifiers(max: u8) -> impl Strategy<Value = Qualifier> {
    (any::<bool>(), 0..=max).prop_map(|(is_select, number)| Qualifier { is_select, number })
}

/// Elements of a form, made of chance.
fn element(form: Form) -> BoxedStrategy<Element> {
    let (qds, qdp, state) = (flags(0xF1), flags(0xF8), flags(0xF0));
    let (qoc, qos) = (qualifiers(31), qualifiers(127));
    match form {
        Form::SinglePoint => (any::<bool>(), state).prop_map(|(on, flags)| Element::SinglePoint { on, flags }).boxed(),
        Form::DoublePoint => (0..4_u8, state).prop_map(|(state, flags)| Element::DoublePoint { state, flags }).boxed(),
        Form::Step => (-64..64_i8, any::<bool>(), qds)
            .prop_map(|(position, is_transient, flags)| Element::Step { position, is_transient, flags })
            .boxed(),
        Form::Bits => (any::<u32>(), qds).prop_map(|(bits, flags)| Element::Bits { bits, flags }).boxed(),
        Form::Normalized => (any::<i16>(), qds).prop_map(|(raw, flags)| Element::Normalized { raw, flags }).boxed(),
        Form::NormalizedBare => any::<i16>().prop_map(|raw| Element::NormalizedBare { raw }).boxed(),
        Form::Scaled => (any::<i16>(), qds).prop_map(|(value, flags)| Element::Scaled { value, flags }).boxed(),
        Form::Short => (any::<f32>(), qds).prop_map(|(value, flags)| Element::Short { value, flags }).boxed(),
        Form::Totals => (any::<i32>(), 0..32_u8, any::<[bool; 3]>())
            .prop_map(|(count, sequence, [is_carried, is_adjusted, is_invalid])| Element::Totals {
                count,
                sequence,
                is_carried,
                is_adjusted,
                is_invalid,
            })
            .boxed(),
        Form::ProtectionEvent => (0..4_u8, qdp, any::<u16>())
            .prop_map(|(state, flags, elapsed_ms)| Element::ProtectionEvent { state, flags, elapsed_ms })
            .boxed(),
        Form::ProtectionStart => (0..64_u8, qdp, any::<u16>())
            .prop_map(|(events, flags, duration_ms)| Element::ProtectionStart { events, flags, duration_ms })
            .boxed(),
        Form::ProtectionOutput => (0..16_u8, qdp, any::<u16>())
            .prop_map(|(circuits, flags, operating_ms)| Element::ProtectionOutput { circuits, flags, operating_ms })
            .boxed(),
        Form::StatusChange => (any::<u16>(), any::<u16>(), qds)
            .prop_map(|(states, changed, flags)| Element::StatusChange { states, changed, flags })
            .boxed(),
        Form::SingleCommand => {
            (any::<bool>(), qoc).prop_map(|(on, qualifier)| Element::SingleCommand { on, qualifier }).boxed()
        }
        Form::DoubleCommand => {
            (0..4_u8, qoc).prop_map(|(state, qualifier)| Element::DoubleCommand { state, qualifier }).boxed()
        }
        Form::StepCommand => {
            (0..4_u8, qoc).prop_map(|(step, qualifier)| Element::StepCommand { step, qualifier }).boxed()
        }
        Form::SetNormalized => {
            (any::<i16>(), qos).prop_map(|(raw, qualifier)| Element::SetNormalized { raw, qualifier }).boxed()
        }
        Form::SetScaled => {
            (any::<i16>(), qos).prop_map(|(value, qualifier)| Element::SetScaled { value, qualifier }).boxed()
        }
        Form::SetShort => {
            (any::<f32>(), qos).prop_map(|(value, qualifier)| Element::SetShort { value, qualifier }).boxed()
        }
        Form::SetBits => any::<u32>().prop_map(|bits| Element::SetBits { bits }).boxed(),
        Form::EndOfInitialization => any::<u8>().prop_map(|cause| Element::EndOfInitialization { cause }).boxed(),
        Form::Interrogation => any::<u8>().prop_map(|qualifier| Element::Interrogation { qualifier }).boxed(),
        Form::CounterInterrogation => {
            any::<u8>().prop_map(|qualifier| Element::CounterInterrogation { qualifier }).boxed()
        }
        Form::Read => Just(Element::Read).boxed(),
        Form::ClockSynchronization => {
            any::<[u8; 7]>().prop_map(|bytes| Element::ClockSynchronization { time: Cp56(bytes) }).boxed()
        }
        Form::TestPattern => any::<u16>().prop_map(|pattern| Element::TestPattern { pattern }).boxed(),
        Form::TestCounter => any::<u16>().prop_map(|count| Element::TestCounter { count }).boxed(),
        Form::Reset => any::<u8>().prop_map(|qualifier| Element::Reset { qualifier }).boxed(),
        Form::Delay => any::<u16>().prop_map(|delay_ms| Element::Delay { delay_ms }).boxed(),
    }
}

fn time(form: TimeForm) -> BoxedStrategy<TimeTag> {
    match form {
        TimeForm::None => Just(TimeTag::None).boxed(),
        TimeForm::Cp24 => any::<[u8; 3]>().prop_map(|bytes| TimeTag::Cp24(Cp24(bytes))).boxed(),
        TimeForm::Cp56 => any::<[u8; 7]>().prop_map(|bytes| TimeTag::Cp56(Cp56(bytes))).boxed(),
    }
}

fn causes() -> impl Strategy<Value = Cause> {
    (0..64_u8, any::<[bool; 2]>(), any::<u8>()).prop_map(|(code, [is_negative, is_test], originator)| Cause {
        code: CauseCode::new(code),
        is_negative,
        is_test,
        originator,
    })
}

/// ASDUs of every type, as long as they may be.
fn asdus() -> impl Strategy<Value = (Header, Vec<Object>)> {
    let types = prop::sample::select(TypeId::ALL);
    (types, any::<bool>(), causes(), any::<u16>(), 0..=ADDRESS_MAX).prop_flat_map(
        |(type_id, is_sequence, cause, common_address, base)| {
            let layout = type_id.layout().unwrap();
            let fits = if is_sequence { 240 / layout.bytes().max(1) } else { 243 / (layout.bytes() + 3) };
            // Without a byte of its own, a second object of a sequence would leave no trace.
            let most = if layout.bytes() == 0 && is_sequence { 1 } else { fits.min(OBJECTS_MAX) };
            vec((element(layout.form), time(layout.time), 0..=ADDRESS_MAX), 1..=most).prop_map(move |all| {
                let last = ADDRESS_MAX - u32::try_from(all.len()).unwrap();
                let objects = all.into_iter().zip(0..).map(|((element, time, address), at)| {
                    let address = if is_sequence { base.min(last) + at } else { address };
                    Object { address: Address::new(address).unwrap(), element, time }
                });
                (Header { type_id, is_sequence, cause, common_address }, objects.collect())
            })
        },
    )
}

/// Frames and errors that a stream holds, and how many bytes were used.
fn decoded<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Vec<String> {
    let (mut framer, mut found) = (Framer::default(), Vec::new());
    for chunk in chunks {
        let used = framer.decode(chunk, |frame| {
            found.push(format!("{frame:?}"));
            true
        });
        assert_eq!(used, chunk.len());
    }
    found
}

proptest! {
    #[test]
    fn what_is_emitted_is_parsed((header, objects) in asdus()) {
        let bytes = emitted(&header, &objects);
        prop_assert!(bytes.len() <= ASDU_BYTES_MAX);
        let asdu = Asdu::parse(&bytes).unwrap();
        prop_assert_eq!(asdu.header, header);
        prop_assert_eq!(asdu.objects().collect::<Vec<_>>(), objects);
        for cut in 0..bytes.len() {
            prop_assert!(Asdu::parse(&bytes[..cut]).is_err());
        }
    }

    #[test]
    fn any_bytes_are_judged(type_id in 0..=127_u8, bytes in vec(any::<u8>(), 0..260)) {
        let of_type: Vec<u8> = [type_id].into_iter().chain(bytes.iter().copied().take(248)).collect();
        for asdu in [&bytes, &of_type] {
            if let Ok(asdu) = Asdu::parse(asdu) {
                let objects: Vec<Object> = asdu.objects().collect();
                // Bits that the standard reserves are dropped; what is left is read as the same.
                if asdu.layout().bytes() > 0 {
                    prop_assert_eq!(objects.len(), asdu.count());
                    let again = emitted(&asdu.header, &objects);
                    let again: Vec<String> = Asdu::parse(&again).unwrap().objects().map(|one| format!("{one:?}")).collect();
                    prop_assert_eq!(again, objects.iter().map(|one| format!("{one:?}")).collect::<Vec<_>>());
                }
            }
        }
        let _ = Apdu::parse(&bytes);
    }

    #[test]
    fn frames_are_found_however_they_come(
        frames in vec((0..3_u8, any::<[u16; 2]>(), vec(any::<u8>(), 0..250)), 0..6),
        noise in vec(any::<u8>(), 0..20),
        cuts in vec(1..40_usize, 1..20),
    ) {
        let mut stream = Vec::new();
        for (kind, [send, receive], asdu) in &frames {
            let (send, receive) = (send & 0x7FFF, receive & 0x7FFF);
            let apdu = match kind {
                0 => Apdu::I { send, receive, asdu: &asdu[..asdu.len().min(ASDU_BYTES_MAX)] },
                1 => Apdu::S { receive },
                _ => Apdu::U(Control::TestAct),
            };
            let start = stream.len();
            apdu.emit(&mut stream);
            prop_assert_eq!(Apdu::parse(&stream[start..]), Ok(apdu));
        }
        stream.extend(&noise);
        let whole = decoded([stream.as_slice()].into_iter());
        prop_assert!(whole.len() >= frames.len());
        let (mut rest, mut cuts) = (stream.as_slice(), cuts.iter().cycle());
        let pieces = std::iter::from_fn(|| {
            let (piece, left) = rest.split_at_checked(*cuts.next()?).unwrap_or((rest, &[]));
            rest = left;
            (!piece.is_empty()).then_some(piece)
        });
        prop_assert_eq!(decoded(pieces), whole);
    }

    #[test]
    fn times_round_trip(millis in 0..3_155_000_000_000_i64, offset in -720..=840_i16) {
        // From 1970 to 2069.
        let at = Timestamp::from_millis(86_400_000 + millis);
        prop_assert_eq!(Cp56::new(at, offset).timestamp(offset), Some(at));
    }
}

#[test]
fn every_type_has_its_name_and_is_found_by_its_layout() {
    for type_id in TypeId::ALL {
        let layout = type_id.layout().unwrap();
        assert_eq!(TypeId::of(layout.form, layout.time), Some(*type_id));
        assert!(type_id.to_string().starts_with(&format!("{} (", type_id.0)));
    }
    assert_eq!(TypeId::of(Form::Read, TimeForm::Cp56), None);
}
