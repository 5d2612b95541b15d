//! Topics of a site as they are at the centre: each name once, found by what the site calls it.

use std::borrow::Borrow;
use std::collections::HashSet;
use std::hash::{Hash, Hasher};
use tieline_core::{Topic, TopicError};

/// Topics that are kept; beyond, all are made again.
const NAMES_MAX: usize = 1 << 16;

/// The topics of one site.
#[derive(Debug)]
pub struct Names {
    /// What stands before its topics here.
    prefix: String,
    known: HashSet<Name>,
}

/// A topic here, equal to what stands behind its first bytes: the topic there.
#[derive(Debug)]
struct Name {
    topic: Topic,
    from: usize,
}

impl Names {
    /// No topic of a site whose topics are below a prefix.
    #[must_use]
    pub fn new(prefix: String) -> Self {
        Self { prefix, known: HashSet::new() }
    }

    /// The topic here.
    ///
    /// # Errors
    /// It would be too long or too deep.
    pub fn here(&mut self, there: &Topic) -> Result<Topic, TopicError> {
        if let Some(known) = self.known.get(there.as_str()) {
            return Ok(known.topic.clone());
        }
        let topic = Topic::new(&format!("{}{there}", self.prefix))?;
        if self.known.len() >= NAMES_MAX {
            self.known.clear();
        }
        self.known.insert(Name { topic: topic.clone(), from: self.prefix.len() });
        Ok(topic)
    }
}

impl Borrow<str> for Name {
    fn borrow(&self) -> &str {
        self.topic.get(self.from..).unwrap_or_default()
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        let (one, other): (&str, &str) = (self.borrow(), other.borrow());
        one == other
    }
}

impl Eq for Name {}

impl Hash for Name {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let there: &str = self.borrow();
        there.hash(state);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_has_one_name_here() {
        let topic = |text: &str| Topic::new(text).unwrap();
        let mut names = Names::new("sites/north/".to_owned());
        let first = names.here(&topic("d1/p1")).unwrap();
        assert_eq!(first.as_str(), "sites/north/d1/p1");
        assert_eq!(names.here(&topic("d1/p2")).unwrap().as_str(), "sites/north/d1/p2");
        assert!(names.here(&topic("d1/p1")).unwrap().is_same_allocation(&first));
        let deep = topic(&vec!["a"; 128].join("/"));
        assert_eq!(names.here(&deep), Err(TopicError::TooDeep));
    }

    #[test]
    fn names_are_bounded() {
        let mut names = Names::new("s/".to_owned());
        for number in 0..=NAMES_MAX {
            names.here(&Topic::new(&format!("t{number}")).unwrap()).unwrap();
        }
        assert_eq!(names.known.len(), 1);
    }
}
