//! Names and addresses: what the guard lets out, and what name servers do (fault 38).

use std::net::SocketAddr;
use std::sync::Arc;

use semel_core::outcome::DeliveryError;
use semel_server::delivery::guard::Guard;

use crate::network::{LONG, Names, PUBLIC, SHORT, Says, Wire, caller, to};
use crate::worker::{OK, answering, request, worker};

fn addresses<const N: usize>(ips: [[u8; 4]; N]) -> Says {
    Says::Addresses(ips.map(|ip| SocketAddr::from((ip, 80))).into())
}

/// Calls a URL from a machine without allow-lists, and asserts that nothing was dialled.
async fn refusal(url: &str, names: &Arc<Names>) -> DeliveryError {
    let wire = Arc::<Wire>::default();
    let said = caller(Guard::default(), names, wire.clone()).call(to(url, LONG)).await;
    assert_eq!(wire.dialled(), [], "{url}");
    said.unwrap_err()
}

#[tokio::test]
async fn addresses_in_urls_pass_the_guard_without_a_name_server() {
    for host in [
        "127.0.0.1",
        "127.1",
        "0x7f000001",
        "2130706433",
        "0177.0.0.1",
        "10.0.0.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "[::]",
        "[::1]",
        "[::ffff:10.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "[fd00::1]",
        "[fe80::1]",
    ] {
        let names = Arc::<Names>::default();
        let said = refusal(&format!("http://{host}:8080/"), &names).await;
        assert!(matches!(said, DeliveryError::Blocked(_)), "{host}: {said:?}");
        assert!(names.asked().is_empty(), "{host}");
    }
}

#[tokio::test]
async fn a_name_that_leads_inside_is_refused_before_a_packet_leaves() {
    for says in [
        addresses([[127, 0, 0, 1]]),
        addresses([PUBLIC, [10, 0, 0, 1]]),
        addresses([[169, 254, 169, 254], PUBLIC]),
    ] {
        let said = refusal("https://worker.example/", &Names::saying([says])).await;
        assert!(matches!(said, DeliveryError::Blocked(_)), "{said:?}");
    }
}

#[tokio::test]
async fn a_name_that_leads_outside_is_dialled_where_it_led() {
    let wire = Wire::to(answering(OK).await);
    let names = Names::saying([addresses([PUBLIC])]);
    let answer =
        caller(Guard::default(), &names, wire.clone()).call(to("http://worker.example/", LONG)).await;
    assert_eq!(answer.unwrap().status, 200);
    assert_eq!(wire.dialled(), [SocketAddr::from((PUBLIC, 80))]);
    assert_eq!(names.asked(), ["worker.example"]);
}

#[tokio::test]
async fn a_name_that_is_rebound_to_loopback_is_refused_the_second_time() {
    let wire = Wire::to(
        worker(|mut stream, _| async move {
            request(&mut stream).await;
            let last = b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
            tokio::io::AsyncWriteExt::write_all(&mut stream, last).await.unwrap();
        })
        .await,
    );
    let names = Names::saying([addresses([PUBLIC]), addresses([[127, 0, 0, 1]])]);
    let caller = caller(Guard::default(), &names, wire.clone());
    assert_eq!(caller.call(to("http://worker.example/", LONG)).await.unwrap().status, 200);
    let second = caller.call(to("http://worker.example/", LONG)).await;
    assert!(matches!(second, Err(DeliveryError::Blocked(_))), "{second:?}");
    assert_eq!(wire.dialled(), [SocketAddr::from((PUBLIC, 80))], "only the first call was let out");
}

#[tokio::test]
async fn while_a_connection_is_kept_its_name_is_not_looked_up_again() {
    let (address, _) = crate::worker::friendly().await;
    let (wire, names) = (Wire::to(address), Names::saying([addresses([PUBLIC])]));
    let caller = caller(Guard::default(), &names, wire.clone());
    for _ in 0..3 {
        assert_eq!(caller.call(to("http://worker.example/", LONG)).await.unwrap().status, 200);
    }
    assert_eq!((names.asked().len(), wire.dialled().len()), (1, 1));
}

#[tokio::test]
async fn a_name_server_that_fails_or_knows_nothing_is_an_error_of_names() {
    for says in [Says::Fails, addresses([])] {
        let said = refusal("http://worker.example/", &Names::saying([says])).await;
        assert!(matches!(said, DeliveryError::Dns(_)), "{said:?}");
    }
}

#[tokio::test]
async fn a_name_server_that_is_slow_uses_up_the_deadline() {
    let wire = Arc::<Wire>::default();
    let caller = caller(Guard::default(), &Names::saying([Says::Nothing]), wire.clone());
    assert_eq!(caller.call(to("http://worker.example/", SHORT)).await, Err(DeliveryError::Timeout));
    assert_eq!(wire.dialled(), []);
}

#[tokio::test]
async fn an_allowed_name_may_lead_inside() {
    let address = answering(OK).await;
    let names = Names::saying([Says::Addresses(vec![address])]);
    let guard = Guard::new(vec![], &["*.internal".to_owned()]);
    let answer =
        caller(guard, &names, Arc::<Wire>::default()).call(to("http://worker.internal/", LONG)).await;
    assert_eq!(answer.unwrap().status, 200);
}
