/* The library that `tanada record` loads into the recorded program (LD_PRELOAD). It tells the recorder in the emulator of every
 * synchronisation, keeps what happens inside of such calls out of the record, and makes addresses independent of time.
 *
 * A mark is the system call getppid with arguments that the kernel ignores: (MAGIC | kind, a, b, c). An existing call, because the
 * emulator of MIPS answers unknown numbers before a plugin sees them; at most four arguments, because it fetches no more.
 * crates/probe/src/marks.rs has the same numbers.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
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

#define MAGIC 0x7a010000l
#define RESUME 0x100 /* added to a kind: recording goes on behind the mark */

enum {
    HELLO = 1, PAUSE, RESUMED, CREATE, START, JOIN, LOCK, SHARE, UNLOCK, BARRIER, WAIT, SIGNAL, BROADCAST, POST, TAKE, REGION,
    REGION_END, LOOP, ITERATION, LOOP_END, EXIT, TEAM_BARRIER, TASKS, SPAWNED
};

#define HOT __attribute__((tls_model("initial-exec")))
static __thread HOT int depth;         /* wrapped calls that this thread is in; only the outermost makes marks */
static __thread HOT unsigned me;       /* this thread's creation number */
static __thread HOT unsigned regions;  /* parallel regions that this thread opened */
static __thread HOT struct { unsigned leader, count, threads; } team;

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
    X(pthread_create) X(pthread_join) X(pthread_exit) X(pthread_mutex_lock) X(pthread_mutex_trylock) X(pthread_mutex_timedlock) \
    X(pthread_mutex_unlock) X(pthread_cond_wait) X(pthread_cond_timedwait) X(pthread_cond_signal) X(pthread_cond_broadcast) \
    X(pthread_barrier_init) X(pthread_barrier_wait) X(sem_init) X(sem_wait) X(sem_trywait) X(sem_timedwait) X(sem_post) \
    X(pthread_rwlock_rdlock) X(pthread_rwlock_tryrdlock) X(pthread_rwlock_wrlock) X(pthread_rwlock_trywrlock) \
    X(pthread_rwlock_unlock) X(pthread_spin_lock) X(pthread_spin_trylock) X(pthread_spin_unlock) X(pthread_mutex_clocklock) \
    X(mtx_lock) X(mtx_trylock) X(mtx_timedlock) X(mtx_unlock) X(cnd_wait) X(cnd_timedwait) X(cnd_signal) X(cnd_broadcast) \
    X(pthread_cond_clockwait)

#define OPENMP(X) \
    X(GOMP_parallel) X(GOMP_barrier) X(GOMP_critical_start) X(GOMP_critical_end) \
    X(GOMP_critical_name_start) X(GOMP_critical_name_end) X(GOMP_atomic_start) X(GOMP_atomic_end) X(GOMP_loop_end) \
    X(GOMP_loop_end_nowait) X(GOMP_sections_start) X(GOMP_sections_next) X(GOMP_sections_end) X(GOMP_sections_end_nowait) \
    X(GOMP_parallel_sections) X(GOMP_task) X(GOMP_taskwait) X(omp_set_lock) X(omp_unset_lock) \
    X(omp_get_num_threads) X(omp_get_thread_num) X(omp_get_max_threads) X(omp_get_num_procs) X(omp_get_wtime) \
    X(omp_set_num_threads) X(omp_set_dynamic) X(omp_init_lock) X(__kmpc_global_thread_num) \
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

/* ---- Memory: a region of addresses a thread, by creation number, so that addresses do not follow from time. ---- */

/* Until the first thread is created, glibc's own allocator serves: nothing depends on time yet. */
void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
void __libc_free(void *);

#if UINTPTR_MAX > 0xffffffffu
#define BASE ((uintptr_t)1 << 44)
#define SPAN ((uintptr_t)1 << 34)
#define STACKS ((uintptr_t)1 << 43)
#define MOST_REGIONS 4096
#else
#define BASE ((uintptr_t)0x10000000)
#define SPAN ((uintptr_t)0x00800000)
#define MOST_REGIONS 64
#endif
#define PIECE ((size_t)1 << 20)
#define CLASSES 160

struct head { size_t size; struct head *next; };
#define HEAD 16

static int threaded; /* a thread was created */
static __thread HOT uintptr_t top, end;
static __thread HOT struct head *lists[CLASSES];

static inline int ours(const void *p) {
    return (uintptr_t)p - BASE < SPAN * MOST_REGIONS;
}

/* Returns the class of a block of at least `size` bytes, and its size: four classes a power of two. */
static unsigned class_of(size_t *size) {
    size_t n = *size < 64 ? 64 : *size;
    unsigned bits = 8 * sizeof(long) - 1 - __builtin_clzl(n - 1);
    size_t step = (size_t)1 << (bits - 2);
    size_t rounded = (n + step - 1) & ~(step - 1);
    *size = (rounded + 15) & ~(size_t)15;
    return 4 * bits + (unsigned)((rounded - 1) >> (bits - 2) & 3);
}

/* Apart from the functions that replace glibc's, so that these are short: they count as the program's. */
#define LONG static __attribute__((noinline))

LONG void *take(size_t bytes) {
    size_t size = bytes + HEAD;
    if (size < bytes || size > SIZE_MAX / 4) {
        errno = ENOMEM;
        return 0;
    }
    unsigned class = class_of(&size);
    struct head *h = class < CLASSES ? lists[class] : 0;
    if (h) {
        lists[class] = h->next;
        return (char *)h + HEAD;
    }
    if (!top)
        top = end = BASE + SPAN * (me % MOST_REGIONS);
    if (end - top < size) {
        size_t more = (size - (end - top) + PIECE - 1) & ~(PIECE - 1);
        uintptr_t limit = BASE + SPAN * (me % MOST_REGIONS) + SPAN;
        void *got = MAP_FAILED;
        if (more <= limit - end && me < MOST_REGIONS)
            got = mmap((void *)end, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (got != (void *)end) {
            /* The region is full or its addresses are taken: glibc's allocator serves, and addresses may follow from time. */
            if (got != MAP_FAILED)
                munmap(got, more);
            return __libc_malloc(bytes);
        }
        end += more;
    }
    h = (struct head *)top;
    top += size;
    h->size = size;
    return (char *)h + HEAD;
}

/* Returns whether glibc's allocator serves: before there are threads, and for what a wrapped call takes for itself. That can follow from
 * time, and would move what the program takes later. */
static inline int apart(void) {
    return depth || !__atomic_load_n(&threaded, __ATOMIC_RELAXED);
}

static inline size_t room(void *p) {
    return (((struct head *)((char *)p - HEAD))->size & ~(size_t)15) - HEAD;
}

void *malloc(size_t bytes) {
    return apart() ? __libc_malloc(bytes) : take(bytes);
}

LONG void give(void *p) {
    struct head *h = (struct head *)((char *)p - HEAD);
    size_t size = h->size;
    unsigned class = class_of(&size);
    if (class < CLASSES && size == h->size) {
        h->next = lists[class];
        lists[class] = h;
    }
}

void free(void *p) {
    if (ours(p))
        give(p);
    /* A block of glibc's. Outside of wrapped calls another thread than the first leaves it: who frees first would follow from time. */
    else if (me == 0 || depth)
        __libc_free(p);
}

LONG void *take_zeroed(size_t n, size_t each) {
    size_t bytes;
    if (__builtin_mul_overflow(n, each, &bytes)) {
        errno = ENOMEM;
        return 0;
    }
    void *p = take(bytes);
    return p ? memset(p, 0, bytes) : p;
}

void *calloc(size_t n, size_t each) {
    return apart() ? __libc_calloc(n, each) : take_zeroed(n, each);
}

LONG size_t of_glibc(void *p) {
    static size_t (*size)(void *);
    if (!size)
        size = (size_t (*)(void *))dlsym(RTLD_NEXT, "malloc_usable_size");
    return size(p);
}

size_t malloc_usable_size(void *p) {
    return ours(p) ? room(p) : p ? of_glibc(p) : 0;
}

LONG void *move(void *p, size_t bytes) {
    if (!p)
        return malloc(bytes);
    if (!bytes) {
        free(p);
        return 0;
    }
    size_t old = malloc_usable_size(p);
    if (ours(p) && bytes <= old)
        return p;
    void *q = take(bytes);
    if (q) {
        memcpy(q, p, old < bytes ? old : bytes);
        free(p);
    }
    return q;
}

void *realloc(void *p, size_t bytes) {
    return apart() && !ours(p) ? __libc_realloc(p, bytes) : move(p, bytes);
}

void *memalign(size_t align, size_t bytes) {
    if (apart())
        return __libc_memalign(align, bytes);
    if (align <= HEAD)
        return take(bytes);
    /* The block before the aligned address stays unused; its own head keeps the rest from being taken for a whole block. */
    char *p = take(bytes + align + HEAD);
    if (!p || !ours(p))
        return p && (uintptr_t)p % align ? __libc_memalign(align, bytes) : p;
    char *q = (char *)(((uintptr_t)p + align - 1) & ~(uintptr_t)(align - 1));
    if (q != p)
        ((struct head *)(q - HEAD))->size = (room(p) - (size_t)(q - p) + HEAD) | 1;
    return q;
}

void *aligned_alloc(size_t align, size_t bytes) {
    return memalign(align, bytes);
}

int posix_memalign(void **out, size_t align, size_t bytes) {
    if (align < sizeof(void *) || align & (align - 1))
        return EINVAL;
    void *p = memalign(align, bytes);
    if (!p)
        return ENOMEM;
    *out = p;
    return 0;
}

void *valloc(size_t bytes) {
    return memalign(4096, bytes);
}

/* ---- Threads ---- */

struct start { void *(*run)(void *); void *with; unsigned number; int inside; };

static unsigned last_number;

/* The threads that can be joined. */
static struct known { pthread_t thread; unsigned number; int used; } *threads;
static unsigned threads_size;
static int threads_lock;

static void lock_threads(void) {
    while (__atomic_exchange_n(&threads_lock, 1, __ATOMIC_ACQUIRE))
        syscall(SYS_sched_yield);
}

static void unlock_threads(void) {
    __atomic_store_n(&threads_lock, 0, __ATOMIC_RELEASE);
}

static void remember(pthread_t thread, unsigned number) {
    lock_threads();
    unsigned i = 0;
    /* A number of the C library that is used again belongs to a detached thread that ended. */
    while (i < threads_size && threads[i].used && !pthread_equal(threads[i].thread, thread))
        i++;
    if (i == threads_size) {
        unsigned size = threads_size ? 2 * threads_size : 1024;
        struct known *more = mmap(0, size * sizeof *more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (more == MAP_FAILED)
            abort();
        if (threads_size) {
            memcpy(more, threads, threads_size * sizeof *more);
            munmap(threads, threads_size * sizeof *more);
        }
        threads = more;
        threads_size = size;
    }
    threads[i] = (struct known){thread, number, 1};
    unlock_threads();
}

/* Returns the number of `thread`, 0 if it is not known, and forgets it. */
static unsigned forget(pthread_t thread) {
    unsigned number = 0;
    lock_threads();
    for (unsigned i = 0; i < threads_size; i++)
        if (threads[i].used && pthread_equal(threads[i].thread, thread)) {
            number = threads[i].number;
            threads[i].used = 0;
            break;
        }
    unlock_threads();
    return number;
}

static void *begin(void *given) {
    struct start start = *(struct start *)given;
    me = start.number;
    depth = start.inside;
    mark(START | (start.inside ? 0 : RESUME), start.number, (long)&start, 0);
    void *result = start.run(start.with);
    depth = 1;
    mark(EXIT, 0, 0, 0);
    return result;
}

#ifdef STACKS
/* Places a stack by creation number: the C library's own places follow from the time at which other threads end. */
static int place_stack(const pthread_attr_t *given, pthread_attr_t *attributes) {
    static uintptr_t used;
    size_t size = 0, guard = 0;
    void *own = 0;
    if (given) {
        size_t own_size = 0;
        pthread_attr_getstack(given, &own, &own_size);
        pthread_attr_getstacksize(given, &size);
        pthread_attr_getguardsize(given, &guard);
        /* Without a stack of its own `own` is minus the size. */
        if (own && (uintptr_t)own < (uintptr_t)-((uintptr_t)1 << 32))
            return 0;
        int detached = 0, inherit = 0, policy = 0;
        struct sched_param parameters;
        pthread_attr_init(attributes);
        if (!pthread_attr_getdetachstate(given, &detached))
            pthread_attr_setdetachstate(attributes, detached);
        if (!pthread_attr_getinheritsched(given, &inherit))
            pthread_attr_setinheritsched(attributes, inherit);
        if (!pthread_attr_getschedpolicy(given, &policy))
            pthread_attr_setschedpolicy(attributes, policy);
        if (!pthread_attr_getschedparam(given, &parameters))
            pthread_attr_setschedparam(attributes, &parameters);
    } else {
        pthread_attr_init(attributes);
        pthread_attr_getstacksize(attributes, &size);
    }
    size = (size + 4095) & ~(size_t)4095;
    uintptr_t at = STACKS + __atomic_fetch_add(&used, size, __ATOMIC_RELAXED);
    void *got = MAP_FAILED;
    if (size && at + size < BASE)
        got = mmap((void *)at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (got == (void *)at) {
        /* The lowest page guards the stack above it. */
        mprotect(got, 4096, PROT_NONE);
        pthread_attr_setstack(attributes, (char *)got + 4096, size - 4096);
        return 1;
    }
    if (got != MAP_FAILED)
        munmap(got, size);
    pthread_attr_destroy(attributes);
    return 0;
}
#endif

int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *with) {
    int inside = depth > 0, outer = enter();
    __atomic_store_n(&threaded, 1, __ATOMIC_RELAXED);
    unsigned number = __atomic_add_fetch(&last_number, 1, __ATOMIC_RELAXED);
    /* Read by the new thread at any time from now on, so it is never freed. */
    struct start *start = take(sizeof *start);
    if (!start) {
        DONE(outer);
        return EAGAIN;
    }
    *start = (struct start){run, with, number, inside};
    int placed = 0;
#ifdef STACKS
    pthread_attr_t own;
    placed = place_stack(attributes, &own);
    if (placed)
        attributes = &own;
#endif
    /* Before the thread can run: the recorder must know its parent. */
    mark(CREATE, number, 0, 0);
    int result = REAL(pthread_create)(thread, attributes, begin, start);
    if (!result)
        remember(*thread, number);
#ifdef STACKS
    if (placed)
        pthread_attr_destroy(&own);
#endif
    (void)placed;
    leave(outer, result ? RESUMED : SPAWNED, number, 0, 0);
    if (!outer && !result)
        mark(SPAWNED, number, 0, 0);
    return result;
}

int pthread_join(pthread_t thread, void **result) {
    int outer = enter();
    int error = REAL(pthread_join)(thread, result);
    unsigned number = error ? 0 : forget(thread);
    leave(outer, number ? JOIN : RESUMED, number, 0, 0);
    return error;
}

void pthread_exit(void *result) {
    depth = 1;
    mark(EXIT, 0, 0, 0);
    REAL(pthread_exit)(result);
    __builtin_unreachable();
}

/* The threads of C11 are those of POSIX. */
struct c11 { thrd_start_t run; void *with; };

static void *begin_c11(void *given) {
    struct c11 start = *(struct c11 *)given;
    free(given);
    return (void *)(intptr_t)start.run(start.with);
}

int thrd_create(thrd_t *thread, thrd_start_t run, void *with) {
    struct c11 *start = malloc(sizeof *start);
    if (!start)
        return thrd_nomem;
    *start = (struct c11){run, with};
    int error = pthread_create(thread, 0, begin_c11, start);
    if (error)
        free(start);
    return !error ? thrd_success : error == ENOMEM ? thrd_nomem : thrd_error;
}

int thrd_join(thrd_t thread, int *result) {
    void *value = 0;
    int error = pthread_join(thread, &value);
    if (result)
        *result = (int)(intptr_t)value;
    return error ? thrd_error : thrd_success;
}

void thrd_exit(int result) {
    pthread_exit((void *)(intptr_t)result);
}

/* ---- Locks, conditions, barriers, semaphores ---- */

/* `name` takes what `kind` says if it returns 0. */
#define TAKES(name, kind, params, args, object) \
    int name params { \
        int outer = enter(), result = REAL(name) args; \
        leave(outer, result ? RESUMED : kind, (long)(object), 0, 0); \
        return result; \
    }

/* The same of a mutex, which its owner may take again if it is recursive: only the first and the last time count. The count is that of a
 * mutex that this thread owns. */
static inline int again(const void *m) {
    return ((const pthread_mutex_t *)m)->__data.__count > 1;
}

#define MUTEX(name, kind, params, args, object) \
    int name params { \
        int outer = enter(), nested = kind == UNLOCK && again(object), result = REAL(name) args; \
        nested |= kind == LOCK && !result && again(object); \
        leave(outer, result || nested ? RESUMED : kind, (long)(object), 0, 0); \
        return result; \
    }

MUTEX(pthread_mutex_lock, LOCK, (pthread_mutex_t *m), (m), m)
MUTEX(pthread_mutex_trylock, LOCK, (pthread_mutex_t *m), (m), m)
MUTEX(pthread_mutex_timedlock, LOCK, (pthread_mutex_t *m, const struct timespec *t), (m, t), m)
MUTEX(pthread_mutex_unlock, UNLOCK, (pthread_mutex_t *m), (m), m)
TAKES(sem_wait, TAKE, (sem_t *s), (s), s)
TAKES(sem_trywait, TAKE, (sem_t *s), (s), s)
TAKES(sem_timedwait, TAKE, (sem_t *s, const struct timespec *t), (s, t), s)
TAKES(pthread_rwlock_rdlock, SHARE, (pthread_rwlock_t *l), (l), l)
TAKES(pthread_rwlock_tryrdlock, SHARE, (pthread_rwlock_t *l), (l), l)
TAKES(pthread_rwlock_wrlock, LOCK, (pthread_rwlock_t *l), (l), l)
TAKES(pthread_rwlock_trywrlock, LOCK, (pthread_rwlock_t *l), (l), l)
TAKES(pthread_rwlock_unlock, UNLOCK, (pthread_rwlock_t *l), (l), l)
TAKES(pthread_spin_lock, LOCK, (pthread_spinlock_t *l), (l), l)
TAKES(pthread_spin_trylock, LOCK, (pthread_spinlock_t *l), (l), l)
TAKES(pthread_spin_unlock, UNLOCK, (pthread_spinlock_t *l), (l), l)
MUTEX(mtx_lock, LOCK, (mtx_t *m), (m), m)
MUTEX(mtx_trylock, LOCK, (mtx_t *m), (m), m)
MUTEX(mtx_timedlock, LOCK, (mtx_t *m, const struct timespec *t), (m, t), m)
MUTEX(mtx_unlock, UNLOCK, (mtx_t *m), (m), m)
#if __GLIBC_PREREQ(2, 30)
MUTEX(pthread_mutex_clocklock, LOCK, (pthread_mutex_t *m, clockid_t k, const struct timespec *t), (m, k, t), m)
#endif

/* The mark comes before the signal: a wait that ends by it is marked with the number of signals until then. Signals do not fail. */
#define SIGNALS(name, kind, type) \
    int name(type *c) { \
        int outer = enter(); \
        if (outer) \
            mark(kind, (long)c, 0, 0); \
        int result = REAL(name)(c); \
        DONE(outer); \
        return result; \
    }

SIGNALS(pthread_cond_signal, SIGNAL, pthread_cond_t)
SIGNALS(pthread_cond_broadcast, BROADCAST, pthread_cond_t)
SIGNALS(cnd_signal, SIGNAL, cnd_t)
SIGNALS(cnd_broadcast, BROADCAST, cnd_t)

int pthread_cond_wait(pthread_cond_t *c, pthread_mutex_t *m) {
    int outer = enter(), result = REAL(pthread_cond_wait)(c, m);
    leave(outer, result ? RESUMED : WAIT, (long)c, (long)m, 0);
    return result;
}

int cnd_wait(cnd_t *c, mtx_t *m) {
    int outer = enter(), result = REAL(cnd_wait)(c, m);
    leave(outer, result ? RESUMED : WAIT, (long)c, (long)m, 0);
    return result;
}

/* A wait that ends by its time, as `late` says, released the lock and took it again. */
static int timed_out(int outer, int result, int late, void *c, void *m) {
    if (outer && late)
        mark(UNLOCK, (long)m, 0, 0);
    leave(outer, late ? LOCK : result ? RESUMED : WAIT, (long)(result ? m : c), (long)m, 0);
    return result;
}

int cnd_timedwait(cnd_t *c, mtx_t *m, const struct timespec *t) {
    int outer = enter(), result = REAL(cnd_timedwait)(c, m, t);
    return timed_out(outer, result, result == thrd_timedout, c, m);
}

int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *t) {
    int outer = enter(), result = REAL(pthread_cond_timedwait)(c, m, t);
    return timed_out(outer, result, result == ETIMEDOUT, c, m);
}

#if __GLIBC_PREREQ(2, 30)
int pthread_cond_clockwait(pthread_cond_t *c, pthread_mutex_t *m, clockid_t k, const struct timespec *t) {
    int outer = enter(), result = REAL(pthread_cond_clockwait)(c, m, k, t);
    return timed_out(outer, result, result == ETIMEDOUT, c, m);
}
#endif

/* How many threads meet at a barrier is known only when it is made. */
static struct { pthread_barrier_t *barrier; unsigned parties; } barriers[1024];

static unsigned place_of(const pthread_barrier_t *b) {
    return (unsigned)((uintptr_t)b >> 4) * 2654435761u % 1024;
}

int pthread_barrier_init(pthread_barrier_t *b, const pthread_barrierattr_t *a, unsigned parties) {
    int outer = enter(), result = REAL(pthread_barrier_init)(b, a, parties);
    lock_threads();
    for (unsigned i = 0, at = place_of(b); !result && i < 1024; i++, at = (at + 1) % 1024)
        if (!barriers[at].barrier || barriers[at].barrier == b) {
            barriers[at].barrier = b;
            barriers[at].parties = parties;
            break;
        }
    unlock_threads();
    DONE(outer);
    return result;
}

int pthread_barrier_wait(pthread_barrier_t *b) {
    int outer = enter();
    unsigned parties = 0;
    for (unsigned i = 0, at = place_of(b); i < 1024; i++, at = (at + 1) % 1024)
        if (barriers[at].barrier == b) {
            parties = barriers[at].parties;
            break;
        }
    int result = REAL(pthread_barrier_wait)(b);
    int met = !result || result == PTHREAD_BARRIER_SERIAL_THREAD;
    leave(outer, met ? BARRIER : RESUMED, (long)b, parties, 0);
    return result;
}

int sem_init(sem_t *s, int shared, unsigned value) {
    int outer = enter(), result = REAL(sem_init)(s, shared, value);
    /* The first value counts as posts. */
    leave(outer, result || !value ? RESUMED : POST, (long)s, value, 0);
    return result;
}

int sem_post(sem_t *s) {
    int outer = enter(), result = REAL(sem_post)(s);
    leave(outer, result ? RESUMED : POST, (long)s, 1, 0);
    return result;
}

/* ---- OpenMP, compiled by gcc ---- */

struct region { void (*run)(void *); void *with; unsigned leader, count; void *loop; };

/* Runs in each member of a team. */
static void member(void *given) {
    struct region *region = given;
    __typeof__(team) outer_team = team;
    int outer_depth = depth;
    team.leader = region->leader;
    team.count = region->count;
    team.threads = (unsigned)REAL(omp_get_num_threads)();
    depth = 0;
    mark(REGION | (region->loop ? 0 : RESUME), team.leader, team.count, team.threads);
    if (region->loop)
        mark(LOOP | RESUME, (long)region->loop, 0, 0);
    region->run(region->with);
    depth = outer_depth;
    mark(REGION_END, 0, 0, 0);
    team = outer_team;
}

#define REGION_OF(run, with, loop) {run, with, me, ++regions, loop}

void GOMP_parallel(void (*run)(void *), void *with, unsigned n, unsigned flags);
void GOMP_parallel(void (*run)(void *), void *with, unsigned n, unsigned flags) {
    int outer = enter();
    struct region region = REGION_OF(run, with, 0);
    REAL(GOMP_parallel)(member, &region, n, flags);
    DONE(outer);
}

void GOMP_parallel_sections(void (*run)(void *), void *with, unsigned n, unsigned count, unsigned flags);
void GOMP_parallel_sections(void (*run)(void *), void *with, unsigned n, unsigned count, unsigned flags) {
    int outer = enter();
    struct region region = REGION_OF(run, with, __builtin_return_address(0));
    REAL(GOMP_parallel_sections)(member, &region, n, count, flags);
    DONE(outer);
}

/* A barrier of the team. */
#define TEAM(outer) leave(outer, TEAM_BARRIER, team.leader, team.count, team.threads)

void GOMP_barrier(void);
void GOMP_barrier(void) {
    int outer = enter();
    REAL(GOMP_barrier)();
    TEAM(outer);
}

#define PLAIN(name, kind, params, args, object) \
    void name params; \
    void name params { \
        int outer = enter(); \
        REAL(name) args; \
        leave(outer, kind, (long)(object), 0, 0); \
    }

static char critical, atomic;
PLAIN(GOMP_critical_start, LOCK, (void), (), &critical)
PLAIN(GOMP_critical_end, UNLOCK, (void), (), &critical)
PLAIN(GOMP_critical_name_start, LOCK, (void **l), (l), l)
PLAIN(GOMP_critical_name_end, UNLOCK, (void **l), (l), l)
PLAIN(GOMP_atomic_start, LOCK, (void), (), &atomic)
PLAIN(GOMP_atomic_end, UNLOCK, (void), (), &atomic)
PLAIN(GOMP_loop_end_nowait, LOOP_END, (void), (), 0)
PLAIN(GOMP_sections_end_nowait, LOOP_END, (void), (), 0)
PLAIN(omp_set_lock, LOCK, (void *l), (l), l)
PLAIN(omp_unset_lock, UNLOCK, (void *l), (l), l)

#define ENDS(name) \
    void name(void); \
    void name(void) { \
        int outer = enter(); \
        REAL(name)(); \
        if (outer) \
            mark(LOOP_END, 0, 0, 0); \
        TEAM(outer); \
    }
ENDS(GOMP_loop_end)
ENDS(GOMP_sections_end)

/* Says which iterations were handed out: `from` up to `to`, `by` apart. */
static _Bool handed(int outer, _Bool any, long from, long to, long by) {
    long count = by > 0 ? (to - from + by - 1) / by : by < 0 ? (from - to - by - 1) / -by : to - from;
    leave(outer, any ? ITERATION : RESUMED, from, count, 0);
    return any;
}

static __thread HOT long step;

#define LOOP_NEXT(kind) \
    _Bool GOMP_loop_##kind##_next(long *from, long *to); \
    _Bool GOMP_loop_##kind##_next(long *from, long *to) { \
        int outer = enter(); \
        _Bool any = REAL(GOMP_loop_##kind##_next)(from, to); \
        return handed(outer, any, any ? *from : 0, any ? *to : 0, step); \
    }
#define LOOP_WITH_CHUNK(kind) \
    _Bool GOMP_loop_##kind##_start(long begin, long end, long by, long chunk, long *from, long *to); \
    _Bool GOMP_loop_##kind##_start(long begin, long end, long by, long chunk, long *from, long *to) { \
        int outer = enter(); \
        _Bool any = REAL(GOMP_loop_##kind##_start)(begin, end, step = by, chunk, from, to); \
        if (outer) \
            mark(LOOP, (long)__builtin_return_address(0), 0, 0); \
        return handed(outer, any, any ? *from : 0, any ? *to : 0, by); \
    } \
    LOOP_NEXT(kind) \
    void GOMP_parallel_loop_##kind(void (*)(void *), void *, unsigned, long, long, long, long, unsigned); \
    void GOMP_parallel_loop_##kind(void (*run)(void *), void *with, unsigned n, long begin, long end, long by, long chunk, unsigned flags) { \
        int outer = enter(); \
        struct region region = REGION_OF(run, with, __builtin_return_address(0)); \
        REAL(GOMP_parallel_loop_##kind)(member, &region, n, begin, end, by, chunk, flags); \
        DONE(outer); \
    }
#define LOOP_WITHOUT(kind) \
    _Bool GOMP_loop_##kind##_start(long begin, long end, long by, long *from, long *to); \
    _Bool GOMP_loop_##kind##_start(long begin, long end, long by, long *from, long *to) { \
        int outer = enter(); \
        _Bool any = REAL(GOMP_loop_##kind##_start)(begin, end, step = by, from, to); \
        if (outer) \
            mark(LOOP, (long)__builtin_return_address(0), 0, 0); \
        return handed(outer, any, any ? *from : 0, any ? *to : 0, by); \
    } \
    LOOP_NEXT(kind) \
    void GOMP_parallel_loop_##kind(void (*)(void *), void *, unsigned, long, long, long, unsigned); \
    void GOMP_parallel_loop_##kind(void (*run)(void *), void *with, unsigned n, long begin, long end, long by, unsigned flags) { \
        int outer = enter(); \
        struct region region = REGION_OF(run, with, __builtin_return_address(0)); \
        REAL(GOMP_parallel_loop_##kind)(member, &region, n, begin, end, by, flags); \
        DONE(outer); \
    }
LOOPS(LOOP_WITH_CHUNK)
RUNTIME_LOOPS(LOOP_WITHOUT)

#define SECTION(name, params, args) \
    unsigned name params; \
    unsigned name params { \
        int outer = enter(); \
        unsigned section = REAL(name) args; \
        leave(outer, section ? ITERATION : RESUMED, section, 1, 0); \
        return section; \
    }
SECTION(GOMP_sections_next, (void), ())
unsigned GOMP_sections_start(unsigned count);
unsigned GOMP_sections_start(unsigned count) {
    int outer = enter();
    unsigned section = REAL(GOMP_sections_start)(count);
    if (outer)
        mark(LOOP, (long)__builtin_return_address(0), 0, 0);
    leave(outer, section ? ITERATION : RESUMED, section, 1, 0);
    return section;
}

/* A task's body runs in any member, at a place that follows from time: it is recorded in the thread that runs it. */
struct task { void (*run)(void *); };

static void run_task(void *given) {
    struct task *task = *(struct task **)given;
    int outer_depth = depth;
    depth = 0;
    mark(RESUMED | RESUME, 0, 0, 0);
    task->run(task + 1);
    if (outer_depth)
        mark(PAUSE, 0, 0, 0);
    depth = outer_depth;
    free(task);
}

void GOMP_task(void (*run)(void *), void *data, void (*copy)(void *, void *), long size, long align, _Bool undeferred, unsigned flags,
               void **depend, int priority, void *detach);
void GOMP_task(void (*run)(void *), void *data, void (*copy)(void *, void *), long size, long align, _Bool undeferred, unsigned flags,
               void **depend, int priority, void *detach) {
    static int told;
    int outer = enter();
    if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
        mark(TASKS, 0, 0, 0);
    struct task *task = align <= 16 ? take(sizeof *task + 16 + (size_t)size) : 0;
    if (!task) {
        REAL(GOMP_task)(run, data, copy, size, align, undeferred, flags, depend, priority, detach);
    } else {
        task->run = run;
        if (copy)
            copy(task + 1, data);
        else
            memcpy(task + 1, data, (size_t)size);
        REAL(GOMP_task)(run_task, &task, 0, sizeof task, sizeof task, undeferred, flags, depend, priority, detach);
    }
    DONE(outer);
}

PLAIN(GOMP_taskwait, RESUMED, (void), (), 0)

/* ---- OpenMP's functions that start its library, which looks at the process's number and at the clock ---- */

#define QUIET(type, name, params, args) \
    type name params; \
    type name params { \
        int outer = enter(); \
        type result = REAL(name) args; \
        DONE(outer); \
        return result; \
    }
QUIET(int, omp_get_max_threads, (void), ())
QUIET(int, omp_get_num_procs, (void), ())
QUIET(double, omp_get_wtime, (void), ())
QUIET(int32_t, __kmpc_global_thread_num, (void *where), (where))
PLAIN(omp_set_num_threads, RESUMED, (int n), (n), 0)
PLAIN(omp_set_dynamic, RESUMED, (int n), (n), 0)
PLAIN(omp_init_lock, RESUMED, (void *l), (l), 0)

/* clang's library looks at the process's number once more when the process ends. */
__attribute__((destructor)) static void leave_out_the_end(void) {
    if (real___kmpc_fork_call)
        enter();
}

/* ---- OpenMP, compiled by clang ---- */

typedef void (*micro)(int32_t *, int32_t *, ...);
#define MOST_ARGUMENTS 16
struct fork { micro run; int count; unsigned leader, regions; void *with[MOST_ARGUMENTS]; };

static void kmp_member(int32_t *global, int32_t *bound, struct fork *fork) {
    __typeof__(team) outer_team = team;
    int outer_depth = depth;
    team.leader = fork->leader;
    team.count = fork->regions;
    team.threads = (unsigned)REAL(omp_get_num_threads)();
    depth = 0;
    mark(REGION | RESUME, team.leader, team.count, team.threads);
    void **a = fork->with;
    /* A callee ignores surplus arguments in every calling convention that is supported here. */
    fork->run(global, bound, a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10], a[11], a[12], a[13], a[14], a[15]);
    depth = outer_depth;
    mark(REGION_END, 0, 0, 0);
    team = outer_team;
}

void __kmpc_fork_call(void *where, int32_t count, micro run, ...);
void __kmpc_fork_call(void *where, int32_t count, micro run, ...) {
    int outer = enter();
    struct fork fork = {run, count, me, ++regions, {0}};
    va_list list;
    va_start(list, run);
    if (count > MOST_ARGUMENTS)
        abort();
    for (int i = 0; i < count; i++)
        fork.with[i] = va_arg(list, void *);
    va_end(list);
    REAL(__kmpc_fork_call)(where, 1, (micro)kmp_member, &fork);
    DONE(outer);
}

void __kmpc_barrier(void *where, int32_t thread);
void __kmpc_barrier(void *where, int32_t thread) {
    int outer = enter();
    REAL(__kmpc_barrier)(where, thread);
    TEAM(outer);
}

PLAIN(__kmpc_critical, LOCK, (void *w, int32_t t, void *l), (w, t, l), l)
PLAIN(__kmpc_critical_with_hint, LOCK, (void *w, int32_t t, void *l, uint32_t h), (w, t, l, h), l)
PLAIN(__kmpc_end_critical, UNLOCK, (void *w, int32_t t, void *l), (w, t, l), l)
PLAIN(__kmpc_for_static_fini, LOOP_END, (void *w, int32_t t), (w, t), 0)
PLAIN(__kmpc_push_num_threads, RESUMED, (void *w, int32_t t, int32_t n), (w, t, n), 0)

/* Which member runs a `single` is the implementation's choice. The first one to come would follow from time, so it is the first member. */
static int is_first(void) {
    int outer = enter();
    int first = REAL(omp_get_thread_num)() == 0;
    DONE(outer);
    return first;
}

int32_t __kmpc_single(void *where, int32_t thread);
int32_t __kmpc_single(void *where, int32_t thread) {
    (void)where, (void)thread;
    return is_first();
}

_Bool GOMP_single_start(void);
_Bool GOMP_single_start(void) {
    return is_first();
}

static __thread HOT int reduces; /* this member adds parts under the lock */

/* The member that gets 1 adds the others' parts under a lock, or has done so in a tree. */
#define REDUCES(name) \
    int32_t name(void *w, int32_t t, int32_t n, size_t s, void *d, void (*f)(void *, void *), void *l); \
    int32_t name(void *w, int32_t t, int32_t n, size_t s, void *d, void (*f)(void *, void *), void *l) { \
        int outer = enter(); \
        int32_t how = REAL(name)(w, t, n, s, d, f, l); \
        reduces = how == 1; \
        leave(outer, reduces ? LOCK : RESUMED, (long)l, 0, 0); \
        return how; \
    }
REDUCES(__kmpc_reduce)
REDUCES(__kmpc_reduce_nowait)

void __kmpc_end_reduce(void *where, int32_t thread, void *lock);
void __kmpc_end_reduce(void *where, int32_t thread, void *lock) {
    int outer = enter();
    REAL(__kmpc_end_reduce)(where, thread, lock);
    if (outer && reduces)
        mark(UNLOCK, (long)lock, 0, 0);
    TEAM(outer);
}

void __kmpc_end_reduce_nowait(void *where, int32_t thread, void *lock);
void __kmpc_end_reduce_nowait(void *where, int32_t thread, void *lock) {
    int outer = enter();
    REAL(__kmpc_end_reduce_nowait)(where, thread, lock);
    leave(outer, reduces ? UNLOCK : RESUMED, (long)lock, 0, 0);
}

#define STATIC_LOOP(bits, type, signed_type) \
    void __kmpc_for_static_init_##bits(void *w, int32_t t, int32_t kind, int32_t *last, type *from, type *to, signed_type *stride, \
                                       signed_type by, signed_type chunk); \
    void __kmpc_for_static_init_##bits(void *w, int32_t t, int32_t kind, int32_t *last, type *from, type *to, signed_type *stride, \
                                       signed_type by, signed_type chunk) { \
        int outer = enter(); \
        REAL(__kmpc_for_static_init_##bits)(w, t, kind, last, from, to, stride, by, chunk); \
        if (outer) \
            mark(LOOP, (long)__builtin_return_address(0), 0, 0); \
        handed(outer, *from <= *to, (long)*from, (long)*to + 1, (long)by); \
    }
STATIC_LOOP(4, int32_t, int32_t)
STATIC_LOOP(4u, uint32_t, int32_t)
STATIC_LOOP(8, int64_t, int64_t)
STATIC_LOOP(8u, uint64_t, int64_t)

#define DISPATCH(bits, type, signed_type) \
    void __kmpc_dispatch_init_##bits(void *w, int32_t t, int32_t kind, type from, type to, signed_type by, signed_type chunk); \
    void __kmpc_dispatch_init_##bits(void *w, int32_t t, int32_t kind, type from, type to, signed_type by, signed_type chunk) { \
        int outer = enter(); \
        REAL(__kmpc_dispatch_init_##bits)(w, t, kind, from, to, by, chunk); \
        leave(outer, LOOP, (long)__builtin_return_address(0), 0, 0); \
    } \
    int __kmpc_dispatch_next_##bits(void *w, int32_t t, int32_t *last, type *from, type *to, signed_type *by); \
    int __kmpc_dispatch_next_##bits(void *w, int32_t t, int32_t *last, type *from, type *to, signed_type *by) { \
        int outer = enter(); \
        int any = REAL(__kmpc_dispatch_next_##bits)(w, t, last, from, to, by); \
        if (any) { \
            handed(outer, 1, (long)*from, (long)*to + 1, (long)*by); \
        } else { \
            leave(outer, LOOP_END, 0, 0, 0); \
        } \
        return any; \
    }
DISPATCH(4, int32_t, int32_t)
DISPATCH(4u, uint32_t, int32_t)
DISPATCH(8, int64_t, int64_t)
DISPATCH(8u, uint64_t, int64_t)

int32_t __kmpc_omp_task(void *where, int32_t thread, void *task);
int32_t __kmpc_omp_task(void *where, int32_t thread, void *task) {
    static int told;
    int outer = enter();
    if (!__atomic_exchange_n(&told, 1, __ATOMIC_RELAXED))
        mark(TASKS, 1, 0, 0);
    int32_t result = REAL(__kmpc_omp_task)(where, thread, task);
    DONE(outer);
    return result;
}
