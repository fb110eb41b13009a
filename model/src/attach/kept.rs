//! A keeper in a thread of a test.

use std::fmt::Display;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::segment::KeeperError;

/// What `open` gives once `keep` keeps a net, and the keeper. One that nobody called in time has ended: then there is another.
pub fn kept<T, E: Display>(
    keep: impl Fn() -> Result<(), KeeperError> + Clone + Send + 'static,
    open: impl Fn() -> Result<T, E>,
) -> (T, JoinHandle<()>) {
    let start = || {
        let keep = keep.clone();
        std::thread::spawn(move || keep().expect("the keeper runs"))
    };
    let until = Instant::now() + Duration::from_secs(60);
    let mut keeper = start();
    loop {
        match open() {
            Ok(opened) => return (opened, keeper),
            Err(error) => assert!(Instant::now() < until, "{error}"),
        }
        if keeper.is_finished() {
            keeper.join().expect("the keeper ended well");
            keeper = start();
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}
