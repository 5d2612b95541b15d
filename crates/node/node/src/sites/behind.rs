//! What is behind a site that is a centre itself, as it says upward.
//!
//! A centre sums up what it sees of its sites and what they say of theirs. So the one at the top knows of all that are away, with the
//! topics below which their values are, without asking them.

use super::board::SiteRow;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Sites that are named as away, at most: the others are counted.
const NAMED_MAX: usize = 512;

/// Sites that are behind one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Behind {
    /// All of them.
    #[serde(default)]
    pub sites: u64,
    /// Those that are away, and those behind them.
    #[serde(default)]
    pub away: u64,
    /// The longest age of a live record on its way to the site that says this.
    #[serde(default)]
    pub lag_ms: u64,
    /// The topics there below which values of sites that are away are, as in `sites/north`; what is behind these is not named.
    #[serde(default)]
    pub away_topics: Vec<String>,
}

impl Behind {
    /// What a centre says of its sites, whose topics are below `prefix`.
    #[must_use]
    pub fn of(prefix: &str, sites: &BTreeMap<Arc<str>, SiteRow>) -> Self {
        let mut all = Self::default();
        for (name, row) in sites {
            let below = row.behind.clone().unwrap_or_default();
            all.sites += 1 + below.sites;
            if !row.is_up {
                all.away += 1 + below.sites;
                all.name(format!("{prefix}{name}"));
                continue;
            }
            all.away += below.away;
            let lag = row.lag.saturating_add(Duration::from_millis(below.lag_ms));
            all.lag_ms = all.lag_ms.max(u64::try_from(lag.as_millis()).unwrap_or(u64::MAX));
            for topic in below.away_topics {
                all.name(format!("{prefix}{name}/{topic}"));
            }
        }
        all
    }

    fn name(&mut self, topic: String) {
        if self.away_topics.len() < NAMED_MAX {
            self.away_topics.push(topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(is_up: bool, lag: u64, behind: Option<Behind>) -> SiteRow {
        SiteRow { is_up, lag: Duration::from_secs(lag), behind, ..SiteRow::default() }
    }

    fn of(rows: &[(&str, SiteRow)]) -> Behind {
        Behind::of("sites/", &rows.iter().map(|(name, row)| ((*name).into(), row.clone())).collect())
    }

    #[test]
    fn what_is_behind_is_summed_up_at_each_level() {
        let region = of(&[("north", row(true, 2, None)), ("south", row(false, 90, None))]);
        let expect = Behind { sites: 2, away: 1, lag_ms: 2000, away_topics: vec!["sites/south".to_owned()] };
        assert_eq!(region, expect);
        let country = of(&[("region", row(true, 1, Some(region.clone()))), ("other", row(true, 0, None))]);
        let topics = vec!["sites/region/sites/south".to_owned()];
        assert_eq!(country, Behind { sites: 4, away: 1, lag_ms: 3000, away_topics: topics });
        // Of what is behind a site that is away, nothing is known.
        let country = of(&[("region", row(false, 1, Some(region)))]);
        assert_eq!(country, Behind { sites: 3, away: 3, lag_ms: 0, away_topics: vec!["sites/region".to_owned()] });
    }

    #[test]
    fn many_that_are_away_are_counted_and_the_first_ones_named() {
        let names: Vec<String> = (0..600).map(|number| format!("{number:04}")).collect();
        let all: Vec<_> = names.iter().map(|name| (name.as_str(), row(false, 0, None))).collect();
        let behind = of(&all);
        assert_eq!((behind.away, behind.away_topics.len()), (600, NAMED_MAX));
    }
}
