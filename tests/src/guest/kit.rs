//! QEMU and kernel, as `tests/guest/fetch` unpacks them.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use crate::stock::fetched;

/// What a guest is started with.
pub struct Kit {
    /// Where the packages of QEMU and of what it needs are unpacked.
    pub root: PathBuf,
    kernel: PathBuf,
    /// The kernel's release, as `uname -r` says it.
    pub release: String,
}

impl Kit {
    /// The kit of this machine; fetched if it is not there, which needs a network.
    pub fn get() -> &'static Kit {
        static KIT: OnceLock<Kit> = OnceLock::new();
        KIT.get_or_init(|| {
            let place = fetched("guest/fetch");
            let kernel = place.join("kernel");
            let modules = std::fs::read_dir(kernel.join("usr/lib/modules")).expect("kernel modules");
            let release = modules.flatten().next().expect("one kernel").file_name();
            let release = release.into_string().expect("a plain name");
            Kit { root: place.join("root"), kernel, release }
        })
    }

    /// QEMU, run by its own loader with its own libraries: nothing of it is installed on this machine.
    pub fn qemu(&self) -> Command {
        let libraries = self.root.join("usr/lib/x86_64-linux-gnu");
        let mut command = Command::new(self.root.join("usr/lib64/ld-linux-x86-64.so.2"));
        command.arg("--library-path").arg(format!("{0}:{0}/pulseaudio", libraries.display()));
        command.arg(self.root.join("usr/bin/qemu-system-x86_64"));
        command.arg("-L").arg(self.root.join("usr/share/qemu"));
        command.arg("-L").arg(self.root.join("usr/share/seabios"));
        command
    }

    /// The kernel's image.
    pub fn kernel(&self) -> PathBuf {
        self.kernel.join("boot").join(format!("vmlinuz-{}", self.release))
    }

    /// The compressed modules.
    pub fn modules(&self) -> PathBuf {
        self.kernel.join("usr/lib/modules").join(&self.release)
    }

    /// A busybox without libraries, which runs here and in the guest.
    pub fn busybox(&self) -> PathBuf {
        self.root.join("usr/bin/busybox")
    }
}
