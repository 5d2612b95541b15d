//! How far a value may be trusted, by its own word: a point by its quality, and an object of points, as in a device's `all`,
//! by that of its worst.

use tieline_core::{Body, Quality, Validity, worst_of_points};
use tieline_topics::Grade;

/// How far a value may be trusted, by its own word.
#[must_use]
pub fn grade(body: &Body) -> Grade {
    let validity = match body {
        Body::Point(_) | Body::Published(_) => body.stated_quality().map(Quality::validity),
        Body::Opaque(bytes) => worst_of_points(bytes),
    };
    match validity {
        None => Grade::Unstated,
        Some(Validity::Good) => Grade::Good,
        Some(Validity::Uncertain) => Grade::Uncertain,
        Some(Validity::Bad) => Grade::Bad,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::view::write_body;
    use bytes::Bytes;
    use tieline_core::{POINT_BYTES_MAX, Point, Timestamp, Value};

    const ARRIVED: Timestamp = Timestamp::from_millis(1_795_167_360_123);

    /// What is shown of a payload, and its grade.
    fn check(payload: &str, shown: Option<&str>, expect: Grade) {
        let body = Body::read(Bytes::copy_from_slice(payload.as_bytes()));
        let mut text = String::new();
        write_body(&body, ARRIVED, &mut text);
        assert_eq!(text.strip_prefix("\"kind\":\"point\",\"value\":"), shown, "{payload}");
        assert_eq!(grade(&body), expect, "{payload}");
    }

    #[test]
    fn a_published_point_keeps_its_words() {
        let whole = r#"{"v":4.5,"q":"bad","why":["sensor broken","away"],"t":"2020-01-02T03:04:05Z"}"#;
        let same = r#"{"v":4.5,"q":"bad","why":["sensor broken","away"],"t":"2020-01-02T03:04:05.000Z"}"#;
        check(whole, Some(same), Grade::Bad);
        let arrived = r#"{"v":1,"q":"uncertain","t":"2026-11-20T09:36:00.123Z"}"#;
        let more = r#"{"v":1,"q":"uncertain","t":"2026-11-20T09:36:00.123Z","site":5}"#;
        check(r#" {"t": "yesterday", "q": "uncertain", "v": 1, "site": 5}"#, Some(more), Grade::Uncertain);
        check(r#"{"q":"uncertain","v":1,"t":null}"#, Some(arrived), Grade::Uncertain);
        check(
            r#"{"v":"a\"b","q":"good","t":"2026-11-20T09:36:00.123Z"}"#,
            Some(r#"{"v":"a\"b","q":"good","t":"2026-11-20T09:36:00.123Z"}"#),
            Grade::Good,
        );
    }

    #[test]
    fn who_states_no_quality_is_not_good() {
        for payload in [
            "23.5",
            "{\"v\":5}",
            "{\"v\":5,\"q\":\"GOOD\"}",
            "{\"q\":\"good\"}",
            "[{\"v\":1,\"q\":\"bad\"}]",
            "{\"q\"",
            "",
        ] {
            check(payload, None, Grade::Unstated);
        }
        let long = format!("{{\"v\":1,\"q\":\"good\",\"x\":\"{}\"}}", "y".repeat(POINT_BYTES_MAX));
        check(&long, None, Grade::Unstated);
    }

    #[test]
    fn an_object_of_points_is_as_good_as_its_worst() {
        let [good, doubtful, bad] = ["good", "uncertain", "bad"].map(|q| format!("{{\"v\":1,\"q\":\"{q}\"}}"));
        check(&format!("{{\"a\":{good},\"b\":{good}}}"), None, Grade::Good);
        check(&format!("{{\"a\":{bad},\"b\":{doubtful}}}"), None, Grade::Bad);
        check(&format!("{{\"a\":{doubtful},\"b\":{good}}}"), None, Grade::Uncertain);
        check(&format!("{{\"a\":{good},\"b\":5}}"), None, Grade::Unstated);
        check("{}", None, Grade::Unstated);
    }

    #[test]
    fn a_point_of_the_node_has_its_validity() {
        for (quality, expect) in
            [(Quality::GOOD, Grade::Good), (Quality::STALE, Grade::Uncertain), (Quality::AWAY, Grade::Bad)]
        {
            assert_eq!(grade(&Body::Point(Point { value: Value::Int(1), quality, time: ARRIVED })), expect);
        }
    }
}
