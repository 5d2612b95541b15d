//! Requests of an edge's clients that the upstream answers: commands, and what control is asked for.
//!
//! A request goes upward as a message whose response topic is [`ANSWER_TOPIC`]. The upstream answers this node alone, and the
//! answer names the request by its correlation data.

use super::control::Callback;
use super::reasons;
use super::state::Bus;
use super::upward::{Ticket, UpwardRefusal, speak_for, speak_for_client};
use crate::config::TopicPrefix;
use crate::control::command::REQUEST_PREFIX;
use crate::edge::ANSWER_TOPIC;
use crate::sites::{CallVerb, shown_here, with_topics};
use bytes::Bytes;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::time::Duration;
use tieline_core::{Instant, Now, Topic, Words as _};
use tieline_mqtt::{Binary, Message, Properties, Property, Qos, ReasonCode, Text};

/// Requests that wait for answers.
const QUESTIONS_MAX: usize = 4096;
/// The longest time of a command, and some for its way.
const ANSWER_WITHIN: Duration = Duration::from_secs(310);

/// Requests of control are published to `$control/<what>`.
const CONTROL_PREFIX: &str = "$control/";
/// What a node says of a reservation that it does not have.
const UNKNOWN_TASK: &str = "TASK_ID_DOES_NOT_EXIST";

/// A request for the upstream.
#[derive(Clone, Debug)]
pub struct Question {
    /// Where requests of its kind are published.
    pub topic: Topic,
    /// What is asked.
    pub payload: Bytes,
    /// Whose it is; none where nobody has to show who it is.
    pub user: Option<String>,
    /// The name of the client, or of the program.
    pub client: Option<String>,
}

/// The topics of a request are not all of one node.
#[derive(Clone, Copy, Debug)]
pub struct OfSeveralNodes;

/// Why a request has no answer.
#[derive(Debug)]
pub struct Unanswered {
    /// What the upstream or this node says.
    pub refusal: UpwardRefusal,
    /// Whether it may have been carried out all the same.
    pub may_be_done: bool,
}

/// What is done with the answer.
pub type QuestionAnswer = Callback<Result<Bytes, Unanswered>>;

/// Requests on their way.
#[derive(Default)]
pub(super) struct Questions {
    /// By the number of the message, which grows; until when each waits.
    waiting: BTreeMap<u64, (Instant, QuestionAnswer)>,
}

impl std::fmt::Debug for Questions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Questions").field("waiting", &self.waiting.len()).finish()
    }
}

impl Questions {
    /// Another message is a request, whose answer goes there.
    pub(super) fn wait(&mut self, now: Now, number: u64, answer: QuestionAnswer) {
        self.waiting.insert(number, (now.mono + ANSWER_WITHIN, answer));
    }

    /// When the oldest has waited for long enough: all wait equally long.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|(_, (until, _))| *until)
    }
}

impl Bus {
    /// The upstream that answers requests for a topic, or for a device; none where this node does.
    #[must_use]
    pub fn controlled_above(&self, topic: &str) -> Option<usize> {
        self.upstream_of(topic).filter(|_| !self.commands.coordinator().has_device(topic))
    }

    /// The upstream that answers requests for all of these.
    ///
    /// # Errors
    /// They are of several nodes.
    pub fn controls_above<'a>(
        &self,
        topics: impl IntoIterator<Item = &'a str>,
    ) -> Result<Option<usize>, OfSeveralNodes> {
        let mut owners = topics.into_iter().map(|topic| self.controlled_above(topic));
        let first = owners.next().flatten();
        if owners.all(|other| other == first) { Ok(first) } else { Err(OfSeveralNodes) }
    }

    /// Asks upstreams, one after the other until one has the reservation that is asked about. Of most requests only one can answer.
    pub fn ask_above(&mut self, now: Now, mut ups: Vec<usize>, question: Question, answer: QuestionAnswer) {
        if ups.len() < 2 {
            let up = ups.pop().unwrap_or_default();
            return self.ask_one(now, up, question, answer);
        }
        let (up, again) = (ups.remove(0), question.clone());
        let next = move |bus: &mut Self, answered: Result<Bytes, Unanswered>| {
            let is_elsewhere = match &answered {
                Ok(text) => is_unknown_task(text),
                Err(unanswered) => !unanswered.may_be_done,
            };
            if !is_elsewhere {
                return answer(bus, answered);
            }
            // One that does not answer may have it: where no other has it, that is what is known.
            let last: QuestionAnswer = match answered {
                Ok(_) => answer,
                Err(first) => Box::new(move |bus, answered| {
                    let is_unknown = answered.as_ref().is_ok_and(|text| is_unknown_task(text));
                    answer(bus, if is_unknown { Err(first) } else { answered });
                }),
            };
            bus.ask_above(bus.now(), ups, again, last);
        };
        self.ask_one(now, up, question, Box::new(next));
    }

    fn ask_one(&mut self, now: Now, up: usize, question: Question, answer: QuestionAnswer) {
        let Some(mirror) = self.mirrors.get(up) else { return };
        let prefix = mirror.prefix.clone();
        let Some((topic, payload)) = question_there(&prefix, &question) else { return };
        let Question { user, client, .. } = question;
        let answer: QuestionAnswer = if prefix.is_empty() {
            answer
        } else {
            let here =
                move |text: Bytes| shown_here(String::from_utf8_lossy(&text).into_owned(), prefix.as_str()).into();
            Box::new(move |bus, answered| answer(bus, answered.map(here)))
        };
        let number = mirror.tickets.last + 1;
        if mirror.questions.waiting.len() >= QUESTIONS_MAX {
            let refusal = (ReasonCode::QuotaExceeded, reasons::UPSTREAM_BUSY.to_owned());
            return answer(self, Err(Unanswered { refusal, may_be_done: false }));
        }
        let properties = answered_as(number);
        let mut message = Message { topic, payload, properties, received: now.mono };
        match (user, client) {
            (Some(user), client) => speak_for(&mut message, &user, &client.unwrap_or_default()),
            (None, Some(client)) => speak_for_client(&mut message, &client),
            (None, None) => {}
        }
        if let Err(refusal) = self.publish_to(now, up, (message, Qos::AtLeastOnce, false), Ticket::Question) {
            return answer(self, Err(Unanswered { refusal, may_be_done: false }));
        }
        if let Some(mirror) = self.mirrors.get_mut(up) {
            mirror.questions.wait(now, number, answer);
        }
        self.work.notify_one();
    }

    /// The upstream has answered a request, or refuses it.
    pub(super) fn answered_question(&mut self, (up, number): (usize, u64), answered: Result<Bytes, Unanswered>) {
        let Some(mirror) = self.mirrors.get_mut(up) else { return };
        if let Some((_, answer)) = mirror.questions.waiting.remove(&number) {
            answer(self, answered);
        }
    }

    /// No answer of an upstream will come to what was asked.
    pub(super) fn end_questions(&mut self, up: usize) {
        self.end_questions_until(up, Instant(u64::MAX), reasons::ANSWER_LOST);
    }

    /// Gives up what has waited for too long.
    pub(super) fn end_late_questions(&mut self, now: Now, up: usize) {
        self.end_questions_until(up, now.mono, reasons::ANSWER_LATE);
    }

    fn end_questions_until(&mut self, up: usize, until: Instant, words: &str) {
        while let Some(mirror) = self.mirrors.get_mut(up)
            && mirror.questions.timeout().is_some_and(|due| due <= until)
            && let Some((_, (_, answer))) = mirror.questions.waiting.pop_first()
        {
            let refusal = (ReasonCode::ImplementationSpecificError, words.to_owned());
            answer(self, Err(Unanswered { refusal, may_be_done: true }));
        }
    }
}

/// What a request says of its answer: it goes to this node alone, and names the request.
pub(super) fn answered_as(number: u64) -> Properties {
    let correlation = Binary::new(number.to_be_bytes().to_vec()).map(Property::CorrelationData);
    let response = Property::ResponseTopic(Text::truncated(ANSWER_TOPIC));
    std::iter::once(response).chain(correlation).collect()
}

fn is_unknown_task(answer: &[u8]) -> bool {
    let answer: Json = serde_json::from_slice(answer).unwrap_or_default();
    answer["info"].as_str().is_some_and(|info| info.starts_with(UNKNOWN_TASK))
}

/// Where a request is published at the upstream, and its payload there; none where its point has no name there.
fn question_there(prefix: &TopicPrefix, question: &Question) -> Option<(Topic, Bytes)> {
    let Question { topic, payload, .. } = question;
    let there = match topic.strip_prefix(REQUEST_PREFIX) {
        Some(point) => Topic::new(&format!("{REQUEST_PREFIX}{}", prefix.there(point)?)).ok()?,
        None => topic.clone(),
    };
    Some((there, payload_there(prefix, topic, payload.clone())))
}

/// The payload of a request with the names that topics have at the upstream; any other as it is.
pub(super) fn payload_there(prefix: &TopicPrefix, topic: &str, payload: Bytes) -> Bytes {
    let verb = match topic.strip_prefix(CONTROL_PREFIX) {
        Some(verb) => CallVerb::of_word(verb),
        None => Some(CallVerb::Command),
    };
    // A reservation has the name that its holder gave it.
    let verb = verb.filter(|verb| !prefix.is_empty() && !matches!(verb, CallVerb::Renew | CallVerb::Cancel));
    let (Some(verb), Ok(mut body)) = (verb, serde_json::from_slice::<Json>(&payload)) else { return payload };
    if !body.is_object() {
        return payload;
    }
    with_topics(verb, &mut body, &mut |topic| {
        if let Some(there) = prefix.there(topic.trim_start_matches('/')) {
            *topic = there.to_owned();
        }
    });
    body.to_string().into()
}
