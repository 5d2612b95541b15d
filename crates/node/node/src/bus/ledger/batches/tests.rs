use super::*;
use std::sync::mpsc::{Receiver, channel};

fn at(seconds: u64) -> Now {
    Now { mono: Instant::default() + Duration::from_secs(seconds), ..Now::default() }
}

/// A ledger with a batch on its way since second 100, and the disk's end, which does not answer.
fn waiting() -> (LedgerBatches, Receiver<Option<Batch>>) {
    let (give, disk) = channel();
    let mut ledger = LedgerBatches::new(Some(Opened { give, bytes: 0, bytes_max: 1 << 30, lost: None }));
    ledger.write(at(100), &Record::End);
    ledger.close();
    ledger.submit(at(100));
    (ledger, disk)
}

#[test]
fn a_disk_that_does_not_answer_is_told() {
    let (mut ledger, _disk) = waiting();
    assert_eq!(ledger.timeout(), Some(at(105).mono));
    ledger.handle_timeout(at(104));
    assert!(!ledger.has_no_room(1));
    ledger.handle_timeout(at(105));
    assert!(ledger.has_no_room(1));
    assert_eq!(ledger.status(at(107)).state, LedgerState::Hung { age: Duration::from_secs(7) });
}

/// After a stop of the whole process the disk gets a moment to answer before anything is refused.
#[test]
fn a_process_that_stood_still_is_no_disk_that_hangs() {
    let (mut ledger, _disk) = waiting();
    ledger.handle_timeout(at(114));
    assert!(!ledger.has_no_room(1));
    assert_eq!(ledger.timeout(), Some(at(115).mono));
    ledger.handle_timeout(at(115));
    assert!(ledger.has_no_room(1), "it does not answer now either");
}
