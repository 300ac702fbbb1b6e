//! The order of two services by age.

/// The age of a service, from the store that keeps it for all nodes: so each node gives a frontend
/// that two services claim to the same one of them. The lesser is the older.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Seniority {
    /// Time of its creation, in seconds since 1970.
    pub created: i64,
    /// The order of services that were created in the same second.
    pub tie: u64,
}

impl Seniority {
    /// Of a service that was created then and has this unique id; ids go by their first letters.
    pub fn new(created: i64, uid: &str) -> Self {
        let mut first = [0; 8];
        for (byte, letter) in first.iter_mut().zip(uid.bytes()) {
            *byte = letter;
        }
        Self {
            created,
            tie: u64::from_be_bytes(first),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_created_first_is_older_and_then_what_sorts_first() {
        let in_order = [
            Seniority::new(-1, "z"),
            Seniority::new(0, ""),
            Seniority::new(0, "a"),
            Seniority::new(0, "aaaaaaa1-of-ever"),
            Seniority::new(0, "aaaaaaa2-of-ever"),
            Seniority::new(0, "b"),
            Seniority::new(1, "a"),
        ];
        assert!(in_order.is_sorted_by(|one, next| one < next));
    }
}
