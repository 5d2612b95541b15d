//! Registers to a value, and back.

use super::{Kind, Layout, LayoutError, Order, Size};
use alloc::boxed::Box;
use alloc::string::String;
use alloc::vec::Vec;
use tieline_core::{Value, nearest_int, shortest};

/// The base of [`Kind::Mod10k`].
const MOD10K: i64 = 10_000;

impl Layout {
    /// The value of a coil or a discrete input.
    #[must_use]
    pub const fn decode_bit(bit: bool) -> Value {
        Value::Bool(bit)
    }

    /// The value of registers. An unsigned integer of 64 bits above the range of a signed one becomes the nearest float.
    ///
    /// # Errors
    /// Another number of registers, or registers that hold no decimal digits where they must.
    pub fn decode(&self, registers: &[u16]) -> Result<Value, LayoutError> {
        if registers.len() != usize::from(self.registers()) {
            return Err(LayoutError::Registers { found: registers.len(), expected: self.registers() });
        }
        let raw = self.raw(registers);
        Ok(match self.kind {
            Kind::Bool => Value::Bool(raw != 0),
            Kind::Bits { first, count: 1 } => Value::Bool(shifted(raw, first) & 1 == 1),
            Kind::Bits { first, count } => Value::Int(signed(shifted(raw, first) & mask_of(count))),
            Kind::Unsigned(_) => i64::try_from(raw).map_or_else(|_| Value::Float(nearest_float(raw)), Value::Int),
            Kind::Signed(Size::One) => Value::Int(i64::from(low_word(raw).cast_signed())),
            Kind::Signed(Size::Two) => Value::Int(i64::from(low_half(raw).cast_signed())),
            Kind::Signed(Size::Four) => Value::Int(raw.cast_signed()),
            Kind::Float32 => Value::Float(shortest(f64::from(f32::from_bits(low_half(raw))))),
            Kind::Float64 => Value::Float(f64::from_bits(raw)),
            Kind::Bcd(_) => Value::Int(self.in_order(registers).try_fold(0, |sum, register| {
                Ok(sum * MOD10K + i64::from(digits_of(register).ok_or(LayoutError::Bcd(register))?))
            })?),
            Kind::Mod10k(_) => Value::Int(self.decode_mod10k(registers)?),
            Kind::Text(bytes) => Value::Text(text_of(&self.bytes_of(registers), usize::from(bytes))),
            Kind::Bytes(_) => Value::Bytes(self.bytes_of(registers).into()),
        })
    }

    /// The registers of a value. A float for an integer is rounded to the nearest.
    ///
    /// # Errors
    /// The value is of another type, or out of range.
    pub fn encode(&self, value: &Value) -> Result<Vec<u16>, LayoutError> {
        match self.kind {
            Kind::Bool => Ok(self.registers_of(u64::from(boolean(value)?))),
            Kind::Bits { .. } => {
                let (_, or) = self.masks(value)?;
                Ok([or].into())
            }
            Kind::Unsigned(size) => {
                let max = u64::MAX >> (64 - size.bits());
                let number = integer(value, 0, i128::from(max))?;
                Ok(self.registers_of(u64::try_from(number).unwrap_or(0)))
            }
            Kind::Signed(size) => {
                let max = i64::MAX >> (64 - size.bits());
                let number = integer(value, i128::from(!max), i128::from(max))?;
                Ok(self.registers_of(i64::try_from(number).unwrap_or(0).cast_unsigned()))
            }
            Kind::Float32 => {
                let number = float(value)?;
                let narrow = narrow_float(number);
                if number.is_finite() && !narrow.is_finite() {
                    return Err(LayoutError::FloatRange);
                }
                Ok(self.registers_of(u64::from(narrow.to_bits())))
            }
            Kind::Float64 => Ok(self.registers_of(float(value)?.to_bits())),
            Kind::Bcd(size) => self.encode_base_10k(value, size.registers(), 0, bcd_of),
            Kind::Mod10k(count) => {
                let limit = base_10k_max(u16::from(count));
                self.encode_base_10k(value, u16::from(count), -limit, |part| {
                    i16::try_from(part).unwrap_or(0).cast_unsigned()
                })
            }
            Kind::Text(bytes) => {
                let Value::Text(text) = value else { return Err(LayoutError::Type { expected: "a text" }) };
                self.registers_of_bytes(text.as_bytes(), usize::from(bytes))
            }
            Kind::Bytes(count) => {
                let Value::Bytes(bytes) = value else { return Err(LayoutError::Type { expected: "bytes" }) };
                self.registers_of_bytes(bytes, usize::from(count) * 2)
            }
        }
    }

    /// Which bits of the register stay, and the values of the others; for [`Kind::Bits`].
    pub(super) fn masks(&self, value: &Value) -> Result<(u16, u16), LayoutError> {
        let Kind::Bits { first, count } = self.kind else { return Err(LayoutError::Table) };
        let mask = mask_of(count);
        let number = if count == 1 {
            u64::from(boolean(value)?)
        } else {
            u64::try_from(integer(value, 0, i128::from(mask))?).unwrap_or(0)
        };
        let up = |bits: u64| low_word(bits.checked_shl(u32::from(first)).unwrap_or(0));
        let (and, or) = (!up(mask), up(number));
        Ok((self.ordered(and), self.ordered(or)))
    }

    /// Registers, the most significant first.
    fn in_order<'a>(&self, registers: &'a [u16]) -> impl Iterator<Item = u16> + 'a {
        let Self { words, bytes, .. } = *self;
        let count = registers.len();
        (0..count).filter_map(move |at| {
            let at = if words == Order::Big { at } else { count - 1 - at };
            registers.get(at).map(|register| if bytes == Order::Big { *register } else { register.swap_bytes() })
        })
    }

    const fn ordered(&self, register: u16) -> u16 {
        match self.bytes {
            Order::Big => register,
            Order::Little => register.swap_bytes(),
        }
    }

    /// The last four registers as one number.
    fn raw(&self, registers: &[u16]) -> u64 {
        self.in_order(registers).fold(0, |raw, register| raw << 16 | u64::from(register))
    }

    /// The registers of a number, as many as the layout has.
    fn registers_of(&self, raw: u64) -> Vec<u16> {
        let count = u32::from(self.registers());
        let words = (0..count).rev().map(|at| low_word(raw >> (16 * at).min(63)));
        self.arranged(words.collect())
    }

    /// From the most significant register first to the order of the device.
    fn arranged(&self, mut registers: Vec<u16>) -> Vec<u16> {
        if self.words == Order::Little {
            registers.reverse();
        }
        registers.iter().map(|register| self.ordered(*register)).collect()
    }

    fn bytes_of(&self, registers: &[u16]) -> Vec<u8> {
        registers.iter().flat_map(|register| self.ordered(*register).to_be_bytes()).collect()
    }

    fn registers_of_bytes(&self, bytes: &[u8], max: usize) -> Result<Vec<u16>, LayoutError> {
        if bytes.len() > max {
            return Err(LayoutError::TooLong { found: bytes.len(), max });
        }
        let mut bytes = bytes.to_vec();
        bytes.resize(usize::from(self.registers()) * 2, 0);
        let (pairs, _) = bytes.as_chunks::<2>();
        Ok(pairs.iter().map(|pair| self.ordered(u16::from_be_bytes(*pair))).collect())
    }

    fn decode_mod10k(&self, registers: &[u16]) -> Result<i64, LayoutError> {
        let mut sign = 0;
        self.in_order(registers).try_fold(0, |sum: i64, register| {
            let part = i64::from(register.cast_signed());
            let wrong = part.abs() >= MOD10K || part.signum() * sign < 0;
            if wrong {
                return Err(LayoutError::Mod10k(register));
            }
            sign = if part == 0 { sign } else { part.signum() };
            Ok(sum.saturating_mul(MOD10K).saturating_add(part))
        })
    }

    /// The parts of a number in base 10,000, each as a register.
    fn encode_base_10k(
        &self,
        value: &Value,
        count: u16,
        min: i128,
        register_of: impl Fn(i64) -> u16,
    ) -> Result<Vec<u16>, LayoutError> {
        let mut rest = i64::try_from(integer(value, min, base_10k_max(count))?).unwrap_or(0);
        let mut registers = Vec::new();
        for _ in 0..count {
            registers.push(register_of(rest % MOD10K));
            rest /= MOD10K;
        }
        registers.reverse();
        Ok(self.arranged(registers))
    }
}

/// The largest number of so many digits in base 10,000.
fn base_10k_max(count: u16) -> i128 {
    i128::from(MOD10K).pow(u32::from(count).min(4)) - 1
}

/// So many low bits set.
const fn mask_of(count: u8) -> u64 {
    if count >= 16 { 0xFFFF } else { (1 << count) - 1 }
}

fn shifted(raw: u64, down: u8) -> u64 {
    raw.checked_shr(u32::from(down)).unwrap_or(0)
}

const fn low_word(raw: u64) -> u16 {
    let [.., high, low] = raw.to_be_bytes();
    u16::from_be_bytes([high, low])
}

const fn low_half(raw: u64) -> u32 {
    let [.., a, b, c, d] = raw.to_be_bytes();
    u32::from_be_bytes([a, b, c, d])
}

/// A number of at most 63 bits.
fn signed(raw: u64) -> i64 {
    i64::try_from(raw).unwrap_or(i64::MAX)
}

#[expect(clippy::cast_precision_loss, reason = "there is no exact value for it: the doc of decode says so")]
const fn nearest_float(raw: u64) -> f64 {
    raw as f64
}

#[expect(clippy::cast_possible_truncation, reason = "the nearest float of 32 bits is what is meant")]
const fn narrow_float(number: f64) -> f32 {
    number as f32
}

/// Four decimal digits.
fn digits_of(register: u16) -> Option<u16> {
    [12, 8, 4, 0].iter().try_fold(0, |sum, shift| {
        let digit = register >> shift & 15;
        (digit <= 9).then_some(sum * 10 + digit)
    })
}

fn bcd_of(part: i64) -> u16 {
    let part = u16::try_from(part).unwrap_or(0);
    [1000, 100, 10, 1].iter().fold(0, |digits, scale| digits << 4 | (part / scale % 10))
}

fn text_of(bytes: &[u8], count: usize) -> Box<str> {
    let bytes = bytes.get(..count).unwrap_or(bytes);
    let end = bytes.iter().rposition(|byte| !matches!(byte, 0 | b' ')).map_or(0, |last| last + 1);
    let bytes = bytes.get(..end).unwrap_or_default();
    match core::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        // Text of a device that is not UTF-8 is mostly ISO 8859-1, whose codes are those of Unicode.
        Err(_) => bytes.iter().map(|byte| char::from(*byte)).collect::<String>().into(),
    }
}

fn boolean(value: &Value) -> Result<bool, LayoutError> {
    match value {
        Value::Bool(on) => Ok(*on),
        Value::Int(0) => Ok(false),
        Value::Int(1) => Ok(true),
        Value::Int(_) => Err(LayoutError::Range { min: 0, max: 1 }),
        Value::Float(_) | Value::Text(_) | Value::Bytes(_) | Value::Null => {
            Err(LayoutError::Type { expected: "a boolean" })
        }
    }
}

fn integer(value: &Value, min: i128, max: i128) -> Result<i128, LayoutError> {
    let number = match value {
        Value::Int(number) => i128::from(*number),
        Value::Float(number) => wide_int(*number).ok_or(LayoutError::Range { min, max })?,
        Value::Bool(_) | Value::Text(_) | Value::Bytes(_) | Value::Null => {
            return Err(LayoutError::Type { expected: "a number" });
        }
    };
    if (min..=max).contains(&number) { Ok(number) } else { Err(LayoutError::Range { min, max }) }
}

/// The nearest integer; up to 2^64, for floats that large are whole.
fn wide_int(number: f64) -> Option<i128> {
    const SIGNED_END: f64 = 9_223_372_036_854_775_808.0;
    let upper = nearest_int(number - SIGNED_END).map(|low| i128::from(low) + (1 << 63));
    nearest_int(number).map(i128::from).or(upper.filter(|_| number >= SIGNED_END))
}

fn float(value: &Value) -> Result<f64, LayoutError> {
    match value {
        Value::Int(_) | Value::Float(_) => value.as_f64().ok_or(LayoutError::Type { expected: "a number" }),
        Value::Bool(_) | Value::Text(_) | Value::Bytes(_) | Value::Null => {
            Err(LayoutError::Type { expected: "a number" })
        }
    }
}
