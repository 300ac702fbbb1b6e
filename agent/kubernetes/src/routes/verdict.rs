//! The findings on a route, in the words of the Gateway API.

/// Why a condition is as it is (`RouteConditionReason` of the Gateway API).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reason {
    /// The route is followed.
    Accepted,
    /// All its references lead somewhere.
    ResolvedRefs,
    /// There is no such Service, or it has no such port.
    NoMatchingParent,
    /// The Service is in another namespace than the route.
    NotAllowedByListeners,
    /// The route has a value that cannot be followed.
    UnsupportedValue,
    /// Older routes have all of its ports. The Gateway API has no name for that; others call it so.
    Conflicted,
    /// A backend in another namespace, without a permission from there.
    RefNotPermitted,
    /// A backend that is no Service.
    InvalidKind,
    /// There is no such Service, or it has no such port.
    BackendNotFound,
}

impl Reason {
    /// Its name in a status.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Accepted => "Accepted",
            Self::ResolvedRefs => "ResolvedRefs",
            Self::NoMatchingParent => "NoMatchingParent",
            Self::NotAllowedByListeners => "NotAllowedByListeners",
            Self::UnsupportedValue => "UnsupportedValue",
            Self::Conflicted => "Conflicted",
            Self::RefNotPermitted => "RefNotPermitted",
            Self::InvalidKind => "InvalidKind",
            Self::BackendNotFound => "BackendNotFound",
        }
    }

    /// Returns whether the condition holds that has this reason.
    pub(crate) const fn is_good(self) -> bool {
        matches!(self, Self::Accepted | Self::ResolvedRefs)
    }
}

/// A finding, and a word about it for users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Verdict {
    pub(crate) reason: Reason,
    pub(crate) message: String,
}

impl Verdict {
    pub(super) fn new(reason: Reason, message: impl Into<String>) -> Self {
        let message = message.into();
        Self { reason, message }
    }
}
