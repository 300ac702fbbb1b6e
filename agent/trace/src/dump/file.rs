//! Dumps in files: a line that marks the file as a dump, then gzip (RFC 1952) of lines of JSON.

use std::io::{self, BufRead, BufReader, Read, Write};

use flate2::{Compression, bufread::GzDecoder, write::GzEncoder};

use super::{
    content::VERSION,
    error::DumpError,
    record::{Collector, Dump, Record},
};

/// First bytes of a file; the number of its form and the end of the line follow.
const MAGIC: &str = "SHUNT-DUMP ";

/// Maximum length of a line.
const LONGEST: u64 = 1 << 24;

/// Writes a dump.
///
/// # Errors
///
/// If it cannot be written.
pub fn write(dump: &Dump, to: impl Write) -> io::Result<()> {
    let mut writer = Writer::begin(to)?;
    for record in dump.records() {
        writer.add(&record.line())?;
    }
    writer.end()
}

/// Writes a dump line by line.
struct Writer<W: Write> {
    to: GzEncoder<W>,
    lines: usize,
}

impl<W: Write> Writer<W> {
    fn begin(mut to: W) -> io::Result<Self> {
        writeln!(to, "{MAGIC}{VERSION}")?;
        Ok(Self {
            to: GzEncoder::new(to, Compression::default()),
            lines: 0,
        })
    }

    fn add(&mut self, line: &[u8]) -> io::Result<()> {
        self.lines += 1;
        self.to.write_all(line)
    }

    fn end(mut self) -> io::Result<()> {
        let lines = self.lines;
        self.to.write_all(&Record::End { lines }.line())?;
        self.to.finish()?.flush()
    }
}

/// Reads a dump.
///
/// # Errors
///
/// If it is none, of another form, or damaged.
pub fn read(from: impl Read) -> Result<Dump, DumpError> {
    let mut from = BufReader::new(from);
    let form = form(&mut from)?;
    if form != VERSION.to_string() {
        return Err(DumpError::Version(form));
    }
    let mut lines = BufReader::new(GzDecoder::new(from));
    let mut collector = Collector::default();
    let mut line = Vec::new();
    loop {
        line.clear();
        let read = (&mut lines).take(LONGEST).read_until(b'\n', &mut line);
        let read = read.map_err(|source| DumpError::Unreadable {
            line: collector.lines(),
            source,
        })?;
        if read == 0 {
            return collector.finish();
        }
        if line.pop() != Some(b'\n') {
            return Err(DumpError::CutOff(collector.lines()));
        }
        collector.take(&line)?;
    }
}

/// Returns the text behind the magic.
fn form(from: &mut impl BufRead) -> Result<String, DumpError> {
    let mut line = Vec::new();
    let read = from.take(64).read_until(b'\n', &mut line);
    read.map_err(|source| DumpError::Unreadable { line: 0, source })?;
    let line = String::from_utf8(line).map_err(|_| DumpError::Foreign)?;
    let form = line.strip_prefix(MAGIC).ok_or(DumpError::Foreign)?;
    Ok(form.trim_end().to_owned())
}
