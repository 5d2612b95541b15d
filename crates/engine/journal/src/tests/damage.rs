use super::disk::{Dice, Disk};
use crate::{Fault, Item, Journal, JournalError, Limits, Reader, Seq, WhenFull};
use alloc::vec::Vec;
use tieline_core::Timestamp;

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

fn limits() -> Limits {
    Limits {
        segment_bytes: 200,
        total_bytes: 100_000,
        when_full: WhenFull::Refuse,
        unsynced_bytes: 10_000,
        kept_bytes: 0,
    }
}

fn filled(disk: &Disk, records: u64) -> Journal<Disk> {
    let (mut journal, _) = Journal::open(disk.clone(), limits(), Seq(0), NOW).unwrap();
    for n in 1..=records {
        assert_eq!(journal.append(&payload(Seq(n))), Ok(Seq(n)));
        assert_eq!(journal.sync(), Ok(Seq(n)));
    }
    journal
}

/// What the record `seq` holds: enough to know that it was not invented.
fn payload(seq: Seq) -> Vec<u8> {
    let mut dice = Dice::new(seq.0);
    (0..dice.below(40)).map(|_| dice.roll() as u8).collect()
}

/// All records from `from` on, checked, and how many were said to be lost.
fn read(disk: &Disk, from: Seq, upto: Seq) -> (Vec<Seq>, u64) {
    let mut reader = Reader::new(disk.clone(), from);
    let (mut seqs, mut lost) = (Vec::new(), 0);
    while let Some(item) = reader.next(upto).unwrap() {
        match item {
            Item::Record { seq, payload: found } => {
                assert_eq!(found, payload(seq), "record {seq}");
                seqs.push(seq);
            }
            Item::Lost(gap) => lost += gap.records,
        }
    }
    (seqs, lost)
}

fn seqs(range: core::ops::RangeInclusive<u64>) -> Vec<Seq> {
    range.map(Seq).collect()
}

#[test]
fn records_are_read_in_order_from_any_place() {
    let disk = Disk::new(1);
    let journal = filled(&disk, 50);
    assert!(journal.segments() > 5);
    for from in 1..=51 {
        assert_eq!(read(&disk, Seq(from), journal.durable()), (seqs(from..=50), 0));
    }
}

#[test]
fn every_cut_of_the_last_segment_keeps_the_records_before_it() {
    let whole = Disk::new(2);
    filled(&whole, 12);
    let name = whole.names().pop().unwrap();
    for cut in 0..whole.bytes(&name).len() {
        let disk = Disk::new(2);
        filled(&disk, 12);
        disk.change(&name, |bytes| bytes.truncate(cut));
        let (journal, recovery) = Journal::open(disk.clone(), limits(), Seq(0), NOW).unwrap();
        let (found, lost) = read(&disk, Seq(1), journal.durable());
        assert_eq!((found, lost), (seqs(1..=journal.durable().0), 0), "cut at {cut}");
        assert!(recovery.damage.iter().all(|d| d.why == Fault::Torn));
        assert_eq!(Journal::open(disk.clone(), limits(), Seq(0), NOW).unwrap().1.damage, [], "cut once");
    }
}

#[test]
fn every_flipped_bit_costs_at_most_its_own_record() {
    let whole = Disk::new(3);
    filled(&whole, 20);
    for name in whole.names() {
        for bit in 0..whole.bytes(&name).len() * 8 {
            let disk = Disk::new(3);
            filled(&disk, 20);
            disk.change(&name, |bytes| bytes[bit / 8] ^= 1 << (bit % 8));
            let (mut journal, recovery) = Journal::open(disk.clone(), limits(), Seq(0), NOW).unwrap();
            let last = journal.durable();
            let (found, lost) = read(&disk, Seq(1), last);
            assert_eq!(found.len() as u64 + lost, last.0, "bit {bit} of {name}");
            assert!(found.len() >= 19, "bit {bit} of {name}");
            assert!(last == Seq(20) || recovery.damage.len() == 1, "bit {bit} of {name}");
            // What is appended then is read, too.
            journal.append(&payload(last.next())).unwrap();
            journal.sync().unwrap();
            assert_eq!(read(&disk, last.next(), last.next()), (seqs(last.0 + 1..=last.0 + 1), 0));
        }
    }
}

#[test]
fn a_payload_that_looks_like_a_frame_is_no_record() {
    let disk = Disk::new(4);
    let (mut journal, _) = Journal::open(disk.clone(), Limits::default(), Seq(0), NOW).unwrap();
    journal.append(b"first").unwrap();
    journal.sync().unwrap();
    let stolen = disk.bytes(&disk.names()[0])[28..].to_vec();
    drop(journal);
    let other = Disk::new(4);
    let (mut journal, _) =
        Journal::open(other.clone(), Limits::default(), Seq(0), NOW.later(core::time::Duration::from_secs(1))).unwrap();
    journal.append(&stolen).unwrap();
    journal.sync().unwrap();
    other.change(&other.names()[0], |bytes| bytes[30] ^= 1);
    let mut reader = Reader::new(other.clone(), Seq(1));
    assert!(matches!(reader.next(Seq(1)), Ok(Some(Item::Lost(lost))) if lost.records == 1));
    assert_eq!(reader.next(Seq(1)), Ok(None));
}

#[test]
fn a_missing_segment_is_said() {
    let disk = Disk::new(5);
    let journal = filled(&disk, 30);
    let names = disk.names();
    let gone: u64 = names[2][..20].parse().unwrap();
    let next: u64 = names[3][..20].parse().unwrap();
    let mut other = disk.clone();
    tieline_core::Storage::remove(&mut other, &names[2]).unwrap();
    let (found, lost) = read(&disk, Seq(1), journal.durable());
    assert_eq!((found.len() as u64, lost), (30 - (next - gone), next - gone));
}

#[test]
fn released_segments_go_and_sequences_stay() {
    let disk = Disk::new(6);
    let mut journal = filled(&disk, 30);
    journal.release(Seq(15));
    assert_eq!(read(&disk, Seq(16), Seq(30)), (seqs(16..=30), 0));
    journal.release(Seq(99));
    assert_eq!(journal.segments(), 1);
    let (mut journal, recovery) = Journal::open(disk.clone(), limits(), Seq(30), NOW).unwrap();
    assert_eq!((journal.append(b""), recovery.segments), (Ok(Seq(31)), 1));
    // Even an emptied folder gives no sequence twice.
    let (mut journal, _) = Journal::open(Disk::new(7), limits(), Seq(30), NOW).unwrap();
    assert_eq!(journal.append(b""), Ok(Seq(31)));
}

#[test]
fn a_full_journal_refuses_or_drops_by_policy() {
    let small = Limits { total_bytes: 2_000, ..limits() };
    let (mut journal, _) = Journal::open(Disk::new(8), small, Seq(0), NOW).unwrap();
    let refused = loop {
        match journal.append(&[7; 50]) {
            Ok(_) => drop(journal.sync().unwrap()),
            Err(error) => break error,
        }
    };
    assert_eq!((refused, journal.counters().refused), (JournalError::Full(2_000), 1));
    assert!(journal.bytes() <= 2_000 && journal.bytes() > 1_800);
    journal.release(journal.durable());
    assert!(journal.append(&[7; 50]).is_ok());

    let disk = Disk::new(9);
    let drops = Limits { when_full: WhenFull::DropOldest, ..small };
    let (mut journal, _) = Journal::open(disk.clone(), drops, Seq(0), NOW).unwrap();
    for n in 1..=100 {
        journal.append(&payload(Seq(n))).unwrap();
        journal.sync().unwrap();
    }
    let (found, lost) = read(&disk, Seq(1), Seq(100));
    assert_eq!((found.len() as u64 + lost, lost), (100, journal.counters().dropped));
    assert!(lost > 0 && journal.bytes() <= 2_000);
}

#[test]
fn released_segments_are_kept_for_other_readers_beside_the_limit() {
    let disk = Disk::new(12);
    let keeps = Limits { total_bytes: 2_000, kept_bytes: 3_000, ..limits() };
    let (mut journal, _) = Journal::open(disk.clone(), keeps, Seq(0), NOW).unwrap();
    let grow = |journal: &mut Journal<Disk>, records: u64| {
        for _ in 0..records {
            journal.append(&payload(journal.last().next())).unwrap();
            journal.sync().unwrap();
            journal.release(journal.durable());
        }
    };
    // Nobody said what is wanted: all is, and what is kept takes nothing from what may wait for the consumer.
    grow(&mut journal, 60);
    assert_eq!(read(&disk, Seq(1), Seq(60)), (seqs(1..=60), 0));
    assert!(journal.bytes() > 2_000 && journal.kept_bytes() > 1_500 && !journal.is_full());
    // Beyond its own limit the oldest goes, and the reader is told.
    grow(&mut journal, 240);
    let (found, lost) = read(&disk, Seq(1), Seq(300));
    assert!(lost > 0 && journal.kept_bytes() <= 3_000, "{lost} {}", journal.kept_bytes());
    assert_eq!((found.last(), found.len() as u64 + lost), (Some(&Seq(300)), 300));
    // What was read goes.
    journal.want(Seq(290));
    journal.release(journal.durable());
    assert_eq!(read(&disk, Seq(290), Seq(300)), (seqs(290..=300), 0));
    let kept = journal.kept_bytes();
    assert!(kept < 600, "{kept}");
    // What is kept counts again after a restart, as far as the consumer has it.
    let (journal, _) = Journal::open(disk.clone(), keeps, Seq(300), NOW).unwrap();
    assert_eq!((journal.kept_bytes(), journal.is_full()), (kept, false));
}

#[test]
fn a_full_disk_takes_what_is_kept_for_other_readers() {
    let disk = Disk::new(13);
    let (mut journal, _) = Journal::open(disk.clone(), Limits { kept_bytes: 9_000, ..limits() }, Seq(0), NOW).unwrap();
    disk.room(1_000);
    for n in 1..=200 {
        journal.append(&payload(Seq(n))).unwrap();
        while journal.sync().is_err() {
            // An attempt that fails removes one segment; one of the next finds the room that it left.
            let _ = journal.recover();
            assert!(journal.durable() >= Seq(n - 1));
        }
        journal.release(journal.durable());
    }
    let (found, lost) = read(&disk, Seq(1), Seq(200));
    assert_eq!((found.last(), found.len() as u64 + lost), (Some(&Seq(200)), 200));
    assert!(lost > 0);
}

#[test]
fn what_is_not_durable_is_bounded() {
    let (mut journal, _) =
        Journal::open(Disk::new(10), Limits { unsynced_bytes: 100, ..limits() }, Seq(0), NOW).unwrap();
    assert!(journal.append(&[0; 500]).is_ok(), "a single record always fits");
    assert_eq!(journal.append(&[0]), Err(JournalError::Unsynced(100)));
    journal.sync().unwrap();
    assert!(journal.append(&[0]).is_ok());
}

#[test]
fn a_full_disk_stops_acknowledgement_and_passes() {
    let disk = Disk::new(11);
    let mut journal = filled(&disk, 3);
    disk.room(230);
    let mut taken = Seq(3);
    let failure = loop {
        taken = journal.append(&payload(taken.next())).unwrap();
        if let Err(error) = journal.sync() {
            break error;
        }
    };
    assert!(matches!(&failure, JournalError::Failed(failure) if failure.is_full()), "{failure}");
    assert_eq!(journal.append(b"more"), Err(failure));
    for _ in 0..20 {
        assert!(journal.recover().is_err());
    }
    assert_eq!(journal.durable(), taken.previous());
    disk.room(10_000);
    assert_eq!(journal.recover(), Ok(taken));
    assert_eq!(read(&disk, Seq(1), taken), (seqs(1..=taken.0), 0));
    assert!(disk.names().len() <= 3, "{:?}", disk.names());
}
