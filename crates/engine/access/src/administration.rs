//! Who administers users, and which changes would lock the administrators out.

use crate::{Policy, Verb};
use core::fmt;

/// The topic that stands for the users in rules.
pub const USERS_TOPIC: &str = "$access/users";

/// Why a change of the users is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lockout {
    /// The caller would not administer users after it.
    Oneself,
    /// Nobody would.
    Last,
}

impl fmt::Display for Lockout {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Oneself => {
                "you would take the right to administer users from yourself; another administrator can do it"
            }
            Self::Last => "nobody could administer users after it; give another user the right first",
        })
    }
}

impl core::error::Error for Lockout {}

impl Policy {
    /// Whether a user of the files may administer users.
    #[must_use]
    pub fn administers_users(&self, user: &str) -> bool {
        let names = crate::Names { user, client: "" };
        self.rules_of(user).is_some_and(|rules| rules.allows(Verb::Admin, USERS_TOPIC, names))
    }

    /// Checks that a change leaves the caller its right to administer users, and leaves somebody with it who can log in.
    /// Where nobody had it before, as with the first users, nothing is lost.
    ///
    /// # Errors
    /// It would not.
    pub fn check_lockout(
        &self,
        after: &Self,
        caller: Option<&str>,
        can_log_in: impl Fn(&str) -> bool,
    ) -> Result<(), Lockout> {
        if caller.is_some_and(|caller| self.administers_users(caller) && !after.administers_users(caller)) {
            return Err(Lockout::Oneself);
        }
        let had_any = self.users().any(|user| self.administers_users(&user.name));
        let has_any = after.users().any(|user| after.administers_users(&user.name) && can_log_in(&user.name));
        if had_any && !has_any { Err(Lockout::Last) } else { Ok(()) }
    }
}
