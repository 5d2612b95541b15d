//! What a look finds, as data; and a bus that alarms its own conditions.

use super::*;
use crate::bus::alone::alone;
use crate::config::AlarmConfig;
use std::path::PathBuf;
use tieline_alarms::{Kind, Rules, Settings};
use tieline_senders::SenderKind;

fn shown(found: Found) -> Vec<String> {
    let of = |(topic, value): (Topic, Option<Value>)| {
        let value = value.map_or_else(|| "?".to_owned(), |value| format!("{value:?}"));
        format!("{} {value}", topic.strip_prefix(CONDITIONS).unwrap())
    };
    found.0.into_iter().map(of).collect()
}

fn check(add: impl FnOnce(&mut Found), expect: &[&str]) {
    let mut found = Found::default();
    add(&mut found);
    assert_eq!(shown(found), expect);
}

#[test]
fn a_full_disk_is_one_condition_and_a_disk_that_fails_another() {
    let failed = HistoryState::Failed { why: "io".to_owned() };
    let full = LedgerState::Failing { full: true, why: String::new() };
    let broken = LedgerState::Failing { full: false, why: String::new() };
    let hung = LedgerState::Hung { age: Duration::from_secs(6) };
    let check = |history: Option<&HistoryState>, ledger: &LedgerState, expect: &[&str]| {
        check(|found| found.add_disk(history, ledger), expect);
    };
    let fine = ["disk Bool(false)", "history Bool(false)", "ledger Bool(false)"];
    check(None, &LedgerState::Off, &[]);
    check(None, &LedgerState::Good, &["disk Bool(false)", "ledger Bool(false)"]);
    check(Some(&HistoryState::Ok), &LedgerState::Off, &["disk Bool(false)", "history Bool(false)"]);
    check(Some(&HistoryState::CatchingUp), &LedgerState::Mending, &fine);
    let is_full = ["disk Bool(true)", "history Bool(false)", "ledger Bool(false)"];
    check(Some(&HistoryState::DiskFull), &LedgerState::Good, &is_full);
    check(Some(&HistoryState::Ok), &full, &is_full);
    check(Some(&failed), &broken, &["disk Bool(false)", "history Bool(true)", "ledger Bool(true)"]);
    check(Some(&HistoryState::DiskFull), &hung, &["disk Bool(true)", "history Bool(false)", "ledger Bool(true)"]);
}

#[test]
fn a_file_has_the_days_of_its_first_certificate_to_end() {
    let now = Timestamp::from_millis(1_800_000_000_000);
    let expiry = |file: &str, hours: i64| Expiry {
        file: PathBuf::from(file),
        subject: "CN=node".to_owned(),
        not_after: Timestamp::from_millis(now.millis() + hours * 3_600_000),
    };
    let some = [expiry("/t/a.pem", 24 * 400), expiry("/t/a.pem", 71), expiry("b.pem", -1), expiry("c#.pem", 24 * 30)];
    let expect = [
        "certificate/b.pem Int(-1)",
        "certificate/c_.pem Int(30)",
        "certificate/t/a.pem Int(2)",
        "certificate_files Bool(true)",
    ];
    check(|found| found.add_certificates(now, &some, true), &expect);
    check(|found| found.add_certificates(now, &[], false), &[]);
}

#[test]
fn what_was_not_tried_yet_is_not_known() {
    let database = |trouble: Option<&str>, position, missing_records, given_up_records| DatabaseStatus {
        name: "plant".to_owned(),
        trouble: trouble.map(str::to_owned),
        position,
        missing_records,
        given_up_records,
        ..DatabaseStatus::default()
    };
    let seq = Some(tieline_journal::Seq::default());
    check(|found| found.add_database(&database(None, None, 0, 0)), &["database/plant ?", "database_lost/plant Int(0)"]);
    let expect = ["database/plant Bool(false)", "database_lost/plant Int(3)"];
    check(|found| found.add_database(&database(None, seq, 3, 0)), &expect);
    let expect = ["database/plant Bool(true)", "database_lost/plant Int(7)"];
    check(|found| found.add_database(&database(Some("refused"), seq, 3, 4)), &expect);
    let at = Timestamp::from_millis(1);
    let new = ReceiverState {
        kind: SenderKind::Webhook,
        waiting: 1,
        delivered: None,
        failure: None,
        failing_since: None,
        nobody: None,
    };
    let failing = ReceiverState { failure: Some((at, "500".to_owned())), failing_since: Some(at), ..new.clone() };
    let again = ReceiverState { delivered: Some(at), failing_since: None, ..failing.clone() };
    check(|found| found.add_receiver("duty", &new), &["receiver/duty ?"]);
    check(|found| found.add_receiver("duty", &failing), &["receiver/duty Bool(true)"]);
    check(|found| found.add_receiver("duty", &again), &["receiver/duty Bool(false)"]);
}

#[test]
fn counts_of_what_is_lost_stay_as_they_were_said() {
    let site = |lost| SiteSeen { lost, ..SiteSeen::default() };
    let mut said = Found::default();
    said.add_site(&site(2));
    let mut found = Found::default();
    found.add_site(&site(3));
    found.add_database(&DatabaseStatus { name: "new".to_owned(), missing_records: 4, ..DatabaseStatus::default() });
    found.add(Condition::BreakGlass, "", Some(Value::Int(1)));
    found.keep_lost(&said);
    let expect = [
        "break_glass Int(1)",
        "centre Bool(true)",
        "centre_lost Int(2)",
        "clock_offset ?",
        "database/new ?",
        "database_lost/new Int(4)",
    ];
    assert_eq!(shown(found), expect);
}

#[test]
fn a_site_that_is_not_connected_does_not_know_its_clock() {
    let site = |link, clock_offset| SiteSeen { link, clock_offset, lost: 2, ..SiteSeen::default() };
    let check = |site: SiteSeen, expect: &[&str]| check(|found| found.add_site(&site), expect);
    let connecting = ["centre Bool(true)", "centre_lost Int(2)", "clock_offset ?"];
    check(site(FabricLink::Connecting, None), &connecting);
    check(site(FabricLink::Away("refused".to_owned()), Some((5, 1))), &connecting);
    let up = ["centre Bool(false)", "centre_lost Int(2)", "clock_offset Float(1.2)"];
    check(site(FabricLink::Up, Some((-1_290_000, 1))), &up);
}

fn config(with_conditions: bool) -> AlarmConfig {
    AlarmConfig { rules: Rules::default().with_conditions(None), settings: Settings::default(), with_conditions }
}

fn alarms(bus: &Bus) -> Vec<String> {
    let mut all: Vec<String> = bus.alarms().map(|alarm| alarm.record.id.to_string()).collect();
    all.sort();
    all
}

#[test]
fn a_bus_alarms_what_it_finds_until_it_is_over_or_does_not_apply() {
    let (mut bus, _rest) = alone();
    let now = bus.now();
    let logins = Arc::new(AtomicU64::new(0));
    let clock = tieline_net::Clock::start();
    // The clock was ahead by a year when the node ran last.
    let known = Some(Timestamp::from_millis(clock.now().utc.millis() + 365 * DAY_MS));
    let outside = Outside {
        wall: WallClock::new(clock, known),
        certificates: Arc::default(),
        authenticator: None,
        sites: Arc::default(),
        break_glass: Some(Arc::clone(&logins)),
    };
    bus.set_alarms(now, config(true), Vec::new());
    bus.set_outside(outside);
    bus.finish_alarms(now);
    assert_eq!(alarms(&bus), Vec::<String>::new(), "delays hold");
    let payload = |bus: &Bus, topic: &str| {
        bus.tree().get(topic).map(|view| String::from_utf8(view.body.to_payload().to_vec()).unwrap())
    };
    assert!(payload(&bus, "$SYS/conditions/clock").unwrap().contains("\"v\":true"));
    logins.fetch_add(1, Ordering::Relaxed);
    let later = now.later(Duration::from_secs(6));
    assert!(bus.alarm_timeout().unwrap() <= now.mono + LOOK_EVERY);
    bus.finish_alarms(later);
    let clock = "$SYS/conditions/clock/state";
    assert_eq!(alarms(&bus), ["$SYS/conditions/break_glass/change", clock]);
    // A reload without them.
    bus.replace_alarms(later, Some(config(false)), Vec::new());
    let later = later.later(LOOK_EVERY);
    bus.finish_alarms(later);
    bus.finish_alarms(later);
    assert_eq!((alarms(&bus), payload(&bus, "$SYS/conditions/clock")), (Vec::new(), None));
    bus.replace_alarms(later, Some(config(true)), Vec::new());
    let later = later.later(LOOK_EVERY);
    bus.finish_alarms(later);
    bus.finish_alarms(later.later(Duration::from_secs(6)));
    assert_eq!(alarms(&bus), [clock], "a count that was not known before is no login");
    let kinds: Vec<_> = bus.alarms().map(|alarm| (alarm.record.id.kind, alarm.rule.group.to_string())).collect();
    assert_eq!(kinds, [(Kind::State, "node".to_owned())]);
}
