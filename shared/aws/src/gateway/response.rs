use std::collections::BTreeMap;

use bytes::Bytes;
use http::Response;
use serde::Serialize;

/// A response in API Gateway's format.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Reply {
    status_code: u16,
    headers: BTreeMap<String, String>,
    body: String,
    is_base64_encoded: bool,
}

#[must_use]
pub fn reply(response: Response<Bytes>) -> Reply {
    let (parts, body) = response.into_parts();
    let mut headers = BTreeMap::<String, String>::new();
    for (name, value) in &parts.headers {
        let value = String::from_utf8_lossy(value.as_bytes());
        headers
            .entry(name.as_str().to_owned())
            // The format has one value per name; in HTTP a list is equivalent to repeated headers.
            .and_modify(|before| *before = format!("{before}, {value}"))
            .or_insert_with(|| value.into_owned());
    }
    // Text is not encoded: it is shorter that way.
    let (body, is_base64_encoded) = match String::from_utf8(body.into()) {
        Ok(text) => (text, false),
        Err(binary) => (data_encoding::BASE64.encode(binary.as_bytes()), true),
    };
    Reply { status_code: parts.status.as_u16(), headers, body, is_base64_encoded }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn replied(body: &'static [u8]) -> serde_json::Value {
        let response = Response::builder()
            .status(404)
            .header("content-type", "application/problem+json")
            .header("allow", "GET")
            .header("allow", "POST")
            .body(Bytes::from_static(body))
            .unwrap();
        serde_json::to_value(reply(response)).unwrap()
    }

    #[test]
    fn a_response_becomes_a_reply() {
        let expected = json!({
            "statusCode": 404,
            "headers": { "content-type": "application/problem+json", "allow": "GET, POST" },
            "body": "{\"é\":1}",
            "isBase64Encoded": false,
        });
        assert_eq!(replied("{\"é\":1}".as_bytes()), expected);
    }

    #[test]
    fn binary_bodies_are_encoded() {
        let reply = replied(b"\xff\x00");
        assert_eq!((&reply["body"], &reply["isBase64Encoded"]), (&json!("/wA="), &json!(true)));
    }
}
