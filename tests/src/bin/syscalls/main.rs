//! A process that makes the system calls on its standard input, one a line, and prints for
//! each its result: `ok`, a value, or the name of the error. For tests of what depends on who a
//! process is, and on the very call.

mod call;
mod messages;
mod reply;
mod threads;

use std::io::{self, BufRead as _, Write as _};

use anyhow::{Context as _, Result};

use crate::call::Sockets;

fn main() -> Result<()> {
    let mut sockets = Sockets::default();
    let mut out = io::stdout().lock();
    for line in io::stdin().lock().lines() {
        let line = line?;
        let said = sockets
            .call(&line)
            .with_context(|| format!("cannot do {line:?}"))?;
        writeln!(out, "{said}")?;
        out.flush()?;
    }
    Ok(())
}
