//! Who somebody is: a name, groups, and the roles that the map gives for them.

use crate::Fault;
use serde_json::Value;
use std::collections::BTreeMap;

/// Groups of a person that are read.
const GROUPS_MAX: usize = 1000;
/// Bytes of one.
const GROUP_BYTES_MAX: usize = 512;

/// Roles by group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RoleMap(pub BTreeMap<String, Vec<String>>);

impl RoleMap {
    /// The roles of a person with these groups, each once, in order.
    ///
    /// # Errors
    /// No group gives one.
    pub fn roles(&self, user: &str, groups: &[String]) -> Result<Vec<String>, Fault> {
        let mut roles: Vec<String> = groups.iter().filter_map(|group| self.0.get(group)).flatten().cloned().collect();
        roles.sort();
        roles.dedup();
        match roles.is_empty() {
            true => Err(Fault::NoRole { user: user.to_owned(), groups: groups.len() }),
            false => Ok(roles),
        }
    }
}

/// Who has logged in at a provider.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// The name here.
    pub user: String,
    /// The roles.
    pub roles: Vec<String>,
    /// The name at the provider, which never changes.
    pub subject: String,
    /// The provider's session, where it has a name.
    pub session: Option<String>,
    /// The ID token, for the logout at the provider.
    pub id_token: String,
}

/// A claim by its name, or by a path with dots as in `realm_access.roles`.
pub(crate) fn claim<'a>(claims: &'a Value, name: &str) -> Option<&'a Value> {
    let found = claims.get(name).or_else(|| name.split('.').try_fold(claims, |value, part| value.get(part)));
    found.filter(|value| !value.is_null())
}

/// Groups of a claim: a list of texts, or one text.
pub(crate) fn groups(value: &Value) -> Result<Vec<String>, Fault> {
    let legal = |group: &&str| !group.is_empty() && group.len() <= GROUP_BYTES_MAX;
    match value {
        Value::String(group) => Ok(Some(group.as_str()).filter(legal).map(str::to_owned).into_iter().collect()),
        Value::Array(all) => {
            Ok(all.iter().filter_map(Value::as_str).filter(legal).take(GROUPS_MAX).map(str::to_owned).collect())
        }
        _ => Err(Fault::Answer("the claim of groups is neither a list nor a text".to_owned())),
    }
}
