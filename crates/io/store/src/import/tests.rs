use super::*;
use crate::{Extras, Format, RowPage, export_with};
use proptest::prelude::*;
use tieline_core::Words as _;

fn value() -> impl Strategy<Value = (Value, bool)> {
    let text = prop_oneof!["[a-z=+@, \"\n-]{0,8}", Just("null".to_owned()), Just("5".to_owned()), Just("é".to_owned())];
    prop_oneof![
        Just((Value::Null, false)),
        any::<bool>().prop_map(|state| (Value::Bool(state), false)),
        any::<i64>().prop_map(|integer| (Value::Int(integer), false)),
        (-9..9_i64).prop_map(|integer| (Value::Int(integer), false)),
        any::<f64>().prop_map(|double| (Value::Float(double), false)),
        prop_oneof![Just(0.0), Just(-0.0), Just(5.0), Just(f64::INFINITY)].prop_map(|x| (Value::Float(x), false)),
        (text, any::<bool>()).prop_map(|(text, payload)| (Value::Text(text.into()), payload)),
        prop::collection::vec(any::<u8>(), 0..5).prop_map(|bytes| (Value::Bytes(bytes.into()), false)),
        Just((Value::Bytes([0xff].into()), true)),
    ]
}

fn row((topic, time, (value, is_payload), quality): (u8, i64, (Value, bool), u16)) -> Row {
    let topic = Topic::new(["a", "b/c", "=d"][usize::from(topic)]).unwrap();
    let quality = if is_payload { Quality::GOOD } else { Quality::from_bits(quality) };
    let point = Point { value, quality, time: Timestamp::from_micros(time) };
    Row { topic, point, count: 1, is_payload, number: 0, edited: None }
}

fn sample(row: &Row) -> Imported {
    let body = match (&row.point.value, row.is_payload) {
        (Value::Text(text), true) => Body::Opaque(text.as_bytes().to_vec().into()),
        (Value::Bytes(bytes), true) => Body::Opaque(bytes.to_vec().into()),
        (_, _) => Body::Point(row.point.clone()),
    };
    Imported { topic: row.topic.clone(), time: row.point.time, body }
}

proptest! {
    #[test]
    fn what_an_export_writes_is_read_exactly(
        rows in prop::collection::vec((0..3_u8, 0..4_000_000_000_000_000_i64, value(), any::<u16>()).prop_map(row), 0..20),
    ) {
        let folder = tempfile::tempdir().unwrap();
        for format in [Format::Csv, Format::Json, Format::Parquet] {
            let name = format.word();
            let path = folder.path().join(format!("x.{name}"));
            let mut answer = RowPage::from(rows.clone());
            let file = File::create(&path).unwrap();
            let count = export_with(&mut answer, format, Extras::KINDS, || true, file).unwrap();
            prop_assert_eq!(count, rows.len() as u64);
            let found: Vec<Imported> = import(&path).unwrap().collect::<Result<_, _>>().unwrap();
            // Not-a-number is not equal to itself.
            let expect: Vec<Imported> = rows.iter().map(sample).collect();
            prop_assert_eq!(format!("{found:?}"), format!("{expect:?}"), "{}", name);
        }
    }

    #[test]
    fn any_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let folder = tempfile::tempdir().unwrap();
        for name in ["x.csv", "x.json", "x.parquet"] {
            let path = folder.path().join(name);
            std::fs::write(&path, [b"topic,time,value\n".as_slice(), &bytes].concat()).unwrap();
            let _ = import(&path).map(|rows| rows.take(1000).count());
        }
    }
}

fn check(name: &str, text: &str, expect: Result<&[&str], &str>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, text).unwrap();
    let shown = |sample: Imported| match sample.body {
        Body::Point(point) => {
            format!("{} {} {:?} {}", sample.topic, sample.time, point.value, point.quality.validity().name())
        }
        other => format!("{} {other:?}", sample.topic),
    };
    let found: Result<Vec<String>, ImportError> =
        import(&path).and_then(|rows| rows.map(|row| row.map(shown)).collect());
    let found = found.map_err(|error| error.to_string());
    let expect = expect.map(|rows| rows.iter().map(|row| (*row).to_owned()).collect()).map_err(str::to_owned);
    assert_eq!(found, expect, "{name} {text}");
}

#[test]
fn other_files_are_read_as_far_as_they_say() {
    let csv = "value,topic,time\n5,a,2026-11-20T00:00:00Z\n5.0,a,2026-11-20T00:00:00Z\nopen,a,2026-11-20T00:00:00Z\n";
    let time = "2026-11-20T00:00:00.000Z";
    let expect = ["Int(5)", "Float(5.0)", "Text(\"open\")"].map(|value| format!("a {time} {value} good"));
    check("x.csv", csv, Ok(&expect.each_ref().map(String::as_str)));
    let json = "{\"topic\":\"a\",\"t\":\"2026-11-20T00:00:00Z\",\"v\":5,\"why\":[\"away\"]}\n";
    check("x.json", json, Ok(&[&format!("a {time} Int(5) bad")]));
    let words = "the first line is \"topic;time;value\", expected columns, separated by commas; topic is missing";
    check("x.csv", "topic;time;value\na;2026-11-20T00:00:00Z;1,5\n", Err(words));
    let words =
        "the column \"Quality\" is unknown, expected one of topic, time, value, quality, why, count, kind, edited";
    check("x.csv", "topic,time,value,Quality\na,2026-11-20T00:00:00Z,1,bad\n", Err(words));
    let words =
        "row 1: the member \"quality\" is unknown, expected one of topic, t, v, q, why, count, kind, edited, payload";
    check("x.json", "{\"topic\":\"a\",\"t\":\"2026-11-20T00:00:00Z\",\"v\":5,\"quality\":\"bad\"}\n", Err(words));
    // Of a query without kinds.
    let message =
        "{\"topic\":\"a\",\"payload\":true,\"count\":1,\"v\":\"on\",\"q\":\"good\",\"t\":\"2026-11-20T00:00:00Z\"}\n";
    check("x.json", message, Ok(&["a Opaque(b\"on\")"]));
    check(
        "x.csv",
        "topic,time,value\na/#,2026-11-20,1\n",
        Err("row 1: the topic is \"a/#\": a topic holds + or #, expected a name without wildcards"),
    );
    check("x.json", "[1]\n", Err("row 1: it is no JSON object, expected one on each line"));
    let kind = "topic,time,value,kind\na,2026-11-20T00:00:00Z,x,integer\n";
    check("x.csv", kind, Err("row 1: the value is \"x\", expected one of kind integer"));
    check("x.txt", "", Err("is of no known format, expected a name that ends with .csv, .json or .parquet"));
}
