//! Output in the forms that the commands have in common.

use std::{
    fmt,
    io::{self, BufWriter, ErrorKind, Write},
};

use clap::ValueEnum;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use shunt_model::{Escaped, must_be_escaped};

/// Form of an output.
#[derive(Debug, Clone, Copy, Default, ValueEnum)]
pub enum OutputFormat {
    /// Aligned columns
    #[default]
    Table,
    /// JSON on one line, for programs
    Json,
}

/// Form of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum ListFormat {
    /// Aligned columns, a line each
    #[default]
    Table,
    /// Aligned columns with all facts, in every line
    Wide,
    /// JSON on one line, for programs
    Json,
}

/// Writes to standard output. The reader may close it before the end.
///
/// # Errors
///
/// The output cannot be written.
pub fn print(
    write: impl FnOnce(&mut BufWriter<io::StdoutLock<'static>>) -> io::Result<()>,
) -> io::Result<()> {
    print_while_read(write).map(|_is_read| ())
}

/// Writes as [`print`] does. Returns whether the output is still read.
///
/// # Errors
///
/// The output cannot be written.
pub fn print_while_read(
    write: impl FnOnce(&mut BufWriter<io::StdoutLock<'static>>) -> io::Result<()>,
) -> io::Result<bool> {
    let mut output = BufWriter::new(io::stdout().lock());
    match write(&mut output).and_then(|()| output.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(error),
    }
}

/// Writes a line to standard error, in which text of others forges nothing.
pub fn complain(text: impl fmt::Display) {
    eprintln!("{}", Escaped(text));
}

/// Returns an error with its causes, in one line; a cause that the text before it has already is left out.
pub fn causes(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain() {
        let cause = cause.to_string();
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text += ": ";
            text += &cause;
        }
    }
    text
}

/// Writes JSON and a line feed. What a terminal would obey is escaped, and means the same.
///
/// # Errors
///
/// The output cannot be written.
pub fn write_json(value: &impl Serialize, output: &mut impl Write) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(
        &mut *output,
        PlainFormatter,
    ))?;
    writeln!(output)
}

/// Compact JSON without characters that cannot be seen.
struct PlainFormatter;

impl Formatter for PlainFormatter {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        writer: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut rest = fragment;
        while let Some((at, found)) = rest.char_indices().find(|(_, c)| must_be_escaped(*c)) {
            writer.write_all(&rest.as_bytes()[..at])?;
            for unit in found.encode_utf16(&mut [0; 2]) {
                write!(writer, "\\u{unit:04x}")?;
            }
            rest = &rest[at + found.len_utf8()..];
        }
        writer.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_said_twice_in_one_error() {
        let cause = io::Error::other("no room");
        let wrapped = anyhow::Error::new(cause).context("cannot write x: no room");
        assert_eq!(
            causes(&wrapped.context("cannot begin")),
            "cannot begin: cannot write x: no room"
        );
        let other = anyhow::anyhow!("no room").context("cannot write x");
        assert_eq!(causes(&other), "cannot write x: no room");
    }

    #[test]
    fn json_shows_what_cannot_be_seen_and_means_the_same() {
        let text = "a\n\x1b\x7f\u{9b}\u{202e}\u{e0041}\\ü";
        let mut written = Vec::new();
        write_json(&text, &mut written).unwrap();
        let written = String::from_utf8(written).unwrap();
        assert_eq!(
            written,
            "\"a\\n\\u001b\\u007f\\u009b\\u202e\\udb40\\udc41\\\\ü\"\n"
        );
        assert_eq!(serde_json::from_str::<String>(&written).unwrap(), text);
    }
}
