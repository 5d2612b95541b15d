use crate::MODULUS_BYTES;
use crate::padding::{KeyBlock, from_text, pad_key, unpad};
use proptest::prelude::*;
use subtle::Choice;

fn open(block: &[u8; MODULUS_BYTES], lengths: &[usize]) -> KeyBlock {
    unpad(block, lengths, Choice::from(1)).unwrap()
}

/// What comes out is as long as asked, and the text only if it is genuine.
fn check(block: &[u8; MODULUS_BYTES], text: &[u8], lengths: &[usize], genuine: bool) {
    let key = open(block, lengths);
    assert_eq!(key.is_genuine(), genuine);
    assert_eq!(key.bytes() == text, genuine);
    assert_eq!(key.bytes().len(), if genuine { text.len() } else { lengths[0] });
}

#[test]
fn a_right_block_gives_its_text() {
    for length in [24, 32, 44] {
        let text: Vec<u8> = (0..length).map(|i| i as u8).collect();
        let block = pad_key(&text).unwrap();
        check(&block, &text, &[length], true);
        check(&block, &text, &[44, 32, 24], true);
        check(&block, &text, &[length - 1], false);
        check(&block, &text, &[length + 1, 64], false);
        assert!(!unpad(&block, &[length], Choice::from(0)).unwrap().is_genuine());
    }
}

#[test]
fn a_wrong_byte_gives_random_ones() {
    let text = [0x5a; 44];
    let block = pad_key(&text).unwrap();
    for at in 0..MODULUS_BYTES - 44 {
        for value in [0, 1, 2, 0xff] {
            let mut changed = *block;
            changed[at] = value;
            let right = match at {
                0 => value == 0,
                1 => value == 2,
                211 => value == 0,
                _ => value != 0,
            };
            check(&changed, &text, &[44], right);
        }
    }
    let changed = [0; MODULUS_BYTES];
    assert_ne!(open(&changed, &[44]).bytes(), open(&changed, &[44]).bytes());
}

#[test]
fn lengths_are_limited() {
    let block = [0; MODULUS_BYTES];
    for lengths in [&[][..], &[0], &[65], &[44, 65]] {
        assert!(unpad(&block, lengths, Choice::from(1)).is_err(), "{lengths:?}");
    }
    assert!(pad_key(&[1; 245]).is_ok());
    assert!(pad_key(&[1; 246]).is_err());
    assert!(pad_key(&[1; 300]).is_err());
}

#[test]
fn a_text_without_padding_takes_the_same_way() {
    assert_eq!(from_text(Some(&[3; 44]), &[44]).unwrap().bytes(), [3; 44]);
    assert!(!from_text(Some(&[3; 43]), &[44]).unwrap().is_genuine());
    assert!(!from_text(None, &[44]).unwrap().is_genuine());
    assert!(!from_text(Some(&[3; 256]), &[44]).unwrap().is_genuine());
}

proptest! {
    #[test]
    fn padding_has_no_zero(text in prop::collection::vec(any::<u8>(), 1..=64)) {
        let block = pad_key(&text).unwrap();
        check(&block, &text, &[text.len()], true);
    }
}
