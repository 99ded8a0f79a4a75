//! The tree, the conditions of a valid one, and the queries over it.

use std::collections::BTreeSet;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::Error;

/// The kind of an [`Object`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(Serialize, Deserialize),
    serde(rename_all = "snake_case")
)]
pub enum Kind {
    /// The root.
    Machine,
    /// A package (socket).
    Package,
    /// A NUMA node that has hardware threads.
    Numa,
    /// A level-4 cache.
    L4,
    /// A level-3 cache.
    L3,
    /// A level-2 cache.
    L2,
    /// A core; its level-1 caches are attributes of it.
    Core,
    /// A hardware thread (`pu` in text), which the operating system calls a CPU.
    #[cfg_attr(feature = "serde", serde(rename = "pu"))]
    HardwareThread,
}

impl Kind {
    /// Returns whether this is a cache that is an object of the tree.
    pub fn is_cache(self) -> bool {
        matches!(self, Kind::L4 | Kind::L3 | Kind::L2)
    }
}

/// One object of the tree with everything inside of it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(Serialize, Deserialize),
    serde(deny_unknown_fields)
)]
pub struct Object {
    /// The kind of the object.
    pub kind: Kind,
    /// The operating system's number of a hardware thread or NUMA node; otherwise the position among objects of the kind, in tree order.
    #[cfg_attr(feature = "serde", serde(default))]
    pub id: u32,
    /// Bytes of a cache, or of a NUMA node's memory; `None` if unknown.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub bytes: Option<u64>,
    /// Bytes of a core's level-1 data cache; `None` if unknown.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub l1d_bytes: Option<u64>,
    /// Bytes of a core's level-1 instruction cache; `None` if unknown.
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub l1i_bytes: Option<u64>,
    /// Speed class of a core: 0 is the fastest kind of the machine, larger is slower.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_zero"))]
    pub core_kind: u8,
    /// Whether the affinity mask lets this process use the hardware thread. True for every other kind of object.
    #[cfg_attr(
        feature = "serde",
        serde(default = "yes", skip_serializing_if = "bool::clone")
    )]
    pub usable: bool,
    /// The objects inside, in tree order.
    #[cfg_attr(
        feature = "serde",
        serde(default, skip_serializing_if = "Vec::is_empty")
    )]
    pub children: Vec<Object>,
}

#[cfg(feature = "serde")]
fn is_zero(n: &u8) -> bool {
    *n == 0
}
#[cfg(feature = "serde")]
fn yes() -> bool {
    true
}
impl Object {
    /// Returns an object of which only kind and content are known.
    pub fn new(kind: Kind, children: Vec<Object>) -> Object {
        Object {
            kind,
            id: 0,
            bytes: None,
            l1d_bytes: None,
            l1i_bytes: None,
            core_kind: 0,
            usable: true,
            children,
        }
    }

    /// Returns the hardware thread that the operating system calls `cpu`.
    pub fn hardware_thread(cpu: u32, usable: bool) -> Object {
        Object {
            id: cpu,
            usable,
            ..Object::new(Kind::HardwareThread, Vec::new())
        }
    }

    /// Calls `f` for this object and for all inside of it, outermost first, in tree order.
    pub fn visit<'a>(&'a self, f: &mut impl FnMut(&'a Object)) {
        f(self);
        for child in &self.children {
            child.visit(f);
        }
    }

    pub(crate) fn visit_mut(&mut self, f: &mut impl FnMut(&mut Object)) {
        f(self);
        for child in &mut self.children {
            child.visit_mut(f);
        }
    }

    /// Returns the number of objects of a kind, including this one. Walks the tree.
    pub fn count(&self, kind: Kind) -> usize {
        let mut n = 0;
        self.visit(&mut |o| n += usize::from(o.kind == kind));
        n
    }
}

/// A machine: the tree of its packages, NUMA nodes, caches, cores and hardware threads, which of them this process may use, and how much
/// processor time it is granted.
///
/// The tree has every *online* hardware thread, so that a shared cache is known to be shared even if the affinity mask has only one of its
/// cores. Only hardware threads in the mask are usable, and workers are placed only on those. Unknown levels are absent.
///
/// As JSON, it is an object with `root` (an [`Object`]), `quota` (cores, or null) and `mask` (the numbers of the hardware threads that this
/// process may use); reading it performs the checks of [`Topology::new`]. `quota` and `mask` may be absent.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(Serialize, Deserialize),
    serde(try_from = "Unchecked", into = "Unchecked")
)]
pub struct Topology {
    pub(crate) root: Object,
    pub(crate) quota: Option<f64>,
}

/// The JSON form of a topology, before the checks.
#[cfg(feature = "serde")]
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    root: Object,
    quota: Option<f64>,
    mask: Option<Vec<u32>>,
}

#[cfg(feature = "serde")]
impl From<Topology> for Unchecked {
    fn from(topology: Topology) -> Unchecked {
        Unchecked {
            mask: Some(topology.usable()),
            root: topology.root,
            quota: topology.quota,
        }
    }
}

#[cfg(feature = "serde")]
impl TryFrom<Unchecked> for Topology {
    type Error = Error;
    fn try_from(unchecked: Unchecked) -> Result<Topology, Error> {
        let topology = Topology::new(unchecked.root, unchecked.quota)?;
        let sorted = |mut mask: Vec<u32>| {
            mask.sort_unstable();
            mask
        };
        let usable = sorted(topology.usable());
        match unchecked.mask.map(sorted) {
            Some(mask) if mask != usable => {
                let what = "`mask` does not list the hardware threads that are usable in `root`";
                Err(Error::Tree(what.into()))
            }
            _ => Ok(topology),
        }
    }
}

impl Topology {
    /// The greatest number of hardware threads of a topology.
    pub const MAX_HARDWARE_THREADS: usize = 65_535;

    /// Checks a tree, numbers its objects (hardware threads and NUMA nodes keep their numbers) and returns the topology. `quota` is the
    /// processor time that this process is granted, in cores.
    ///
    /// # Errors
    /// [`Error::Tree`] if the root is not a machine, an object is inside of one that cannot contain it (a core in a core, a level-3 cache
    /// in a level-2 cache, anything but hardware threads in a core), an object is empty, an operating system's number occurs twice, or the
    /// quota is not a positive number. [`Error::NothingUsable`] if no hardware thread is usable.
    pub fn new(mut root: Object, quota: Option<f64>) -> Result<Topology, Error> {
        if root.kind != Kind::Machine {
            return Err(Error::Tree("the outermost object is not a machine".into()));
        }
        if quota.is_some_and(|q| !(q.is_finite() && q > 0.0)) {
            let what = "the quota is not a positive number of cores";
            return Err(Error::Tree(what.into()));
        }
        check(&root, &mut Vec::new())?;
        check_numbers(&root)?;
        number(&mut root);
        let topology = Topology { root, quota };
        if topology.usable().is_empty() {
            return Err(Error::NothingUsable);
        }
        Ok(topology)
    }

    /// Returns a machine of which only the hardware threads are known: each is a core of its own, without caches.
    ///
    /// # Errors
    /// [`Error::NothingUsable`] without a CPU; [`Error::Tree`] if one occurs twice.
    pub fn flat(cpus: impl IntoIterator<Item = u32>) -> Result<Topology, Error> {
        let core = |cpu| Object::new(Kind::Core, vec![Object::hardware_thread(cpu, true)]);
        let cores = cpus.into_iter().map(core).collect();
        Topology::new(Object::new(Kind::Machine, cores), None)
    }

    /// Returns the root of the tree.
    pub fn root(&self) -> &Object {
        &self.root
    }

    /// Returns the processor time that the control group (v1 or v2) grants to this process, in cores (1.5 is one and a half); `None`: no
    /// limit.
    pub fn quota(&self) -> Option<f64> {
        self.quota
    }

    /// Returns the operating system's numbers of the hardware threads that this process may use, in tree order. Walks the tree.
    pub fn usable(&self) -> Vec<u32> {
        let mut cpus = Vec::new();
        self.root.visit(&mut |o| {
            if o.kind == Kind::HardwareThread && o.usable {
                cpus.push(o.id);
            }
        });
        cpus
    }

    /// Returns the default number of workers of a pool: the number of usable hardware threads, at most the quota rounded up, at least 1.
    pub fn default_workers(&self) -> u16 {
        let threads = self.usable().len();
        let quota = self.quota.map_or(threads, |q| q.ceil() as usize);
        let granted = quota.min(threads);
        u16::try_from(granted.max(1)).unwrap_or(u16::MAX)
    }
}

/// Returns whether an object of `kind` may be inside of all of `path`. Caches are inside of greater ones, and each kind occurs at most once
/// on a path.
pub(crate) fn may_lie_in(kind: Kind, path: &[Kind]) -> bool {
    match kind {
        Kind::Machine => path.is_empty(),
        Kind::HardwareThread => path.last() == Some(&Kind::Core),
        _ if path.contains(&Kind::Core) || path.contains(&kind) => false,
        _ if kind.is_cache() => !path.iter().any(|outer| outer.is_cache() && *outer > kind),
        _ => true,
    }
}

fn check(object: &Object, path: &mut Vec<Kind>) -> Result<(), Error> {
    let kind = object.kind;
    if !may_lie_in(kind, path) {
        let what = format!("a {kind:?} cannot lie inside {path:?}");
        return Err(Error::Tree(what));
    }
    let level1 = object.l1d_bytes.is_some() || object.l1i_bytes.is_some() || object.core_kind != 0;
    let sized = kind.is_cache() || kind == Kind::Numa;
    let leaf = kind == Kind::HardwareThread;
    if level1 && kind != Kind::Core || object.bytes.is_some() && !sized || !object.usable && !leaf {
        let what = format!("a {kind:?} has an attribute that only others have");
        return Err(Error::Tree(what));
    }
    if leaf != object.children.is_empty() && kind != Kind::Machine {
        let count = object.children.len();
        return Err(Error::Tree(format!(
            "a {kind:?} that holds {count} objects"
        )));
    }
    path.push(kind);
    let mut children = object.children.iter();
    children.try_for_each(|child| check(child, path))?;
    path.pop();
    Ok(())
}

fn check_numbers(root: &Object) -> Result<(), Error> {
    let (mut cpus, mut nodes) = (BTreeSet::new(), BTreeSet::new());
    let mut twice = None;
    root.visit(&mut |o| {
        let fresh = match o.kind {
            Kind::HardwareThread => cpus.insert(o.id),
            Kind::Numa => nodes.insert(o.id),
            _ => true,
        };
        if !fresh {
            twice.get_or_insert((o.kind, o.id));
        }
    });
    if let Some((kind, id)) = twice {
        return Err(Error::Tree(format!("{kind:?} {id} occurs twice")));
    }
    const MOST: usize = Topology::MAX_HARDWARE_THREADS;
    match cpus.len() > MOST {
        true => Err(Error::Tree(format!("more than {MOST} hardware threads"))),
        false => Ok(()),
    }
}

/// Numbers all objects but hardware threads and NUMA nodes in tree order.
fn number(root: &mut Object) {
    let mut next = std::collections::BTreeMap::new();
    root.visit_mut(&mut |o| {
        if !matches!(o.kind, Kind::HardwareThread | Kind::Numa) {
            let n = next.entry(o.kind).or_insert(0);
            o.id = *n;
            *n += 1;
        }
    });
}
