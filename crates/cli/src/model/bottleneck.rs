//! `curtail model bottleneck`: which of several components saturates first.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use curtail_queueing::bottleneck::{BottleneckError, Component, bottleneck};
use serde::{Deserialize, Serialize};

use super::rows::{self, malformed};
use super::values::{OneUnit, Rate, figure, rate_words, unit_words};
use super::{Answer, refused};
use crate::exit::Stop;
use crate::files;

/// What a row of the file is.
const FORM: &str = "NAME,VISITS,SERVICE,SERVERS";

/// Which component saturates first, and at what throughput: that of the whole system.
///
/// A request visits a component so many times, each for a mean service time, without waiting; the
/// component has so many servers. Visits may be fractions: 0.2 where one request in five gets there.
/// What comes out holds whatever the distributions are.
///
/// The file has a component per line, NAME,VISITS,SERVICE,SERVERS, where a first line of names is
/// skipped and `#` starts a comment; or it is TOML, if its name ends so. Service times have a unit
/// (5ms), all or none.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  printf '%s\\n' 'web,1,2ms,4' 'cache,3,0.1ms,1' 'disk,0.2,8ms,1' > system.csv
  curtail model bottleneck system.csv --throughput 500/s

As TOML:
  [[component]]
  name = \"disk\"
  visits = 0.2        # by default 1
  service = \"8ms\"     # or a number without a unit
  servers = 1         # by default 1")]
pub(super) struct Args {
    /// The file of components
    file: PathBuf,
    /// Tell utilizations at this throughput: requests per unit of time, or as 100/s
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    throughput: Option<Rate>,
}

/// What saturates when.
#[derive(Serialize)]
pub(super) struct Saturation {
    bottleneck: String,
    max_throughput: f64,
    throughput: Option<f64>,
    unit: &'static str,
    rate_unit: &'static str,
    /// The bottleneck first.
    components: Vec<Bears>,
}

#[derive(Serialize)]
struct Bears {
    name: String,
    visits: f64,
    mean_service: f64,
    servers: u32,
    /// Service that a request demands.
    demand: f64,
    /// None where requests demand nothing.
    max_throughput: Option<f64>,
    /// At the throughput that was asked about; above 1 where it cannot be.
    utilization: Option<f64>,
}

/// A system as TOML.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    component: Vec<Table>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    name: String,
    #[serde(default = "one")]
    visits: f64,
    service: Span,
    #[serde(default = "one_server")]
    servers: u32,
}

fn one() -> f64 {
    1.0
}

fn one_server() -> u32 {
    1
}

/// A time with a unit, or a number.
#[derive(Deserialize)]
#[serde(untagged, expecting = "write a number, or a time in quotes, as \"5ms\"")]
enum Span {
    Text(String),
    Number(f64),
}

pub(super) fn answer(args: &Args) -> Result<Saturation, Stop> {
    let file = &args.file;
    let mut unit = OneUnit::default();
    let is_toml = file.extension().is_some_and(|extension| extension == "toml");
    let components = if is_toml { of_toml(file, &mut unit)? } else { of_rows(file, &mut unit)? };
    let scale = unit.scale();
    let throughput =
        args.throughput.map(|rate| rate.of_model(scale, "--throughput")).transpose()?;
    let found = bottleneck(&components)
        .map_err(|error| refused(format_args!("{}: {error}", file.display())))?;
    let bears = found.components.iter().map(|demand| {
        let Component { name, visits, mean_service, servers } = components[demand.index].clone();
        let max = scale.rate(demand.max_throughput);
        Bears {
            name,
            visits,
            mean_service,
            servers,
            demand: demand.demand,
            max_throughput: max.is_finite().then_some(max),
            utilization: throughput.map(|throughput| demand.utilization(throughput)),
        }
    });
    Ok(Saturation {
        bottleneck: found.bottleneck().map(|demand| demand.name.clone()).unwrap_or_default(),
        max_throughput: scale.rate(found.max_throughput),
        throughput: throughput.map(|rate| scale.rate(rate)),
        unit: scale.unit(),
        rate_unit: scale.rate_unit(),
        components: bears.collect(),
    })
}

fn of_rows(file: &Path, unit: &mut OneUnit) -> Result<Vec<Component>, Stop> {
    let rows = rows::read(file, FORM, |fields| {
        let &[name, visits, service, servers] = fields else {
            return Err(malformed(fields, FORM));
        };
        let bad = |what, text, mend| format!("`{text}` is not a number of {what}; write {mend}");
        let component = Component {
            name: checked(name)?,
            visits: visits.parse().map_err(|_| bad("visits", visits, "a number such as 0.5"))?,
            mean_service: unit.read(service)?,
            servers: servers.parse().map_err(|_| bad("servers", servers, "1 or more"))?,
        };
        // Alone, so that what is out of range has a line.
        match bottleneck(std::slice::from_ref(&component)) {
            Err(error @ BottleneckError::OutOfRange { .. }) => Err(error.to_string()),
            _ => Ok(component),
        }
    })?;
    Ok(rows.into_iter().map(|row| row.value).collect())
}

/// A name that can be told.
fn checked(name: &str) -> Result<String, String> {
    if name.is_empty() {
        return Err("a component has an empty name; name it".to_owned());
    }
    if name.contains(char::is_control) {
        return Err(format!("the name `{name}` has a control character; leave it out"));
    }
    Ok(name.to_owned())
}

fn of_toml(file: &Path, unit: &mut OneUnit) -> Result<Vec<Component>, Stop> {
    let bad = |why: &dyn std::fmt::Display| refused(format_args!("{}: {why}", file.display()));
    let File { component } = files::toml(file)?;
    let components = component.into_iter().map(|Table { name, visits, service, servers }| {
        let text = match service {
            Span::Text(text) => text,
            Span::Number(number) => number.to_string(),
        };
        let name = checked(&name).map_err(|why| bad(&why))?;
        let mean_service = unit.read(&text).map_err(|why| bad(&format_args!("{name}: {why}")))?;
        Ok(Component { name, visits, mean_service, servers })
    });
    components.collect()
}

impl Answer for Saturation {
    fn text(&self) -> String {
        let rate = |rate| rate_words(rate, self.rate_unit);
        let wide = self.components.iter().map(|of| of.name.chars().count()).max().unwrap_or(0);
        let wide = wide.max("component".len());
        let mut text = format!(
            "{} saturates first, at {}; times in {}\n\n{:<wide$}{:>12}{:>9}{:>14}",
            self.bottleneck,
            rate(self.max_throughput),
            unit_words(self.unit),
            "component",
            "demand",
            "servers",
            "saturates at"
        );
        if let Some(throughput) = self.throughput {
            let _ = write!(text, "   busy at {}", rate(throughput));
        }
        text.push('\n');
        for of in &self.components {
            let max = of.max_throughput.map_or("never".to_owned(), rate);
            let demand = figure(of.demand);
            let _ = write!(text, "{:<wide$}{demand:>12}{:>9}{max:>14}", of.name, of.servers);
            if let Some(busy) = of.utilization {
                let over = if busy >= 1.0 { ": overload" } else { "" };
                let _ = write!(text, "   {:.1} %{over}", busy * 100.0);
            }
            text.push('\n');
        }
        text
    }
}
