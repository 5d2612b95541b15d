use crate::SerialTiming;
use std::num::NonZeroU32;
use std::time::Duration;

#[test]
fn pauses_are_characters_up_to_19_200_baud() {
    let check = |baud, character_us, silence_us| {
        let timing = SerialTiming::new(NonZeroU32::new(baud).unwrap());
        assert_eq!(timing.character.as_micros(), character_us, "{baud}");
        assert_eq!(timing.silence, Duration::from_nanos(silence_us), "{baud}");
    };
    check(9600, 1145, 4_010_415);
    check(19_200, 572, 2_005_206);
    check(38_400, 286, 1_750_000);
    check(115_200, 95, 1_750_000);
    check(1, 11_000_000, 38_500_000_000);
}
