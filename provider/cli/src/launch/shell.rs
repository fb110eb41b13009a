//! An interactive shell that sees the cards: `verbena run --shell`.

use std::fs::File;
use std::io::Write;
use std::os::fd::{AsRawFd, IntoRawFd};
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};
use rustix::fs::MemfdFlags;

/// The user's shell, with a prompt that names the net.
pub fn interactive(net: &str) -> Result<Command> {
    let shell = std::env::var_os("SHELL").filter(|shell| !shell.is_empty());
    let shell = shell.map_or_else(|| PathBuf::from("/bin/sh"), PathBuf::from);
    let prompt = format!("(verbena {net}) ");
    let mut command = Command::new(&shell);
    if shell.file_name().is_some_and(|name| name == "bash") {
        command.arg("--rcfile").arg(start_up_file(&prompt)?);
    } else {
        // A shell whose start-up files set no prompt takes this one.
        command.env("PS1", prompt + "$ ");
    }
    Ok(command)
}

/// A file without a name: the user's own start-up file with the prompt changed after it.
fn start_up_file(prompt: &str) -> Result<String> {
    // No CLOEXEC: the shell reads it after the exec, and closes it.
    let memfd = rustix::fs::memfd_create("verbena-bashrc", MemfdFlags::empty()).context("memfd_create")?;
    let mut file = File::from(memfd);
    let number = file.as_raw_fd();
    let text = format!("[ -f ~/.bashrc ] && . ~/.bashrc\nPS1=\"{prompt}$PS1\"\nexec {number}<&-\n");
    file.write_all(text.as_bytes()).context("writing the shell's start-up file")?;
    Ok(format!("/dev/fd/{}", file.into_raw_fd()))
}
