//! Chunks against the samples they were made of.

use crate::{Chunk, Column, Datum, Fields, NumberKind, Origin, Sample, Samples, SeriesError, Summary, encode};
use alloc::sync::Arc;
use alloc::vec::Vec;
use bytes::Bytes;
use proptest::prelude::*;
use tieline_core::{Quality, Timestamp, Validity};

const ORIGIN: Origin = Origin { first: 7, last: 1 << 40 };

fn chunk_of(column: &Column) -> Bytes {
    let mut bytes = Vec::new();
    encode(column, ORIGIN, &mut bytes);
    assert_eq!(Chunk::bytes(&bytes), Ok(Some(bytes.len())));
    bytes.into()
}

/// Samples as text: not-a-number is equal to itself there, and 0 is not -0.
fn told(column: &Column) -> Vec<alloc::string::String> {
    column.iter().map(|sample| alloc::format!("{sample:?}")).collect()
}

fn datum() -> impl Strategy<Value = Datum> {
    let bytes = || prop::collection::vec(prop::sample::select(b"abc".to_vec()), 0..4).prop_map(Bytes::from);
    prop_oneof![
        4 => (-1000..1000_i32).prop_map(|i| Datum::Float(f64::from(i) / 10.0)),
        1 => any::<f64>().prop_map(Datum::Float),
        2 => any::<i64>().prop_map(Datum::Int),
        2 => any::<bool>().prop_map(Datum::Bool),
        1 => Just(Datum::Null),
        1 => bytes().prop_map(Datum::Text),
        1 => bytes().prop_map(Datum::Bytes),
        1 => bytes().prop_map(Datum::Opaque),
    ]
}

fn sample() -> impl Strategy<Value = Sample> {
    let time = prop_oneof![4 => 0..50_i64, 1 => any::<i64>()];
    let quality = prop_oneof![3 => Just(0_u16), 1 => 0..0x8000_u16];
    (time, datum(), quality).prop_map(|(time, datum, quality)| Sample {
        time: Timestamp::from_micros(time),
        datum,
        quality: Quality::from_bits(quality),
    })
}

/// The numbers that count, as a list.
fn numbers(column: &Column) -> Vec<(i64, f64)> {
    let trusted = column.iter().filter(|sample| sample.quality.validity() != Validity::Bad);
    let numbers = trusted.filter_map(|sample| Some((sample.time.micros(), sample.datum.as_f64()?)));
    numbers.filter(|(_, number)| !number.is_nan()).collect()
}

fn check_summary(column: &Column, summary: &Summary) {
    let count = |of: Validity| column.iter().filter(|sample| sample.quality.validity() == of).count() as u64;
    let validities = summary.validities;
    assert_eq!(
        (validities.good, validities.uncertain, validities.bad),
        (count(Validity::Good), count(Validity::Uncertain), count(Validity::Bad))
    );
    let expect = numbers(column);
    let Some(found) = &summary.numbers else { return assert!(expect.is_empty()) };
    let values = || expect.iter().map(|(_, number)| *number);
    assert_eq!(found.count, expect.len() as u64);
    let sum: f64 = values().sum();
    let far = values().map(f64::abs).sum::<f64>();
    assert!((found.sum - sum).abs() <= far * 1e-9 || !far.is_finite(), "{} and {sum}", found.sum);
    assert_eq!(found.min, values().fold(f64::INFINITY, f64::min));
    assert_eq!(found.max, values().fold(f64::NEG_INFINITY, f64::max));
    let end = |(time, number): &(i64, f64)| (Timestamp::from_micros(*time), *number);
    assert_eq!((found.first, found.last), (end(&expect[0]), end(expect.last().unwrap())));
}

proptest! {
    #[test]
    fn samples_come_back_in_order(samples in prop::collection::vec(sample(), 1..400)) {
        let mut expect: Vec<Sample> = Vec::new();
        for sample in &samples {
            let is_known = expect.iter().any(|known| alloc::format!("{known:?}") == alloc::format!("{sample:?}"));
            if !is_known {
                expect.push(sample.clone());
            }
        }
        expect.sort_by_key(|sample| sample.time);
        let mut column: Column = samples.into_iter().collect();
        prop_assert_eq!(column.is_sorted(), column.iter().map(|sample| sample.time).is_sorted());
        column.settle();
        prop_assert_eq!(told(&column), told(&expect.into_iter().collect()));
        let chunk = Chunk::parse(&chunk_of(&column)).unwrap();
        prop_assert_eq!((chunk.count, chunk.origin), (column.len(), ORIGIN));
        let ends = column.iter().next().zip(column.iter().last()).map(|(first, last)| (first.time, last.time));
        prop_assert_eq!(Some((chunk.first, chunk.last)), ends);
        prop_assert_eq!(told(&chunk.samples().unwrap()), told(&column));
        check_summary(&column, &chunk.summary);
        let (start, end) = (column.len() / 3, column.len() / 3 * 2);
        let part: Column = Samples::new(Arc::new(column.clone()), start..end).collect();
        prop_assert_eq!(told(&part), told(&column)[start..end].to_vec());
        prop_assert_eq!(told(&column.range(start..end)), told(&part));
        let fields = Fields::from(column.clone());
        let (mut short, mut odd) = (fields.clone(), fields.clone());
        prop_assert_eq!(Column::try_from(fields).map(|again| told(&again)), Ok(told(&column)));
        short.times.pop();
        odd.kinds.push((7, 1));
        prop_assert!(Column::try_from(short).is_err() && Column::try_from(odd).is_err());
    }

    #[test]
    fn a_damaged_chunk_is_no_chunk(samples in prop::collection::vec(sample(), 1..40), at in any::<prop::sample::Index>(), bit in 0..8_u32) {
        let mut column: Column = samples.into_iter().collect();
        column.settle();
        let mut bytes = chunk_of(&column).to_vec();
        *at.get_mut(&mut bytes) ^= 1_u8 << bit;
        prop_assert!(Chunk::parse(&bytes.into()).is_err());
    }

    #[test]
    fn a_chunk_that_ends_early_is_no_chunk(samples in prop::collection::vec(sample(), 1..40), at in any::<prop::sample::Index>()) {
        let mut column: Column = samples.into_iter().collect();
        column.settle();
        let bytes = chunk_of(&column);
        let cut = bytes.slice(..at.index(bytes.len()));
        prop_assert_eq!(Chunk::parse(&cut).map(drop), Err(SeriesError::Truncated));
    }

    #[test]
    fn hostile_bytes_with_a_right_check_are_refused_or_read(mut bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut hostile = alloc::vec![crate::chunk::VERSION];
        hostile.extend((bytes.len() as u32).to_le_bytes());
        hostile.append(&mut bytes);
        let check = crc32fast::hash(&hostile);
        hostile.extend(check.to_le_bytes());
        if let Ok(chunk) = Chunk::parse(&hostile.into())
            && let Ok(column) = chunk.samples()
        {
            prop_assert_eq!(column.iter().count(), chunk.count);
        }
    }
}

#[test]
fn a_time_weighted_mean_needs_no_samples() {
    let at = |seconds: i64, value: f64| Sample {
        time: Timestamp::from_micros(seconds * 1_000_000),
        datum: Datum::Float(value),
        quality: Quality::GOOD,
    };
    let bad = Sample { quality: Quality::OFFLINE, ..at(15, 9.0) };
    let column: Column = [at(10, 1.0), bad, at(20, 3.0), at(30, 0.0)].into_iter().collect();
    let numbers = Summary::of(&column).numbers.unwrap();
    assert_eq!(numbers.area, (1.0 * 10.0 + 3.0 * 10.0) * 1e6);
    assert_eq!(numbers.kind, Some(NumberKind::Float));
}

#[test]
fn numbers_that_a_double_does_not_hold_are_said_to_be_inexact() {
    let kind = |data: &[Datum]| {
        let sample =
            |datum: &Datum| Sample { time: Timestamp::default(), datum: datum.clone(), quality: Quality::GOOD };
        Summary::of(&data.iter().map(sample).collect()).numbers.and_then(|numbers| numbers.kind)
    };
    assert_eq!(kind(&[Datum::Int(1 << 53), Datum::Int(-(1 << 53))]), Some(NumberKind::Int));
    assert_eq!(kind(&[Datum::Int(1 << 53), Datum::Int((1 << 53) + 1)]), None);
    assert_eq!(kind(&[Datum::Bool(true), Datum::Null]), Some(NumberKind::Bool));
    assert_eq!(kind(&[Datum::Bool(true), Datum::Float(1.0)]), None);
}
