//! A notice for a user about a Service.

use std::sync::Arc;

use shunt_model::{Conflict, Precedence, ServiceId};

use crate::translate::problem::Problem;

/// The longest note in bytes, with room for its end (the API takes 1024).
const LONGEST: usize = 900;

/// A Service of the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Subject {
    pub(crate) id: Arc<ServiceId>,
    /// Unique id, which no other Service has or had.
    pub(crate) uid: Box<str>,
}

/// Reason of a notice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Reason {
    /// Another Service has a frontend.
    FrontendConflict,
    /// The health check's port cannot be had, in kube-proxy's words.
    HealthCheck,
    /// An endpoint has no address that could be used.
    EndpointRefused,
    /// Something else of the Service is left out.
    NotTranslated,
}

impl Reason {
    /// As an Event has it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::FrontendConflict => "FrontendConflict",
            Self::HealthCheck => "FailedToStartServiceHealthcheck",
            Self::EndpointRefused => "EndpointRefused",
            Self::NotTranslated => "NotTranslated",
        }
    }

    /// Returns the action that was tried, for an Event.
    pub(super) const fn action(self) -> &'static str {
        match self {
            Self::HealthCheck => "Listen",
            Self::FrontendConflict | Self::EndpointRefused | Self::NotTranslated => "Translate",
        }
    }
}

/// A notice for a user about a Service: one of a reason and a related Service has all that there is of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Notice {
    pub(crate) reason: Reason,
    pub(crate) regarding: Subject,
    pub(crate) related: Option<Subject>,
    pub(crate) note: String,
}

impl Notice {
    /// Of frontends that `regarding` waits for. All are those of `holder`, for the same reason.
    pub(crate) fn conflict(
        regarding: Subject,
        holder: Subject,
        precedence: Precedence,
        conflicts: &[&Conflict],
    ) -> Self {
        let keys = conflicts.iter().map(|conflict| conflict.key.to_string());
        let reason = match precedence {
            Precedence::Older => "which is older",
            Precedence::ClusterIp => "whose ClusterIP it is",
        };
        let note = format!(
            "served by Service {}, {reason}: {}",
            holder.id,
            listed(keys)
        );
        Self {
            reason: Reason::FrontendConflict,
            regarding,
            related: Some(holder),
            note,
        }
    }

    /// Of a health check that cannot be answered on this node.
    pub(crate) fn health_check(regarding: Subject, node: &str, problem: &str) -> Self {
        let note = format!(
            "node {node} failed to start healthcheck \"{}\": {problem}",
            regarding.id
        );
        Self {
            reason: Reason::HealthCheck,
            regarding,
            related: None,
            note: cut(note),
        }
    }

    /// Returns the notice of a Service that the tables did not take, as a whole or as it is now. It names no node:
    /// those of a cluster have the same notice.
    pub(crate) fn left_out(regarding: Subject, reason: &str) -> Self {
        Self {
            reason: Reason::NotTranslated,
            regarding,
            related: None,
            note: cut(format!("it is not translated: {reason}")),
        }
    }

    /// Of what is left out of a Service: one for its endpoints, and one for the rest.
    pub(crate) fn problems(
        regarding: &Subject,
        problems: &[Problem],
    ) -> impl Iterator<Item = Self> {
        let of = |reason, is_of_endpoint| {
            let concerned = problems
                .iter()
                .filter(move |problem| problem.is_of_endpoint() == is_of_endpoint);
            let note = listed(concerned.map(ToString::to_string));
            (!note.is_empty()).then(|| Self {
                reason,
                regarding: regarding.clone(),
                related: None,
                note,
            })
        };
        [
            of(Reason::EndpointRefused, true),
            of(Reason::NotTranslated, false),
        ]
        .into_iter()
        .flatten()
    }
}

/// A list in one line, of as many as there is room for.
fn listed(items: impl Iterator<Item = String>) -> String {
    let mut text = String::new();
    let mut left_out = 0;
    for item in items {
        if left_out > 0 || text.len() + item.len() > LONGEST && !text.is_empty() {
            left_out += 1;
            continue;
        }
        if !text.is_empty() {
            text.push_str("; ");
        }
        text.push_str(&cut(item));
    }
    if left_out > 0 {
        text.push_str(&format!("; and {left_out} more"));
    }
    text
}

/// A text of at most so many bytes.
fn cut(mut text: String) -> String {
    if text.len() > LONGEST {
        let end = text.floor_char_boundary(LONGEST);
        text.truncate(end);
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn web() -> Subject {
        Subject {
            id: Arc::new(ServiceId::new("default", "web")),
            uid: "uid".into(),
        }
    }

    fn bad(text: &str, field: &'static str) -> Problem {
        let text = text.into();
        Problem::NotAnAddress { field, text }
    }

    #[test]
    fn endpoints_and_the_rest_of_a_service_are_told_apart() {
        let problems = [
            bad("a", Problem::ENDPOINT),
            Problem::NotARange("b".into()),
            bad("c", Problem::ENDPOINT),
        ];
        let told = |problems: &[Problem]| -> Vec<(Reason, String)> {
            let web = web();
            let notices = Notice::problems(&web, problems);
            notices.map(|notice| (notice.reason, notice.note)).collect()
        };
        let all = told(&problems);
        assert_eq!(all.len(), 2, "{all:?}");
        assert_eq!(all[0].0, Reason::EndpointRefused);
        let [a, b, c] = &problems;
        assert_eq!(all[0].1, format!("{a}; {c}"));
        assert_eq!(all[1], (Reason::NotTranslated, b.to_string()));
        assert_eq!(told(&[]), []);
    }

    #[test]
    fn a_note_is_no_longer_than_the_api_takes() {
        let problems: Vec<Problem> = (0..500)
            .map(|number| bad(&format!("bad-{number}"), Problem::ENDPOINT))
            .collect();
        let long = [bad(&"\u{e4}".repeat(5000), Problem::ENDPOINT)];
        for (problems, end) in [(&problems[..], "more"), (&long, "...")] {
            let notice = Notice::problems(&web(), problems).next().unwrap();
            assert!(notice.note.len() <= 1024, "{}", notice.note.len());
            assert!(notice.note.ends_with(end), "{}", notice.note);
        }
        let failed = Notice::health_check(web(), "node", &"x".repeat(5000));
        assert!(failed.note.len() <= 1024);
    }
}
