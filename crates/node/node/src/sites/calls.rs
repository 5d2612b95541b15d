//! Requests from a centre to a site: which of them go there, with which rights, and what they are called at the site.
//!
//! At the centre all topics of a request begin with the centre's prefix and the name of one site; at the site they are without. So a request
//! of several levels (`sites/region/sites/north/…`) loses one of them at each hop.

use serde_json::{Map, Value as Json};
use std::sync::Arc;
use std::time::Duration;
use tieline_access::Verb;
use tieline_core::{Refusal, Timestamp, Words};
use tokio::sync::oneshot;

/// A site must have the call within this time, or does nothing.
pub const START_WITHIN: Duration = Duration::from_secs(5);
/// How long the answer is waited for where the request does not say how long a command may take.
const DONE_WITHIN: Duration = Duration::from_secs(60);
/// Besides, for the way.
const MARGIN: Duration = Duration::from_secs(5);

/// Bytes of an answer to the centre: a message of the fabric takes it.
pub const ANSWER_BYTES_MAX: usize = 890_000;

/// What is asked of a site.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CallVerb {
    /// A command for one point.
    Command,
    /// Points are set.
    Set,
    /// Points are reverted.
    Revert,
    /// Last values.
    Get,
    /// Devices are reserved.
    Reserve,
    /// A reservation goes on.
    Renew,
    /// A reservation ends.
    Cancel,
}

/// The words are the names of the services of a site, and of the requests over MQTT.
impl Words for CallVerb {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("command", Self::Command),
        ("set", Self::Set),
        ("revert", Self::Revert),
        ("get", Self::Get),
        ("reserve", Self::Reserve),
        ("renew", Self::Renew),
        ("cancel", Self::Cancel),
    ];
}

/// A request for one site.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteRequest {
    /// Which site.
    pub site: String,
    /// What is asked.
    pub verb: CallVerb,
    /// With the topics as the site has them.
    pub body: Json,
    /// What the caller must be allowed to do here.
    pub rights: Vec<(Verb, String)>,
    /// For the audit log: each topic here, and the value.
    pub points: Vec<(String, String)>,
    /// How long the answer is waited for.
    pub patience: Duration,
    /// Where it came from a higher centre: when that lets it be begun at the latest.
    pub until: Option<Timestamp>,
}

impl SiteRequest {
    /// The request, where one of its topics is below `prefix` and is not this node's own.
    ///
    /// # Errors
    /// Its topics are of several sites.
    pub fn of(
        prefix: &str,
        verb: CallVerb,
        body: &Json,
        is_own: impl Fn(&str) -> bool,
    ) -> Option<Result<Self, Refusal>> {
        let site_of = |topic: &str| {
            let (site, rest) = topic.trim_start_matches('/').strip_prefix(prefix)?.split_once('/')?;
            (!site.is_empty() && !rest.is_empty() && !is_own(topic)).then(|| site.to_owned())
        };
        let (mut first, mut is_mixed, mut topics) = (None, false, Vec::new());
        // What is no text is left to the checks of the site.
        let mut looked = body.clone();
        with_topics(verb, &mut looked, &mut |topic| {
            let site = site_of(topic);
            is_mixed |= !topics.is_empty() && site != first;
            if first.is_none() {
                first = site;
            }
            topics.push(topic.clone());
        });
        let site = first?;
        // What is here is answered from here.
        if is_mixed && verb == CallVerb::Get {
            return None;
        }
        if is_mixed {
            let detail = "the topics of a request are of one site, or all of this node".to_owned();
            return Some(Err(Refusal::new("malformed", detail)));
        }
        let mut stripped = looked;
        let below = format!("{prefix}{site}/");
        let mut strip = |topic: &mut String| {
            if let Some(rest) = topic.trim_start_matches('/').strip_prefix(&below) {
                *topic = rest.to_owned();
            }
        };
        with_topics(verb, &mut stripped, &mut strip);
        if let (CallVerb::Reserve, Some(Json::String(task))) = (verb, stripped.get_mut("task")) {
            strip(task);
        }
        let rights = rights(verb, body, &topics, &format!("{prefix}{site}"));
        let points = match body.get("points").and_then(Json::as_array) {
            Some(points) if verb == CallVerb::Set => topics
                .iter()
                .zip(points)
                .map(|(topic, point)| (topic.clone(), point.get("value").unwrap_or(&Json::Null).to_string()))
                .collect(),
            _ => {
                let value = body.get("value").map(Json::to_string).unwrap_or_default();
                topics.iter().map(|topic| (topic.clone(), value.clone())).collect()
            }
        };
        let done = body.get("timeout_ms").and_then(Json::as_u64).map_or(DONE_WITHIN, Duration::from_millis);
        let patience = START_WITHIN + done.min(DONE_WITHIN * 6) + MARGIN;
        Some(Ok(Self { site, verb, body: stripped, rights, points, patience, until: None }))
    }
}

/// What a caller must be allowed to do at the centre.
fn rights(verb: CallVerb, body: &Json, topics: &[String], site: &str) -> Vec<(Verb, String)> {
    let each = |verb: Verb| topics.iter().map(|topic| (verb, topic.clone())).collect();
    let is = |member: &str, value: &Json| body.get(member) == Some(value);
    match verb {
        CallVerb::Get => each(Verb::Read),
        CallVerb::Reserve if is("priority", &Json::from("HIGH")) => each(Verb::Admin),
        CallVerb::Command | CallVerb::Set | CallVerb::Revert | CallVerb::Reserve => each(Verb::Command),
        // Whose devices it is, the site knows: it takes all of its devices.
        CallVerb::Cancel if is("force", &Json::Bool(true)) => vec![(Verb::Admin, site.to_owned())],
        // The site lets only the holder do it.
        CallVerb::Renew | CallVerb::Cancel => Vec::new(),
    }
}

/// Looks at the topics of a request, and at the task that stands for them.
pub fn with_topics(verb: CallVerb, body: &mut Json, take: &mut dyn FnMut(&mut String)) {
    let mut one = |json: Option<&mut Json>| {
        if let Some(Json::String(text)) = json {
            take(text);
        }
    };
    let mut all = |body: &mut Json, list: &str, member: Option<&str>| {
        for entry in body.get_mut(list).and_then(Json::as_array_mut).into_iter().flatten() {
            match (member, entry.is_array()) {
                (Some(_), true) => one(entry.get_mut(0)),
                (Some(member), false) => one(entry.get_mut(member)),
                (None, _) => one(Some(entry)),
            }
        }
    };
    match verb {
        CallVerb::Command => one(body.get_mut("topic")),
        CallVerb::Set => all(body, "points", Some("topic")),
        CallVerb::Revert => {
            all(body, "points", None);
            all(body, "devices", None);
        }
        CallVerb::Get => all(body, "topics", None),
        CallVerb::Reserve => all(body, "slots", Some("device")),
        CallVerb::Renew | CallVerb::Cancel => one(body.get_mut("task")),
    }
}

/// The answer of a site with the topics that they have here; any other text as it is.
#[must_use]
pub fn shown_here(answer: String, above: &str) -> String {
    let Ok(mut json) = serde_json::from_str::<Json>(&answer) else { return answer };
    let mut changed = false;
    let mut put = |json: Option<&mut Json>| {
        if let Some(Json::String(topic)) = json {
            *topic = format!("{above}{topic}");
            changed = true;
        }
    };
    put(json.get_mut("topic"));
    for list in ["points", "topics"] {
        for entry in json.get_mut(list).and_then(Json::as_array_mut).into_iter().flatten() {
            put(entry.get_mut("topic"));
        }
    }
    if let Some(errors) = json.get_mut("errors").and_then(Json::as_object_mut)
        && !errors.is_empty()
    {
        let here = std::mem::take(errors).into_iter().map(|(topic, why)| (format!("{above}{topic}"), why));
        *errors = here.collect::<Map<_, _>>();
        changed = true;
    }
    if changed { json.to_string() } else { answer }
}

/// A call on its way from the bus to the thread that has the connection.
#[derive(Debug)]
pub struct CallToSite {
    /// Comes back with what became of it.
    pub ticket: u64,
    /// Which site.
    pub site: Arc<str>,
    /// What is asked.
    pub verb: CallVerb,
    /// The request.
    pub body: String,
    /// Who asks, and the requester.
    pub by: (Arc<str>, Arc<str>),
    /// The site does nothing after it.
    pub deadline: Timestamp,
    /// How long the answer is waited for.
    pub patience: Duration,
    /// Whether the audit log has it: otherwise it is not sent.
    pub is_recorded: bool,
}

/// A call that the centre of this site makes.
#[derive(Debug)]
pub struct CallOfCentre {
    /// What is asked.
    pub verb: CallVerb,
    /// The request.
    pub body: String,
    /// Who asks, as the centre says.
    pub who: String,
    /// Whose reservations it makes.
    pub requester: String,
    /// Nothing is done after it.
    pub until: Timestamp,
    /// Takes the answer, or why the site does not take the call.
    pub answer: oneshot::Sender<Result<String, String>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn of(verb: CallVerb, body: Json) -> Option<Result<SiteRequest, Refusal>> {
        SiteRequest::of("sites/", verb, &body, |topic| topic == "sites/x/own")
    }

    /// A site, the body as it goes there, the rights that are needed.
    type Expected<'a> = (&'a str, Json, &'a [(Verb, &'a str)]);

    fn check(verb: CallVerb, body: Json, expect: Option<Expected<'_>>) {
        let found = of(verb, body).map(Result::unwrap);
        let found = found.map(|request| (request.site, request.body, request.rights));
        let expect = expect.map(|(site, body, rights)| {
            let rights = rights.iter().map(|(verb, topic)| (*verb, (*topic).to_owned())).collect();
            (site.to_owned(), body, rights)
        });
        assert_eq!(found, expect);
    }

    #[test]
    fn a_request_goes_to_the_site_of_its_topics() {
        let valve = (Verb::Command, "sites/north/plant/valve");
        check(
            CallVerb::Command,
            json!({"topic": "sites/north/plant/valve", "value": 1}),
            Some(("north", json!({"topic": "plant/valve", "value": 1}), &[valve])),
        );
        check(CallVerb::Command, json!({"topic": "plant/valve", "value": 1}), None);
        check(CallVerb::Command, json!({"topic": "sites/x/own", "value": 1}), None);
        check(CallVerb::Command, json!({"topic": "sites/north", "value": 1}), None);
        check(CallVerb::Command, json!({"topic": 5}), None);
        check(
            CallVerb::Set,
            json!({"points": [{"topic": "sites/r/sites/n/a", "value": 1}]}),
            Some((
                "r",
                json!({"points": [{"topic": "sites/n/a", "value": 1}]}),
                &[(Verb::Command, "sites/r/sites/n/a")],
            )),
        );
        check(
            CallVerb::Revert,
            json!({"points": ["sites/n/a"], "devices": ["sites/n/d"]}),
            Some((
                "n",
                json!({"points": ["a"], "devices": ["d"]}),
                &[(Verb::Command, "sites/n/a"), (Verb::Command, "sites/n/d")],
            )),
        );
        check(
            CallVerb::Get,
            json!({"topics": ["sites/n/a"]}),
            Some(("n", json!({"topics": ["a"]}), &[(Verb::Read, "sites/n/a")])),
        );
        check(
            CallVerb::Reserve,
            json!({"task": "sites/n/t", "priority": "HIGH", "slots": [["sites/n/d", "a", "b"], {"device": "/sites/n/e", "for": "1m"}]}),
            Some((
                "n",
                json!({"task": "t", "priority": "HIGH", "slots": [["d", "a", "b"], {"device": "e", "for": "1m"}]}),
                &[(Verb::Admin, "sites/n/d"), (Verb::Admin, "/sites/n/e")],
            )),
        );
        check(CallVerb::Renew, json!({"task": "sites/n/t"}), Some(("n", json!({"task": "t"}), &[])));
        let forced = json!({"task": "sites/n/t", "force": true});
        check(CallVerb::Cancel, forced, Some(("n", json!({"task": "t", "force": true}), &[(Verb::Admin, "sites/n")])));
    }

    #[test]
    fn values_of_several_sites_are_those_that_are_here() {
        assert_eq!(of(CallVerb::Get, json!({"topics": ["sites/n/a", "sites/m/a"]})), None);
    }

    #[test]
    fn a_request_is_for_one_site() {
        for points in [["sites/n/a", "sites/m/a"], ["sites/n/a", "a"], ["a", "sites/n/a"]] {
            let found = of(CallVerb::Revert, json!({"points": points})).unwrap();
            assert_eq!(found.unwrap_err().reason, "malformed", "{points:?}");
        }
    }

    #[test]
    fn answers_have_the_topics_of_the_centre() {
        let check = |answer: Json, expect: Json| {
            let shown = shown_here(answer.to_string(), "sites/n/");
            assert_eq!(serde_json::from_str::<Json>(&shown).unwrap(), expect);
        };
        check(json!({"status": "success", "topic": "a"}), json!({"status": "success", "topic": "sites/n/a"}));
        check(
            json!({"topics": [{"topic": "a", "v": 1}], "errors": {"b": "denied"}}),
            json!({"topics": [{"topic": "sites/n/a", "v": 1}], "errors": {"sites/n/b": "denied"}}),
        );
        check(json!({"points": [{"topic": "a"}]}), json!({"points": [{"topic": "sites/n/a"}]}));
        assert_eq!(shown_here("no JSON".to_owned(), "x"), "no JSON");
    }

    #[test]
    fn requests_have_names() {
        for (_, verb) in CallVerb::WORDS {
            assert_eq!(CallVerb::of_word(verb.word()), Some(*verb));
        }
        assert_eq!(CallVerb::of_word("override_on"), None);
    }
}
