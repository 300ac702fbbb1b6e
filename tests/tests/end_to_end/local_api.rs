//! Services that are registered with the agent itself, by real clients.

mod catalog;
mod consul;
mod federation;
mod grpc;
mod place;
mod readers;
mod registrations;
mod traffic;
