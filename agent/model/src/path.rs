//! Paths through an event, as errors name fields.

/// A name as a segment of a path: quoted if it could be misread.
pub fn segment(name: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !name.is_empty() && name.chars().all(plain) {
        name.to_owned()
    } else {
        format!("{name:?}")
    }
}
