//! The future of a query. It polls the copies of the query.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use smallvec::SmallVec;
use tokio::time::Instant;

use crate::copy::Copy;
use crate::drive;
use crate::inner::{Arrived, Inner};
use crate::query::{Query, QueryResponse};
use crate::tables::{Mail, QueryKey, QueryResult};
use crate::transport::Transport;

/// The future that resolves to a response.
///
/// It sends the copies of its query, so they make progress only while it is polled. Dropping it
/// abandons the query. Copies that the kernel does not stop then run on in tasks of their own.
pub struct Reply<T: Transport> {
    inner: Arc<Inner<T>>,
    /// `None` once the query has ended.
    key: Option<QueryKey>,
    request: T::Request,
    deadline: Option<Instant>,
    /// Decisions that have not been carried out.
    mail: Mail<T>,
    copies: SmallVec<[Arc<Copy<T>>; 1]>,
}

impl<T: Transport> Reply<T> {
    pub(crate) fn new(inner: &Arc<Inner<T>>, query: Query<T::Request>) -> Self {
        let Arrived { key, deadline, mail } = inner.arrive(&query);
        let (request, copies) = (query.request, SmallVec::new());
        Self { inner: Arc::clone(inner), key: Some(key), request, deadline, mail, copies }
    }

    /// Carries out decisions. Returns the result if the query has ended.
    fn follow(&mut self) -> Option<QueryResult<T>> {
        let starts = std::mem::take(&mut self.mail.starts);
        if let Some(mut end) = self.mail.end.take() {
            self.key = None;
            if let Ok(QueryResponse { response, copy, .. }) = &mut end
                && let Some(at) = self.copies.iter().position(|own| own.id() == *copy)
                && !self.copies[at].is_over()
            {
                let copy = self.copies.swap_remove(at);
                let driver = drive::attach(Arc::clone(&self.inner), copy);
                self.inner.transport.attach(response, driver);
            }
            self.leave(starts);
            return Some(end);
        }
        for copy in starts {
            drive::send(&self.inner, &copy, self.request.clone(), self.deadline);
            self.copies.push(copy);
        }
        None
    }

    /// Leaves the copies of a query that has ended.
    fn leave(&mut self, unsent: impl IntoIterator<Item = Arc<Copy<T>>>) {
        // Copies that have not been sent hold slots, too.
        for copy in unsent {
            drive::stop(&self.inner, &copy);
        }
        for copy in self.copies.iter().filter(|copy| copy.unbind()) {
            drive::stop(&self.inner, copy);
        }
        if !self.copies.is_empty() {
            drive::detach(&self.inner, std::mem::take(&mut self.copies));
        }
    }

    /// Polls the copies until one has reported something. Returns the decisions that follow.
    fn poll_copies(&mut self, context: &mut Context<'_>) -> Poll<Mail<T>> {
        for at in 0..self.copies.len() {
            let copy = &self.copies[at];
            if let Poll::Ready(mail) = drive::poll(&self.inner, copy, context, self.key) {
                if copy.is_over() {
                    self.copies.swap_remove(at);
                }
                return Poll::Ready(mail);
            }
        }
        Poll::Pending
    }
}

impl<T: Transport> Future for Reply<T> {
    type Output = QueryResult<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.get_mut();
        loop {
            if let Some(end) = this.follow() {
                return Poll::Ready(end);
            }
            let key = this.key.expect("a future is not polled after its end");
            this.mail = match this.poll_copies(context) {
                Poll::Ready(mail) => mail,
                Poll::Pending => match this.inner.collect(key, context.waker()) {
                    Some(mail) => mail,
                    None => return Poll::Pending,
                },
            };
        }
    }
}

impl<T: Transport> Unpin for Reply<T> {}

impl<T: Transport> Drop for Reply<T> {
    fn drop(&mut self) {
        let Some(key) = self.key else { return };
        let unseen = self.inner.abandon(key);
        let unsent = std::mem::take(&mut self.mail.starts);
        self.leave(unsent.into_iter().chain(unseen.starts));
    }
}
