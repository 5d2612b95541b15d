//! Numbers as people read them, and a look as plain text.

use super::look::{Cluster, Look, Member, Rates, Session};
use crate::terminal;
use std::io::{self, Write};

/// Sessions and topics that fit a page of plain text.
const LINES_MAX: usize = 20;

/// A count in four characters or so: `950`, `12.3k`, `4.5M`.
pub fn count(value: f64) -> String {
    scaled(value, 1000.0, &["", "k", "M", "G", "T"])
}

/// Bytes: `950 B`, `12.3 KiB`, `4.5 MiB`.
pub fn bytes(value: f64) -> String {
    scaled(value, 1024.0, &[" B", " KiB", " MiB", " GiB", " TiB"])
}

fn scaled(value: f64, base: f64, units: &[&str]) -> String {
    let (mut value, mut unit) = (value, 0);
    // What would be shown as the base is shown in the next unit.
    while value >= base - 0.05 && unit + 1 < units.len() {
        value /= base;
        unit += 1;
    }
    let name = units.get(unit).copied().unwrap_or_default();
    if unit == 0 && value.fract() == 0.0 { format!("{value:.0}{name}") } else { format!("{value:.1}{name}") }
}

/// Milliseconds: `-`, `12 ms`, `1.5 s`, `3 min`.
pub fn lateness(ms: u64) -> String {
    match ms {
        0 => "-".to_owned(),
        1..1000 => format!("{ms} ms"),
        1000..120_000 => format!("{:.1} s", ms as f64 / 1000.0),
        120_000.. => format!("{} min", ms / 60_000),
    }
}

/// A text of a client without what would move the cursor, cut to so many characters.
pub fn plain(text: &str, width: usize) -> String {
    let shown = text.chars().map(|c| if terminal::is_active(c) { '\u{fffd}' } else { c });
    if text.chars().count() <= width {
        return shown.collect();
    }
    shown.take(width.saturating_sub(1)).chain(['…']).collect()
}

/// The lines above the tables: each a name and what is told of it.
pub fn summary(look: &Look, rates: &Rates) -> Vec<(&'static str, String)> {
    let (status, lag) = (&look.status, &look.status.lag);
    let late = match lag.sessions {
        0 => "none late".to_owned(),
        some => format!("{some} late by up to {}", lateness(lag.ms)),
    };
    let mut lines = vec![
        (
            "node",
            format!(
                "{} {} up {} · cpu {} % · memory {} · {} topics · {}/{} devices online",
                plain(&status.name, 40),
                status.version,
                uptime(status.uptime_s),
                rates.cpu_percent,
                bytes(look.memory() as f64),
                count(status.topics as f64),
                status.devices.online,
                status.devices.total
            ),
        ),
        (
            "in",
            format!(
                "{} updates/s · {} published/s · {}/s",
                count(rates.updates_per_s),
                count(rates.published_per_s),
                bytes(rates.bytes_in_per_s)
            ),
        ),
        (
            "out",
            format!(
                "{} deliveries/s · {}/s · {} conflated/s · {} dropped/s",
                count(rates.deliveries_per_s),
                bytes(rates.bytes_out_per_s),
                count(rates.conflated_per_s),
                count(rates.dropped_per_s)
            ),
        ),
        (
            "sessions",
            format!(
                "{} with {} subscriptions · {late} · {} waiting, {}",
                count(status.sessions as f64),
                count(status.subscriptions as f64),
                count(lag.waiting as f64),
                bytes(lag.bytes as f64)
            ),
        ),
    ];
    lines.extend(status.cluster.as_ref().map(|core| ("core", members(core))));
    lines
}

/// Who leads a core, and how its members do.
fn members(core: &Cluster) -> String {
    let leader = core.leader.as_deref().map_or("no leader is heard".to_owned(), |name| format!("{name} leads"));
    let mut said = format!("{} · {leader} in term {}", plain(&core.cluster, 32), core.term);
    for Member { name, role, lag, behind_s } in core.members.iter().filter(|member| member.role != "leader") {
        let lag = lag.map_or("lag unknown".to_owned(), |lag| format!("{} behind", count(lag as f64)));
        let age = behind_s.map_or(String::new(), |seconds| format!(", {seconds:.1} s"));
        said.push_str(&format!(" · {} {} {lag}{age}", plain(name, 32), role.replace('_', " ")));
    }
    said
}

fn uptime(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60) {
        (0, 0, 0) => format!("{seconds} s"),
        (0, 0, minutes) => format!("{minutes} min"),
        (0, hours, minutes) => format!("{hours} h {minutes} min"),
        (days, hours, _) => format!("{days} d {hours} h"),
    }
}

/// The columns of sessions, each with its width; the first takes what is left.
pub const COLUMNS: [(&str, u16); 8] = [
    ("client", 32),
    ("late", 9),
    ("waiting", 8),
    ("bytes", 10),
    ("msg/s", 8),
    ("bytes/s", 12),
    ("conflated", 9),
    ("dropped", 8),
];

/// What stands in the columns of a session, its identifier cut to so many characters.
pub fn cells(session: &Session, client: usize) -> [String; 8] {
    [
        plain(&session.client, client),
        lateness(session.late_ms),
        count(session.waiting as f64),
        bytes(session.waiting_bytes as f64),
        count(session.messages_per_s),
        bytes(session.bytes_per_s),
        count(session.conflated as f64),
        count(session.dropped as f64),
    ]
}

/// Writes a look for people who pipe it.
pub fn write(look: &Look, rates: &Rates, out: &mut impl Write) -> io::Result<()> {
    for (name, text) in summary(look, rates) {
        writeln!(out, "{name:8}  {text}")?;
    }
    writeln!(out)?;
    let names = COLUMNS.map(|(name, _)| name.to_owned());
    let rows = look.sessions.iter().take(LINES_MAX).map(|session| cells(session, 32));
    for row in std::iter::once(names).chain(rows) {
        for (number, (text, (_, width))) in row.iter().zip(COLUMNS).enumerate() {
            let width = usize::from(width);
            if number == 0 { write!(out, "{text:width$}")? } else { write!(out, " {text:>width$}")? }
        }
        writeln!(out)?;
    }
    writeln!(out, "\n{:60} {:>10} {:>12}", "topic", "updates/s", "bytes/s")?;
    for topic in look.topics.iter().take(LINES_MAX) {
        let (updates, size) = (count(topic.updates_per_s), bytes(topic.bytes_per_s));
        writeln!(out, "{:60} {updates:>10} {size:>12}", plain(&topic.topic, 60))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::look::sample;
    use super::*;
    use std::time::Instant;

    #[test]
    fn numbers_are_short() {
        let cases = [(0.0, "0"), (0.25, "0.2"), (950.0, "950"), (999.96, "1.0k"), (12_345.0, "12.3k"), (4.5e6, "4.5M")];
        cases.into_iter().for_each(|(value, expect)| assert_eq!(count(value), expect));
        let cases = [(950.0, "950 B"), (1024.0, "1.0 KiB"), (4.5 * 1_048_576.0, "4.5 MiB")];
        cases.into_iter().for_each(|(value, expect)| assert_eq!(bytes(value), expect));
        let cases = [(0, "-"), (12, "12 ms"), (1500, "1.5 s"), (200_000, "3 min")];
        cases.into_iter().for_each(|(ms, expect)| assert_eq!(lateness(ms), expect));
        let cases = [(59.9, "59 s"), (61.0, "1 min"), (7300.0, "2 h 1 min"), (90_000.0, "1 d 1 h")];
        cases.into_iter().for_each(|(s, expect)| assert_eq!(uptime(s), expect));
        assert_eq!(plain("a\u{1b}[2Jb", 4), "a\u{fffd}[…");
    }

    #[test]
    fn a_look_is_a_page() {
        let first = Instant::now();
        let look = sample(first, 2, 1500);
        let mut text = Vec::new();
        write(&look, &look.rates_since(&sample(first, 0, 1000)), &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        let has = |expect: &str| assert!(text.contains(expect), "{expect}\n{text}");
        has("node      west 0.1.0 up 1 min · cpu 50 % · memory 50.0 MiB · 12.3k topics · 0/0 devices online\n");
        has("in        250 updates/s · 0 published/s · 0 B/s\n");
        has("sessions  2 with 1.0k subscriptions · 1 late by up to 1.5 s · 7 waiting, 4.0 KiB\n");
        has("\nscada/1                              1.5 s        7");
        has("\nsite/a/volts ");
    }
}
