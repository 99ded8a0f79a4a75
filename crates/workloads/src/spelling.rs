//! Names of groups that recordings once carried, and those that they carry now.

/// The groupings that were renamed: the name, and the older one.
const RENAMED: [(&str, &str); 3] = [("default", "own"), ("toshiba-a", "a"), ("toshiba-b", "b")];

/// Returns the other spelling of the group pattern `name`: the older one of a name, the name of an older one.
///
/// Recordings carry their groups by name. If a recording has no groups called `name`, those of the other spelling are meant: so either
/// spelling works with old and new recordings.
pub fn other_spelling(name: &str) -> Option<&'static str> {
    RENAMED.iter().find_map(|&(new, old)| match name {
        _ if name == new => Some(old),
        _ if name == old => Some(new),
        _ => None,
    })
}

/// Returns the spelling of `name` that `there` has; `name` itself if it has none.
pub fn spelled_in<'a>(name: &'a str, there: &[impl AsRef<str>]) -> &'a str {
    let has = |name: &str| there.iter().any(|one| one.as_ref() == name);
    match other_spelling(name) {
        Some(other) if !has(name) && has(other) => other,
        _ => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn either_spelling_is_found_in_old_and_new_recordings() {
        for (old, new) in [("a", "toshiba-a"), ("b", "toshiba-b"), ("own", "default")] {
            assert_eq!(
                (other_spelling(old), other_spelling(new)),
                (Some(new), Some(old))
            );
            for there in [old, new] {
                assert_eq!(spelled_in(old, &[there, "x"]), there);
                assert_eq!(spelled_in(new, &[there, "x"]), there);
            }
            assert_eq!(spelled_in(new, &[old, new]), new);
        }
        assert_eq!(other_spelling("none"), None);
        assert_eq!(spelled_in("x", &["y"]), "x");
    }
}
