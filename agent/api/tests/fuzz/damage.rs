//! Valid events, and what may become of them.

use bolero::TypeGenerator;

/// A service of two families with everything that one can have.
pub(crate) const SERVICE: &str = r#"{"id":{"namespace":"default","name":"web"},"cluster_ips":["10.96.0.1","fd00::1"],"external_ips":["203.0.113.7"],"load_balancer_ips":["198.51.100.1"],"load_balancer_source_ranges":["192.0.2.0/24"],"traffic_policy":"Local","internal_traffic_policy":"Cluster","session_affinity_timeout":60,"masquerade":true,"ports":{"http":{"protocol":"TCP","port":80,"node_port":30080},"dns":{"protocol":"UDP","port":53}},"backends":{"http":[{"ip":"10.1.1.3","port":8080,"local":true,"weight":3,"state":"Terminating","serving":true,"node":"n1","zone":"z1","scopes":["Local"]},{"ip":"10.1.2.3","port":8080,"host_network":true,"scopes":[]},{"ip":"fd01::3","port":8080,"weight":4294967295}],"dns":[{"ip":"10.1.1.4","port":5353,"local":true}]}}"#;

/// One line of each event, a Resync first.
pub(crate) fn lines() -> [String; 10] {
    let nodes = r#""node_ips":["192.168.16.10","192.168.16.20","2001:db8:16::10"]"#;
    let old = r#""old":["eth1"],"new":["eth0","veth1"]"#;
    [
        format!(
            r#"{{"event":"Resync",{nodes},"services":[{SERVICE}],"frontend_ifs":["eth0"],"backend_ifs":[],"service_cidrs":["10.96.0.0/12"]}}"#
        ),
        format!(r#"{{"event":"AddService","service":{SERVICE}}}"#),
        format!(r#"{{"event":"UpdateService","service":{SERVICE}}}"#),
        r#"{"event":"DeleteService","id":{"namespace":"default","name":"web"}}"#.to_owned(),
        format!(r#"{{"event":"UpdateNodePortServices",{nodes},"services":[{SERVICE}]}}"#),
        format!(r#"{{"event":"UpdateLocalFrontendIfs",{old}}}"#),
        format!(r#"{{"event":"UpdateLocalBackendIfs",{old}}}"#),
        r#"{"event":"UpdateServiceCidrs","new":["10.96.0.0/12","fd00:10:96::/112"]}"#.to_owned(),
        r#"{"event":"UpdateNodes","nodes":{"a":["192.168.16.10","2001:db8:16::10"]}}"#.to_owned(),
        r#"{"event":"UpdateWorkloads","workloads":[{"id":{"kind":"Pod","namespace":"default","name":"web-1"},"ips":["10.1.1.3","fd01::3"],"ports":[{"name":"http","port":8080,"protocol":"TCP"}],"host_ports":[{"ip":"192.168.16.10","port":53,"protocol":"UDP"}],"node":"a","phase":"Pending","ready":true,"owner":{"kind":"ReplicaSet","name":"web"},"opaque_ports":["25","3306-3310"],"policy_opaque_ports":["81"],"mesh":{"service_account":"web","control_plane":"linkerd","inbound_port":4143,"skipped_ports":["25"]}}],"gone":[{"kind":"ExternalWorkload","namespace":"default","name":"vm"}]}"#.to_owned(),
    ]
}

/// Words to put in the place of others: such as are near what is allowed.
const WORDS: [&str; 40] = [
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"",
    "null",
    "true",
    "false",
    "0",
    "1",
    "-1",
    "30080",
    "65535",
    "65536",
    "4294967295",
    "4294967296",
    "1e999",
    "0.5",
    "\"\"",
    "\"TCP\"",
    "\"UDP\"",
    "\"SCTP\"",
    "\"Cluster\"",
    "\"Local\"",
    "\"Ready\"",
    "\"NotReady\"",
    "\"ip\"",
    "\"port\"",
    "\"weight\"",
    "\"10.96.0.1\"",
    "\"fd00::1\"",
    "\"::ffff:10.1.1.3\"",
    "\"0.0.0.0\"",
    "\"192.0.2.0/33\"",
    "\"0.0.0.0/0\"",
    "\"::/0\"",
    "\"\\u0000é🦀\"",
    "\"\\ud800\"",
];

/// One change of a text.
#[derive(Debug, Clone, TypeGenerator)]
pub(crate) enum Damage {
    /// A token becomes another word.
    Word { place: u16, word: u8 },
    /// A token becomes another token of the text.
    Copy { place: u16, from: u16 },
    /// Tokens go.
    Cut { place: u16, count: u8 },
    /// Tokens come twice.
    Double { place: u16, count: u8 },
    /// A character becomes another.
    Character { place: u16, character: char },
    /// The text ends.
    End { place: u16 },
}

/// The text after one damage after another.
pub(crate) fn damaged(text: &str, damages: &[Damage]) -> String {
    let mut tokens: Vec<String> = tokens(text);
    for damage in damages {
        let count = tokens.len();
        if count == 0 {
            break;
        }
        let at = |place: u16| usize::from(place) % count;
        let some = |place: u16, length: u8| {
            let start = at(place);
            start..(start + usize::from(length % 24)).min(count)
        };
        match *damage {
            Damage::Word { place, word } => {
                let word = WORDS[usize::from(word) % WORDS.len()];
                word.clone_into(&mut tokens[at(place)]);
            }
            Damage::Copy { place, from } => {
                let copy = tokens[at(from)].clone();
                tokens[at(place)] = copy;
            }
            Damage::Cut { place, count } => drop(tokens.drain(some(place, count))),
            Damage::Double { place, count } => {
                let range = some(place, count);
                let copy = tokens[range.clone()].to_vec();
                drop(tokens.splice(range.end..range.end, copy));
            }
            Damage::Character { place, character } => {
                let token = &mut tokens[at(place)];
                let old = token.chars().next();
                let rest = token.split_off(old.map_or(0, char::len_utf8));
                *token = format!("{character}{rest}");
            }
            Damage::End { place } => tokens.truncate(at(place)),
        }
    }
    tokens.concat()
}

/// Strings, numbers and words whole, everything else a character.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = match first {
            '"' => rest[1..].find('"').map_or(rest.len(), |end| end + 2),
            'a'..='z' | '0'..='9' => rest
                .find(|c: char| !c.is_ascii_alphanumeric())
                .unwrap_or(rest.len()),
            other => other.len_utf8(),
        };
        let (token, after) = rest.split_at(end);
        tokens.push(token.to_owned());
        rest = after;
    }
    tokens
}
