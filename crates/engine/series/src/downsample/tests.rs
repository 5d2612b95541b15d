use super::*;
use alloc::vec;
use bytes::Bytes;
use proptest::prelude::*;

fn at(micros: i64) -> Timestamp {
    Timestamp::from_micros(micros)
}

/// Whole numbers: sums are exact whatever their order.
fn sample() -> impl Strategy<Value = Sample> {
    let datum = prop_oneof![
        6 => (-50..50_i32).prop_map(|number| Datum::Float(number.into())),
        2 => (-50..50_i64).prop_map(Datum::Int),
        1 => prop::sample::select(&[i64::MAX, i64::MAX - 1, i64::MIN][..]).prop_map(Datum::Int),
        1 => any::<bool>().prop_map(Datum::Bool),
        1 => Just(Datum::Null),
        1 => Just(Datum::Text(Bytes::from_static(b"on"))),
    ];
    let quality = prop_oneof![6 => Just(Quality::GOOD), 1 => Just(Quality::STALE), 2 => Just(Quality::OFFLINE)];
    (-500..500_i64, datum, quality).prop_map(|(time, datum, quality)| Sample { time: at(time), datum, quality })
}

fn samples() -> impl Strategy<Value = Column> {
    prop::collection::vec(sample(), 0..200).prop_map(|samples| {
        let mut column: Column = samples.into_iter().collect();
        column.settle();
        column
    })
}

/// Takes samples in parts.
fn run(column: &Column, every: i64, keep: Keep, parts: usize) -> Column {
    let mut downsampler = Downsampler::new(every, keep);
    let mut out = Column::default();
    let length = column.len().div_ceil(parts).max(1);
    for start in (0..column.len()).step_by(length) {
        downsampler.push(&column.range(start..(start + length).min(column.len())));
        out.append(&downsampler.take());
    }
    out.append(&downsampler.finish());
    out
}

fn is_bad(sample: &Sample) -> bool {
    sample.quality.validity() == Validity::Bad
}

fn is_number(sample: &Sample) -> bool {
    sample.datum.as_f64().is_some_and(|number| !number.is_nan())
}

/// Samples in pieces, and whether a bad one is before each; a bad one is a piece of its own.
fn pieces(samples: &[Sample], every: i64) -> Vec<(bool, Vec<Sample>)> {
    let mut pieces: Vec<(bool, Vec<Sample>)> = Vec::new();
    let mut before: Option<&Sample> = None;
    for sample in samples {
        let number = |sample: &Sample| sample.time.micros().div_euclid(every);
        let joins = before.is_some_and(|before| !is_bad(before) && !is_bad(sample) && number(before) == number(sample));
        match pieces.last_mut().filter(|_| joins) {
            Some((_, piece)) => piece.push(sample.clone()),
            None => pieces.push((before.is_some_and(is_bad), vec![sample.clone()])),
        }
        before = Some(sample);
    }
    pieces
}

fn naive(samples: &[Sample], every: i64, keep: Keep) -> Vec<Sample> {
    let mut out = Vec::new();
    for (is_behind_bad, piece) in pieces(samples, every) {
        if is_bad(&piece[0]) {
            out.extend((!is_behind_bad).then(|| piece[0].clone()));
            continue;
        }
        match keep {
            Keep::Last => out.extend(piece.last().cloned()),
            Keep::Mean => {
                let counts = |sample: &&Sample| is_number(sample) && !matches!(sample.datum, Datum::Bool(_));
                let numbers: Vec<&Sample> = piece.iter().filter(counts).collect();
                let sum: f64 = numbers.iter().filter_map(|sample| sample.datum.as_f64()).sum();
                if let Some(first) = numbers.first() {
                    let start = first.time.micros().div_euclid(every) * every;
                    let time = if is_behind_bad { piece[0].time } else { at(start) };
                    let quality = numbers.iter().fold(Quality::GOOD, |all, sample| all.with(sample.quality));
                    out.push(Sample { time, datum: Datum::Float(sum / numbers.len() as f64), quality });
                }
                out.extend(piece.iter().rfind(|sample| !counts(sample)).cloned());
            }
            Keep::Extremes => {
                let numbers: Vec<usize> = (0..piece.len()).filter(|place| is_number(&piece[*place])).collect();
                let mut stay: Vec<usize> = numbers.first().into_iter().chain(numbers.last()).copied().collect();
                for sign in [Ordering::Less, Ordering::Greater] {
                    let beats = |one: usize, other: usize| order(&piece[one].datum, &piece[other].datum) == sign;
                    let best = |best, place| if beats(place, best) { place } else { best };
                    stay.extend(numbers.iter().copied().reduce(best));
                }
                stay.extend((0..piece.len()).rfind(|place| !is_number(&piece[*place])));
                stay.sort_unstable();
                stay.dedup();
                out.extend(stay.into_iter().map(|place| piece[place].clone()));
            }
        }
    }
    out
}

fn list(column: &Column) -> Vec<Sample> {
    column.iter().collect()
}

proptest! {
    #[test]
    fn it_is_what_a_list_says(column in samples(), every in 1..200_i64, parts in 1..6_usize) {
        for &(_, keep) in Keep::WORDS {
            let found = run(&column, every, keep, parts);
            prop_assert_eq!(list(&found), naive(&list(&column), every, keep), "{:?}", keep);
            prop_assert!(found.is_sorted() && found.len() <= column.len());
            // What went through it once stays.
            prop_assert_eq!(list(&run(&found, every, keep, 1)), list(&found), "{:?}", keep);
        }
    }

    #[test]
    fn real_samples_stay_the_same_in_stages(column in samples(), every in 1..40_i64, times in 1..6_i64) {
        for keep in [Keep::Last, Keep::Extremes] {
            let staged = run(&run(&column, every, keep, 1), every * times, keep, 1);
            prop_assert_eq!(list(&staged), list(&run(&column, every * times, keep, 1)), "{:?}", keep);
        }
    }

    #[test]
    fn each_interval_keeps_its_extremes_exactly(column in samples(), every in 1..200_i64) {
        let of = |column: &Column| {
            let mut intervals: Vec<(i64, Vec<Sample>)> = Vec::new();
            for sample in column.iter().filter(|sample| is_number(sample) && !is_bad(sample)) {
                let number = sample.time.micros().div_euclid(every);
                match intervals.last_mut().filter(|(last, _)| *last == number) {
                    Some((_, samples)) => samples.push(sample),
                    None => intervals.push((number, vec![sample])),
                }
            }
            let best = |samples: &[Sample], sign| {
                let best = |best: Sample, next: Sample| if order(&next.datum, &best.datum) == sign { next } else { best };
                samples.iter().cloned().reduce(best)
            };
            let ends = |samples: &[Sample]| (samples.first().cloned(), samples.last().cloned());
            let told = |(number, samples): (i64, Vec<Sample>)| {
                (number, ends(&samples), best(&samples, Ordering::Less), best(&samples, Ordering::Greater))
            };
            intervals.into_iter().map(told).collect::<Vec<_>>()
        };
        prop_assert_eq!(of(&run(&column, every, Keep::Extremes, 1)), of(&column));
    }
}

#[test]
fn a_bad_run_is_its_first_sample_and_is_in_no_mean() {
    let sample = |time, number: f64, quality| Sample { time: at(time), datum: Datum::Float(number), quality };
    let good = |time, number| sample(time, number, Quality::GOOD);
    let bad = |time| sample(time, 999.0, Quality::OFFLINE);
    let column: Column =
        [good(3, 1.0), good(5, 2.0), bad(12), bad(14), bad(22), good(25, 4.0), good(29, 6.0), good(31, f64::NAN)]
            .into_iter()
            .collect();
    let shown = |keep| {
        let one = |sample: Sample| (sample.time.micros(), alloc::format!("{:?}", sample.datum.as_f64().unwrap()));
        run(&column, 10, keep, 1).iter().map(one).collect::<Vec<_>>()
    };
    let is = |times: &[(i64, &str)]| times.iter().map(|(time, words)| (*time, (*words).into())).collect::<Vec<_>>();
    assert_eq!(shown(Keep::Mean), is(&[(0, "1.5"), (12, "999.0"), (25, "5.0"), (31, "NaN")]));
    assert_eq!(shown(Keep::Last), is(&[(5, "2.0"), (12, "999.0"), (29, "6.0"), (31, "NaN")]));
}
