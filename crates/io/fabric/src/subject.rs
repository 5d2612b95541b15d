//! Names on the fabric: which subject a site, a stream, a service or a topic has.
//!
//! | subject | what |
//! |---|---|
//! | `tl.<site>.up.<stream>` | batches of history upward |
//! | `tl.<site>.call.<service>` | requests to a site |
//! | `tl.<site>.join.<request>` | requests of a site about its own joining |
//! | `tl.<site>.t.<topic>` | messages of topics |
//! | `_INBOX_<site>` | answers to a site: the prefix of its inboxes, so that none hears those of others |
//!
//! A level of a topic is a token. In tokens, `%`, `.`, `*`, `>`, white space and control characters are `%XX` for each of their UTF-8
//! bytes, in upper case; an empty token is `%00`, a character that topics cannot have. So wildcards and permissions work on levels, and
//! every topic that is not too long has one subject.

use crate::FabricError;
use tieline_core::{Filter, Topic};

/// A subject takes this many bytes at most: a server refuses a line of 4,096, which has the subject of the answer too.
pub const SUBJECT_BYTES_MAX: usize = 3500;
const EMPTY: &str = "%00";

/// Batches of a stream of a site.
///
/// # Errors
/// It is too long, here and in all others.
pub fn up(site: &str, stream: &str) -> Result<String, FabricError> {
    limited(format!("tl.{}.up.{}", token(site), token(stream)))
}

/// The batches of a stream of all sites.
#[must_use]
pub fn up_of_all(stream: &str) -> String {
    format!("tl.*.up.{}", token(stream))
}

/// The site of a subject of [`up`].
#[must_use]
pub fn site_of(subject: &str) -> Option<String> {
    let (site, _) = subject.strip_prefix("tl.")?.split_once('.')?;
    level(site)
}

/// Requests to a service of a site.
///
/// # Errors
/// As [`up`].
pub fn call(site: &str, service: &str) -> Result<String, FabricError> {
    limited(format!("tl.{}.call.{}", token(site), token(service)))
}

/// Requests to all services of a site.
///
/// # Errors
/// As [`up`].
pub fn calls(site: &str) -> Result<String, FabricError> {
    limited(format!("tl.{}.call.*", token(site)))
}

/// Requests of a site about its own joining.
///
/// # Errors
/// As [`up`].
pub fn join(site: &str, request: &str) -> Result<String, FabricError> {
    limited(format!("tl.{}.join.{}", token(site), token(request)))
}

/// The same requests of all sites.
#[must_use]
pub fn join_of_all(request: &str) -> String {
    format!("tl.*.join.{}", token(request))
}

/// Messages of a topic of a site.
///
/// # Errors
/// As [`up`].
pub fn topic(site: &str, topic: &Topic) -> Result<String, FabricError> {
    let levels: Vec<String> = topic.levels().map(token).collect();
    limited(format!("tl.{}.t.{}", token(site), levels.join(".")))
}

/// The topic of a subject of [`topic`].
#[must_use]
pub fn topic_of(subject: &str) -> Option<Topic> {
    let (_, levels) = subject.strip_prefix("tl.")?.split_once(".t.")?;
    let levels: Option<Vec<String>> = levels.split('.').map(level).collect();
    Topic::new(&levels?.join("/")).ok()
}

/// The subjects of a filter. There are two where it ends with `#`: that matches the level above too. A filter that begins with a
/// wildcard gets topics that begin with `$` besides, which MQTT leaves out.
///
/// # Errors
/// As [`up`].
pub fn filter(site: &str, filter: &Filter) -> Result<Vec<String>, FabricError> {
    let wild = |level: &str| match level {
        "+" => "*".to_owned(),
        "#" => ">".to_owned(),
        level => token(level),
    };
    let levels: Vec<String> = filter.levels().map(wild).collect();
    let prefix = format!("tl.{}.t", token(site));
    let whole = limited(format!("{prefix}.{}", levels.join(".")))?;
    let above = levels.split_last().filter(|(last, above)| *last == ">" && !above.is_empty());
    Ok(above.map(|(_, above)| format!("{prefix}.{}", above.join("."))).into_iter().chain([whole]).collect())
}

/// The prefix of a site's inboxes.
#[must_use]
pub fn inbox(site: &str) -> String {
    format!("_INBOX_{}", token(site))
}

/// A text as one token.
#[must_use]
pub fn token(text: &str) -> String {
    if text.is_empty() {
        return EMPTY.to_owned();
    }
    let mut token = String::with_capacity(text.len());
    for c in text.chars() {
        if matches!(c, '%' | '.' | '*' | '>') || c.is_control() || c.is_whitespace() {
            let mut bytes = [0; 4];
            c.encode_utf8(&mut bytes).bytes().for_each(|byte| token.push_str(&format!("%{byte:02X}")));
        } else {
            token.push(c);
        }
    }
    token
}

/// The text of a token; none where [`token`] makes no such token.
#[must_use]
pub fn level(token_text: &str) -> Option<String> {
    if token_text == EMPTY {
        return Some(String::new());
    }
    let (mut bytes, mut rest) = (Vec::with_capacity(token_text.len()), token_text);
    while let Some((plain, coded)) = rest.split_once('%') {
        bytes.extend_from_slice(plain.as_bytes());
        let (digits, after) = coded.split_at_checked(2)?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    let text = String::from_utf8(bytes).ok()?;
    (token(&text) == token_text && !text.contains('\0')).then_some(text)
}

fn limited(subject: String) -> Result<String, FabricError> {
    if subject.len() <= SUBJECT_BYTES_MAX {
        return Ok(subject);
    }
    let length = subject.len();
    Err(FabricError::Misused(format!("a subject has {length} bytes, expected at most {SUBJECT_BYTES_MAX}")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::takes;
    use proptest::prelude::*;

    fn check(name: &str, expect: &str) {
        let name = Topic::new(name).unwrap();
        let subject = topic("north", &name).unwrap();
        assert_eq!(subject, format!("tl.north.t.{expect}"));
        assert_eq!(topic_of(&subject), Some(name));
    }

    #[test]
    fn topics_have_subjects() {
        check("site/unit/device/point", "site.unit.device.point");
        check("a.b/c d", "a%2Eb.c%20d");
        check("100%/>/*", "100%25.%3E.%2A");
        check("/a//b/", "%00.a.%00.b.%00");
        check("straße/\u{3000}\u{85}", "straße.%E3%80%80%C2%85");
        check("$SYS/x", "$SYS.x");
    }

    #[test]
    fn filters_have_one_subject_or_two() {
        let subjects = |text: &str| filter("n.1", &Filter::new(text).unwrap()).unwrap().join(" ");
        assert_eq!(subjects("a/+/b"), "tl.n%2E1.t.a.*.b");
        assert_eq!(subjects("a/#"), "tl.n%2E1.t.a tl.n%2E1.t.a.>");
        assert_eq!(subjects("#"), "tl.n%2E1.t.>");
        assert_eq!(subjects("/+"), "tl.n%2E1.t.%00.*");
    }

    #[test]
    fn sites_and_services_have_subjects() {
        assert_eq!(up("north", "live").unwrap(), "tl.north.up.live");
        assert_eq!(site_of(&up("n.1 ", "live").unwrap()).as_deref(), Some("n.1 "));
        assert_eq!(call("north", "tell me").unwrap(), "tl.north.call.tell%20me");
        assert_eq!((up_of_all("live"), inbox("n.1")), ("tl.*.up.live".into(), "_INBOX_n%2E1".into()));
        let long = "x".repeat(SUBJECT_BYTES_MAX);
        assert!(matches!(topic("north", &Topic::new(&long).unwrap()), Err(FabricError::Misused(_))));
    }

    #[test]
    fn only_tokens_that_are_made_are_read() {
        for text in ["%", "%2", "%2e", "%61", "%FF", "a%00", "%00%00", "%+1", "a b", "a*", ""] {
            assert_eq!(level(text), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_one_token(text in any::<String>().prop_filter("not in topics", |text| !text.contains('\0'))) {
            let token = token(&text);
            let is_plain = |c: char| !c.is_whitespace() && !c.is_control() && !".*>".contains(c);
            prop_assert!(!token.is_empty() && token.chars().all(is_plain), "{token}");
            prop_assert_eq!(level(&token), Some(text));
        }

        #[test]
        fn any_token_is_read_or_refused(text in "[a%0-9A-F.*> é]{0,12}") {
            if let Some(read) = level(&text) {
                prop_assert_eq!(token(&read), text);
            }
        }

        #[test]
        fn a_filter_has_the_subjects_of_its_topics(
            levels in prop::collection::vec("[ab.]{0,1}", 1..5), wild in prop::collection::vec(0..3_u8, 5), ends: bool,
        ) {
            let name = levels.join("/");
            prop_assume!(!name.is_empty());
            let mut parts: Vec<&str> =
                levels.iter().zip(&wild).map(|(level, wild)| if *wild == 0 { "+" } else { level }).collect();
            if ends {
                parts.truncate(1 + usize::from(wild[4]));
                parts.push("#");
            }
            prop_assume!(!parts.concat().is_empty() || parts.len() > 1);
            let asked = Filter::new(&parts.join("/")).unwrap();
            let name = Topic::new(&name).unwrap();
            let subject = topic("n", &name).unwrap();
            let found = filter("n", &asked).unwrap().iter().any(|pattern| takes(pattern, &subject));
            prop_assert_eq!(found, asked.matches(&name), "{} {}", asked, name);
        }
    }
}
