//! `[[derived]]`: series that are calculated from series.

use super::reader::{Document, Section};
use super::settings::{DERIVED_BACKFILL, DERIVED_EVERY, DERIVED_WAIT};
use super::{Checks, DeviceConfig, HistoryConfig, parse};
use std::time::Duration;
use tieline_core::Topic;
use tieline_derived::{Expression, Form, Series};
use tieline_views::View;

/// How long late samples are waited for where nothing is said: at each change, and by interval.
const WAIT_CHANGE: Duration = Duration::from_millis(200);
const WAIT_INTERVAL: Duration = Duration::from_secs(5);

/// What else is configured that series must fit.
#[derive(Clone, Copy)]
pub struct Beside<'a> {
    /// What is recorded.
    pub history: &'a HistoryConfig,
    /// Topics that views derive are not recorded.
    pub views: &'a [View],
    /// Topics of devices are theirs.
    pub devices: &'a [DeviceConfig],
}

/// Reads all `[[derived]]`; what they are not together is told at the one that it is about.
pub fn read_derived(all: Vec<Section<'_>>, doc: &mut Document<'_>, beside: Beside<'_>, checks: Checks) -> Vec<Series> {
    let places: Vec<usize> = all.iter().map(Section::at).collect();
    let series: Vec<Series> = all.into_iter().filter_map(|section| read_one(section, doc, beside)).collect();
    let first = places.first().copied();
    if let Some(at) = first.filter(|_| !beside.history.enabled) {
        let found = "history.enabled is false".to_owned();
        doc.report(at, "derived", found, "a history: series are calculated of it and stored in it".to_owned());
    }
    if series.len() == places.len()
        && let Err(error) = (checks.derived)(&series)
    {
        let at = places.get(error.index).copied().or(first).unwrap_or_default();
        doc.report(at, "derived", error.found, error.expected);
    }
    series
}

fn read_one(mut s: Section<'_>, doc: &mut Document<'_>, beside: Beside<'_>) -> Option<Series> {
    let topic = s.required(doc, "topic", "a topic of its own, as in \"site/power/total\"", |v| {
        let words = |why: String| format!("a topic, as in \"site/power/total\" ({why})");
        let text = v.as_str().ok_or_else(|| words("a text".to_owned()))?;
        let topic = Topic::new(text).map_err(|error| words(error.to_string()))?;
        if text.starts_with('$') { Err(words("one that does not begin with $".to_owned())) } else { Ok(topic) }
    });
    let every = DERIVED_EVERY.optional(&mut s, doc);
    let form = if s.has("every") { Form::Interval } else { Form::Change };
    let text = s.required(doc, "value", "an expression, as in \"'site/meter/1' + 'site/meter/2'\"", parse::text);
    let expression = text.as_deref().map(|text| Expression::parse(text, form));
    if let Some(Err(error)) = &expression {
        let found = format!("{} at character {}", error.found, error.at);
        doc.report(s.value_at("value"), &s.key("value"), found, error.expected.clone());
    }
    let standard = if form == Form::Interval { WAIT_INTERVAL } else { WAIT_CHANGE };
    let wait = DERIVED_WAIT.optional(&mut s, doc).unwrap_or(standard);
    let backfill = DERIVED_BACKFILL.optional(&mut s, doc);
    let expression = expression.and_then(Result::ok);
    if let Some(topic) = &topic {
        check_result(&s, doc, topic, beside);
    }
    for input in expression.iter().flat_map(Expression::inputs) {
        check_input(&s, doc, input, beside);
    }
    s.finish(doc);
    Some(Series { topic: topic?, expression: expression?, every, wait, backfill })
}

fn is_recorded(topic: &Topic, history: &HistoryConfig) -> bool {
    history.record.iter().any(|filter| filter.matches(topic))
}

fn view_of<'a>(topic: &Topic, views: &'a [View]) -> Option<&'a View> {
    views.iter().find(|view| view.to.reach().is_some_and(|filter| filter.matches(topic)))
}

fn check_result(s: &Section<'_>, doc: &mut Document<'_>, topic: &Topic, beside: Beside<'_>) {
    let mut report = |found: String, expected: &str| {
        doc.report(s.value_at("topic"), &s.key("topic"), found, expected.to_owned());
    };
    if !is_recorded(topic, beside.history) {
        report(format!("'{topic}', which history.record does not select"), "a topic that is recorded");
    }
    if let Some(view) = view_of(topic, beside.views) {
        report(format!("'{topic}', which view {} may derive", view.name), "a topic of its own");
    }
    let is_below = |device: &&DeviceConfig| {
        topic.strip_prefix(device.topic.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    if let Some(device) = beside.devices.iter().find(is_below) {
        report(format!("'{topic}', a topic of device.{}", device.name), "a topic of its own");
    }
}

fn check_input(s: &Section<'_>, doc: &mut Document<'_>, input: &Topic, beside: Beside<'_>) {
    let mut report = |found: String| {
        doc.report(s.value_at("value"), &s.key("value"), found, "topics that are recorded".to_owned());
    };
    if !is_recorded(input, beside.history) {
        report(format!("'{input}', which history.record does not select"));
    } else if let Some(view) = view_of(input, beside.views) {
        report(format!("'{input}', which view {} may derive", view.name));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Checks, Config, from_text_with};
    use std::path::Path;

    fn read(text: &str) -> Result<Config, String> {
        let derived = |all: &[tieline_derived::Series]| tieline_derived::order(all).map(drop);
        from_text_with("t.toml", text, Path::new("."), Checks { derived, ..Checks::NONE }).map_err(|e| e.to_string())
    }

    fn check(text: &str, expect: &str) {
        let found = read(text).unwrap_err();
        assert!(found.contains(expect), "{expect} is not in:\n{found}");
    }

    #[test]
    fn series_have_waits_of_their_kind() {
        let text = "[[derived]]\ntopic='a'\nvalue=\"'x' + 1\"\n[[derived]]\ntopic='b'\nevery='15m'\nbackfill='30d'\n\
                    value=\"mean('x')\"\n[[derived]]\ntopic='c'\nevery='1h'\nwait='0s'\nvalue=\"sum('b')\"\n";
        let waits: Vec<_> = read(text).unwrap().derived.iter().map(|one| (one.wait.as_millis(), one.every)).collect();
        let seconds = |seconds| Some(std::time::Duration::from_secs(seconds));
        assert_eq!(waits, [(200, None), (5000, seconds(900)), (0, seconds(3600))]);
    }

    #[test]
    fn errors_say_where_and_what_was_expected() {
        let one = "[[derived]]\ntopic='a'\nvalue=";
        check(&format!("{one}\"'x' + + 1\"\n"), "t.toml:3");
        check(&format!("{one}\"'x' + + 1\"\n"), "found \"+\" at character 7, expected a number, a topic");
        check(&format!("{one}\"mean('x')\"\n"), "expected `every` beside `value`");
        check("[[derived]]\ntopic='$a'\nvalue=\"'x'\"\n", "does not begin with $");
        check("[[derived]]\ntopic='a'\nevery='10ms'\nvalue=\"last('x')\"\n", "every");
        check(
            &format!("{one}\"'a' + 1\"\n"),
            "derived: found a series that takes itself: a takes a, expected no cycle",
        );
        check(&format!("[history]\nenabled=false\n{one}\"'x'\"\n"), "history.enabled is false");
        let record = format!("[history]\nrecord=['y/#', 'a']\n{one}\"'x'\"\n");
        check(&record, "'x', which history.record does not select, expected topics that are recorded");
        check(&record.replace("'a']", "'x']"), "'a', which history.record does not select");
        let view = "[[view]]\nname='v'\nfrom='y/+'\nto='x/{1}'\n";
        check(&format!("{view}{}\"'z'\"\n", one.replace("'a'", "'x/1'")), "'x/1', which view v may derive");
        check(&format!("{view}{one}\"'x/2'\"\n"), "'x/2', which view v may derive");
    }
}
