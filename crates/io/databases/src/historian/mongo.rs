//! The database of a MongoDB historian: collections where others have tables.
//!
//! ```text
//!  topics   _id, topic_name         meta   topic_id, meta: a document, the newest last
//!  data     _id, ts (UTC), topic_id, source, value; an object is {"__volttron_type__": "json", "string_value": "…"}
//! ```

use super::{
    DEFINITIONS, Historian, HistorianRow, HistorianTopic, OTHERS_MAX, Page, Survey, TOPICS_MAX, TableNames, Tables,
};
use crate::DatabaseError;
use crate::http::read_secret;
use crate::mongo::bson::{Bson, Document, Writer};
use crate::mongo::connection::{Address, Connection};
use crate::mongo::first_batch;
use crate::tls::LoadTls;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;
use tieline_core::Timestamp;

/// The longest time for an answer.
const TIMEOUT: Duration = Duration::from_secs(600);
/// Documents of topics and of metadata that are read at once.
const PAGE: usize = 1000;
/// The port of MongoDB.
const PORT: u16 = 27017;
/// Nested values that are told as JSON.
const DEPTH_MAX: usize = 32;

/// The database of a MongoDB historian.
pub struct MongoHistorian {
    connection: Connection,
    database: String,
    names: TableNames,
    topics: HashMap<String, usize>,
    data: String,
}

impl MongoHistorian {
    /// Connects to an address as in `mongodb://user@host:27017/volttron`. TLS is used where the address says `tls=true`.
    ///
    /// # Errors
    /// The address is none, or the database cannot be reached.
    pub fn connect(
        address: &str,
        password_file: Option<&Path>,
        load: LoadTls,
        names: TableNames,
    ) -> Result<Self, DatabaseError> {
        let refused = |words: &str| DatabaseError::Refused(format!("{words}, expected mongodb://user@host:27017/name"));
        let rest = address.strip_prefix("mongodb://").ok_or_else(|| refused("no address of MongoDB"))?;
        let (rest, options) = rest.split_once('?').unwrap_or((rest, ""));
        let (authority, database) = rest.rsplit_once('/').ok_or_else(|| refused("no name of a database"))?;
        let (credentials, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (user, password) = credentials.split_once(':').unwrap_or((credentials, ""));
        let option = |name: &str| options.split('&').find_map(|option| option.strip_prefix(name)?.strip_prefix('='));
        let hosts = hosts.split(',').map(|host| match host.rsplit_once(':') {
            Some((host, port)) => Some((host.to_owned(), port.parse().ok()?)),
            None => Some((host.to_owned(), PORT)),
        });
        let hosts: Option<Vec<_>> = hosts.collect();
        let password = match password_file {
            Some(file) => read_secret(file).map_err(|error| DatabaseError::Refused(error.to_string()))?,
            None => password.to_owned(),
        };
        let is_tls = ["tls", "ssl"].iter().any(|name| option(name) == Some("true"));
        let address = Address {
            hosts: hosts.filter(|_| !database.is_empty()).ok_or_else(|| refused("no host or no name"))?,
            user: (!user.is_empty()).then(|| user.to_owned()),
            password: Some(password),
            auth_database: option("authSource").unwrap_or(database).to_owned(),
            tls: is_tls.then_some(load),
            timeout: TIMEOUT,
        };
        let connection = Connection::open(&address, false)?;
        let (topics, data, database) = (HashMap::new(), String::new(), database.to_owned());
        Ok(Self { connection, database, names, topics, data })
    }

    fn collections(&mut self) -> Result<Vec<String>, DatabaseError> {
        let mut command = Writer::default();
        command
            .begin()
            .int32("listCollections", 1)
            .bool("nameOnly", true)
            .document("cursor")
            .int32("batchSize", 10_000);
        command.end().text("$db", &self.database).end();
        let answer = self.connection.ask(command.bytes(), None, Duration::ZERO)?;
        let name = |document: Document<'_>| document.get("name").and_then(Bson::text).map(str::to_owned);
        let mut all: Vec<String> = first_batch(answer).filter_map(name).collect();
        all.sort();
        Ok(all)
    }

    /// Gives documents in the order of their numbers, after one, and returns the number of the last.
    fn find(
        &mut self,
        collection: &str,
        after: Option<[u8; 12]>,
        limit: usize,
        mut take: impl FnMut(Document<'_>),
    ) -> Result<Option<[u8; 12]>, DatabaseError> {
        let limit = i32::try_from(limit).unwrap_or(i32::MAX);
        let mut command = Writer::default();
        command.begin().text("find", collection).document("filter");
        if let Some(after) = after {
            command.document("_id").object_id("$gt", after).end();
        }
        command.end().document("sort").int32("_id", 1).end().int32("limit", limit).int32("batchSize", limit);
        command.bool("singleBatch", true).text("$db", &self.database).end();
        let answer = self.connection.ask(command.bytes(), None, Duration::ZERO)?;
        let mut last = None;
        for document in first_batch(answer) {
            let Some(Bson::ObjectId(id)) = document.get("_id") else {
                return Err(DatabaseError::Refused(format!("a document of {collection:?} has no _id of a historian")));
            };
            last = Some(id);
            take(document);
        }
        Ok(last)
    }

    /// Gives all documents.
    fn all(&mut self, collection: &str, mut take: impl FnMut(Document<'_>)) -> Result<(), DatabaseError> {
        let mut after = None;
        loop {
            after = self.find(collection, after, PAGE, &mut take)?;
            if after.is_none() {
                return Ok(());
            }
        }
    }

    fn tables(&mut self, there: &[String]) -> Result<Tables, DatabaseError> {
        let mut names = self.names.clone();
        if names == TableNames::default() && there.iter().any(|name| name == DEFINITIONS) {
            let mut found = TableNames::default();
            self.all(DEFINITIONS, |document| {
                let text = |name| document.get(name).and_then(Bson::text).map(str::to_owned);
                match text("table_id").as_deref() {
                    Some("data_table") => (found.data, found.prefix) = (text("table_name"), text("table_prefix")),
                    Some("topics_table") => found.topics = text("table_name"),
                    Some("meta_table") => found.meta = text("table_name"),
                    _ => {}
                }
            })?;
            found.prefix = super::prefix_of(&found, there);
            names = found;
        }
        let place = format!("the database {:?}", self.database);
        let (data, topics, meta) = super::full_names(&names, &place, there)?;
        Ok(Tables { data, topics, meta: Some(meta).filter(|meta| there.contains(meta)) })
    }
}

impl Historian for MongoHistorian {
    fn survey(&mut self) -> Result<Survey, DatabaseError> {
        let there = self.collections()?;
        let tables = self.tables(&there)?;
        let mut metadata = HashMap::new();
        if let Some(meta) = &tables.meta {
            self.all(meta, |document| {
                if let (Some(id), Some(Bson::Document(meta))) =
                    (document.get("topic_id").and_then(id_of), document.get("meta"))
                {
                    let mut text = String::new();
                    push_json(&mut text, Bson::Document(meta), DEPTH_MAX);
                    metadata.insert(id, text);
                }
            })?;
        }
        let mut topics = Vec::new();
        self.all(&tables.topics, |document| {
            let name = document.get("topic_name").and_then(Bson::text).unwrap_or_default().to_owned();
            if let Some(id) = document.get("_id").and_then(id_of)
                && topics.len() < TOPICS_MAX
            {
                topics.push(HistorianTopic { metadata: metadata.remove(&id), id, name });
            }
        })?;
        let mut command = Writer::default();
        command.begin().text("count", &tables.data).text("$db", &self.database).end();
        let rows = self.connection.ask(command.bytes(), None, Duration::ZERO)?.get("n").and_then(Bson::int);
        let is_other = |name: &&String| {
            let ours = [&tables.data, &tables.topics].contains(name) || tables.meta.as_ref() == Some(name);
            !ours && *name != DEFINITIONS && !name.starts_with("system.")
        };
        let what = |name: &String| {
            let is_aggregate =
                name.contains("aggregate_") || name.contains("hourly_data") || name.contains("daily_data");
            (name.clone(), if is_aggregate { "aggregates" } else { "no table of this historian" })
        };
        let others = there.iter().filter(is_other).take(OTHERS_MAX).map(what).collect();
        let rows = u64::try_from(rows.unwrap_or_default()).unwrap_or_default();
        self.data.clone_from(&tables.data);
        let survey = Survey { tables, topics, rows, others };
        self.topics = super::places(&survey);
        Ok(survey)
    }

    fn page(&mut self, after: Option<&str>, rows_max: usize) -> Result<Page, DatabaseError> {
        let after = match after {
            Some(text) => Some(from_hex(text).ok_or_else(|| DatabaseError::Refused(format!("{text:?} is no _id")))?),
            None => None,
        };
        let (data, topics) = (std::mem::take(&mut self.data), std::mem::take(&mut self.topics));
        let mut rows = Vec::new();
        let last = self.find(&data, after, rows_max, |document| {
            let id = document.get("topic_id").and_then(id_of).unwrap_or_default();
            let time = match document.get("ts") {
                Some(Bson::Date(millis)) => Ok(Timestamp::from_millis(millis)),
                _ => Err("no date".to_owned()),
            };
            let value = document.get("value").map_or_else(|| "null".to_owned(), value_of);
            rows.push(HistorianRow { topic: topics.get(&id).copied().ok_or(id), time, value });
        });
        (self.data, self.topics) = (data, topics);
        Ok(Page { rows, next: last?.map(hex) })
    }
}

fn id_of(value: Bson<'_>) -> Option<String> {
    match value {
        Bson::ObjectId(id) => Some(hex(id)),
        Bson::Text(text) => Some(text.to_owned()),
        other => other.int().map(|n| n.to_string()),
    }
}

fn hex(id: [u8; 12]) -> String {
    id.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn from_hex(text: &str) -> Option<[u8; 12]> {
    let number = u128::from_str_radix(text, 16).ok().filter(|_| text.len() == 24)?;
    number.to_be_bytes().get(4..)?.try_into().ok()
}

/// A value as JSON; objects are texts of JSON there.
fn value_of(value: Bson<'_>) -> String {
    if let Bson::Document(document) = value
        && document.get("__volttron_type__").and_then(Bson::text) == Some("json")
        && let Some(text) = document.get("string_value").and_then(Bson::text)
    {
        return text.to_owned();
    }
    let mut text = String::new();
    push_json(&mut text, value, DEPTH_MAX);
    text
}

fn push_json(out: &mut String, value: Bson<'_>, depth: usize) {
    let (document, ends) = match value {
        Bson::Document(document) if depth > 0 => (document, ['{', '}']),
        Bson::Array(document) if depth > 0 => (document, ['[', ']']),
        Bson::Text(text) => return push_text(out, text),
        Bson::Double(x) if x.is_nan() => return out.push_str("NaN"),
        Bson::Double(x) if x.is_infinite() => return out.push_str(if x > 0.0 { "Infinity" } else { "-Infinity" }),
        other => {
            let _ = match other {
                Bson::Double(x) => write!(out, "{x:?}"),
                Bson::Int32(n) => write!(out, "{n}"),
                Bson::Int64(n) => write!(out, "{n}"),
                Bson::Bool(truth) => write!(out, "{truth}"),
                Bson::Date(millis) => write!(out, "\"{}\"", Timestamp::from_millis(millis)),
                Bson::ObjectId(id) => write!(out, "\"{}\"", hex(id)),
                _ => write!(out, "null"),
            };
            return;
        }
    };
    out.push(ends[0]);
    for (number, (name, value)) in document.iter().map_while(Result::ok).enumerate() {
        if number > 0 {
            out.push_str(", ");
        }
        if ends[0] == '{' {
            push_text(out, name);
            out.push_str(": ");
        }
        push_json(out, value, depth - 1);
    }
    out.push(ends[1]);
}

fn push_text(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if c < ' ' => drop(write!(out, "\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_json() {
        let mut writer = Writer::default();
        writer.begin().double("a", 5.0).text("b", "x\"\n").array("c").int32("0", 1).bool("1", true).null("2").end();
        writer.document("d").double("e", f64::NAN).end().end();
        let (document, _) = Document::read(writer.bytes()).unwrap();
        let expect = r#"{"a": 5.0, "b": "x\"\u000a", "c": [1, true, null], "d": {"e": NaN}}"#;
        assert_eq!(value_of(Bson::Document(document)), expect);
        writer.clear();
        writer.begin().text("__volttron_type__", "json").text("string_value", "{\"a\": 1}").end();
        let (document, _) = Document::read(writer.bytes()).unwrap();
        assert_eq!(value_of(Bson::Document(document)), "{\"a\": 1}");
        let id = *b"\0\x01\x02456789\xff\xfe\xfd";
        assert_eq!((from_hex(&hex(id)), from_hex("12")), (Some(id), None));
    }
}
