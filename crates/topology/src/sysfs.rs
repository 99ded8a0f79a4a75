//! Topologies from what Linux reports below `/sys`.
//!
//! Source: Documentation/admin-guide/cputopology.rst and Documentation/ABI/{stable,testing}/sysfs-devices-{system-cpu,node} of Linux.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::affinity;
use crate::cgroup;
use crate::list::{parse_list, parse_size};
use crate::tree::{Kind, Object, Topology};

/// Hardware threads by the operating system's number.
type Cpus = BTreeSet<u32>;

impl Topology {
    /// Returns the machine on which this process runs, from `/sys/devices/system/{cpu,node}`, the calling thread's affinity mask and the
    /// quota of its control group.
    ///
    /// Levels that are not reported (in containers, on other operating systems) are left out; at least the result is a flat machine with as
    /// many cores as the standard library counts. Reads about 20 small files for each hardware thread.
    ///
    /// # Errors
    /// [`Error::NothingUsable`] if the mask is empty, which no kernel returns.
    pub fn detect() -> Result<Topology, Error> {
        let root = Path::new("/");
        let allowed = affinity::mask().or_else(|| mask_from_proc(root));
        if allowed.is_none() && read_list(&root.join("sys/devices/system/cpu/online")).is_none() {
            let cores = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
            return Topology::flat(0..cores);
        }
        Topology::from_sysfs(root, allowed.as_deref())
    }

    /// Returns the machine whose `sys` and `proc` folders are below `root`. `allowed` is the affinity mask (`None`: every hardware thread).
    ///
    /// Reads `sys/devices/system/cpu` (online, core lists, package numbers, caches, capacities), `sys/devices/system/node`,
    /// `sys/devices/cpu_atom` (hybrid processors), and the control group through `proc/self/{cgroup,mountinfo}`. The content of a missing
    /// or invalid file is left out, and so is a set of hardware threads that cuts a core or another set. Without any list of hardware
    /// threads, the mask alone is used, as a flat machine.
    ///
    /// # Errors
    /// [`Error::NothingUsable`] if no hardware thread is known, or none of the known ones is in the mask.
    pub fn from_sysfs(root: &Path, allowed: Option<&[u32]>) -> Result<Topology, Error> {
        let sys = Sys {
            cpu: root.join("sys/devices/system/cpu"),
            devices: root.join("sys/devices"),
        };
        let mut online = sys.online();
        let mask = allowed.map_or_else(|| online.clone(), |list| list.iter().copied().collect());
        if online.is_disjoint(&mask) {
            online = mask.clone(); // the kernel says that these run: what /sys shows is another machine's, or nothing
        }
        let sets = sys.sets(&online);
        let cores = sys.cores(&online);
        Topology::new(build(&online, cores, sets, &mask), cgroup::quota(root))
    }
}

/// Returns the calling thread's mask by system call; `None` if there is none, or more CPUs than the call's buffer holds (1,024).
fn mask_from_proc(root: &Path) -> Option<Vec<u32>> {
    let status = fs::read_to_string(root.join("proc/thread-self/status")).ok()?;
    let mut lines = status.lines();
    some_list(lines.find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?)
}

fn read_list(path: &Path) -> Option<Vec<u32>> {
    some_list(&fs::read_to_string(path).ok()?)
}

/// Returns the numbers of a list; `None` if it is invalid or empty.
fn some_list(text: &str) -> Option<Vec<u32>> {
    let list = parse_list(text, Topology::MAX_HARDWARE_THREADS).ok();
    list.filter(|list| !list.is_empty())
}

fn read_word(path: &Path) -> Option<String> {
    Some(fs::read_to_string(path).ok()?.trim().to_owned())
}

fn read_number<T: std::str::FromStr>(path: &Path) -> Option<T> {
    read_word(path)?.parse().ok()
}

/// Returns the numbers N of the entries `prefixN` of a folder, in order.
fn numbered(folder: &Path, prefix: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let number = |entry: fs::DirEntry| {
        let name = entry.file_name();
        name.to_str()?.strip_prefix(prefix)?.parse().ok()
    };
    let mut numbers: Vec<u32> = entries.filter_map(number).collect();
    numbers.sort_unstable();
    numbers
}

fn online_of(list: Vec<u32>, online: &Cpus) -> Cpus {
    let online = |cpu: &u32| online.contains(cpu);
    list.into_iter().filter(online).collect()
}

/// The hardware threads of a package, NUMA node, cache or core, and the sets inside of it.
struct Set {
    object: Object,
    cpus: Cpus,
    inside: Vec<Set>,
}

impl Set {
    /// Returns a set whose object, of this kind, has no attributes and no children yet.
    fn new(kind: Kind, cpus: Cpus) -> Set {
        Set {
            object: Object::new(kind, Vec::new()),
            cpus,
            inside: Vec::new(),
        }
    }
}

struct Sys {
    cpu: PathBuf,
    devices: PathBuf,
}

impl Sys {
    fn of(&self, cpu: u32, file: &str) -> PathBuf {
        self.cpu.join(format!("cpu{cpu}")).join(file)
    }

    fn online(&self) -> Cpus {
        if let Some(list) = read_list(&self.cpu.join("online")) {
            return list.into_iter().collect();
        }
        let cpus = numbered(&self.cpu, "cpu").into_iter();
        let cpus = cpus.take(Topology::MAX_HARDWARE_THREADS);
        // The file is absent if the hardware thread cannot go offline.
        let online = |&cpu: &u32| read_number(&self.of(cpu, "online")) != Some(0);
        cpus.filter(online).collect()
    }

    /// Returns the first readable list of `files`, without offline hardware threads, if it contains the CPU itself.
    fn list(&self, cpu: u32, files: &[&str], online: &Cpus) -> Option<Cpus> {
        let mut files = files.iter();
        let list = files.find_map(|file| read_list(&self.of(cpu, file)))?;
        Some(online_of(list, online)).filter(|list| list.contains(&cpu))
    }

    /// Returns every core with its hardware threads and level-1 caches, in the order of their first hardware threads.
    fn cores(&self, online: &Cpus) -> Vec<Set> {
        let kinds = self.core_kinds(online);
        let mut cores = Vec::new();
        let mut seen = Cpus::new();
        for &cpu in online {
            if seen.contains(&cpu) {
                continue;
            }
            let files = ["topology/core_cpus_list", "topology/thread_siblings_list"];
            let siblings = self.list(cpu, &files, online);
            let siblings = siblings.unwrap_or_else(|| Cpus::from([cpu]));
            let mut core = Set::new(Kind::Core, &siblings - &seen);
            seen.extend(&core.cpus);
            let caches = self.caches(cpu);
            let level1 = |kind: &str| {
                let found = caches.iter().find(|c| c.level == 1 && c.kind == kind);
                found.and_then(|cache| cache.bytes)
            };
            core.object.l1d_bytes = level1("Data").or_else(|| level1("Unified"));
            core.object.l1i_bytes = level1("Instruction");
            core.object.core_kind = kinds.get(&cpu).copied().unwrap_or(0);
            cores.push(core);
        }
        cores
    }

    /// Returns speed classes, from Intel's list of efficient cores, else from `cpu_capacity` (1,024 is the fastest).
    fn core_kinds(&self, online: &Cpus) -> BTreeMap<u32, u8> {
        let efficient = read_list(&self.devices.join("cpu_atom/cpus"));
        let efficient = Cpus::from_iter(efficient.into_iter().flatten());
        if !online.is_disjoint(&efficient) && !efficient.is_superset(online) {
            let class = |&cpu: &u32| (cpu, u8::from(efficient.contains(&cpu)));
            return online.iter().map(class).collect();
        }
        let capacity = |&cpu: &u32| Some((cpu, read_number::<u32>(&self.of(cpu, "cpu_capacity"))?));
        let capacities: BTreeMap<u32, u32> = online.iter().filter_map(capacity).collect();
        let classes: BTreeSet<u32> = capacities.values().copied().collect();
        if capacities.len() < online.len() || classes.len() > usize::from(u8::MAX) {
            return BTreeMap::new();
        }
        // The number of greater capacities.
        let class = |capacity| classes.iter().filter(|&&class| class > capacity).count() as u8;
        let of_cpu = |(cpu, capacity)| (cpu, class(capacity));
        capacities.into_iter().map(of_cpu).collect()
    }

    /// Returns packages, NUMA nodes and caches from level 2.
    fn sets(&self, online: &Cpus) -> Vec<Set> {
        let mut shared = BTreeSet::new();
        for &cpu in online {
            for cache in self.caches(cpu) {
                let kind = match cache.level {
                    2 => Kind::L2,
                    3 => Kind::L3,
                    4 => Kind::L4,
                    _ => continue,
                };
                let file = format!("cache/{}/shared_cpu_list", cache.folder);
                let cpus = self.list(cpu, &[&file], online);
                if let Some(cpus) = cpus.filter(|_| cache.kind != "Instruction") {
                    shared.insert((kind, cpus, cache.bytes));
                }
            }
        }
        let mut sets = self.packages(online);
        sets.extend(shared.into_iter().map(|(kind, cpus, bytes)| {
            let mut set = Set::new(kind, cpus);
            set.object.bytes = bytes;
            set
        }));
        sets.extend(self.nodes(online));
        sets
    }

    /// Returns every package with a known number; firmware that knows none reports -1.
    fn packages(&self, online: &Cpus) -> Vec<Set> {
        let mut packages = BTreeMap::<u32, Cpus>::new();
        for &cpu in online {
            if let Some(id) = read_number(&self.of(cpu, "topology/physical_package_id")) {
                packages.entry(id).or_default().insert(cpu);
            }
        }
        let packages = packages.into_values();
        packages.map(|cpus| Set::new(Kind::Package, cpus)).collect()
    }

    fn nodes(&self, online: &Cpus) -> Vec<Set> {
        let folder = self.devices.join("system/node");
        let node = |id| {
            let own = folder.join(format!("node{id}"));
            let cpus = online_of(read_list(&own.join("cpulist"))?, online);
            let mut set = Set::new(Kind::Numa, cpus);
            set.object.id = id;
            set.object.bytes = memory_bytes(&own.join("meminfo"));
            (!set.cpus.is_empty()).then_some(set)
        };
        let numbers = numbered(&folder, "node").into_iter();
        numbers.filter_map(node).collect()
    }

    fn caches(&self, cpu: u32) -> Vec<Cache> {
        let read = |index| {
            let folder = format!("index{index}");
            let own = self.of(cpu, "cache").join(&folder);
            let bytes = read_word(&own.join("size")).and_then(|size| parse_size(&size));
            Some(Cache {
                level: read_number(&own.join("level"))?,
                kind: read_word(&own.join("type"))?,
                bytes: bytes.filter(|&bytes| bytes > 0),
                folder,
            })
        };
        let numbers = numbered(&self.of(cpu, "cache"), "index").into_iter();
        numbers.filter_map(read).collect()
    }
}

struct Cache {
    folder: String,
    level: u32,
    kind: String,
    bytes: Option<u64>,
}

/// Returns the bytes of a line such as `Node 0 MemTotal:  16384 kB`.
fn memory_bytes(meminfo: &Path) -> Option<u64> {
    let text = fs::read_to_string(meminfo).ok()?;
    let line = text.lines().find(|line| line.contains("MemTotal:"))?;
    let kilobytes: u64 = line.split_whitespace().nth_back(1)?.parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Nests the sets by inclusion, widest first, and returns the outermost object. Of equal sets, a package holds a NUMA node and a NUMA node
/// its caches.
fn build(online: &Cpus, cores: Vec<Set>, mut sets: Vec<Set>, mask: &Cpus) -> Object {
    let core_of: BTreeMap<u32, &Cpus> = cores
        .iter()
        .flat_map(|core| core.cpus.iter().map(move |&cpu| (cpu, &core.cpus)))
        .collect();
    sets.retain(|set| set.cpus.iter().all(|cpu| core_of[cpu].is_subset(&set.cpus)));
    let width = |set: &Set| std::cmp::Reverse(set.cpus.len());
    sets.sort_by_key(|set| (width(set), set.object.kind, set.object.id));
    sets.extend(cores);
    let mut root = Set::new(Kind::Machine, online.clone());
    for set in sets {
        put(&mut root, set, &mut vec![]);
    }
    finish(root, mask)
}

/// Inserts a set into the innermost one that contains it. Leaves it out if it overlaps others in part, or cannot be inside of them.
fn put(outer: &mut Set, set: Set, path: &mut Vec<Kind>) {
    path.push(outer.object.kind);
    let overlapping = |inner: &&mut Set| !inner.cpus.is_disjoint(&set.cpus);
    match outer.inside.iter_mut().find(overlapping) {
        Some(inner) if set.cpus.is_subset(&inner.cpus) => put(inner, set, path),
        None if crate::tree::may_lie_in(set.object.kind, path) => {
            let before = |inner: &Set| inner.cpus.first() < set.cpus.first();
            let place = outer.inside.partition_point(before);
            outer.inside.insert(place, set);
        }
        _ => {}
    }
}

fn finish(set: Set, mask: &Cpus) -> Object {
    let mut object = set.object;
    let thread = |cpu| Object::hardware_thread(cpu, mask.contains(&cpu));
    let inside = set.inside.into_iter().map(|inner| finish(inner, mask));
    object.children = match object.kind {
        Kind::Core => set.cpus.into_iter().map(thread).collect(),
        _ => inside.collect(),
    };
    object
}
