//! PostgreSQL: a batch and the position behind it are one transaction.
//!
//! Samples go by binary COPY. The position is written only where it is still what this connection has read: of two that write at once,
//! and after a database was restored, one is refused and reads it again.

mod copy;
mod layout;
mod tls;

use crate::http::read_secret;
use crate::sql::{CONNECT_TIMEOUT, TOPICS_MAX, chain, day_of, name_of, run, runtime_of, today};
use crate::tls::LoadTls;
use crate::{Database, DatabaseError, Index, Row, time_for};
use copy::{COLUMNS, Parts};
use futures_util::SinkExt as _;
use hashbrown::HashMap;
use layout::has_partition;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::pin::pin;
use std::time::Duration;
use tieline_core::Topic;
use tokio::runtime::Runtime;
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Config, Error, NoTls};

/// Two nodes that make the tables at once would fail.
const LOCK: i64 = 0x7469_656c_696e_6531;

/// How a database is reached, and what is made in it.
#[derive(Clone)]
pub struct PostgresOptions {
    /// Hosts and ports: the first is used that can be written to.
    pub hosts: Vec<(String, u16)>,
    /// Who writes.
    pub user: String,
    /// The file of the password, read at each connection.
    pub password_file: Option<PathBuf>,
    /// The database's name.
    pub database: String,
    /// The schema of all tables.
    pub schema: String,
    /// The index on samples, where the table is made.
    pub index: Index,
    /// The longest time for a batch.
    pub timeout: Duration,
    /// TLS; none is without.
    pub tls: Option<LoadTls>,
}

/// A PostgreSQL database.
pub struct Postgres {
    options: PostgresOptions,
    /// The schema, quoted.
    schema: String,
    session: Option<Session>,
    runtime: Option<Runtime>,
}

/// A connection, and what is known of the database since it was made.
struct Session {
    client: Client,
    journal: String,
    position: Option<i64>,
    topics: HashMap<Topic, i32>,
    /// Days whose rows have a place; none where the database finds it.
    days: Option<BTreeSet<i64>>,
}

impl Postgres {
    /// Nothing is sent before the first call.
    #[must_use]
    pub fn new(options: PostgresOptions) -> Self {
        Self { schema: quoted(&options.schema), options, session: None, runtime: None }
    }

    fn config(&self) -> Result<Config, DatabaseError> {
        let (options, mut config) = (&self.options, Config::new());
        for (host, port) in &options.hosts {
            config.host(host).port(*port);
        }
        config
            .user(&options.user)
            .dbname(&options.database)
            .ssl_mode(if options.tls.is_some() { SslMode::Require } else { SslMode::Disable })
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_user_timeout(options.timeout)
            .keepalives_idle(Duration::from_secs(15))
            .keepalives_interval(Duration::from_secs(5))
            .keepalives_retries(3)
            .target_session_attrs(TargetSessionAttrs::ReadWrite);
        if let Some(file) = &options.password_file {
            let secret = read_secret(file).map_err(|error| DatabaseError::Refused(error.to_string()))?;
            config.password(secret);
        }
        Ok(config)
    }

    async fn open(&self, journal: &str) -> Result<Session, DatabaseError> {
        let mut config = self.config()?;
        config.application_name(name_of(journal));
        let client = connect(&config, self.options.tls.as_ref()).await?;
        let timeout = self.options.timeout.as_millis();
        let statement = timeout * 10;
        let limits = format!(
            "set client_min_messages = warning; set statement_timeout = {statement}; set lock_timeout = {timeout}; \
             set idle_in_transaction_session_timeout = {timeout}; set timezone = 'UTC'; \
             set tcp_keepalives_idle = 15; set tcp_keepalives_interval = 5; set tcp_keepalives_count = 3"
        );
        client.batch_execute(&limits).await.map_err(blame)?;
        // A connection that the server does not know to be gone may hold the lock of the position.
        let ours = "select pg_terminate_backend(pid) from pg_stat_activity
            where application_name = $1 and usename = current_user and pid <> pg_backend_pid()";
        client.execute(ours, &[&name_of(journal)]).await.map_err(blame)?;
        self.make_tables(&client).await.map_err(blame)?;
        client.batch_execute(layout::AGAIN_TABLE).await.map_err(blame)?;
        let schema = &self.schema;
        let partitioned = "select relkind = 'p' from pg_class where oid = $1::text::regclass";
        let partitioned: bool =
            client.query_one(partitioned, &[&format!("{schema}.samples")]).await.map_err(blame)?.get(0);
        let seq = format!("select seq from {schema}.positions where journal = $1");
        let position = client.query_opt(&seq, &[&journal]).await.map_err(blame)?.map(|row| row.get::<_, i64>(0));
        let (journal, topics) = (journal.to_owned(), HashMap::new());
        Ok(Session { client, journal, position, topics, days: partitioned.then(BTreeSet::new) })
    }

    /// Makes the tables where they are not there: who has made them by hand needs no right to do so.
    async fn make_tables(&self, client: &Client) -> Result<(), Error> {
        let schema = &self.schema;
        let there = "select to_regclass($1::text) is not null";
        if client.query_one(there, &[&format!("{schema}.numbers")]).await?.get(0) {
            return Ok(());
        }
        let timescale = "select exists (select from pg_extension where extname = 'timescaledb')";
        let timescale: bool = client.query_one(timescale, &[]).await?.get(0);
        let schemas = "select exists (select from pg_namespace where nspname = $1)";
        let has_schema: bool = client.query_one(schemas, &[&self.options.schema]).await?.get(0);
        let make_schema = if has_schema { String::new() } else { format!("create schema if not exists {schema};") };
        let create = layout::create(schema, self.options.index, timescale);
        client
            .batch_execute(&format!("begin; select pg_advisory_xact_lock({LOCK}); {make_schema} {create} commit"))
            .await
    }
}

impl Database for Postgres {
    fn connect(&mut self, journal: &str) -> Result<Option<u64>, DatabaseError> {
        self.session = None;
        let runtime = runtime_of(&mut self.runtime)?;
        let hosts = u32::try_from(self.options.hosts.len()).unwrap_or(u32::MAX);
        let limit = CONNECT_TIMEOUT.saturating_mul(hosts) + self.options.timeout;
        let opened = run(&runtime, limit, self.open(journal));
        self.runtime = Some(runtime);
        let session = self.session.insert(opened?);
        Ok(session.position.and_then(|seq| u64::try_from(seq).ok()))
    }

    fn write(&mut self, rows: &[Row], upto: u64) -> Result<u64, DatabaseError> {
        let (Some(runtime), Some(mut session)) = (&self.runtime, self.session.take()) else {
            return Err(DatabaseError::Away("there is no connection".to_owned()));
        };
        let limit = self.options.timeout + time_for(rows);
        let written = run(runtime, limit, session.write(&self.schema, rows, upto));
        if written.is_ok() {
            self.session = Some(session);
        }
        written.map(|()| 0)
    }
}

impl Session {
    async fn write(&mut self, schema: &str, rows: &[Row], upto: u64) -> Result<(), DatabaseError> {
        let ids = self.number_topics(schema, rows).await?;
        self.make_days(schema, rows).await.map_err(blame)?;
        let upto = i64::try_from(upto).map_err(|_| DatabaseError::Refused("a sequence beyond 2^63".to_owned()))?;
        let moved = self.commit(schema, rows, &ids, upto).await.map_err(blame)?;
        if !moved {
            let words = "the position is not what it was: another process writes, or the database was restored";
            return Err(DatabaseError::Away(words.to_owned()));
        }
        self.position = Some(upto);
        Ok(())
    }

    /// Writes all and commits; false, and nothing, where the position is not what it was.
    async fn commit(&mut self, schema: &str, rows: &[Row], ids: &[i32], upto: i64) -> Result<bool, Error> {
        let transaction = self.client.transaction().await?;
        let position = format!(
            "insert into {schema}.positions as p (journal, seq) values ($1, $2) on conflict (journal) do update
            set seq = excluded.seq, written = now() where p.seq = $3"
        );
        // First, so that of two that write at once one waits here and then finds the position moved.
        if transaction.execute(&position, &[&self.journal, &upto, &self.position.unwrap_or(-1)]).await? != 1 {
            return Ok(false);
        }
        let has_again = rows.iter().any(|row| row.again);
        let has_fresh = rows.iter().any(|row| !row.again);
        let again_table = "pg_temp.tieline_again".to_owned();
        let tables = [(format!("{schema}.samples"), false, has_fresh), (again_table, true, has_again)];
        for (table, again, _) in tables.iter().filter(|(_, _, has_rows)| *has_rows) {
            let copy = format!("copy {table} ({COLUMNS}) from stdin (format binary)");
            let mut sink = pin!(transaction.copy_in(&copy).await?);
            // A part goes while the next one is made.
            let mut parts = Parts::begin();
            for (row, id) in rows.iter().zip(ids).filter(|(row, _)| row.again == *again) {
                parts.push(row, *id);
                for part in parts.done.drain(..) {
                    sink.send(part).await?;
                }
            }
            for part in parts.end() {
                sink.send(part).await?;
            }
            sink.finish().await?;
        }
        if has_again {
            transaction.execute(&layout::move_again(schema), &[]).await?;
        }
        transaction.commit().await?;
        Ok(true)
    }

    /// The number of each row's topic.
    async fn number_topics(&mut self, schema: &str, rows: &[Row]) -> Result<Vec<i32>, DatabaseError> {
        if self.topics.len() > TOPICS_MAX {
            self.topics.clear();
        }
        let known: Option<Vec<i32>> = rows.iter().map(|row| self.topics.get(&row.topic).copied()).collect();
        if let Some(ids) = known {
            return Ok(ids);
        }
        self.make_topics(schema, rows).await.map_err(blame)?;
        let id = |row: &Row| {
            let unknown = || DatabaseError::Rejected(format!("the database has no topic {:?}", row.topic.as_str()));
            self.topics.get(&row.topic).copied().ok_or_else(unknown)
        };
        rows.iter().map(id).collect()
    }

    async fn make_topics(&mut self, schema: &str, rows: &[Row]) -> Result<(), Error> {
        let fresh: BTreeSet<&str> =
            rows.iter().filter(|row| !self.topics.contains_key(&row.topic)).map(|row| row.topic.as_str()).collect();
        let names: Vec<&str> = fresh.into_iter().collect();
        let make = format!("insert into {schema}.topics (name) select unnest($1::text[]) on conflict do nothing");
        self.client.execute(&make, &[&names]).await?;
        let ask = format!("select name, id from {schema}.topics where name = any($1)");
        let found = self.client.query(&ask, &[&names]).await?;
        let numbered: HashMap<String, i32> = found.iter().map(|row| (row.get(0), row.get(1))).collect();
        for row in rows {
            if let Some(id) = numbered.get(row.topic.as_str()) {
                self.topics.insert(row.topic.clone(), *id);
            }
        }
        Ok(())
    }

    async fn make_days(&mut self, schema: &str, rows: &[Row]) -> Result<(), Error> {
        let Some(known) = &mut self.days else { return Ok(()) };
        let today = today();
        // Most rows are of the same day as the one before.
        let mut last = None;
        let turns = rows.iter().map(|row| day_of(row.time)).filter(|day| last.replace(*day) != Some(*day));
        let days: BTreeSet<i64> = turns.filter(|day| !known.contains(day)).collect();
        for day in days.into_iter().filter(|day| has_partition(*day, today)) {
            let (name, make) = layout::partition(schema, day);
            let there = "select to_regclass($1::text) is not null";
            if !self.client.query_one(there, &[&format!("{schema}.{name}")]).await?.get::<_, bool>(0) {
                // Rows of the day may be among those of wrong clocks already: there it stays. Or another process was faster.
                let beside = [SqlState::CHECK_VIOLATION, SqlState::DUPLICATE_TABLE, SqlState::UNIQUE_VIOLATION];
                match self.client.batch_execute(&format!("begin; {make} commit")).await {
                    Err(error) if error.code().is_some_and(|code| beside.contains(code)) => {
                        self.client.batch_execute("rollback").await?;
                    }
                    made => made?,
                }
            }
            known.insert(day);
        }
        Ok(())
    }
}

/// Connects, with TLS where it is given.
pub(crate) async fn connect(config: &Config, load: Option<&LoadTls>) -> Result<Client, DatabaseError> {
    match load {
        Some(load) => {
            let tls = load().map_err(DatabaseError::Refused)?;
            let (client, connection) = config.connect(tls::Tls(tls)).await.map_err(blame)?;
            drop(tokio::spawn(connection));
            Ok(client)
        }
        None => {
            let (client, connection) = config.connect(NoTls).await.map_err(blame)?;
            drop(tokio::spawn(connection));
            Ok(client)
        }
    }
}

/// Who is to blame for what the client reports.
#[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
pub(crate) fn blame(error: Error) -> DatabaseError {
    let words = chain(&error);
    let Some(code) = error.code() else { return DatabaseError::Away(words) };
    match code.code().get(..2) {
        // Connections, resources, an operator's intervention, conflicts: they pass.
        Some("08" | "40" | "53" | "55" | "57" | "58") => DatabaseError::Away(words),
        Some("22" | "23") => DatabaseError::Rejected(words),
        _ => DatabaseError::Refused(words),
    }
}

/// A name as SQL has it.
fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
