//! What more processors would do.

/// How many times as much so many processors do as one, where the busiest of `n` threads has this part of the work of one:
/// Amdahl's law, part = s + (1 - s) / n, fitted by least squares.
pub fn speed_up(processors: f64, parts: &[(f64, f64)]) -> Option<f64> {
    let (mut above, mut below) = (0.0, 0.0);
    for (n, part) in parts {
        let lever = 1.0 - 1.0 / n;
        above += lever * (part - 1.0 / n);
        below += lever * lever;
    }
    if below <= 0.0 {
        return None;
    }
    let serial = (above / below).clamp(0.0, 1.0);
    Some(1.0 / (serial + (1.0 - serial) / processors))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amdahl_is_fitted() {
        let part = |serial: f64, n: f64| (n, serial + (1.0 - serial) / n);
        for (serial, expect) in [(0.0, 16.0), (1.0, 1.0), (0.1, 6.4)] {
            let found = speed_up(16.0, &[part(serial, 2.0), part(serial, 4.0)]).unwrap();
            assert!((found - expect).abs() < 1e-9, "{serial}: {found}");
        }
        assert_eq!(speed_up(16.0, &[]), None);
    }
}
