//! Alarms over a disk that refuses and takes again, and over power cuts: what was shown is there after a restart.

use super::*;
use crate::config::AlarmConfig;
use crate::control::alarms::{ALARM_PREFIX, AlarmAction, AlarmRequest, AlarmResult, AlarmTarget};
use tieline_alarms::{Alarm, Kind, Rules, Settings};

const RULES: &str = "\
topic,kind,limit,hysteresis,on_delay,off_delay,priority,latch\n\
d/+,high,400,10,,,high,\n\
d/+,high_high,500,,1s,,critical,\n\
d/1,state,7,,,,medium,yes\n\
d/2,bad,,,,,low,\n";
const TOPICS: [&str; 3] = ["d/0", "d/1", "d/2"];
const VALUES: [&str; 5] = ["1", "7", "450", "600", r#"{"v":1,"q":"bad"}"#];

pub(super) fn config() -> AlarmConfig {
    AlarmConfig {
        rules: Rules::parse(RULES, 100, false).unwrap(),
        settings: Settings::default(),
        with_conditions: false,
    }
}

/// The alarms of a bus as the ledger has them.
pub(super) fn kept(bus: &Bus) -> BTreeMap<String, (u64, bytes::Bytes)> {
    let of = |alarm: Alarm| {
        let mut state = Vec::new();
        alarm.record.emit(&mut state);
        (alarm.record.id.to_string(), (alarm.record.seq, state.into()))
    };
    bus.alarms().map(of).collect()
}

impl World {
    /// A value of a topic that has alarms.
    fn value(&mut self, topic: &str, value: &'static str) {
        let message = message(self.now, topic, bytes::Bytes::from_static(value.as_bytes()));
        let body = Body::read(message.payload.clone());
        self.bus.apply_message(self.now, message, &body, Qos::AtMostOnce, false, None).unwrap();
        self.bus.finish_alarms(self.now);
    }

    /// A person acts on one of the alarms that are not normal.
    fn act(&mut self, action: AlarmAction, number: usize) -> Option<oneshot::Receiver<Vec<AlarmResult>>> {
        let alarms: Vec<Alarm> = self.bus.alarms().collect();
        let record = alarms.get(number % alarms.len().max(1))?.record.clone();
        let target = AlarmTarget { topic: record.id.topic, kind: record.id.kind, seq: Some(record.seq) };
        let time = Some(Duration::from_secs(3)).filter(|_| action == AlarmAction::Shelve);
        let request = AlarmRequest { action, targets: vec![target], why: "w".to_owned(), time, once: false };
        let (told, hears) = oneshot::channel();
        let answer = Box::new(move |_: &mut Bus, results| drop(told.send(results)));
        self.bus.request_alarms(self.now, &request, "anna", &[true], answer);
        Some(hears)
    }

    /// The alarms that topics show, with their occurrences.
    fn shown(&self) -> BTreeMap<String, u64> {
        let mut all = Snapshot::new(Filter::new(&format!("{ALARM_PREFIX}#")).unwrap());
        let of = |view: tieline_topics::View<'_>| {
            let Body::Opaque(payload) = view.body else { panic!("{:?}", view.body) };
            let shown: serde_json::Value = serde_json::from_slice(payload).unwrap();
            (view.topic.strip_prefix(ALARM_PREFIX).unwrap().to_owned(), shown["seq"].as_u64().unwrap())
        };
        self.bus.tree.next(&mut all, 1000).into_iter().map(of).collect()
    }

    /// The same bus, started again with what the disk has after a power cut.
    fn cut(&self) -> Self {
        Self::over(self.disk.cut(), self.now)
    }
}

#[derive(Clone, Debug)]
enum Step {
    Value(usize, usize),
    Act(AlarmAction, usize),
    Turn,
    Pass(u64),
    Mood(Mood),
    Cut,
}

fn any_step(with_moods: bool) -> impl Strategy<Value = Step> {
    let actions = [AlarmAction::Acknowledge, AlarmAction::Shelve, AlarmAction::Unshelve, AlarmAction::Reset];
    let moods = [Mood::Takes, Mood::Full, Mood::Unsynced];
    prop_oneof![
        8 => (0..TOPICS.len(), 0..VALUES.len()).prop_map(|(topic, value)| Step::Value(topic, value)),
        4 => (0..actions.len(), any::<usize>()).prop_map(move |(action, number)| Step::Act(actions[action], number)),
        6 => Just(Step::Turn),
        3 => (1u64..3000).prop_map(Step::Pass),
        u32::from(with_moods) => (0..moods.len()).prop_map(move |mood| Step::Mood(moods[mood])),
        1 => Just(if with_moods { Step::Turn } else { Step::Cut }),
    ]
}

fn run(steps: Vec<Step>, with_moods: bool) {
    let mut world = World::new();
    let mut answers = Vec::new();
    for step in steps {
        match step {
            Step::Value(topic, value) => world.value(TOPICS[topic], VALUES[value]),
            Step::Act(action, number) => answers.extend(world.act(action, number)),
            Step::Turn => {
                world.bus.finish_alarms(world.now);
                world.turn();
            }
            Step::Pass(ms) => world.pass(Duration::from_millis(ms)),
            Step::Mood(mood) => world.disk.set(mood),
            Step::Cut => {
                // Who waited is not answered.
                answers.clear();
                let (before, shown) = (replayed(&world.disk), world.shown());
                world = world.cut();
                assert_eq!(kept(&world.bus), before.alarms, "the state is that of the disk");
                for (name, seq) in shown {
                    let found = before.alarms.get(&name).map(|(seq, _)| *seq);
                    assert!(found.is_none_or(|found| found >= seq), "{name}: {found:?} after {seq} was shown");
                    assert!(before.alarm_occurrence >= seq, "{name}: {seq} would be given again");
                }
            }
        }
        if !with_moods {
            let image = replayed(&world.disk);
            for (name, seq) in world.shown() {
                assert!(image.alarm_occurrence >= seq, "{name} {seq} is shown and not on the disk");
            }
        }
    }
    world.bus.finish_alarms(world.now);
    world.recover();
    assert!(answers.iter_mut().all(|answer| answer.try_recv().is_ok()), "who waited was told");
    let names = |bus: &Bus| bus.alarms().map(|alarm| (alarm.record.id.clone(), alarm.record.seq)).collect::<Vec<_>>();
    let shown: Vec<(String, u64)> = world.shown().into_iter().collect();
    let mut alarms: Vec<(String, u64)> = names(&world.bus).into_iter().map(|(id, seq)| (id.to_string(), seq)).collect();
    alarms.sort();
    assert_eq!(shown, alarms, "all is shown");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn alarms_are_there_again_whatever_was_refused(steps in proptest::collection::vec(any_step(true), 1..80)) {
        run(steps, true);
    }

    #[test]
    fn what_was_shown_is_there_after_a_power_cut(steps in proptest::collection::vec(any_step(false), 1..80)) {
        run(steps, false);
    }
}

#[test]
fn a_request_is_answered_when_it_is_on_the_disk_and_refused_alone() {
    let mut world = World::new();
    world.value("d/0", "450");
    world.turn();
    let record = world.bus.alarms().next().unwrap().record;
    assert_eq!((record.id.kind, record.seq), (Kind::High, 1));
    let topic = Topic::new("d/0").unwrap();
    let target = |seq| AlarmTarget { topic: topic.clone(), kind: Kind::High, seq: Some(seq) };
    let request = AlarmRequest {
        action: AlarmAction::Acknowledge,
        targets: vec![target(7), target(1), target(1)],
        why: String::new(),
        time: None,
        once: false,
    };
    let (told, mut hears) = oneshot::channel();
    let answer = Box::new(move |_: &mut Bus, results| drop(told.send(results)));
    world.bus.request_alarms(world.now, &request, "anna", &[true, true, false], answer);
    assert!(hears.try_recv().is_err(), "it waits for the disk");
    world.turn();
    let results: Vec<AlarmResult> = hears.try_recv().unwrap();
    let reasons: Vec<_> = results.iter().map(|result| result.reason).collect();
    assert_eq!(reasons, [Some("old_occurrence"), None, Some("denied")]);
    let shown: Vec<_> = world.bus.alarms().map(|alarm| alarm.record.acked_by).collect();
    assert_eq!(shown, [Some("anna".into())]);
}

#[test]
fn a_disk_that_hangs_keeps_no_alarm_back() {
    let mut world = World::new();
    world.turn();
    world.hangs = true;
    world.value("d/0", "450");
    world.turn();
    assert!(world.shown().is_empty(), "it waits for the disk");
    world.pass(Duration::from_millis(5_200));
    world.turn();
    assert_eq!(world.shown().into_iter().collect::<Vec<_>>(), [("d/0/high".to_owned(), 1)]);
    world.value("d/2", "450");
    world.turn();
    assert_eq!(world.shown().len(), 2, "it is told at once while the disk hangs");
    let mut answer = world.act(AlarmAction::Acknowledge, 0).unwrap();
    world.turn();
    assert!(answer.try_recv().unwrap().iter().all(|result| result.reason.is_none()));
    world.hangs = false;
    world.recover();
    assert_eq!(replayed(&world.disk).alarms, kept(&world.bus), "the disk has all of it in the end");
}
