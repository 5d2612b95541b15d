//! The database of a SQLite historian: one file.

use super::{Catalog, Historian, HistorianRow, Page, Survey, TableNames, places, quoted, survey, time_of};
use crate::DatabaseError;
use rusqlite::types::{Value, ValueRef};
use rusqlite::{Connection, OpenFlags, Row};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long a historian that is writing is waited for.
const BUSY: Duration = Duration::from_secs(30);

/// The database of a SQLite historian.
pub struct SqliteHistorian {
    connection: Connection,
    path: PathBuf,
    names: TableNames,
    topics: HashMap<String, usize>,
    data: String,
}

impl SqliteHistorian {
    /// Opens a file and writes nothing to it.
    ///
    /// # Errors
    /// It is not there, or no database.
    pub fn open(path: &Path, names: TableNames) -> Result<Self, DatabaseError> {
        let refused = |error| DatabaseError::Refused(format!("{}: {error}", path.display()));
        let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(refused)?;
        connection.busy_timeout(BUSY).map_err(refused)?;
        let (topics, data) = (HashMap::new(), String::new());
        Ok(Self { connection, path: path.to_path_buf(), names, topics, data })
    }

    fn refused(&self, error: &rusqlite::Error) -> DatabaseError {
        DatabaseError::Refused(format!("{}: {error}", self.path.display()))
    }

    fn read_page(&self, after: Option<&str>, rows_max: usize) -> rusqlite::Result<Page> {
        let condition = if after.is_some() { "where (ts, topic_id) > (?1, ?2)" } else { "" };
        let table = quoted(&self.data);
        let text = format!(
            "select ts, topic_id, value_string from {table} {condition} order by ts, topic_id limit {rows_max}"
        );
        let mut statement = self.connection.prepare_cached(&text)?;
        let mut found = match after {
            Some(after) => {
                let (time, id) = bounds(after);
                statement.query(rusqlite::params![time, id])?
            }
            None => statement.query([])?,
        };
        let mut page = Page::default();
        while let Some(row) = found.next()? {
            page.rows.push(self.row(row)?);
            if page.rows.len() == rows_max {
                page.next = Some(place(row)?);
            }
        }
        Ok(page)
    }

    fn row(&self, row: &Row<'_>) -> rusqlite::Result<HistorianRow> {
        let id = shown(row.get_ref(1)?);
        let time = match row.get_ref(0)? {
            ValueRef::Text(text) => time_of(&String::from_utf8_lossy(text)),
            other => Err(shown(other)),
        };
        let topic = self.topics.get(&id).copied().ok_or(id);
        Ok(HistorianRow { topic, time, value: shown(row.get_ref(2)?) })
    }
}

/// What to go on after: the kinds of the time and of the topic, the topic and the time.
fn place(row: &Row<'_>) -> rusqlite::Result<String> {
    let kind = |value| match value {
        ValueRef::Integer(_) => 'i',
        ValueRef::Real(_) => 'r',
        ValueRef::Null | ValueRef::Text(_) | ValueRef::Blob(_) => 't',
    };
    let (time, id) = (row.get_ref(0)?, row.get_ref(1)?);
    Ok(format!("{}{}{} {}", kind(time), kind(id), shown(id), shown(time)))
}

fn bounds(after: &str) -> (Value, Value) {
    let (id, time) = after.get(2..).unwrap_or_default().split_once(' ').unwrap_or_default();
    let value = |kind: Option<&str>, text: &str| match kind {
        Some("i") => Value::Integer(text.parse().unwrap_or_default()),
        Some("r") => Value::Real(text.parse().unwrap_or_default()),
        _ => Value::Text(text.to_owned()),
    };
    (value(after.get(..1), time), value(after.get(1..2), id))
}

fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "null".to_owned(),
        ValueRef::Integer(n) => n.to_string(),
        ValueRef::Real(x) => x.to_string(),
        ValueRef::Text(bytes) | ValueRef::Blob(bytes) => String::from_utf8_lossy(bytes).into_owned(),
    }
}

impl Catalog for Connection {
    fn tables(&mut self) -> Result<Vec<String>, DatabaseError> {
        let read = || -> rusqlite::Result<_> {
            let mut statement = self.prepare("select name from sqlite_master where type = 'table' order by name")?;
            statement.query_map([], |row| row.get(0))?.collect::<Result<Vec<_>, _>>()
        };
        read().map_err(|error| DatabaseError::Refused(error.to_string()))
    }

    fn columns(&mut self, table: &str) -> Result<Vec<String>, DatabaseError> {
        let read = || -> rusqlite::Result<_> {
            let mut statement = self.prepare("select name from pragma_table_info(?1)")?;
            statement.query_map([table], |row| row.get(0))?.collect::<Result<Vec<_>, _>>()
        };
        read().map_err(|error| DatabaseError::Refused(error.to_string()))
    }

    fn texts(&mut self, table: &str, columns: &[&str]) -> Result<Vec<Vec<Option<String>>>, DatabaseError> {
        let text = format!("select {} from {}", columns.join(", "), quoted(table));
        let read = || -> rusqlite::Result<_> {
            let mut statement = self.prepare(&text)?;
            let cell = |row: &Row<'_>, at: usize| {
                row.get_ref(at).map(|value| Some(value).filter(|v| *v != ValueRef::Null).map(shown))
            };
            let rows = statement.query_map([], |row| (0..columns.len()).map(|at| cell(row, at)).collect())?;
            rows.collect::<Result<Vec<_>, _>>()
        };
        read().map_err(|error| DatabaseError::Refused(format!("table {table:?}: {error}")))
    }

    fn count(&mut self, table: &str) -> Result<u64, DatabaseError> {
        let count = self.query_row(&format!("select count(*) from {}", quoted(table)), [], |row| row.get::<_, i64>(0));
        let count = count.map_err(|error| DatabaseError::Refused(format!("table {table:?}: {error}")))?;
        Ok(u64::try_from(count).unwrap_or_default())
    }
}

impl Historian for SqliteHistorian {
    fn survey(&mut self) -> Result<Survey, DatabaseError> {
        let place = self.path.display().to_string();
        let found = survey(&mut self.connection, &self.names, &place);
        let survey = found.map_err(|error| match error {
            DatabaseError::Refused(words) if !words.starts_with(&place) => {
                DatabaseError::Refused(format!("{place}: {words}"))
            }
            other => other,
        })?;
        self.topics = places(&survey);
        self.data.clone_from(&survey.tables.data);
        Ok(survey)
    }

    fn page(&mut self, after: Option<&str>, rows_max: usize) -> Result<Page, DatabaseError> {
        self.read_page(after, rows_max).map_err(|error| self.refused(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Tables;
    use super::*;

    fn made(statements: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("historian.sqlite");
        Connection::open(&path).unwrap().execute_batch(statements).unwrap();
        (folder, path)
    }

    const NEW: &str = "create table data (ts timestamp not null, topic_id integer not null, value_string text not null,
          unique(topic_id, ts));
        create table topics (topic_id integer primary key, topic_name text not null, metadata text, unique(topic_name));
        insert into topics values (1, 'a/x', '{\"units\": \"F\"}'), (2, 'a/y', null);
        insert into data values ('2020-01-01T00:00:00+00:00', 1, '1'), ('2020-01-01T00:00:00+00:00', 2, 'true'),
          ('2020-01-01 00:00:01.5', 1, '2.5'), (7, 1, '3'), (8, 1, '4'), (1.5, 2, '5'), ('2020-01-01T00:00:02+00:00', 9, '6');";

    #[test]
    fn each_row_is_read_once_whatever_the_page() {
        let (_folder, path) = made(NEW);
        for rows_max in 1..9 {
            let mut historian = SqliteHistorian::open(&path, TableNames::default()).unwrap();
            let survey = historian.survey().unwrap();
            assert_eq!((survey.rows, survey.topics.len()), (7, 2));
            assert_eq!(survey.topics[0].metadata.as_deref(), Some("{\"units\": \"F\"}"));
            let (mut rows, mut after) = (Vec::new(), None::<String>);
            loop {
                let page = historian.page(after.as_deref(), rows_max).unwrap();
                rows.extend(page.rows);
                after = page.next;
                if after.is_none() {
                    break;
                }
            }
            let values: Vec<&str> = rows.iter().map(|row| row.value.as_str()).collect();
            assert_eq!(values, ["5", "3", "4", "2.5", "1", "true", "6"], "{rows_max}");
            assert_eq!((&rows[0].time, &rows[6].topic), (&Err("1.5".to_owned()), &Err("9".to_owned())));
            assert_eq!(rows[3].time.as_ref().unwrap().to_string(), "2020-01-01T00:00:01.500Z");
        }
    }

    #[test]
    fn older_versions_have_tables_of_metadata_and_of_names() {
        let (_folder, path) = made(
            "create table p_values (ts timestamp not null, topic_id integer not null, value_string text not null);
             create table p_topics (topic_id integer primary key, topic_name text not null);
             create table p_meta (topic_id integer primary key, metadata text not null);
             create table volttron_table_definitions (table_id text primary key, table_name text not null, table_prefix text);
             insert into volttron_table_definitions values ('data_table', 'values', 'p'), ('topics_table', 'topics', 'p'),
               ('meta_table', 'meta', 'p');
             create table avg_1h (ts timestamp not null, topic_id integer not null, agg_value real not null, topics_list text);
             insert into p_topics values (3, 'a'); insert into p_meta values (3, '{}');",
        );
        let mut historian = SqliteHistorian::open(&path, TableNames::default()).unwrap();
        let survey = historian.survey().unwrap();
        let tables = Tables { data: "p_values".into(), topics: "p_topics".into(), meta: Some("p_meta".into()) };
        assert_eq!((survey.tables, survey.others), (tables, vec![("avg_1h".to_owned(), "aggregates")]));
        assert_eq!(survey.topics[0].metadata.as_deref(), Some("{}"));
    }

    #[test]
    fn what_is_no_historian_is_said() {
        let (folder, path) = made("create table p_data (ts); create table p_topics (topic_id);");
        let error = SqliteHistorian::open(&path, TableNames::default()).unwrap().survey().unwrap_err();
        assert!(
            error.words().contains("has no table \"data\"") && error.words().ends_with("try --table-prefix p"),
            "{error}"
        );
        let other = folder.path().join("other");
        std::fs::write(&other, "no database ".repeat(100)).unwrap();
        let found = SqliteHistorian::open(&other, TableNames::default()).and_then(|mut found| found.survey());
        assert!(found.unwrap_err().words().contains("not a database"));
        assert!(SqliteHistorian::open(&folder.path().join("none"), TableNames::default()).is_err());
    }
}
