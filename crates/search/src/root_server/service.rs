//! Handles requests to the root.

use std::sync::Arc;

use curtail_http::h1::server::Request;
use curtail_kernel::{GroupId, ServerId};
use curtail_runtime::http::{self, Http};
use serde_json::{Value, json};

use super::RootConfig;
use super::fan_out;
use super::timing::ShardTiming;
use crate::serve::{Ask, QUERY_KEY, Reply, Service, check_method, split, timing};

/// The request handler of a root.
#[derive(Debug)]
pub(super) struct RootService {
    policy: String,
    cells: Arc<curtail_runtime::Service<Http>>,
}

impl RootService {
    pub(super) fn new(config: &RootConfig, cells: Arc<curtail_runtime::Service<Http>>) -> Self {
        Self { policy: config.policy.to_string(), cells }
    }

    async fn search(&self, request: &Request, parameters: &str) -> Reply {
        // An invalid query is rejected by the root, so it causes no work in the leaves.
        let k = match Ask::parse(parameters) {
            Ok(ask) => ask.k,
            Err(error) => return Reply::error(400, &error.to_string()),
        };
        let forward = match forward(request) {
            Ok(forward) => forward,
            Err(error) => {
                return Reply::error(400, &format!("the request cannot be forwarded: {error}"));
            }
        };
        match fan_out::ask(self.cells.cells(), &forward, k).await {
            Ok(merged) => Reply::json(200, &merged.answer)
                .with("x-curtail-copies", merged.copies.to_string())
                .with("x-curtail-queued-us", (merged.queued_ns / 1000).to_string())
                .with(timing::HEADER, ShardTiming::write_all(merged.timings)),
            Err(error) => Reply::json(503, &error).with("retry-after", "1"),
        }
    }
}

impl RootService {
    /// Returns the services with their shards and servers, in the same format as the proxy's
    /// status. Includes what the policy has learned, if it learns.
    fn status(&self) -> Value {
        let shards = self.cells.cells().iter().enumerate().map(|(shard, cell)| {
            cell.look(|core| {
                let servers = (0..).take(core.server_count()).map(ServerId).map(|server| {
                    let address = cell.transport().upstream(server).address().to_string();
                    let view = core.server(server);
                    json!({
                        "address": address, "up": view.up, "slots": view.slots,
                        "busy": view.outstanding,
                    })
                });
                let queue = core.waiting(GroupId(0));
                json!({"name": shard.to_string(), "queue": queue, "servers": servers.collect::<Value>()})
            })
        });
        let shards: Value = shards.collect();
        let mut service = json!({"name": "search", "policy": self.policy, "shards": shards});
        if let Some(learning) = self.cells.learning() {
            service["learned"] = json!(learning.learned());
        }
        json!({"services": [service]})
    }
}

impl Service for RootService {
    async fn answer(&self, request: &Request) -> Reply {
        if let Err(refusal) = check_method(request) {
            return refusal;
        }
        match split(request) {
            ("/search", parameters) => self.search(request, parameters).await,
            ("/health", _) => Reply::healthy(),
            ("/status", _) => Reply::json(200, &self.status()),
            (path, _) => {
                let text =
                    format!("no such path: {path}; valid paths are /search, /health and /status");
                Reply::error(404, &text)
            }
        }
    }
}

/// Returns the request to the leaves, rendered once for all of them. The target is unchanged,
/// because the leaves draw service times from it if the request has no key.
fn forward(request: &Request) -> Result<http::Request, curtail_http::h1::WriteError> {
    let key = request.head.header(QUERY_KEY).map(|key| (QUERY_KEY, key));
    let host: (&str, &[u8]) = ("host", b"leaf");
    let headers = [host].into_iter().chain(key);
    http::Request::new("GET", request.head.path_and_query(), headers, "", true)
}
