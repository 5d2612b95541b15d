//! One direction of a TCP connection, in order.

/// Bytes behind a gap that are kept until the gap is filled; then the gap counts as lost.
const WAITING_BYTES_MAX: usize = 16 * 1024;
/// Segments behind a gap that are kept.
const WAITING_SEGMENTS_MAX: usize = 64;

/// What comes next in a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes in order.
    Bytes(Vec<u8>),
    /// So many bytes are not in the capture.
    Missing(usize),
}

/// Puts segments in order: repeated bytes are dropped, early ones wait.
#[derive(Clone, Debug, Default)]
pub struct Ordered {
    /// The number of the next byte; none before the first segment.
    next: Option<u32>,
    waiting: Vec<(u32, Vec<u8>)>,
    waiting_bytes: usize,
}

impl Ordered {
    /// Takes a segment whose first byte has the number `sequence`, and appends what is in order to `pieces`.
    pub fn push(&mut self, sequence: u32, payload: &[u8], pieces: &mut Vec<Piece>) {
        let next = *self.next.get_or_insert(sequence);
        if payload.is_empty() {
            return;
        }
        if is_behind(sequence, next) {
            self.waiting.push((sequence, payload.to_vec()));
            self.waiting_bytes += payload.len();
        } else {
            self.give(next, sequence, payload, pieces);
        }
        self.settle(pieces);
        if self.waiting_bytes > WAITING_BYTES_MAX || self.waiting.len() > WAITING_SEGMENTS_MAX {
            self.skip_gap(pieces);
        }
    }

    /// Gives all that waits, gaps or not.
    pub fn finish(&mut self, pieces: &mut Vec<Piece>) {
        while !self.waiting.is_empty() {
            self.skip_gap(pieces);
        }
        self.next = None;
    }

    /// Gives what of a segment is new; it begins at `next` or before.
    fn give(&mut self, next: u32, sequence: u32, payload: &[u8], pieces: &mut Vec<Piece>) {
        let known = usize::try_from(next.wrapping_sub(sequence)).unwrap_or(usize::MAX);
        let Some(fresh) = payload.get(known..).filter(|fresh| !fresh.is_empty()) else { return };
        self.next = Some(next.wrapping_add(u32::try_from(fresh.len()).unwrap_or(0)));
        match pieces.last_mut() {
            Some(Piece::Bytes(last)) => last.extend_from_slice(fresh),
            Some(Piece::Missing(_)) | None => pieces.push(Piece::Bytes(fresh.to_vec())),
        }
    }

    /// Gives what waits and has its turn.
    fn settle(&mut self, pieces: &mut Vec<Piece>) {
        while let Some(next) = self.next
            && let Some(at) = self.waiting.iter().position(|(sequence, _)| !is_behind(*sequence, next))
        {
            let (sequence, payload) = self.waiting.swap_remove(at);
            self.waiting_bytes -= payload.len();
            self.give(next, sequence, &payload, pieces);
        }
    }

    /// Goes on at the nearest byte that waits.
    fn skip_gap(&mut self, pieces: &mut Vec<Piece>) {
        let Some(next) = self.next else { return };
        let Some(gap) = self.waiting.iter().map(|(sequence, _)| sequence.wrapping_sub(next)).min() else { return };
        pieces.push(Piece::Missing(usize::try_from(gap).unwrap_or(usize::MAX)));
        self.next = Some(next.wrapping_add(gap));
        self.settle(pieces);
    }
}

/// Whether byte `sequence` comes after byte `next`: numbers wrap (RFC 9293 3.4).
const fn is_behind(sequence: u32, next: u32) -> bool {
    let distance = sequence.wrapping_sub(next);
    distance != 0 && distance < 1 << 31
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(segments: &[(u32, &str)], expect: &[Piece]) {
        let (mut stream, mut pieces) = (Ordered::default(), Vec::new());
        for (sequence, payload) in segments {
            stream.push(*sequence, payload.as_bytes(), &mut pieces);
        }
        stream.finish(&mut pieces);
        assert_eq!(pieces, expect, "{segments:?}");
    }

    fn bytes(text: &str) -> Piece {
        Piece::Bytes(text.as_bytes().to_vec())
    }

    #[test]
    fn segments_are_put_in_order() {
        check(&[(1, "ab"), (3, "cd")], &[bytes("abcd")]);
        check(&[(1, "ab"), (5, "ef"), (3, "cd")], &[bytes("abcdef")]);
        check(&[(1, "ab"), (1, "ab"), (2, "bc"), (0, "x")], &[bytes("abc")]);
        check(&[(u32::MAX, "ab"), (1, "c")], &[bytes("abc")]);
        check(
            &[(1, "ab"), (6, "f"), (8, "h")],
            &[bytes("ab"), Piece::Missing(3), bytes("f"), Piece::Missing(1), bytes("h")],
        );
        check(&[(7, "")], &[]);
    }

    proptest! {
        #[test]
        fn any_order_gives_the_same(
            start: u32,
            cuts in prop::collection::vec(1..5_usize, 1..20),
            order in prop::collection::vec(any::<prop::sample::Index>(), 0..40),
        ) {
            let (mut segments, mut at, mut whole) = (Vec::new(), 0_u32, Vec::new());
            for (cut, letter) in cuts.iter().zip(b'a'..) {
                let payload = vec![letter; *cut];
                segments.push((start.wrapping_add(at), payload.clone()));
                at += u32::try_from(*cut).unwrap();
                whole.extend(payload);
            }
            // The first segment says where the stream begins; the others come in any order, some twice.
            let mut sent = vec![segments[0].clone()];
            sent.extend(order.iter().map(|index| index.get(&segments).clone()));
            sent.extend(segments);
            let (mut stream, mut pieces) = (Ordered::default(), Vec::new());
            for (sequence, payload) in &sent {
                stream.push(*sequence, payload, &mut pieces);
            }
            prop_assert_eq!(pieces, vec![Piece::Bytes(whole)]);
        }
    }
}
