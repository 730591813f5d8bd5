//! What lines cannot say as data.

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};

use super::pointer;
use super::run::Stage;
use crate::cargo;
use crate::page;

/// A step on a document, or on a part of it.
pub(super) type OfDocument = fn(&Stage<'_>, &mut Value) -> Result<()>;

pub(super) fn of_document(name: &str) -> Result<OfDocument> {
    Ok(match name {
        "hiccups" => hiccups,
        "per-query" => per_query,
        "gap" => gap,
        "rivals" => rivals,
        "chain" => chain,
        _ => bail!("there is no step {name:?} on documents"),
    })
}

/// A figure of a document.
fn number(document: &Value, pointer: &str) -> f64 {
    document.pointer(pointer).and_then(pointer::number).unwrap_or(f64::NAN)
}

/// How long the hiccups of a leaf really took, which is longer than asked for: a long sleep ends
/// late. What it takes beyond P without a hiccup is not part of one. And how far what was found is
/// off, where 200 hiccups are expected: those that saw 200 by chance saw too many. A run with too
/// few hiccups prints no duration: that is neither covered nor missed.
fn hiccups(_: &Stage<'_>, part: &mut Value) -> Result<()> {
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

/// How far the p99 of per-shard queuing is above the bound, where there is something to gain.
fn gap(_: &Stage<'_>, document: &mut Value) -> Result<()> {
    for world in document.as_array_mut().into_iter().flatten() {
        let [psq, bound] = [0, 2].map(|at| number(world, &format!("/json/{at}/request/p99")));
        if bound <= 0.8 * psq {
            world["gap"] = json!(psq - bound);
        }
    }
    Ok(())
}

/// How many times the half of a 95 % interval of six replications is that of 99.8 %: what lies beyond on one side is as sure
/// as 99.9 %.
const SURE: f64 = 2.2921;

/// By world: is a policy below the first one at p99, beyond the interval (`behind`), and by more than 1 %, as sure as 99.9 %
/// (`beaten`)? Four rivals are compared, so some are beyond the interval by chance. Prints these worlds.
fn rivals(_: &Stage<'_>, document: &mut Value) -> Result<()> {
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

/// What 10,000 queries more cost, by query.
fn per_query(_: &Stage<'_>, document: &mut Value) -> Result<()> {
    let short = document["short"].clone();
    for (at, long) in document["long"].as_array_mut().into_iter().flatten().enumerate() {
        let more = number(long, "/lines/0/last") - number(&short[at], "/lines/0/last");
        long["per_query"] = json!(more / 10_000.0);
    }
    Ok(())
}

/// The commands of docs/chain.md, in full: the gain that was predicted, and the one that is measured.
fn chain(stage: &Stage<'_>, document: &mut Value) -> Result<()> {
    let text = std::fs::read_to_string(stage.root.join("docs/chain.md"))?;
    let mut commands = page::commands(&text);
    // The same question once more has the same answer.
    let asked = commands.iter().find(|command| command.starts_with("curtail advise"));
    let asked = asked.context("the page asks for no advice")?.split(" --out").next();
    commands.push(format!("{} --json", asked.unwrap_or_default()));
    commands.push("curtail report before after --json".to_owned());
    let all = cargo::run_page(stage.root, &commands, &stage.folder.join("page"))?;
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
    // The least ratio is the largest gain.
    let [ours_high, ours_low] =
        [0, 1].map(|at| 1.0 - number(&measured, &format!("/runs/1/ratio_ci95/p99/{at}")));
    // Of the two sides that face each other.
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
