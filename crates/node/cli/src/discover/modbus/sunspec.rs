//! SunSpec over Modbus: the chain of models of a device, and its points with their scale factors.
//!
//! ```text
//! base (40000, 50000 or 0)   "SunS"   model 1   length   data…   model   length   data…   0xFFFF
//! ```

use super::link::{Heard, Link};
use tieline_modbus::{Request, Response, Table};

/// Where the chain may begin.
const BASES: [u16; 3] = [40_000, 50_000, 0];
/// "SunS".
const MARK: [u16; 2] = [0x5375, 0x6E53];
const END: u16 = 0xFFFF;
/// Models of one device at most.
const MODELS_MAX: usize = 64;
/// Registers of one read at most.
const READ_MAX: u16 = 120;

/// A model of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// Its number.
    pub id: u16,
    /// The address of its data.
    pub start: u16,
    /// Its data.
    pub data: Vec<u16>,
}

/// A point that a device has.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Below the device's topic.
    pub name: &'static str,
    /// Its first register.
    pub index: u16,
    /// Its format, as in point lists.
    pub format: &'static str,
    /// What a raw unit is.
    pub scale: f64,
    /// Its unit.
    pub unit: &'static str,
}

/// Reads the chain; empty where there is none.
pub async fn models(link: &Link, unit: u8) -> Vec<Model> {
    for base in BASES {
        match read(link, unit, base, 2).await {
            Some(mark) if mark == MARK => return chain(link, unit, base + 2).await,
            Some(_) | None => {}
        }
    }
    Vec::new()
}

async fn chain(link: &Link, unit: u8, first: u16) -> Vec<Model> {
    let (mut models, mut at) = (Vec::new(), first);
    while models.len() < MODELS_MAX {
        let Some(head) = read(link, unit, at, 2).await else { break };
        let [id, length] = head[..] else { break };
        let start = at.checked_add(2);
        let (Some(start), Some(next)) = (start, start.and_then(|start| start.checked_add(length))) else { break };
        if id == END || id == 0 {
            break;
        }
        let mut data = Vec::new();
        while data.len() < usize::from(length) {
            let have = u16::try_from(data.len()).unwrap_or(u16::MAX);
            match read(link, unit, start + have, (length - have).min(READ_MAX)).await {
                Some(registers) if !registers.is_empty() => data.extend(registers),
                Some(_) | None => return models,
            }
        }
        models.push(Model { id, start, data });
        at = next;
    }
    models
}

async fn read(link: &Link, unit: u8, start: u16, count: u16) -> Option<Vec<u16>> {
    match link.ask(unit, Request::Read { table: Table::HoldingRegisters, start, count }).await {
        Heard::Answer(Response::Registers(registers)) => Some(registers.into_vec()),
        Heard::Answer(_) | Heard::Refused(_) | Heard::Nothing => None,
    }
}

/// What the common model says: manufacturer, model, version, serial number.
pub fn common(models: &[Model]) -> Option<[String; 4]> {
    let data = &models.iter().find(|model| model.id == 1)?.data;
    let text = |from: usize, registers: usize| {
        let bytes = data.get(from..from + registers).unwrap_or_default().iter().flat_map(|word| word.to_be_bytes());
        let text: Vec<u8> = bytes.take_while(|byte| *byte != 0).collect();
        String::from_utf8_lossy(&text).trim().to_owned()
    };
    Some([text(0, 16), text(16, 16), text(40, 8), text(48, 16)])
}

/// A point of a model: name, offset of its data, format, offset of its scale factor, unit.
type Definition = (&'static str, u16, &'static str, Option<u16>, &'static str);

/// Models 101 to 103: inverters of one to three phases.
const INVERTER: &[Definition] = &[
    ("current", 0, "u16", Some(4), "A"),
    ("current/l1", 1, "u16", Some(4), "A"),
    ("current/l2", 2, "u16", Some(4), "A"),
    ("current/l3", 3, "u16", Some(4), "A"),
    ("voltage/l12", 5, "u16", Some(11), "V"),
    ("voltage/l23", 6, "u16", Some(11), "V"),
    ("voltage/l31", 7, "u16", Some(11), "V"),
    ("voltage/l1", 8, "u16", Some(11), "V"),
    ("voltage/l2", 9, "u16", Some(11), "V"),
    ("voltage/l3", 10, "u16", Some(11), "V"),
    ("power", 12, "i16", Some(13), "W"),
    ("frequency", 14, "u16", Some(15), "Hz"),
    ("apparent_power", 16, "i16", Some(17), "VA"),
    ("reactive_power", 18, "i16", Some(19), "var"),
    ("power_factor", 20, "i16", Some(21), "%"),
    ("energy", 22, "u32", Some(24), "Wh"),
    ("dc/current", 25, "u16", Some(26), "A"),
    ("dc/voltage", 27, "u16", Some(28), "V"),
    ("dc/power", 29, "i16", Some(30), "W"),
    ("temperature/cabinet", 31, "i16", Some(35), "°C"),
    ("temperature/heat_sink", 32, "i16", Some(35), "°C"),
    ("operating_state", 36, "u16", None, ""),
    ("events", 38, "u32", None, ""),
];

/// Models 201 to 204: meters of one to three phases.
const METER: &[Definition] = &[
    ("current", 0, "i16", Some(4), "A"),
    ("current/l1", 1, "i16", Some(4), "A"),
    ("current/l2", 2, "i16", Some(4), "A"),
    ("current/l3", 3, "i16", Some(4), "A"),
    ("voltage/ln", 5, "i16", Some(13), "V"),
    ("voltage/l1", 6, "i16", Some(13), "V"),
    ("voltage/l2", 7, "i16", Some(13), "V"),
    ("voltage/l3", 8, "i16", Some(13), "V"),
    ("voltage/ll", 9, "i16", Some(13), "V"),
    ("frequency", 14, "i16", Some(15), "Hz"),
    ("power", 16, "i16", Some(20), "W"),
    ("power/l1", 17, "i16", Some(20), "W"),
    ("power/l2", 18, "i16", Some(20), "W"),
    ("power/l3", 19, "i16", Some(20), "W"),
    ("apparent_power", 21, "i16", Some(25), "VA"),
    ("reactive_power", 26, "i16", Some(30), "var"),
    ("power_factor", 31, "i16", Some(35), "%"),
    ("energy/exported", 36, "u32", Some(52), "Wh"),
    ("energy/imported", 44, "u32", Some(52), "Wh"),
];

/// The points of the models that this program knows and that the device has implemented.
pub fn points(models: &[Model]) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for model in models {
        let definitions = match model.id {
            101..=103 => INVERTER,
            201..=204 => METER,
            _ => continue,
        };
        for (name, offset, format, factor, unit) in definitions {
            let is_new = found.iter().all(|point| point.name != *name);
            let exponent = factor.map_or(Some(0), |at| exponent(model, at));
            if let (true, true, Some(exponent), Some(index)) =
                (is_new, is_implemented(model, *offset, format), exponent, model.start.checked_add(*offset))
            {
                found.push(Found { name, index, format, scale: 10_f64.powi(exponent), unit });
            }
        }
    }
    found
}

fn word(model: &Model, offset: u16) -> Option<u16> {
    model.data.get(usize::from(offset)).copied()
}

/// A scale factor; none where it is not implemented.
fn exponent(model: &Model, offset: u16) -> Option<i32> {
    let [high, low] = word(model, offset)?.to_be_bytes();
    let factor = i16::from_be_bytes([high, low]);
    (-10..=10).contains(&factor).then(|| i32::from(factor))
}

/// Values that mean that a point is not there.
fn is_implemented(model: &Model, offset: u16, format: &str) -> bool {
    match (format, word(model, offset)) {
        (_, None) => false,
        ("u16", Some(value)) => value != 0xFFFF,
        ("i16", Some(value)) => value != 0x8000,
        (_, Some(high)) => word(model, offset + 1).is_some_and(|low| (high, low) != (0xFFFF, 0xFFFF)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn points_are_those_that_are_implemented() {
        // What is not there: no power of ten, no number.
        let mut data = vec![0x8000_u16; 50];
        [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 25, 27, 36, 38, 39].iter().for_each(|at| data[*at] = 0xFFFF);
        (data[12], data[13]) = (1500, 0xFFFF);
        (data[14], data[15]) = (5001, 0xFFFE);
        (data[20], data[21]) = (0x8000, 0);
        (data[22], data[23], data[24]) = (0, 7, 1);
        data[36] = 4;
        let points = points(&[Model { id: 103, start: 40_072, data }]);
        let shown: Vec<_> = points.iter().map(|point| (point.name, point.index, point.scale)).collect();
        let expect = [
            ("power", 40_084, 0.1),
            ("frequency", 40_086, 0.01),
            ("energy", 40_094, 10.0),
            ("operating_state", 40_108, 1.0),
        ];
        assert_eq!(shown, expect);
    }

    #[test]
    fn the_common_model_says_who_it_is() {
        let mut data = vec![0_u16; 66];
        data[0] = 0x4163;
        data[1] = 0x6D65;
        data[16] = 0x4931;
        data[48] = 0x3432;
        let common = common(&[Model { id: 1, start: 40_004, data }]).unwrap();
        assert_eq!(common, ["Acme", "I1", "", "42"].map(str::to_owned));
    }
}
