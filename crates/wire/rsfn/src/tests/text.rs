//! Encodings of text.

use crate::{TextEncoding, TextError};
use proptest::prelude::*;

fn check(encoding: TextEncoding, bytes: &[u8], expect: Result<&str, usize>) {
    let expect = expect.map_err(|at| TextError { encoding, at });
    assert_eq!(encoding.decode(bytes).as_deref(), expect.as_ref().copied());
}

#[test]
fn text_is_read() {
    use TextEncoding::{Latin1, Utf8, Utf16Be};
    check(Utf16Be, b"\0<\0\xe9", Ok("<é"));
    check(Utf16Be, b"\xfe\xff\0<", Ok("<"));
    check(Utf16Be, b"\xd8\x3d\xde\x00", Ok("😀"));
    check(Utf16Be, b"\0<\xd8\x3d", Err(2));
    check(Utf16Be, b"\xd8\x3d\xde\x00\xde\x00", Err(4));
    check(Utf16Be, b"\0<\0", Err(2));
    check(Utf16Be, b"", Ok(""));
    check(Utf8, b"\xef\xbb\xbfa\xc3\xa9", Ok("aé"));
    check(Utf8, b"a\xff", Err(1));
    check(Latin1, b"a\xe9\xff", Ok("aéÿ"));
    assert_eq!(Latin1.encode("é€"), Err(TextError { encoding: Latin1, at: 2 }));
    assert_eq!(Utf16Be.encode("é").as_deref(), Ok(&b"\0\xe9"[..]));
}

proptest! {
    #[test]
    fn what_is_written_is_read(text in "[^\u{feff}]{0,20}") {
        for encoding in [TextEncoding::Utf16Be, TextEncoding::Utf8, TextEncoding::Latin1] {
            if let Ok(bytes) = encoding.encode(&text) {
                prop_assert_eq!(encoding.decode(&bytes), Ok(text.clone()));
            }
        }
    }

    #[test]
    fn any_bytes_are_text_or_not(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        for encoding in [TextEncoding::Utf16Be, TextEncoding::Utf8, TextEncoding::Latin1] {
            if let Err(error) = encoding.decode(&bytes) {
                prop_assert!(error.at < bytes.len());
            }
        }
    }
}
