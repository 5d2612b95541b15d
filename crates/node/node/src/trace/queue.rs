//! A queue of bytes in one piece of memory, which begins again at its start.

use super::record::HEADER_BYTES;

/// Bytes, the oldest first. It does not grow by itself: [`ByteQueue::reserve`] makes room.
#[derive(Debug, Default)]
pub(super) struct ByteQueue {
    memory: Box<[u8]>,
    /// Where the oldest byte is.
    first: usize,
    length: usize,
}

impl ByteQueue {
    pub(super) const fn len(&self) -> usize {
        self.length
    }

    /// Bytes that it has memory for.
    pub(super) const fn capacity(&self) -> usize {
        self.memory.len()
    }

    /// Memory for so many bytes in all.
    pub(super) fn reserve(&mut self, bytes: usize) {
        let (front, back) = self.parts();
        let mut memory = Vec::with_capacity(bytes.max(self.length));
        memory.extend_from_slice(front);
        memory.extend_from_slice(back);
        memory.resize(memory.capacity(), 0);
        self.memory = memory.into_boxed_slice();
        self.first = 0;
    }

    /// Appends a header and what follows it, as far as there is room.
    #[inline]
    pub(super) fn push_record(&mut self, header: &[u8; HEADER_BYTES], payload: &[u8]) {
        let total = HEADER_BYTES + payload.len();
        let end = self.first + self.length;
        let start = if end < self.memory.len() { end } else { end - self.memory.len() };
        let room = self.memory.len() - self.length;
        // Most records are in one piece.
        match self.memory.get_mut(start..start + total).filter(|_| total <= room) {
            Some(place) => {
                if let Some((head, rest)) = place.split_first_chunk_mut() {
                    *head = *header;
                    rest.copy_from_slice(payload);
                }
                self.length += total;
            }
            None => {
                self.push(header);
                self.push(payload);
            }
        }
    }

    /// Appends what there is room for.
    fn push(&mut self, bytes: &[u8]) {
        let bytes = bytes.get(..self.memory.len() - self.length).unwrap_or(bytes);
        let end = self.first + self.length;
        let start = if end < self.memory.len() { end } else { end - self.memory.len() };
        let straight = bytes.len().min(self.memory.len() - start);
        let (now, then) = bytes.split_at(straight);
        if let Some(place) = self.memory.get_mut(start..start + now.len()) {
            place.copy_from_slice(now);
        }
        if let Some(place) = self.memory.get_mut(..then.len()) {
            place.copy_from_slice(then);
        }
        self.length += bytes.len();
    }

    /// Lets go of the oldest.
    #[inline]
    pub(super) fn pop(&mut self, bytes: usize) {
        let bytes = bytes.min(self.length);
        self.length -= bytes;
        let first = self.first + bytes;
        self.first = if first < self.memory.len() { first } else { first - self.memory.len() };
    }

    /// The oldest bytes, as many as a header has; none where there are fewer.
    #[inline]
    pub(super) fn header(&self) -> Option<[u8; HEADER_BYTES]> {
        if self.length < HEADER_BYTES {
            return None;
        }
        if let Some(header) = self.memory.get(self.first..).and_then(<[u8]>::first_chunk) {
            return Some(*header);
        }
        let (front, back) = self.parts();
        let mut header = [0; HEADER_BYTES];
        header.iter_mut().zip(front.iter().chain(back)).for_each(|(place, byte)| *place = *byte);
        Some(header)
    }

    /// All, in two parts.
    pub(super) fn parts(&self) -> (&[u8], &[u8]) {
        let straight = self.length.min(self.memory.len() - self.first);
        let front = self.memory.get(self.first..self.first + straight).unwrap_or_default();
        (front, self.memory.get(..self.length - straight).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;

    proptest! {
        #[test]
        fn it_is_as_a_queue_of_the_standard_library(steps: Vec<(u8, u8)>) {
            let (mut queue, mut model) = (ByteQueue::default(), VecDeque::new());
            for (step, (kind, count)) in steps.into_iter().enumerate() {
                let count = usize::from(count);
                match kind % 4 {
                    0 => {
                        queue.pop(count);
                        model.drain(..count.min(model.len()));
                    }
                    1 if queue.capacity() < 2000 => queue.reserve(queue.capacity() + count),
                    _ => {
                        let bytes: Vec<u8> = (0..count).map(|at| u8::try_from((step + at) % 251).unwrap()).collect();
                        let room = queue.capacity() - queue.len();
                        match bytes.split_first_chunk::<HEADER_BYTES>().filter(|_| kind % 2 == 0) {
                            Some((header, payload)) => queue.push_record(header, payload),
                            None => queue.push(&bytes),
                        }
                        model.extend(bytes.into_iter().take(room));
                    }
                }
                let (front, back) = queue.parts();
                prop_assert_eq!(&[front, back].concat(), &Vec::from(model.clone()));
                let header: Vec<u8> = model.iter().copied().take(HEADER_BYTES).collect();
                prop_assert_eq!(queue.header().map(Vec::from), (header.len() == HEADER_BYTES).then_some(header));
            }
        }
    }
}
