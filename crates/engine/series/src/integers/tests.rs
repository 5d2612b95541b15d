use super::*;
use alloc::vec;
use proptest::prelude::*;

fn size(integers: &[i64]) -> usize {
    let mut bytes = Vec::new();
    put_all(integers, &mut bytes);
    let (mut cursor, mut found) = (Cursor::new(&bytes), Vec::new());
    get_all(&mut cursor, integers.len(), &mut found).unwrap();
    assert_eq!((found.as_slice(), cursor.left()), (integers, 0));
    bytes.len()
}

#[test]
fn what_is_regular_is_small() {
    let check = |what: &str, integers: Vec<i64>, most: usize| {
        let bytes = size(&integers);
        assert!(bytes <= most, "{what}: {bytes} bytes, expected {most} at most");
    };
    check("nothing", Vec::new(), 0);
    check("equal ones", vec![7; 1280], 10 * 2);
    check("a second each", (0..1280).map(|i| 1_700_000_000_000_000 + i * 1_000_000).collect(), 10 * 4 + 20);
    let with_gap = |i: i64| 1_700_000_000_000_000 + i * 1_000_000 + if i > 700 { 3_600_000_000 } else { 0 };
    check("the same with a gap of an hour", (0..1280).map(with_gap).collect(), 10 * 4 + 20 + 10);
    // Jitter of 0 to 4 ms in whole milliseconds: 4 bits each.
    let with_jitter = |i: i64| i * 1_000_000 + i * 7919 % 5 * 1000;
    check("milliseconds of jitter", (0..1280).map(with_jitter).collect(), 1280 * 4 / 8 + 10 * 8);
    check("one spike", (0..128).map(|i| if i == 60 { 1 << 40 } else { i % 2 }).collect(), 128 / 8 + 14);
}

proptest! {
    #[test]
    fn integers_come_back(integers in prop::collection::vec(
        prop_oneof![4 => -100..100_i64, 1 => any::<i64>(), 1 => Just(i64::MIN), 1 => Just(i64::MAX)],
        0..400,
    )) {
        size(&integers);
    }

    #[test]
    fn every_width_comes_back(width in 0..64_u32, seed in any::<u64>(), count in 1..130_usize) {
        let number = |i: usize| seed.wrapping_mul(i as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> (63 - width);
        let integers: Vec<i64> = (0..count).map(|i| number(i).cast_signed()).collect();
        size(&integers);
    }

    #[test]
    fn other_bytes_are_refused_or_read(bytes in prop::collection::vec(any::<u8>(), 0..200), count in 0..300_usize) {
        let mut found = Vec::new();
        if get_all(&mut Cursor::new(&bytes), count, &mut found).is_ok() {
            prop_assert_eq!(found.len(), count);
        }
    }
}
