//! A protocol for services that store data on several replicas. The server has D-Stages in front of
//! its disk and its link. The client can be controlled by any policy of the kernel.
//!
//! Source: document 003 §3.5, DP-Network. It describes requests for flows of a given size, which
//! are pipelined over persistent connections, and purge messages on a separate connection.
//! Primaries and duplicates have separate connections, so that the network can distinguish them.
//! They also have separate threads at both ends ([`crate::cpu`]).
//!
//! ```
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! use curtail_kernel::{Limits, Policy, Topology, rng};
//! use curtail_runtime::{Cell, Query, Timers};
//! use curtail_stage::get::{Client, ClientOptions, Key, Server, ServerOptions};
//!
//! // Two servers of made-up data, and a client that duplicates every request.
//! let any = "127.0.0.1:0".parse().unwrap();
//! let servers = [
//!     Server::bind(any, any, ServerOptions::default()).await?,
//!     Server::bind(any, any, ServerOptions::default()).await?,
//! ];
//! let client = Client::new(servers.iter().map(Server::addresses), ClientOptions::default())?;
//! // A purged job stops.
//! let limits = Limits { cancel: true, ..Limits::default() };
//! let kernel = Policy::parse("das", None)?.build(&Topology::replicated(2, 1), limits, rng(42))?;
//! let cell = Cell::new(kernel, client.clone(), Timers::precise());
//! let response = cell.query(Query::new(client.job(Key::made_up(50_000)))).await?;
//! let bytes: usize = response.response.iter().map(|piece| piece.len()).sum();
//! assert_eq!(bytes, 50_000);
//! # Ok::<(), Box<dyn std::error::Error>>(()) }).unwrap();
//! ```

mod client;
mod server;
mod wire;

pub use client::{Client, ClientOptions, Job, Key};
pub use server::{Addresses, Load, Server, ServerOptions};
pub use wire::{
    DATA_BYTES_MAX, Get, NAME_BYTES_MAX, PIECE_BYTES_MAX, Request, Response, Status, WireError,
};
