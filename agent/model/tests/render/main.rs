//! The renderer from the outside: lines of events in, the full set of frontends out.

mod conflicts;
mod dual_stack;
mod endpoints;
mod events;
mod forwarding;
mod masquerade;
mod properties;
mod rules;
mod selection;
mod splits;
mod world;
