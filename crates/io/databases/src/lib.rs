//! Other people's databases: batches of samples go there, and each sample is there once.
//!
//! In: rows in the order of their sequences, and the sequence up to which a batch reaches. Out: up to which sequence a
//! database has everything, read from where the batches went.
//!
//! Where a database has transactions, a batch and its sequence are one: whoever is killed, the next connection goes on behind the
//! last batch that is there. Where it has none, the sequence is in a file, and the last batch may be written again.
//!
//! Never: a thread, another attempt, a decision about which samples are written.
//!
//! Read first: `database.rs`, then `postgres/mod.rs`.

mod database;
mod line;
mod position;
#[cfg(feature = "postgres")]
mod postgres;

pub use database::{Database, DatabaseError, Row};
pub use line::{Credentials, Line, LineOptions};
#[cfg(feature = "postgres")]
pub use postgres::{Index, Postgres, PostgresOptions};

/// Whether this build writes to PostgreSQL.
pub const HAS_POSTGRES: bool = cfg!(feature = "postgres");
