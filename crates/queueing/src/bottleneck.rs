//! Finds the component that saturates first, and its throughput.
//!
//! A request visits component i Vᵢ times. The mean service time of a visit is Sᵢ, so the request
//! demands a total service time of Dᵢ = Vᵢ·Sᵢ. At throughput X, each of the component's kᵢ servers
//! is busy for a share X·Dᵢ/kᵢ (the service demand law and the utilization law), which cannot
//! exceed 1. X is therefore at most the smallest kᵢ/Dᵢ, and the component with this ratio is the
//! bottleneck. This result holds for all distributions of gaps and service times.
//!
//! Source: document 004, "Using queueing theory to detect application bottlenecks"; Denning and
//! Buzen, "The operational analysis of queueing network models", 1978. Exact. Cost: O(n log n).

use serde::Serialize;

/// A component of a system, for instance a stage, a tier or a disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Component {
    /// The name.
    pub name: String,
    /// The mean number of visits per request; 0 or more.
    pub visits: f64,
    /// The mean service time of a visit, without queueing, in units of time; 0 or more.
    pub mean_service: f64,
    /// The number of servers that share the component's work, 1 or more.
    pub servers: u32,
}

/// The load on a component.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Demand {
    /// The component.
    #[serde(flatten)]
    pub component: Component,
    /// The service time that a request demands from it, in units of time.
    pub demand: f64,
    /// The throughput at which all its servers are always busy, per unit of time. It is infinite if
    /// requests demand no service from the component.
    pub max_throughput: f64,
}

/// The components, in the order in which they saturate.
#[derive(Clone, Debug, PartialEq)]
pub struct Saturation {
    /// The throughput that the system can never exceed, per unit of time.
    pub max_throughput: f64,
    /// All components, the bottleneck first. Components that saturate together keep their input
    /// order.
    pub components: Vec<Demand>,
}

/// The reason why there is no bottleneck. The message names the value and the fix.
#[allow(missing_docs, reason = "the messages document the variants")]
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
    /// Returns the share of time for which each of its servers is busy at this throughput. The
    /// share is above 1 if this throughput is impossible.
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
