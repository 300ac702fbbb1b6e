//! The line in which a test binary sums its tests up: `test result: ok. 61 passed; 1 failed; …`.

/// Returns the number before `words` in `ok. 61 passed; 1 failed; …`; 0 if they are not there.
pub(crate) fn count(result: &str, words: &str) -> u64 {
    result
        .split([';', '.'])
        .find_map(|part| part.trim().strip_suffix(words)?.trim().parse().ok())
        .unwrap_or_default()
}
