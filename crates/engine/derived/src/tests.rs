//! What the parts are together: any text is survived, live results are those of history, and both are what a naive calculation says.

use crate::{Changes, Expression, Form, Live, Reading, Series, Window, fingerprints, order};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use alloc::{format, vec};
use core::time::Duration;
use proptest::prelude::*;
use tieline_core::{Instant, Now, Point, Quality, Timestamp, Topic, Validity, Value};

fn topic(text: &str) -> Topic {
    Topic::new(text).unwrap()
}

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

fn number(x: f64) -> Reading {
    Reading::of(&Value::Float(x), Quality::GOOD)
}

fn change(text: &str) -> Expression {
    Expression::parse(text, Form::Change).unwrap()
}

fn series(name: &str, text: &str, every: Option<Duration>) -> Series {
    let form = if every.is_some() { Form::Interval } else { Form::Change };
    let expression = Expression::parse(text, form).unwrap();
    Series { topic: topic(name), expression, every, wait: Duration::from_micros(20), backfill: None }
}

/// What an expression of `'a'`, `'b'` and `'c'` comes to, where they have these values.
fn result(text: &str, values: &[Value]) -> Option<(Value, Quality)> {
    let expression = change(text);
    let mut changes = Changes::empty(&expression);
    for (input, name) in expression.inputs().iter().enumerate() {
        let place = usize::from(name.as_bytes()[0] - b'a');
        if let Some(value) = values.get(place) {
            let _ = changes.take(&expression, input, (at(1), Reading::of(value, Quality::GOOD)));
        }
    }
    changes.finish(&expression).map(|point| (point.value, point.quality))
}

#[test]
fn expressions_come_to_what_they_say() {
    let check = |text: &str, expect: f64| {
        let found = result(text, &[Value::Float(2.0), Value::Int(3), Value::Bool(true)]);
        assert_eq!(found, Some((Value::Float(expect), Quality::GOOD)), "{text}");
    };
    check("'a' + 'b' * 4", 14.0);
    check("('a' + 'b') * 4", 20.0);
    check("-'a' ^ 2", -4.0);
    check("'a' ^ -1 ^ 2", 0.5);
    check("2 - 'a' - 'b'", -3.0);
    check("7.5 % 'a'", 1.5);
    check("if('a' < 'b' and not ('a' == 'b'), 'a', 'b')", 2.0);
    check("if('c', 1, 2) + if('a' > 5 or 'b' >= 3, 10, 20)", 11.0);
    check("min('a', 'b', 1e3) + max('a', 'b') + avg('a', 4)", 8.0);
    check("clamp('b' * 100, 0, 50) + abs(-'a') + round(2.5) + floor(2.7) + ceil(2.1)", 60.0);
    check("sqrt('a' * 8) + exp('a' - 2) + ln('b' - 2)", 5.0);
    check("'c' + 1", 2.0);
    let truth = |text: &str, expect| {
        let found = result(text, &[Value::Float(2.0), Value::Int(3), Value::Bool(true)]);
        assert_eq!(found, Some((Value::Bool(expect), Quality::GOOD)), "{text}");
    };
    truth("'c' == true", true);
    truth("'c' != ('a' > 1)", false);
    truth("'a' <= 2 or 'b' / 0 > 1", true);
}

#[test]
fn what_has_no_value_says_why() {
    let check = |text: &str, values: &[Value], expect: Option<Quality>| {
        let found = result(text, values);
        assert_eq!(found.as_ref().map(|found| found.1), expect, "{text}");
        if let Some((value, quality)) = found {
            assert!(value == Value::Null && quality.validity() == Validity::Bad, "{text}: {value:?}");
        }
    };
    let bad = Quality::GOOD.with_validity(Validity::Bad);
    check("'a' / 'b'", &[Value::Int(1), Value::Int(0)], Some(Quality::OVER_RANGE));
    check("sqrt('a')", &[Value::Int(-1)], Some(Quality::OVER_RANGE));
    check("ln('a')", &[Value::Int(0)], Some(Quality::OVER_RANGE));
    check("'a' * 1e308", &[Value::Int(100)], Some(Quality::OVER_RANGE));
    check("'a' + 1", &[Value::Null], Some(bad));
    check("'a' + 1", &[Value::from("on")], Some(Reading::unusable(Quality::GOOD).quality));
    check("'a' + 'b'", &[Value::Int(1)], None);
    assert_eq!(result("coalesce('b', 'a')", &[Value::Int(1)]), Some((Value::Float(1.0), Quality::GOOD)));
    assert_eq!(result("coalesce('a', 7)", &[Value::Null]), Some((Value::Float(7.0), Quality::GOOD)));
}

#[test]
fn errors_say_where_and_what_was_expected() {
    let check = |text: &str, form, expect: &str| {
        assert_eq!(Expression::parse(text, form).unwrap_err().to_string(), expect, "{text}");
    };
    let start = "a number, a topic as 'site/power', a function or \"(\"";
    check("'a' +", Form::Change, &format!("at character 6: found the end, expected {start}"));
    check("'a' ++ 'b'", Form::Change, &format!("at character 6: found \"+\", expected {start}"));
    check("('a'", Form::Change, "at character 5: found the end, expected an operator or \")\"");
    check("'a' 'b'", Form::Change, "at character 5: found \"'b'\", expected an operator or the end");
    check("'a", Form::Change, "at character 1: found no end of the topic, expected a ' at the end of the topic");
    check(
        "'é' + not 1",
        Form::Change,
        "at character 7: found \"not\", expected a function: abs, avg, ceil, clamp, \
        coalesce, exp, floor, if, ln, max, min, round, sqrt",
    );
    check("not 1", Form::Change, "at character 5: found a number, expected true or false");
    check("1 + ('a' > 2)", Form::Change, "at character 6: found true or false, expected a number");
    check("if('a', 1, true)", Form::Change, "at character 12: found true or false, expected a number");
    check("abs('a', 'b')", Form::Change, "at character 1: found abs with 2 arguments, expected 1");
    check(
        "mean('a')",
        Form::Change,
        "at character 1: found \"mean\", expected `every` beside `value`: it is a function \
        of an interval",
    );
    check(
        "'a'",
        Form::Interval,
        "at character 1: found \"'a'\", expected a function of the interval, as in \
        mean('site/power')",
    );
    check(
        "mean('a' + 1)",
        Form::Interval,
        "at character 6: found \"'a'\", expected one topic and \")\", as in \
        mean('site/power')",
    );
    check(
        "1 + 2",
        Form::Change,
        "at character 1: found an expression without a topic, expected a topic in it, as \
        'site/power'",
    );
    check(
        "'a' & 1",
        Form::Change,
        "at character 5: found \"&\", expected a number, a topic as 'site/power', a function \
        or an operator",
    );
    check(
        "'a/+'",
        Form::Change,
        &format!("at character 1: found 'a/+', expected a topic as 'site/power' ({})", Topic::new("a/+").unwrap_err()),
    );
    check("'$SYS/a'", Form::Change, "at character 1: found '$SYS/a', expected a topic that does not begin with $");
    let deep = format!("{}'a'{}", "(".repeat(40), ")".repeat(40));
    check(&deep, Form::Change, "at character 34: found \"(\", expected 32 levels of brackets at most");
    assert!(Expression::parse(&format!("'a'{}", "+1".repeat(400)), Form::Change).is_err());
    let many: Vec<String> = (0..65).map(|n| format!("'t{n}'")).collect();
    assert!(Expression::parse(&many.join("+"), Form::Change).unwrap_err().expected.contains("64 topics"));
}

#[test]
fn a_set_is_ordered_or_says_what_is_wrong() {
    let every = Some(Duration::from_secs(60));
    let order_of = |set: &[Series]| order(set).map_err(|error| (error.index, error.to_string()));
    let (a, b) = (series("a", "'b' + 1", None), series("b", "'x'", None));
    assert_eq!(order_of(&[a.clone(), b.clone()]), Ok(vec![1, 0]));
    let back = series("b", "'a' + 'x'", None);
    assert_eq!(
        order_of(&[a.clone(), back]),
        Err((0, "a series that takes itself: a takes b takes a, expected no cycle".into()))
    );
    assert!(order_of(&[b.clone(), b]).unwrap_err().1.contains("a second series 'b'"));
    let interval = series("b", "mean('x')", every);
    let expect = "'b', which is calculated by interval, without `every` here, expected `every`, and last('b')";
    assert_eq!(order_of(&[a, interval.clone()]), Err((0, expect.into())));
    assert!(order_of(&[series("a", "last('b')", every), interval]).is_ok());
    let prints = |set: &[Series]| fingerprints(set, &order(set).unwrap());
    let set = |text: &str| [series("a", "'b' + 1", None), series("b", text, None), series("c", "'x'", None)];
    let (one, other) = (prints(&set("'x'")), prints(&set("'x' * 1")));
    assert!(one[0] != other[0] && one[1] != other[1] && one[2] == other[2], "what takes it is made of it");
    assert_eq!(one, prints(&set("'x'")));
    let chain: Vec<Series> = (0..20).map(|n| series(&format!("s{n}"), &format!("'s{}'", n + 1), None)).collect();
    assert!(order_of(&chain).unwrap_err().1.contains("16 levels"));
}

#[test]
fn an_interval_knows_how_long_values_stood() {
    let good = Quality::GOOD;
    let of = |text: &str, before: Option<Reading>, samples: &[(i64, Reading)]| {
        let expression = Expression::parse(text, Form::Interval).unwrap();
        let mut window = Window::new(at(0), at(10_000_000), before);
        samples.iter().for_each(|(time, reading)| window.add(at(*time), *reading));
        expression.of_interval(&[window])
    };
    let samples = [(2_000_000, number(4.0)), (6_000_000, number(2.0))];
    let check = |text: &str, before, expect: f64, quality| {
        assert_eq!(of(text, before, &samples), Some((Value::Float(expect), quality)), "{text}");
    };
    check("integral('a')", Some(number(1.0)), 2.0 + 16.0 + 8.0, good);
    check("integral('a') / 3600", None, 24.0 / 3600.0, good);
    check("time_weighted('a')", Some(number(1.0)), 2.6, good);
    for (text, expect) in [("mean('a')", 3.0), ("sum('a')", 6.0), ("min('a')", 2.0), ("max('a')", 4.0)] {
        check(text, Some(number(1.0)), expect, good);
    }
    for (text, expect) in [("count('a')", 2.0), ("first('a')", 4.0), ("last('a') - first('a')", -2.0)] {
        check(text, None, expect, good);
    }
    let away = Reading { value: Some(crate::Scalar::Number(9.0)), quality: Quality::AWAY };
    let uncertain = Quality::AWAY.with_validity(Validity::Uncertain);
    let with_gap = [(2_000_000, number(4.0)), (4_000_000, away), (8_000_000, number(2.0))];
    assert_eq!(of("integral('a')", None, &with_gap), Some((Value::Float(12.0), uncertain)));
    assert_eq!(of("mean('a')", Some(away), &[]), Some((Value::Null, Quality::AWAY)));
    assert_eq!(of("count('a')", Some(number(1.0)), &[]), Some((Value::Float(0.0), good)));
    assert_eq!(of("mean('a')", Some(number(1.0)), &[]), None);
    assert_eq!(of("integral('a')", None, &[]), None);
}

/// A stream in order: what each input says when.
type Stream = Vec<(u8, i64, i32)>;

/// The results of a stream, calculated of all samples up to each time.
fn naive(stream: &Stream, since: i64) -> Vec<(i64, f64)> {
    let mut times: Vec<i64> = stream.iter().map(|sample| sample.1).filter(|time| *time >= since).collect();
    times.dedup();
    let last = |input, time| stream.iter().rfind(|sample| sample.0 == input && sample.1 <= time).map(|sample| sample.2);
    let both = |time: &i64| Some((*time, f64::from(last(0, *time)?) * 2.0 + f64::from(last(1, *time)?)));
    times.iter().filter_map(both).collect()
}

fn told(topic: &Topic, point: &Point) -> (i64, f64) {
    assert_eq!(topic.as_str(), "sum");
    (point.time.micros(), point.value.as_f64().unwrap())
}

fn backfilled(stream: &Stream) -> Vec<(i64, f64)> {
    let (expression, name) = (change("'a' * 2 + 'b'"), topic("sum"));
    let mut changes = Changes::empty(&expression);
    let mut found = Vec::new();
    for (input, time, x) in stream {
        let sample = (at(*time), number(f64::from(*x)));
        found.extend(changes.take(&expression, usize::from(*input), sample));
    }
    found.extend(changes.finish(&expression));
    found.iter().map(|point| told(&name, point)).collect()
}

/// Each sample comes so many microseconds after its time.
fn lived(stream: &Stream, delays: &[u8], since: i64, held_at: usize) -> (Vec<(i64, f64)>, u64) {
    let mut live = Live::new();
    live.replace([(1, series("sum", "'a' * 2 + 'b'", None))]);
    let mut arrivals: Vec<(i64, usize)> =
        (0..stream.len()).map(|n| (stream[n].1 + i64::from(delays[n % delays.len()] % 20), n)).collect();
    arrivals.sort();
    let now = |micros: i64| Now { mono: Instant(micros.cast_unsigned() * 1000), utc: at(micros) };
    let mut found = Vec::new();
    for (count, (time, n)) in arrivals.iter().chain([(10_000, 0)].iter()).enumerate() {
        if count == held_at.min(arrivals.len()) {
            let before = |input| stream.iter().rfind(|sample| sample.0 == input && sample.1 < since);
            let held = |input| before(input).map(|sample| (at(sample.1), number(f64::from(sample.2))));
            live.seed(&topic("sum"), 1, at(since), vec![held(0), held(1)]);
        }
        if count < arrivals.len() {
            let (input, time_of, x) = stream[*n];
            live.handle_sample(now(*time), &topic(["a", "b"][usize::from(input)]), at(time_of), number(f64::from(x)));
        }
        live.poll(now(*time).mono, |topic, point| found.push(told(topic, &point)));
    }
    (found, live.counts(&topic("sum")).unwrap().late)
}

proptest! {
    #[test]
    fn any_text_is_survived(text: String, interval: bool) {
        let form = if interval { Form::Interval } else { Form::Change };
        let _ = Expression::parse(&text, form);
    }

    #[test]
    fn words_in_any_order_are_survived(words in proptest::collection::vec(prop_oneof![
        Just("'a'"), Just("1"), Just("("), Just(")"), Just("-"), Just("+"), Just("^"), Just("<"), Just("and"), Just("not"),
        Just("min("), Just("if("), Just(","), Just("mean('b')"), Just("sum"), Just("true"), Just("coalesce("), Just("== "),
    ], 0..40), values in proptest::collection::vec(any::<f64>(), 1..3)) {
        let text = words.join(" ");
        let length = text.chars().count();
        for form in [Form::Change, Form::Interval] {
            match Expression::parse(&text, form) {
                Err(error) => prop_assert!(error.at >= 1 && error.at <= length + 1, "{}", error),
                Ok(expression) => {
                    let window = |input: usize| {
                        let mut window = Window::new(at(0), at(9), None);
                        window.add(at(3), number(values[input % values.len()]));
                        window
                    };
                    let windows: Vec<Window> = (0..expression.inputs().len()).map(window).collect();
                    if let Some((value, quality)) = expression.of_interval(&windows) {
                        prop_assert_eq!(value == Value::Null, quality.validity() == Validity::Bad);
                    }
                    let mut changes = Changes::empty(&expression);
                    for (input, x) in values.iter().enumerate() {
                        let _ = changes.take(&expression, input, (at(1), number(*x)));
                    }
                    if let Some(point) = changes.finish(&expression) {
                        prop_assert!(point.value.as_f64().is_none_or(f64::is_finite));
                        prop_assert_eq!(point.value == Value::Null, point.quality.validity() == Validity::Bad);
                    }
                }
            }
        }
    }

    #[test]
    fn live_results_are_those_of_history(
        steps in proptest::collection::vec((0u8..2, 0i64..15, any::<i32>()), 0..40),
        delays in proptest::collection::vec(any::<u8>(), 1..40),
        since in 0i64..300,
        held_at in 0usize..40,
    ) {
        let mut time = 0;
        let stream: Stream = steps.into_iter().map(|(input, step, x)| {
            time += step;
            (input, time, x)
        }).collect();
        // Which of two samples of one topic and time comes first is not known from their times.
        let mut seen = Vec::new();
        let is_first = |sample: &&(u8, i64, i32)| {
            let is_first = !seen.contains(&(sample.0, sample.1));
            seen.push((sample.0, sample.1));
            is_first
        };
        let stream: Stream = stream.iter().filter(is_first).copied().collect();
        let history = backfilled(&stream);
        prop_assert_eq!(&history, &naive(&stream, 0));
        // None comes later than a sample of a later time has waited.
        let (live, late) = lived(&stream, &delays, since, held_at);
        prop_assert_eq!(late, 0);
        prop_assert_eq!(live, naive(&stream, since));
    }
}

#[test]
fn a_sample_that_comes_too_late_is_held_only() {
    let mut live = Live::new();
    live.replace([(1, series("sum", "'a' + 'b'", None))]);
    live.seed(&topic("sum"), 1, at(0), vec![None, None]);
    let now = |micros: i64| Now { mono: Instant(micros.cast_unsigned() * 1000), utc: at(micros) };
    let mut found = Vec::new();
    for (input, time, x, came) in [("a", 10, 1.0, 10), ("b", 20, 2.0, 20), ("b", 15, 7.0, 60), ("a", 70, 3.0, 70)] {
        live.handle_sample(now(came), &topic(input), at(time), number(x));
        live.poll(now(came + 21).mono, |_, point| found.push((point.time.micros(), point.value.as_f64().unwrap())));
    }
    assert_eq!(found, [(20, 3.0), (70, 5.0)]);
    live.handle_sample(now(100), &topic("a"), at(100_000_000), number(1.0));
    let counts = live.counts(&topic("sum")).unwrap();
    assert_eq!((counts.results, counts.late, counts.ahead, counts.bad), (2, 1, 1, 0));
}
