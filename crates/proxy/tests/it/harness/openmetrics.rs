//! Parses the OpenMetrics text format.

/// The lines of `/metrics`, each as its series and its value.
pub(crate) struct OpenMetrics(Vec<(String, f64)>);

impl OpenMetrics {
    /// Parses the text. Panics if a series has no type or appears twice.
    pub(crate) fn parse(text: &str) -> Self {
        let mut read: Vec<(String, f64)> = Vec::new();
        let mut family = "";
        let body = text.strip_suffix("# EOF\n").expect("the end mark");
        for line in body.lines() {
            if let Some(meta) = line.strip_prefix("# ") {
                family = meta.split(' ').nth(1).expect("a family");
                continue;
            }
            let (series, value) = line.rsplit_once(' ').expect("a value");
            assert!(series.starts_with(family), "{line} in {family}");
            assert!(read.iter().all(|(other, _)| other != series), "twice: {series}");
            read.push((series.into(), value.parse().expect("a number")));
        }
        Self(read)
    }

    /// Returns the sum over the series with this name and these labels, of which there must be at
    /// least one.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let labels: Vec<_> =
            labels.iter().map(|(name, value)| format!("{name}=\"{value}\"")).collect();
        let matches = |series: &str| {
            series.split('{').next() == Some(name)
                && labels.iter().all(|label| series.contains(label))
        };
        let found: Vec<f64> =
            self.0.iter().filter(|(series, _)| matches(series)).map(|&(_, value)| value).collect();
        assert!(!found.is_empty(), "no {name} with {labels:?}");
        found.iter().sum()
    }

    /// Returns [`sum`](Self::sum) as an integer.
    pub(crate) fn count(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        self.sum(name, labels) as u64
    }
}
