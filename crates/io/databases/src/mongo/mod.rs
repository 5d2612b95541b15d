//! MongoDB's protocol: documents of a topic and an hour, and a document of the position.
//!
//! ```text
//!  samples    _id "JOURNAL/START/EPOCH/N"   journal, start, epoch    which batch wrote it, and which connection
//!             topic, hour, first, last      t[], v[] [, us[]] [, q[], reasons[]]
//!  positions  _id JOURNAL                   seq, epoch, from, from_epoch
//! ```
//!
//! There are no transactions: a batch is documents, then the position. What is there behind the position was written by a batch that was
//! interrupted, and a connection removes it before it writes. Each connection has a number, its epoch, and notes it in the position: an
//! older connection cannot move the position any more. The documents of an older connection may still come, from a server that hung: a
//! batch that was written again is where they would be. After the first batches, and once more when none can come any more, documents of
//! other epochs are removed there.

pub(crate) mod bson;
pub(crate) mod connection;
mod documents;
mod scram;

use crate::http::read_secret;
use crate::tls::LoadTls;
use crate::{Database, DatabaseError, Row, time_for};
use bson::{Bson, Document, Writer};
use connection::{Address, Connection, blame};
use documents::{Documents, sample_of};
use std::collections::HashSet;
use std::fs::File;
use std::io::Read as _;
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

#[doc(hidden)]
pub mod fuzz;

/// How long documents of an older connection may come, beyond the time-out.
const LATE: Duration = Duration::from_secs(60);
/// Documents that are read at once.
const PAGE: i32 = 200;

/// How a server is reached, and what is made in it.
#[derive(Clone)]
pub struct MongoOptions {
    /// Hosts and ports: the first is used that takes writes.
    pub hosts: Vec<(String, u16)>,
    /// Who writes.
    pub user: Option<String>,
    /// The file of the password, read at each connection.
    pub password_file: Option<PathBuf>,
    /// The database that has the user.
    pub auth_database: String,
    /// The database.
    pub database: String,
    /// The collection of samples; that of positions has `_positions` behind it.
    pub collection: String,
    /// The longest time for an answer.
    pub timeout: Duration,
    /// TLS; none is without.
    pub tls: Option<LoadTls>,
}

/// A database that speaks MongoDB's protocol.
pub struct Mongo {
    options: MongoOptions,
    session: Option<Session>,
    documents: Documents,
}

/// A connection, and where it is.
struct Session {
    connection: Connection,
    journal: String,
    epoch: i64,
    /// Where the next batch begins.
    start: i64,
    /// Where the first batch of the connection began.
    first: i64,
    /// When documents of older connections are looked for there, the next one last; none where there was no older one.
    looks: Vec<Instant>,
}

/// What a position says.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Position {
    seq: Option<i64>,
    /// Where the last connection began that came so far, and its number.
    from: Option<(i64, i64)>,
}

impl Mongo {
    /// Nothing is sent before the first call.
    #[must_use]
    pub fn new(options: MongoOptions) -> Self {
        Self { options, session: None, documents: Documents::default() }
    }

    fn open(&self, journal: &str) -> Result<(Session, Position), DatabaseError> {
        let options = &self.options;
        let secret = options.password_file.as_deref().map(read_secret).transpose();
        let address = Address {
            hosts: options.hosts.clone(),
            user: options.user.clone(),
            password: secret.map_err(|error| DatabaseError::Refused(error.to_string()))?,
            auth_database: options.auth_database.clone(),
            tls: options.tls.clone(),
            timeout: options.timeout,
        };
        let mut connection = Connection::open(&address, true)?;
        let epoch = random()?;
        let mut command = Writer::default();
        command.begin().text("findAndModify", &positions(options)).document("query").text("_id", journal).end();
        command.document("update").document("$set").int64("epoch", epoch).end().end();
        command.bool("upsert", true).bool("new", false);
        end(&mut command, options);
        let found = connection.ask(command.bytes(), None, Duration::ZERO)?;
        let found = found.get("value").and_then(Bson::document);
        let whole = |name| found.and_then(|found: Document<'_>| found.get(name)).and_then(Bson::int);
        let position = Position { seq: whole("seq"), from: whole("from").zip(whole("from_epoch")) };
        let is_new = found.is_none();
        if position.seq.is_none() {
            make_indexes(&mut connection, options)?;
        }
        let start = position.seq.map_or(0, |seq| seq.saturating_add(1));
        let now = Instant::now();
        let looks = if is_new { Vec::new() } else { vec![now + options.timeout + LATE, now, now] };
        let session = Session { connection, journal: journal.to_owned(), epoch, start, first: start, looks };
        Ok((session, position))
    }
}

impl Session {
    /// Removes what an interrupted batch left, and notes where this connection begins.
    fn clean(&mut self, options: &MongoOptions, position: Position) -> Result<(), DatabaseError> {
        let start = self.start;
        self.remove(options, |query| {
            query.document("start").int64("$gte", start).end();
        })?;
        if let Some((from, epoch)) = position.from.filter(|(from, _)| *from < start) {
            self.remove_others(options, from, epoch)?;
        }
        // Both together: a connection that breaks before here has none, and what an older one wrote is not its own.
        let epoch = self.epoch;
        self.note(options, |set| {
            set.int64("from", start).int64("from_epoch", epoch);
        })
    }

    fn remove_others(&mut self, options: &MongoOptions, start: i64, epoch: i64) -> Result<(), DatabaseError> {
        self.remove(options, |query| {
            query.int64("start", start).document("epoch").int64("$ne", epoch).end();
        })
    }

    fn remove(&mut self, options: &MongoOptions, query: impl FnOnce(&mut Writer)) -> Result<(), DatabaseError> {
        let mut command = Writer::default();
        command.begin().text("delete", &options.collection).array("deletes").document("0").document("q");
        command.text("journal", &self.journal);
        query(&mut command);
        command.end().int32("limit", 0).end().end();
        end(&mut command, options);
        checked(self.connection.ask(command.bytes(), None, LATE)?).map(drop)
    }

    /// Changes the position, where it is still that of this connection.
    fn note(&mut self, options: &MongoOptions, set: impl FnOnce(&mut Writer)) -> Result<(), DatabaseError> {
        let mut command = Writer::default();
        command.begin().text("update", &positions(options)).array("updates").document("0");
        command.document("q").text("_id", &self.journal).int64("epoch", self.epoch).end();
        command.document("u").document("$set");
        set(&mut command);
        command.end().end().end().end();
        end(&mut command, options);
        match checked(self.connection.ask(command.bytes(), None, Duration::ZERO)?)? {
            0 => {
                let words = "the position is not what it was: another process writes, or the database was restored";
                Err(DatabaseError::Away(words.to_owned()))
            }
            _ => Ok(()),
        }
    }

    fn write(
        &mut self,
        options: &MongoOptions,
        documents: &mut Documents,
        rows: &[Row],
        upto: i64,
    ) -> Result<(), DatabaseError> {
        let mut there = HashSet::new();
        for (topic, hour) in Documents::again(rows) {
            self.read_samples(options, topic, hour, &mut there)?;
        }
        documents.make(rows, &there, &self.journal, self.start, self.epoch);
        for bytes in documents.messages() {
            let mut command = Writer::default();
            command.begin().text("insert", &options.collection).bool("ordered", true);
            end(&mut command, options);
            let answer = self.connection.ask(command.bytes(), Some(("documents", bytes)), time_for(rows))?;
            checked(answer)?;
        }
        if self.looks.last().is_some_and(|at| *at <= Instant::now()) {
            self.looks.pop();
            self.remove_others(options, self.first, self.epoch)?;
        }
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        self.note(options, |set| {
            set.int64("seq", upto).date("written", i64::try_from(now.as_millis()).unwrap_or(i64::MAX));
        })?;
        self.start = upto.saturating_add(1);
        Ok(())
    }

    /// The samples of a topic and an hour that are there, each as bytes that are equal where they are.
    fn read_samples(
        &mut self,
        options: &MongoOptions,
        topic: &str,
        hour: i64,
        there: &mut HashSet<Vec<u8>>,
    ) -> Result<(), DatabaseError> {
        let mut after = String::new();
        loop {
            let mut command = Writer::default();
            command.begin().text("find", &options.collection).document("filter").text("topic", topic);
            command.date("hour", hour).document("_id").text("$gt", &after).end().end();
            command.document("sort").int32("_id", 1).end().int32("limit", PAGE).int32("batchSize", PAGE);
            command.bool("singleBatch", true).text("$db", &options.database).end();
            let answer = self.connection.ask(command.bytes(), None, LATE)?;
            let found = first_batch(answer);
            let mut last = None;
            for document in found {
                sample_of(document, there);
                last = document.get("_id").and_then(Bson::text).map(str::to_owned);
            }
            match last {
                Some(last) => after = last,
                None => return Ok(()),
            }
        }
    }
}

impl Database for Mongo {
    fn connect(&mut self, journal: &str) -> Result<Option<u64>, DatabaseError> {
        self.session = None;
        let (mut session, position) = self.open(journal)?;
        if !session.looks.is_empty() {
            session.clean(&self.options, position)?;
        }
        self.session = Some(session);
        Ok(position.seq.and_then(|seq| u64::try_from(seq).ok()))
    }

    fn write(&mut self, rows: &[Row], upto: u64) -> Result<u64, DatabaseError> {
        let Some(mut session) = self.session.take() else {
            return Err(DatabaseError::Away("there is no connection".to_owned()));
        };
        let upto = i64::try_from(upto).map_err(|_| DatabaseError::Refused("a sequence beyond 2^63".to_owned()))?;
        session.write(&self.options, &mut self.documents, rows, upto)?;
        self.session = Some(session);
        Ok(0)
    }
}

/// Makes the indexes that are not there.
fn make_indexes(connection: &mut Connection, options: &MongoOptions) -> Result<(), DatabaseError> {
    let mut command = Writer::default();
    command.begin().text("listIndexes", &options.collection).text("$db", &options.database).end();
    let there: HashSet<String> = match connection.ask(command.bytes(), None, Duration::ZERO) {
        Ok(answer) => {
            let name = |index: Document<'_>| index.get("name").and_then(Bson::text).map(str::to_owned);
            first_batch(answer).filter_map(name).collect()
        }
        // There is no such collection.
        Err(DatabaseError::Refused(words)) if words.contains(" 26:") => HashSet::new(),
        Err(error) => return Err(error),
    };
    for (name, keys) in [("by_batch", ["journal", "start"]), ("by_topic", ["topic", "hour"])] {
        if there.contains(name) {
            continue;
        }
        command.clear();
        command.begin().text("createIndexes", &options.collection).array("indexes").document("0").document("key");
        for key in keys {
            command.int32(key, 1);
        }
        command.end().text("name", name).end().end().text("$db", &options.database).end();
        connection.ask(command.bytes(), None, LATE)?;
    }
    Ok(())
}

fn positions(options: &MongoOptions) -> String {
    format!("{}_positions", options.collection)
}

/// Ends a command that writes: it is answered when a majority has it.
fn end(command: &mut Writer, options: &MongoOptions) {
    command.document("writeConcern").text("w", "majority").end().text("$db", &options.database).end();
}

/// How many documents a command concerned; the first of its errors.
fn checked(answer: Document<'_>) -> Result<i64, DatabaseError> {
    let fails = |error: Document<'_>| {
        let code = error.get("code").and_then(Bson::int).unwrap_or_default();
        blame(code, error.get("errmsg").and_then(Bson::text).unwrap_or("it failed"))
    };
    if let Some(Bson::Array(errors)) = answer.get("writeErrors")
        && let Some(Ok((_, Bson::Document(error)))) = errors.iter().next()
    {
        return Err(fails(error));
    }
    if let Some(Bson::Document(error)) = answer.get("writeConcernError") {
        return Err(DatabaseError::Away(fails(error).words().to_owned()));
    }
    Ok(answer.get("n").and_then(Bson::int).unwrap_or_default())
}

/// The documents of an answer to `find`.
pub(crate) fn first_batch(answer: Document<'_>) -> impl Iterator<Item = Document<'_>> {
    let batch = answer.get("cursor").and_then(Bson::document).and_then(|cursor| cursor.get("firstBatch"));
    let elements = if let Some(Bson::Array(batch)) = batch { Some(batch.iter()) } else { None };
    elements.into_iter().flatten().filter_map(|element| element.ok()?.1.document())
}

fn random() -> Result<i64, DatabaseError> {
    let mut bytes = [0; 8];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_err(|error| DatabaseError::Refused(error.to_string()))?;
    Ok(i64::from_le_bytes(bytes) & i64::MAX)
}
