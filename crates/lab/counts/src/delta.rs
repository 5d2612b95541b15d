//! What changed in a value, and a point as text.

use crate::meter::Operation;
use crate::values::{TABLE_BYTES, point, table};
use bytes::Bytes;
use tieline_core::{Body, Point};
use tieline_delta::{Codec as _, CodecSet, Codecs, Hunk, Revision, Stream};

/// Counts the making of hunks.
pub fn make() -> Result<Operation, String> {
    let (mut n, mut out) = (0, Vec::new());
    Ok(Box::new(move |meter| {
        n += 1;
        let (base, value) = (table(n), table(n + 1));
        out.clear();
        let made = meter.count(|| Hunk.diff(&base, &value, TABLE_BYTES / 2, &mut out));
        if made { Ok(()) } else { Err("no delta".to_owned()) }
    }))
}

/// Counts their use.
pub fn apply() -> Result<Operation, String> {
    let mut n = 0;
    let (mut delta, mut out) = (Vec::new(), Vec::with_capacity(2 * TABLE_BYTES));
    Ok(Box::new(move |meter| {
        n += 1;
        let (base, value) = (table(n), table(n + 1));
        delta.clear();
        Hunk.diff(&base, &value, TABLE_BYTES / 2, &mut delta);
        out.clear();
        let applied = meter.count(|| Hunk.apply(&base, &delta, 2 * TABLE_BYTES, &mut out));
        if applied.is_ok() && out == value { Ok(()) } else { Err("another value".to_owned()) }
    }))
}

/// Counts a point's delta, and the payload of it.
pub fn point_delta() -> Result<Operation, String> {
    let (mut n, mut codecs) = (0, Codecs::built_in());
    let mut stream = Stream::new(Revision(7), &Body::Point(point(0)));
    Ok(Box::new(move |meter| {
        n += 1;
        let body = Body::Point(point(n));
        let payload = meter.count(|| {
            let base = stream.revision();
            stream.update(&body, CodecSet::POINT, &mut codecs);
            stream.since(Some(base), CodecSet::POINT).to_bytes()
        });
        if payload.len() < 16 { Ok(()) } else { Err(format!("{} bytes for a point", payload.len())) }
    }))
}

/// Counts what the bus asks of a payload that comes in: one that is a point.
pub fn read_point() -> Result<Operation, String> {
    let mut n = 0;
    Ok(Box::new(move |meter| {
        n += 1;
        let payload = Bytes::from(point(n).to_json());
        let body = meter.count(|| Body::read(payload));
        if matches!(body, Body::Published(_)) { Ok(()) } else { Err("no point".to_owned()) }
    }))
}

/// The same of one that is none.
pub fn read_other() -> Result<Operation, String> {
    let mut n = 0;
    Ok(Box::new(move |meter| {
        n += 1;
        let payload = Bytes::from(table(n));
        let body = meter.count(|| Body::read(payload));
        if matches!(body, Body::Opaque(_)) { Ok(()) } else { Err("a point".to_owned()) }
    }))
}

/// Counts both ways.
pub fn json() -> Result<Operation, String> {
    let mut n = 0;
    Ok(Box::new(move |meter| {
        n += 1;
        let point = point(n);
        let back = meter.count(|| Point::from_json(point.to_json().as_bytes(), point.time));
        if back.is_ok_and(|back| back == point) { Ok(()) } else { Err("another point".to_owned()) }
    }))
}
