//! The sandbox in which Shunt is tried: network namespaces, real clients and servers in them, and
//! the real agent as a process.
//!
//! Everything here talks to the agent as a user does, through its command line, its standard input
//! and its log; nothing of its code is used, but the layout of its tables by [`passing`] and
//! [`ConnectionSlots`]. Making namespaces needs root and iproute2's `ip`.

mod ability;
mod ack;
mod agent;
mod api_server;
mod binary;
mod bpf;
mod cgroup;
mod client;
mod connection_slots;
mod consul;
mod continuous;
mod controller;
mod counters;
mod delay_line;
mod driver;
mod families;
mod far_world;
mod foreign_resync;
mod foreign_tc;
mod foreign_xdp;
mod forward;
mod http;
pub mod interrupt;
mod leftovers;
mod length;
mod namespace;
mod needs;
pub mod objects;
mod open_files;
pub mod passing;
mod patience;
mod payload;
mod picture;
mod pin_dir;
mod process;
mod protocol;
mod random;
pub mod raw;
pub mod route_objects;
pub mod rulesets;
mod sandbox;
mod server;
mod socket_path;
mod stations;
mod table;
mod tally;
pub mod tenants;
mod tun;
mod unlisted;
mod wait;

pub use self::{
    ability::{Ability, Device},
    ack::Ack,
    agent::{Agent, measure_agents},
    api_server::{ApiServer, Faults, HTTP1, HTTP2, Kind},
    binary::{agent_binary, kubectl_binary},
    cgroup::{Cgroup, own_cgroup},
    client::{Answer, Connection, Failure, Flow, HalfClosed, Target, Transport},
    connection_slots::ConnectionSlots,
    consul::{Consul, ConsulSettings, consul_binary},
    continuous::{Continuous, Sample},
    controller::Controller,
    delay_line::DelayLine,
    driver::{
        NEXT_HOP, NEXT_HOP_TEXT, NO_INTERFACE, Taken, Uplinks, run_driver, run_driver_at,
        run_driver_with_room,
    },
    families::has_ipv6,
    far_world::{FarWorld, nobody},
    foreign_resync::refuse_foreign_resync,
    foreign_tc::{ForeignTc, TcxHook},
    foreign_xdp::ForeignXdp,
    forward::Forward,
    http::{HttpAnswer, http_ask, http_get, http_send},
    length::by_length,
    namespace::Namespace,
    needs::{has_program, has_root, is_root, kernel_has, promtool_binary},
    open_files::make_room_for_files,
    patience::patience,
    picture::terminal_svg,
    pin_dir::PinDir,
    process::run,
    random::Random,
    sandbox::{Pod, Sandbox, addresses, connect_pod},
    server::Server,
    socket_path::SocketPath,
    stations::set_stations,
    table::{Table, bytes_text, duration_text},
    tally::{ForeignSources, Share, Tally},
    tun::Tun,
    unlisted::unlisted,
    wait::wait_until,
};
