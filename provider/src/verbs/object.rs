//! The objects of pointers that programs have.
#![allow(unsafe_code)]

/// Gives an object that begins with what programs see of it, which is the field `$seen`, the function `of`.
macro_rules! found_by {
    ($object:ident, $seen:ident: $ibv:ident) => {
        const _: () = assert!(std::mem::offset_of!($object, $seen) == 0);

        impl $object {
            /// The object of a pointer that programs have.
            ///
            /// # Safety
            /// It must be a live one of this provider.
            #[inline]
            pub unsafe fn of<'a>(seen: *mut $ibv) -> &'a Self {
                // SAFETY: a live object, as the caller promises, which begins there, as is asserted above.
                unsafe { &*seen.cast() }
            }
        }
    };
}
pub(super) use found_by;
