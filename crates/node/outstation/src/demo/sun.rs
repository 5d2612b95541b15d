//! The sun over both sites.

use std::f64::consts::PI;

/// The sine of the sun's height between six and six.
pub fn sun_height(hour: f64) -> f64 {
    ((hour - 6.0) / 12.0 * PI).sin().max(0.0) * f64::from(u8::from((6.0..18.0).contains(&hour)))
}
