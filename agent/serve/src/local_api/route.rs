//! Requests, and their answers.

use http_body_util::Full;
use hyper::{
    Method, Request, StatusCode,
    body::Incoming,
    header::{ALLOW, HeaderValue},
};
use shunt_catalog::{
    Change, CheckDefinition, Federation, Fields, Malformed, Refusal, Registrar, ServiceDefinition,
    Status,
};
use shunt_http::{Answer, not_found, text, with_header};

use crate::local_api::{
    federation as states,
    guard::refused,
    health,
    reads::{self, Read},
    request::{self, Parameters, decoded},
    service::service,
    shown::{agent, checks, json, members, services},
};

/// Request of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Asked {
    Agent,
    Services,
    Checks,
    Service(String),
    HealthOf(String),
    HealthOfName(String),
    Register,
    Deregister(String),
    Maintenance(String),
    NodeMaintenance,
    RegisterCheck,
    DeregisterCheck(String),
    /// A verdict in the path.
    Tell(Status, String),
    /// A verdict in the body.
    Update(String),
    /// A read of what there is, or as soon as it is another.
    Read(Read),
    Members,
    /// The gateways of all datacenters, or of one; in the whole records, or alone.
    States,
    State(String),
    Gateways,
}

impl Asked {
    /// Returns what a path asks for, and by which method.
    fn of(path: &str) -> Option<(Method, Self)> {
        if let Some(path) = path.strip_prefix("/v1/internal/") {
            return Self::of_federation(path).map(|asked| (Method::GET, asked));
        }
        let Some(path) = path.strip_prefix("/v1/agent/") else {
            return Read::of(path).map(|read| (Method::GET, Self::Read(read)));
        };
        let rest = |prefix: &str| path.strip_prefix(prefix).map(decoded);
        let (get, put) = (Method::GET, Method::PUT);
        Some(match path {
            "self" => (get, Self::Agent),
            "members" => (get, Self::Members),
            "services" => (get, Self::Services),
            "checks" => (get, Self::Checks),
            "service/register" => (put, Self::Register),
            "maintenance" => (put, Self::NodeMaintenance),
            "check/register" => (put, Self::RegisterCheck),
            _ => {
                let put = |asked| (Method::PUT, asked);
                let get = |asked| (Method::GET, asked);
                None.or_else(|| rest("service/deregister/").map(Self::Deregister).map(put))
                    .or_else(|| rest("service/maintenance/").map(Self::Maintenance).map(put))
                    .or_else(|| {
                        rest("check/deregister/")
                            .map(Self::DeregisterCheck)
                            .map(put)
                    })
                    .or_else(|| rest("check/update/").map(Self::Update).map(put))
                    .or_else(|| verdict(path).map(put))
                    .or_else(|| rest("health/service/id/").map(Self::HealthOf).map(get))
                    .or_else(|| {
                        rest("health/service/name/")
                            .map(Self::HealthOfName)
                            .map(get)
                    })
                    .or_else(|| rest("service/").map(Self::Service).map(get))?
            }
        })
    }
}

impl Asked {
    /// Returns the request for other datacenters' data.
    fn of_federation(path: &str) -> Option<Self> {
        Some(match path {
            "federation-states" => Self::States,
            "federation-states/mesh-gateways" => Self::Gateways,
            _ => Self::State(decoded(path.strip_prefix("federation-state/")?)),
        })
    }
}

/// A verdict on a check.
fn verdict(path: &str) -> Option<Asked> {
    let words = [
        ("check/pass/", Status::Passing),
        ("check/warn/", Status::Warning),
        ("check/fail/", Status::Critical),
    ];
    let mut words = words.into_iter();
    words.find_map(|(word, status)| {
        let id = path.strip_prefix(word)?;
        Some(Asked::Tell(status, decoded(id)))
    })
}

/// Answers a request.
pub(super) async fn respond(
    registrar: &Registrar,
    federation: Option<&Federation>,
    request: Request<Incoming>,
    is_tcp: bool,
) -> Answer {
    if let Some(reason) = refused(request.headers(), is_tcp) {
        return text(StatusCode::FORBIDDEN, reason);
    }
    let Some((method, asked)) = Asked::of(request.uri().path()) else {
        return not_found();
    };
    if *request.method() != method {
        let reason = format!("method {} not allowed", request.method());
        let refused = text(StatusCode::METHOD_NOT_ALLOWED, reason);
        let allowed = if method == Method::PUT { "PUT" } else { "GET" };
        return with_header(refused, ALLOW, HeaderValue::from_static(allowed));
    }
    let parameters = Parameters::of(request.uri().query());
    let body = request.into_body();
    let done = done(registrar, federation, asked, &parameters, body).await;
    done.unwrap_or_else(|refused| *refused)
}

/// Does what is asked for. What is not done is an answer, too.
async fn done(
    registrar: &Registrar,
    federation: Option<&Federation>,
    asked: Asked,
    parameters: &Parameters,
    body: Incoming,
) -> Result<Answer, Box<Answer>> {
    let change = match asked {
        Asked::Agent => return Ok(json(&agent(registrar.node()), parameters)),
        Asked::Members => return Ok(json(&members(registrar.node(), parameters), parameters)),
        Asked::Read(read) => return reads::respond(registrar, read, parameters).await,
        Asked::Services => return Ok(json(&services(&registrar.look()), parameters)),
        Asked::Checks => {
            let registry = registrar.look();
            return Ok(json(&checks(&registry, registrar.node()), parameters));
        }
        Asked::Service(id) => return Ok(service(registrar, &id, parameters).await),
        Asked::HealthOf(id) => return Ok(health::by_id(registrar, &id, parameters)),
        Asked::HealthOfName(name) => return Ok(health::by_name(registrar, &name, parameters)),
        Asked::States | Asked::State(_) | Asked::Gateways => {
            // Without a federation there is nothing there.
            let Some(known) = federation else {
                return Err(Box::new(not_found()));
            };
            return Ok(match asked {
                Asked::State(datacenter) => states::one(known, &datacenter, parameters).await,
                Asked::Gateways => states::gateways(known, parameters).await,
                _ => states::all(known, parameters).await,
            });
        }
        Asked::Tell(status, id) => {
            let note = parameters.get("note").unwrap_or_default();
            return tell(registrar, &id, status, note);
        }
        Asked::Update(id) => {
            let (status, output) = update(request::json(body).await?)?;
            return tell(registrar, &id, status, &output);
        }
        Asked::Register => {
            let read = ServiceDefinition::of(request::json(body).await?);
            Change::Register {
                definition: Box::new(read.map_err(|error| Box::new(malformed(&error)))?),
                replaces_checks: parameters.is_on("replace-existing-checks"),
            }
        }
        Asked::Deregister(id) => Change::Deregister(id),
        Asked::Maintenance(id) if id.is_empty() => {
            return Err(Box::new(text(
                StatusCode::BAD_REQUEST,
                "Missing service ID",
            )));
        }
        Asked::Maintenance(service) => Change::Maintenance {
            service,
            reason: reason(parameters)?,
        },
        Asked::NodeMaintenance => Change::NodeMaintenance(reason(parameters)?),
        Asked::RegisterCheck => {
            let fields = Fields::of(request::json(body).await?, "");
            let read = fields.and_then(CheckDefinition::read);
            Change::RegisterCheck(Box::new(read.map_err(|error| Box::new(malformed(&error)))?))
        }
        Asked::DeregisterCheck(id) => Change::DeregisterCheck(id),
    };
    match registrar.change(change).await {
        Ok(()) => Ok(nothing()),
        Err(refusal) => Err(Box::new(refused_with(&refusal))),
    }
}

/// Why something goes into maintenance; `None`: it comes out of it.
fn reason(parameters: &Parameters) -> Result<Option<String>, Box<Answer>> {
    let bad = |reason: String| Box::new(text(StatusCode::BAD_REQUEST, reason));
    let enable = parameters.get("enable");
    let enable = enable.ok_or_else(|| bad("Missing value for enable".to_owned()))?;
    // As Go reads it.
    let enable = match enable {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => true,
        "0" | "f" | "F" | "false" | "FALSE" | "False" => false,
        _ => return Err(bad(format!("Invalid value for enable: {enable:?}"))),
    };
    let reason = parameters.get("reason").unwrap_or_default();
    Ok(enable.then(|| reason.to_owned()))
}

/// Reads a verdict and its text.
fn update(value: serde_json::Value) -> Result<(Status, String), Box<Answer>> {
    let read = Fields::of(value, "").and_then(|mut fields| {
        let (status, output) = (fields.text("Status")?, fields.text("Output")?);
        fields.finish()?;
        Ok((status, output))
    });
    let (status, output) = read.map_err(|error| Box::new(malformed(&error)))?;
    let known = Status::from_name(&status).ok_or_else(|| {
        let reason = format!("Invalid check status: '{status}'");
        Box::new(text(StatusCode::BAD_REQUEST, reason))
    })?;
    Ok((known, output))
}

fn tell(
    registrar: &Registrar,
    id: &str,
    status: Status,
    output: &str,
) -> Result<Answer, Box<Answer>> {
    if !registrar.is_told(id) {
        let reason = format!("CheckID \"{id}\" does not have associated TTL");
        return Err(Box::new(text(StatusCode::INTERNAL_SERVER_ERROR, reason)));
    }
    registrar.tell(id, status, output);
    Ok(nothing())
}

fn malformed(error: &Malformed) -> Answer {
    let reason = format!("Request decode failed: {error}");
    text(StatusCode::BAD_REQUEST, reason)
}

fn refused_with(refusal: &Refusal) -> Answer {
    let status = match refusal {
        Refusal::Bad(_) => StatusCode::BAD_REQUEST,
        Refusal::Failed(_) => StatusCode::INTERNAL_SERVER_ERROR,
        Refusal::Missing(_) => StatusCode::NOT_FOUND,
        Refusal::Full(_) => StatusCode::INSUFFICIENT_STORAGE,
    };
    text(status, refusal.to_string())
}

/// It is done.
fn nothing() -> Answer {
    Answer::new(Full::default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_what_consuls_clients_ask_for() {
        let id = || "web/1 \u{fc}".to_owned();
        for (path, method, asked) in [
            ("self", Method::GET, Asked::Agent),
            ("members", Method::GET, Asked::Members),
            ("services", Method::GET, Asked::Services),
            ("checks", Method::GET, Asked::Checks),
            (
                "service/web%2F1%20%C3%BC",
                Method::GET,
                Asked::Service(id()),
            ),
            ("service/web/1%20%C3%BC", Method::GET, Asked::Service(id())),
            ("service/", Method::GET, Asked::Service(String::new())),
            ("service/register", Method::PUT, Asked::Register),
            (
                "service/deregister/web/1%20%C3%BC",
                Method::PUT,
                Asked::Deregister(id()),
            ),
            (
                "service/maintenance/web%2F1%20%C3%BC",
                Method::PUT,
                Asked::Maintenance(id()),
            ),
            ("maintenance", Method::PUT, Asked::NodeMaintenance),
            ("check/register", Method::PUT, Asked::RegisterCheck),
            (
                "check/deregister/web/1%20%C3%BC",
                Method::PUT,
                Asked::DeregisterCheck(id()),
            ),
            (
                "check/pass/web/1%20%C3%BC",
                Method::PUT,
                Asked::Tell(Status::Passing, id()),
            ),
            (
                "check/warn/web/1%20%C3%BC",
                Method::PUT,
                Asked::Tell(Status::Warning, id()),
            ),
            (
                "check/fail/web/1%20%C3%BC",
                Method::PUT,
                Asked::Tell(Status::Critical, id()),
            ),
            (
                "check/update/web/1%20%C3%BC",
                Method::PUT,
                Asked::Update(id()),
            ),
            (
                "health/service/id/web/1%20%C3%BC",
                Method::GET,
                Asked::HealthOf(id()),
            ),
            (
                "health/service/name/web/1%20%C3%BC",
                Method::GET,
                Asked::HealthOfName(id()),
            ),
        ] {
            let found = Asked::of(&format!("/v1/agent/{path}"));
            assert_eq!(found, Some((method, asked)), "{path}");
        }
        for (path, asked) in [
            ("federation-states", Asked::States),
            ("federation-states/mesh-gateways", Asked::Gateways),
            ("federation-state/dc2", Asked::State("dc2".to_owned())),
            ("federation-state/", Asked::State(String::new())),
        ] {
            let found = Asked::of(&format!("/v1/internal/{path}"));
            assert_eq!(found, Some((Method::GET, asked)), "{path}");
        }
        for path in [
            "/v1/internal/ui/nodes",
            "/",
            "/v1/agent/nothing",
            "/v1/catalog/register",
            "/v1/agent/check/x",
        ] {
            assert_eq!(Asked::of(path), None, "{path}");
        }
    }
}
