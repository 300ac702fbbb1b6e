//! A protocol of connections.

use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncWrite};

use crate::{peer::Peer, places::Place};

/// A protocol by which a listener's connections are served.
pub(crate) trait Protocol: Send + Sync + 'static {
    /// Serves `stream` of `peer` until it ends. The place is busy while there are requests.
    fn serve<S>(
        &self,
        stream: S,
        peer: Peer,
        place: &Arc<Place>,
    ) -> impl Future<Output = hyper::Result<()>> + Send
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static;
}
