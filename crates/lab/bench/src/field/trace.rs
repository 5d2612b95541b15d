//! What traces cost a whole node: the same node with the traces that devices have by default and without them, in turns.

use super::node::{self, PUBLISH, Setting};
use super::{Experiment, Figures, Options, Row};
use crate::process;
use crate::report::Progress;
use crate::rounds::{Side, median, median_ratio, short, take_turns};
use anyhow::Result;
use serde::Serialize;

/// What a row measured: medians over its rounds, in percent of a core.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct TraceFigures {
    /// The whole node with traces.
    pub node_percent: f64,
    /// The same without.
    pub untraced_node_percent: f64,
    /// The one over the other.
    pub ratio_to_untraced: f64,
    /// The threads of the driver with traces.
    pub driver_percent: f64,
    /// The same without.
    pub untraced_driver_percent: f64,
    /// The one over the other.
    pub driver_ratio_to_untraced: f64,
}

/// The rows of the experiment.
pub fn rows(options: &Options, progress: &Progress) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    for &devices in &options.devices {
        process::reserve_descriptors(devices, 2)?;
        for &protocol in &options.protocols {
            let [publish, ..] = PUBLISH;
            rows.push(row(options, progress, Setting { protocol, devices, publish, is_traced: true }));
        }
    }
    Ok(rows)
}

fn row(options: &Options, progress: &Progress, setting: Setting) -> Row {
    let (mut traced, mut untraced) = (Vec::new(), Vec::new());
    let what = format!("field: traces of {} devices, {}", setting.devices, setting.protocol.word());
    let invalid = take_turns(options.rounds, progress, &what, |side| {
        match side {
            Side::Ours => traced.push(node::round(options, setting)?),
            Side::Floor => untraced.push(node::round(options, Setting { is_traced: false, ..setting })?),
        }
        Ok(())
    });
    let figures = invalid.is_none().then(|| Figures::Trace(figures(&traced, &untraced)));
    Row { figures, invalid, ..setting.row(options, Experiment::Trace) }
}

fn figures(traced: &[node::Round], untraced: &[node::Round]) -> TraceFigures {
    let shares = |rounds: &[node::Round], of: fn(&node::Round) -> f64| rounds.iter().map(of).collect::<Vec<f64>>();
    let both = |of| (shares(traced, of), shares(untraced, of));
    let (node, untraced_node) = both(|round| round.node_percent);
    let (driver, untraced_driver) = both(|round| round.driver_percent);
    TraceFigures {
        node_percent: short(median(&node)),
        untraced_node_percent: short(median(&untraced_node)),
        ratio_to_untraced: short(median_ratio(&node, &untraced_node)),
        driver_percent: short(median(&driver)),
        untraced_driver_percent: short(median(&untraced_driver)),
        driver_ratio_to_untraced: short(median_ratio(&driver, &untraced_driver)),
    }
}
