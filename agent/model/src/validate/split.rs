//! A split becomes values.

use std::{num::NonZeroU16, sync::Arc};

use crate::{
    error::{EventError, Fault},
    service::Service,
    service_id::ServiceId,
    split::{Split, SplitBackend, SplitTarget},
    unchecked::{self, choice::Choice},
    validate::backends::backend_address,
};

/// The split of a port of `service`. An empty one is right: it refuses every connection, as one does
/// whose weights are all 0.
pub(super) fn checked(split: unchecked::Split<'_>, service: &Service) -> Result<Split, EventError> {
    let unchecked::Split {
        mode,
        frontends,
        backends: list,
    } = split;
    let mode = mode
        .known()
        .map_err(|fault| EventError::new(fault).within("mode"))?;
    let frontends = frontends
        .map_or_else(|| Ok(<_>::default()), Choice::known)
        .map_err(|fault| EventError::new(fault).within("frontends"))?;
    let mut backends = Vec::with_capacity(list.len());
    let mut sum = 0u32;
    for (index, backend) in list.into_iter().enumerate() {
        let path = format!("backends[{index}]");
        let backend = split_backend(backend, service).map_err(|error| error.within(&path))?;
        sum = sum.checked_add(backend.weight).ok_or_else(|| {
            EventError::new(Fault::SplitOverflow).within(format!("{path}.weight"))
        })?;
        backends.push(backend);
    }
    Ok(Split {
        mode,
        frontends,
        backends,
    })
}

fn split_backend(
    backend: unchecked::SplitBackend<'_>,
    service: &Service,
) -> Result<SplitBackend, EventError> {
    let unchecked::SplitBackend {
        service: named,
        ip,
        port,
        invalid,
        weight,
    } = backend;
    let given_port = || match port {
        None => Err(EventError::new(Fault::MissingField("port"))),
        Some(port) => {
            NonZeroU16::new(port).ok_or_else(|| EventError::new(Fault::ZeroPort).within("port"))
        }
    };
    let target = match (named, ip, invalid) {
        (Some(id), None, None) => SplitTarget::Service {
            id: Arc::new(
                ServiceId::try_from(id).map_err(|error: EventError| error.within("service"))?,
            ),
            port: given_port()?.get(),
        },
        (None, Some(text), None) => SplitTarget::Address {
            ip: backend_address(&text, service)
                .map_err(|fault| EventError::new(fault).within("ip"))?,
            port: given_port()?,
        },
        (None, None, Some(reason)) if port.is_none() => SplitTarget::Invalid {
            reason: (&*reason).into(),
        },
        _ => return Err(Fault::SplitTarget.into()),
    };
    Ok(SplitBackend {
        target,
        weight: weight.unwrap_or(1),
    })
}
