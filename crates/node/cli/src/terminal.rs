//! Text of others (topics, payloads, client identifiers, words of devices) on its way to a terminal, a log or a line of
//! JSON: characters that would move the cursor, change colours, begin a line or turn the order of letters are written as
//! escapes.

use std::borrow::Cow;
use std::io::{self, Write};

/// Whether a character does something instead of being shown: control characters (C0, DEL, C1), ends of lines and
/// paragraphs, and marks that turn the direction of what follows.
pub fn is_active(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// The text as one line: what is active is written as `\n`, `\t`, `\u{1b}`.
pub fn one_line(text: &str) -> Cow<'_, str> {
    escaped(text, is_active)
}

/// The same with its lines and tabulators as they are.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| is_active(c) && !matches!(c, '\n' | '\t'))
}

fn escaped(text: &str, is_escaped: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&is_escaped) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match is_escaped(c) {
            true => shown.extend(c.escape_default()),
            false => shown.push(c),
        }
    }
    Cow::Owned(shown)
}

/// JSON as it was written, with what is active as `\u001b`: within texts it means the same, and elsewhere there is none.
pub fn json(text: &str) -> String {
    let mut out = JsonText::new(Vec::with_capacity(text.len()));
    // A vector takes everything.
    let _ = out.write_all(text.as_bytes());
    String::from_utf8_lossy(&out.out).into_owned()
}

/// Passes JSON on as [`json`] has it, in whatever pieces it comes.
#[derive(Debug)]
pub struct JsonText<W> {
    out: W,
    /// The first bytes of a character whose others have not come.
    begun: Vec<u8>,
}

impl<W: Write> JsonText<W> {
    /// Passes on to `out`.
    pub const fn new(out: W) -> Self {
        Self { out, begun: Vec::new() }
    }
}

impl<W: Write> Write for JsonText<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut all = std::mem::take(&mut self.begun);
        all.extend_from_slice(bytes);
        let (mut rest, mut passed) = (all.as_slice(), Vec::with_capacity(all.len()));
        while !rest.is_empty() {
            let code = match rest {
                [c @ (0..=8 | 0x0b | 0x0c | 0x0e..=0x1f | 0x7f), ..] => u32::from(*c),
                // The first bytes of the characters of `is_active` in UTF-8.
                [0xc2 | 0xd8 | 0xe2] | [0xe2, 0x80 | 0x81] => {
                    self.begun = rest.to_vec();
                    break;
                }
                [0xc2 | 0xd8, ..] => first_char(rest.get(..2)),
                [0xe2, 0x80 | 0x81, ..] => first_char(rest.get(..3)),
                _ => 0,
            };
            let is_escaped = code > 0 || rest.first() == Some(&0);
            let used = match (is_escaped, code) {
                (false, _) | (true, ..0x80) => 1,
                (true, 0x80..0x800) => 2,
                (true, 0x800..) => 3,
            };
            let (head, tail) = rest.split_at(used);
            match is_escaped {
                true => write!(passed, "\\u{code:04x}")?,
                false => passed.extend_from_slice(head),
            }
            rest = tail;
        }
        self.out.write_all(&passed)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// The code of an active character; 0 of any other.
fn first_char(bytes: Option<&[u8]>) -> u32 {
    let text = bytes.and_then(|bytes| std::str::from_utf8(bytes).ok());
    text.and_then(|text| text.chars().next()).filter(|c| is_active(*c)).map_or(0, u32::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_active_is_escaped() {
        let check = |text: &str, line: &str, several: &str| {
            assert_eq!((one_line(text).as_ref(), lines(text).as_ref()), (line, several), "{text:?}");
        };
        check("plain ü 漢 \"\\", "plain ü 漢 \"\\", "plain ü 漢 \"\\");
        check("a\x1b[2Jb", "a\\u{1b}[2Jb", "a\\u{1b}[2Jb");
        check("a\nb\tc\rd", "a\\nb\\tc\\rd", "a\nb\tc\\rd");
        check("\0\x07\x08\x7f\u{9b}", "\\u{0}\\u{7}\\u{8}\\u{7f}\\u{9b}", "\\u{0}\\u{7}\\u{8}\\u{7f}\\u{9b}");
        check("a\u{202e}b\u{2066}\u{2028}", "a\\u{202e}b\\u{2066}\\u{2028}", "a\\u{202e}b\\u{2066}\\u{2028}");
        assert!(matches!(one_line("topic/a"), Cow::Borrowed(_)));
    }

    #[test]
    fn json_means_the_same_and_holds_nothing_active() {
        let all: String = ('\0'..='\u{2fff}').chain("🚨".chars()).collect();
        let text = serde_json::to_string(&serde_json::json!({ "all": all })).unwrap();
        let shown = json(&text);
        assert!(!shown.contains(is_active), "{shown:?}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&shown).unwrap()["all"], all.as_str());
        // In pieces of any size.
        for size in [1, 2, 3, 5] {
            let mut out = JsonText::new(Vec::new());
            text.as_bytes().chunks(size).for_each(|piece| out.write_all(piece).unwrap());
            assert_eq!(String::from_utf8(out.out).unwrap(), shown, "{size}");
        }
        assert_eq!(json("{\"a\":\"\x1b[0m\"}"), "{\"a\":\"\\u001b[0m\"}");
    }
}
