//! What `tieline top` takes.

use crate::args::{HttpArgs, duration};
use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::time::Duration;
use tieline_node::SessionOrder;

/// `tieline top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    #[command(flatten)]
    pub node: HttpArgs,
    /// Time between two samples
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    pub interval: Duration,
    /// Order of the sessions, the greatest first
    #[arg(long, default_value = SessionOrder::Lag.word(), value_parser = order())]
    pub order: SessionOrder,
    /// Only sessions whose client identifier contains this text
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub client: String,
    /// Number of sessions, and of topics
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub limit: u16,
    /// Print the difference between two samples, and end
    #[arg(long)]
    pub once: bool,
    /// Print one JSON object for each sample
    #[arg(long)]
    pub json: bool,
}

/// Which sessions come first.
pub fn order() -> impl TypedValueParser<Value = SessionOrder> {
    let orders = SessionOrder::ALL.map(|(_, word, who)| PossibleValue::new(word).help(who));
    PossibleValuesParser::new(orders).try_map(|word| SessionOrder::named(&word).ok_or("no order"))
}
