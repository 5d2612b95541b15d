//! What was published of experiment 4, on its authors' hardware: VOLTTRON, message bus scalability, 2017. Devices of
//! 18 points each.

/// Seconds until all listeners had everything.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Published {
    /// Calls over the bus.
    pub rpc: f64,
    /// Raw `ZeroMQ`.
    pub zeromq: f64,
    /// The router integrated into the bus.
    pub router: f64,
}

/// Listeners, devices, and the three figures.
const FIGURES: [(usize, usize, f64, f64, f64); 11] = [
    (2, 50, 0.136, 0.012, 0.052),
    (2, 100, 0.353, 0.012, 0.040),
    (2, 500, 1.467, 0.040, 0.197),
    (2, 1000, 2.258, 0.084, 0.263),
    (2, 1500, 3.616, 0.134, 0.230),
    (10, 50, 0.509, 0.075, 0.196),
    (10, 100, 0.972, 0.168, 0.285),
    (10, 500, 3.986, 0.651, 1.197),
    (10, 1000, 10.217, 1.219, 2.438),
    (10, 1500, 16.227, 2.704, 3.363),
    (10, 2000, 19.24, 4.703, 5.436),
];

/// The figures of a combination, where it was published.
#[must_use]
pub fn of(devices: usize, points: usize, listeners: usize) -> Option<Published> {
    let found = FIGURES.iter().find(|figures| points == 18 && (figures.0, figures.1) == (listeners, devices))?;
    Some(Published { rpc: found.2, zeromq: found.3, router: found.4 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_published() {
        assert_eq!(of(500, 18, 10).map(|p| p.rpc), Some(3.986));
        assert_eq!(of(500, 17, 10), None);
        assert_eq!(of(2000, 18, 2), None);
    }
}
