//! What happens to alarms, as scripts: lines of what comes in, and what must come out.
//!
//! `2s` goes to that time after the start; `topic=value [reason of quality]` is a value; the other lines are verbs.

extern crate std;

use crate::{
    Alarm, Alarms, By, Event, Flags, Kind, PlaceName, Refusal, Rules, Saved, Settings, State, Target, Transition,
};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Instant, Now, Point, Quality, Timestamp, Topic, Value, Words, parse_duration};

const HEADER: &str = "topic,kind,limit,priority,hysteresis,on_delay,off_delay,latch,suppress_when,reference\n";
const START: i64 = 1_700_000_000_000_000;

/// Alarms, and what they said.
struct Stage {
    alarms: Alarms,
    rules: String,
    places: Vec<PlaceName>,
    now: Now,
    said: String,
    saved: Saved,
}

impl Stage {
    fn new(rules: &str, places: &[(&str, Option<&str>)], settings: Settings) -> Self {
        let rules = format!("{HEADER}{rules}");
        let mut alarms = Alarms::new(settings, parsed(&rules));
        let now = Now { mono: Instant::ZERO + Duration::from_secs(1000), utc: Timestamp::from_micros(START) };
        let name = |text: &str| Topic::new(text).unwrap();
        let places: Vec<PlaceName> =
            places.iter().map(|(place, parent)| PlaceName { name: name(place), parent: parent.map(name) }).collect();
        alarms.set_places(now, &places);
        Self { alarms, rules, places, now, said: String::new(), saved: Saved::default() }
    }

    fn line(&mut self, line: &str) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let time = |text: &str| parse_duration(text).unwrap();
        let anna = By { who: "anna", why: "because" };
        let answer = match words[..] {
            [to] if !to.contains('=') && parse_duration(to).is_some() => {
                self.go(time(to));
                return;
            }
            ["away", place] => self.done(|alarms, now| alarms.handle_presence(now, place, false)),
            ["back", place] => self.done(|alarms, now| alarms.handle_presence(now, place, true)),
            ["command", topic, result] => {
                self.declare(topic);
                self.done(|alarms, now| alarms.handle_command(now, topic, result == "ok"))
            }
            ["ack", topic, kind, seq] => {
                self.alarms.acknowledge(self.now, target(topic, kind), seq.parse().unwrap(), anna)
            }
            ["shelve", topic, kind, length] => {
                self.alarms.shelve(self.now, target(topic, kind), time(length), false, anna)
            }
            ["shelve", topic, kind, length, "once"] => {
                self.alarms.shelve(self.now, target(topic, kind), time(length), true, anna)
            }
            ["unshelve", topic, kind] => self.alarms.unshelve(self.now, target(topic, kind), anna),
            ["out", topic, kind] => self.alarms.take_out_of_service(self.now, target(topic, kind), None, anna),
            ["out", topic, kind, length] => {
                self.alarms.take_out_of_service(self.now, target(topic, kind), Some(time(length)), anna)
            }
            ["in", topic, kind] => self.alarms.put_in_service(self.now, target(topic, kind), anna),
            ["reset", topic, kind] => self.alarms.reset(self.now, target(topic, kind), anna),
            ["remove", topic] => self.done(|alarms, now| alarms.remove(now, topic)),
            ["kill"] => self.kill(),
            ["rules", rules] => {
                self.rules = format!("{HEADER}{}", rules.replace(';', "\n"));
                let rules = parsed(&self.rules);
                self.done(|alarms, now| alarms.set_rules(now, rules))
            }
            [value] => self.value(value, Quality::default()),
            [value, reason] => self.value(value, Quality::from_reason(reason).unwrap()),
            _ => panic!("{line}"),
        };
        if let Err(refusal) = answer {
            self.said.push_str(&format!("{line}: {refusal}\n"));
        }
        self.listen();
    }

    fn done(&mut self, act: impl FnOnce(&mut Alarms, Now)) -> Result<(), Refusal> {
        act(&mut self.alarms, self.now);
        Ok(())
    }

    fn declare(&mut self, topic: &str) -> Option<crate::InputId> {
        self.alarms.declare(self.now, &Topic::new(topic).unwrap())
    }

    fn value(&mut self, text: &str, quality: Quality) -> Result<(), Refusal> {
        let (topic, value) = text.split_once('=').unwrap();
        let value = match value {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            text => text.parse().map_or_else(|_| Value::from(text), Value::Float),
        };
        if let Some(input) = self.declare(topic) {
            self.alarms.handle_point(self.now, input, &Point { value, quality, time: self.now.utc });
        }
        Ok(())
    }

    /// Goes to a time after the start, and does what is due on the way.
    fn go(&mut self, to: Duration) {
        let end = Instant::ZERO + Duration::from_secs(1000) + to;
        loop {
            let due = self.alarms.timeout().filter(|due| *due <= end);
            let at = due.unwrap_or(end).max(self.now.mono);
            self.now = self.now.later(at.since(self.now.mono));
            if due.is_none() {
                return;
            }
            self.alarms.handle_timeout(self.now);
            self.listen();
        }
    }

    /// Ends without a word, and starts again from what was saved.
    fn kill(&mut self) -> Result<(), Refusal> {
        self.listen();
        let before = self.alarms.saved();
        assert_eq!(before, self.saved, "the records of all events are the state");
        let mut bytes = Vec::new();
        before.emit(&mut bytes);
        self.alarms = Alarms::new(Settings::default(), parsed(&self.rules));
        self.alarms.set_places(self.now, &self.places);
        self.alarms.restore(self.now, &Saved::parse(&bytes).unwrap());
        assert_eq!(self.alarms.saved(), before, "the state after a restart is that before");
        Ok(())
    }

    fn listen(&mut self) {
        while let Some(event) = self.alarms.poll_event() {
            let passed = self.now.mono.since(Instant::ZERO + Duration::from_secs(1000)).as_secs_f64();
            let told = match event {
                Event::Flood(is_on) => format!("flood {is_on}"),
                Event::Removed(id) => {
                    self.saved.remove(&id);
                    format!("removed {} {}", id.topic, id.kind.word())
                }
                Event::Change(change) => {
                    self.saved.apply(change.alarm.record.clone());
                    let mark = if change.is_annunciated { " !" } else { "" };
                    format!("{} {}{mark}", change.transition.word(), shown(&change.alarm))
                }
            };
            self.said.push_str(&format!("{passed} {told}\n"));
        }
    }
}

fn parsed(rules: &str) -> Rules {
    Rules::parse(rules, 1000, false).unwrap_or_else(|errors| panic!("{}", errors[0]))
}

fn target<'a>(topic: &'a str, kind: &str) -> Target<'a> {
    Target { topic, kind: Kind::of_word(kind).unwrap() }
}

fn shown(alarm: &Alarm) -> String {
    let record = &alarm.record;
    let mut text = format!("{} {} {}", record.id.topic, record.id.kind.word(), record.flags.state().word());
    if record.flags.state() != State::Normal {
        text.push_str(&format!(" #{}", record.seq));
    }
    if let Some(cause) = &record.cause {
        text.push_str(&format!(" of {}", cause.topic));
    }
    if alarm.count > 0 {
        text.push_str(&format!(" +{}", alarm.count));
    }
    text
}

fn check_with(settings: Settings, rules: &str, places: &[(&str, Option<&str>)], script: &str, expect: &str) {
    let mut stage = Stage::new(rules, places, settings);
    for line in script.lines().map(str::trim).filter(|line| !line.is_empty()) {
        stage.line(line);
    }
    let expect: Vec<&str> = expect.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let said: Vec<&str> = stage.said.lines().collect();
    assert_eq!(said, expect, "rules:\n{rules}\nscript:\n{script}\nsaid:\n{}", stage.said);
}

fn check(rules: &str, script: &str, expect: &str) {
    check_with(Settings::default(), rules, &[], script, expect);
}

#[test]
fn a_limit_has_hysteresis_and_delays() {
    check(
        "i,high,400,high,10,2s,5s",
        "i=400
         i=401
         1s
         i=399
         2s
         i=401
         10s
         i=391
         20s
         i=390
         22s
         i=391
         23s
         i=390
         30s",
        "4 raised i high unacknowledged #1 !
         28 returned i high returned #1",
    );
}

#[test]
fn an_acknowledgement_is_for_one_occurrence() {
    check(
        "i,high,1,high",
        "ack i high 1
         i=2
         i=0
         i=2
         ack i high 1
         ack i high 3
         ack i high 2
         ack i high 2
         i=0
         ack i high 2",
        "ack i high 1: there is no such alarm
         0 raised i high unacknowledged #1 !
         0 returned i high returned #1
         0 raised i high unacknowledged #2 !
         ack i high 1: there is a newer occurrence, 2
         ack i high 3: there is a newer occurrence, 2
         0 acknowledged i high acknowledged #2
         ack i high 2: there is nothing to acknowledge
         0 returned i high normal
         ack i high 2: there is nothing to acknowledge",
    );
}

#[test]
fn bad_quality_neither_raises_nor_clears() {
    check(
        "i,high,1,high,,2s\ni,bad,,low",
        "i=5 comm_lost
         10s
         i=5
         11s
         i=5 comm_lost
         20s
         i=5
         22s
         i=0 comm_lost
         30s
         i=0
         i=5 initial
         i=nothing",
        "0 raised i bad unacknowledged #1 !
         10 returned i bad returned #1
         11 raised i bad unacknowledged #2 !
         20 returned i bad returned #2
         22 raised i high unacknowledged #3 !
         22 uncertain i high unacknowledged #3
         22 raised i bad unacknowledged #4 !
         22 chattering i bad unacknowledged #4
         30 certain i high unacknowledged #3
         30 returned i high returned #3
         30 returned i bad returned #4
         30 uncertain i high returned #3
         30 uncertain i bad returned #4
         30 certain i bad returned #4",
    );
}

#[test]
fn each_kind_watches_what_it_says() {
    check(
        "i,low,1,low,0.5",
        "i=1\ni=0.9\ni=1.4\ni=1.5",
        "0 raised i low unacknowledged #1 !\n0 returned i low returned #1",
    );
    check(
        "b,state,false,low",
        "b=true\nb=0\nb=1",
        "0 raised b state unacknowledged #1 !\n0 returned b state returned #1",
    );
    check("b,state,open,low", "b=closed\nb=open", "0 raised b state unacknowledged #1 !");
    check(
        "i,rate,2,low,1",
        "i=0\n1s\ni=2\n2s\ni=5\n3s\ni=6.5\n4s\ni=7",
        "2 raised i rate unacknowledged #1 !\n4 returned i rate returned #1",
    );
    check(
        "+/i,deviation,2,low,1,,,,,{1}/set",
        "a/i=5\na/set=2\na/set=3.5\na/set=4.5\na/i=9 offline\na/i=9\na/set=9 offline\na/set=9",
        "0 raised a/i deviation unacknowledged #1 !
         0 returned a/i deviation returned #1
         0 uncertain a/i deviation returned #1
         0 certain a/i deviation returned #1
         0 raised a/i deviation unacknowledged #2 !
         0 uncertain a/i deviation unacknowledged #2
         0 certain a/i deviation unacknowledged #2
         0 returned a/i deviation returned #2",
    );
    check(
        "i,change,,low,,,5s",
        "i=1\ni=1\ni=2\n3s\ni=3\n7s\n9s",
        "0 raised i change unacknowledged #1 !
         3 raised i change unacknowledged #1
         8 returned i change returned #1",
    );
    check(
        "i,stale,10s,low",
        "i=1\n5s\ni=1\n14s\ni=1 offline\n16s\ni=2\n17s\ni=2 stale",
        "15 raised i stale unacknowledged #1 !
         16 returned i stale returned #1
         17 raised i stale unacknowledged #2 !",
    );
    check(
        "i,command_failed,,high,,,60s",
        "command i failed\n10s\ncommand i failed\n20s\ncommand i ok",
        "0 raised i command_failed unacknowledged #1 !
         10 raised i command_failed unacknowledged #1
         20 returned i command_failed returned #1",
    );
    check("i,away,,low", "i=1 away\ni=1", "0 raised i away unacknowledged #1 !\n0 returned i away returned #1");
    check("i,high,1,event", "i=2\ni=0", "0 raised i high acknowledged #1\n0 returned i high normal");
}

#[test]
fn a_latched_alarm_stays_until_it_is_reset() {
    check(
        "b,state,true,high,,,,yes",
        "b=true\nreset b state\nack b state 1\nb=false\n70s\nb=true\nb=false\nreset b state\nack b state 2\nreset b state\nreset b state",
        "0 raised b state unacknowledged #1 !
         reset b state: the alarm is still active
         0 acknowledged b state acknowledged #1
         0 returned b state latched #1
         70 raised b state unacknowledged #2 !
         70 returned b state returned #2
         reset b state: the alarm is not acknowledged
         70 acknowledged b state latched #2
         70 reset b state normal
         reset b state: the alarm is not latched",
    );
}

#[test]
fn shelving_ends_and_what_is_active_is_heard_again() {
    check(
        "i,high,1,high",
        "shelve i high 1h
         i=0
         shelve i high 9h
         shelve i high 1h
         i=2
         3600s
         i=0
         unshelve i high
         shelve i high 1h once
         i=2
         i=0
         ack i high 3
         out i high 10s
         i=2
         3700s
         in i high
         out i high
         in i high",
        "shelve i high 1h: there is no such alarm
         shelve i high 9h: expected a time above 0 and at most 28800 s
         0 shelved i high shelved #0
         0 raised i high shelved #1
         3600 unshelved i high unacknowledged #2 !
         3600 returned i high returned #2
         unshelve i high: the alarm is not shelved
         3600 shelved i high shelved #2
         3600 raised i high shelved #3
         3600 returned i high shelved #3
         3600 unshelved i high returned #3
         3600 acknowledged i high normal
         3600 out_of_service i high out_of_service #3
         3600 raised i high out_of_service #4
         3610 in_service i high unacknowledged #5 !
         in i high: the alarm is not out of service
         3700 out_of_service i high out_of_service #5
         3700 in_service i high unacknowledged #6 !",
    );
}

#[test]
fn a_topic_may_suppress() {
    check(
        "s/+/i,high,1,high,,,,,s/{1}/work=true",
        "s/a/i=2\ns/a/work=true\ns/a/work=false offline\ns/a/work=false\ns/a/work=true\ns/b/work=true\ns/b/i=2",
        "0 raised s/a/i high unacknowledged #1 !
         0 suppressed s/a/i high suppressed #1
         0 unsuppressed s/a/i high unacknowledged #2 !
         0 suppressed s/a/i high suppressed #2
         0 raised s/b/i high unacknowledged #3 !",
    );
}

#[test]
fn the_higher_limit_folds_the_lower() {
    check(
        "i,high,1,low\ni,high_high,5,high",
        "i=2\ni=9\nack i high_high 2\ni=2\ni=0\n100s\ni=9\ni=2\nack i high_high 3\nack i high 4",
        "0 raised i high unacknowledged #1 !
         0 raised i high_high unacknowledged #2 !
         0 folded i high unacknowledged #1 of i
         0 counted i high_high unacknowledged #2 +1
         0 acknowledged i high_high acknowledged #2 +1
         0 acknowledged i high acknowledged #1 of i
         0 returned i high_high normal +1
         0 unfolded i high acknowledged #1
         0 returned i high normal
         100 raised i high_high unacknowledged #3 !
         100 raised i high unacknowledged #4 of i
         100 counted i high_high unacknowledged #3 +1
         100 returned i high_high returned #3 +1
         100 unfolded i high unacknowledged #4
         100 counted i high_high returned #3
         100 acknowledged i high_high normal
         100 acknowledged i high acknowledged #4",
    );
}

const PLACES: &[(&str, Option<&str>)] = &[("line", None), ("s/d", Some("line")), ("s/e", Some("line"))];

#[test]
fn a_device_that_goes_away_is_the_cause_of_its_points() {
    check_with(
        Settings::default(),
        "#,away,,high\n#,high,1,low",
        PLACES,
        "s/d/p=9
         5s
         s/d/q=9
         6s
         away s/d
         s/d/p=9 away
         away line
         away s/e
         ack line away 6
         back line
         back s/d
         s/d/p=0
         9s",
        "0 raised s/d/p high unacknowledged #1 !
         5 raised s/d/q high unacknowledged #2 !
         6 raised s/d away unacknowledged #3 !
         6 folded s/d/q high unacknowledged #2 of s/d
         6 counted s/d away unacknowledged #3 +1
         6 raised s/d/p away unacknowledged #4 of s/d
         6 uncertain s/d/p high unacknowledged #1
         6 counted s/d away unacknowledged #3 +2
         6 raised line away unacknowledged #5 !
         6 folded s/d away unacknowledged #3 of line +2
         6 counted line away unacknowledged #5 +3
         6 raised s/e away unacknowledged #6 of line
         6 counted line away unacknowledged #5 +4
         ack line away 6: there is a newer occurrence, 5
         6 returned line away returned #5 +4
         6 returned s/d away returned #3 of line +2
         6 returned s/d/p away returned #4 of s/d
         6 certain s/d/p high unacknowledged #1
         6 returned s/d/p high returned #1
         8 unfolded s/e away unacknowledged #7 !
         8 unfolded s/d/q high unacknowledged #8 !
         8 counted line away returned #5 +2
         8 counted s/d away returned #3 of line +1",
    );
}

#[test]
fn consequences_are_acknowledged_with_their_cause() {
    check_with(
        Settings::default(),
        "#,away,,high",
        PLACES,
        "away s/d
         s/d/p=1 away
         ack s/d away 1
         s/d/q=1 away
         back s/d
         s/d/p=1
         s/d/q=1
         3s",
        "0 raised s/d away unacknowledged #1 !
         0 raised s/d/p away unacknowledged #2 of s/d
         0 counted s/d away unacknowledged #1 +1
         0 acknowledged s/d away acknowledged #1 +1
         0 acknowledged s/d/p away acknowledged #2 of s/d
         0 raised s/d/q away acknowledged #3 of s/d
         0 counted s/d away acknowledged #1 +2
         0 returned s/d away normal +2
         0 returned s/d/p away normal of s/d
         0 returned s/d/q away normal of s/d",
    );
}

#[test]
fn an_alarm_that_chatters_is_heard_once() {
    check(
        "i,high,1,high",
        "i=2\ni=0\n10s\ni=2\ni=0\n20s\ni=2\ni=0\ni=2\nack i high 3\ni=0\n21s\ni=2\n80s\n81s\ni=0",
        "0 raised i high unacknowledged #1 !
         0 returned i high returned #1
         10 raised i high unacknowledged #2 !
         10 returned i high returned #2
         20 raised i high unacknowledged #3 !
         20 chattering i high unacknowledged #3
         20 returned i high returned #3
         20 raised i high unacknowledged #3
         20 acknowledged i high acknowledged #3
         20 returned i high normal
         21 raised i high acknowledged #3
         81 steady i high acknowledged #3
         81 returned i high normal",
    );
}

#[test]
fn a_restart_invents_and_loses_nothing() {
    check_with(
        Settings::default(),
        "#,away,,high\n#,high,1,low\n+/+/b,state,true,high,,,,yes",
        PLACES,
        "s/e/i=2
         shelve s/e/i high 1h
         s/e/b=true
         away s/d
         s/d/p=1 away
         kill
         s/e/i=2
         s/e/b=true
         away s/d
         s/d/p=1 away
         kill
         back s/d
         kill
         1s
         2s
         3600s",
        "0 raised s/e/i high unacknowledged #1 !
         0 shelved s/e/i high shelved #1
         0 raised s/e/b state unacknowledged #2 !
         0 raised s/d away unacknowledged #3 !
         0 raised s/d/p away unacknowledged #4 of s/d
         0 counted s/d away unacknowledged #3 +1
         0 returned s/d away returned #3 +1
         2 unfolded s/d/p away unacknowledged #5 !
         2 counted s/d away returned #3
         3600 unshelved s/e/i high unacknowledged #6 !",
    );
}

#[test]
fn other_rules_keep_what_they_can() {
    check(
        "i,high,1,high\nk,high,1,high",
        "i=5\nk=5\nrules i,high,4,low;j,high,1,low\ni=3\nj=2\nrules j,bad,,low\nremove j",
        "0 raised i high unacknowledged #1 !
         0 raised k high unacknowledged #2 !
         0 removed k high
         0 returned i high returned #1
         0 raised j high unacknowledged #3 !
         0 removed i high
         0 removed j high",
    );
}

#[test]
fn many_annunciations_are_a_flood() {
    let settings = Settings { flood_in: 2, flood_out: 1, ..Settings::default() };
    check_with(
        settings,
        "#,high,1,low",
        &[],
        "a=2\nb=2\nc=2\n700s",
        "0 raised a high unacknowledged #1 !
         0 raised b high unacknowledged #2 !
         0 raised c high unacknowledged #3 !
         0 flood true
         600 flood false",
    );
}

#[test]
fn there_are_no_more_alarms_than_there_may_be() {
    let mut stage = Stage::new("#,high,1,low", &[], Settings { alarms_max: 2, ..Settings::default() });
    for topic in ["a", "b", "c"] {
        stage.line(&format!("{topic}=2"));
    }
    let stats = stage.alarms.stats();
    assert_eq!((stats.alarms, stats.refused, stage.alarms.alarms().count()), (2, 1, 2));
}

#[test]
fn topics_without_alarms_are_not_kept_until_an_alarm_looks_at_them() {
    let mut stage = Stage::new("a/i,high,1,low,,,,,b=true", &[], Settings::default());
    let generation = stage.alarms.generation();
    assert!(stage.declare("b").is_none() && stage.declare("x").is_none());
    assert!(stage.declare("a/i").is_some());
    assert_ne!(stage.alarms.generation(), generation);
    assert!(stage.declare("b").is_some() && stage.declare("x").is_none());
}

#[test]
fn every_combination_of_flags_has_a_letter() {
    let check = |flags: &[Flags], letter: char| {
        let flags = flags.iter().fold(Flags::QUIET.with(Flags::ACKED, false), |all, flag| all.with(*flag, true));
        assert_eq!(flags.letter(), letter, "{flags:?}");
    };
    let (active, acked, latched) = (Flags::ACTIVE, Flags::ACKED, Flags::LATCHED);
    check(&[acked], 'A');
    check(&[active], 'B');
    check(&[active, acked], 'C');
    check(&[], 'D');
    check(&[latched], 'E');
    check(&[latched, acked], 'F');
    check(&[active, Flags::SHELVED], 'G');
    check(&[active, Flags::SUPPRESSED], 'H');
    check(&[acked, Flags::SUPPRESSED], 'A');
    check(&[acked, Flags::OUT_OF_SERVICE, Flags::SHELVED], 'I');
    assert_eq!(Transition::WORDS.len(), 18);
    assert!(Kind::words().all(|word| Kind::of_word(word).is_some_and(|kind| kind.word() == word)));
}

#[test]
fn a_walk_in_parts_comes_past_each_alarm_that_is_not_normal_once() {
    let mut stage = Stage::new("#,high,1,low", &[], Settings::default());
    (0..10).for_each(|i| stage.line(&format!("t{i}={}", i % 3)));
    let all: Vec<Alarm> = stage.alarms.alarms().collect();
    assert_eq!(all.len(), 3, "{all:?}");
    for at_once in 1..5 {
        let (mut walked, mut next) = (Vec::new(), 0);
        loop {
            let part: Vec<_> = stage.alarms.alarms_from(next).take(at_once).collect();
            let Some((row, _)) = part.last() else { break };
            next = row + 1;
            walked.extend(part.into_iter().map(|(_, alarm)| alarm));
        }
        assert_eq!(walked, all, "{at_once} at once");
    }
}
