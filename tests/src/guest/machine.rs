//! A running guest.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::time::Duration;

use super::{image, Kit, Said, Shell};
use crate::stock::{verbena, Program};

/// How long a boot may take: 4 s on a quiet machine, over 90 s where twenty others want the cores.
const BOOT: Duration = Duration::from_secs(300);

/// The PCI slot of the first card.
const FIRST_SLOT: u32 = 4;

/// What a guest is like.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Further arguments of QEMU: the devices.
    pub arguments: Vec<String>,
    /// Further words for the kernel.
    pub kernel: String,
    cards: u32,
}

impl Options {
    /// A card on the next slot from 0000:00:04.0 on, served at `socket`, which must be listening already.
    pub fn card(mut self, socket: &Path) -> Options {
        let socket = socket.to_str().expect("a plain path");
        let slot = FIRST_SLOT + self.cards;
        let device = format!(
            r#"{{"driver":"vfio-user-pci","addr":"{slot:#x}","socket":{{"path":"{socket}","type":"unix"}}}}"#
        );
        self.arguments.extend(["-device".into(), device]);
        self.cards += 1;
        self
    }
}

/// A guest. It ends when this is dropped.
pub struct Machine {
    shell: Shell,
    qemu: Program,
    dir: tempfile::TempDir,
}

/// The files of the guests of this test process, as a path that QEMU can open while this process runs; `programs` are the
/// tests' own, each with its name in the guest.
fn initramfs(programs: &[(&str, &str)]) -> PathBuf {
    static IMAGE: OnceLock<File> = OnceLock::new();
    let image = IMAGE.get_or_init(|| {
        let provider = verbena().with_file_name("libverbena.so");
        let mut own = vec![(verbena().to_owned(), "verbena"), (provider, "libverbena.so")];
        own.extend(programs.iter().map(|&(here, name)| (PathBuf::from(here), name)));
        image::pack(Kit::get(), &own)
    });
    PathBuf::from(format!("/proc/{}/fd/{}", std::process::id(), image.as_raw_fd()))
}

impl Machine {
    /// Boots a guest; panics if that fails. All guests of a test process have the same `programs` (path here, name there).
    pub fn boot(programs: &[(&str, &str)], options: &Options) -> Machine {
        let kit = Kit::get();
        let image = initramfs(programs);
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name).display().to_string();
        let mut command = kit.qemu();
        command
            .args(["-accel", "tcg,thread=multi", "-cpu", "max", "-smp", "2", "-m", "1G"])
            .args(["-machine", "q35,memory-backend=m0,kernel-irqchip=split"])
            .args(["-object", "memory-backend-memfd,id=m0,size=1G,share=on"])
            .args(["-device", "intel-iommu,intremap=on,caching-mode=on"])
            .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"])
            .args(["-serial", &format!("file:{}", at("console"))])
            .args(["-chardev", &format!("socket,id=shell,path={},server=on,wait=off", at("shell"))])
            .args(["-serial", "chardev:shell"])
            .arg("-kernel")
            .arg(kit.kernel())
            .arg("-initrd")
            .arg(image)
            .arg("-append")
            .arg(format!(
                "console=ttyS0 panic=-1 no_timer_check intel_iommu=on loglevel=4 {}",
                options.kernel
            ))
            .args(&options.arguments);
        let mut qemu = Program::start(command);
        match Shell::connect(&dir.path().join("shell"), BOOT) {
            Ok(shell) => Machine { shell, qemu, dir },
            Err(error) => {
                let console = std::fs::read_to_string(dir.path().join("console")).unwrap_or_default();
                let state = if qemu.has_ended() { "has ended" } else { "runs" };
                let ended = qemu.wait(Duration::ZERO);
                panic!(
                    "no guest: {error}; QEMU {state} ({}); it said:\n{}\n{console}",
                    ended.how(),
                    ended.said
                );
            }
        }
    }

    /// Runs a command to its end; panics if it does not end.
    pub fn run(&mut self, command: &str, limit: Duration) -> Said {
        self.shell.run(command, limit).unwrap_or_else(|error| panic!("{error}\n{}", self.evidence()))
    }

    /// Runs a command that must succeed; gives what it said.
    pub fn good(&mut self, command: &str, limit: Duration) -> String {
        let said = self.run(command, limit);
        if said.status != 0 {
            panic!("`{command}`: exit status {}; it said:\n{}\n{}", said.status, said.text, self.evidence());
        }
        said.text
    }

    /// Runs a command that must fail and say `why`.
    pub fn refused(&mut self, command: &str, why: &str, limit: Duration) {
        let said = self.run(command, limit);
        assert!(
            said.status != 0 && said.text.contains(why),
            "`{command}`: exit status {} without {why:?}; it said:\n{}",
            said.status,
            said.text
        );
    }

    /// The kernel's log.
    pub fn kernel_log(&mut self) -> String {
        self.good("dmesg", Duration::from_secs(20))
    }

    /// What QEMU and the guest's console said, for messages.
    fn evidence(&self) -> String {
        let console = std::fs::read_to_string(self.dir.path().join("console")).unwrap_or_default();
        format!("QEMU said:\n{}\nthe console says:\n{console}", self.qemu.said())
    }
}
