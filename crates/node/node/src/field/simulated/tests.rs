//! A shard with simulated devices in virtual time.

use crate::config::{Numbered, from_text};
use crate::field::counters::Counted;
use crate::field::shard::{Settings, serve};
use crate::field::{FieldInput, FieldReport, Positions};
use crate::trace::TraceDisk;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Body, Command, CommandMode, CommandOutcome, DeviceId, Instant, Point, PointId, Quality, Value};
use tieline_net::{Clock, Counters, Shard};
use tieline_transport::CertificateCache;
use tokio::sync::{mpsc, oneshot};

const LIST: &str = "name,type,value,curve,noise,writable,every\n\
                    setpoint,float,20,,,true,\n\
                    room,float,,follow(setpoint 1m),,true,\n\
                    seconds,float,,sum(1 1s),,,\n\
                    drifting,float,,walk(0 100 1),0.1,,\n\
                    slow,bool,true,,,,1h\n";
const SETPOINT: PointId = PointId(0);
const ROOM: PointId = PointId(1);

/// What a bus would see of a shard with one device, `d`.
struct World {
    inputs: mpsc::Sender<FieldInput>,
    reports: mpsc::Receiver<FieldReport>,
    points: HashMap<String, Point>,
    outcomes: HashMap<u64, CommandOutcome>,
}

impl World {
    /// Starts a shard whose device has these settings.
    async fn start(simulated: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("p.csv"), LIST).unwrap();
        let text = format!(
            "[device.d]\nprotocol='simulated'\npoints='p.csv'\npoll={{every='1s'}}\n[device.d.simulated]\n{simulated}\n"
        );
        let config = from_text("t.toml", &text, folder.path()).unwrap().devices.remove(0);
        let devices = vec![Numbered { id: DeviceId(0), config, recorded: false, revision: 0 }];
        let shard = Shard::new(Clock::start(), Arc::new(Counters::default()));
        let ((inputs, incoming), (sender, reports)) = (mpsc::channel(16), mpsc::channel(16));
        let senders = [sender.clone(), sender.clone(), sender];
        let (ready, started) = oneshot::channel();
        let traces = TraceDisk::start(folder.path(), false).unwrap();
        let set = Settings {
            number: 0,
            certificates: Arc::new(CertificateCache::default()),
            traces,
            positions: Positions::none(),
        };
        tokio::task::spawn_local(async move {
            serve(shard, set, devices, (incoming, senders), |result| drop(ready.send(result))).await;
        });
        started.await.unwrap().unwrap();
        Self { inputs, reports, points: HashMap::new(), outcomes: HashMap::new() }
    }

    /// Lets time pass, and takes what is reported.
    async fn pass(&mut self, millis: u64) {
        let end = tokio::time::Instant::now() + Duration::from_millis(millis);
        loop {
            let report = tokio::select! {
                report = self.reports.recv() => report.unwrap(),
                () = tokio::time::sleep_until(end) => return,
            };
            for update in report.updates {
                if let Body::Point(point) = update.body {
                    self.points.insert(update.topic.to_string(), point);
                }
            }
            self.outcomes.extend(report.outcomes.into_iter().map(|(_, id, outcome)| (id, outcome)));
        }
    }

    async fn command(&self, command_id: u64, point: PointId, value: f64) {
        let command = Command { point, value: Value::Float(value), mode: CommandMode::DirectOperate };
        let (device, until) = (DeviceId(0), Instant(u64::MAX));
        let input = FieldInput::Command { device, revision: 0, command_id, command, until };
        self.inputs.send(input).await.unwrap();
    }

    fn point(&self, name: &str) -> &Point {
        &self.points[&format!("d/{name}")]
    }

    fn number(&self, name: &str) -> f64 {
        self.point(name).value.as_f64().unwrap()
    }

    fn quality(&self, name: &str) -> Quality {
        self.point(name).quality
    }

    fn state(&self) -> &Value {
        &self.points["$SYS/devices/d/state"].value
    }

    /// A metric of the driver, by its name and label.
    async fn count(&self, name: &str, label: &str) -> u64 {
        let (answer, counted) = oneshot::channel();
        self.inputs.send(FieldInput::Count(answer)).await.unwrap();
        let counted: Counted = counted.await.unwrap();
        let values = counted.each().filter(|(protocol, metric)| protocol.word() == "simulated" && metric.name == name);
        let values: Vec<_> = values.flat_map(|(_, metric)| metric.values.clone()).collect();
        values.iter().find(|(known, _)| *known == label).unwrap().1
    }
}

/// Runs a test with a device in virtual time.
fn play<F: Future<Output = ()>>(simulated: &str, test: impl FnOnce(World) -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&runtime, async { test(World::start(simulated).await).await });
}

#[test]
fn values_follow_and_commands_are_read_back_at_once() {
    play("delay='20ms'", |mut world| async move {
        world.pass(3_500).await;
        assert_eq!(
            (world.state(), world.number("room"), world.quality("room")),
            (&"online".into(), 20.0, Quality::GOOD)
        );
        // Its interval is an hour, and the first read is of all points.
        assert_eq!(world.point("slow").value, Value::Bool(true));
        assert!((2.0..=3.0).contains(&world.number("seconds")));
        world.command(1, SETPOINT, 25.0).await;
        world.pass(19).await;
        assert!(world.outcomes.is_empty() && world.number("setpoint") == 20.0);
        world.pass(4).await;
        assert_eq!((&world.outcomes[&1], world.number("setpoint")), (&Ok(()), 25.0));
        world.pass(600_000).await;
        assert!((world.number("room") - 25.0).abs() < 0.01);
        // A command of the room goes to the set point that the room follows.
        world.command(2, ROOM, 18.0).await;
        world.pass(25).await;
        assert_eq!((&world.outcomes[&2], world.number("setpoint")), (&Ok(()), 18.0));
        assert!(world.number("room") > 24.0);
        assert_eq!(world.count("commands", "").await, 2);
        assert_eq!((world.count("devices", "online").await, world.count("devices", "away").await), (1, 0));
    });
}

#[test]
fn a_device_that_does_not_answer_is_away_and_comes_back() {
    play("faults=[{kind='no_answer',at='10s',for='20s'}]", |mut world| async move {
        world.pass(10_100).await;
        assert_eq!(world.state(), &"online".into());
        let before = world.number("setpoint");
        for id in 1..=8 {
            world.command(id, SETPOINT, 30.0).await;
        }
        world.pass(1_200).await;
        let unknown = |id| world.outcomes[&id].as_ref().unwrap_err();
        assert!(
            (1..=8).all(|id| unknown(id).reason == "timeout" && unknown(id).maybe_operated),
            "{:?}",
            world.outcomes
        );
        world.pass(3_000).await;
        assert_eq!(world.state(), &"away".into());
        assert!(world.quality("room").contains(Quality::AWAY) && world.number("setpoint") == before);
        world.command(9, SETPOINT, 31.0).await;
        world.pass(10).await;
        let refused = world.outcomes[&9].clone().unwrap_err();
        assert_eq!((refused.reason, refused.maybe_operated), ("away", false));
        world.pass(45_000).await;
        assert_eq!((world.state(), world.quality("slow")), (&"online".into(), Quality::GOOD));
        // Of eight commands some had arrived.
        assert_eq!(world.number("setpoint"), 30.0);
        assert!(world.count("timeouts", "").await > 8 && world.count("faults", "no_answer").await > 8);
    });
}

#[test]
fn a_device_that_refuses_is_slow_and_its_values_are_stale() {
    play("faults=[{kind='refuse',at='10s',for='10s'}]", |mut world| async move {
        world.pass(13_500).await;
        assert_eq!(world.state(), &"slow".into());
        assert!(world.quality("room").contains(Quality::STALE));
        world.command(1, SETPOINT, 30.0).await;
        world.pass(100).await;
        let refused = world.outcomes[&1].clone().unwrap_err();
        assert_eq!((refused.reason, refused.maybe_operated), ("refused", false));
        world.pass(10_000).await;
        assert_eq!((world.state(), world.number("setpoint")), (&"online".into(), 20.0));
        assert_eq!(world.quality("room"), Quality::GOOD);
        assert!(world.count("refusals", "").await >= 3);
    });
}

#[test]
fn a_restart_is_reported_and_loses_what_was_commanded() {
    play("faults=[{kind='restart',at='20s',for='2s'}]", |mut world| async move {
        world.pass(5_000).await;
        world.command(1, SETPOINT, 25.0).await;
        world.pass(14_000).await;
        assert_eq!((world.number("setpoint"), world.number("seconds") > 15.0), (25.0, true));
        world.pass(8_000).await;
        assert_eq!((world.number("setpoint"), world.number("seconds") < 10.0), (20.0, true));
        assert_eq!((world.state(), world.quality("setpoint")), (&"online".into(), Quality::GOOD));
        assert_eq!(world.count("restarts", "").await, 1);
    });
}

#[test]
fn slow_answers_come_late_and_too_slow_ones_not_at_all() {
    let faults = "faults=[{kind='slow',by='500ms',at='10s',for='10s'},{kind='slow',by='2s',at='30s',for='10s'}]";
    play(faults, |mut world| async move {
        world.pass(15_000).await;
        world.command(1, SETPOINT, 25.0).await;
        world.pass(450).await;
        assert!(world.outcomes.is_empty());
        world.pass(100).await;
        assert_eq!(world.outcomes[&1], Ok(()));
        world.pass(15_500).await;
        world.command(2, SETPOINT, 26.0).await;
        world.pass(1_050).await;
        assert!(world.outcomes[&2].as_ref().unwrap_err().maybe_operated);
        world.pass(20_000).await;
        assert_eq!((world.state(), world.number("setpoint")), (&"online".into(), 26.0));
    });
}

#[test]
fn faults_of_points_are_seen_as_quality_and_values() {
    let faults = "faults=[{kind='bad',points=['room'],at='5s',for='5s',reason='offline'},\
                  {kind='spike',points=['setpoint'],by=100,at='5s',for='5s'}]";
    play(faults, |mut world| async move {
        world.pass(8_000).await;
        assert_eq!((world.quality("room"), world.quality("setpoint")), (Quality::OFFLINE, Quality::GOOD));
        assert_eq!((world.number("room"), world.number("setpoint")), (20.0, 120.0));
        world.pass(5_000).await;
        assert_eq!((world.quality("room"), world.number("setpoint")), (Quality::GOOD, 20.0));
    });
}

#[test]
fn a_seed_and_a_start_give_the_same_run_again() {
    let run = |seed: u32, speed: u32| {
        let (told, values) = std::sync::mpsc::channel();
        let settings = format!("seed={seed}\nspeed={speed}\nstart='2026-06-01T06:00:00Z'\ndelay_jitter='50ms'");
        play(&settings, |mut world| async move {
            for _ in 0..5 {
                world.pass(10_000).await;
                told.send(world.number("drifting")).unwrap();
            }
        });
        values.into_iter().collect::<Vec<f64>>()
    };
    assert_eq!(run(1, 1), run(1, 1));
    assert_ne!(run(1, 1), run(2, 1));
    assert_ne!(run(1, 1), run(1, 60));
}
