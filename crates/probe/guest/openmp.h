/* Parallel regions, loops and tasks of OpenMP. */

/* ---- OpenMP, compiled by gcc ---- */

struct region { void (*run)(void *); void *with; unsigned leader, count; void *loop; struct together together; };

/* Returns how many threads a team has that this one has just joined. All members write the same number. */
static unsigned join(struct together *together) {
    unsigned threads = (unsigned)REAL(omp_get_num_threads)();
    __atomic_store_n(&together->threads, threads, __ATOMIC_RELAXED);
    team.together = together;
    return threads;
}

/* Runs in each member of a team. */
static void member(void *given) {
    struct region *region = given;
    __typeof__(team) outer_team = team;
    int outer_depth = depth;
    team.leader = region->leader;
    team.count = region->count;
    unsigned threads = join(&region->together);
    depth = 0;
    mark(REGION | (region->loop ? 0 : RESUME), team.leader, team.count, threads);
    if (region->loop)
        mark(LOOP | RESUME, (long)region->loop, 0, 0);
    region->run(region->with);
    depth = outer_depth;
    mark(REGION_END, 0, 0, 0);
    team = outer_team;
}

#define REGION_OF(run, with, loop) {run, with, me, ++regions, loop, {0, 0}}

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
#define TEAM(outer) leave(outer, TEAM_BARRIER, team.leader, team.count, team.together ? team.together->threads : 0)

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

/* Of a lock that its owner may take again only the first and the last time count. How often it is taken only an attempt tells. */
PLAIN(omp_init_nest_lock, RESUMED, (void *l), (l), 0)

int omp_test_nest_lock(void *lock);
int omp_test_nest_lock(void *lock) {
    int outer = enter(), count = REAL(omp_test_nest_lock)(lock);
    leave(outer, count == 1 ? LOCK : RESUMED, (long)lock, 0, 0);
    return count;
}

void omp_set_nest_lock(void *lock);
void omp_set_nest_lock(void *lock) {
    int outer = enter(), count = REAL(omp_test_nest_lock)(lock);
    if (!count)
        REAL(omp_set_nest_lock)(lock);
    leave(outer, count > 1 ? RESUMED : LOCK, (long)lock, 0, 0);
}

void omp_unset_nest_lock(void *lock);
void omp_unset_nest_lock(void *lock) {
    int outer = enter(), count = REAL(omp_test_nest_lock)(lock) - 1;
    REAL(omp_unset_nest_lock)(lock);
    REAL(omp_unset_nest_lock)(lock);
    leave(outer, count > 1 ? RESUMED : UNLOCK, (long)lock, 0, 0);
}

int omp_test_lock(void *lock);
int omp_test_lock(void *lock) {
    int outer = enter(), taken = REAL(omp_test_lock)(lock);
    leave(outer, taken ? LOCK : RESUMED, (long)lock, 0, 0);
    return taken;
}

/* clang's library looks at the process's number once more when the process ends. */
__attribute__((destructor)) static void leave_out_the_end(void) {
    if (real___kmpc_fork_call)
        enter();
}

/* ---- OpenMP, compiled by clang ---- */

typedef void (*micro)(int32_t *, int32_t *, ...);
#define FEW_ARGUMENTS 16
#define MOST_ARGUMENTS 96 /* one for each variable that the members share */
struct fork { micro run; int count; unsigned leader, regions; struct together together; void *with[MOST_ARGUMENTS]; };

static void kmp_member(int32_t *global, int32_t *bound, struct fork *fork) {
    __typeof__(team) outer_team = team;
    int outer_depth = depth;
    team.leader = fork->leader;
    team.count = fork->regions;
    unsigned threads = join(&fork->together);
    depth = 0;
    mark(REGION | RESUME, team.leader, team.count, threads);
    void **a = fork->with;
#define FOUR(i) a[i], a[i + 1], a[i + 2], a[i + 3]
#define SIXTEEN(i) FOUR(i), FOUR(i + 4), FOUR(i + 8), FOUR(i + 12)
#define SIXTY_FOUR(i) SIXTEEN(i), SIXTEEN(i + 16), SIXTEEN(i + 32), SIXTEEN(i + 48)
    /* A callee ignores surplus arguments in every calling convention that is supported here. Few, because passing them is recorded. */
    if (fork->count <= FEW_ARGUMENTS)
        fork->run(global, bound, SIXTEEN(0));
    else
        fork->run(global, bound, SIXTY_FOUR(0), SIXTEEN(64), SIXTEEN(80));
    depth = outer_depth;
    mark(REGION_END, 0, 0, 0);
    team = outer_team;
}

void __kmpc_fork_call(void *where, int32_t count, micro run, ...);
void __kmpc_fork_call(void *where, int32_t count, micro run, ...) {
    int outer = enter();
    struct fork fork = {run, count, me, ++regions, {0, 0}, {0}};
    va_list list;
    va_start(list, run);
    if (count > MOST_ARGUMENTS) {
        static const char why[] = "tanada: a parallel region whose members share more than 96 variables cannot be recorded\n";
        ssize_t unused = write(2, why, sizeof why - 1);
        (void)unused;
        abort();
    }
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

/* What `copyprivate` passes on: the first member leaves an address for the others, which wait for it. Then all meet once more, by a barrier
 * of the program as gcc compiles it, before the next `single` can leave another one. Without a team there is nobody to pass it on to. */
static void pass_on(void *data) {
    if (team.together)
        team.together->copied = data;
}

void *GOMP_single_copy_start(void);
void *GOMP_single_copy_start(void) {
    int outer = enter();
    if (REAL(omp_get_thread_num)() == 0) {
        DONE(outer);
        return 0;
    }
    REAL(GOMP_barrier)();
    void *data = team.together->copied;
    TEAM(outer);
    return data;
}

void GOMP_single_copy_end(void *data);
void GOMP_single_copy_end(void *data) {
    int outer = enter();
    pass_on(data);
    REAL(GOMP_barrier)();
    TEAM(outer);
}

void __kmpc_copyprivate(void *where, int32_t thread, size_t size, void *data, void (*copy)(void *, void *), int32_t is_it);
void __kmpc_copyprivate(void *where, int32_t thread, size_t size, void *data, void (*copy)(void *, void *), int32_t is_it) {
    (void)size;
    int outer = enter();
    if (is_it)
        pass_on(data);
    REAL(__kmpc_barrier)(where, thread);
    void *from = is_it ? 0 : team.together->copied;
    TEAM(outer);
    if (!is_it)
        copy(data, from);
    outer = enter();
    REAL(__kmpc_barrier)(where, thread);
    TEAM(outer);
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
