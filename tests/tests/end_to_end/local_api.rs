//! Services that are registered with the agent itself, by real clients.

mod consul;
mod federation;
mod place;
mod readers;
mod registrations;
mod traffic;
