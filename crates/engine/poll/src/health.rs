//! How a device does.

use alloc::borrow::Cow;
use alloc::boxed::Box;
use alloc::string::String;
use core::fmt::Write;
use core::time::Duration;
use tieline_core::{Timestamp, json_string};

/// One word for how a device does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DeviceState {
    /// No answer yet since the start or since the link was lost.
    Connecting,
    /// It answers.
    Online,
    /// It is connected, but the last poll failed or took too long.
    Slow,
    /// It cannot be reached.
    Away,
    /// It sent what its protocol does not allow within the last ten seconds.
    Garbage,
    /// It said that it restarted and has not been read since.
    Restarting,
}

impl DeviceState {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::Connecting, Self::Online, Self::Slow, Self::Away, Self::Garbage, Self::Restarting];

    /// The word in topics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Connecting => "connecting",
            Self::Online => "online",
            Self::Slow => "slow",
            Self::Away => "away",
            Self::Garbage => "garbage",
            Self::Restarting => "restarting",
        }
    }
}

/// What happened at a device since it was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceCounts {
    /// Polls that ended, well or not.
    pub polls: u64,
    /// Polls that failed: timeouts and errors.
    pub poll_failures: u64,
    /// Polls that were not answered in time.
    pub timeouts: u64,
    /// Polls that came due while the one before was still out or waited.
    pub polls_skipped: u64,
    /// Rounds that ended: each part of a class was polled, well or not.
    pub rounds: u64,
    /// Readings of points of the table.
    pub readings: u64,
    /// Readings that were reported changes.
    pub events: u64,
    /// Readings of points that the table does not have.
    pub unknown_readings: u64,
    /// Times that something came which the protocol does not allow.
    pub garbage: u64,
    /// Times that the device said it restarted.
    pub restarts: u64,
    /// Times that the link came up.
    pub connects: u64,
    /// Times that the link was lost.
    pub losses: u64,
    /// Times that one end could not prove to the other who it is, or may not do what it asked for.
    pub authentication_failures: u64,
}

/// One of several connections of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionHealth {
    /// Where it goes to.
    pub address: Box<str>,
    /// What it is used for, in one word that its protocol has for it.
    pub state: &'static str,
    /// Why it is away; empty otherwise.
    pub why: Box<str>,
}

/// How a device does, and since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeviceHealth {
    /// In one word.
    pub state: DeviceState,
    /// Why it is away; empty otherwise.
    pub why: Box<str>,
    /// Since when it is in this state.
    pub since: Timestamp,
    /// When the last reading came or the last poll succeeded.
    pub last_seen: Option<Timestamp>,
    /// How long the last poll that succeeded took.
    pub rtt: Option<Duration>,
    /// What happened.
    pub counts: DeviceCounts,
    /// When the next poll is due; none while the device is not polled.
    pub next_poll: Option<Timestamp>,
    /// After what time a device that does not answer is tried again; none while polls go as planned.
    pub back_off: Option<Duration>,
    /// The last error of a poll, and when it was.
    pub last_error: Option<(Timestamp, Cow<'static, str>)>,
    /// How long polls that succeeded took.
    pub poll_times: PollTimes,
    /// Its connections, where it has several that take each other's place.
    pub connections: Box<[ConnectionHealth]>,
}

/// A histogram of the time that polls take. Its buckets double: up to 1 ms, 2 ms, 4 ms and so on; the last holds all that
/// took longer. Counts stop at 4,294,967,295.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollTimes([u32; PollTimes::BUCKETS]);

impl PollTimes {
    /// How many buckets there are; the last is of more than 32,768 ms.
    pub const BUCKETS: usize = 17;

    /// The buckets, each with its upper bound in milliseconds; none of the last.
    pub fn buckets(&self) -> impl Iterator<Item = (Option<u64>, u32)> {
        let bounds = (0..Self::BUCKETS).map(|at| (at + 1 < Self::BUCKETS).then(|| 1u64 << at));
        bounds.zip(self.0)
    }

    pub(crate) fn add(&mut self, took: Duration) {
        let millis = took.as_nanos().div_ceil(1_000_000).max(1);
        // The smallest power of two that is not below it.
        let at = usize::try_from(u128::BITS - (millis - 1).leading_zeros()).unwrap_or(usize::MAX);
        if let Some(count) = self.0.get_mut(at.min(Self::BUCKETS - 1)) {
            *count = count.saturating_add(1);
        }
    }

    /// The buckets that are not empty: `{"8":3,"more":1}`.
    fn write_json(&self, out: &mut String) {
        let mut separator = '{';
        for (bound, count) in self.buckets().filter(|(_, count)| *count > 0) {
            let _ = match bound {
                Some(bound) => write!(out, "{separator}\"{bound}\":{count}"),
                None => write!(out, "{separator}\"more\":{count}"),
            };
            separator = ',';
        }
        out.push_str(if separator == '{' { "{}" } else { "}" });
    }
}

impl DeviceHealth {
    /// Appends the health as a JSON object to `out`: members as the fields here,
    /// `rtt_ms` and `back_off_ms` in milliseconds, `poll_ms` the buckets of [`PollTimes`] that are not empty, `connections` only
    /// where there are some.
    pub fn write_json(&self, out: &mut String) {
        let counts = &self.counts;
        let _ = write!(out, "{{\"state\":\"{}\",\"why\":", self.state.name());
        json_string(&self.why, out);
        let _ = write!(out, ",\"since\":\"{}\",\"last_seen\":", self.since);
        write_or_null(out, self.last_seen, |out, time| write!(out, "\"{time}\""));
        out.push_str(",\"rtt_ms\":");
        write_or_null(out, self.rtt, |out, rtt| write!(out, "{}.{:03}", rtt.as_millis(), rtt.subsec_micros() % 1000));
        let members = [
            ("polls", counts.polls),
            ("poll_failures", counts.poll_failures),
            ("timeouts", counts.timeouts),
            ("polls_skipped", counts.polls_skipped),
            ("rounds", counts.rounds),
            ("readings", counts.readings),
            ("events", counts.events),
            ("unknown_readings", counts.unknown_readings),
            ("garbage", counts.garbage),
            ("restarts", counts.restarts),
            ("connects", counts.connects),
            ("losses", counts.losses),
            ("authentication_failures", counts.authentication_failures),
        ];
        for (name, count) in members {
            let _ = write!(out, ",\"{name}\":{count}");
        }
        out.push_str(",\"next_poll\":");
        write_or_null(out, self.next_poll, |out, time| write!(out, "\"{time}\""));
        out.push_str(",\"back_off_ms\":");
        write_or_null(out, self.back_off, |out, every| write!(out, "{}", every.as_millis()));
        out.push_str(",\"last_error\":");
        write_or_null(out, self.last_error.as_ref(), |out, (time, text)| {
            write!(out, "{{\"t\":\"{time}\",\"text\":")?;
            json_string(text, out);
            out.write_char('}')
        });
        out.push_str(",\"poll_ms\":");
        self.poll_times.write_json(out);
        self.write_connections(out);
        out.push('}');
    }

    fn write_connections(&self, out: &mut String) {
        let mut separator = ",\"connections\":[";
        for ConnectionHealth { address, state, why } in &self.connections {
            let _ = write!(out, "{separator}{{\"address\":");
            json_string(address, out);
            let _ = write!(out, ",\"state\":\"{state}\",\"why\":");
            json_string(why, out);
            out.push('}');
            separator = ",";
        }
        if !self.connections.is_empty() {
            out.push(']');
        }
    }
}

fn write_or_null<T>(out: &mut String, value: Option<T>, write: impl FnOnce(&mut String, T) -> core::fmt::Result) {
    match value {
        // Writing to a string does not fail.
        Some(value) => drop(write(out, value)),
        None => out.push_str("null"),
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use std::vec::Vec;

    #[test]
    fn poll_times_are_counted_by_powers_of_two() {
        let mut times = PollTimes::default();
        for micros in [0, 1, 1_000, 1_001, 2_000, 2_001, 32_768_000, 32_768_001, u64::MAX] {
            times.add(Duration::from_micros(micros));
        }
        let found: Vec<_> = times.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(found, [(Some(1), 3), (Some(2), 2), (Some(4), 1), (Some(32_768), 1), (None, 2)]);
        let mut json = String::new();
        times.write_json(&mut json);
        assert_eq!(json, r#"{"1":3,"2":2,"4":1,"32768":1,"more":2}"#);
        json.clear();
        PollTimes::default().write_json(&mut json);
        assert_eq!(json, "{}");
    }
}
