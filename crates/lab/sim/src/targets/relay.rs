//! Batches of sites to their centre.

use crate::Choices;
use bytes::Bytes;
use tieline_core::Now;
use tieline_relay::{Answer, Batch, BatchWriter, CallAnswer, Mark, Receiver, ReceiverLimits, SiteCall, Stream};

/// A batch or an answer without its check, which is made here. What can be read is written again, and reads the same.
pub(super) fn batch(bytes: &[u8]) {
    let _ = Batch::parse(&Bytes::copy_from_slice(bytes));
    let whole = checked(bytes);
    if let Ok(answer) = Answer::parse(&whole) {
        assert_eq!(Answer::parse(&answer.emit()), Ok(answer));
    }
    let Ok(batch) = Batch::parse(&whole) else { return };
    assert_eq!(batch.records.iter().count() as u64, batch.records.count());
    assert!(batch.after() < batch.first && batch.last() + 1 >= batch.first);
    let again = BatchWriter::default().emit(&batch);
    assert_eq!(Batch::parse(&again.into()).as_ref(), Ok(&batch));
}

/// A call to a site or its answer without the check, which is made here. What can be read is written again, and reads the same.
pub(super) fn call(bytes: &[u8]) {
    let _ = (SiteCall::parse(bytes), CallAnswer::parse(bytes));
    let whole = checked(bytes);
    if let Ok(call) = SiteCall::parse(&whole) {
        assert_eq!(call.emit().map(|bytes| SiteCall::parse(&bytes)), Some(Ok(call)));
    }
    if let Ok(answer) = CallAnswer::parse(&whole) {
        assert_eq!(answer.emit().map(|bytes| CallAnswer::parse(&bytes)), Some(Ok(answer)));
    }
}

/// Batches of one site, one after the other, each with its length before it, to a receiver with little room: marks only rise, and only
/// by what continues; every request has one answer.
pub(super) fn receiver(bytes: &[u8]) {
    let mut receiver = Receiver::new(ReceiverLimits { waiting_bytes_max: 300, ..ReceiverLimits::default() });
    let (now, mut open, mut rest) = (Now::default(), 0_u32, bytes);
    let mut choices = Choices::seeded(u64::from(crc32fast::hash(bytes)));
    receiver.handle_marks([]);
    while let Some((length, after)) = rest.split_first() {
        let (body, after) = after.split_at(usize::from(*length).min(after.len()));
        rest = after;
        if receiver.needs_marks() {
            receiver.handle_marks([]);
        }
        open += 1;
        open -= u32::from(receiver.handle_batch(now, "n", (), &checked(body)).is_some());
        assert!(receiver.waiting_bytes() <= 300);
        if choices.chance(66) {
            continue;
        }
        let Some(parts) = receiver.poll_store() else { continue };
        let mut marks = Stream::ALL.map(|stream| receiver.mark("n", stream).unwrap_or_default());
        for part in &parts {
            let place = Stream::ALL.iter().position(|stream| *stream == part.stream).expect("one of all");
            assert!(part.before == marks[place] && part.mark > part.before, "{part:?}");
            marks[place] = part.mark;
        }
        if choices.chance(12) {
            open -= u32::try_from(receiver.handle_failed(now).len()).expect("few");
            assert_eq!(open, 0);
        } else {
            open -= u32::try_from(receiver.handle_stored(now).len()).expect("few");
            let stored = Stream::ALL.map(|stream| receiver.mark("n", stream).unwrap_or_default());
            assert_eq!(stored.map(|mark: Mark| (mark.epoch, mark.number)), marks.map(|mark| (mark.epoch, mark.number)));
        }
    }
}

fn checked(bytes: &[u8]) -> Bytes {
    let mut whole = bytes.to_vec();
    whole.extend(crc32fast::hash(bytes).to_le_bytes());
    whole.into()
}
