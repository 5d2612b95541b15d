use super::*;
use crate::{Kind, Limit, Priority};
use alloc::string::ToString;
use core::time::Duration;
use tieline_core::Value;

const HEADER: &str =
    "topic,kind,limit,hysteresis,reference,on_delay,off_delay,priority,latch,group,suppress_when,text\n";

/// What is said of a file of these rows.
fn errors(rows: &str) -> Vec<String> {
    let parsed = Rules::parse(&format!("{HEADER}{rows}"), 10, false);
    parsed.err().unwrap_or_default().iter().map(ToString::to_string).collect()
}

#[test]
fn rows_are_rules() {
    let text = format!(
        "{HEADER}site/+/current,high,400,10,,2s,5s,high,,feeders,,overload\n\
         site/+/breaker,state,false,,,,,critical,yes,feeders,site/{{1}}/maintenance=true,\"tripped, dark\"\n\
         site/+/level,deviation,2.5,0.5,site/{{1}}/setpoint,,,medium,,,,\n\
         site/#,stale,30s,,,,,low,no,,,\n\
         site/a/current,high,,,,,,off,,,,\n"
    );
    let rules = Rules::parse(&text, 10, false).unwrap();
    let rules: Vec<&Rule> = rules.iter().collect();
    let [high, state, deviation, stale, off] = rules[..] else { panic!("{rules:?}") };
    assert_eq!((high.kind, &high.limit, high.hysteresis), (Kind::High, &Limit::Number(400.0), 10.0));
    assert_eq!((high.on_delay, high.off_delay), (Duration::from_secs(2), Duration::from_secs(5)));
    assert_eq!((&*state.text, state.is_latching), ("tripped, dark", true));
    assert_eq!(state.limit, Limit::Is(Value::Bool(false)));
    let suppressed = state.suppress_when.as_ref().unwrap();
    let topic = suppressed.topic.resolve(&state.filter, "site/a/breaker");
    assert_eq!((topic.as_deref(), &suppressed.value), (Some("site/a/maintenance"), &Value::Bool(true)));
    assert!(deviation.reference.is_some());
    assert_eq!(stale.limit, Limit::Within(Duration::from_secs(30)));
    assert_eq!((off.priority, off.line), (Priority::Off, 6));
}

#[test]
fn errors_say_line_column_found_and_expected() {
    let check = |row: &str, expect: &[&str]| assert_eq!(errors(row), expect, "{row}");
    let kinds =
        "one of: away, high_high, high, low_low, low, deviation, rate, state, change, bad, stale, command_failed";
    check("a,high,x,,,,,low", &["line 2, column limit: found \"x\", expected a number"]);
    check("a,hi,1,,,,,low", &[&format!("line 2, column kind: found \"hi\", expected {kinds}")]);
    check("a,high,,,,,,low", &["line 2, column limit: found nothing, expected a number"]);
    check("a,high,NaN,,,,,low", &["line 2, column limit: found \"NaN\", expected a number"]);
    check("a,rate,0,,,,,low", &["line 2, column limit: found \"0\", expected a number above 0"]);
    check(
        "a,high,1,-1,,2 s,,low",
        &[
            "line 2, column hysteresis: found \"-1\", expected a number, 0 or above",
            "line 2, column on_delay: found \"2 s\", expected a time like 500ms, 2s, 10m or 8h, at most 31d",
        ],
    );
    check(
        "a,high,1,,,,,urgent",
        &["line 2, column priority: found \"urgent\", expected one of: critical, high, medium, low, event, off"],
    );
    check(
        "a+,high,1,,,,,low",
        &[
            "line 2, column topic: found \"a+\", expected a topic or a filter: + must be a whole level of a filter, as in site/+/state",
        ],
    );
    check("a,bad,1,,,,,low", &["line 2, column limit: found \"1\", expected nothing: bad has no limit"]);
    check("a,bad,,1,,,,low", &["line 2, column hysteresis: found \"1\", expected nothing: bad has no hysteresis"]);
    check("a,bad,,,b,,,low", &["line 2, column reference: found \"b\", expected nothing: bad has no reference"]);
    check(
        "a/+,deviation,1,,a/{2},,,low",
        &[
            "line 2, column reference: found \"a/{2}\", expected a topic, with {1} for what the first wildcard of the column topic has selected",
        ],
    );
    check("a,change,,,,1s,,low", &["line 2, column on_delay: found \"1s\", expected 0s: change lasts for a moment"]);
    check("a,high,1,,,,,low,maybe", &["line 2, column latch: found \"maybe\", expected yes, no or nothing"]);
    check(
        "a,high,1,,,,,low,,,b=",
        &[
            "line 2, column suppress_when: found \"b=\", expected TOPIC=VALUE, with {1} for what the first wildcard of topic has selected",
        ],
    );
    check(
        "a,high,1,,,,,low,,,,t,more",
        &["line 2: found 13 cells, expected at most 12, one for each column; a cell with a comma is quoted"],
    );
    check("a,bad,,,,,,low\n\na,bad,,,,,,high", &["line 4: found bad of a again, expected one row, and line 2 is it"]);
    check("\"a,bad", &["line 2: found a quoted cell without an end, expected a closing quote"]);
    let eleven: String = (0..11).map(|n| format!("a{n},bad,,,,,,low\n")).collect();
    check(&eleven, &["line 12: found one row more, expected at most 10 rows"]);
    let many: String = (0..200).map(|_| "a,high,x,,,,,low\n").collect();
    let found = errors(&many);
    assert_eq!(found.len(), 101);
    assert_eq!(found.last().unwrap(), "line 101: found 100 errors, expected fewer: the rest was not read");
}

#[test]
fn headers_are_checked() {
    let check = |text: &str, expect: &str| {
        let errors = Rules::parse(text, 10, false).unwrap_err();
        assert_eq!(errors[0].to_string(), expect, "{text}");
    };
    check("topic,kind", "line 1: found no column priority, expected at least topic, kind and priority");
    check("topic,kind,priority,kind", "line 1: found the column kind again, expected each column once");
    let columns: Vec<&str> = Column::words().collect();
    let names = format!("expected the names of columns, of these: {}", columns.join(", "));
    check("topic,prio", &format!("line 1: found \"prio\", {names}"));
    check("", &format!("line 1: found an empty file, {names}"));
}

#[test]
fn strict_rules_say_what_an_operator_needs() {
    let text = "topic,kind,priority,cause,consequence,action,respond_in\na,bad,high,c,,x,\nb,bad,low\n";
    let errors = Rules::parse(text, 10, true).unwrap_err();
    let shown: Vec<String> = errors.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "line 2, column consequence: found nothing, expected a text: strict rules of priority high need it",
            "line 2, column respond_in: found nothing, expected a text: strict rules of priority high need it"
        ]
    );
    assert_eq!(Rules::parse(text, 10, false).unwrap().len(), 2);
}

proptest::proptest! {
    #[test]
    fn any_text_is_rules_or_errors(text in "([a-z#+/{}1,\"\r\n=]|high|low|topic|kind|priority|\u{e9}){0,200}") {
        for text in [text.clone(), format!("{HEADER}{text}")] {
            if let Err(errors) = Rules::parse(&text, 50, true) {
                assert!((1..=101).contains(&errors.len()));
            }
        }
    }
}
