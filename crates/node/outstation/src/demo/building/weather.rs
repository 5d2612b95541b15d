//! What the sky does to a building.

use crate::demo::sun::sun_height;
use std::f64::consts::TAU;
use tieline_model::Seed;

/// The weather of a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Weather {
    /// In °C.
    pub outdoor_c: f64,
    /// Irradiance on a flat roof in W/m².
    pub irradiance: f64,
    /// The same through windows to the east, and to the west.
    pub windows: [f64; 2],
}

impl Weather {
    /// The weather at `day_s` seconds after midnight. The seed says where the clouds are.
    #[must_use]
    pub fn at(seed: Seed, day_s: f64) -> Self {
        let hour = day_s / 3600.0;
        let wave = |number: u64, per_day: f64| (TAU * (per_day * hour / 24.0 + seed.with(number).unit())).sin();
        // Of periods that divide a day, so that midnight makes no step.
        let clouds = 0.5 + 0.25 * (wave(1, 31.0) + wave(2, 97.0));
        let sky = 1.0 - 0.6 * clouds.clamp(0.0, 1.0);
        let outdoor_c = 17.0 - 7.0 * (TAU * (hour - 3.0) / 24.0).cos() + 0.4 * wave(3, 13.0);
        let irradiance = 1000.0 * sun_height(hour) * sky;
        let morning = ((18.0 - hour) / 12.0).clamp(0.0, 1.0);
        Self { outdoor_c, irradiance, windows: [irradiance * morning, irradiance * (1.0 - morning)] }
    }
}
