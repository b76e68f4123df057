//! The guard against requests to private addresses.
//!
//! Whoever may set a queue's URL could otherwise make the server call what only the server can reach: its own loopback,
//! the network behind the firewall, a cloud's metadata service. The guard judges addresses, never names: a name says
//! nothing about where it leads, and may lead elsewhere a second later. So it is asked after the name was resolved and
//! before a packet leaves, and what it passes is what is dialled.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// IPv4 networks that are no place for a webhook, from the IANA registry of special-purpose addresses.
const BLOCKED_V4: [(Ipv4Net, &str); 19] = [
    (v4([0, 0, 0, 0], 8), "unspecified"),
    (v4([10, 0, 0, 0], 8), "private"),
    (v4([100, 64, 0, 0], 10), "shared by a carrier's NAT"),
    (v4([127, 0, 0, 0], 8), "loopback"),
    // Looks public and is not: inside Azure it is the host's own agent.
    (v4([168, 63, 129, 16], 32), "a cloud's metadata service"),
    (v4([169, 254, 0, 0], 16), "link-local"),
    (v4([172, 16, 0, 0], 12), "private"),
    (v4([192, 0, 0, 0], 24), "reserved for protocols"),
    (v4([192, 0, 2, 0], 24), "for documentation"),
    (v4([192, 31, 196, 0], 24), "reserved for protocols"),
    (v4([192, 52, 193, 0], 24), "reserved for protocols"),
    (v4([192, 88, 99, 0], 24), "a 6to4 relay"),
    (v4([192, 168, 0, 0], 16), "private"),
    (v4([192, 175, 48, 0], 24), "reserved for protocols"),
    (v4([198, 18, 0, 0], 15), "for benchmarks"),
    (v4([198, 51, 100, 0], 24), "for documentation"),
    (v4([203, 0, 113, 0], 24), "for documentation"),
    (v4([224, 0, 0, 0], 4), "multicast"),
    (v4([240, 0, 0, 0], 4), "reserved or broadcast"),
];

/// IPv6 networks by name. Most lie outside [`GLOBAL_V6`] and would be refused without being listed; they are here so that
/// the refusal can say what was hit.
const BLOCKED_V6: [(Ipv6Net, &str); 13] = [
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 128), "unspecified"),
    (v6([0, 0, 0, 0, 0, 0, 0, 1], 128), "loopback"),
    // Deprecated since 2006. Nothing answers there, and `::127.0.0.1` is only ever written to be misread.
    (v6([0, 0, 0, 0, 0, 0, 0, 0], 96), "IPv4-compatible"),
    (v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96), "translated to IPv4 (NAT64)"),
    (v6([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48), "translated to IPv4 (NAT64)"),
    (v6([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7), "unique-local"),
    (v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10), "link-local"),
    (v6([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10), "site-local"),
    (v6([0xff00, 0, 0, 0, 0, 0, 0, 0], 8), "multicast"),
    // Teredo, benchmarks and ORCHID among them.
    (v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23), "Teredo or reserved for protocols"),
    (v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32), "for documentation"),
    (v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16), "translated to IPv4 (6to4)"),
    (v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20), "for documentation"),
];

/// All of IPv6 that is handed out as public addresses. What lies outside is refused, known or not.
const GLOBAL_V6: Ipv6Net = v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

const fn v4([a, b, c, d]: [u8; 4], prefix: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), prefix)
}

const fn v6([a, b, c, d, e, f, g, h]: [u16; 8], prefix: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, d, e, f, g, h), prefix)
}

/// Decides which addresses may be called.
#[derive(Debug, Clone, Default)]
pub struct Guard {
    allow: Vec<IpNet>,
    allow_hosts: Vec<HostRule>,
}

/// A host, or all hosts below a domain, whose addresses are not judged.
#[derive(Debug, Clone)]
enum HostRule {
    Exactly(String),
    /// Keeps the dot, so that `*.corp` does not cover `evilcorp`.
    EndsWith(String),
}

impl Guard {
    /// A guard that also passes the given networks, and the hosts that are given by name or as `*.domain`. The operator
    /// who allows a name trusts whoever answers for it in DNS, with any address.
    pub fn new(allow: Vec<IpNet>, allow_hosts: &[String]) -> Self {
        Self { allow, allow_hosts: allow_hosts.iter().map(|rule| HostRule::new(rule)).collect() }
    }

    /// The guard of dev mode, where the worker runs on the developer's machine: it passes loopback and nothing else that
    /// is private.
    pub fn open_to_loopback() -> Self {
        let loopback = [IpNet::V4(v4([127, 0, 0, 0], 8)), IpNet::V6(v6([0, 0, 0, 0, 0, 0, 0, 1], 128))];
        Self::new(loopback.into(), &[])
    }

    /// A guard that passes everything, for whoever names the webhook themselves and not by way of a queue.
    pub fn open_to_all() -> Self {
        Self::new(vec![IpNet::V4(v4([0, 0, 0, 0], 0)), IpNet::V6(v6([0; 8], 0))], &[])
    }

    /// Passes all addresses of a host or none, because one blocked address among good ones is how a name is made to lead
    /// inside. The addresses that come back are the ones to dial: an IPv4 address in IPv6 clothes has become plain.
    pub fn check(&self, host: &str, addresses: &[SocketAddr]) -> Result<Vec<SocketAddr>, String> {
        let plain: Vec<_> = addresses.iter().map(|address| plain(*address)).collect();
        if self.allow_hosts.iter().any(|rule| rule.covers(host)) {
            return Ok(plain);
        }
        match plain.iter().find_map(|address| Some((address.ip(), self.blocked(address.ip())?))) {
            Some((ip, what)) => Err(refusal(host, ip, what)),
            None => Ok(plain),
        }
    }

    fn blocked(&self, ip: IpAddr) -> Option<&'static str> {
        let allowed = self.allow.iter().any(|net| net.contains(&ip));
        if allowed { None } else { special(ip) }
    }
}

impl HostRule {
    fn new(rule: &str) -> Self {
        let rule = comparable(rule);
        match rule.strip_prefix('*') {
            Some(suffix) if suffix.starts_with('.') => Self::EndsWith(suffix.to_owned()),
            _ => Self::Exactly(rule),
        }
    }

    fn covers(&self, host: &str) -> bool {
        let host = comparable(host);
        match self {
            Self::Exactly(name) => host == *name,
            Self::EndsWith(suffix) => host.len() > suffix.len() && host.ends_with(suffix),
        }
    }
}

/// Reads a host that is an address rather than a name; `None` is a name.
///
/// Resolvers also take `127.1`, `0x7f000001`, `2130706433` and `0177.0.0.1` for IPv4 addresses, and do not agree which. No
/// name in DNS ends in a number, so nothing is lost by refusing whatever does and is not four plain decimal numbers;
/// guessing what another parser makes of it could only be wrong.
pub fn literal(host: &str) -> Result<Option<IpAddr>, String> {
    if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        let address = inner.parse::<Ipv6Addr>().map_err(|_| format!("{host} is not an IPv6 address"))?;
        return Ok(Some(address.into()));
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    match host.parse::<Ipv4Addr>() {
        Ok(address) => Ok(Some(address.into())),
        Err(_) if ends_in_a_number(host) => {
            Err(format!("{host} is not a name; write an IPv4 address as four decimal numbers"))
        }
        Err(_) => Ok(None),
    }
}

fn ends_in_a_number(host: &str) -> bool {
    let last = host.rsplit('.').next().unwrap_or(host).to_ascii_lowercase();
    let is_hex = last.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()));
    is_hex || !last.is_empty() && last.bytes().all(|b| b.is_ascii_digit())
}

/// DNS compares names without regard to case, and a final dot only says that the name is complete.
fn comparable(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

fn plain(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => SocketAddr::new(ip.into(), address.port()),
        IpAddr::V6(_) => address,
    }
}

/// What is special about an address, if it is none of the public ones.
fn special(ip: IpAddr) -> Option<&'static str> {
    match ip {
        IpAddr::V4(ip) => special_v4(ip),
        IpAddr::V6(ip) => special_v6(ip),
    }
}

fn special_v4(ip: Ipv4Addr) -> Option<&'static str> {
    BLOCKED_V4.iter().find(|(net, _)| net.contains(&ip)).map(|(_, what)| *what)
}

fn special_v6(ip: Ipv6Addr) -> Option<&'static str> {
    let named = BLOCKED_V6.iter().find(|(net, _)| net.contains(&ip)).map(|(_, what)| *what);
    named.or_else(|| (!GLOBAL_V6.contains(&ip)).then_some("not public"))
}

fn refusal(host: &str, ip: IpAddr, what: &str) -> String {
    let leads = if host.trim_matches(['[', ']']) == ip.to_string() {
        format!("{ip} is {what}")
    } else {
        format!("{host} leads to {ip}, which is {what}")
    };
    format!("{leads}; if that is intended, allow it in the server's delivery settings")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ip: &str) -> SocketAddr {
        SocketAddr::new(ip.parse().unwrap(), 443)
    }

    fn refused(guard: &Guard, ip: &str) -> bool {
        guard.check("worker.example", &[at(ip)]).is_err()
    }

    /// What the guard says about a host as it stands in a URL, if it is an address.
    fn verdict(host: &str) -> Result<Vec<SocketAddr>, String> {
        let ip = literal(host)?.expect("the host is an address");
        Guard::default().check(host, &[SocketAddr::new(ip, 80)])
    }

    #[test]
    fn hosts_that_denote_private_addresses_are_refused_however_they_are_written() {
        for host in [
            "127.0.0.1",
            "127.0.0.1.",
            "127.1",
            "127.0.1",
            "0x7f000001",
            "0X7F.0.0.1",
            "127.0.0.0x1",
            "0x",
            "2130706433",
            "017700000001",
            "0177.0.0.1",
            "00.0.0.0",
            "0",
            "256.256.256.256",
            "1.2.3.4.5",
            "worker.example.1",
            "169.254.169.254",
            "0.0.0.0",
            "[::]",
            "[::1]",
            "[::ffff:10.0.0.1]",
            "[::ffff:a00:1]",
            "[::ffff:127.0.0.1]",
            "[::127.0.0.1]",
            "[fd00:ec2::254]",
            "[127.0.0.1]",
            "[]",
        ] {
            assert!(verdict(host).is_err(), "{host}");
        }
    }

    #[test]
    fn names_are_names() {
        for host in
            ["worker.example", "localhost", "a", "1.a", "0xg", "x0", "127.0.0.1.example", "in-addr.arpa."]
        {
            assert_eq!(literal(host), Ok(None), "{host}");
        }
    }

    #[test]
    fn each_special_network_is_blocked_from_its_first_address_to_its_last() {
        let nets = BLOCKED_V4
            .map(|(net, _)| IpNet::V4(net))
            .into_iter()
            .chain(BLOCKED_V6.map(|(net, _)| IpNet::V6(net)));
        for net in nets {
            for ip in [net.network(), net.broadcast()] {
                assert!(refused(&Guard::default(), &ip.to_string()), "{ip} in {net}");
            }
        }
    }

    #[test]
    fn the_addresses_that_matter_most_are_blocked() {
        for ip in [
            "0.0.0.0",
            "10.255.255.255",
            "100.64.0.1",
            "100.100.100.200",
            "127.8.8.8",
            "168.63.129.16",
            "169.254.169.254",
            "172.31.255.255",
            "192.0.0.192",
            "192.168.1.1",
            "198.19.0.1",
            "203.0.113.9",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
            "::",
            "::1",
            "::a00:1",
            "::8.8.8.8",
            "::ffff:0:10.0.0.1",
            "::ffff:192.168.0.1",
            "64:ff9b::8.8.8.8",
            "64:ff9b:1::1",
            "100::1",
            "2001::1",
            "2001:2::1",
            "2001:db8::1",
            "2002:a00:1::",
            "3fff::1",
            "5f00::1",
            "4000::1",
            "fc00::1",
            "fdff::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(refused(&Guard::default(), ip), "{ip}");
        }
    }

    #[test]
    fn public_addresses_pass_as_they_are() {
        for ip in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.167.255.255",
            "192.169.0.0",
            "223.255.255.255",
            "2001:200::1",
            "2606:4700::1111",
            "2a00:1450:4001::1",
        ] {
            assert_eq!(Guard::default().check("worker.example", &[at(ip)]), Ok(vec![at(ip)]), "{ip}");
        }
    }

    #[test]
    fn a_mapped_public_address_is_dialled_as_what_it_is() {
        let passed = Guard::default().check("worker.example", &[at("::ffff:1.1.1.1")]);
        assert_eq!(passed, Ok(vec![at("1.1.1.1")]));
    }

    #[test]
    fn one_blocked_address_among_good_ones_refuses_all() {
        let said = Guard::default().check("worker.example", &[at("1.1.1.1"), at("10.0.0.1")]).unwrap_err();
        assert!(said.starts_with("worker.example leads to 10.0.0.1, which is private;"), "{said}");
    }

    #[test]
    fn allowed_networks_pass_and_nothing_beside_them() {
        let guard = Guard::new(vec!["10.1.0.0/16".parse().unwrap(), "fd00::/8".parse().unwrap()], &[]);
        for ip in ["10.1.2.3", "::ffff:10.1.2.3", "fd12::1", "1.1.1.1"] {
            assert!(!refused(&guard, ip), "{ip}");
        }
        for ip in ["10.2.0.1", "127.0.0.1", "fc00::1"] {
            assert!(refused(&guard, ip), "{ip}");
        }
    }

    #[test]
    fn allowed_hosts_pass_by_name_or_below_a_domain() {
        let guard = Guard::new(vec![], &["Worker.Internal".to_owned(), "*.corp".to_owned()]);
        for (host, passes) in [
            ("worker.internal", true),
            ("WORKER.internal.", true),
            ("a.worker.internal", false),
            ("jobs.corp", true),
            ("a.jobs.CORP", true),
            ("corp", false),
            (".corp", false),
            ("evilcorp", false),
            ("jobs.corp.example", false),
        ] {
            assert_eq!(guard.check(host, &[at("10.0.0.1")]).is_ok(), passes, "{host}");
        }
    }

    #[test]
    fn dev_mode_reaches_its_own_machine_and_no_other() {
        let guard = Guard::open_to_loopback();
        assert!(["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"].iter().all(|ip| !refused(&guard, ip)));
        assert!(["10.0.0.1", "169.254.169.254", "0.0.0.0", "fe80::1"].iter().all(|ip| refused(&guard, ip)));
    }
}
