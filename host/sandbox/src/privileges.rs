//! Privileges that computing does not need: root's powers, new ones through any program, a core file.
//!
//! A host that is run as root (a container, a careless service) must not make its plugins root. What stays is reading files that others own
//! (a model may belong to anybody; which files are open is Landlock's part) and locking memory (accelerators need it).

use rustix::io::Errno;
use rustix::process::{Resource, Rlimit, setrlimit};
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities, set_no_new_privs};

use crate::Error;

const KEPT: CapabilitySet = CapabilitySet::DAC_READ_SEARCH.union(CapabilitySet::IPC_LOCK);

pub(crate) fn give_up() -> Result<(), Error> {
    let refused = |errno: Errno| Error::Kernel { layer: "rule against new privileges", reason: errno.to_string() };
    set_no_new_privs(true).map_err(refused)?;
    let held = capabilities(None).map_err(refused)?;
    let kept = CapabilitySets { effective: held.effective & KEPT, permitted: held.permitted & KEPT, inheritable: CapabilitySet::empty() };
    // A service that has none is often not even allowed to ask.
    if (held.effective | held.permitted | held.inheritable) != (kept.effective | kept.permitted) {
        set_capabilities(None, kept).map_err(refused)?;
    }
    // Memory of a model's users does not belong on a disk.
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) }).map_err(refused)
}
