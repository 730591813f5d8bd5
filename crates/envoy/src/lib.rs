//! The kernel inside Envoy, as a dynamic module.
//!
//! A filter in front of Envoy's router asks the cell of a shard where and when each copy of a
//! request is sent. The router sends the first copy, so everything that a route states applies to
//! it, and the module sends duplicates. The load-balancing policy of the cluster tells the cells
//! which hosts there are, and gives each copy the host that its cell chose.
//!
//! | module | what it does |
//! |---|---|
//! | `abi` | Envoy's interface; all unsafe code |
//! | `module` | what there is once per process: threads, log |
//! | `service` | cells, from a filter's configuration |
//! | `cluster` | hosts of a cluster, from Envoy's main thread to the cells |
//! | `balancer` | the load-balancing policy |
//! | `errands`, `metrics` | what Envoy's main thread does: load probes, statistics |
//! | `link` | between the copies of a request, which any thread may end, and its filter |
//! | `filter` | a request |

#[allow(unsafe_code)]
mod abi;
mod balancer;
mod cluster;
mod errands;
mod filter;
mod link;
mod message;
mod metrics;
mod module;
mod service;
