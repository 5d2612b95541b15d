//! What users may read, and when: one reader loses and regains topics while values are published, and all others may do everything.

use crate::subscriber::Heard;
use std::sync::Arc;
use std::time::Duration;
use tieline_access::{Policy, Role, User};
use tieline_core::{Filter, Instant};
use tieline_sim::Choices;

/// The user whose rights change, and that of all other clients.
pub const READER: &str = "reader";
pub const OTHERS: &str = "others";
/// What a reader may be denied.
const DENIED: [&str; 6] = ["p/0/#", "p/1/#", "p/2/#", "p/+/2", "p/+/3", "p/{user}/#"];
/// What was sent before a change arrives a little later, over a network without delay.
const UNDER_WAY: Duration = Duration::from_millis(10);

/// What the reader may not read, from when on.
#[derive(Debug, Default)]
pub struct Rights(Vec<(Instant, Vec<&'static str>)>);

impl Rights {
    /// Denies the reader some filters from now on; returns what holds then.
    pub fn deny(&mut self, now: Instant, denied: Vec<&'static str>) -> Result<Arc<Policy>, String> {
        let own = denied.iter().map(|filter| format!("deny read {filter}"));
        let rules: Vec<String> = ["allow all #".to_owned()].into_iter().chain(own).collect();
        let role = |name: &str, rules: &[String]| Role::parse(name, rules.iter().map(String::as_str));
        let roles = [role(READER, &rules), role(OTHERS, &["allow all #".to_owned()])];
        let roles = roles.into_iter().collect::<Result<Vec<_>, _>>().map_err(|why| why.to_string())?;
        let policy = Policy::new(roles, [READER, OTHERS].map(|name| User::new(name, [name])));
        self.0.push((now, denied));
        policy.map(Arc::new).map_err(|why| why.to_string())
    }

    /// How often it changed.
    pub fn changes(&self) -> u64 {
        self.0.len().saturating_sub(1) as u64
    }

    /// Some of what may be denied.
    pub fn choose(choices: &mut Choices) -> Vec<&'static str> {
        DENIED.into_iter().filter(|_| choices.chance(40)).collect()
    }

    /// Whether the reader might hear this at that time.
    ///
    /// # Errors
    /// It might not; in words.
    pub fn check(&self, topic: &str, heard: &Heard) -> Result<(), String> {
        let denies =
            |denied: &[&str]| denied.iter().any(|filter| Filter::new(filter).is_ok_and(|filter| filter.matches(topic)));
        let ends = self.0.iter().skip(1).map(|(at, _)| *at).chain([Instant(u64::MAX)]);
        let held = self.0.iter().zip(ends).filter(|((from, _), to)| *from <= heard.at && *to + UNDER_WAY > heard.at);
        match held.map(|((_, denied), _)| denied).all(|denied| denies(denied)) {
            true => Err(format!("{topic} is heard at {:?}, when it may not be read", heard.at)),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_under_way_may_arrive_after_a_change() {
        let at = |ms: u64| Instant::ZERO + Duration::from_millis(ms);
        let mut rights = Rights::default();
        for (ms, denied) in [(0, vec![]), (100, vec!["p/0/#"]), (200, vec!["p/1/#"])] {
            rights.deny(at(ms), denied).unwrap();
        }
        let check = |topic: &str, ms: u64, expect: bool| {
            let heard = Heard { number: 1, connection: 1, retain: false, lost: 0, at: at(ms) };
            assert_eq!(rights.check(topic, &heard).is_ok(), expect, "{topic} at {ms} ms");
        };
        check("p/0/1", 50, true);
        check("p/0/1", 105, true);
        check("p/0/1", 150, false);
        check("p/1/1", 150, true);
        check("p/0/1", 200, true);
        check("p/1/1", 205, true);
        check("p/1/1", 300, false);
    }
}
