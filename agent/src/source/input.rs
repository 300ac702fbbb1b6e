//! The file or stream that the command line names.

use std::{
    convert::Infallible,
    fmt,
    fs::File,
    io::{self, BufRead, BufReader},
    path::PathBuf,
    str::FromStr,
};

/// A large resync should not take a system call for every few kilobytes.
const BUFFER_BYTES: usize = 256 * 1024;

/// Where to read events from: the value of `--events`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Standard input, written `-`.
    Stdin,
    /// A file.
    File(PathBuf),
}

impl Input {
    /// Opens it.
    ///
    /// # Errors
    ///
    /// The file cannot be opened for reading.
    pub fn open(&self) -> io::Result<Box<dyn BufRead + Send>> {
        Ok(match self {
            Self::Stdin => Box::new(BufReader::with_capacity(BUFFER_BYTES, io::stdin())),
            Self::File(path) => Box::new(BufReader::with_capacity(BUFFER_BYTES, File::open(path)?)),
        })
    }
}

impl FromStr for Input {
    type Err = Infallible;

    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(if text == "-" {
            Self::Stdin
        } else {
            Self::File(text.into())
        })
    }
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Stdin => f.write_str("standard input"),
            Self::File(path) => write!(f, "{}", path.display()),
        }
    }
}
