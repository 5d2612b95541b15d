//! Dead-bands of analogs: group 34 (IEEE 1815 A.18).

use super::application::Application;
use super::controls::OutstationEvent;
use super::point::Point;
use crate::app::{FragmentWriter, Header, PointRef, WriteError};
use crate::objects::Layout;
use crate::{Flags, GroupVar, Iin, Measured, PointType};

/// The variation of a read that leaves the choice to the outstation: single precision, as dead-bands are kept.
const VARIATION: u8 = 3;

impl Application {
    /// Writes dead-bands; a point that is not there, or a band that is no number or negative, is IIN2.2, and keeps no
    /// other from being written.
    pub(super) fn write_dead_bands(&mut self, header: &Header<'_>) -> Iin {
        let Some(layout) = header.layout() else { return Iin::OBJECT_UNKNOWN };
        let (mut iin, mut written) = (Iin::NONE, false);
        for item in header.items() {
            let slots = u16::try_from(item.index)
                .map(|index| self.database.slots_between(PointType::Analog, index, index))
                .unwrap_or_default();
            let band = layout.decode(item.bytes).ok().and_then(|fields| band_of(&fields.value?));
            match (slots.last(), band) {
                (Some(slot), Some(band)) => {
                    self.database.set_dead_band(slot, band);
                    written = true;
                }
                (None, _) | (_, None) => iin = Iin::PARAMETER_ERROR,
            }
        }
        if header.data().is_empty() {
            iin = Iin::PARAMETER_ERROR;
        }
        if written {
            self.tell(OutstationEvent::DeadBandsWritten);
        }
        iin
    }
}

/// Tells the dead-band of an analog.
pub(super) fn write_dead_band(point: &Point, asked: u8, out: &mut FragmentWriter<'_>) -> Result<(), WriteError> {
    let object = GroupVar::new(34, if asked == 0 { VARIATION } else { asked });
    let band = point.dead_band();
    let value = match Layout::find(object) {
        Some(layout) if layout.value == crate::objects::ValueForm::F32 => Measured::Analog(band.into()),
        Some(layout) => Measured::Count(whole(band, layout.bytes().unwrap_or(4))),
        None => return Err(WriteError::WrongObject(object)),
    };
    out.static_point(object, PointRef { index: point.index, value: &value, flags: Flags::ONLINE, stamp: None })
}

#[expect(clippy::cast_possible_truncation, reason = "a double that came from 16, 32 bits or single precision")]
#[expect(clippy::cast_precision_loss, reason = "dead-bands are kept in single precision")]
fn band_of(value: &Measured) -> Option<f32> {
    match value {
        Measured::Count(count) => Some(*count as f32),
        Measured::Analog(x) if x.is_finite() && *x >= 0.0 => Some(*x as f32),
        Measured::Analog(_) | Measured::Bit(_) | Measured::DoubleBit(_) | Measured::Bytes(_) => None,
    }
}

/// The nearest whole number that so many bytes hold; never 0 for a band that is not 0, because 0 reports every change.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturates, which a band may")]
fn whole(band: f32, bytes: usize) -> u32 {
    let max = if bytes == 2 { u32::from(u16::MAX) } else { u32::MAX };
    ((band + 0.5) as u32).clamp(u32::from(band > 0.0), max)
}
