//! The security statistics of an association: groups 121 and 122 (IEEE 1815 7.5.2.2, A.46).
//!
//! ```text
//! g121v1, g122v1   flags 1 | association 2 | count 4
//! g122v2           flags 1 | association 2 | count 4 | time 6
//! ```

/// The number of statistics.
pub const STATISTICS: usize = 18;

macro_rules! statistics {
    ($($index:literal $variant:ident $name:literal $threshold:literal $meaning:literal;)*) => {
        /// One of the statistics; its code is its point index.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Statistic {
            $(#[doc = concat!($index, ": ", $meaning, ".")] $variant = $index,)*
        }

        impl Statistic {
            /// All, by index.
            pub const ALL: [Self; STATISTICS] = [$(Self::$variant,)*];

            /// The point index in groups 121 and 122.
            #[must_use]
            pub const fn index(self) -> u16 {
                self as u16
            }

            /// A stable word in `snake_case`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }

            /// The standard's default threshold: an event for each so many counts.
            #[must_use]
            pub const fn threshold(self) -> u32 {
                match self {
                    $(Self::$variant => $threshold,)*
                }
            }
        }
    };
}

statistics! {
    0 UnexpectedMessages "unexpected_messages" 3 "Messages that were not the next step";
    1 AuthorizationFailures "authorization_failures" 5 "Authentic users asked for what they may not do";
    2 AuthenticationFailures "authentication_failures" 5 "Messages were not authentic";
    3 ReplyTimeouts "reply_timeouts" 3 "Replies that did not come in time";
    4 RekeysAfterFailure "rekeys_after_failure" 3 "Session keys changed because of an authentication failure";
    5 MessagesSent "messages_sent" 100 "Fragments sent";
    6 MessagesReceived "messages_received" 100 "Fragments received";
    7 CriticalSent "critical_sent" 100 "Challenges received and aggressive mode requests sent";
    8 CriticalReceived "critical_received" 100 "Challenges sent and aggressive mode requests received";
    9 Discarded "discarded" 10 "Messages discarded";
    10 ErrorsSent "errors_sent" 2 "Error objects sent";
    11 ErrorsReceived "errors_received" 10 "Error objects received";
    12 Successes "successes" 100 "Messages that were authentic";
    13 SessionKeyChanges "session_key_changes" 10 "Session keys changed";
    14 SessionKeyFailures "session_key_failures" 5 "Session key changes that failed";
    15 UpdateKeyChanges "update_key_changes" 1 "Update keys changed";
    16 UpdateKeyFailures "update_key_failures" 1 "Update key changes that failed";
    17 RekeysAfterRestart "rekeys_after_restart" 3 "Session keys changed because the outstation restarted; 0 in outstations";
}

/// The counts of all statistics; each wraps at 2³².
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics([u32; STATISTICS]);

impl Statistics {
    /// How often.
    #[must_use]
    pub fn count(&self, statistic: Statistic) -> u32 {
        self.0.get(statistic as usize).copied().unwrap_or(0)
    }

    /// Every statistic with its count, by index.
    pub fn iter(&self) -> impl Iterator<Item = (Statistic, u32)> + '_ {
        Statistic::ALL.into_iter().zip(self.0)
    }

    /// Counts one more, and says the new count where it is an event: a multiple of the threshold.
    pub(super) fn increment(&mut self, statistic: Statistic, threshold: u32) -> Option<u32> {
        let slot = self.0.get_mut(statistic as usize)?;
        *slot = slot.wrapping_add(1);
        (threshold > 0 && slot.is_multiple_of(threshold)).then_some(*slot)
    }
}

/// How many counts of each statistic make an event; 0 makes none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds([u32; STATISTICS]);

impl Thresholds {
    /// The threshold of one.
    #[must_use]
    pub fn of(&self, statistic: Statistic) -> u32 {
        self.0.get(statistic as usize).copied().unwrap_or(0)
    }

    /// Sets the threshold of one.
    pub fn set(&mut self, statistic: Statistic, threshold: u32) {
        if let Some(slot) = self.0.get_mut(statistic as usize) {
            *slot = threshold;
        }
    }
}

impl Default for Thresholds {
    fn default() -> Self {
        Self(Statistic::ALL.map(Statistic::threshold))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_for_each_threshold() {
        let mut statistics = Statistics::default();
        let events: alloc::vec::Vec<u32> =
            (0..7).filter_map(|_| statistics.increment(Statistic::UnexpectedMessages, 3)).collect();
        assert_eq!(events, [3, 6]);
        assert_eq!(statistics.count(Statistic::UnexpectedMessages), 7);
        assert_eq!(statistics.increment(Statistic::Discarded, 0), None);
        for (index, statistic) in Statistic::ALL.iter().enumerate() {
            assert_eq!(usize::from(statistic.index()), index);
        }
    }
}
