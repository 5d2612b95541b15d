use crate::Sums;
use core::time::Duration;
use tieline_core::Instant;

#[test]
fn the_first_is_written_the_others_are_summed_and_none_is_forgotten() {
    let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
    let mut sums = Sums::new(4);
    assert!(sums.note(at(0), &"a") && !sums.note(at(1), &"a") && !sums.note(at(2), &"a") && sums.note(at(3), &"b"));
    assert!(sums.handle_timeout(at(599_999)).is_empty());
    assert_eq!(sums.timeout(), Some(at(600_000)));
    assert_eq!(sums.handle_timeout(at(600_000)), [(Some("a"), 2)]);
    // It goes on: summed again. What had stopped is written when it comes again.
    assert!(!sums.note(at(600_001), &"a") && sums.note(at(600_002), &"b"));
    assert_eq!(sums.handle_timeout(at(1_200_000)), [(Some("a"), 1)]);
    assert!(sums.handle_timeout(at(1_800_000)).is_empty());
    assert_eq!((sums.timeout(), sums.counted()), (None, 3));
}

#[test]
fn a_flood_from_everywhere_is_a_handful_of_records() {
    let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
    let (mut sums, mut written, mut counted) = (Sums::new(32), 0_u64, 0_u64);
    // A day of 1,000 a second from 50,000 addresses, of which each 100th millisecond is played.
    for ms in (0..86_400_000_u64).step_by(100) {
        written += u64::from(sums.note(at(ms), &(ms * 7919 % 50_000)));
        for (_, count) in sums.handle_timeout(at(ms)) {
            (written, counted) = (written + 1, counted + count);
        }
    }
    let last: u64 = sums.handle_timeout(at(90_000_000)).iter().map(|(_, count)| count).sum();
    assert!(written <= 144 * 33 + 32, "{written}");
    assert_eq!(counted + last, sums.counted());
}
