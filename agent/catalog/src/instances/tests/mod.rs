//! The rules for instances, one by one.

mod addresses;
mod configuration;
mod engine;
mod filters;
mod health;
mod settle;
mod tiers;
mod vips;
mod world;
