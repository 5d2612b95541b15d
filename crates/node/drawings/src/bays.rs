//! Bays of a diagram as TOML, as `tieline diagram new` reads them.

use std::path::Path;
use tieline_core::Topic;
use tieline_diagram::{Bay, Busbar, Drawing, Item, Kind};
use tieline_service::parse;
use tieline_service::reader::{self, ConfigError, Document, Finding, Findings, Section};

/// Reads a file of bays.
///
/// # Errors
/// Everything that is wrong with the words in it. Whether they can be drawn is not looked at.
pub fn load_drawing(path: &Path) -> Result<Drawing, ConfigError> {
    let (file, text) = (path.display().to_string(), reader::read_text(path)?);
    let mut findings = Findings::default();
    let drawing = Document::read(&file, &text, &mut findings, read_drawing);
    if !findings.is_empty() {
        return Err(ConfigError(findings.sorted()));
    }
    // Names and ends are looked at where it is drawn: there is one place for what can be.
    drawing.to_svg().map(drop).map_err(|errors| {
        let finding = |error: tieline_diagram::DrawingError| Finding {
            file: file.clone(),
            line: line_of(&text, &error.of),
            column: 1,
            key: error.of,
            found: error.found,
            expected: error.expected,
        };
        ConfigError(errors.into_iter().map(finding).collect())
    })?;
    Ok(drawing)
}

/// The line where `bay "x"` has its name; the first where it is not found.
fn line_of(text: &str, of: &str) -> usize {
    let Some((_, name)) = of.split_once(' ') else { return 1 };
    let is_name = |line: &str| line.trim_start().starts_with("name") && line.contains(name);
    text.lines().position(is_name).map_or(1, |index| index + 1)
}

fn read_drawing(doc: &mut Document<'_>, mut s: Section<'_>) -> Drawing {
    let title = s.or(doc, "title", String::new(), parse::text);
    let busbars = s.array(doc, "busbar").into_iter().map(|busbar| read_busbar(busbar, doc)).collect();
    let bays = s.array(doc, "bay").into_iter().map(|bay| read_bay(bay, doc)).collect();
    s.finish(doc);
    Drawing { title, busbars, bays }
}

fn read_busbar(mut s: Section<'_>, doc: &mut Document<'_>) -> Busbar {
    let name = s.required(doc, "name", "a name of the busbar, as in \"b1\"", parse::text).unwrap_or_default();
    let busbar = Busbar {
        label: s.or(doc, "label", name.clone(), parse::text),
        voltage: s.or(doc, "voltage", String::new(), parse::text),
        values: topics(&mut s, doc),
        name,
    };
    s.finish(doc);
    busbar
}

fn read_bay(mut s: Section<'_>, doc: &mut Document<'_>) -> Bay {
    let name = s.required(doc, "name", "a name of the bay, as in \"feeder1\"", parse::text).unwrap_or_default();
    let bay = Bay {
        label: s.or(doc, "label", name.clone(), parse::text),
        link: s.optional(doc, "link", parse::text),
        from: s.required(doc, "from", "the name of its busbar", parse::text).unwrap_or_default(),
        to: s.optional(doc, "to", parse::text),
        is_up: s.or(doc, "up", false, parse::boolean),
        items: s.array(doc, "item").into_iter().filter_map(|item| read_item(item, doc)).collect(),
        name,
    };
    s.finish(doc);
    bay
}

fn read_item(mut s: Section<'_>, doc: &mut Document<'_>) -> Option<Item> {
    let kind = s.required(doc, "kind", "what it is, as in \"breaker\"", parse::word(Kind::WORDS));
    let name = s.or(doc, "name", String::new(), parse::text);
    let position = s.optional(doc, "topic", |v| v.as_str().ok_or_else(expected).and_then(topic));
    let live = s.optional(doc, "live", |v| v.as_str().ok_or_else(expected).and_then(topic));
    let is_source = s.or(doc, "source", false, parse::boolean);
    let is_beside = s.or(doc, "beside", false, parse::boolean);
    let values = topics(&mut s, doc);
    s.finish(doc);
    Some(Item { kind: kind?, name, topic: position, values, is_source, live, is_beside })
}

fn topics(s: &mut Section<'_>, doc: &mut Document<'_>) -> Vec<Topic> {
    s.each_text(doc, "values", "topics, as in [\"site/relay1/current\"]", topic)
}

fn topic(text: &str) -> Result<Topic, String> {
    Topic::new(text).map_err(|error| format!("{} ({error})", expected()))
}

fn expected() -> String {
    "a topic, as in \"site/relay1/breaker\"".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load(text: &str) -> Result<Drawing, String> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("station.toml");
        std::fs::write(&file, text).unwrap();
        load_drawing(&file).map_err(|error| error.to_string())
    }

    const BAYS: &str = "title = 'Station'\n[[busbar]]\nname = 'b1'\nvoltage = '11 kV'\n\n[[bay]]\nname = 'f1'\nfrom = 'b1'\n\
        item = [{ kind = 'breaker', topic = 'a/q' }, { kind = 'ct', values = ['a/i'] }, { kind = 'load', name = 'works' }]\n";

    #[test]
    fn bays_are_read() {
        let drawing = load(BAYS).unwrap();
        assert_eq!((drawing.title.as_str(), drawing.busbars.len(), drawing.bays.len()), ("Station", 1, 1));
        let items = &drawing.bays[0].items;
        assert_eq!((items[0].kind, items[1].values.len(), items[2].name.as_str()), (Kind::Breaker, 1, "works"));
    }

    #[test]
    fn all_that_is_wrong_is_said_with_its_place() {
        let found =
            load(&BAYS.replace("'breaker'", "'braker'").replace("a/i", "a/#").replace("title", "titel")).unwrap_err();
        for words in ["station.toml:1", "titel", "braker", "breaker", "a/#", "a topic"] {
            assert!(found.contains(words), "{words} is not in {found}");
        }
        let found = load(&BAYS.replace("from = 'b1'", "from = 'b2'").replace("'f1'", "\"f1\"")).unwrap_err();
        assert!(found.contains("station.toml:7") && found.contains("the name of a busbar"), "{found}");
    }
}
