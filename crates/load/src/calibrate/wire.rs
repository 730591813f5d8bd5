//! The methods over a wire, one of which has no other way: past the network stack nobody reaches a server of
//! their own machine. The wire is between two network namespaces of this process, without names, which are gone
//! when it ends. Needs root.

use std::io;
use std::net::Ipv4Addr;

use curtail_xdp::namespace::{Namespace, pair};
use tokio::runtime::Builder;

use super::echo::Echo;
use super::{Found, Method, measure};
use crate::engine::stamp::StampsBy;
use crate::plan::error::LoadError;

/// The far end of the wire.
const FAR: Ipv4Addr = Ipv4Addr::new(10, 201, 0, 2);
const METHODS: [(StampsBy, bool); 4] = [
    (StampsBy::User, true),
    (StampsBy::Kernel, true),
    (StampsBy::Xdp, false),
    (StampsBy::Xdp, true),
];

/// Measures all of them, to the end even if nobody waits for it. Without the rights, they say so.
pub(super) async fn methods() -> Result<Vec<Method>, LoadError> {
    let measuring = tokio::task::spawn_blocking(|| match pair() {
        Ok((near, far)) => on(&near, &far),
        Err(error) => Ok(METHODS.map(|of| method(of, Found::Lacking(error.to_string()))).into()),
    });
    measuring.await.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()))
}

fn on(near: &Namespace, far: &Namespace) -> Result<Vec<Method>, LoadError> {
    let echo = far.inside(|| Echo::start(false, FAR)).map_err(LoadError::Thread)?;
    // Threads and their sockets are of the namespace that they were started in.
    near.inside(|| -> io::Result<_> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let found = runtime.block_on(async {
            let mut methods = Vec::new();
            for of in METHODS {
                methods.push(method(of, measure(&echo, of.0, of.1).await?));
            }
            Ok(methods)
        });
        drop(echo);
        Ok(found)
    })
    .map_err(LoadError::Thread)?
}

fn method((stamps, spinning): (StampsBy, bool), found: Found) -> Method {
    Method { transport: "udp", over: "veth", stamps, spinning, found }
}
