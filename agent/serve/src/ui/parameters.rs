//! Parameters of a request.

use std::{collections::BTreeMap, fmt::Display, str::FromStr};

use form_urlencoded::parse;
use shunt_model::Escaped;

/// The parameters of a query: of several with a name the last one, of empty ones none.
#[derive(Debug, Default)]
pub(super) struct Parameters(BTreeMap<String, String>);

impl Parameters {
    /// Reads the parameters of a query.
    pub(super) fn of(query: Option<&str>) -> Self {
        let all = parse(query.unwrap_or_default().as_bytes());
        let all = all.filter(|(_, value)| !value.is_empty());
        Self(
            all.map(|(name, value)| (name.into_owned(), value.into_owned()))
                .collect(),
        )
    }

    /// The text of one.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// The value of one.
    ///
    /// # Errors
    ///
    /// What to answer: it is there, and is none.
    pub(super) fn value<T>(&self, name: &str) -> Result<Option<T>, String>
    where
        T: FromStr<Err: Display>,
    {
        self.text(name)
            .map(str::parse)
            .transpose()
            .map_err(|error| format!("{name}: {}", Escaped(error)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_that_is_none_is_said_to_be() {
        let parameters = Parameters::of(Some("limit=7&name=a%2Fb&empty=&bad=x"));
        assert_eq!(parameters.value::<u32>("limit"), Ok(Some(7)));
        assert_eq!(parameters.value::<u32>("empty"), Ok(None));
        assert_eq!(parameters.value::<u32>("other"), Ok(None));
        assert_eq!(parameters.text("name"), Some("a/b"));
        let error = parameters.value::<u32>("bad").unwrap_err();
        assert!(error.starts_with("bad: invalid digit"), "{error}");
    }
}
