//! Why something is not done.

use thiserror::Error;

/// Why a registration, or whatever else was asked for, is refused: in Consul's words where clients have
/// met them.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// The request is wrong.
    #[error("{0}")]
    Bad(String),
    /// It cannot be done; where Consul answers with an error of the server.
    #[error("{0}")]
    Failed(String),
    /// It is about something that is not there.
    #[error("{0}")]
    Missing(String),
    /// There is no room for more.
    #[error("{0}")]
    Full(String),
}

impl Refusal {
    /// The request is wrong.
    pub(crate) fn bad(text: impl Into<String>) -> Self {
        Self::Bad(text.into())
    }

    /// It cannot be done.
    pub(crate) fn failed(text: impl Into<String>) -> Self {
        Self::Failed(text.into())
    }

    /// All that is wrong with a request, as Consul lists it.
    pub(crate) fn listed(complaints: &[&str]) -> Self {
        let lines: Vec<String> = complaints.iter().map(|it| format!("\t* {it}")).collect();
        let count = match complaints.len() {
            1 => "1 error".to_owned(),
            count => format!("{count} errors"),
        };
        Self::Bad(format!("{count} occurred:\n{}\n\n", lines.join("\n")))
    }
}
