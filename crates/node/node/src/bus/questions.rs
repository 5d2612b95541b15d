//! Requests of an edge's clients that the upstream answers: commands, and what control is asked for.
//!
//! A request goes upward as a message whose response topic is [`ANSWER_TOPIC`]. The upstream answers this node alone, and the
//! answer names the request by its correlation data.

use super::control::Callback;
use super::reasons;
use super::state::Bus;
use super::upward::{Ticket, UpwardRefusal, speak_for, speak_for_client};
use crate::edge::ANSWER_TOPIC;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::time::Duration;
use tieline_core::{Instant, Now, Topic};
use tieline_mqtt::{Binary, Message, Properties, Property, Qos, ReasonCode, Text};

/// Requests that wait for answers.
const QUESTIONS_MAX: usize = 4096;
/// The longest time of a command, and some for its way.
const ANSWER_WITHIN: Duration = Duration::from_secs(310);

/// A request for the upstream.
#[derive(Debug)]
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
    /// When the oldest has waited for long enough: all wait equally long.
    pub(super) fn timeout(&self) -> Option<Instant> {
        self.waiting.first_key_value().map(|(_, (until, _))| *until)
    }
}

impl Bus {
    /// Whether requests for a topic, or for a device, are the upstream's to answer.
    #[must_use]
    pub fn is_controlled_above(&self, topic: &str) -> bool {
        self.is_of_upstream(topic) && !self.commands.coordinator().has_device(topic)
    }

    /// Asks the upstream.
    pub fn ask_above(&mut self, now: Now, question: Question, answer: QuestionAnswer) {
        let Question { topic, payload, user, client } = question;
        let Some(mirror) = self.mirror.as_deref() else { return };
        let number = mirror.tickets.last + 1;
        if mirror.questions.waiting.len() >= QUESTIONS_MAX {
            let refusal = (ReasonCode::QuotaExceeded, reasons::UPSTREAM_BUSY.to_owned());
            return answer(self, Err(Unanswered { refusal, may_be_done: false }));
        }
        let correlation = Binary::new(number.to_be_bytes().to_vec()).map(Property::CorrelationData);
        let response = Property::ResponseTopic(Text::truncated(ANSWER_TOPIC));
        let properties: Properties = std::iter::once(response).chain(correlation).collect();
        let mut message = Message { topic, payload, properties, received: now.mono };
        match (user, client) {
            (Some(user), client) => speak_for(&mut message, &user, &client.unwrap_or_default()),
            (None, Some(client)) => speak_for_client(&mut message, &client),
            (None, None) => {}
        }
        if let Err(refusal) = self.publish_up(now, message, Qos::AtLeastOnce, false, Ticket::Question) {
            return answer(self, Err(Unanswered { refusal, may_be_done: false }));
        }
        if let Some(mirror) = self.mirror.as_deref_mut() {
            mirror.questions.waiting.insert(number, (now.mono + ANSWER_WITHIN, answer));
        }
        self.work.notify_one();
    }

    /// The upstream has answered a request, or refuses it.
    pub(super) fn answered_question(&mut self, number: u64, answered: Result<Bytes, Unanswered>) {
        let Some(mirror) = self.mirror.as_deref_mut() else { return };
        if let Some((_, answer)) = mirror.questions.waiting.remove(&number) {
            answer(self, answered);
        }
    }

    /// No answer will come to what was asked.
    pub(super) fn end_questions(&mut self) {
        self.end_questions_until(Instant(u64::MAX), reasons::ANSWER_LOST);
    }

    /// Gives up what has waited for too long.
    pub(super) fn end_late_questions(&mut self, now: Now) {
        self.end_questions_until(now.mono, reasons::ANSWER_LATE);
    }

    fn end_questions_until(&mut self, until: Instant, words: &str) {
        while let Some(mirror) = self.mirror.as_deref_mut()
            && mirror.questions.timeout().is_some_and(|due| due <= until)
            && let Some((_, (_, answer))) = mirror.questions.waiting.pop_first()
        {
            let refusal = (ReasonCode::ImplementationSpecificError, words.to_owned());
            answer(self, Err(Unanswered { refusal, may_be_done: true }));
        }
    }
}
