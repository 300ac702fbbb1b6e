//! Requests to the API server, counted and timed.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Instant,
};

use hyper::{Method, Request, Response, StatusCode};
use shunt_runtime::Reports;
use tower::Service;

/// A client's inner service, each request of which is measured.
#[derive(Debug, Clone)]
pub(super) struct Measured<S> {
    inner: S,
    /// The server.
    host: Arc<str>,
    reports: Arc<Reports>,
}

impl<S> Measured<S> {
    /// Measures the requests of `inner` to the server `host`.
    pub(super) const fn new(inner: S, host: Arc<str>, reports: Arc<Reports>) -> Self {
        Self {
            inner,
            host,
            reports,
        }
    }
}

/// A request on its way. One that is given up has no answer.
struct Asked {
    method: Method,
    host: Arc<str>,
    reports: Arc<Reports>,
    start: Instant,
    /// The answer of a watch begins at once, and is no measure of the server's pace.
    is_watch: bool,
    status: Option<u16>,
}

impl Asked {
    fn answered(&mut self, status: StatusCode) {
        self.status = Some(status.as_u16());
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let Self {
            method,
            host,
            reports,
            start,
            is_watch,
            status,
        } = self;
        let took = (!*is_watch).then(|| start.elapsed());
        let meters = &reports.meters().rest_client;
        meters.asked(method.as_str(), host, *status, took);
    }
}

impl<S, A, B> Service<Request<A>> for Measured<S>
where
    S: Service<Request<A>, Response = Response<B>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<A>) -> Self::Future {
        let query = request.uri().query().unwrap_or_default();
        let mut asked = Asked {
            method: request.method().clone(),
            host: Arc::clone(&self.host),
            reports: Arc::clone(&self.reports),
            start: Instant::now(),
            is_watch: query.split('&').any(|parameter| parameter == "watch=true"),
            status: None,
        };
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            if let Ok(answer) = &answer {
                asked.answered(answer.status());
            }
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{convert::Infallible, future::pending};

    use prometheus_client::{encoding::text, registry::Registry};
    use tower::{Layer as _, layer::layer_fn};

    use super::*;

    /// A server that answers with its path's number, or never.
    #[derive(Clone)]
    struct Server;

    impl Service<Request<()>> for Server {
        type Response = Response<()>;
        type Error = Infallible;
        type Future = Pin<Box<dyn Future<Output = Result<Response<()>, Infallible>> + Send>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, request: Request<()>) -> Self::Future {
            let status: Option<u16> = request.uri().path()[1..].parse().ok();
            Box::pin(async move {
                match status {
                    Some(status) => Ok(Response::builder().status(status).body(()).unwrap()),
                    None => pending().await,
                }
            })
        }
    }

    #[tokio::test]
    async fn requests_are_counted_by_what_became_of_them() {
        let reports = Arc::<Reports>::default();
        let layer =
            layer_fn(|server| Measured::new(server, "api:6443".into(), Arc::clone(&reports)));
        let mut client = layer.layer(Server);
        let mut ask = |method: &str, path: &str| {
            let request = Request::builder().method(method).uri(path).body(());
            client.call(request.unwrap())
        };
        for (method, path) in [
            ("GET", "/200"),
            ("GET", "/200?limit=500&watch=true"),
            ("GET", "/410"),
            ("POST", "/201"),
        ] {
            ask(method, path).await.unwrap();
        }
        drop(ask("GET", "/never"));
        let mut registry = Registry::default();
        let meters = &reports.meters().rest_client;
        registry.register("asked", "", meters.requests.clone());
        registry.register("took", "", meters.duration.clone());
        let mut shown = String::new();
        text::encode(&mut shown, &registry).unwrap();
        for line in [
            r#"asked_total{code="200",method="GET",host="api:6443"} 2"#,
            r#"asked_total{code="410",method="GET",host="api:6443"} 1"#,
            r#"asked_total{code="201",method="POST",host="api:6443"} 1"#,
            r#"asked_total{code="<error>",method="GET",host="api:6443"} 1"#,
            // A watch is not timed.
            r#"took_count{verb="GET",host="api:6443"} 3"#,
            r#"took_count{verb="POST",host="api:6443"} 1"#,
        ] {
            assert!(shown.lines().any(|shown| shown == line), "{line}\n{shown}");
        }
    }
}
