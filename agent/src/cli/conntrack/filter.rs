//! Filters for connections.

use clap::{Args, ValueEnum};
use shunt_api::view::{ConnectionFilter, ConnectionState};
use shunt_print::duration::Seconds;

use crate::cli::flags::ends::EndArgs;

/// Filters for connections; all must match.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Filters")]
pub(super) struct FilterArgs {
    #[command(flatten)]
    ends: EndArgs,

    /// Filter by state; may be given several times
    #[arg(long, value_enum, value_name = "STATE", ignore_case = true)]
    state: Vec<State>,

    /// Filter by idle time: neither side has sent a packet for so long, or longer: 30s, 2m
    #[arg(long, value_name = "TIME")]
    idle: Option<Seconds>,
}

/// A state by the name that it is shown with.
#[derive(Debug, Clone, Copy)]
struct State(ConnectionState);

impl ValueEnum for State {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [State; ConnectionState::ALL.len()] = {
            let mut all = [State(ConnectionState::New); ConnectionState::ALL.len()];
            let mut index = 0;
            while index < all.len() {
                all[index] = State(ConnectionState::ALL[index]);
                index += 1;
            }
            all
        };
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.name()))
    }
}

impl FilterArgs {
    /// The connections that are meant.
    pub(super) fn filter(&self) -> ConnectionFilter {
        let Self { ends, state, idle } = self;
        ConnectionFilter {
            client: ends.client,
            frontend: ends.frontend,
            backend: ends.backend,
            protocol: ends.protocol(),
            states: state.iter().map(|State(state)| *state).collect(),
            idle_seconds: idle.map_or(0, |Seconds(seconds)| seconds),
        }
    }
}
