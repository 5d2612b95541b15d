//! The time of the engine for one batch of many devices: each command is sent, accepted and confirmed by a reading.
//!
//! `cargo run --release -p tieline-control --example batch -- [devices]`
#![expect(clippy::print_stdout, reason = "its output is the figure")]

use std::error::Error;
use std::fs;
use std::time::Duration;
use tieline_control::{
    Accepts, Action, Batch, BatchEntry, BatchEvent, ControlPoint, Coordinator, CoordinatorLimits, Dispatch, Limits,
    Modes, NewSchedule, PointOutcome, PointRules, RevertTo, Scaling, SlotRequest,
};
use tieline_core::{CommandMode, DeviceId, Now, Point, PointId, Quality, Timestamp, Topic, Value};

const RUNS: usize = 15;
const VALUE: f64 = 21.5;

fn main() -> Result<(), Box<dyn Error>> {
    let devices = std::env::args().nth(1).map_or(Ok(4_000), |text| text.parse())?;
    for is_reserved in [false, true] {
        let mut times = (0..RUNS).map(|_| run(devices, is_reserved)).collect::<Result<Vec<Duration>, _>>()?;
        times.sort();
        let ms = |time: Option<&Duration>| time.map_or(0.0, |time| time.as_secs_f64() * 1e3);
        let what = if is_reserved { "reserved, to be reverted" } else { "without a reservation" };
        let (least, median) = (ms(times.first()), ms(times.get(RUNS / 2)));
        println!("{devices} devices, {what}: {least:.1} ms of CPU time at least, median {median:.1} ms");
    }
    Ok(())
}

/// The time this thread has run, without that of others on a busy machine.
fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let first = text.split_whitespace().next().ok_or("no first number in schedstat")?;
    Ok(Duration::from_nanos(first.parse()?))
}

fn prepare(devices: u32, is_reserved: bool) -> Result<(Coordinator, Vec<Topic>), Box<dyn Error>> {
    let control = Limits { audit_max: 65_536, ..Limits::default() };
    let mut coordinator = Coordinator::new(CoordinatorLimits { control, ..CoordinatorLimits::default() }, 1);
    let (now, mut topics, mut slots) = (Now::default(), Vec::new(), Vec::new());
    for device in 0..devices {
        let name = format!("campus/building{}/unit{device}", device % 50);
        let topic = Topic::new(&format!("{name}/setpoint"))?;
        coordinator.add_device(DeviceId(device), Topic::new(&name)?);
        coordinator.add_point(ControlPoint {
            topic: topic.clone(),
            device: DeviceId(device),
            point: PointId(0),
            accepts: Accepts::Float { min: 0.0, max: 50.0, scaling: Scaling::default() },
            modes: Modes { select: false, direct: true, preferred: CommandMode::DirectOperate },
            relinquishes: false,
        })?;
        coordinator.handle_link(now, DeviceId(device), true);
        let end = Timestamp::from_millis(60_000).to_string();
        slots.push(SlotRequest { device: name, start: now.utc.to_string(), end });
        if is_reserved {
            let rules = PointRules { revert: RevertTo::Value(Value::Float(20.0)), ..PointRules::default() };
            coordinator.set_rules(&topic, rules).map_err(|refusal| refusal.to_string())?;
        }
        topics.push(topic);
    }
    if is_reserved {
        let request = NewSchedule {
            requester: Some("anna".into()),
            task: Some("peak".into()),
            priority: Some("HIGH".into()),
            slots,
            lease: None,
        };
        let result = coordinator.request_schedule(now, &request, &"anna".into());
        assert!(result.is_success(), "{result:?}");
    }
    while coordinator.poll_entry().is_some() || coordinator.poll_audit().is_some() {}
    while coordinator.poll_schedule_event().is_some() {}
    Ok((coordinator, topics))
}

fn run(devices: u32, is_reserved: bool) -> Result<Duration, Box<dyn Error>> {
    let (mut coordinator, topics) = prepare(devices, is_reserved)?;
    let set = |topic: &Topic| BatchEntry {
        topic: topic.clone(),
        topic_exists: true,
        action: Action::Set { value: Value::Float(VALUE), mode: None },
    };
    let entries = topics.iter().map(set).collect();
    let (requester, who) = ("anna".into(), "anna".into());
    let batch = Batch { id: 1, requester, who, entries, timeout: None, confirm: true, is_single: false };
    let reading = Point { value: Value::Float(VALUE), quality: Quality::GOOD, time: Timestamp::default() };
    let (now, mut out) = (Now::default(), Vec::<Dispatch>::new());
    let (mut confirmed, mut is_done) = (0, false);

    let start = cpu_time()?;
    coordinator.handle_batch(now, batch).map_err(|refusal| refusal.to_string())?;
    while !is_done {
        out.extend(std::iter::from_fn(|| coordinator.poll_command(now)));
        assert!(!out.is_empty(), "nothing is sent, and the batch is not done");
        for dispatch in out.drain(..) {
            coordinator.handle_outcome(now, dispatch.device, dispatch.command_id, Ok(()));
            if let Some(topic) = usize::try_from(dispatch.device.0).ok().and_then(|at| topics.get(at)) {
                coordinator.handle_reading(now, topic, &reading);
            }
        }
        while coordinator.poll_entry().is_some() || coordinator.poll_audit().is_some() {}
        while let Some(event) = coordinator.poll_event() {
            match event {
                BatchEvent::Answer(answer) => {
                    confirmed += u32::from(matches!(answer.outcome, PointOutcome::Confirmed { .. }));
                }
                BatchEvent::Done(_) => is_done = true,
            }
        }
    }
    let time = cpu_time()?.saturating_sub(start);
    assert_eq!(confirmed, devices);
    Ok(time)
}
