//! The compiled rules of each set of roles, made when first used.

use crate::{Policy, Rules};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// Sets of roles that are kept; tokens can bring any.
pub const GRANTS_MAX: usize = 1024;

/// The compiled rules of each set of roles.
#[derive(Debug, Default)]
pub struct Grants {
    sets: BTreeMap<Vec<Box<str>>, Arc<Rules>>,
}

impl Grants {
    /// The rules of a set of roles.
    pub fn of(&mut self, policy: &Policy, roles: &[Box<str>]) -> Arc<Rules> {
        let mut set = roles.to_vec();
        set.sort_unstable();
        set.dedup();
        if let Some(known) = self.sets.get(&set) {
            return Arc::clone(known);
        }
        if self.sets.len() >= GRANTS_MAX {
            self.sets.clear();
        }
        let rules = Arc::new(policy.compile(set.iter().map(|role| &**role)));
        self.sets.insert(set, Arc::clone(&rules));
        rules
    }

    /// Forgets all: the roles have changed.
    pub fn clear(&mut self) {
        self.sets.clear();
    }
}
