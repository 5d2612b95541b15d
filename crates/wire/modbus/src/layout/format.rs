//! Layouts by name, and as Python's struct formats, which VOLTTRON's registries use.
//!
//! | text | layout |
//! |---|---|
//! | `bool` `bit[3]` `bits[4..7]` | a coil or a register, one bit, bits 4 to 7 |
//! | `u16` `i16` `u32` `i32` `u64` `i64`, `uint16` … | integers |
//! | `f32` `float` `float32`, `f64` `double` `float64` | IEEE 754 |
//! | `bcd16` `bcd32` `bcd64`, `mod10k32` `mod10k48` `mod10k64` | decimal |
//! | `string[16]` `bytes[4]` | bytes of text; registers as they are |
//! | `>h` `>H` `>i` `>I` `>l` `>L` `>q` `>Q` `>f` `>d` `>8s` `>2H` `>?` | Python; `<` has the last byte of all first |

use super::{Kind, Layout, Order, Size};
use core::fmt;
use core::str::FromStr;

/// Bytes of the longest text: what one request reads.
const TEXT_BYTES_MAX: u16 = 250;

/// A text that is no layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FormatError;

impl fmt::Display for FormatError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(
            "expected bool, bit[0] to bit[15], bits[FIRST..LAST], u16, i16, u32, i32, u64, i64, f32, f64, bcd16, bcd32, \
             bcd64, mod10k32, mod10k48, mod10k64, string[BYTES], bytes[REGISTERS], or a Python struct format of one \
             value such as >f, <H or >8s",
        )
    }
}

impl core::error::Error for FormatError {}

impl FromStr for Layout {
    type Err = FormatError;

    fn from_str(text: &str) -> Result<Self, FormatError> {
        let text = text.trim();
        match named(text) {
            Some(kind) => Ok(Self::new(kind)),
            None => python(text).ok_or(FormatError),
        }
    }
}

fn named(text: &str) -> Option<Kind> {
    let is = |names: &[&str]| names.iter().any(|name| name.eq_ignore_ascii_case(text));
    let sizes = [
        (Size::One, ["u16", "uint16"], ["i16", "int16"], "bcd16"),
        (Size::Two, ["u32", "uint32"], ["i32", "int32"], "bcd32"),
        (Size::Four, ["u64", "uint64"], ["i64", "int64"], "bcd64"),
    ];
    let sized = sizes.iter().find_map(|(size, unsigned, signed, bcd)| {
        let kinds =
            [(is(unsigned), Kind::Unsigned(*size)), (is(signed), Kind::Signed(*size)), (is(&[bcd]), Kind::Bcd(*size))];
        kinds.into_iter().find(|(is_it, _)| *is_it).map(|(_, kind)| kind)
    });
    let plain = [
        (&["bool", "boolean", "bit"][..], Kind::Bool),
        (&["f32", "float", "float32"], Kind::Float32),
        (&["f64", "double", "float64"], Kind::Float64),
        (&["mod10k32"], Kind::Mod10k(2)),
        (&["mod10k48"], Kind::Mod10k(3)),
        (&["mod10k64"], Kind::Mod10k(4)),
    ];
    let plain = plain.into_iter().find(|(names, _)| is(names)).map(|(_, kind)| kind);
    sized.or(plain).or_else(|| bracketed(text))
}

/// `name[…]`.
fn bracketed(text: &str) -> Option<Kind> {
    let (name, rest) = text.split_once('[')?;
    let inside = rest.strip_suffix(']')?;
    match name {
        "bit" => bits(number(inside)?, number(inside)?),
        "bits" => {
            let (first, last) = inside.split_once("..")?;
            bits(number(first)?, number(last)?)
        }
        "string" => text_of(number(inside)?),
        "bytes" => registers_of(number(inside)?),
        _ => None,
    }
}

fn number(text: &str) -> Option<u16> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn bits(first: u16, last: u16) -> Option<Kind> {
    let count = u8::try_from(last.checked_sub(first)?).ok()?.checked_add(1)?;
    (last <= 15).then_some(Kind::Bits { first: u8::try_from(first).ok()?, count })
}

fn text_of(bytes: u16) -> Option<Kind> {
    (1..=TEXT_BYTES_MAX).contains(&bytes).then_some(Kind::Text(bytes))
}

fn registers_of(count: u16) -> Option<Kind> {
    (1..=TEXT_BYTES_MAX / 2).contains(&count).then_some(Kind::Bytes(count))
}

/// A struct format of Python: the bytes of registers as they come, read in one order from the first to the last. A
/// text has no order.
fn python(text: &str) -> Option<Layout> {
    let order = |first: char| match first {
        '>' | '!' => Some((Order::Big, false)),
        '<' | '=' => Some((Order::Little, false)),
        '@' => Some((Order::Little, true)),
        _ => None,
    };
    let first = text.chars().next()?;
    let rest = if order(first).is_some() { text.get(1..)? } else { text };
    // Without an order it is that of the machine, which is a little-endian one, and the sizes are those of its C.
    let (order, is_native) = order(first).unwrap_or((Order::Little, true));
    let code = rest.chars().last()?;
    let count = match rest.strip_suffix(code)? {
        "" => None,
        digits => Some(number(digits)?),
    };
    let kind = match (count, code) {
        (Some(bytes), 's') => text_of(bytes)?,
        (Some(count @ 2..), 'H') => registers_of(count)?,
        (None | Some(1), _) => python_kind(code, is_native)?,
        (Some(_), _) => return None,
    };
    let order = if matches!(kind, Kind::Text(_)) { Order::Big } else { order };
    Some(Layout { kind, words: order, bytes: order })
}

fn python_kind(code: char, is_native: bool) -> Option<Kind> {
    let long = if is_native { Size::Four } else { Size::Two };
    Some(match code {
        'h' => Kind::Signed(Size::One),
        'H' => Kind::Unsigned(Size::One),
        'i' => Kind::Signed(Size::Two),
        'I' => Kind::Unsigned(Size::Two),
        'l' => Kind::Signed(long),
        'L' => Kind::Unsigned(long),
        'q' => Kind::Signed(Size::Four),
        'Q' => Kind::Unsigned(Size::Four),
        'f' => Kind::Float32,
        'd' => Kind::Float64,
        '?' => Kind::Bool,
        _ => return None,
    })
}
