//! Metrics whose values are read when they are asked for.

use std::{borrow::Cow, fmt, time::Duration};

use prometheus_client::{
    encoding::{DescriptorEncoder, NoLabelSet},
    metrics::MetricType,
};

/// A series: the values of its labels, and its own.
pub(crate) type Series<T> = (Vec<Cow<'static, str>>, T);

/// Writes metrics of which each has the same labels in all its series.
pub(crate) struct Samples<'e>(pub(crate) DescriptorEncoder<'e>);

impl Samples<'_> {
    /// A counter; `_total` is added to its name.
    pub(crate) fn counter(
        &mut self,
        name: &str,
        help: &str,
        labels: &[&'static str],
        series: impl IntoIterator<Item = Series<u64>>,
    ) -> fmt::Result {
        let mut metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        for (values, count) in series {
            if values.is_empty() {
                metric.encode_counter::<NoLabelSet, _, f64>(&count, None)?;
                continue;
            }
            let labels = pairs(labels, &values);
            metric
                .encode_family(&labels)?
                .encode_counter::<NoLabelSet, _, f64>(&count, None)?;
        }
        Ok(())
    }

    /// A counter of time, without labels; `_total` is added to its name.
    pub(crate) fn counter_seconds(
        &mut self,
        name: &str,
        help: &str,
        time: Duration,
    ) -> fmt::Result {
        let mut metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Counter)?;
        metric.encode_counter::<NoLabelSet, _, f64>(&time.as_secs_f64(), None)
    }

    /// A gauge.
    pub(crate) fn gauge(
        &mut self,
        name: &str,
        help: &str,
        labels: &[&'static str],
        series: impl IntoIterator<Item = Series<f64>>,
    ) -> fmt::Result {
        let mut metric = self
            .0
            .encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (values, value) in series {
            if values.is_empty() {
                metric.encode_gauge(&value)?;
                continue;
            }
            let labels = pairs(labels, &values);
            metric.encode_family(&labels)?.encode_gauge(&value)?;
        }
        Ok(())
    }
}

fn pairs<'a>(
    labels: &[&'static str],
    values: &'a [Cow<'static, str>],
) -> Vec<(&'static str, &'a str)> {
    debug_assert_eq!(labels.len(), values.len(), "a value for each label");
    let values = values.iter().map(AsRef::as_ref);
    labels.iter().copied().zip(values).collect()
}

/// A series without labels.
pub(crate) const fn one<T>(value: T) -> [Series<T>; 1] {
    [(Vec::new(), value)]
}

/// A series with one label.
pub(crate) fn of<T>(label: impl Into<Cow<'static, str>>, value: T) -> Series<T> {
    (vec![label.into()], value)
}

/// Returns whether something is so.
pub(crate) const fn flag(is_so: bool) -> f64 {
    if is_so { 1.0 } else { 0.0 }
}
