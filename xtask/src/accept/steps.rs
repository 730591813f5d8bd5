//! Processing steps that cannot be expressed in the data of a line.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::pointer;
use super::run::Environment;
use crate::cargo;
use crate::page;

/// A function that processes a document or a part of it.
pub(super) type OfDocument = fn(&Environment<'_>, &mut Value) -> Result<()>;

pub(super) fn of_document(name: &str) -> Result<OfDocument> {
    Ok(match name {
        "hiccups" => hiccups,
        "per-query" => per_query,
        "gap" => gap,
        "rivals" => rivals,
        "chain" => chain,
        _ => bail!("unknown step on documents: {name:?}"),
    })
}

/// Returns a number in a document, or NaN if there is none.
fn number(document: &Value, pointer: &str) -> f64 {
    document.pointer(pointer).and_then(pointer::number).unwrap_or(f64::NAN)
}

/// Compares the hiccups that `curtail jitter` found with those that the leaf really had.
///
/// The real duration is longer than the configured one, because a long sleep ends late. Executions
/// without a hiccup also have a delay beyond P. This delay is not part of a hiccup, so it is
/// subtracted. `many` marks the parts with at least 200 expected hiccups. The criterion is the
/// expected number, not the observed one: parts with 200 observed hiccups have often reached that
/// number only by chance, so they tend to have too many. A run with too few hiccups prints no
/// duration, which counts as neither covered nor missed.
fn hiccups(_: &Environment<'_>, part: &mut Value) -> Result<()> {
    let counted = |name: &str| number(part, &format!("/stats/{name}"));
    let late = counted("late_time_ns") / (counted("served") - counted("hiccups"));
    let took_ns = counted("hiccup_time_ns") / counted("hiccups") - late;
    let expected = number(part, "/probability") * number(part, "/json/executions");
    let mut found = json!({"many": expected >= 200.0});
    let truths = [("probability", number(part, "/probability")), ("duration", took_ns)];
    for ((name, truth), is) in truths.into_iter().zip(["probability", "duration_ns"]) {
        let is = number(part, &format!("/json/hiccup/{is}"));
        let [low, high] = [0, 1].map(|at| number(part, &format!("/json/hiccup/{name}_ci95/{at}")));
        found[format!("{name}_off")] = json!((is / truth - 1.0).abs());
        let unknown = name == "duration" && is.is_nan();
        found[format!("{name}_covered")] =
            json!((!unknown).then_some(low <= truth && truth <= high));
    }
    let found = found.as_object_mut().context("it is one")?;
    part.as_object_mut().context("a part")?.append(found);
    Ok(())
}

/// Computes how far the p99 of per-shard queuing is above the bound, in worlds where an improvement
/// is possible.
fn gap(_: &Environment<'_>, document: &mut Value) -> Result<()> {
    for world in document.as_array_mut().into_iter().flatten() {
        let [psq, bound] = [0, 2].map(|at| number(world, &format!("/json/{at}/request/p99")));
        if bound <= 0.8 * psq {
            world["gap"] = json!(psq - bound);
        }
    }
    Ok(())
}

/// The half-width of a 99.8 % interval divided by that of a 95 % interval, for six replications. A
/// value beyond one end of the 99.8 % interval is significant at 99.9 %.
const SURE: f64 = 2.2921;

/// Compares the first policy with the others in each world. `behind` is 1 if another policy's p99
/// is lower by more than the 95 % interval. `beaten` is 1 if another policy's p99 is lower by more
/// than 1 % at 99.9 % significance. Four rivals are compared, so some are beyond the interval by
/// chance. Prints these worlds.
fn rivals(_: &Environment<'_>, document: &mut Value) -> Result<()> {
    for world in document.as_array_mut().into_iter().flatten() {
        let p99 = number(world, "/json/0/request/p99");
        let least = |at: usize, intervals: f64| {
            let of = |what: &str| number(world, &format!("/json/{at}/versus_first/{what}/p99"));
            1.0 + (of("difference") + intervals * of("ci95")) / p99
        };
        let all = world["json"].as_array().into_iter().flatten();
        let stable: Vec<bool> = all.map(|policy| policy["stable"] == json!(true)).collect();
        let best = |intervals: f64| {
            let others = (1..stable.len()).filter(|&at| stable[at]);
            let ratio = |at| if stable[0] { least(at, intervals) } else { 0.0 };
            others.map(|at| (ratio(at), at)).min_by(|(a, _), (b, _)| a.total_cmp(b))
        };
        let behind = best(1.0).filter(|(ratio, _)| *ratio < 1.0);
        let beaten = best(SURE).is_some_and(|(ratio, _)| ratio < 0.99);
        if let Some((ratio, at)) = behind {
            let of = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let [policy, flags] = [of(&world["json"][at]["policy"]), of(&world["flags"])];
            let how = if beaten { "beaten" } else { "behind" };
            let (number, ratio) = (number(world, "/number"), 100.0 * (1.0 - ratio));
            eprintln!("world {number}: {how} by {policy}, {ratio:.1} % or more: {flags}");
        }
        if stable.contains(&true) {
            world["behind"] = json!(u8::from(behind.is_some()));
            world["beaten"] = json!(u8::from(beaten));
        }
    }
    Ok(())
}

/// Computes the cost per query from the difference between runs whose lengths differ by 10,000
/// queries.
fn per_query(_: &Environment<'_>, document: &mut Value) -> Result<()> {
    let short = document["short"].clone();
    for (at, long) in document["long"].as_array_mut().into_iter().flatten().enumerate() {
        let more = number(long, "/lines/0/last") - number(&short[at], "/lines/0/last");
        long["per_query"] = json!(more / 10_000.0);
    }
    Ok(())
}

/// Runs all commands of docs/chain.md and compares the predicted gain with the measured gain.
fn chain(environment: &Environment<'_>, document: &mut Value) -> Result<()> {
    let text = std::fs::read_to_string(environment.root.join("docs/chain.md"))?;
    let mut commands = page::commands(&text);
    // This is the same `advise` command again. It yields the same result, but as JSON and without
    // `--out`.
    let advise = commands.iter().find(|command| command.starts_with("curtail advise"));
    let advise = advise.context("the page contains no advice")?.split(" --out").next();
    commands.push(format!("{} --json", advise.unwrap_or_default()));
    commands.push("curtail report before after --json".to_owned());
    let all = cargo::run_page(environment.root, &commands, &environment.folder.join("page"))?;
    for ran in &all {
        eprintln!("$ {}\n{}", ran.command, ran.printed);
        ensure!(matches!(ran.code, Some(0 | 1)), "{} ended with {:?}", ran.command, ran.code);
    }
    let json = |back: usize| -> Result<Value> {
        Ok(serde_json::from_str(&all[all.len() - back].printed)?)
    };
    let (predicted, measured) = (json(2)?, json(1)?);
    let gain = number(&predicted, "/gain/p99");
    let [low, high] = [0, 1].map(|at| number(&predicted, &format!("/gain_ci95/p99/{at}")));
    let ours = 1.0 - number(&measured, "/runs/1/ratio_to_first/p99");
    // The lowest ratio is the highest gain.
    let [ours_high, ours_low] =
        [0, 1].map(|at| 1.0 - number(&measured, &format!("/runs/1/ratio_ci95/p99/{at}")));
    // Combines the halves of the two intervals that face each other.
    let chance = if ours < gain {
        (gain - low).hypot(ours_high - ours)
    } else {
        (high - gain).hypot(ours - ours_low)
    };
    *document = json!({
        "policy": predicted["policy"], "predicted": gain, "measured": ours,
        "apart": (ours - gain).abs(), "chance": chance, "runs": measured["runs"],
    });
    Ok(())
}
