//! What came of checks of credentials.

/// Why a peer is not authenticated. The peer learns only the kind, not the detail.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// What it showed is not good; why, for the log.
    Refused(String),
    /// It has failed too often.
    TooOften,
    /// Too many wait to be checked.
    Busy,
}

impl Wrong {
    /// One word for metrics and the audit log.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Refused(_) => "wrong",
            Self::TooOften => "too_often",
            Self::Busy => "busy",
        }
    }
}

/// What was counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Peers that showed who they are.
    pub good: u64,
    /// Peers that did not.
    pub wrong: u64,
    /// Peers refused because they had failed too often.
    pub too_often: u64,
    /// Peers refused because too many waited.
    pub busy: u64,
    /// Times that changed files were read and taken.
    pub reloads: u64,
    /// Whether the files as they are cannot be used: those of before hold.
    pub files_bad: bool,
    /// Users in the files.
    pub users: usize,
    /// Checks that wait.
    pub waiting: usize,
    /// Users and their clients, by address, that have shown who they are.
    pub known: usize,
}
