//! Tables and quantities for people.

use std::{fmt, time::Duration};

/// Rows of cells, aligned when shown.
#[derive(Debug, Clone)]
pub struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table. A column whose header starts with `>` is aligned to the right.
    pub fn new(header: &[&'static str]) -> Self {
        Self {
            header: header.to_vec(),
            rows: Vec::new(),
        }
    }

    /// Adds a row; missing cells at its end are empty.
    pub fn row<I: IntoIterator<Item: Into<String>>>(&mut self, cells: I) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    fn write(&self, f: &mut fmt::Formatter<'_>, cell: impl Fn(usize) -> String) -> fmt::Result {
        let mut line = String::new();
        for (column, header) in self.header.iter().enumerate() {
            let width = self.width(column);
            let text = cell(column);
            if header.starts_with('>') {
                line += &format!("{text:>width$}  ");
            } else {
                line += &format!("{text:<width$}  ");
            }
        }
        writeln!(f, "{}", line.trim_end())
    }

    fn width(&self, column: usize) -> usize {
        let header = title(self.header[column]).len();
        self.rows
            .iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .fold(header, usize::max)
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(f, |column| title(self.header[column]).to_owned())?;
        self.write(f, |column| "-".repeat(self.width(column)))?;
        for row in &self.rows {
            self.write(f, |column| row.get(column).cloned().unwrap_or_default())?;
        }
        Ok(())
    }
}

fn title(header: &'static str) -> &'static str {
    header.trim_start_matches('>')
}

/// A number of bytes as text, in powers of 1000.
pub fn bytes_text(bytes: u64) -> String {
    scaled(
        bytes,
        &[
            (1_000_000_000, "GB"),
            (1_000_000, "MB"),
            (1_000, "kB"),
            (1, "B"),
        ],
    )
}

/// A duration as text.
pub fn duration_text(duration: Duration) -> String {
    let micros = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
    scaled(micros, &[(1_000_000, "s"), (1_000, "ms"), (1, "us")])
}

fn scaled(value: u64, units: &[(u64, &str)]) -> String {
    let last = ("", 1);
    let (unit, size) = units
        .iter()
        .find(|(size, _)| value >= *size)
        .or(units.last())
        .map_or(last, |&(size, unit)| (unit, size));
    if size == 1 {
        return format!("{value} {unit}");
    }
    let tenths = value / (size / 10);
    format!("{}.{} {unit}", tenths / 10, tenths % 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new(&["backend", ">n"]);
        table.row(["pod-a", "7"]);
        table.row(["a-longer-name", "1234"]);
        table.row(["short"]);
        let expected = "\
backend           n
-------------  ----
pod-a             7
a-longer-name  1234
short
";
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn quantities_are_short() {
        let cases = [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (2_560_000_000, "2.5 GB"),
        ];
        for (bytes, text) in cases {
            assert_eq!(bytes_text(bytes), text);
        }
        assert_eq!(duration_text(Duration::from_micros(1_250)), "1.2 ms");
    }
}
