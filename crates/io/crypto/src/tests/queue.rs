use super::KEYS;
use crate::*;

fn job(i: u8) -> PrivateJob {
    PrivateJob::Sign { key: KEYS[usize::from(i) % 4].clone(), digest: [i; 32], padding: SignaturePadding::Pkcs1v15 }
}

#[test]
fn a_turn_takes_what_waits_and_no_more_than_eight() {
    let (mut engine, mut queue) = (Engine::new(), PrivateQueue::new(100));
    let mut done = Vec::new();
    assert_eq!(queue.run(&mut engine, &mut done), 0);
    let mut next = 0..21u8;
    for (pushed, turn) in [(1, 1), (2, 2), (12, 8), (5, 8), (1, 2)] {
        next.by_ref().take(pushed).for_each(|i| queue.push(i, job(i)).unwrap());
        assert_eq!(queue.run(&mut engine, &mut done), turn);
    }
    assert!(queue.is_empty());
    for (i, (token, outcome)) in (0..21).zip(&done) {
        assert_eq!(*token, i);
        let PrivateOutcome::Signature(signature) = outcome else { panic!("{outcome:?}") };
        assert!(KEYS[usize::from(i) % 4].public().verify(&[i; 32], signature));
    }
    let counters = QueueCounters { accepted: 21, refused: 0, turns: [1, 2, 0, 0, 0, 0, 0, 2], waiting_max: 12 };
    assert_eq!(queue.counters(), counters);
    let counters = engine.counters();
    // One alone, and three turns of which the lanes take all.
    assert_eq!((counters.private_single, counters.private_lanes), if engine.has_lanes() { (1, 20) } else { (21, 0) });
}

#[test]
fn a_full_queue_gives_the_job_back() {
    let mut queue = PrivateQueue::new(2);
    assert!(queue.push('a', job(1)).is_ok() && queue.push('b', job(2)).is_ok());
    let Err((token, PrivateJob::Sign { digest, .. })) = queue.push('c', job(3)) else { panic!("accepted") };
    assert_eq!((token, digest), ('c', [3; 32]));
    assert_eq!((queue.len(), queue.counters().refused, queue.counters().accepted), (2, 1, 2));
    queue.run(&mut Engine::without_lanes(), &mut Vec::new());
    assert!(queue.push('c', job(3)).is_ok());
}
