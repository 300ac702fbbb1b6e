//! The commands that talk to a running agent.

use std::{
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
};

use serde_json::Value;

use crate::world::{World, binary};

/// Result of a command.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Ran {
    pub(crate) status: i32,
    pub(crate) output: String,
    pub(crate) errors: String,
}

impl Ran {
    /// Its output, if it succeeded and had nothing to remark.
    #[track_caller]
    pub(crate) fn clean(self) -> String {
        let Self {
            status,
            output,
            errors,
        } = self;
        assert_eq!((status, errors.as_str()), (0, ""), "{output}");
        output
    }

    /// Its output as JSON.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.output).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

/// Runs `shunt` with these arguments and this input.
pub(crate) fn shunt(arguments: &[&str], input: &str) -> Ran {
    let mut child = Command::new(binary())
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A command that ends early reads nothing; its status has the reason.
    drop(child.stdin.take().unwrap().write_all(input.as_bytes()));
    let output = child.wait_with_output().unwrap();
    Ran {
        status: output.status.code().unwrap(),
        output: String::from_utf8(output.stdout).unwrap(),
        errors: String::from_utf8(output.stderr).unwrap(),
    }
}

/// Runs `shunt` with these arguments at an agent's socket.
pub(crate) fn shunt_at(socket: &Path, arguments: &[&str], input: &str) -> Ran {
    let socket = ["--socket", socket.to_str().unwrap()];
    shunt(&[arguments, &socket].concat(), input)
}

impl World {
    /// Runs `shunt` with these arguments at the agent's socket.
    pub(crate) fn shunt(&self, arguments: &[&str]) -> Ran {
        shunt_at(self.agent.socket(), arguments, "")
    }

    /// Has the agent apply lines through its socket.
    pub(crate) fn apply_lines(&self, lines: &[&str]) -> Ran {
        // The agent reads the lines of the test as well.
        let arguments = ["apply", "-", "--over-source"];
        shunt_at(self.agent.socket(), &arguments, &lines.join("\n"))
    }
}
