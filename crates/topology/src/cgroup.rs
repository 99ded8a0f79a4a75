//! The processor time that a control group grants to this process.
//!
//! Source: Documentation/admin-guide/cgroup-v2.rst (`cpu.max`) and Documentation/scheduler/sched-bwc.rst (version 1) of Linux.

use std::fs;
use std::path::{Component, Path, PathBuf};

/// A mounted hierarchy that can limit processor time.
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
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).ok()?;
    let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).ok()?;
    let mounts = parse_mounts(&mounts);
    let quotas = mounts.iter().filter_map(|mount| {
        let mut groups = groups.lines();
        let group = groups.find_map(|line| group_in(line, mount.version2))?;
        smallest(root, mount, group)
    });
    quotas.min_by(f64::total_cmp)
}

/// Returns the path of the group in a line of `/proc/self/cgroup` (`ID:CONTROLLERS:PATH`), if its hierarchy can limit processor time.
fn group_in(line: &str, version2: bool) -> Option<&str> {
    let mut parts = line.splitn(3, ':');
    let (id, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
    let right = match version2 {
        true => id == "0" && controllers.is_empty(),
        false => controllers.split(',').any(|c| c == "cpu"),
    };
    right.then_some(path)
}

/// Parses and returns the lines of `/proc/self/mountinfo`: `ID PARENT DEVICE ROOT POINT OPTIONS... - TYPE SOURCE SUPER-OPTIONS` (proc(5)).
fn parse_mounts(text: &str) -> Vec<Mount> {
    let mount = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (root, point) = (left.next()?.to_owned(), left.next()?.to_owned());
        let mut right = right.split(' ');
        let (kind, _source, options) = (right.next()?, right.next()?, right.next()?);
        let version2 = kind == "cgroup2";
        let limits = version2 || (kind == "cgroup" && options.split(',').any(|o| o == "cpu"));
        limits.then_some(Mount {
            version2,
            root,
            point,
        })
    };
    text.lines().filter_map(mount).collect()
}

/// Returns the smallest quota from the group up to the root of the mount.
fn smallest(root: &Path, mount: &Mount, group: &str) -> Option<f64> {
    let top = root.join(mount.point.trim_start_matches('/'));
    // In a container the path may be outside of the mount, of which then only the root is visible.
    let below = Path::new(group)
        .strip_prefix(&mount.root)
        .unwrap_or(Path::new(""));
    let normal = |part: &Component<'_>| matches!(part, Component::Normal(_));
    let below = PathBuf::from_iter(below.components().filter(normal));
    let quota = if mount.version2 { version2 } else { version1 };
    let read = |group: &Path| quota(&top.join(group));
    below.ancestors().filter_map(read).min_by(f64::total_cmp)
}

/// Returns the cores that `cpu.max` grants: `QUOTA PERIOD` in microseconds, or `max PERIOD`.
fn version2(folder: &Path) -> Option<f64> {
    let text = fs::read_to_string(folder.join("cpu.max")).ok()?;
    let mut words = text.split_whitespace();
    cores(words.next()?, words.next().unwrap_or("100000"))
}

/// Returns `cpu.cfs_quota_us` (-1: none) divided by `cpu.cfs_period_us`.
fn version1(folder: &Path) -> Option<f64> {
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
