//! What people call ports, wherever they name one: `verbena1/2` is port 2 of card 1.

use std::str::FromStr;

use crate::packet::{PortId, MAX_CARDS, PORTS};

/// A number of digits only: Rust's own take a sign, too.
pub fn number<N: FromStr>(text: &str) -> Option<N> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

/// The card, and the port if the name has one, both from 0; neither has to be there. `verbena1:2`, `1/2` and `1.2`
/// are read, too.
pub fn card_and_port(name: &str) -> Option<(u16, Option<u8>)> {
    let name = name.strip_prefix("verbena").unwrap_or(name);
    let (card, port) = match name.split_once(['/', ':', '.']) {
        Some((card, port)) => (card, Some(number::<u8>(port)?.checked_sub(1)?)),
        None => (name, None),
    };
    Some((number(card)?, port))
}

/// The port, which is the card's first one if the name has none.
pub fn port(name: &str) -> Option<PortId> {
    card_and_port(name).map(|(card, port)| PortId { card, port: port.unwrap_or(0) })
}

/// A name of no port that a net can have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no port: ports are verbena0/1, verbena0/2, ... verbena{last}/2", last = MAX_CARDS - 1)]
pub struct NoPort(pub(crate) String);

/// The port, if a net can have it.
pub fn of_net(name: &str) -> Result<PortId, NoPort> {
    let can_be = |port: &PortId| usize::from(port.card) < MAX_CARDS && usize::from(port.port) < PORTS;
    port(name).filter(can_be).ok_or_else(|| NoPort(name.to_owned()))
}

/// Its name.
pub fn text(port: PortId) -> String {
    format!("verbena{}/{}", port.card, port.port + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_has_many_spellings_and_one_name() {
        for spelling in ["verbena1/2", "verbena1:2", "verbena1.2", "1/2", "1:2", "1.2"] {
            assert_eq!(card_and_port(spelling), Some((1, Some(1))), "{spelling}");
            assert_eq!(port(spelling).map(text).as_deref(), Some("verbena1/2"));
        }
        for card in ["verbena3", "3"] {
            assert_eq!(card_and_port(card), Some((3, None)));
            assert_eq!(port(card).map(text).as_deref(), Some("verbena3/1"));
        }
        for wrong in [
            "verbena+3",
            "+3",
            "1/+2",
            "-0",
            "",
            "verbena",
            "verbena/1",
            "1/",
            "1.0",
            "1.1.1",
            "1/x",
            "mlx5_0/1",
            "65536",
            "1.256",
        ] {
            assert_eq!(card_and_port(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn nets_have_cards_and_ports_up_to_a_number() {
        assert!(["0", "15.2"].iter().all(|name| of_net(name).is_ok()));
        assert!(["16", "0.3", "65535.255"].iter().all(|name| port(name).is_some() && of_net(name).is_err()));
    }
}
