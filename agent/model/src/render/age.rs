//! The order of the claims to a frontend.

use std::fmt;

use crate::seniority::Seniority;

/// The order of two claims to one frontend: a ClusterIP's comes first, which its cluster has given to one service
/// alone, while any service may have any external address. Then the age decides: that of the service, and that of the
/// claim where the former is not known or the same. No two claims are equal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Age {
    is_other: bool,
    service: Seniority,
    /// The claims are counted as they are made.
    pub(super) number: u64,
}

impl Age {
    /// Older than every other.
    pub(super) const MIN: Self = Self {
        is_other: false,
        service: Seniority {
            created: i64::MIN,
            tie: u64::MIN,
        },
        number: u64::MIN,
    };

    /// Younger than every other.
    pub(super) const MAX: Self = Self {
        is_other: true,
        service: UNKNOWN,
        number: u64::MAX,
    };

    /// That of a claim with this number of a service that is so old. `is_other`: not to a ClusterIP.
    pub(super) fn new(is_other: bool, service: Option<Seniority>, number: u64) -> Self {
        Self {
            is_other,
            service: service.unwrap_or(UNKNOWN),
            number,
        }
    }

    /// Returns the reason for which it comes before `other`.
    pub(super) const fn precedence_over(self, other: Self) -> Precedence {
        if self.is_other == other.is_other {
            Precedence::Older
        } else {
            Precedence::ClusterIp
        }
    }
}

/// That of a service of which it is not known.
const UNKNOWN: Seniority = Seniority {
    created: i64::MAX,
    tie: u64::MAX,
};

/// The reason for which one of two claims comes before the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Precedence {
    /// It is older.
    Older,
    /// It is to the service's ClusterIP, and the other one is not.
    ClusterIp,
}

impl fmt::Display for Precedence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Older => "whose claim is older",
            Self::ClusterIp => "whose ClusterIP it is",
        })
    }
}
