//! Exports the spans of traces over OTLP, if the standard variables of OpenTelemetry name a collector.
//!
//! The engine makes spans as `tracing` events; this is the layer that listens to them. A thread of the SDK sends them in batches, and drops
//! what is more than it can take: a collector that is slow or down delays nothing.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use holdfast_core::engine::SPAN_TARGET;
use opentelemetry::trace::{SpanContext, SpanId, SpanKind, Status, TraceFlags, TraceId, TraceState};
use opentelemetry::{InstrumentationScope, KeyValue, Value};
use opentelemetry_otlp::SpanExporter;
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchSpanProcessor, SpanData, SpanEvents, SpanLinks, SpanProcessor};
use tracing::field::{Field, Visit};
use tracing::{Event, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterFn, Filtered, filter_fn};
use tracing_subscriber::layer::Context;

/// How long the process waits at its end for the last spans.
const LAST_SPANS_TIMEOUT: Duration = Duration::from_secs(2);
const ENDPOINTS: [&str; 2] = ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"];

/// Sends the last spans when it is dropped.
pub(crate) struct Spans(Arc<BatchSpanProcessor>);

pub(crate) struct SpanLayer {
    processor: Arc<BatchSpanProcessor>,
    scope: InstrumentationScope,
}

/// `None`: no collector is named, or tracing is switched off.
pub(crate) fn start() -> Result<Option<Spans>> {
    let is_off = variable("OTEL_SDK_DISABLED").is_some_and(|value| value.eq_ignore_ascii_case("true"))
        || variable("OTEL_TRACES_EXPORTER").is_some_and(|value| value == "none");
    if is_off || !ENDPOINTS.iter().any(|name| variable(name).is_some()) {
        return Ok(None);
    }
    // For a collector behind TLS. It fails if there is one already, which is the same.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let exporter =
        SpanExporter::builder().with_http().build().context("the OTLP exporter cannot be configured")?;
    let mut processor = BatchSpanProcessor::builder(exporter).build();
    processor.set_resource(&resource());
    Ok(Some(Spans(Arc::new(processor))))
}

fn resource() -> Resource {
    let is_named = variable("OTEL_SERVICE_NAME").is_some()
        || variable("OTEL_RESOURCE_ATTRIBUTES").is_some_and(|value| value.contains("service.name="));
    let builder = Resource::builder();
    let builder = if is_named { builder } else { builder.with_service_name("holdfast") };
    builder.with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION"))).build()
}

#[expect(clippy::disallowed_methods, reason = "read once, at start")]
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

impl Spans {
    pub(crate) fn layer<S: Subscriber>(&self) -> Filtered<SpanLayer, FilterFn, S>
    where
        SpanLayer: Layer<S>,
    {
        let scope = InstrumentationScope::builder("holdfast").with_version(env!("CARGO_PKG_VERSION")).build();
        let layer = SpanLayer { processor: Arc::clone(&self.0), scope };
        let is_span: fn(&Metadata<'_>) -> bool = |metadata| metadata.target() == SPAN_TARGET;
        layer.with_filter(filter_fn(is_span))
    }
}

impl Drop for Spans {
    fn drop(&mut self) {
        // What is not sent by then is lost; there is no log any more to say so.
        let _ = self.0.shutdown_with_timeout(LAST_SPANS_TIMEOUT);
    }
}

impl<S: Subscriber> Layer<S> for SpanLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        if fields.trace_id != 0 {
            self.processor.on_end(fields.into_span(self.scope.clone()));
        }
    }
}

/// The fields of an event, which are described at [`SPAN_TARGET`].
#[derive(Default)]
struct Fields {
    name: String,
    trace_id: u128,
    span_id: u64,
    parent_id: u64,
    ended_ms: i64,
    took_us: u64,
    error: Option<String>,
    attributes: Vec<KeyValue>,
}

impl Fields {
    fn into_span(self, instrumentation_scope: InstrumentationScope) -> SpanData {
        let end_time = time_of(self.ended_ms);
        let took = Duration::from_micros(self.took_us);
        SpanData {
            span_context: SpanContext::new(
                TraceId::from_bytes(self.trace_id.to_be_bytes()),
                SpanId::from_bytes(self.span_id.to_be_bytes()),
                TraceFlags::SAMPLED,
                false,
                TraceState::default(),
            ),
            parent_span_id: SpanId::from_bytes(self.parent_id.to_be_bytes()),
            parent_span_is_remote: self.name == "accept",
            span_kind: if self.name == "accept" { SpanKind::Server } else { SpanKind::Client },
            name: self.name.into(),
            start_time: end_time.checked_sub(took).unwrap_or(end_time),
            end_time,
            attributes: self.attributes,
            dropped_attributes_count: 0,
            events: SpanEvents::default(),
            links: SpanLinks::default(),
            status: self.error.map_or(Status::Unset, Status::error),
            instrumentation_scope,
        }
    }

    fn add(&mut self, field: &Field, value: impl Into<Value>) {
        let name = match field.name() {
            "status" => "http.response.status_code".to_owned(),
            other => format!("holdfast.{other}"),
        };
        self.attributes.push(KeyValue::new(name, value));
    }
}

fn time_of(ms: i64) -> SystemTime {
    UNIX_EPOCH + Duration::from_millis(u64::try_from(ms).unwrap_or(0))
}

impl Visit for Fields {
    fn record_u128(&mut self, field: &Field, value: u128) {
        if field.name() == "trace_id" {
            self.trace_id = value;
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        match field.name() {
            "span_id" => self.span_id = value,
            "parent_id" => self.parent_id = value,
            "took_us" => self.took_us = value,
            _ => self.add(field, i64::try_from(value).unwrap_or(i64::MAX)),
        }
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        if field.name() == "ended_ms" {
            self.ended_ms = value;
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "span" => value.clone_into(&mut self.name),
            "error" => self.error = Some(value.to_owned()),
            _ => self.add(field, value.to_owned()),
        }
    }

    /// No field of a span is recorded like this.
    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}
