//! `/v1/alarms`: alarms as they are, requests of persons, the journal, the report and the rules.

mod counts;
mod journal;
mod list;
mod metrics;
mod order;
mod report;
mod request;
mod rows;
mod rules;
mod walk;

pub use counts::counts;
pub use journal::journal;
pub use list::list;
pub use metrics::metrics;
pub use report::report;
pub use request::{acknowledge, note, put_in_service, reset, shelve, take_out_of_service, unshelve};
pub use rules::rules;
