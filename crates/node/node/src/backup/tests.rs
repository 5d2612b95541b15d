//! What goes in comes out, and nothing that is damaged comes out at all.

use super::{BackupError, check, restore, write};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use tieline_core::{Body, Filter, Point, Quality, Timestamp, Topic, Update, Value};
use tieline_history::{HistoryOptions, HistoryQuery, HistoryReader, HistoryWriter};
use tieline_journal::Sample;

fn record(history: &HistoryWriter, from: i64, count: i64) {
    let (told, hears) = std::sync::mpsc::sync_channel(1);
    let sample = |n: i64| {
        let time = Timestamp::from_micros(n);
        let point = Point { value: Value::Int(n), quality: Quality::GOOD, time };
        Sample::new(time, Update { topic: Topic::new("a").unwrap(), body: Body::Point(point) })
    };
    history.handle().submit((from..from + count).map(sample).collect(), Box::new(move |done| told.send(done).unwrap()));
    hears.recv().unwrap().unwrap();
}

fn values(data: &Path) -> usize {
    let reader = HistoryReader::open(data).unwrap();
    assert!(reader.verify(&mut |_, _| {}).unwrap().is_whole());
    reader.query(HistoryQuery::of(Filter::new("a").unwrap())).unwrap().map(Result::unwrap).count()
}

fn backup(data: &Path) -> Vec<u8> {
    let mut archive = Vec::new();
    let contents = write(data, Timestamp::from_micros(0), &mut archive, &mut |done, all| assert!(done <= all)).unwrap();
    assert_eq!(check(&mut archive.as_slice(), 0, &mut |_, _| {}).unwrap(), contents);
    archive
}

fn files(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries =
        fs::read_dir(folder).unwrap().map(Result::unwrap).filter(|entry| entry.file_type().unwrap().is_file());
    entries.map(|entry| (entry.file_name().into_string().unwrap(), fs::read(entry.path()).unwrap())).collect()
}

#[test]
fn what_was_acknowledged_before_is_in_a_backup_of_a_history_that_runs() {
    let above = tempfile::tempdir().unwrap();
    let (data, other) = (above.path().join("data"), above.path().join("other"));
    // So little memory that chunks are written all the time.
    let options = HistoryOptions { memory_bytes: 20_000, ..HistoryOptions::default() };
    let history = HistoryWriter::open(&data, options).unwrap();
    record(&history, 0, 10_000);
    let stops = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut from = 100_000;
            while !stops.load(std::sync::atomic::Ordering::Relaxed) {
                record(&history, from, 500);
                from += 500;
            }
        });
        for round in 0..8_i64 {
            record(&history, 10_000 + round * 100, 100);
            let archive = backup(&data);
            restore(&mut archive.as_slice(), 0, &other, &mut |_, _| {}).unwrap();
            let least = 10_000 + (usize::try_from(round).unwrap() + 1) * 100;
            let reader = HistoryReader::open(&other).unwrap();
            let query = HistoryQuery {
                to: Some(Timestamp::from_micros(100_000)),
                ..HistoryQuery::of(Filter::new("a").unwrap())
            };
            assert_eq!(reader.query(query).unwrap().map(Result::unwrap).count(), least, "round {round}");
            // A node goes on where it was.
            let restored = HistoryWriter::open(&other, options).unwrap();
            record(&restored, -5, 1);
            drop(restored);
            assert!(values(&other) > least);
            fs::remove_dir_all(&other).unwrap();
        }
        stops.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(!data.join("backup.tmp").exists());
}

#[test]
fn every_file_is_there_with_every_byte() {
    let above = tempfile::tempdir().unwrap();
    let (data, other) = (above.path().join("data"), above.path().join("deep/other"));
    let long = format!("trace/{}", "d".repeat(140));
    for (name, bytes) in [
        ("audit.jsonl", 511),
        ("clock", 512),
        ("ledger/1", 513),
        ("empty", 0),
        (long.as_str(), 3),
        ("lock", 0),
        ("fabric/site.nk", 59),
    ] {
        fs::create_dir_all(data.join(name).parent().unwrap()).unwrap();
        fs::write(data.join(name), vec![7; bytes]).unwrap();
    }
    // What is left of a backup that was killed.
    fs::create_dir(data.join("backup.tmp")).unwrap();
    fs::write(data.join("control.jsonl.new"), "half").unwrap();
    let archive = backup(&data);
    restore(&mut archive.as_slice(), 0, &other, &mut |_, _| {}).unwrap();
    let mut expect = files(&data);
    expect.remove("lock");
    expect.remove("control.jsonl.new");
    assert_eq!(files(&other), expect);
    let mode = fs::metadata(other.join("fabric/site.nk")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "its owner alone reads a seed");
    for folder in ["ledger", "trace"] {
        assert_eq!(files(&other.join(folder)), files(&data.join(folder)));
    }
    let again = restore(&mut archive.as_slice(), 0, &other, &mut |_, _| {}).unwrap_err();
    assert!(matches!(again, BackupError::Occupied(_)), "{again}");
}

#[test]
fn nothing_is_restored_of_what_is_damaged_or_cut_off() {
    let above = tempfile::tempdir().unwrap();
    let (data, other) = (above.path().join("data"), above.path().join("other"));
    fs::create_dir(&data).unwrap();
    fs::write(data.join("audit.jsonl"), vec![7; 700]).unwrap();
    let archive = backup(&data);
    let refused = |bytes: &[u8], what: &str| {
        let error = restore(&mut &*bytes, 0, &other, &mut |_, _| {}).unwrap_err();
        assert!(matches!(error, BackupError::Damaged(_)), "{what}: {error}");
        assert_eq!(fs::read_dir(above.path()).unwrap().count(), 1, "{what}");
    };
    // Up to the end of the list of files; what follows says nothing.
    let end = archive.len() - 1024;
    for cut in (0..end - 511).step_by(13) {
        refused(&archive[..cut], &format!("cut at {cut}"));
    }
    let list = archive.windows(11).rposition(|bytes| bytes == b"backup.json").unwrap();
    for place in (0..list).step_by(13) {
        // Bytes behind the end of a file fill its last block.
        if (512 + 700..1536).contains(&place) {
            continue;
        }
        let mut bytes = archive.clone();
        bytes[place] ^= 0x10;
        if restore(&mut bytes.as_slice(), 0, &other, &mut |_, _| {}).is_ok() {
            panic!("a change at {place} was not seen");
        }
    }
    // A restore that was killed is begun again; a folder of somebody else is left.
    let left = above.path().join(".other.restoring");
    fs::create_dir(&left).unwrap();
    assert!(matches!(restore(&mut archive.as_slice(), 0, &other, &mut |_, _| {}), Err(BackupError::Occupied(_))));
    fs::write(above.path().join(".other.restore-is-not-done"), "").unwrap();
    fs::write(left.join("audit.jsonl"), "half").unwrap();
    restore(&mut archive.as_slice(), 0, &other, &mut |_, _| {}).unwrap();
    assert_eq!(files(&other), files(&data));
    assert_eq!(fs::read_dir(above.path()).unwrap().count(), 2);
}

#[test]
fn names_lead_nowhere_else() {
    let above = tempfile::tempdir().unwrap();
    let other = above.path().join("other");
    for name in ["../x", "/etc/x", "a/../../x", "a//b", "."] {
        let mut archive = Vec::new();
        super::archive::put(&mut archive, name, 1, &mut b"x".as_slice(), |_| {}).unwrap();
        let error = restore(&mut archive.as_slice(), 0, &other, &mut |_, _| {}).unwrap_err();
        assert!(error.to_string().contains("is no file below the folder"), "{error}");
        assert_eq!(fs::read_dir(above.path()).unwrap().count(), 0);
    }
}
