//! A card behind an [`Arc`], for programs that do not know before they run which backend they will have.

use std::sync::Arc;

use crate::card::Card;

macro_rules! inner {
    ($self:ident, $card:ident => $call:expr) => {{
        let $card = &**$self;
        $call
    }};
}

impl<C: Card + ?Sized> Card for Arc<C> {
    crate::forward_card!(inner: all);
}
