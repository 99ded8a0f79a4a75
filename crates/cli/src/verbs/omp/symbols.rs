//! Names for code: from the symbol tables and the debug information of the files that were loaded.

use addr2line::Loader;
use std::collections::HashMap;
use std::path::PathBuf;

/// The files that have been opened.
#[derive(Default)]
pub(crate) struct Symbols {
    files: HashMap<PathBuf, Option<Loader>>,
}

/// Where code is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    /// The function that the programmer wrote; `None` if the file has no symbol there.
    pub(crate) function: Option<String>,
    /// File and line; `None` without debug information.
    pub(crate) line: Option<String>,
}

impl Symbols {
    /// Returns where the code at `offset` of `file` is.
    pub(crate) fn find(&mut self, file: &str, offset: u64) -> Place {
        let Some(loader) = self.loader(file) else {
            return Place::default();
        };
        let location = loader.find_location(offset).ok().flatten();
        let line = location.and_then(|location| {
            let file = location.file?.rsplit('/').next()?;
            Some(match location.line {
                Some(line) => format!("{file}:{line}"),
                None => file.to_owned(),
            })
        });
        Place {
            function: loader.find_symbol(offset).map(written),
            line,
        }
    }

    /// Returns the compiler's name of the function at `offset` of `file`, if the file has a symbol there.
    pub(crate) fn symbol(&mut self, file: &str, offset: u64) -> Option<String> {
        let loader = self.loader(file)?;
        loader.find_symbol(offset).map(str::to_owned)
    }

    fn loader(&mut self, file: &str) -> Option<&Loader> {
        let path = PathBuf::from(file);
        let loader = self.files.entry(path);
        let loader = loader.or_insert_with_key(|path| Loader::new(path).ok());
        loader.as_ref()
    }
}

/// Returns the name of the function that a region was cut out of, of the symbol that the compiler made: gcc's `solve._omp_fn.1` is in
/// `solve`; clang's `.omp_outlined..3` does not say.
fn written(symbol: &str) -> String {
    match symbol.split_once("._omp_fn") {
        Some((function, _)) => function.to_owned(),
        None => symbol.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outlined_functions_have_the_name_of_the_function_around() {
        assert_eq!(written("conj_grad._omp_fn.1"), "conj_grad");
        assert_eq!(written("MAIN__._omp_fn.0"), "MAIN__");
        assert_eq!(written(".omp_outlined..3"), ".omp_outlined..3");
        let nowhere = Symbols::default().find("/nowhere/at all", 4);
        assert_eq!(nowhere, Place::default());
    }
}
