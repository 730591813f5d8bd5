//! All integration tests are in one binary, because linking them takes longer than running them.

mod addresses;
mod common;
mod expiry;
mod proxy;
mod reload;
mod sockets;
mod tls_client;
mod tls_server;
