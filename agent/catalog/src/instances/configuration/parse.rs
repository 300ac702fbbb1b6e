//! From a file's text to frontends.

use crate::instances::{
    configuration::{check::checked, error::ConfigurationError, written::File},
    frontend::Frontend,
};

/// The frontends that the text of a configuration asks for.
///
/// # Errors
///
/// The first thing that is wrong with it, with its line.
pub(crate) fn parse(text: &str) -> Result<Vec<Frontend>, ConfigurationError> {
    let file: File = toml::from_str(text).map_err(|error| {
        let span = error.span().unwrap_or_default();
        ConfigurationError::at(text, &span, error.message().to_owned())
    })?;
    checked(text, file.frontend)
}
