//! A transport that uses tower services, and a tower service that wraps a cell.

use std::task::{Context, Poll};

use curtail_kernel::ServerId;
use tower::{Service, ServiceExt as _};

use crate::cell::Cell;
use crate::failure::Failure;
use crate::query::{Query, QueryError, QueryResponse};
use crate::reply::Reply;
use crate::transport::{CopyHandle, Head, Transport};

const NO_SERVICE: Failure = Failure::ConnectFailed(std::io::ErrorKind::NotFound);

/// A transport that sends through one tower service per server.
///
/// An error of a service counts as a connection that broke. A response counts as complete; services
/// that stream need their own [`Transport`].
#[derive(Clone, Debug)]
pub struct Services<S, R> {
    services: Vec<S>,
    request: std::marker::PhantomData<fn(R)>,
}

impl<S, R> Services<S, R> {
    /// Creates a transport from one service per server, in the order of the topology.
    pub fn new(services: impl IntoIterator<Item = S>) -> Self {
        Self { services: services.into_iter().collect(), request: std::marker::PhantomData }
    }
}

impl<S, R> Transport for Services<S, R>
where
    S: Service<R> + Clone + Send + Sync + 'static,
    S::Response: Send + 'static,
    S::Future: Send,
    R: Clone + Send + 'static,
{
    type Request = R;
    type Response = S::Response;

    async fn send(
        &self,
        server: ServerId,
        request: R,
        _: CopyHandle,
    ) -> Result<Head<S::Response>, Failure> {
        let service = self.services.get(server.index()).ok_or(NO_SERVICE)?.clone();
        service.oneshot(request).await.map(Head::whole).map_err(|_| Failure::Reset)
    }
}

/// A tower service that wraps a cell.
///
/// It is always ready: the kernel's queue absorbs load, and sheds queries when it is full.
pub struct ReplicaGroup<T: Transport>(pub Cell<T>);

impl<T: Transport> Clone for ReplicaGroup<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Transport> Service<Query<T::Request>> for ReplicaGroup<T> {
    type Response = QueryResponse<T::Response>;
    type Error = QueryError<T::Response>;
    type Future = Reply<T>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, query: Query<T::Request>) -> Self::Future {
        self.0.query(query)
    }
}
