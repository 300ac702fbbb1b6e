//! Routes, services and grants, and their results.

mod conditions;
mod splits;
mod world;
