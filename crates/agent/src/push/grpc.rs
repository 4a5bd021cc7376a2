//! Sends requests by gRPC: a unary call, on a connection of its own.
//!
//! A target is called once a window, so a connection isn't kept: it would have to be served in
//! between.

use std::path::Path;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use h2::client::handshake;
use http::{HeaderMap, Method, Request, Version};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio_rustls::TlsConnector;

use super::credentials::{authorities, authorization};
use super::otlp::accepted;
use super::request::PushRequest;
use super::sender::{SendFailure, TargetAnswer, Transport};
use super::target::PushTarget;

/// The method that takes profiles.
const METHOD: &str = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export";

/// Port of targets whose URL has none.
const PORT: u16 = 4317;

/// Bytes of an answer that are read.
const ANSWER_BYTES: usize = 64 << 10;

/// Codes of gRPC after which the same request may succeed.
const RETRIED: [&str; 6] = ["1", "4", "10", "11", "14", "15"];

/// Codes after which it may, unless the request is the cause: unknown, too many resources, internal.
const DOUBTFUL: [&str; 3] = ["2", "8", "13"];

/// A client of a target.
pub(super) struct GrpcTransport {
    target: PushTarget,
    runtime: Runtime,
}

/// An answer: its message without the prefix, and the headers behind it, or before it if
/// nothing follows.
struct GrpcAnswer {
    message: Bytes,
    status: HeaderMap,
}

impl GrpcTransport {
    /// # Errors
    /// Fails if no descriptors can be made.
    pub(super) fn new(target: PushTarget) -> std::io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_io().enable_time().build()?;
        Ok(Self { target, runtime })
    }
}

impl Transport for GrpcTransport {
    fn send(&mut self, request: &PushRequest) -> TargetAnswer {
        let limit = self.target.timeout.0;
        let call = async { tokio::time::timeout(limit, call(&self.target, request)).await };
        match self.runtime.block_on(call) {
            Ok(Ok(answer)) => judge(&answer),
            Ok(Err(why)) => TargetAnswer::Failed(SendFailure::of_connection(why)),
            Err(_) => TargetAnswer::Failed(SendFailure::of_connection("timeout".to_owned())),
        }
    }
}

async fn call(target: &PushTarget, request: &PushRequest) -> Result<GrpcAnswer, String> {
    let authority = &target.url.authority;
    let (host, port) = match authority.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, port.parse().unwrap_or(PORT)),
        _ => (authority.as_str(), PORT),
    };
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, port)).await.map_err(|error| error.to_string())?;
    // The last bytes of a request would wait for an acknowledgement.
    stream.set_nodelay(true).map_err(|error| error.to_string())?;
    if !target.url.is_tls {
        return exchange(stream, target, request).await;
    }
    let name = ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())?;
    let connector = TlsConnector::from(Arc::new(tls(target.ca_file.as_deref())?));
    let stream = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
    exchange(stream, target, request).await
}

fn tls(ca_file: Option<&Path>) -> Result<ClientConfig, String> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities(ca_file)?.into_iter().map(CertificateDer::from));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder =
        builder.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let mut config = builder.with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(config)
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    target: &PushTarget,
    request: &PushRequest,
) -> Result<GrpcAnswer, String> {
    let text = |error: h2::Error| error.to_string();
    let (client, connection) = handshake(stream).await.map_err(text)?;
    let served = tokio::spawn(connection);
    let mut client = client.ready().await.map_err(text)?;
    let (answer, mut body) = client.send_request(head(target)?, false).map_err(text)?;
    body.send_data(message(&request.body), true).map_err(text)?;
    let (head, mut body) = answer.await.map_err(text)?.into_parts();
    if head.status != http::StatusCode::OK {
        return Err(format!("it answered {}", head.status));
    }
    let mut received = BytesMut::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.map_err(text)?;
        body.flow_control().release_capacity(chunk.len()).map_err(text)?;
        if received.len() + chunk.len() > ANSWER_BYTES {
            return Err("its answer is too long".to_owned());
        }
        received.extend_from_slice(&chunk);
    }
    let trailers = body.trailers().await.map_err(text)?;
    served.abort();
    let message = received.freeze();
    let message = if message.len() > 5 { message.slice(5..) } else { Bytes::new() };
    Ok(GrpcAnswer { message, status: trailers.unwrap_or(head.headers) })
}

fn head(target: &PushTarget) -> Result<Request<()>, String> {
    let scheme = if target.url.is_tls { "https" } else { "http" };
    let mut head = Request::builder()
        .method(Method::POST)
        .version(Version::HTTP_2)
        .uri(format!("{scheme}://{}{METHOD}", target.url.authority))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-encoding", "gzip")
        .header("user-agent", concat!("tare/", env!("CARGO_PKG_VERSION")));
    for (name, value) in &target.headers {
        head = head.header(name.to_ascii_lowercase(), value);
    }
    if let Some(path) = &target.token_file {
        head = head.header("authorization", authorization(path)?);
    }
    head.body(()).map_err(|error| error.to_string())
}

/// Returns a compressed message behind its prefix.
fn message(body: &[u8]) -> Bytes {
    let mut message = BytesMut::with_capacity(body.len() + 5);
    message.put_u8(1);
    // Requests are far below 4 GiB.
    message.put_u32(u32::try_from(body.len()).unwrap_or(u32::MAX));
    message.extend_from_slice(body);
    message.freeze()
}

fn judge(answer: &GrpcAnswer) -> TargetAnswer {
    let text = |name| answer.status.get(name).and_then(|value| value.to_str().ok()).unwrap_or("");
    let code = text("grpc-status");
    let why = format!("it answered gRPC status {code}: {}", text("grpc-message"));
    match code {
        "0" => accepted(&answer.message),
        "" => {
            TargetAnswer::Failed(SendFailure::of_connection("its answer has no status".to_owned()))
        }
        code if RETRIED.contains(&code) => TargetAnswer::Failed(SendFailure::of_connection(why)),
        code if DOUBTFUL.contains(&code) => {
            TargetAnswer::Failed(SendFailure { why, after: None, is_limited: true })
        }
        _ => TargetAnswer::Refused(why),
    }
}
