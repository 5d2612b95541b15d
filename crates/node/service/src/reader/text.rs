//! The text of a configuration file, and what files that are none look like.

use super::{ConfigError, Finding, WHOLE_FILE, abridged};
use std::io::ErrorKind;
use std::path::Path;

/// The text of a configuration file.
///
/// # Errors
/// The file cannot be read, is of comma-separated values, or has nothing of a TOML file.
pub fn read_text(path: &Path) -> Result<String, ConfigError> {
    let wrong = |found: String, expected: &str| {
        let (file, key, expected) = (path.display().to_string(), WHOLE_FILE.to_owned(), expected.to_owned());
        ConfigError(vec![Finding { file, line: 1, column: 1, key, found, expected }])
    };
    let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => wrong("no such file".to_owned(), "a TOML file"),
        ErrorKind::IsADirectory => wrong("a folder".to_owned(), "a TOML file"),
        ErrorKind::InvalidData => wrong("bytes that are not UTF-8".to_owned(), "a TOML file"),
        _ => wrong(error.to_string(), "a readable TOML file"),
    })?;
    match Look::of(&text) {
        Look::Toml => Ok(text),
        Look::Csv => Err(wrong("comma-separated values (CSV)".to_owned(), NO_CSV)),
        Look::Other(line) => Err(wrong(format!("a text that is no configuration: {:?}", abridged(line)), NO_OTHER)),
    }
}

/// What to do with a point list that was given as a configuration.
const NO_CSV: &str =
    "a TOML file; point lists are named in it by the devices that they are of, as in points = \"relay1.csv\"";

const NO_OTHER: &str = "a TOML file: tables, as in [name], and keys, as in name = value";

/// What a text looks like.
#[derive(Debug, PartialEq, Eq)]
enum Look<'a> {
    /// TOML, perhaps with errors.
    Toml,
    Csv,
    /// Something else, with its first line.
    Other(&'a str),
}

impl<'a> Look<'a> {
    fn of(text: &'a str) -> Self {
        let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
        let mut lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#')).peekable();
        let Some(first) = lines.peek().copied() else { return Self::Toml };
        if first.contains([',', ';']) && !first.contains(['=', '[', '{']) {
            return Self::Csv;
        }
        // TOML begins with a table or a key. If a person's error hides that, the lines that follow show it.
        if begins_toml(first) {
            return Self::Toml;
        }
        let (toml, all) =
            lines.fold((0_usize, 0_usize), |(toml, all), line| (toml + usize::from(begins_toml(line)), all + 1));
        if toml * 2 < all { Self::Other(first) } else { Self::Toml }
    }
}

/// Whether a line is the name of a table, or begins with a key and `=`.
fn begins_toml(line: &str) -> bool {
    let is_name = |text: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | ' ' | '\t' | '"' | '\'');
        // What stands in quotation marks may be anything.
        !text.trim().is_empty()
            && (text.chars().all(allowed) && !text.trim().contains(' ') || text.starts_with(['"', '\'']))
    };
    if let Some(rest) = line.strip_prefix('[') {
        let inner = rest.strip_prefix('[').unwrap_or(rest);
        return inner.split_once(']').is_some_and(|(name, _)| is_name(name));
    }
    line.split_once('=').is_some_and(|(key, _)| is_name(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_no_configuration_are_told_from_those_with_errors() {
        let check = |text: &str, expect: Look<'_>| assert_eq!(Look::of(text), expect, "{text:?}");
        let log = "2026-11-20T09:36:00Z  INFO node: began name=demo\n2026-11-20T09:36:01Z  WARN field: away\n";
        check(log, Look::Other("2026-11-20T09:36:00Z  INFO node: began name=demo"));
        check(
            "[2026-11-20 09:36:00] INFO began\n[2026-11-20 09:36:01] INFO ended",
            Look::Other("[2026-11-20 09:36:00] INFO began"),
        );
        check("{\n  \"name\": \"x\",\n  \"on\": true\n}\n", Look::Other("{"));
        check("services:\n  node:\n    image: x\n", Look::Other("services:"));
        check("#!/bin/sh\nset -e\nA=1\nrun it\n", Look::Other("set -e"));
        check("name,type\na,analog\n", Look::Csv);
        check("", Look::Toml);
        check("# nothing\n", Look::Toml);
        check("[node]\nname = \"x\"\n", Look::Toml);
        check("[[history.databases]]\nname = \"x\"\n", Look::Toml);
        check("\"a key\" = 1\n", Look::Toml);
        check("device.relay1.points = \"a.csv\"\n", Look::Toml);
        // Errors that a person makes.
        check("[node\nname = \"x\"\n[http]\nlisten = 5\n", Look::Toml);
        check("name: x\n[http]\nlisten = 5\n", Look::Toml);
        check("name \"x\"\n", Look::Other("name \"x\""));
    }
}
