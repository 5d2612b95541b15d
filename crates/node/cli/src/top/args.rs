//! What `tieline top` takes.

use crate::args::{HttpArgs, duration};
use clap::{Args, ValueEnum};
use std::time::Duration;

/// `tieline top`.
#[derive(Debug, Args)]
pub struct TopArgs {
    #[command(flatten)]
    pub node: HttpArgs,
    /// How often to look
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration)]
    pub interval: Duration,
    /// Which sessions come first
    #[arg(long, value_enum, default_value_t = Order::Lag)]
    pub order: Order,
    /// Only sessions whose client identifier holds this
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub client: String,
    /// Sessions and topics that are asked for
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub limit: u16,
    /// Print once, after two looks, and end
    #[arg(long)]
    pub once: bool,
    /// Print one JSON object a look
    #[arg(long)]
    pub json: bool,
}

/// Which sessions come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// Those that are late the longest, then those that most waits for
    Lag,
    /// Those that most waits for
    Waiting,
    /// Those that are sent the most octets a second
    Rate,
    /// Those of which the most values were replaced by newer ones
    Conflated,
    /// Those of which the most messages were dropped
    Dropped,
    /// By client identifier
    Client,
}

impl Order {
    /// The word of the API, which is that of the command line.
    pub fn word(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }

    /// The one after it, round and round.
    pub fn next(self) -> Self {
        let all = Self::value_variants();
        let at = all.iter().position(|order| *order == self).unwrap_or_default();
        all.get((at + 1) % all.len()).copied().unwrap_or(self)
    }
}
