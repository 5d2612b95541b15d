//! A line of the log of a nats-server.
//!
//! ```text
//! [19031] 2026/11/27 22:14:42.048643 [INF] Starting nats-server
//! ```

/// How urgent a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineLevel {
    /// It needs a person, or the server has ended.
    Error,
    /// Something is not as it should be.
    Warning,
    /// The state has changed.
    Info,
    /// What helps to find a fault.
    Debug,
}

/// A line without its time and its process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerLine<'a> {
    /// How urgent it is.
    pub level: LineLevel,
    /// What it says.
    pub text: &'a str,
}

impl<'a> ServerLine<'a> {
    /// Reads a line; none where it says nothing, as the lines of the banner do. What is not in the form of the log comes from a
    /// server that cannot begin, and is an error.
    #[must_use]
    pub fn read(line: &'a str) -> Option<Self> {
        let line = line.trim();
        let (level, text) = Self::leveled(line).unwrap_or((LineLevel::Error, line));
        text.chars().any(char::is_alphanumeric).then_some(Self { level, text })
    }

    fn leveled(line: &'a str) -> Option<(LineLevel, &'a str)> {
        let (_, rest) = line.strip_prefix('[')?.split_once("] ")?;
        let (_, rest) = rest.split_once('[')?;
        // A line of the banner ends with its level.
        let (level, text) = rest.split_once(']')?;
        let level = match level {
            "ERR" | "FTL" => LineLevel::Error,
            "WRN" => LineLevel::Warning,
            "INF" => LineLevel::Info,
            "DBG" | "TRC" => LineLevel::Debug,
            _ => return None,
        };
        Some((level, text.trim()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_have_levels() {
        let check = |line: &str, expect: Option<(LineLevel, &str)>| {
            assert_eq!(ServerLine::read(line).map(|line| (line.level, line.text)), expect, "{line}");
        };
        let at = "[19031] 2026/11/27 22:14:42.048643";
        check(&format!("{at} [INF] Server is ready\n"), Some((LineLevel::Info, "Server is ready")));
        check(&format!("{at} [INF]   Version:  2.15.2"), Some((LineLevel::Info, "Version:  2.15.2")));
        check(&format!("{at} [WRN] a [b] c"), Some((LineLevel::Warning, "a [b] c")));
        check(&format!("{at} [FTL] no disk"), Some((LineLevel::Error, "no disk")));
        check(&format!("{at} [DBG] x"), Some((LineLevel::Debug, "x")));
        check(&format!("{at} [INF]     _ ___ _____ ___ "), None);
        check(&format!("{at} [INF]"), None);
        check("", None);
        let plain = "nats-server: open none: no such file or directory";
        check(plain, Some((LineLevel::Error, plain)));
    }

    proptest! {
        #[test]
        fn any_text_is_a_line_or_none(text in r"\PC{0,40}", word in "[A-Z]{0,4}") {
            let _ = (ServerLine::read(&text), ServerLine::read(&format!("[1] [{word}]{text}")));
        }
    }
}
