//! Rules of retention against lists of samples.

use super::*;
use crate::columns::policy::{Action, Policy};
use crate::store::{Rule, Stage};
use tieline_series::Keep;

type Plain = (i64, Value, Quality);

fn stage(after_hours: u64, every_us: u64, keep: Keep) -> Stage {
    Stage { after: Duration::from_secs(after_hours * 3600), every: Duration::from_micros(every_us), keep }
}

fn rule(filter: &str, keep_hours: Option<u64>, downsample: Vec<Stage>) -> Rule {
    let keep = keep_hours.map(|hours| Duration::from_secs(hours * 3600));
    Rule { topics: vec![Filter::new(filter).unwrap()], keep, downsample }
}

fn is_bad(sample: &Plain) -> bool {
    sample.2.validity() == Validity::Bad
}

/// What stands for samples of a day, integers and texts.
fn naive(samples: &[Plain], every: i64, keep: Keep) -> Vec<Plain> {
    let (mut out, mut place) = (Vec::new(), 0);
    while let Some(first) = samples.get(place) {
        let behind_bad = place > 0 && is_bad(&samples[place - 1]);
        if is_bad(first) {
            out.extend((!behind_bad).then(|| first.clone()));
            place += 1;
            continue;
        }
        let start = first.0.div_euclid(every) * every;
        let joins = |sample: &&Plain| !is_bad(sample) && sample.0 < start + every;
        let piece: Vec<&Plain> = samples[place..].iter().take_while(joins).collect();
        place += piece.len();
        let numbers: Vec<(usize, f64)> =
            piece.iter().enumerate().filter_map(|(at, sample)| Some((at, sample.1.as_f64()?))).collect();
        let text = piece.iter().rposition(|sample| sample.1.as_f64().is_none());
        if keep == Keep::Mean && !numbers.is_empty() {
            let mean = numbers.iter().map(|(_, number)| number).sum::<f64>() / numbers.len() as f64;
            let time = if behind_bad { first.0 } else { start };
            out.push((time, Value::Float(mean), Quality::GOOD));
        }
        let mut stay: Vec<usize> = text.into_iter().collect();
        match keep {
            Keep::Mean => {}
            Keep::Last => stay = vec![piece.len() - 1],
            Keep::Extremes if numbers.is_empty() => {}
            Keep::Extremes => {
                let best = |is: fn(f64, f64) -> bool| {
                    numbers.iter().copied().reduce(|best, next| if is(next.1, best.1) { next } else { best })
                };
                let ends = [numbers.first().copied(), numbers.last().copied()];
                let found = [best(|one, other| one < other), best(|one, other| one > other)];
                stay.extend(ends.into_iter().chain(found).flatten().map(|(at, _)| at));
            }
        }
        stay.sort_unstable();
        stay.dedup();
        out.extend(stay.into_iter().map(|at| piece[at].clone()));
    }
    out
}

/// What the store is to have.
struct Model {
    policy: Policy,
    topics: BTreeMap<String, Vec<Plain>>,
}

impl Model {
    fn record(&mut self, entries: &[Entry]) {
        for entry in entries {
            let Body::Point(point) = &entry.body else { panic!("points only") };
            let sample = (entry.time.micros(), point.value.clone(), point.quality);
            let all = self.topics.entry(entry.topic.to_string()).or_default();
            if !all.contains(&sample) {
                all.insert(all.partition_point(|(time, ..)| *time <= sample.0), sample);
            }
        }
    }

    /// What samples of a topic become when their day goes through what is due.
    fn due(&self, topic: &str, day: i32, now: Timestamp, samples: &[Plain]) -> Vec<Plain> {
        match self.policy.due(day, now).action(&Topic::new(topic).unwrap()).1 {
            Action::Downsample(every, keep) => naive(samples, every, keep),
            Action::None | Action::Remove => samples.to_vec(),
        }
    }

    /// Closed days go through what is due; or those of them of which the store says so, after it was killed.
    fn close(&mut self, now: Timestamp, found: Option<&BTreeMap<String, Vec<Plain>>>) {
        let day_of = |sample: &Plain| sample.0.div_euclid(DAY_US) as i32;
        let before = (now.micros() - 3_600_000_000).div_euclid(DAY_US) as i32;
        for day in -10..before {
            let of_day =
                |all: &Vec<Plain>| all.iter().filter(|sample| day_of(sample) == day).cloned().collect::<Vec<_>>();
            let now_has: BTreeMap<String, Vec<Plain>> =
                self.topics.iter().map(|(topic, all)| (topic.clone(), of_day(all))).collect();
            let then: BTreeMap<String, Vec<Plain>> =
                now_has.iter().map(|(topic, all)| (topic.clone(), self.due(topic, day, now, all))).collect();
            if let Some(found) = found {
                let is = |has: &BTreeMap<String, Vec<Plain>>| {
                    // What is too old may be there or not.
                    let action = |topic: &str| self.policy.due(day, now).action(&Topic::new(topic).unwrap()).1;
                    has.iter()
                        .filter(|(topic, _)| action(topic) != Action::Remove)
                        .all(|(topic, all)| found.get(topic).map(of_day).unwrap_or_default() == *all)
                };
                if is(&now_has) {
                    continue;
                }
                assert!(is(&then), "day {day}: {found:?}\n{now_has:?}\n{then:?}");
            }
            for (topic, of_day) in then {
                let all = self.topics.get_mut(&topic).unwrap();
                let start = all.partition_point(|sample| day_of(sample) < day);
                let end = all.partition_point(|sample| day_of(sample) <= day);
                all.splice(start..end, of_day);
            }
        }
    }
}

fn shown_by(reader: &HistoryReader) -> BTreeMap<String, Vec<Plain>> {
    let mut found: BTreeMap<String, Vec<Plain>> = BTreeMap::new();
    for row in ask(reader, all("#")) {
        let sample = (row.point.time.micros(), row.point.value, row.point.quality);
        found.entry(row.topic.to_string()).or_default().push(sample);
    }
    found
}

fn rules() -> Vec<Rule> {
    let means = vec![stage(12, 10, Keep::Mean), stage(40, 40, Keep::Mean)];
    vec![rule("b/#", None, means), rule("é", Some(144), vec![stage(24, 20, Keep::Extremes)]), rule("#", None, vec![])]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn whatever_happens_the_store_has_what_rules_leave(
        acts in prop::collection::vec(act(), 1..25),
        every in prop_oneof![1..40_i64, Just(3_600_000_000)],
    ) {
        let folder = tempfile::tempdir().unwrap();
        let source = HistorySource::new(folder.path());
        source.set_rules(rules());
        let policy = Policy { rules: rules().into(), others: None };
        let mut model = Model { policy, topics: BTreeMap::new() };
        let mut world = World { folder, source, calls_left: Arc::default(), store: None, journal: Vec::new(), edits: Vec::new(), deleted: HashSet::new(), last: 0, now: at(400_000_000_000) };
        world.start();
        for act in &acts {
            let journaled = world.journal.len();
            let is_done = world.act(act);
            model.record(&world.journal[journaled..]);
            match act {
                Act::Compact if is_done => model.close(world.now, None),
                Act::Compact => model.close(world.now, Some(&shown_by(&world.source.reader().unwrap().or_raw(true)))),
                Act::Delete(topic, from, length) => {
                    let all = model.topics.entry(NAMES[usize::from(*topic)].to_owned()).or_default();
                    all.retain(|(time, ..)| !(*from..from + length).contains(time));
                }
                // Edits change nothing of what is stored.
                Act::Edit(..) | Act::Undo(_) => {}
                Act::Record(_) | Act::SealAll | Act::Relieve | Act::Restart | Act::DieAfter(_) => {}
            }
        }
        world.start();
        let store = world.store.as_mut().unwrap();
        while store.retain(&Retention::default(), world.now, 1_000_000).unwrap().more {}
        let cutoff = world.now.micros() - 144 * 3_600_000_000;
        if let Some(all) = model.topics.get_mut("é") {
            all.retain(|(time, ..)| *time >= cutoff);
        }
        model.topics.retain(|_, all| !all.is_empty());
        let reader = world.source.reader().unwrap().or_raw(true);
        prop_assert_eq!(shown_by(&reader), model.topics.clone());
        let seen = reader.verify(&mut |_, _| {}).unwrap();
        prop_assert!(seen.is_whole(), "{:?}", seen);
        for (topic, samples) in &model.topics {
            let instant = |instant: i64| {
                let last = samples.iter().rfind(|(time, ..)| *time <= instant).cloned();
                last.map(|last| vec![(topic.clone(), last)]).unwrap_or_default()
            };
            for time in [-1, 20, 3_600_000_000, 90_000_000_000] {
                prop_assert_eq!(latest(&reader, topic, time), instant(time), "at {}", time);
            }
            for aggregate in [Aggregate::Last, Aggregate::Count] {
                let asked = HistoryQuery { every: Some(Duration::from_micros(every.unsigned_abs())), aggregate, ..all(topic) };
                let shown = |row: Row| (row.point.time.micros(), format!("{:?}", row.point.value));
                let found: Vec<_> = ask(&reader, asked).into_iter().map(shown).collect();
                prop_assert_eq!(found, naive_buckets(samples, every, aggregate), "{:?}", aggregate);
            }
        }
    }
}

/// Samples of a day, one a second, in its first hour.
fn seconds(day: i64, topic: &str, seq: u64) -> Vec<Entry> {
    (0..3600).map(|n| entry(seq, topic, day * DAY_US + n * 1_000_000, n, Quality::GOOD)).collect()
}

fn counts(stored: &Stored) -> Vec<(u64, u64)> {
    let rows = stored.source.reader().unwrap().index.rules().unwrap();
    rows.into_iter().map(|row| (row.counts.removed, row.counts.downsampled)).collect()
}

const HOUR: i64 = 3_600_000_000;

#[test]
fn a_day_goes_through_each_stage_once_and_never_grows() {
    let mut stored = stored(&[]);
    let minutes = 60_000_000;
    let stages = vec![stage(24, minutes, Keep::Mean), stage(72, 15 * minutes, Keep::Extremes)];
    stored.source.set_rules(vec![rule("fast/#", Some(240), stages), rule("kept", Some(10_000), vec![])]);
    let noise = |topic, start: i64| {
        let value = |n: i64| ((start + n * 7919) % 60_013) as f64 * 0.3;
        (0..3600).map(move |n| entry(3, topic, n * 1_000_000, value(n), Quality::GOOD)).collect::<Vec<_>>()
    };
    let entries = [seconds(0, "fast/a", 3), noise("fast/b", 1), noise("kept", 2), noise("other", 3)].concat();
    stored.store.append(&entries, Seq(3)).unwrap();
    let mut bytes = u64::MAX;
    let mut written = 0;
    let mut go = |stored: &mut Stored, hour: i64| {
        while stored
            .store
            .retain(&Retention { age: Some(Duration::from_secs(5 * 86_400)), bytes: None }, at(hour * HOUR), 1_000_000)
            .unwrap()
            .more
        {}
        compact(&mut stored.store, at(hour * HOUR)).unwrap();
        let size = stored.store.size();
        let is_again = size.written_bytes > written && written > 0;
        written = size.written_bytes;
        let now_bytes: u64 =
            stored.source.reader().unwrap().index.files().unwrap().iter().map(|file| file.row.bytes).sum();
        assert!(now_bytes <= bytes, "hour {hour}: {now_bytes} after {bytes}");
        bytes = now_bytes;
        let held = ["fast/a", "fast/b", "kept", "other"].map(|topic| stored.ask(all(topic)).len());
        (is_again, held)
    };
    assert_eq!(go(&mut stored, 30), (false, [3600, 3600, 3600, 3600]));
    assert_eq!(go(&mut stored, 47), (false, [3600, 3600, 3600, 3600]));
    assert_eq!(go(&mut stored, 48), (true, [60, 60, 3600, 3600]));
    let means = stored.ask(HistoryQuery { limit: Some(2), ..all("fast/a") });
    assert_eq!(shown(&means), ["0 29.5", "60000000 89.5"]);
    let held = |stored: &Stored, hour| {
        let reader = stored.source.reader().unwrap();
        let topics = reader.index.topics(&Filter::new("#").unwrap()).unwrap();
        let rules = reader.rule_stats(&topics, at(hour * HOUR)).unwrap();
        let of = |rule: &crate::RuleStats| {
            let stages: Vec<u64> = rule.stages.iter().map(|(_, held)| held.samples).collect();
            (rule.topic_count, rule.recorded.samples, stages, rule.due.samples)
        };
        rules.iter().map(of).collect::<Vec<_>>()
    };
    assert_eq!(held(&stored, 48), [(2, 0, vec![120, 0], 0), (1, 3600, vec![], 0), (1, 3600, vec![], 0)]);
    // What the next stage is about to do, and age.
    assert_eq!(held(&stored, 96), [(2, 0, vec![120, 0], 120), (1, 3600, vec![], 0), (1, 3600, vec![], 0)]);
    assert_eq!(held(&stored, 145), [(2, 0, vec![120, 0], 120), (1, 3600, vec![], 0), (1, 3600, vec![], 3600)]);
    assert_eq!(go(&mut stored, 60), (false, [60, 60, 3600, 3600]));
    // A late sample of the day is in the mean of its minute when it is merged, where the mean counts as one sample.
    stored.store.append(&[entry(4, "fast/a", 1_500_000, 69.5, Quality::GOOD)], Seq(4)).unwrap();
    assert_eq!(stored.ask(all("fast/a")).len(), 61);
    let held = |stored: &Stored| stored.ask(all("fast/a")).len();
    compact(&mut stored.store, at(61 * HOUR)).unwrap();
    assert_eq!((held(&stored), shown(&stored.ask(all("fast/a")))[0].as_str()), (60, "0 49.5"));
    let (is_again, held) = go(&mut stored, 96);
    assert!(is_again && held[0] == 8 && (8..=16).contains(&held[1]) && held[2..] == [3600, 3600], "{held:?}");
    let extremes = held[1] as u64;
    assert_eq!(shown(&stored.ask(all("fast/a")))[..3], ["0 49.5", "840000000 869.5", "900000000 929.5"]);
    // Others are kept for five days: their part of the file is given back, with the file written once more.
    assert_eq!(go(&mut stored, 145), (true, [8, held[1], 3600, 0]));
    assert_eq!(day_files(stored.folder.path()).len(), 3608 + held[1]);
    assert_eq!(go(&mut stored, 265), (false, [0, 0, 3600, 0]));
    let size = stored.store.size();
    assert_eq!(size.rules.days, 3);
    let downsampled = 3601 - 8 + 3600 - extremes;
    assert_eq!(size.rules.downsampled, downsampled);
    assert_eq!(counts(&stored), [(8 + extremes, downsampled), (0, 0), (3600, 0)]);
    let seen = stored.source.reader().unwrap().verify(&mut |_, _| {}).unwrap();
    assert!(seen.is_whole(), "{seen:?}");
}

#[test]
fn other_rules_take_effect_and_bring_nothing_back() {
    let mut stored = stored(&[]);
    stored.store.append(&[seconds(0, "a", 3), seconds(0, "b", 3)].concat(), Seq(3)).unwrap();
    let now = at(100 * HOUR);
    compact(&mut stored.store, now).unwrap();
    let held = |stored: &Stored| ["a", "b"].map(|topic| stored.ask(all(topic)).len());
    let stages = || vec![stage(24, 60_000_000, Keep::Last)];
    stored.source.set_rules(vec![rule("a", None, stages())]);
    compact(&mut stored.store, now).unwrap();
    assert_eq!(held(&stored), [60, 3600]);
    // A rule in front of it counts; a rule for others leaves the day as it is.
    stored.source.set_rules(vec![rule("c", None, stages()), rule("+", None, stages())]);
    compact(&mut stored.store, now).unwrap();
    assert_eq!((held(&stored), stored.store.size().rules.days), ([60, 60], 2));
    stored.source.set_rules(vec![rule("a", Some(1), vec![])]);
    let retain = |stored: &mut Stored| stored.store.retain(&Retention::default(), now, 1_000_000).unwrap();
    assert_eq!((retain(&mut stored).removed, held(&stored)), (60, [0, 60]));
    stored.source.set_rules(vec![]);
    retain(&mut stored);
    compact(&mut stored.store, now).unwrap();
    assert_eq!(held(&stored), [0, 60]);
}

#[test]
fn a_store_that_is_open_without_a_node_has_its_rules() {
    let Stored { folder, source, mut store } = stored(&[]);
    source.set_rules(vec![rule("a", Some(1000), vec![stage(24, 60_000_000, Keep::Last)])]);
    store.append(&seconds(0, "a", 3), Seq(3)).unwrap();
    compact(&mut store, at(47 * HOUR)).unwrap();
    drop(store);
    let source = HistorySource::new(folder.path());
    let mut store = Columns::open(folder.path(), source.live().clone(), MEMORY, FILE).unwrap();
    store.caught_up();
    let now = at(2000 * HOUR);
    while store.retain(&Retention::default(), now, 1_000_000).unwrap().more {}
    compact(&mut store, now).unwrap();
    let reader = source.reader().unwrap();
    assert_eq!(ask(&reader, all("a")).len(), 60);
    let rows = reader.index.rules().unwrap();
    assert_eq!(
        (rows.len(), rows[0].rule.as_str(), rows[0].counts.downsampled),
        (2, "3600000000000\t86400000000 60000000 last", 3540)
    );
}

#[test]
fn a_mean_has_each_sample_once_though_the_journal_is_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let source = HistorySource::new(folder.path());
    source.set_rules(vec![rule("a", None, vec![stage(24, 60_000_000, Keep::Mean)])]);
    let mut world = World {
        folder,
        source,
        calls_left: Arc::default(),
        store: None,
        journal: Vec::new(),
        edits: Vec::new(),
        deleted: HashSet::new(),
        last: 3,
        now: at(60 * HOUR),
    };
    world.start();
    // A sample of today before those of the day, in the journal.
    let today = entry(1, "b", 59 * HOUR, 1, Quality::GOOD);
    world.journal = [vec![today], seconds(0, "a", 2)].concat();
    world.start();
    compact(world.store.as_mut().unwrap(), world.now).unwrap();
    let means = ask(&world.source.reader().unwrap(), all("a"));
    assert_eq!((means.len(), shown(&means)[0].as_str()), (60, "0 29.5"));
    world.start();
    assert_eq!(ask(&world.source.reader().unwrap(), all("a")), means);
}
