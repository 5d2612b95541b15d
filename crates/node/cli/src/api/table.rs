//! Tables and words for people.

use crate::terminal;
use serde_json::Value as Json;
use std::io::{self, Write};
use tieline_core::Timestamp;

/// Which way the cells of a column go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    Left,
    Right,
}

/// Rows below a head; columns as wide as their widest cell. Without rows, that there is none.
pub fn write<const N: usize>(head: [(&str, Align); N], rows: &[[String; N]], out: &mut impl Write) -> io::Result<()> {
    if rows.is_empty() {
        return writeln!(out, "none");
    }
    let titles = head.map(|(title, _)| title.to_owned());
    let width = |column: usize| {
        let cells = std::iter::once(&titles).chain(rows).map(|row| row.get(column).map_or(0, |c| c.chars().count()));
        cells.max().unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    for row in std::iter::once(&titles).chain(rows) {
        let mut line = String::new();
        for ((cell, (_, align)), width) in row.iter().zip(head).zip(widths) {
            if !line.is_empty() {
                line.push_str("  ");
            }
            match align {
                Align::Left => line.push_str(&format!("{cell:width$}")),
                Align::Right => line.push_str(&format!("{cell:>width$}")),
            }
        }
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// Text without quotation marks, nothing for null, anything else as JSON; in one line, whatever a client has sent.
pub fn plain(json: &Json) -> String {
    let text = match json {
        Json::Null => String::new(),
        Json::String(text) => text.clone(),
        other => rounded(other).to_string(),
    };
    text.replace(terminal::is_active, " ")
}

/// A number without what only counting in binary has put behind its fifteenth digit.
pub fn rounded(json: &Json) -> Json {
    let rounded = || format!("{:.14e}", json.as_f64()?).parse::<f64>().ok();
    if json.is_f64() { rounded().map_or(json.clone(), Json::from) } else { json.clone() }
}

/// A number and its noun: `1 device`, `2 devices`.
pub fn count(number: usize, noun: &str) -> String {
    let s = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{s}")
}

/// How long ago, in the largest unit that fits; empty where the time is none.
pub fn age(time: &str, now: Timestamp) -> String {
    let Ok(time) = time.parse::<Timestamp>() else { return String::new() };
    match (now.micros() - time.micros()) / 1_000_000 {
        ..0 => "ahead".to_owned(),
        seconds => lasting(seconds.unsigned_abs()),
    }
}

/// Seconds, in the largest unit that fits.
pub fn lasting(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds}s"),
        120..7200 => format!("{}m", seconds / 60),
        7200..172_800 => format!("{}h", seconds / 3600),
        172_800.. => format!("{}d", seconds / 86_400),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_shown_as_they_were_meant() {
        let cases = [(47.400_000_000_000_006, "47.4"), (-2.0, "-2.0"), (1.0 / 3.0, "0.333333333333333")];
        cases.into_iter().for_each(|(number, expect)| assert_eq!(plain(&Json::from(number)), expect));
        assert_eq!(plain(&Json::from(u64::MAX)), u64::MAX.to_string());
    }

    #[test]
    fn without_rows_there_is_none() {
        let mut out = Vec::new();
        write([("a", Align::Left)], &[], &mut out).unwrap();
        assert_eq!(out, b"none\n");
    }

    #[test]
    fn tables_are_aligned_and_counts_are_of_one_or_many() {
        let rows = [["a".to_owned(), "1".to_owned()], ["long/ü".to_owned(), "1000".to_owned()]];
        let mut out = Vec::new();
        write([("topic", Align::Left), ("n", Align::Right)], &rows, &mut out).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), "topic      n\na          1\nlong/ü  1000\n");
        assert_eq!([0, 1, 2].map(|n| count(n, "device")), ["0 devices", "1 device", "2 devices"]);
    }

    #[test]
    fn what_clients_send_stays_in_its_line() {
        assert_eq!(plain(&Json::from("a\u{1b}[2J\nb")), "a [2J b");
        assert_eq!(plain(&Json::Null), "");
    }

    #[test]
    fn ages_are_short() {
        let now: Timestamp = "2026-11-20T09:36:05Z".parse().unwrap();
        let cases = [
            ("2026-11-20T09:34:06Z", "119s"),
            ("2026-11-20T09:34:05Z", "2m"),
            ("2026-11-20T07:36:05Z", "2h"),
            ("2026-11-18T09:36:05Z", "2d"),
            ("2026-11-20T09:37:05Z", "ahead"),
            ("?", ""),
        ];
        cases.into_iter().for_each(|(time, expect)| assert_eq!(age(time, now), expect, "{time}"));
    }
}
