//! A page of a list.

use serde::Deserialize;
use serde_json::value::RawValue;

/// A page of a list of objects.
#[derive(Debug, Deserialize)]
pub(super) struct Page<'a> {
    #[serde(default)]
    pub(super) metadata: PageMetadata,
    /// Go writes an empty list as `null`.
    #[serde(borrow, default)]
    pub(super) items: Option<Vec<&'a RawValue>>,
}

/// Version of a list, and its continuation.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PageMetadata {
    /// From where a watch goes on.
    pub(super) resource_version: String,
    /// Token of the next page; empty: this is the last one.
    pub(super) r#continue: Option<String>,
}
