//! What a node alarms of itself: the conditions that it publishes, and the rules for them, which are rows of `conditions.csv`.
//!
//! A condition is a topic below [`CONDITIONS`]: `true` while it holds, or a number. A row of the operator's file with the same
//! filter and kind takes the place of a rule, and one that is more exact goes before it, as among all rules.

use crate::{Kind, Rule, Rules};
use alloc::format;
use alloc::string::String;
use alloc::sync::Arc;
use tieline_core::{Filter, Topic, Words};

/// The topics of conditions are below it.
pub const CONDITIONS: &str = "$SYS/conditions/";
/// The rows. `{sites}` stands for the topic above those of sites.
const ROWS: &str = include_str!("conditions.csv");
/// What stands for the topic above those of sites.
const SITES: &str = "{sites}";
/// Rows of [`ROWS`] at most.
const ROWS_MAX: usize = 100;

/// Something about a node itself that a person should know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Condition {
    /// No space is left for the history or the ledger.
    Disk,
    /// The history is not written, for another reason.
    History,
    /// The ledger is not written, for another reason.
    Ledger,
    /// A part of the ledger could not be read at the start.
    LedgerDamaged,
    /// The audit log is not written.
    Audit,
    /// The clock is in doubt.
    Clock,
    /// Of a site: seconds between its clock and that of the centre.
    ClockOffset,
    /// The files of users and roles have errors.
    Users,
    /// Of each file with certificates: whole days until the first of them ends.
    Certificate,
    /// TLS files that were renewed cannot be read.
    CertificateFiles,
    /// Of each database: nothing is written.
    Database,
    /// Of each database: the records that it will never get.
    DatabaseLost,
    /// Of each receiver of notifications: attempts to send fail.
    Receiver,
    /// Of a site: the centre is not connected.
    Centre,
    /// Of a site: the records that the centre will never get.
    CentreLost,
    /// Of a centre: the servers of the fabric are not connected.
    Servers,
    /// Of each other member of a core: it is not heard.
    Standby,
    /// Of each upstream of an edge: it is not connected.
    Upstream,
    /// How often the user for emergencies has logged in.
    BreakGlass,
}

impl Words for Condition {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("disk", Self::Disk),
        ("history", Self::History),
        ("ledger", Self::Ledger),
        ("ledger_damaged", Self::LedgerDamaged),
        ("audit", Self::Audit),
        ("clock", Self::Clock),
        ("clock_offset", Self::ClockOffset),
        ("users", Self::Users),
        ("certificate", Self::Certificate),
        ("certificate_files", Self::CertificateFiles),
        ("database", Self::Database),
        ("database_lost", Self::DatabaseLost),
        ("receiver", Self::Receiver),
        ("centre", Self::Centre),
        ("centre_lost", Self::CentreLost),
        ("servers", Self::Servers),
        ("standby", Self::Standby),
        ("upstream", Self::Upstream),
        ("break_glass", Self::BreakGlass),
    ];
}

impl Condition {
    /// The topic of it; `of` is the name of what it is about, where there may be several. None where the name is no part of a topic.
    #[must_use]
    pub fn topic(self, of: &str) -> Option<Topic> {
        let word = self.word();
        if of.is_empty() {
            return Topic::new(&format!("{CONDITIONS}{word}")).ok();
        }
        // A wildcard is no part of the name of a topic.
        let of: String = of.chars().map(|char| if matches!(char, '+' | '#') { '_' } else { char }).collect();
        Topic::new(&format!("{CONDITIONS}{word}/{}", of.trim_start_matches('/'))).ok()
    }
}

impl Rules {
    /// With the rules for the conditions of the node itself, behind these. `sites` is what the topics of sites begin with, where
    /// the node is a centre: conditions of the sites are alarmed there, too.
    #[must_use]
    pub fn with_conditions(mut self, sites: Option<&str>) -> Self {
        let own = Self::parse(ROWS, ROWS_MAX, true).unwrap_or_default();
        let mut line = self.iter().map(|rule| rule.line).max().unwrap_or(1);
        for (filter, rule) in own.iter().flat_map(|rule| filters(rule, sites).map(move |filter| (filter, rule))) {
            if self.has_instead(&filter, rule.kind) {
                continue;
            }
            line = line.saturating_add(1);
            self.0.push(Arc::new(Rule { filter, line, is_built_in: true, ..rule.clone() }));
        }
        self
    }

    /// Whether rows of the file are for what a rule of the node is for. Of places any that selects them, as people have
    /// rows for all places.
    fn has_instead(&self, filter: &Filter, kind: Kind) -> bool {
        let place = filter.as_str().replace('+', "_");
        let is_instead = |rule: &Rule| rule.filter == *filter || kind == Kind::Away && rule.filter.matches(&place);
        self.iter().filter(|rule| rule.kind == kind).any(is_instead)
    }
}

/// The filters of a rule of the node: its own, and at a centre that of the same condition of sites.
fn filters(rule: &Rule, sites: Option<&str>) -> impl Iterator<Item = Filter> {
    let text = rule.filter.as_str();
    let above = sites.map(|sites| sites.trim_end_matches('/'));
    let own = match (text.strip_prefix(SITES), above) {
        (Some(rest), Some(above)) => Some(format!("{above}{rest}")),
        (Some(_), None) => None,
        (None, _) => Some(String::from(text)),
    };
    // That a site does not reach the centre is said by the site's place there.
    let is_of_sites = text.strip_prefix(CONDITIONS).is_some_and(|word| word != Condition::Centre.word());
    let of_sites = above.filter(|_| is_of_sites).map(|above| format!("{above}/+/{text}"));
    [own, of_sites].into_iter().flatten().filter_map(|filter| Filter::new(&filter).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matcher::Matcher;
    use alloc::vec::Vec;

    fn all(text: &str, sites: Option<&str>) -> Rules {
        Rules::parse(text, 100, false).unwrap().with_conditions(sites)
    }

    const NONE: &str = "topic,kind,limit,priority\n";

    #[test]
    fn each_condition_has_a_rule_that_says_what_to_do_and_is_in_the_documents() {
        let rules = Rules::parse(ROWS, ROWS_MAX, true).unwrap();
        let documents = include_str!("../../../../docs/alarms.md");
        let matcher = Matcher::new(&rules.0);
        for (word, condition) in Condition::WORDS {
            let topics = [condition.topic("").unwrap(), condition.topic("a").unwrap()];
            let found = topics.iter().map(|topic| matcher.rules_of(&rules.0, topic)).any(|found| !found.is_empty());
            assert!(found, "{word}");
        }
        for rule in rules.iter() {
            let filter = rule.filter.as_str();
            let word = filter.strip_prefix(CONDITIONS).and_then(|rest| rest.split('/').next());
            assert!(word.is_none_or(|word| Condition::of_word(word).is_some()), "{filter}");
            let [cause, consequence, action] = [&rule.cause, &rule.consequence, &rule.action];
            assert!(![cause, consequence, action].iter().any(|text| text.is_empty()), "{filter}");
            assert!(rule.respond_in.is_some() && &*rule.group == "node", "{filter}");
            let shown = filter.strip_prefix(CONDITIONS).unwrap_or(filter).replace(SITES, "sites");
            let row = format!("| `{shown}` | `{}` | {} |", rule.kind.word(), rule.priority.word());
            assert!(documents.contains(&row), "docs/alarms.md has no row {row}");
        }
    }

    #[test]
    fn rules_of_the_file_take_the_place_of_those_of_the_node() {
        let has = |rules: &Rules, topic: &str, kind: Kind| {
            let found = Matcher::new(&rules.0).rules_of(&rules.0, topic);
            let rule = found.iter().find(|(of, _)| *of == kind).map(|(_, number)| &rules.0[*number as usize]);
            rule.map(|rule| (rule.is_built_in, rule.priority.word()))
        };
        let check = |text: &str, sites: Option<&str>, topic: &str, kind, expect: Option<(bool, &str)>| {
            assert_eq!(has(&all(&format!("{NONE}{text}"), sites), topic, kind), expect, "{text} {sites:?} {topic}");
        };
        let disk = "$SYS/conditions/disk";
        check("", None, disk, Kind::State, Some((true, "critical")));
        check("$SYS/conditions/disk,state,true,low\n", None, disk, Kind::State, Some((false, "low")));
        check("$SYS/conditions/disk,state,true,off\n", None, disk, Kind::State, None);
        check("$SYS/#,state,true,low\n", None, disk, Kind::State, Some((true, "critical")));
        let duty = "$SYS/conditions/receiver/duty";
        check("$SYS/conditions/receiver/duty,state,true,low\n", None, duty, Kind::State, Some((false, "low")));
        check("", None, "sites/north/$SYS/conditions/disk", Kind::State, None);
        check("", Some("sites/"), "sites/north/$SYS/conditions/disk", Kind::State, Some((true, "critical")));
        check("", Some("sites/"), "sites/north/$SYS/conditions/centre", Kind::State, None);
        check("", Some("sites/"), "$SYS/conditions/centre", Kind::State, Some((true, "high")));
        check("", None, "sites/north", Kind::Away, None);
        check("", Some("a/b/"), "a/b/north", Kind::Away, Some((true, "high")));
        check("#,away,,medium\n", Some("sites/"), "sites/north", Kind::Away, Some((false, "medium")));
        check("d/#,away,,medium\n", Some("sites/"), "sites/north", Kind::Away, Some((true, "high")));
        check("", None, "$SYS/conditions/certificate/etc/t/node.pem", Kind::LowLow, Some((true, "high")));
    }

    #[test]
    fn rules_of_the_node_have_lines_behind_those_of_the_file() {
        let rules = all(&format!("{NONE}a,bad,,low\nb,bad,,low\n"), Some("sites/"));
        let lines: Vec<u32> = rules.iter().map(|rule| rule.line).collect();
        assert!(lines.windows(2).all(|two| two[0] < two[1]), "{lines:?}");
        assert_eq!(rules.iter().filter(|rule| !rule.is_built_in).count(), 2);
    }

    #[test]
    fn names_are_parts_of_topics() {
        let check = |of: &str, expect: &str| {
            let topic = Condition::Certificate.topic(of);
            assert_eq!(topic.as_deref(), Some(format!("{CONDITIONS}certificate{expect}").as_str()), "{of}");
        };
        check("", "");
        check("/etc/t/node.pem", "/etc/t/node.pem");
        check("a+b/#1.pem", "/a_b/_1.pem");
        assert_eq!(Condition::Certificate.topic("a\0b"), None);
    }
}
