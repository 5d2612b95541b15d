//! What is said, second by second: scripts, one word a second, and the messages that go out.

extern crate std;

use crate::{AlarmName, Choice, End, Message, Notice, Notify, Outcome, Route, RouteError, Settings, Standing, Step};
use alloc::sync::Arc;
use alloc::vec::Vec;
use alloc::{format, string::String, vec};
use core::time::Duration;
use tieline_core::{Filter, Now, Timestamp, Topic, Value, Words};

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

pub(crate) fn route(filter: &str, severity_min: u16, steps: &[(&str, u64)], wait: u64, repeat: u64) -> Route {
    let choice = Choice { filter: Filter::new(filter).unwrap(), severity_min, groups: vec![] };
    let steps = steps.iter().map(|(to, after)| Step { to: Arc::from(*to), after: seconds(*after) }).collect();
    Route::new(choice, steps, seconds(wait), Some(seconds(repeat)).filter(|repeat| !repeat.is_zero())).unwrap()
}

pub(crate) fn notice(topic: &str, seq: u64, standing: Standing) -> Notice {
    Notice {
        alarm: AlarmName { topic: Topic::new(topic).unwrap(), kind: "high".into() },
        seq,
        standing,
        priority: "high".into(),
        severity: 700,
        state: "unacknowledged".into(),
        group: "feeders".into(),
        text: "overload".into(),
        value: Value::Float(412.0),
        since: Timestamp::from_millis(1_000_000),
        count: 0,
    }
}

/// `second topic kind` of each message, or `second !topic kind` of one about several.
fn shown(second: u64, message: &Message) -> String {
    let topic = message.alarms.first().map_or("", |alarm| &*alarm.alarm.topic);
    let kind = message.kind.word();
    format!("{second} {} {kind} {topic} x{}", message.to, message.total)
}

struct Script {
    notify: Notify,
    now: Now,
    second: u64,
    said: Vec<String>,
}

impl Script {
    fn new(routes: Vec<Route>) -> Self {
        let settings = Settings { retry_for: seconds(30), summary_every: seconds(20), ..Settings::default() };
        Self { notify: Notify::new(settings, routes), now: Now::default(), second: 0, said: vec![] }
    }

    fn alarm(&mut self, topic: &str, seq: u64, standing: Standing) -> &mut Self {
        self.notify.handle_notice(self.now, notice(topic, seq, standing));
        self
    }

    fn flood(&mut self, is_on: bool) -> &mut Self {
        self.notify.handle_flood(self.now, is_on);
        self
    }

    /// Seconds pass; every attempt has this outcome.
    fn pass(&mut self, count: u64, outcome: Outcome) -> &mut Self {
        for _ in 0..=count {
            self.notify.handle_timeout(self.now);
            while let Some(message) = self.notify.poll_send(self.now) {
                self.said.push(shown(self.second, &message));
                self.notify.handle_outcome(self.now, message.id, outcome);
                self.notify.handle_timeout(self.now);
            }
            self.now = self.now.later(seconds(1));
            self.second += 1;
        }
        self
    }

    fn check(&mut self, expect: &[&str]) {
        assert_eq!(self.said, expect);
        self.said.clear();
    }
}

#[test]
fn steps_go_on_until_a_person_acknowledges_and_all_who_were_told_hear_the_end() {
    let mut script = Script::new(vec![route("site/#", 500, &[("duty", 0), ("chief", 60), ("head", 120)], 5, 0)]);
    script.alarm("site/a", 1, Standing::Calling).pass(99, Outcome::Delivered);
    script.check(&["5 duty raised site/a x1", "60 chief raised site/a x1"]);
    script.alarm("site/a", 1, Standing::Acknowledged).pass(99, Outcome::Delivered).check(&[]);
    script.alarm("site/a", 1, Standing::Returned).pass(9, Outcome::Delivered);
    script.check(&["200 chief resolved site/a x1", "200 duty resolved site/a x1"]);
    assert_eq!((script.notify.timeout(), script.notify.waiting()), (None, 0));
}

#[test]
fn a_receiver_is_not_told_that_it_fails_itself() {
    let (own, other) = ("$SYS/conditions/receiver/duty", "$SYS/conditions/receiver/chief");
    let steps = [("duty", 0), ("chief", 60), ("duty", 90), ("head", 120)];
    let mut script = Script::new(vec![route("#", 0, &steps, 5, 200)]);
    script.alarm(own, 1, Standing::Calling).pass(399, Outcome::Delivered);
    script.check(&[
        &format!("5 chief raised {own} x1"),
        &format!("35 head raised {own} x1"),
        &format!("235 chief repeated {own} x1"),
        &format!("235 head repeated {own} x1"),
    ]);
    script.alarm(own, 1, Standing::Returned).pass(9, Outcome::Delivered);
    script.check(&[&format!("400 chief resolved {own} x1"), &format!("400 head resolved {own} x1")]);
    script.alarm(other, 2, Standing::Calling).pass(9, Outcome::Delivered);
    script.check(&[&format!("415 duty raised {other} x1")]);
    // Nobody else is there: nobody is told, and nothing goes round.
    let mut script = Script::new(vec![route("$SYS/#", 0, &[("duty", 0)], 5, 20)]);
    script.alarm(own, 1, Standing::Calling).pass(399, Outcome::Failed).check(&[]);
    script.flood(true).pass(99, Outcome::Failed).flood(false).pass(99, Outcome::Failed).check(&[]);
}

#[test]
fn a_filter_of_all_topics_takes_alarms_of_the_node_itself() {
    let check = |filter: &str, topic: &str, expect: bool| {
        let route = route(filter, 0, &[("duty", 0)], 0, 0);
        assert_eq!(route.takes(&notice(topic, 1, Standing::Calling)), expect, "{filter} {topic}");
    };
    check("#", "$SYS/conditions/disk", true);
    check("$SYS/#", "$SYS/conditions/disk", true);
    check("+/#", "$SYS/conditions/disk", false);
    check("site/#", "$SYS/conditions/disk", false);
}

#[test]
fn what_ends_before_its_first_step_is_never_heard_of() {
    for standing in [Standing::Returned, Standing::Consequence, Standing::Hidden, Standing::Acknowledged] {
        let mut script = Script::new(vec![route("#", 0, &[("duty", 0)], 5, 9)]);
        script.alarm("site/a", 1, Standing::Calling).pass(3, Outcome::Delivered);
        script.alarm("site/a", 1, standing).pass(99, Outcome::Delivered).check(&[]);
        script.alarm("site/a", 1, Standing::Returned).pass(9, Outcome::Delivered).check(&[]);
        assert_eq!(script.notify.timeout(), None);
    }
}

#[test]
fn a_route_takes_what_its_filter_severity_and_group_allow() {
    let check = |filter: &str, severity: u16, groups: &[&str], expect: bool| {
        let groups = groups.iter().map(|group| Arc::from(*group)).collect();
        let choice = Choice { filter: Filter::new(filter).unwrap(), severity_min: severity, groups };
        let steps = vec![Step { to: "duty".into(), after: Duration::ZERO }];
        let route = Route::new(choice, steps, Duration::ZERO, None).unwrap();
        assert_eq!(route.takes(&notice("site/a", 1, Standing::Calling)), expect, "{route:?}");
    };
    check("site/#", 700, &[], true);
    check("site/#", 701, &[], false);
    check("other/#", 0, &[], false);
    check("site/+", 0, &["pumps", "feeders"], true);
    check("site/+", 0, &["pumps"], false);
}

#[test]
fn routes_that_cannot_be_are_refused() {
    let check = |steps: &[u64], repeat: Option<u64>, expect: RouteError| {
        let choice = Choice { filter: Filter::new("#").unwrap(), severity_min: 0, groups: vec![] };
        let steps = steps.iter().map(|after| Step { to: "x".into(), after: seconds(*after) }).collect();
        assert_eq!(Route::new(choice, steps, Duration::ZERO, repeat.map(seconds)), Err(expect));
    };
    check(&[], None, RouteError::NoStep);
    check(&[0; 17], None, RouteError::TooManySteps);
    check(&[5, 4], None, RouteError::Order);
    check(&[5], Some(0), RouteError::Repeat);
}

#[test]
fn it_is_repeated_while_it_calls() {
    let mut script = Script::new(vec![route("#", 0, &[("duty", 0), ("chief", 10)], 0, 60)]);
    script.alarm("a", 1, Standing::Calling).pass(75, Outcome::Delivered);
    let told = ["0 duty raised a x1", "10 chief raised a x1", "70 chief repeated a x1", "70 duty repeated a x1"];
    script.check(&told);
    script.alarm("a", 2, Standing::Calling).pass(5, Outcome::Delivered).check(&["76 duty raised a x1"]);
}

#[test]
fn a_receiver_that_fails_is_tried_again_and_given_up() {
    let mut script = Script::new(vec![route("#", 0, &[("duty", 0)], 0, 0)]);
    script.alarm("a", 1, Standing::Calling).pass(3, Outcome::Failed);
    script.alarm("a", 1, Standing::Returned).pass(59, Outcome::Failed);
    let raised = [0, 1, 3, 7, 15, 31].map(|second| format!("{second} duty raised a x1"));
    let resolved = [31, 32, 34, 38, 46, 62].map(|second| format!("{second} duty resolved a x1"));
    assert_eq!(script.said, [raised, resolved].concat());
    let stats = script.notify.stats();
    assert_eq!((stats.made, stats.failures, stats.given_up, stats.delivered), (2, 12, 2, 0));
}

#[test]
fn an_empty_shift_falls_to_the_next_step() {
    let mut script = Script::new(vec![route("#", 0, &[("duty", 0), ("chief", 600)], 0, 0)]);
    script.alarm("a", 1, Standing::Calling).pass(3, Outcome::Nobody);
    script.check(&["0 duty raised a x1", "0 chief raised a x1"]);
    script.alarm("a", 1, Standing::Returned).pass(3, Outcome::Delivered).check(&[]);
    assert_eq!(script.notify.stats().nobody, 2);
}

#[test]
fn a_flood_has_summaries_and_an_end() {
    let mut script = Script::new(vec![route("#", 0, &[("duty", 0)], 0, 0)]);
    script.flood(true).alarm("a", 1, Standing::Calling).pass(1, Outcome::Delivered);
    script.alarm("b", 2, Standing::Calling).alarm("c", 3, Standing::Calling).pass(9, Outcome::Delivered);
    script.check(&["5 duty flood c x3"]);
    script.alarm("d", 4, Standing::Calling).alarm("a", 1, Standing::Returned).pass(20, Outcome::Delivered);
    script.check(&["25 duty flood d x3"]);
    script.alarm("d", 4, Standing::Acknowledged).flood(false).pass(9, Outcome::Delivered);
    script.check(&["33 duty flood_over c x2"]);
    script.alarm("e", 5, Standing::Calling).pass(0, Outcome::Delivered).check(&["43 duty raised e x1"]);
}

#[test]
fn a_test_arrives_and_unknown_outcomes_change_nothing() {
    let mut script = Script::new(vec![]);
    let id = script.notify.send_test(script.now, &"duty".into()).unwrap();
    assert_eq!(script.notify.handle_outcome(script.now, id, Outcome::Delivered), None);
    let message = script.notify.poll_send(script.now).unwrap();
    assert_eq!((message.id, message.kind.word()), (id, "test"));
    assert_eq!(script.notify.handle_outcome(script.now, id, Outcome::Refused), Some(End::Refused));
    assert_eq!(script.notify.handle_outcome(script.now, id, Outcome::Refused), None);
}

#[test]
fn other_routes_and_receivers_take_over() {
    let mut script = Script::new(vec![route("#", 0, &[("duty", 0)], 0, 0)]);
    script.alarm("a", 1, Standing::Calling).pass(0, Outcome::Failed).check(&["0 duty raised a x1"]);
    let routes = vec![route("#", 0, &[("chief", 0)], 0, 0)];
    script.notify.handle_routes(script.now, routes, &|name| name == "chief");
    script.pass(9, Outcome::Delivered).check(&["1 chief raised a x1"]);
    script.alarm("a", 1, Standing::Returned).pass(9, Outcome::Delivered).check(&["11 chief resolved a x1"]);
    assert_eq!(script.notify.stats().dropped, 1);
}

#[test]
fn limits_are_counted() {
    let settings = Settings { alarms_max: 1, messages_max: 1, ..Settings::default() };
    let mut notify = Notify::new(settings, vec![route("#", 0, &[("duty", 0)], 0, 0)]);
    notify.handle_notice(Now::default(), notice("a", 1, Standing::Calling));
    notify.handle_notice(Now::default(), notice("b", 2, Standing::Calling));
    notify.handle_timeout(Now::default());
    assert_eq!(notify.send_test(Now::default(), &"duty".into()), None);
    let stats = notify.stats();
    assert_eq!((stats.not_followed, stats.made, stats.dropped, notify.waiting()), (1, 1, 1, 1));
}

#[test]
fn what_holds_is_one_standing() {
    let check = |words: &str, expect: Standing| {
        let has = |word: &str| words.split(' ').any(|one| one == word);
        let holds = crate::Holds {
            is_active: has("active"),
            is_acked: has("acked"),
            is_hidden: has("hidden"),
            is_consequence: has("consequence"),
            is_chattering: has("chattering"),
        };
        assert_eq!(Standing::of(holds), expect, "{words}");
    };
    check("", Standing::Returned);
    check("acked hidden", Standing::Returned);
    check("active", Standing::Calling);
    check("chattering", Standing::Calling);
    check("active hidden acked", Standing::Hidden);
    check("active acked consequence", Standing::Acknowledged);
    check("active consequence", Standing::Consequence);
}
