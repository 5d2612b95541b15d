use super::*;
use crate::Batch;
use crate::answer::Mark;
use bytes::Bytes;
use tieline_core::Timestamp;

const LIVE: Stream = Stream::Live;

struct Site {
    upward: Upward,
    now: Now,
}

impl Site {
    fn new(owed: u64) -> Self {
        let mut upward = Upward::new("north", 3, UpwardLimits { records_max: 2, ..UpwardLimits::default() }, 1);
        upward.handle_durable(LIVE, owed);
        upward.handle_link(true);
        Self { upward, now: Now::default().later(Duration::from_secs(1)) }
    }

    /// All requests that it has, their records read from a journal that begins at a number.
    fn requests(&mut self, oldest: u64) -> Vec<(u64, Batch)> {
        let mut requests = Vec::new();
        loop {
            if let Some(out) = self.upward.poll_transmit(self.now) {
                requests.push((out.id, Batch::parse(&Bytes::from(out.body)).unwrap()));
            } else if let Some(read) = self.upward.poll_read() {
                let first = read.from.max(oldest);
                let last = self.upward.lane(LIVE).offered;
                let records: Vec<_> = (first..=last).take(read.records_max).map(u64::to_le_bytes).collect();
                self.upward.handle_records(self.now.mono, read, first, &records);
            } else {
                return requests;
            }
        }
    }

    /// First number, numbers lost, and records of each request.
    fn sends(&mut self, expect: &[(u64, u64, u64)]) -> Vec<u64> {
        let requests = self.requests(1);
        let found: Vec<_> =
            requests.iter().map(|(_, batch)| (batch.first, batch.lost, batch.records.count())).collect();
        assert_eq!(found, expect);
        requests.into_iter().map(|(id, _)| id).collect()
    }

    fn answer(&mut self, id: u64, outcome: Outcome, number: u64) {
        self.now = self.now.later(Duration::from_millis(1));
        let (at, mark) = (Timestamp::from_micros(5), Mark { epoch: 3, number });
        self.upward.handle_answer(self.now, id, &Answer { outcome, mark, received: at, sent: at }.emit());
    }

    fn wait(&mut self) {
        let due = self.upward.timeout().expect("something is waited for");
        self.now = self.now.later(due.since(self.now.mono));
        self.upward.handle_timeout(self.now.mono);
    }

    fn events(&mut self) -> Vec<UpwardEvent> {
        core::iter::from_fn(|| self.upward.poll_event()).collect()
    }
}

#[test]
fn a_site_that_owes_nothing_knows_the_clock_of_its_centre() {
    let mut site = Site::new(0);
    site.sends(&[]);
    assert_eq!(site.upward.clock_offset(site.now.mono), None);
    let asked = site.now;
    site.now = site.now.later(Duration::from_millis(20));
    // The request came when the centre's clock said 2 s more than the site's, in the middle of the exchange.
    let heard = Timestamp::from_micros(asked.utc.micros() + 10_000 + 2_000_000);
    site.upward.handle_clock(asked, heard, site.now);
    let offset = Offset { micros: 2_000_000, error_micros: 10_000 };
    assert_eq!(site.upward.clock_offset(site.now.mono), Some(offset));
}

#[test]
fn it_asks_for_the_mark_and_goes_on_behind_it() {
    let mut site = Site::new(9);
    let asked = site.sends(&[(1, 0, 0)]);
    site.answer(asked[0], Outcome::NotStored, 4);
    let sent = site.sends(&[(5, 0, 2), (7, 0, 2), (9, 0, 1)]);
    site.answer(sent[1], Outcome::Stored, 8);
    site.answer(sent[0], Outcome::Stored, 6);
    site.answer(sent[2], Outcome::Stored, 9);
    assert_eq!(site.events(), [UpwardEvent::Acknowledged { stream: LIVE, upto: 9 }]);
    assert_eq!((site.upward.timeout(), site.requests(1).len()), (None, 0));
}

#[test]
fn without_an_answer_it_asks_again_and_believes_no_late_one() {
    let mut site = Site::new(4);
    let asked = site.sends(&[(1, 0, 0)]);
    site.answer(asked[0], Outcome::NotStored, 0);
    let sent = site.sends(&[(1, 0, 2), (3, 0, 2)]);
    site.wait();
    let asked = site.sends(&[(1, 0, 0)]);
    site.answer(sent[0], Outcome::Stored, 2);
    assert_eq!((site.events(), site.upward.stats().ignored), (Vec::new(), 1));
    site.answer(asked[0], Outcome::NotStored, 2);
    site.sends(&[(3, 0, 2)]);
}

#[test]
fn a_gap_is_filled_at_once() {
    let mut site = Site::new(6);
    let asked = site.sends(&[(1, 0, 0)]);
    site.answer(asked[0], Outcome::NotStored, 0);
    let sent = site.sends(&[(1, 0, 2), (3, 0, 2), (5, 0, 2)]);
    site.answer(sent[1], Outcome::NotStored, 0);
    let again = site.sends(&[(1, 0, 2), (3, 0, 2), (5, 0, 2)]);
    // The first one came late, and so its copy is of no use.
    site.answer(again[0], Outcome::NotStored, 2);
    site.answer(again[1], Outcome::Stored, 4);
    site.sends(&[]);
}

#[test]
fn what_the_journal_lost_is_named() {
    let mut site = Site::new(6);
    let asked = site.sends(&[(1, 0, 0)]);
    site.answer(asked[0], Outcome::NotStored, 2);
    let requests = site.requests(5);
    assert_eq!(requests.iter().map(|(_, batch)| (batch.first, batch.lost)).collect::<Vec<_>>(), [(5, 2)]);
    assert_eq!(
        site.events(),
        [UpwardEvent::Lost { stream: LIVE, first: 3, last: 4 }, UpwardEvent::Acknowledged { stream: LIVE, upto: 2 }]
    );
}

#[test]
fn a_centre_that_lost_something_gets_it_again() {
    let mut site = Site::new(2);
    let asked = site.sends(&[(1, 0, 0)]);
    site.answer(asked[0], Outcome::NotStored, 2);
    assert_eq!(site.events().len(), 1);
    site.upward.handle_durable(LIVE, 3);
    let sent = site.sends(&[(3, 0, 1)]);
    site.answer(sent[0], Outcome::NotStored, 1);
    assert_eq!(site.events(), [UpwardEvent::WentBack { stream: LIVE, from: 2, to: 1 }]);
    site.sends(&[(2, 0, 2)]);
}

#[test]
fn numbers_that_the_site_does_not_know_need_an_epoch() {
    let mut site = Site::new(2);
    let asked = site.sends(&[(1, 0, 0)]);
    site.answer(asked[0], Outcome::NotStored, 7);
    assert_eq!(site.events(), [UpwardEvent::EpochNeeded { above: 3 }]);
    site.sends(&[]);
    site.upward.begin_epoch(4);
    site.upward.handle_durable(LIVE, 1);
    let requests = site.requests(1);
    assert_eq!(requests.iter().map(|(_, batch)| (batch.epoch, batch.first)).collect::<Vec<_>>(), [(4, 1)]);
}

#[test]
fn a_record_that_is_too_long_is_lost_and_the_next_one_is_sent() {
    let mut site = Site::new(2);
    let asked = site.sends(&[(1, 0, 0)]);
    site.answer(asked[0], Outcome::NotStored, 0);
    let read = site.upward.poll_read().unwrap();
    site.upward.handle_records(site.now.mono, read, 1, &[alloc::vec![0; RECORDS_BYTES_MAX]]);
    assert_eq!(site.events(), [UpwardEvent::Lost { stream: LIVE, first: 1, last: 1 }]);
    site.sends(&[(2, 1, 1)]);
}

#[test]
fn records_of_an_earlier_question_are_not_taken() {
    let mut site = Site::new(9);
    let asked = site.sends(&[(1, 0, 0)]);
    site.answer(asked[0], Outcome::NotStored, 4);
    let old = site.upward.poll_read().unwrap();
    site.upward.handle_link(false);
    site.upward.handle_link(true);
    let asked = site.sends(&[(5, 0, 0)]);
    site.answer(asked[0], Outcome::NotStored, 2 + 2);
    site.upward.handle_records(site.now.mono, old, 7, &[b"later"]);
    site.sends(&[(5, 0, 2), (7, 0, 2), (9, 0, 1)]);
    assert_eq!(site.upward.stats().lost, 0);
}

#[test]
fn a_refusal_is_told_and_the_pause_is_long() {
    let mut site = Site::new(1);
    let asked = site.sends(&[(1, 0, 0)]);
    site.answer(asked[0], Outcome::WrongSite, 0);
    assert_eq!(site.events(), [UpwardEvent::Refused { stream: LIVE, outcome: Outcome::WrongSite }]);
    assert!(site.upward.timeout().unwrap() > site.now.mono + Duration::from_secs(20));
    site.wait();
    site.sends(&[(1, 0, 0)]);
}
