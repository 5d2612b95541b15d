//! For fuzzers: requests of a server, as they came and with claims that are signed as they are.

use crate::callout::read_ask;
use crate::jwt::sign;
use crate::keys::{KeyKind, Keys};

/// Reads bytes as a request: after 0 as a JWT, after anything else as the claims of one, which the server of the seeds has signed.
pub fn read(bytes: &[u8]) {
    let Some((form, rest)) = bytes.split_first() else { return };
    let server = Keys::of_bytes([7; 32], KeyKind::Server);
    let issuer = Keys::of_bytes([8; 32], KeyKind::Account).public();
    let _ = match form {
        0 => read_ask(rest, &issuer),
        _ => read_ask(sign(rest, &server).as_bytes(), &issuer),
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_seed_is_a_request() {
        let seed = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/seeds/fabric_ask/01")).unwrap();
        let server = Keys::of_bytes([7; 32], KeyKind::Server);
        let issuer = Keys::of_bytes([8; 32], KeyKind::Account).public();
        let ask = read_ask(sign(&seed[1..], &server).as_bytes(), &issuer).unwrap();
        assert!(ask.key.is_some());
        let signed = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../fuzz/seeds/fabric_ask/00")).unwrap();
        assert_eq!(read_ask(&signed[1..], &issuer).unwrap(), ask);
    }
}
