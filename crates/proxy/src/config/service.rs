//! Resolves [`raw::Service`] to [`Service`].

use std::ops::Range;
use std::time::Duration;

use curtail_kernel::{Limits, Policy, PolicyError, Topology, Tuning};
use curtail_runtime::http::{Commit, Health, Probe, Protocol};

use super::check::key;
use super::model::{Cancel, FlowRole, Route, Service, Throttle};
use super::report::Report;
use super::shape::closest;
use super::values::{AutoOr, Given, OrFalse, each, is_set};
use super::{check, flow, raw, shards, tls, tunnels, upstream};
use crate::cost::Cost;

/// Largest value of `max_request_body`, in bytes. Long bodies are never held in memory in full.
const BODY_BYTES_MAX: usize = 1 << 40;

/// Smallest value of `cancel_timeout`. While a server sends, its progress is reported every 50 ms.
/// The server must not appear to be silent between two reports.
const CANCEL_MIN: Duration = Duration::from_millis(100);

/// Default policies: one for services that set `slots`, and one for those that do not. These
/// policies need no tuning. `cancel` determines which version of them is used.
const POLICY: Policy = Policy::RESCUE;
const POLICY_WITHOUT_SLOTS: Policy = Policy::RESCUE_WITHOUT_SLOTS;

/// Resolves one service. `at` is the span of the service's table.
pub(super) fn resolve(raw: &raw::Service, at: &Range<usize>, report: &mut Report<'_>) -> Service {
    let name = check::name(report, "service", raw.name.as_ref(), at);
    let slots = key!(count, report, raw.slots, 1..=Topology::MAX_GATE, 1);
    // The specification of gRPC says that a server learns of a cancellation.
    let usual = if upstream::is_grpc(raw) { Cancel::Reset } else { Cancel::None };
    let cancel = raw.cancel.as_ref().map_or(usual, |given| *given.get());
    let policy = policy(raw, (slots, cancel), report);
    let longest = (0..=BODY_BYTES_MAX, "0B to 1024GiB");
    let max_request_body = key!(size, report, raw.max_request_body, longest, 1_000_000);
    let replay_bytes = key!(size, report, raw.replay_bytes, upstream::BUFFER, 64 << 10) as u64;
    let (servers, shards) = shards::resolve(raw, at, report);
    let routes = routes(raw, policy, report);
    let idempotent_methods = idempotent_methods(raw, report);
    let may_retry = shards.iter().any(|shard| shard.replicas.len() > 1)
        && routes.iter().any(|route| route.may_repeat(&idempotent_methods));
    let limits = limits(raw, (policy, cancel, may_retry), report);
    let (timeout, cancel_timeout) = timeouts(raw, (policy, &limits), report);
    let throttle = throttle(raw.throttle.as_ref(), servers.len(), report);
    let protocol = raw.protocol.as_ref().map_or(Protocol::Http1, |given| (*given.get()).into());
    let tls = tls::upstream(raw, protocol, report);
    let listen = raw.listen.as_ref().map(|given| check::listener(given, given.get(), report));
    Service {
        throttle,
        flow: flow::role(raw, at, shards.len(), report),
        listen,
        name,
        policy,
        slots: raw.slots.as_ref().map(|_| slots),
        cancel,
        timeout,
        limits,
        settings: upstream::settings(raw, (timeout, cancel_timeout), report),
        protocol,
        tls,
        outcomes: upstream::outcomes(raw, report),
        health: health(raw, report),
        routes,
        shard_by: shards::shard_by(raw, shards.len(), at, report),
        cost_hint: cost_hint(raw.cost_hint.as_ref(), policy, report),
        idempotent_methods,
        // A key of [listen], which is resolved separately.
        request_id: false,
        debug_headers: raw.debug_headers.as_ref().is_some_and(|given| *given.get()),
        max_request_body,
        replay_bytes,
        probe: probe(raw, policy, at, report),
        tunnels: tunnels::resolve(raw, report),
        servers,
        shards,
    }
}

/// Resolves how many concurrent requests the stage in front of a replica sends to it.
fn throttle(
    given: Option<&Given<AutoOr>>,
    servers: usize,
    report: &mut Report<'_>,
) -> Option<Throttle> {
    let given = given?;
    if servers > 1 {
        let wrong = "throttle requires a single replica, and this service has several";
        report.error(&given.span(), wrong, "run a proxy with throttle in front of each of them");
    }
    match *given.get() {
        AutoOr::Auto => Some(Throttle::Auto),
        AutoOr::Number(slots) => {
            let fits = u32::try_from(slots).ok().filter(|n| (1..=Topology::MAX_GATE).contains(n));
            if fits.is_none() {
                let most = Topology::MAX_GATE;
                report.error(
                    &given.span(),
                    "throttle is out of range",
                    &format!("use 1 to {most}, or \"auto\""),
                );
            }
            fits.map(Throttle::Slots)
        }
    }
}

/// Resolves the limits of the service's cells. `may_retry` states whether there is a replica for a
/// retry of some request.
fn limits(
    raw: &raw::Service,
    (policy, cancel, may_retry): (Policy, Cancel, bool),
    report: &mut Report<'_>,
) -> Limits {
    let (default, ms) = (Limits::default(), Duration::from_millis);
    let retry = "0.1 is one retry per ten queries";
    let retry_budget = key!(fraction, report, raw.retry_budget, retry, 0.1);
    let hedge = "0.2 is one duplicate per five queries";
    let hedge_budget = key!(fraction, report, raw.hedge_budget, hedge, default.hedge_budget);
    let rescue_budget = rescue_budget(raw.rescue_budget.as_ref(), policy, report);
    budgets(raw, (hedge_budget, rescue_budget), policy, report);
    let half = "0.5 lets half of the replicas be ejected";
    let span = Duration::from_nanos;
    let ejection = key!(duration, report, raw.ejection_time, span(default.ejection_ns));
    let longest = key!(duration, report, raw.max_ejection_time, span(default.ejection_max_ns));
    if ejection > longest
        && let Some(given) = raw.max_ejection_time.as_ref().or(raw.ejection_time.as_ref())
    {
        let wrong = "ejection_time is longer than max_ejection_time";
        report.warn(&given.span(), wrong, "set max_ejection_time to at least ejection_time");
    }
    if let Some(given) = raw.clients.as_ref().filter(|given| *given.get() > 1) {
        of_use(("clients", "c3"), given, (policy, policy.needs().clients), report);
    }
    let whole = key!(duration, report, raw.timeout, ms(2_000));
    // Half of the time is left for a retry. If there is none, an earlier timeout only causes errors.
    let usual = if may_retry && retry_budget > 0.0 { whole - whole / 2 } else { whole };
    let attempt = key!(duration, report, raw.attempt_timeout, usual);
    let usual = if cancel == Cancel::None { attempt.max(ms(10_000)) } else { ms(10_000) };
    let silent = key!(at_least, report, raw.cancel_timeout, CANCEL_MIN, usual);
    Limits {
        max_outstanding: key!(count, report, raw.max_outstanding, 1..=Topology::MAX_GATE, 128),
        queue: key!(count, report, raw.queue, 0..=1_000_000, 1024),
        timeout_ns: ns(whole),
        attempt_timeout_ns: ns(attempt),
        cancel_timeout_ns: ns(silent),
        cancel: cancel == Cancel::Reset,
        retry_budget,
        // If the budget is zero, there are no tokens at the start either.
        retry_reserve: if retry_budget > 0.0 { default.retry_reserve } else { 0 },
        hedge_budget,
        hedge_burst: if hedge_budget > 0.0 { default.hedge_burst } else { 0 },
        rescue_budget,
        eject_after: key!(count, report, raw.eject_after, 0..=1_000_000, default.eject_after),
        eject_after_refusals: {
            let usual = default.eject_after_refusals;
            key!(count, report, raw.eject_after_refusals, 0..=1_000_000, usual)
        },
        retry_after_max_ns: {
            let usual = span(default.retry_after_max_ns);
            ns(key!(at_least, report, raw.max_retry_after, Duration::ZERO, usual))
        },
        max_ejected: key!(fraction, report, raw.max_ejected, half, default.max_ejected),
        ejection_ns: ns(ejection),
        ejection_max_ns: ns(longest),
        tuning: Tuning {
            clients: key!(count, report, raw.clients, 1..=1_000_000, default.tuning.clients),
            ..default.tuning
        },
        ..default
    }
}

fn ns(span: Duration) -> u64 {
    u64::try_from(span.as_nanos()).unwrap_or(u64::MAX)
}

fn policy(raw: &raw::Service, (slots, cancel): (u32, Cancel), report: &mut Report<'_>) -> Policy {
    let fallback = Policy::LEAST_OUTSTANDING;
    let Some(given) = &raw.policy else {
        return if raw.slots.is_some() { POLICY } else { POLICY_WITHOUT_SLOTS };
    };
    let at = given.span();
    let policy = match Policy::parse(given.get(), None) {
        Ok(policy) => policy,
        Err(why) => {
            no_policy(given, &why, report);
            return fallback;
        }
    };
    if let Some(why) = policy.simulator_only() {
        let fix = format!("use laedge here, and {policy} in curtail sim");
        report.error(&at, &format!("policy {why}"), &fix);
        return fallback;
    }
    if policy.needs_cancellation() && cancel == Cancel::None {
        let wrong = "policy cancels copies, but with cancel = \"none\" the replicas continue to \
                     work on them";
        let other = policy.hedge().map(|hedge| hedge.of.builds.without_cancellation);
        let other = other.unwrap_or_default();
        let fix = format!(
            "set cancel = \"reset\" if the replicas stop when a connection is reset, or use {other}"
        );
        report.error(&at, wrong, &fix);
    }
    if policy.has_priorities() {
        if !raw.stage.as_ref().is_some_and(|given| *given.get()) {
            let wrong = "policy sends every query twice, which is safe only if the replicas serve \
                         requests with \"priority: u=7\" last";
            let fix = "run a stage in front of them and set stage = true, or use rescue";
            report.error(&at, wrong, fix);
        }
        if policy.pulls() {
            let wrong = "policy queues duplicates at the replicas, where they would fill a gate \
                         of slots or a bound";
            report.error(&at, wrong, &format!("remove {}", policy.gate()));
        }
    }
    let is_unsafe = !policy.is_budgeted() && !policy.has_priorities();
    if is_unsafe && !raw.unsafe_baseline.as_ref().is_some_and(|given| *given.get()) {
        let wrong = "policy sends two or more copies of every query, without a budget";
        let fix = "use delayed:D or rescue, or add unsafe_baseline = true to measure it";
        report.error(&at, wrong, fix);
    }
    slots_fit(raw, &at, policy, report);
    if let Some(n) = policy.bound()
        && n < slots
    {
        let wrong = format!("policy has a bound of {n}, below the replicas' {slots} slots");
        report.error(&at, &wrong, &format!("use a bound of at least {slots}, or fewer slots"));
    }
    policy
}

/// Checks `slots`. Policies that keep queries in the proxy need the number of slots, and other
/// policies do not use it.
fn slots_fit(raw: &raw::Service, at: &Range<usize>, policy: Policy, report: &mut Report<'_>) {
    let is_ingress = raw.flow.as_ref().is_some_and(|given| *given.get() == FlowRole::Ingress);
    match &raw.slots {
        None if policy.pulls() => {
            let wrong = "policy keeps queries in the proxy until a replica has a free slot, so it needs the number of slots";
            let add = "add slots = N, the number of queries that a replica serves at once";
            let without = match policy.rescues() {
                None if !policy.hedges() => ", or use \"least-outstanding\", which needs none",
                Some(_) => ", or use \"rescue+least-outstanding\", which needs none",
                None => "",
            };
            report.missing(at, wrong, &format!("{add}{without}"));
        }
        // A sidecar uses the slots for admission, regardless of the policy.
        Some(given) if !policy.pulls() && !is_ingress => {
            let of = "policies that keep queries in the proxy";
            let wrong = format!("slots is for {of}, and {policy} ignores it");
            report.warn(&given.span(), &wrong, "remove it, or use rescue");
        }
        _ => {}
    }
}

fn no_policy(given: &Given<String>, error: &PolicyError, report: &mut Report<'_>) {
    let at = given.span();
    if let PolicyError::Argument { why, .. } = error {
        let (wrong, fix) = why.split_once("; ").unwrap_or((why, "use another"));
        return report.error(&at, &format!("policy is invalid: {wrong}"), fix);
    }
    let forms = Policy::live_forms();
    let fix = match closest(given.get(), &forms) {
        Some(close) => format!("did you mean {close:?}?"),
        None => format!("use one of {}, {}", forms.join(", "), Policy::PARTS),
    };
    // A name that lacks its argument, such as `delayed`.
    let bare = |form: &&&str| form.split_once(':').is_some_and(|(name, _)| name == given.get());
    if let Some(form) = forms.iter().find(bare)
        && let Some((name, _)) = form.split_once(":D")
    {
        let fix = format!(
            "write \"{}\"",
            form.replace("[:cc]", "").replace(":D", ":20ms").replace(":Q", ":0.5")
        );
        return report.error(&at, &format!("policy {name} needs a delay"), &fix);
    }
    let wrong = match given.get().as_str() {
        "o1" | "idealized" => {
            "policy needs information that a proxy does not have, so only the simulator runs it"
        }
        auto if auto.starts_with("probabilistic:auto") => {
            "policy must be trained first; curtail sim trains it and prints the probabilistic:D:Q \
             to use"
        }
        _ => "policy is unknown",
    };
    report.error(&at, wrong, &fix);
}

/// Resolves the path of the load probes.
fn probe(
    raw: &raw::Service,
    policy: Policy,
    at: &Range<usize>,
    report: &mut Report<'_>,
) -> Option<String> {
    let probes = policy.needs().probes;
    let Some(given) = &raw.probe else {
        if probes {
            let fix = "add probe = \"/load\", a path whose response reports \
                       named_metrics.in_flight and named_metrics.latency_ms in the header \
                       endpoint-load-metrics";
            report.missing(at, "the policy prequal sends probes and needs a path for them", fix);
        }
        return None;
    };
    check::path(report, "probe", given, true);
    of_use(("probe", "prequal"), given, (policy, probes), report);
    Some(given.get().clone()).filter(|_| probes)
}

/// Checks the timeouts against each other. Returns the timeouts of a request and of a cancelled
/// copy.
fn timeouts(
    raw: &raw::Service,
    (policy, limits): (Policy, &Limits),
    report: &mut Report<'_>,
) -> (Duration, Duration) {
    let spans = [limits.timeout_ns, limits.attempt_timeout_ns, limits.cancel_timeout_ns];
    let [whole, attempt, silent] = spans.map(Duration::from_nanos);
    if let Some(given) = raw.attempt_timeout.as_ref().filter(|_| whole <= attempt) {
        let wrong = format!(
            "the request's timeout ({whole:?}) is not longer than attempt_timeout ({attempt:?}), \
             so a copy that hangs is never retried"
        );
        report.warn(&given.span(), &wrong, "set timeout to at least twice attempt_timeout");
    }
    // A replica that stops when it is cancelled is never silent for long.
    if let Some(given) = raw.cancel_timeout.as_ref().filter(|_| !limits.cancel && silent < attempt)
    {
        let wrong = format!(
            "cancel_timeout ({silent:?}) is shorter than attempt_timeout ({attempt:?}), so a \
             replica that still works on a slow request gets another one"
        );
        report.warn(&given.span(), &wrong, "set cancel_timeout to at least attempt_timeout");
    }
    if let Some(delay_ns) = policy.delay_ns()
        && Duration::from_nanos(delay_ns) >= attempt
        && let Some(given) = &raw.policy
    {
        let wrong = format!(
            "the delay is not below attempt_timeout ({attempt:?}), so the policy never hedges"
        );
        report.warn(&given.span(), &wrong, "use a shorter delay");
    }
    (whole, silent)
}

fn health(service: &raw::Service, report: &mut Report<'_>) -> Health {
    let default = raw::Health::default();
    let raw = match service.health.as_ref().map(Given::get) {
        Some(OrFalse::Off) => return Health { probe: Probe::Connect, ..Health::default() },
        Some(OrFalse::On(raw)) => raw,
        None => &default,
    };
    if let Some(path) = &raw.path {
        check::path(report, "health path", path, true);
    }
    if let (Some(path), Some(_)) = (&raw.path, &raw.grpc) {
        let wrong = "health has a path beside grpc";
        report.error(&path.span(), wrong, "remove one of them");
    }
    let is_http1 = |given: &Given<raw::Protocol>| *given.get() == raw::Protocol::Http1;
    if let Some(grpc) = &raw.grpc
        && service.protocol.as_ref().is_none_or(is_http1)
    {
        let wrong = "health.grpc requires HTTP/2";
        report.error(&grpc.span(), wrong, "set protocol to \"grpc\" or \"h2\", or use path");
    }
    let probe = match (&raw.path, &raw.grpc) {
        (_, Some(grpc)) => Probe::Grpc(grpc.get().clone()),
        (None, None) if upstream::is_grpc(service) => Probe::Grpc(String::new()),
        (path, None) => {
            Probe::Get(path.as_ref().map_or_else(|| "/".into(), |given| given.get().clone()))
        }
    };
    let ms = Duration::from_millis;
    Health {
        probe,
        interval: check::duration(report, "health interval", raw.interval.as_ref(), ms(250)),
        timeout: check::duration(report, "health timeout", raw.timeout.as_ref(), ms(500)),
    }
}

fn routes(raw: &raw::Service, policy: Policy, report: &mut Report<'_>) -> Vec<Route> {
    let tables = each(raw.route.as_ref());
    if tables.is_empty() {
        return vec![Route::default()];
    }
    let is_http2 = raw.protocol.as_ref().is_some_and(|given| *given.get() != raw::Protocol::Http1);
    let route = |(raw, _): &(&raw::Route, _)| {
        if let Some(prefix) = &raw.path_prefix {
            check::path(report, "path_prefix", prefix, false);
        }
        if let Some(method) = &raw.method {
            check::method(report, "method", method);
        }
        let cost = raw.cost.as_ref().and_then(|given| cost(given, policy, report));
        let prefix = raw.path_prefix.as_ref().map_or("", |given| given.get());
        let mut path_prefix = prefix.trim_end_matches('/').to_owned();
        let mut method = raw.method.as_ref().map(|given| given.get().clone());
        if let Some(grpc) = &raw.grpc {
            grpc_route(raw, grpc, is_http2, report);
            path_prefix = format!("/{}", grpc.get());
            method = Some("POST".to_owned());
        }
        Route {
            path_prefix,
            method,
            commit: commit(raw, report),
            tunnel: is_set(raw.tunnel.as_ref()),
            idempotent: raw.idempotent.as_ref().map(|given| *given.get()),
            cost,
        }
    };
    tables.iter().map(route).collect()
}

fn commit(raw: &raw::Route, report: &mut Report<'_>) -> Commit {
    match (is_set(raw.unary.as_ref()), &raw.first_chunk) {
        (true, Some(given)) if *given.get() => {
            report.error(&given.span(), "first_chunk is set beside unary", "remove one of them");
            Commit::End
        }
        (true, _) => Commit::End,
        (false, given) if is_set(given.as_ref()) => Commit::FirstChunk,
        (false, _) => Commit::Head,
    }
}

fn grpc_route(raw: &raw::Route, grpc: &Given<String>, is_http2: bool, report: &mut Report<'_>) {
    if !is_http2 {
        let wrong = "gRPC requires HTTP/2, and the replicas of this service use HTTP/1.1";
        report.warn(&grpc.span(), wrong, "set protocol = \"grpc\"");
    }
    let fine = |c: char| c.is_ascii_alphanumeric() || "._/".contains(c);
    let (text, fix) = (grpc.get(), "write it like \"search.Search/Query\"");
    let slashes = text.matches('/').count();
    let ends = |c: char| text.starts_with(c) || text.ends_with(c);
    if text.is_empty() || slashes > 1 || ends('/') || !text.chars().all(fine) {
        report.error(&grpc.span(), "grpc is not a method of gRPC", fix);
    }
    for (key, given) in [("path_prefix", &raw.path_prefix), ("method", &raw.method)] {
        if let Some(given) = given {
            let wrong = format!("{key} is not allowed beside grpc");
            report.error(&given.span(), &wrong, "remove one of them");
        }
    }
}

fn cost(given: &Given<f64>, policy: Policy, report: &mut Report<'_>) -> Option<Cost> {
    of_use(("cost", "rescue"), given, (policy, policy.rescues().is_some()), report);
    let cost = Cost::new(*given.get());
    if cost.is_none() {
        let fix = "use a number above 0; a usual request costs 1, and 3 is three times as much";
        report.error(&given.span(), "cost is out of range", fix);
    }
    cost
}

fn rescue_budget(given: Option<&Given<f64>>, policy: Policy, report: &mut Report<'_>) -> f64 {
    if let Some(given) = given {
        of_use(("rescue_budget", "rescue"), given, (policy, policy.rescues().is_some()), report);
    }
    let fix = "0.02 is one lost rescue per fifty queries";
    let default = Limits::default().rescue_budget;
    let budget = check::fraction(report, "rescue_budget", given, fix, default);
    if let Some(given) = given.filter(|_| budget == 0.0 && policy.rescues().is_some()) {
        let wrong =
            "without a rescue_budget the policy explores nothing, so it learns and rescues nothing";
        report.warn(&given.span(), wrong, "set it above 0, or use psq");
    }
    budget
}

/// Warns about budgets that contradict each other. Rescues spend from both, so the smaller one
/// limits them.
fn budgets(
    raw: &raw::Service,
    (hedge, rescue): (f64, f64),
    policy: Policy,
    report: &mut Report<'_>,
) {
    let spends = policy.hedges() && policy.is_budgeted();
    if let Some(given) = raw.hedge_budget.as_ref().filter(|_| spends && hedge == 0.0) {
        let wrong = "without a hedge_budget no second copies are sent";
        let fix = "set it above 0, or use a policy without second copies, like least-outstanding";
        report.warn(&given.span(), wrong, fix);
    } else if let Some(given) = raw.hedge_budget.as_ref().or(raw.rescue_budget.as_ref())
        && policy.rescues().is_some()
        && hedge < rescue
    {
        let wrong = format!(
            "hedge_budget ({hedge}) is below rescue_budget ({rescue}), and rescues spend from both"
        );
        report.warn(&given.span(), &wrong, "set hedge_budget to at least rescue_budget");
    }
}

fn cost_hint(
    given: Option<&Given<raw::CostHint>>,
    policy: Policy,
    report: &mut Report<'_>,
) -> Option<String> {
    let given = given?;
    of_use(("cost_hint", "rescue"), given, (policy, policy.rescues().is_some()), report);
    let Some(header) = &given.get().header else {
        let fix = "write { header = \"x-curtail-cost\" }";
        report.missing(&given.span(), "cost_hint has no header", fix);
        return None;
    };
    Some(check::header(report, header, "x-curtail-cost"))
}

/// Warns about a key that only one policy uses, if the service has a different policy.
fn of_use<T>(
    (key, of): (&str, &str),
    given: &Given<T>,
    (policy, uses): (Policy, bool),
    report: &mut Report<'_>,
) {
    if !uses {
        let wrong = format!("{key} is for the policy {of}, and {policy} ignores it");
        report.warn(&given.span(), &wrong, &format!("remove it, or use {of}"));
    }
}

fn idempotent_methods(raw: &raw::Service, report: &mut Report<'_>) -> Vec<String> {
    let Some(given) = &raw.idempotent_methods else {
        return vec!["GET".into(), "HEAD".into()];
    };
    for method in given {
        check::method(report, "this entry of idempotent_methods", method);
        if matches!(method.get().as_str(), "POST" | "PATCH") {
            let wrong =
                "is not idempotent in HTTP, and its requests may now run twice on every route";
            let fix = "declare the routes on which it is idempotent: { path_prefix, method, \
                       idempotent = true }";
            report.warn(&method.span(), wrong, fix);
        }
    }
    given.iter().map(|method| method.get().clone()).collect()
}
