//! Types of one number, values of which have names.

/// Constants of a type with their names and meanings, which are also in `ALL`. The number of each follows from its place
/// there, from 0.
macro_rules! named {
    ($type:ident($place:ident => $number:expr) { $($constant:ident $name:literal $what:literal,)* }) => {
        const _: () = {
            #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
            enum Place { $($constant,)* }

            #[allow(non_upper_case_globals)]
            impl $type {
                $(
                    #[doc = $what]
                    pub const $constant: $type = {
                        let $place = Place::$constant as u8;
                        $type($number)
                    };
                )*
                /// Each of them, with its name and its meaning.
                pub const ALL: &[($type, &str, &str)] = &[$(($type::$constant, $name, $what),)*];
            }
        };
    };
}
pub(crate) use named;
