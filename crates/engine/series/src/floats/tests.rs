use super::*;
use alloc::vec;
use proptest::prelude::*;

fn size(doubles: &[f64]) -> usize {
    let mut bytes = Vec::new();
    put_all(doubles, &mut bytes);
    let (mut cursor, mut found) = (Cursor::new(&bytes), Vec::new());
    get_all(&mut cursor, doubles.len(), &mut found).unwrap();
    let bits = |doubles: &[f64]| doubles.iter().map(|double| double.to_bits()).collect::<Vec<_>>();
    assert_eq!((bits(&found), cursor.left()), (bits(doubles), 0));
    bytes.len()
}

#[test]
fn measurements_are_small() {
    let check = |what: &str, doubles: Vec<f64>, most: usize| {
        let bytes = size(&doubles);
        assert!(bytes <= most, "{what}: {bytes} bytes, expected {most} at most");
    };
    let walk = |i: i64| (i * 7919 % 13 - 6) as f64;
    check("steps of 0.1", (0..1280).map(|i| (215.0 + walk(i)) / 10.0).collect(), 1280 * 4 / 8 + 10 * 6);
    check("steps of 0.01", (0..1280).map(|i| (23_010.0 + 9.0 * walk(i)) / 100.0).collect(), 1280 * 4 / 8 + 10 * 8);
    check("a state", (0..1280).map(|i| f64::from(u8::from(i / 300 % 2 == 1))).collect(), 10 * 4 + 4 * 18);
    // Single precision: what a single takes, at most.
    let single = |i: i64| f64::from((0.001 * i as f32).sin());
    check("singles", (0..1280).map(single).collect(), 1280 * 4);
    // A block with some that no decimal says.
    let gaps = |i: i64| if i % 20 == 3 { f64::NAN } else { walk(i) };
    check("decimals with gaps", (0..128).map(gaps).collect(), 128 * 4 / 8 + 7 * 9 + 8);
}

proptest! {
    #[test]
    fn doubles_come_back(doubles in prop::collection::vec(
        prop_oneof![
            4 => (-100_000..100_000_i32).prop_map(|i| f64::from(i) / 100.0),
            1 => any::<u64>().prop_map(f64::from_bits),
            1 => prop::sample::select(vec![0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, 5e-324, 0.1 + 0.2]),
        ],
        0..400,
    )) {
        size(&doubles);
    }

    #[test]
    fn other_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200), count in 0..300_usize) {
        let mut found = Vec::new();
        if get_all(&mut Cursor::new(&bytes), count, &mut found).is_ok() {
            prop_assert_eq!(found.len(), count);
        }
    }
}
