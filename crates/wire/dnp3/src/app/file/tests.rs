//! Every variation both ways, and any bytes.

use super::*;
use crate::app::{Fragment, Function, Headers};
use alloc::format;
use alloc::string::{String, ToString};
use proptest::prelude::*;

fn bytes(hex: &str) -> Vec<u8> {
    hex.split_whitespace().map(|byte| u8::from_str_radix(byte, 16).unwrap()).collect()
}

/// A header in hex is read as `expect`, and written again byte for byte.
fn check(hex: &str, expect: &str) {
    let wire = bytes(hex);
    let header = Headers::new(Function::Response, &wire).next().unwrap().unwrap();
    let found: Vec<_> = FileObject::all(&header).collect();
    let [Ok(object)] = found.as_slice() else { panic!("{hex}: {found:?}") };
    assert_eq!(object.to_string(), expect, "{hex}");
    let mut again = Vec::new();
    object.emit(&mut again);
    assert_eq!(again, wire, "{hex}");
    assert_eq!(object.bytes() + FILE_HEADER_BYTES, wire.len(), "{hex}");
}

#[test]
fn every_variation_is_read_and_written() {
    check("46 01 5B 01 03 00 AA BB CC", "obsolete, 3 bytes");
    check("46 02 5B 01 12 00 0C 00 02 00 0E 00 04 00 78 56 34 12 6D 65 70 61 73 73", "user \"me\" key 12345678");
    check(
        "46 03 5B 01 1F 00 1A 00 05 00 01 02 03 04 05 00 A4 01 00 00 00 00 FF FF FF FF 02 00 00 04 07 00 61 2F 62 2E 63",
        "\"a/b.c\" write permissions rw-r--r-- size 4294967295 block 1024 request 7",
    );
    check(
        "46 04 5B 01 0D 00 01 00 00 00 10 00 00 00 00 04 07 00 00",
        "handle 1 size 16 block 1024 request 7 status success",
    );
    check(
        "46 04 5B 01 0F 00 00 00 00 00 00 00 00 00 00 00 07 00 03 6E 6F",
        "handle 0 size 0 block 0 request 7 status file_not_found \"no\"",
    );
    check("46 05 5B 01 08 00 01 00 00 00 02 00 00 00", "handle 1 block 2, 0 bytes");
    check("46 05 5B 01 0A 00 01 00 00 00 02 00 00 80 68 69", "handle 1 block 2 last, 2 bytes");
    check("46 06 5B 01 09 00 01 00 00 00 02 00 00 80 14", "handle 1 block 2 last status block_sequence");
    check(
        "46 07 5B 01 17 00 14 00 03 00 00 00 02 00 00 00 01 02 03 04 05 00 ED 01 09 00 6C 6F 67",
        "\"log\" directory size 2 permissions rwxr-xr-x request 9",
    );
    check("46 08 5B 01 03 00 6C 6F 67", "\"log\"");
}

#[test]
fn what_is_not_whole_is_refused() {
    let parse = |variation, hex: &str| {
        let bytes = bytes(hex);
        FileObject::parse(GroupVar::new(70, variation), &bytes).map(|x| x.to_string()).map_err(|e| e.to_string())
    };
    let outside = |v: u8| Err(format!("g70v{v} has a name outside of itself"));
    let short = |v: u8| Err(format!("g70v{v} ends within its fields"));
    assert_eq!(parse(5, "01 00 00 00 02 00 00"), short(5));
    assert_eq!(parse(4, "01 00 00 00 02 00 00 00 00 00 00 00"), short(4));
    // A name beyond the end, and one within the fields.
    assert_eq!(parse(7, "14 00 02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 61"), outside(7));
    assert_eq!(parse(7, "13 00 02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 61"), outside(7));
    assert_eq!(parse(2, "0C 00 00 00 00 01 01 00 00 00 00 00 61"), outside(2));
    // An empty name may be anywhere: answers of real outstations leave zeros.
    assert!(parse(2, "00 00 00 00 00 00 00 00 01 00 00 00").is_ok());
    assert_eq!(parse(9, ""), Err("g70v9 is no object of file transfer".into()));
}

#[test]
fn a_directory_is_read_across_blocks() {
    let descriptor = |name: &'static [u8]| {
        FileObject::Descriptor(FileDescriptor {
            name,
            kind: FileKind::SIMPLE,
            size: 5,
            created: DnpTime::from_millis(1),
            permissions: Permissions::READ,
            request_id: 0,
        })
    };
    let mut wire = Vec::new();
    descriptor(b"a.txt").emit_object(&mut wire);
    let first = wire.len();
    descriptor(b"b").emit_object(&mut wire);
    for end in 0..wire.len() {
        let found = FileDescriptor::take_from(&wire[..end]).unwrap();
        assert_eq!(found.map(|(d, bytes)| (d.name, bytes)), (end >= first).then_some((&b"a.txt"[..], first)), "{end}");
    }
    let (second, used) = FileDescriptor::take_from(&wire[first..]).unwrap().unwrap();
    assert_eq!((second.name, used), (&b"b"[..], wire.len() - first));
    wire[0] = 25;
    assert!(FileDescriptor::take_from(&wire[..22]).is_err());
}

#[test]
fn statuses_round_trip() {
    let known: Vec<_> = (0..=254).map(FileStatus::from_byte).filter(|s| *s != FileStatus::Undefined).collect();
    assert_eq!(known.len(), 15);
    assert!(known.iter().all(|status| FileStatus::from_byte(status.code()) == *status));
}

/// Everything that an object is made of.
#[derive(Clone, Debug)]
struct Parts {
    variation: u8,
    words: [u32; 3],
    shorts: [u16; 5],
    time: u64,
    last: bool,
    status: FileStatus,
    texts: [Vec<u8>; 2],
}

fn parts() -> impl Strategy<Value = Parts> {
    let text = || prop::collection::vec(any::<u8>(), 0..40);
    let status = any::<u8>().prop_map(FileStatus::from_byte);
    (1..=8_u8, any::<[u32; 3]>(), any::<[u16; 5]>(), 0..1_u64 << 48, any::<bool>(), status, [text(), text()]).prop_map(
        |(variation, words, shorts, time, last, status, texts)| Parts {
            variation,
            words,
            shorts,
            time,
            last,
            status,
            texts,
        },
    )
}

impl Parts {
    fn object(&self) -> FileObject<'_> {
        let [key, size, block] = self.words;
        let [mode, block_bytes, request_id, kind, permissions] = self.shorts;
        let [name, password] = [&self.texts[0], &self.texts[1]].map(Vec::as_slice);
        let (created, permissions) = (DnpTime::from_millis(self.time), Permissions(permissions));
        let (status, last, block) = (self.status, self.last, block & !LAST);
        match self.variation {
            1 => FileObject::Identifier(name),
            2 => FileObject::Authentication(FileAuthentication { user: name, password, key }),
            3 => FileObject::Command(FileCommand {
                name,
                created,
                permissions,
                key,
                size,
                mode: FileMode(mode),
                block_bytes,
                request_id,
            }),
            4 => FileObject::CommandStatus(FileCommandStatus {
                handle: key,
                size,
                block_bytes,
                request_id,
                status,
                text: name,
            }),
            5 => FileObject::Transport(FileTransport { handle: key, block, last, data: name }),
            6 => FileObject::TransportStatus(FileTransportStatus { handle: key, block, last, status, text: name }),
            7 => FileObject::Descriptor(FileDescriptor {
                name,
                kind: FileKind(kind),
                size,
                created,
                permissions,
                request_id,
            }),
            _ => FileObject::Specification(name),
        }
    }
}

proptest! {
    #[test]
    fn what_is_written_is_read_again(parts in parts()) {
        let object = parts.object();
        let mut wire = alloc::vec![0xC0, 25];
        object.emit(&mut wire);
        let fragment = Fragment::parse(&wire).unwrap();
        let header = fragment.headers().next().unwrap().unwrap();
        let found: Vec<_> = FileObject::all(&header).collect();
        prop_assert_eq!(found, [Ok(object)]);
    }

    #[test]
    fn any_bytes_are_read_or_refused(
        variation in any::<u8>(),
        bytes in prop::collection::vec(prop_oneof![any::<u8>(), Just(0), Just(20)], 0..80),
    ) {
        let parsed = FileObject::parse(GroupVar::new(70, variation), &bytes);
        if let Ok(object) = parsed {
            let _: String = object.to_string();
            let mut again = Vec::new();
            object.emit_object(&mut again);
            // Names may stand apart or overlap on the wire; what they say stays.
            prop_assert_eq!(FileObject::parse(GroupVar::new(70, variation), &again), Ok(object));
        }
        let mut rest = bytes.as_slice();
        while let Ok(Some((_, used))) = FileDescriptor::take_from(rest) {
            prop_assert!(used >= DESCRIPTOR_BYTES);
            rest = &rest[used..];
        }
    }
}
