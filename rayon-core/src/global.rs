//! The global pool.

use crate::builder::{ErrorKind, ThreadPoolBuildError, ThreadPoolBuilder, ThreadSpawn};
use std::sync::OnceLock;
use tanada_runtime::Pool;

static GLOBAL: OnceLock<Pool> = OnceLock::new();

/// Returns the global pool, which the first call makes.
///
/// # Panics
/// If it cannot be made.
#[cold]
pub(crate) fn global() -> Pool {
    let pool = GLOBAL.get_or_init(|| {
        let made = ThreadPoolBuilder::new().make();
        made.expect("The global thread pool has not been initialized.")
    });
    pool.clone()
}

/// Makes the global pool as `builder` says.
///
/// # Errors
/// If there is one, or it cannot be made.
pub(crate) fn initialize<S: ThreadSpawn>(
    builder: ThreadPoolBuilder<S>,
) -> Result<(), ThreadPoolBuildError> {
    let mut result = Err(ThreadPoolBuildError::new(
        ErrorKind::GlobalPoolAlreadyInitialized,
    ));
    let mut error = None;
    // Another thread that wants the pool waits for this one.
    let made = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        GLOBAL.get_or_init(|| match builder.make() {
            Ok(pool) => {
                result = Ok(());
                pool
            }
            Err(failed) => {
                error = Some(failed);
                std::panic::resume_unwind(Box::new(Failed))
            }
        });
    }));
    match (made, error) {
        (Ok(()), _) => result,
        (Err(_), Some(error)) => Err(error),
        (Err(payload), None) => std::panic::resume_unwind(payload),
    }
}

/// Unwinds out of the initialisation of a pool that cannot be made.
struct Failed;
