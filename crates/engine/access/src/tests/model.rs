//! The compiled rules against the rules one by one, over all topics of a small world.

use crate::{Applies, Effect, Names, Policy, Reach, Role, Rule, Rules, Verb};
use alloc::string::String;
use alloc::vec::Vec;
use proptest::prelude::*;
use tieline_core::Filter;

const LEVELS: [&str; 4] = ["a", "b", "$s", "me"];
const NAMES: Names<'_> = Names { user: "me", client: "b" };

/// All topics of up to three levels.
fn world() -> Vec<String> {
    let mut topics: Vec<String> = LEVELS.iter().map(|level| String::from(*level)).collect();
    let mut last = topics.clone();
    for _ in 0..2 {
        last = last.iter().flat_map(|head| LEVELS.iter().map(move |level| alloc::format!("{head}/{level}"))).collect();
        topics.extend(last.iter().cloned());
    }
    topics
}

fn levels(placeholders: bool) -> impl Strategy<Value = String> {
    let words: &[&str] =
        if placeholders { &["a", "b", "$s", "+", "{user}", "{client}"] } else { &["a", "b", "$s", "+", "me"] };
    (prop::collection::vec(prop::sample::select(words), 0..3), any::<bool>()).prop_map(|(mut levels, hash)| {
        if hash || levels.is_empty() {
            levels.push("#");
        }
        levels.join("/")
    })
}

fn rule() -> impl Strategy<Value = Rule> {
    let head =
        prop::sample::select(&["allow read", "allow read", "allow command,read", "deny read", "deny command"][..]);
    (head, levels(true)).prop_map(|(head, filter)| alloc::format!("{head} {filter}").parse().unwrap())
}

fn naive(rules: &[Rule], verb: Verb, topic: &str) -> bool {
    let any = |effect| {
        let about = |rule: &&Rule| {
            let text = rule.pattern.as_str().replace("{user}", NAMES.user).replace("{client}", NAMES.client);
            Filter::new(&text).unwrap().matches(topic)
        };
        rules.iter().filter(|rule| rule.effect == effect && rule.verbs.contains(verb)).any(|rule| about(&rule))
    };
    any(Effect::Allow) && !any(Effect::Deny)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn compiled_rules_decide_as_rules_one_by_one(given in prop::collection::vec(rule(), 0..6)) {
        let compiled = Rules::new(given.clone());
        let policy = Policy::new([Role { name: "r".into(), rules: given.clone() }], []).unwrap();
        for topic in world() {
            for verb in [Verb::Read, Verb::Command, Verb::Publish] {
                let expect = naive(&given, verb, &topic);
                prop_assert_eq!(compiled.allows(verb, &topic, NAMES), expect, "{} {}", verb, &topic);
                let explained = policy.explain(&["r".into()], NAMES, verb, &topic);
                prop_assert_eq!(explained.reach == Reach::All, expect);
                let decisive = explained.steps.iter().filter(|step| step.applies != Applies::OtherVerb);
                prop_assert!(decisive.count() >= usize::from(expect));
            }
        }
    }

    #[test]
    fn what_holds_for_all_holds_for_each(given in prop::collection::vec(rule(), 0..6)) {
        let compiled = Rules::new(given);
        let all = ["me", "a", "b", "other", ""];
        let everyone = || all.iter().flat_map(|user| all.iter().map(move |client| Names { user, client }));
        for topic in world() {
            match compiled.allows_all(Verb::Read, &topic) {
                Some(expect) => for names in everyone() {
                    prop_assert_eq!(compiled.allows(Verb::Read, &topic, names), expect, "{:?} {}", names, &topic);
                },
                None => prop_assert!(compiled.is_personal(Verb::Read) || compiled.is_personal(Verb::Command), "{}", &topic),
            }
            if !compiled.is_personal(Verb::Read) {
                let expect = compiled.allows(Verb::Read, &topic, Names::default());
                prop_assert!(everyone().all(|names| compiled.allows(Verb::Read, &topic, names) == expect));
            }
        }
    }

    #[test]
    fn an_alarm_is_readable_exactly_where_its_topic_is(given in prop::collection::vec(rule(), 0..6)) {
        let compiled = Rules::new(given.clone());
        let policy = Policy::new([Role { name: "r".into(), rules: given.clone() }], []).unwrap();
        for topic in world() {
            let alarm = alloc::format!("$alarms/{topic}/high");
            let expect = compiled.decide(&topic, NAMES);
            prop_assert_eq!(compiled.decide(&alarm, NAMES), expect, "{}", &topic);
            prop_assert_eq!(compiled.allows_all(Verb::Read, &alarm), compiled.allows_all(Verb::Read, &topic));
            let explained = policy.explain(&["r".into()], NAMES, Verb::Read, &alarm);
            prop_assert_eq!(explained.reach == Reach::All, expect.contains(Verb::Read), "{}", &topic);
            let itself = Filter::new(&alarm).unwrap();
            let reach = compiled.reach(Verb::Read, &itself, NAMES);
            prop_assert!(reach == Reach::Some || (reach == Reach::All) == expect.contains(Verb::Read));
        }
    }

    #[test]
    fn all_and_nothing_are_certain_of_alarms(given in prop::collection::vec(rule(), 0..5), filter in levels(false)) {
        let filter = Filter::new(&alloc::format!("$alarms/{filter}")).unwrap();
        let reach = Rules::new(given.clone()).reach(Verb::Read, &filter, NAMES);
        let alarms = world().into_iter().flat_map(|topic| LEVELS.map(|kind| (topic.clone(), kind)));
        for (topic, kind) in alarms.filter(|(topic, kind)| filter.matches(&alloc::format!("$alarms/{topic}/{kind}"))) {
            match reach {
                Reach::All => prop_assert!(naive(&given, Verb::Read, &topic), "{} {}", topic, kind),
                Reach::Nothing => prop_assert!(!naive(&given, Verb::Read, &topic), "{} {}", topic, kind),
                Reach::Some => {}
            }
        }
    }

    #[test]
    fn all_and_nothing_are_certain(given in prop::collection::vec(rule(), 0..5), filter in levels(false)) {
        let filter = Filter::new(&filter).unwrap();
        let reach = Rules::new(given.clone()).reach(Verb::Read, &filter, NAMES);
        for topic in world().iter().filter(|topic| filter.matches(topic)) {
            match reach {
                Reach::All => prop_assert!(naive(&given, Verb::Read, topic), "{}", topic),
                Reach::Nothing => prop_assert!(!naive(&given, Verb::Read, topic), "{}", topic),
                Reach::Some => {}
            }
        }
    }

    #[test]
    fn whole_rules_and_rules_apart_are_told_apart(rule in rule(), filter in levels(false)) {
        let filter = Filter::new(&filter).unwrap();
        let world = world();
        let selected: Vec<_> = world.iter().filter(|topic| filter.matches(topic)).collect();
        let met = selected.iter().any(|topic| rule.pattern.matches(topic, NAMES));
        // The world has each level that a rule or filter can name, so that topics which both select are in it.
        prop_assert_eq!(rule.pattern.meets(&filter, NAMES), met);
        let within = |topic: &str| rule.pattern.within(&filter, NAMES).is_some_and(|both| both.matches(topic));
        for topic in &world {
            prop_assert_eq!(within(topic), filter.matches(topic) && rule.pattern.matches(topic, NAMES), "{}", topic);
        }
        if rule.pattern.covers(&filter, NAMES) {
            prop_assert!(selected.iter().all(|topic| rule.pattern.matches(topic, NAMES)));
        }
    }
}
