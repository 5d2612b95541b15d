//! Other people's databases, as configured.

use crate::config::{DatabaseConfig, DatabaseServer, ServerAccess, VICTORIA};
use std::path::Path;
use std::time::Duration;
use tieline_databases::{Database, Line, LineOptions};
use tieline_history::Forwarding;

/// The first pause after a failure.
const RETRY: Duration = Duration::from_millis(250);

/// What writes to a configured database. Its position is in `folder`, where the database keeps none.
pub(super) fn forwarding_of(config: &DatabaseConfig, folder: &Path) -> Forwarding {
    let database: Box<dyn Database> = match &config.server {
        DatabaseServer::Line { kind, url, credentials, measurement } => Box::new(Line::new(LineOptions {
            url: url.clone(),
            credentials: credentials.clone(),
            measurement: measurement.clone(),
            texts: *kind != VICTORIA,
            timeout: config.timeout,
            position: folder.join(format!("{}.position", config.name)),
        })),
        DatabaseServer::RemoteWrite { .. } => remote_write(config, folder),
        DatabaseServer::Postgres { .. } => postgres(config),
        DatabaseServer::Mariadb { access, .. } => mariadb(access, config.timeout),
        DatabaseServer::Mongo { .. } => mongo(config),
    };
    Forwarding {
        name: config.name.clone(),
        kind: config.server.kind(),
        topics: config.topics.clone(),
        batch_rows: config.batch_rows,
        every: config.every,
        timeout: config.timeout,
        retry: RETRY,
        database,
    }
}

#[cfg(feature = "postgres")]
fn postgres(config: &DatabaseConfig) -> Box<dyn Database> {
    use tieline_databases::{Postgres, PostgresOptions};
    let DatabaseServer::Postgres { access, schema, index } = &config.server else { return Box::new(Absent) };
    let ServerAccess { hosts, user, password_file, database, tls } = access.clone();
    Box::new(Postgres::new(PostgresOptions {
        hosts,
        user,
        password_file,
        database,
        schema: schema.clone(),
        index: *index,
        timeout: config.timeout,
        tls: tls.map(load),
    }))
}

#[cfg(not(feature = "postgres"))]
fn postgres(_: &DatabaseConfig) -> Box<dyn Database> {
    Box::new(Absent)
}

#[cfg(feature = "mariadb")]
fn mariadb(access: &ServerAccess, timeout: Duration) -> Box<dyn Database> {
    use std::sync::Arc;
    use tieline_databases::{LoadAuthorities, Mariadb, MariadbOptions};
    use tieline_net::tls::read_authorities;
    let ServerAccess { hosts, user, password_file, database, tls } = access.clone();
    let tls = tls.map(|authorities| -> LoadAuthorities {
        Arc::new(move || read_authorities(authorities.as_deref()).map_err(|fault| fault.to_string()))
    });
    Box::new(Mariadb::new(MariadbOptions { hosts, user, password_file, database, timeout, tls }))
}

#[cfg(not(feature = "mariadb"))]
fn mariadb(_: &ServerAccess, _: Duration) -> Box<dyn Database> {
    Box::new(Absent)
}

#[cfg(feature = "mongodb")]
fn mongo(config: &DatabaseConfig) -> Box<dyn Database> {
    use tieline_databases::{Mongo, MongoOptions};
    let DatabaseServer::Mongo { hosts, user, password_file, auth_database, database, collection, tls } = &config.server
    else {
        return Box::new(Absent);
    };
    Box::new(Mongo::new(MongoOptions {
        hosts: hosts.clone(),
        user: user.clone(),
        password_file: password_file.clone(),
        auth_database: auth_database.clone(),
        database: database.clone(),
        collection: collection.clone(),
        timeout: config.timeout,
        tls: tls.clone().map(load),
    }))
}

#[cfg(not(feature = "mongodb"))]
fn mongo(_: &DatabaseConfig) -> Box<dyn Database> {
    Box::new(Absent)
}

/// Reads what TLS needs, with the file of authorities that are trusted; none are those of the machine.
#[cfg(any(feature = "mongodb", feature = "postgres"))]
fn load(authorities: Option<std::path::PathBuf>) -> tieline_databases::LoadTls {
    std::sync::Arc::new(move || {
        let loaded = tieline_net::tls::ClientTls::load(authorities.as_deref(), None);
        loaded.map(|tls| tls.config()).map_err(|error| error.to_string())
    })
}

#[cfg(feature = "remotewrite")]
fn remote_write(config: &DatabaseConfig, folder: &Path) -> Box<dyn Database> {
    use tieline_databases::{RemoteWrite, RemoteWriteOptions};
    let DatabaseServer::RemoteWrite { url, credentials, headers, metric } = &config.server else {
        return Box::new(Absent);
    };
    Box::new(RemoteWrite::new(RemoteWriteOptions {
        url: url.clone(),
        credentials: credentials.clone(),
        headers: headers.clone(),
        metric: metric.clone(),
        timeout: config.timeout,
        position: folder.join(format!("{}.position", config.name)),
    }))
}

#[cfg(not(feature = "remotewrite"))]
fn remote_write(_: &DatabaseConfig, _: &Path) -> Box<dyn Database> {
    Box::new(Absent)
}

/// A database that this build cannot write to. The configuration refuses it; nothing gets here.
struct Absent;

impl Database for Absent {
    fn connect(&mut self, _: &str) -> Result<Option<u64>, tieline_databases::DatabaseError> {
        let words = "this binary was built without it".to_owned();
        Err(tieline_databases::DatabaseError::Refused(words))
    }

    fn write(&mut self, _: &[tieline_databases::Row], _: u64) -> Result<u64, tieline_databases::DatabaseError> {
        self.connect("").map(|_| 0)
    }
}
