//! A cursor over JSON text (RFC 8259) that checks what it passes and keeps nothing. Its work is bounded by the text, its
//! stack by [`DEPTH_MAX`].

/// Arrays and objects in each other.
const DEPTH_MAX: usize = 64;

/// A place in a text.
#[derive(Clone, Debug)]
pub(crate) struct Walk<'a> {
    text: &'a str,
    at: usize,
}

/// The members of an object, or the items of an array, each as it stands in the text. Ends with none where the text is
/// broken, too: [`Items::is_whole`] tells.
#[derive(Clone, Debug)]
pub(crate) struct Items<'a> {
    walk: Walk<'a>,
    close: u8,
    state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    First,
    Further,
    Ended,
    Broken,
}

impl<'a> Walk<'a> {
    pub(crate) const fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The next byte behind white space.
    pub(crate) fn peek(&mut self) -> Option<u8> {
        loop {
            match self.byte()? {
                b' ' | b'\n' | b'\r' | b'\t' => self.at += 1,
                byte => return Some(byte),
            }
        }
    }

    /// Whether nothing follows but white space.
    pub(crate) fn is_done(&mut self) -> bool {
        self.peek().is_none()
    }

    /// Passes a value; its text.
    pub(crate) fn value(&mut self) -> Option<&'a str> {
        self.peek()?;
        let start = self.at;
        self.pass(DEPTH_MAX)?;
        self.text.get(start..self.at)
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn eat(&mut self, wanted: u8) -> Option<()> {
        (self.peek()? == wanted).then(|| self.at += 1)
    }

    fn pass(&mut self, depth: usize) -> Option<()> {
        match self.peek()? {
            b'"' => self.string().map(drop),
            b'{' => self.pass_all(b'}', depth.checked_sub(1)?),
            b'[' => self.pass_all(b']', depth.checked_sub(1)?),
            b't' => self.word("true"),
            b'f' => self.word("false"),
            b'n' => self.word("null"),
            _ => self.number(),
        }
    }

    fn pass_all(&mut self, close: u8, depth: usize) -> Option<()> {
        self.at += 1;
        let mut is_first = true;
        while self.next(close, is_first)?.is_some() {
            self.pass(depth)?;
            is_first = false;
        }
        Some(())
    }

    /// Goes to the next item of an array or object: its name, which is empty in an array; none inside behind the last.
    fn next(&mut self, close: u8, is_first: bool) -> Option<Option<&'a str>> {
        match self.peek()? {
            byte if byte == close => {
                self.at += 1;
                return Some(None);
            }
            b',' if !is_first => self.at += 1,
            _ if is_first => {}
            _ => return None,
        }
        if close == b']' {
            return Some(Some(""));
        }
        if self.peek()? != b'"' {
            return None;
        }
        let name = self.string()?;
        self.eat(b':')?;
        Some(Some(name))
    }

    fn word(&mut self, word: &str) -> Option<()> {
        let rest = self.text.as_bytes().get(self.at..)?;
        rest.starts_with(word.as_bytes()).then(|| self.at += word.len())
    }

    /// Passes a string that begins here; what is between its quotation marks, escapes as they are.
    fn string(&mut self) -> Option<&'a str> {
        self.at += 1;
        let start = self.at;
        loop {
            match self.byte()? {
                b'"' => break,
                b'\\' => self.escape()?,
                0..=0x1f => return None,
                _ => self.at += 1,
            }
        }
        let inside = self.text.get(start..self.at);
        self.at += 1;
        inside
    }

    fn escape(&mut self) -> Option<()> {
        let bytes = self.text.as_bytes();
        self.at += match bytes.get(self.at + 1)? {
            b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => 2,
            b'u' if bytes.get(self.at + 2..self.at + 6)?.iter().all(u8::is_ascii_hexdigit) => 6,
            _ => return None,
        };
        Some(())
    }

    fn number(&mut self) -> Option<()> {
        self.at += usize::from(self.byte()? == b'-');
        match self.byte()? {
            b'0' => self.at += 1,
            _ => self.digits()?,
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if matches!(self.byte(), Some(b'e' | b'E')) {
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), Some(b'+' | b'-')));
            self.digits()?;
        }
        Some(())
    }

    fn digits(&mut self) -> Option<()> {
        let rest = self.text.as_bytes().get(self.at..)?;
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.at += count;
        (count > 0).then_some(())
    }
}

impl<'a> Items<'a> {
    /// Those of a text that is an object, or nothing.
    pub(crate) fn of_object(text: &'a str) -> Option<Self> {
        Self::of(text, b'{', b'}')
    }

    /// Those of a text that is an array, or nothing. Their names are empty.
    pub(crate) fn of_array(text: &'a str) -> Option<Self> {
        Self::of(text, b'[', b']')
    }

    fn of(text: &'a str, open: u8, close: u8) -> Option<Self> {
        let mut walk = Walk::new(text);
        walk.eat(open)?;
        Some(Self { walk, close, state: State::First })
    }

    /// Whether all was passed, and nothing follows.
    pub(crate) fn is_whole(&mut self) -> bool {
        self.state == State::Ended && self.walk.is_done()
    }
}

impl<'a> Iterator for Items<'a> {
    type Item = (&'a str, &'a str);

    fn next(&mut self) -> Option<Self::Item> {
        let is_first = match self.state {
            State::First => true,
            State::Further => false,
            State::Ended | State::Broken => return None,
        };
        self.state = State::Broken;
        let Some(name) = self.walk.next(self.close, is_first)? else {
            self.state = State::Ended;
            return None;
        };
        let value = self.walk.value()?;
        self.state = State::Further;
        Some((name, value))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::String;
    use alloc::vec::Vec;

    fn is_json(text: &str) -> bool {
        let mut walk = Walk::new(text);
        walk.value().is_some() && walk.is_done()
    }

    fn check(text: &str) {
        let expect = serde_json::from_str::<serde_json::Value>(text);
        // What has no value is left to who reads it: halves of surrogate pairs, numbers beyond a double.
        let has_value = |error: &serde_json::Error| !alloc::format!("{error}").contains("surrogate");
        assert_eq!(
            is_json(text),
            expect.as_ref().map_or_else(|error| !has_value(error), |_| true),
            "{text:?}: {expect:?}"
        );
    }

    #[test]
    fn what_is_json_is_told() {
        for text in [
            "",
            " ",
            "1",
            "-",
            "-0",
            "01",
            "1.",
            "1.5e",
            "1.5e+3",
            ".5",
            "+5",
            "5 5",
            "tru",
            "true",
            "truest",
            "null ",
            "\"a\"",
            "\"a",
            "\"\\\"",
            "\"\\x\"",
            "\"\\u12\"",
            "\"\\u00e9\"",
            "\"\u{e9}\"",
            "\"\u{1}\"",
            "[]",
            "[1,]",
            "[,1]",
            "[1 2]",
            "[1,[2]]",
            "{}",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1,}",
            "{,}",
            "{\"a\":1 \"b\":2}",
            "{a:1}",
            "{\"a\":{\"b\":[{}]}} ",
            "{\"a\":1]",
            "[1}",
        ] {
            check(text);
        }
    }

    #[test]
    fn what_is_too_deep_is_refused() {
        let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
        assert!(is_json(&deep(DEPTH_MAX)) && !is_json(&deep(DEPTH_MAX + 1)) && !is_json(&deep(100_000)));
    }

    #[test]
    fn items_stand_as_they_are() {
        let of = |text: &'static str| {
            let mut items = Items::of_object(text).unwrap();
            let all: Vec<_> = items.by_ref().collect();
            (all, items.is_whole())
        };
        assert_eq!(of(" { \"a\" : [1, 2] , \"b\":null} "), (alloc::vec![("a", "[1, 2]"), ("b", "null")], true));
        assert_eq!(of("{\"a\":1"), (alloc::vec![("a", "1")], false));
        assert_eq!(of("{\"a\":1} 2"), (alloc::vec![("a", "1")], false));
        assert!(Items::of_object("[1]").is_none() && Items::of_array("[1]").unwrap().next().is_some());
    }

    proptest::proptest! {
        #[test]
        fn whatever_comes_is_judged_as_serde_does(picks in proptest::collection::vec(0_usize..16, 0..12)) {
            const PARTS: [&str; 16] =
                ["{", "}", "[", "]", ",", ":", "\"v\"", "\"", "1", "-", ".5", "e2", "null", " ", "\\n", "\u{e9}"];
            check(&picks.into_iter().filter_map(|pick| PARTS.get(pick).copied()).collect::<String>());
        }
    }
}
