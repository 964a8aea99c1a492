//! What is printed at the start: the address, the key or its file, and in development mode commands to try.

use std::net::SocketAddr;
use std::path::Path;

/// Without the key, because the output of a service is often stored and read by many.
pub(crate) fn strict(address: SocketAddr, key_file: &Path) -> String {
    format!(
        "Holdfast {version} is running at http://{address}\nThe operator key is in {path}, which only its owner can read\nConsole: http://{address}/console",
        version = env!("CARGO_PKG_VERSION"),
        path = key_file.display(),
    )
}

pub(crate) fn development(address: SocketAddr, key: &str, speed: u32) -> String {
    let base = format!("http://{address}");
    let faster = if speed == 1 { String::new() } else { format!(", schedule clock {speed} times faster") };
    format!(
        r#"Holdfast {version} is running at {base} (development{faster})
Key: {key}
Console: {base}/console

Subscribe a built-in receiver, post an event and see it arrive:

curl -s {base}/v1/subscriptions -H 'authorization: Bearer {key}' -d '{{"url": "{base}/dev/receiver/200", "event_types": ["*"]}}'
curl -s {base}/v1/events -H 'authorization: Bearer {key}' -d '{{"type": "order.created", "data": {{"number": 1}}}}'
curl -s {base}/dev/receiver/200

More receivers: {base}/dev/receiver/500 fails, /hang never responds, and any other name can be switched:
curl -s -X PUT {base}/dev/receiver/shop -d '{{"answer": 503}}'
"#,
        version = env!("CARGO_PKG_VERSION"),
    )
}
