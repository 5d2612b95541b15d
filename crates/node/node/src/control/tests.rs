//! Commands with their surroundings: what is on the disk before what goes out, and what a restart leaves.

use super::audit::AuditLog;
use super::command::CommandRequest;
use super::state;
use super::*;
use crate::config;
use crate::config::Numbered;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};
use tieline_control::{PointOutcome, ScheduleResult, SlotRequest};
use tieline_core::{Quality, Timestamp};

const LIST: &str = "name,type,index,writable,revert\nspeed,holding-register,1,true,\nfan,coil,2,true,false\n";
const DEVICES: &str = "[device.ahu]\ntopic = \"site/ahu\"\nprotocol = \"modbus\"\naddress = \"127.0.0.1:1\"\n\
                       points = \"p.csv\"\n[device.vav]\ntopic = \"site/vav\"\nprotocol = \"modbus\"\n\
                       address = \"127.0.0.1:2\"\npoints = \"p.csv\"\n";

/// What the threads around the bus say.
enum Said {
    Sent(Dispatch),
    Unsent(DeviceId, u64, Refusal),
    Written(u64, bool),
}

struct World {
    commands: Commands<u32>,
    said: Receiver<Said>,
    now: Now,
    done: Vec<(u32, Done)>,
}

fn at(ms: u64) -> Now {
    Now { mono: Instant(ms * 1_000_000), utc: Timestamp::from_millis(1_700_000_000_000 + i64::try_from(ms).unwrap()) }
}

fn topic(text: &str) -> Topic {
    Topic::new(text).unwrap()
}

impl World {
    fn start(folder: &Path, ms: u64) -> Self {
        std::fs::write(folder.join("p.csv"), LIST).unwrap();
        let config = config::from_text("node.toml", DEVICES, folder).unwrap();
        let numbered = |(config, id)| Numbered { id: DeviceId(id), config, recorded: false, revision: 0 };
        let devices: Vec<Numbered> = config.devices.iter().cloned().zip(0..).map(numbered).collect();
        let audit = AuditLog::start(folder, config.audit).unwrap();
        let (says, said) = channel();
        let (unsent, written, sent) = (says.clone(), says.clone(), says);
        let tells = Tells {
            unsent: Arc::new(move |device, id, why| drop(unsent.send(Said::Unsent(device, id, why)))),
            written: Arc::new(move |number, ok| drop(written.send(Said::Written(number, ok)))),
            fence: None,
        };
        let commands = Commands::new(&config, devices.iter().map(|device| (device, 0)), audit, tells).unwrap();
        let mut commands = commands.restored(at(ms), state::load(folder).unwrap());
        commands.set_senders(vec![Arc::new(move |dispatch, _| sent.send(Said::Sent(dispatch)).is_ok())]);
        let mut world = Self { commands, said, now: at(ms), done: Vec::new() };
        for device in [0, 1] {
            world.commands.handle_link(world.now, DeviceId(device), true);
            for name in ["ahu/speed", "vav/speed"] {
                let reading = Point { value: Value::Int(40), quality: Quality::GOOD, time: world.now.utc };
                world.commands.handle_reading(world.now, &topic(&format!("site/{name}")), &reading);
            }
        }
        world
    }

    fn by(name: &str) -> Call {
        Call { requester: name.into(), who: name.into() }
    }

    /// What the bus does in each turn.
    fn poll(&mut self) {
        if self.commands.rests(self.now.mono) {
            return;
        }
        self.commands.handle_timeout(self.now);
        while let Some(done) = self.commands.poll_done(self.now) {
            self.done.push(done);
        }
    }

    /// Lets the disk write, and devices carry out what they are sent, until this is answered; what was sent.
    fn until(&mut self, answer: u32) -> (Done, Vec<Dispatch>) {
        let mut sent = Vec::new();
        loop {
            self.poll();
            if let Some(at) = self.done.iter().position(|(number, _)| *number == answer) {
                return (self.done.remove(at).1, sent);
            }
            sent.extend(self.hear());
        }
    }

    /// Takes what is said next; a command is carried out.
    fn hear(&mut self) -> Option<Dispatch> {
        match self.said.recv_timeout(Duration::from_secs(30)).unwrap() {
            Said::Sent(dispatch) => {
                self.commands.handle_outcome(self.now, dispatch.device, dispatch.command_id.0, Ok(()));
                Some(dispatch)
            }
            Said::Unsent(device, id, why) => {
                self.commands.handle_outcome(self.now, device, id, Err(why));
                None
            }
            Said::Written(number, ok) => {
                self.commands.handle_written(self.now, number, ok);
                None
            }
        }
    }

    /// The next command that is sent.
    fn sent(&mut self) -> Dispatch {
        loop {
            self.poll();
            if let Some(dispatch) = self.hear() {
                return dispatch;
            }
        }
    }

    fn renew(&mut self, name: &str, task: &str) -> ScheduleResult {
        self.commands.renew(self.now, task, &Self::by(name), 1);
        match self.until(1).0 {
            Done::Reservation(result) => result,
            other => panic!("{other:?}"),
        }
    }

    fn reserve(&mut self, name: &str, device: &str, session: Option<&str>) -> String {
        let (start, end) = (at(0).utc.to_string(), at(3_600_000).utc.to_string());
        let slots = vec![SlotRequest { device: device.to_owned(), start, end }];
        let (task, priority) = (Some(format!("{name} {device}")), Some("LOW".to_owned()));
        let lease = self.commands.default_lease(session.is_some());
        let asked = NewSchedule { requester: Some(name.to_owned()), task, priority, slots, lease };
        let session = session.map(Arc::from);
        self.commands.reserve(self.now, &asked, &Self::by(name), session.as_ref(), 1);
        match self.until(1).0 {
            Done::Reservation(result) => result.info,
            other => panic!("{other:?}"),
        }
    }

    fn command(&mut self, name: &str, point: &str, value: i64) -> (CommandOutcome, Vec<Dispatch>) {
        let request = CommandRequest {
            topic: topic(point),
            value: Value::Int(value),
            mode: None,
            timeout: None,
            requester: None,
        };
        self.commands.request(self.now, request, true, &Self::by(name), 2);
        let (done, sent) = self.until(2);
        (done.into_command().unwrap().outcome, sent)
    }
}

fn reason(outcome: CommandOutcome) -> &'static str {
    outcome.map_or_else(|refusal| refusal.reason, |()| "")
}

/// The bus asks in each turn: where nothing is due, one comparison says so.
#[test]
fn it_rests_until_a_deadline_or_a_request() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start(folder.path(), 0);
    let rests = |world: &mut World, ms| {
        world.poll();
        world.poll();
        world.commands.rests(at(ms).mono)
    };
    assert!(!world.commands.rests(at(0).mono) && rests(&mut world, 1_000_000));
    let reading = Point { value: Value::Int(41), quality: Quality::GOOD, time: world.now.utc };
    world.commands.handle_reading(world.now, &topic("site/ahu/speed"), &reading);
    assert!(world.commands.rests(at(1_000_000).mono), "no command waits for it");
    let pattern = "site/vav".parse().unwrap();
    let (duration, who) = (Some(Duration::from_secs(60)), "anna".into());
    let asked = NewOverride { pattern, duration, failsafe_revert: false, staggered_revert: false, who };
    world.commands.set_override_on(world.now, &asked, 4);
    assert!(!world.commands.rests(world.now.mono));
    world.until(4);
    assert!(rests(&mut world, 59_999) && !world.commands.rests(at(60_000).mono));
    assert_eq!(world.reserve("bert", "site/ahu", None), "");
    assert!(!rests(&mut world, 0), "the wall clock may be set, and no deadline tells");
}

#[test]
fn an_outcome_holds_though_the_device_is_lost_in_the_same_report() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start(folder.path(), 0);
    for (outcome, reason_then) in [(Ok(()), ""), (Err(Refusal::reconfigured(true)), "reconfigured")] {
        let request = CommandRequest {
            topic: topic("site/ahu/speed"),
            value: Value::Int(50),
            mode: None,
            timeout: None,
            requester: None,
        };
        world.commands.request(world.now, request, true, &World::by("anna"), 2);
        let out = loop {
            world.poll();
            match world.said.recv_timeout(Duration::from_secs(30)).unwrap() {
                Said::Sent(dispatch) => break dispatch,
                Said::Written(number, ok) => world.commands.handle_written(world.now, number, ok),
                Said::Unsent(_, _, why) => panic!("{why}"),
            }
        };
        let outcomes = vec![(out.device, out.command_id.0, outcome)];
        world.commands.handle_report(world.now, outcomes, vec![(out.device, false)]);
        assert_eq!(reason(world.until(2).0.into_command().unwrap().outcome), reason_then);
        world.commands.handle_report(world.now, Vec::new(), vec![(out.device, true)]);
    }
}

#[test]
fn a_reserved_point_is_commanded_by_its_holder_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start(folder.path(), 0);
    assert_eq!(reason(world.command("anna", "site/ahu/speed", 50).0), "");
    assert_eq!(world.reserve("anna", "site/ahu", None), "");
    let (outcome, sent) = world.command("bert", "site/ahu/speed", 60);
    assert_eq!((reason(outcome), sent.len()), ("reserved", 0));
    assert_eq!(reason(world.command("anna", "site/ahu/speed", 60).0), "");
    assert_eq!(reason(world.command("bert", "site/vav/speed", 60).0), "");
    assert_eq!(world.reserve("bert", "site/ahu", None), "CONFLICTS_WITH_EXISTING_SCHEDULES");
}

#[test]
fn a_call_has_an_answer_for_each_point_and_a_dry_run_sends_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start(folder.path(), 0);
    let entry = |name: &str, value| BatchEntry {
        topic: topic(name),
        topic_exists: true,
        action: Action::Set { value: Value::Int(value), mode: None },
    };
    let entries = vec![entry("site/ahu/speed", 50), entry("site/vav/speed", 1 << 20), entry("site/vav/fan", 1)];
    let found = world.commands.dry_run(world.now, entries.clone(), &World::by("anna"));
    let found: Vec<bool> = found.iter().map(Result::is_ok).collect();
    assert_eq!(found, [true, false, true]);
    world.commands.call(world.now, entries, (None, false), &World::by("anna"), 3);
    let (done, sent) = world.until(3);
    let Done::Points(Ok(called)) = done else { panic!("{done:?}") };
    assert_eq!((called.done.accepted, called.done.refused, sent.len()), (2, 1, 2));
    assert!(matches!(called.outcomes[1], Some((PointOutcome::Refused(_), _))), "{called:?}");
}

/// A node that is killed with a held point reverts it after the restart, once; its holder does not come back.
#[test]
fn a_held_point_is_reverted_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start(folder.path(), 0);
    assert_eq!(world.reserve("anna", "site/ahu", Some("c1")), "");
    assert_eq!(reason(world.command("anna", "site/ahu/speed", 60).0), "");
    drop(world);
    let mut world = World::start(folder.path(), 1000);
    assert_eq!(world.commands.stats().holds, 1);
    world.commands.settle_holders(world.now, |_| false);
    assert_eq!(reason(world.command("bert", "site/ahu/speed", 70).0), "reserved");
    world.now = at(40_000);
    let dispatch = world.sent();
    assert_eq!((dispatch.device, dispatch.command.value), (DeviceId(0), Value::Int(40)));
    world.poll();
    // Released on the disk too: nothing is sent after another restart.
    assert_eq!(world.commands.stats().holds, 0);
    assert_eq!(reason(world.command("bert", "site/ahu/speed", 70).0), "");
    drop(world);
    let mut world = World::start(folder.path(), 50_000);
    world.commands.settle_holders(world.now, |_| false);
    assert_eq!(world.commands.stats().holds, 0);
    assert_eq!(world.command("bert", "site/ahu/speed", 80).1.len(), 1);
}

#[test]
fn a_holder_that_is_there_after_a_restart_keeps_what_it_has() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start(folder.path(), 0);
    for (name, session) in [("anna", Some("c1")), ("http", None)] {
        assert_eq!(world.reserve(name, if name == "http" { "site/vav" } else { "site/ahu" }, session), "");
    }
    assert_eq!(reason(world.command("anna", "site/ahu/speed", 60).0), "");
    assert_eq!(reason(world.command("http", "site/vav/speed", 60).0), "");
    drop(world);
    let mut world = World::start(folder.path(), 1000);
    world.commands.settle_holders(world.now, |_| false);
    world.commands.handle_session_here(world.now.mono, "c1");
    world.now = at(60_000);
    world.poll();
    assert_eq!(world.commands.stats().holds, 2);
    // The lease of one without a session began again with the node.
    let renewed = world.renew("http", "http site/vav");
    assert_eq!((renewed.info.as_str(), renewed.lease), ("", Some(Duration::from_secs(60))));
    // The session of one ends; the other has none.
    world.commands.handle_session_gone(world.now, "c1");
    assert_eq!(world.sent().device, DeviceId(0));
    world.poll();
    assert_eq!((world.commands.stats().holds, world.commands.stats().tasks), (1, 1));
}

#[test]
fn a_holder_without_a_session_ends_with_its_lease() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start(folder.path(), 0);
    assert_eq!(world.reserve("http", "site/vav", None), "");
    assert_eq!(world.reserve("anna", "site/ahu", Some("c1")), "");
    for at_ms in [50_000, 100_000] {
        world.now = at(at_ms);
        assert_eq!(reason(world.command("http", "site/vav/speed", 60).0), "");
    }
    world.now = at(159_999);
    world.poll();
    assert_eq!((world.commands.stats().holds, world.commands.stats().tasks), (1, 2));
    world.now = at(160_000);
    assert_eq!(world.sent().device, DeviceId(1));
    world.poll();
    assert_eq!((world.commands.stats().leases_expired, world.commands.stats().tasks), (1, 1));
    assert_eq!(world.renew("http", "http site/vav").info, "TASK_ID_DOES_NOT_EXIST");
}

#[test]
fn what_cannot_be_written_is_not_granted() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start(folder.path(), 0);
    // A folder of its name is in the way of the file.
    std::fs::create_dir(folder.path().join("control.jsonl")).unwrap();
    let info = world.reserve("anna", "site/ahu", None);
    assert!(info.starts_with("NOT_STORED: "), "{info}");
    assert_eq!(world.commands.stats().tasks, 0);
    std::fs::remove_dir(folder.path().join("control.jsonl")).unwrap();
    world.now = at(5000);
    assert_eq!(world.reserve("anna", "site/ahu", None), "");
    drop(world);
    assert_eq!(World::start(folder.path(), 6000).commands.stats().tasks, 1);
}

#[test]
fn overrides_refuse_everybody_and_outlive_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::start(folder.path(), 0);
    let pattern: Pattern = "site/ahu".parse().unwrap();
    let asked = NewOverride {
        pattern: pattern.clone(),
        duration: None,
        failsafe_revert: false,
        staggered_revert: false,
        who: "anna".into(),
    };
    world.commands.set_override_on(world.now, &asked, 4);
    assert!(matches!(world.until(4).0, Done::Override(Ok(()))));
    assert_eq!(reason(world.command("anna", "site/ahu/speed", 60).0), "override");
    drop(world);
    let mut world = World::start(folder.path(), 1000);
    assert_eq!(reason(world.command("anna", "site/ahu/speed", 60).0), "override");
    world.commands.set_override_off(world.now, Some(&pattern), &World::by("anna"), 5);
    assert!(matches!(world.until(5).0, Done::Override(Ok(()))));
    assert_eq!(reason(world.command("anna", "site/ahu/speed", 60).0), "");
}

#[test]
fn holders_have_the_names_of_their_users() {
    assert_eq!(holder_of(Some("anna"), Some("c1")).as_deref(), Some("anna/c1"));
    assert_eq!(holder_of(Some("anna"), None).as_deref(), Some("anna"));
    assert_eq!(holder_of(None, Some("c1")).as_deref(), Some("c1"));
    assert_eq!(holder_of(None, None), None);
}
