use super::*;
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::format;
use core::time::Duration;
use proptest::prelude::*;
use tieline_core::{Instant, Random};

fn event(name: &str, class: EventClass, qos: u8) -> Event {
    let (properties, payload) = (Bytes::new(), Bytes::copy_from_slice(name.as_bytes()));
    let topic = Topic::new(&format!("alarms/{name}")).unwrap();
    Event {
        source: "".into(),
        run: 0,
        number: 0,
        class,
        qos,
        retain: false,
        is_state: false,
        topic,
        properties,
        payload,
    }
}

fn at(ms: u64) -> Instant {
    Instant::ZERO + Duration::from_millis(ms)
}

fn outbox(bytes_max: usize, sends_again: bool) -> EventOutbox {
    let mut outbox = EventOutbox::new(1, OutboxLimits { bytes_max, sends_again });
    outbox.handle_link(true);
    outbox.handle_run(9);
    outbox
}

/// The names of what is sent next, with the number of the batch.
fn sent(outbox: &mut EventOutbox, now: Instant) -> Option<(u64, String)> {
    let (id, bytes) = outbox.poll_transmit(now)?;
    let EventMessage::Batch(batch) = EventMessage::parse(&bytes).unwrap() else { panic!("a batch") };
    let names: Vec<&str> = batch.events.iter().map(|event| event.topic.rsplit('/').next().unwrap()).collect();
    Some((id, names.join(" ")))
}

fn taken(run: u64) -> EventAnswer {
    EventAnswer { outcome: EventOutcome::Taken, run }
}

#[test]
fn what_is_urgent_passes_what_is_not() {
    let mut outbox = outbox(1 << 20, true);
    for (name, class) in [("b", EventClass::Bulk), ("m", EventClass::Monitoring), ("p", EventClass::Protection)] {
        outbox.push_own(event(name, class, 1));
    }
    let order: Vec<_> = core::iter::from_fn(|| sent(&mut outbox, at(0))).collect();
    let names: Vec<&str> = order.iter().map(|(_, names)| names.as_str()).collect();
    assert_eq!(names, ["p", "m", "b"]);
    // A batch without an answer holds up no other class.
    outbox.push_own(event("q", EventClass::Protection, 1));
    assert_eq!(sent(&mut outbox, at(0)), None);
    outbox.handle_answer(at(1), order[0].0, taken(9));
    assert_eq!(sent(&mut outbox, at(1)).unwrap().1, "q");
}

#[test]
fn what_waits_is_bounded_and_the_least_urgent_is_given_up_first() {
    let one = event("0", EventClass::Bulk, 1).bytes();
    let mut outbox = outbox(4 * one, true);
    for name in ["0", "1", "2"] {
        outbox.push_own(event(name, EventClass::Bulk, 1));
    }
    for name in ["3", "4", "5"] {
        outbox.push_own(event(name, EventClass::Protection, 1));
    }
    assert_eq!((outbox.waiting(), outbox.stats().lost), ((4, 4 * one), 2));
    assert_eq!(sent(&mut outbox, at(0)).unwrap().1, "3 4 5");
    assert_eq!(sent(&mut outbox, at(0)).unwrap().1, "2");
    outbox.push(Event { payload: Bytes::from(alloc::vec![0; EVENT_BYTES_MAX]), ..event("6", EventClass::Bulk, 1) });
    assert_eq!(outbox.stats().lost, 3);
    outbox.give_up();
    assert_eq!((outbox.waiting(), outbox.stats().lost), ((0, 0), 7));
}

#[test]
fn over_a_cut_only_what_has_qos_1_waits() {
    let mut outbox = outbox(1 << 20, true);
    outbox.push_own(event("0", EventClass::Monitoring, 0));
    outbox.push_own(event("1", EventClass::Monitoring, 1));
    outbox.handle_link(false);
    outbox.push_own(event("2", EventClass::Monitoring, 0));
    outbox.push_own(event("3", EventClass::Monitoring, 2));
    outbox.push_own(Event { is_state: true, ..event("4", EventClass::Monitoring, 1) });
    assert_eq!(sent(&mut outbox, at(0)), None);
    assert_eq!((outbox.waiting().0, outbox.stats().not_kept), (2, 2));
    outbox.handle_link(true);
    assert_eq!(sent(&mut outbox, at(0)).unwrap().1, "1 3");
}

#[test]
fn what_a_process_that_ended_may_have_taken_is_sent_again_only_where_that_is_seen() {
    for (sends_again, expect) in [(true, Some("1")), (false, None)] {
        let mut outbox = outbox(1 << 20, sends_again);
        outbox.push_own(event("1", EventClass::Monitoring, 1));
        let (id, _) = sent(&mut outbox, at(0)).unwrap();
        outbox.handle_run(10);
        outbox.handle_silence(at(1), id, true);
        assert_eq!(sent(&mut outbox, at(2)), None);
        assert_eq!(sent(&mut outbox, at(5_000)).map(|(_, names)| names), expect.map(Into::into));
        assert_eq!(outbox.stats().lost, u64::from(!sends_again));
        // What nobody served was not taken.
        let mut outbox = self::outbox(1 << 20, sends_again);
        outbox.push_own(event("2", EventClass::Monitoring, 1));
        let (id, _) = sent(&mut outbox, at(0)).unwrap();
        outbox.handle_silence(at(1), id, false);
        outbox.handle_run(10);
        assert_eq!(outbox.timeout(), Some(at(251)));
        assert_eq!(sent(&mut outbox, at(251)).unwrap().1, "2");
    }
}

#[test]
fn each_event_is_taken_once_whatever_comes_late() {
    let mut inbox = EventInbox::new(9, 2);
    let north: Arc<str> = "north".into();
    let mut check = |run: u64, number: u64, is_state: bool, expect: bool| {
        let events = Vec::from([Event { run, number, is_state, ..event("x", EventClass::Monitoring, 1) }]);
        let batch = EventBatch { run, to: 9, class: EventClass::Monitoring, events };
        let (answer, events) = inbox.handle_batch(Some(&north), batch);
        assert_eq!((answer.outcome, events.len()), (EventOutcome::Taken, usize::from(expect)), "{run} {number}");
        assert!(events.iter().all(|event| event.source == north));
    };
    check(1, 5, false, true);
    check(1, 5, false, false);
    check(1, 4, false, false);
    check(1, 5, true, true);
    check(1, 4, true, false);
    check(1, 7, false, true);
    // The source starts again; a copy from before comes late.
    check(2, 1, false, true);
    check(1, 8, false, false);
    check(2, 2, false, true);
    assert_eq!(inbox.stats(), InboxStats { taken: 5, repeated: 4, refused: 0 });
    let batch = |to| EventBatch {
        run: 1,
        to,
        class: EventClass::Bulk,
        events: Vec::from([Event { number: 1, ..event("y", EventClass::Bulk, 1) }]),
    };
    assert_eq!(inbox.handle_batch(Some(&north), batch(8)).0, EventAnswer { outcome: EventOutcome::OtherRun, run: 9 });
    for (site, expect) in [("south", 1), ("west", 0)] {
        assert_eq!(inbox.handle_batch(Some(&site.into()), batch(9)).1.len(), expect, "{site}");
    }
    assert_eq!(inbox.stats().refused, 1);
}

proptest! {
    #[test]
    fn what_was_written_reads_the_same(
        source in "[a-z]{0,6}", run: u64, number: u64, class in 0..3_usize, qos in 0..3_u8, retain: bool, is_state: bool,
        topic in "[a-z/é]{1,12}", properties in prop::collection::vec(any::<u8>(), 0..9), payload in prop::collection::vec(any::<u8>(), 0..40),
        filters in prop::collection::vec("[a-z]{1,4}(/[+])?(/#)?", 0..4), kind in 0..4_usize,
    ) {
        let class = EventClass::ALL[class];
        let topic = Topic::new(&topic).unwrap();
        let one = Event {
            source: source.as_str().into(), run, number, class, qos, retain, is_state, topic,
            properties: properties.into(), payload: payload.into(),
        };
        let length = one.bytes();
        let batch = EventBatch { run, to: number, class, events: Vec::from([one.clone(), one]) };
        let bytes = batch.emit();
        prop_assert!(bytes.len() <= 2 * length + 32);
        prop_assert_eq!(EventMessage::parse(&bytes), Ok(EventMessage::Batch(batch)));
        let filters = filters.iter().map(|text| Filter::new(text).unwrap()).collect();
        let interest = Interest { run, session: number, filters };
        let asked = interest.emit();
        prop_assert_eq!(EventMessage::parse(&asked), Ok(EventMessage::Interest(interest)));
        let answer = EventAnswer { outcome: EventAnswer::KINDS[kind], run };
        prop_assert_eq!(EventAnswer::parse(&answer.emit()), Ok(answer));
        for length in 0..bytes.len() {
            prop_assert!(EventMessage::parse(&bytes[..length]).is_err());
        }
    }

    #[test]
    fn any_bytes_are_safe(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
        let mut whole = alloc::vec![VERSION];
        whole.extend(&bytes);
        let _ = (EventMessage::parse(&bytes), EventAnswer::parse(&bytes), EventMessage::parse(&checked(whole)));
    }
}

/// Batches with their numbers, by when they come and in which order they were sent.
type OnWay = BTreeMap<(u64, u64), (u64, Vec<u8>)>;

/// A centre that ends and starts again between a source and a site, over links that lose, hold back and double.
struct World {
    random: Random,
    now: u64,
    up: EventOutbox,
    hub: (u64, EventInbox, EventOutbox),
    site: EventInbox,
    /// Messages on their way, by when they come: to the hub, to the site.
    on_way: [OnWay; 2],
    sequence: u64,
    received: BTreeMap<EventClass, Vec<u64>>,
    published: u64,
    /// Numbers that were in the queues of a process that ended.
    ended: BTreeSet<u64>,
}

impl World {
    fn new(seed: u64) -> Self {
        let limits = OutboxLimits { bytes_max: 1 << 20, sends_again: true };
        let mut up = EventOutbox::new(1, limits);
        up.handle_link(true);
        Self {
            random: Random::new(seed),
            now: 0,
            up,
            hub: Self::hub(100),
            site: EventInbox::new(7, 10),
            on_way: Default::default(),
            sequence: 0,
            received: BTreeMap::new(),
            published: 0,
            ended: BTreeSet::new(),
        }
    }

    fn hub(run: u64) -> (u64, EventInbox, EventOutbox) {
        let mut down = EventOutbox::new(run, OutboxLimits { bytes_max: 1 << 20, sends_again: false });
        down.handle_link(true);
        (run, EventInbox::new(run, 10), down)
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.random.number() % 100 < percent
    }

    fn publish(&mut self) {
        self.published += 1;
        let class = EventClass::ALL[(self.random.number() % 3) as usize];
        self.up.push_own(event(&format!("{}", self.published), class, 1));
    }

    fn transmit(&mut self, is_calm: bool) {
        for hop in 0..2 {
            let outbox = if hop == 0 { &mut self.up } else { &mut self.hub.2 };
            let Some((id, bytes)) = outbox.poll_transmit(at(self.now)) else { continue };
            let is_lost = !is_calm && self.chance(15);
            for copy in 0..2 {
                let late = if is_calm { 1 } else { self.random.number() % 400 };
                if is_lost || (copy == 1 && (is_calm || !self.chance(10))) {
                    continue;
                }
                self.sequence += 1;
                self.on_way[hop].insert((self.now + 1 + late, self.sequence), (id, bytes.clone()));
            }
            if is_lost {
                let outbox = if hop == 0 { &mut self.up } else { &mut self.hub.2 };
                outbox.handle_silence(at(self.now), id, true);
            }
        }
    }

    fn receive(&mut self, is_calm: bool) {
        for hop in 0..2 {
            while let Some(entry) = self.on_way[hop].first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (id, bytes) = entry.remove();
                let EventMessage::Batch(batch) = EventMessage::parse(&bytes).unwrap() else { panic!("a batch") };
                let answer = if hop == 0 {
                    let (answer, events) = self.hub.1.handle_batch(Some(&"north".into()), batch);
                    events.into_iter().for_each(|event| self.hub.2.push(event));
                    answer
                } else {
                    let (answer, events) = self.site.handle_batch(None, batch);
                    for event in events {
                        let number = core::str::from_utf8(&event.payload).unwrap().parse().unwrap();
                        self.received.entry(event.class).or_default().push(number);
                    }
                    answer
                };
                let is_heard = is_calm || !self.chance(15);
                let outbox = if hop == 0 { &mut self.up } else { &mut self.hub.2 };
                match is_heard {
                    true => outbox.handle_answer(at(self.now), id, answer),
                    false => outbox.handle_silence(at(self.now), id, true),
                }
            }
        }
    }

    fn end_hub(&mut self) {
        let number = |event: &Event| core::str::from_utf8(&event.payload).unwrap().parse::<u64>().unwrap();
        self.ended.extend(self.hub.2.all().map(number));
        self.hub = Self::hub(self.hub.0 + 1);
        // Answers of the process that ended do not come.
        self.on_way[1].clear();
    }

    fn run(&mut self) {
        for step in 0..3_000 {
            let is_calm = step > 2_000;
            self.now += 10;
            if !is_calm && self.chance(30) {
                self.publish();
            }
            if !is_calm && self.random.number().is_multiple_of(500) {
                self.end_hub();
            }
            self.transmit(is_calm);
            self.receive(is_calm);
        }
    }
}

#[test]
fn over_links_that_lose_and_double_each_event_comes_once_in_order() {
    for seed in 0..300 {
        let mut world = World::new(seed);
        world.run();
        assert_eq!((world.up.waiting().0, world.hub.2.waiting().0), (0, 0), "seed {seed}");
        let mut all = BTreeSet::new();
        for (class, numbers) in &world.received {
            assert!(numbers.is_sorted_by(|a, b| a < b), "seed {seed} {class:?}: {numbers:?}");
            all.extend(numbers.iter().copied());
        }
        // What did not come was in the queue of a process that ended.
        let missing: VecDeque<u64> = (1..=world.published).filter(|number| !all.contains(number)).collect();
        assert!(missing.iter().all(|number| world.ended.contains(number)), "seed {seed}: {missing:?}");
        assert!(world.published > 300, "seed {seed}");
    }
}
