//! HTTP between a client, a proxy and a replica.
//!
//! [`h1`] implements HTTP/1.1.

pub mod h1;
