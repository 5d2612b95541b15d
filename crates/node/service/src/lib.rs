//! What every server of Tieline has at its edge: configuration files, HTTP errors and guards, metrics as text.
//!
//! In: TOML, requests, numbers. Out: legal values or every error at once; problems (RFC 9457); Prometheus' text.
//!
//! Never: a configuration key, a route, a metric; those belong to the servers.
//!
//! Read first: `reader.rs`.

pub mod exposition;
pub mod http;
pub mod moment;
pub mod parse;
pub mod reader;
pub mod tls;
