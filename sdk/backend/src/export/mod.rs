//! What `export_plugin!` builds on: the C side of the traits. Not for direct use; only the macro is stable.
//!
//! Everything that can panic runs inside [`guard::guard`]. Everything that comes in is checked before it is believed: null, misaligned
//! or oversized arguments are `INVALID_ARGUMENT`, never undefined behaviour where that can be told. Everything that goes out is written
//! only as far as the caller's `struct_size` reaches.

mod embed;
mod forward;
pub(crate) mod guard;
mod model;
mod note;
mod plugin;
mod rerank;
mod root;
mod tokenize;
mod wire;

pub use abi_stable;
pub use note::{Meta, Note, note, note_size};
pub use onebit_plugin_api;
pub use plugin::{Exported, Slot, enter, table};
pub use root::lib_header;

/// Target triple this SDK was compiled for, and with it the plugin.
pub const TARGET: &str = env!("ONEBIT_TARGET");

/// Makes a `cdylib` a plugin: its note, both doors, the guard.
///
/// Once per `cdylib`; an example is at the head of this crate. `id` is the folder's and the note's name of the plugin: lower-case letters, digits, `-`.
#[macro_export]
macro_rules! export_plugin {
    ($plugin:ty, { id: $id:expr, version: $version:expr, capabilities: [$($capability:expr),* $(,)?], licence: $licence:expr $(,)? }) => {
        const _: () = {
            const META: $crate::export::Meta = $crate::export::Meta {
                id: $id,
                version: $version,
                capabilities: &[$($capability),*],
                licence: $licence,
                panic_unwinds: ::core::cfg!(panic = "unwind"),
            };

            static SLOT: $crate::export::Slot<$plugin> = $crate::export::Slot::new();
            static TABLE: $crate::export::onebit_plugin_api::OnebitPlugin = $crate::export::table::<$plugin>();

            impl $crate::export::Exported for $plugin {
                const META: $crate::export::Meta = META;

                fn slot() -> &'static $crate::export::Slot<Self> {
                    &SLOT
                }

                fn table() -> &'static $crate::export::onebit_plugin_api::OnebitPlugin {
                    &TABLE
                }
            }

            /// Read from the file by hosts before anything runs.
            #[used]
            #[unsafe(link_section = ".note.onebit")]
            static NOTE: $crate::export::Note<{ $crate::export::note_size(&META).next_multiple_of(4) }> = $crate::export::note(&META);

            /// Door 2.
            #[unsafe(no_mangle)]
            unsafe extern "C" fn onebit_plugin_v1(
                host: *const $crate::export::onebit_plugin_api::OnebitHost,
            ) -> *const $crate::export::onebit_plugin_api::OnebitPlugin {
                // SAFETY: the caller of the door keeps the ABI's promise for `host`.
                unsafe { $crate::export::enter::<$plugin>(host) }
            }

            /// Door 1, under the name that abi_stable looks for; the test `the_doors_have_their_names` holds it to that.
            #[unsafe(export_name = "_1as_0lib_1header_0root_bmodule_bloader")]
            static ROOT: $crate::export::abi_stable::library::LibHeader = $crate::export::lib_header::<$plugin>();
        };
    };
}
