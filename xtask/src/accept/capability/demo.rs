//! The first command of the README, on a fresh clone, and what the demo shows.

use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use serde_json::Value;

use super::clean::{Clone, cores};
use crate::accept::finding::{Finding, Verdict};
use crate::reason::{self, Reason};

/// Utilizations over which the gain is averaged.
const LOW: [f64; 4] = [0.1, 0.2, 0.3, 0.4];
const GAIN_LEAST: f64 = 0.30;
/// Where naive hedging has collapsed: its p99 is so many times PSQ's.
const COLLAPSED_AT: f64 = 0.6;
const COLLAPSE_LEAST: f64 = 3.0;
const POOLED: u64 = 15_000;
const POOLED_MOST: f64 = 1.15;

pub(super) fn judge(root: &Path) -> Result<Vec<Finding>> {
    let clone = Clone::fresh(root)?;
    let (build, built) = clone.timed(&["build", "--release"])?;
    let (full, shown) = clone.timed(&["run", "--release", "--", "demo"])?;
    let (quick, hurried) =
        clone.timed(&["run", "--release", "--", "demo", "--quick", "--out", "out/quick"])?;
    let args = ["--loads", "0.7", "--policies", "psq,laedge", "--out", "out/pool", "--requests"];
    let pooled = POOLED.to_string();
    let (_, ran) =
        clone.timed(&[&["run", "--release", "--", "demo"], &args[..], &[&pooled]].concat())?;
    let within = |what: &str, seconds: u64, took: Duration, done: bool| {
        let figure = format!("{:.0} s on {} cores", took.as_secs_f64(), cores());
        Finding::new(
            format!("{what} in under {seconds} s"),
            figure,
            done && took < Duration::from_secs(seconds),
        )
    };
    let mut findings = vec![
        within("a fresh clone compiles", 240, build, built),
        within("`cargo run --release -- demo` runs", 300, full, shown),
        within("`… demo --quick` runs", 75, quick, hurried),
    ];
    let pooled = match ran {
        true => clone.json("out/pool/results.json"),
        false => Err(anyhow!("the pooled run fails")),
    };
    findings.extend(shows(&clone.json("out/demo/results.json"), &pooled));
    Ok(findings)
}

/// What the documents of the demo and of the pooled run show. What cannot be judged is broken: a
/// claim must not vanish with its figure.
fn shows(results: &Result<Value>, pooled: &Result<Value>) -> Vec<Finding> {
    type Judge = fn(&Value) -> Result<(String, bool)>;
    let claims: [(String, Judge, _); 3] = [
        ("LÆDGE's p99 is at least 30 % below PSQ's on average over 10–40 %".into(), gain, results),
        ("naive hedging collapses beyond 50 %".into(), collapse, results),
        (
            format!("over {POOLED} requests at 70 % LÆDGE's p99 is within 15 % of PSQ's"),
            pool,
            pooled,
        ),
    ];
    let finding = |(claim, judge, document): (String, Judge, &Result<Value>)| match document {
        Ok(document) => match judge(document) {
            Ok((figure, holds)) => Finding::new(claim, figure, holds),
            Err(error) => Finding::new(claim, format!("{error:#}"), Verdict::Broken),
        },
        Err(error) => Finding::new(claim, format!("{error:#}"), Verdict::Broken),
    };
    claims.into_iter().map(finding).collect()
}

fn gain(results: &Value) -> Result<(String, bool)> {
    let mut gains = Vec::new();
    for load in LOW {
        gains.push(1.0 - p99(results, "laedge", load)? / p99(results, "psq", load)?);
    }
    let mean = gains.iter().sum::<f64>() / gains.len() as f64;
    let each: Vec<String> = gains.iter().map(|gain| format!("{:.0}", gain * 100.0)).collect();
    let figure = format!("{:.0} % below ({} % at each)", mean * 100.0, each.join(", "));
    Ok((figure, mean >= GAIN_LEAST))
}

/// Where naive hedging collapses, its measurement need not be sound: who does not sustain the rate
/// has collapsed, whatever the p99 of the requests that it did answer.
fn collapse(results: &Value) -> Result<(String, bool)> {
    let psq = p99(results, "psq", COLLAPSED_AT)?;
    let naive = cell(results, "naive", COLLAPSED_AT)?;
    let ratio = naive["p99_ms"].as_f64().map(|naive| naive / psq);
    let far = ratio.is_some_and(|ratio| ratio >= COLLAPSE_LEAST);
    if naive["valid"] == true {
        let ratio = ratio.context("naive at 0.6 has no p99")?;
        return Ok((format!("at 60 % its p99 is {ratio:.1} × PSQ's"), far));
    }
    let reasons = reasons(naive);
    let told = match ratio {
        Some(ratio) => format!("{ratio:.1} × PSQ's among those answered"),
        None => "unknown, for too few were answered".to_owned(),
    };
    let figure = format!("at 60 % its p99 is {told}; {}", because(naive));
    // A root that has ended has not collapsed, and a run that was interrupted tells nothing.
    let of_load = |why: &&str| {
        Reason::of(why) != Reason::Other && !reason::tells_of_a_server_that_is_gone(why)
    };
    if reasons.is_empty() || !reasons.iter().all(of_load) {
        return Ok((figure, false));
    }
    // A generator that fell behind says nothing on its own: others may have used the machine.
    let swamped = reasons.iter().any(|why| Reason::of(why) != Reason::FellBehind);
    Ok((figure, far || swamped))
}

fn pool(results: &Value) -> Result<(String, bool)> {
    let ratio = p99(results, "laedge", 0.7)? / p99(results, "psq", 0.7)?;
    Ok((format!("{ratio:.3} × PSQ's"), ratio <= POOLED_MOST))
}

/// In ms, of the demo's document; an error if the demo does not vouch for it.
fn p99(results: &Value, policy: &str, load: f64) -> Result<f64> {
    let cell = cell(results, policy, load)?;
    ensure!(cell["valid"] == true, "{policy} at {load} is not sound: {}", because(cell));
    cell["p99_ms"].as_f64().with_context(|| format!("{policy} at {load} has no p99"))
}

fn cell<'a>(results: &'a Value, policy: &str, load: f64) -> Result<&'a Value> {
    let cells = results["policies"][policy].as_array().with_context(|| format!("no {policy}"))?;
    let at = |cell: &&Value| cell["load"].as_f64().is_some_and(|at| (at - load).abs() < 1e-9);
    cells.iter().find(at).with_context(|| format!("no {policy} at {load}"))
}

/// Why the demo does not vouch for a cell.
fn reasons(cell: &Value) -> Vec<&str> {
    let reasons = cell["invalid_because"].as_array().into_iter().flatten();
    reasons.filter_map(Value::as_str).collect()
}

fn because(cell: &Value) -> String {
    match reasons(cell).as_slice() {
        [] => "the demo does not say why".into(),
        reasons => reasons.join("; "),
    }
}

impl Clone {
    /// Runs cargo with its output shown; how long it took, and whether it succeeded.
    fn timed(&self, args: &[&str]) -> Result<(Duration, bool)> {
        let start = Instant::now();
        let succeeded = crate::cargo::succeeds(&mut self.cargo(args))?;
        Ok((start.elapsed(), succeeded))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// All cells are sound.
    fn results(laedge: f64, naive: f64) -> Value {
        let cells = |p99: f64| {
            let loads = [0.1, 0.2, 0.3, 0.4, 0.6, 0.7];
            json!(loads.map(|load| json!({"load": load, "p99_ms": p99, "valid": true})))
        };
        json!({"policies": {"psq": cells(10.0), "laedge": cells(laedge), "naive": cells(naive)}})
    }

    /// The cell of a policy at 10 % is the first, at 60 % the fifth, at 70 % the last.
    fn with(mut results: Value, policy: &str, at: usize, key: &str, value: Value) -> Value {
        results["policies"][policy][at][key] = value;
        results
    }

    fn unsound(results: Value, policy: &str, at: usize, why: &str) -> Value {
        let results = with(results, policy, at, "valid", json!(false));
        with(results, policy, at, "invalid_because", json!([why]))
    }

    const SHORT: &str = "fell short: 939 of 1050 requests were answered well and in time, 111 \
                         without an answer in time; the server does not sustain this rate";
    const BEHIND: &str = "fell behind: 40 of 1050 requests were sent more than 1 ms after their \
                          intended times; use a less busy machine, or a lower rate";

    #[test]
    fn the_bounds_are_kept() {
        let good = results(7.0, 30.0);
        let bad = results(11.6, 29.0);
        for (judge, name) in [
            (gain as fn(&Value) -> Result<(String, bool)>, "gain"),
            (collapse, "collapse"),
            (pool, "pool"),
        ] {
            assert!(judge(&good).unwrap().1, "{name}");
            assert!(!judge(&bad).unwrap().1, "{name}");
        }
        assert!(p99(&good, "random", 0.1).is_err() && p99(&good, "psq", 0.5).is_err());
    }

    #[test]
    fn a_claim_that_cannot_be_judged_is_broken() {
        let good = Ok(results(7.0, 30.0));
        let verdicts = |results: &_, pooled: &_| {
            shows(results, pooled).iter().map(|finding| finding.verdict).collect::<Vec<_>>()
        };
        let (holds, broken) = (Verdict::Holds, Verdict::Broken);
        assert_eq!(verdicts(&good, &good), [holds, holds, holds]);
        let null = |policy, at| Ok(with(results(7.0, 30.0), policy, at, "p99_ms", Value::Null));
        assert_eq!(verdicts(&null("laedge", 0), &good), [broken, holds, holds]);
        assert_eq!(verdicts(&null("naive", 4), &good), [holds, broken, holds]);
        assert_eq!(verdicts(&good, &null("psq", 5)), [holds, holds, broken]);
        assert_eq!(verdicts(&Err(anyhow!("no document")), &good), [broken, broken, holds]);
        let told = shows(&null("laedge", 0), &Err(anyhow!("the pooled run fails")));
        let told: Vec<String> = told.iter().map(ToString::to_string).collect();
        assert!(told[0].starts_with("BROKEN   LÆDGE's p99 is at least 30 % below"), "{told:?}");
        assert!(told[0].ends_with(": laedge at 0.1 has no p99"), "{told:?}");
        assert!(told[2].ends_with(": the pooled run fails"), "{told:?}");
    }

    #[test]
    fn what_the_demo_does_not_vouch_for_does_not_count() {
        for policy in ["psq", "laedge"] {
            let error = gain(&unsound(results(7.0, 30.0), policy, 0, BEHIND)).unwrap_err();
            assert_eq!(error.to_string(), format!("{policy} at 0.1 is not sound: {BEHIND}"));
            let error = pool(&unsound(results(7.0, 30.0), policy, 5, SHORT)).unwrap_err();
            assert_eq!(error.to_string(), format!("{policy} at 0.7 is not sound: {SHORT}"));
        }
        assert!(collapse(&unsound(results(7.0, 30.0), "psq", 4, SHORT)).is_err());
        let silent = with(results(7.0, 30.0), "psq", 0, "valid", Value::Null);
        assert!(gain(&silent).unwrap_err().to_string().ends_with("does not say why"));
    }

    #[test]
    fn who_does_not_sustain_the_rate_has_collapsed() {
        let judged = |naive: f64, why: &str| {
            collapse(&unsound(results(7.0, naive), "naive", 4, why)).expect("a figure")
        };
        let (figure, holds) = judged(20.0, SHORT);
        assert!(holds);
        assert_eq!(figure, format!("at 60 % its p99 is 2.0 × PSQ's among those answered; {SHORT}"));
        let few = with(results(7.0, 1.0), "naive", 4, "p99_ms", Value::Null);
        let (figure, holds) = collapse(&unsound(few, "naive", 4, SHORT)).expect("a figure");
        assert!(holds && figure.contains("p99 is unknown, for too few were answered; fell short"));
        // Behind its schedule is the generator: the p99 has to show the collapse.
        assert!(judged(30.0, BEHIND).1 && !judged(29.0, BEHIND).1);
        assert!(!judged(99.0, "interrupted: partial results").1);
        // Errors are told twice: they make the rate fall short, and they have no latency.
        let errors = unsound(results(7.0, 20.0), "naive", 4, SHORT);
        let left_out = "left out: 111 of 1050 requests have no good answer, 111 without an answer \
                        in time; the percentiles are of the others";
        let errors = with(errors, "naive", 4, "invalid_because", json!([SHORT, left_out]));
        assert!(collapse(&errors).expect("a figure").1);
        let gone = "fell short: 0 of 9 requests were answered well and in time, 9 without a \
                    connection";
        assert!(!judged(99.0, gone).1);
        let silent = with(results(7.0, 99.0), "naive", 4, "valid", json!(false));
        assert!(!collapse(&silent).expect("a figure").1);
    }
}
