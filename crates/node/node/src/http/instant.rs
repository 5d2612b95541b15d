//! `/v1/topics?at=…`: topics as they were at an instant, from history.

use super::authorization::Authenticated;
use super::body::Written;
use super::history::source;
use super::pieces::{self, Pieces};
use super::problem::Problem;
use crate::bus::fetch::HELD_BYTES_MAX;
use crate::bus::write_body;
use crate::bus::written::TopicPage;
use std::fmt::Write as _;
use std::io::{self, BufWriter, Write};
use tieline_access::{Reach, Verb};
use tieline_core::{Timestamp, Topic, json_string};
use tieline_history::{HistorySource, Sample};
use tieline_store::StoreError;
use tieline_topics::{Fetch, Selector, compare};

/// One page of topics with the values that they had.
pub(super) async fn list(
    authenticated: Authenticated,
    mut asked: Fetch,
    select: Option<String>,
    (time, is_raw): (Timestamp, bool),
) -> Result<Written<TopicPage>, Problem> {
    let (authorized, reach) = authenticated.reads(std::slice::from_ref(&asked.filter)).await?;
    let source = source(&authorized.app)?;
    let recall = authorized.app.about.recalls.enter(authorized.share()).await?;
    let compiled = select
        .map(|text| Selector::new(&text).map_err(|error| Problem::bad_request(format!("select is {text:?}: {error}"))));
    asked.select = compiled.transpose()?;
    let caller = authorized.caller;
    let may = move |topic: &str| reach == Reach::All || caller.may(Verb::Read, topic);
    let body = pieces::answer(recall, move |gone, out| write(&source, &asked, (time, is_raw), may, &gone, out)).await?;
    Ok(Written::new(body))
}

fn write(
    source: &HistorySource,
    asked: &Fetch,
    (time, is_raw): (Timestamp, bool),
    may: impl Fn(&str) -> bool,
    gone: &Pieces,
    mut out: BufWriter<Pieces>,
) -> Result<(), String> {
    let reader = source.reader().map_err(|error| error.to_string())?.or_raw(is_raw);
    let latest = reader.at(&asked.filter, time, |topic| asked.asks_for(topic) && may(topic));
    let mut latest = latest.map_err(|error| error.to_string())?;
    latest.sort_by(|one, other| if asked.from_end { compare(other, one) } else { compare(one, other) });
    write_page(asked, latest, || gone.is_closed(), &mut out)
        .and_then(|()| out.flush())
        .map_err(|error| error.to_string())
}

/// Writes a page. One from the end is held until its beginning is known.
fn write_page(
    asked: &Fetch,
    mut latest: impl Iterator<Item = Result<(Topic, Sample, Option<u64>), StoreError>>,
    is_gone: impl Fn() -> bool,
    out: &mut impl Write,
) -> io::Result<()> {
    let bytes_max = if asked.from_end { asked.bytes_max.min(HELD_BYTES_MAX) } else { asked.bytes_max };
    let (mut held, mut items, mut bytes, mut last, mut next) = (Vec::new(), 0, 0, None, None);
    out.write_all(b"{\"topics\":[")?;
    while let Some(found) = latest.next().filter(|_| !is_gone()) {
        let (topic, sample, edited) = found.map_err(io::Error::other)?;
        let text = of_topic(&topic, sample, edited, asked.values);
        bytes += text.len();
        if items > 0 && (items >= asked.limit || bytes > bytes_max) {
            next = last;
            break;
        }
        if asked.from_end {
            held.push(text);
        } else {
            out.write_all(if items == 0 { b"" } else { b"," })?;
            out.write_all(text.as_bytes())?;
        }
        items += 1;
        last = Some(topic);
    }
    held.reverse();
    out.write_all(held.join(",").as_bytes())?;
    let mut text = String::from("],\"next\":");
    match next {
        Some(next) => json_string(&next, &mut text),
        None => text.push_str("null"),
    }
    text.push('}');
    out.write_all(text.as_bytes())
}

/// A topic as JSON, as `/v1/topics` shows it, without a version: history has none.
fn of_topic(topic: &Topic, sample: Sample, edited: Option<u64>, with_value: bool) -> String {
    let mut text = String::from("{\"topic\":");
    json_string(topic, &mut text);
    let time = sample.time;
    if with_value {
        text.push(',');
        write_body(&sample.into_body(), time, &mut text);
    }
    let _ = write!(text, ",\"updated\":\"{time}\"");
    if let Some(id) = edited {
        let _ = write!(text, ",\"edited\":{id}");
    }
    text.push('}');
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bus::written;
    use serde_json::Value as Json;
    use tieline_core::{Filter, Quality};
    use tieline_history::Datum;

    /// Topics of a page, each with its value, and where the next begins.
    fn page(asked: &Fetch, names: &[&str]) -> (Vec<String>, Option<String>) {
        let sample = |name: &&str| {
            let datum = Datum::Int(i64::try_from(name.len()).unwrap());
            let sample = Sample { time: Timestamp::from_millis(7), datum, quality: Quality::AWAY };
            Ok((Topic::new(name).unwrap(), sample, Some(7)))
        };
        let mut out = Vec::new();
        write_page(asked, names.iter().map(sample), || false, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        written::check::<TopicPage>(&text);
        let page: Json = serde_json::from_str(&text).unwrap();
        let topics = page["topics"].as_array().unwrap().iter();
        let shown = topics.map(|topic| format!("{} {}", topic["topic"].as_str().unwrap(), topic["value"]["v"]));
        (shown.collect(), page["next"].as_str().map(str::to_owned))
    }

    #[test]
    fn pages_end_at_a_limit_or_with_the_topics() {
        let all = || Fetch::new(Filter::new("#").unwrap());
        let check = |asked: &Fetch, names: &[&str], topics: &[&str], next: Option<&str>| {
            assert_eq!(page(asked, names), (topics.iter().map(|t| (*t).to_owned()).collect(), next.map(str::to_owned)));
        };
        check(&all(), &[], &[], None);
        check(&all(), &["a", "a/b"], &["a 1", "a/b 3"], None);
        check(&Fetch { limit: 2, ..all() }, &["a", "a/b"], &["a 1", "a/b 3"], None);
        check(&Fetch { limit: 1, ..all() }, &["a", "a/b"], &["a 1"], Some("a"));
        check(&Fetch { bytes_max: 1, ..all() }, &["a", "a/b"], &["a 1"], Some("a"));
        check(&Fetch { values: false, ..all() }, &["a"], &["a null"], None);
        check(&Fetch { from_end: true, limit: 2, ..all() }, &["c", "b", "a"], &["b 1", "c 1"], Some("b"));
    }

    #[test]
    fn values_are_shown_as_they_were() {
        let shown = |datum, quality| {
            of_topic(&Topic::new("a").unwrap(), Sample { time: Timestamp::from_millis(7), datum, quality }, None, true)
        };
        let time = "\"1970-01-01T00:00:00.007Z\"";
        let point = shown(Datum::Float(1.5), Quality::AWAY);
        let value = format!("{{\"v\":1.5,\"q\":\"bad\",\"why\":[\"away\"],\"t\":{time}}}");
        assert_eq!(point, format!("{{\"topic\":\"a\",\"kind\":\"point\",\"value\":{value},\"updated\":{time}}}"));
        let text = shown(Datum::Opaque(b"open".to_vec().into()), Quality::GOOD);
        assert_eq!(text, format!("{{\"topic\":\"a\",\"kind\":\"text\",\"value\":\"open\",\"updated\":{time}}}"));
    }
}
