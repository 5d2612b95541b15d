//! The same rows by the database's own client, or by a plain client of HTTP, in batches that are each committed.

use super::servers::{Server, run};
use super::{Kind, TOPICS, point, topics};
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use tieline_core::{Quality, Timestamp, Value};
use tieline_databases::{Database, Row};

/// 2000-01-01, in microseconds since 1970: where PostgreSQL begins to count.
const EPOCH_MICROS: i64 = 946_684_800_000_000;

/// Writes all rows to a part of its own; how long the client took.
pub(super) fn write(server: &Server, round: usize, rows: usize) -> Result<Duration> {
    let (name, folder) = (format!("raw{round}"), TempDir::new().context("a folder for rows")?);
    let length = server.kind().batch_rows();
    let batches: Vec<std::ops::Range<usize>> =
        (0..rows).step_by(length).map(|first| first..rows.min(first + length)).collect();
    let took = match server.kind() {
        Kind::Mongo => bail!("there is no client that loads rows"),
        Kind::Victoria => {
            let bodies: Vec<String> = batches.iter().map(|batch| lines(&name, batch.clone())).collect();
            drop(prepare(server, &name, folder.path())?);
            server.settle()?;
            let (agent, url, began) = (ureq::Agent::new_with_defaults(), server.url("/write"), Instant::now());
            for body in bodies {
                agent.post(&url).send(body)?;
            }
            began.elapsed()
        }
        Kind::Postgres(_) | Kind::Mariadb => {
            drop(prepare(server, &name, folder.path())?);
            let mut script = String::new();
            for batch in batches {
                let file = folder.path().join(format!("{}.rows", batch.start));
                if server.kind() == Kind::Mariadb {
                    fs::write(&file, tsv(batch))?;
                    let columns = "topic, time, hash, value, quality, text, bytes";
                    let _ = writeln!(
                        script,
                        "start transaction; load data local infile '{}' into table {name}.samples character set binary \
                         ({columns}); commit;",
                        file.display()
                    );
                } else {
                    fs::write(&file, binary(batch))?;
                    let columns = "time, value, topic, quality, text, bytes";
                    let file = file.display();
                    let _ = writeln!(
                        script,
                        "begin;\n\\copy {name}.samples ({columns}) from '{file}' with (format binary)\ncommit;"
                    );
                }
            }
            let file = folder.path().join("script");
            fs::write(&file, script)?;
            let mut client = server.client();
            if server.kind() == Kind::Mariadb {
                client.arg("-e").arg(format!("source {}", file.display()));
            } else {
                client.arg("-f").arg(&file);
            }
            server.settle()?;
            let began = Instant::now();
            run(client)?;
            began.elapsed()
        }
    };
    server.check(&name, rows + TOPICS)?;
    server.remove(&name)?;
    Ok(took)
}

/// Has ours write a row of each topic, an hour before the others: tables, the place of the day and topics are there.
pub(super) fn prepare(server: &Server, name: &str, folder: &Path) -> Result<Box<dyn Database>> {
    let mut ours = server.database(name, folder)?;
    ours.connect("bench")?;
    let time = Timestamp::from_micros(point(0).0 - 3_600_000_000);
    let row = |topic| Row { topic, time, value: Value::Int(0), quality: Quality::GOOD, again: false };
    let rows: Vec<Row> = topics()?.into_iter().map(row).collect();
    ours.write(&rows, 1)?;
    Ok(ours)
}

fn binary(batch: std::ops::Range<usize>) -> Vec<u8> {
    let mut out = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0".to_vec();
    for at in batch {
        let ((micros, value), topic) = (point(at), i32::try_from(at % TOPICS).unwrap_or(0) + 1);
        out.extend(6_i16.to_be_bytes());
        out.extend([8_i32.to_be_bytes().as_slice(), &(micros - EPOCH_MICROS).to_be_bytes()].concat());
        out.extend([8_i32.to_be_bytes().as_slice(), &value.to_be_bytes()].concat());
        out.extend([4_i32, topic, 4, i32::from(Quality::GOOD.bits()), -1, -1].map(i32::to_be_bytes).concat());
    }
    out.extend((-1_i16).to_be_bytes());
    out
}

fn tsv(batch: std::ops::Range<usize>) -> String {
    let mut out = String::new();
    for at in batch {
        let ((micros, value), time) = (point(at), Timestamp::from_micros(point(at).0).to_string());
        let (topic, time, quality) = (at % TOPICS + 1, time.trim_end_matches('Z'), Quality::GOOD.bits());
        let _ = writeln!(out, "{topic}\t{time}\t{}\t{value}\t{quality}\t\\N\t\\N", micros.unsigned_abs() ^ at as u64);
    }
    out
}

fn lines(measurement: &str, batch: std::ops::Range<usize>) -> String {
    let mut out = String::new();
    for at in batch {
        let ((micros, value), topic) = (point(at), at % TOPICS);
        let (device, number) = (topic / 18, topic % 18);
        let _ = writeln!(
            out,
            "{measurement},topic=bench/device{device:03}/point{number:02},q=good value={value} {}",
            micros * 1000
        );
    }
    out
}
