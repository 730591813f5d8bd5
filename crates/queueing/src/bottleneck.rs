//! Which of several components saturates first, and at what throughput.
//!
//! A request visits component i Vᵢ times, each time for a mean service Sᵢ, so it demands Dᵢ = Vᵢ·Sᵢ
//! of one of its kᵢ servers. At throughput X each of them is busy for a share X·Dᵢ/kᵢ (the service
//! demand law and the utilization law), which may not exceed 1: so X is at most the least kᵢ/Dᵢ,
//! and the component that has it is the bottleneck. That holds whatever the distributions are.
//!
//! Source: document 004, "Using queueing theory to detect application bottlenecks"; Denning and
//! Buzen, "The operational analysis of queueing network models", 1978. Exact. Cost: O(n log n).

use serde::Serialize;

/// A component of a system, for instance a stage, a tier, a disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Component {
    /// What it is called.
    pub name: String,
    /// The mean number of visits of a request; 0 or more.
    pub visits: f64,
    /// The mean service time of a visit, without queueing, in units of time; 0 or more.
    pub mean_service: f64,
    /// How many servers share its work; 1 or more.
    pub servers: u32,
}

/// What a component bears.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// The component.
    #[serde(flatten)]
    pub component: Component,
    /// The service that a request demands of it, in units of time.
    pub demand: f64,
    /// The throughput at which all its servers are always busy, per unit of time; infinite if
    /// requests demand nothing of it.
    pub max_throughput: f64,
}

/// The components by how soon they saturate.
#[derive(Clone, Debug, PartialEq)]
pub struct Saturation {
    /// The throughput that the system can never exceed, per unit of time.
    pub max_throughput: f64,
    /// All components, the bottleneck first; those that saturate together in the order given.
    pub components: Vec<Demand>,
}

/// Why there is no bottleneck to be named. The message names the value and the fix.
#[allow(missing_docs, reason = "the messages say it")]
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum BottleneckError {
    #[error("there are no components; name at least one")]
    NoComponents,
    #[error("{component} has {parameter} {value}; it must be {allowed}")]
    OutOfRange { component: String, parameter: &'static str, value: f64, allowed: &'static str },
    #[error("no component has work; give one of them visits and a mean service time above 0")]
    NoDemand,
}

impl Demand {
    /// The share of time that each of its servers is busy at this throughput; above 1 if it cannot
    /// be.
    pub fn utilization(&self, throughput: f64) -> f64 {
        throughput / self.max_throughput
    }
}

/// Finds the bottleneck of a system of `components`.
pub fn bottleneck(components: &[Component]) -> Result<Saturation, BottleneckError> {
    let mut demands = components.iter().map(demand).collect::<Result<Vec<Demand>, _>>()?;
    demands.sort_by(|a, b| a.max_throughput.total_cmp(&b.max_throughput));
    let first = demands.first().ok_or(BottleneckError::NoComponents)?;
    if first.max_throughput.is_infinite() {
        return Err(BottleneckError::NoDemand);
    }
    Ok(Saturation { max_throughput: first.max_throughput, components: demands })
}

fn demand(component: &Component) -> Result<Demand, BottleneckError> {
    let out_of_range = |parameter, value, allowed| {
        let component = component.name.clone();
        Err(BottleneckError::OutOfRange { component, parameter, value, allowed })
    };
    let not_negative = "0 or more, and finite";
    if !(component.visits.is_finite() && component.visits >= 0.0) {
        return out_of_range("visits", component.visits, not_negative);
    }
    if !(component.mean_service.is_finite() && component.mean_service >= 0.0) {
        return out_of_range("mean service", component.mean_service, not_negative);
    }
    let servers = f64::from(component.servers);
    if component.servers == 0 {
        return out_of_range("servers", servers, "1 or more");
    }
    let demand = component.visits * component.mean_service;
    if demand.is_infinite() {
        return out_of_range("demand", demand, "finite; choose a longer unit of time");
    }
    let max_throughput = servers / demand;
    Ok(Demand { component: component.clone(), demand, max_throughput })
}
