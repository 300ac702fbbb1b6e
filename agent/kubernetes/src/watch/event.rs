//! An event of a watch: a line of JSON.

use kube::core::Status;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::watch::error::WatchError;

/// Content of an event, with the object as it comes.
#[derive(Debug)]
pub(super) enum Event<'a> {
    /// The object is new, or is in this form now.
    Applied(&'a RawValue),
    /// The object is gone.
    Deleted(&'a RawValue),
    /// The watch goes on from this version.
    Bookmark(String),
}

#[derive(Deserialize)]
struct Line<'a> {
    r#type: String,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Versioned {
    metadata: Version,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    resource_version: String,
}

impl<'a> Event<'a> {
    /// Reads an event. `None` for a line that was cut off.
    ///
    /// # Errors
    ///
    /// If the line is no event, or has the reason that there are no more.
    pub(super) fn read(line: &'a str) -> Result<Option<Self>, WatchError> {
        let read: Result<Line<'_>, serde_json::Error> = serde_json::from_str(line);
        let Line { r#type, object } = match read {
            Ok(line) => line,
            Err(error) if error.is_eof() => return Ok(None),
            Err(error) => return Err(refusal(line).unwrap_or_else(|| error.into())),
        };
        Ok(Some(match r#type.as_str() {
            "ADDED" | "MODIFIED" => Self::Applied(object),
            "DELETED" => Self::Deleted(object),
            "BOOKMARK" => {
                let Versioned { metadata } = serde_json::from_str(object.get())?;
                Self::Bookmark(metadata.resource_version)
            }
            _ => {
                let status: Status = serde_json::from_str(object.get())?;
                return Err(kube::Error::Api(status.boxed()).into());
            }
        }))
    }
}

/// Returns the error that a line has in place of an event.
fn refusal(line: &str) -> Option<WatchError> {
    let status: Status = serde_json::from_str(line).ok()?;
    (status.code != 0).then(|| kube::Error::Api(status.boxed()).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_the_keys_says_nothing() {
        for line in [
            r#"{"type":"ADDED","object":{"metadata":{"name":"a"}}}"#,
            r#"{"object":{"metadata":{"name":"a"}},"type":"MODIFIED"}"#,
        ] {
            let Some(Event::Applied(object)) = Event::read(line).unwrap() else {
                panic!("{line}");
            };
            assert_eq!(object.get(), r#"{"metadata":{"name":"a"}}"#);
        }
        let bookmark = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"9"}}}"#;
        let read = Event::read(bookmark).unwrap();
        assert!(matches!(read, Some(Event::Bookmark(version)) if version == "9"));
    }

    #[test]
    fn an_error_is_one_as_an_event_and_alone() {
        let status = r#"{"kind":"Status","code":410,"message":"too old"}"#;
        let event = format!(r#"{{"type":"ERROR","object":{status}}}"#);
        for line in [status, &event] {
            assert!(Event::read(line).unwrap_err().is_gone(), "{line}");
        }
        for line in [
            "{}",
            "7",
            r#"{"type":"ADDED"}"#,
            r#"{"type":"OTHER","object":7}"#,
        ] {
            let error = Event::read(line).unwrap_err();
            assert!(matches!(error, WatchError::Decode(_)), "{line}: {error}");
        }
        assert!(
            Event::read(r#"{"type":"ADDED","object":{"me"#)
                .unwrap()
                .is_none()
        );
    }
}
