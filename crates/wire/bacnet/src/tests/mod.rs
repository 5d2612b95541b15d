//! Tests of the whole crate: vectors, properties, and the machines over networks that fail.

mod client;
mod device;
mod dissect;
mod network;
mod properties;
mod sc;
mod server;
mod vectors;

use std::vec::Vec;

/// The bytes of hex words.
pub(crate) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<std::string::String>(), 16);
    digits.chunks(2).map(|pair| byte(pair).unwrap()).collect()
}
