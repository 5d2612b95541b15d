//! A publisher's [`Sender`] and a server's [`Intake`] over connections that break.

use crate::*;
use alloc::collections::VecDeque;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use bytes::Bytes;
use proptest::prelude::*;
use tieline_core::{Body, Point, Topic, Value};

#[derive(Clone, Copy, Debug)]
enum Step {
    /// A topic's next value: a point, or a document of so many bytes.
    Say(usize, i64, usize),
    /// The topic is cleared.
    Clear(usize),
    /// The server takes some of what is on the way.
    Arrive(usize),
    /// The publisher takes some of the answers.
    Answer(usize),
    /// The connection breaks; what was not answered is sent again over another one.
    Break,
    /// The server refuses a topic's message for another reason.
    Forget(usize),
}

fn any_step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..4_usize, any::<i64>(), 0..300_usize).prop_map(|(topic, value, more)| Step::Say(topic, value, more)),
        1 => (0..4_usize).prop_map(Step::Clear),
        4 => (1..9_usize).prop_map(Step::Arrive),
        4 => (1..9_usize).prop_map(Step::Answer),
        1 => Just(Step::Break),
        1 => (0..4_usize).prop_map(Step::Forget),
    ]
}

#[derive(Clone, Debug)]
struct Sent {
    topic: Topic,
    saying: Saying,
    is_repeated: bool,
}

/// QoS 1 between a publisher and a server.
struct World {
    sender: Sender<()>,
    intake: Intake,
    limits: IntakeLimits,
    codecs: Codecs,
    way: VecDeque<Sent>,
    answers: VecDeque<(Sent, bool)>,
    unanswered: VecDeque<Sent>,
    /// Marked messages of older connections among them.
    stale: usize,
    said: Vec<Vec<Bytes>>,
    held: Vec<Option<Bytes>>,
}

impl World {
    fn new(limits: IntakeLimits) -> Self {
        let mut sender = Sender::new(Codecs::built_in(), SenderLimits::default());
        sender.handle_connack(Some("point,hunk"));
        let (way, answers, unanswered) = Default::default();
        let (intake, codecs) = (Intake::new(limits), Codecs::built_in());
        let (said, held) = (std::vec![Vec::new(); 4], std::vec![None; 4]);
        Self { sender, intake, limits, codecs, way, answers, unanswered, stale: 0, said, held }
    }

    fn say(&mut self, topic: &Topic, value: &Body) {
        let saying = self.sender.say(topic, value, (), self.stale == 0);
        let sent = Sent { topic: topic.clone(), saying, is_repeated: false };
        self.way.push_back(sent.clone());
        self.unanswered.push_back(sent);
    }

    fn arrive(&mut self) {
        let Some(sent) = self.way.pop_front() else { return };
        let Sent { topic, saying, is_repeated } = &sent;
        let taken = match saying.is_marked {
            true => self.intake.take(topic, &saying.payload, *is_repeated, &mut self.codecs).ok(),
            false => Some(saying.payload.clone()),
        };
        if let Some(value) = &taken {
            let at = place(topic);
            assert!(self.said[at].contains(value), "a value that nobody said: {value:?}");
            self.held[at] = Some(value.clone());
        }
        assert!(self.intake.bytes() <= self.limits.bytes_max);
        self.answers.push_back((sent, taken.is_some()));
    }

    fn answer(&mut self) {
        let Some((sent, taken)) = self.answers.pop_front() else { return };
        self.unanswered.retain(|other| other.saying.number != sent.saying.number);
        self.stale = self.stale.saturating_sub(usize::from(sent.is_repeated && sent.saying.is_marked));
        if taken {
            return;
        }
        if let Some((value, ())) = self.sender.handle_refused(&sent.topic, Some(sent.saying.number)) {
            self.say(&sent.topic, &value);
        }
    }

    fn break_off(&mut self) {
        self.sender.handle_disconnect();
        self.sender.handle_connack(Some("point,hunk"));
        self.intake = Intake::new(self.limits);
        self.answers.clear();
        self.unanswered.iter_mut().for_each(|sent| sent.is_repeated = true);
        self.stale = self.unanswered.iter().filter(|sent| sent.saying.is_marked).count();
        self.way = self.unanswered.clone();
    }

    fn take(&mut self, step: Step) {
        match step {
            Step::Say(topic, value, more) => {
                let body = body(value, more);
                self.said[topic].push(bytes(&body));
                self.say(&name(topic), &body);
            }
            Step::Clear(topic) => {
                self.said[topic].push(Bytes::new());
                self.say(&name(topic), &Body::Opaque(Bytes::new()));
            }
            Step::Arrive(count) => (0..count).for_each(|_| self.arrive()),
            Step::Answer(count) => (0..count).for_each(|_| self.answer()),
            Step::Break => self.break_off(),
            Step::Forget(topic) => self.intake.forget(&name(topic)),
        }
    }
}

fn name(topic: usize) -> Topic {
    Topic::new(&topic.to_string()).unwrap()
}

fn place(topic: &Topic) -> usize {
    topic.as_str().parse().unwrap()
}

fn body(value: i64, more: usize) -> Body {
    match more {
        0..100 => Body::Point(Point { value: Value::Int(value >> 12), ..Point::default() }),
        more => Body::Opaque(document(value, more)),
    }
}

fn document(value: i64, more: usize) -> Bytes {
    std::format!("{{\"value\":{value:020},\"text\":\"{}\"}}", "x".repeat(more)).into()
}

fn bytes(body: &Body) -> Bytes {
    body.to_payload()
}

const ROOMY: IntakeLimits = IntakeLimits { topics_max: 100, bytes_max: 1 << 20, value_bytes_max: 1000 };

proptest! {
    /// Whatever breaks and is refused: the server never makes a value that was not said, and ends with the last one.
    #[test]
    fn the_last_value_said_is_the_last_one_held(
        steps in prop::collection::vec(any_step(), 0..200),
        topics_max in 1..5_usize,
        bytes_max in prop_oneof![Just(1 << 20), 0..2000_usize],
    ) {
        let mut world = World::new(IntakeLimits { topics_max, bytes_max, value_bytes_max: 1000 });
        for step in steps {
            world.take(step);
        }
        for _ in 0..1000 {
            world.arrive();
            world.answer();
        }
        prop_assert!(world.unanswered.is_empty());
        for (said, held) in world.said.iter().zip(&world.held) {
            prop_assert_eq!(said.last(), held.as_ref());
        }
    }

    /// Any bytes, after a base or without: a value within the limit or a refusal, and nothing is held beyond the limits.
    #[test]
    fn any_bytes_are_taken_or_refused(
        payloads in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..60), any::<bool>()), 0..20),
        has_base in any::<bool>(),
    ) {
        let limits = IntakeLimits { topics_max: 3, bytes_max: 1500, value_bytes_max: 400 };
        let (mut intake, mut codecs) = (Intake::new(limits), Codecs::built_in());
        if has_base {
            let whole = [&[0][..], &document(1, 100)].concat();
            intake.take(&name(0), &whole.into(), false, &mut codecs).unwrap();
        }
        for (payload, is_repeated) in payloads {
            if let Ok(value) = intake.take(&name(0), &payload.into(), is_repeated, &mut codecs) {
                prop_assert!(value.len() <= 400);
            }
            prop_assert!(intake.bytes() <= 1500);
        }
    }
}

/// One topic's payloads, marked, and what each comes to.
fn check(payloads: &[(&[u8], bool)], expect: &[&str]) {
    let (mut intake, mut codecs) = (Intake::new(ROOMY), Codecs::built_in());
    let told: Vec<String> = payloads
        .iter()
        .map(|(payload, is_repeated)| {
            match intake.take(&name(0), &Bytes::copy_from_slice(payload), *is_repeated, &mut codecs) {
                Ok(value) => String::from_utf8(value.to_vec()).unwrap(),
                Err(refusal) => refusal.to_string(),
            }
        })
        .collect();
    assert_eq!(told, expect);
}

#[test]
fn a_delta_is_told_against_what_this_connection_said() {
    let no_base = "a delta before any whole value";
    let waiting = "a whole value is waited for";
    // Copy 4, insert 2 in place of 2.
    let delta = |base: u8| [0x60 | base, 8, 2, b'X', b'Y'];
    check(&[(&delta(0), false), (&delta(1), false)], &[no_base, waiting]);
    let gap = "a delta from revision 2 while revision 1 is held";
    let whole: &[u8] = b"\x00abcdefgh";
    check(
        &[
            (whole, false),
            (&delta(0), false),
            (&delta(2), false),
            (&delta(1), false),
            (whole, false),
            (&delta(0), false),
        ],
        &["abcdefgh", "abcdXYgh", gap, waiting, "abcdefgh", "abcdXYgh"],
    );
    // What was sent before belongs to another connection's base, unless it is whole.
    let repeated = "a delta of another connection, sent again";
    check(
        &[(&delta(0), true), (whole, true), (&delta(0), true), (&delta(0), false)],
        &[repeated, "abcdefgh", repeated, "abcdXYgh"],
    );
    // Several updates at once, a check, the same again, a clear.
    let several = "malformed delta: several updates at once, which publishers do not send";
    check(
        &[
            (whole, false),
            (&[0xA0], false),
            (&[0xC1, 1, 3, 3, 0, 1, b'x'], false),
            (whole, false),
            (&[], false),
            (&delta(0), false),
        ],
        &["abcdefgh", "abcdefgh", several, "abcdefgh", "", no_base],
    );
    // A delta of points for bytes, and a CRC-32 that differs.
    check(&[(whole, false), (&[0x40, 2], false)], &["abcdefgh", "a delta for a value of another form"]);
    let differs = "the value's CRC-32 is not the sender's";
    check(&[(b"\x1Fabcdefgh", false), (&[0x7F, 0, 0, 0, 0, 8, 2, b'X', b'Y'], false)], &["abcdefgh", differs]);
}

#[test]
fn bases_that_have_no_room_are_forgotten() {
    let limits = IntakeLimits { topics_max: 100, bytes_max: 1000, value_bytes_max: 1000 };
    let (mut intake, mut codecs) = (Intake::new(limits), Codecs::built_in());
    for at in 0..50 {
        let whole = [&[0][..], &document(at, 200)].concat();
        let at = usize::try_from(at).unwrap();
        intake.take(&name(at), &whole.into(), false, &mut codecs).unwrap();
    }
    assert!(intake.bytes() <= 1000 && intake.forgotten() >= 47, "{intake:?}");
    assert_eq!((intake.base_bytes(&name(0)), intake.base_bytes(&name(49))), (0, document(0, 200).len()));
    let same = Bytes::from_static(&[0xA0]);
    assert_eq!(intake.take(&name(0), &same, false, &mut codecs), Err(Refusal::Delta(DeltaError::NoBase)));
    assert!(intake.take(&name(49), &same, false, &mut codecs).is_ok());
}

#[test]
fn a_sender_whose_deltas_are_refused_tries_less_often() {
    let mut sender = Sender::new(Codecs::built_in(), SenderLimits::default());
    sender.handle_connack(Some("hunk"));
    let topic = name(0);
    let mut deltas = 0;
    for at in 0..1000 {
        let saying = sender.say(&topic, &Body::Opaque(document(at, 100)), (), true);
        let is_delta = saying.is_marked && saying.payload[0] >> 5 > 1;
        deltas += usize::from(is_delta);
        if is_delta && let Some((value, ())) = sender.handle_refused(&topic, Some(saying.number)) {
            sender.say(&topic, &value, (), true);
        }
    }
    assert!(deltas < 40, "{deltas}");
}

#[test]
fn a_sender_that_has_agreed_on_nothing_sends_what_it_is_given() {
    let mut sender = Sender::new(Codecs::built_in(), SenderLimits { topics_max: 2, bytes_max: 1000 });
    for property in [None, Some("other")] {
        assert!(sender.handle_connack(property).is_empty());
        let saying = sender.say(&name(0), &Body::Opaque(document(1, 100)), (), true);
        assert_eq!((saying.payload, saying.is_marked, sender.topics()), (document(1, 100), false, 0));
    }
    sender.handle_connack(Some("hunk"));
    assert!(!sender.say(&name(0), &Body::Opaque("short".into()), (), true).is_marked);
    assert!(!sender.say(&name(0), &Body::Opaque(document(1, 100)), (), false).is_marked);
    assert!(sender.say(&name(0), &Body::Opaque(document(1, 100)), (), true).is_marked);
    for at in 1..9 {
        sender.say(&name(at), &Body::Opaque(document(1, 100)), (), true);
        assert!(sender.topics() <= 2);
    }
}
