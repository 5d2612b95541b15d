//! How a device does.

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
    /// Polls that came due while the one before was still out.
    pub polls_skipped: u64,
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
}

impl DeviceHealth {
    /// Appends the health as a JSON object to `out`: members as the fields here, `rtt_ms` in milliseconds.
    pub fn write_json(&self, out: &mut String) {
        let counts = &self.counts;
        let _ = write!(out, "{{\"state\":\"{}\",\"why\":", self.state.name());
        json_string(&self.why, out);
        let _ = write!(out, ",\"since\":\"{}\",\"last_seen\":", self.since);
        match self.last_seen {
            Some(time) => drop(write!(out, "\"{time}\"")),
            None => out.push_str("null"),
        }
        out.push_str(",\"rtt_ms\":");
        match self.rtt {
            Some(rtt) => drop(write!(out, "{}.{:03}", rtt.as_millis(), rtt.subsec_micros() % 1000)),
            None => out.push_str("null"),
        }
        let members = [
            ("polls", counts.polls),
            ("poll_failures", counts.poll_failures),
            ("timeouts", counts.timeouts),
            ("polls_skipped", counts.polls_skipped),
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
        out.push('}');
    }
}
