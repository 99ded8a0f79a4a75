//! The affinity mask of a thread, by system call.

/// CPUs that one system call covers. A machine with more of them is read from `/proc`.
#[cfg(target_os = "linux")]
const CPUS: usize = 1024;

#[cfg(target_os = "linux")]
const BITS: usize = libc::c_ulong::BITS as usize;

/// Returns the calling thread's affinity mask, or `None` if the system refuses or the machine has more CPUs than one call covers.
#[cfg(target_os = "linux")]
pub(crate) fn mask() -> Option<Vec<u32>> {
    let words = words()?;
    let is_set = |cpu: &usize| words[cpu / BITS] >> (cpu % BITS) & 1 == 1;
    Some((0..CPUS).filter(is_set).map(|cpu| cpu as u32).collect())
}

/// Returns the bits of the mask, in the same cases.
#[cfg(target_os = "linux")]
#[inline]
fn words() -> Option<[libc::c_ulong; CPUS / BITS]> {
    let mut words: [libc::c_ulong; CPUS / BITS] = [0; CPUS / BITS];
    // SAFETY: the kernel writes at most `size_of_val(&words)` bytes, all of which belong to `words`; any bit pattern is valid there. A
    // `cpu_set_t` is an array of the same words.
    let code =
        unsafe { libc::sched_getaffinity(0, size_of_val(&words), words.as_mut_ptr().cast()) };
    (code == 0).then_some(words)
}

/// Returns the number of hardware threads that the calling thread's affinity mask holds; `None` if the system does not tell the mask. One
/// system call: it reads no file, knows no quota, and takes a microsecond instead of the hundreds of
/// [`Topology::detect`](crate::Topology::detect).
#[inline]
pub fn usable_threads() -> Option<usize> {
    #[cfg(target_os = "linux")]
    {
        let bits = words()?.map(|word| word.count_ones() as usize);
        Some(bits.iter().sum())
    }
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn mask() -> Option<Vec<u32>> {
    None
}
