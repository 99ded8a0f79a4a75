//! The affinity mask of a thread, by system call.

/// CPUs that one system call covers. A machine with more of them is read from `/proc`.
#[cfg(target_os = "linux")]
const CPUS: usize = 1024;

/// Returns the calling thread's affinity mask, or `None` if the system refuses or the machine has more CPUs than one call covers.
#[cfg(target_os = "linux")]
pub(crate) fn mask() -> Option<Vec<u32>> {
    const BITS: usize = libc::c_ulong::BITS as usize;
    let mut words: [libc::c_ulong; CPUS / BITS] = [0; CPUS / BITS];
    // SAFETY: the kernel writes at most `size_of_val(&words)` bytes, all of which belong to `words`; any bit pattern is valid there. A
    // `cpu_set_t` is an array of the same words.
    let code =
        unsafe { libc::sched_getaffinity(0, size_of_val(&words), words.as_mut_ptr().cast()) };
    let is_set = |cpu: &usize| words[cpu / BITS] >> (cpu % BITS) & 1 == 1;
    (code == 0).then(|| (0..CPUS).filter(is_set).map(|cpu| cpu as u32).collect())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn mask() -> Option<Vec<u32>> {
    None
}
