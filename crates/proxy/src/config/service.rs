//! Resolves [`raw::Service`] to [`Service`].

use std::ops::Range;
use std::time::Duration;

use curtail_config::{AutoOr, Given, Key, OrFalse, Report, closest, each};
use curtail_kernel::{Limits, Policy, PolicyError, Settings, Tuning};
use curtail_runtime::http::{Commit, Health, Probe};

use super::model::{Cancel, Route, Service, Throttle};
use super::{check, flow, misfits, raw, shards, tls, tunnels, upstream};
use crate::cost::Cost;

/// Resolves one service. `at` is the span of the service's table.
pub(super) fn resolve(raw: &raw::Service, at: &Range<usize>, report: &mut Report<'_>) -> Service {
    let name = check::name(report, "service", raw.name.as_ref(), at);
    // The specification of gRPC says that a server learns of a cancellation.
    let usual = if upstream::is_grpc(raw) { Cancel::Reset } else { Cancel::None };
    let cancel = raw.cancel.as_ref().map_or(usual, |given| *given.get());
    let named = policy(raw, report);
    // After an error, the other keys are checked for a policy that needs none of them.
    let policy = named.unwrap_or(Policy::LEAST_OUTSTANDING);
    let draft = Draft { raw, policy };
    let shards::Resolved { servers, shards } = shards::resolve(raw, at, report);
    let routes = draft.routes(report);
    let idempotent_methods = idempotent_methods(raw, report);
    let may_retry = shards.iter().any(|shard| shard.replicas.len() > 1)
        && routes.iter().any(|route| route.may_repeat(&idempotent_methods));
    let settings = draft.settings(cancel, may_retry, report);
    let limits = draft.limits(&settings, report);
    if let Some(policy) = named {
        misfits::report(raw, at, policy, &settings, report);
    }
    let protocol = (*raw.protocol.get()).into();
    Service {
        throttle: throttle(raw, servers.len(), report),
        flow: flow::role(raw, at, shards.len(), report),
        listen: raw.listen.as_ref().map(|given| given.get().get()),
        name,
        policy,
        slots: raw.slots.as_ref().map(|given| given.get().get()),
        cancel,
        timeout: Duration::from_nanos(limits.timeout_ns),
        limits,
        settings: upstream::settings(raw, &limits),
        protocol,
        tls: tls::upstream(raw, protocol, report),
        outcomes: upstream::outcomes(raw, report),
        health: health(raw, report),
        routes,
        shard_by: shards::shard_by(raw, shards.len(), at, report),
        cost_hint: draft.cost_hint(report),
        idempotent_methods,
        // A key of [listen], which is resolved separately.
        request_id: false,
        debug_headers: raw.debug_headers,
        max_request_body: raw.max_request_body.get(),
        replay_bytes: raw.replay_bytes.get() as u64,
        probe: draft.probe(report),
        tunnels: tunnels::resolve(raw, report),
        servers,
        shards,
    }
}

/// Returns the value of a key that is set.
fn set<T>(key: &Key<T>) -> Option<&T> {
    key.span().map(|_| key.get())
}

/// Resolves how many concurrent requests the stage in front of a replica sends to it.
fn throttle(raw: &raw::Service, servers: usize, report: &mut Report<'_>) -> Option<Throttle> {
    let given = raw.throttle.as_ref()?;
    if servers > 1 {
        let wrong = "throttle requires a single replica, and this service has several";
        report.error(&given.span(), wrong, "run a proxy with throttle in front of each of them");
    }
    Some(match *given.get() {
        AutoOr::Auto => Throttle::Auto,
        AutoOr::Number(slots) => Throttle::Slots(slots),
    })
}

/// Resolves the policy. `None` after an error.
fn policy(raw: &raw::Service, report: &mut Report<'_>) -> Option<Policy> {
    let slots = raw.slots.as_ref().map(|given| given.get().get());
    let Some(given) = &raw.policy else { return Some(Policy::usual(slots)) };
    let policy = match Policy::parse(given.get(), None) {
        Ok(policy) => policy,
        Err(why) => {
            no_policy(given, &why, report);
            return None;
        }
    };
    if let Some(why) = policy.simulator_only() {
        let fix = format!("use laedge here, and {policy} in curtail sim");
        report.error(&given.span(), &format!("policy {why}"), &fix);
        return None;
    }
    Some(policy)
}

fn no_policy(given: &Given<String>, error: &PolicyError, report: &mut Report<'_>) {
    let at = given.span();
    if let PolicyError::Argument { why, .. } = error {
        let (wrong, fix) = why.split_once("; ").unwrap_or((why, "use another"));
        return report.error(&at, &format!("policy is invalid: {wrong}"), fix);
    }
    let forms = Policy::live_forms();
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
    let all = || format!("use one of {}, {}", forms.join(", "), Policy::PARTS);
    let (wrong, fix) = match given.get().as_str() {
        "o1" | "idealized" => {
            let wrong = "policy needs information that a proxy does not have, so only the simulator runs it";
            (wrong, all())
        }
        auto if auto.starts_with("probabilistic:auto") => {
            let wrong = "policy must be trained first; curtail sim trains it and prints the \
                         probabilistic:D:Q to use";
            (wrong, all())
        }
        unknown => {
            let suggested = closest(unknown, &forms).map(|close| format!("did you mean {close}?"));
            ("policy is unknown", suggested.unwrap_or_else(all))
        }
    };
    report.error(&at, wrong, &fix);
}

/// A service whose policy is known.
struct Draft<'r> {
    raw: &'r raw::Service,
    policy: Policy,
}

impl Draft<'_> {
    /// Resolves what the configuration sets. `may_retry` states whether there is a replica for a retry
    /// of some request.
    fn settings(&self, cancel: Cancel, may_retry: bool, report: &mut Report<'_>) -> Settings {
        let raw = self.raw;
        let retry = "0.1 is one retry per ten queries";
        let hedge = "0.2 is one duplicate per five queries";
        let rescue = "0.02 is one lost rescue per fifty queries";
        let rescue_budget = check::fraction(report, "rescue_budget", &raw.rescue_budget, rescue);
        let retry_budget = check::fraction(report, "retry_budget", &raw.retry_budget, retry);
        let hedge_budget =
            check::optional_fraction(report, "hedge_budget", raw.hedge_budget.as_ref(), hedge);
        Settings {
            slots: raw.slots.as_ref().map(|given| given.get().get()),
            cancel: cancel == Cancel::Reset,
            may_retry,
            timeout_ns: Some(raw.timeout.ns()),
            attempt_timeout_ns: raw.attempt_timeout.as_ref().map(|given| given.get().ns()),
            cancel_timeout_ns: set(&raw.cancel_timeout).map(|time| time.ns()),
            retry_budget: Some(retry_budget),
            hedge_budget,
            rescue_budget: set(&raw.rescue_budget).map(|_| rescue_budget),
            has_stage: raw.stage,
            has_probe: raw.probe.is_some(),
            allows_unbudgeted: raw.unsafe_baseline,
        }
    }

    /// Resolves the limits of the service's cells.
    fn limits(&self, settings: &Settings, report: &mut Report<'_>) -> Limits {
        let raw = self.raw;
        let half = "0.5 lets half of the replicas be ejected";
        let max_ejected = check::fraction(report, "max_ejected", &raw.max_ejected, half);
        let (ejection, longest) = (raw.ejection_time.get().ns(), raw.max_ejection_time.get().ns());
        if let Some(at) = raw.max_ejection_time.span().or(raw.ejection_time.span())
            && ejection > longest
        {
            let wrong = "ejection_time is longer than max_ejection_time";
            report.warn(&at, wrong, "set max_ejection_time to at least ejection_time");
        }
        let clients = raw.clients.get().get();
        if let Some(at) = raw.clients.span().filter(|_| clients > 1) {
            self.warn_unused(&at, "clients", "c3", self.policy.needs().clients, report);
        }
        let derived = self.policy.limits(settings);
        Limits {
            max_outstanding: raw.max_outstanding.get(),
            queue: raw.queue.get(),
            eject_after: raw.eject_after.get(),
            eject_after_refusals: raw.eject_after_refusals.get(),
            retry_after_max_ns: raw.max_retry_after.ns(),
            max_ejected,
            ejection_ns: ejection,
            ejection_max_ns: longest,
            tuning: Tuning { clients, ..derived.tuning },
            ..derived
        }
    }

    /// Resolves the path of the load probes.
    fn probe(&self, report: &mut Report<'_>) -> Option<String> {
        let probes = self.policy.needs().probes;
        let given = self.raw.probe.as_ref()?;
        check::path(report, "probe", given, true);
        self.warn_unused(&given.span(), "probe", "prequal", probes, report);
        Some(given.get().clone()).filter(|_| probes)
    }

    fn routes(&self, report: &mut Report<'_>) -> Vec<Route> {
        let tables = each(self.raw.route.as_ref());
        if tables.is_empty() {
            return vec![Route::default()];
        }
        tables.iter().map(|(raw, _)| self.route(raw, report)).collect()
    }

    fn route(&self, raw: &raw::Route, report: &mut Report<'_>) -> Route {
        if let Some(prefix) = &raw.path_prefix {
            check::path(report, "path_prefix", prefix, false);
        }
        if let Some(method) = &raw.method {
            check::method(report, "method", method);
        }
        let cost = raw.cost.as_ref().and_then(|given| self.cost(given, report));
        let prefix = raw.path_prefix.as_ref().map_or("", |given| given.get());
        let mut path_prefix = prefix.trim_end_matches('/').to_owned();
        let mut method = raw.method.as_ref().map(|given| given.get().clone());
        if let Some(grpc) = &raw.grpc {
            let is_http2 = *self.raw.protocol.get() != raw::Protocol::Http1;
            grpc_route(raw, grpc, is_http2, report);
            path_prefix = format!("/{}", grpc.get());
            method = Some("POST".to_owned());
        }
        let commit = commit(raw, report);
        let (tunnel, idempotent) = (raw.tunnel, raw.idempotent);
        Route { path_prefix, method, commit, tunnel, idempotent, cost }
    }

    fn cost(&self, given: &Given<f64>, report: &mut Report<'_>) -> Option<Cost> {
        let rescues = self.policy.rescues().is_some();
        self.warn_unused(&given.span(), "cost", "rescue", rescues, report);
        let cost = Cost::new(*given.get());
        if cost.is_none() {
            let fix = "use a number above 0; a usual request costs 1, and 3 is three times as much";
            report.error(&given.span(), "cost is out of range", fix);
        }
        cost
    }

    fn cost_hint(&self, report: &mut Report<'_>) -> Option<String> {
        let given = self.raw.cost_hint.as_ref()?;
        let rescues = self.policy.rescues().is_some();
        self.warn_unused(&given.span(), "cost_hint", "rescue", rescues, report);
        let Some(header) = &given.get().header else {
            let fix = "write { header = \"x-curtail-cost\" }";
            report.missing(&given.span(), "cost_hint has no header", fix);
            return None;
        };
        Some(check::header(report, header, "x-curtail-cost"))
    }

    /// Warns about a key that only the policy `of` uses, if this one does not use it.
    fn warn_unused(
        &self,
        at: &Range<usize>,
        key: &str,
        of: &str,
        is_used: bool,
        report: &mut Report<'_>,
    ) {
        if !is_used {
            let wrong = format!("{key} is for the policy {of}, and {} ignores it", self.policy);
            report.warn(at, &wrong, &format!("remove it, or use {of}"));
        }
    }
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
    if let Some(grpc) = &raw.grpc
        && *service.protocol.get() == raw::Protocol::Http1
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
    Health { probe, interval: raw.interval.get(), timeout: raw.timeout.get() }
}

fn commit(raw: &raw::Route, report: &mut Report<'_>) -> Commit {
    let first_chunk = *raw.first_chunk.get();
    if let Some(at) = raw.first_chunk.span().filter(|_| first_chunk && raw.unary) {
        report.error(&at, "first_chunk is set beside unary", "remove one of them");
    }
    match (raw.unary, first_chunk) {
        (true, _) => Commit::End,
        (false, true) => Commit::FirstChunk,
        (false, false) => Commit::Head,
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
