//! Routes, services and grants, and what follows from them.

mod conditions;
mod splits;
mod world;
