//! Numbers in place of the hashes in chains' names.

/// The text with `length` letters of base 32 after a dash replaced by a number, which is the same
/// for the same letters.
pub(crate) fn numbered(text: &str, length: usize) -> String {
    let mut seen = Vec::new();
    let words = text.split('-').map(|word| {
        let end = word
            .find(|letter: char| !matches!(letter, 'A'..='Z' | '2'..='7'))
            .unwrap_or(word.len());
        let (hash, rest) = word.split_at(end);
        if hash.len() != length {
            return word.to_owned();
        }
        let number = seen.iter().position(|&other| other == hash);
        let number = number.unwrap_or_else(|| {
            seen.push(hash);
            seen.len() - 1
        });
        format!("{}{rest}", number + 1)
    });
    words.collect::<Vec<_>>().join("-")
}

#[test]
fn the_same_letters_get_the_same_number() {
    let text = "jump a-ABCDEFG2-x; goto a-ABCDEFG3-x; jump a-ABCDEFG2-y a-b";
    assert_eq!(numbered(text, 8), "jump a-1-x; goto a-2-x; jump a-1-y a-b");
}
