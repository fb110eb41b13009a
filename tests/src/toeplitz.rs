//! Microsoft's "Verifying the RSS Hash Calculation".

/// Destination and its port, source and its port, the hash with the ports of TCP. Those of IPv4 come first.
pub const SUITE: [(&str, u16, &str, u16, u32); 8] = [
    ("161.142.100.80", 1766, "66.9.149.187", 2794, 0x51ccc178),
    ("65.69.140.83", 4739, "199.92.111.2", 14230, 0xc626b0ea),
    ("12.22.207.184", 38024, "24.19.198.95", 12898, 0x5c2b394a),
    ("209.142.163.6", 2217, "38.27.205.30", 48228, 0xafc7327f),
    ("202.188.127.2", 1303, "153.39.163.191", 44251, 0x10e828a2),
    ("3ffe:2501:200:3::1", 1766, "3ffe:2501:200:1fff::7", 2794, 0x40207d3d),
    ("ff02::1", 4739, "3ffe:501:8::260:97ff:fe40:efab", 14230, 0xdde51bbf),
    ("fe80::200:f8ff:fe21:67cf", 38024, "3ffe:1900:4545:3:200:f8ff:fe21:67cf", 44251, 0x02d1feef),
];
