//! The proxy: checks each call as AWS does, throttles it, lets some of them go wrong, and passes the others on to the emulator.

use std::collections::{HashMap, HashSet};
use std::convert::Infallible;
use std::future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result};
use axum::body::Body;
use bytes::Bytes;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::actions::{actions, links};
use super::call::{Call, Service};
use super::faults::{Dice, Shares};
use super::refusal::Refusal;
use super::report::Report;
use super::schema::Schema;
use super::throttle::{Limits, Throttle};
use super::{dynamo, sqs, touch};

/// The most bytes of a request: a batch has 16 MB of items, and JSON takes more.
const MAX_REQUEST_BYTES: usize = 64 * 1_024 * 1_024;
const CONTENT_TYPE: &str = "application/x-amz-json-1.0";

pub struct Options {
    /// The URL of the emulator.
    pub upstream: String,
    pub shares: Shares,
    pub limits: Limits,
    pub seed: u64,
}

pub struct Proxy {
    upstream: String,
    client: reqwest::Client,
    pub(super) shares: Shares,
    pub(super) throttle: Throttle,
    pub(super) dice: Dice,
    report: Mutex<Report>,
    schemas: Mutex<HashMap<String, Arc<Schema>>>,
    /// The tokens of transactions that were made.
    made: Mutex<HashSet<String>>,
}

/// The connection is closed without an answer.
#[derive(Debug, thiserror::Error)]
#[error("the answer is lost on purpose")]
struct Lost;

/// An answer of the emulator, or in its place.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Bytes,
}

impl Answer {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub(super) fn ok(body: &Value) -> Answer {
        Answer { status: 200, body: Bytes::from(body.to_string()) }
    }

    pub(super) fn refused(refusal: &Refusal, service: Service) -> Answer {
        Answer { status: refusal.status, body: Bytes::from(refusal.body(service).to_string()) }
    }

    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::from(self.body));
        *response.status_mut() = hyper::StatusCode::from_u16(self.status).unwrap_or_default();
        let kind = hyper::header::HeaderValue::from_static(CONTENT_TYPE);
        response.headers_mut().insert(hyper::header::CONTENT_TYPE, kind);
        response
    }
}

impl Proxy {
    pub fn new(options: Options, report: Report) -> Result<Arc<Proxy>> {
        let client = crate::host::client()?;
        Ok(Arc::new(Proxy {
            upstream: options.upstream,
            client,
            shares: options.shares,
            throttle: Throttle::new(options.limits),
            dice: Dice::new(options.seed),
            report: Mutex::new(report),
            schemas: Mutex::default(),
            made: Mutex::default(),
        }))
    }

    pub fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn made(&self) -> MutexGuard<'_, HashSet<String>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn count(&self, kind: &'static str) {
        self.report().count(kind);
    }

    /// Serves connections until it is dropped.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) -> Infallible {
        loop {
            let Ok((stream, _)) = listener.accept().await else { continue };
            // An answer is one small packet, which must not wait for another.
            let _ = stream.set_nodelay(true);
            let proxy = Arc::clone(&self);
            tokio::spawn(async move {
                let service = service_fn(|request| proxy.answer(request));
                // An error is a client that went away, or an answer that is lost on purpose.
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }

    async fn answer(&self, request: Request<Incoming>) -> Result<Response<Body>, Lost> {
        let path = request.uri().path().to_owned();
        let target = request.headers().get("x-amz-target").and_then(|value| value.to_str().ok());
        let target = target.unwrap_or_default().to_owned();
        let body = axum::body::to_bytes(Body::new(request.into_body()), MAX_REQUEST_BYTES).await;
        let Ok(body) = body else { return Err(Lost) };
        let Some(call) = Call::read(&path, &target, &body) else {
            self.report().refuse(format!("{path} {target:?} is no operation that is known here"));
            let unknown = Refusal::invalid("UnknownOperationException", "unknown");
            return Ok(Answer::refused(&unknown, Service::DynamoDb).into_response());
        };
        self.note(&call);
        self.carry_out(call).await.map(Answer::into_response)
    }

    fn note(&self, call: &Call) {
        let mut report = self.report();
        report.call(&call.function, actions(call));
        report.links(links(call));
    }

    async fn carry_out(&self, call: Call) -> Result<Answer, Lost> {
        let schema = match self.checked(&call).await {
            Ok(schema) => schema,
            Err(refusal) => {
                let why =
                    format!("{} {}: {} {}", call.function, call.operation, refusal.code, refusal.message);
                self.report().refuse(why);
                return Ok(Answer::refused(&refusal, call.service));
            }
        };
        if self.dice.hits(self.shares.failed) {
            self.count("failed without effect");
            return Ok(Answer::refused(&self.failure(call.service), call.service));
        }
        let token = call.body.get("ClientRequestToken").and_then(Value::as_str).unwrap_or_default();
        if self.made().contains(token) {
            // As AWS answers a transaction that is sent again with its token, which the emulator does not know.
            return Ok(Answer::ok(&json!({})));
        }
        let answer = match (call.service, &schema) {
            (Service::DynamoDb, Some(schema)) => self.through_throttle(&call, schema).await,
            (Service::Sqs, _) => self.send_to_queue(&call).await,
            _ => self.forward(&call.target(), &call.body).await,
        };
        let Ok(answer) = answer else { return Err(Lost) };
        if answer.status == 200 && !token.is_empty() {
            self.made().insert(token.to_owned());
        }
        if self.dice.hits(self.shares.late) {
            self.count("answered late");
            // Always times out.
            let _ = tokio::time::timeout(self.dice.lateness(), future::pending::<()>()).await;
        }
        if self.dice.hits(self.shares.lost) {
            self.count("answer lost after the effect");
            return Err(Lost);
        }
        Ok(answer)
    }

    /// What the documentation of AWS refuses. Returns the schema of the table of a call to DynamoDB.
    async fn checked(&self, call: &Call) -> Result<Option<Arc<Schema>>, Refusal> {
        match call.service {
            Service::SecretsManager => Ok(None),
            Service::Sqs => sqs::check(&call.operation, &call.body).map(|()| None),
            Service::DynamoDb => {
                let table = touch::table(&call.operation, &call.body);
                let schema = self.schema(&table).await;
                let schema = schema
                    .map_err(|error| Refusal::invalid("ResourceNotFoundException", format!("{error:#}")))?;
                dynamo::check(&call.operation, &call.body, &schema)?;
                Ok(Some(schema))
            }
        }
    }

    async fn schema(&self, table: &str) -> Result<Arc<Schema>> {
        let schemas = || self.schemas.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = schemas().get(table) {
            return Ok(Arc::clone(known));
        }
        let Value::Object(body) = json!({ "TableName": table }) else { unreachable!("it is an object") };
        let answer = self.forward("DynamoDB_20120810.DescribeTable", &body).await?;
        let schema = Schema::read(&answer.json()).with_context(|| format!("no such table: {table:?}"))?;
        let schema = Arc::new(schema);
        schemas().insert(table.to_owned(), Arc::clone(&schema));
        Ok(schema)
    }

    fn failure(&self, service: Service) -> Refusal {
        let (status, code) = match (service, self.dice.below(2)) {
            (Service::DynamoDb, 0) => (500, "InternalServerError"),
            (Service::DynamoDb, _) => (503, "ServiceUnavailable"),
            (Service::Sqs, 0) => (500, "InternalFailure"),
            (Service::SecretsManager, 0) => (500, "InternalServiceError"),
            (Service::Sqs | Service::SecretsManager, _) => (503, "ServiceUnavailable"),
        };
        Refusal { status, code, message: "failed on purpose".to_owned(), reasons: Vec::new() }
    }

    pub(super) async fn forward(&self, target: &str, body: &super::call::Fields) -> Result<Answer> {
        let request = self.client.post(&self.upstream).header("x-amz-target", target);
        let request =
            request.header("content-type", CONTENT_TYPE).header("authorization", authorization(target));
        let response = request.body(serde_json::to_vec(body)?).send().await?;
        Ok(Answer { status: response.status().as_u16(), body: response.bytes().await? })
    }
}

impl Call {
    pub(super) fn target(&self) -> String {
        let version = match self.service {
            Service::DynamoDb => "DynamoDB_20120810",
            Service::Sqs => "AmazonSQS",
            Service::SecretsManager => "secretsmanager",
        };
        format!("{version}.{}", self.operation)
    }
}

/// The emulator finds the service of a request in its signature, and does not check it.
fn authorization(target: &str) -> String {
    let service = match target.split('.').next() {
        Some("AmazonSQS") => "sqs",
        Some("secretsmanager") => "secretsmanager",
        _ => "dynamodb",
    };
    format!(
        "AWS4-HMAC-SHA256 Credential=test/20260101/us-east-1/{service}/aws4_request, SignedHeaders=host, Signature=0"
    )
}
