//! MariaDB and MySQL: a batch and the position behind it are one transaction of InnoDB.
//!
//! Samples go by LOAD DATA from this process, sorted by topic and time, or by INSERT where the server refuses that. Both change errors
//! of values to warnings: a batch whose counts are not what they should be is rolled back. The position is written only where it is still
//! what this connection has read: of two that write at once, and after a database was restored, one is refused and reads it again.

mod blame;
mod layout;
mod rows;

use crate::http::read_secret;
use crate::sql::{CONNECT_TIMEOUT, TOPICS_MAX, name_of, run, runtime_of, today};
use crate::{Database, DatabaseError, Row, time_for};
use blame::blame;
use bytes::{Bytes, BytesMut};
use futures_util::stream;
use hashbrown::HashMap;
use mysql_async::prelude::Queryable as _;
use mysql_async::{Conn, Error, Opts, OptsBuilder, SslOpts};
use rows::{Columns, Lines, quote};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tieline_core::Topic;
use tokio::runtime::Runtime;
use tracing::debug;

/// Rows of one INSERT, and its bytes but for a row that is longer.
const INSERT_ROWS: usize = 1000;
const INSERT_BYTES: usize = 1 << 20;
/// Names of topics in one statement.
const NAMES_MAX: usize = 1000;
/// Errors of servers that take no LOAD DATA from clients.
const NO_LOAD: [u16; 3] = [1148, 3948, 4166];
/// How often it is seen to that the next days have partitions.
const PARTITIONS_EVERY: Duration = Duration::from_secs(3600);

/// How a database is reached.
#[derive(Clone)]
pub struct MariadbOptions {
    /// Hosts and ports: the first is used that can be written to. A path is a Unix socket.
    pub hosts: Vec<(String, u16)>,
    /// Who writes.
    pub user: String,
    /// The file of the password, read at each connection.
    pub password_file: Option<PathBuf>,
    /// The database of all tables.
    pub database: String,
    /// The longest time for a batch.
    pub timeout: Duration,
    /// TLS; none is without.
    pub tls: Option<LoadAuthorities>,
}

/// Reads the certificates of trusted authorities (DER), at each connection: they are renewed.
pub type LoadAuthorities = Arc<dyn Fn() -> Result<Vec<Vec<u8>>, String> + Send + Sync>;

/// A database of MariaDB or MySQL.
pub struct Mariadb {
    options: MariadbOptions,
    session: Option<Session>,
    runtime: Option<Runtime>,
}

/// A connection, and what is known of the database since it was made.
struct Session {
    conn: Conn,
    journal: String,
    position: Option<u64>,
    topics: HashMap<Topic, u32>,
    /// Whether the server takes LOAD DATA from clients.
    loads: bool,
    /// When partitions are looked at again.
    look: Instant,
    timeout: u64,
}

impl Mariadb {
    /// Nothing is sent before the first call.
    #[must_use]
    pub const fn new(options: MariadbOptions) -> Self {
        Self { options, session: None, runtime: None }
    }

    fn opts(&self, host: &str, port: u16, journal: &str) -> Result<Opts, DatabaseError> {
        let options = &self.options;
        let secret = match &options.password_file {
            Some(file) => Some(read_secret(file).map_err(|error| DatabaseError::Refused(error.to_string()))?),
            None => None,
        };
        let tls = match &options.tls {
            Some(load) => {
                let authorities = load().map_err(DatabaseError::Refused)?;
                let authorities = authorities.into_iter().map(Into::into).collect();
                Some(SslOpts::default().with_root_certs(authorities).with_disable_built_in_roots(true))
            }
            None => None,
        };
        let opts = OptsBuilder::default()
            .user(Some(&options.user))
            .pass(secret)
            .db_name(Some(&options.database))
            .connect_attribute("program_name", name_of(journal))
            .prefer_socket(false)
            .tcp_keepalive(Some(Duration::from_secs(15)))
            .client_found_rows(true)
            .ssl_opts(tls);
        let is_path = host.starts_with('/');
        let opts = if is_path {
            opts.socket(Some(host)).prefer_socket(true)
        } else {
            opts.ip_or_hostname(host).tcp_port(port)
        };
        Ok(opts.into())
    }

    /// A connection to the first host that can be written to.
    async fn open(&self, journal: &str) -> Result<Session, DatabaseError> {
        let mut failures = Vec::new();
        for (host, port) in &self.options.hosts {
            let opts = self.opts(host, *port, journal)?;
            let late = || DatabaseError::Away(format!("no answer within {} s", CONNECT_TIMEOUT.as_secs()));
            let opened = match tokio::time::timeout(CONNECT_TIMEOUT, Conn::new(opts)).await {
                Ok(Ok(conn)) => self.begin(conn, journal).await,
                Ok(Err(error)) => Err(blame(error)),
                Err(_) => Err(late()),
            };
            match opened {
                Ok(session) => return Ok(session),
                Err(error) => failures.push((host, error)),
            }
        }
        let words: Vec<String> = failures.iter().map(|(host, error)| format!("{host}: {error}")).collect();
        let is_refused = failures.iter().any(|(_, error)| !matches!(error, DatabaseError::Away(_)));
        Err(if is_refused { DatabaseError::Refused } else { DatabaseError::Away }(words.join("; ")))
    }

    async fn begin(&self, mut conn: Conn, journal: &str) -> Result<Session, DatabaseError> {
        let timeout = self.options.timeout.as_secs().max(1);
        let settings = format!(
            "set session sql_mode = 'STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00', autocommit = 1, \
             innodb_lock_wait_timeout = {timeout}, lock_wait_timeout = {timeout}, wait_timeout = 7200, \
             net_read_timeout = {timeout}, net_write_timeout = {timeout}"
        );
        conn.query_drop(settings).await.map_err(blame)?;
        let switches = "select @@global.read_only or @@global.innodb_read_only, @@global.local_infile";
        let (read_only, loads): (bool, bool) = conn.query_first(switches).await.map_err(blame)?.unwrap_or_default();
        if read_only {
            return Err(DatabaseError::Away("it takes no writes: read_only is set".to_owned()));
        }
        end_others(&mut conn, journal).await.map_err(blame)?;
        let there =
            "select count(*) from information_schema.tables where table_schema = database() and table_name = 'numbers'";
        if conn.query_first::<u64, _>(there).await.map_err(blame)? == Some(0) {
            for statement in layout::create(today()) {
                conn.query_drop(statement).await.map_err(blame)?;
            }
        }
        let seq = format!("select seq from positions where journal = {}", literal(journal));
        let position = conn.query_first(seq).await.map_err(blame)?;
        let (journal, topics, look) = (journal.to_owned(), HashMap::new(), Instant::now());
        Ok(Session { conn, journal, position, topics, loads, look, timeout })
    }
}

/// Ends a connection of this journal that the server does not know to be gone: it may hold the lock of the position. Servers that have no
/// such locks, or let nobody end connections, do without.
async fn end_others(conn: &mut Conn, journal: &str) -> Result<(), Error> {
    let name = literal(&name_of(journal));
    let other = conn.query_first(format!("select is_used_lock({name})")).await;
    let other: Option<Option<Option<u64>>> = passed(other)?;
    if let Some(id) = other.flatten().flatten() {
        passed(conn.query_drop(format!("kill {id}")).await)?;
    }
    passed(conn.query_drop(format!("select get_lock({name}, 5)")).await)?;
    Ok(())
}

/// A result; none where the server refuses.
fn passed<T>(result: Result<T, Error>) -> Result<Option<T>, Error> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(Error::Server(error)) => {
            debug!(%error, "the server refuses");
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

impl Database for Mariadb {
    fn connect(&mut self, journal: &str) -> Result<Option<u64>, DatabaseError> {
        self.session = None;
        let runtime = runtime_of(&mut self.runtime)?;
        let hosts = u32::try_from(self.options.hosts.len()).unwrap_or(u32::MAX);
        let limit = CONNECT_TIMEOUT.saturating_mul(hosts) + self.options.timeout;
        let opened = run(&runtime, limit, self.open(journal));
        self.runtime = Some(runtime);
        Ok(self.session.insert(opened?).position)
    }

    fn write(&mut self, rows: &[Row], upto: u64) -> Result<u64, DatabaseError> {
        let (Some(runtime), Some(mut session)) = (&self.runtime, self.session.take()) else {
            return Err(DatabaseError::Away("there is no connection".to_owned()));
        };
        let limit = self.options.timeout + time_for(rows);
        let written = run(runtime, limit, session.write(rows, upto));
        if written.is_ok() {
            self.session = Some(session);
        }
        written.map(|()| 0)
    }
}

impl Session {
    async fn write(&mut self, rows: &[Row], upto: u64) -> Result<(), DatabaseError> {
        self.number_topics(rows).await.map_err(blame)?;
        self.make_partitions().await.map_err(blame)?;
        let mut numbered = Vec::with_capacity(rows.len());
        for row in rows {
            let Some(id) = self.topics.get(&row.topic) else {
                return Err(DatabaseError::Rejected(format!("the database has no topic {:?}", row.topic.as_str())));
            };
            numbered.push((*id, row));
        }
        numbered.sort_by_key(|(id, row)| (*id, row.time));
        let rows: Vec<Columns<'_>> = numbered.into_iter().map(|(id, row)| Columns::of(row, id)).collect();
        self.conn.query_drop("start transaction").await.map_err(blame)?;
        // First, so that of two that write at once one waits here and then finds the position moved.
        if !self.move_position(upto).await.map_err(blame)? {
            let words = "the position is not what it was: another process writes, or the database was restored";
            return Err(DatabaseError::Away(words.to_owned()));
        }
        if !rows.is_empty() {
            self.write_rows(&rows).await?;
        }
        self.conn.query_drop("commit").await.map_err(blame)?;
        self.position = Some(upto);
        Ok(())
    }

    async fn move_position(&mut self, upto: u64) -> Result<bool, Error> {
        let journal = literal(&self.journal);
        let statement = match self.position {
            Some(seq) => format!(
                "update positions set seq = {upto}, written = utc_timestamp(6) where journal = {journal} and seq = {seq}"
            ),
            None => format!("insert ignore into positions values ({journal}, {upto}, utc_timestamp(6))"),
        };
        self.conn.query_drop(statement).await?;
        Ok(self.conn.affected_rows() == 1)
    }

    async fn write_rows(&mut self, rows: &[Columns<'_>]) -> Result<(), DatabaseError> {
        if self.loads {
            let mut lines = Lines::default();
            for row in rows {
                lines.push(row);
            }
            match self.load(lines.end()).await {
                Ok(()) => return self.check(rows.len()).await,
                Err(Error::Server(error)) if NO_LOAD.contains(&error.code) => self.loads = false,
                Err(error) => return Err(blame(error)),
            }
        }
        let mut rows = rows.iter().peekable();
        while rows.peek().is_some() {
            let (mut statement, mut count) = (BytesMut::from(layout::insert().as_bytes()), 0);
            while let Some(row) = rows.next_if(|_| count < INSERT_ROWS && statement.len() < INSERT_BYTES) {
                if count > 0 {
                    statement.extend_from_slice(b",");
                }
                row.push_literals(&mut statement);
                count += 1;
            }
            self.conn.query_drop(statement.as_ref()).await.map_err(blame)?;
            self.check(count).await?;
        }
        Ok(())
    }

    async fn load(&mut self, parts: Vec<Bytes>) -> Result<(), Error> {
        let parts = stream::iter(parts.into_iter().map(Ok));
        self.conn.set_infile_handler(async move { Ok(Box::pin(parts) as mysql_async::InfileData) });
        self.conn.query_drop(layout::load()).await
    }

    /// Sees to it that all rows are there: of the warnings each is for a row that was there already.
    async fn check(&mut self, rows: usize) -> Result<(), DatabaseError> {
        let counts = counts_of(&self.conn.info());
        // Of one row the server says no more than whether it was written.
        let one = (1, 1 - self.conn.affected_rows().min(1), u64::from(self.conn.get_warnings()));
        let (records, skipped, warnings) = counts.unwrap_or(one);
        if records == rows as u64 && skipped == warnings {
            return Ok(());
        }
        let said: Vec<(String, u16, String)> = self.conn.query("show warnings limit 3").await.map_err(blame)?;
        let said: Vec<String> = said.into_iter().map(|(_, _, words)| words).collect();
        let words = format!("{rows} rows were sent, and {warnings} warnings came back: {}", said.join("; "));
        Err(DatabaseError::Rejected(words))
    }

    async fn number_topics(&mut self, rows: &[Row]) -> Result<(), Error> {
        if self.topics.len() > TOPICS_MAX {
            self.topics.clear();
        }
        let fresh: BTreeSet<&Topic> =
            rows.iter().map(|row| &row.topic).filter(|topic| !self.topics.contains_key(*topic)).collect();
        let fresh: Vec<&Topic> = fresh.into_iter().collect();
        for some in fresh.chunks(NAMES_MAX) {
            self.find_topics(some).await?;
            let mut missing = some.iter().filter(|topic| !self.topics.contains_key(**topic)).peekable();
            if missing.peek().is_none() {
                continue;
            }
            let values: Vec<String> =
                missing.map(|topic| format!("({0}, {1})", digest(topic), literal(topic))).collect();
            let make = format!("insert ignore into topics (digest, name) values {}", values.join(","));
            self.conn.query_drop(make).await?;
            self.find_topics(some).await?;
        }
        Ok(())
    }

    async fn find_topics(&mut self, topics: &[&Topic]) -> Result<(), Error> {
        let digests: Vec<String> = topics.iter().map(|topic| digest(topic)).collect();
        let ask = format!("select id, name from topics where digest in ({})", digests.join(","));
        let found: Vec<(u32, String)> = self.conn.query(ask).await?;
        let ids: HashMap<String, u32> = found.into_iter().map(|(id, name)| (name, id)).collect();
        for topic in topics {
            if let Some(id) = ids.get(topic.as_str()) {
                self.topics.insert((*topic).clone(), *id);
            }
        }
        Ok(())
    }

    /// Makes the partitions of the next days. A long query may hold it up, or a permission be absent: then samples of later days
    /// go to the last partition, and it is tried again in a while.
    async fn make_partitions(&mut self) -> Result<(), Error> {
        if Instant::now() < self.look {
            return Ok(());
        }
        self.look = Instant::now() + PARTITIONS_EVERY;
        let ask = "select partition_name from information_schema.partitions \
            where table_schema = database() and table_name = 'samples' and partition_name is not null";
        let names: Vec<String> = self.conn.query(ask).await?;
        if let Some(make) = layout::next_days(&names, today()) {
            self.conn.query_drop("set session lock_wait_timeout = 1").await?;
            passed(self.conn.query_drop(make).await)?;
            self.conn.query_drop(format!("set session lock_wait_timeout = {}", self.timeout)).await?;
        }
        Ok(())
    }
}

/// Rows, those that were there already, and warnings, as a server says after LOAD DATA and INSERT in the language of its messages:
/// the first, the second last and the last number.
fn counts_of(info: &str) -> Option<(u64, u64, u64)> {
    let numbers = info.split(|c: char| !c.is_ascii_digit()).filter(|text| !text.is_empty());
    let numbers: Vec<u64> = numbers.map(|text| text.parse().unwrap_or(u64::MAX)).collect();
    match numbers.as_slice() {
        [records, .., skipped, warnings] => Some((*records, *skipped, *warnings)),
        _ => None,
    }
}

/// What a topic is found by: names are longer than keys may be, and keys ignore spaces at the end.
fn digest(topic: &str) -> String {
    format!("unhex(sha2({}, 256))", literal(topic))
}

/// A text as a literal.
fn literal(text: &str) -> String {
    let mut out = BytesMut::new();
    quote(&mut out, text.as_bytes());
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_read_in_any_language() {
        assert_eq!(counts_of("Records: 5  Deleted: 0  Skipped: 2  Warnings: 3"), Some((5, 2, 3)));
        assert_eq!(counts_of("Datensätze: 5  Duplikate: 0  Warnungen: 1"), Some((5, 0, 1)));
        assert_eq!(counts_of(""), None);
    }

    #[test]
    fn literals_end_where_they_should() {
        assert_eq!(literal("a'b\\"), "'a\\'b\\\\'");
        assert_eq!(digest("x"), "unhex(sha2('x', 256))");
    }
}
