//! Topics of a site as they are at the centre: each name once, found by what the site calls it.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;
use tieline_core::{Topic, TopicError};
use tieline_journal::{RecordError, Sample, decode_with};

/// Topics that are kept; beyond, all are made again.
const NAMES_MAX: usize = 1 << 16;

/// The topics of one site.
#[derive(Debug)]
pub struct Names {
    /// What stands before its topics here.
    prefix: String,
    /// By what stands behind the prefix: the topic there.
    known: HashTable<Topic>,
    hasher: DefaultHashBuilder,
}

impl Names {
    /// No topic of a site whose topics are below a prefix.
    #[must_use]
    pub fn new(prefix: String) -> Self {
        Self { prefix, known: HashTable::new(), hasher: DefaultHashBuilder::default() }
    }

    /// The topic here.
    ///
    /// # Errors
    /// It is none there, or would be too long or too deep here.
    pub fn here(&mut self, there: &str) -> Result<Topic, TopicError> {
        let Self { prefix, known, hasher } = self;
        let is_it = |topic: &Topic| topic.get(prefix.len()..) == Some(there);
        let hash = hasher.hash_one(there);
        if let Some(topic) = known.find(hash, is_it) {
            return Ok(topic.clone());
        }
        if there.is_empty() {
            return Err(TopicError::Empty);
        }
        let topic = Topic::new(&format!("{prefix}{there}"))?;
        if known.len() >= NAMES_MAX {
            known.clear();
        }
        known
            .insert_unique(hash, topic.clone(), |topic| hasher.hash_one(topic.get(prefix.len()..).unwrap_or_default()));
        Ok(topic)
    }

    /// The samples of a record of the site, with their topics here; and how many are left out because theirs would be too long or too
    /// deep.
    ///
    /// # Errors
    /// The bytes are no record.
    pub fn samples(&mut self, record: &[u8]) -> Result<(Vec<Sample>, u64), RecordError> {
        // What is left out has this topic.
        let mut nowhere = None;
        let mut samples = decode_with(record, |there| match self.here(there) {
            Err(TopicError::TooLong | TopicError::TooDeep) => match &nowhere {
                Some(topic) => Ok(Topic::clone(topic)),
                None => Ok(nowhere.insert(Topic::new("nowhere")?).clone()),
            },
            here => here,
        })?;
        let all = samples.len();
        if let Some(nowhere) = nowhere {
            samples.retain(|sample| !sample.update.topic.is_same_allocation(&nowhere));
        }
        let left_out = all - samples.len();
        Ok((samples, left_out as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tieline_core::{Body, Point, Timestamp, Update, Value};
    use tieline_journal::encode;

    #[test]
    fn a_topic_has_one_name_here() {
        let mut names = Names::new("sites/north/".to_owned());
        let first = names.here("d1/p1").unwrap();
        assert_eq!(first.as_str(), "sites/north/d1/p1");
        assert_eq!(names.here("d1/p2").unwrap().as_str(), "sites/north/d1/p2");
        assert!(names.here("d1/p1").unwrap().is_same_allocation(&first));
        assert_eq!(names.here(&vec!["a"; 128].join("/")), Err(TopicError::TooDeep));
        assert_eq!(names.here(""), Err(TopicError::Empty));
        assert_eq!(names.here("d1/+"), Err(TopicError::Wildcard));
    }

    #[test]
    fn samples_are_left_out_whose_topics_would_be_too_deep() {
        let deep = vec!["a"; 128].join("/");
        let sample = |topic: &str, number: i64| {
            let time = Timestamp::from_micros(number);
            let body = Body::Point(Point { value: Value::Int(number), time, ..Point::default() });
            Sample::new(time, Update { topic: Topic::new(topic).unwrap(), body })
        };
        let mut record = Vec::new();
        encode(&[sample("a", 1), sample(&deep, 2), sample("b", 3), sample(&deep, 4), sample("a", 5)], &mut record);
        let mut names = Names::new("sites/north/".to_owned());
        let (samples, left_out) = names.samples(&record).unwrap();
        let found: Vec<_> = samples.iter().map(|sample| (sample.update.topic.as_str(), sample.time.micros())).collect();
        assert_eq!(found, [("sites/north/a", 1), ("sites/north/b", 3), ("sites/north/a", 5)]);
        assert_eq!(left_out, 2);
        assert!(samples[0].update.topic.is_same_allocation(&samples[2].update.topic));
        assert!(names.samples(&record[1..]).is_err());
    }

    #[test]
    fn names_are_bounded() {
        let mut names = Names::new("s/".to_owned());
        for number in 0..=NAMES_MAX {
            names.here(&format!("t{number}")).unwrap();
        }
        assert_eq!(names.known.len(), 1);
    }
}
