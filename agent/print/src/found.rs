//! The result of a lookup.

use serde::Serialize;
use shunt_api::{
    proto::{self, LookupResponse},
    view::{Answer, Frontend, FrontendKey, Malformed},
};
use shunt_model::TargetKind;

/// A lookup's result. The order of the fields is the order in JSON.
#[derive(Debug, Serialize)]
pub struct Found {
    #[serde(flatten)]
    /// The answer by the events.
    pub answer: Answer,
    /// The kernel's frontends there.
    pub frontends: Vec<Frontend>,
    /// The kernel's frontends that have it as a backend.
    pub backend_of: Vec<Frontend>,
    /// Frontends that the kernel is to have there, and does not.
    pub missing: Vec<FrontendKey>,
}

impl TryFrom<LookupResponse> for Found {
    type Error = Malformed;

    fn try_from(response: LookupResponse) -> Result<Self, Malformed> {
        let LookupResponse {
            frontends,
            backend_of,
            missing,
            answer,
        } = response;
        let views = |list: Vec<proto::Frontend>| {
            let views = list.into_iter().map(Frontend::try_from);
            views.collect::<Result<Vec<_>, _>>()
        };
        let missing = missing.into_iter().map(FrontendKey::try_from);
        Ok(Self {
            answer: answer.ok_or(Malformed::Missing("answer"))?.try_into()?,
            frontends: views(frontends)?,
            backend_of: views(backend_of)?,
            missing: missing.collect::<Result<_, _>>()?,
        })
    }
}

impl Found {
    /// Returns whether anything is there.
    pub fn is_something(&self) -> bool {
        let Self {
            answer,
            frontends,
            backend_of,
            missing: _,
        } = self;
        let nobody = [TargetKind::Unknown, TargetKind::UndefinedPort].map(TargetKind::name);
        !nobody.contains(&&*answer.kind)
            || !answer.member_of.is_empty()
            || !frontends.is_empty()
            || !backend_of.is_empty()
    }
}
