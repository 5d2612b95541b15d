use super::*;
use crate::notice::{MessageKind, Standing};
use proptest::prelude::*;
use tieline_core::{Topic, Value, Words};

fn text() -> impl Strategy<Value = Arc<str>> {
    "[a-z]{0,5}".prop_map(|text| Arc::from(&*text))
}

fn time() -> impl Strategy<Value = Timestamp> {
    (1..2_000_000_000_000_000_i64).prop_map(Timestamp::from_micros)
}

fn value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::Int),
        (-1e12..1e12_f64).prop_map(Value::Float),
        text().prop_map(|text| Value::from(&*text)),
        prop::collection::vec(any::<u8>(), 0..5).prop_map(|bytes| Value::Bytes(bytes.into())),
    ]
}

fn alarm() -> impl Strategy<Value = AlarmName> {
    ("[a-c]{1,3}/[a-c]", "high|low")
        .prop_map(|(topic, kind)| AlarmName { topic: Topic::new(&topic).unwrap(), kind: (*kind).into() })
}

fn notice() -> impl Strategy<Value = Notice> {
    let texts = (text(), text(), text(), text());
    let standing = (0..Standing::WORDS.len()).prop_map(|at| Standing::WORDS[at].1);
    (alarm(), any::<u64>(), standing, texts, any::<u16>(), value(), time(), any::<u32>()).prop_map(
        |(alarm, seq, standing, (priority, state, group, text), severity, value, since, count)| Notice {
            alarm,
            seq,
            standing,
            priority,
            severity,
            state,
            group,
            text,
            value,
            since,
            count,
        },
    )
}

fn episode() -> impl Strategy<Value = EpisodeRecord> {
    let course = (any::<u32>(), 0..=16_u16, any::<u32>(), time());
    let course =
        course.prop_map(|(route, step, repeats, due)| CourseRecord { route: RouteId(route), step, repeats, due });
    let several = (prop::collection::vec(text(), 0..3), prop::collection::vec(course, 0..3));
    (notice(), any::<bool>(), several).prop_map(|(notice, is_stopped, (told, courses))| EpisodeRecord {
        notice,
        is_stopped,
        told,
        courses,
    })
}

fn message() -> impl Strategy<Value = Message> {
    let kind = (0..MessageKind::WORDS.len()).prop_map(|at| MessageKind::WORDS[at].1);
    let numbers = (any::<u64>(), any::<u32>(), any::<u16>(), any::<u32>(), any::<u32>());
    (numbers, text(), time(), kind, prop::collection::vec(notice(), 0..3)).prop_map(
        |((id, route, step, repeats, total), to, made, kind, alarms)| Message {
            id,
            to,
            made,
            kind,
            route: RouteId(route),
            step,
            repeats,
            total,
            alarms,
        },
    )
}

fn record() -> impl Strategy<Value = Record> {
    prop_oneof![
        episode().prop_map(Record::Episode),
        alarm().prop_map(Record::EpisodeOver),
        message().prop_map(Record::Message),
        any::<u64>().prop_map(Record::MessageOver),
        prop::collection::vec(text(), 0..3).prop_map(Record::Flood),
    ]
}

proptest! {
    #[test]
    fn records_round_trip(records in prop::collection::vec(record(), 0..9)) {
        let mut saved = Saved::default();
        for record in records {
            let mut bytes = Vec::new();
            record.emit(&mut bytes);
            prop_assert_eq!(Record::parse(&bytes), Ok(record.clone()));
            for end in 0..bytes.len() {
                prop_assert!(Record::parse(&bytes[..end]).is_err());
            }
            saved.apply(record);
        }
        let mut bytes = Vec::new();
        saved.emit(&mut bytes);
        prop_assert_eq!(Saved::parse(&bytes), Ok(saved));
    }

    #[test]
    fn any_bytes_are_a_record_or_an_error(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Record::parse(&bytes);
        if let Some(first) = bytes.first_mut() {
            *first = VERSION;
        }
        let _ = Saved::parse(&bytes);
    }

    #[test]
    fn a_changed_byte_never_panics(record in record(), at in any::<prop::sample::Index>(), with: u8) {
        let mut bytes = Vec::new();
        record.emit(&mut bytes);
        let at = at.index(bytes.len());
        bytes[at] = with;
        let _ = Record::parse(&bytes);
    }
}

#[test]
fn other_formats_are_refused() {
    assert_eq!(Saved::parse(&[2]), Err(RecordError::Version(2)));
    assert_eq!(Saved::parse(&[]), Err(RecordError::Malformed));
    assert_eq!(Saved::parse(&[1]), Ok(Saved::default()));
    assert_eq!(Saved::parse(&[1, 5]), Err(RecordError::Malformed));
}
