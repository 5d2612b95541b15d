//! Any bytes as a record of the ledger: what is read is written the same way, and makes a state that says itself.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tieline_ledger::{Record, Replay};

fuzz_target!(|bytes: &[u8]| {
    let mut replay = Replay::default();
    let Ok(records) = Record::parse_all(bytes) else {
        assert!(replay.handle_record(bytes).is_err());
        return;
    };
    let mut again = Vec::new();
    Record::begin(&mut again);
    records.iter().for_each(|record| record.emit(&mut again));
    assert_eq!(Record::parse_all(&again).as_ref(), Ok(&records));
    replay.handle_record(bytes).expect("it was read once");
    let image = replay.finish();
    let mut said = Replay::default();
    image.records().for_each(|record| said.handle_change(record));
    assert_eq!(said.finish(), image);
});
