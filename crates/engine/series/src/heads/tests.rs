use super::*;
use crate::Datum;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use proptest::prelude::*;
use tieline_core::{Quality, Timestamp};

fn sample(seconds: i64, value: i64) -> Sample {
    let time = Timestamp::from_micros(seconds * 1_000_000);
    Sample { time, datum: Datum::Int(value), quality: Quality::GOOD }
}

#[derive(Clone, Copy, Debug)]
enum Step {
    Push(u32, i64),
    Release(usize),
    SealBefore(u64),
    SealAll,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..6_u32, 0..200_i64).prop_map(|(topic, seconds)| Step::Push(topic, seconds)),
        3 => (0..4_usize).prop_map(Step::Release),
        1 => (0..100_u64).prop_map(Step::SealBefore),
        1 => Just(Step::SealAll),
    ]
}

type Numbered = Vec<(u64, Sample)>;

/// The first samples of a topic, as many as a sealed head has, with its origin checked.
fn take(sealed: &Sealed, expect: &mut BTreeMap<u32, Numbered>) {
    let all = expect.get_mut(&sealed.topic).unwrap();
    let mut samples: Numbered = all.drain(..sealed.column.len()).collect();
    let ends = (samples[0].0, samples.last().unwrap().0);
    assert_eq!((sealed.origin.first, sealed.origin.last), ends);
    samples.sort_by_key(|(_, sample)| sample.time);
    assert!(sealed.column.iter().eq(samples.into_iter().map(|(_, sample)| sample)));
    expect.retain(|_, samples| !samples.is_empty());
}

proptest! {
    /// Every sample is in an open head or was sealed once, in order, and the journal keeps what only a head has.
    #[test]
    fn samples_are_sealed_once(
        steps in prop::collection::vec(step(), 1..200),
        (bytes_max, samples_max, window) in (200..40_000_usize, 1..40_usize, 1..300_u64),
    ) {
        let limits = HeadLimits { bytes_max, samples_max, window: Duration::from_secs(window) };
        let mut heads = Heads::new(limits);
        // By topic: what is not durable, with its sequence.
        let mut expect: BTreeMap<u32, Numbered> = BTreeMap::new();
        let mut sequence = 0;
        // What a reader has does not change.
        let mut held: Vec<(Arc<Column>, Column)> = Vec::new();
        for step in steps {
            match step {
                Step::Push(topic, seconds) => {
                    sequence += 1;
                    let sample = sample(seconds, sequence as i64);
                    heads.push(topic, sample.clone(), sequence);
                    expect.entry(topic).or_default().push((sequence, sample));
                }
                Step::Release(count) => {
                    heads.sealed().take(count).for_each(|sealed| take(sealed, &mut expect));
                    heads.release(count);
                }
                Step::SealBefore(sequence) => {
                    heads.seal_before(sequence);
                    prop_assert!(heads.open.values().all(|head| head.origin.first >= sequence));
                }
                Step::SealAll => heads.seal_all(),
            }
            prop_assert!(held.iter().all(|(column, copy)| **column == *copy));
            prop_assert_eq!(heads.oldest(), expect.values().map(|samples| samples[0].0).min());
            for ((topic, samples), from) in expect.iter().zip([i64::MIN, 0, 20, 50, 80].into_iter().cycle()) {
                let from = if from == i64::MIN { Timestamp::from_micros(from) } else { sample(from, 0).time };
                let columns = heads.columns(*topic, from);
                held = columns.iter().map(|column| (Arc::clone(column), Column::clone(column))).collect();
                let mut found: Column = columns.iter().flat_map(|column| column.iter().collect::<Vec<_>>()).collect();
                found.settle();
                let mut all: Column = samples.iter().map(|(_, sample)| sample.clone()).collect();
                all.settle();
                prop_assert_eq!(found.settled_from(from), all.settled_from(from));
                prop_assert!(columns.iter().all(|column| column.ends().is_some_and(|(_, last)| last >= from)));
            }
            let sealed: usize = heads.sealed().map(|sealed| sealed.column.bytes()).sum();
            prop_assert_eq!(heads.bytes(), heads.open.values().map(|head| head.bytes()).sum::<usize>() + sealed);
        }
        heads.seal_all();
        heads.sealed().for_each(|sealed| take(sealed, &mut expect));
        prop_assert!(expect.is_empty());
        heads.release(usize::MAX);
        prop_assert_eq!((heads.bytes(), heads.oldest(), heads.sealed_of.len()), (0, None, 0));
    }
}

#[test]
fn memory_is_bounded_whoever_fills_it() {
    let limits = HeadLimits { bytes_max: 400_000, ..HeadLimits::default() };
    for topics in [1, 10, 1000] {
        let (mut heads, mut most, mut chunks) = (Heads::new(limits), 0, 0);
        for n in 0..200_000_u32 {
            // One topic has half of all samples.
            let topic = if n % 2 == 0 { 0 } else { n % topics };
            heads.push(topic, sample(i64::from(n / 1000), i64::from(n)), n.into());
            most = most.max(heads.bytes());
            chunks += heads.sealed().len();
            heads.release(usize::MAX);
        }
        assert!(most <= limits.bytes_max + 65_536, "{topics} topics: {most} bytes");
        assert!(chunks < 100_000, "{topics} topics: {chunks} chunks");
    }
}

#[test]
fn a_head_of_many_samples_ends_with_its_window() {
    let limits = HeadLimits { window: Duration::from_secs(1000), ..HeadLimits::default() };
    let mut heads = Heads::new(limits);
    // Topic 1 has few samples; a late one does not end a window.
    for n in 0..2500_u32 {
        heads.push(0, sample(n.into(), 1), n.into());
        if n % 10 == 0 {
            heads.push(1, sample(n.into(), 1), n.into());
        }
        if n == 1700 {
            heads.push(0, sample(500, 2), n.into());
        }
    }
    let sealed: Vec<_> =
        heads.sealed().map(|sealed| (sealed.topic, sealed.column.len(), sealed.origin.first)).collect();
    assert_eq!(sealed, [(0, 1000, 0), (0, 1001, 1000)]);
    assert_eq!(heads.columns(1, Timestamp::from_micros(i64::MIN))[0].len(), 250);
}
