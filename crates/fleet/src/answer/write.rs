//! Answers as text, JSON and CSV.

use serde_json::{Map, Value, json};
use tare_format::{csv_field, is_unsafe};

use crate::answer::{Answer, Cell};
use crate::time::rfc3339;

/// Version of the JSON documents. It rises when a name is removed or changes its meaning.
pub(super) const VERSION: u32 = 1;

/// Shown in tables where there is no value.
const MISSING: &str = "-";

impl Answer {
    /// Returns the answer as a table, with remarks below it. Events have a table each.
    #[must_use]
    pub fn to_text(&self) -> String {
        let has_events = self.columns.first().is_some_and(|column| column.name == "event");
        let skipped = usize::from(has_events);
        let mut text = String::new();
        for rows in self.rows.chunk_by(|a, b| !has_events || a[0] == b[0]) {
            if let Some(Cell::Text(event)) = rows[0].first().filter(|_| has_events) {
                text += &format!("# {}\n", printable(event));
            }
            self.add_table(rows, skipped, &mut text);
            text.push('\n');
        }
        for remark in &self.remarks {
            text += &format!("{}\n", printable(remark));
        }
        text
    }

    fn add_table(&self, rows: &[Vec<Cell>], skipped: usize, text: &mut String) {
        let titles: Vec<String> =
            self.columns[skipped..].iter().map(|column| column.title.to_string()).collect();
        let mut lines = vec![titles];
        lines.extend(rows.iter().map(|row| row[skipped..].iter().map(Cell::to_text).collect()));
        let widths: Vec<usize> = (0..lines[0].len())
            .map(|at| lines.iter().map(|line| line[at].chars().count()).max().unwrap_or(0))
            .collect();
        let is_left = |at: usize| {
            let mut cells = rows.iter().map(|row| &row[at + skipped]);
            cells.any(|cell| matches!(cell, Cell::Text(_)))
        };
        let left: Vec<bool> = (0..widths.len()).map(is_left).collect();
        for line in &lines {
            let padded = line.iter().zip(&widths).zip(&left).map(|((cell, width), is_left)| {
                let gap = " ".repeat(width - cell.chars().count());
                if *is_left { format!("{cell}{gap}") } else { format!("{gap}{cell}") }
            });
            *text += padded.collect::<Vec<_>>().join("  ").trim_end();
            text.push('\n');
        }
    }

    /// Returns the answer as a JSON document.
    #[must_use]
    pub fn to_json(&self) -> String {
        format!("{:#}\n", self.document())
    }

    /// Returns the answer as a value of JSON.
    #[must_use]
    pub fn document(&self) -> Value {
        let rows = self.rows.iter().map(|row| {
            let cells = self.columns.iter().zip(row);
            Value::Object(
                cells
                    .map(|(column, cell)| (column.name.to_string(), cell.to_json()))
                    .collect::<Map<_, _>>(),
            )
        });
        json!({
            "version": VERSION,
            "question": self.question,
            "rows": rows.collect::<Vec<_>>(),
            "remarks": self.remarks,
        })
    }

    /// Returns the table as CSV, with a line of names.
    #[must_use]
    pub fn to_csv(&self) -> String {
        let names: Vec<String> =
            self.columns.iter().map(|column| csv_field(&column.name)).collect();
        let mut text = names.join(",") + "\n";
        for row in &self.rows {
            let cells = row.iter().map(|cell| match cell.to_json() {
                Value::Null => String::new(),
                Value::String(text) => csv_field(&text),
                number => number.to_string(),
            });
            text += &(cells.collect::<Vec<_>>().join(",") + "\n");
        }
        text
    }
}

impl Cell {
    pub(super) fn to_text(&self) -> String {
        match self {
            Self::Missing => MISSING.to_owned(),
            Self::Text(text) => printable(text),
            Self::Count(count) => count.to_string(),
            Self::Share(share) => format!("{:.2}%", share * 100.0),
            Self::Points(points) => format!("{:+.2}", points * 100.0),
            Self::Change(change) => format!("{:+.1}%", change * 100.0),
            Self::Probability(p) => format!("{p:.4}"),
            Self::Duration(ns) => duration(*ns),
            Self::Cores(cores) => format!("{cores:.3}"),
            Self::Money(money) => format!("{money:.2}"),
            Self::Number(number) => number.to_string(),
            Self::Moment(time_us) => rfc3339(*time_us),
        }
    }

    fn to_json(&self) -> Value {
        match self {
            Self::Missing => Value::Null,
            Self::Text(text) => json!(text),
            Self::Count(count) | Self::Duration(count) => json!(count),
            Self::Share(number)
            | Self::Points(number)
            | Self::Change(number)
            | Self::Probability(number)
            | Self::Cores(number)
            | Self::Money(number)
            | Self::Number(number) => json!(number),
            Self::Moment(time_us) => json!(rfc3339(*time_us)),
        }
    }
}

/// Returns nanoseconds with a unit.
fn duration(ns: i64) -> String {
    #[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
    let seconds = ns as f64 / 1e9;
    match seconds {
        3600.0.. => format!("{:.1} h", seconds / 3600.0),
        60.0.. => format!("{:.1} min", seconds / 60.0),
        1.0.. => format!("{seconds:.1} s"),
        _ => format!("{:.1} ms", seconds * 1000.0),
    }
}

/// Escapes characters that could change a terminal or leave the line.
pub(super) fn printable(text: &str) -> String {
    let escaped = text.chars().map(|letter| match letter {
        letter if is_unsafe(letter) => letter.escape_default().to_string(),
        letter => letter.to_string(),
    });
    escaped.collect()
}
