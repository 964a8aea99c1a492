//! Against a name server on this machine.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::{join, join_all};
use hickory_resolver::config::ConnectionConfig;
use hickory_resolver::proto::op::{Message, OpCode, ResponseCode};
use hickory_resolver::proto::rr::{RData, Record};
use tokio::net::UdpSocket;
use tokio::task::JoinSet;

use super::*;

/// Does not answer for names that begin with `hang`, nor for IPv6 addresses of those that begin with `half`. Names that begin with
/// `none` do not exist. All others have an IPv4 address that lives for 77 seconds.
struct NameServer {
    address: SocketAddr,
    packets: Arc<AtomicUsize>,
    _server: JoinSet<()>,
}

impl NameServer {
    async fn start() -> NameServer {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let packets = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&packets);
        let mut server = JoinSet::new();
        server.spawn(async move {
            let mut packet = [0; 4096];
            while let Ok((length, from)) = socket.recv_from(&mut packet).await {
                count.fetch_add(1, Ordering::SeqCst);
                if let Some(answer) = answer(&packet[..length]) {
                    socket.send_to(&answer, from).await.unwrap();
                }
            }
        });
        NameServer { address, packets, _server: server }
    }

    fn lookup(&self, deadline: Duration) -> SystemLookup {
        let mut udp = ConnectionConfig::udp();
        udp.port = self.address.port();
        let mut name_server = NameServerConfig::udp_and_tcp(self.address.ip());
        name_server.connections = vec![udp];
        SystemLookup::build(asking(name_server), deadline).unwrap()
    }
}

fn answer(packet: &[u8]) -> Option<Vec<u8>> {
    let query = Message::from_vec(packet).unwrap();
    let question = query.queries[0].clone();
    let (name, kind) = (question.name().clone(), question.query_type());
    let mut answer = Message::response(query.metadata.id, OpCode::Query);
    answer.add_query(question);
    let text = name.to_string();
    if text.starts_with("hang") || text.starts_with("half") && kind == RecordType::AAAA {
        return None;
    }
    if text.starts_with("none") {
        answer.metadata.response_code = ResponseCode::NXDomain;
    } else if kind == RecordType::A {
        answer.add_answer(Record::from_rdata(name, 77, RData::A(Ipv4Addr::new(192, 0, 2, 7).into())));
    }
    Some(answer.to_vec().unwrap())
}

const FOUND: [IpAddr; 1] = [IpAddr::V4(Ipv4Addr::new(192, 0, 2, 7))];

#[tokio::test]
async fn names_are_resolved_with_their_time_to_live() {
    let server = NameServer::start().await;
    let lookup = server.lookup(Duration::from_secs(20));
    let found = lookup.addresses("ok.example").await.unwrap();
    assert_eq!(found, Answer { addresses: FOUND.to_vec(), ttl: Duration::from_secs(77) });
    assert_eq!(server.packets.load(Ordering::SeqCst), 2);
    lookup.addresses("ok.example").await.unwrap();
    assert_eq!(server.packets.load(Ordering::SeqCst), 4, "there is a second cache");
    let none = lookup.addresses("none.example").await;
    assert!(matches!(none, Err(LookupError::NoAddress(_))), "{none:?}");
}

#[tokio::test]
async fn names_that_hang_delay_no_others_and_send_few_packets() {
    let server = NameServer::start().await;
    let lookup = server.lookup(Duration::from_secs(2));
    let hanging: Vec<String> = (0..256).map(|at| format!("hang-{at}.example")).collect();
    let attack = join_all(hanging.iter().map(|name| lookup.addresses(name)));
    let victim = async {
        for at in 0..50 {
            let found = lookup.addresses(&format!("ok-{at}.example")).await;
            assert_eq!(found.map(|found| found.addresses), Ok(FOUND.to_vec()));
        }
    };
    let (attacked, ()) = join(attack, victim).await;
    for result in attacked {
        assert_eq!(result, Err(LookupError::NoAnswer));
    }
    let packets = server.packets.load(Ordering::SeqCst);
    assert!(packets <= 256 * 7 + 50 * 2, "{packets} packets");
}

#[tokio::test]
async fn a_name_whose_ipv6_addresses_hang_has_its_ipv4_addresses_within_the_deadline() {
    let server = NameServer::start().await;
    let deadline = Duration::from_secs(1);
    let found = tokio::time::timeout(deadline, server.lookup(deadline).addresses("half.example")).await;
    assert_eq!(found.unwrap().unwrap().addresses, FOUND);
}

#[tokio::test]
async fn a_name_server_that_is_not_there_is_a_shortage() {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let address = socket.local_addr().unwrap();
    drop(socket);
    let server = NameServer { address, packets: Arc::default(), _server: JoinSet::new() };
    let found = server.lookup(Duration::from_secs(1)).addresses("ok.example").await;
    assert_eq!(found, Err(LookupError::Shortage(Shortage::Resolver)));
}
