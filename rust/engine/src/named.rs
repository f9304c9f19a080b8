//! Enums whose values have names: those of the variants.

/// Generates an enum, the list of its values, and their names.
macro_rules! named {
    ($(#[$meta:meta])* pub enum $type:ident { $($(#[$value_meta:meta])* $value:ident,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum $type {
            $($(#[$value_meta])* $value,)*
        }

        impl $type {
            /// Every value.
            pub const ALL: [Self; [$(stringify!($value)),*].len()] = [$(Self::$value),*];

            /// The name of the value.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$value => stringify!($value),)*
                }
            }
        }
    };
}

pub(crate) use named;
