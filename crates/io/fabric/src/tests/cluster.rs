//! Three servers that keep a log and a lease together; the one that leads the log is killed while messages are appended.

use super::servers::Server;
use super::{block_on, until};
use crate::*;
use bytes::Bytes;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const APPEND_TIMEOUT: Duration = Duration::from_millis(250);
/// Messages acknowledged before the kill, and after it.
const EACH: u64 = 150;

fn body(number: u64) -> Bytes {
    let mut body = number.to_le_bytes().to_vec();
    body.resize(10_000, number.to_le_bytes()[0]);
    body.into()
}

/// Appends up to a number of messages, each once: whatever is not known is asked of the log. Returns the longest time without an
/// acknowledgement.
async fn append_upto(log: &Log, term: u64, upto: u64) -> Duration {
    let (mut last, mut longest, mut since) = (None, Duration::ZERO, Instant::now());
    loop {
        let known = match last {
            Some(last) => last,
            None => until("the log says its last message", || async { log.last().await.ok() }).await.sequence,
        };
        if known >= upto {
            return longest;
        }
        match log.append_if(known, term, body(known + 1), APPEND_TIMEOUT).await {
            Ok(sequence) => {
                assert_eq!(sequence, known + 1);
                last = Some(sequence);
                longest = longest.max(since.elapsed());
                since = Instant::now();
            }
            Err(AppendError::WrongLast | AppendError::Unknown(_)) => last = None,
            Err(AppendError::Refused(words)) => panic!("refused: {words}"),
        }
    }
}

async fn read_all(log: &Log, upto: u64) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    while (entries.len() as u64) < upto {
        let from = entries.last().map_or(1, |entry| entry.sequence + 1);
        let Ok(mut reader) = log.read_from(from).await else { continue };
        while let Ok(entry) = reader.next().await {
            entries.push(entry);
            if entries.len() as u64 == upto {
                break;
            }
        }
    }
    entries
}

#[test]
fn nothing_is_lost_or_doubled_when_the_leader_of_the_log_is_killed() {
    let folder = TempDir::new().unwrap();
    block_on(async {
        let Some(mut servers) = Server::start_three(&folder).await else { return };
        let options = FabricOptions {
            ping_every: Duration::from_millis(250),
            ..FabricOptions::new("centre", servers.iter().map(Server::url).collect())
        };
        let fabric = Fabric::connect(options).await.unwrap();
        let log_options =
            LogOptions { name: "JOURNAL".into(), subject: "tl.journal".into(), replicas: 3, bytes_max: None };
        let log = until("the servers make a log", || async { fabric.log(log_options.clone()).await.ok() }).await;
        let leases = until("the servers make leases", || async { fabric.leases("LEADERS", 3).await.ok() }).await;
        let term = leases.write("core", Bytes::from_static(b"first"), None).await.unwrap();

        append_upto(&log, term, EACH).await;
        let leader = until("the log has a leader", || async { log.leader().await.ok().flatten() }).await;
        servers.iter_mut().find(|server| server.name == leader).expect("one of ours").kill();
        let silent = append_upto(&log, term, EACH * 2).await;
        println!("{leader} was killed: {silent:?} without an acknowledgement");
        assert!(silent < Duration::from_secs(30), "{silent:?}");

        // The next leader: its lease, and the fence of the one before.
        let next = until("the lease is written", || async {
            leases.write("core", Bytes::from_static(b"next"), Some(term)).await.ok()
        })
        .await;
        assert!(next > term);
        assert_eq!(leases.write("core", Bytes::from_static(b"first"), Some(term)).await, Err(LeaseError::Changed));
        append_upto(&log, next, EACH * 2 + 1).await;
        let late = log.append_if(EACH * 2, term, body(0), Duration::from_secs(5)).await;
        assert_eq!(late, Err(AppendError::WrongLast));
        assert_eq!(log.last().await.unwrap(), Last { sequence: EACH * 2 + 1, term: next });

        let entries = read_all(&log, EACH * 2 + 1).await;
        for (number, entry) in (1..).zip(&entries) {
            assert_eq!((entry.sequence, &entry.body), (number, &body(number)));
            assert_eq!(entry.term, if number <= EACH * 2 { term } else { next });
        }
    });
}
