//! A line becomes an event: which fields belong to which event.

use std::{
    collections::{BTreeSet, HashMap},
    net::IpAddr,
    sync::Arc,
};

use crate::{
    error::{EventError, Fault},
    event::{NodePortUpdate, RendererEvent, Snapshot},
    service::Service,
    service_id::ServiceId,
    unchecked::{Id, Line, Service as WireService, object::Object, text::Text},
    validate::{address::addresses, name},
};

/// One of the events: its fields, and how it is made of them.
struct Form {
    event: &'static str,
    fields: &'static [&'static str],
    build: fn(Line<'_>) -> Result<RendererEvent, EventError>,
}

/// A snapshot must say which services and nodes there are, since it removes what it does not name;
/// interfaces may be given by hand instead.
const FORMS: [Form; 7] = [
    Form {
        event: "Resync",
        fields: &["node_ips", "services", "frontend_ifs", "backend_ifs"],
        build: |line| {
            Ok(RendererEvent::Resync(Snapshot {
                node_ips: nodes(line.node_ips)?,
                services: services(line.services.ok_or(Fault::MissingField("services"))?)?,
                frontend_ifs: interfaces(&line.frontend_ifs.unwrap_or_default(), "frontend_ifs")?,
                backend_ifs: interfaces(&line.backend_ifs.unwrap_or_default(), "backend_ifs")?,
            }))
        },
    },
    Form {
        event: "AddService",
        fields: &["service"],
        build: |line| service(line.service).map(RendererEvent::AddService),
    },
    Form {
        event: "UpdateService",
        fields: &["service", "old"],
        build: |line| service(line.service).map(RendererEvent::UpdateService),
    },
    Form {
        event: "DeleteService",
        fields: &["id"],
        build: |line| id(line.id).map(RendererEvent::DeleteService),
    },
    Form {
        event: "UpdateNodePortServices",
        fields: &["node_ips", "services"],
        build: |line| {
            Ok(RendererEvent::UpdateNodePortServices(NodePortUpdate {
                node_ips: nodes(line.node_ips)?,
                services: services(line.services.unwrap_or_default())?,
            }))
        },
    },
    Form {
        event: "UpdateLocalFrontendIfs",
        fields: &["old", "new"],
        build: |line| new_interfaces(line.new).map(RendererEvent::UpdateLocalFrontendIfs),
    },
    Form {
        event: "UpdateLocalBackendIfs",
        fields: &["old", "new"],
        build: |line| new_interfaces(line.new).map(RendererEvent::UpdateLocalBackendIfs),
    },
];

impl TryFrom<Line<'_>> for RendererEvent {
    type Error = EventError;

    fn try_from(line: Line<'_>) -> Result<Self, EventError> {
        let Some(Form {
            event,
            fields,
            build,
        }) = FORMS.iter().find(|form| *form.event == *line.event)
        else {
            let expected = FORMS.map(|form| form.event);
            return Err(Fault::UnknownEvent {
                found: line.event.to_string(),
                expected: quoted(&expected),
            }
            .into());
        };
        let foreign = given_fields(&line).find(|field| !fields.contains(field));
        match foreign {
            Some(field) => Err(Fault::ForeignField {
                field,
                event,
                expected: quoted(fields),
            }
            .into()),
            None => build(line),
        }
    }
}

/// The names of the fields that a line has, besides the event's name.
fn given_fields(line: &Line<'_>) -> impl Iterator<Item = &'static str> + use<> {
    let Line {
        event: _,
        node_ips,
        services,
        frontend_ifs,
        backend_ifs,
        service,
        id,
        old,
        new,
    } = line;
    [
        node_ips.as_ref().map(|_| "node_ips"),
        services.as_ref().map(|_| "services"),
        frontend_ifs.as_ref().map(|_| "frontend_ifs"),
        backend_ifs.as_ref().map(|_| "backend_ifs"),
        service.as_ref().map(|_| "service"),
        id.as_ref().map(|_| "id"),
        old.as_ref().map(|_| "old"),
        new.as_ref().map(|_| "new"),
    ]
    .into_iter()
    .flatten()
}

/// The names as a list for a message, in the form of serde's own messages.
fn quoted(names: &[&str]) -> String {
    match names {
        [name] => format!("`{name}`"),
        names => format!("one of `{}`", names.join("`, `")),
    }
}

fn nodes(list: Option<Vec<Text<'_>>>) -> Result<BTreeSet<IpAddr>, EventError> {
    let list = list.ok_or(Fault::MissingField("node_ips"))?;
    addresses(&list)
        .collect::<Result<_, _>>()
        .map_err(|error: EventError| error.within("node_ips"))
}

fn interfaces(list: &[Text<'_>], field: &str) -> Result<BTreeSet<String>, EventError> {
    name::interfaces(list).map_err(|error| error.within(field))
}

fn new_interfaces(list: Option<Vec<Text<'_>>>) -> Result<BTreeSet<String>, EventError> {
    interfaces(&list.ok_or(Fault::MissingField("new"))?, "new")
}

fn id(id: Option<Object<Id<'_>>>) -> Result<ServiceId, EventError> {
    let Object(id) = id.ok_or(Fault::MissingField("id"))?;
    id.try_into()
        .map_err(|error: EventError| error.within("id"))
}

fn service(service: Option<Object<WireService<'_>>>) -> Result<Service, EventError> {
    let Object(service) = service.ok_or(Fault::MissingField("service"))?;
    service.try_into()
}

/// The services of a list, in its order, each once.
fn services(list: Vec<Object<WireService<'_>>>) -> Result<Vec<Service>, EventError> {
    let mut services = ServiceList::default();
    services.extend(list)?;
    Ok(services.services)
}

/// Services in the order in which they come, each once.
#[derive(Debug, Default)]
pub struct ServiceList {
    pub services: Vec<Service>,
    /// Where each of them is.
    first: HashMap<Arc<ServiceId>, usize>,
}

impl ServiceList {
    /// Adds services at the end.
    pub fn extend(&mut self, list: Vec<Object<WireService<'_>>>) -> Result<(), EventError> {
        self.services.reserve(list.len());
        for Object(service) in list {
            let service = Service::try_from(service)?;
            let index = self.services.len();
            if let Some(first) = self.first.insert(Arc::clone(&service.id), index) {
                let fault = Fault::DuplicateService {
                    first: format!("services[{first}]"),
                };
                return Err(EventError {
                    service: Some(service.id.to_string()),
                    field: String::new(),
                    fault,
                });
            }
            self.services.push(service);
        }
        Ok(())
    }
}
