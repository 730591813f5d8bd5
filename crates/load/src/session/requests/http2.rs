//! HTTP/2 requests. Parts that do not depend on the key are shared.

use std::fmt::Display;
use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};
use http::uri::{Authority, Parts, PathAndQuery};
use http::{Method, Request, Uri};

use super::http::each;
use super::{Texts, refused};
use crate::plan::Plan;
use crate::plan::error::PlanError;

#[derive(Debug)]
pub(crate) struct Call {
    pub(crate) head: Arc<CallHead>,
    path: PathAndQuery,
    pub(crate) body: Option<Bytes>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct CallHead {
    pub(crate) method: Method,
    pub(super) authority: Authority,
    pub(super) headers: HeaderMap,
    pub(super) is_tls: bool,
    pub(crate) is_grpc: bool,
}

impl Call {
    pub(super) fn new(head: Arc<CallHead>, path: PathAndQuery, body: Option<Bytes>) -> Call {
        Call { head, path, body }
    }

    pub(crate) fn request(&self) -> Request<()> {
        let mut parts = Parts::default();
        parts.scheme =
            Some(if self.head.is_tls { http::uri::Scheme::HTTPS } else { http::uri::Scheme::HTTP });
        parts.authority = Some(self.head.authority.clone());
        parts.path_and_query = Some(self.path.clone());
        let mut request = Request::new(());
        *request.uri_mut() = Uri::from_parts(parts).expect("scheme, authority and path are set");
        *request.method_mut() = self.head.method.clone();
        *request.headers_mut() = self.head.headers.clone();
        // The length lets a server reject a long body early. gRPC calls omit it.
        if let Some(body) = self.body.as_ref().filter(|_| !self.head.is_grpc) {
            request.headers_mut().insert(CONTENT_LENGTH, body.len().into());
        }
        request
    }
}

pub(super) fn render(plan: &Plan, texts: &Texts<'_>) -> Result<Vec<Call>, PlanError> {
    let mut calls: Vec<Call> = Vec::with_capacity(texts.len());
    each(plan, texts, |text, complete| {
        let method = Method::from_bytes(complete.method.as_bytes())
            .map_err(|_| refused(text, format!("method `{}` is not a token", complete.method)))?;
        let head = head(plan, method, complete.headers.iter().copied());
        let head = head.map_err(|why| refused(text, why))?;
        // This is most likely the same request with a different key.
        let before = calls.len().checked_sub(texts.texts.len()).map(|at| &calls[at].head);
        let head = match before.filter(|before| ***before == head) {
            Some(before) => Arc::clone(before),
            None => Arc::new(head),
        };
        let path = PathAndQuery::try_from(complete.path.as_str())
            .map_err(|error| refused(text, format!("the path cannot be sent: {error}")))?;
        calls.push(Call::new(head, path, complete.body.clone()));
        Ok(())
    })?;
    Ok(calls)
}

pub(super) fn head<'a>(
    plan: &Plan,
    method: Method,
    given: impl IntoIterator<Item = &'a (String, String)>,
) -> Result<CallHead, String> {
    let (mut authority, mut headers) = (plan.target.authority(), HeaderMap::new());
    for (name, value) in given {
        let cannot = |error: &dyn Display| format!("header `{name}: {value}`: {error}");
        let key = HeaderName::from_bytes(name.as_bytes()).map_err(|error| cannot(&error))?;
        if key == HOST {
            authority.clone_from(value);
            continue;
        }
        let value = HeaderValue::from_bytes(value.as_bytes()).map_err(|error| cannot(&error))?;
        headers.append(key, value);
    }
    let authority = Authority::try_from(authority.as_str())
        .map_err(|error| format!("host `{authority}` cannot be sent: {error}"))?;
    let is_tls = plan.target.scheme().is_tls();
    Ok(CallHead { method, authority, headers, is_tls, is_grpc: false })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_has_a_content_length_and_a_grpc_call_has_none() {
        let length = |is_grpc, body: Option<&'static str>| {
            let head = CallHead {
                method: Method::POST,
                authority: Authority::from_static("h.example"),
                headers: HeaderMap::new(),
                is_tls: false,
                is_grpc,
            };
            let call =
                Call::new(Arc::new(head), PathAndQuery::from_static("/"), body.map(Bytes::from));
            call.request().headers().get(CONTENT_LENGTH).cloned()
        };
        assert_eq!(length(false, Some("abc")).unwrap(), "3");
        assert_eq!(length(false, Some("")).unwrap(), "0");
        assert_eq!((length(false, None), length(true, Some("abc"))), (None, None));
    }
}
