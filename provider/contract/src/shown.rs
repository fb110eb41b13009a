//! What both the provider and the launcher's sysfs say of a card: width and speed of its ports, its firmware.

/// `port_cap_flags`: IBV_PORT_CM_SUP and IBV_PORT_IP_BASED_GIDS.
pub const PORT_CAPABILITIES: u32 = 1 << 16 | 1 << 26;

/// The firmware's version as text.
pub fn firmware(version: u64) -> String {
    format!("{}.{}.{}", version >> 32, version >> 16 & 0xffff, version & 0xffff)
}

/// Codes of `active_width` and `active_speed` for a speed in Mb/s.
pub fn width_and_speed(mbps: u32) -> (u8, u8) {
    const X1: u8 = 1;
    const X4: u8 = 2;
    match mbps {
        0..=2_500 => (X1, 1),
        2_501..=5_000 => (X1, 2),
        5_001..=10_000 => (X1, 4),
        10_001..=25_000 => (X1, 32),
        25_001..=40_000 => (X4, 4),
        40_001..=50_000 => (X1, 64),
        50_001..=100_000 => (X4, 32),
        _ => (X4, 64),
    }
}

/// The speed as the kernel writes it in a port's `rate`.
pub fn rate_text(mbps: u32) -> String {
    let (width, speed) = width_and_speed(mbps);
    let lanes = if width == 1 { 1 } else { 4 };
    let (tenths, name) = match speed {
        1 => (25, "SDR"),
        2 => (50, "DDR"),
        4 => (100, "QDR"),
        32 => (250, "EDR"),
        _ => (500, "HDR"),
    };
    let half = if tenths * lanes % 10 == 0 { "" } else { ".5" };
    format!("{}{half} Gb/sec ({lanes}X {name})", tenths * lanes / 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speeds_multiply_to_the_line_rate() {
        // Lanes by code of the width, Mb/s of a lane by code of the speed.
        let rate = |mbps| {
            let (width, speed) = width_and_speed(mbps);
            let lanes = if width == 1 { 1 } else { 4 };
            lanes
                * match speed {
                    1 => 2_500,
                    2 => 5_000,
                    4 => 10_000,
                    32 => 25_000,
                    _ => 50_000,
                }
        };
        for mbps in [2_500, 10_000, 25_000, 40_000, 50_000, 100_000, 200_000] {
            assert_eq!(rate(mbps), mbps);
        }
        assert_eq!(width_and_speed(1_000), (1, 1));
    }

    #[test]
    fn rates_are_written_as_the_kernel_does() {
        assert_eq!(rate_text(10_000), "10 Gb/sec (1X QDR)");
        assert_eq!(rate_text(25_000), "25 Gb/sec (1X EDR)");
        assert_eq!(rate_text(40_000), "40 Gb/sec (4X QDR)");
        assert_eq!(rate_text(2_500), "2.5 Gb/sec (1X SDR)");
    }
}
