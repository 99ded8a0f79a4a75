//! The tree itself, what makes one valid, and the queries over it.

use std::collections::BTreeSet;

#[cfg(feature = "serde")]
use serde::{Deserialize, Serialize};

use crate::Error;

/// What an [`Object`] of the tree is.
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
    /// A hardware thread (`pu` in text): what the operating system calls a CPU.
    #[cfg_attr(feature = "serde", serde(rename = "pu"))]
    HardwareThread,
}

impl Kind {
    /// Whether this is a cache that has a place of its own in the tree.
    pub fn is_cache(self) -> bool {
        matches!(self, Kind::L4 | Kind::L3 | Kind::L2)
    }
}

/// One object of the tree with all that lies inside it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(Serialize, Deserialize),
    serde(deny_unknown_fields)
)]
pub struct Object {
    /// What it is.
    pub kind: Kind,
    /// The operating system's number of a hardware thread or NUMA node; of others the position among their kind, in tree order.
    #[cfg_attr(feature = "serde", serde(default))]
    pub id: u32,
    /// Bytes of a cache, or of a NUMA node's memory, where known.
    #[cfg_attr(
        feature = "serde",
        serde(default, skip_serializing_if = "Option::is_none")
    )]
    pub bytes: Option<u64>,
    /// Bytes of a core's level-1 data cache, where known.
    #[cfg_attr(
        feature = "serde",
        serde(default, skip_serializing_if = "Option::is_none")
    )]
    pub l1d_bytes: Option<u64>,
    /// Bytes of a core's level-1 instruction cache, where known.
    #[cfg_attr(
        feature = "serde",
        serde(default, skip_serializing_if = "Option::is_none")
    )]
    pub l1i_bytes: Option<u64>,
    /// Speed class of a core: 0 is the fastest kind of the machine, larger is slower.
    #[cfg_attr(feature = "serde", serde(default, skip_serializing_if = "is_zero"))]
    pub core_kind: u8,
    /// Of a hardware thread: whether the affinity mask lets this process use it. True for every other object.
    #[cfg_attr(
        feature = "serde",
        serde(default = "yes", skip_serializing_if = "is_yes")
    )]
    pub usable: bool,
    /// What lies inside, in tree order.
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
#[cfg(feature = "serde")]
fn is_yes(b: &bool) -> bool {
    *b
}

impl Object {
    /// An object of which only kind and content are known.
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

    /// The hardware thread that the operating system calls `cpu`.
    pub fn hardware_thread(cpu: u32, usable: bool) -> Object {
        Object {
            id: cpu,
            usable,
            ..Object::new(Kind::HardwareThread, Vec::new())
        }
    }

    /// Calls `f` for this object and all inside it, outermost first, in tree order.
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

    /// How many objects of a kind there are here, itself included. Cost: a walk.
    pub fn count(&self, kind: Kind) -> usize {
        let mut n = 0;
        self.visit(&mut |o| n += usize::from(o.kind == kind));
        n
    }
}

/// The tree of packages, NUMA nodes, caches, cores and hardware threads of a machine, which of these this process may use, and how
/// much processor time it is granted.
///
/// The tree holds every *online* hardware thread, so that a cache is known to be shared even where the affinity mask leaves only one of
/// its cores; only those in the mask are usable, and workers are placed only on those. Levels that are unknown are absent.
///
/// As JSON (feature `serde`): an object with `root` (an [`Object`]) and `quota`; reading one back checks it as [`Topology::new`] does.
#[derive(Clone, PartialEq, Debug)]
#[cfg_attr(
    feature = "serde",
    derive(Serialize, Deserialize),
    serde(try_from = "Unchecked")
)]
pub struct Topology {
    pub(crate) root: Object,
    #[cfg_attr(feature = "serde", serde(skip_serializing_if = "Option::is_none"))]
    pub(crate) quota: Option<f64>,
}

/// A topology from outside, before it is checked.
#[cfg(feature = "serde")]
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    root: Object,
    #[serde(default)]
    quota: Option<f64>,
}

#[cfg(feature = "serde")]
impl TryFrom<Unchecked> for Topology {
    type Error = Error;
    fn try_from(unchecked: Unchecked) -> Result<Topology, Error> {
        Topology::new(unchecked.root, unchecked.quota)
    }
}

impl Topology {
    /// The most hardware threads that a topology may have.
    pub const MAX_HARDWARE_THREADS: usize = 65_535;

    /// Checks a tree and numbers its objects (hardware threads and NUMA nodes keep the numbers that they bring).
    ///
    /// `quota` is the processor time that this process is granted, in cores.
    ///
    /// # Errors
    /// [`Error::Tree`] where the root is not a machine, an object lies in one where it cannot be (a core in a core, a level-3 cache in a
    /// level-2 cache, anything but hardware threads in a core), an object is empty, an operating system's number occurs twice or the
    /// quota is not a positive number; [`Error::NothingUsable`] where no hardware thread is usable.
    pub fn new(mut root: Object, quota: Option<f64>) -> Result<Topology, Error> {
        if root.kind != Kind::Machine {
            return Err(Error::Tree("the outermost object is not a machine".into()));
        }
        if quota.is_some_and(|q| !(q.is_finite() && q > 0.0)) {
            return Err(Error::Tree(
                "the quota is not a positive number of cores".into(),
            ));
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

    /// A machine about which nothing is known but its hardware threads: each a core of its own, no caches.
    ///
    /// # Errors
    /// [`Error::NothingUsable`] without a CPU, [`Error::Tree`] where one occurs twice.
    pub fn flat(cpus: impl IntoIterator<Item = u32>) -> Result<Topology, Error> {
        let core = |cpu| Object::new(Kind::Core, vec![Object::hardware_thread(cpu, true)]);
        Topology::new(
            Object::new(Kind::Machine, cpus.into_iter().map(core).collect()),
            None,
        )
    }

    /// The whole tree.
    pub fn root(&self) -> &Object {
        &self.root
    }

    /// Processor time that the control group (v1 or v2) grants this process, in cores (1.5 is three halves); `None`: no limit.
    pub fn quota(&self) -> Option<f64> {
        self.quota
    }

    /// The operating system's numbers of the hardware threads that this process may use, in tree order. Cost: a walk.
    pub fn usable(&self) -> Vec<u32> {
        let mut cpus = Vec::new();
        self.root.visit(&mut |o| {
            if o.kind == Kind::HardwareThread && o.usable {
                cpus.push(o.id);
            }
        });
        cpus
    }

    /// How many workers a pool has unless told otherwise: one a usable hardware thread, not more than the quota rounded up, at least 1.
    pub fn default_workers(&self) -> u16 {
        let threads = self.usable().len();
        let granted = self
            .quota
            .map_or(threads, |q| (q.ceil() as usize).min(threads));
        u16::try_from(granted.max(1)).unwrap_or(u16::MAX)
    }

    /// Bytes of the smallest last-level cache (the outermost of levels 4, 3 and 2) that a usable hardware thread has, where known.
    pub fn last_level_cache_bytes(&self) -> Option<u64> {
        self.place(self.default_workers()).last_level_cache_bytes()
    }

    /// Bytes of the smallest level-2 cache that a usable hardware thread has, where known.
    pub fn l2_bytes(&self) -> Option<u64> {
        self.place(self.default_workers()).l2_bytes()
    }

    /// Bytes of the smallest level-1 data cache that a usable hardware thread has, where known.
    pub fn l1d_bytes(&self) -> Option<u64> {
        self.place(self.default_workers()).l1d_bytes()
    }
}

/// Whether an object of `kind` may lie inside all of `path`; caches lie in larger ones, each kind at most once on a path.
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
    if !may_lie_in(object.kind, path) {
        return Err(Error::Tree(format!(
            "a {:?} cannot lie inside {path:?}",
            object.kind
        )));
    }
    let bears = |kind: bool, something: bool| kind || !something;
    let level1 = object.l1d_bytes.is_some() || object.l1i_bytes.is_some() || object.core_kind != 0;
    if !bears(object.kind == Kind::Core, level1)
        || !bears(
            object.kind.is_cache() || object.kind == Kind::Numa,
            object.bytes.is_some(),
        )
        || !bears(object.kind == Kind::HardwareThread, !object.usable)
    {
        return Err(Error::Tree(format!(
            "a {:?} has an attribute that only others have",
            object.kind
        )));
    }
    let leaf = object.kind == Kind::HardwareThread;
    if leaf != object.children.is_empty() && object.kind != Kind::Machine {
        return Err(Error::Tree(format!(
            "a {:?} that holds {} objects",
            object.kind,
            object.children.len()
        )));
    }
    path.push(object.kind);
    object
        .children
        .iter()
        .try_for_each(|child| check(child, path))?;
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
    if cpus.len() > Topology::MAX_HARDWARE_THREADS {
        return Err(Error::Tree(format!(
            "more than {} hardware threads",
            Topology::MAX_HARDWARE_THREADS
        )));
    }
    Ok(())
}

/// Numbers all but hardware threads and NUMA nodes in tree order.
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
