//! Writes batches of samples to databases that are not part of Tieline, so that each sample is stored once.
//!
//! In: rows in the order of their sequences, and the sequence up to which a batch reaches. Out: the sequence up to which
//! a database has everything, read from the same database.
//!
//! Where a database has transactions, a batch and its sequence are one transaction: if node or database is killed, the next
//! connection continues after the last stored batch. Where it has none, the sequence is in a file, and the last batch may be
//! written again.
//!
//! Never: a thread, a retry, a decision about which samples are written.
//!
//! Read first: `database.rs`, then `postgres/mod.rs`, `mariadb/mod.rs`.

mod database;
#[cfg(feature = "historian")]
pub mod historian;
mod http;
mod line;
#[cfg(feature = "mariadb")]
mod mariadb;
#[cfg(feature = "mongodb")]
mod mongo;
mod position;
#[cfg(feature = "postgres")]
mod postgres;
#[cfg(feature = "remotewrite")]
mod remote_write;
#[cfg(any(feature = "mariadb", feature = "postgres"))]
mod sql;
#[cfg(any(feature = "mongodb", feature = "postgres"))]
mod tls;

pub use database::{Database, DatabaseError, Index, Row};
pub use http::Credentials;
pub use line::{Line, LineOptions};
#[cfg(feature = "mariadb")]
pub use mariadb::{LoadAuthorities, Mariadb, MariadbOptions};
#[cfg(feature = "mongodb")]
pub use mongo::{Mongo, MongoOptions, fuzz as mongo_fuzz};
#[cfg(feature = "postgres")]
pub use postgres::{Postgres, PostgresOptions};
#[cfg(feature = "remotewrite")]
pub use remote_write::{RemoteWrite, RemoteWriteOptions};
#[cfg(any(feature = "mongodb", feature = "postgres"))]
pub use tls::LoadTls;

/// Whether this build writes to PostgreSQL.
pub const HAS_POSTGRES: bool = cfg!(feature = "postgres");
/// Whether this build speaks MongoDB's protocol.
pub const HAS_MONGODB: bool = cfg!(feature = "mongodb");
/// Whether this build writes by Prometheus remote write.
pub const HAS_REMOTE_WRITE: bool = cfg!(feature = "remotewrite");

/// Whether this build writes to MariaDB and MySQL.
pub const HAS_MARIADB: bool = cfg!(feature = "mariadb");

/// Bytes a second that the slowest link takes.
const BYTES_PER_SECOND_MIN: u64 = 8 << 10;
/// Bytes of a row without its text, roughly.
const ROW_BYTES: u64 = 50;

/// The time that rows may take on a slow link, beside the time-out.
fn time_for(rows: &[Row]) -> std::time::Duration {
    use tieline_core::Value;
    let words = |row: &Row| match &row.value {
        Value::Text(text) => text.len() as u64,
        Value::Bytes(bytes) => bytes.len() as u64,
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => 0,
    };
    let bytes: u64 = rows.iter().map(|row| ROW_BYTES + words(row)).sum();
    std::time::Duration::from_secs(bytes / BYTES_PER_SECOND_MIN)
}
