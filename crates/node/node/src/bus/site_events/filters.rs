//! Filters of messages between sites: as clients subscribe them, as the link has them, and as they select at one site.

use super::PREFIX;
use std::collections::BTreeSet;
use tieline_core::Filter;
use tieline_relay::FILTERS_MAX;

/// Filters without those that others cover, as many as a link takes.
pub(super) fn without_covered(all: &BTreeSet<Filter>) -> Vec<Filter> {
    let is_covered = |filter: &Filter| all.iter().any(|other| other != filter && other.covers(filter));
    let mut needed: Vec<Filter> = all.iter().filter(|filter| !is_covered(filter)).cloned().collect();
    if needed.len() > FILTERS_MAX {
        tracing::warn!(filters = needed.len(), max = FILTERS_MAX, "not all filters below $sites/ are asked for");
        needed.truncate(FILTERS_MAX);
    }
    needed
}

/// A filter as the link has it: without [`PREFIX`].
pub(super) fn below(filter: &Filter) -> Option<Filter> {
    Filter::new(filter.strip_prefix(PREFIX)?).ok()
}

/// What a filter below [`PREFIX`] selects at a site, by the topics of the site.
pub(super) fn at_site(filter: &Filter, site: &str) -> Option<Filter> {
    let below = filter.strip_prefix(PREFIX)?;
    if below == "#" {
        return Filter::new("#").ok();
    }
    let (first, rest) = below.split_once('/')?;
    (first == "+" || first == site).then(|| Filter::new(rest).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_is_asked_of_the_sites_that_it_selects() {
        let check = |filter: &str, site: &str, expect: Option<&str>| {
            let found = at_site(&Filter::new(filter).unwrap(), site);
            assert_eq!(found.as_deref(), expect, "{filter} {site}");
        };
        check("$sites/north/alarms/#", "north", Some("alarms/#"));
        check("$sites/north/alarms/#", "south", None);
        check("$sites/+/alarms/+", "south", Some("alarms/+"));
        check("$sites/+/#", "south", Some("#"));
        check("$sites/#", "south", Some("#"));
        check("$sites/+", "south", None);
        check("$sites/northern/a", "north", None);
    }
}
