//! The sandbox stays up for a person to look around.

use std::{thread, time::Duration};

use shunt_tests::interrupt;

use crate::{
    cluster::Cluster,
    model::{Client, Frontend},
};

/// Prints what to type, and waits for Ctrl-C.
pub(crate) fn wait(cluster: &Cluster) {
    println!(
        "\nThe sandbox is up; Ctrl-C ends it. Servers and agent are running. To look around:\n"
    );
    for (comment, command) in suggestions(cluster) {
        println!("  # {comment}\n  {command}\n");
    }
    while !interrupt::is_requested() {
        thread::sleep(Duration::from_millis(100));
    }
    println!("cleaning up");
}

fn suggestions(cluster: &Cluster) -> Vec<(String, String)> {
    let node = cluster.sandbox().node().name();
    let mut lines = Vec::new();
    for client in [Client::Pod, Client::Outside] {
        let name = cluster.namespace(client).name();
        if let Some(frontend) = cluster.model().frontends(client).last() {
            lines.push((
                format!("ask {frontend} from {client}; the backend says who it is"),
                format!("ip netns exec {name} bash -c '{}'", question(frontend)),
            ));
        }
    }
    let mut add = |comment: &str, command: String| lines.push((comment.to_owned(), command));
    let shunt = cluster.binary().display();
    let socket = cluster.agent().socket().display();
    for (comment, question) in [
        ("the frontends that are live", "services"),
        ("their backends too, a line each", "services -o wide"),
        ("the connections that are remembered", "conntrack"),
        (
            "how many of them each client has",
            "conntrack --count=client",
        ),
        ("how the agent is", "status"),
    ] {
        add(comment, format!("{shunt} {question} --socket {socket}"));
    }
    add(
        "the node's interfaces and routes",
        format!("ip -n {node} address; ip -n {node} route"),
    );
    add(
        "the programs on its interfaces",
        format!("ip netns exec {node} bpftool net"),
    );
    add(
        "the programs and maps that are loaded",
        "bpftool prog; bpftool map".to_owned(),
    );
    add(
        "the packets of the node, before and after translation",
        format!("ip netns exec {node} tcpdump -ni any"),
    );
    lines
}

/// A line to a server and its answer, with nothing but bash.
fn question(frontend: &Frontend) -> String {
    let transport = frontend.transport.to_string().to_lowercase();
    let (ip, port) = (frontend.address.ip(), frontend.address.port());
    format!("exec 3<>/dev/{transport}/{ip}/{port}; echo hello >&3; head -n 1 <&3")
}
