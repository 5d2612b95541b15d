//! Types of a few values that each have a word.

/// A type whose values each have one word: in configuration, in requests and answers, on the command line.
pub trait Words: Copy + PartialEq + 'static {
    /// Every value with its word.
    const WORDS: &'static [(&'static str, Self)];

    /// Its word; empty where [`Words::WORDS`] does not have the value.
    #[must_use]
    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, value)| *value == self).map_or("", |(word, _)| word)
    }

    /// The value of a word.
    #[must_use]
    fn of_word(word: &str) -> Option<Self> {
        Self::WORDS.iter().find(|(known, _)| *known == word).map(|(_, value)| *value)
    }

    /// All words, as an error names them.
    fn words() -> impl Iterator<Item = &'static str> {
        Self::WORDS.iter().map(|(word, _)| *word)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Switch {
        Off,
        On,
        Broken,
    }

    impl Words for Switch {
        const WORDS: &'static [(&'static str, Self)] = &[("off", Self::Off), ("on", Self::On)];
    }

    #[test]
    fn values_have_words_and_words_have_values() {
        assert_eq!(Switch::words().collect::<Vec<_>>(), ["off", "on"]);
        assert_eq!((Switch::of_word("on"), Switch::of_word("On")), (Some(Switch::On), None));
        assert_eq!((Switch::Off.word(), Switch::Broken.word()), ("off", ""));
    }
}
