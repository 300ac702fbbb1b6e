//! The agent as a process, under the names of every client library of Prometheus.

use std::{
    fmt,
    time::{SystemTime, UNIX_EPOCH},
};

use prometheus_client::{collector::Collector, encoding::DescriptorEncoder};
use shunt_http::{evictions, refused_tokens};

use crate::{
    calls::room::refusals,
    metrics::{
        process_use::ProcessUse,
        sample::{Samples, one},
    },
};

/// Resources that the process has taken, and its start.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) taken: ProcessUse,
    pub(crate) started: SystemTime,
}

impl Collector for Process {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Self {
            taken:
                ProcessUse {
                    cpu,
                    resident,
                    virtual_memory,
                    threads,
                    open_files,
                    max_files,
                },
            started,
        } = self;
        let mut samples = Samples(encoder);
        samples.counter_seconds(
            "process_cpu_seconds",
            "Time on a processor, in the kernel too",
            *cpu,
        )?;
        samples.counter(
            "shunt_connections_evicted",
            "Connections to the HTTP listeners that gave way to others, or found no place",
            &[],
            one(evictions()),
        )?;
        samples.counter(
            "shunt_tokens_refused",
            "Requests to the page and to the federation's listener with a wrong token",
            &[],
            one(refused_tokens()),
        )?;
        samples.counter(
            "shunt_calls_refused",
            "Calls to the gRPC servers that found no room, or lost it to others",
            &[],
            one(refusals()),
        )?;
        let started = started.duration_since(UNIX_EPOCH).unwrap_or_default();
        for (name, help, value) in [
            (
                "process_resident_memory_bytes",
                "Memory in RAM",
                *resident as f64,
            ),
            (
                "process_virtual_memory_bytes",
                "Memory, wherever it is",
                *virtual_memory as f64,
            ),
            ("process_threads", "Threads", *threads as f64),
            ("process_open_fds", "Open files", *open_files as f64),
            (
                "process_max_fds",
                "How many files may be open",
                *max_files as f64,
            ),
            (
                "process_start_time_seconds",
                "When the agent was started, in seconds since 1970",
                started.as_secs_f64(),
            ),
        ] {
            samples.gauge(name, help, &[], one(value))?;
        }
        Ok(())
    }
}
