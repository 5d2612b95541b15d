//! Base64 (RFC 4648 section 4) of the handshake's two fields of fixed length.

use alloc::string::String;

const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Appends the bytes.
pub(crate) fn encode(bytes: &[u8], out: &mut String) {
    for group in bytes.chunks(3) {
        let bits = group.iter().fold(0_usize, |bits, byte| bits << 8 | usize::from(*byte)) << (8 * (3 - group.len()));
        for place in 0..4 {
            let letter = LETTERS.get(bits >> (18 - 6 * place) & 63).copied().unwrap_or(b'=');
            out.push(if place <= group.len() { char::from(letter) } else { '=' });
        }
    }
}

/// Whether a text is 16 bytes in base64: 22 letters, the last with four bits of nothing, and two signs of the end.
pub(crate) fn is_key(text: &[u8]) -> bool {
    let Some((letters, b"==")) = text.split_last_chunk::<2>().map(|(letters, end)| (letters, &end[..])) else {
        return false;
    };
    let value = |letter: &u8| LETTERS.iter().position(|known| known == letter);
    letters.len() == 22
        && letters.iter().all(|letter| value(letter).is_some())
        && letters.last().and_then(value).is_some_and(|bits| bits & 15 == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_each_length() {
        for (bytes, expect) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foob", "Zm9vYg=="), ("foobar", "Zm9vYmFy")]
        {
            let mut out = String::new();
            encode(bytes.as_bytes(), &mut out);
            assert_eq!(out, expect);
        }
    }

    #[test]
    fn a_key_is_sixteen_bytes() {
        for (text, expect) in [
            ("dGhlIHNhbXBsZSBub25jZQ==", true),
            ("dGhlIHNhbXBsZSBub25jZR==", false),
            ("dGhlIHNhbXBsZSBub25jZQ=", false),
            ("dGhlIHNhbXBsZSBub25j", false),
            ("dGhlIHNhbXBsZSBub25j!Q==", false),
            ("", false),
        ] {
            assert_eq!(is_key(text.as_bytes()), expect, "{text}");
        }
    }
}
