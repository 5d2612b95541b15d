use crate::{Names, Policy, Question, Role, User, Verb};
use alloc::format;
use alloc::string::{String, ToString};

#[test]
fn a_question_is_answered_with_its_reason() {
    let works = Role::parse("works", ["allow read,command site/#", "deny command +/trip"]).unwrap();
    let disabled = User { disabled: true, ..User::new("dora", ["works"]) };
    let policy = Policy::new([works], [User::new("anna", ["works"]), disabled]).unwrap();
    let answer = |user: &str, roles: &[&str], verb, topic: &str| -> String {
        let roles = roles.iter().map(|role| (*role).into()).collect();
        match policy.why(Question { names: Names { user, client: "" }, roles, verb, topic }) {
            Ok(why) => format!("{}: {}", why.reach_word(), why.conclusion()),
            Err(error) => error.to_string(),
        }
    };
    let check = |user: &str, roles: &[&str], verb, topic: &str, expect: &str| {
        assert_eq!(answer(user, roles, verb, topic), expect, "{user} {roles:?} {verb} {topic}");
    };
    check("anna", &[], Verb::Command, "site/a", "all: a rule allows it, and none denies it");
    check("anna", &[], Verb::Command, "site/trip", "nothing: a rule that denies outweighs all that allow");
    check("anna", &[], Verb::Publish, "site/a", "nothing: what no rule allows is denied");
    check("anna", &[], Verb::Read, "site/#", "all: it is allowed for every topic of the filter");
    check("anna", &[], Verb::Command, "site/#", "some: it is allowed for some topics of the filter only");
    check(
        "anna",
        &[],
        Verb::Read,
        "#",
        "some: only some topics of the filter may be read; the others are not delivered",
    );
    check("anna", &[], Verb::Read, "x/#", "nothing: no topic of the filter may be read: the subscription is refused");
    check("anna", &[], Verb::Publish, "x/#", "nothing: it is allowed for no topic of the filter");
    check("anna", &["VIEWER"], Verb::Read, "x", "all: a rule allows it, and none denies it");
    check("dora", &[], Verb::Read, "site/a", "nothing: the user is disabled");
    check("eve", &[], Verb::Read, "site/a", "there is no user \"eve\"");
    check("eve", &["VIEWER"], Verb::Read, "site/a", "all: a rule allows it, and none denies it");
    check("anna", &["none"], Verb::Read, "site/a", "there is no role \"none\"");
    assert!(answer("anna", &[], Verb::Read, "a/#/b").starts_with("\"a/#/b\" is no topic and no filter: "));
}
