mod administration;
mod logins;
mod model;
mod sessions;
mod sums;
mod why;

use crate::{Applies, Bucket, Names, Pattern, Policy, PolicyError, Reach, Role, Rule, Rules, User, Verb, iec_role};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;
use tieline_core::{Filter, Instant};

const NAMES: Names<'_> = Names { user: "anna", client: "desk" };

fn rules(texts: &[&str]) -> Rules {
    Rules::new(texts.iter().map(|text| text.parse().unwrap()).collect())
}

#[test]
fn decisions_are_denied_by_default_and_denials_win() {
    let check = |texts: &[&str], topic: &str, expect: &str| {
        assert_eq!(rules(texts).decide(topic, NAMES).to_string(), expect, "{texts:?} on {topic}");
    };
    check(&[], "a", "nothing");
    check(&["allow read a/#"], "a", "read");
    check(&["allow read a/#"], "a/b/c", "read");
    check(&["allow read a/#"], "ab", "nothing");
    check(&["allow read,command a/#", "deny command a/+/trip"], "a/b/trip", "read");
    check(&["deny all #", "allow all a"], "a", "nothing");
    check(&["allow all +/b"], "a/b", "read,publish,command,acknowledge,admin");
    check(&["allow read #"], "$SYS/uptime", "nothing");
    check(&["allow read +/uptime"], "$SYS/uptime", "nothing");
    check(&["allow read $SYS/#"], "$SYS/uptime", "read");
    check(&["allow publish dev/{user}/#"], "dev/anna/x", "publish");
    check(&["allow publish dev/{user}/#"], "dev/desk/x", "nothing");
    check(&["allow publish dev/{client}/#"], "dev/desk", "publish");
    check(&["allow read a/+", "allow publish a/b", "allow command a/#"], "a/b", "read,publish,command");
    check(&["allow read /a"], "/a", "read");
    check(&["allow read with space "], "with space ", "read");
}

#[test]
fn a_decision_holds_for_all_where_no_rule_of_a_name_was_looked_at() {
    let rules = rules(&["allow read site/#", "deny read site/secret", "allow read notes/{user}/#"]);
    let check = |topic: &str, expect: Option<bool>| assert_eq!(rules.allows_all(Verb::Read, topic), expect, "{topic}");
    check("site/a", Some(true));
    check("site/secret", Some(false));
    check("other", Some(false));
    check("notes", Some(false));
    check("notes/anna/x", None);
}

#[test]
fn rules_are_personal_for_the_verbs_that_name_somebody() {
    let operator = Rules::new(iec_role("OPERATOR").unwrap().rules);
    assert_eq!([Verb::Read, Verb::Publish].map(|verb| operator.is_personal(verb)), [false, true]);
}

#[test]
fn names_that_are_no_level_stand_for_nothing() {
    let rules = rules(&["allow read dev/{client}/#", "allow read {client}/#"]);
    for client in ["+", "#", "", "a/b", "$SYS", "a+"] {
        let names = Names { user: "anna", client };
        for topic in ["dev/a/b/x", "dev/+/x", "dev//x", "$SYS/x", "dev/a+/x"] {
            assert!(rules.decide(topic, names).is_empty(), "{client:?} on {topic}");
        }
        for filter in ["dev/+/#", "dev/#", "#", "$SYS/#", "+/x"] {
            assert_eq!(
                rules.reach(Verb::Read, &Filter::new(filter).unwrap(), names),
                Reach::Nothing,
                "{client:?} on {filter}"
            );
        }
    }
}

#[test]
fn a_filter_is_read_whole_in_part_or_not_at_all() {
    let check = |texts: &[&str], filter: &str, expect: Reach| {
        assert_eq!(
            rules(texts).reach(Verb::Read, &Filter::new(filter).unwrap(), NAMES),
            expect,
            "{texts:?} on {filter}"
        );
    };
    check(&["allow read #"], "#", Reach::All);
    check(&["allow read #"], "a/+", Reach::All);
    check(&["allow read #"], "$SYS/#", Reach::Nothing);
    check(&["allow read a/#"], "#", Reach::Some);
    check(&["allow read a/#"], "a/#", Reach::All);
    check(&["allow read a/#"], "a", Reach::All);
    check(&["allow read a/#"], "b/#", Reach::Nothing);
    check(&["allow read a/+"], "a/#", Reach::Some);
    check(&["allow read #", "deny read a/secret"], "a/#", Reach::Some);
    check(&["allow read #", "deny read a/secret"], "b/#", Reach::All);
    check(&["allow read #", "deny read a/#"], "a/+", Reach::Nothing);
    check(&["allow read a/{user}"], "a/+", Reach::Some);
    check(&["allow read a/{user}"], "a/anna", Reach::All);
    check(&["allow read $SYS/#"], "#", Reach::Nothing);
    check(&["allow read $SYS/#"], "+/a", Reach::Nothing);
    check(&["allow read a"], "a/#", Reach::Some);
    check(&["allow command #"], "#", Reach::Nothing);
    // What is denied of all that is allowed leaves nothing.
    check(&["allow read a/#", "deny read a/#"], "#", Reach::Nothing);
    check(&["allow read +/x", "deny read a/+"], "a/#", Reach::Nothing);
    check(&["allow read +/x", "deny read a/+"], "#", Reach::Some);
}

#[test]
fn a_filter_is_explained_rule_by_rule() {
    let texts = ["allow read a/#", "deny read a/+/secret", "allow read b/#", "allow command a/#", "deny read a/b/#"];
    let role = Role::parse("r", texts).unwrap();
    let policy = Policy::new([role], []).unwrap();
    let check = |verb, filter: &str, reach, expect: [Applies; 5]| {
        let explained = policy.explain_filter(&["r".into()], NAMES, verb, &Filter::new(filter).unwrap());
        let applies: Vec<_> = explained.steps.iter().map(|step| step.applies).collect();
        assert_eq!((explained.reach, applies), (reach, expect.to_vec()), "{verb} {filter}");
    };
    use Applies::{Allows, AllowsSome, Denies, DeniesSome, OtherTopic, OtherVerb};
    check(Verb::Read, "#", Reach::Some, [AllowsSome, DeniesSome, AllowsSome, OtherVerb, DeniesSome]);
    check(Verb::Read, "a/+", Reach::Some, [Allows, OtherTopic, OtherTopic, OtherVerb, DeniesSome]);
    check(Verb::Read, "a/b/+", Reach::Nothing, [Allows, DeniesSome, OtherTopic, OtherVerb, Denies]);
    check(Verb::Read, "b/#", Reach::All, [OtherTopic, OtherTopic, Allows, OtherVerb, OtherTopic]);
    check(Verb::Command, "a/+", Reach::All, [OtherVerb, OtherVerb, OtherVerb, Allows, OtherVerb]);
}

#[test]
fn rules_say_what_is_wrong_with_them() {
    let check = |text: &str, expect: &str| {
        let shown = text.parse::<Rule>().map_or_else(|error| error.to_string(), |rule| rule.to_string());
        assert_eq!(shown, expect);
    };
    check("allow read a/b", "allow read a/b");
    check("deny  command,read  +/{user}/#", "deny read,command +/{user}/#");
    check("allow read,publish,command,acknowledge,admin #", "allow all #");
    check("allow read", "a rule has an effect, verbs and a topic filter, as in \"allow read site/#\"");
    check("permit read #", "a rule begins with \"permit\", expected allow or deny");
    check("allow write #", "\"write\" is no verb, expected read, publish, command, acknowledge, admin or all");
    check("allow read, #", "\"\" is no verb, expected read, publish, command, acknowledge, admin or all");
    check("allow read a/{usr}", "the level \"{usr}\" is neither {user} nor {client}");
    check("allow read a/x{user}", "the level \"x{user}\" is neither {user} nor {client}");
    check("allow read a/#/b", "# must be the whole last level of a filter, as in site/#");
}

#[test]
fn roles_of_the_standard_do_what_their_names_say() {
    let check = |role: &str, topic: &str, expect: &str| {
        let policy = Policy::new([], [User::new("anna", [role])]).unwrap();
        assert_eq!(policy.rules_of("anna").unwrap().decide(topic, NAMES).to_string(), expect, "{role} on {topic}");
    };
    for role in ["VIEWER", "OPERATOR", "ENGINEER", "INSTALLER"] {
        let rights = match role {
            "OPERATOR" => "read,command,acknowledge",
            "ENGINEER" => "read,publish,acknowledge,admin",
            "INSTALLER" => "read,publish",
            _ => "read",
        };
        check(role, "site/relay/breaker", rights);
        let acknowledges = matches!(role, "OPERATOR" | "ENGINEER");
        check(role, "$SYS/x", if acknowledges { "read,acknowledge" } else { "read" });
        check(role, "$alarms-journal", "read");
        check(role, "$replay/main/x", if role == "ENGINEER" { "read,publish" } else { "read" });
        check(role, "$audit", "nothing");
        check(role, "$access/users", "nothing");
    }
    check("ENGINEER", "$boards", "admin");
    check("OPERATOR", "$boards", "nothing");
    check("SECADM", "$access/users", "read,admin");
    check("SECADM", "site/relay/breaker", "nothing");
    check("SECAUD", "$audit", "read");
    check("RBACMNT", "$access/roles", "read,admin");
    check("RBACMNT", "$access/users", "read");
    check("OPERATOR", "reply/desk/1", "read,publish,command,acknowledge");
    assert_eq!(iec_role("viewer"), None);
    for (name, texts) in crate::IEC_ROLES {
        assert_eq!(iec_role(name).unwrap().rules.len(), texts.len(), "{name}");
    }
}

#[test]
fn roles_and_users_must_fit() {
    let role = |name| Role::parse(name, ["allow read #"]).unwrap();
    let check = |roles: Vec<Role>, users: Vec<User>, expect: Result<(), PolicyError>| {
        assert_eq!(Policy::new(roles, users).map(drop), expect);
    };
    check([role("r")].into(), [User::new("u", ["r", "VIEWER"])].into(), Ok(()));
    let missing = PolicyError::Role { user: "u".into(), role: "r".into() };
    check([].into(), [User::new("u", ["r"])].into(), Err(missing));
    check([role("r"), role("r")].into(), [].into(), Err(PolicyError::Twice("r".into())));
    let long = "x".repeat(129);
    for name in ["", "a/b", "+", "#", "$x", "a\nb", &long] {
        check([].into(), [User::new(name, [])].into(), Err(PolicyError::Name(name.into())));
    }
    // A role of one's own takes the place of the standard's.
    let policy = Policy::new([Role::parse("VIEWER", ["allow read a"]).unwrap()], [User::new("anna", ["VIEWER"])]);
    assert!(policy.unwrap().rules_of("anna").unwrap().decide("b", NAMES).is_empty());
}

#[test]
fn a_decision_is_explained_rule_by_rule() {
    let role =
        Role::parse("r", ["allow read a/#", "allow command b", "allow command a/#", "deny command a/b"]).unwrap();
    let policy = Policy::new([role], []).unwrap();
    let explained = policy.explain(&["r".into()], NAMES, Verb::Command, "a/b");
    let applies: Vec<_> = explained.steps.iter().map(|step| step.applies).collect();
    assert_eq!(applies, [Applies::OtherVerb, Applies::OtherTopic, Applies::Allows, Applies::Denies]);
    assert_eq!(explained.reach, Reach::Nothing);
    assert_eq!(policy.explain(&["r".into()], NAMES, Verb::Command, "a/c").reach, Reach::All);
}

#[test]
fn a_bucket_lets_its_rate_through() {
    let at = |ms| Instant::ZERO + Duration::from_millis(ms);
    let mut bucket = Bucket::full(10, at(0));
    assert_eq!((0..20).filter(|_| bucket.take(at(0), 1)).count(), 10);
    assert_eq!(bucket.full_in(), Duration::from_secs(1));
    assert!(!bucket.take(at(99), 1) && bucket.take(at(100), 1) && !bucket.has_one(at(100)));
    assert_eq!(
        (100..1100).filter(|ms| bucket.take(at(*ms), 1)).count(),
        9,
        "one each 100 ms, of the 10 at 1100 none yet"
    );
    // What is larger than all passes when it is full, and then nothing for a while.
    assert!(bucket.take(at(5000), 1_000_000) && !bucket.take(at(5050), 1));
    // A clock that stands still or a long time brings no more than it holds.
    assert_eq!((0..20).filter(|_| bucket.take(Instant(u64::MAX), 1)).count(), 10);
}

#[test]
fn rights_to_an_alarm_are_those_to_its_topic() {
    let check = |texts: &[&str], topic: &str, expect: &str| {
        assert_eq!(rules(texts).decide(topic, NAMES).to_string(), expect, "{texts:?} on {topic}");
    };
    check(&["allow read site/#"], "$alarms/site/a/high", "read");
    check(&["allow read site/#"], "$alarms/site/high", "read");
    check(&["allow read site/#"], "$alarms/other/high", "nothing");
    check(&["allow read site/a/high"], "$alarms/site/a/high", "nothing");
    check(&["allow read site/#", "deny read site/a"], "$alarms/site/a/high", "nothing");
    check(&["allow read,acknowledge a/{user}"], "$alarms/a/anna/high", "read,acknowledge");
    check(&["allow read #"], "$alarms/$SYS/disk/state", "nothing");
    check(&["allow read $SYS/#"], "$alarms/$SYS/disk/state", "read");
    // Rules about the topics of alarms themselves have no effect, and the journal is no alarm.
    check(&["allow read $alarms/#"], "$alarms/site/a/high", "nothing");
    check(&["allow read site/#", "deny read $alarms/#"], "$alarms/site/a/high", "read");
    check(&["allow read #"], "$alarms-journal", "nothing");
    check(&["allow read $alarms-journal"], "$alarms-journal", "read");
}

#[test]
fn filters_of_alarms_are_read_whole_in_part_or_not_at_all() {
    let check = |texts: &[&str], filter: &str, expect: Reach| {
        let (rules, filter) = (rules(texts), Filter::new(filter).unwrap());
        assert_eq!(rules.reach(Verb::Read, &filter, NAMES), expect, "{texts:?} on {filter:?}");
        let texts = texts.iter().copied();
        let policy = Policy::new([Role::parse("r", texts).unwrap()], []).unwrap();
        let explained = policy.explain_filter(&["r".into()], NAMES, Verb::Read, &filter);
        assert_eq!(explained.reach, expect);
    };
    check(&["allow read site/#"], "$alarms/site/#", Reach::All);
    check(&["allow read site/#"], "$alarms/site/a/+", Reach::All);
    check(&["allow read site/#"], "$alarms/site/+/high", Reach::All);
    check(&["allow read site/a/#"], "$alarms/site/#", Reach::Some);
    // `$alarms/site/a/#` selects the alarm `a` of `site`.
    check(&["allow read site/a/#"], "$alarms/site/a/#", Reach::Some);
    check(&["allow read site/b/#"], "$alarms/site/a/#", Reach::Nothing);
    check(&["allow read #"], "$alarms/#", Reach::Some);
    check(&["allow read $SYS/#"], "$alarms/#", Reach::Some);
    check(&["allow read $SYS/#"], "$alarms/$SYS/#", Reach::All);
    check(&["allow command #"], "$alarms/#", Reach::Nothing);
    check(&["allow read $alarms/#"], "$alarms/site/#", Reach::Nothing);
    check(&["allow read #"], "$alarms-journal", Reach::Nothing);
}

#[test]
fn patterns_show_as_they_were_written() {
    let pattern = Pattern::new("a/{user}/+/#").unwrap();
    assert_eq!(pattern.to_string(), "a/{user}/+/#");
    assert_eq!(pattern.as_str(), "a/{user}/+/#");
    let _: String = alloc::format!("{pattern:?}");
}
