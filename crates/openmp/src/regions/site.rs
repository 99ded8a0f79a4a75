//! The machine that governors see.

use std::collections::BTreeMap;
use std::fs::read_to_string;
use std::path::Path;

use crate::abi::runtime;
use crate::system;
use tanada_policy::RegionSite;
use tanada_topology::{Kind, Topology};

/// Where the system describes its hardware threads.
const CPUS: &str = "/sys/devices/system/cpu";

/// Returns what this process may use, and the system's numbers of the hardware threads.
///
/// A walk through all files that describe a machine takes a millisecond, which short programs would notice. So only files that say
/// which hardware threads are of one core are read, if these are there.
pub(super) fn site() -> (RegionSite, Vec<u32>) {
    let processors = runtime::processors();
    let cpus = system::processors().filter(|cpus| cpus.len() as u32 >= processors);
    // The runtime may have bound this thread to one place: then it has seen more than this thread does, maybe the whole machine.
    let cpus = cpus.or_else(|| online().filter(|cpus| cpus.len() as u32 == processors));
    let cores = cpus
        .as_deref()
        .and_then(|cpus| cores(Path::new(CPUS), cpus));
    if let Some((cpus, (cores, widest))) = cpus.zip(cores) {
        let site = RegionSite {
            cores,
            threads_per_core: widest,
            quota: tanada_topology::group_quota().unwrap_or(f64::INFINITY),
            microsecond: 1000.0,
        };
        return (site, cpus);
    }
    let bound = |topology: &Topology| (topology.usable().len() as u32) < processors;
    let topology = match Topology::detect() {
        Ok(topology) if !bound(&topology) => Ok(topology),
        _ => Topology::from_sysfs(Path::new("/"), None),
    };
    let topology = topology.or_else(|_| Topology::flat(0..processors.max(1)));
    let (mut cores, mut widest, mut quota) = (0_u16, 1, f64::INFINITY);
    let mut cpus = Vec::new();
    if let Ok(topology) = topology {
        topology.root().visit(&mut |object| {
            if object.kind == Kind::Core {
                let usable = object
                    .children
                    .iter()
                    .filter(|thread| thread.usable)
                    .count();
                cores = cores.saturating_add(u16::from(usable > 0));
                widest = widest.max(usable as u16);
            }
        });
        quota = topology.quota().unwrap_or(f64::INFINITY);
        cpus = topology.usable();
    }
    let site = RegionSite {
        cores: cores.max(1),
        threads_per_core: widest,
        quota,
        microsecond: 1000.0,
    };
    (site, cpus)
}

/// Returns the hardware threads that are online.
fn online() -> Option<Vec<u32>> {
    list(&read_to_string(Path::new(CPUS).join("online")).ok()?)
}

/// Returns the numbers of a list as `0-3,8`; `None` if it is none, or has more numbers than machines have hardware threads.
fn list(text: &str) -> Option<Vec<u32>> {
    let mut numbers = Vec::new();
    for range in text.trim().split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
        if last >= first.saturating_add(Topology::MAX_HARDWARE_THREADS as u32) {
            return None;
        }
        numbers.extend(first..=last);
    }
    (numbers.len() <= Topology::MAX_HARDWARE_THREADS).then_some(numbers)
}

/// Returns how many cores the hardware threads `cpus` are of, and the most of one core; `None` if a file below `folder` that says so is
/// missing.
fn cores(folder: &Path, cpus: &[u32]) -> Option<(u16, u16)> {
    let short = |count: usize| u16::try_from(count).unwrap_or(u16::MAX).max(1);
    let smt = read_to_string(folder.join("smt/active"));
    if smt.is_ok_and(|text| text.trim() == "0") {
        return Some((short(cpus.len()), 1));
    }
    // Hardware threads of one core have the same list.
    let mut cores: BTreeMap<String, usize> = BTreeMap::new();
    for cpu in cpus {
        let of_core = folder.join(format!("cpu{cpu}/topology"));
        let siblings = read_to_string(of_core.join("core_cpus_list"))
            .or_else(|_| read_to_string(of_core.join("thread_siblings_list")));
        *cores.entry(siblings.ok()?).or_default() += 1;
    }
    let widest = cores.values().copied().max()?;
    Some((short(cores.len()), short(widest)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_as_the_system_writes_them() {
        assert_eq!(list("0-1\n"), Some(vec![0, 1]));
        assert_eq!(list("0,2-4,9\n"), Some(vec![0, 2, 3, 4, 9]));
        for wrong in ["", "x", "3-", "0-4294967295", "1,,2"] {
            assert_eq!(list(wrong), None, "{wrong:?}");
        }
    }

    /// What the few files say is what the walk through all of them says.
    #[test]
    fn cores_are_counted_as_the_topology_counts_them() {
        let folder = std::env::temp_dir().join(format!("tanada-site-{}", std::process::id()));
        let write = |file: String, text: &str| {
            let path = folder.join("sys/devices/system/cpu").join(file);
            std::fs::create_dir_all(path.parent().expect("a file in a folder")).expect("written");
            std::fs::write(path, text).expect("written");
        };
        write("online".into(), "0-7\n");
        write("smt/active".into(), "1\n");
        for cpu in 0..8 {
            let siblings = format!("{},{}\n", cpu % 4, cpu % 4 + 4);
            write(format!("cpu{cpu}/topology/core_cpus_list"), &siblings);
        }
        let cpus = folder.join("sys/devices/system/cpu");
        for usable in [&[0, 1, 2, 3, 4, 5, 6, 7][..], &[0, 4], &[1, 2, 6], &[3]] {
            let topology = Topology::from_sysfs(&folder, Some(usable)).expect("hardware threads");
            let (mut all, mut most) = (0, 0);
            topology.root().visit(&mut |object| {
                if object.kind == Kind::Core {
                    let usable = object.children.iter().filter(|one| one.usable).count();
                    all += u16::from(usable > 0);
                    most = most.max(usable as u16);
                }
            });
            assert_eq!(cores(&cpus, usable), Some((all, most)), "{usable:?}");
        }
        assert_eq!(cores(&cpus, &[8]), None);
        write("smt/active".into(), "0\n");
        assert_eq!(cores(&cpus, &[0, 8]), Some((2, 1)));
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
