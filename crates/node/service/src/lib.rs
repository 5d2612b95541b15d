//! The common parts of all Tieline servers: configuration files, HTTP errors and guards, routes with their OpenAPI
//! document, metrics as text.
//!
//! In: TOML, requests, handlers, numbers. Out: legal values or all errors at once; problems (RFC 9457); a router
//! with its OpenAPI document; the Prometheus text format.
//!
//! Never: a configuration key, a route, a metric; those belong to the servers.
//!
//! Read first: `reader.rs`.

pub mod exposition;
pub mod http;
pub mod json;
pub mod moment;
pub mod parse;
pub mod reader;
pub mod replacement;
pub mod setting;
pub mod tls;
