/* More tasks than memory would hold at once: a loop of `--tasks` tasks, as many with `depend` on addresses of their own, a chain in
 * which each task creates the next, and a recursion that goes deep. What the process takes at most is checked. */
#include "check.h"
#include <omp.h>
#include <sys/resource.h>

static long grown(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

static long links;

static void chain(long left)
{
    if (left > 0) {
#pragma omp task firstprivate(left)
        {
#pragma omp atomic
            links++;
            chain(left - 1);
        }
    }
}

static long deep(int depth)
{
    long below = 0;
    if (depth > 0) {
#pragma omp task shared(below)
        below = deep(depth - 1);
#pragma omp taskwait
    }
    return below + 1;
}

int main(int argc, char **argv)
{
    long tasks = has_flag(argc, argv, "quick") ? 200000 : 10000000;
    long before = grown();
    long sum = 0;
#pragma omp parallel
#pragma omp single
    for (long i = 0; i < tasks; i++) {
#pragma omp task firstprivate(i)
        {
#pragma omp atomic
            sum += i;
        }
    }
    CHECK(sum == tasks * (tasks - 1) / 2, "a loop of tasks");
    static char places[1 << 16];
    sum = 0;
#pragma omp parallel
#pragma omp single
    for (long i = 0; i < tasks; i++) {
        char *place = &places[i * 7 % sizeof places];
#pragma omp task firstprivate(i) depend(inout : place[0])
        {
#pragma omp atomic
            sum += i;
        }
    }
    CHECK(sum == tasks * (tasks - 1) / 2, "a loop of tasks with depend");
    CHECK(grown() - before < 100 * 1024, "memory");
#pragma omp parallel
#pragma omp single
    chain(20000);
    CHECK(links == 20000, "a chain of tasks");
    long depth = 0;
#pragma omp parallel
#pragma omp single
    depth = deep(2000);
    CHECK(depth == 2001, "a deep recursion");
    return finish();
}
