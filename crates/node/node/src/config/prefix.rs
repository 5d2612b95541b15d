//! What the topics of an upstream begin with at an edge, so that those of several do not clash.

use tieline_core::{Filter, Topic};

/// A prefix with its `/`, or none: topics have the same names here and there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicPrefix(Box<str>);

impl TopicPrefix {
    /// Reads a prefix without its `/`; none where it cannot stand before all topics.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        let is_legal = Topic::new(text).is_ok() && !text.starts_with(['$', '/']) && !text.ends_with('/');
        is_legal.then(|| Self(format!("{text}/").into()))
    }

    /// With its `/`; empty where topics have the same names here and there.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The name here of a topic there; none where it would be too long.
    #[must_use]
    pub fn here(&self, topic: &Topic) -> Option<Topic> {
        if self.is_empty() {
            return Some(topic.clone());
        }
        Topic::new(&format!("{}{topic}", self.0)).ok()
    }

    /// The name there of a topic here; none where there is no such topic. System topics of an upstream are no topics here.
    #[must_use]
    pub fn there<'a>(&self, topic: &'a str) -> Option<&'a str> {
        let rest = topic.strip_prefix(&*self.0)?;
        (!rest.is_empty() && (self.is_empty() || !rest.starts_with('$'))).then_some(rest)
    }

    /// A filter there as it selects topics here.
    #[must_use]
    pub fn filter_here(&self, filter: &Filter) -> Option<Filter> {
        if self.is_empty() { Some(filter.clone()) } else { Filter::new(&format!("{}{filter}", self.0)).ok() }
    }

    /// A filter here that selects topics below the prefix only, as it selects them there.
    #[must_use]
    pub fn filter_there(&self, filter: &Filter) -> Option<Filter> {
        Filter::new(self.there(filter)?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_has_a_name_here_and_there() {
        let west = TopicPrefix::new("far/west").unwrap();
        let none = TopicPrefix::default();
        let topic = Topic::new("plant/1").unwrap();
        assert_eq!(west.here(&topic).unwrap().as_str(), "far/west/plant/1");
        assert_eq!(none.here(&topic), Some(topic));
        for (topic, there) in [
            ("far/west/plant/1", Some("plant/1")),
            ("far/west//1", Some("/1")),
            ("far/west/", None),
            ("far/west", None),
            ("far/western/1", None),
            ("far/west/$command/1", None),
            ("plant/1", None),
        ] {
            assert_eq!(west.there(topic), there, "{topic}");
            assert_eq!(none.there(topic), Some(topic));
        }
        let filter = |text: &str| Filter::new(text).unwrap();
        assert_eq!(west.filter_there(&filter("far/west/#")), Some(filter("#")));
        assert_eq!(west.filter_there(&filter("far/west/$SYS/#")), None);
        assert_eq!(west.filter_here(&filter("+/1")), Some(filter("far/west/+/1")));
        for wrong in ["", "/a", "a/", "$a", "a/+", "#"] {
            assert_eq!(TopicPrefix::new(wrong), None, "{wrong}");
        }
    }
}
