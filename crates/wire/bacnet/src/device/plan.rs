//! How many properties one ReadPropertyMultiple asks for: request and answer fit one message of the peer.

use crate::{PropertyId, PropertyRef};

/// Bytes of the headers of a request, and of an answer.
const HEADER_BYTES: usize = 4;
/// Bytes of an object in a request and in an answer: its identifier, a tag before and one behind its properties.
const OBJECT_BYTES: usize = 7;

/// How many references from the first on go into one request: one at least, and `count_max` at most.
pub(super) fn chunk(references: &[PropertyRef], request_max: usize, answer_max: usize, count_max: usize) -> usize {
    let (mut request, mut answer) = (HEADER_BYTES, HEADER_BYTES);
    let mut last = None;
    for (count, reference) in references.iter().enumerate().take(count_max.max(1)) {
        if last != Some(reference.object) {
            (request, answer) = (request + OBJECT_BYTES, answer + OBJECT_BYTES);
            last = Some(reference.object);
        }
        let name = name_bytes(reference);
        (request, answer) = (request + name, answer + name + 2 + value_bytes(reference));
        if count > 0 && (request > request_max || answer > answer_max) {
            return count;
        }
    }
    references.len().min(count_max.max(1))
}

fn name_bytes(reference: &PropertyRef) -> usize {
    let bytes = |number: u32| {
        if number < 0x100 {
            2
        } else if number < 0x1_0000 {
            3
        } else {
            5
        }
    };
    bytes(reference.property.0) + reference.index.map_or(0, bytes)
}

/// Bytes of a value, as most are; where they are more, the device says so and is asked for less.
fn value_bytes(reference: &PropertyRef) -> usize {
    match (reference.property, reference.index) {
        (PropertyId::PRESENT_VALUE | PropertyId::OBJECT_IDENTIFIER, _) | (PropertyId::OBJECT_LIST, Some(_)) => 5,
        (PropertyId::STATUS_FLAGS | PropertyId::UNITS | PropertyId::RELIABILITY, _) => 3,
        (PropertyId::OUT_OF_SERVICE | PropertyId::EVENT_STATE | PropertyId::OBJECT_TYPE, _) => 2,
        (PropertyId::PRIORITY_ARRAY, None) => 40,
        (PropertyId::OBJECT_NAME | PropertyId::DESCRIPTION, _) => 40,
        (PropertyId::STATE_TEXT | PropertyId::PROPERTY_LIST, None) => 120,
        (PropertyId::OBJECT_LIST | PropertyId::ALL | PropertyId::REQUIRED | PropertyId::OPTIONAL, _) => 400,
        _ => 9,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::encode_read_multiple;
    use crate::{ObjectId, ObjectType};
    use alloc::vec::Vec;

    #[test]
    fn requests_and_answers_fit_a_message() {
        let present =
            |instance| PropertyRef::new(ObjectId::new(ObjectType::ANALOG_INPUT, instance), PropertyId::PRESENT_VALUE);
        let references: Vec<_> = (0..800).map(present).collect();
        for max_apdu in [50, 128, 206, 480, 1024, 1476] {
            let count = chunk(&references, max_apdu, max_apdu, 1000);
            let mut request = Vec::new();
            encode_read_multiple(&references[..count], &mut request);
            assert!(request.len() + HEADER_BYTES <= max_apdu, "{max_apdu}");
            let answer = HEADER_BYTES + count * (7 + 2 + 2 + 5);
            assert!(answer <= max_apdu && answer + 16 > max_apdu, "{max_apdu}: {answer} of {count}");
        }
        assert_eq!(chunk(&references, 10, 10, 1000), 1);
        assert_eq!(chunk(&references, 1476, 1476, 20), 20);
    }
}
