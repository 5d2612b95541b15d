//! Rows as a table that fits a terminal.
//!
//! What no row has is left out, and what all rows have in common is said once, above. The columns that are left stand in as
//! many tables, one below the other, as the width needs; each begins with the columns that tell the rows apart.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets::UTF8_HORIZONTAL_ONLY};
use std::fmt::Write;

/// What stands for a value that a row does not have.
pub(crate) const NOTHING: &str = "–";
/// What stands between two columns: a space on either side, and a line that is not drawn.
const GAP: usize = 3;
/// No terminal is narrower.
const WIDTH_MIN: usize = 40;

/// A column: its heading, and a cell for each row.
#[derive(Clone, Debug)]
pub(crate) struct Column<'a> {
    pub(crate) heading: &'a str,
    pub(crate) cells: Vec<String>,
}

impl Column<'_> {
    /// Characters of its longest cell, and of the longest word of its heading, which is broken between words.
    fn width(&self) -> usize {
        let words = self.heading.split(' ').chain(self.cells.iter().map(String::as_str));
        GAP + words.map(|text| text.chars().count()).max().unwrap_or(0)
    }

    /// Its heading in lines of its width.
    fn head(&self) -> String {
        let width = self.width() - GAP;
        let mut lines: Vec<String> = Vec::new();
        for word in self.heading.split(' ') {
            match lines.last_mut().filter(|line| line.chars().count() + 1 + word.chars().count() <= width) {
                Some(line) => *line = format!("{line} {word}"),
                None => lines.push(word.to_owned()),
            }
        }
        lines.join("\n")
    }

    fn is_empty(&self) -> bool {
        self.cells.iter().all(|cell| cell == NOTHING)
    }

    fn is_common(&self) -> bool {
        self.cells.iter().all(|cell| Some(cell) == self.cells.first())
    }
}

/// All columns in one table, however wide.
pub(crate) fn wide(columns: &[Column<'_>]) -> String {
    format!("{}\n", table(&columns.iter().collect::<Vec<_>>(), None))
}

/// Tables of at most `width` characters.
pub(crate) fn fitted(columns: &[Column<'_>], width: usize) -> String {
    let width = width.max(WIDTH_MIN);
    let known: Vec<&Column<'_>> = columns.iter().filter(|column| !column.is_empty()).collect();
    let (common, differing): (Vec<_>, Vec<_>) = known.into_iter().partition(|column| column.is_common());
    let mut text = said_once(&common, width);
    let rows = differing.first().map_or(0, |column| column.cells.len());
    let numbers = Column { heading: "row", cells: (1..=rows).map(|number| number.to_string()).collect() };
    let labels = labels(&differing);
    let (label, rest) = differing.split_at(labels);
    let wide = |columns: &[&Column<'_>]| columns.iter().map(|column| column.width()).sum::<usize>();
    // Where what tells the rows apart takes most of the width, a number stands for it in the tables that follow.
    let (first, again) = match wide(label) > width / 2 {
        true => (std::iter::once(&numbers).chain(label.iter().copied()).collect(), vec![&numbers]),
        false => (label.to_vec(), label.to_vec()),
    };
    let mut part: Vec<&Column<'_>> = first;
    for column in rest {
        if part.len() > again.len() && wide(&part) + column.width() > width {
            text.push_str(&format!("{}\n", table(&part, Some(width))));
            part.clone_from(&again);
        }
        part.push(column);
    }
    if !part.is_empty() {
        text.push_str(&format!("{}\n", table(&part, Some(width))));
    }
    text
}

/// How many of the first columns tell all rows apart; one at least, where there is one.
fn labels(columns: &[&Column<'_>]) -> usize {
    let rows = columns.first().map_or(0, |column| column.cells.len());
    let apart = |count: usize| {
        let key = |row: usize| columns.iter().take(count).map(|column| column.cells.get(row)).collect::<Vec<_>>();
        let keys: std::collections::HashSet<_> = (0..rows).map(key).collect();
        keys.len() == rows
    };
    (1..columns.len()).find(|count| apart(*count)).unwrap_or(1).min(columns.len())
}

/// `heading value` of each column, in lines.
fn said_once(columns: &[&Column<'_>], width: usize) -> String {
    let (mut text, mut line) = (String::new(), 0);
    for column in columns {
        let said = format!("{} {}", column.heading, column.cells.first().map_or("", String::as_str));
        let length = said.chars().count();
        let separator = match line {
            0 => "",
            _ if line + 3 + length > width => "\n",
            _ => " · ",
        };
        line = if separator == "\n" { length } else { line + separator.chars().count() + length };
        let _ = write!(text, "{separator}{said}");
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn table(columns: &[&Column<'_>], width: Option<usize>) -> Table {
    let mut table = Table::new();
    table.load_style(UTF8_HORIZONTAL_ONLY);
    if let Some(width) = width {
        table.set_content_arrangement(ContentArrangement::Dynamic).set_width(u16::try_from(width).unwrap_or(u16::MAX));
    }
    table.set_header(columns.iter().map(|column| match width {
        Some(_) => column.head(),
        None => column.heading.to_owned(),
    }));
    table.column_iter_mut().for_each(|column| column.set_cell_alignment(CellAlignment::Right));
    let rows = columns.first().map_or(0, |column| column.cells.len());
    for row in 0..rows {
        table.add_row(columns.iter().map(|column| column.cells.get(row).map_or("", String::as_str)));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column<'a>(heading: &'a str, cells: &[&str]) -> Column<'a> {
        Column { heading, cells: cells.iter().map(|&cell| cell.to_owned()).collect() }
    }

    /// As many columns as the fan-out has, of rows that differ in server and subscribers.
    fn columns() -> Vec<Column<'static>> {
        let mut columns = vec![
            column("server", &["tieline", "mosquitto", "tieline", "floor"]),
            column("over", &["tcp"; 4]),
            column("subscribers", &["200", "200", "5000", "5000"]),
            column("deltas", &[NOTHING; 4]),
        ];
        columns.extend(
            ["CPU s a million", "bytes a subscriber", "µs p50", "p99", "lost", "to Mosquitto"]
                .map(|heading| column(heading, &["12345.6", "7.25", "INVALID", NOTHING])),
        );
        columns
    }

    #[test]
    fn a_table_is_no_wider_than_asked() {
        for width in [40, 60, 80, 100, 200] {
            let text = fitted(&columns(), width);
            let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
            assert!(widest <= width, "{widest} of {width}\n{text}");
            assert!(text.starts_with("over tcp\n") && !text.contains("deltas"), "{text}");
            assert_eq!(text.matches("12345.6").count(), 6, "{text}");
            // Each part tells which row is which.
            let parts = text.matches("mosquitto").count();
            assert_eq!(parts, text.matches("floor").count());
            assert!(parts == 1 || width < 100, "{width}: {text}");
            assert!(text.lines().all(|line| !line.contains("…")), "{text}");
        }
        assert!(wide(&columns()).lines().next().unwrap().chars().count() > 100);
    }

    #[test]
    fn one_row_is_a_list() {
        let one: Vec<_> = columns()
            .iter()
            .map(|column| Column { heading: column.heading, cells: column.cells[..1].to_vec() })
            .collect();
        let text = fitted(&one, 40);
        assert!(
            text.contains("server tieline · over tcp · subscribers 200") || text.contains("server tieline"),
            "{text}"
        );
        assert!(text.lines().all(|line| line.chars().count() <= 40) && !text.contains('─'), "{text}");
    }

    #[test]
    fn rows_that_need_many_columns_to_be_told_apart_are_numbered() {
        let cells = |at: usize| -> Vec<String> {
            (0..4).map(|row| format!("a-long-word-{}", if row >> at & 1 == 1 { "on" } else { "off" })).collect()
        };
        let columns: Vec<_> = ["one", "two", "three", "four"]
            .iter()
            .zip([0, 1, 0, 1])
            .map(|(heading, at)| Column { heading, cells: cells(at) })
            .collect();
        let text = fitted(&columns, 50);
        assert!(text.lines().all(|line| line.chars().count() <= 50), "{text}");
        assert!(text.matches("row").count() >= 2, "{text}");
    }
}
