//! The simulation beside processes: the rows of `tieline bench edges` are simulated again, with the same topics, values and subscribers.
//!
//! What was delivered and its bytes must be the same to the byte. Processor time is compared so: the simulation has no sockets, so what
//! they cost is taken from the run itself, and nowhere from the row that is checked:
//!
//! ```text
//! of the core, an update:   predicted = simulated + way                   way: measured less simulated, with the fewest subscribers
//! of the edges, an update:  predicted = simulated + way + events × write  write: of the floor, which writes without logic, at this row
//! ```
//!
//! `way` is what an update costs on its way through sockets, the same however many subscribers there are. So a prediction is wrong as soon as
//! the simulation's cost of a subscriber, or how it grows, is not that of a process.
//!
//! Read first: [`check`].

use super::report::short;
use super::{Found, Plan, float, measure};
use serde::{Deserialize, Serialize};
use tieline_bench::fanout::Form;
use tieline_bench::fanout::load::{self, Window};

/// How far measured and predicted may be apart.
pub const APART_MAX: f64 = 0.1;

/// Headings and keys of the table.
pub const COLUMNS: &[(&str, &str)] = &[
    ("subscribers", "subscribers"),
    ("edges", "edges"),
    ("events", "delivered"),
    ("bytes", "bytes"),
    ("simulated", "simulated_bytes"),
    ("core: µs an update", "core_us_per_update"),
    ("simulated", "simulated_core_us_per_update"),
    ("predicted", "predicted_core_us_per_update"),
    ("ratio", "core_ratio_to_predicted"),
    ("µs an event", "us_per_event"),
    ("simulated", "simulated_us_per_event"),
    ("predicted", "predicted_us_per_event"),
    ("ratio", "ratio_to_predicted"),
];

/// What is read of a row of `tieline bench edges`.
#[derive(Clone, Debug, Deserialize)]
pub struct Measured {
    experiment: String,
    edges: usize,
    subscribers: usize,
    topics: usize,
    subscriptions_each: usize,
    rate_per_s: u64,
    #[serde(default)]
    edge_window_ms: f64,
    core_cpu_s_per_million_updates: Option<f64>,
    cpu_s_per_million: Option<f64>,
    floor_cpu_s_per_million: Option<f64>,
    window: Option<Window>,
    window_delivered: Option<u64>,
    window_bytes: Option<u64>,
}

/// One row.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Always `check`.
    pub experiment: &'static str,
    /// Subscribers, of all edges together.
    pub subscribers: usize,
    /// Edges.
    pub edges: usize,
    /// Topics.
    pub topics: usize,
    /// Topics of each subscriber.
    pub subscriptions_each: usize,
    /// Updates a second.
    pub rate_per_s: u64,
    /// Values that processes delivered; the simulation delivered as many, or there is no row.
    pub delivered: u64,
    /// Bytes of their messages.
    pub bytes: u64,
    /// The same of the simulation.
    pub simulated_bytes: u64,
    /// Processor time of the core for an update, in µs: measured, simulated.
    pub core_us_per_update: f64,
    /// Without sockets.
    pub simulated_core_us_per_update: f64,
    /// With them; absent with the fewest subscribers, from which they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_core_us_per_update: Option<f64>,
    /// Measured over predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub core_ratio_to_predicted: Option<f64>,
    /// Processor time of all edges for a value that a subscriber got, in µs.
    pub us_per_event: f64,
    /// Without sockets.
    pub simulated_us_per_event: f64,
    /// A write without logic.
    pub floor_us_per_event: f64,
    /// With sockets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub predicted_us_per_event: Option<f64>,
    /// Measured over predicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ratio_to_predicted: Option<f64>,
}

/// A row that was measured, and the same simulated.
struct Pair {
    plan: Plan,
    core_us: f64,
    /// Of all edges, for an update.
    serving_us: f64,
    /// A write.
    floor_us: f64,
    /// Events of an update.
    events: f64,
    delivered: u64,
    bytes: u64,
    found: Found,
}

/// Simulates the rows with edges of a result file of `tieline bench edges`, and compares.
///
/// # Errors
/// The file has no such rows, a simulation fails, or it delivers other values than the processes did.
pub fn check(text: &str, progress: impl Fn(&Plan)) -> Result<Vec<Row>, String> {
    let rows: Vec<serde_json::Value> = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let mirror = rows.into_iter().filter_map(|row| serde_json::from_value::<Measured>(row).ok());
    let mut pairs = Vec::new();
    for measured in mirror.filter(|row| row.experiment == "mirror" && row.edges > 0) {
        let pair = measured.pair(&progress)?;
        pairs.push(pair);
    }
    if pairs.is_empty() {
        return Err("no rows of `tieline bench edges --experiment mirror` with edges".to_owned());
    }
    Ok(pairs.iter().map(|pair| pair.row(&pairs)).collect())
}

/// Where bytes are not the same, or a prediction is wrong by more than [`APART_MAX`], in words.
#[must_use]
pub fn wrong(rows: &[Row]) -> Vec<String> {
    let is_apart = |ratio: &Option<f64>| ratio.is_some_and(|ratio| (ratio - 1.0).abs() > APART_MAX);
    let place = |row: &Row| format!("{} subscribers at {} edges", row.subscribers, row.edges);
    let bytes = rows.iter().filter(|row| row.bytes != row.simulated_bytes).map(|row| {
        format!("{}: processes sent {} bytes, the simulation {}", place(row), row.bytes, row.simulated_bytes)
    });
    let ratios = rows
        .iter()
        .flat_map(|row| [("core", row, row.core_ratio_to_predicted), ("edges", row, row.ratio_to_predicted)]);
    let apart = ratios.filter(|(_, _, ratio)| is_apart(ratio)).map(|(what, row, ratio)| {
        let ratio = ratio.unwrap_or(f64::NAN);
        format!("{what}, {}: measured over predicted is {ratio}, expected 1 ± {APART_MAX}", place(row))
    });
    bytes.chain(apart).collect()
}

impl Measured {
    fn pair(&self, progress: &impl Fn(&Plan)) -> Result<Pair, String> {
        let absent = || format!("the row of {} subscribers at {} edges has no figures", self.subscribers, self.edges);
        if self.edge_window_ms > 0.0 {
            return Err(format!(
                "a row has a window of {} ms, expected 0 ms: values are simulated one by one",
                self.edge_window_ms
            ));
        }
        let window = self.window.ok_or_else(absent)?;
        let load = load::Plan {
            subscribers: self.subscribers,
            topics: self.topics,
            rate: self.rate_per_s,
            subscriptions_each: self.subscriptions_each,
            form: Form::Json,
        };
        let first = load.due_by(window.from_us - window.start_us);
        let counted = load.due_by(window.to_us - window.start_us) - first;
        let plan = Plan { load, edges: self.edges, start_us: window.start_us, settle: 0, warm: first, counted };
        progress(&plan);
        let found = measure(plan)?;
        let (delivered, bytes) = (self.window_delivered.ok_or_else(absent)?, self.window_bytes.ok_or_else(absent)?);
        if found.events != delivered {
            return Err(format!("{plan:?}: {} values came, and processes delivered {delivered}", found.events));
        }
        let events = float(delivered) / float(counted);
        Ok(Pair {
            plan,
            core_us: self.core_cpu_s_per_million_updates.ok_or_else(absent)?,
            serving_us: self.cpu_s_per_million.ok_or_else(absent)? * events,
            floor_us: self.floor_cpu_s_per_million.ok_or_else(absent)?,
            events,
            delivered,
            bytes,
            found,
        })
    }
}

impl Pair {
    fn row(&self, pairs: &[Self]) -> Row {
        let load = self.plan.load;
        let fewest = pairs.iter().filter(|pair| pair.plan.edges == self.plan.edges);
        let fewest = fewest.min_by_key(|pair| pair.plan.load.subscribers);
        let fewest = fewest.filter(|fewest| fewest.plan.load.subscribers < load.subscribers);
        let core = fewest.map(|fewest| {
            let way = fewest.core_us - fewest.found.core_us_per_update;
            self.found.core_us_per_update + way
        });
        let serving = fewest.map(|fewest| {
            let way = fewest.serving_us - fewest.simulated_us() - fewest.events * self.floor_us;
            (self.simulated_us() + way) / self.events + self.floor_us
        });
        let us_per_event = self.serving_us / self.events;
        Row {
            experiment: "check",
            subscribers: load.subscribers,
            edges: self.plan.edges,
            topics: load.topics,
            subscriptions_each: load.subscriptions_each,
            rate_per_s: load.rate,
            delivered: self.delivered,
            bytes: self.bytes,
            simulated_bytes: self.found.bytes,
            core_us_per_update: short(self.core_us),
            simulated_core_us_per_update: short(self.found.core_us_per_update),
            predicted_core_us_per_update: core.map(short),
            core_ratio_to_predicted: core.map(|predicted| short(self.core_us / predicted)),
            us_per_event: short(us_per_event),
            simulated_us_per_event: short(self.found.us_per_event),
            floor_us_per_event: short(self.floor_us),
            predicted_us_per_event: serving.map(short),
            ratio_to_predicted: serving.map(|predicted| short(us_per_event / predicted)),
        }
    }

    /// Of all edges, for an update.
    fn simulated_us(&self) -> f64 {
        self.found.us_per_event * self.events
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A row whose sockets cost 10 µs an update at the core, and 20 at edges with 5 for each write.
    fn pair(subscribers: usize, (core, event): (f64, f64), more_an_event: f64) -> Pair {
        let load = load::Plan { subscribers, topics: 100, rate: 1000, subscriptions_each: 10, form: Form::Json };
        let plan = Plan { load, edges: 2, start_us: 0, settle: 0, warm: 100, counted: 100 };
        let events = float(subscribers as u64) / 10.0;
        let found =
            Found { events: 0, bytes: 7, core_us_per_update: core, us_per_event: event, link_bytes_per_update: 20.0 };
        Pair {
            plan,
            core_us: core + 10.0,
            serving_us: 20.0 + events * (event + 5.0 + more_an_event),
            floor_us: 5.0,
            events,
            delivered: 0,
            bytes: 7,
            found,
        }
    }

    fn rows(many: Pair) -> Vec<Row> {
        let pairs = [pair(10, (12.0, 3.0), 0.0), many];
        pairs.iter().map(|pair| pair.row(&pairs)).collect()
    }

    #[test]
    fn what_costs_more_than_simulated_is_found() {
        let well = rows(pair(1000, (12.0, 1.5), 0.0));
        assert_eq!(wrong(&well), Vec::<String>::new());
        assert_eq!((well[0].ratio_to_predicted, well[1].ratio_to_predicted), (None, Some(1.0)));
        assert_eq!(well[1].core_ratio_to_predicted, Some(1.0));
        assert!(wrong(&rows(pair(1000, (12.0, 1.5), 0.6))).is_empty(), "9 % are within the limit");
        let dear = wrong(&rows(pair(1000, (12.0, 1.5), 0.8)));
        assert!(dear.len() == 1 && dear[0].contains("edges, 1000 subscribers at 2 edges"), "{dear:?}");
        let mut many = pair(1000, (12.0, 1.5), 0.0);
        many.core_us += 3.0;
        let dear = wrong(&rows(many));
        assert!(dear.len() == 1 && dear[0].contains("core, 1000 subscribers"), "{dear:?}");
    }

    #[test]
    fn rows_are_simulated_as_they_were_measured() {
        let row = |delivered: u64| {
            format!(
                r#"[{{"experiment":"mirror","edges":0,"subscribers":8,"topics":20,"subscriptions_each":4,"rate_per_s":1000}},
                {{"experiment":"mirror","edges":1,"subscribers":8,"topics":20,"subscriptions_each":4,"rate_per_s":1000,
                "core_cpu_s_per_million_updates":20.0,"cpu_s_per_million":9.0,"floor_cpu_s_per_million":5.0,"window_delivered":{delivered},
                "window":{{"start_us":1000000,"from_us":1020000,"to_us":1060000,"end_us":1060000,"every_us":40000}},"window_bytes":1}}]"#
            )
        };
        let rows = check(&row(64), |_| {}).unwrap();
        assert_eq!((rows.len(), rows[0].delivered, rows[0].bytes), (1, 64, 1));
        assert!(rows[0].simulated_bytes > 64 * 10, "{rows:?}");
        assert!(check(&row(63), |_| {}).unwrap_err().contains("processes delivered 63"));
        assert!(check("[]", |_| {}).unwrap_err().contains("no rows"));
        let without = row(64).replace("window_bytes", "other");
        assert!(check(&without, |_| {}).unwrap_err().contains("has no figures"));
    }
}
