//! The counts by quality ([`super::census`]) of one live feed: in all, and of the groups that its reader looks at.

use super::census::{Census, Censuses};
use std::collections::{BTreeSet, HashSet};
use std::fmt::Write;
use tieline_core::{Instant, json_string};
use tieline_topics::Counts;

/// Groups in one message.
pub(super) const GROUPS: usize = 1000;

/// The groups of which a reader wants counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Groups {
    /// All branches.
    All,
    /// Those directly below these branches; the empty path is the first level.
    Below(HashSet<String>),
}

/// The counts of a reader.
#[derive(Debug)]
pub(super) struct Counting {
    groups: Groups,
    /// None where there are too many counts already.
    pub(super) census: Option<usize>,
    /// Groups that are to be told.
    dirty: BTreeSet<Box<str>>,
    /// Where the first telling of all branches is.
    first: Option<usize>,
    delivered: Option<(Counts, bool)>,
}

impl Counting {
    pub(super) fn new(groups: Groups) -> Self {
        let first = (groups == Groups::All).then_some(0);
        Self { groups, census: None, dirty: BTreeSet::new(), first, delivered: None }
    }

    /// The branches that are looked at are told first as they are.
    pub(super) fn begin(&mut self, censuses: &Censuses) {
        if let (Groups::Below(branches), Some(census)) = (&self.groups, self.census(censuses)) {
            let groups = branches.iter().flat_map(|branch| census.counts().children(branch));
            let groups: Vec<Box<str>> = groups.map(Into::into).collect();
            self.dirty.extend(groups);
        }
    }

    /// A branch has changed, which is directly below another.
    pub(super) fn group_changed(&mut self, path: &str, above: &str) {
        let is_wanted = match &self.groups {
            Groups::All => true,
            Groups::Below(branches) => branches.contains(above),
        };
        if is_wanted {
            self.dirty.insert(path.into());
        }
    }

    pub(super) fn has_work(&self, now: Instant, censuses: &Censuses) -> bool {
        let total = self.census(censuses).map(|census| total_of(census, now)).unwrap_or_default();
        self.first.is_some() || !self.dirty.is_empty() || self.delivered != Some(total)
    }

    fn census<'a>(&self, censuses: &'a Censuses) -> Option<&'a Census> {
        self.census.and_then(|key| censuses.get(key))
    }

    /// `{"complete", "total": {…}, "groups": {"path": {…}}}`, of the groups those that have changed.
    pub(super) fn next_message(&mut self, now: Instant, censuses: &Censuses) -> String {
        let Some(census) = self.census(censuses) else {
            (self.first, self.delivered) = (None, Some((Counts::default(), false)));
            return "{\"complete\":false,\"total\":null,\"groups\":{}}".to_owned();
        };
        let (total, is_complete) = total_of(census, now);
        self.delivered = Some((total, is_complete));
        let mut text = format!("{{\"complete\":{is_complete},\"total\":");
        write_counts(&total, &mut text);
        text.push_str(",\"groups\":{");
        let mut is_first = true;
        let mut write = |path: &str| {
            if !std::mem::take(&mut is_first) {
                text.push(',');
            }
            json_string(path, &mut text);
            text.push(':');
            write_counts(&census.counts().below(path), &mut text);
        };
        if let Some(from) = self.first {
            let (some, next) = census.counts().branches(from, GROUPS);
            some.into_iter().for_each(&mut write);
            self.first = next;
        } else {
            (0..GROUPS).map_while(|_| self.dirty.pop_first()).for_each(|path| write(&path));
        }
        text.push_str("}}");
        text
    }
}

fn total_of(census: &Census, now: Instant) -> (Counts, bool) {
    (census.counts().total(), census.is_complete(now))
}

fn write_counts(counts: &Counts, out: &mut String) {
    let Counts { good, uncertain, bad, unstated } = counts;
    let _ = write!(
        out,
        "{{\"good\":{good},\"uncertain\":{uncertain},\"bad\":{bad},\"unstated\":{unstated},\"total\":{}}}",
        counts.total()
    );
}
