//! Parameters of services (clauses 13 to 16): each can be written, and read by both ends.

mod cov;
mod failure;
mod logged;
mod range;
mod read;
mod time;
mod who;
mod write;

pub use cov::{Notification, Subscription};
pub use failure::ServiceError;
pub use logged::LoggedProperty;
pub use range::{LogDatum, LogRecord, Range, RangeAck, RangeRequest, log_multiple_records, log_records};
pub use read::{PropertyRef, ReadAck, ReadMultiple, ReadMultipleAck, ReadResult, encode_read_multiple};
pub use time::{emit_time, parse_time};
pub use who::{IAm, IHave, WhoHas, WhoHasWhat, WhoIs};
pub use write::{PRIORITY_LOWEST, Write, WriteMultiple, encode_write_multiple};
