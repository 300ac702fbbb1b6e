//! A page of a list.

use serde::Deserialize;

/// A page of a list of objects.
#[derive(Debug, Deserialize)]
#[serde(bound(deserialize = "T: Deserialize<'de>"))]
pub(super) struct Page<T> {
    #[serde(default)]
    pub(super) metadata: PageMetadata,
    /// Go writes an empty list as `null`.
    #[serde(default = "Option::default")]
    pub(super) items: Option<Vec<T>>,
}

/// Where a list is, and how it goes on.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct PageMetadata {
    /// From where a watch goes on.
    pub(super) resource_version: String,
    /// What to ask for the next page; empty: this is the last one.
    pub(super) r#continue: Option<String>,
}
