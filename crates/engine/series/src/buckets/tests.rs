use super::*;
use crate::summary::{Numbers, ValidityCounts};
use crate::{Aggregate, Chunk, Origin, Sample, Step, Sweep, encode};
use alloc::sync::Arc;
use bytes::Bytes;
use proptest::prelude::*;
use tieline_core::{Quality, Words as _};

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
    let known: Vec<&Sample> = inside.iter().copied().filter(trusted).collect();
    let told: Vec<&Sample> = known.iter().copied().filter(|sample| sample.datum != Datum::Null).collect();
    let number = |sample: &Sample| sample.datum.as_f64().unwrap();
    let ranked = || inside.iter().copied().filter(trusted).filter(is_number);
    let least = ranked().min_by(|one, other| number(one).total_cmp(&number(other)));
    let most = ranked().max_by(|one, other| number(one).total_cmp(&number(other)));
    let data = |one: &&Sample, other: &&Sample| (one.datum.clone(), other.datum.clone());
    (!inside.is_empty()).then(|| Bucket {
        start,
        end,
        from: start,
        summary: Summary {
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
        },
        standing: standing.and_then(|sample| sample.datum.as_f64()),
        sorted,
        data: Extent {
            count: told.len() as u64,
            ends: told.first().zip(told.last()).map(|(first, last)| data(first, last)),
            extremes: least.as_ref().zip(most.as_ref()).map(|(least, most)| data(least, most)),
            reasons: known.iter().fold(Quality::GOOD, |all, sample| all.with(sample.quality)),
        },
    })
}

/// As text, without the kinds of numbers: not-a-number is equal to itself there.
fn told(bucket: &Bucket) -> alloc::string::String {
    let numbers = bucket.summary.numbers.map(|numbers| Numbers {
        kind: None,
        sum: numbers.sum + 0.0,
        area: numbers.area + 0.0,
        ..numbers
    });
    let extremes = bucket.data.extremes.as_ref().map(|(low, high)| (low.as_f64(), high.as_f64()));
    let data = Extent { extremes: None, ..bucket.data.clone() };
    alloc::format!(
        "{:?} {extremes:?}",
        Bucket { summary: Summary { numbers, ..bucket.summary }, data, ..bucket.clone() }
    )
}

fn whole() -> Take<Bucket> {
    Box::new(|bucket| Some(bucket.clone()))
}

/// Fills buckets as a query does, and says how often a summary was enough.
fn filled(chunks: &[Chunk], frame: &Frame, needs: Needs) -> (Vec<Bucket>, usize) {
    let spans: Vec<Span> = chunks.iter().map(|chunk| Span { first: chunk.first, last: chunk.last }).collect();
    let (mut buckets, mut summaries) = (Buckets::new(frame.clone(), needs, None, whole()), 0);
    let mut sweep = Sweep::new(&spans);
    while let Some(step) = sweep.step() {
        match step {
            Step::Whole(one) if frame.holds(spans[one]) && needs.fits(&chunks[one].summary) => {
                summaries += 1;
                buckets.add_summary(chunks[one].first, &chunks[one].summary);
            }
            Step::Whole(one) => buckets.add_samples(&chunks[one].samples().unwrap()),
            Step::Open(one) => sweep.open(one, Arc::new(chunks[one].samples().unwrap())),
            Step::Samples(samples) => buckets.add_samples(&samples),
        }
    }
    buckets.finish();
    (core::iter::from_fn(|| buckets.poll()).collect(), summaries)
}

proptest! {
    #[test]
    fn buckets_are_what_their_samples_say(
        parts in prop::collection::vec(prop::collection::vec(sample(), 1..30), 1..8),
        starts in prop::collection::btree_set(0..1000_i64, 1..8),
        length in 1..400_i64,
        (numbers, data) in any::<(bool, bool)>(),
    ) {
        let starts: Vec<Timestamp> = starts.into_iter().map(at).collect();
        let end = at(starts.last().unwrap().micros() + length);
        let needs = Needs { numbers, data };
        let columns = parts.into_iter().map(|part| {
            let mut column: Column = part.into_iter().collect();
            column.settle();
            column
        });
        let columns: Vec<Column> = columns.collect();
        let chunks: Vec<Chunk> = columns.iter().map(chunk).collect();
        let mut all: Column = columns.iter().flat_map(Column::iter).collect();
        all.settle();
        let from_start: Vec<Sample> = all.iter().filter(|sample| sample.time >= starts[0]).collect();
        let ends = starts[1..].iter().copied().chain([end]);
        let expect = starts.iter().zip(ends).filter_map(|(start, end)| naive(&from_start, *start, end));
        let expect = expect.map(|bucket| Bucket {
            sorted: if numbers { bucket.sorted } else { Vec::new() },
            data: if data { bucket.data } else { Extent::default() },
            ..bucket
        });
        let frame = Frame { from: starts[0], to: end, grid: Grid::Starts(starts.clone()) };
        let (found, _) = filled(&chunks, &frame, needs);
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
    let every = |micros| Frame { from: at(0), to: at(1000), grid: Grid::Every(micros) };
    for &(_, aggregate) in Aggregate::WORDS {
        let (buckets, summaries) = filled(&chunks, &every(500), aggregate.needs());
        let expect = if matches!(aggregate, Aggregate::Percentile(_)) { 0 } else { 10 };
        assert_eq!((buckets.len(), summaries), (2, expect), "{aggregate:?}");
    }
    // A boundary within one of them.
    let (buckets, summaries) = filled(&chunks, &every(550), Needs::default());
    assert_eq!((buckets.len(), summaries), (2, 9));
    assert_eq!(buckets[0].summary.numbers.unwrap().count + buckets[1].summary.numbers.unwrap().count, 1000);
}

#[test]
fn aggregates_are_exact_and_leave_out_what_is_bad() {
    const BIG: i64 = (1 << 53) + 1;
    let sample = |n: i64, datum, quality| Sample { time: at(n), datum, quality };
    let column: Column = [
        sample(0, Datum::Text(Bytes::from_static(b"on")), Quality::GOOD),
        sample(1, Datum::Int(BIG), Quality::STALE),
        sample(2, Datum::Int(3), Quality::GOOD),
        sample(3, Datum::Int(BIG + 9), Quality::OFFLINE),
        sample(4, Datum::Bool(true), Quality::GOOD),
        sample(5, Datum::Null, Quality::GOOD),
    ]
    .into_iter()
    .collect();
    let frame = Frame { from: at(0), to: at(10), grid: Grid::Every(10) };
    let of = |aggregate: Aggregate| {
        let (buckets, _) = filled(&[chunk(&column)], &frame, aggregate.needs());
        aggregate.of(&buckets[0]).map(|found| (found.datum, found.quality == Quality::STALE, found.count))
    };
    assert_eq!(of(Aggregate::Max), Some((Datum::Int(BIG), true, 3)));
    assert_eq!(of(Aggregate::Min), Some((Datum::Bool(true), true, 3)));
    assert_eq!(of(Aggregate::First), Some((Datum::Text(Bytes::from_static(b"on")), true, 4)));
    assert_eq!(of(Aggregate::Last), Some((Datum::Bool(true), true, 4)));
    assert_eq!(of(Aggregate::Count), Some((Datum::Int(5), true, 5)));
    assert_eq!(of(Aggregate::Percentile(50)), Some((Datum::Float(3.0), true, 3)));
    assert!(Aggregate::WORDS.iter().all(|(word, aggregate)| Aggregate::of_word(word) == Some(*aggregate)));
}

#[test]
fn numbers_stand_until_the_next() {
    let sample = |seconds: i64, number: f64| Sample {
        time: at(seconds * 1_000_000),
        datum: Datum::Float(number),
        quality: Quality::GOOD,
    };
    let column: Column = [sample(2, 4.0), sample(6, 1.0), sample(15, 2.0)].into_iter().collect();
    let frame = Frame { from: at(0), to: at(20_000_000), grid: Grid::Every(10_000_000) };
    let mut buckets = Buckets::new(frame, Needs { numbers: true, data: false }, Some(10.0), whole());
    buckets.add_samples(&column);
    buckets.finish();
    let buckets: Vec<Bucket> = core::iter::from_fn(|| buckets.poll()).collect();
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
