//! Cards that pass calls on to another card: one list of [`Card`](crate::Card)'s methods for all of them.

/// Writes those methods of an `impl Card` that pass the call on.
///
/// `to` is a macro that calls the other card: `to!(self, card => call)` evaluates `call` with `card` being
/// that card. Then come the methods, by name or in groups: `registers`, `doorbells`, `memory`, `waiting`; `all`
/// is the four of them. A group names methods with a default too, so that none is forgotten.
#[macro_export]
macro_rules! forward_card {
    ($to:ident: $($methods:ident)+) => { $($crate::forward_card!(@ $methods $to);)+ };
    (@ all $to:ident) => { $crate::forward_card!($to: registers doorbells memory waiting); };
    (@ registers $to:ident) => {
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
    };
    (@ doorbells $to:ident) => { $crate::forward_card!($to: doorbell push expect_doorbell expect_posts); };
    (@ doorbell $to:ident) => {
        #[inline(always)]
        fn doorbell(&self, offset: u32, value: u64) {
            $to!(self, card => card.doorbell(offset, value));
        }
    };
    (@ push $to:ident) => {
        #[inline]
        fn push(&self, offset: u32, wqe: &[u8], doorbell_offset: u32, value: u64) {
            $to!(self, card => card.push(offset, wqe, doorbell_offset, value));
        }
    };
    (@ expect_doorbell $to:ident) => {
        #[inline]
        fn expect_doorbell(&self) {
            $to!(self, card => card.expect_doorbell());
        }
    };
    (@ expect_posts $to:ident) => {
        #[inline]
        fn expect_posts(&self, qpn: u32) {
            $to!(self, card => card.expect_posts(qpn));
        }
    };
    (@ memory $to:ident) => { $crate::forward_card!($to: queues regions); };
    (@ queues $to:ident) => {
        fn alloc(&self, bytes: usize) -> Result<$crate::DmaMemory, $crate::CardError> {
            $to!(self, card => card.alloc(bytes))
        }
        fn free(&self, memory: $crate::DmaMemory) {
            $to!(self, card => card.free(memory));
        }
    };
    (@ regions $to:ident) => {
        fn map(&self, addr: *mut u8, len: usize, writable: bool) -> Result<u64, $crate::CardError> {
            $to!(self, card => card.map(addr, len, writable))
        }
        fn unmap(&self, iova: u64, addr: *mut u8, len: usize) {
            $to!(self, card => card.unmap(iova, addr, len));
        }
    };
    (@ waiting $to:ident) => { $crate::forward_card!($to: interrupts polled relax); };
    (@ interrupts $to:ident) => {
        fn wait_interrupt(
            &self,
            vector: u32,
            timeout: ::core::time::Duration,
        ) -> Result<bool, $crate::CardError> {
            $to!(self, card => card.wait_interrupt(vector, timeout))
        }
        fn may_vanish(&self) -> bool {
            $to!(self, card => card.may_vanish())
        }
    };
    (@ polled $to:ident) => {
        #[inline]
        fn polled(&self, completions: usize) {
            $to!(self, card => card.polled(completions));
        }
    };
    (@ relax $to:ident) => {
        #[inline]
        fn relax(&self, empty_polls: u32) {
            $to!(self, card => card.relax(empty_polls));
        }
    };
}
