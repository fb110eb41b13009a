//! Cards that pass calls on to another card: one list of the methods of [`Card`](crate::Card) for all of them.

/// Writes methods that call another card.
///
/// `to` is a macro that names this card: `to!(self, card => call)` evaluates `call` with `card` bound to
/// it. `forward_card!(to for Type)` implements all of [`Card`](crate::Card) for a type;
/// `forward_card!(to: Memory)` is the body of one trait. `access` is the body of
/// [`Registers`](crate::Registers) without the doorbell, for a type that rings it itself. Methods with a default
/// are passed on too.
#[macro_export]
macro_rules! forward_card {
    ($to:ident for $card:ty) => {
        impl $crate::Registers for $card {
            $crate::forward_card!($to: Registers);
        }
        impl $crate::Memory for $card {
            $crate::forward_card!($to: Memory);
        }
        impl $crate::Interrupts for $card {
            $crate::forward_card!($to: Interrupts);
        }
        impl $crate::Hints for $card {
            $crate::forward_card!($to: Hints);
        }
    };
    ($to:ident: Registers) => {
        $crate::forward_card!($to: access);
        #[inline(always)]
        fn doorbell(&self, offset: u32, value: u64) {
            $to!(self, card => card.doorbell(offset, value));
        }
    };
    ($to:ident: access) => {
        #[inline]
        fn read32(&self, offset: u32) -> u32 {
            $to!(self, card => card.read32(offset))
        }
        #[inline]
        fn write32(&self, offset: u32, value: u32) {
            $to!(self, card => card.write32(offset, value));
        }
        #[inline]
        fn read64(&self, offset: u32) -> u64 {
            $to!(self, card => card.read64(offset))
        }
        #[inline]
        fn write64(&self, offset: u32, value: u64) {
            $to!(self, card => card.write64(offset, value));
        }
        fn may_vanish(&self) -> bool {
            $to!(self, card => card.may_vanish())
        }
    };
    ($to:ident: Memory) => {
        fn alloc(&self, bytes: usize) -> Result<$crate::DmaMemory, $crate::CardError> {
            $to!(self, card => card.alloc(bytes))
        }
        fn free(&self, memory: $crate::DmaMemory) {
            $to!(self, card => card.free(memory));
        }
        fn map(&self, addr: *mut u8, len: usize, writable: bool) -> Result<u64, $crate::CardError> {
            $to!(self, card => card.map(addr, len, writable))
        }
        fn unmap(&self, iova: u64, addr: *mut u8, len: usize) {
            $to!(self, card => card.unmap(iova, addr, len));
        }
    };
    ($to:ident: Interrupts) => {
        fn wait_interrupt(
            &self,
            vector: u32,
            timeout: ::core::time::Duration,
        ) -> Result<bool, $crate::CardError> {
            $to!(self, card => card.wait_interrupt(vector, timeout))
        }
    };
    ($to:ident: Hints) => {
        #[inline]
        fn expect_doorbell(&self) {
            $to!(self, card => card.expect_doorbell());
        }
        #[inline]
        fn expect_posts(&self, qpn: u32) {
            $to!(self, card => card.expect_posts(qpn));
        }
        #[inline]
        fn polled(&self, completions: usize) {
            $to!(self, card => card.polled(completions));
        }
        #[inline]
        fn relax(&self, empty_polls: u32) {
            $to!(self, card => card.relax(empty_polls));
        }
    };
}

macro_rules! inner {
    ($self:ident, $card:ident => $call:expr) => {{
        let $card = &**$self;
        $call
    }};
}

// A card in an `Arc`, for programs that choose their backend at run time.
impl<C: crate::Registers + ?Sized> crate::Registers for std::sync::Arc<C> {
    forward_card!(inner: Registers);
}

impl<C: crate::Memory + ?Sized> crate::Memory for std::sync::Arc<C> {
    forward_card!(inner: Memory);
}

impl<C: crate::Interrupts + ?Sized> crate::Interrupts for std::sync::Arc<C> {
    forward_card!(inner: Interrupts);
}

impl<C: crate::Hints + ?Sized> crate::Hints for std::sync::Arc<C> {
    forward_card!(inner: Hints);
}
