//! Frontends whose connections are shared out among several services.

mod attempts;
mod driver;
mod persistence;
mod refusal;
mod shares;
mod world;
