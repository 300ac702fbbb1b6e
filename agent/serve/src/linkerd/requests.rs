//! The requests in a service's profile: their routes, and how often they are tried again.

use std::{collections::BTreeMap, time::Duration};

use linkerd2_proxy_api::{
    destination::{
        HttpStatusRange, PathMatch, RequestMatch, ResponseClass, ResponseMatch, RetryBudget, Route,
        WeightedDst,
        request_match::{self, Match as Request},
        response_match::{self, Match as Response},
    },
    meta::Metadata,
};
use serde::Deserialize;
use shunt_model::{Escaped, StatusRange};
use shunt_runtime::GoDuration;
use tracing::debug;

use crate::linkerd::{
    authority::{Destination, Name},
    metadata::{profile_ref, service_ref},
    settings::LinkerdSettings,
};

/// Settings of requests, as a ServiceProfile has them.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Requests {
    name: Option<String>,
    routes: Option<Vec<RouteSpec>>,
    retry_budget: Option<Budget>,
    /// The split of clients of another namespace. That of the others is the service port's.
    dst_overrides: Option<Vec<Override>>,
    /// The settings for clients of other namespaces, by namespace, which replace these.
    clients: BTreeMap<Box<str>, Requests>,
}

#[derive(Debug, Deserialize)]
struct Override {
    authority: String,
    weight: u32,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RouteSpec {
    name: String,
    condition: RequestCondition,
    response_classes: Option<Vec<Class>>,
    is_retryable: bool,
    timeout: Option<String>,
}

/// Several fields are all to be true.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct RequestCondition {
    all: Option<Vec<RequestCondition>>,
    any: Option<Vec<RequestCondition>>,
    not: Option<Box<RequestCondition>>,
    path_regex: Option<String>,
    method: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Class {
    condition: ResponseCondition,
    is_failure: bool,
}

/// Several fields are all to be true.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ResponseCondition {
    all: Option<Vec<ResponseCondition>>,
    any: Option<Vec<ResponseCondition>>,
    not: Option<Box<ResponseCondition>>,
    status: Option<StatusRange>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Budget {
    retry_ratio: f32,
    min_retries_per_second: u32,
    ttl: String,
}

impl Requests {
    /// Reads `json`. If it cannot be understood, there are no settings.
    pub(super) fn read(json: &str) -> Self {
        serde_json::from_str(json).unwrap_or_else(|error| {
            debug!(profile = %Escaped(json), %error, "a profile that nobody understands");
            Self::default()
        })
    }

    /// Returns its routes; without those whose condition is empty, or not understood.
    pub(super) fn routes(&self) -> Vec<Route> {
        let routes = self.routes.iter().flatten();
        routes.filter_map(RouteSpec::route).collect()
    }

    /// Returns the budget by which requests may be tried again; `None`: as often as elsewhere.
    pub(super) fn retry_budget(&self) -> Option<RetryBudget> {
        let Budget {
            retry_ratio,
            min_retries_per_second,
            ttl,
        } = self.retry_budget.as_ref()?;
        let ttl = duration(ttl)?;
        Some(RetryBudget {
            retry_ratio: *retry_ratio,
            min_retries_per_second: *min_retries_per_second,
            ttl: Some(ttl.try_into().ok()?),
        })
    }

    /// Returns the settings for clients of a namespace, if they have their own.
    pub(super) fn of_client(&self, namespace: &str) -> Option<&Self> {
        self.clients.get(namespace)
    }

    /// Returns the destinations of a split by these settings, by default with the port that was asked for; none
    /// without a split. Those that are no services are left out: proxies ignore them.
    pub(super) fn overrides(&self, port: u16, settings: &LinkerdSettings) -> Vec<WeightedDst> {
        let overrides = self.dst_overrides.iter().flatten();
        overrides
            .filter_map(|Override { authority, weight }| {
                let authority = if authority.contains(':') {
                    authority.clone()
                } else {
                    format!("{authority}:{port}")
                };
                let to = Destination::of(&authority, &settings.cluster_domain).ok()?;
                let Destination::Name(Name { service, port, .. }) = to else {
                    return None;
                };
                Some(WeightedDst {
                    authority,
                    weight: *weight,
                    backend_ref: Some(service_ref(&service, port.get())),
                })
            })
            .collect()
    }

    /// The ServiceProfile, in this namespace, if it is one.
    pub(super) fn reference(&self, namespace: &str) -> Option<Metadata> {
        let name = self.name.as_ref()?;
        Some(profile_ref(namespace, name))
    }
}

impl RouteSpec {
    fn route(&self) -> Option<Route> {
        let Self {
            name,
            condition,
            response_classes,
            is_retryable,
            timeout,
        } = self;
        // A proxy would let a request time out at once whose timeout is none (linkerd2, controller/api/destination,
        // `profile_translator.go`).
        let timeout = timeout.as_deref().and_then(duration);
        let timeout = timeout.filter(|timeout| !timeout.is_zero());
        let classes = response_classes.iter().flatten();
        Some(Route {
            condition: Some(condition.request()?),
            response_classes: classes
                .map(|class| {
                    Some(ResponseClass {
                        condition: Some(class.condition.response()?),
                        is_failure: class.is_failure,
                    })
                })
                .collect::<Option<_>>()?,
            metrics_labels: [("route".to_owned(), name.clone())].into(),
            is_retryable: *is_retryable,
            timeout: timeout.and_then(|timeout| timeout.try_into().ok()),
        })
    }
}

impl RequestCondition {
    /// Returns the match of requests; `None`: there is something that cannot be understood, or nothing.
    fn request(&self) -> Option<RequestMatch> {
        let Self {
            all,
            any,
            not,
            path_regex,
            method,
        } = self;
        let each = |list: &[Self]| -> Option<request_match::Seq> {
            let matches = list.iter().map(Self::request);
            Some(request_match::Seq {
                matches: matches.collect::<Option<_>>()?,
            })
        };
        let mut found = Vec::new();
        if let Some(list) = all {
            found.push(Request::All(each(list)?));
        }
        if let Some(list) = any {
            found.push(Request::Any(each(list)?));
        }
        if let Some(not) = not {
            found.push(Request::Not(Box::new(not.request()?)));
        }
        // An empty text is as good as none (linkerd2, `profile_translator.go`).
        if let Some(regex) = path_regex.as_ref().filter(|regex| !regex.is_empty()) {
            found.push(Request::Path(PathMatch {
                regex: regex.clone(),
            }));
        }
        if let Some(method) = method.as_ref().filter(|method| !method.is_empty()) {
            let method = method.trim().to_ascii_uppercase();
            let method = hyper::Method::from_bytes(method.as_bytes()).ok()?;
            found.push(Request::Method(method.into()));
        }
        let wrapped = |found| RequestMatch {
            r#match: Some(found),
        };
        match found.len() {
            0 | 1 => found.pop().map(wrapped),
            _ => Some(wrapped(Request::All(request_match::Seq {
                matches: found.into_iter().map(wrapped).collect(),
            }))),
        }
    }
}

impl ResponseCondition {
    /// Returns the match of responses; `None`: there is something that cannot be understood, or nothing.
    fn response(&self) -> Option<ResponseMatch> {
        let Self {
            all,
            any,
            not,
            status,
        } = self;
        let each = |list: &[Self]| -> Option<response_match::Seq> {
            let matches = list.iter().map(Self::response);
            Some(response_match::Seq {
                matches: matches.collect::<Option<_>>()?,
            })
        };
        let mut found = Vec::new();
        if let Some(list) = all {
            found.push(Response::All(each(list)?));
        }
        if let Some(list) = any {
            found.push(Response::Any(each(list)?));
        }
        if let Some(not) = not {
            found.push(Response::Not(Box::new(not.response()?)));
        }
        if let Some(StatusRange { min, max }) = *status {
            found.push(Response::Status(HttpStatusRange { min, max }));
        }
        let wrapped = |found| ResponseMatch {
            r#match: Some(found),
        };
        match found.len() {
            0 | 1 => found.pop().map(wrapped),
            _ => Some(wrapped(Response::All(response_match::Seq {
                matches: found.into_iter().map(wrapped).collect(),
            }))),
        }
    }
}

/// A duration as Go reads it, and so linkerd.
fn duration(text: &str) -> Option<Duration> {
    text.parse::<GoDuration>().ok()?.duration()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(json: &serde_json::Value) -> Requests {
        Requests::read(&json.to_string())
    }

    #[test]
    fn routes_and_the_budget_are_passed_on() {
        let requests = read(&json!({
            "name": "web.default.svc.cluster.local",
            "routes": [{
                "name": "GET /a",
                "condition": { "method": "GET", "pathRegex": "/a" },
                "responseClasses": [{
                    "condition": { "status": { "min": 500, "max": 599 } }, "isFailure": true,
                }],
                "isRetryable": true, "timeout": "300ms",
            }],
            "retryBudget": { "retryRatio": 0.5, "minRetriesPerSecond": 3, "ttl": "1m1.5s" },
        }));
        let [route] = <[Route; 1]>::try_from(requests.routes()).unwrap();
        let matched = |found| RequestMatch {
            r#match: Some(found),
        };
        let both = request_match::Seq {
            matches: vec![
                matched(Request::Path(PathMatch {
                    regex: "/a".to_owned(),
                })),
                matched(Request::Method(hyper::Method::GET.into())),
            ],
        };
        assert_eq!(route.condition, Some(matched(Request::All(both))));
        let [class] = <[ResponseClass; 1]>::try_from(route.response_classes).unwrap();
        let range = HttpStatusRange { min: 500, max: 599 };
        let condition = class.condition.unwrap();
        assert_eq!(condition.r#match, Some(Response::Status(range)));
        assert!(class.is_failure && route.is_retryable);
        assert_eq!(route.metrics_labels["route"], "GET /a");
        assert_eq!(route.timeout, Duration::from_millis(300).try_into().ok());
        let budget = requests.retry_budget().unwrap();
        assert_eq!(
            (budget.retry_ratio, budget.min_retries_per_second),
            (0.5, 3)
        );
        assert_eq!(budget.ttl, Duration::from_millis(61_500).try_into().ok());
        assert!(requests.reference("default").is_some());
    }

    #[test]
    fn conditions_are_nested() {
        let get = json!({ "method": "GET" });
        let requests = read(&json!({ "routes": [{ "name": "a", "condition": {
            "any": [get, { "not": { "all": [{ "pathRegex": "/x" }] } }],
        } }] }));
        let [route] = <[Route; 1]>::try_from(requests.routes()).unwrap();
        let Some(Request::Any(any)) = route.condition.unwrap().r#match else {
            panic!("any");
        };
        assert!(matches!(any.matches[1].r#match, Some(Request::Not(_))));
    }

    #[test]
    fn a_route_without_a_timeout_and_one_of_0s_have_none() {
        for (timeout, expected) in [
            (json!(null), None),
            (json!("0s"), None),
            (json!("0"), None),
            (json!("soon"), None),
            (json!("12s"), Some(Duration::from_secs(12))),
        ] {
            let route = json!({ "condition": { "method": "GET" }, "timeout": timeout });
            let requests = read(&json!({ "routes": [route] }));
            let [route] = <[Route; 1]>::try_from(requests.routes()).unwrap();
            let expected = expected.map(|expected| expected.try_into().unwrap());
            assert_eq!(route.timeout, expected, "{timeout}");
        }
    }

    #[test]
    fn an_empty_method_and_an_empty_path_are_as_good_as_none() {
        let condition = json!({ "method": "", "pathRegex": "/a" });
        let [route] = routes(&condition);
        let path = PathMatch {
            regex: "/a".to_owned(),
        };
        let found = route.condition.unwrap().r#match;
        assert_eq!(found, Some(Request::Path(path)));
        let [route] = routes(&json!({ "method": "GET", "pathRegex": "" }));
        let found = route.condition.unwrap().r#match;
        let get = Request::Method(hyper::Method::GET.into());
        assert_eq!(found, Some(get));
        let none = json!({ "routes": [{ "condition": { "method": "", "pathRegex": "" } }] });
        assert_eq!(read(&none).routes(), []);
    }

    fn routes(condition: &serde_json::Value) -> [Route; 1] {
        let requests = read(&json!({ "routes": [{ "condition": condition }] }));
        requests.routes().try_into().unwrap()
    }

    #[test]
    fn a_method_is_trimmed_and_in_capitals() {
        for method in ["GET", "get", " Get", "GET\t"] {
            let [route] = routes(&json!({ "method": method }));
            let found = route.condition.unwrap().r#match;
            let get = Request::Method(hyper::Method::GET.into());
            assert_eq!(found, Some(get), "{method:?}");
        }
    }

    /// A profile with a budget, and with a route whose responses have this range of statuses.
    fn with_status(range: &serde_json::Value) -> serde_json::Value {
        let class = json!({ "condition": { "status": range } });
        let route = json!({ "condition": { "method": "GET" }, "responseClasses": [class] });
        json!({ "routes": [route], "retryBudget": { "ttl": "1s" } })
    }

    #[test]
    fn what_is_not_understood_says_nothing() {
        for condition in [
            json!({}),
            json!({ "method": "G T" }),
            json!({ "all": [{}] }),
        ] {
            let route = json!({ "name": "a", "condition": condition });
            let requests = read(&json!({ "routes": [route] }));
            assert_eq!(requests.routes(), [], "{condition}");
        }
        for (profile, has_budget) in [
            (json!({}), false),
            (
                json!({ "name": null, "routes": null, "retryBudget": null }),
                false,
            ),
            (json!({ "routes": 3 }), false),
            (with_status(&json!({ "min": 404, "max": 400 })), false),
            (with_status(&json!({ "max": 600 })), false),
            (json!({ "retryBudget": { "ttl": "soon" } }), false),
            (json!({ "retryBudget": { "ttl": "1s" } }), true),
        ] {
            let requests = read(&profile);
            assert_eq!(requests.routes(), []);
            assert_eq!(requests.retry_budget().is_some(), has_budget, "{profile}");
            assert_eq!(requests.reference("a"), None);
        }
    }
}
