//! Notes for operators about how the policies treat the services. They do not mean that anything is
//! wrong. `--check` prints them, and the proxy logs them when it starts.

use curtail_kernel::hedge::Version;
use curtail_kernel::{Limits, Policy};

use super::model::{Cancel, Service};

/// Returns the notes. The notes about all services come first.
pub(super) fn of(services: &[Service]) -> Vec<String> {
    let one = |service| {
        [
            not_stopped(service),
            single_replicas(service),
            nothing_idempotent(service),
            budgeted(service),
        ]
    };
    alone(services).into_iter().chain(services.iter().flat_map(one).flatten()).collect()
}

/// Returns a note about policies whose benefit shrinks with each additional proxy in front of the
/// same replicas. Some of these policies keep queries in the proxy and assume that no other client
/// uses the replicas' slots. Others send copies wherever a replica seems idle. `rescue` works with
/// any number of proxies. One note covers all services with such a policy.
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
        "{what} {named} {gain} most if one proxy sends all queries, and less with each additional \
         proxy; with several proxies, use rescue, and set the replicas' full number of slots in \
         each proxy"
    ))
}

/// Returns a note if the policy rescues queries but losing copies are not stopped. This is not a
/// warning, because the defaults of both keys have this effect.
fn not_stopped(service: &Service) -> Option<String> {
    let Service { name, policy, cancel, .. } = service;
    let (why, fix) = match (policy.rescues()?, cancel) {
        (Version::NoCancel, Cancel::Reset) => {
            ("although cancel = \"reset\"", "use rescue, which cancels the losing copies")
        }
        (Version::Cleanup | Version::Preempt, Cancel::None) => (
            "(cancel = \"none\")",
            "set cancel = \"reset\" if the replicas stop when a connection is reset",
        ),
        _ => return None,
    };
    Some(format!(
        "service {name:?} ({policy}) cancels no copies {why}, which loses most of the gain; {fix}"
    ))
}

/// Returns a note if there are shards with a single replica, because no other replica can run a
/// second copy.
fn single_replicas(service: &Service) -> Option<String> {
    let Service { name, policy, shards, .. } = service;
    let single = shards.iter().filter(|shard| shard.replicas.len() == 1).count();
    (policy.hedges() && single > 0).then(|| {
        let which = match shards.len() - single {
            0 => String::from("its shards"),
            _ => format!("{single} of its shards"),
        };
        format!(
            "service {name:?} ({policy}) sends no second copies to {which}, which have one \
             replica; add replicas"
        )
    })
}

/// Returns a note if none of the service's requests are allowed to run twice.
fn nothing_idempotent(service: &Service) -> Option<String> {
    let Service { name, policy, routes, idempotent_methods, .. } = service;
    let may = routes.iter().any(|route| route.may_repeat(idempotent_methods));
    (policy.hedges() && !may).then(|| {
        format!(
            "service {name:?} ({policy}) has no route whose requests may run twice, so it sends no second copies; declare idempotent_methods, or idempotent = true for a route"
        )
    })
}

/// Returns a note if the budget changes the behavior of the policy. Without a budget, such policies
/// send second copies wherever a replica is idle, which is far more than the default budget allows.
/// A budget of zero causes a warning instead.
fn budgeted(service: &Service) -> Option<String> {
    let Service { name, policy, limits: Limits { hedge_budget, .. }, .. } = service;
    (policy.fills_idle_slots() && *hedge_budget > 0.0 && *hedge_budget < 1.0).then(|| {
        format!(
            "service {name:?} ({policy}) may send second copies of {:.0} % of the queries \
             (hedge_budget = {hedge_budget}), so it is not the policy that curtail sim runs; set \
             hedge_budget = 1.0 to run the same policy",
            hedge_budget * 100.0
        )
    })
}
