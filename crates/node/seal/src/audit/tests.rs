use super::*;
use crate::work::Refusal;
use std::path::Path;

fn lines(folder: &Path) -> Vec<(String, Vec<String>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let text = |path: &Path| std::fs::read_to_string(path).unwrap().lines().map(str::to_owned).collect();
    files.iter().map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), text(path))).collect()
}

/// Two servers write to one file: all lines are there, in files of about the limit.
#[test]
fn a_full_file_is_renamed_and_no_line_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let limits = AuditLimits { file_bytes_max: 100 << 10, files_max: 0 };
    let logs = [AuditLog::open(Some(&path), limits).unwrap(), AuditLog::open(Some(&path), limits).unwrap()];
    let line = |n: usize| format!("{n:01000}\n");
    for n in 0..1000 {
        logs[n % 2].write(&line(n));
    }
    let files = lines(folder.path());
    let mut written: Vec<_> = files.iter().flat_map(|(_, lines)| lines.clone()).collect();
    written.sort();
    assert_eq!(written, (0..1000).map(|n| line(n).trim_end().to_owned()).collect::<Vec<_>>());
    assert!((3..=10).contains(&files.len()), "{files:?}");
    assert!(files.iter().all(|(_, lines)| lines.len() <= 300));
    let counted = logs.iter().map(|log| (log.rotations(), log.removed(), log.failures()));
    let counted = counted.fold((0, 0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1, sum.2 + one.2));
    assert_eq!(counted, (files.len() as u64 - 1, 0, 0));
}

#[test]
fn the_oldest_files_are_removed_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    std::fs::write(folder.path().join("audit.jsonl.note"), "mine").unwrap();
    let log = AuditLog::open(Some(&path), AuditLimits { file_bytes_max: 1, files_max: 2 }).unwrap();
    let text = "x".repeat(65_536) + "\n";
    for _ in 0..6 {
        log.write(&text);
    }
    assert_eq!((log.rotations(), log.removed(), log.failures()), (5, 3, 0));
    let names: Vec<_> = lines(folder.path()).into_iter().map(|(name, _)| name).collect();
    assert_eq!((names.len(), names[0].as_str(), names[3].as_str()), (4, "audit.jsonl", "audit.jsonl.note"));
}

/// As a person or another program does it.
#[test]
fn a_file_that_was_renamed_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("audit.jsonl");
    let log = AuditLog::open(Some(&path), AuditLimits { file_bytes_max: 1 << 30, files_max: 0 }).unwrap();
    log.write(&("a".repeat(65_536) + "\n"));
    std::fs::rename(&path, folder.path().join("moved")).unwrap();
    log.write("b\n");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "b\n");
    assert_eq!(log.rotations(), 0);
}

#[test]
fn any_text_is_a_line_of_json() {
    let client = Client { name: "a \"b\" \\ \n \u{7f} ç".to_owned(), token: [0; 32], rights: Vec::new() };
    let asked = Asked {
        verb: "unpack",
        domain: Arc::from("x\"y"),
        client: Arc::new(client),
        address: ([127, 0, 0, 1], 7).into(),
        bytes: 5,
        digest: Some([0xab; 32]),
    };
    let mut line = String::new();
    asked.write(
        "2026-11-20T00:00:00Z",
        &(Err(Refusal::Request("no \"such\"".to_owned())), Trace::default()),
        &mut line,
    );
    let read: serde_json::Value = serde_json::from_str(line.strip_suffix('\n').unwrap()).unwrap();
    assert_eq!((read["client"].as_str(), read["domain"].as_str()), (Some("a \"b\" \\ \n \u{7f} ç"), Some("x\"y")));
    assert_eq!((read["reason"].as_str(), read["ok"].as_bool()), (Some("no \"such\""), Some(false)));
    assert_eq!(read["message_sha256"].as_str(), Some("ab".repeat(32).as_str()));
}
