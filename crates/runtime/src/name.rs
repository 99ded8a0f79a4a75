//! Names of tasks and regions.

use std::borrow::Cow;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{
    AtomicPtr, AtomicU64,
    Ordering::{AcqRel, Acquire, Relaxed},
};

/// A name of tasks or of a region, in error messages, recordings and reports.
///
/// A `&'static str` is a name as it is and costs nothing. Other texts ([`Name::intern`], or `String` and the like where a name is expected)
/// are *interned*: kept once, for ever, in a table of the process. That takes a search, some 100 ns: where it matters, intern once and pass
/// the `Name` on, which is a copy of two words. The table is bounded: after [`Name::MOST`] different texts, or
/// [`Name::MOST_BYTES`] bytes of them, every further one becomes [`Name::OTHER`]. So name kinds of tasks ("row of picture A") and number
/// the tasks of a kind by their index.
///
/// ```
/// use tanada_runtime::{Name, Pool};
///
/// let pool = Pool::builder().workers(2).build()?;
/// let stage = String::from("user's stage");
/// let name = Name::intern(&stage);
/// pool.scope(|s| {
///     for index in 0..10 {
///         s.task(name).index(index).register(|_| ());
///     }
///     s.task(format!("after {stage}")).register(|_| ());
/// })?;
/// assert_eq!(name.as_str(), stage);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(&'static str);

impl Name {
    /// The most texts that are interned.
    pub const MOST: usize = 1 << 16;

    /// The most bytes of text that are interned.
    pub const MOST_BYTES: usize = 4 << 20;

    /// The name that stands for all texts that are not interned any more.
    pub const OTHER: Name = Name("(one of too many names)");

    /// Returns the name of this text. Equal texts have equal names, at the same address, also in a child of `fork(2)`.
    pub fn intern(text: &str) -> Name {
        static TABLE: Table = Table::new();
        TABLE.intern(text, Name::MOST, Name::MOST_BYTES)
    }

    /// Returns the text.
    #[inline]
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

/// The interned texts, in lists by their hash, which only grow.
///
/// It has no lock: in a child of `fork(2)`, a lock that another thread of the parent held would stay locked.
struct Table {
    lists: [AtomicPtr<Interned>; LISTS],
    /// Texts (the upper half) and their bytes (the lower half).
    used: AtomicU64,
}

/// With [`Name::MOST`] texts, a list has 16 on average.
const LISTS: usize = 1 << 12;

struct Interned {
    text: Box<str>,
    /// The one that was the first of the list before.
    next: Option<&'static Interned>,
}

impl Table {
    const fn new() -> Self {
        Table {
            lists: [const { AtomicPtr::new(ptr::null_mut()) }; LISTS],
            used: AtomicU64::new(0),
        }
    }

    fn intern(&self, text: &str, most: usize, most_bytes: usize) -> Name {
        let mut hasher = DefaultHasher::new();
        text.hash(&mut hasher);
        let list = &self.lists[hasher.finish() as usize % LISTS];
        let mut seen = list.load(Acquire);
        if let Some(known) = find(seen, text) {
            return known;
        }
        if !self.reserve(text.len(), most, most_bytes) {
            return Name::OTHER;
        }
        let mut new = Box::new(Interned {
            text: text.into(),
            next: None,
        });
        loop {
            // SAFETY: see `find`.
            new.next = unsafe { seen.as_ref() };
            let mine = Box::into_raw(new);
            match list.compare_exchange(seen, mine, AcqRel, Acquire) {
                // SAFETY: what is in a list is never changed and never freed.
                Ok(_) => return Name(unsafe { &(*mine).text }),
                Err(first) => seen = first,
            }
            // SAFETY: it came from a box, and is in no list.
            new = unsafe { Box::from_raw(mine) };
            if let Some(known) = find(seen, text) {
                self.used.fetch_sub(one_of(text.len()), Relaxed);
                return known;
            }
        }
    }

    /// Counts one text more, of so many bytes, and returns true; or false if that is too much.
    fn reserve(&self, bytes: usize, most: usize, most_bytes: usize) -> bool {
        let more = |used: u64| {
            let (texts, had) = ((used >> 32) as usize, used as u32 as usize);
            (texts < most && bytes <= most_bytes - had).then(|| used + one_of(bytes))
        };
        self.used.fetch_update(Relaxed, Relaxed, more).is_ok()
    }
}

/// Returns what a text of so many bytes adds to [`Table::used`].
fn one_of(bytes: usize) -> u64 {
    (1 << 32) + bytes as u64
}

/// Returns the name of this text if it is in the list that begins with `first`, which was loaded from a [`Table`].
fn find(first: *const Interned, text: &str) -> Option<Name> {
    // SAFETY: null, or published by a release that was loaded with an acquire; what is in a list is never changed and never freed.
    let first: Option<&'static Interned> = unsafe { first.as_ref() };
    let mut list = std::iter::successors(first, |interned| interned.next);
    let known = list.find(|interned| *interned.text == *text)?;
    Some(Name(&known.text))
}

impl From<&'static str> for Name {
    #[inline]
    fn from(text: &'static str) -> Self {
        Name(text)
    }
}

impl From<String> for Name {
    fn from(text: String) -> Self {
        Name::intern(&text)
    }
}

impl From<&String> for Name {
    fn from(text: &String) -> Self {
        Name::intern(text)
    }
}

impl From<Arc<str>> for Name {
    fn from(text: Arc<str>) -> Self {
        Name::intern(&text)
    }
}

impl From<Box<str>> for Name {
    fn from(text: Box<str>) -> Self {
        Name::intern(&text)
    }
}

impl From<Cow<'_, str>> for Name {
    fn from(text: Cow<'_, str>) -> Self {
        Name::intern(&text)
    }
}

impl AsRef<str> for Name {
    fn as_ref(&self) -> &str {
        self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0)
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_texts_are_kept_once() {
        let texts = [String::from("a row"), String::from("a row")];
        let [first, second] = texts.map(Name::from);
        assert_eq!(first, Name::from("a row"));
        assert!(std::ptr::eq(first.as_str(), second.as_str()));
        let others = [
            Name::from(Arc::<str>::from("a row")),
            Name::from(Box::<str>::from("a row")),
            Name::from(&String::from("a row")),
            Name::from(Cow::Borrowed("a row")),
        ];
        assert!(
            others
                .iter()
                .all(|name| std::ptr::eq(name.as_str(), first.as_str()))
        );
        assert_eq!(
            format!("{first} {first:?} {first:>6}"),
            "a row \"a row\"  a row"
        );
    }

    #[test]
    fn the_table_is_bounded_and_keeps_what_it_has() {
        let table = Table::new();
        let intern = |text: &str| table.intern(text, 3, 10).as_str();
        assert_eq!(intern("four"), "four");
        assert_eq!(intern("1234567"), Name::OTHER.as_str(), "11 bytes");
        assert_eq!(intern("123456"), "123456");
        assert_eq!(intern(""), "", "no byte more");
        assert_eq!(intern("a"), Name::OTHER.as_str());
        assert_eq!(intern("four"), "four");
        assert_eq!(table.used.into_inner(), (3 << 32) + 10);
    }
}
