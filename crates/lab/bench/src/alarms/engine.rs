//! The engine alone: so many quiet alarms of one template, and values that change nothing.

use crate::process;
use crate::rounds::{median, short};
use anyhow::{Context, Result, ensure};
use serde::Serialize;
use std::collections::HashMap;
use std::hint::black_box;
use std::time::Instant;
use tieline_alarms::{Alarms, InputId, Rules, Settings};
use tieline_core::{Now, Point, Topic, Value};

/// Rounds of updates.
const ROUNDS: usize = 5;

/// What was measured.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// From rules and topics to alarms.
    pub start_s: f64,
    /// Resident memory of an alarm with its topic, which nothing is to be said of.
    pub bytes_per_alarm: f64,
    /// Processor time of a value that changes nothing; median of the rounds.
    pub ns_per_update: f64,
    /// The same of a look at a limit in a map of topics.
    pub floor_ns_per_update: f64,
}

/// Measures the engine with so many alarms.
pub fn measure(count: usize) -> Result<Figures> {
    let topics: Vec<Topic> =
        (0..count).map(|number| Topic::new(&format!("plant/e{number}/current"))).collect::<Result<_, _>>()?;
    let (now, before) = (Now::default(), process::resident_bytes()?);
    let began = Instant::now();
    let rules = Rules::parse(super::RULES, 100, false).map_err(|errors| anyhow::anyhow!("{}", errors[0]))?;
    let mut alarms = Alarms::new(Settings { alarms_max: count, ..Settings::default() }, rules);
    let inputs: Option<Vec<InputId>> = topics.iter().map(|topic| alarms.declare(now, topic)).collect();
    let inputs = inputs.context("a topic without an alarm")?;
    let start_s = began.elapsed().as_secs_f64();
    let bytes = process::resident_bytes()?.saturating_sub(before) as f64;
    let limits: HashMap<&Topic, f64> = topics.iter().map(|topic| (topic, 400.0)).collect();
    let (mut ours, mut floor) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        let value = 100.0 + f64::from(u8::try_from(round).unwrap_or_default());
        let point = Point { value: Value::Float(value), ..Point::default() };
        let began = process::thread_cpu();
        for input in &inputs {
            alarms.handle_point(now, *input, &point);
        }
        ours.push((process::thread_cpu() - began).as_secs_f64() * 1e9 / count as f64);
        let (began, mut above) = (process::thread_cpu(), 0_usize);
        for topic in &topics {
            above += usize::from(limits.get(topic).is_some_and(|limit| black_box(value) > *limit));
        }
        floor.push((process::thread_cpu() - began).as_secs_f64() * 1e9 / count as f64);
        ensure!(black_box(above) == 0 && alarms.poll_event().is_none(), "a quiet value raised an alarm");
    }
    let figure = |times: &[f64]| short(median(times));
    Ok(Figures {
        start_s: short(start_s),
        bytes_per_alarm: short(bytes / count as f64),
        ns_per_update: figure(&ours),
        floor_ns_per_update: figure(&floor),
    })
}
