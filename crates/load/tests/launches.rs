//! Programs whose start fails half-way.
#![allow(clippy::unwrap_used)] // the helpers of a test are tests

use schedlab_load::launch::{Launched, Order};

#[allow(dead_code)]
mod io_support;

#[test]
fn a_program_that_cannot_be_held_is_ended_and_reaped() {
    let order: Order = serde_json::from_value(serde_json::json!({
        "program": "/bin/sleep", "argv": ["sleep", "100"], "environment": [], "directory": "/",
    }))
    .unwrap();
    std::thread::spawn(move || {
        io_support::refuse(libc::SYS_pidfd_open);
        let refusal = Launched::start(&order).err().unwrap();
        assert_eq!(refusal.source.raw_os_error(), Some(libc::EPERM));
    })
    .join()
    .unwrap();
    // SAFETY: asks for any child, and for no status.
    let left = unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
    assert_eq!(left, -1, "there is no child");
}
