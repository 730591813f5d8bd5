//! The functions that Envoy calls.
//!
//! A panic must not reach Envoy, so every hook catches it. A filter may end while one of its hooks
//! runs, because the hook has ended the request; it is freed when the outermost hook returns.

use std::cell::{Cell, OnceCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::raw::{self, Field, Object, Slice, Text};
use super::{BodyStatus, Desk, HeadStatus, HostSet, OpenDesk, Status, Stream, TrailersStatus};
use crate::balancer::Balancer;
use crate::errands::{self, Errands};
use crate::filter::{Filter, Handover};
use crate::metrics::{COUNTERS, GAUGES, LABELS};
use crate::module;
use crate::service::{self, Service};

/// Runs a hook. After a panic, which the panic hook reports, it returns `otherwise`.
fn guard<V>(otherwise: V, hook: impl FnOnce() -> V) -> V {
    catch_unwind(AssertUnwindSafe(hook)).unwrap_or(otherwise)
}

fn boxed<V>(value: V) -> Object {
    Box::into_raw(Box::new(value)).cast()
}

/// Returns UTF-8 text, or `None`.
fn text<'a>(slice: Slice<'a>) -> Option<&'a str> {
    std::str::from_utf8(slice.bytes()).ok()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_program_init() -> Text {
    guard(std::ptr::null(), || {
        module::start(errands::publish());
        c"v0.2.0".as_ptr()
    })
}

/// What a configuration of the filter names. `None` if it names no service.
type Named = Option<Arc<Service>>;

/// Reads a configuration. `None` if it has errors.
fn named(config: Slice<'_>) -> Option<Named> {
    match text(config)?.trim() {
        "" | "{}" => Some(None),
        config => Service::of(config).map(Some),
    }
}

/// The configuration of a filter.
struct FilterConfig {
    named: Named,
    desk: Arc<Desk>,
    errands: Errands,
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_config_new(
    envoy: Object,
    _: Slice<'_>,
    config: Slice<'_>,
) -> Object {
    guard(std::ptr::null_mut(), || {
        let Some(named) = named(config) else { return std::ptr::null_mut() };
        // SAFETY: Envoy creates the configuration.
        let desk = unsafe { Desk::open(envoy, &COUNTERS, &GAUGES, &LABELS) };
        boxed(FilterConfig { named, desk, errands: Errands::default() })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_destroy(config: Object) {
    // SAFETY: It is a pointer from `config_new`, and Envoy uses it no more.
    guard((), || drop(unsafe { Box::from_raw(config.cast::<FilterConfig>()) }));
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_scheduled(
    _: Object,
    config: Object,
    _: u64,
) {
    guard((), || {
        // SAFETY: It is a pointer from `config_new`, and Envoy's main thread calls this hook.
        let config = unsafe { &*config.cast::<FilterConfig>() };
        // SAFETY: As above.
        let desk = unsafe { OpenDesk::new(&config.desk) };
        if config.errands.run(&desk) {
            service::flush(&desk);
        }
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_config_http_callout_done(
    _: Object,
    config: Object,
    id: u64,
    _: u32,
    fields: *const Field<'_>,
    count: usize,
    _: Object,
    _: usize,
) {
    guard((), || {
        // SAFETY: It is a pointer from `config_new`, and Envoy passes as many fields as it counts.
        let (config, fields) = unsafe { (&*config.cast::<FilterConfig>(), slice(fields, count)) };
        config.errands.answered(id, fields);
    });
}

/// Whether there has been a configuration of a route. Without one, no request looks for it.
static HAS_ROUTES: AtomicBool = AtomicBool::new(false);

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_http_filter_per_route_config_new(
    _: Slice<'_>,
    config: Slice<'_>,
) -> Object {
    HAS_ROUTES.store(true, Ordering::Relaxed);
    guard(std::ptr::null_mut(), || named(config).map_or(std::ptr::null_mut(), boxed))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_per_route_config_destroy(config: Object) {
    // SAFETY: It is a pointer from `per_route_config_new`, and Envoy uses it no more.
    guard((), || drop(unsafe { Box::from_raw(config.cast::<Named>()) }));
}

/// A filter, and whether hooks of it run.
struct Instance {
    /// The service of the filter's configuration.
    named: Named,
    /// What a filter before this one has left.
    handover: Cell<Option<Handover>>,
    /// Present once the request has arrived, unless no service is named.
    filter: OnceCell<Filter>,
    /// The number of hooks that run. A hook may call Envoy, which calls another one.
    depth: Cell<u32>,
    /// Envoy has ended it.
    is_over: Cell<bool>,
}

impl Instance {
    /// The request has arrived. Returns false if no service is named.
    fn begin(&self, filter: Object, stream: &mut Stream<'_>) -> bool {
        let of_route = match HAS_ROUTES.load(Ordering::Relaxed) {
            // SAFETY: Envoy calls a hook of this filter.
            true => unsafe { raw::get_most_specific_route_config(filter) },
            false => std::ptr::null(),
        };
        // SAFETY: It is a pointer from `per_route_config_new`, and lives as long as the route.
        let of_route = unsafe { of_route.cast::<Named>().as_ref() };
        let Some(service) = of_route.unwrap_or(&self.named) else { return false };
        self.filter.get_or_init(|| Filter::new(service, stream, self.handover.take()));
        true
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_new(config: Object, _: Object) -> Object {
    guard(std::ptr::null_mut(), || {
        // SAFETY: It is a pointer from `config_new`, which lives longer than its filters.
        let named = unsafe { &*config.cast::<FilterConfig>() }.named.clone();
        let (depth, is_over) = (Cell::new(0), Cell::new(false));
        let handover = Cell::new(Handover::take());
        boxed(Instance { named, handover, filter: OnceCell::new(), depth, is_over })
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_destroy(instance: Object) {
    let pointer = instance.cast::<Instance>();
    // SAFETY: It is a pointer from `filter_new`.
    let instance = unsafe { &*pointer };
    instance.is_over.set(true);
    if instance.depth.get() == 0 {
        // SAFETY: No hook runs, and Envoy calls no more of them.
        guard((), || drop(unsafe { Box::from_raw(pointer) }));
    }
}

/// Runs a hook of a filter. After a panic, the client gets a 500. Without a filter, everything
/// passes.
///
/// # Safety
/// `filter` is Envoy's filter, and `instance` the pointer that `filter_new` returned for it.
unsafe fn on<V: Status>(
    filter: Object,
    instance: Object,
    hook: impl FnOnce(&Filter, &mut Stream<'_>) -> V,
) -> V {
    let pointer = instance.cast::<Instance>();
    // SAFETY: The instance lives until `destroy` finds no hook that runs, or the last hook returns.
    let instance = unsafe { &*pointer };
    let Some(of) = instance.filter.get() else { return V::PASS };
    // SAFETY: Envoy calls this hook.
    let mut stream = unsafe { Stream::new(filter) };
    instance.depth.set(instance.depth.get() + 1);
    let result = catch_unwind(AssertUnwindSafe(|| hook(of, &mut stream)));
    let result = result.unwrap_or_else(|_| {
        if !instance.is_over.get() {
            guard((), || of.broken(&mut stream));
        }
        V::HOLD
    });
    instance.depth.set(instance.depth.get() - 1);
    if instance.depth.get() == 0 && instance.is_over.get() {
        // SAFETY: Envoy has ended the filter, and this was the last hook.
        guard((), || drop(unsafe { Box::from_raw(pointer) }));
    }
    result
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_http_filter_request_headers(
    filter: Object,
    instance: Object,
    end: bool,
) -> HeadStatus {
    let begun = guard(false, || {
        // SAFETY: It is the pointer from `filter_new`, and Envoy calls this hook.
        unsafe { (*instance.cast::<Instance>()).begin(filter, &mut Stream::new(filter)) }
    });
    if !begun {
        return HeadStatus::Continue;
    }
    // SAFETY: Envoy passes its filter and the pointer from `filter_new`.
    unsafe { on(filter, instance, |filter, stream| filter.request_head(stream, end)) }
}

/// Defines hooks of a filter: their names, further parameters, and what they do.
macro_rules! hooks {
    ($($name:ident($filter:ident, $stream:ident $(, $argument:ident: $type:ty)*) $(-> $result:ty)?
        => $body:expr;)*) => {
        $(#[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            filter: Object, instance: Object $(, $argument: $type)*
        ) $(-> $result)? {
            // SAFETY: Envoy passes its filter and the pointer from `filter_new`.
            unsafe { on(filter, instance, |$filter, $stream| $body) }
        })*
    };
}

hooks! {
    envoy_dynamic_module_on_http_filter_request_body(filter, stream, end: bool) -> BodyStatus
        => filter.request_body(stream, end);
    envoy_dynamic_module_on_http_filter_request_trailers(filter, stream) -> TrailersStatus
        => filter.request_trailers(stream);
    envoy_dynamic_module_on_http_filter_response_headers(filter, stream, end: bool) -> HeadStatus
        => filter.response_head(stream, end);
    envoy_dynamic_module_on_http_filter_response_body(filter, stream, end: bool) -> BodyStatus
        => filter.response_body(stream, end);
    envoy_dynamic_module_on_http_filter_response_trailers(filter, stream) -> TrailersStatus
        => filter.response_trailers(stream);
    envoy_dynamic_module_on_http_filter_local_reply(
        filter, stream, _status: u32, _details: Slice<'_>, _resets: bool) -> HeadStatus
        => { filter.local_reply(stream); HeadStatus::Continue };
    envoy_dynamic_module_on_http_filter_stream_complete(filter, stream)
        => filter.request_over(stream);
    envoy_dynamic_module_on_http_filter_scheduled(filter, stream, _event: u64)
        => filter.woken(stream);
    envoy_dynamic_module_on_http_filter_http_stream_headers(
        filter, stream, id: u64, fields: *const Field<'_>, count: usize, _end: bool)
        => filter.copy_head(stream, id, slice(fields, count));
    envoy_dynamic_module_on_http_filter_http_stream_data(
        filter, stream, id: u64, chunks: *const Slice<'_>, count: usize, _end: bool)
        => filter.copy_body(stream, id, slice(chunks, count));
    envoy_dynamic_module_on_http_filter_http_stream_trailers(
        filter, stream, id: u64, fields: *const Field<'_>, count: usize)
        => filter.copy_trailers(stream, id, slice(fields, count));
    envoy_dynamic_module_on_http_filter_http_stream_complete(filter, stream, id: u64)
        => filter.copy_over(stream, id);
    envoy_dynamic_module_on_http_filter_http_stream_reset(filter, stream, id: u64, reason: u32)
        => filter.copy_reset(stream, id, reason);
    // The filter makes no callouts, and is not a terminal one.
    envoy_dynamic_module_on_http_filter_http_callout_done(
        _filter, _stream, _id: u64, _result: u32, _fields: Object, _count: usize, _chunks: Object,
        _chunk_count: usize) => ();
    envoy_dynamic_module_on_http_filter_downstream_above_write_buffer_high_watermark(
        _filter, _stream) => ();
    envoy_dynamic_module_on_http_filter_downstream_below_write_buffer_low_watermark(
        _filter, _stream) => ();
}

/// # Safety
/// The items live until the hook returns.
unsafe fn slice<'a, V>(start: *const V, count: usize) -> &'a [V] {
    if start.is_null() || count == 0 {
        return &[];
    }
    // SAFETY: See above.
    unsafe { std::slice::from_raw_parts(start, count) }
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_lb_config_new(
    _: Object,
    _: Slice<'_>,
    _: Slice<'_>,
) -> Object {
    // The policy of a cluster is that of the service that uses it, so there is nothing to set. The
    // pointer only must not be null.
    std::ptr::NonNull::<u8>::dangling().as_ptr().cast()
}

#[unsafe(no_mangle)]
extern "C" fn envoy_dynamic_module_on_lb_config_destroy(_: Object) {}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_lb_new(_: Object, lb: Object) -> Object {
    guard(std::ptr::null_mut(), || {
        // SAFETY: Envoy calls this hook.
        let hosts = unsafe { HostSet::new(lb) };
        boxed(Balancer::new(&hosts))
    })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_lb_destroy(balancer: Object) {
    // SAFETY: It is a pointer from `lb_new`, and Envoy uses it no more.
    guard((), || drop(unsafe { Box::from_raw(balancer.cast::<Balancer>()) }));
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_lb_on_host_membership_update(
    lb: Object,
    balancer: Object,
    _: usize,
    _: usize,
) {
    guard((), || {
        // SAFETY: Envoy calls this hook, and each balancer belongs to one thread.
        let (hosts, balancer) = unsafe { (HostSet::new(lb), &*balancer.cast::<Balancer>()) };
        balancer.update(&hosts);
    });
}

#[unsafe(no_mangle)]
unsafe extern "C" fn envoy_dynamic_module_on_lb_choose_host(
    _: Object,
    balancer: Object,
    _: Object,
    priority: *mut u32,
    index: *mut u32,
) -> bool {
    guard(false, || {
        // SAFETY: Each balancer belongs to one thread.
        let balancer = unsafe { &*balancer.cast::<Balancer>() };
        let Some(chosen) = balancer.choose() else { return false };
        // SAFETY: Envoy passes two variables.
        unsafe { (*priority, *index) = (chosen.priority, chosen.index) };
        true
    })
}
