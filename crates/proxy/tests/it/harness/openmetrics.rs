//! Reads the text exposition of OpenMetrics, strictly.

use std::collections::BTreeMap;

/// A line of a series.
#[derive(Clone, Debug, PartialEq)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

/// What `/metrics` says.
#[derive(Clone, Debug, Default)]
pub(crate) struct OpenMetrics {
    samples: Vec<Sample>,
    /// By family.
    types: BTreeMap<String, String>,
}

impl OpenMetrics {
    /// Reads the text, and panics where it is not OpenMetrics.
    pub(crate) fn parse(text: &str) -> Self {
        let mut read = Self::default();
        let body = text.strip_suffix("# EOF\n").expect("the mark of the end");
        for line in body.lines() {
            if let Some(meta) = line.strip_prefix("# ") {
                let words: Vec<_> = meta.splitn(3, ' ').collect();
                let &[kind, family, value] = &*words else { panic!("three words: {line}") };
                match kind {
                    "TYPE" => {
                        let kind = value.into();
                        assert_eq!(read.types.insert(family.into(), kind), None, "{family} twice");
                    }
                    "UNIT" => assert!(family.ends_with(&format!("_{value}")), "{line}"),
                    "HELP" => assert!(!value.is_empty(), "{line}"),
                    _ => panic!("unknown: {line}"),
                }
            } else {
                read.samples.push(read.sample(line));
            }
        }
        for (at, sample) in read.samples.iter().enumerate() {
            let same =
                |other: &Sample| (&other.name, &other.labels) == (&sample.name, &sample.labels);
            assert!(!read.samples[..at].iter().any(same), "twice: {sample:?}");
        }
        read
    }

    fn sample(&self, line: &str) -> Sample {
        let (series, value) = line.rsplit_once(' ').expect("a value");
        let (name, labels) = match series.split_once('{') {
            Some((name, rest)) => (name, labels(rest.strip_suffix('}').expect("a brace"))),
            None => (series, BTreeMap::new()),
        };
        let value = value.parse().unwrap_or_else(|_| panic!("no number: {line}"));
        let family = self.types.keys().rfind(|family| name.starts_with(family.as_str()));
        let kind = &self.types[family.unwrap_or_else(|| panic!("no type: {line}"))];
        let suffix = name.rsplit('_').next().unwrap_or_default();
        match kind.as_str() {
            "counter" => assert!(suffix == "total" && value >= 0.0, "{line}"),
            "histogram" => assert!(["bucket", "count", "sum"].contains(&suffix), "{line}"),
            "gauge" => {}
            _ => panic!("unknown type {kind}: {line}"),
        }
        Sample { name: name.into(), labels, value }
    }

    /// The sum over the series of this name with these labels, at least one.
    pub(crate) fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        let has = |sample: &Sample, (name, value): &(&str, &str)| {
            sample.labels.get(*name).is_some_and(|has| has == value)
        };
        let named = self.samples.iter().filter(|sample| sample.name == name);
        let mut found = named.filter(|sample| labels.iter().all(|label| has(sample, label)));
        let first = found.next().unwrap_or_else(|| panic!("no {name} with {labels:?}"));
        first.value + found.map(|sample| sample.value).sum::<f64>()
    }

    pub(crate) fn families(&self) -> impl Iterator<Item = &str> {
        self.types.keys().map(String::as_str)
    }
}

/// `a="b",c="d"`; the values here have nothing to unescape.
fn labels(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split("\",").map(|pair| pair.split_once("=\"").expect("a label"));
    pairs.map(|(name, value)| (name.into(), value.trim_end_matches('"').into())).collect()
}
