//! Denies the RDMA netlink socket, so that libibverbs reads sysfs.
//!
//! libibverbs asks the kernel by netlink first. Where the kernel has ib_core
//! that answer would win, and it does not know our cards.
#![allow(unsafe_code)]

use anyhow::{bail, Context, Result};

#[cfg(target_arch = "x86_64")]
const ARCH: Option<u32> = Some(0xc000_003e);
#[cfg(target_arch = "aarch64")]
const ARCH: Option<u32> = Some(0xc000_00b7);
#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
const ARCH: Option<u32> = None;

const NETLINK_RDMA: u32 = 20;

// Offsets in struct seccomp_data; arguments are 64-bit, little endian.
const NR: u32 = 0;
const ARCH_WORD: u32 = 4;
const ARG0: u32 = 16;
const ARG2: u32 = 32;

/// Installs the filter; it is kept across exec and inherited by children.
pub fn deny_rdma_netlink() -> Result<()> {
    let Some(arch) = ARCH else {
        bail!("no filter is known for this processor");
    };
    let mut program = filter(arch);
    let program = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    if install(&program).is_ok() {
        return Ok(());
    }
    // Without privilege the kernel wants a promise that none will be gained.
    rustix::thread::set_no_new_privs(true).context("setting no_new_privs")?;
    install(&program).context("installing a seccomp filter")
}

fn install(program: &libc::sock_fprog) -> std::io::Result<()> {
    // SAFETY: `program` points to a filter that is alive during the call; the
    // kernel copies and checks it.
    let result = unsafe {
        libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, program as *const libc::sock_fprog)
    };
    if result == 0 {
        Ok(())
    } else {
        Err(std::io::Error::last_os_error())
    }
}

fn filter(arch: u32) -> [libc::sock_filter; 10] {
    let deny = libc::SECCOMP_RET_ERRNO | libc::EPROTONOSUPPORT as u32;
    [
        load(ARCH_WORD),
        unless_skip(arch, 7),
        load(NR),
        unless_skip(libc::SYS_socket as u32, 5),
        load(ARG0),
        unless_skip(libc::AF_NETLINK as u32, 3),
        load(ARG2),
        unless_skip(NETLINK_RDMA, 1),
        give(deny),
        give(libc::SECCOMP_RET_ALLOW),
    ]
}

fn load(offset: u32) -> libc::sock_filter {
    instruction(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, offset)
}

/// Skips `count` instructions unless the loaded word is `value`.
fn unless_skip(value: u32, count: u8) -> libc::sock_filter {
    instruction(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, count, value)
}

fn give(value: u32) -> libc::sock_filter {
    instruction(libc::BPF_RET | libc::BPF_K, 0, value)
}

fn instruction(code: u32, jf: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter { code: code as u16, jt: 0, jf, k }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn netlink(protocol: i32) -> i32 {
        // SAFETY: socket() takes numbers only.
        let fd = unsafe { libc::socket(libc::AF_NETLINK, libc::SOCK_RAW, protocol) };
        if fd < 0 {
            return std::io::Error::last_os_error().raw_os_error().unwrap_or(-1);
        }
        // SAFETY: `fd` was just opened here.
        unsafe { libc::close(fd) };
        0
    }

    #[test]
    fn only_rdma_netlink_is_denied() {
        // A filter binds the thread that installs it.
        let tried = std::thread::spawn(|| {
            deny_rdma_netlink().unwrap();
            (netlink(NETLINK_RDMA as i32), netlink(libc::NETLINK_ROUTE))
        });
        assert_eq!(tried.join().unwrap(), (libc::EPROTONOSUPPORT, 0));
    }

    #[test]
    fn every_miss_lands_on_allow() {
        let program = filter(1);
        for (index, instruction) in program.iter().enumerate() {
            if instruction.jf != 0 {
                assert_eq!(index + 1 + usize::from(instruction.jf), program.len() - 1);
            }
        }
    }
}
