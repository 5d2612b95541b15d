//! Boards: pages of panels, each a TOML file.

use crate::folder::{Folder, version_of, whole};
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tieline_core::{Filter, Topic};
use tieline_diagram::is_diagram_name;
use tieline_service::parse::{self, parse_duration};
use tieline_service::reader::{Document, Finding, Findings, Section};

/// Where they are.
pub const FOLDER: Folder = Folder {
    key: "boards",
    noun: "board",
    end: "toml",
    readable: "a folder of TOML files that can be read",
    count_max: 256,
    bytes_max: 8 << 20,
};

/// Bytes of one file.
pub const BOARD_BYTES_MAX: usize = 256 << 10;
const PANELS_MAX: usize = 64;
const VARIABLES_MAX: usize = 8;
const VALUES_MAX: usize = 256;
/// Topics of one panel: as many as a trend shows.
const TOPICS_MAX: usize = 8;
const TEXT_BYTES_MAX: usize = 4096;
const COLUMNS: u8 = 12;
const ROWS_MAX: u8 = 24;
const RANGE_MIN: Duration = Duration::from_secs(60);
const RANGE_MAX: Duration = Duration::from_secs(366 * 86_400);

/// A board that was checked.
#[derive(Debug, PartialEq)]
pub struct BoardFile {
    /// Its name: that of the file, without `.toml`.
    pub name: String,
    /// Where its file is.
    pub origin: Origin,
    /// The file.
    pub text: String,
    /// The beginning of the SHA-256 of the file, as text.
    pub version: String,
    /// What it shows.
    pub board: Board,
}

/// Where the file of a board is
#[derive(Clone, Copy, Debug, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
#[schemars(rename = "BoardOrigin")]
pub enum Origin {
    /// In a folder of the configuration: only its operator changes it
    Configuration,
    /// In the data folder: it can be changed while the node runs
    Data,
}

/// A page of panels
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
pub struct Board {
    /// What is written above it
    pub title: String,
    /// How far back trends reach, as a duration
    range: String,
    /// What is put for {name} in topics
    variables: Vec<Variable>,
    /// From left to right, twelve columns wide
    panels: Vec<Panel>,
}

/// What is put for {name} in the topics of a board
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "BoardVariable")]
struct Variable {
    name: String,
    label: String,
    /// What it may be; the first where the address names none
    values: Vec<String>,
}

/// A panel of a board
#[derive(Clone, Debug, JsonSchema, PartialEq, Serialize)]
#[schemars(rename = "BoardPanel")]
struct Panel {
    /// value, bar, trend, table, alarms, diagram or text
    kind: &'static str,
    title: String,
    /// Columns, of 12
    width: u8,
    /// Rows
    height: u8,
    /// Of value, bar and trend
    #[serde(skip_serializing_if = "Vec::is_empty")]
    topics: Vec<String>,
    /// Of table and alarms: a topic filter
    #[serde(skip_serializing_if = "Option::is_none")]
    filter: Option<String>,
    /// The name of the diagram
    #[serde(skip_serializing_if = "Option::is_none")]
    diagram: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    /// The ends of a bar
    #[serde(skip_serializing_if = "Option::is_none")]
    min: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max: Option<f64>,
    /// Limits of value and bar: what is outside is marked
    #[serde(skip_serializing_if = "Option::is_none")]
    low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high: Option<f64>,
    /// The board that its title leads to, with the values of its variables
    #[serde(skip_serializing_if = "Option::is_none")]
    link: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Value,
    Bar,
    Trend,
    Table,
    Alarms,
    Diagram,
    Text,
}

impl Kind {
    const WORDS: &[(&str, Self)] = &[
        ("value", Self::Value),
        ("bar", Self::Bar),
        ("trend", Self::Trend),
        ("table", Self::Table),
        ("alarms", Self::Alarms),
        ("diagram", Self::Diagram),
        ("text", Self::Text),
    ];

    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(_, kind)| *kind == self).map_or("", |(word, _)| word)
    }

    /// Columns and rows of one whose file does not say them.
    const fn size(self) -> (u8, u8) {
        match self {
            Self::Value | Self::Bar => (3, 2),
            Self::Text => (3, 1),
            Self::Trend | Self::Table | Self::Alarms => (6, 5),
            Self::Diagram => (COLUMNS, 9),
        }
    }
}

impl Board {
    /// What it reads, with any value of its variables.
    pub fn reads(&self) -> impl Iterator<Item = Filter> {
        let texts = self.panels.iter().flat_map(|panel| panel.topics.iter().chain(&panel.filter));
        texts.filter_map(|text| Filter::new(&filter_of(text)).ok())
    }

    /// Its panels.
    #[must_use]
    pub fn panels(&self) -> usize {
        self.panels.len()
    }
}

/// The filter of all that a topic with variables may be: a level with a variable is any.
fn filter_of(text: &str) -> String {
    let levels = text.split('/').map(|level| if level.contains('{') { "+" } else { level });
    levels.collect::<Vec<_>>().join("/")
}

impl BoardFile {
    /// Checks the text of a board; `file` is what it is called where something is wrong.
    ///
    /// # Errors
    /// All that is wrong with it.
    pub fn check(file: &str, name: &str, text: String, origin: Origin) -> Result<Self, Vec<Finding>> {
        let mut findings = Findings::default();
        let board = Document::read(file, &text, &mut findings, read);
        if !findings.is_empty() {
            return Err(findings.sorted());
        }
        Ok(Self { name: name.to_owned(), origin, version: version_of(&text), text, board })
    }

    /// Reads and checks the file of a name.
    ///
    /// # Errors
    /// It cannot be read, or all that is wrong with it.
    pub fn load(file: &Path, name: &str, origin: Origin) -> Result<Self, Vec<Finding>> {
        let unread = |found: String| {
            vec![whole(file, "toml", found, &format!("a readable file of at most {BOARD_BYTES_MAX} bytes"))]
        };
        let text = read_text(file).map_err(unread)?;
        Self::check(&file.display().to_string(), name, text, origin)
    }
}

/// Reads and checks a file of the configuration; none where it is wrong, which has been reported then.
pub fn read_configured(file: &Path, name: &str, findings: &mut Findings) -> Option<(Arc<BoardFile>, usize)> {
    read_file(file, name, Origin::Configuration, findings)
}

/// The same of a file of the data folder.
pub fn read_kept(file: &Path, name: &str, findings: &mut Findings) -> Option<(Arc<BoardFile>, usize)> {
    read_file(file, name, Origin::Data, findings)
}

fn read_file(file: &Path, name: &str, origin: Origin, findings: &mut Findings) -> Option<(Arc<BoardFile>, usize)> {
    match BoardFile::load(file, name, origin) {
        Ok(board) => {
            let bytes = board.text.len();
            Some((Arc::new(board), bytes))
        }
        Err(found) => {
            found.into_iter().for_each(|finding| findings.push(finding));
            None
        }
    }
}

fn read_text(file: &Path) -> Result<String, String> {
    let length = std::fs::metadata(file).map_err(|error| error.to_string())?.len();
    if length > BOARD_BYTES_MAX as u64 {
        return Err(format!("{length} bytes"));
    }
    std::fs::read_to_string(file).map_err(|error| error.to_string())
}

fn read(doc: &mut Document<'_>, mut s: Section<'_>) -> Board {
    let title = s.required(doc, "title", "what is written above it", parse::text).unwrap_or_default();
    let range = s.or(doc, "range", "1h".to_owned(), |value| {
        let text = parse::text(value)?;
        let legal = parse_duration(&text).is_some_and(|range| (RANGE_MIN..=RANGE_MAX).contains(&range));
        if legal { Ok(text) } else { Err("a duration from 1m to 366d".to_owned()) }
    });
    let (at, key) = (s.value_at("variable"), s.key("variable"));
    let mut variables: Vec<_> = s.array(doc, "variable").into_iter().map(|one| read_variable(one, doc)).collect();
    if variables.len() > VARIABLES_MAX {
        doc.report(at, &key, format!("{} variables", variables.len()), format!("at most {VARIABLES_MAX}"));
        // Each topic is looked at with each variable.
        variables.truncate(VARIABLES_MAX);
    }
    let (at, key) = (s.value_at("panel"), s.key("panel"));
    let panels: Vec<_> = s.array(doc, "panel").into_iter().filter_map(|one| read_panel(one, doc, &variables)).collect();
    if panels.len() > PANELS_MAX {
        doc.report(at, &key, format!("{} panels", panels.len()), format!("at most {PANELS_MAX}"));
    }
    s.finish(doc);
    Board { title, range, variables, panels }
}

fn read_variable(mut s: Section<'_>, doc: &mut Document<'_>) -> Variable {
    let (at, key) = (s.value_at("name"), s.key("name"));
    let name = s.required(doc, "name", "what stands in { } in topics", parse::text).unwrap_or_default();
    // An address has these words besides.
    if !is_diagram_name(&name) || ["name", "from", "to"].contains(&name.as_str()) {
        doc.report(at, &key, format!("{name:?}"), "a name of a-z, 0-9, - and _, and not name, from or to".to_owned());
    }
    let (at, key) = (s.value_at("values"), s.key("values"));
    let expected = "levels of topics, as in [\"feeder1\", \"feeder2\"]";
    let values = s.each_text(doc, "values", expected, |text| {
        let legal = !text.contains(['{', '}']) && Topic::new(text).is_ok();
        if legal { Ok(text.to_owned()) } else { Err(expected.to_owned()) }
    });
    if values.is_empty() || values.len() > VALUES_MAX {
        doc.report(at, &key, format!("{} values", values.len()), format!("1 to {VALUES_MAX}"));
    }
    let label = s.or(doc, "label", name.clone(), parse::text);
    s.finish(doc);
    Variable { name, label, values }
}

fn read_panel(mut s: Section<'_>, doc: &mut Document<'_>, variables: &[Variable]) -> Option<Panel> {
    let kind = s.required(doc, "kind", "what it shows, as in \"trend\"", parse::word(Kind::WORDS));
    let kind = kind?;
    let (width, height) = kind.size();
    let mut panel = Panel {
        kind: kind.word(),
        title: s.or(doc, "title", String::new(), parse::text),
        width: s.or(doc, "width", width, parse::integer(1..=COLUMNS)),
        height: s.or(doc, "height", height, parse::integer(1..=ROWS_MAX)),
        topics: Vec::new(),
        filter: None,
        diagram: None,
        text: None,
        min: None,
        max: None,
        low: None,
        high: None,
        link: s.optional(doc, "link", name),
    };
    match kind {
        Kind::Value | Kind::Bar | Kind::Trend => panel.topics = topics(&mut s, doc, variables),
        Kind::Table | Kind::Alarms => {
            let expected = "a topic filter, as in \"site/{feeder}/#\"";
            panel.filter = s.required(doc, "filter", expected, |value| {
                known(&parse::text(value)?, variables, |text| Filter::new(text).is_ok())
            });
        }
        Kind::Diagram => panel.diagram = s.required(doc, "diagram", "the name of a diagram", name),
        Kind::Text => {
            let short = |text: String| {
                if text.len() <= TEXT_BYTES_MAX { Ok(text) } else { Err(format!("at most {TEXT_BYTES_MAX} bytes")) }
            };
            panel.text = s.required(doc, "text", "a text", |value| parse::text(value).and_then(short));
        }
    }
    if matches!(kind, Kind::Value | Kind::Bar) {
        [panel.low, panel.high] = [s.optional(doc, "low", parse::number), s.optional(doc, "high", parse::number)];
    }
    if kind == Kind::Bar {
        let (at, key) = (s.value_at("max"), s.key("max"));
        panel.min = Some(s.or(doc, "min", 0.0, parse::number));
        panel.max = s.required(doc, "max", "the value at the end of the bar", parse::number);
        if let (Some(min), Some(max)) = (panel.min, panel.max)
            && max <= min
        {
            doc.report(at, &key, max.to_string(), format!("more than min, which is {min}"));
        }
    }
    s.finish(doc);
    Some(panel)
}

fn topics(s: &mut Section<'_>, doc: &mut Document<'_>, variables: &[Variable]) -> Vec<String> {
    let expected = "topics, as in [\"site/{feeder}/current\"]";
    let (at, key) = (s.value_at("topics"), s.key("topics"));
    let topics = s.each_text(doc, "topics", expected, |text| known(text, variables, |text| Topic::new(text).is_ok()));
    if topics.is_empty() || topics.len() > TOPICS_MAX {
        doc.report(at, &key, format!("{} topics", topics.len()), format!("1 to {TOPICS_MAX} topics"));
    }
    topics
}

/// A text whose variables are known, and that is legal with their values.
fn known(text: &str, variables: &[Variable], is_legal: impl Fn(&str) -> bool) -> Result<String, String> {
    let mut put = text.to_owned();
    for Variable { name, values, .. } in variables {
        put = put.replace(&format!("{{{name}}}"), values.first().map_or("x", String::as_str));
    }
    if put.contains(['{', '}']) {
        return Err(format!("a text whose variables are among [[variable]]: {}", names(variables)));
    }
    if is_legal(&put) { Ok(text.to_owned()) } else { Err("a topic or a filter that is legal".to_owned()) }
}

fn names(variables: &[Variable]) -> String {
    if variables.is_empty() {
        return "there are none".to_owned();
    }
    variables.iter().map(|variable| variable.name.as_str()).collect::<Vec<_>>().join(", ")
}

/// The name of a board or of a diagram.
fn name(value: &toml::de::DeValue<'_>) -> Result<String, String> {
    let text = parse::text(value)?;
    if is_diagram_name(&text) { Ok(text) } else { Err("a name of a-z, 0-9, - and _".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::read_in;
    use proptest::prelude::*;

    const BOARD: &str = "title = 'Feeders'\nrange = '6h'\n[[variable]]\nname = 'feeder'\nvalues = ['feeder1', 'feeder2']\n\
        [[panel]]\nkind = 'bar'\ntopics = ['site/{feeder}/current']\nmax = 400\nhigh = 350.5\n\
        [[panel]]\nkind = 'alarms'\nfilter = 'site/{feeder}/#'\nwidth = 12\n\
        [[panel]]\nkind = 'text'\ntext = 'Call 110'\n";

    fn read_one(text: &str) -> Result<BoardFile, String> {
        let said = |found: Vec<Finding>| found.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        BoardFile::check("feeders.toml", "feeders", text.to_owned(), Origin::Data).map_err(said)
    }

    #[test]
    fn a_board_is_read() {
        let BoardFile { name, version, board, text, .. } = read_one(BOARD).unwrap();
        assert_eq!((name.as_str(), version.len(), board.title.as_str(), board.panels()), ("feeders", 16, "Feeders", 3));
        assert_eq!(text, BOARD);
        let reads: Vec<String> = board.reads().map(|filter| filter.to_string()).collect();
        assert_eq!(reads, ["site/+/current", "site/+/#"]);
        let shown = serde_json::to_value(&board).unwrap();
        assert_eq!(shown["panels"][0]["kind"], "bar");
        assert_eq!((&shown["panels"][0]["min"], &shown["panels"][0]["high"]), (&0.0.into(), &350.5.into()));
        assert_eq!((&shown["panels"][1]["width"], &shown["panels"][1]["height"]), (&12.into(), &5.into()));
        assert!(shown["panels"][1].get("topics").is_none(), "{shown}");
    }

    #[test]
    fn what_is_wrong_is_said_with_its_place() {
        let cases = [
            ("title = 'Feeders'", "titel = 'x'", "feeders.toml:1"),
            ("range = '6h'", "range = '1s'", "a duration from 1m to 366d"),
            ("'site/{feeder}/current'", "'site/{feder}/current'", "among [[variable]]: feeder"),
            ("'site/{feeder}/current'", "'site/#/current'", "a topic or a filter that is legal"),
            ("'site/{feeder}/#'", "'site/{feeder}#'", "a topic or a filter that is legal"),
            ("max = 400", "max = 0", "more than min, which is 0"),
            ("max = 400", "maxi = 400", "the value at the end of the bar"),
            ("width = 12", "width = 13", "12"),
            ("kind = 'alarms'", "kind = 'alarm'", "\"alarms\""),
            ("name = 'feeder'", "name = 'from'", "not name, from or to"),
            ("['feeder1', 'feeder2']", "[]", "1 to 256"),
            ("['feeder1', 'feeder2']", "['+']", "levels of topics"),
            ("kind = 'text'", "kind = 'diagram'", "the name of a diagram"),
        ];
        for (right, wrong, words) in cases {
            assert!(BOARD.contains(right), "{right}");
            let said = read_one(&BOARD.replace(right, wrong)).unwrap_err();
            assert!(said.contains(words), "{wrong}: {words:?} is not in\n{said}");
        }
    }

    #[test]
    fn the_boards_of_a_folder_are_read_with_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        let read = |text: &str| read_in(folder.path(), text);
        assert!(read("").unwrap().boards.is_empty());
        assert!(read("boards='none'\n").unwrap_err().contains("boards: found"));
        std::fs::create_dir(folder.path().join("boards")).unwrap();
        let write = |name: &str, text: &str| std::fs::write(folder.path().join("boards").join(name), text).unwrap();
        write("b.toml", BOARD);
        write("a.toml", BOARD);
        let boards = read("").unwrap().boards;
        assert_eq!(boards.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(boards.iter().all(|file| file.origin == Origin::Configuration));
        write("No Name.toml", BOARD);
        assert!(read("").unwrap_err().contains("a name of a-z"));
    }

    #[test]
    fn many_variables_are_refused_without_much_work() {
        let variables = "[[variable]]\nname='v'\nvalues=['a']\n".repeat(3_000);
        let topics = "'a',".repeat(30_000);
        let found = read_one(&format!("title='x'\n{variables}[[panel]]\nkind='value'\ntopics=[{topics}]\n"));
        let found = found.unwrap_err();
        assert!(found.contains("3000 variables, expected at most 8"), "{}", &found[..200]);
        assert!(found.contains("30000 topics, expected 1 to 8 topics"), "{}", &found[..200]);
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_all_that_is_wrong_has_a_place(
            pieces in prop::collection::vec(prop::sample::select(BOARD.split_inclusive(['\n', '\'', '{']).collect::<Vec<_>>()), 0..40),
            noise in "\\PC{0,20}",
        ) {
            let text = pieces.concat() + &noise;
            match BoardFile::check("x.toml", "x", text.clone(), Origin::Data) {
                Ok(file) => prop_assert_eq!(file.text, text),
                Err(found) => for one in found {
                    let lines = text.lines().count().max(1) + 1;
                    prop_assert!((1..=lines).contains(&one.line) && one.column >= 1, "{one}");
                },
            }
        }
    }
}
