//! Requests for points of sites: at the centre, on their way to the site and back; at the site, carried out as local ones are.
//!
//! A request is in the audit log of the centre before it is sent, and in that of the site before its device is asked. It is sent once: where
//! no answer comes it is not known what became of it, and the caller is told so.

use super::control::{Asked, Callback};
use super::state::Bus;
use super::wanted::{Wanted, text};
use crate::config::{SiteCommands, SiteConfig};
use crate::control::Call;
use crate::control::answer::{CallResult, ReservationResult};
use crate::control::audit::AuditLine;
use crate::control::command::{CommandRequest, CommandResult};
use crate::sites::{ANSWER_BYTES_MAX, CallOfCentre, CallToSite, CallVerb, START_WITHIN, SiteRequest, shown_here};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::Arc;
use tieline_access::Verb;
use tieline_core::{Filter, Now, Refusal, Timestamp, Topic, Words as _};
use tokio::sync::mpsc;

/// Calls to sites that wait for answers. The way to the thread that sends them has room for as many.
const CALLS_MAX: usize = 1024;
/// Topics of a call that the audit log has, each with a line.
const LINES_MAX: usize = 1000;

/// Calls of this node to its sites.
#[derive(Debug)]
pub struct SiteCalls {
    calls: mpsc::Sender<CallToSite>,
    waiting: HashMap<u64, Open>,
    last: u64,
    /// Since the start: calls, and calls by what became of them.
    pub(super) seen: SiteCallsSeen,
}

/// Calls to sites since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct SiteCallsSeen {
    /// Calls that were asked for.
    pub asked: u64,
    /// Calls that a site answered.
    pub answered: u64,
    /// Calls that were not carried out: they were not sent, or the site did not take them.
    pub refused: u64,
    /// Calls of which it is not known what became of them.
    pub unknown: u64,
    /// Calls that wait.
    pub waiting: usize,
}

struct Open {
    site: Arc<str>,
    verb: CallVerb,
    who: Arc<str>,
    topic: String,
    /// What stands before the site's topics here.
    above: String,
    answer: Callback<String>,
}

impl std::fmt::Debug for Open {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Open").field("site", &self.site).field("verb", &self.verb).finish_non_exhaustive()
    }
}

/// What a site lets its centre do.
#[derive(Clone, Debug)]
pub struct CentreRights {
    commands: SiteCommands,
    topics: Vec<Filter>,
    /// Calls that were taken, and that were not.
    pub(super) taken: (u64, u64),
}

/// The way of calls to the thread that sends them.
#[must_use]
pub fn way_to_sites() -> (mpsc::Sender<CallToSite>, mpsc::Receiver<CallToSite>) {
    mpsc::channel(CALLS_MAX)
}

impl SiteCalls {
    /// No call was made; they go by [`way_to_sites`].
    #[must_use]
    pub fn new(calls: mpsc::Sender<CallToSite>) -> Self {
        Self { calls, waiting: HashMap::new(), last: 0, seen: SiteCallsSeen::default() }
    }
}

impl CentreRights {
    /// As the site is configured.
    #[must_use]
    pub fn of(config: &SiteConfig) -> Self {
        Self { commands: config.commands, topics: config.command_topics.clone(), taken: (0, 0) }
    }

    fn may(&self, verb: Verb, topic: &str) -> bool {
        let needs = match verb {
            Verb::Read => SiteCommands::Read,
            Verb::Command | Verb::Acknowledge => SiteCommands::Operate,
            Verb::Publish | Verb::Admin => SiteCommands::Administer,
        };
        self.commands >= needs && (self.topics.is_empty() || self.topics.iter().any(|filter| filter.matches(topic)))
    }
}

impl Bus {
    /// From here on calls of sites' points go through this.
    pub fn set_site_calls(&mut self, calls: SiteCalls) {
        self.site_calls = Some(Box::new(calls));
    }

    /// What the centre of this node may do.
    pub fn set_centre_rights(&mut self, rights: CentreRights) {
        self.centre_rights = Some(rights);
    }

    /// Calls to sites; none where the node is no centre.
    #[must_use]
    pub fn site_calls(&self) -> Option<SiteCallsSeen> {
        self.site_calls.as_deref().map(|calls| SiteCallsSeen { waiting: calls.waiting.len(), ..calls.seen })
    }

    /// Calls of the centre that were taken, and those that were not; none where the node is no site.
    #[must_use]
    pub fn calls_of_centre(&self) -> Option<(u64, u64)> {
        self.centre_rights.as_ref().map(|rights| rights.taken)
    }

    /// Whether there may be topics of sites.
    #[must_use]
    pub const fn has_sites(&self) -> bool {
        self.sites.is_some()
    }

    /// Whether a topic has a value here.
    #[must_use]
    pub fn has_value(&self, topic: &str) -> bool {
        Topic::new(topic).is_ok_and(|topic| self.tree.get(&topic).is_some())
    }

    /// The request for a site, where it is one.
    ///
    /// # Errors
    /// Its topics are of several sites.
    #[must_use]
    pub fn site_request(&self, verb: CallVerb, body: &Json) -> Option<Result<SiteRequest, Refusal>> {
        let prefix = self.sites.as_deref()?.prefix();
        SiteRequest::of(prefix, verb, body, |topic| self.ownership.is_of_device(topic))
    }

    /// A command as the request for the site that has its point; none where the point is this node's own.
    #[must_use]
    pub fn site_command(&self, request: &CommandRequest) -> Option<SiteRequest> {
        if !self.is_of_site(&request.topic) {
            return None;
        }
        self.site_request(CallVerb::Command, &request.to_json())?.ok()
    }

    /// Sends a request to its site, once the audit log has it.
    pub fn call_site(&mut self, now: Now, request: SiteRequest, by: &Call, answer: Callback<String>) {
        let SiteRequest { site, verb, body, rights: _, points, patience, until } = request;
        let topic = points.first().map(|(topic, _)| topic.clone()).unwrap_or_default();
        let prefix = self.sites.as_deref().map(|sites| sites.prefix().to_owned()).unwrap_or_default();
        let refused = |reason, detail: &str| refusal_of(verb, Refusal::new(reason, detail.to_owned()), Some(&topic));
        let Some(calls) = self.site_calls.as_deref_mut() else {
            let text = refused("away", "this node has no connection to its sites");
            return answer(self, text);
        };
        calls.seen.asked += 1;
        if calls.waiting.len() >= CALLS_MAX {
            calls.seen.refused += 1;
            let text = refused("busy", "too many calls wait for answers of sites");
            return answer(self, text);
        }
        calls.last += 1;
        let ticket = calls.last;
        let site: Arc<str> = site.into();
        let mut call = CallToSite {
            ticket,
            site: Arc::clone(&site),
            verb,
            body: body.to_string(),
            by: (Arc::clone(&by.who), Arc::clone(&by.requester)),
            deadline: until.into_iter().fold(now.utc.later(START_WITHIN), Timestamp::min),
            patience,
            is_recorded: true,
        };
        let sender = calls.calls.clone();
        let above = format!("{prefix}{site}/");
        let lines = points.iter().take(LINES_MAX);
        let lines = lines.map(|(topic, value)| line(now, &by.who, (topic, value), verb, "to_site")).collect();
        let open = Open { site, verb, who: Arc::clone(&by.who), topic: topic.clone(), above, answer };
        calls.waiting.insert(ticket, open);
        let afterwards = move |is_recorded: bool| {
            call.is_recorded = is_recorded;
            // There is room for all that wait. The thread that takes them ends only with the node.
            drop(sender.try_send(call));
        };
        if !self.commands.note_before(lines, Box::new(afterwards)) {
            self.end_site_call(now, ticket, Err(no_audit()));
        }
        self.work.notify_one();
    }

    /// What became of a call.
    pub(super) fn end_site_call(&mut self, now: Now, ticket: u64, end: Result<String, Refusal>) {
        let Some(calls) = self.site_calls.as_deref_mut() else { return };
        let Some(open) = calls.waiting.remove(&ticket) else { return };
        let Open { verb, who, topic, above, answer, site: _ } = open;
        let (phase, reason, detail) = match &end {
            Ok(text) => {
                calls.seen.answered += 1;
                ("site_answered", status_of(text), String::new())
            }
            Err(refusal) if refusal.maybe_operated => {
                calls.seen.unknown += 1;
                ("site_unknown", refusal.reason.to_owned(), refusal.detail.clone())
            }
            Err(refusal) => {
                calls.seen.refused += 1;
                ("site_refused", refusal.reason.to_owned(), refusal.detail.clone())
            }
        };
        self.commands.note(AuditLine { reason, detail, ..line(now, &who, (&topic, ""), verb, phase) });
        let text = match end {
            Ok(text) => shown_here(text, &above),
            Err(refusal) => refusal_of(verb, refusal, Some(&topic)),
        };
        answer(self, text);
        self.work.notify_one();
    }

    /// A site is away: what became of calls that it has not answered is not known.
    pub(super) fn end_calls_of_site(&mut self, now: Now, site: &str) {
        let Some(calls) = self.site_calls.as_deref() else { return };
        let of_site = calls.waiting.iter().filter(|(_, open)| *open.site == *site);
        let tickets: Vec<u64> = of_site.map(|(ticket, _)| *ticket).collect();
        for ticket in tickets {
            let detail =
                "the site went away before it answered; what was asked for may have been carried out".to_owned();
            self.end_site_call(now, ticket, Err(Refusal::unknown("connection_lost", detail)));
        }
    }

    /// Carries out what the centre of this site asks for, as far as the site lets it.
    pub(super) fn take_call_of_centre(&mut self, now: Now, call: CallOfCentre) {
        let CallOfCentre { verb, body, who, requester, until, answer: to } = call;
        let by = Call { requester: format!("$centre/{requester}").into(), who: format!("centre: {who}").into() };
        let text = match self.judge_call(now, verb, &body, &by) {
            Ok(Judged::Below(request)) => {
                let answer = move |_: &mut Self, text| drop(to.send(Ok(fitting(verb, text))));
                let request = SiteRequest { until: Some(until), ..*request };
                return self.call_site(now, request, &by, Box::new(answer));
            }
            Ok(Judged::Here(wanted)) => {
                let rights = self.centre_rights.clone();
                let may_see =
                    move |_: &Self, topic: &str| rights.as_ref().is_some_and(|rights| rights.may(Verb::Read, topic));
                let answer = move |_: &mut Self, text| drop(to.send(Ok(fitting(verb, text))));
                let asked = Asked { by, session: None };
                wanted.carry_out(self, now, &asked, may_see, Box::new(answer));
                self.work.notify_one();
                return;
            }
            Ok(Judged::Answered(text)) => Ok(text),
            Err(words) => Err(words),
        };
        let _ = to.send(text);
    }

    /// Whether the centre may ask for it.
    fn judge_call(&mut self, now: Now, verb: CallVerb, body: &str, by: &Call) -> Result<Judged, String> {
        let Some(rights) = &mut self.centre_rights else { return Err("this node is no site".to_owned()) };
        if rights.commands == SiteCommands::None {
            rights.taken.1 += 1;
            return Err("the site takes no commands of its centre: site.commands is \"none\"".to_owned());
        }
        let rights = rights.clone();
        let json: Json = match serde_json::from_str(body) {
            Ok(json) => json,
            Err(error) => {
                let refusal = Refusal::new("malformed", error.to_string());
                return Ok(Judged::Answered(refusal_of(verb, refusal, None)));
            }
        };
        let (judged, needed) = match self.site_request(verb, &json) {
            Some(Ok(request)) => {
                let needed = request.rights.clone();
                (Judged::Below(Box::new(request)), needed)
            }
            Some(Err(refusal)) => return Ok(Judged::Answered(refusal_of(verb, refusal, None))),
            None => match self.wanted_of(verb, &json, body) {
                Ok(wanted) => {
                    let mut needed = wanted.rights(self, "");
                    if matches!(verb, CallVerb::Renew | CallVerb::Cancel) && rights.commands < SiteCommands::Operate {
                        needed.push((Verb::Command, String::new()));
                    }
                    (Judged::Here(Box::new(wanted)), needed)
                }
                Err(text) => return Ok(Judged::Answered(text)),
            },
        };
        let denied = needed.iter().find(|(verb, topic)| !rights.may(*verb, topic));
        if let Some(counts) = &mut self.centre_rights {
            let count = if denied.is_some() { &mut counts.taken.1 } else { &mut counts.taken.0 };
            *count += 1;
        }
        match denied {
            None => Ok(judged),
            Some((right, topic)) => {
                let words = format!(
                    "the site does not let its centre {right} {topic:?}: see site.commands, site.command_topics"
                );
                let line = line(now, &by.who, (topic, ""), verb, "denied");
                self.commands.note(AuditLine { reason: "site_commands".to_owned(), ..line });
                Err(words)
            }
        }
    }

    fn wanted_of(&self, verb: CallVerb, json: &Json, body: &str) -> Result<Wanted, String> {
        if verb == CallVerb::Command {
            let read = CommandRequest::from_json(json, None);
            return read.map(Wanted::Command).map_err(|why| refusal_of(verb, Refusal::new("malformed", why), None));
        }
        let unknown = || Err(refusal_of(verb, Refusal::new("malformed", "no such request".to_owned()), None));
        let wanted = Wanted::read(verb.word(), body.as_bytes()).unwrap_or_else(unknown)?;
        wanted.with_points_of_devices(self)
    }
}

/// What is to be done with a call of the centre.
enum Judged {
    /// It is for a site of this node.
    Below(Box<SiteRequest>),
    /// It is for this node.
    Here(Box<Wanted>),
    /// It cannot be read.
    Answered(String),
}

/// A refusal, in the form of the answers to such a request. `topic` is that of a command.
#[must_use]
pub fn refusal_of(verb: CallVerb, refusal: Refusal, topic: Option<&str>) -> String {
    match verb {
        CallVerb::Command => CommandResult::refused(topic, &refusal).to_string(),
        CallVerb::Set | CallVerb::Revert | CallVerb::Get => text(&CallResult::refused(refusal)),
        CallVerb::Reserve | CallVerb::Renew | CallVerb::Cancel => {
            let info = format!("{}: {}", refusal.reason.to_uppercase(), refusal.detail);
            text(&ReservationResult::failure(info))
        }
    }
}

/// An answer to the centre, as long as the link takes.
fn fitting(verb: CallVerb, answer: String) -> String {
    if answer.len() <= ANSWER_BYTES_MAX {
        return answer;
    }
    let detail = "the answer is too long for the link: ask for fewer points".to_owned();
    let refusal = match verb {
        CallVerb::Get => Refusal::new("too_large", detail),
        CallVerb::Command
        | CallVerb::Set
        | CallVerb::Revert
        | CallVerb::Reserve
        | CallVerb::Renew
        | CallVerb::Cancel => Refusal::unknown("too_large", detail),
    };
    refusal_of(verb, refusal, None)
}

/// Of a call that is not sent.
pub(super) fn no_audit() -> Refusal {
    Refusal::new("no_audit", "the audit log cannot be written, so nothing was sent".to_owned())
}

fn line(now: Now, who: &str, (topic, value): (&str, &str), verb: CallVerb, phase: &str) -> AuditLine {
    AuditLine {
        id: 0,
        time: now.utc.to_string(),
        who: who.to_owned(),
        topic: topic.to_owned(),
        device: String::new(),
        value: value.to_owned(),
        mode: verb.word().to_owned(),
        phase: phase.to_owned(),
        reason: String::new(),
        detail: String::new(),
        call: None,
    }
}

/// What an answer says in a word.
fn status_of(text: &str) -> String {
    let json: Json = serde_json::from_str(text).unwrap_or_default();
    let word = |member: &str| json.get(member).and_then(Json::as_str).unwrap_or_default().to_owned();
    let (status, reason) = (word("status"), word("reason"));
    match (status.is_empty(), reason.is_empty()) {
        (true, _) => word("result"),
        (false, true) => status,
        (false, false) => reason,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_sent_is_refused_and_what_may_have_been_done_is_unknown() {
        let unknown = || Refusal::unknown("timeout", "no answer".to_owned());
        for verb in [CallVerb::Command, CallVerb::Set] {
            assert!(refusal_of(verb, unknown(), None).contains("\"status\":\"unknown\""));
            assert!(refusal_of(verb, Refusal::new("away", String::new()), None).contains("\"status\":\"refused\""));
        }
        assert!(refusal_of(CallVerb::Reserve, unknown(), None).contains("TIMEOUT: no answer"));
        assert_eq!(fitting(CallVerb::Get, "{}".to_owned()), "{}");
        let long = || "x".repeat(ANSWER_BYTES_MAX + 1);
        assert!(fitting(CallVerb::Get, long()).contains("\"status\":\"refused\",\"accepted\""));
        assert!(fitting(CallVerb::Set, long()).contains("\"status\":\"unknown\",\"accepted\""));
    }

    #[test]
    fn a_site_lets_its_centre_do_what_it_is_told() {
        let check = |commands, topics: &[&str], expect: [bool; 3]| {
            let topics = topics.iter().map(|filter| Filter::new(filter).unwrap()).collect();
            let rights = CentreRights { commands, topics, taken: (0, 0) };
            assert_eq!([Verb::Read, Verb::Command, Verb::Admin].map(|verb| rights.may(verb, "a/b")), expect);
        };
        check(SiteCommands::None, &[], [false, false, false]);
        check(SiteCommands::Read, &[], [true, false, false]);
        check(SiteCommands::Operate, &[], [true, true, false]);
        check(SiteCommands::Administer, &["a/#"], [true, true, true]);
        check(SiteCommands::Administer, &["c", "a/+/d"], [false, false, false]);
    }

    #[test]
    fn answers_are_told_in_a_word() {
        for (text, expect) in [
            ("{\"status\":\"success\"}", "success"),
            ("{\"status\":\"refused\",\"reason\":\"blocked\"}", "blocked"),
            ("{\"result\":\"SUCCESS\",\"info\":\"\"}", "SUCCESS"),
            ("no JSON", ""),
        ] {
            assert_eq!(status_of(text), expect);
        }
    }
}
