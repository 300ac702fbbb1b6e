//! Registrations, case by case.

mod alias;
mod effects;
mod frontends;
mod news;
mod reads;
mod refusals;
mod reload;
mod sidecars;
mod store;
mod world;
