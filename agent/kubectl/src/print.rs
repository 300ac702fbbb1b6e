//! Output of several nodes.

use std::io::{self, Write};

use serde::Serialize;
use shunt_model::Escaped;
use shunt_print::output::write_json;

use crate::fleet::Heard;

/// A line of JSON: the fields of something, and the name of its node.
#[derive(Serialize)]
struct OfNode<'a, T> {
    node: &'a str,
    #[serde(flatten)]
    fields: &'a T,
}

/// A node that has not answered.
#[derive(Serialize)]
struct Unanswered<'a> {
    node: &'a str,
    error: &'a str,
}

/// Writes something of a node as a line of JSON.
///
/// # Errors
///
/// The output cannot be written.
pub(crate) fn write_line(
    node: &str,
    fields: &impl Serialize,
    out: &mut impl Write,
) -> io::Result<()> {
    write_json(&OfNode { node, fields }, out)
}

/// Writes the reason that a node has not answered as a line of JSON.
///
/// # Errors
///
/// The output cannot be written.
pub(crate) fn write_error(node: &str, error: &str, out: &mut impl Write) -> io::Result<()> {
    write_json(&Unanswered { node, error }, out)
}

/// Writes for people what `write` makes of each answer, under the node's name.
///
/// # Errors
///
/// The output cannot be written.
pub(crate) fn write_nodes<T, W: Write>(
    heard: &[Heard<T>],
    out: &mut W,
    write: impl Fn(&T, &mut W) -> io::Result<()>,
) -> io::Result<()> {
    for (number, Heard { member, answer }) in heard.iter().enumerate() {
        if number > 0 {
            writeln!(out)?;
        }
        let node = Escaped(&member.node);
        match answer {
            Ok(answer) => {
                writeln!(out, "Node {node}:")?;
                write(answer, out)?;
            }
            Err(reason) => writeln!(out, "Node {node}: no answer: {}", Escaped(reason))?,
        }
    }
    Ok(())
}

/// Writes a line of JSON for each of the `parts` of each answer.
///
/// # Errors
///
/// The output cannot be written.
pub(crate) fn write_lines<'a, T, P: Serialize + 'a>(
    heard: &'a [Heard<T>],
    out: &mut impl Write,
    parts: impl Fn(&'a T) -> &'a [P],
) -> io::Result<()> {
    for Heard { member, answer } in heard {
        match answer {
            Ok(answer) => {
                for part in parts(answer) {
                    write_line(&member.node, part, out)?;
                }
            }
            Err(reason) => write_error(&member.node, reason, out)?,
        }
    }
    Ok(())
}

/// Returns whether all nodes have answered.
pub(crate) fn are_complete<T>(heard: &[Heard<T>]) -> bool {
    heard.iter().all(|heard| heard.answer.is_ok())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cluster::Member;

    fn heard() -> Vec<Heard<Vec<serde_json::Value>>> {
        let member = |node: &str| Member {
            node: node.to_owned(),
            kernel: None,
            pod: Err(String::new()),
        };
        vec![
            Heard {
                member: member("node-1"),
                answer: Ok(vec![json!({ "a": 1 }), json!({ "a": 2 })]),
            },
            Heard {
                member: member("node-2"),
                answer: Err("no agent\nat all".to_owned()),
            },
        ]
    }

    #[test]
    fn each_line_of_json_has_its_node() {
        let mut out = Vec::new();
        write_lines(&heard(), &mut out, Vec::as_slice).unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "{\"node\":\"node-1\",\"a\":1}\n{\"node\":\"node-1\",\"a\":2}\n\
             {\"node\":\"node-2\",\"error\":\"no agent\\nat all\"}\n"
        );
    }

    #[test]
    fn a_node_that_does_not_answer_is_a_line() {
        let mut out = Vec::new();
        write_nodes(&heard(), &mut out, |parts, out| {
            writeln!(out, "{} parts", parts.len())
        })
        .unwrap();
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "Node node-1:\n2 parts\n\nNode node-2: no answer: no agent\\nat all\n"
        );
        assert!(!are_complete(&heard()));
    }
}
