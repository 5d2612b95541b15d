//! Settings: each a constant with its key, its default and what is legal. `cargo xtask gen` writes them from the table
//! `config/settings.toml` of the node.

use crate::parse;
use crate::reader::{Document, Expected, Section};
use std::time::Duration;
use toml::de::DeValue;

/// True or false.
#[derive(Clone, Copy, Debug)]
pub struct Flag {
    key: &'static str,
    /// Where the file does not say.
    pub default: bool,
}

/// A whole number.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    key: &'static str,
    /// Where the file does not say.
    pub default: u32,
    min: u32,
    max: u32,
}

/// A number of bytes.
#[derive(Clone, Copy, Debug)]
pub struct Size {
    key: &'static str,
    /// Where the file does not say.
    pub default: u64,
    min: u64,
    max: u64,
}

/// A duration.
#[derive(Clone, Copy, Debug)]
pub struct Span {
    key: &'static str,
    /// Where the file does not say.
    pub default: Duration,
    min: Duration,
    max: Duration,
    or_zero: bool,
}

/// One of some words.
#[derive(Clone, Copy, Debug)]
pub struct Choice<const N: usize> {
    key: &'static str,
    words: [&'static str; N],
    default: usize,
}

/// A text, which may have a form of its own.
#[derive(Clone, Copy, Debug)]
pub struct Text {
    /// The key.
    pub key: &'static str,
    /// Where the file does not say.
    pub default: &'static str,
}

impl Flag {
    /// A setting.
    #[must_use]
    pub const fn new(key: &'static str, default: bool) -> Self {
        Self { key, default }
    }

    /// What the table says, or the default.
    pub fn read(self, s: &mut Section<'_>, doc: &mut Document<'_>) -> bool {
        s.or(doc, self.key, self.default, parse::boolean)
    }
}

impl Count {
    /// A setting from `min` to `max`.
    #[must_use]
    pub const fn new(key: &'static str, default: u32, min: u32, max: u32) -> Self {
        Self { key, default, min, max }
    }

    /// What the table says, or the default.
    pub fn read(self, s: &mut Section<'_>, doc: &mut Document<'_>) -> u32 {
        s.or(doc, self.key, self.default, parse::integer(self.min..=self.max))
    }

    /// The same as a size in memory.
    pub fn read_size(self, s: &mut Section<'_>, doc: &mut Document<'_>) -> usize {
        usize::try_from(self.read(s, doc)).unwrap_or(usize::MAX)
    }

    /// A value within the range, as a size in memory; otherwise what was expected.
    pub fn parse_size(self, value: &DeValue<'_>) -> Result<usize, Expected> {
        parse::integer(self.min..=self.max)(value).map(|n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    /// The default as a size in memory.
    #[must_use]
    pub fn default_size(self) -> usize {
        usize::try_from(self.default).unwrap_or(usize::MAX)
    }
}

impl Size {
    /// A setting from `min` to `max`, in bytes.
    #[must_use]
    pub const fn new(key: &'static str, default: u64, min: u64, max: u64) -> Self {
        Self { key, default, min, max }
    }

    /// What the table says, or the default, in bytes.
    pub fn read(self, s: &mut Section<'_>, doc: &mut Document<'_>) -> u64 {
        s.or(doc, self.key, self.default, parse::bytes(self.min..=self.max))
    }

    /// The same as a size in memory.
    pub fn read_size(self, s: &mut Section<'_>, doc: &mut Document<'_>) -> usize {
        usize::try_from(self.read(s, doc)).unwrap_or(usize::MAX)
    }

    /// The default as a size in memory.
    #[must_use]
    pub fn default_size(self) -> usize {
        usize::try_from(self.default).unwrap_or(usize::MAX)
    }
}

impl Span {
    /// A setting from `min_ms` to `max_ms` milliseconds.
    #[must_use]
    pub const fn new(key: &'static str, default_ms: u64, min_ms: u64, max_ms: u64) -> Self {
        let [default, min, max] =
            [Duration::from_millis(default_ms), Duration::from_millis(min_ms), Duration::from_millis(max_ms)];
        Self { key, default, min, max, or_zero: false }
    }

    /// The same, or zero for never.
    #[must_use]
    pub const fn or_zero(key: &'static str, default_ms: u64, min_ms: u64, max_ms: u64) -> Self {
        Self { or_zero: true, ..Self::new(key, default_ms, min_ms, max_ms) }
    }

    /// What the table says, or the default.
    pub fn read(self, s: &mut Section<'_>, doc: &mut Document<'_>) -> Duration {
        s.or(doc, self.key, self.default, |value| self.parse(value))
    }

    fn parse(self, value: &DeValue<'_>) -> Result<Duration, Expected> {
        if !self.or_zero {
            return parse::duration(self.min..=self.max)(value);
        }
        let words = || {
            let [min, max] = [self.min, self.max].map(parse::duration_words);
            format!("a duration from {min} to {max}, or \"0s\" for never")
        };
        let found = parse::duration(Duration::ZERO..=self.max)(value).map_err(|_| words())?;
        if found.is_zero() || found >= self.min { Ok(found) } else { Err(words()) }
    }
}

impl<const N: usize> Choice<N> {
    /// A setting with these words; the default is the one at this place.
    #[must_use]
    pub const fn new(key: &'static str, words: [&'static str; N], default: usize) -> Self {
        Self { key, words, default }
    }

    /// What the table says, or the default; `meanings` are those of the words.
    pub fn read<T>(self, s: &mut Section<'_>, doc: &mut Document<'_>, meanings: [T; N]) -> T {
        let place = s.or(doc, self.key, self.default, |value| self.parse(value));
        self.meaning(place, meanings)
    }

    /// The default; `meanings` are those of the words.
    pub fn default<T>(self, meanings: [T; N]) -> T {
        self.meaning(self.default, meanings)
    }

    #[expect(clippy::expect_used, reason = "a place comes from these words, or from the generator that has checked it")]
    fn meaning<T>(self, place: usize, meanings: [T; N]) -> T {
        meanings.into_iter().nth(place).expect("a word has a meaning")
    }

    fn parse(self, value: &DeValue<'_>) -> Result<usize, Expected> {
        let found = value.as_str().and_then(|text| self.words.iter().position(|word| *word == text));
        found.ok_or_else(|| self.words.map(|word| format!("\"{word}\"")).join(" or "))
    }
}

impl Text {
    /// A setting.
    #[must_use]
    pub const fn new(key: &'static str, default: &'static str) -> Self {
        Self { key, default }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reader::Findings;

    const FLAG: Flag = Flag::new("flag", true);
    const COUNT: Count = Count::new("count", 5, 1, 10);
    const SIZE: Size = Size::new("size", 1 << 20, 4 << 10, 1 << 30);
    const SPAN: Span = Span::new("span", 2000, 1000, 60_000);
    const NEVER: Span = Span::or_zero("never", 0, 1000, 64_800_000);
    const CHOICE: Choice<2> = Choice::new("choice", ["left", "right"], 1);

    type Values = (bool, usize, u64, Duration, Duration, char);

    fn read(text: &str) -> Result<Values, Vec<String>> {
        let mut findings = Findings::default();
        let values = Document::read("t.toml", text, &mut findings, |doc, mut s| {
            let values = (
                FLAG.read(&mut s, doc),
                COUNT.read_size(&mut s, doc),
                SIZE.read(&mut s, doc),
                SPAN.read(&mut s, doc),
                NEVER.read(&mut s, doc),
                CHOICE.read(&mut s, doc, ['l', 'r']),
            );
            s.finish(doc);
            values
        });
        if findings.is_empty() { Ok(values) } else { Err(findings.sorted().iter().map(ToString::to_string).collect()) }
    }

    #[test]
    fn a_file_says_or_the_default_holds() {
        let seconds = Duration::from_secs;
        assert_eq!(read("").unwrap(), (true, 5, 1 << 20, seconds(2), Duration::ZERO, 'r'));
        assert_eq!(CHOICE.default(['l', 'r']), 'r');
        let text = "flag = false\ncount = 10\nsize = '4KiB'\nspan = '1m'\nnever = '18h'\nchoice = 'left'";
        assert_eq!(read(text).unwrap(), (false, 10, 4096, seconds(60), seconds(64_800), 'l'));
        assert_eq!(read("never = '0s'").unwrap().4, Duration::ZERO);
    }

    #[test]
    fn what_is_not_legal_is_told_with_what_is() {
        for (text, expected) in [
            ("flag = 1", "true or false"),
            ("count = 11", "a whole number from 1 to 10"),
            ("size = '1KiB'", "a size like \"64MiB\", from 4096 to 1073741824 bytes"),
            ("span = '0s'", "a duration from 1s to 60s"),
            ("never = '999ms'", "a duration from 1s to 18h, or \"0s\" for never"),
            ("never = '19h'", "a duration from 1s to 18h, or \"0s\" for never"),
            ("choice = 'up'", "\"left\" or \"right\""),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.len() == 1 && found[0].ends_with(&format!(", expected {expected}")), "{found:?}");
        }
    }
}
