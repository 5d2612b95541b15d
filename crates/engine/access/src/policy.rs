//! Roles and users.

use crate::{EndReason, IEC_ROLES, Identity, Rule, RuleError, Rules, iec_role};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;

/// Bytes of the name of a user or a role.
pub const NAME_BYTES_MAX: usize = 128;

/// Rules under a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// The name.
    pub name: Box<str>,
    /// The rules.
    pub rules: Vec<Rule>,
}

impl Role {
    /// A role whose rules are given as texts.
    ///
    /// # Errors
    /// The first text that is no rule.
    pub fn parse<'a>(name: &str, rules: impl IntoIterator<Item = &'a str>) -> Result<Self, RuleError> {
        let rules = rules.into_iter().map(str::parse).collect::<Result<_, _>>()?;
        Ok(Self { name: name.into(), rules })
    }
}

/// A user with its roles.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: Box<str>,
    /// The names of its roles.
    pub roles: Vec<Box<str>>,
    /// Whether it may not come in.
    pub disabled: bool,
    /// Changes when what it shows itself by changes: sessions of before end.
    pub credential: u64,
}

impl User {
    /// A user that may come in.
    #[must_use]
    pub fn new<'a>(name: &str, roles: impl IntoIterator<Item = &'a str>) -> Self {
        let roles = roles.into_iter().map(Into::into).collect();
        Self { name: name.into(), roles, disabled: false, credential: 0 }
    }
}

/// Why roles and users do not fit together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PolicyError {
    /// A name is empty, too long, or holds characters that a name may not.
    Name(Box<str>),
    /// Two have one name.
    Twice(Box<str>),
    /// A user has a role that there is not.
    Role {
        /// Who.
        user: Box<str>,
        /// Which.
        role: Box<str>,
    },
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => write!(
                f,
                "{name:?} is no name, expected 1 to {NAME_BYTES_MAX} bytes without /, +, #, control characters, and $ \
                 at the start"
            ),
            Self::Twice(name) => write!(f, "{name:?} is there twice, expected names of their own"),
            Self::Role { user, role } => write!(f, "the user {user:?} has the role {role:?}, which there is not"),
        }
    }
}

impl core::error::Error for PolicyError {}

/// Roles and users that fit together. Immutable: a change makes another.
#[derive(Debug, Default)]
pub struct Policy {
    roles: BTreeMap<Box<str>, Role>,
    users: BTreeMap<Box<str>, User>,
}

impl Policy {
    /// Checks roles and users. Roles of IEC 62351-8 are there unless one of the same name takes their place.
    ///
    /// # Errors
    /// The first that does not fit.
    pub fn new(
        roles: impl IntoIterator<Item = Role>,
        users: impl IntoIterator<Item = User>,
    ) -> Result<Self, PolicyError> {
        let mut policy = Self::default();
        for role in roles {
            check_name(&role.name)?;
            if let Some(twice) = policy.roles.insert(role.name.clone(), role) {
                return Err(PolicyError::Twice(twice.name));
            }
        }
        for user in users {
            check_name(&user.name)?;
            if let Some(role) = user.roles.iter().find(|role| !policy.has_role(role)) {
                return Err(PolicyError::Role { user: user.name.clone(), role: role.clone() });
            }
            if let Some(twice) = policy.users.insert(user.name.clone(), user) {
                return Err(PolicyError::Twice(twice.name));
            }
        }
        Ok(policy)
    }

    /// Whether there is a role of this name.
    #[must_use]
    pub fn has_role(&self, name: &str) -> bool {
        self.roles.contains_key(name) || iec_role(name).is_some()
    }

    /// A role by its name.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<Role> {
        self.roles.get(name).cloned().or_else(|| iec_role(name))
    }

    /// A user by its name.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<&User> {
        self.users.get(name)
    }

    /// All users, by name.
    pub fn users(&self) -> impl Iterator<Item = &User> {
        self.users.values()
    }

    /// The roles that are not of the standard, by name.
    pub fn roles(&self) -> impl Iterator<Item = &Role> {
        self.roles.values()
    }

    /// All roles: those that are not of the standard, then those of IEC 62351-8 whose place none of them takes.
    pub fn all_roles(&self) -> impl Iterator<Item = Role> {
        let of_standard = IEC_ROLES.iter().map(|(name, _)| *name).filter(|name| !self.roles.contains_key(*name));
        self.roles.values().cloned().chain(of_standard.filter_map(iec_role))
    }

    /// The roles of who has come in.
    ///
    /// # Errors
    /// Why it may not stay.
    pub fn roles_of<'a>(&'a self, identity: &'a Identity) -> Result<&'a [Box<str>], EndReason> {
        match (&identity.roles, self.users.get(&identity.user)) {
            (_, Some(user)) if user.disabled => Err(EndReason::User),
            (Some(roles), _) => Ok(roles),
            (None, None) => Err(EndReason::User),
            (None, Some(user)) if user.credential != identity.credential => Err(EndReason::Credential),
            (None, Some(user)) => Ok(&user.roles),
        }
    }

    /// The rules of some roles together; unknown roles have none.
    #[must_use]
    pub fn compile<'a>(&self, roles: impl IntoIterator<Item = &'a str>) -> Rules {
        Rules::new(roles.into_iter().filter_map(|name| self.role(name)).flat_map(|role| role.rules).collect())
    }

    /// The rules of a user that may come in.
    #[must_use]
    pub fn rules_of(&self, user: &str) -> Option<Arc<Rules>> {
        let user = self.users.get(user).filter(|user| !user.disabled)?;
        Some(Arc::new(self.compile(user.roles.iter().map(|role| &**role))))
    }
}

/// A name must be able to stand for one level of a topic, and in one line of a log.
fn check_name(name: &str) -> Result<(), PolicyError> {
    let legal = !name.is_empty()
        && name.len() <= NAME_BYTES_MAX
        && !name.starts_with('$')
        && !name.contains(|c: char| matches!(c, '/' | '+' | '#') || c.is_control());
    if legal { Ok(()) } else { Err(PolicyError::Name(name.into())) }
}
