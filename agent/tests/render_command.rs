//! `shunt render` as it is used.

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

const RESYNC: &str = r#"{"event":"Resync","node_ips":["192.168.16.10"],"services":[],"frontend_ifs":[],"backend_ifs":[]}"#;

/// A service on one ClusterIP.
fn add(name: &str, address: &str) -> String {
    format!(
        r#"{{"event":"AddService","service":{{"id":{{"namespace":"default","name":"{name}"}},"cluster_ips":["{address}"],"ports":{{"http":{{"protocol":"TCP","port":80,"node_port":30080}}}},"backends":{{"http":[{{"ip":"10.1.1.3","port":8080,"local":true}},{{"ip":"10.1.2.3","port":8080}}]}}}}}}"#
    )
}

fn render(flags: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_shunt"))
        .args(["render", "--node-ip", "192.168.16.10"])
        .args(flags)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The command may end without reading: that is for the assertions to judge.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

/// Exit status, standard output, standard error.
fn render_events(flags: &[&str], lines: &[&str]) -> (i32, String, String) {
    let Output {
        status,
        stdout,
        stderr,
    } = render(
        &[&["--events", "-"], flags].concat(),
        &(lines.join("\n") + "\n"),
    );
    (
        status.code().unwrap(),
        String::from_utf8(stdout).unwrap(),
        String::from_utf8(stderr).unwrap(),
    )
}

#[test]
fn json_has_every_frontend_with_its_fields_in_order() {
    let service = add("web", "10.96.0.1");
    let found = render_events(
        &["-o", "json", "--local-backend-weight", "2"],
        &[RESYNC, &service],
    );
    let backends = r#""backends":[{"ip":"10.1.1.3","port":8080,"weight":2,"local":true,"new_connections":0},{"ip":"10.1.2.3","port":8080,"weight":1,"local":false,"new_connections":0}]"#;
    let json = format!(
        r#"[{{"address":"10.96.0.1","port":80,"protocol":"TCP","kind":"ClusterIP","service":"default/web","service_port":"http","policy":"Cluster","selection":"weighted","forwarding":"snat","masquerade":"off","affinity_timeout":0,{backends}}},{{"address":"192.168.16.10","port":30080,"protocol":"TCP","kind":"NodePort","service":"default/web","service_port":"http","policy":"Cluster","selection":"weighted","forwarding":"snat","masquerade":"off","affinity_timeout":0,{backends}}}]"#
    );
    assert_eq!(found, (0, json + "\n", String::new()));
}

#[test]
fn people_get_a_line_for_each_frontend_or_for_each_backend() {
    let events = [RESYNC, &add("web", "10.96.0.1")];
    let (status, table, errors) = render_events(&[], &events);
    assert_eq!((status, errors.as_str()), (0, ""));
    assert_eq!(
        table,
        "\
FRONTEND                 KIND       SERVICE      PORT  POLICY   CLIENTS   BACKENDS  STATE
10.96.0.1:80/TCP         ClusterIP  default/web  http  Cluster  everyone  2         right
192.168.16.10:30080/TCP  NodePort   default/web  http  Cluster  everyone  2         right
"
    );
    let (status, table, errors) = render_events(&["-o", "wide"], &events);
    assert_eq!((status, errors.as_str()), (0, ""));
    assert_eq!(
        table,
        "\
FRONTEND                 KIND       SERVICE      PORT  POLICY   CLIENTS   SELECTION  FORWARDING  MASQUERADE  AFFINITY  BACKEND        WEIGHT  LOCAL  STATE
10.96.0.1:80/TCP         ClusterIP  default/web  http  Cluster  everyone  weighted   snat        off         -         10.1.1.3:8080  1       yes    right
10.96.0.1:80/TCP         ClusterIP  default/web  http  Cluster  everyone  weighted   snat        off         -         10.1.2.3:8080  1       no     right
192.168.16.10:30080/TCP  NodePort   default/web  http  Cluster  everyone  weighted   snat        off         -         10.1.1.3:8080  1       yes    right
192.168.16.10:30080/TCP  NodePort   default/web  http  Cluster  everyone  weighted   snat        off         -         10.1.2.3:8080  1       no     right
"
    );
}

#[test]
fn a_bad_line_is_reported_and_the_rest_is_rendered() {
    let (status, json, errors) = render_events(
        &["-o", "json"],
        &[RESYNC, "{}", &add("web", "10.96.0.1"), "hello"],
    );
    assert_eq!(status, 1);
    assert!(json.contains("10.96.0.1"), "{json}");
    assert_eq!(
        errors,
        "error: line 2: missing field `event`\nerror: line 4: not valid JSON: expected value (column 1)\n"
    );
}

#[test]
fn events_before_the_first_resync_are_applied_after_it() {
    let (status, json, errors) =
        render_events(&["-o", "json"], &[&add("web", "10.96.0.1"), RESYNC]);
    assert_eq!((status, errors.as_str()), (0, ""));
    assert!(json.contains("10.96.0.1"), "{json}");
}

#[test]
fn without_a_resync_nothing_is_rendered_and_that_is_said() {
    let found = render_events(&["-o", "json"], &[&add("web", "10.96.0.1")]);
    let note = "error: no Resync came: held back until one does: 1 event\n";
    assert_eq!(found, (1, "[]\n".to_owned(), note.to_owned()));
}

#[test]
fn conflicts_are_noted_and_are_no_error() {
    let (status, _, notes) = render_events(
        &[],
        &[RESYNC, &add("a", "10.96.0.1"), &add("b", "10.96.0.2")],
    );
    assert_eq!(status, 0);
    assert_eq!(
        notes,
        "conflict: service default/b: frontend 192.168.16.10:30080/TCP belongs to service default/a, \
         whose claim is older\n"
    );
}

#[test]
fn an_unusable_file_or_flag_is_status_2() {
    for flags in [
        &["--events", "/nonexistent/events"][..],
        &["--events", "/"],
        &["--events", "-", "--local-backend-weight", "0"],
        &["--events", "-", "--node-ip", "nowhere"],
        &["--events", "-", "--pod-cidr", "10.0.0.0/33"],
        &["--events", "-", "--output", "xml"],
        &[],
    ] {
        let Output { status, stderr, .. } = render(flags, "");
        assert_eq!(status.code(), Some(2), "{flags:?}");
        assert!(!stderr.is_empty(), "{flags:?}");
    }
}
