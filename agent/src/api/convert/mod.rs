//! From the wire form to values: everything that shape alone does not rule out.

mod address;
mod backends;
mod event;
mod name;
mod service;

pub(super) use self::event::ServiceList;
