//! `[alarm]`: which values are alarms.

use super::fabric::CentreConfig;
use super::parse;
use super::reader::{Document, Finding, Section};
use super::settings::{
    ALARM_ALARMS_MAX, ALARM_CHATTER_COUNT, ALARM_CHATTER_TIME, ALARM_FLOOD_IN, ALARM_FLOOD_OUT, ALARM_GATHER,
    ALARM_NODE, ALARM_OPERATORS, ALARM_RULES_MAX, ALARM_SHELVE_MAX, ALARM_STRICT,
};
use std::path::Path;
use tieline_alarms::{Rules, Settings};

/// `[alarm]`.
#[derive(Clone, Debug, PartialEq)]
pub struct AlarmConfig {
    /// The rules of the file that it names.
    pub rules: Rules,
    /// What is adjustable.
    pub settings: Settings,
    /// Whether conditions of the node itself are alarmed. Their rules are among the others.
    pub with_conditions: bool,
}

/// Reads `[alarm]`, where there is one, and the file of rules, which is found beside `folder`.
pub fn read_alarm(
    root: &mut Section<'_>,
    doc: &mut Document<'_>,
    folder: &Path,
    centre: Option<&CentreConfig>,
) -> Option<AlarmConfig> {
    if !root.has("alarm") {
        return None;
    }
    let mut s = root.section(doc, "alarm");
    let with_conditions = ALARM_NODE.read(&mut s, doc);
    let file = match with_conditions {
        true => s.optional(doc, "rules", parse::text),
        false => s.required(doc, "rules", "the name of a file of alarm rules, as in \"alarms.csv\"", parse::text),
    };
    let (is_strict, rules_max) = (ALARM_STRICT.read(&mut s, doc), ALARM_RULES_MAX.read_size(&mut s, doc));
    let settings = Settings {
        shelve_max: ALARM_SHELVE_MAX.read(&mut s, doc),
        gather: ALARM_GATHER.read(&mut s, doc),
        chatter_count: ALARM_CHATTER_COUNT.read(&mut s, doc),
        chatter_time: ALARM_CHATTER_TIME.read(&mut s, doc),
        operators: ALARM_OPERATORS.read(&mut s, doc),
        flood_in: ALARM_FLOOD_IN.read(&mut s, doc),
        flood_out: ALARM_FLOOD_OUT.read(&mut s, doc),
        alarms_max: ALARM_ALARMS_MAX.read_size(&mut s, doc),
        ..Settings::default()
    };
    if settings.flood_out > settings.flood_in {
        let found = format!("{}, and flood_in is {}", settings.flood_out, settings.flood_in);
        doc.report(s.value_at("flood_out"), &s.key("flood_out"), found, "flood_in at most".to_owned());
    }
    let rules = match file {
        Some(file) => read_rules(&s, doc, &folder.join(file), (rules_max, is_strict)),
        None => Some(Rules::default()),
    };
    s.finish(doc);
    let sites = centre.map(|centre| centre.prefix.as_str());
    let rules = rules.map(|rules| if with_conditions { rules.with_conditions(sites) } else { rules });
    rules.map(|rules| AlarmConfig { rules, settings, with_conditions })
}

/// The rules of a file; none where it is wrong, which has been reported then.
fn read_rules(
    s: &Section<'_>,
    doc: &mut Document<'_>,
    path: &Path,
    (rules_max, is_strict): (usize, bool),
) -> Option<Rules> {
    let file = path.display().to_string();
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            let found = format!("{file:?} ({error})");
            doc.report(s.value_at("rules"), &s.key("rules"), found, "a readable CSV file".to_owned());
            return None;
        }
    };
    let errors = match Rules::parse(&text, rules_max, is_strict) {
        Ok(rules) => return Some(rules),
        Err(errors) => errors,
    };
    for error in errors {
        let (line, key) = (usize::try_from(error.line).unwrap_or(usize::MAX), error.column.to_owned());
        let (found, expected) = (error.found, error.expected.into_owned());
        doc.findings().push(Finding { file: file.clone(), line, column: 1, key, found, expected });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::from_text;
    use std::time::Duration;

    #[test]
    fn rules_are_read_with_the_configuration_and_their_errors_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| from_text("t.toml", text, folder.path()).map_err(|error| error.to_string());
        assert_eq!(read("").unwrap().alarm, None);
        let found = read("[alarm]\nrules='alarms.csv'\n").unwrap_err();
        assert!(found.contains("expected a readable CSV file"), "{found}");
        let write = |text: &str| std::fs::write(folder.path().join("alarms.csv"), text).unwrap();
        write("topic,kind,limit,priority\na/+,high,4oo,high\n");
        let found = read("[alarm]\nrules='alarms.csv'\nflood_in=3\nflood_out=4\n").unwrap_err();
        for words in ["alarms.csv:2", "limit", "expected a number", "alarm.flood_out", "flood_in at most"] {
            assert!(found.contains(words), "{words} is not in:\n{found}");
        }
        write("topic,kind,limit,priority\na/+,high,400,high\n");
        let alarm = read("[alarm]\nrules='alarms.csv'\nshelve_max='1h'\nnode=false\n").unwrap().alarm.unwrap();
        assert_eq!((alarm.rules.len(), alarm.settings.shelve_max), (1, Duration::from_secs(3600)));
        let own = read("[alarm]\n").unwrap().alarm.unwrap().rules;
        let alarm = read("[alarm]\nrules='alarms.csv'\n").unwrap().alarm.unwrap();
        assert!(alarm.with_conditions && own.iter().all(|rule| rule.is_built_in), "no file is needed for these");
        assert_eq!(alarm.rules.len(), 1 + own.len());
        assert!(read("[alarm]\nnode=false\n").unwrap_err().contains("alarm.rules"), "there would be no rules");
        let found = read("[alarm]\nrules='alarms.csv'\nstrict=true\n").unwrap_err();
        assert!(found.contains("alarms.csv:2"), "{found}");
    }
}
