//! Which topic of the history a topic of a historian becomes.

use crate::import::volttron::point::{Refusal, topic_name};
use std::collections::HashMap;
use tieline_core::Topic;
use tieline_databases::historian::HistorianTopic;

/// Beginnings of topics with what they become, the longest first.
pub struct Names(Vec<(String, String)>);

impl Names {
    pub fn new(map: &[(String, String)]) -> Self {
        let mut map = map.to_vec();
        map.sort_by_key(|(old, _)| std::cmp::Reverse(old.len()));
        Self(map)
    }

    /// The name after the rules.
    fn renamed(&self, name: &str) -> String {
        for (old, new) in &self.0 {
            let rest = match name.strip_prefix(old.as_str()) {
                Some("") => "",
                Some(rest) if old.is_empty() => rest,
                Some(rest) => match rest.strip_prefix('/') {
                    Some(rest) => rest,
                    None => continue,
                },
                None => continue,
            };
            return match (new.as_str(), rest) {
                ("", rest) => rest.to_owned(),
                (new, "") => new.to_owned(),
                (new, rest) => format!("{new}/{rest}"),
            };
        }
        name.to_owned()
    }
}

/// The topics of a historian, by their places in its survey.
pub struct Topics(Vec<(Result<Topic, String>, Vec<String>)>);

impl Topics {
    pub fn new(all: &[HistorianTopic], names: &Names) -> Self {
        let mut owners: HashMap<Topic, &str> = HashMap::new();
        let mut topics = Vec::with_capacity(all.len());
        for HistorianTopic { name, .. } in all {
            let mut notes = Vec::new();
            let renamed = names.renamed(name);
            let found = match topic_name(&renamed) {
                Ok(possible) => {
                    if possible != renamed {
                        notes.push(format!("renamed from {renamed:?}, which cannot be a topic"));
                    }
                    Topic::new(&possible).map_err(|error| error.to_string())
                }
                Err(Refusal::NotNeeded(why) | Refusal::LeftOut(why)) => Err(why),
            };
            if let Ok(topic) = &found
                && let Some(other) = owners.insert(topic.clone(), name)
            {
                notes.push(format!("{other:?} becomes this topic, too"));
            }
            topics.push((found, notes));
        }
        Self(topics)
    }

    /// The topic of the history; none where it cannot be one.
    pub fn get(&self, at: usize) -> Option<&Topic> {
        self.0.get(at).and_then(|(topic, _)| topic.as_ref().ok())
    }

    /// What is to be said of a topic: why it cannot be one, or remarks.
    pub fn said(&self, at: usize) -> (Option<&str>, &[String]) {
        let found = self.0.get(at);
        let why = found.and_then(|(topic, _)| topic.as_ref().err().map(String::as_str));
        (why, found.map_or(&[], |(_, notes)| notes.as_slice()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_beginning_counts_and_ends_at_a_level() {
        let map = |rules: &[&str], name: &str| {
            let rules: Vec<_> = rules.iter().filter_map(|rule| rule.split_once('=')).collect();
            let rules: Vec<_> = rules.iter().map(|(old, new)| ((*old).to_owned(), (*new).to_owned())).collect();
            Names::new(&rules).renamed(name)
        };
        assert_eq!(map(&[], "a/b"), "a/b");
        assert_eq!(map(&["a=x", "a/b=y/z"], "a/b/c"), "y/z/c");
        assert_eq!(map(&["a=x", "a/b=y"], "a/bc"), "x/bc");
        assert_eq!(map(&["a/b=y"], "a/bc"), "a/bc");
        assert_eq!(map(&["a=x"], "a"), "x");
        assert_eq!(map(&["a="], "a/b"), "b");
        assert_eq!(map(&["=site"], "a/b"), "site/a/b");
    }

    #[test]
    fn two_that_become_one_are_said() {
        let topic = |name: &str| HistorianTopic { id: String::new(), name: name.to_owned(), metadata: None };
        let all = [topic("a"), topic("b"), topic("c+"), topic("")];
        let topics = Topics::new(&all, &Names::new(&[("b".to_owned(), "a".to_owned())]));
        assert_eq!(topics.said(0), (None, [].as_slice()));
        assert_eq!(topics.said(1).1, ["\"a\" becomes this topic, too"]);
        assert_eq!(topics.get(2).map(Topic::as_str), Some("c_"));
        assert!(topics.get(3).is_none() && topics.said(3).0.is_some());
    }
}
