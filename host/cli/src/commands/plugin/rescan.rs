//! `plugin rescan`: forgets what plugins answered, crashed on or hung on, and asks all of them again.

use super::{Sub, list};
use crate::commands::open;

pub(super) static SUB: Sub = Sub {
    name: "rescan",
    about: "Forget what plugins answered before, and ask all of them again",
    arguments: |command| command,
    run: |invocation, _| {
        let (runtime, host) = open::asking(invocation)?;
        runtime.block_on(host.rescan())?;
        list::show(&runtime.block_on(host.plugins())?, true, false)
    },
};
