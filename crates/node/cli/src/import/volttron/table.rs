//! A registry: its rows with their lines.
//!
//! The scanner is our own because every line of a file is accounted for: a CSV library skips blank lines and does not say so.

use super::jsonc::{Json, Value};
use std::collections::HashSet;

/// A registry or a register map.
#[derive(Debug, Default)]
pub struct Table {
    /// The names of columns: lower case, with one blank between words.
    pub header: Vec<String>,
    /// The line of the header; none of a registry within JSON.
    pub header_line: Option<usize>,
    /// Its rows, those that are blank or comments too.
    pub rows: Vec<Row>,
    /// The character between cells, where it is not a comma.
    pub separator: Option<char>,
}

/// A row.
#[derive(Debug)]
pub struct Row {
    /// The first line.
    pub line: usize,
    /// The last line: quoted cells may have line ends.
    pub last_line: usize,
    /// Where it is in JSON, as in `registry_config[3]`.
    pub key: String,
    /// What is in it, as it is written.
    pub cells: Vec<String>,
}

impl Table {
    /// Reads CSV. None where there is no header.
    pub fn read(text: &str) -> Self {
        let first = text.lines().find(|line| !is_idle(line)).unwrap_or_default();
        let separator = [';', '\t'].into_iter().find(|c| !first.contains(',') && first.contains(*c));
        let mut rows = scan(text, separator.unwrap_or(','));
        let Some(at) = rows.iter().position(|row| !row.is_blank() && !row.is_comment()) else {
            return Self { rows, ..Self::default() };
        };
        let header = rows.remove(at);
        let names = header.cells.iter().map(|name| plain(name)).collect();
        Self { header: names, header_line: Some(header.line), rows, separator }
    }

    /// Reads an array of objects, which is what VOLTTRON makes of CSV.
    pub fn from_json(array: &[Json], key: &str) -> Self {
        let mut header: Vec<String> = Vec::new();
        let mut seen = HashSet::new();
        for member in array.iter().filter_map(|json| json.members()).flatten() {
            let name = plain(&member.0);
            if seen.insert(name.clone()) {
                header.push(name);
            }
        }
        let row = |(at, json): (usize, &Json)| {
            let cell = |name: &String| {
                let all = json.members().unwrap_or_default();
                let found = all.iter().rev().find(|(key, _)| plain(key) == *name);
                found.map(|(_, value)| value.shown()).unwrap_or_default()
            };
            let (line, cells) = (json.line, header.iter().map(cell).collect());
            Row { line, last_line: line, key: format!("{key}[{at}]"), cells }
        };
        let rows = array.iter().enumerate().map(row).collect();
        Self { header, header_line: None, rows, separator: None }
    }

    /// Whether it has a column.
    pub fn has(&self, column: &str) -> bool {
        self.header.iter().any(|name| name == column)
    }

    /// The cell of a row in a column; of columns with the same name the last, as in Python.
    pub fn cell<'a>(&self, row: &'a Row, column: &str) -> &'a str {
        let at = self.header.iter().rposition(|name| name == column);
        at.and_then(|at| row.cells.get(at)).map(|cell| cell.trim()).unwrap_or_default()
    }
}

impl Json {
    fn members(&self) -> Option<&[(String, Self)]> {
        match &self.value {
            Value::Object(members) => Some(members),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Array(_) => None,
        }
    }

    fn shown(&self) -> String {
        match &self.value {
            Value::Bool(is) => is.to_string(),
            Value::Number(text) | Value::Text(text) => text.clone(),
            Value::Null | Value::Array(_) | Value::Object(_) => String::new(),
        }
    }
}

impl Row {
    /// Whether nothing is in it.
    pub fn is_blank(&self) -> bool {
        self.cells.iter().all(|cell| cell.trim().is_empty())
    }

    /// Whether its first cell begins as a comment does.
    pub fn is_comment(&self) -> bool {
        self.cells.first().is_some_and(|cell| cell.trim_start().starts_with('#'))
    }
}

fn is_idle(line: &str) -> bool {
    let line = line.trim_matches(|c: char| c.is_whitespace() || c == '\u{feff}');
    line.is_empty() || line.starts_with('#')
}

/// The name of a column for comparisons.
pub fn plain(name: &str) -> String {
    let name = name.trim_start_matches('\u{feff}').to_lowercase().replace('_', " ");
    name.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Rows as Python's csv reads them: quotes are doubled within quoted cells; lines end with CR, LF or both.
fn scan(text: &str, separator: char) -> Vec<Row> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut chars = text.chars().peekable();
    let (mut rows, mut line) = (Vec::new(), 1);
    while chars.peek().is_some() {
        let first = line;
        let (mut cells, mut cell, mut quoted, mut last) = (Vec::new(), String::new(), false, ' ');
        loop {
            let c = chars.next();
            match c {
                Some('"') if quoted && chars.peek() == Some(&'"') => {
                    chars.next();
                    cell.push('"');
                }
                Some('"') if quoted => quoted = false,
                Some('"') if cell.trim().is_empty() => {
                    cell.clear();
                    quoted = true;
                }
                Some('\r') if chars.peek() == Some(&'\n') => {}
                Some('\r' | '\n') => {
                    line += 1;
                    if !quoted {
                        break;
                    }
                    cell.push('\n');
                }
                Some(c) if c == separator && !quoted => cells.push(std::mem::take(&mut cell)),
                Some(c) => cell.push(c),
                None => {
                    // The last line may have no end.
                    line += usize::from(!matches!(last, '\r' | '\n'));
                    break;
                }
            }
            last = c.unwrap_or(last);
        }
        cells.push(cell);
        rows.push(Row { line: first, last_line: line - 1, key: String::new(), cells });
    }
    rows
}

/// The text of a file in one of the encodings that spreadsheets write; none of what is no text.
pub fn decode(bytes: &[u8]) -> Option<(String, Option<&'static str>)> {
    let utf_16 = |from: fn([u8; 2]) -> u16, bytes: &[u8]| {
        let pairs = bytes.chunks_exact(2).filter_map(|pair| pair.try_into().ok()).map(from);
        char::decode_utf16(pairs).map(|c| c.unwrap_or(char::REPLACEMENT_CHARACTER)).collect::<String>()
    };
    if let Some(rest) = bytes.strip_prefix(&[0xff, 0xfe]) {
        return Some((utf_16(u16::from_le_bytes, rest), Some("UTF-16")));
    }
    if let Some(rest) = bytes.strip_prefix(&[0xfe, 0xff]) {
        return Some((utf_16(u16::from_be_bytes, rest), Some("UTF-16")));
    }
    if bytes.contains(&0) {
        return None;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) => Some((text.to_owned(), None)),
        Err(_) => Some((bytes.iter().map(|byte| char::from(*byte)).collect(), Some("ISO 8859-1"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn rows_have_lines() {
        let table = Table::read("\u{feff}# x\r\n\r\nPoint  Name,Volttron_Point Name\r\n\"a\n\"\"b\",c\r\n\n,\nd");
        assert_eq!(table.header, ["point name", "volttron point name"]);
        let rows: Vec<_> = table.rows.iter().map(|row| (row.line, row.last_line, row.cells.join("|"))).collect();
        let expect = [
            (1, 1, "# x".to_owned()),
            (2, 2, String::new()),
            (4, 5, "a\n\"b|c".to_owned()),
            (6, 6, String::new()),
            (7, 7, "|".to_owned()),
            (8, 8, "d".to_owned()),
        ];
        assert_eq!((table.header_line, rows), (Some(3), expect.to_vec()));
    }

    #[test]
    fn encodings() {
        let check = |bytes: &[u8], expect: &str| assert_eq!(decode(bytes).unwrap().0, expect);
        check("a°".as_bytes(), "a°");
        check(b"a\xb0", "a°");
        check(b"\xff\xfea\0\xb0\0", "a°");
        check(b"\xfe\xff\0a\0\xb0", "a°");
        assert_eq!(decode(b"a\0"), None);
    }

    proptest! {
        #[test]
        fn every_line_is_in_one_row(text in "[a,;\"\r\n# ]{0,60}") {
            let mut next = 1;
            for row in scan(&text, ',') {
                prop_assert_eq!(row.line, next);
                prop_assert!(row.last_line >= row.line);
                next = row.last_line + 1;
            }
            let lines = text.replace("\r\n", "\n").replace('\r', "\n");
            prop_assert_eq!(next - 1, lines.lines().count());
        }
    }
}
