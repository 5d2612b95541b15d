//! Settings: each a constant with its key, its default and what is legal. `cargo xtask gen` writes them from the tables
//! `settings.toml` of the crates that read them.

use crate::parse;
use crate::reader::{Document, Expected, Section};
use std::fmt::Display;
use std::net::SocketAddr;
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
pub struct Count<T = u32> {
    key: &'static str,
    /// Where the file does not say.
    pub default: T,
    min: T,
    max: T,
}

/// A number that need not be whole.
#[derive(Clone, Copy, Debug)]
pub struct Number {
    key: &'static str,
    /// Where the file does not say.
    pub default: f64,
    min: f64,
    max: f64,
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

/// A setting without a default: it is required, or something else holds where the file does not say.
#[derive(Clone, Copy, Debug)]
pub struct NoDefault<S>(S);

/// A setting whose values are parsed one by one.
pub trait Legal: Copy {
    /// A legal value.
    type Value;

    /// The key.
    fn key(self) -> &'static str;

    /// A legal value; otherwise what was expected.
    ///
    /// # Errors
    /// The value is not legal.
    fn parse(self, value: &DeValue<'_>) -> Result<Self::Value, Expected>;
}

impl<S: Legal> NoDefault<S> {
    /// A setting of this kind, whose default does not count.
    #[must_use]
    pub const fn new(setting: S) -> Self {
        Self(setting)
    }

    /// What the table says, if it does.
    pub fn optional(self, s: &mut Section<'_>, doc: &mut Document<'_>) -> Option<S::Value> {
        s.optional(doc, self.0.key(), |value| self.0.parse(value))
    }

    /// What the table says; `expected` says so where it does not.
    pub fn required(self, s: &mut Section<'_>, doc: &mut Document<'_>, expected: &str) -> Option<S::Value> {
        s.required(doc, self.0.key(), expected, |value| self.0.parse(value))
    }
}

impl NoDefault<Count> {
    /// What the table says, if it does, as a size in memory.
    pub fn optional_size(self, s: &mut Section<'_>, doc: &mut Document<'_>) -> Option<usize> {
        s.optional(doc, self.0.key, |value| self.0.parse_size(value))
    }
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

impl<T: Copy> Count<T> {
    /// A setting from `min` to `max`.
    #[must_use]
    pub const fn new(key: &'static str, default: T, min: T, max: T) -> Self {
        Self { key, default, min, max }
    }

    /// The same setting, where less is legal.
    #[must_use]
    pub const fn within(self, min: T, max: T) -> Self {
        Self { min, max, ..self }
    }
}

impl<T: Copy + Display + PartialOrd + TryFrom<i64>> Count<T> {
    /// What the table says, or the default.
    pub fn read(self, s: &mut Section<'_>, doc: &mut Document<'_>) -> T {
        s.or(doc, self.key, self.default, |value| self.parse(value))
    }
}

impl<T: Copy + Display + PartialOrd + TryFrom<i64>> Legal for Count<T> {
    type Value = T;

    fn key(self) -> &'static str {
        self.key
    }

    fn parse(self, value: &DeValue<'_>) -> Result<T, Expected> {
        parse::integer(self.min..=self.max)(value)
    }
}

impl Count {
    /// The same as a size in memory.
    pub fn read_size(self, s: &mut Section<'_>, doc: &mut Document<'_>) -> usize {
        usize::try_from(self.read(s, doc)).unwrap_or(usize::MAX)
    }

    /// A value within the range, as a size in memory; otherwise what was expected.
    pub fn parse_size(self, value: &DeValue<'_>) -> Result<usize, Expected> {
        self.parse(value).map(|n| usize::try_from(n).unwrap_or(usize::MAX))
    }

    /// The default as a size in memory.
    #[must_use]
    pub fn default_size(self) -> usize {
        usize::try_from(self.default).unwrap_or(usize::MAX)
    }
}

impl Number {
    /// A setting from `min` to `max`.
    #[must_use]
    pub const fn new(key: &'static str, default: f64, min: f64, max: f64) -> Self {
        Self { key, default, min, max }
    }

    /// What the table says, or the default.
    pub fn read(self, s: &mut Section<'_>, doc: &mut Document<'_>) -> f64 {
        s.or(doc, self.key, self.default, |value| self.parse(value))
    }
}

impl Legal for Number {
    type Value = f64;

    fn key(self) -> &'static str {
        self.key
    }

    fn parse(self, value: &DeValue<'_>) -> Result<f64, Expected> {
        let number = parse::number(value).ok().filter(|number| (self.min..=self.max).contains(number));
        number.ok_or_else(|| format!("a number from {} to {}", self.min, self.max))
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
        s.or(doc, self.key, self.default, |value| self.parse(value))
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

impl Legal for Size {
    type Value = u64;

    fn key(self) -> &'static str {
        self.key
    }

    fn parse(self, value: &DeValue<'_>) -> Result<u64, Expected> {
        parse::bytes(self.min..=self.max)(value)
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

    /// The same setting, with another default and a higher least value.
    #[must_use]
    pub const fn from_least(self, default: Duration, min: Duration) -> Self {
        Self { default, min, ..self }
    }

    /// The same as [`Self::read`]; the table may say parts of a millisecond.
    pub fn read_short(self, s: &mut Section<'_>, doc: &mut Document<'_>) -> Duration {
        s.or(doc, self.key, self.default, parse::short_duration(self.min..=self.max))
    }

    /// What the table says, or the default.
    pub fn read(self, s: &mut Section<'_>, doc: &mut Document<'_>) -> Duration {
        s.or(doc, self.key, self.default, |value| self.parse(value))
    }

    /// The range, as in `100ms to 7d`.
    #[must_use]
    pub fn range_words(self) -> String {
        let [min, max] = [self.min, self.max].map(parse::duration_words);
        format!("{min} to {max}")
    }

    /// A legal value of a text that is not in quotes, as in a point list.
    #[must_use]
    pub fn parse_cell(self, text: &str) -> Option<Duration> {
        parse::parse_duration(text).filter(|span| (self.min..=self.max).contains(span))
    }
}

impl Legal for Span {
    type Value = Duration;

    fn key(self) -> &'static str {
        self.key
    }

    fn parse(self, value: &DeValue<'_>) -> Result<Duration, Expected> {
        if !self.or_zero {
            return parse::duration(self.min..=self.max)(value);
        }
        let words = || {
            let range = self.range_words();
            format!("a duration from {range}, or \"0s\" for never")
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
}

impl<const N: usize> Legal for Choice<N> {
    /// The place of the word.
    type Value = usize;

    fn key(self) -> &'static str {
        self.key
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

    /// The default of a listening address.
    #[must_use]
    #[expect(clippy::expect_used, reason = "a constant, which every test reads")]
    pub fn default_listen(self) -> SocketAddr {
        parse::parse_address(self.default).expect("the default is an address")
    }

    /// The listening address that the table says, or the default.
    pub fn read_listen(self, s: &mut Section<'_>, doc: &mut Document<'_>) -> SocketAddr {
        s.or(doc, self.key, self.default_listen(), parse::listen_address)
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
            ("size = '1KiB'", "a size like \"64MiB\", from 4KiB to 1GiB"),
            ("span = '0s'", "a duration from 1s to 1m"),
            ("never = '999ms'", "a duration from 1s to 18h, or \"0s\" for never"),
            ("never = '19h'", "a duration from 1s to 18h, or \"0s\" for never"),
            ("choice = 'up'", "\"left\" or \"right\""),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.len() == 1 && found[0].ends_with(&format!(", expected {expected}")), "{found:?}");
        }
    }
}
