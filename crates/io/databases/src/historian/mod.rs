//! Databases of VOLTTRON's historians, read page by page.
//!
//! ```text
//!  topics   topic_id, topic_name [, metadata]     metadata of older versions: table meta, topic_id and metadata
//!  data     ts, topic_id, value_string            one value, as JSON, for each topic and time (UTC)
//! ```
//!
//! Names of tables may have a prefix. Older versions have them in the table `volttron_table_definitions`.

#[cfg(feature = "mongodb")]
mod mongo;
#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;

use crate::DatabaseError;
#[cfg(feature = "mongodb")]
pub use mongo::MongoHistorian;
#[cfg(feature = "postgres")]
pub use postgres::PostgresHistorian;
pub use sqlite::SqliteHistorian;
use std::collections::HashMap;
use tieline_core::Timestamp;

/// Topics that are read; a database with more is none of a historian.
const TOPICS_MAX: usize = 10_000_000;
/// Other tables that are named.
const OTHERS_MAX: usize = 1000;
/// The table in which older versions note the names of tables.
const DEFINITIONS: &str = "volttron_table_definitions";

/// Names of tables as they are asked for; none is the usual name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableNames {
    /// What comes before all names, without the underscore behind it.
    pub prefix: Option<String>,
    /// The table of values.
    pub data: Option<String>,
    /// The table of topics.
    pub topics: Option<String>,
    /// The table of metadata, where topics have none.
    pub meta: Option<String>,
}

/// Names of tables as they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    /// The table of values.
    pub data: String,
    /// The table of topics.
    pub topics: String,
    /// The table of metadata; none where topics have theirs, or there is none.
    pub meta: Option<String>,
}

/// What a database has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// Its tables.
    pub tables: Tables,
    /// All topics.
    pub topics: Vec<HistorianTopic>,
    /// Values.
    pub rows: u64,
    /// Tables that are not read, with what they are.
    pub others: Vec<(String, &'static str)>,
}

/// A topic of a historian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistorianTopic {
    /// Its number in the database.
    pub id: String,
    /// Its name.
    pub name: String,
    /// JSON, as in `{"units": "F", "type": "float"}`.
    pub metadata: Option<String>,
}

/// A value of a historian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HistorianRow {
    /// The topic's place in the survey, or a number that no topic has.
    pub topic: Result<usize, String>,
    /// When, or what is no time.
    pub time: Result<Timestamp, String>,
    /// What, as JSON.
    pub value: String,
}

/// Values that follow one another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// The values.
    pub rows: Vec<HistorianRow>,
    /// What to go on after; none at the end.
    pub next: Option<String>,
}

/// A database of a historian.
pub trait Historian {
    /// Finds the tables and the topics.
    ///
    /// # Errors
    /// It cannot be reached, or is no database of a historian.
    fn survey(&mut self) -> Result<Survey, DatabaseError>;

    /// Reads values after a place that a page has named; none is the first.
    ///
    /// # Errors
    /// It cannot be reached or read.
    fn page(&mut self, after: Option<&str>, rows_max: usize) -> Result<Page, DatabaseError>;
}

/// What a kind of database tells of its tables.
trait Catalog {
    /// Names of all tables.
    fn tables(&mut self) -> Result<Vec<String>, DatabaseError>;
    /// Names of the columns of a table.
    fn columns(&mut self, table: &str) -> Result<Vec<String>, DatabaseError>;
    /// The texts of two or three columns of all rows.
    fn texts(&mut self, table: &str, columns: &[&str]) -> Result<Vec<Vec<Option<String>>>, DatabaseError>;
    /// How many rows a table has.
    fn count(&mut self, table: &str) -> Result<u64, DatabaseError>;
}

fn survey(catalog: &mut dyn Catalog, names: &TableNames, place: &str) -> Result<Survey, DatabaseError> {
    let there = catalog.tables()?;
    let names = &defined(catalog, names, &there)?;
    let (data, topics, meta) = full_names(names, place, &there)?;
    let has_metadata = catalog.columns(&topics)?.iter().any(|column| column == "metadata");
    let meta = Some(meta).filter(|meta| !has_metadata && there.contains(meta));
    let tables = Tables { data, topics, meta };
    let topics = read_topics(catalog, &tables, has_metadata)?;
    let mut others = Vec::new();
    for table in there.iter().filter(|name| ![&tables.data, &tables.topics].contains(name)).take(OTHERS_MAX) {
        let is_known = tables.meta.as_ref() == Some(table) || table == DEFINITIONS || table.starts_with("sqlite_");
        if !is_known {
            let columns = catalog.columns(table)?;
            let is_aggregate = columns.iter().any(|column| column == "agg_value" || column == "agg_topic_id");
            others.push((table.clone(), if is_aggregate { "aggregates" } else { "no table of this historian" }));
        }
    }
    let rows = catalog.count(&tables.data)?;
    Ok(Survey { tables, topics, rows, others })
}

/// The names that older versions noted, where none was asked for.
fn defined(catalog: &mut dyn Catalog, names: &TableNames, there: &[String]) -> Result<TableNames, DatabaseError> {
    if names != &TableNames::default() || !there.iter().any(|name| name == DEFINITIONS) {
        return Ok(names.clone());
    }
    let mut found = TableNames::default();
    for row in catalog.texts(DEFINITIONS, &["table_id", "table_name", "table_prefix"])? {
        let [Some(id), name, prefix] = row.as_slice() else { continue };
        match id.as_str() {
            "data_table" => (found.data, found.prefix) = (name.clone(), prefix.clone()),
            "topics_table" => found.topics.clone_from(name),
            "meta_table" => found.meta.clone_from(name),
            _ => {}
        }
    }
    found.prefix = prefix_of(&found, there);
    Ok(found)
}

/// The prefix that was noted, where the names that were noted do not have it already.
fn prefix_of(noted: &TableNames, there: &[String]) -> Option<String> {
    let data = noted.data.as_deref().unwrap_or_default();
    noted.prefix.clone().filter(|prefix| !prefix.is_empty() && there.contains(&format!("{prefix}_{data}")))
}

/// Names of the tables of values, topics and metadata; the first two are there.
fn full_names(names: &TableNames, place: &str, there: &[String]) -> Result<(String, String, String), DatabaseError> {
    let prefix = names.prefix.as_deref().filter(|prefix| !prefix.is_empty());
    let full = |name: &Option<String>, usual: &str| {
        let name = name.as_deref().unwrap_or(usual);
        prefix.map_or_else(|| name.to_owned(), |prefix| format!("{prefix}_{name}"))
    };
    let (data, topics, meta) = (full(&names.data, "data"), full(&names.topics, "topics"), full(&names.meta, "meta"));
    if let Some(name) = [&data, &topics].into_iter().find(|name| !there.contains(name)) {
        return Err(DatabaseError::Refused(absent(name, place, there)));
    }
    Ok((data, topics, meta))
}

fn absent(name: &str, place: &str, there: &[String]) -> String {
    let shown = there.iter().take(20).map(String::as_str).collect::<Vec<_>>().join(", ");
    let prefix = there.iter().filter_map(|name| name.strip_suffix("_topics")).find(|prefix| {
        let data = format!("{prefix}_data");
        there.contains(&data)
    });
    let hint = prefix.map(|prefix| format!("; try --table-prefix {prefix}")).unwrap_or_default();
    let shown = if shown.is_empty() { "none".to_owned() } else { shown };
    format!("{place} has no table {name:?}, expected those of a historian; there are: {shown}{hint}")
}

fn read_topics(
    catalog: &mut dyn Catalog,
    tables: &Tables,
    has_metadata: bool,
) -> Result<Vec<HistorianTopic>, DatabaseError> {
    let columns: &[&str] =
        if has_metadata { &["topic_id", "topic_name", "metadata"] } else { &["topic_id", "topic_name"] };
    let mut of_table = HashMap::new();
    if let Some(meta) = &tables.meta {
        for row in catalog.texts(meta, &["topic_id", "metadata"])? {
            if let [Some(id), Some(metadata)] = row.as_slice() {
                of_table.insert(id.clone(), metadata.clone());
            }
        }
    }
    let topic = |row: Vec<Option<String>>| {
        let mut row = row.into_iter();
        let (id, name) = (row.next().flatten()?, row.next().flatten().unwrap_or_default());
        let metadata = row.next().flatten().or_else(|| of_table.remove(&id));
        Some(HistorianTopic { id, name, metadata })
    };
    let topics: Vec<HistorianTopic> = catalog.texts(&tables.topics, columns)?.into_iter().filter_map(topic).collect();
    if topics.len() > TOPICS_MAX {
        return Err(DatabaseError::Refused(format!("{} topics, expected {TOPICS_MAX} at most", topics.len())));
    }
    Ok(topics)
}

/// The places of topics by their numbers.
fn places(survey: &Survey) -> HashMap<String, usize> {
    survey.topics.iter().enumerate().map(|(at, topic)| (topic.id.clone(), at)).collect()
}

/// A time as historians write it; without an offset it is UTC.
fn time_of(text: &str) -> Result<Timestamp, String> {
    let trimmed = text.trim();
    let clock = trimmed.get(10..).unwrap_or_default();
    let has_offset = clock.ends_with(['Z', 'z']) || clock.contains(['+', '-']);
    let parsed = if has_offset { trimmed.parse() } else { format!("{trimmed}Z").parse() };
    parsed.map_err(|_| text.to_owned())
}

/// A name as SQL has it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
