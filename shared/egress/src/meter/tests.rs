use std::future::poll_fn;

use tokio::io::AsyncReadExt;

use super::*;

impl Closing for tokio::io::Repeat {
    fn at_once(&self) {}
    fn in_order(&self) {}
}

/// How many bytes can be read before the connection ends, 1 KiB at a time.
async fn readable(connection: &mut Metered<tokio::io::Repeat>) -> usize {
    let mut bytes = 0;
    let mut buffer = [0; 1024];
    while let Ok(read) = connection.read(&mut buffer).await {
        bytes += read;
        assert!(bytes <= 16 * MAX_ATTEMPT_BYTES, "the connection does not end");
    }
    bytes
}

#[tokio::test]
async fn an_endless_receiver_is_cut_off_before_and_during_an_attempt() {
    let mut connection = Metered::new(tokio::io::repeat(b'x'), IdleConnections::new(1));
    assert_eq!(readable(&mut connection).await, MAX_ATTEMPT_BYTES);
    let _attempt = Arc::clone(&connection.meter).start_attempt();
    assert_eq!(readable(&mut connection).await, MAX_ATTEMPT_BYTES);
}

#[tokio::test]
async fn attempts_at_a_time_have_their_bytes_each_and_save_nothing_up() {
    let mut connection = Metered::new(tokio::io::repeat(b'x'), IdleConnections::new(1));
    for _ in 0..10 {
        Arc::clone(&connection.meter).start_attempt().complete();
    }
    let three: Vec<_> = (0..3).map(|_| Arc::clone(&connection.meter).start_attempt()).collect();
    assert_eq!(readable(&mut connection).await, 3 * MAX_ATTEMPT_BYTES);
    three.into_iter().for_each(MeteredAttempt::complete);
    let _next = Arc::clone(&connection.meter).start_attempt();
    assert_eq!(readable(&mut connection).await, MAX_ATTEMPT_BYTES);
}

#[tokio::test]
async fn little_is_read_while_no_attempt_uses_a_connection() {
    let mut used = Metered::new(tokio::io::repeat(b'x'), IdleConnections::new(2));
    Arc::clone(&used.meter).start_attempt().complete();
    assert_eq!(readable(&mut used).await, MAX_IDLE_BYTES);
    // The request is written before its attempt is counted.
    used.meter.wrote(&Poll::Ready(Ok(())));
    assert_eq!(readable(&mut used).await, MAX_ATTEMPT_BYTES);
    let mut unused = Metered::new(tokio::io::repeat(b'x'), IdleConnections::new(2));
    unused.meter.keep_unused();
    assert_eq!(readable(&mut unused).await, MAX_IDLE_BYTES);
}

#[tokio::test]
async fn a_task_pauses_after_16_kib() {
    let mut connection = Metered::new(tokio::io::repeat(b'x'), IdleConnections::new(1));
    // As much as rustls reads at a time.
    let mut buffer = [0; 4096];
    poll_fn(|cx| {
        let (mut at_once, mut is_paused) = (0, false);
        loop {
            let mut read = ReadBuf::new(&mut buffer);
            match Pin::new(&mut connection).poll_read(cx, &mut read) {
                Poll::Ready(Ok(())) => at_once += read.filled().len(),
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                // A TLS handshake reads again in the same poll.
                Poll::Pending if is_paused => return Poll::Pending,
                Poll::Pending => is_paused = true,
            }
            assert!(at_once <= 16 * 1024, "{at_once} bytes in one poll");
        }
    })
    .await;
}

#[tokio::test]
async fn of_too_many_idle_connections_the_one_that_was_idle_longest_is_closed() {
    let idle = IdleConnections::new(2);
    let mut connections: Vec<_> =
        (0..4).map(|_| Metered::new(tokio::io::repeat(b'x'), Arc::clone(&idle))).collect();
    let use_once = |connection: &Metered<_>| Arc::clone(&connection.meter).start_attempt().complete();
    for used in [0, 1, 0, 2] {
        use_once(&connections[used]);
    }
    let running = Arc::clone(&connections[2].meter).start_attempt();
    use_once(&connections[3]);
    let mut is_open = Vec::new();
    for connection in &mut connections {
        is_open.push(connection.read(&mut [0]).await.unwrap() > 0);
    }
    assert_eq!(is_open, [true, false, true, true]);
    running.complete();
    assert_eq!(connections[0].read(&mut [0]).await.unwrap(), 0, "it has been idle longest by now");
    drop(connections);
    let next = Metered::new(tokio::io::repeat(b'x'), Arc::clone(&idle));
    use_once(&next);
    assert!(!next.meter.lock().is_unwanted, "those that are closed do not count");
}

#[tokio::test]
async fn a_connection_that_is_written_to_is_not_idle() {
    let mut connection = Metered::new(tokio::io::repeat(b'x'), IdleConnections::new(0));
    Arc::clone(&connection.meter).start_attempt().complete();
    assert!(connection.meter.lock().is_unwanted);
    connection.meter.wrote(&Poll::Ready(Ok(())));
    assert_eq!(connection.read(&mut [0]).await.unwrap(), 1);
}

#[tokio::test]
async fn a_connection_ends_with_the_last_attempt_on_it_that_was_given_up() {
    let mut connection = Metered::new(tokio::io::repeat(b'x'), IdleConnections::new(1));
    let (one, two) =
        (Arc::clone(&connection.meter).start_attempt(), Arc::clone(&connection.meter).start_attempt());
    drop(one);
    assert!(connection.read(&mut [0]).await.is_ok(), "the other attempt goes on");
    drop(two);
    let ended = connection.read(&mut [0]).await.unwrap_err();
    assert_eq!(ended.kind(), io::ErrorKind::ConnectionAborted);
}

#[tokio::test]
async fn a_connection_that_reads_much_for_its_attempt_says_whose_it_is() {
    let mut connection = Metered::new(tokio::io::repeat(b'x'), IdleConnections::new(1));
    let mut little = [0; MAX_LITTLE_BYTES];
    let (read, handshake) = tasks::reading(connection.read_exact(&mut little)).await;
    assert_eq!((read.unwrap(), handshake), (MAX_LITTLE_BYTES, Reading::Little));
    let (_, handshake) = tasks::reading(connection.read_exact(&mut [0])).await;
    assert_eq!(handshake, Reading::Little, "no attempt has begun");
    let meter = Arc::clone(&connection.meter);
    let attempt = resolver::as_tenant("a".into(), async { meter.start_attempt() }).await;
    assert_eq!(tasks::reading(connection.read_exact(&mut little)).await.1, Reading::Little);
    assert_eq!(tasks::reading(connection.read_exact(&mut [0])).await.1, Reading::Much(Some("a".into())));
    attempt.complete();
    let _next = Arc::clone(&connection.meter).start_attempt();
    assert_eq!(tasks::reading(connection.read_exact(&mut [0])).await.1, Reading::Little);
}
