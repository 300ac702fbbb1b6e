//! Why a dump cannot be read.

use std::io;

use super::content::VERSION;

/// Why a dump cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum DumpError {
    /// The file is something else.
    #[error(
        "this is no dump: it does not begin with \"SHUNT-DUMP\", as what `shunt dump` writes does"
    )]
    Foreign,
    /// It has another form.
    #[error(
        "the dump has form {0}, and this version of shunt reads form {VERSION}: read it with the version that wrote it"
    )]
    Version(String),
    /// It comes from a machine that orders bytes in another way.
    #[error(
        "the dump comes from a machine with {0}-endian numbers, and is read on one of its kind alone"
    )]
    ByteOrder(String),
    /// Its content is not what was written.
    #[error("the dump is damaged: line {line}: {what}")]
    Damaged {
        /// The number of the line, the first one after the form's being 1.
        line: usize,
        /// The fault.
        what: String,
    },
    /// It ends too early.
    #[error("the dump is cut off after line {0}: its last line is missing")]
    CutOff(usize),
    /// It cannot be read at all.
    #[error("the dump cannot be read on after line {line}: {source}")]
    Unreadable {
        /// The number of the last line that was read.
        line: usize,
        /// Why.
        source: io::Error,
    },
}
