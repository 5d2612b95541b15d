//! Device attributes of an outstation of ours.
//!
//! ```toml
//! [attributes]                 # of the standard's set 0, by name
//! manufacturer = "Acme"        # masters read these
//! name = "Feeder 3"            # masters read and write these: user-assigned
//!
//! [[attribute]]                # any other
//! set = 7
//! variation = 1
//! value = "by hand"            # text, a whole number or a decimal
//! writable = true
//! ```

use tieline_dnp3::app::{ATTRIBUTE_BYTES_MAX, Attribute, AttributeValue};
use tieline_dnp3::outstation::DeviceAttributes;
use tieline_service::parse;
use tieline_service::reader::{Document, Expected, Section};
use toml::de::DeValue;

/// Texts that masters read: key, variation.
const TEXTS: [(&str, u8); 8] = [
    ("configuration_id", 196),
    ("configuration_version", 197),
    ("software_version", 242),
    ("hardware_version", 243),
    ("serial_number", 248),
    ("subset", 249),
    ("product", 250),
    ("manufacturer", 252),
];

/// Texts that masters write too.
const USER_TEXTS: [(&str, u8); 7] = [
    ("secondary_operator", 206),
    ("primary_operator", 207),
    ("system", 208),
    ("owner", 244),
    ("location", 245),
    ("id", 246),
    ("name", 247),
];

/// Places on the globe, which masters write too.
const USER_NUMBERS: [(&str, u8); 3] = [("altitude", 203), ("longitude", 204), ("latitude", 205)];

/// What an outstation says of itself where its file does not.
fn defaults() -> DeviceAttributes {
    DeviceAttributes::new()
        .with(252, AttributeValue::text("Tieline"))
        .with(250, AttributeValue::text("tieline dnp3 outstation"))
        .with(242, AttributeValue::text(env!("CARGO_PKG_VERSION")))
}

/// Reads `[attributes]` and `[[attribute]]`.
pub(super) fn read(doc: &mut Document<'_>, s: &mut Section<'_>) -> DeviceAttributes {
    let mut attributes = defaults();
    let mut named = s.section(doc, "attributes");
    let mut give = |variation, value: Option<AttributeValue>, writable| {
        if let Some(value) = value {
            attributes.set(Attribute { set: 0, variation, value }, writable);
        }
    };
    for (key, variation) in TEXTS {
        give(variation, named.optional(doc, key, text), false);
    }
    for (key, variation) in USER_TEXTS {
        give(variation, named.optional(doc, key, text), true);
    }
    for (key, variation) in USER_NUMBERS {
        give(variation, named.optional(doc, key, |v| parse::number(v).map(AttributeValue::Float)), true);
    }
    named.finish(doc);
    for mut other in s.array(doc, "attribute") {
        let set = other.or(doc, "set", 0, parse::integer(0..=65_535));
        let variation = other.required(doc, "variation", "the number of the attribute", parse::integer(1..=253));
        let value = other.required(doc, "value", "what it says", value);
        let writable = other.or(doc, "writable", false, parse::boolean);
        if let (Some(variation), Some(value)) = (variation, value) {
            attributes.set(Attribute { set, variation, value }, writable);
        }
        other.finish(doc);
    }
    attributes
}

fn text(value: &DeValue<'_>) -> Result<AttributeValue, Expected> {
    let text = value.as_str().filter(|text| text.len() <= ATTRIBUTE_BYTES_MAX);
    text.map(AttributeValue::text).ok_or_else(|| format!("text of up to {ATTRIBUTE_BYTES_MAX} bytes"))
}

fn value(value: &DeValue<'_>) -> Result<AttributeValue, Expected> {
    match value {
        DeValue::String(_) => text(value),
        DeValue::Integer(_) => {
            let whole = parse::integer(0..=u64::from(u32::MAX))(value).map(AttributeValue::Unsigned);
            whole.or_else(|_| parse::integer(i64::from(i32::MIN)..=-1)(value).map(AttributeValue::Signed))
        }
        DeValue::Float(_) => parse::number(value).map(AttributeValue::Float),
        DeValue::Boolean(_) | DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => {
            Err("text, a whole number or a decimal".to_owned())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::from_text;
    use super::*;

    fn check(text: &str, set: u16, variation: u8, expect: &AttributeValue) {
        let file = from_text("o.toml", text).unwrap();
        assert_eq!(file.attributes.get(set, variation), Some(expect), "{text}");
    }

    #[test]
    fn attributes_are_read() {
        check("", 0, 252, &AttributeValue::text("Tieline"));
        check("[attributes]\nmanufacturer = 'Acme'", 0, 252, &AttributeValue::text("Acme"));
        check("[attributes]\nlatitude = 46.5", 0, 205, &AttributeValue::Float(46.5));
        check("[[attribute]]\nset=7\nvariation=1\nvalue=9\n", 7, 1, &AttributeValue::Unsigned(9));
        check("[[attribute]]\nvariation=1\nvalue=-9\n", 0, 1, &AttributeValue::Signed(-9));
        let wrong =
            from_text("o.toml", "[attributes]\nname=3\n[[attribute]]\nvariation=254\nvalue=true\n").unwrap_err();
        let wrong: Vec<String> = wrong.0.iter().map(ToString::to_string).collect();
        assert_eq!(
            wrong,
            [
                "o.toml:2:6: attributes.name: found 3, expected text of up to 255 bytes",
                "o.toml:4:11: attribute[0].variation: found 254, expected a whole number from 1 to 253",
                "o.toml:5:7: attribute[0].value: found true, expected text, a whole number or a decimal",
            ]
        );
    }
}
