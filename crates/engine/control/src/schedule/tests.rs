//! Requests and their answers, in VOLTTRON's words; slots that begin, end, and are lost.

extern crate std;
use super::*;
use crate::tests::at;
use core::time::Duration;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};
use tieline_core::{Now, Timestamp};

/// A request: requester, task, priority, and slots as `device start end` in seconds.
fn request(who: &str, task: &str, priority: &str, slots: &[(&str, i64, i64)]) -> NewSchedule {
    let time = |seconds: i64| Timestamp::from_millis(seconds * 1_000).to_string();
    let slot = |(device, start, end): &(&str, i64, i64)| SlotRequest {
        device: (*device).into(),
        start: time(*start),
        end: time(*end),
    };
    let slots = slots.iter().map(slot).collect();
    let [requester, task, priority] = [who, task, priority].map(|text| Some(text.into()));
    NewSchedule { requester, task, priority, slots, lease: None }
}

fn told(result: &ScheduleResult) -> String {
    let data = match &result.data {
        ScheduleData::Empty => String::new(),
        ScheduleData::Preempted(owners) => owners.iter().map(|owner| format!(" -{}", owner.task)).collect(),
        ScheduleData::Conflicts(found) => {
            let shown = |(owner, slots): &(Owner, Vec<Slot>)| format!(" {}x{}", owner.task, slots.len());
            found.iter().map(shown).collect()
        }
    };
    format!("{} {}{data}", result.result(), result.info)
}

fn secs(seconds: u64) -> Now {
    at(seconds * 1_000)
}

fn holder(schedule: &Schedule, now: Now, device: &str) -> String {
    schedule.holder(now, device).map_or_else(|| "-".into(), |(owner, _)| owner.task.to_string())
}

#[test]
fn failures_have_volttrons_words() {
    let mut schedule = Schedule::new(ScheduleLimits { name_bytes_max: 8, ..ScheduleLimits::default() });
    assert!(schedule.request(secs(0), &request("a", "t", "HIGH", &[("d", 1, 2)])).is_success());
    let good = request("a", "u", "LOW", &[("d", 3, 4)]);
    let slot = |device: &str, start: &str, end: &str| SlotRequest {
        device: device.into(),
        start: start.into(),
        end: end.into(),
    };
    let (one, two) = ("1970-01-01T00:00:01", "1970-01-01 00:00:02+00:00");
    let time = "expected a time like 2026-11-20T09:36:00.123Z (RFC 3339, years 1 to 9999)";
    let cases: Vec<(NewSchedule, String)> = vec![
        (NewSchedule { task: Some("t".into()), priority: None, ..good.clone() }, "TASK_ID_ALREADY_EXISTS".into()),
        (NewSchedule { task: None, priority: None, ..good.clone() }, "MISSING_TASK_ID".into()),
        (NewSchedule { priority: None, requester: None, ..good.clone() }, "MISSING_PRIORITY".into()),
        (NewSchedule { priority: Some("low".into()), requester: None, ..good.clone() }, "INVALID_PRIORITY".into()),
        (NewSchedule { requester: None, slots: vec![], ..good.clone() }, "MISSING_AGENT_ID".into()),
        (NewSchedule { slots: vec![], ..good.clone() }, "MALFORMED_REQUEST_EMPTY".into()),
        (
            NewSchedule { requester: Some(String::new()), ..good.clone() },
            "MALFORMED_REQUEST: TypeError: agentid must be a nonempty string".into(),
        ),
        (
            NewSchedule { task: Some(String::new()), ..good.clone() },
            "MALFORMED_REQUEST: TypeError: taskid must be a nonempty string".into(),
        ),
        (
            NewSchedule { task: Some("123456789".into()), ..good.clone() },
            "MALFORMED_REQUEST: ValueError: taskid has 9 bytes, expected at most 8".into(),
        ),
        (
            NewSchedule { slots: vec![slot("d", two, one)], ..good.clone() },
            "MALFORMED_REQUEST: ValueError: Invalid start and end values.".into(),
        ),
        (
            NewSchedule { slots: vec![slot("d", "noon", two)], ..good.clone() },
            format!("MALFORMED_REQUEST: ValueError: time \"noon\": {time}"),
        ),
        (
            NewSchedule { slots: vec![slot("/", one, two)], ..good.clone() },
            "MALFORMED_REQUEST: ValueError: device \"\": a topic is empty, expected at least one character".into(),
        ),
        (request("a", "u", "LOW", &[("d", 3, 5), ("d", 4, 6)]), "REQUEST_CONFLICTS_WITH_SELF".into()),
        (request("a", "u", "HIGH", &[("d", 0, 9)]), "CONFLICTS_WITH_EXISTING_SCHEDULES".into()),
    ];
    for (request, expect) in cases {
        assert_eq!(schedule.request(secs(0), &request).info, expect, "{request:?}");
    }
    let conflict = schedule.request(secs(0), &request("b", "u", "HIGH", &[("/d/", 0, 9), ("e", 0, 9)]));
    assert_eq!(told(&conflict), "FAILURE CONFLICTS_WITH_EXISTING_SCHEDULES tx1");
    for (who, task, expect) in [
        (Some("a"), Some("u"), "FAILURE TASK_ID_DOES_NOT_EXIST"),
        (Some("a"), None, "FAILURE TASK_ID_DOES_NOT_EXIST"),
        (Some("b"), Some("t"), "FAILURE AGENT_ID_TASK_ID_MISMATCH"),
        (Some("a"), Some("t"), "SUCCESS "),
    ] {
        assert_eq!(told(&schedule.cancel(secs(0), who, task)), expect);
    }
    let wrong = RequestType::from_name(Some("new")).unwrap_err();
    assert_eq!(told(&wrong), "FAILURE INVALID_REQUEST_TYPE");
}

#[test]
fn priorities_decide_who_loses() {
    let check = |first: &str, second: &str, now: u64, expect: &str| {
        let mut schedule = Schedule::new(ScheduleLimits::default());
        assert!(schedule.request(secs(0), &request("a", "t", first, &[("d", 10, 200)])).is_success());
        let result = schedule.request(secs(now), &request("b", "u", second, &[("d", 20, 30)]));
        assert_eq!(told(&result), expect, "{first} {second} {now}");
        (schedule, secs(now))
    };
    let conflict = "FAILURE CONFLICTS_WITH_EXISTING_SCHEDULES tx1";
    for (first, second) in [("HIGH", "HIGH"), ("LOW", "LOW"), ("LOW", "LOW_PREEMPT"), ("LOW_PREEMPT", "LOW")] {
        check(first, second, 5, conflict);
        check(first, second, 15, conflict);
    }
    check("LOW", "HIGH", 15, conflict);
    check("LOW", "HIGH", 5, "SUCCESS TASK_WERE_PREEMPTED -t");
    check("LOW_PREEMPT", "HIGH", 5, "SUCCESS TASK_WERE_PREEMPTED -t");
    // What has started keeps its current slot for the grace time of 60 s, in spite of who has won.
    let (mut schedule, now) = check("LOW_PREEMPT", "HIGH", 15, "SUCCESS TASK_WERE_PREEMPTED -t");
    assert_eq!(holder(&schedule, now, "d"), "t");
    assert_eq!(holder(&schedule, secs(25), "d"), "t");
    schedule.handle_timeout(secs(76));
    assert_eq!(holder(&schedule, secs(76), "d"), "-");
    let preempted = core::iter::from_fn(|| schedule.poll_event()).find_map(|event| match event {
        ScheduleEvent::Preempted { owner, by, grace } => Some((owner.task, by.task, grace)),
        ScheduleEvent::LeaseExpired { .. } | ScheduleEvent::Changed { .. } => None,
    });
    assert_eq!(preempted, Some(("t".into(), "u".into(), Duration::from_secs(60))));
}

#[test]
fn slots_may_touch_and_are_announced() {
    let mut schedule = Schedule::new(ScheduleLimits::default());
    assert!(schedule.request(secs(1), &request("a", "t", "LOW", &[("d", 10, 20)])).is_success());
    assert!(schedule.request(secs(1), &request("b", "u", "LOW", &[("d", 20, 30), ("e", 10, 300)])).is_success());
    let mut told = |now: u64| -> Vec<String> {
        schedule.handle_timeout(secs(now));
        let next = || schedule.poll_announcement(secs(now));
        core::iter::from_fn(next)
            .map(|announced| format!("{} {} {}", announced.device, announced.owner.task, announced.window.as_secs()))
            .collect()
    };
    assert_eq!(told(9), [""; 0]);
    assert_eq!(told(10), ["d t 10", "e u 290"]);
    assert_eq!(told(11), [""; 0]);
    assert_eq!(told(20), ["d u 10"]);
    assert_eq!(told(70), ["e u 230"]);
}

#[test]
fn the_wall_clock_may_step() {
    let mut schedule = Schedule::new(ScheduleLimits::default());
    assert!(schedule.request(secs(100), &request("a", "t", "LOW", &[("d", 110, 200)])).is_success());
    let clock = |mono: u64, utc: i64| Now { utc: Timestamp::from_millis(utc * 1_000), ..secs(mono) };
    schedule.handle_timeout(secs(110));
    for (mono, utc, expect) in [(111, 108, "t"), (112, 60, "-"), (113, 150, "t"), (114, 201, "-"), (115, 150, "-")] {
        schedule.handle_timeout(clock(mono, utc));
        assert_eq!(holder(&schedule, clock(mono, utc), "d"), expect, "{mono} {utc}");
    }
    assert_eq!((schedule.tasks().count(), schedule.timeout()), (0, None));
}

#[test]
fn a_holder_that_ends_loses_what_has_started() {
    let mut schedule = Schedule::new(ScheduleLimits::default());
    for (task, start) in [("t", 10), ("u", 50)] {
        assert!(schedule.request(secs(1), &request("a", task, "HIGH", &[("d", start, start + 9)])).is_success());
    }
    schedule.release(secs(12), "a");
    assert_eq!((holder(&schedule, secs(12), "d"), holder(&schedule, secs(52), "d")), ("-".into(), "u".into()));
}

#[test]
fn there_are_limits() {
    let mut schedule = Schedule::new(ScheduleLimits { tasks_max: 2, slots_max: 3, ..ScheduleLimits::default() });
    let mut ask =
        |task: &str, slots: &[(&str, i64, i64)]| schedule.request(secs(1), &request("a", task, "LOW", slots)).info;
    let many = [("d", 1, 2), ("d", 2, 3), ("d", 3, 4), ("d", 4, 5)];
    assert_eq!(ask("t", &many), "MALFORMED_REQUEST: ValueError: 4 time slots, expected at most 3");
    assert_eq!(ask("t", &many[..2]), "");
    let expect = "LIMIT_EXCEEDED: all tasks together may have 3 time slots, which is the limit";
    assert_eq!(ask("u", &[("e", 1, 2), ("e", 2, 3)]), expect);
    assert_eq!(ask("u", &[("e", 1, 2)]), "");
    assert_eq!(ask("v", &[("f", 1, 2)]), "LIMIT_EXCEEDED: 2 tasks are scheduled, which is the limit");
}

/// A request with a lease in seconds.
fn leased(lease: u64, request: NewSchedule) -> NewSchedule {
    NewSchedule { lease: Some(Duration::from_secs(lease)), ..request }
}

#[test]
fn a_lease_ends_a_task_whose_requester_is_silent() {
    let mut schedule = Schedule::new(ScheduleLimits::default());
    let result = schedule.request(secs(0), &leased(10, request("a", "t", "LOW", &[("d", 0, 100)])));
    assert_eq!((result.is_success(), result.lease), (true, Some(Duration::from_secs(10))));
    schedule.hear(secs(6).mono, "a");
    schedule.hear(secs(9).mono, "b");
    schedule.handle_timeout(secs(15));
    assert_eq!(holder(&schedule, secs(15), "d"), "t");
    assert_eq!(schedule.lease_end(secs(15), "t"), Some(secs(16).utc));
    assert!(schedule.timeout().is_some_and(|at| at <= secs(16).mono));
    assert_eq!(schedule.renew(secs(15), Some("a"), Some("t")).lease, Some(Duration::from_secs(10)));
    assert_eq!(schedule.renew(secs(15), Some("b"), Some("t")).info, "AGENT_ID_TASK_ID_MISMATCH");
    schedule.handle_timeout(secs(24));
    while schedule.poll_event().is_some() {}
    schedule.handle_timeout(secs(25));
    assert_eq!(holder(&schedule, secs(25), "d"), "-");
    let owner = Owner { requester: "a".into(), task: "t".into() };
    let expired = ScheduleEvent::LeaseExpired { owner: owner.clone(), lease: Duration::from_secs(10) };
    assert_eq!(schedule.poll_event(), Some(expired));
    assert!(matches!(schedule.poll_event(), Some(ScheduleEvent::Changed { after: None, .. })));
    assert_eq!(schedule.renew(secs(25), Some("a"), Some("t")).info, "TASK_ID_DOES_NOT_EXIST");
    assert!(
        core::iter::from_fn(|| schedule.poll_entry())
            .any(|entry| entry == crate::Entry::TaskEnded { task: "t".into() })
    );
}

#[test]
fn a_lease_counts_once_the_task_has_a_device() {
    let mut schedule = Schedule::new(ScheduleLimits::default());
    assert!(schedule.request(secs(0), &leased(10, request("a", "t", "LOW", &[("d", 50, 100)]))).is_success());
    assert!(schedule.request(secs(0), &request("a", "u", "LOW", &[("e", 0, 100)])).is_success());
    schedule.handle_timeout(secs(40));
    assert_eq!(schedule.lease_end(secs(40), "t"), None);
    schedule.handle_timeout(secs(50));
    schedule.handle_timeout(secs(59));
    assert_eq!(holder(&schedule, secs(59), "d"), "t");
    schedule.handle_timeout(secs(60));
    assert_eq!(holder(&schedule, secs(60), "d"), "-");
    // A task without a lease stays.
    assert_eq!(holder(&schedule, secs(60), "e"), "u");
}

#[test]
fn a_lease_begins_again_after_a_restart() {
    let mut schedule = Schedule::new(ScheduleLimits::default());
    assert!(schedule.request(secs(0), &leased(10, request("a", "t", "LOW", &[("d", 0, 100)]))).is_success());
    let record = schedule.tasks().next().unwrap();
    assert_eq!(record.lease, Some(Duration::from_secs(10)));
    let mut schedule = Schedule::new(ScheduleLimits::default());
    schedule.restore(secs(30), record);
    schedule.handle_timeout(secs(39));
    assert_eq!(holder(&schedule, secs(39), "d"), "t");
    schedule.handle_timeout(secs(40));
    assert_eq!(holder(&schedule, secs(40), "d"), "-");
}
