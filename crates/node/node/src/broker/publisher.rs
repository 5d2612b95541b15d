//! A client that may send what changed of its topics (docs/delta.md, Publishers).

use crate::bus::reasons;
use crate::bus::{SharedBus, is_marked};
use tieline_core::{Instant, Topic};
use tieline_delta::{Intake, IntakeLimits, PROPERTY, RESYNC_TOPIC, is_mark};
use tieline_mqtt::{Delivery, Message, Properties, PublishRequest, Qos, Text};

/// Topics of one client whose values are held for its next deltas.
const TOPICS_MAX: usize = 65_536;

/// What a client said of its topics, where it may send what changed.
#[derive(Debug, Default)]
pub struct Publisher {
    agreed: Option<Box<Agreed>>,
}

/// One that may.
#[derive(Debug)]
struct Agreed {
    intake: Intake,
    /// A topic whose whole value is to be asked for.
    asked: Option<Topic>,
}

impl Publisher {
    /// Takes what CONNECT asks for, and gives the user property of CONNACK: `bytes_max` for all that will be held of
    /// the client, `value_bytes_max` for one value.
    pub fn agree(
        &mut self,
        bus: &SharedBus,
        properties: &Properties,
        [bytes_max, value_bytes_max]: [usize; 2],
    ) -> Option<(Text, Text)> {
        let offer = properties.own_property(PROPERTY)?;
        let taken = bus.borrow().takes_deltas(offer)?;
        let limits = IntakeLimits { topics_max: TOPICS_MAX, bytes_max, value_bytes_max };
        self.agreed = Some(Box::new(Agreed { intake: Intake::new(limits), asked: None }));
        Some((Text::truncated(PROPERTY), Text::truncated(&taken)))
    }

    /// The topic of a message that this client marked.
    #[must_use]
    pub fn marked(&self, message: &Message) -> Option<Topic> {
        (self.agreed.is_some() && is_marked(&message.properties)).then(|| message.topic.clone())
    }

    /// Bytes that a message counts for: what its topic's value may come to.
    #[must_use]
    pub fn bytes(&self, message: &Message) -> usize {
        let base = self.agreed.as_ref().map_or(0, |agreed| agreed.intake.base_bytes(&message.topic));
        let base = if base > 0 && is_marked(&message.properties) { base } else { 0 };
        message.topic.len() + message.payload.len() + base
    }

    /// A message as it would have come whole.
    ///
    /// # Errors
    /// It says no value; the words are for the client.
    pub fn rebuild(&mut self, bus: &SharedBus, mut request: PublishRequest) -> Result<PublishRequest, String> {
        let PublishRequest { message, dup, .. } = &mut request;
        if message.properties.is_empty() || !is_marked(&message.properties) {
            return Ok(request);
        }
        let is_ours = message.properties.own_properties().any(|own| own.is(PROPERTY) && is_mark(PROPERTY, own.value()));
        let Some(Agreed { intake, asked }) = self.agreed.as_deref_mut().filter(|_| is_ours) else {
            return Err(reasons::MARKED.to_owned());
        };
        match bus.borrow_mut().rebuild(intake, &message.topic, &message.payload, *dup) {
            Ok(value) => message.payload = value,
            Err(refusal) => {
                *asked = refusal.is_to_be_asked().then(|| message.topic.clone());
                return Err(format!("delta: {refusal}"));
            }
        }
        message.properties = message.properties.without_user_property(PROPERTY);
        Ok(request)
    }

    /// A marked message was refused. The request for the whole value, where its publisher gets no answer.
    pub fn refused(&mut self, topic: &Topic, is_answered: bool, received: Instant) -> Option<Delivery> {
        let Agreed { intake, asked } = self.agreed.as_deref_mut()?;
        intake.forget(topic);
        let asked = asked.take().filter(|_| !is_answered)?;
        let to = Topic::new(RESYNC_TOPIC).ok()?;
        let message = Message::new(to, asked.as_str().as_bytes().to_vec(), received).into();
        Some(Delivery { message, qos: Qos::AtMostOnce, retain: false, subscription_ids: Vec::new() })
    }
}
