//! A connection is made, and closed.

use tokio::net::TcpStream;

use crate::local::{checks::answer::Answer, state::status::Status};

/// Connects to `address`, which is `host:port`.
pub(super) async fn ask(address: &str) -> Answer {
    match TcpStream::connect(address).await {
        Ok(_) => Answer {
            status: Status::Passing,
            // In Consul's words, as the rest of what a client sees.
            output: format!("TCP connect {address}: Success"),
        },
        Err(error) => Answer::critical(format!("dial tcp {address}: {error}")),
    }
}
