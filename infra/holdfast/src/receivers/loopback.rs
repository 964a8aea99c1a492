//! Only requests for this machine. A web page whose name was pointed at 127.0.0.1 (DNS rebinding) could otherwise read the
//! deliveries of a developer who visits it: the browser then sends the page's name as `host`.

use std::net::IpAddr;

use axum::extract::Request;
use axum::http::header::HOST;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use holdfast_api::Problem;

pub(super) async fn require(request: Request, next: Next) -> Response {
    if is_for_loopback(request.headers()) {
        return next.run(request).await;
    }
    let detail =
        "The built-in receivers answer only to this machine; call them at 127.0.0.1, [::1] or localhost.";
    Problem::new(StatusCode::MISDIRECTED_REQUEST, detail).into_response()
}

fn is_for_loopback(headers: &HeaderMap) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else { return false };
    let Ok(authority) = Authority::try_from(host.as_bytes()) else { return false };
    let host = authority.host();
    let literal = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    let is_name = || host.eq_ignore_ascii_case("localhost");
    // `user@` has no place in this header.
    !authority.as_str().contains('@') && literal.map_or_else(|_| is_name(), |address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn only_names_of_this_machine_are_loopback() {
        for (host, expected) in [
            ("127.0.0.1:8080", true),
            ("127.0.0.1", true),
            ("127.1.2.3:1", true),
            ("[::1]:8080", true),
            ("localhost", true),
            ("LocalHost:8080", true),
            ("evil.example", false),
            ("localhost.evil.example:8080", false),
            ("127.0.0.1.evil.example", false),
            ("10.0.0.1:8080", false),
            ("0.0.0.0:8080", false),
            ("localhost@evil.example", false),
            ("evil.example@localhost", false),
            ("", false),
        ] {
            let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static(host))]);
            assert_eq!(is_for_loopback(&headers), expected, "{host:?}");
        }
        assert!(!is_for_loopback(&HeaderMap::new()));
        let mut headers = HeaderMap::new();
        for host in ["localhost", "evil.example"] {
            headers.append(HOST, HeaderValue::from_static(host));
        }
        assert!(!is_for_loopback(&headers));
    }
}
