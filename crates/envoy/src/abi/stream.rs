//! A request in Envoy (an HTTP stream), as its filter sees it.

use std::cell::Cell;
use std::marker::PhantomData;

use smallvec::SmallVec;

use super::raw::{self, Field, Object, STARTED, Slice};

/// A map of header fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Headers {
    Request = 0,
    Response = 2,
    ResponseTrailers = 3,
}

/// Bodies, by their numbers in the interface.
const RECEIVED_REQUEST: u32 = 0;
const BUFFERED_REQUEST: u32 = 1;
const RECEIVED_RESPONSE: u32 = 2;

/// The attribute `response.code_details`.
const CODE_DETAILS: u32 = 16;

/// The namespace of the metadata of requests.
const NAMESPACE: &str = "curtail";

/// The fields of a map.
pub(crate) struct Fields<'s>(SmallVec<[Field<'s>; 24]>);

impl<'s> Fields<'s> {
    /// Returns the values of a field, whose name is in lower case.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = &'s [u8]> {
        let named = self.0.iter().filter(move |field| field.name.bytes() == name.as_bytes());
        named.map(|field| field.value.bytes())
    }

    /// Returns the first value of a field.
    pub(crate) fn get(&self, name: &str) -> Option<&'s [u8]> {
        self.values(name).next()
    }
}

/// A request, during a hook. Bytes that it returns are valid until it is changed.
pub(crate) struct Stream<'h> {
    filter: Object,
    /// A hook runs on one thread.
    hook: PhantomData<&'h Cell<()>>,
}

impl Stream<'_> {
    /// # Safety
    /// `filter` is Envoy's pointer to the filter whose hook runs until the end of 'h.
    pub(super) unsafe fn new(filter: Object) -> Self {
        Self { filter, hook: PhantomData }
    }

    /// Returns the fields of a map. One call for all of them costs less than one for each.
    pub(crate) fn fields(&self, map: Headers) -> Fields<'_> {
        // SAFETY: See `new`. Envoy writes as many fields as it counted.
        unsafe {
            let count = raw::http_get_headers_size(self.filter, map as u32);
            let mut fields = SmallVec::from_elem(Field::EMPTY, count);
            if !raw::http_get_headers(self.filter, map as u32, fields.as_mut_ptr()) {
                fields.clear();
            }
            Fields(fields)
        }
    }

    /// Appends the part of the request's body that this hook is about to `body`.
    pub(crate) fn read_body(&self, body: &mut Vec<u8>) {
        // SAFETY: See `new`. Envoy writes as many chunks as it counted.
        let chunks = unsafe {
            let count = raw::http_get_body_chunks_size(self.filter, RECEIVED_REQUEST);
            let mut chunks: SmallVec<[_; 8]> = SmallVec::from_elem(Slice::EMPTY, count);
            if !raw::http_get_body_chunks(self.filter, RECEIVED_REQUEST, chunks.as_mut_ptr()) {
                chunks.clear();
            }
            chunks
        };
        chunks.iter().for_each(|chunk| body.extend_from_slice(chunk.bytes()));
    }

    /// Returns the size of the part of the response's body that this hook is about.
    pub(crate) fn response_body_size(&self) -> usize {
        // SAFETY: See `new`.
        unsafe { raw::http_get_body_size(self.filter, RECEIVED_RESPONSE) }
    }

    /// Sets a field of the request, by which Envoy then chooses the route again.
    pub(crate) fn reroute(&mut self, name: &str, value: &str) {
        // SAFETY: See `new`. Envoy copies the field.
        unsafe {
            raw::http_set_header(self.filter, Headers::Request as u32, name.into(), value.into());
            raw::http_clear_route_cache(self.filter);
        }
    }

    /// Adds a body to a request that has none.
    pub(crate) fn add_body(&mut self, body: &[u8]) {
        // SAFETY: See `new`.
        unsafe { raw::http_append_body(self.filter, BUFFERED_REQUEST, body.into()) };
    }

    /// Returns how much of a body Envoy keeps for this filter, in bytes. `None` if there is no
    /// limit.
    pub(crate) fn buffer_limit(&self) -> Option<u64> {
        // SAFETY: See `new`.
        Some(unsafe { raw::http_get_buffer_limit(self.filter) }).filter(|limit| *limit > 0)
    }

    /// Returns how the response came about, in Envoy's words.
    pub(crate) fn details(&self) -> &[u8] {
        let mut details = Slice::EMPTY;
        let into = &raw mut details;
        // SAFETY: See `new`. Envoy writes to the variable.
        let found =
            unsafe { raw::http_filter_get_attribute_string(self.filter, CODE_DETAILS, into) };
        if found { details.bytes() } else { &[] }
    }

    /// Adds a text to the metadata of the request, for the access log.
    pub(crate) fn note(&mut self, key: &str, value: &str) {
        let (namespace, key) = (NAMESPACE.into(), key.into());
        // SAFETY: See `new`. Envoy copies the texts.
        unsafe {
            raw::http_set_dynamic_metadata_string(self.filter, namespace, key, value.into());
        }
    }

    /// Adds a number to the metadata of the request, for the access log.
    pub(crate) fn note_number(&mut self, key: &str, value: f64) {
        let (namespace, key) = (NAMESPACE.into(), key.into());
        // SAFETY: See `new`. Envoy copies the text.
        unsafe { raw::http_set_dynamic_metadata_number(self.filter, namespace, key, value) };
    }

    /// Sends a copy of the request, with this body, to a cluster. `None` if it cannot be sent.
    pub(crate) fn start(&mut self, cluster: &str, body: &[u8]) -> Option<u64> {
        let Fields(mut fields) = self.fields(Headers::Request);
        let mut id = 0;
        // SAFETY: See `new`. Envoy copies the fields and the body, and writes to the variable.
        let started = unsafe {
            let (fields, count) = (fields.as_mut_ptr(), fields.len());
            let (cluster, body) = (cluster.into(), body.into());
            let id = &raw mut id;
            raw::http_filter_start_http_stream(
                self.filter,
                id,
                cluster,
                fields,
                count,
                body,
                true,
                0,
            )
        };
        (started == STARTED).then_some(id)
    }

    /// Resets a copy.
    pub(crate) fn reset(&mut self, id: u64) {
        // SAFETY: See `new`. Envoy ignores numbers of streams that have ended.
        unsafe { raw::http_filter_reset_http_stream(self.filter, id) };
    }

    /// Passes a request that has waited to the next filter.
    pub(crate) fn continue_request(&mut self) {
        // SAFETY: See `new`.
        unsafe { raw::http_filter_continue_decoding(self.filter) };
    }

    /// Passes a response that has waited to the client.
    pub(crate) fn continue_response(&mut self) {
        // SAFETY: See `new`.
        unsafe { raw::http_filter_continue_encoding(self.filter) };
    }

    /// Begins the request anew, as if it had just arrived, with new filters. Returns false if that
    /// is not possible. Otherwise, this stream is over.
    pub(crate) fn recreate(&mut self) -> bool {
        // SAFETY: See `new`.
        unsafe { raw::http_filter_recreate_stream(self.filter, std::ptr::null_mut(), 0) }
    }

    /// Responds with a text of this module's own.
    pub(crate) fn respond(&mut self, status: u16, fields: &[Field<'_>], text: &str) {
        let mut fields: SmallVec<[_; 2]> = fields.into();
        let details = "curtail".into();
        // SAFETY: See `new`. Envoy copies the fields and the text.
        unsafe {
            let (fields, count) = (fields.as_mut_ptr(), fields.len());
            let (status, text) = (status.into(), text.into());
            raw::http_send_response(self.filter, status, fields, count, text, details);
        }
    }

    /// Responds with these fields, this body and these trailers. The fields include `:status`.
    pub(crate) fn relay(
        &mut self,
        fields: &mut [Field<'_>],
        body: &[u8],
        trailers: &mut [Field<'_>],
    ) {
        let (has_body, has_trailers) = (!body.is_empty(), !trailers.is_empty());
        // SAFETY: See `new`. Envoy copies the fields and the body. The stream exists until the hook
        // ends, even if it is over.
        unsafe {
            let (start, count) = (fields.as_mut_ptr(), fields.len());
            let end = !has_body && !has_trailers;
            raw::http_send_response_headers(self.filter, start, count, end);
            if has_body {
                raw::http_send_response_data(self.filter, body.into(), !has_trailers);
            }
            if has_trailers {
                let (start, count) = (trailers.as_mut_ptr(), trailers.len());
                raw::http_send_response_trailers(self.filter, start, count);
            }
        }
    }

    /// Returns what wakes this filter from any thread.
    pub(crate) fn scheduler(&self) -> Scheduler {
        // SAFETY: See `new`.
        Scheduler(unsafe { raw::http_filter_scheduler_new(self.filter) })
    }
}

/// Wakes a filter, from any thread and even after its end.
pub(crate) struct Scheduler(Object);

// SAFETY: Envoy's scheduler belongs to no thread, and posts the event to the thread of the filter.
unsafe impl Send for Scheduler {}
// SAFETY: As above; `commit` does not change the scheduler.
unsafe impl Sync for Scheduler {}

impl Scheduler {
    /// Lets Envoy call the hook `scheduled`.
    pub(crate) fn wake(&self) {
        // SAFETY: The scheduler lives until it is dropped here.
        unsafe { raw::http_filter_scheduler_commit(self.0, 0) };
    }
}

impl Drop for Scheduler {
    fn drop(&mut self) {
        // SAFETY: It is dropped once.
        unsafe { raw::http_filter_scheduler_delete(self.0) };
    }
}
