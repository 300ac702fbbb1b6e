//! From fields of messages to those of the unchecked form.

use std::fmt::Display;

use shunt_model::{
    EventError, Fault, Protocol,
    unchecked::{Choice, Text},
};

use crate::proto;

/// A list of texts.
pub(super) fn texts(list: &[String]) -> Vec<Text<'_>> {
    list.iter().map(|text| text.as_str().into()).collect()
}

/// A transport protocol, which is required.
pub(super) fn transport<'a>(protocol: i32) -> Result<Choice<'a, Protocol>, EventError> {
    Ok(match proto::Protocol::try_from(protocol) {
        Ok(proto::Protocol::Tcp) => Choice::Known(Protocol::Tcp),
        Ok(proto::Protocol::Udp) => Choice::Known(Protocol::Udp),
        Ok(proto::Protocol::Sctp) => Choice::Known(Protocol::Sctp),
        Ok(proto::Protocol::Unspecified) => return Err(Fault::MissingField("protocol").into()),
        Err(_) => unknown(protocol),
    })
}

/// A number that is no value of the enum; the check names the values.
pub(super) fn unknown<'a, T>(number: i32) -> Choice<'a, T> {
    Choice::Unknown(number.to_string().into())
}

/// A port, whose range as a port the check looks at.
pub(super) fn port_number(value: u32, field: &str) -> Result<u16, EventError> {
    u16::try_from(value).map_err(|_| {
        // The wording of serde for JSON.
        let reason = format!("invalid value: integer `{value}`, expected u16");
        EventError::new(Fault::Shape(reason)).within(field)
    })
}

/// Converts the messages of a list, the first of which is `field[offset]`.
pub(super) fn each<'a, M, V>(
    list: &'a [M],
    offset: usize,
    field: impl Display,
    value: impl Fn(&'a M) -> Result<V, EventError>,
) -> Result<Vec<V>, EventError> {
    let located = |(index, message)| {
        let place = offset + index;
        value(message).map_err(|error| error.within(format_args!("{field}[{place}]")))
    };
    list.iter().enumerate().map(located).collect()
}
