//! The sandbox stays up for a person to look around.

use std::{path::Path, process::Command, thread, time::Duration};

use anyhow::{Context as _, Result};
use shunt_tests::interrupt;

use crate::{
    cluster::Cluster,
    model::{Client, Frontend},
    trickle::Trickle,
};

/// Prints what to type, and waits for Ctrl-C.
pub(crate) fn wait(cluster: &Cluster) {
    println!(
        "\nThe sandbox is up; Ctrl-C ends it. Servers and agent are running. To look around:\n"
    );
    for (comment, command) in suggestions(cluster) {
        println!("  # {comment}\n  {command}\n");
    }
    let traffic = cluster.page().map(|address| {
        println!("  # the page, with traffic to look at\n  http://{address}/\n");
        Trickle::start(cluster)
    });
    while !interrupt::is_requested() {
        thread::sleep(Duration::from_millis(100));
    }
    println!("cleaning up");
    drop(traffic);
}

/// Has a script of node's look at the page while there is traffic. Returns whether it was content.
pub(crate) fn visit(cluster: &Cluster, script: &Path) -> Result<bool> {
    let page = cluster.page().context("there is no page to visit")?;
    let _traffic = Trickle::start(cluster);
    let visit = Command::new("node")
        .arg(script)
        .arg(format!("http://{page}"))
        .status()
        .context("cannot run node")?;
    Ok(visit.success())
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
