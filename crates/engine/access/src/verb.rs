//! What a user may do to a topic.

use core::fmt;

/// What a user may do to a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Verb {
    /// See its values: subscribe, fetch, ask history.
    Read,
    /// Give it a value.
    Publish,
    /// Operate the point behind it.
    Command,
    /// Acknowledge and shelve its alarms.
    Acknowledge,
    /// Administer what it stands for.
    Admin,
}

impl Verb {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Read, Self::Publish, Self::Command, Self::Acknowledge, Self::Admin];

    /// The word in rules.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Publish => "publish",
            Self::Command => "command",
            Self::Acknowledge => "acknowledge",
            Self::Admin => "admin",
        }
    }

    /// The verb of a word.
    #[must_use]
    pub fn of_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verb| verb.word() == word)
    }

    const fn bit(self) -> u8 {
        match self {
            Self::Read => 1,
            Self::Publish => 2,
            Self::Command => 4,
            Self::Admin => 8,
            Self::Acknowledge => 16,
        }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// A set of verbs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Verbs(u8);

impl Verbs {
    /// None.
    pub const NONE: Self = Self(0);
    /// All.
    pub const ALL: Self = Self(31);

    /// With one more.
    #[must_use]
    pub const fn with(self, verb: Verb) -> Self {
        Self(self.0 | verb.bit())
    }

    /// Whether the verb is one of them.
    #[must_use]
    pub const fn contains(self, verb: Verb) -> bool {
        self.0 & verb.bit() != 0
    }

    /// All of both.
    #[must_use]
    pub const fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are not in `other`.
    #[must_use]
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl FromIterator<Verb> for Verbs {
    fn from_iter<I: IntoIterator<Item = Verb>>(verbs: I) -> Self {
        verbs.into_iter().fold(Self::NONE, Self::with)
    }
}

impl fmt::Display for Verbs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Verb::ALL.into_iter().filter(|verb| self.contains(*verb)).map(Verb::word);
        f.write_str(words.next().unwrap_or("nothing"))?;
        words.try_for_each(|word| write!(f, ",{word}"))
    }
}
