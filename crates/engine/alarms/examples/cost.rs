//! What alarms cost: memory of a quiet one, an update that changes nothing, a channel that goes away with all below it.
//!
//! `cargo run --release -p tieline-alarms --example cost -- [alarms]`
#![expect(clippy::print_stdout, reason = "its output is the figure")]

use cap::Cap;
use std::alloc::System;
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::time::Duration;
use tieline_alarms::{Alarms, Event, InputId, PlaceName, Rules, Settings};
use tieline_core::{Instant, Now, Point, Quality, Topic, Value};

#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

const ROUNDS: u32 = 20;
/// Devices of the channel, and points of each.
const DEVICES: usize = 250;
const POINTS: usize = 18;

fn main() -> Result<(), Box<dyn Error>> {
    let count = std::env::args().nth(1).map_or(Ok(100_000), |text| text.parse())?;
    quiet(count, true)?;
    quiet(count, false)?;
    channel()
}

/// The time this thread has run, without that of others on a busy machine.
fn cpu_time() -> Result<Duration, Box<dyn Error>> {
    let text = fs::read_to_string("/proc/thread-self/schedstat")?;
    let first = text.split_whitespace().next().ok_or("no first number in schedstat")?;
    Ok(Duration::from_nanos(first.parse()?))
}

fn start() -> Now {
    Now { mono: Instant::ZERO + Duration::from_secs(1), ..Now::default() }
}

/// Alarms of one template, or a row for each.
fn quiet(count: usize, is_template: bool) -> Result<(), Box<dyn Error>> {
    let topics: Vec<String> = (0..count).map(|n| format!("site/feeder{}/relay{n}/current", n % 1000)).collect();
    let mut text = String::from("topic,kind,limit,priority\n");
    if is_template {
        text.push_str("site/+/+/current,high,400,high\n");
    } else {
        for topic in &topics {
            writeln!(text, "{topic},high,400,high")?;
        }
    }
    let (began, before) = (cpu_time()?, MEMORY.allocated());
    let rules = Rules::parse(&text, count.max(1), false).map_err(|errors| errors[0].to_string())?;
    let mut alarms = Alarms::new(Settings { alarms_max: count, ..Settings::default() }, rules);
    let of_rules = MEMORY.allocated() - before;
    let topics: Vec<Topic> = topics.iter().map(|topic| Topic::new(topic)).collect::<Result<_, _>>()?;
    let before = MEMORY.allocated();
    let inputs: Vec<Option<InputId>> = topics.iter().map(|topic| alarms.declare(start(), topic)).collect();
    let bytes = MEMORY.allocated() - before - inputs.capacity() * size_of::<Option<InputId>>();
    let started = cpu_time()? - began;
    let began = cpu_time()?;
    for round in 0..ROUNDS {
        let point = Point { value: Value::Float(f64::from(round)), ..Point::default() };
        for input in inputs.iter().flatten() {
            alarms.handle_point(start(), *input, &point);
        }
    }
    let nanos = (cpu_time()? - began).as_secs_f64() * 1e9 / f64::from(ROUNDS) / inputs.len() as f64;
    let each = |bytes: usize| bytes / count.max(1);
    println!(
        "{} alarms, {}: {} bytes each, {} of rules; start {:.0} ms; an update {nanos:.0} ns",
        alarms.stats().alarms,
        if is_template { "one template" } else { "a row each" },
        each(bytes),
        each(of_rules),
        started.as_secs_f64() * 1e3,
    );
    Ok(())
}

/// A channel goes away: its devices, and every point of theirs.
fn channel() -> Result<(), Box<dyn Error>> {
    let rules = Rules::parse("topic,kind,priority\n#,away,high\n", 1, false).map_err(|errors| errors[0].to_string())?;
    let mut alarms = Alarms::new(Settings::default(), rules);
    let line = Topic::new("line")?;
    let devices: Vec<Topic> = (0..DEVICES).map(|n| Topic::new(&format!("site/d{n}"))).collect::<Result<_, _>>()?;
    let mut places = vec![PlaceName { name: line.clone(), parent: None }];
    places.extend(devices.iter().map(|name| PlaceName { name: name.clone(), parent: Some(line.clone()) }));
    alarms.set_places(start(), &places);
    let mut inputs = Vec::new();
    for device in &devices {
        for point in 0..POINTS {
            inputs.extend(alarms.declare(start(), &device.join(&format!("p{point}"))?));
        }
    }
    let began = cpu_time()?;
    let away = Point { quality: Quality::AWAY, ..Point::default() };
    for input in &inputs {
        alarms.handle_point(start(), *input, &away);
    }
    for device in &devices {
        alarms.handle_presence(start(), device, false);
    }
    alarms.handle_presence(start(), &line, false);
    let (mut events, mut count) = (0, 0);
    while let Some(event) = alarms.poll_event() {
        events += 1;
        if let Event::Change(change) = event {
            count = count.max(change.alarm.count);
        }
    }
    let millis = (cpu_time()? - began).as_secs_f64() * 1e3;
    let standing = alarms.counts().active;
    println!(
        "a channel of {} points goes away last: {standing} stands, {count} below it; {events} events, {millis:.1} ms",
        inputs.len()
    );
    Ok(())
}
