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
    Poll,
    FillBefore(u64),
    FillAll,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        20 => (0..6_u32, 0..200_i64).prop_map(|(topic, seconds)| Step::Push(topic, seconds)),
        3 => Just(Step::Poll),
        1 => (0..100_u64).prop_map(Step::FillBefore),
        1 => Just(Step::FillAll),
    ]
}

proptest! {
    /// Every sample is in its head or was given out once, in order, and the journal keeps what only a head has.
    #[test]
    fn samples_are_given_out_once(
        steps in prop::collection::vec(step(), 1..200),
        (bytes_max, samples_max, span) in (200..40_000_usize, 1..40_usize, 1..300_u64),
    ) {
        let limits = HeadLimits { bytes_max, samples_max, span_max: Duration::from_secs(span) };
        let mut heads = Heads::new(limits);
        // By topic: what is not given out, with its sequence.
        let mut expect: BTreeMap<u32, Vec<(u64, Sample)>> = BTreeMap::new();
        let mut sequence = 0;
        for step in steps {
            match step {
                Step::Push(topic, seconds) => {
                    sequence += 1;
                    let sample = sample(seconds, sequence as i64);
                    heads.push(topic, sample.clone(), sequence);
                    expect.entry(topic).or_default().push((sequence, sample));
                }
                Step::Poll => {
                    let Some(full) = heads.poll_full() else { continue };
                    let mut samples = expect.remove(&full.topic).unwrap();
                    let ends = (samples[0].0, samples.last().unwrap().0);
                    prop_assert_eq!((full.origin.first, full.origin.last), ends);
                    samples.sort_by_key(|(_, sample)| sample.time);
                    let samples: Vec<Sample> = samples.into_iter().map(|(_, sample)| sample).collect();
                    prop_assert_eq!(full.column.iter().collect::<Vec<_>>(), samples);
                    prop_assert!(full.column.is_sorted());
                }
                Step::FillBefore(sequence) => heads.fill_before(sequence),
                Step::FillAll => heads.fill_all(),
            }
            prop_assert_eq!(heads.oldest(), expect.values().map(|samples| samples[0].0).min());
            for (topic, samples) in &expect {
                let found: Vec<Sample> = heads.column(*topic).unwrap().iter().collect();
                prop_assert!(found.iter().eq(samples.iter().map(|(_, sample)| sample)));
            }
            prop_assert_eq!(heads.bytes(), heads.heads.values().map(|head| head.bytes()).sum::<usize>());
        }
        heads.fill_all();
        let left: BTreeMap<u32, usize> =
            core::iter::from_fn(|| heads.poll_full()).map(|full| (full.topic, full.column.len())).collect();
        prop_assert_eq!(left, expect.iter().map(|(topic, samples)| (*topic, samples.len())).collect());
        prop_assert_eq!((heads.bytes(), heads.oldest()), (0, None));
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
            while heads.poll_full().is_some() {
                chunks += 1;
            }
        }
        assert!(most <= limits.bytes_max + 65_536, "{topics} topics: {most} bytes");
        assert!(chunks < 100_000, "{topics} topics: {chunks} chunks");
    }
}

#[test]
fn a_full_head_takes_samples_until_it_is_written() {
    let mut heads = Heads::new(HeadLimits { samples_max: 2, ..HeadLimits::default() });
    (0..3).for_each(|n| heads.push(7, sample(n, n), n.cast_unsigned()));
    let full = heads.poll_full().unwrap();
    assert_eq!((full.column.len(), full.origin), (3, Origin { first: 0, last: 2 }));
    assert!(heads.poll_full().is_none());
}
