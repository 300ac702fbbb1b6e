//! Checks that are asked: by a connection, a request or a call of gRPC, again and again.

mod answer;
mod grpc;
mod http;
pub(in crate::local) mod keep;
mod run;
mod tcp;
