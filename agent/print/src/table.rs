//! Text in aligned columns.

use std::fmt;

use shunt_model::Escaped;

/// Rows of `N` cells; each column is as wide as its widest cell.
#[derive(Debug)]
pub struct Table<const N: usize> {
    rows: Vec<[String; N]>,
}

impl<const N: usize> Table<N> {
    /// A table with nothing but its headings.
    pub fn new(headings: [&str; N]) -> Self {
        Self {
            rows: vec![headings.map(str::to_owned)],
        }
    }

    /// A table without headings.
    pub const fn without_headings() -> Self {
        Self { rows: Vec::new() }
    }

    /// Returns whether it has nothing but headings.
    pub const fn is_empty(&self) -> bool {
        self.rows.len() <= 1
    }

    /// Adds a row at the end. The text of a cell stays in it, whatever its source.
    pub fn push(&mut self, row: [String; N]) {
        self.rows.push(row.map(|cell| Escaped(cell).to_string()));
    }
}

impl<const N: usize> fmt::Display for Table<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut widths = [0; N];
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        for row in &self.rows {
            let mut line = String::new();
            for (width, cell) in widths.iter().zip(row) {
                line += &format!("{cell:width$}  ");
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_end_without_blanks() {
        let mut table = Table::new(["A", "LONG", "C"]);
        table.push(["wide cell", "", "x"].map(str::to_owned));
        table.push(["é", "b", ""].map(str::to_owned));
        assert_eq!(
            table.to_string(),
            "A          LONG  C\nwide cell        x\né          b\n"
        );
    }

    #[test]
    fn foreign_text_stays_in_its_cell() {
        let mut table = Table::new(["A", "B"]);
        table.push(["a\nsynced:  no", "\u{1b}[1A\u{202e}"].map(str::to_owned));
        assert_eq!(
            table.to_string(),
            "A               B\na\\nsynced:  no  \\u{1b}[1A\\u{202e}\n"
        );
    }
}
