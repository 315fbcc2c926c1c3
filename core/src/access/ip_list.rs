//! Lists of client addresses (worker-protocol 5.1, 5.3; 4.4 for circuits).

use core::net::{IpAddr, Ipv6Addr};
use ipnet::{IpNet, Ipv4Net};

/// Where a client may come from. The networks are without host bits, sorted, without repeats; IPv4 ones that came as
/// IPv6 are IPv4 again.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum IpList {
    /// No restriction: the list was absent, empty or blank.
    Anyone,
    /// Only from these. Empty: something was written, nothing of it could be read, so nobody is let in.
    Only(Box<[IpNet]>),
}

/// A list, and what of it could not be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedIpList {
    /// The list to use.
    pub list: IpList,
    /// Entries that are neither an address nor a network, as they came; to be reported.
    pub rejected: Vec<String>,
}

impl IpList {
    /// Whether there is no restriction.
    #[must_use]
    pub const fn is_anyone(&self) -> bool {
        matches!(self, Self::Anyone)
    }

    /// Reads entries, each of which may itself be a comma-separated list; blanks are ignored.
    ///
    /// ```
    /// use appproxy_core::access::ip_list::IpList;
    /// let parsed = IpList::parse(["192.0.2.9/24, office"]);
    /// assert_eq!(parsed.rejected, ["office"]);
    /// assert!(parsed.list.allows(Some("::ffff:192.0.2.7".parse().unwrap())));
    /// assert!(!parsed.list.allows(None));
    /// ```
    #[must_use]
    pub fn parse<'a>(entries: impl IntoIterator<Item = &'a str>) -> ParsedIpList {
        let mut nets = Vec::new();
        let mut rejected = Vec::new();
        for entry in entries.into_iter().flat_map(|text| text.split(',')).map(str::trim).filter(|e| !e.is_empty()) {
            match parse_net(entry) {
                Some(net) => nets.push(net),
                None => rejected.push(entry.to_owned()),
            }
        }
        if nets.is_empty() && rejected.is_empty() {
            return ParsedIpList { list: Self::Anyone, rejected };
        }
        nets.sort_unstable();
        nets.dedup();
        ParsedIpList { list: Self::Only(nets.into()), rejected }
    }

    /// Whether a client may come in. A client without a known address passes only where anyone does.
    #[must_use]
    pub fn allows(&self, client: Option<IpAddr>) -> bool {
        match self {
            Self::Anyone => true,
            Self::Only(nets) => client.is_some_and(|address| {
                let address = address.to_canonical();
                nets.iter().any(|net| net.contains(&address))
            }),
        }
    }

    /// Whether nobody at all is let in.
    #[must_use]
    pub fn refuses_everyone(&self) -> bool {
        matches!(self, Self::Only(nets) if nets.is_empty())
    }
}

/// Reads an address (a network of one) or a network; host bits are cut, IPv4 in IPv6 becomes IPv4.
fn parse_net(entry: &str) -> Option<IpNet> {
    let net = match entry.parse::<IpAddr>() {
        Ok(address) => IpNet::from(address.to_canonical()),
        Err(_) => entry.parse::<IpNet>().ok()?,
    };
    Some(canonical(net.trunc()))
}

/// The bits of `::ffff:0:0/96`, which hold IPv4 addresses.
const MAPPED_PREFIX: u8 = 96;

fn canonical(net: IpNet) -> IpNet {
    let IpNet::V6(v6) = net else { return net };
    let mapped: Option<Ipv4Net> = (v6.prefix_len() >= MAPPED_PREFIX)
        .then(|| Ipv6Addr::to_ipv4_mapped(&v6.network()))
        .flatten()
        .and_then(|v4| Ipv4Net::new(v4, v6.prefix_len() - MAPPED_PREFIX).ok());
    mapped.map_or(net, IpNet::V4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn allows(list: &str, client: &str) -> bool {
        IpList::parse([list]).list.allows(Some(client.parse().unwrap()))
    }

    #[test]
    fn ipv4_and_ipv4_in_ipv6_are_one_address() {
        assert!(allows("192.0.2.0/24", "::ffff:192.0.2.7"));
        assert!(!allows("192.0.2.0/24", "::ffff:198.51.100.7"));
        assert!(allows("::ffff:192.0.2.0/120", "192.0.2.200"));
        assert!(!allows("::ffff:192.0.2.0/120", "192.0.3.1"));
        assert!(allows("2001:db8::/32", "2001:db8::9"));
        assert!(allows("192.0.2.9/24", "192.0.2.200"));
        assert!(allows("::ffff:192.0.2.9", "192.0.2.9"));
        assert!(allows("::ffff:0:0/96", "203.0.113.1"));
        let mapped = IpList::parse(["::ffff:192.0.2.9/120"]).list;
        assert_eq!(mapped, IpList::parse(["192.0.2.0/24"]).list);
    }

    #[test]
    fn a_wider_ipv6_network_is_no_ipv4_network() {
        // `::/0` is every IPv6 address, not every IPv4 one.
        assert!(!allows("::/0", "192.0.2.1"));
        assert!(allows("0.0.0.0/0", "192.0.2.1"));
        assert!(!allows("0.0.0.0/0", "2001:db8::1"));
    }

    #[test]
    fn a_broken_list_closes_the_door() {
        for open in ["", "  ", ",", " , ,"] {
            let parsed = IpList::parse([open]);
            assert!(parsed.list == IpList::Anyone && parsed.list.is_anyone(), "{open:?}");
            assert!(parsed.rejected.is_empty());
        }
        assert_eq!(IpList::parse([]).list, IpList::Anyone);
        let broken = IpList::parse(["10.0.0.0/33, office"]);
        assert!(broken.list.refuses_everyone() && !broken.list.is_anyone());
        assert_eq!(broken.rejected, ["10.0.0.0/33", "office"]);
        assert!(!broken.list.allows(Some("10.0.0.1".parse().unwrap())));
        let half = IpList::parse(["192.0.2.1, bad"]);
        assert_eq!(half.rejected, ["bad"]);
        assert!(half.list.allows(Some("192.0.2.1".parse().unwrap())));
        assert!(!half.list.allows(Some("192.0.2.2".parse().unwrap())));
        let trailing = IpList::parse(["192.0.2.1,,"]);
        assert!(trailing.rejected.is_empty());
        assert!(trailing.list.allows(Some("192.0.2.1".parse().unwrap())));
    }

    #[test]
    fn without_an_address_only_anyone_lets_in() {
        assert!(IpList::Anyone.allows(None));
        assert!(!IpList::parse(["0.0.0.0/0", "::/0"]).list.allows(None));
    }

    #[test]
    fn spelling_and_order_do_not_matter() {
        let one = IpList::parse(["10.0.0.0/8", "2001:db8::/32"]).list;
        let two = IpList::parse([" 2001:DB8::1/32 ,10.9.9.9/8", "10.0.0.0/8"]).list;
        assert_eq!(one, two);
    }
}
