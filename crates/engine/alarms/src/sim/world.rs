//! The alarms of a site, what comes to them, and the comparison with the oracle.

use super::oracle::{Oracle, Row};
use super::{Counters, pick, std};
use crate::{Alarms, By, Event, Flags, Kind, PlaceName, Refusal, Rules, Saved, Settings, Target, Transition};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Instant, Now, Point, Quality, Random, Timestamp, Topic, Value, Words};

const PLACES: [(&str, &str, &[&str]); 3] = [("line", "", &[]), ("s/d", "line", &["line"]), ("s/e", "line", &["line"])];
/// Topics with the places above them.
const TOPICS: [(&str, &[&str]); 6] = [
    ("s/d/p", &["s/d", "line"]),
    ("s/d/b", &["s/d", "line"]),
    ("s/e/p", &["s/e", "line"]),
    ("s/e/b", &["s/e", "line"]),
    ("s/d/work", &["s/d", "line"]),
    ("s/p", &[]),
];
const DELAYS: [u64; 4] = [0, 0, 300, 3000];
const ANNA: By<'static> = By { who: "anna", why: "because" };

pub(super) struct World {
    pub(super) counters: Counters,
    random: Random,
    is_loud: bool,
    now: Now,
    rules: Rules,
    alarms: Alarms,
    oracle: Oracle,
    saved: Saved,
    /// Of each alarm, the last occurrence, how many there were, and how many annunciations.
    seen: BTreeMap<(Topic, Kind), (u64, u64, u64)>,
}

impl World {
    pub(super) fn new(seed: u64, is_loud: bool) -> Self {
        let mut random = Random::new(seed);
        let settings = Settings {
            shelve_max: Duration::from_secs(3600),
            gather: Duration::from_millis(*pick(&mut random, &[0, 500, 2000])),
            chatter_time: Duration::from_secs(20),
            ..Settings::default()
        };
        let (text, rows) = rules(&mut random);
        let rules = Rules::parse(&text, 100, false).unwrap();
        let now = Now { mono: Instant::ZERO + Duration::from_secs(1_000_000), utc: Timestamp::from_micros(1 << 50) };
        let alarms = started(now, settings, &rules);
        let oracle = Oracle { rows, settings };
        let counters = Counters::default();
        let (saved, seen) = (Saved::default(), BTreeMap::new());
        Self { counters, random, is_loud, now, rules, alarms, oracle, saved, seen }
    }

    pub(super) fn step(&mut self) {
        match self.random.below(20) {
            0..=6 => self.value(),
            7 => self.bounce(),
            8..=9 => self.presence(),
            10..=12 => self.wait(),
            13..=14 => self.acknowledge(),
            15 => self.shelve(),
            16 => self.service(),
            17 => self.reset(),
            18 => {
                let rules = self.rules.clone();
                self.alarms.set_rules(self.now, rules);
            }
            _ => self.kill(),
        }
        self.listen();
        self.compare();
    }

    fn tell(&self, what: impl FnOnce() -> String) {
        if self.is_loud {
            std::println!("{} {}", self.now.mono.since(Instant::ZERO).as_secs_f64() - 1e6, what());
        }
    }

    fn value(&mut self) {
        let (topic, _) = *pick(&mut self.random, &TOPICS);
        let value = *pick(&mut self.random, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
        let value = if topic.ends_with('p') { value } else { f64::from(u8::from(value > 3.0)) };
        let good = Quality::default();
        let quality = *pick(
            &mut self.random,
            &[good, good, good, good, Quality::AWAY, Quality::OFFLINE, Quality::INITIAL, Quality::STALE],
        );
        self.give(topic, value, quality);
    }

    /// A value that comes and goes.
    fn bounce(&mut self) {
        let topic = *pick(&mut self.random, &["s/d/p", "s/e/p", "s/p"]);
        for _ in 0..3 {
            self.give(topic, 6.0, Quality::default());
            self.give(topic, 0.0, Quality::default());
        }
    }

    fn give(&mut self, topic: &str, value: f64, quality: Quality) {
        self.tell(|| format!("{topic}={value} {quality:?}"));
        let input = self.alarms.declare(self.now, &Topic::new(topic).unwrap()).unwrap();
        self.alarms.handle_point(self.now, input, &Point { value: Value::Float(value), quality, time: self.now.utc });
        self.oracle.value(self.now, topic, value, quality);
    }

    fn presence(&mut self) {
        let (place, ..) = *pick(&mut self.random, &PLACES);
        let is_reached = self.random.is_one_of(2);
        self.tell(|| format!("{place} is reached: {is_reached}"));
        self.alarms.handle_presence(self.now, place, is_reached);
        self.oracle.presence(self.now, place, is_reached);
    }

    fn wait(&mut self) {
        let most = *pick(&mut self.random, &[400, 4000, 30_000, 4_000_000]);
        let time = Duration::from_millis(self.random.below(most));
        self.tell(|| format!("wait {time:?}"));
        let (from, end) = (self.now, self.now.mono + time);
        while let Some(due) = self.alarms.timeout().filter(|due| *due <= end) {
            self.now = self.now.later(due.since(self.now.mono));
            self.alarms.handle_timeout(self.now);
            assert!(self.alarms.timeout().is_none_or(|next| next > self.now.mono), "what is due is done");
            self.listen();
        }
        self.now = self.now.later(end.since(self.now.mono));
        self.oracle.advance(from, end);
        if self.random.is_one_of(4) {
            self.jump();
        }
    }

    /// The wall clock jumps; nothing that runs is changed.
    fn jump(&mut self) {
        self.counters.jumps += 1;
        let hours = i64::try_from(self.random.below(48)).unwrap() - 24;
        self.now.utc = Timestamp::from_micros(self.now.utc.micros() + hours * 3_600_000_000);
        self.tell(|| format!("jump {hours} h"));
    }

    fn row(&mut self) -> (usize, &'static str, Kind) {
        let row = usize::try_from(self.random.below(self.oracle.rows.len() as u64)).unwrap();
        let it = &self.oracle.rows[row];
        (row, it.topic, it.kind)
    }

    fn acknowledge(&mut self) {
        let unacked: Vec<usize> = (0..self.oracle.rows.len()).filter(|row| self.oracle.rows[*row].unacked).collect();
        let Some(row) = (!unacked.is_empty()).then(|| *pick(&mut self.random, &unacked)) else { return };
        let (topic, kind) = (self.oracle.rows[row].topic, self.oracle.rows[row].kind);
        let target = Target { topic, kind };
        let seq = self.alarms.alarm(target).unwrap().record.seq;
        if self.random.is_one_of(4) {
            let old = self.alarms.acknowledge(self.now, target, seq - 1, ANNA);
            assert_eq!(old, Err(Refusal::OldOccurrence { seq }));
            self.counters.refused += 1;
        }
        self.tell(|| format!("acknowledge {topic} {}", kind.word()));
        assert_eq!(self.alarms.acknowledge(self.now, target, seq, ANNA), Ok(()));
        self.oracle.acknowledge(row);
    }

    fn shelve(&mut self) {
        let (row, topic, kind) = self.row();
        let target = Target { topic, kind };
        if self.random.is_one_of(3) {
            let is_shelved = self.oracle.rows[row].shelf.is_some();
            let expect = if is_shelved { Ok(()) } else { Err(Refusal::NotShelved) };
            assert_eq!(self.alarms.unshelve(self.now, target, ANNA), expect);
            if is_shelved {
                self.tell(|| format!("unshelve {topic} {}", kind.word()));
                self.oracle.end_shelf(row);
            }
            return;
        }
        let (time, once) = (Duration::from_secs(1 + self.random.below(3600)), self.random.is_one_of(2));
        self.tell(|| format!("shelve {topic} {} {time:?} {once}", kind.word()));
        assert_eq!(self.alarms.shelve(self.now, target, time, once, ANNA), Ok(()));
        self.oracle.rows[row].shelf = Some((self.now.mono + time, self.now.utc.later(time), once));
    }

    fn service(&mut self) {
        let (row, topic, kind) = self.row();
        let target = Target { topic, kind };
        if self.oracle.rows[row].service.is_some() {
            self.tell(|| format!("in service {topic} {}", kind.word()));
            assert_eq!(self.alarms.put_in_service(self.now, target, ANNA), Ok(()));
            self.oracle.end_service(row);
            return;
        }
        let time = self.random.is_one_of(2).then(|| Duration::from_secs(1 + self.random.below(3600)));
        self.tell(|| format!("out of service {topic} {} {time:?}", kind.word()));
        assert_eq!(self.alarms.take_out_of_service(self.now, target, time, ANNA), Ok(()));
        self.oracle.rows[row].service = Some(time.map(|time| (self.now.mono + time, self.now.utc.later(time))));
    }

    fn reset(&mut self) {
        let latched: Vec<usize> = (0..self.oracle.rows.len()).filter(|row| self.oracle.rows[*row].latched).collect();
        let Some(row) = (!latched.is_empty()).then(|| *pick(&mut self.random, &latched)) else { return };
        let it = &self.oracle.rows[row];
        let expect = match (it.active, it.unacked) {
            (true, _) => Err(Refusal::StillActive),
            (false, true) => Err(Refusal::NotAcknowledged),
            (false, false) => Ok(()),
        };
        let target = Target { topic: it.topic, kind: it.kind };
        self.tell(|| format!("reset {target:?}"));
        assert_eq!(self.alarms.reset(self.now, target, ANNA), expect);
        if expect.is_ok() {
            self.oracle.reset(row);
        }
    }

    /// The node is killed, and starts again after a while, at whatever time the clock has then.
    fn kill(&mut self) {
        self.listen();
        self.counters.kills += 1;
        self.tell(|| String::from("kill"));
        let before = self.alarms.saved();
        let mut bytes = Vec::new();
        before.emit(&mut bytes);
        if self.random.is_one_of(3) {
            self.jump();
        }
        self.alarms = started(self.now, self.oracle.settings, &self.rules);
        self.alarms.restore(self.now, &Saved::parse(&bytes).unwrap());
        assert_eq!(self.alarms.saved(), before, "the state after a kill is that before");
        self.oracle.kill(self.now);
    }

    /// Takes the events.
    fn listen(&mut self) {
        while let Some(event) = self.alarms.poll_event() {
            let Event::Change(change) = event else { continue };
            let (record, transition) = (&change.alarm.record, change.transition);
            self.tell(|| {
                format!(
                    "    {} {}{:?} {:?} of {:?}",
                    transition.word(),
                    record.id.topic,
                    record.id.kind,
                    record.flags,
                    record.cause
                )
            });
            let seen = self.seen.entry((record.id.topic.clone(), record.id.kind)).or_default();
            assert!(record.seq >= seen.0 || record.seq == 0, "no number comes twice");
            seen.1 += u64::from(record.seq > seen.0);
            seen.0 = seen.0.max(record.seq);
            seen.2 += u64::from(change.is_annunciated);
            let is_hidden = record.flags.is_hidden() || record.cause.is_some();
            assert!(!change.is_annunciated || !is_hidden && record.flags.has(Flags::ACTIVE), "{change:?}");
            let counters = &mut self.counters;
            counters.annunciated += u64::from(change.is_annunciated);
            match transition {
                Transition::Raised => counters.raised += 1,
                Transition::Returned => counters.returned += 1,
                Transition::Acknowledged => counters.acknowledged += 1,
                Transition::Shelved => counters.shelved += 1,
                Transition::Suppressed => counters.suppressed += 1,
                Transition::Folded => counters.folded += 1,
                Transition::Unfolded => counters.unfolded += 1,
                Transition::Chattering => counters.chattering += 1,
                Transition::Uncertain => counters.uncertain += 1,
                Transition::Reset => counters.reset += 1,
                Transition::Unshelved
                | Transition::Unsuppressed
                | Transition::OutOfService
                | Transition::InService
                | Transition::Steady
                | Transition::Certain
                | Transition::Counted
                | Transition::Noted => {}
            }
            self.saved.apply(change.alarm.record);
        }
    }

    fn compare(&self) {
        assert_eq!(self.alarms.saved(), self.saved, "the records of all events are the state");
        for (row, it) in self.oracle.rows.iter().enumerate() {
            let name = format!("{} {}", it.topic, it.kind.word());
            let alarm = self.alarms.alarm(Target { topic: it.topic, kind: it.kind }).unwrap();
            let (record, flags) = (&alarm.record, alarm.record.flags);
            assert_eq!(flags.is_normal(), it.is_normal(), "{name}: {flags:?} {it:?}");
            let (_, occurrences, annunciations) =
                self.seen.get(&(record.id.topic.clone(), it.kind)).copied().unwrap_or_default();
            assert_eq!((occurrences, annunciations), (it.occurrences, it.annunciations), "{name}");
            if it.is_normal() {
                continue;
            }
            let ours = [
                (Flags::ACTIVE, it.active),
                (Flags::ACKED, !it.unacked),
                (Flags::LATCHED, it.latched),
                (Flags::SUPPRESSED, it.suppressed),
                (Flags::OUT_OF_SERVICE, it.service.is_some()),
                (Flags::SHELVED, it.shelf.is_some()),
                (Flags::CHATTERING, it.chattering),
                (Flags::UNCERTAIN, it.uncertain),
            ];
            for (flag, is_set) in ours {
                assert_eq!(flags.has(flag), is_set, "{name}: {flag:?} of {flags:?}");
            }
            let cause = it.cause.map(|cause| (self.oracle.rows[cause].topic, self.oracle.rows[cause].kind));
            let theirs = record.cause.as_ref().map(|cause| (cause.topic.as_str(), cause.kind));
            assert_eq!(theirs, cause, "the cause of {name}");
            assert_eq!(alarm.count as usize, self.oracle.count(row), "what is below {name}");
            if let Some((end, ..)) = it.shelf {
                assert!(end.since(self.now.mono) <= self.oracle.settings.shelve_max, "{name}");
            }
        }
    }
}

fn started(now: Now, settings: Settings, rules: &Rules) -> Alarms {
    let mut alarms = Alarms::new(settings, rules.clone());
    let name = |text: &str| Topic::new(text).ok();
    let places = PLACES.map(|(place, parent, _)| PlaceName { name: name(place).unwrap(), parent: name(parent) });
    alarms.set_places(now, &places);
    for (topic, _) in TOPICS {
        alarms.declare(now, &Topic::new(topic).unwrap());
    }
    alarms
}

/// Rules with delays of this run, as text and as rows of the oracle.
fn rules(random: &mut Random) -> (String, Vec<Row>) {
    let mut delay = || Duration::from_millis(*pick(random, &DELAYS));
    let (away, high, high_high, state) =
        ((delay(), delay()), (delay(), delay()), (delay(), delay()), (delay(), delay()));
    let cells = |(on, off): (Duration, Duration)| format!("{}ms,{}ms", on.as_millis(), off.as_millis());
    let text = format!(
        "topic,kind,limit,hysteresis,on_delay,off_delay,priority,latch,suppress_when\n\
         #,away,,,{},high,,\n#,bad,,,,,low,,\n+/+/p,high,2,1.5,{},low,,\n+/+/p,high_high,4,1,{},high,,\n\
         s/p,high,2,0.5,,,medium,,s/d/work=1\n+/+/b,state,1,,{},critical,yes,s/d/work=1\n",
        cells(away),
        cells(high),
        cells(high_high),
        cells(state)
    );
    let with = |row: Row, (on_delay, off_delay)| Row { on_delay, off_delay, ..row };
    let mut rows = Vec::new();
    for (place, _, above) in PLACES {
        rows.push(Row { is_place: true, ..with(Row::new(place, Kind::Away, above), away) });
    }
    let work = Some("s/d/work");
    for (topic, above) in TOPICS {
        rows.push(with(Row::new(topic, Kind::Away, above), away));
        let limit = |kind, limit, hysteresis| Row { limit, hysteresis, ..Row::new(topic, kind, above) };
        if topic == "s/p" {
            rows.push(Row { suppressed_by: work, ..limit(Kind::High, 2.0, 0.5) });
        } else if topic.ends_with('p') {
            rows.push(with(limit(Kind::HighHigh, 4.0, 1.0), high_high));
            rows.push(with(limit(Kind::High, 2.0, 1.5), high));
        } else if topic.ends_with('b') {
            let row = Row { latches: true, suppressed_by: work, ..limit(Kind::State, 1.0, 0.0) };
            rows.push(with(row, state));
        }
        rows.push(Row::new(topic, Kind::Bad, above));
    }
    (text, rows)
}
