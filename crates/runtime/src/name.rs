//! Names of tasks and regions.

use crate::process::Process;
use parking_lot::{Mutex, MutexGuard};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

/// A name of tasks or of a region, in error messages, recordings and reports.
///
/// A `&'static str` is a name as it is and costs nothing. Other texts ([`Name::intern`], or `String` and the like where a name is expected)
/// are *interned*: kept once, for ever, in a table of the process. That takes a lock and a search, some 100 ns: where it matters, intern
/// once and pass the `Name` on, which is a copy of two words. The table is bounded: after [`Name::MOST`] different texts, or
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

    /// Returns the name of this text. Equal texts have equal names, at the same address.
    pub fn intern(text: &str) -> Name {
        static TABLE: Mutex<Table> = Mutex::new(Table::new());
        let table = lock(&TABLE);
        table.map_or(Name::OTHER, |mut table| {
            table.intern(text, Name::MOST, Name::MOST_BYTES)
        })
    }

    /// Returns the text.
    #[inline]
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

/// Returns the locked table; `None` in a child of `fork(2)` if a thread of its parent had it locked at the fork.
fn lock(table: &Mutex<Table>) -> Option<MutexGuard<'_, Table>> {
    /// The process that used the table first.
    static HOME: AtomicU64 = AtomicU64::new(0);
    /// The table is locked for a shorter time, unless the thread that has locked it does not run, or is gone.
    const LOCKED: Duration = Duration::from_millis(100);
    let here = Process::this().number();
    let home = HOME.compare_exchange(0, here, Relaxed, Relaxed);
    match home {
        Ok(_) => Some(table.lock()),
        Err(home) if home == here => Some(table.lock()),
        Err(_) => table.try_lock_for(LOCKED),
    }
}

/// The interned texts.
struct Table {
    texts: BTreeSet<&'static str>,
    bytes: usize,
}

impl Table {
    const fn new() -> Self {
        Table {
            texts: BTreeSet::new(),
            bytes: 0,
        }
    }

    fn intern(&mut self, text: &str, most: usize, most_bytes: usize) -> Name {
        if let Some(known) = self.texts.get(text) {
            return Name(known);
        }
        if self.texts.len() >= most || text.len() > most_bytes - self.bytes {
            return Name::OTHER;
        }
        let kept: &'static str = Box::leak(text.into());
        self.bytes += kept.len();
        self.texts.insert(kept);
        Name(kept)
    }
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
        let mut table = Table::new();
        let mut intern = |text: &str| table.intern(text, 3, 10).as_str();
        assert_eq!(intern("four"), "four");
        assert_eq!(intern("1234567"), Name::OTHER.as_str(), "11 bytes");
        assert_eq!(intern("123456"), "123456");
        assert_eq!(intern(""), "", "no byte more");
        assert_eq!(intern("a"), Name::OTHER.as_str());
        assert_eq!(intern("four"), "four");
        assert_eq!((table.texts.len(), table.bytes), (3, 10));
    }
}
