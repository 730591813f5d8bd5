//! What an operator should know though nothing is wrong: what the policies make of the services. `--check` prints it,
//! and the proxy logs it when it starts.

use curtail_kernel::hedge::Version;
use curtail_kernel::{HedgeSpec, Limits, Policy};

use super::model::{Cancel, Route, Service};

/// The notes, in the order of what they are about.
pub(super) fn of(services: &[Service]) -> Vec<String> {
    let one = |service| {
        [not_stopped(service), nobody_else(service), nothing_twice(service), budgeted(service)]
    };
    alone(services).into_iter().chain(services.iter().flat_map(one).flatten()).collect()
}

/// Policies that gain less with each further proxy before the same replicas: a queue in the proxy, unless a bound leaves
/// room for the queries of others, and copies wherever a replica seems idle. `rescue` alone fits any number. One note
/// for all services that have such a policy.
fn alone(services: &[Service]) -> Option<String> {
    let fits_one = |policy: Policy| match policy.rescues() {
        Some(version) => version == Version::Preempt,
        None => policy.pulls() && policy.bound().is_none(),
    };
    let named = services.iter().filter(|service| fits_one(service.policy));
    let named = named.map(|Service { name, policy, .. }| format!("{name:?} ({policy})"));
    let named: Vec<_> = named.collect();
    let (what, gain) = match &*named {
        [] => return None,
        [_] => ("service", "gains"),
        _ => ("services", "gain"),
    };
    let named = named.join(", ");
    Some(format!(
        "{what} {named} {gain} most where one proxy sends all queries, and less with each further one; with several proxies use rescue, and give each of them all slots of the replicas"
    ))
}

/// The default of both keys is this one, so that it is no warning.
fn not_stopped(service: &Service) -> Option<String> {
    let Service { name, policy, cancel, .. } = service;
    let (why, fix) = match (policy.rescues()?, cancel) {
        (Version::NoCancel, Cancel::Reset) => {
            ("although cancel = \"reset\"", "use rescue, which stops what is given up")
        }
        (Version::Cleanup | Version::Preempt, Cancel::None) => (
            "(cancel = \"none\")",
            "set cancel = \"reset\" if the replicas stop when a connection is reset",
        ),
        _ => return None,
    };
    Some(format!(
        "service {name:?} ({policy}) stops no query {why}, which costs most of the gain; {fix}"
    ))
}

/// Shards without a replica for a second copy.
fn nobody_else(service: &Service) -> Option<String> {
    let Service { name, policy, shards, .. } = service;
    let single = shards.iter().filter(|shard| shard.replicas.len() == 1).count();
    (policy.hedges() && single > 0).then(|| {
        let which = match shards.len() - single {
            0 => String::from("its shards"),
            _ => format!("{single} of its shards"),
        };
        format!(
            "service {name:?} ({policy}) sends no second copies to {which}, which have one replica; name more replicas"
        )
    })
}

/// No request that may run twice.
fn nothing_twice(service: &Service) -> Option<String> {
    let Service { name, policy, routes, idempotent_methods, .. } = service;
    let by_method = |route: &Route| match &route.method {
        Some(method) => idempotent_methods.contains(method),
        None => !idempotent_methods.is_empty(),
    };
    let may = |route: &Route| route.idempotent.unwrap_or_else(|| by_method(route));
    (policy.hedges() && !routes.iter().any(may)).then(|| {
        format!(
            "service {name:?} ({policy}) has no route whose requests may run twice, so it sends no second copies; declare idempotent_methods, or idempotent = true for a route"
        )
    })
}

/// A policy that the budget turns into another one: it sends second copies wherever a replica is idle, which is far
/// more than the default allows. A budget of zero has a warning.
fn budgeted(service: &Service) -> Option<String> {
    let Service { name, policy, limits: Limits { hedge_budget, .. }, .. } = service;
    let many =
        matches!(policy.hedge(), Some(HedgeSpec::Laedge(_) | HedgeSpec::Rescue(Version::Preempt)));
    (many && *hedge_budget > 0.0 && *hedge_budget < 1.0).then(|| {
        format!(
            "service {name:?} ({policy}) may send second copies of {:.0} % of the queries (hedge_budget = {hedge_budget}), so it is not the policy that curtail sim runs; set hedge_budget = 1.0 for that one",
            hedge_budget * 100.0
        )
    })
}
