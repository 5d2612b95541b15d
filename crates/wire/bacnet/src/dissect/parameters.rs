//! The parameters of services as text.

use super::{Told, about};
use crate::names::{ConfirmedService, ObjectType, PropertyId, UnconfirmedService};
use crate::service::{
    IAm, IHave, LogDatum, LogRecord, Notification, Range, RangeAck, RangeRequest, ReadAck, ReadMultiple,
    ReadMultipleAck, Subscription, WhoHas, WhoHasWhat, WhoIs, Write, WriteMultiple, log_multiple_records, log_records,
    parse_time,
};
use crate::{Decoded, PropertyRef, Value};
use alloc::format;
use alloc::string::{String, ToString};
use core::fmt::Write as _;

/// Bytes of a value that are shown.
const VALUE_BYTES_MAX: usize = 200;
/// Values of one record that are shown.
const VALUES_MAX: usize = 64;
/// Properties, and records, of one message that are shown.
const LINES_MAX: usize = 200;

/// A request that is answered.
pub(super) fn request(service: ConfirmedService, parameters: &[u8], told: &mut Told) -> Decoded<()> {
    match service {
        ConfirmedService::READ_PROPERTY => told.properties.push(PropertyRef::parse(parameters)?),
        ConfirmedService::READ_PROPERTY_MULTIPLE => {
            for reference in ReadMultiple::new(parameters) {
                let reference = reference?;
                line(told, || reference.to_string());
                told.properties.push(reference);
            }
        }
        ConfirmedService::WRITE_PROPERTY => {
            let write = Write::parse(parameters)?;
            words(told, &written(&write));
            told.properties.push(write.reference);
        }
        ConfirmedService::WRITE_PROPERTY_MULTIPLE => {
            for write in WriteMultiple::new(parameters) {
                let write = write?;
                line(told, || written(&write));
                told.properties.push(write.reference);
            }
        }
        ConfirmedService::SUBSCRIBE_COV => {
            let subscription = Subscription::parse(parameters)?;
            words(told, &subscribed(&subscription));
            told.properties.push(PropertyRef::new(subscription.object, PropertyId::PRESENT_VALUE));
        }
        ConfirmedService::READ_RANGE => {
            let range = RangeRequest::parse(parameters)?;
            words(told, &ranged(&range));
            told.properties.push(range.reference);
        }
        ConfirmedService::COV_NOTIFICATION => notification(parameters, told)?,
        _ => bytes(parameters, told),
    }
    counted(told);
    Ok(())
}

/// An answer with a result.
pub(super) fn answer(service: ConfirmedService, parameters: &[u8], told: &mut Told) -> Decoded<()> {
    match service {
        ConfirmedService::READ_PROPERTY => {
            let ack = ReadAck::parse(parameters)?;
            words(told, &format!("{}: {}", ack.reference, shown(&Value::decode(ack.value)?)));
            told.properties.push(ack.reference);
        }
        ConfirmedService::READ_PROPERTY_MULTIPLE => {
            let mut results = ReadMultipleAck::new(parameters);
            while let Some(result) = results.next_value() {
                let (reference, value) = result?;
                match &value {
                    Ok(value) => line(told, || format!("{reference}: {}", shown(value))),
                    Err(error) => {
                        line(told, || format!("{reference}: error {error}"));
                        // The first says what is wrong, the lines say all.
                        told.refusal.get_or_insert_with(|| format!("{reference}: {error}"));
                    }
                }
                told.properties.push(reference);
            }
        }
        ConfirmedService::READ_RANGE => {
            let ack = RangeAck::parse(parameters)?;
            let mut text = format!("{}: {} items", ack.reference, ack.count);
            if let Some(first) = ack.first_sequence {
                let _ = write!(text, " from sequence number {first}");
            }
            let flags = [(ack.has_first, "first"), (ack.has_last, "last"), (ack.has_more, "more")];
            flags.into_iter().filter(|(is, _)| *is).for_each(|(_, name)| {
                let _ = write!(text, " {name}");
            });
            words(told, &text);
            told.properties.push(ack.reference);
            if ack.reference.property == PropertyId::LOG_BUFFER {
                let is_multiple = ack.reference.object.object_type() == ObjectType::TREND_LOG_MULTIPLE;
                let records = if is_multiple { log_multiple_records } else { log_records };
                records(ack.items)?.iter().for_each(|record| line(told, || logged(record)));
            }
        }
        _ => bytes(parameters, told),
    }
    counted(told);
    Ok(())
}

/// What is told without an answer.
pub(super) fn unconfirmed(service: UnconfirmedService, parameters: &[u8], told: &mut Told) -> Decoded<()> {
    match service {
        UnconfirmedService::WHO_IS => {
            if let Some((low, high)) = WhoIs::parse(parameters)?.range {
                words(told, &format!("{low}-{high}"));
            }
        }
        UnconfirmedService::I_AM => {
            let i_am = IAm::parse(parameters)?;
            let IAm { device, max_apdu, segmentation, vendor } = i_am;
            words(told, &format!("{device} max-apdu {max_apdu} {segmentation} vendor {vendor}"));
        }
        UnconfirmedService::WHO_HAS => match WhoHas::parse(parameters)?.what {
            WhoHasWhat::Object(object) => words(told, &object.to_string()),
            WhoHasWhat::Name(name) => words(told, &format!("{name:?}")),
        },
        UnconfirmedService::I_HAVE => {
            let i_have = IHave::parse(parameters)?;
            words(told, &format!("{} {} {:?}", i_have.device, i_have.object, i_have.name));
        }
        UnconfirmedService::COV_NOTIFICATION => notification(parameters, told)?,
        UnconfirmedService::TIME_SYNCHRONIZATION | UnconfirmedService::UTC_TIME_SYNCHRONIZATION => {
            words(told, &parse_time(parameters)?.to_string());
        }
        _ => bytes(parameters, told),
    }
    Ok(())
}

fn notification(parameters: &[u8], told: &mut Told) -> Decoded<()> {
    let notification = Notification::parse(parameters)?;
    let Notification { process, device, object, remaining, .. } = notification;
    words(told, &format!("{object} of {device}, process {process}, {} s left", remaining.as_secs()));
    for (property, index, value) in notification.values()? {
        let reference = PropertyRef { object, property, index };
        line(told, || format!("{reference}: {}", shown(&value)));
        told.properties.push(reference);
    }
    Ok(())
}

fn subscribed(subscription: &Subscription) -> String {
    let Subscription { process, object, wanted } = subscription;
    match wanted {
        None => format!("{object} process {process}, cancelled"),
        Some((confirmed, seconds)) => {
            let confirmed = if *confirmed { "confirmed" } else { "unconfirmed" };
            format!("{object} process {process}, {confirmed}, for {seconds} s")
        }
    }
}

fn written(write: &Write) -> String {
    let Write { reference, value, priority } = write;
    let mut text = format!("{reference}: {}", shown(value));
    if let Some(priority) = priority {
        let _ = write!(text, " priority {priority}");
    }
    text
}

fn ranged(request: &RangeRequest) -> String {
    let reference = request.reference;
    match request.range {
        None => reference.to_string(),
        Some(Range::Position(start, count)) => format!("{reference} from item {start}, {count} items"),
        Some(Range::Sequence(start, count)) => format!("{reference} from sequence number {start}, {count} items"),
        Some(Range::Time(at, count)) => format!("{reference} from {at}, {count} items"),
    }
}

fn logged(record: &LogRecord) -> String {
    format!("{} {}", record.at, datum(&record.datum))
}

fn datum(logged: &LogDatum) -> String {
    match logged {
        LogDatum::Status(bits) => format!("status {}", shown(&Value::BitString(*bits))),
        LogDatum::Value(value) => shown(value),
        LogDatum::Failure(error) => format!("error {error}"),
        LogDatum::TimeChange(seconds) => format!("the clock was set by {seconds} s"),
        LogDatum::Several(data) => {
            let mut text = String::new();
            for member in data.iter().take(VALUES_MAX) {
                let _ = write!(text, "{}{}", if text.is_empty() { "" } else { ", " }, datum(member));
            }
            text
        }
    }
}

fn shown(value: &Value) -> String {
    let mut text = String::new();
    value.show(VALUE_BYTES_MAX, &mut text);
    text
}

fn words(told: &mut Told, text: &str) {
    if !told.words.is_empty() {
        told.words.push(' ');
    }
    told.words.push_str(text);
}

fn line(told: &mut Told, text: impl FnOnce() -> String) {
    match told.details.len() {
        0..LINES_MAX => told.details.push(text()),
        LINES_MAX => told.details.push("…".to_string()),
        _ => {}
    }
}

/// How many properties a message has that says nothing else in its line.
fn counted(told: &mut Told) {
    if told.words.is_empty() {
        let mut text = String::new();
        about(&told.properties, &mut text);
        told.words.push_str(text.trim_start());
    }
}

/// What is not known by its meaning.
fn bytes(parameters: &[u8], told: &mut Told) {
    words(told, &format!("{} bytes", parameters.len()));
}
