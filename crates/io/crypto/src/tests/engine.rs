use super::{KEY_OF_3, KEYS};
use crate::lanes::{Ifma, Moduli, PRIME_DIGITS, Portable, Row, Unit, Wide};
use crate::worker::Worker;
use crate::*;
use proptest::prelude::*;
use std::cell::Cell;

type Numbers = Vec<(usize, [u8; MODULUS_BYTES])>;

/// A number below the modulus of key `key`: random, or an edge.
fn number(key: usize, shape: u8, random: [u8; 64]) -> [u8; MODULUS_BYTES] {
    let mut out = [0; MODULUS_BYTES];
    match shape {
        0 => {}
        1 => out[255] = 1,
        2 => {
            out = *KEYS[key].public().modulus();
            out[255] -= 1;
        }
        3 => out[192..].copy_from_slice(&random),
        4 => out[0..64].copy_from_slice(&random),
        _ => out = std::array::from_fn(|i| random[i % 64].wrapping_add(i as u8)),
    }
    if shape > 2 {
        out[0] &= 0x7f;
    }
    out
}

fn any_numbers() -> impl Strategy<Value = Numbers> {
    let one = (0usize..4, 0u8..8, any::<[u8; 32]>(), any::<[u8; 32]>());
    let one = one.prop_map(|(key, shape, a, b)| {
        (key, number(key, shape, std::array::from_fn(|i| if i < 32 { a[i] } else { b[i - 32] })))
    });
    prop::collection::vec(one, 1..=8)
}

/// What the lanes fill in is what aws-lc says; returns how many they filled in.
fn check_lanes<U: Unit>(unit: U, numbers: &Numbers) -> (usize, EngineCounters) {
    let mut counters = EngineCounters::default();
    let work: Vec<_> = numbers.iter().map(|(key, number)| (&KEYS[*key], number)).collect();
    let mut out: Vec<_> = work.iter().map(|_| None).collect();
    Worker::new(unit).run(&work, &mut out, &[], &mut counters);
    for ((key, number), out) in work.iter().zip(&out) {
        if let Some(out) = out {
            // aws-lc refuses 0, 1 and n - 1, which any odd power leaves as they are.
            assert_eq!(**out, key.raw(number).map_or(**number, |result| *result));
        }
    }
    (out.iter().flatten().count(), counters)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn lanes_say_what_aws_lc_says(numbers in any_numbers()) {
        // One left over goes to the library.
        let expect = numbers.len() - usize::from(numbers.len() % 4 == 1);
        let passes = expect.div_ceil(4) as u64;
        let counted = EngineCounters { private_lanes: expect as u64, private_passes: passes, ..Default::default() };
        prop_assert_eq!(check_lanes(Portable, &numbers), (expect, counted));
        if let Some(ifma) = Ifma::detect() {
            prop_assert_eq!(check_lanes(ifma, &numbers), (expect, counted));
        }
    }
}

/// Plain lanes that make one mistake, in the step that the counter names.
#[derive(Clone, Copy)]
struct Faulty<'a>(&'a Cell<u32>);

impl Unit for Faulty<'_> {
    fn multiply<const N: usize>(self, out: &mut Wide<N>, a: &Wide<N>, b: &Wide<N>, moduli: &Moduli<N>) {
        Portable.multiply(out, a, b, moduli);
        self.0.set(self.0.get().wrapping_sub(1));
        if self.0.get() == 0 {
            out[3].0[2] ^= 1;
        }
    }

    fn square(self, out: &mut Wide<PRIME_DIGITS>, a: &Wide<PRIME_DIGITS>, moduli: &Moduli<PRIME_DIGITS>) {
        self.multiply(out, a, a, moduli);
    }

    fn add<const N: usize>(self, out: &mut Wide<N>, a: &Wide<N>, b: &Wide<N>) {
        Portable.add(out, a, b);
    }

    fn choose<const N: usize>(self, out: &mut Wide<N>, table: &[Wide<N>], index: &Row) {
        Portable.choose(out, table, index);
    }
}

/// Lane 2 is a half of message 1: its result is wrong mod one prime, which must not get out.
#[test]
fn a_fault_in_one_half_is_not_released() {
    let numbers: Numbers = (0..4).map(|key| (key, number(key, 7, [0x3c; 64]))).collect();
    for step in [1, 2, 40, 500, 1200, 1262] {
        let (filled, counters) = check_lanes(Faulty(&Cell::new(step)), &numbers);
        assert_eq!((filled, counters.faults), (3, 1), "step {step}");
    }
    assert_eq!(check_lanes(Faulty(&Cell::new(0)), &numbers).0, 4);
}

fn sign(key: &PrivateKey, digest: [u8; 32]) -> PrivateJob {
    PrivateJob::Sign { key: key.clone(), digest, padding: SignaturePadding::Pkcs1v15 }
}

fn unwrap(key: &PrivateKey, block: [u8; MODULUS_BYTES]) -> PrivateJob {
    PrivateJob::Unwrap { key: key.clone(), block: Box::new(block), padding: KeyPadding::Pkcs1v15, lengths: &[44, 32] }
}

fn engines() -> [Engine; 2] {
    [Engine::new(), Engine::without_lanes()]
}

#[test]
fn outcomes_come_in_the_order_of_their_jobs() {
    for mut engine in engines() {
        for count in 1..=19u8 {
            let key = |i: u8| if i % 5 == 3 { &*KEY_OF_3 } else { &KEYS[usize::from(i) % 4] };
            let jobs: Vec<_> = (0..count)
                .map(|i| {
                    if i % 3 == 1 {
                        unwrap(key(i), key(i).public().encrypt(&[i; 44]).unwrap())
                    } else {
                        sign(key(i), [i; 32])
                    }
                })
                .collect();
            let mut done = Vec::new();
            engine.private(&jobs, &mut done);
            assert_eq!(done.len(), jobs.len());
            for (i, outcome) in (0..count).zip(done) {
                match outcome {
                    PrivateOutcome::Signature(signature) => assert!(key(i).public().verify(&[i; 32], &signature)),
                    PrivateOutcome::Unwrapped(text) => assert_eq!(text.bytes(), [i; 44]),
                    PrivateOutcome::Failed(error) => panic!("{error}"),
                }
            }
        }
        let counters = engine.counters();
        assert_eq!(counters.private_lanes > 0, engine.has_lanes());
        assert_eq!(counters.private_lanes + counters.private_single, (1..=19).sum::<u64>());
    }
}

#[test]
fn a_wrong_block_looks_like_a_right_one() {
    let (key, other) = (&KEYS[0], &KEYS[1]);
    let mut too_large = [0xff; MODULUS_BYTES];
    let not_padded = number(0, 3, [0x77; 64]);
    let wrong_length = key.public().encrypt(&[1; 43]).unwrap();
    let for_another = other.public().encrypt(&[1; 44]).unwrap();
    too_large[255] = 1;
    let blocks = [too_large, *key.public().modulus(), [0; 256], not_padded, wrong_length, for_another];
    for mut engine in engines() {
        for together in [1, 6] {
            for blocks in blocks.chunks(together) {
                let jobs: Vec<_> = blocks.iter().map(|block| unwrap(key, *block)).collect();
                let mut done = Vec::new();
                engine.private(&jobs, &mut done);
                for outcome in done {
                    let PrivateOutcome::Unwrapped(text) = outcome else { panic!("{outcome:?}") };
                    assert!(!text.is_genuine());
                    assert_eq!(text.bytes().len(), 44);
                }
            }
        }
    }
}

#[test]
fn the_other_paddings_are_done_apart() {
    let key = &KEYS[2];
    let block = Box::new(key.public().encrypt_oaep(&[8; 32]).unwrap());
    let oaep = |block| PrivateJob::Unwrap { key: key.clone(), block, padding: KeyPadding::OaepSha256, lengths: &[32] };
    let pss = PrivateJob::Sign { key: key.clone(), digest: [4; 32], padding: SignaturePadding::PssSha256 };
    let jobs = [sign(key, [1; 32]), pss, oaep(block), sign(key, [2; 32]), oaep(Box::new([0; 256]))];
    for mut engine in engines() {
        let mut done = Vec::new();
        engine.private(&jobs, &mut done);
        let [a, b, c, d, e] = done.as_slice() else { panic!("{done:?}") };
        let signed = |outcome: &PrivateOutcome, digest, pss: bool| match outcome {
            PrivateOutcome::Signature(s) if pss => key.public().verify_pss(digest, s),
            PrivateOutcome::Signature(s) => key.public().verify(digest, s),
            PrivateOutcome::Unwrapped(_) | PrivateOutcome::Failed(_) => false,
        };
        assert!(signed(a, &[1; 32], false) && signed(b, &[4; 32], true) && signed(d, &[2; 32], false));
        assert!(matches!(c, PrivateOutcome::Unwrapped(text) if text.bytes() == [8; 32]));
        assert!(matches!(e, PrivateOutcome::Unwrapped(text) if !text.is_genuine() && text.bytes().len() == 32));
    }
}

#[test]
fn public_jobs() {
    let digest = [6; 32];
    let key = |i: usize| if i % 4 == 3 { KEY_OF_3.public() } else { KEYS[i % 4].public() };
    let signer = |i: usize| if i % 4 == 3 { &*KEY_OF_3 } else { &KEYS[i % 4] };
    let signatures: Vec<_> = (0..20).map(|i| signer(i).sign(&digest).unwrap()).collect();
    let text: Vec<_> = (0..20u8).map(|i| [i; 44]).collect();
    for mut engine in engines() {
        for count in 1..=20 {
            let jobs: Vec<_> = (0..count)
                .map(|i| match i % 7 {
                    0..=2 => verify(key(i), &digest, &signatures[i]),
                    3 => verify(key(i), &digest, &signatures[i][1..]),
                    4 => verify(key(i), &digest, &[0xff; 256]),
                    5 => verify(key(i), &[7; 32], &signatures[i]),
                    _ => PublicJob::Wrap { key: key(i), text: &text[i], padding: KeyPadding::Pkcs1v15 },
                })
                .collect();
            let mut done = Vec::new();
            engine.public(&jobs, &mut done);
            assert_eq!(done.len(), count);
            for (i, outcome) in done.iter().enumerate() {
                match outcome {
                    PublicOutcome::Verified(right) => assert_eq!(*right, i % 7 < 3, "{i} of {count}"),
                    PublicOutcome::Wrapped(block) => check_wrapped(&mut engine, signer(i), block, &text[i]),
                    other => panic!("{other:?}"),
                }
            }
        }
        let too_long = PublicJob::Wrap { key: key(0), text: &[0; 300], padding: KeyPadding::Pkcs1v15 };
        let mut done = Vec::new();
        engine.public(&[too_long; 4], &mut done);
        assert!(done.iter().all(|outcome| *outcome == PublicOutcome::Failed(CryptoError::Length)));
    }
}

/// Public jobs share the passes of private ones; each outcome finds its job, whatever their numbers.
#[test]
fn private_and_public_jobs_together() {
    let digest = [6; 32];
    let key = |i: usize| &KEYS[i % 4];
    let signatures: Vec<_> = (0..11).map(|i| key(i).sign(&digest).unwrap()).collect();
    let text: Vec<_> = (0..11u8).map(|i| [i; 44]).collect();
    let padding = SignaturePadding::Pkcs1v15;
    for mut engine in engines() {
        for (count, public_count) in (0..=9).flat_map(|count| (0..=11).map(move |public| (count, public))) {
            let jobs: Vec<_> = (0..count).map(|i| sign(key(i), [7; 32])).collect();
            let public: Vec<_> = (0..public_count)
                .map(|i| match i % 3 {
                    0 => verify(key(i).public(), &digest, &signatures[i]),
                    1 => PublicJob::Recover { key: key(i).public(), signature: &signatures[i], padding },
                    _ => PublicJob::Wrap { key: key(i).public(), text: &text[i], padding: KeyPadding::Pkcs1v15 },
                })
                .collect();
            let (mut done, mut public_done) = (Vec::new(), Vec::new());
            engine.together((&jobs, &mut done), (&public, &mut public_done));
            assert_eq!((done.len(), public_done.len()), (count, public_count));
            for (i, outcome) in done.iter().enumerate() {
                let right = matches!(outcome, PrivateOutcome::Signature(s) if key(i).public().verify(&[7; 32], s));
                assert!(right, "{i} of {count}, {public_count}: {outcome:?}");
            }
            for (i, outcome) in public_done.iter().enumerate() {
                match outcome {
                    PublicOutcome::Verified(right) => assert!(*right && i % 3 == 0),
                    PublicOutcome::Recovered(Some(recovered)) => {
                        assert!(recovered.is_of(&digest) && !recovered.is_of(&[7; 32]) && i % 3 == 1);
                    }
                    PublicOutcome::Recovered(None) => assert!(i % 3 == 1),
                    PublicOutcome::Wrapped(block) => check_wrapped(&mut engine, key(i), block, &text[i]),
                    PublicOutcome::Failed(error) => panic!("{error}"),
                }
            }
        }
    }
}

/// Two checks and two wraps are one pass; alone, neither wrap would have been worth one.
#[test]
fn public_jobs_fill_the_lanes_that_checks_leave() {
    let mut engine = Engine::new();
    if !engine.has_lanes() {
        return;
    }
    let wrap = PublicJob::Wrap { key: KEYS[2].public(), text: &[1; 44], padding: KeyPadding::Pkcs1v15 };
    let check = |engine: &mut Engine, private: usize, public: usize, expect: (u64, u64)| {
        let before = engine.counters();
        let jobs: Vec<_> = (0..private).map(|i| sign(&KEYS[i % 4], [9; 32])).collect();
        engine.together((&jobs, &mut Vec::new()), (&vec![wrap; public], &mut Vec::new()));
        let after = engine.counters();
        let public = (after.public_lanes - before.public_lanes, after.public_single - before.public_single);
        assert_eq!(public, expect, "{private} {public:?}");
    };
    check(&mut engine, 2, 2, (2, 0));
    check(&mut engine, 0, 2, (0, 2));
    check(&mut engine, 4, 4, (4, 0));
    check(&mut engine, 4, 5, (4, 1));
    check(&mut engine, 8, 8, (8, 0));
    check(&mut engine, 5, 5, (4, 1));
}

fn verify<'a>(key: &'a PublicKey, digest: &'a [u8; 32], signature: &'a [u8]) -> PublicJob<'a> {
    PublicJob::Verify { key, digest, signature, padding: SignaturePadding::Pkcs1v15 }
}

fn check_wrapped(engine: &mut Engine, key: &PrivateKey, block: &[u8; MODULUS_BYTES], text: &[u8]) {
    let mut done = Vec::new();
    engine.private(&[unwrap(key, *block)], &mut done);
    assert!(matches!(done.as_slice(), [PrivateOutcome::Unwrapped(key)] if key.bytes() == text));
}

/// Keys are shared by threads; each thread has its own engine.
#[test]
fn threads_share_keys() {
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            scope.spawn(move || {
                let jobs: Vec<_> = (0..7).map(|i| sign(&KEYS[i % 4], [thread; 32])).collect();
                let mut done = Vec::new();
                Engine::new().private(&jobs, &mut done);
                for (i, outcome) in done.iter().enumerate() {
                    let PrivateOutcome::Signature(signature) = outcome else { panic!("{outcome:?}") };
                    assert!(KEYS[i % 4].public().verify(&[thread; 32], signature));
                }
            });
        }
    });
}
