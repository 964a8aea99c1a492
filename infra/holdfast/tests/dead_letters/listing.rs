//! `list` and `show`.

use holdfast_core::ports::QueueName;
use holdfast_core::records::Message;

use crate::bench::{Bench, first_attempt, output, probe, text_of};

#[tokio::test]
async fn a_list_describes_each_message_without_its_payload() {
    let bench = Bench::new().await;
    assert!(bench.list().is_empty());
    let first = first_attempt("e1", r#"{"data":"secret"}"#);
    let dead = [
        (text_of(&Message::FirstAttempt(first.clone())), "a bug\n\u{1b}[2Jin us", QueueName::First),
        (text_of(&probe()), "another", QueueName::Retry),
        (r#"{"v":99,"secret":1}"#.to_owned(), "newer", QueueName::Retry),
        ("a secret".to_owned(), "poison", QueueName::First),
    ];
    for (text, why, queue) in &dead {
        bench.queue.dead_letter(text, why, *queue).await.unwrap();
    }
    let lines = bench.list();
    let url_id = first.url_id.as_str();
    let expected = [
        format!(
            "received=1  from=first  first_attempt delivery={} tenant=acme url={url_id}  why: a bug\u{fffd}\u{fffd}[2Jin us",
            first.key.id()
        ),
        format!("received=1  from=retry  probe tenant=acme url={url_id}  why: another"),
        "received=1  from=retry  a message of version 99, newer than this release  why: newer".to_owned(),
        "received=1  from=first  not a message  why: poison".to_owned(),
    ];
    assert_eq!(lines.len(), expected.len(), "{lines:#?}");
    for (line, expected) in lines.iter().zip(&expected) {
        assert!(line.ends_with(expected) && line.contains("  sent=20"), "{line}\n{expected}");
        assert!(!line.contains("secret"), "{line}");
    }
}

#[tokio::test]
async fn reading_hides_nothing() {
    let bench = Bench::new().await;
    for n in 0..25 {
        bench.queue.dead_letter(&n.to_string(), "-", QueueName::First).await.unwrap();
    }
    // Each list shows all messages, because the one before made them visible again.
    assert_eq!(bench.list().len(), 25);
    assert_eq!(bench.list().len(), 25);
    let some = bench.run(&["list", "--limit", "12"]);
    assert_eq!(some.out.lines().count(), 12);
    assert!(some.err.contains("there may be more"), "{some:?}");
    let id = some.out.split_whitespace().next().unwrap();
    assert!(bench.run(&["show", id]).ok);
    assert!(!bench.run(&["show", "no-such-id"]).ok);
    assert_eq!(bench.on(&bench.urls.dead_letters).await.len(), 25);
}

#[tokio::test]
async fn a_message_is_shown_with_its_text() {
    let bench = Bench::new().await;
    let text = text_of(&Message::FirstAttempt(first_attempt("e1", "{\n  \"data\": \"é\"\n}")));
    bench.queue.dead_letter(&text, "a bug", QueueName::First).await.unwrap();
    bench.queue.dead_letter("other", "-", QueueName::First).await.unwrap();
    let id = bench.id_of("first_attempt");
    let shown = bench.run(&["show", &id]);
    assert!(shown.ok, "{shown:?}");
    for row in ["id:       ", "from:     first", "why:      a bug", "about:    first_attempt delivery=dlv_"] {
        assert!(shown.out.contains(row), "{row}\n{}", shown.out);
    }
    assert!(shown.out.contains(&id));
    assert!(shown.out.ends_with(&format!("text, {} bytes:\n{text}\n", text.len())), "{}", shown.out);
}

#[tokio::test]
async fn a_message_that_sqs_moved_says_so() {
    let bench = Bench::new().await;
    bench.move_after_one_receipt().await;
    bench.queue.send_raw(QueueName::Retry, &text_of(&probe()), None, Default::default()).await.unwrap();
    // Received, not deleted, and visible again at once: the next receipt is one too many.
    let request = bench.client.receive_message().queue_url(&bench.urls.retry).visibility_timeout(0);
    assert_eq!(request.send().await.unwrap().messages().len(), 1);
    assert!(bench.on(&bench.urls.retry).await.is_empty());
    let lines = bench.list();
    assert_eq!(lines.len(), 1);
    let name = bench.urls.retry.rsplit('/').next().unwrap();
    assert!(lines[0].contains(&format!("from={name}")), "{lines:?}");
    assert!(lines[0].ends_with("why: received too often without being handled"), "{lines:?}");
}

#[tokio::test]
async fn a_profile_is_enough() {
    let bench = Bench::new().await;
    bench.queue.dead_letter("text", "-", QueueName::First).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let profile = "aws_access_key_id = test\naws_secret_access_key = test\nregion = us-east-1\n";
    let file = folder.path().join("config");
    std::fs::write(&file, format!("[profile operator]\n{profile}endpoint_url = {}\n", bench.endpoint))
        .unwrap();
    let mut command = bench.command(&["list", "--queue-url", &bench.urls.dead_letters]);
    command.env_clear().env("AWS_CONFIG_FILE", &file).env("AWS_PROFILE", "operator");
    let output = output(&mut command);
    assert!(output.ok && output.out.contains("not a message"), "{output:?}");
}
