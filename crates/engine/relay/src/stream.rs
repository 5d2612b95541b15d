//! What a site sends upward, by urgency.

/// One sequence of numbered records from a site to its centre. Each has numbers of its own, so that none waits for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Stream {
    /// What happens now.
    Live,
    /// History from the time of a cut.
    BackFill,
    /// All that is not urgent: files, traces, series that were calculated again.
    Bulk,
}

impl Stream {
    /// All, the most urgent first.
    pub const ALL: [Self; 3] = [Self::Live, Self::BackFill, Self::Bulk];

    /// Its name, as in subjects and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::BackFill => "backfill",
            Self::Bulk => "bulk",
        }
    }

    /// Its share of a link that is too slow for all.
    pub(crate) const fn weight(self) -> u64 {
        match self {
            Self::Live => 12,
            Self::BackFill => 3,
            Self::Bulk => 1,
        }
    }

    pub(crate) const fn place(self) -> usize {
        match self {
            Self::Live => 0,
            Self::BackFill => 1,
            Self::Bulk => 2,
        }
    }

    pub(crate) const fn number(self) -> u8 {
        match self {
            Self::Live => 0,
            Self::BackFill => 1,
            Self::Bulk => 2,
        }
    }

    pub(crate) fn of_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|stream| stream.number() == number)
    }
}
