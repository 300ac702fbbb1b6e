//! Health of services, by id or for all of a name.

use hyper::{
    StatusCode,
    header::{HeaderName, HeaderValue},
};
use serde::Serialize;
use shunt_catalog::{LocalNode, Registered, Registrar, Registry, Status, Verdict};
use shunt_http::{Answer, text, with_header};

use crate::local_api::{
    request::Parameters,
    shown::{ShownCheck, ShownService, json},
};

/// Header with the verdict, besides in the body.
const REASON: HeaderName = HeaderName::from_static("x-consul-reason");

/// Health of a service, and its checks.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct ShownHealth<'a> {
    aggregated_status: &'static str,
    service: Option<ShownService<'a>>,
    checks: Option<Vec<ShownCheck<'a>>>,
}

/// Returns the health of the service of this id.
pub(super) fn by_id(registrar: &Registrar, id: &str, asked: &Parameters) -> Answer {
    let registry = registrar.look();
    let Some(service) = registry.known().service(id) else {
        let reason = format!("ServiceId {id} not found");
        let nothing = ShownHealth {
            aggregated_status: Status::Critical.name(),
            service: None,
            checks: None,
        };
        return answer(StatusCode::NOT_FOUND, &reason, &nothing, asked);
    };
    let verdict = registry.verdict(id);
    let health = health(service, &registry, registrar.node());
    answer(code(verdict), verdict.name(), &health, asked)
}

/// Returns the health of the services of this name: that of the worst of them.
pub(super) fn by_name(registrar: &Registrar, name: &str, asked: &Parameters) -> Answer {
    let registry = registrar.look();
    let services = registry.known().services();
    let services: Vec<_> = services.filter(|it| it.service.name == name).collect();
    let verdicts = services.iter().map(|it| registry.verdict(&it.service.id));
    let Some(worst) = verdicts.max() else {
        let reason = format!("ServiceName {name} Not Found");
        let nothing: [ShownHealth<'_>; 0] = [];
        return answer(StatusCode::NOT_FOUND, &reason, &nothing, asked);
    };
    let health = services
        .iter()
        .map(|it| health(it, &registry, registrar.node()));
    let health: Vec<_> = health.collect();
    answer(code(worst), worst.name(), &health, asked)
}

fn health<'a>(
    registered: &'a Registered,
    registry: &'a Registry,
    node: &'a LocalNode,
) -> ShownHealth<'a> {
    let service = &registered.service;
    let checks = registry.known().checks_of(&service.id);
    let checks = checks.map(|check| ShownCheck::of(check, registry, node));
    ShownHealth {
        aggregated_status: registry.verdict(&service.id).name(),
        service: Some(ShownService::of(service)),
        checks: Some(checks.collect()),
    }
}

/// In a line if that is asked for, or else as JSON.
fn answer(status: StatusCode, reason: &str, health: &impl Serialize, asked: &Parameters) -> Answer {
    let mut answer = if asked.get("format") == Some("text") {
        text(status, reason)
    } else {
        json(health, asked)
    };
    *answer.status_mut() = status;
    // A name may have what a header may not.
    match HeaderValue::from_str(reason) {
        Ok(reason) => with_header(answer, REASON, reason),
        Err(_) => answer,
    }
}

/// Returns the status code for clients that look at nothing else.
const fn code(verdict: Verdict) -> StatusCode {
    match verdict {
        Verdict::Checked(Status::Passing) => StatusCode::OK,
        Verdict::Checked(Status::Warning) => StatusCode::TOO_MANY_REQUESTS,
        Verdict::Checked(Status::Critical) | Verdict::Maintenance => {
            StatusCode::SERVICE_UNAVAILABLE
        }
    }
}
