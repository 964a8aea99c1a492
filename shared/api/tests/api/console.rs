//! The files of the console, as the server sends them. `infra/console/tests` tests what they do, in a browser.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use axum::body::Body;
use axum::http::{Request, StatusCode};
use bytes::Bytes;
use http_body_util::BodyExt;
use tower::ServiceExt;

use crate::world::World;

struct Page {
    status: StatusCode,
    headers: Vec<(String, String)>,
    body: Bytes,
}

impl Page {
    fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(each, _)| each == name).map_or("", |(_, value)| value)
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// Without a key.
async fn get(path: &str, known: Option<&str>) -> Page {
    send("GET", path, known).await
}

async fn send(method: &str, path: &str, known: Option<&str>) -> Page {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(known) = known {
        request = request.header("if-none-match", known);
    }
    let response = World::new().router.oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let (parts, body) = response.into_parts();
    let text = |value: &axum::http::HeaderValue| value.to_str().unwrap().to_owned();
    Page {
        status: parts.status,
        headers: parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect(),
        body: body.collect().await.unwrap().to_bytes(),
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../infra/console")
}

/// The names of the files that a browser loads.
fn sources() -> BTreeSet<String> {
    let names =
        fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let names: BTreeSet<_> =
        names.filter(|name| [".js", ".css", ".svg"].iter().any(|ending| name.ends_with(ending))).collect();
    assert!(names.len() > 30, "the folder was read");
    names
}

/// The folder of the files, as the page names it.
async fn versioned() -> String {
    let page = get("/console", None).await;
    let text = page.text();
    let start = text.find("src=\"/console/").unwrap() + 5;
    let length = text[start..].find("/theme.js").unwrap();
    text[start..start + length].to_owned()
}

#[tokio::test]
async fn the_page_is_public_and_allows_nothing_from_elsewhere() {
    let page = get("/console", None).await;
    assert_eq!(page.status, StatusCode::OK);
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    let policy = page.header("content-security-policy");
    for rule in [
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    ] {
        assert!(policy.split("; ").any(|each| each == rule), "{rule} in {policy}");
    }
    assert!(!policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("x-content-type-options"), "nosniff");
    assert_eq!(page.header("referrer-policy"), "no-referrer");
    for path in ["/", "/console/"] {
        let answer = get(path, None).await;
        assert_eq!((answer.status, answer.header("location")), (StatusCode::FOUND, "/console"));
    }
}

#[tokio::test]
async fn every_file_in_the_folder_is_served_as_it_is() {
    let folder_of_version = versioned().await;
    for name in sources() {
        let answer = get(&format!("{folder_of_version}/{name}"), None).await;
        assert_eq!(answer.status, StatusCode::OK, "{name} is missing in shared/api/src/console.rs");
        assert_eq!(answer.body, fs::read(folder().join(&name)).unwrap(), "{name}");
        assert!(answer.header("cache-control").contains("immutable"), "{name}");
        assert!(!answer.header("content-type").contains("html"), "{name}");
        assert!(!answer.header("content-security-policy").is_empty(), "{name}");
    }
}

#[tokio::test]
async fn what_a_browser_has_is_not_sent_again() {
    let page = get("/console", None).await;
    assert_eq!(page.header("cache-control"), "no-cache");
    let tag = page.header("etag");
    for known in [tag.to_owned(), format!("W/{tag}"), format!("\"other\", {tag}")] {
        let again = get("/console", Some(&known)).await;
        assert_eq!((again.status, again.body.len()), (StatusCode::NOT_MODIFIED, 0), "{known}");
        assert_eq!(again.header("etag"), tag);
    }
    assert_eq!(get("/console", Some("\"other\"")).await.status, StatusCode::OK);
}

#[tokio::test]
async fn the_files_of_another_version_are_not_kept() {
    let answer = get("/console/0123456789abcdef/app.js", None).await;
    assert_eq!((answer.status, answer.header("cache-control")), (StatusCode::OK, "no-cache"));
}

#[tokio::test]
async fn it_can_only_be_read() {
    let answer = send("POST", "/console", None).await;
    assert_eq!((answer.status, answer.header("allow")), (StatusCode::METHOD_NOT_ALLOWED, "GET,HEAD"));
    assert_eq!(send("HEAD", "/console", None).await.status, StatusCode::OK);
}

#[tokio::test]
async fn other_names_are_not_found() {
    for name in ["nothing.js", "index.html", "dev.mjs", "..%2Fdev.mjs", "tests%2Frun"] {
        let answer = get(&format!("{}/{name}", versioned().await), None).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{name}");
        assert_eq!(answer.header("content-type"), "application/problem+json");
    }
}

#[test]
fn imports_name_files_that_exist() {
    let names = sources();
    let mut found = 0;
    for name in names.iter().filter(|name| name.ends_with(".js")) {
        let text = fs::read_to_string(folder().join(name)).unwrap();
        for import in text.split("from './").skip(1).map(|rest| &rest[..rest.find('\'').unwrap()]) {
            assert!(names.contains(import), "{name} imports {import}");
            found += 1;
        }
    }
    assert!(found > 100, "the imports were read");
}

/// The one helper creates elements and text, so that text of customers is inert by construction.
#[test]
fn nothing_parses_text_as_html_or_script() {
    let forbidden = [
        "innerHTML",
        "outerHTML",
        "insertAdjacentHTML",
        "document.write",
        "eval(",
        "new Function",
        "setAttribute('style'",
        "https://cdn",
    ];
    for name in sources().iter().filter(|name| name.ends_with(".js")) {
        let text = fs::read_to_string(folder().join(name)).unwrap();
        for word in forbidden {
            assert!(!text.contains(word), "{name} uses {word}");
        }
        assert!(
            name == "dom.js" || !text.contains("createElement"),
            "{name} creates elements without dom.js"
        );
        assert!(name == "api.js" || !text.contains("fetch("), "{name} sends requests without api.js");
    }
}
