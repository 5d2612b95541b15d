use super::*;
use crate::{Chunk, Datum, Origin, encode};
use bytes::Bytes;
use proptest::prelude::*;
use tieline_core::Quality;

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// Whole numbers: sums are exact whatever their order.
fn sample() -> impl Strategy<Value = Sample> {
    let datum = prop_oneof![
        6 => (-50..50_i32).prop_map(|number| Datum::Float(number.into())),
        2 => (-50..50_i64).prop_map(Datum::Int),
        1 => any::<bool>().prop_map(Datum::Bool),
        1 => Just(Datum::Null),
        1 => Just(Datum::Float(f64::NAN)),
        1 => Just(Datum::Text(Bytes::from_static(b"on"))),
    ];
    let quality = prop_oneof![5 => Just(Quality::GOOD), 1 => Just(Quality::STALE), 1 => Just(Quality::OFFLINE)];
    (0..1000_i64, datum, quality).prop_map(|(time, datum, quality)| Sample { time: at(time), datum, quality })
}

fn chunk(column: &Column) -> Chunk {
    let mut bytes = Vec::new();
    encode(column, Origin { first: 1, last: 1 }, &mut bytes);
    Chunk::parse(&bytes.into()).unwrap()
}

/// What a bucket is, sample by sample.
fn naive(samples: &[Sample], start: Timestamp, end: Timestamp) -> Option<Bucket> {
    let is_number = |sample: &&Sample| sample.datum.as_f64().is_some_and(|number| !number.is_nan());
    let trusted = |sample: &&Sample| sample.quality.validity() != Validity::Bad;
    let inside: Vec<&Sample> = samples.iter().filter(|sample| sample.time >= start && sample.time < end).collect();
    let numbers: Vec<(Timestamp, f64)> = inside
        .iter()
        .copied()
        .filter(trusted)
        .filter(is_number)
        .map(|sample| (sample.time, sample.datum.as_f64().unwrap()))
        .collect();
    let count = |of: Validity| inside.iter().filter(|sample| sample.quality.validity() == of).count() as u64;
    let mut sorted: Vec<f64> = numbers.iter().map(|(_, number)| *number).collect();
    sorted.sort_by(f64::total_cmp);
    let area = numbers.windows(2).map(|two| two[0].1 * (two[1].0.micros() - two[0].0.micros()) as f64).sum();
    let reasons = inside
        .iter()
        .copied()
        .filter(trusted)
        .filter(is_number)
        .fold(Quality::GOOD, |all, sample| all.with(sample.quality));
    let standing = samples.iter().filter(|sample| sample.time < start).filter(trusted).rfind(is_number);
    let told: Vec<&Sample> =
        inside.iter().copied().filter(trusted).filter(|sample| sample.datum != Datum::Null).collect();
    (!inside.is_empty()).then(|| Bucket {
        start,
        end,
        validities: ValidityCounts {
            good: count(Validity::Good),
            uncertain: count(Validity::Uncertain),
            bad: count(Validity::Bad),
        },
        numbers: numbers.first().zip(numbers.last()).map(|(first, last)| Numbers {
            count: numbers.len() as u64,
            sum: sorted.iter().sum(),
            min: sorted[0],
            max: *sorted.last().unwrap(),
            first: *first,
            last: *last,
            area,
            reasons,
            kind: None,
        }),
        standing: standing.and_then(|sample| sample.datum.as_f64()),
        sorted,
        ends: told.first().zip(told.last()).map(|(first, last)| ((*first).clone(), (*last).clone())),
    })
}

/// As text, without the kind of the numbers: not-a-number is equal to itself there.
fn told(bucket: &Bucket) -> alloc::string::String {
    let numbers = bucket.numbers.map(|numbers| Numbers {
        kind: None,
        sum: numbers.sum + 0.0,
        area: numbers.area + 0.0,
        ..numbers
    });
    alloc::format!("{:?}", Bucket { numbers, ..bucket.clone() })
}

/// Fills buckets as a query does, and says how often a summary was enough.
fn filled(chunks: &[Chunk], starts: &[Timestamp], end: Timestamp, needs: Needs) -> (Vec<Bucket>, usize) {
    let spans: Vec<Span> = chunks.iter().map(|chunk| Span { first: chunk.first, last: chunk.last }).collect();
    let (mut buckets, mut summaries) = (Buckets::new(starts.to_vec(), end, needs, None), 0);
    for step in steps(&spans, starts, end) {
        match step {
            Step::Summary(one) if needs.fits_summary() => {
                summaries += 1;
                buckets.add_summary(chunks[one].first, &chunks[one].summary);
            }
            Step::Summary(one) => buckets.add_samples(&chunks[one].samples().unwrap()),
            Step::Decode(together) => {
                let columns: Vec<Column> = together.iter().map(|one| chunks[*one].samples().unwrap()).collect();
                let mut merged: Column = columns.iter().flat_map(Column::iter).collect();
                merged.sort();
                buckets.add_samples(&merged);
            }
        }
    }
    (buckets.finish(), summaries)
}

proptest! {
    #[test]
    fn buckets_are_what_their_samples_say(
        parts in prop::collection::vec(prop::collection::vec(sample(), 1..30), 1..8),
        starts in prop::collection::btree_set(0..1000_i64, 1..8),
        length in 1..400_i64,
        (numbers, samples) in any::<(bool, bool)>(),
    ) {
        let starts: Vec<Timestamp> = starts.into_iter().map(at).collect();
        let end = at(starts.last().unwrap().micros() + length);
        let needs = Needs { numbers, samples };
        let columns = parts.into_iter().map(|part| {
            let mut column: Column = part.into_iter().collect();
            column.sort();
            column
        });
        let columns: Vec<Column> = columns.collect();
        let chunks: Vec<Chunk> = columns.iter().map(chunk).collect();
        let mut all: Vec<Sample> = columns.iter().flat_map(Column::iter).collect();
        all.sort_by_key(|sample| sample.time);
        let from_start: Vec<Sample> = all.iter().filter(|sample| sample.time >= starts[0]).cloned().collect();
        let ends = starts[1..].iter().copied().chain([end]);
        let expect = starts.iter().zip(ends).filter_map(|(start, end)| naive(&from_start, *start, end));
        let expect = expect.map(|bucket| Bucket {
            sorted: if numbers { bucket.sorted } else { Vec::new() },
            ends: bucket.ends.filter(|_| samples),
            ..bucket
        });
        let (found, _) = filled(&chunks, &starts, end, needs);
        prop_assert_eq!(found.iter().map(told).collect::<Vec<_>>(), expect.map(|bucket| told(&bucket)).collect::<Vec<_>>());
    }
}

#[test]
fn chunks_within_a_bucket_are_not_decoded() {
    let column = |first: i64| -> Column {
        let sample = |n: i64| Sample { time: at(first + n), datum: Datum::Float(n as f64), quality: Quality::GOOD };
        (0..100).map(sample).collect()
    };
    let chunks: Vec<Chunk> = (0..10).map(|n| chunk(&column(n * 100))).collect();
    let (buckets, summaries) = filled(&chunks, &[at(0), at(500)], at(1000), Needs::default());
    assert_eq!((buckets.len(), summaries), (2, 10));
    // A boundary within one of them.
    let (buckets, summaries) = filled(&chunks, &[at(0), at(550)], at(1000), Needs::default());
    assert_eq!((buckets.len(), summaries), (2, 9));
    assert_eq!(buckets[0].numbers.unwrap().count + buckets[1].numbers.unwrap().count, 1000);
}

#[test]
fn numbers_stand_until_the_next() {
    let sample = |seconds: i64, number: f64| Sample {
        time: at(seconds * 1_000_000),
        datum: Datum::Float(number),
        quality: Quality::GOOD,
    };
    let column: Column = [sample(2, 4.0), sample(6, 1.0), sample(15, 2.0)].into_iter().collect();
    let starts = [0, 10].map(|seconds| at(seconds * 1_000_000)).to_vec();
    let mut buckets = Buckets::new(starts, at(20_000_000), Needs { numbers: true, samples: false }, Some(10.0));
    buckets.add_samples(&column);
    let buckets = buckets.finish();
    // 10 for 2 s, 4 for 4 s, 1 for 4 s; then 1 for 5 s and 2 for 5 s.
    assert_eq!(buckets[0].integral(), Some(40.0));
    assert_eq!(buckets[0].time_weighted(), Some(4.0));
    assert_eq!(buckets[1].time_weighted(), Some(1.5));
    assert_eq!(buckets[0].mean(), Some(2.5));
    assert_eq!(
        [0.0, 0.5, 0.75, 1.0].map(|part| buckets[0].percentile(part)),
        [Some(1.0), Some(2.5), Some(3.25), Some(4.0)]
    );
    assert_eq!(buckets[1].percentile(0.9), Some(2.0));
}
