/* Parallel regions: who is in the team, and what the team is told about itself. */
#include "check.h"
#include <omp.h>

enum { MOST = 64 };

static int exact;

/* Checks that the members of the team that runs this have the numbers from 0 on, each once. */
static void check_team(int asked, const char *what)
{
    static int seen[MOST];
    static int size;
    int n = omp_get_num_threads();
    int me = omp_get_thread_num();
    CHECK(n >= 1 && n <= asked, what);
    CHECK(me >= 0 && me < n, what);
    if (exact)
        CHECK(n == asked, what);
#pragma omp single
    {
        size = n;
        memset(seen, 0, sizeof seen);
    }
    CHECK(size == n, what);
#pragma omp atomic
    seen[me]++;
#pragma omp barrier
    for (int i = 0; i < n; i++)
        CHECK(seen[i] == 1, what);
#pragma omp barrier
}

static void sizes(void)
{
    for (int asked = 1; asked <= 9; asked++) {
#pragma omp parallel num_threads(asked)
        check_team(asked, "num_threads clause");
    }
    for (int asked = 1; asked <= 9; asked += 2) {
        omp_set_num_threads(asked);
        CHECK(omp_get_max_threads() == asked, "omp_set_num_threads is what omp_get_max_threads returns");
#pragma omp parallel
        check_team(asked, "omp_set_num_threads");
        CHECK(omp_get_max_threads() == asked, "a region leaves omp_get_max_threads as it is");
    }
    omp_set_num_threads(4);
    int kept = omp_get_max_threads();
    for (int round = 0; round < 200; round++) {
        int asked = 1 + round % 5;
        int members = 0;
#pragma omp parallel num_threads(asked) reduction(+ : members)
        {
            members++;
            CHECK(omp_get_max_threads() == kept, "omp_get_max_threads within a region with a clause");
        }
        CHECK(members >= 1 && members <= asked, "a team that changes from region to region");
        if (exact)
            CHECK(members == asked, "a team that changes from region to region has the size asked for");
    }
}

/* Programs size arrays by omp_get_max_threads and index them by the thread's number. */
static void arrays_by_max_threads(void)
{
    omp_set_num_threads(6);
    for (int round = 0; round < 50; round++) {
        int n = omp_get_max_threads();
        CHECK(n == 6, "omp_get_max_threads stays");
        long *sums = calloc((size_t)n, sizeof *sums);
        int outside = 0;
#pragma omp parallel
        {
            int me = omp_get_thread_num();
            if (me >= n) {
#pragma omp atomic
                outside++;
            } else {
#pragma omp for
                for (int i = 0; i < 1000; i++)
                    sums[me] += i;
            }
        }
        long sum = 0;
        for (int i = 0; i < n; i++)
            sum += sums[i];
        CHECK(outside == 0, "a thread number is below omp_get_max_threads");
        CHECK(sum == 499500, "sums by thread number");
        free(sums);
    }
}

/* A program that divides the work by hand. */
static void own_division(void)
{
    enum { N = 10000 };
    static int done[N];
    memset(done, 0, sizeof done);
#pragma omp parallel num_threads(5)
    {
        int n = omp_get_num_threads();
        int me = omp_get_thread_num();
        for (int i = N * me / n; i < N * (me + 1) / n; i++)
            done[i]++;
    }
    for (int i = 0; i < N; i++)
        CHECK(done[i] == 1, "work divided by thread number and team size");
}

static void if_clause(void)
{
    for (int on = 0; on < 2; on++) {
        int members = 0;
        int parallel = -1;
#pragma omp parallel if (on) num_threads(3) reduction(+ : members)
        {
            members++;
#pragma omp master
            parallel = omp_in_parallel();
        }
        CHECK(on || members == 1, "if(0) runs on one thread");
        CHECK(on || parallel == 0, "if(0) is no active region");
        CHECK(members <= 3, "if(1)");
    }
    CHECK(!omp_in_parallel(), "outside of regions");
}

static void nested(int levels)
{
    omp_set_max_active_levels(levels);
    CHECK(omp_get_max_active_levels() == levels, "omp_set_max_active_levels");
    int inner = 0;
    int outer = 0;
#pragma omp parallel num_threads(2)
    {
#pragma omp atomic
        outer++;
        int me = omp_get_thread_num();
        CHECK(omp_get_level() == 1, "level of the outer region");
#pragma omp parallel num_threads(3)
        {
#pragma omp atomic
            inner++;
            CHECK(omp_get_level() == 2, "level of the inner region");
            CHECK(omp_get_ancestor_thread_num(1) == me, "number of the ancestor");
            CHECK(omp_get_ancestor_thread_num(0) == 0, "number of the first ancestor");
            CHECK(omp_get_team_size(2) == omp_get_num_threads(), "size of the inner team");
            CHECK(omp_get_thread_num() < omp_get_num_threads(), "number in the inner team");
            if (levels == 1)
                CHECK(omp_get_num_threads() == 1, "no nested team beyond max_active_levels");
        }
        CHECK(omp_get_thread_num() == me, "number after an inner region");
        CHECK(omp_get_level() == 1, "level after an inner region");
    }
    CHECK(inner >= outer && inner <= 3 * outer, "members of inner teams");
    CHECK(omp_get_level() == 0, "level outside");
    omp_set_max_active_levels(1);
}

static void dynamic_and_limit(void)
{
    omp_set_dynamic(1);
    CHECK(omp_get_dynamic() != 0, "omp_set_dynamic(1)");
    int members = 0;
#pragma omp parallel num_threads(8) reduction(+ : members)
    members++;
    CHECK(members >= 1 && members <= 8, "a dynamic team");
    omp_set_dynamic(0);
    CHECK(omp_get_dynamic() == 0, "omp_set_dynamic(0)");
    CHECK(omp_get_thread_limit() >= 1, "omp_get_thread_limit");
    CHECK(omp_get_num_procs() >= 1, "omp_get_num_procs");
}

static void bound(void)
{
    int members = 0;
#pragma omp parallel num_threads(4) proc_bind(close) reduction(+ : members)
    members++;
    CHECK(members >= 1 && members <= 4, "proc_bind(close)");
    members = 0;
#pragma omp parallel num_threads(4) proc_bind(spread) reduction(+ : members)
    members++;
    CHECK(members >= 1 && members <= 4, "proc_bind(spread)");
#pragma omp parallel num_threads(2)
    CHECK(omp_get_proc_bind() >= 0, "omp_get_proc_bind");
}

/* More shared variables than processors have registers, of several kinds: they reach the region by different ways. */
static void many_variables(void)
{
    int a = 1, b = 2, c = 3, d = 4, e = 5, f = 6, g = 7, h = 8, i = 9, j = 10;
    double k = 0.5, l = 1.5, m = 2.5;
    float n = 0.25f;
    char o = 'o';
    long p = 1L << 40;
    struct { double x, y, z; } q = {1, 2, 3};
    int array[20];
    int size = 1 + a;
    int variable[size * 10];
    for (int x = 0; x < 20; x++)
        array[x] = variable[x] = x;
    int bad = 0;
#pragma omp parallel num_threads(4) firstprivate(k, l, n, o, p, q, array, a) shared(b, c, d, e, f, g, h, i, j, m, variable) reduction(+ : bad)
    {
        bad += a + b + c + d + e + f + g + h + i + j != 55;
        bad += k + l + m + n != 4.75 || o != 'o' || p != 1L << 40 || q.x + q.y + q.z != 6;
        for (int x = 0; x < 20; x++)
            bad += array[x] != x || variable[x] != x;
        k = l = 0;
        array[3] = 77;
    }
    CHECK(bad == 0, "values of many variables");
    CHECK(k == 0.5 && l == 1.5 && array[3] == 3, "firstprivate copies stay private");
}

/* The same region at different depths of the stack, from a recursion. */
static long recursive(int depth)
{
    long sum = 0;
#pragma omp parallel num_threads(2) reduction(+ : sum)
    {
#pragma omp single
        sum += depth;
    }
    return depth == 0 ? sum : sum + recursive(depth - 1);
}

int main(int argc, char **argv)
{
    exact = has_flag(argc, argv, "exact");
    omp_set_dynamic(0);
    sizes();
    arrays_by_max_threads();
    own_division();
    if_clause();
    nested(1);
    nested(2);
    dynamic_and_limit();
    bound();
    many_variables();
    CHECK(recursive(20) == 210, "regions of a recursion");
    return finish();
}
