/* The library that `tanada record` loads into the recorded program (LD_PRELOAD). It tells the recorder in the emulator of every
 * synchronisation, keeps what happens inside of such calls out of the record, and makes addresses independent of time.
 *
 * A mark is the system call getppid with arguments that the kernel ignores: (MAGIC | kind, a, b, c). An existing call, because the
 * emulator of MIPS answers unknown numbers before a plugin sees them; at most four arguments, because it fetches no more.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

#include "marks.h"

/* What the members of a team share: how many they are, and what a `single` passes on. */
struct together { unsigned threads; void *copied; };

#define HOT __attribute__((tls_model("initial-exec")))
static __thread HOT int depth;         /* wrapped calls that this thread is in; only the outermost makes marks */
static __thread HOT unsigned me;       /* this thread's creation number */
static __thread HOT unsigned regions;  /* parallel regions that this thread opened */
static __thread HOT struct { unsigned leader, count; struct together *together; } team;

static inline void mark(long kind, long a, long b, long c) {
#ifdef __x86_64__
    /* The C library's function is longer than some of the calls that are wrapped, and would be recorded. */
    register long fourth __asm__("r10") = c;
    long result = SYS_getppid;
    __asm__ volatile("syscall" : "+a"(result) : "D"(MAGIC | kind), "S"(a), "d"(b), "r"(fourth) : "rcx", "r11", "memory");
#else
    syscall(SYS_getppid, MAGIC | kind, a, b, c);
#endif
}

/* Begins a wrapped call: nothing is recorded until `leave`. Returns whether it is the outermost.
 *
 * `depth` changes only while nothing is recorded: its stores, which the program does not make, would be one in fifty of those of a program
 * that takes many locks. */
static inline int enter(void) {
    int outer = !depth;
    if (outer)
        mark(PAUSE, 0, 0, 0);
    depth++;
    return outer;
}

static inline void leave(int outer, long kind, long a, long b, long c) {
    depth--;
    if (outer)
        mark(kind | RESUME, a, b, c);
}

#define DONE(outer) leave(outer, RESUMED, 0, 0, 0)

/* ---- What the wrapped functions are ---- */

/* Looked up before main, because a signal handler may call some of them. */
#define WRAPPED(X) \
    X(pthread_create) X(pthread_join) X(pthread_tryjoin_np) X(pthread_timedjoin_np) X(pthread_clockjoin_np) X(pthread_exit) X(pthread_mutex_lock) X(pthread_mutex_trylock) X(pthread_mutex_timedlock) \
    X(pthread_mutex_unlock) X(pthread_cond_wait) X(pthread_cond_timedwait) X(pthread_cond_signal) X(pthread_cond_broadcast) \
    X(pthread_barrier_init) X(pthread_barrier_wait) X(sem_init) X(sem_wait) X(sem_trywait) X(sem_timedwait) X(sem_clockwait) X(sem_post) X(sem_open) X(sem_close) \
    X(pthread_rwlock_rdlock) X(pthread_rwlock_tryrdlock) X(pthread_rwlock_wrlock) X(pthread_rwlock_trywrlock) \
    X(pthread_rwlock_unlock) X(pthread_spin_lock) X(pthread_spin_trylock) X(pthread_spin_unlock) X(pthread_mutex_clocklock) \
    X(mtx_lock) X(mtx_trylock) X(mtx_timedlock) X(mtx_unlock) X(cnd_wait) X(cnd_timedwait) X(cnd_signal) X(cnd_broadcast) \
    X(pthread_cond_clockwait) X(pthread_getattr_np)

#define OPENMP(X) \
    X(GOMP_parallel) X(GOMP_barrier) X(GOMP_critical_start) X(GOMP_critical_end) \
    X(GOMP_critical_name_start) X(GOMP_critical_name_end) X(GOMP_atomic_start) X(GOMP_atomic_end) X(GOMP_loop_end) \
    X(GOMP_loop_end_nowait) X(GOMP_sections_start) X(GOMP_sections_next) X(GOMP_sections_end) X(GOMP_sections_end_nowait) \
    X(GOMP_parallel_sections) X(GOMP_task) X(GOMP_taskwait) X(omp_set_lock) X(omp_unset_lock) X(omp_test_lock) \
    X(omp_get_num_threads) X(omp_get_thread_num) X(omp_get_max_threads) X(omp_get_num_procs) X(omp_get_wtime) \
    X(omp_set_num_threads) X(omp_set_dynamic) X(omp_init_lock) X(omp_init_nest_lock) X(omp_set_nest_lock) X(omp_unset_nest_lock) \
    X(omp_test_nest_lock) X(__kmpc_global_thread_num) \
    X(__kmpc_fork_call) X(__kmpc_barrier) X(__kmpc_critical) X(__kmpc_critical_with_hint) X(__kmpc_end_critical) \
    X(__kmpc_for_static_init_4) X(__kmpc_for_static_init_4u) X(__kmpc_for_static_init_8) X(__kmpc_for_static_init_8u) \
    X(__kmpc_for_static_fini) X(__kmpc_dispatch_init_4) X(__kmpc_dispatch_init_4u) X(__kmpc_dispatch_init_8) \
    X(__kmpc_dispatch_init_8u) X(__kmpc_dispatch_next_4) X(__kmpc_dispatch_next_4u) X(__kmpc_dispatch_next_8) \
    X(__kmpc_dispatch_next_8u) X(__kmpc_reduce) X(__kmpc_reduce_nowait) X(__kmpc_end_reduce) X(__kmpc_end_reduce_nowait) \
    X(__kmpc_push_num_threads) X(__kmpc_omp_task)

/* Loops of libgomp whose iterations are handed out at run time: `start` and `next` of each kind, and both kinds with their own region. */
#define LOOPS(X) \
    X(static) X(dynamic) X(guided) X(nonmonotonic_dynamic) X(nonmonotonic_guided)
#define RUNTIME_LOOPS(X) X(runtime) X(nonmonotonic_runtime) X(maybe_nonmonotonic_runtime)

#define DECLARE(name) static void *real_##name;
WRAPPED(DECLARE)
OPENMP(DECLARE)
#define DECLARE_LOOP(name) static void *real_GOMP_loop_##name##_start, *real_GOMP_loop_##name##_next, *real_GOMP_parallel_loop_##name;
LOOPS(DECLARE_LOOP)
RUNTIME_LOOPS(DECLARE_LOOP)

static int ready;

static void *look(const char *name) {
    void *found = 0;
    /* Without a version the look-up can find the condition variables of LinuxThreads. */
    if (!strncmp(name, "pthread_cond_", 13))
        found = dlvsym(RTLD_NEXT, name, "GLIBC_2.3.2");
    return found ? found : dlsym(RTLD_NEXT, name);
}

__attribute__((constructor)) static void init(void) {
    if (ready)
        return;
    ready = 1;
    depth++;
    mark(PAUSE, 0, 0, 0);
#define LOOK(name) real_##name = look(#name);
    WRAPPED(LOOK)
    depth--;
    char here;
    mark(HELLO | RESUME, (long)&here, 0, 0);
}

/* Returns a function that was not looked up before main: one of OpenMP's library, which may have been loaded for another library alone. */
static void *late(const char *name) {
    static const char *const libraries[] = {"libgomp.so.1", "libomp.so.5", "libomp.so", "libiomp5.so"};
    init();
    void *found = look(name);
    for (unsigned i = 0; !found && i < sizeof libraries / sizeof *libraries; i++) {
        void *library = dlopen(libraries[i], RTLD_LAZY | RTLD_NOLOAD);
        if (library)
            found = dlsym(library, name);
    }
    return found;
}

static inline void *real(void **known, const char *name) {
    if (!*known)
        *known = late(name);
    return *known;
}

/* The function that `name` stands for. Called by wrapped calls only, so that the look-up is left out. */
#define REAL(name) ((__typeof__(&name))real(&real_##name, #name))

int omp_get_num_threads(void), omp_get_thread_num(void);

/* One translation unit: the wrapped calls are short and share a thread's state, and a call between files would be recorded as the
 * program's. */
#include "memory.h"
#include "threads.h"
#include "openmp.h"
