//! Envoy's types and functions, as they are declared in C.

use std::ffi::{c_char, c_void};
use std::marker::PhantomData;

/// A pointer to an object of Envoy or of this module.
pub(super) type Object = *mut c_void;

/// Bytes of Envoy or of this module.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Slice<'a> {
    start: *const u8,
    length: usize,
    bytes: PhantomData<&'a [u8]>,
}

impl<'a> Slice<'a> {
    pub(super) const EMPTY: Self = Self { start: std::ptr::null(), length: 0, bytes: PhantomData };

    pub(crate) fn bytes(self) -> &'a [u8] {
        if self.start.is_null() || self.length == 0 {
            return &[];
        }
        // SAFETY: A slice is created from bytes that live for 'a, or by Envoy, whose bytes live for
        // the time that its caller states as 'a.
        unsafe { std::slice::from_raw_parts(self.start, self.length) }
    }
}

impl<'a, B: AsRef<[u8]> + ?Sized> From<&'a B> for Slice<'a> {
    fn from(bytes: &'a B) -> Self {
        let bytes = bytes.as_ref();
        Self { start: bytes.as_ptr(), length: bytes.len(), bytes: PhantomData }
    }
}

/// A header field.
#[derive(Clone, Copy)]
#[repr(C)]
pub(crate) struct Field<'a> {
    pub(crate) name: Slice<'a>,
    pub(crate) value: Slice<'a>,
}

impl<'a> Field<'a> {
    pub(super) const EMPTY: Self = Self { name: Slice::EMPTY, value: Slice::EMPTY };

    pub(crate) fn new(
        name: &'a (impl AsRef<[u8]> + ?Sized),
        value: &'a (impl AsRef<[u8]> + ?Sized),
    ) -> Self {
        Self { name: name.into(), value: value.into() }
    }
}

/// The result of starting a stream.
pub(super) const STARTED: u32 = 0;

macro_rules! callbacks {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        unsafe extern "C" {
            $(#[link_name = concat!("envoy_dynamic_module_callback_", stringify!($name))]
            pub(super) fn $name($($argument: $type),*) $(-> $result)?;)*
        }
    };
}

callbacks! {
    fn http_get_headers_size(filter: Object, map: u32) -> usize;
    fn http_get_headers(filter: Object, map: u32, fields: *mut Field<'_>) -> bool;
    fn http_get_body_size(filter: Object, body: u32) -> usize;
    fn http_get_body_chunks_size(filter: Object, body: u32) -> usize;
    fn http_get_body_chunks(filter: Object, body: u32, chunks: *mut Slice<'_>) -> bool;
    fn http_append_body(filter: Object, body: u32, data: Slice<'_>) -> bool;
    fn http_get_buffer_limit(filter: Object) -> u64;
    fn http_send_response(filter: Object, status: u32, fields: *mut Field<'_>, count: usize, body: Slice<'_>, details: Slice<'_>);
    fn http_send_response_headers(filter: Object, fields: *mut Field<'_>, count: usize, end: bool);
    fn http_send_response_data(filter: Object, data: Slice<'_>, end: bool);
    fn http_send_response_trailers(filter: Object, fields: *mut Field<'_>, count: usize);
    fn http_filter_start_http_stream(filter: Object, id: *mut u64, cluster: Slice<'_>, fields: *mut Field<'_>, count: usize, body: Slice<'_>, end: bool, timeout_ms: u64) -> u32;
    fn http_filter_reset_http_stream(filter: Object, id: u64);
    fn http_filter_continue_decoding(filter: Object);
    fn http_filter_continue_encoding(filter: Object);
    fn http_filter_recreate_stream(filter: Object, fields: *mut Field<'_>, count: usize) -> bool;
    fn http_filter_get_attribute_string(filter: Object, attribute: u32, value: *mut Slice<'_>) -> bool;
    fn http_filter_scheduler_new(filter: Object) -> Object;
    fn http_filter_scheduler_commit(scheduler: Object, event: u64);
    fn http_filter_scheduler_delete(scheduler: Object);
    fn http_clear_route_cache(filter: Object);
    fn http_set_header(filter: Object, map: u32, name: Slice<'_>, value: Slice<'_>) -> bool;
    fn get_most_specific_route_config(filter: Object) -> *const c_void;
    fn http_set_dynamic_metadata_string(filter: Object, namespace: Slice<'_>, key: Slice<'_>, value: Slice<'_>);
    fn http_set_dynamic_metadata_number(filter: Object, namespace: Slice<'_>, key: Slice<'_>, value: f64);
    fn http_filter_config_scheduler_new(config: Object) -> Object;
    fn http_filter_config_scheduler_commit(scheduler: Object, event: u64);
    fn http_filter_config_scheduler_delete(scheduler: Object);
    fn http_filter_config_define_counter(config: Object, name: Slice<'_>, labels: *mut Slice<'_>, count: usize, id: *mut usize) -> u32;
    fn http_filter_config_define_gauge(config: Object, name: Slice<'_>, labels: *mut Slice<'_>, count: usize, id: *mut usize) -> u32;
    fn http_filter_config_increment_counter(config: Object, id: usize, labels: *mut Slice<'_>, count: usize, value: u64) -> u32;
    fn http_filter_config_set_gauge(config: Object, id: usize, labels: *mut Slice<'_>, count: usize, value: u64) -> u32;
    fn http_filter_config_http_callout(config: Object, id: *mut u64, cluster: Slice<'_>, fields: *mut Field<'_>, count: usize, body: Slice<'_>, timeout_ms: u64) -> u32;
    fn lb_get_cluster_name(lb: Object, name: *mut Slice<'_>);
    fn lb_get_priority_set_size(lb: Object) -> usize;
    fn lb_get_hosts_count(lb: Object, priority: u32) -> usize;
    fn lb_get_host_address(lb: Object, priority: u32, index: usize, address: *mut Slice<'_>) -> bool;
    fn lb_get_healthy_hosts_count(lb: Object, priority: u32) -> usize;
    fn lb_get_healthy_host_address(lb: Object, priority: u32, index: usize, address: *mut Slice<'_>) -> bool;
    fn log_enabled(level: u32) -> bool;
    fn log(level: u32, message: Slice<'_>);
}

/// A text for C.
pub(super) type Text = *const c_char;
