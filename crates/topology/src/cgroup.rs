//! The processor time and the memory that control groups grant to this process.
//!
//! Source: Documentation/admin-guide/cgroup-v2.rst (`cpu.max`, `memory.max`), and of version 1 Documentation/scheduler/sched-bwc.rst and
//! Documentation/admin-guide/cgroup-v1/memory.rst of Linux.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// A mounted hierarchy that can have the limits of a controller.
#[derive(Debug, PartialEq)]
struct Mount {
    version2: bool,
    /// The group that is visible at `point`.
    root: String,
    point: String,
}

/// Returns the smallest quota, in cores, of the groups above and including that of this process; `None` if none is set or known. All paths
/// are below `root`.
pub(crate) fn quota(root: &Path) -> Option<f64> {
    let quota = |version2, folder: &Path| match version2 {
        true => quota_of_version2(folder),
        false => quota_of_version1(folder),
    };
    let quotas = limits(root, "cpu", quota);
    quotas.into_iter().min_by(f64::total_cmp)
}

/// Returns the bytes of memory that this process can still take before a group above or including its own reaches its limit; `None` if none
/// is set or known. What the kernel keeps of files and would give back counts as free. All paths are below `root`.
pub(crate) fn free_memory(root: &Path) -> Option<u64> {
    limits(root, "memory", free_in).into_iter().min()
}

/// Returns what `read` finds in the folders of the groups of this process, and of those around them, in all hierarchies that can have the
/// limits of `controller`. The first argument of `read` is whether the hierarchy is one of version 2.
fn limits<T>(root: &Path, controller: &str, read: impl Fn(bool, &Path) -> Option<T>) -> Vec<T> {
    let text = |file| fs::read_to_string(root.join(file)).ok();
    let (groups, mounts) = (text("proc/self/cgroup"), text("proc/self/mountinfo"));
    let Some((groups, mounts)) = groups.zip(mounts) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for mount in parse_mounts(&mounts, controller) {
        let mut groups = groups.lines();
        if let Some(group) = groups.find_map(|line| group_in(line, mount.version2, controller)) {
            let folders = folders(root, &mount, group);
            found.extend(
                folders
                    .iter()
                    .filter_map(|folder| read(mount.version2, folder)),
            );
        }
    }
    found
}

/// Returns the path of the group in a line of `/proc/self/cgroup` (`ID:CONTROLLERS:PATH`), if its hierarchy has the controller.
fn group_in<'a>(line: &'a str, version2: bool, controller: &str) -> Option<&'a str> {
    let mut parts = line.splitn(3, ':');
    let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let right = match version2 {
        true => id == "0" && controllers.is_empty(),
        false => controllers.split(',').any(|c| c == controller),
    };
    right.then_some(path)
}

/// Parses and returns the lines of `/proc/self/mountinfo` of hierarchies that can have the controller: `ID PARENT DEVICE ROOT POINT
/// OPTIONS... - TYPE SOURCE SUPER-OPTIONS` (proc(5)).
fn parse_mounts(text: &str, controller: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?.to_owned(), left.next()?.to_owned());
        let mut right = right.split(' ');
        let (kind, _source, options) = (right.next()?, right.next()?, right.next()?);
        let version2 = kind == "cgroup2";
        let limits = version2 || (kind == "cgroup" && options.split(',').any(|o| o == controller));
        limits.then_some(Mount {
            version2,
            root,
            point,
        })
    };
    text.lines().filter_map(mount).collect()
}

/// Returns the folders from that of the group up to the root of the mount.
fn folders(root: &Path, mount: &Mount, group: &str) -> Vec<PathBuf> {
    let top = root.join(mount.point.trim_start_matches('/'));
    // In a container the path may be outside of the mount, of which then only the root is visible.
    let below = Path::new(group)
        .strip_prefix(&mount.root)
        .unwrap_or(Path::new(""));
    let normal = |part: &Component<'_>| matches!(part, Component::Normal(_));
    let below = PathBuf::from_iter(below.components().filter(normal));
    below.ancestors().map(|group| top.join(group)).collect()
}

/// Returns the bytes below the limit of one group; `None` if it has none.
fn free_in(version2: bool, folder: &Path) -> Option<u64> {
    let (limit, used, given_back) = match version2 {
        true => ("memory.max", "memory.current", "inactive_file"),
        false => (
            "memory.limit_in_bytes",
            "memory.usage_in_bytes",
            "total_inactive_file",
        ),
    };
    let read = |file| fs::read_to_string(folder.join(file)).ok();
    // `max` is no number: there is no limit.
    let limit: u64 = read(limit)?.trim().parse().ok()?;
    let used: u64 = read(used)?.trim().parse().ok()?;
    let counts = read("memory.stat").unwrap_or_default();
    let given_back = counts.lines().find_map(|line| {
        let (key, bytes) = line.split_once(' ')?;
        (key == given_back).then(|| bytes.trim().parse::<u64>().ok())?
    });
    let used = used.saturating_sub(given_back.unwrap_or(0));
    Some(limit.saturating_sub(used))
}

/// Returns the cores that `cpu.max` grants: `QUOTA PERIOD` in microseconds, or `max PERIOD`.
fn quota_of_version2(folder: &Path) -> Option<f64> {
    let text = fs::read_to_string(folder.join("cpu.max")).ok()?;
    let mut words = text.split_whitespace();
    cores(words.next()?, words.next().unwrap_or("100000"))
}

/// Returns `cpu.cfs_quota_us` (-1: none) divided by `cpu.cfs_period_us`.
fn quota_of_version1(folder: &Path) -> Option<f64> {
    let read = |file| fs::read_to_string(folder.join(file)).ok();
    let (quota, period) = (read("cpu.cfs_quota_us")?, read("cpu.cfs_period_us")?);
    cores(quota.trim(), period.trim())
}

fn cores(quota: &str, period: &str) -> Option<f64> {
    let (quota, period): (u64, u64) = (quota.parse().ok()?, period.parse().ok()?);
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a folder with `files`.
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        root
    }

    const V2: &str =
        "31 23 0:28 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n";
    const V1: &str =
        "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw,relatime - cgroup cgroup rw,cpu,cpuacct\n";

    #[test]
    fn version_2_takes_the_smallest_on_the_way_up() {
        let root = tree(&[
            ("proc/self/cgroup", "0::/a/b\n"),
            ("proc/self/mountinfo", V2),
            ("sys/fs/cgroup/a/b/cpu.max", "max 100000\n"),
            ("sys/fs/cgroup/a/cpu.max", "150000 100000\n"),
        ]);
        assert_eq!(quota(root.path()), Some(1.5));
        fs::write(
            root.path().join("sys/fs/cgroup/a/b/cpu.max"),
            "50000 100000\n",
        )
        .unwrap();
        assert_eq!(quota(root.path()), Some(0.5));
    }

    #[test]
    fn version_1_knows_no_limit_as_minus_one() {
        let root = tree(&[
            ("proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:/a\n0::/\n"),
            ("proc/self/mountinfo", V1),
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us", "250000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
        ]);
        assert_eq!(quota(root.path()), Some(2.5));
        fs::write(
            root.path()
                .join("sys/fs/cgroup/cpu,cpuacct/a/cpu.cfs_quota_us"),
            "-1\n",
        )
        .unwrap();
        assert_eq!(quota(root.path()), None);
    }

    #[test]
    fn both_versions_at_once_count_the_smaller() {
        let root = tree(&[
            ("proc/self/cgroup", "3:cpu,cpuacct:/\n0::/\n"),
            (
                "proc/self/mountinfo",
                &format!(
                    "{V1}{}",
                    V2.replace("/sys/fs/cgroup ", "/sys/fs/cgroup/unified ")
                ),
            ),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "300000\n"),
            ("sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"),
            ("sys/fs/cgroup/unified/cpu.max", "400000 100000\n"),
        ]);
        assert_eq!(quota(root.path()), Some(3.0));
    }

    #[test]
    fn a_container_sees_its_group_as_the_root_of_the_mount() {
        let files = [
            ("proc/self/cgroup", "0::/docker/1234/inner\n"),
            (
                "proc/self/mountinfo",
                "31 23 0:28 /docker/1234 /sys/fs/cgroup ro - cgroup2 cgroup ro\n",
            ),
            ("sys/fs/cgroup/cpu.max", "200000 100000\n"),
            ("sys/fs/cgroup/inner/cpu.max", "100000 100000\n"),
        ];
        assert_eq!(quota(tree(&files).path()), Some(1.0));
        // Without a namespace of its own, the path names the host's groups, which the mount does not show.
        let outside = [
            ("proc/self/cgroup", "0::/../elsewhere\n"),
            files[1],
            files[2],
        ];
        assert_eq!(quota(tree(&outside).path()), Some(2.0));
    }

    const V1_MEMORY: &str =
        "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n";

    #[test]
    fn free_memory_is_the_least_on_the_way_up_in_both_versions() {
        let root = tree(&[
            ("proc/self/cgroup", "4:memory:/x\n3:cpu:/\n0::/a/b\n"),
            ("proc/self/mountinfo", V2),
            ("sys/fs/cgroup/a/b/memory.max", "max\n"),
            ("sys/fs/cgroup/a/b/memory.current", "100\n"),
            ("sys/fs/cgroup/a/memory.max", "1000\n"),
            ("sys/fs/cgroup/a/memory.current", "400\n"),
            (
                "sys/fs/cgroup/a/memory.stat",
                "anon 100\ninactive_file 50\nactive_file 250\n",
            ),
        ]);
        assert_eq!(free_memory(root.path()), Some(650), "files are given back");
        let write = |file: &str, text: &str| {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        };
        write("sys/fs/cgroup/a/b/memory.max", "120\n");
        assert_eq!(free_memory(root.path()), Some(20));
        write("sys/fs/cgroup/a/b/memory.current", "130\n");
        assert_eq!(free_memory(root.path()), Some(0), "it is over its limit");
        write("sys/fs/cgroup/a/b/memory.max", "lots\n");
        write("sys/fs/cgroup/a/memory.max", "\n");
        assert_eq!(free_memory(root.path()), None);

        write("proc/self/mountinfo", &format!("{V1}{V1_MEMORY}"));
        let group = "sys/fs/cgroup/memory/x/memory";
        write(&format!("{group}.limit_in_bytes"), "9223372036854771712\n");
        write(&format!("{group}.usage_in_bytes"), "4096\n");
        assert_eq!(free_memory(root.path()), Some((1 << 63) - 4096 - 4096));
        write(&format!("{group}.limit_in_bytes"), "10000\n");
        write(
            &format!("{group}.stat"),
            "inactive_file 1\ntotal_inactive_file 96\n",
        );
        assert_eq!(free_memory(root.path()), Some(6000));
        assert_eq!(free_memory(tree(&[]).path()), None);
    }

    #[test]
    fn nonsense_is_no_quota() {
        for content in [
            "",
            "max",
            "0 100000",
            "-5 100000",
            "1 0",
            "x y",
            "99999999999999999999 1",
        ] {
            let root = tree(&[
                ("proc/self/cgroup", "0::/\n"),
                ("proc/self/mountinfo", V2),
                ("sys/fs/cgroup/cpu.max", content),
            ]);
            assert_eq!(quota(root.path()), None, "{content:?}");
        }
        assert_eq!(
            quota(tree(&[("proc/self/cgroup", "garbage\n0:\n")]).path()),
            None
        );
        assert_eq!(quota(tree(&[]).path()), None);
    }
}
