//! `tieline delta decode`: payloads of docs/delta.md in plain words.

use crate::terminal;
use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use serde_json::{Value as Json, json};
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use tieline_core::{Body, json_string};
use tieline_delta::{CodecId, Codecs, Decoded, Decoder, Kind, Parts, items};

/// `tieline delta`.
#[derive(Debug, Subcommand)]
pub enum DeltaVerb {
    /// Explain payloads of deltas, given as hexadecimal digits, one on each line
    Decode(DecodeArgs),
}

/// `tieline delta decode`.
#[derive(Debug, Args)]
pub struct DecodeArgs {
    /// File; without it, standard input. A line that begins with == starts another topic, lines with # and > are ignored
    pub file: Option<PathBuf>,
    /// One JSON object a payload and line
    #[arg(long)]
    pub json: bool,
}

/// The longest value that is rebuilt, in bytes: the longest of MQTT.
const VALUE_BYTES_MAX: usize = 256 << 20;

/// Runs a verb.
///
/// # Errors
/// The file cannot be read, or a line is no hexadecimal digits. A payload that cannot be applied is told, and the exit
/// code is 1.
pub fn delta(verb: &DeltaVerb) -> Result<ExitCode> {
    let DeltaVerb::Decode(args) = verb;
    let mut out = std::io::stdout().lock();
    let all_well = match &args.file {
        Some(path) => {
            let file = File::open(path).with_context(|| format!("{} cannot be read", path.display()))?;
            decode(BufReader::new(file), args.json, &mut out)?
        }
        None => decode(std::io::stdin().lock(), args.json, &mut out)?,
    };
    Ok(if all_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether all payloads could be applied.
fn decode(lines: impl BufRead, json: bool, out: &mut impl Write) -> Result<bool> {
    let (mut codecs, mut decoder) = (Codecs::built_in(), Decoder::new(VALUE_BYTES_MAX));
    let (mut all_well, mut topic) = (true, String::new());
    for (at, line) in lines.lines().enumerate() {
        let line = line?;
        let text = line.trim();
        if text.starts_with("==") {
            decoder = Decoder::new(VALUE_BYTES_MAX);
            text.trim_matches(['=', ' ']).clone_into(&mut topic);
            if !json {
                writeln!(out, "{text}")?;
            }
        }
        if text.is_empty() || text.starts_with(['#', '=', '>']) {
            continue;
        }
        let digits = text.strip_prefix('<').unwrap_or(text);
        let Some(bytes) = bytes(digits) else { bail!("line {}: expected pairs of hexadecimal digits", at + 1) };
        let what = what(&bytes);
        let count = bytes.len();
        let came = decoder.apply(&bytes.into(), &mut codecs);
        all_well &= came.is_ok();
        if json {
            let (status, value) = match &came {
                Ok(Decoded::Value(body)) => ("value", value(body)),
                Ok(Decoded::Checked) => ("checked", Json::Null),
                Ok(Decoded::Waiting) => ("waiting", Json::Null),
                Err(_) => ("lost", Json::Null),
            };
            let topic = Some(&topic).filter(|topic| !topic.is_empty());
            let error = came.as_ref().err().map(ToString::to_string);
            let told = json!({
                "line": at + 1, "topic": topic, "payload": what, "bytes": count, "status": status, "value": value,
                "error": error,
            });
            writeln!(out, "{}", terminal::json(&told.to_string()))?;
            continue;
        }
        let came = match came {
            Ok(Decoded::Value(body)) => words(&body),
            Ok(Decoded::Checked) => "the value held is the present one".to_owned(),
            Ok(Decoded::Waiting) => "dropped: a whole value is waited for".to_owned(),
            Err(error) => format!("LOST: {error}"),
        };
        writeln!(out, "{what}, {count} bytes: {came}")?;
    }
    Ok(all_well)
}

/// Kind and revisions of a payload.
fn what(payload: &[u8]) -> String {
    if payload.is_empty() {
        return "cleared".to_owned();
    }
    let Ok(parts) = Parts::parse(payload) else { return "malformed".to_owned() };
    let (from, to) = (parts.header.revision, parts.result());
    let check = if parts.crc.is_some() { ", checked" } else { "" };
    let kind = match parts.header.kind {
        Kind::Bytes => return format!("{to} bytes, whole"),
        Kind::Point => return format!("{to} point, whole"),
        Kind::Same => "the same again".to_owned(),
        Kind::Delta(codec) => name(codec),
        Kind::Several => {
            let codecs: Vec<String> = items(parts.rest).flatten().map(|(codec, _)| name(codec)).collect();
            format!("several ({})", codecs.join(", "))
        }
    };
    format!("{from}→{to} {kind}{check}")
}

fn name(codec: CodecId) -> String {
    match codec {
        CodecId::POINT => "point".to_owned(),
        CodecId::HUNK => "hunk".to_owned(),
        CodecId::ZSTD => "zstd".to_owned(),
        CodecId(own) => format!("codec {own}"),
    }
}

/// The value: as JSON where it is, a text where it is one, else its bytes as hexadecimal digits.
fn value(body: &Body) -> Json {
    serde_json::from_str(&words(body)).unwrap_or_else(|_| words(body).into())
}

fn words(body: &Body) -> String {
    match body {
        Body::Point(point) => point.to_json(),
        Body::Published(_) | Body::Opaque(_) => {
            let bytes = &body.to_payload();
            let mut text = String::new();
            match std::str::from_utf8(bytes) {
                Ok(known) => json_string(known, &mut text),
                Err(_) => bytes.iter().for_each(|byte| text.push_str(&format!("{byte:02x}"))),
            }
            text
        }
    }
}

fn bytes(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().filter(|c| !c.is_whitespace()).map(|c| c.to_digit(16)).collect();
    let digits = digits?;
    let (pairs, rest) = digits.as_chunks::<2>();
    rest.is_empty().then(|| pairs.iter().filter_map(|[high, low]| u8::try_from(high * 16 + low).ok()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(lines: &str, expect: &[&str]) {
        let mut out = Vec::new();
        let all_well = decode(lines.as_bytes(), false, &mut out).unwrap();
        let told = String::from_utf8(out).unwrap();
        assert_eq!(told.lines().collect::<Vec<_>>(), expect);
        assert_eq!(all_well, !told.contains("LOST"));
    }

    #[test]
    fn payloads_are_told_as_json() {
        let mut out = Vec::new();
        let lines = "== a topic\n< 1E 63 6F 75 6E 74 20 31\n7E 0C 01 32\n7F0E0135\n";
        assert!(!decode(lines.as_bytes(), true, &mut out).unwrap());
        let told: Vec<Json> = out.split(|c| *c == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
        let of = |name: &str| told.iter().map(|line| line[name].clone()).collect::<Vec<_>>();
        assert_eq!(of("topic"), ["a topic"; 3]);
        assert_eq!(of("status"), ["value", "value", "lost"]);
        assert_eq!(of("value"), [json!("count 1"), json!("count 2"), Json::Null]);
        assert_eq!(of("line"), [2, 3, 4]);
        assert!(of("error")[2].as_str().unwrap().contains("it ends too early"));
    }

    #[test]
    fn payloads_are_told_in_words() {
        let topic = "== a topic\n# whole\n< 1E 63 6F 75 6E 74 20 31\n>\n";
        check(topic, &["== a topic", "30 bytes, whole, 8 bytes: \"count 1\""]);
        check(
            &format!("{topic}7E 0C 01 32\n7F0E0135\n"),
            &[
                "== a topic",
                "30 bytes, whole, 8 bytes: \"count 1\"",
                "30→31 hunk, 4 bytes: \"count 2\"",
                "malformed, 4 bytes: LOST: malformed delta: it ends too early",
            ],
        );
        check(
            &format!("{topic}DE 02\n"),
            &[
                "== a topic",
                "30 bytes, whole, 8 bytes: \"count 1\"",
                "malformed, 2 bytes: LOST: malformed delta: it ends too early",
            ],
        );
        check("42 00\n<\n", &["2→3 point, 2 bytes: LOST: a delta before any whole value", "cleared, 0 bytes: \"\""]);
        assert!(decode("12 3".as_bytes(), false, &mut Vec::new()).is_err());
    }
}
