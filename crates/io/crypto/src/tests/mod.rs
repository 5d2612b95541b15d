//! The whole crate, against aws-lc, OpenSSL's files and published vectors.

mod content;
mod engine;
mod keys;
mod padding;
mod queue;

use crate::PrivateKey;
use std::sync::LazyLock;

/// Made by OpenSSL 3.0 for these tests; used nowhere else.
const BANK_PKCS8: &str = include_str!("data/bank.pkcs8.pem");
const EXPONENT_3: &str = include_str!("data/exponent3.pem");

/// Four keys that the lanes serve.
static KEYS: LazyLock<[PrivateKey; 4]> = LazyLock::new(|| {
    let new = || PrivateKey::generate().unwrap().0;
    [PrivateKey::from_pem(BANK_PKCS8, None).unwrap(), new(), new(), new()]
});

/// A key whose public exponent is 3: not for the lanes.
static KEY_OF_3: LazyLock<PrivateKey> = LazyLock::new(|| PrivateKey::from_pem(EXPONENT_3, None).unwrap());

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u32> = text.chars().filter_map(|c| c.to_digit(16)).collect();
    digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect()
}
