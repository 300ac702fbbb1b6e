//! From a line of text to an event.

use serde::Deserialize;
use serde_json::error::Category;

use crate::{
    error::{EventError, Fault},
    event::RendererEvent,
    json::{
        locate::{Place, Step},
        object::Object,
        shape::LineShape,
    },
    unchecked::{event::Event, text::Text},
};

/// Reads one event: a JSON object whose field `event` names its kind, beside its fields.
///
/// # Errors
///
/// The error names the service and the field that is wrong, and the reason. Nothing of a faulty
/// event is used.
pub fn decode(line: &str) -> Result<RendererEvent, EventError> {
    let Object(line) = serde_json::from_str::<Object<LineShape<'_>>>(line)
        .map_err(|error| shape_error(line, &error))?;
    Event::try_from(line)?.try_into()
}

/// Returns serde_json's error for a line, with the place it is about.
fn shape_error(line: &str, error: &serde_json::Error) -> EventError {
    // The only form in which serde_json gives its reason ends with the position.
    let text = error.to_string();
    let reason = text
        .rsplit_once(" at line ")
        .map_or(text.as_str(), |(reason, _)| reason)
        .to_owned();
    if error.classify() != Category::Data {
        return EventError::new(Fault::Syntax {
            reason,
            column: error.column(),
        });
    }

    let before = line
        .split_inclusive('\n')
        .take(error.line().saturating_sub(1))
        .map(str::len)
        .sum::<usize>();
    let place = Place::at(line, before + error.column());
    let fault = Fault::Shape(reason);
    match service_of(line, &place) {
        Some((service, depth)) => EventError {
            service: Some(service),
            field: place.path(depth),
            fault,
        },
        None => EventError {
            service: None,
            field: place.path(0),
            fault,
        },
    }
}

/// The name of the service in which `place` is, and how many steps lead to that service.
fn service_of(line: &str, place: &Place) -> Option<(String, usize)> {
    #[derive(Deserialize)]
    struct Service<'a> {
        #[serde(borrow)]
        id: Id<'a>,
    }
    #[derive(Deserialize)]
    struct Id<'a> {
        #[serde(borrow)]
        namespace: Text<'a>,
        name: Text<'a>,
    }

    let mut steps = place.steps();
    let depth = match (steps.next()?, steps.next()) {
        (Step::Key(key), _) if key == "service" => 1,
        (Step::Key(key), Some(Step::Index(_))) if key == "services" => 2,
        _ => return None,
    };
    let text = line.get(place.value_start(depth)?..)?;
    let Service {
        id: Id { namespace, name },
    } = Service::deserialize(&mut serde_json::Deserializer::from_str(text)).ok()?;
    Some((format!("{}/{}", &*namespace, &*name), depth))
}
