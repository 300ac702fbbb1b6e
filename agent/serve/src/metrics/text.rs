//! The older of Prometheus' two text formats, for those who do not ask for OpenMetrics.

/// The type of an answer in OpenMetrics.
pub(crate) const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The type of an answer in the older format.
pub(crate) const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Returns whether a client that accepts this understands OpenMetrics.
pub(crate) fn accepts_open_metrics(accept: &str) -> bool {
    accept.contains("application/openmetrics-text")
}

/// Returns the content of OpenMetrics in the older format: it has a counter's description under the name that
/// the counter's samples have, and knows no units and no end.
pub(crate) fn plain(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len());
    let mut help = "";
    for line in open_metrics.lines() {
        if let Some(described) = line.strip_prefix("# HELP ") {
            help = described.split_once(' ').map_or("", |(_, help)| help);
        } else if let Some((name, kind)) = line
            .strip_prefix("# TYPE ")
            .and_then(|typed| typed.split_once(' '))
        {
            let suffix = if kind == "counter" { "_total" } else { "" };
            text.push_str(&format!("# HELP {name}{suffix} {help}\n"));
            text.push_str(&format!("# TYPE {name}{suffix} {kind}\n"));
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_has_its_samples_name_in_the_older_format() {
        let open_metrics = "# HELP a Some a.\n# TYPE a counter\n# UNIT a seconds\na_total 1\n\
                            # HELP b_total Some b.\n# TYPE b_total gauge\nb_total{x=\"# y\"} 2.5\n\
                            # EOF\n";
        let expected = "# HELP a_total Some a.\n# TYPE a_total counter\na_total 1\n\
                        # HELP b_total Some b.\n# TYPE b_total gauge\nb_total{x=\"# y\"} 2.5\n";
        assert_eq!(plain(open_metrics), expected);
    }

    #[test]
    fn prometheus_asks_for_open_metrics() {
        let prometheus =
            "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;q=0.2,*/*;q=0.1";
        assert!(accepts_open_metrics(prometheus));
        for other in ["", "*/*", "text/plain;version=0.0.4"] {
            assert!(!accepts_open_metrics(other), "{other}");
        }
    }
}
