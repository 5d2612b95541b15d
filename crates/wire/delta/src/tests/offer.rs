use crate::{CodecSet, Codecs};

#[test]
fn both_sides_agree_on_what_both_know() {
    let codecs = Codecs::built_in();
    let check = |offer: &str, expect: Option<&str>| {
        assert_eq!(codecs.offer(codecs.agree(offer)).as_deref(), expect, "{offer}");
    };
    check("point", Some("point"));
    check("point , batch", Some("point"));
    check("vcdiff,point", Some("point"));
    check("batch", None);
    check("vcdiff", None);
    check("", None);
    check(&",point".repeat(100), None);
    #[cfg(feature = "hunk")]
    check("hunk,point,vcdiff", Some("point,hunk"));
    assert_eq!(CodecSet::from_bits(codecs.agree("point").bits()), CodecSet::POINT);
}
