//! The destinations of connections as routes.

use linkerd2_proxy_api::{
    http_route::{HttpFailureInjector, HttpRouteMatch, PathMatch, path_match},
    opaque_route::{Forbidden, Invalid},
    outbound::{HttpRoute, OpaqueRoute, http_route, opaque_route},
};

use crate::linkerd::outbound::shares::{Shares, To, named};

/// The status of answers to requests whose destination fails, as linkerd has it.
const FAILED: u32 = 500;

/// The route of opaque connections.
pub(super) fn opaque(shares: &Shares) -> OpaqueRoute {
    use opaque_route::{
        Distribution, WeightedRouteBackend,
        distribution::{FirstAvailable, Kind, RandomAvailable},
    };
    let kind = match shares {
        Shares::First(list) => Kind::FirstAvailable(FirstAvailable {
            backends: list.iter().map(opaque_backend).collect(),
        }),
        Shares::Random(list) => Kind::RandomAvailable(RandomAvailable {
            backends: list
                .iter()
                .map(|(to, weight)| WeightedRouteBackend {
                    backend: Some(opaque_backend(to)),
                    weight: *weight,
                })
                .collect(),
        }),
    };
    OpaqueRoute {
        metadata: Some(named("opaque")),
        rules: vec![opaque_route::Rule {
            backends: Some(Distribution { kind: Some(kind) }),
            filters: Vec::new(),
        }],
    }
}

fn opaque_backend(to: &To) -> opaque_route::RouteBackend {
    use opaque_route::{Filter, filter::Kind};
    let invalid = to.failure.iter().map(|message| Filter {
        kind: Some(Kind::Invalid(Invalid {
            message: message.clone(),
        })),
    });
    opaque_route::RouteBackend {
        backend: Some(to.backend.clone()),
        filters: invalid.collect(),
    }
}

/// The route of connections that are refused.
pub(super) fn forbidden(name: &str) -> OpaqueRoute {
    use opaque_route::{
        Distribution, Filter,
        distribution::{self, Empty},
        filter::Kind,
    };
    OpaqueRoute {
        metadata: Some(named(name)),
        rules: vec![opaque_route::Rule {
            backends: Some(Distribution {
                kind: Some(distribution::Kind::Empty(Empty {})),
            }),
            filters: vec![Filter {
                kind: Some(Kind::Forbidden(Forbidden {})),
            }],
        }],
    }
}

/// The route of all requests of HTTP.
pub(super) fn http(shares: &Shares) -> HttpRoute {
    use http_route::{
        Distribution, WeightedRouteBackend,
        distribution::{FirstAvailable, Kind, RandomAvailable},
    };
    let kind = match shares {
        Shares::First(list) => Kind::FirstAvailable(FirstAvailable {
            backends: list.iter().map(http_backend).collect(),
        }),
        Shares::Random(list) => Kind::RandomAvailable(RandomAvailable {
            backends: list
                .iter()
                .map(|(to, weight)| WeightedRouteBackend {
                    backend: Some(http_backend(to)),
                    weight: *weight,
                })
                .collect(),
        }),
    };
    let every_path = HttpRouteMatch {
        path: Some(PathMatch {
            kind: Some(path_match::Kind::Prefix("/".to_owned())),
        }),
        ..HttpRouteMatch::default()
    };
    HttpRoute {
        metadata: Some(named("http")),
        hosts: Vec::new(),
        rules: vec![http_route::Rule {
            matches: vec![every_path],
            backends: Some(Distribution { kind: Some(kind) }),
            ..http_route::Rule::default()
        }],
    }
}

fn http_backend(to: &To) -> http_route::RouteBackend {
    use http_route::{Filter, filter::Kind};
    let failing = to.failure.iter().map(|message| Filter {
        kind: Some(Kind::FailureInjector(HttpFailureInjector {
            status: FAILED,
            message: message.clone(),
            ratio: None,
        })),
    });
    http_route::RouteBackend {
        backend: Some(to.backend.clone()),
        filters: failing.collect(),
        ..http_route::RouteBackend::default()
    }
}
