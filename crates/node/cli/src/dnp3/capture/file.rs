//! Capture files: pcap, and the packets of pcapng.
//!
//! Sources: draft-ietf-opsawg-pcap (a header of 24 bytes, then records of 16 bytes and a packet) and
//! draft-ietf-opsawg-pcapng (blocks of type, length, body, length again; the byte order may change at each section).

use anyhow::{Result, anyhow, bail};
use std::io::{ErrorKind, Read};
use tieline_core::{Cursor, Timestamp, Truncated};

/// Bytes of the largest packet, and of the largest pcapng block, that is read; a larger one is damage.
const PACKET_BYTES_MAX: u32 = 16 * 1024 * 1024;
/// Interfaces of one pcapng section.
const INTERFACES_MAX: usize = 4096;

const SECTION: u32 = 0x0A0D_0D0A;
const BYTE_ORDER: [u8; 4] = [0x1A, 0x2B, 0x3C, 0x4D];

/// One packet as it was captured, perhaps cut at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Its place in the file, from 1.
    pub number: u64,
    /// When it was seen; none where the file does not say.
    pub time: Option<Timestamp>,
    /// The link type (`LINKTYPE_…`) of what follows.
    pub link: u32,
    /// Its bytes, from the link header on.
    pub bytes: Vec<u8>,
}

/// A capture file that is being read.
#[derive(Debug)]
pub struct Capture<R> {
    input: R,
    form: Form,
    packets: u64,
}

#[derive(Debug)]
enum Form {
    Pcap { order: Order, fractions: u64, link: u32 },
    Ng { order: Order, interfaces: Vec<Interface> },
}

#[derive(Clone, Copy, Debug)]
enum Order {
    Little,
    Big,
}

#[derive(Clone, Copy, Debug)]
struct Interface {
    link: u32,
    snap: u32,
    ticks_per_s: u64,
}

/// Numbers in the byte order of the file.
struct Fields<'a>(Cursor<'a>, Order);

impl Fields<'_> {
    fn u16(&mut self) -> Result<u16, Truncated> {
        match self.1 {
            Order::Little => self.0.u16_le(),
            Order::Big => self.0.u16_be(),
        }
    }

    fn u32(&mut self) -> Result<u32, Truncated> {
        match self.1 {
            Order::Little => self.0.u32_le(),
            Order::Big => self.0.u32_be(),
        }
    }
}

impl<R: Read> Capture<R> {
    /// Reads the file's header.
    ///
    /// # Errors
    /// The file cannot be read, or is no capture.
    pub fn open(mut input: R) -> Result<Self> {
        let Some(magic) = fill(&mut input, 4)? else { bail!("the file is empty, expected a pcap or pcapng capture") };
        let (order, fractions) = match *magic {
            [0xD4, 0xC3, 0xB2, 0xA1] => (Order::Little, 1_000_000),
            [0x4D, 0x3C, 0xB2, 0xA1] => (Order::Little, 1_000_000_000),
            [0xA1, 0xB2, 0xC3, 0xD4] => (Order::Big, 1_000_000),
            [0xA1, 0xB2, 0x3C, 0x4D] => (Order::Big, 1_000_000_000),
            [0x0A, 0x0D, 0x0D, 0x0A] => {
                let mut form = Form::Ng { order: Order::Little, interfaces: Vec::new() };
                form.begin_section(&mut input)?;
                return Ok(Self { input, form, packets: 0 });
            }
            [a, b, c, d] => {
                bail!("the file begins with {a:02x} {b:02x} {c:02x} {d:02x}, expected a pcap or pcapng capture")
            }
            _ => bail!("the file has {} bytes, expected a pcap or pcapng capture", magic.len()),
        };
        let header = expect(&mut input, 20)?;
        let mut fields = Fields(Cursor::new(&header), order);
        let (version, _) = (fields.u16()?, fields.u16()?);
        if version != 2 {
            bail!("the pcap version is {version}, expected 2");
        }
        let _zone_sigfigs_snap = (fields.u32()?, fields.u32()?, fields.u32()?);
        // The upper bits tell about frame check sequences, which no link type that is read here keeps.
        let link = fields.u32()? & 0xFFFF;
        Ok(Self { input, form: Form::Pcap { order, fractions, link }, packets: 0 })
    }

    /// The next packet; none at the end of the file.
    ///
    /// # Errors
    /// The file cannot be read, or is damaged from here on.
    pub fn next_packet(&mut self) -> Result<Option<Packet>> {
        let number = self.packets + 1;
        let found = match &mut self.form {
            Form::Pcap { order, fractions, link } => read_record(&mut self.input, *order, *fractions, *link),
            form @ Form::Ng { .. } => form.read_blocks(&mut self.input),
        };
        let found = found.map_err(|error| error.context(format!("packet {number}")))?;
        self.packets = number;
        Ok(found.map(|(time, link, bytes)| Packet { number, time, link, bytes }))
    }
}

type Found = (Option<Timestamp>, u32, Vec<u8>);

fn read_record(input: &mut impl Read, order: Order, fractions: u64, link: u32) -> Result<Option<Found>> {
    let Some(head) = fill(input, 16)? else { return Ok(None) };
    let mut fields = Fields(Cursor::new(&head), order);
    let (seconds, fraction, kept) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let ticks = u64::from(seconds) * fractions + u64::from(fraction);
    Ok(Some((time(ticks, fractions), link, expect(input, kept)?)))
}

impl Form {
    /// Reads what follows the type of a section header block.
    fn begin_section(&mut self, input: &mut impl Read) -> Result<()> {
        let (length, magic) = (expect(input, 4)?, expect(input, 4)?);
        let order = match *magic {
            [a, b, c, d] if [a, b, c, d] == BYTE_ORDER => Order::Big,
            [a, b, c, d] if [d, c, b, a] == BYTE_ORDER => Order::Little,
            _ => bail!("the byte-order magic of the section is {magic:02x?}, expected 1a 2b 3c 4d"),
        };
        let length = Fields(Cursor::new(&length), order).u32()?;
        let rest = length.checked_sub(12).ok_or_else(|| anyhow!("a block of {length} bytes, expected at least 12"))?;
        expect(input, rest)?;
        *self = Self::Ng { order, interfaces: Vec::new() };
        Ok(())
    }

    /// Reads blocks until one brings a packet.
    fn read_blocks(&mut self, input: &mut impl Read) -> Result<Option<Found>> {
        loop {
            let Self::Ng { order, interfaces } = self else { return Ok(None) };
            let Some(kind) = fill(input, 4)? else { return Ok(None) };
            let kind = Fields(Cursor::new(&kind), *order).u32()?;
            if kind == SECTION {
                self.begin_section(input)?;
                continue;
            }
            let length = Fields(Cursor::new(&expect(input, 4)?), *order).u32()?;
            let body =
                length.checked_sub(12).ok_or_else(|| anyhow!("a block of {length} bytes, expected at least 12"))?;
            let body = expect(input, body)?;
            expect(input, 4)?;
            let mut fields = Fields(Cursor::new(&body), *order);
            let found = match kind {
                1 if interfaces.len() < INTERFACES_MAX => {
                    interfaces.push(read_interface(&mut fields)?);
                    None
                }
                1 => bail!("more than {INTERFACES_MAX} interfaces"),
                2 => Some(read_obsolete(&mut fields, interfaces)?),
                3 => Some(read_simple(&mut fields, interfaces)?),
                6 => Some(read_enhanced(&mut fields, interfaces)?),
                _ => None,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
    }
}

fn read_interface(fields: &mut Fields<'_>) -> Result<Interface> {
    let (link, _reserved, snap) = (fields.u16()?, fields.u16()?, fields.u32()?);
    let mut interface = Interface { link: link.into(), snap, ticks_per_s: 1_000_000 };
    while let (Ok(code), Ok(length)) = (fields.u16(), fields.u16()) {
        if code == 0 {
            break;
        }
        let value = fields.0.take(usize::from(length))?;
        let _ = fields.0.take(usize::from(length.wrapping_neg() & 3));
        // if_tsresol: a negative power of 10, or of 2 where the highest bit is set.
        if let (9, [power]) = (code, value) {
            let (base, exponent) = if power & 0x80 == 0 { (10_u64, *power) } else { (2, power & 0x7F) };
            let ticks = base.checked_pow(exponent.into());
            interface.ticks_per_s = ticks.ok_or_else(|| anyhow!("a time resolution of {base}^-{exponent} s"))?;
        }
    }
    Ok(interface)
}

fn read_enhanced(fields: &mut Fields<'_>, interfaces: &[Interface]) -> Result<Found> {
    let interface = fields.u32()?;
    read_stamped(fields, interface, interfaces)
}

fn read_obsolete(fields: &mut Fields<'_>, interfaces: &[Interface]) -> Result<Found> {
    let (interface, _drops) = (fields.u16()?, fields.u16()?);
    read_stamped(fields, interface.into(), interfaces)
}

fn read_stamped(fields: &mut Fields<'_>, interface: u32, interfaces: &[Interface]) -> Result<Found> {
    let (high, low, kept, _original) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
    let Interface { link, ticks_per_s, .. } = find(interfaces, interface)?;
    let bytes = fields.0.take(usize::try_from(kept)?)?.to_vec();
    Ok((time(u64::from(high) << 32 | u64::from(low), ticks_per_s), link, bytes))
}

fn read_simple(fields: &mut Fields<'_>, interfaces: &[Interface]) -> Result<Found> {
    let original = fields.u32()?;
    let Interface { link, snap, .. } = find(interfaces, 0)?;
    let kept = if snap == 0 { original } else { original.min(snap) };
    Ok((None, link, fields.0.take(usize::try_from(kept)?)?.to_vec()))
}

fn find(interfaces: &[Interface], number: u32) -> Result<Interface> {
    let found = usize::try_from(number).ok().and_then(|at| interfaces.get(at)).copied();
    found.ok_or_else(|| anyhow!("interface {number} is not described, expected one of {}", interfaces.len()))
}

fn time(ticks: u64, per_s: u64) -> Option<Timestamp> {
    let micros = u128::from(ticks) * 1_000_000 / u128::from(per_s.max(1));
    i64::try_from(micros).ok().map(Timestamp::from_micros)
}

/// Exactly `count` bytes.
fn expect(input: &mut impl Read, count: u32) -> Result<Vec<u8>> {
    if count > PACKET_BYTES_MAX {
        bail!("{count} bytes, expected at most {PACKET_BYTES_MAX}");
    }
    match fill(input, count)? {
        Some(bytes) if bytes.len() == usize::try_from(count)? => Ok(bytes),
        Some(bytes) => bail!("the file ends after {} of {count} bytes", bytes.len()),
        None if count == 0 => Ok(Vec::new()),
        None => bail!("the file ends early"),
    }
}

/// Up to `count` bytes, fewer only where the file ends; none where it has ended already.
fn fill(input: &mut impl Read, count: u32) -> Result<Option<Vec<u8>>> {
    let mut bytes = Vec::new();
    match input.take(count.into()).read_to_end(&mut bytes) {
        Ok(0) => Ok(None),
        Ok(_) => Ok(Some(bytes)),
        Err(error) if error.kind() == ErrorKind::IsADirectory => bail!("it is a folder, expected a capture"),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Result<Vec<Packet>> {
        let mut capture = Capture::open(bytes)?;
        let mut packets = Vec::new();
        while let Some(packet) = capture.next_packet()? {
            packets.push(packet);
        }
        Ok(packets)
    }

    fn pcap(order: Order, magic: u32, packets: &[&[u8]]) -> Vec<u8> {
        let put = |x: u32| match order {
            Order::Little => x.to_le_bytes(),
            Order::Big => x.to_be_bytes(),
        };
        let version = match order {
            Order::Little => [2, 0, 4, 0],
            Order::Big => [0, 2, 0, 4],
        };
        let mut out = [put(magic), version, put(0), put(0), put(65_535), put(1)].concat();
        for packet in packets {
            let length = u32::try_from(packet.len()).unwrap();
            out.extend([put(1_700_000_000), put(5), put(length), put(length)].concat());
            out.extend_from_slice(packet);
        }
        out
    }

    fn block(kind: u32, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 12).unwrap().to_le_bytes();
        [&kind.to_le_bytes(), &length, body, &length].concat()
    }

    fn pcapng() -> Vec<u8> {
        let section = [0x4D, 0x3C, 0x2B, 0x1A, 1, 0, 0, 0, 255, 255, 255, 255, 255, 255, 255, 255];
        // Ethernet, no limit, if_tsresol 10^-9.
        let interface = [1, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0, 0, 0, 0, 0];
        let ticks = 1_700_000_000_000_005_000_u64;
        let halves = [(ticks >> 32) as u32, ticks as u32].map(u32::to_le_bytes).concat();
        let enhanced = [&[0; 4][..], &halves, &[2, 0, 0, 0], &[2, 0, 0, 0], &[7, 8, 0, 0]].concat();
        let simple = [3, 0, 0, 0, 1, 2, 3, 0];
        let unknown = block(0xBAD, &[0; 8]);
        [block(SECTION, &section), block(1, &interface), unknown, block(6, &enhanced), block(3, &simple)].concat()
    }

    #[test]
    fn both_forms_are_read() {
        let seen = Some(Timestamp::from_micros(1_700_000_000_000_005));
        let packet = |number, time, bytes: &[u8]| Packet { number, time, link: 1, bytes: bytes.to_vec() };
        let expect = [packet(1, seen, &[7, 8]), packet(2, seen, &[])];
        for order in [Order::Little, Order::Big] {
            assert_eq!(read(&pcap(order, 0xA1B2_C3D4, &[&[7, 8], &[]])).unwrap(), expect);
        }
        let nanos = read(&pcap(Order::Big, 0xA1B2_3C4D, &[&[7, 8]])).unwrap();
        assert_eq!(nanos.first().unwrap().time, Some(Timestamp::from_micros(1_700_000_000_000_000)));
        assert_eq!(read(&pcapng()).unwrap(), [packet(1, seen, &[7, 8]), packet(2, None, &[1, 2, 3])]);
    }

    fn check_refused(bytes: &[u8], expect: &str) {
        assert_eq!(format!("{:#}", read(bytes).unwrap_err()), expect);
    }

    #[test]
    fn damage_is_named() {
        check_refused(b"", "the file is empty, expected a pcap or pcapng capture");
        check_refused(b"ab", "the file has 2 bytes, expected a pcap or pcapng capture");
        check_refused(b"this", "the file begins with 74 68 69 73, expected a pcap or pcapng capture");
        let whole = pcap(Order::Little, 0xA1B2_C3D4, &[&[7, 8]]);
        check_refused(&whole[..20], "the file ends after 16 of 20 bytes");
        check_refused(&whole[..41], "packet 1: the file ends after 1 of 2 bytes");
        let huge = [&whole[..32], &[255; 8]].concat();
        check_refused(&huge, "packet 1: 4294967295 bytes, expected at most 16777216");
        check_refused(&pcapng()[..100], "packet 1: the file ends after 12 of 24 bytes");
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(start in 0..3_usize, bytes: Vec<u8>, cut in 0..200_usize) {
            let begin = vec![Vec::new(), pcap(Order::Little, 0xA1B2_C3D4, &[]), pcapng()].swap_remove(start);
            let begin = begin.get(..begin.len().saturating_sub(cut)).unwrap_or_default();
            let _ = read(&[begin, &bytes].concat());
        }
    }
}
