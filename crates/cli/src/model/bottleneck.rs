//! `curtail model bottleneck`: finds which of several components saturates first.

use std::path::{Path, PathBuf};

use curtail_queueing::bottleneck::{BottleneckError, Component, Demand, bottleneck};
use serde::Serialize;

use super::rows::{self, malformed};
use super::values::{OneUnit, Rate, figure, rate_words};
use super::{ModelResult, refused};
use crate::digits;
use crate::exit::Stop;
use crate::table::row;

/// The format of the file's rows.
const FORM: &str = "NAME,VISITS,SERVICE,SERVERS";

/// Find which component saturates first, and at what throughput, which is the maximum of the whole
/// system.
///
/// A visit takes SERVICE on average, excluding the waiting time. A visit takes SERVICE on average,
/// not counting the wait. The component has SERVERS servers. Visits may be fractions: 0.2 if one
/// request in five reaches the component. The results are valid for any distributions.
///
/// Each line of the file describes a component as NAME,VISITS,SERVICE,SERVERS. A header line is
/// skipped, and `#` starts a comment. Either all service times have a unit (5ms), or none do.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  printf '%s\\n' 'web,1,2ms,4' 'cache,3,0.1ms,1' 'disk,0.2,8ms,1' > system.csv
  curtail model bottleneck system.csv --throughput 500/s")]
pub(super) struct Args {
    /// File with the components
    file: PathBuf,
    /// Print utilizations at this throughput: a number of requests per unit of time, or a rate with
    /// a unit, such as 100/s
    #[arg(long, value_name = "RATE", allow_hyphen_values = true)]
    throughput: Option<Rate>,
}

/// The saturation points of the components.
#[derive(Serialize)]
pub(super) struct Saturation {
    bottleneck: String,
    max_throughput: f64,
    throughput: Option<f64>,
    unit: &'static str,
    rate_unit: &'static str,
    /// Sorted: the bottleneck comes first.
    components: Vec<Bears>,
}

#[derive(Serialize)]
struct Bears {
    /// `max_throughput` is infinite (null in JSON) if requests never use the component.
    #[serde(flatten)]
    demand: Demand,
    /// Utilization at the throughput that was given; above 1 if the component cannot keep up.
    utilization: Option<f64>,
}

pub(super) fn compute(args: &Args) -> Result<Saturation, Stop> {
    let file = &args.file;
    let mut unit = OneUnit::default();
    let components = components(file, &mut unit)?;
    let scale = unit.scale();
    let throughput =
        args.throughput.map(|rate| rate.of_model(scale, "--throughput")).transpose()?;
    let found = bottleneck(&components)
        .map_err(|error| refused(format_args!("{}: {error}", file.display())))?;
    let bears = found.components.into_iter().map(|demand| Bears {
        utilization: throughput.map(|throughput| demand.utilization(throughput)),
        demand: Demand { max_throughput: scale.rate(demand.max_throughput), ..demand },
    });
    let components: Vec<Bears> = bears.collect();
    Ok(Saturation {
        bottleneck: components.first().map_or(String::new(), |of| of.demand.component.name.clone()),
        max_throughput: scale.rate(found.max_throughput),
        throughput: throughput.map(|rate| scale.rate(rate)),
        unit: scale.unit(),
        rate_unit: scale.rate_unit(),
        components,
    })
}

fn components(file: &Path, unit: &mut OneUnit) -> Result<Vec<Component>, Stop> {
    let rows = rows::read(file, FORM, |fields| {
        let &[name, visits, service, servers] = fields else {
            return Err(malformed(fields, FORM, "disk,3,2ms,1"));
        };
        let bad = |what, text, mend| format!("`{text}` is not a number of {what}; write {mend}");
        let component = Component {
            name: checked(name)?,
            visits: visits.parse().map_err(|_| bad("visits", visits, "a number such as 0.5"))?,
            mean_service: unit.read(service)?,
            servers: servers.parse().map_err(|_| bad("servers", servers, "1 or more"))?,
        };
        // Check each component separately, so that a value out of range is reported with its line.
        match bottleneck(std::slice::from_ref(&component)) {
            Err(error @ BottleneckError::OutOfRange { .. }) => Err(error.to_string()),
            _ => Ok(component),
        }
    })?;
    Ok(rows.into_iter().map(|row| row.value).collect())
}

/// Rejects names that cannot be printed.
fn checked(name: &str) -> Result<String, String> {
    if name.is_empty() {
        return Err("a component has an empty name; name it".to_owned());
    }
    if name.contains(char::is_control) {
        return Err(format!("the name `{name}` has a control character; leave it out"));
    }
    Ok(name.to_owned())
}

impl ModelResult for Saturation {
    fn text(&self) -> String {
        let rate = |rate| rate_words(rate, self.rate_unit);
        let names = self.components.iter().map(|of| of.demand.component.name.chars().count());
        let wide = names.max().unwrap_or(0).max("component".len());
        let columns = [-(wide as isize), 12, 9, 14, 0];
        let busy = self.throughput.map(|throughput| format!("   busy at {}", rate(throughput)));
        let heads = ["component", "demand", "servers", "saturates at", &busy.unwrap_or_default()];
        let mut text = format!(
            "{} saturates first, at {}; times in {}\n\n{}",
            self.bottleneck,
            rate(self.max_throughput),
            digits::unit_words(self.unit),
            row(&columns, heads),
        );
        for Bears { demand: Demand { component, demand, max_throughput }, utilization } in
            &self.components
        {
            let never = max_throughput.is_infinite();
            let max = if never { "never".to_owned() } else { rate(*max_throughput) };
            let busy = utilization.map_or(String::new(), |busy| {
                let over = if busy >= 1.0 { ": overload" } else { "" };
                format!("   {:.1} %{over}", busy * 100.0)
            });
            let (demand, servers) = (figure(*demand), component.servers.to_string());
            text += &row(&columns, [&component.name, &demand, &servers, &max, &busy]);
        }
        text
    }
}
