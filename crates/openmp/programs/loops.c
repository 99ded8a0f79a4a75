/* Work-sharing loops: every schedule runs every iteration once, and what the standard orders is in order. */
#include "check.h"
#include <limits.h>
#include <omp.h>

enum { N = 1009 };

static int count[N];

static void check_each_once(const char *what)
{
    for (int i = 0; i < N; i++)
        CHECK(count[i] == 1, what);
    memset(count, 0, sizeof count);
}

#define HIT(i) __atomic_fetch_add(&count[i], 1, __ATOMIC_RELAXED)

/* Once as a region with a loop in it, once as one construct, which compilers hand to the runtime by other entry points. */
#define SCHEDULE(name, ...)                                     \
    do {                                                        \
        _Pragma("omp parallel num_threads(3)")                  \
        {                                                       \
            DO(omp for __VA_ARGS__)                             \
            for (int i = 0; i < N; i++)                         \
                HIT(i);                                         \
        }                                                       \
        check_each_once("for " name);                           \
        DO(omp parallel for num_threads(3) __VA_ARGS__)         \
        for (int i = N - 1; i >= 0; i--)                        \
            HIT(i);                                             \
        check_each_once("parallel for " name);                  \
        DO(omp parallel for num_threads(4) __VA_ARGS__)         \
        for (unsigned long long i = 0; i < N; i += 1)           \
            HIT(i);                                             \
        check_each_once("parallel for " name ", unsigned");     \
    } while (0)
#define DO(...) DO_TEXT(__VA_ARGS__)
#define DO_TEXT(...) _Pragma(#__VA_ARGS__)

static void schedules(void)
{
    SCHEDULE("as it is", );
    SCHEDULE("static", schedule(static));
    SCHEDULE("static,7", schedule(static, 7));
    SCHEDULE("dynamic", schedule(dynamic));
    SCHEDULE("dynamic,5", schedule(dynamic, 5));
    SCHEDULE("guided", schedule(guided));
    SCHEDULE("guided,3", schedule(guided, 3));
    SCHEDULE("auto", schedule(auto));
    SCHEDULE("monotonic dynamic", schedule(monotonic : dynamic, 2));
    SCHEDULE("nonmonotonic dynamic", schedule(nonmonotonic : dynamic, 2));
    SCHEDULE("nonmonotonic guided", schedule(nonmonotonic : guided));
    static const omp_sched_t kinds[] = {omp_sched_static, omp_sched_dynamic, omp_sched_guided, omp_sched_auto};
    for (int kind = 0; kind < 4; kind++) {
        omp_set_schedule(kinds[kind], 4);
        omp_sched_t found;
        int chunk;
        omp_get_schedule(&found, &chunk);
        CHECK((found & 0xff) == kinds[kind], "omp_get_schedule");
        SCHEDULE("runtime", schedule(runtime));
        SCHEDULE("nonmonotonic runtime", schedule(nonmonotonic : runtime));
    }
}

/* A static loop gives equal loops of a region the same iterations to the same thread. */
static void same_division(void)
{
    static int owner[N];
#pragma omp parallel num_threads(3)
    {
#pragma omp for schedule(static) nowait
        for (int i = 0; i < N; i++)
            owner[i] = omp_get_thread_num();
#pragma omp for schedule(static) nowait
        for (int i = 0; i < N; i++)
            CHECK(owner[i] == omp_get_thread_num(), "static loops divide equally");
    }
}

/* Chunks of static,c go round: iteration i belongs to thread i / c mod team size. */
static void round_robin(void)
{
#pragma omp parallel num_threads(3)
    {
        int n = omp_get_num_threads();
#pragma omp for schedule(static, 4)
        for (int i = 0; i < N; i++)
            CHECK(omp_get_thread_num() == i / 4 % n, "static,4 goes round");
    }
}

static void ordered(void)
{
    static int order[N];
    int next = 0;
#pragma omp parallel for ordered schedule(dynamic, 3) num_threads(3)
    for (int i = 0; i < N; i++) {
        spin((unsigned long)i, 20);
#pragma omp ordered
        order[next++] = i;
    }
    for (int i = 0; i < N; i++)
        CHECK(order[i] == i, "ordered dynamic");
    next = 0;
#pragma omp parallel num_threads(3)
    {
#pragma omp for ordered schedule(static, 2)
        for (int i = 0; i < N; i++) {
            if (i % 3 == 0) {
#pragma omp ordered
                order[next++] = i;
            }
        }
    }
    CHECK(next == (N + 2) / 3, "ordered in some iterations");
    for (int i = 0; i < next; i++)
        CHECK(order[i] == 3 * i, "ordered static");
    next = 0;
    omp_set_schedule(omp_sched_guided, 2);
#pragma omp parallel for ordered schedule(runtime) num_threads(2)
    for (int i = 0; i < N; i++) {
#pragma omp ordered
        order[next++] = i;
    }
    for (int i = 0; i < N; i++)
        CHECK(order[i] == i, "ordered runtime");
}

/* Iterations that wait for others of the same loop. */
static void doacross(void)
{
    enum { ROWS = 40, COLUMNS = 50 };
    static long grid[ROWS][COLUMNS];
    memset(grid, 0, sizeof grid);
#pragma omp parallel num_threads(3)
    {
#pragma omp for ordered(2) schedule(static, 1)
        for (int i = 1; i < ROWS; i++) {
            for (int j = 1; j < COLUMNS; j++) {
#pragma omp ordered depend(sink : i - 1, j) depend(sink : i, j - 1)
                grid[i][j] = grid[i - 1][j] + grid[i][j - 1] + 1;
#pragma omp ordered depend(source)
            }
        }
    }
    long wrong = 0;
    for (int i = 1; i < ROWS; i++) {
        for (int j = 1; j < COLUMNS; j++)
            wrong += grid[i][j] != grid[i - 1][j] + grid[i][j - 1] + 1;
    }
    CHECK(wrong == 0, "doacross in two dimensions");
    static long line[N];
    line[0] = 1;
#pragma omp parallel for ordered(1) schedule(dynamic) num_threads(2)
    for (int i = 1; i < N; i++) {
#pragma omp ordered depend(sink : i - 1)
        line[i] = line[i - 1] + i;
#pragma omp ordered depend(source)
    }
    CHECK(line[N - 1] == 1 + (long)N * (N - 1) / 2, "doacross in one dimension");
}

static void collapsed(void)
{
    static int cells[11][7][5];
    memset(cells, 0, sizeof cells);
#pragma omp parallel for collapse(3) schedule(dynamic, 3) num_threads(3)
    for (int i = 0; i < 11; i++) {
        for (int j = 6; j >= 0; j--) {
            for (int k = 0; k < 5; k++)
                __atomic_fetch_add(&cells[i][j][k], 1, __ATOMIC_RELAXED);
        }
    }
    int wrong = 0;
    for (int i = 0; i < 11 * 7 * 5; i++)
        wrong += (&cells[0][0][0])[i] != 1;
    CHECK(wrong == 0, "collapse(3)");
}

static void clauses(void)
{
    int last = -1;
    long sum = 0;
    long line = 5;
    /* Monotonic, since LLVM 14 loses the last value if its threads steal iterations. */
#pragma omp parallel for lastprivate(last) reduction(+ : sum) linear(line : 2) schedule(monotonic : dynamic, 10) num_threads(3)
    for (int i = 0; i < N; i++) {
        last = i;
        sum += i;
        CHECK(line == 5 + 2L * i, "linear within the loop");
        line += 2;
    }
    CHECK(last == N - 1, "lastprivate");
    CHECK(sum == (long)N * (N - 1) / 2, "reduction of a loop");
    CHECK(line == 5 + 2L * N, "linear after the loop");
    int private_to_all = 3;
#pragma omp parallel for firstprivate(private_to_all) lastprivate(private_to_all) num_threads(2)
    for (int i = 0; i < 100; i++)
        private_to_all = i + 1000;
    CHECK(private_to_all == 1099, "firstprivate and lastprivate");
}

static void orphan(int from, int to)
{
#pragma omp for schedule(dynamic, 2) nowait
    for (int i = from; i < to; i++)
        HIT(i);
#pragma omp barrier
}

static void nowaits(void)
{
    static int a[N], b[N];
#pragma omp parallel num_threads(3)
    {
        for (int round = 0; round < 20; round++) {
#pragma omp for schedule(dynamic) nowait
            for (int i = 0; i < N; i++)
                __atomic_fetch_add(&a[i], 1, __ATOMIC_RELAXED);
#pragma omp for schedule(guided) nowait
            for (int i = 0; i < N; i++)
                __atomic_fetch_add(&b[i], 1, __ATOMIC_RELAXED);
        }
    }
    for (int i = 0; i < N; i++)
        CHECK(a[i] == 20 && b[i] == 20, "loops that do not wait");
}

static void limits(void)
{
    int runs = 0;
#pragma omp parallel for num_threads(3) reduction(+ : runs)
    for (int i = 5; i < 5; i++)
        runs++;
    CHECK(runs == 0, "an empty loop");
#pragma omp parallel for num_threads(3) reduction(+ : runs) schedule(dynamic)
    for (int i = 10; i > 100; i--)
        runs++;
    CHECK(runs == 0, "an empty dynamic loop");
#pragma omp parallel for num_threads(4) reduction(+ : runs) schedule(dynamic)
    for (int i = 0; i < 2; i++)
        runs++;
    CHECK(runs == 2, "fewer iterations than threads");
    runs = 0;
#pragma omp parallel for num_threads(3) reduction(+ : runs) schedule(dynamic, 2)
    for (long i = LONG_MAX - 100; i < LONG_MAX - 3; i += 7)
        runs++;
    CHECK(runs == 14, "bounds at the end of the type");
    runs = 0;
#pragma omp parallel for num_threads(3) reduction(+ : runs) schedule(guided)
    for (unsigned long long i = ULLONG_MAX - 50; i > ULLONG_MAX - 150; i -= 3)
        runs++;
    CHECK(runs == 34, "unsigned bounds at the end of the type");
}

int main(void)
{
    omp_set_dynamic(0);
    schedules();
    same_division();
    round_robin();
    ordered();
    doacross();
    collapsed();
    clauses();
#pragma omp parallel num_threads(3)
    orphan(0, N);
    check_each_once("an orphaned loop");
    orphan(0, N);
    check_each_once("an orphaned loop outside of regions");
    nowaits();
    limits();
    return finish();
}
