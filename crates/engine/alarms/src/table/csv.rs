//! Cells of a CSV file (RFC 4180) with their lines: `,` between cells, `"` around those that have commas, quotes or ends of
//! lines.

use alloc::borrow::Cow;
use alloc::vec::Vec;

/// A record, and the line on which it begins, from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record<'a> {
    pub(super) line: u32,
    pub(super) cells: Vec<Cow<'a, str>>,
}

/// What is wrong with a record as CSV.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Broken {
    /// A quoted cell has no end.
    Unclosed,
    /// Text behind the closing quote of a cell.
    BehindQuote,
}

/// Reads one record after another.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a str,
    line: u32,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str) -> Self {
        Self { rest: text.strip_prefix('\u{feff}').unwrap_or(text), line: 1 }
    }

    /// The next record that is not an empty line.
    pub(super) fn next(&mut self) -> Option<Result<Record<'a>, (u32, Broken)>> {
        loop {
            let skipped = self.rest.strip_prefix("\r\n").or_else(|| self.rest.strip_prefix('\n'));
            let Some(rest) = skipped else { break };
            (self.rest, self.line) = (rest, self.line.saturating_add(1));
        }
        if self.rest.is_empty() {
            return None;
        }
        let line = self.line;
        let mut cells = Vec::new();
        loop {
            match self.cell() {
                Ok((cell, is_last)) => {
                    cells.push(cell);
                    if is_last {
                        return Some(Ok(Record { line, cells }));
                    }
                }
                Err(broken) => {
                    self.skip_line();
                    return Some(Err((line, broken)));
                }
            }
        }
    }

    /// One cell, and whether its record ends with it.
    fn cell(&mut self) -> Result<(Cow<'a, str>, bool), Broken> {
        if let Some(inside) = self.rest.strip_prefix('"') {
            return self.quoted(inside);
        }
        let end = self.rest.find([',', '\n']).unwrap_or(self.rest.len());
        let (cell, rest) = self.rest.split_at(end);
        self.rest = rest;
        let is_last = self.end_of_cell();
        let cell = if is_last { cell.strip_suffix('\r').unwrap_or(cell) } else { cell };
        Ok((Cow::Borrowed(cell.trim()), is_last))
    }

    fn quoted(&mut self, inside: &'a str) -> Result<(Cow<'a, str>, bool), Broken> {
        let mut from = 0;
        let end = loop {
            let at = from + inside.get(from..).and_then(|rest| rest.find('"')).ok_or(Broken::Unclosed)?;
            match inside.as_bytes().get(at + 1) {
                Some(b'"') => from = at + 2,
                _ => break at,
            }
        };
        let (cell, rest) = inside.split_at(end);
        let lines = cell.bytes().filter(|b| *b == b'\n').count();
        self.line = self.line.saturating_add(u32::try_from(lines).unwrap_or(u32::MAX));
        self.rest = rest.strip_prefix('"').unwrap_or(rest);
        if self.rest.starts_with("\r\n") || self.rest == "\r" {
            self.rest = self.rest.strip_prefix('\r').unwrap_or(self.rest);
        }
        if !(self.rest.is_empty() || self.rest.starts_with([',', '\n'])) {
            return Err(Broken::BehindQuote);
        }
        let is_last = self.end_of_cell();
        let cell = if cell.contains('"') { Cow::Owned(cell.replace("\"\"", "\"")) } else { Cow::Borrowed(cell) };
        Ok((cell, is_last))
    }

    /// Goes past what ends a cell.
    fn end_of_cell(&mut self) -> bool {
        if let Some(rest) = self.rest.strip_prefix(',') {
            self.rest = rest;
            return false;
        }
        if let Some(rest) = self.rest.strip_prefix('\n') {
            (self.rest, self.line) = (rest, self.line.saturating_add(1));
        }
        true
    }

    fn skip_line(&mut self) {
        self.rest = self.rest.split_once('\n').map_or("", |(_, rest)| rest);
        self.line = self.line.saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::format;
    use alloc::string::String;

    fn check(text: &str, expect: &str) {
        let mut reader = Reader::new(text);
        let mut shown = String::new();
        while let Some(record) = reader.next() {
            shown.push_str(&match record {
                Ok(record) => format!("{}{:?} ", record.line, record.cells),
                Err((line, broken)) => format!("{line}{broken:?} "),
            });
        }
        assert_eq!(shown.trim_end(), expect, "{text:?}");
    }

    #[test]
    fn cells_have_lines() {
        check("a, b ,c\n1,,2\r\n", r#"1["a", "b", "c"] 2["1", "", "2"]"#);
        check("\u{feff}a\n\n\r\nb", r#"1["a"] 4["b"]"#);
        check("\"a,\"\"b\n\",c\nd", r#"1["a,\"b\n", "c"] 3["d"]"#);
        check("\"a\"\r\n\"b\"\r", r#"1["a"] 2["b"]"#);
        check("a,\"b", "1Unclosed");
        check("\"a\"b,c\nd", r#"1BehindQuote 2["d"]"#);
        check("a,", r#"1["a", ""]"#);
        check("", "");
    }
}
