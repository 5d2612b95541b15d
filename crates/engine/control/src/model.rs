//! Random requests, outcomes, links and times: never two commands out at one device, each request ends once.

extern crate std;
use crate::tests::{at, breaker, request};
use crate::*;
use core::time::Duration;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::format;
use std::vec::Vec;
use tieline_core::{DeviceId, Now, Refusal};

const DEVICES: u32 = 3;
const POINTS: u32 = 4;

#[derive(Clone, Debug)]
enum Step {
    Request { device: u32, point: u32, timeout_ms: u64 },
    Outcome { device: u32, ok: bool },
    StrayOutcome { device: u32, command_id: u64 },
    Link { device: u32, online: bool },
    Wait(u64),
    Send,
}

fn any_step() -> impl Strategy<Value = Step> {
    let device = 0..DEVICES;
    prop_oneof![
        6 => (device.clone(), 0..POINTS, 0u64..200).prop_map(|(device, point, timeout_ms)| Step::Request { device, point, timeout_ms }),
        4 => (device.clone(), any::<bool>()).prop_map(|(device, ok)| Step::Outcome { device, ok }),
        1 => (device.clone(), 0u64..30).prop_map(|(device, command_id)| Step::StrayOutcome { device, command_id }),
        2 => (device, any::<bool>()).prop_map(|(device, online)| Step::Link { device, online }),
        4 => (0u64..150).prop_map(Step::Wait),
        6 => Just(Step::Send),
    ]
}

struct Watched {
    control: Control,
    now: Now,
    next: u64,
    /// What the protocol of each device is doing.
    out: BTreeMap<u32, CommandId>,
    online: BTreeSet<u32>,
    taken: BTreeSet<u64>,
    ended: BTreeSet<u64>,
    phases: BTreeMap<u64, Vec<Phase>>,
    last_record: Option<u64>,
}

impl Watched {
    fn step(&mut self, step: Step) {
        match step {
            Step::Request { device, point, timeout_ms } => {
                let id = self.next;
                self.next += 1;
                let timeout = Some(Duration::from_millis(timeout_ms));
                let asked = Request { timeout, ..request(id, &format!("d{device}/p{point}"), true) };
                match self.control.handle_request(self.now, asked) {
                    Ok(()) => assert!(self.taken.insert(id)),
                    Err(refusal) => assert!(refusal.reason != "away" || !self.online.contains(&device)),
                }
            }
            Step::Outcome { device, ok } => {
                let Some(command_id) = self.out.remove(&device) else { return };
                let refused = Refusal::new("local", "in local mode".into());
                let outcome = if ok { Ok(()) } else { Err(refused) };
                self.control.handle_outcome(self.now, DeviceId(device), command_id, outcome);
            }
            Step::StrayOutcome { device, command_id } => {
                if self.out.get(&device) != Some(&CommandId(command_id)) {
                    self.control.handle_outcome(self.now, DeviceId(device), CommandId(command_id), Ok(()));
                }
            }
            Step::Link { device, online } => {
                if online {
                    self.online.insert(device);
                } else {
                    self.online.remove(&device);
                    self.out.remove(&device);
                }
                self.control.handle_link(self.now, DeviceId(device), online);
            }
            Step::Wait(ms) => {
                self.now = self.now.later(Duration::from_millis(ms));
                self.control.handle_timeout(self.now);
                assert!(self.control.timeout().is_none_or(|at| at > self.now.mono));
            }
            Step::Send => {
                while let Some(dispatch) = self.control.poll_command(self.now) {
                    assert!(self.online.contains(&dispatch.device.0), "sent to a device that is away");
                    let before = self.out.insert(dispatch.device.0, dispatch.command_id);
                    assert_eq!(before, None, "two commands out at one device");
                }
            }
        }
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(done) = self.control.poll_done() {
            assert!(self.taken.contains(&done.request), "the end of a request that was not taken");
            assert!(self.ended.insert(done.request), "a request ended twice");
        }
        while let Some(record) = self.control.poll_audit() {
            assert_eq!(record.id, self.last_record.map_or(0, |last| last + 1));
            self.last_record = Some(record.id);
            self.phases.entry(record.request).or_default().push(record.phase);
        }
    }
}

/// The ways that a request may go.
fn is_legal(phases: &[Phase]) -> bool {
    use Phase::{Dropped, Failed, Late, Lost, Refused, Requested, Sent, Succeeded, TimedOut, Unanswered};
    matches!(
        phases,
        [Refused]
            | [Requested, Dropped]
            | [Requested, Sent, Succeeded | Failed | Lost]
            | [Requested, Sent, TimedOut, Late | Unanswered]
    )
}

proptest! {
    #[test]
    fn each_request_ends_once_and_devices_are_served_one_by_one(
        steps in proptest::collection::vec(any_step(), 0..120),
        device_queue_max in 1usize..4,
    ) {
        // An outcome is never given up here, so that the model knows what is out.
        let unanswered_after = Duration::from_secs(1_000_000);
        let limits = Limits { device_queue_max, requests_max: 6, unanswered_after, ..Limits::default() };
        let mut control = Control::new(limits, 0);
        for device in 0..DEVICES {
            for point in 0..POINTS {
                control.add_point(breaker(&format!("d{device}/p{point}"), device, point)).unwrap();
            }
        }
        let mut watched = Watched {
            control,
            now: at(0),
            next: 1,
            out: BTreeMap::new(),
            online: BTreeSet::new(),
            taken: BTreeSet::new(),
            ended: BTreeSet::new(),
            phases: BTreeMap::new(),
            last_record: None,
        };
        for step in steps {
            watched.step(step);
            prop_assert!(watched.control.stats().under_way <= 6);
        }
        for device in 0..DEVICES {
            watched.step(Step::Link { device, online: false });
        }
        prop_assert_eq!(&watched.taken, &watched.ended);
        prop_assert_eq!(watched.control.stats().under_way, 0);
        prop_assert_eq!(watched.control.timeout(), None);
        for (request, phases) in &watched.phases {
            prop_assert!(is_legal(phases), "request {} went {:?}", request, phases);
        }
        prop_assert_eq!(watched.phases.len() as u64, watched.next - 1);
    }
}
