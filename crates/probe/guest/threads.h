/* Threads of POSIX and C11, and what they wait for. */

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

/* The C library knows no guard of a stack that it did not place, and a thread of Rust's library ends the program if it has none. */
int pthread_getattr_np(pthread_t thread, pthread_attr_t *attributes) {
    int outer = enter(), result = REAL(pthread_getattr_np)(thread, attributes);
    void *stack = 0;
    size_t size = 0;
    if (!result && !pthread_attr_getstack(attributes, &stack, &size) && (uintptr_t)stack - STACKS < BASE - STACKS)
        pthread_attr_setguardsize(attributes, 4096);
    DONE(outer);
    return result;
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

#define JOINS(name, params, args) \
    int name params { \
        int outer = enter(), error = REAL(name) args; \
        unsigned number = error ? 0 : forget(thread); \
        leave(outer, number ? JOIN : RESUMED, number, 0, 0); \
        return error; \
    }
JOINS(pthread_join, (pthread_t thread, void **result), (thread, result))
JOINS(pthread_tryjoin_np, (pthread_t thread, void **result), (thread, result))
JOINS(pthread_timedjoin_np, (pthread_t thread, void **result, const struct timespec *t), (thread, result, t))
#if __GLIBC_PREREQ(2, 31)
JOINS(pthread_clockjoin_np, (pthread_t thread, void **result, clockid_t k, const struct timespec *t), (thread, result, k, t))
#endif

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

/* Returns whether a call that takes a mutex did not get it. It gets a robust one whose owner has ended, too (if the emulator tells). */
static inline int fails(int result) {
    return result && result != EOWNERDEAD;
}

/* The same of a mutex, which its owner may take again if it is recursive: only the first and the last time count. The count is that of a
 * mutex that this thread owns. */
static inline int again(const void *m) {
    return ((const pthread_mutex_t *)m)->__data.__count > 1;
}

#define MUTEX(name, kind, params, args, object) \
    int name params { \
        int outer = enter(), nested = kind == UNLOCK && again(object), result = REAL(name) args; \
        nested |= kind == LOCK && !fails(result) && again(object); \
        leave(outer, fails(result) || nested ? RESUMED : kind, (long)(object), 0, 0); \
        return result; \
    }

MUTEX(pthread_mutex_lock, LOCK, (pthread_mutex_t *m), (m), m)
MUTEX(pthread_mutex_trylock, LOCK, (pthread_mutex_t *m), (m), m)
MUTEX(pthread_mutex_timedlock, LOCK, (pthread_mutex_t *m, const struct timespec *t), (m, t), m)
MUTEX(pthread_mutex_unlock, UNLOCK, (pthread_mutex_t *m), (m), m)
TAKES(sem_wait, TAKE, (sem_t *s), (s), s)
TAKES(sem_trywait, TAKE, (sem_t *s), (s), s)
TAKES(sem_timedwait, TAKE, (sem_t *s, const struct timespec *t), (s, t), s)
#if __GLIBC_PREREQ(2, 30)
TAKES(sem_clockwait, TAKE, (sem_t *s, clockid_t k, const struct timespec *t), (s, k, t), s)
#endif
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
    leave(outer, fails(result) ? RESUMED : WAIT, (long)c, (long)m, 0);
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
    leave(outer, late ? LOCK : fails(result) ? RESUMED : WAIT, (long)(late ? m : c), (long)m, 0);
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

/* How many threads meet at a barrier is known only when it is made. A table of twice the size takes the place of one that is half full;
 * the old one stays, because threads may be reading it. */
struct party { pthread_barrier_t *barrier; unsigned parties; };
struct parties { unsigned size, used; struct party *places; };
static struct party first_places[1024];
static struct parties first_parties = {1024, 0, first_places}, *barriers = &first_parties;

/* Returns the barrier's place, or the free one that it would get. */
static struct party *place_of(const struct parties *table, const pthread_barrier_t *b) {
    unsigned at = (unsigned)((uintptr_t)b >> 4) * 2654435761u;
    for (;; at++) {
        struct party *place = &table->places[at & (table->size - 1)];
        if (!place->barrier || place->barrier == b)
            return place;
    }
}

/* Called with the threads locked. */
static void note_parties(pthread_barrier_t *b, unsigned parties) {
    struct parties *table = barriers;
    struct party *place = place_of(table, b);
    if (!place->barrier && 2 * table->used == table->size) {
        size_t bytes = sizeof *table + 2 * table->size * sizeof *place;
        struct parties *more = mmap(0, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (more == MAP_FAILED)
            abort();
        *more = (struct parties){2 * table->size, table->used, (struct party *)(more + 1)};
        for (unsigned i = 0; i < table->size; i++)
            if (table->places[i].barrier)
                *place_of(more, table->places[i].barrier) = table->places[i];
        __atomic_store_n(&barriers, more, __ATOMIC_RELEASE);
        table = more;
        place = place_of(table, b);
    }
    table->used += !place->barrier;
    place->parties = parties;
    __atomic_store_n(&place->barrier, b, __ATOMIC_RELEASE);
}

int pthread_barrier_init(pthread_barrier_t *b, const pthread_barrierattr_t *a, unsigned parties) {
    int outer = enter(), result = REAL(pthread_barrier_init)(b, a, parties);
    if (!result) {
        lock_threads();
        note_parties(b, parties);
        unlock_threads();
    }
    DONE(outer);
    return result;
}

int pthread_barrier_wait(pthread_barrier_t *b) {
    int outer = enter();
    /* 0 of a barrier that no call made. */
    unsigned parties = place_of(__atomic_load_n(&barriers, __ATOMIC_ACQUIRE), b)->parties;
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

/* Named semaphores by address: how often each is open, and its value when it was closed for the last time. */
static struct named { sem_t *semaphore; unsigned opens; int left; struct named *next; } *named;

/* Called with the threads locked. */
static struct named *named_at(sem_t *s) {
    struct named *one = named;
    while (one && one->semaphore != s)
        one = one->next;
    return one;
}

/* The value that a semaphore has when it is opened counts as posts; what was left at this address is there already. */
static int opened(sem_t *s) {
    int value = 0;
    lock_threads();
    struct named *one = named_at(s);
    if (!one && (one = __libc_malloc(sizeof *one))) {
        *one = (struct named){s, 0, 0, named};
        named = one;
    }
    if (one && !one->opens++ && !sem_getvalue(s, &value))
        value -= one->left;
    unlock_threads();
    return value > 0 ? value : 0;
}

sem_t *sem_open(const char *name, int how, ...) {
    int outer = enter();
    sem_t *s;
    if (how & O_CREAT) {
        va_list rest;
        va_start(rest, how);
        mode_t mode = va_arg(rest, mode_t);
        unsigned value = va_arg(rest, unsigned);
        va_end(rest);
        s = REAL(sem_open)(name, how, mode, value);
    } else {
        s = REAL(sem_open)(name, how);
    }
    int value = s == SEM_FAILED ? 0 : opened(s);
    leave(outer, value ? POST : RESUMED, (long)s, value, 0);
    return s;
}

int sem_close(sem_t *s) {
    int outer = enter();
    lock_threads();
    struct named *one = named_at(s);
    if (one && one->opens && !--one->opens)
        sem_getvalue(s, &one->left);
    unlock_threads();
    int result = REAL(sem_close)(s);
    DONE(outer);
    return result;
}
