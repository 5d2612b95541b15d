//! The database of a SQL historian in PostgreSQL.

use super::{Catalog, Historian, HistorianRow, Page, Survey, TableNames, places, quoted, survey, time_of};
use crate::DatabaseError;
use crate::http::read_secret;
use crate::postgres::{blame, connect};
use crate::tls::LoadTls;
use std::collections::HashMap;
use std::future::Future;
use std::path::Path;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Client, Config};

/// The longest time for an answer.
const TIMEOUT: Duration = Duration::from_secs(600);
/// The longest time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// The database of a SQL historian in PostgreSQL.
pub struct PostgresHistorian {
    session: Session,
    place: String,
    names: TableNames,
    topics: HashMap<String, usize>,
    data: String,
}

struct Session {
    runtime: Runtime,
    client: Client,
}

impl PostgresHistorian {
    /// Connects to an address as in `postgresql://user@host:5432/volttron`. TLS is used where the address says `sslmode=require`.
    ///
    /// # Errors
    /// The address is none, or the database cannot be reached.
    pub fn connect(
        address: &str,
        password_file: Option<&Path>,
        load: LoadTls,
        names: TableNames,
    ) -> Result<Self, DatabaseError> {
        let refused = |error: &dyn std::fmt::Display| DatabaseError::Refused(error.to_string());
        let mut config: Config = address.parse().map_err(|error| refused(&error))?;
        if let Some(file) = password_file {
            config.password(read_secret(file).map_err(|error| refused(&error))?);
        }
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        config.application_name("tieline import");
        let load = (config.get_ssl_mode() == SslMode::Require).then_some(&load);
        let runtime = Builder::new_current_thread().enable_all().build().map_err(|error| refused(&error))?;
        let client = runtime.block_on(async {
            let client = connect(&config, load).await?;
            client
                .batch_execute("set timezone = 'UTC'; set default_transaction_read_only = on")
                .await
                .map_err(blame)?;
            Ok(client)
        })?;
        let place = format!("the database {:?}", config.get_dbname().unwrap_or_default());
        let (topics, data) = (HashMap::new(), String::new());
        Ok(Self { session: Session { runtime, client }, place, names, topics, data })
    }
}

impl Session {
    fn run<T>(&self, call: impl Future<Output = Result<T, tokio_postgres::Error>>) -> Result<T, DatabaseError> {
        let late = |_| DatabaseError::Away(format!("no answer within {} s", TIMEOUT.as_secs()));
        self.runtime.block_on(async { tokio::time::timeout(TIMEOUT, call).await.map_err(late)?.map_err(blame) })
    }

    fn texts_of(&self, text: &str, columns: usize) -> Result<Vec<Vec<Option<String>>>, DatabaseError> {
        let rows = self.run(self.client.query(text, &[]))?;
        Ok(rows.iter().map(|row| (0..columns).map(|at| row.get(at)).collect()).collect())
    }
}

/// A text inside a statement.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

impl Catalog for Session {
    fn tables(&mut self) -> Result<Vec<String>, DatabaseError> {
        let text = "select tablename::text from pg_tables where schemaname = any (current_schemas(false)) order by 1";
        Ok(self.texts_of(text, 1)?.into_iter().flatten().flatten().collect())
    }

    fn columns(&mut self, table: &str) -> Result<Vec<String>, DatabaseError> {
        let text = format!(
            "select attname::text from pg_attribute where attrelid = to_regclass({}) and attnum > 0 and not attisdropped",
            literal(&quoted(table))
        );
        Ok(self.texts_of(&text, 1)?.into_iter().flatten().flatten().collect())
    }

    fn texts(&mut self, table: &str, columns: &[&str]) -> Result<Vec<Vec<Option<String>>>, DatabaseError> {
        let shown: Vec<String> = columns.iter().map(|column| format!("{column}::text")).collect();
        self.texts_of(&format!("select {} from {}", shown.join(", "), quoted(table)), columns.len())
    }

    fn count(&mut self, table: &str) -> Result<u64, DatabaseError> {
        let row = self.run(self.client.query_one(&format!("select count(*) from {}", quoted(table)), &[]))?;
        Ok(u64::try_from(row.get::<_, i64>(0)).unwrap_or_default())
    }
}

impl Historian for PostgresHistorian {
    fn survey(&mut self) -> Result<Survey, DatabaseError> {
        let survey = survey(&mut self.session, &self.names, &self.place)?;
        self.topics = places(&survey);
        self.data.clone_from(&survey.tables.data);
        Ok(survey)
    }

    fn page(&mut self, after: Option<&str>, rows_max: usize) -> Result<Page, DatabaseError> {
        let condition = match after.and_then(|after| after.split_once(' ')) {
            Some((id, time)) => {
                let id: i64 = id.parse().map_err(|_| DatabaseError::Refused(format!("{id:?} is no topic")))?;
                format!("where (ts, topic_id) > ({}, {id})", literal(time))
            }
            None => String::new(),
        };
        let text = format!(
            "select ts::text, topic_id::text, value_string from {} {condition} order by ts, topic_id limit {rows_max}",
            quoted(&self.data)
        );
        let mut page = Page::default();
        let found = self.session.run(self.session.client.query(&text, &[]))?;
        for row in &found {
            let (time, id): (&str, &str) = (row.get(0), row.get(1));
            let topic = self.topics.get(id).copied().ok_or_else(|| id.to_owned());
            page.rows.push(HistorianRow { topic, time: time_of(time), value: row.get(2) });
            if page.rows.len() == rows_max {
                page.next = Some(format!("{id} {time}"));
            }
        }
        Ok(page)
    }
}
