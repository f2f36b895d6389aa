//! Guard of the target that this is compiled for: `linux` where there is one, otherwise `plain`.

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub(super) use super::linux as imp;
#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
pub(super) use super::plain as imp;
