//! Whether a text that comes in pieces is UTF-8 (RFC 6455 section 8.1).

/// The end of a piece that may be the beginning of a character.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Utf8 {
    begun: [u8; 4],
    count: u8,
}

impl Utf8 {
    /// Takes the next piece; false as soon as no continuation can make it right.
    pub(crate) fn push(&mut self, piece: &[u8]) -> bool {
        let mut rest = piece;
        while self.count > 0 {
            let Some((first, behind)) = rest.split_first() else { return true };
            let count = usize::from(self.count) + 1;
            let Some(place) = self.begun.get_mut(count - 1) else { return false };
            (*place, rest) = (*first, behind);
            match core::str::from_utf8(self.begun.get(..count).unwrap_or_default()) {
                Ok(_) => self.count = 0,
                Err(error) if error.error_len().is_none() => self.count += 1,
                Err(_) => return false,
            }
        }
        match core::str::from_utf8(rest) {
            Ok(_) => true,
            Err(error) if error.error_len().is_some() => false,
            Err(error) => {
                for (place, byte) in self.begun.iter_mut().zip(rest.iter().skip(error.valid_up_to())) {
                    *place = *byte;
                    self.count += 1;
                }
                true
            }
        }
    }

    /// Whether no character is left half.
    pub(crate) const fn is_whole(self) -> bool {
        self.count == 0
    }
}
