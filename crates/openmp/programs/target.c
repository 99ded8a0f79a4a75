/* Target regions and leagues of teams, without a device: they run on the host. */
#include "check.h"
#include <omp.h>

enum { N = 1000 };

static void targets(void)
{
    static int a[N], b[N];
    for (int i = 0; i < N; i++)
        a[i] = i;
    int host = 0;
    long sum = 0;
#pragma omp target map(to : a) map(from : b, host)
    {
        host = omp_is_initial_device();
        for (int i = 0; i < N; i++)
            b[i] = 2 * a[i];
    }
    CHECK(host, "a target region runs on the host");
#pragma omp target teams distribute parallel for map(to : b) map(tofrom : sum) reduction(+ : sum)
    for (int i = 0; i < N; i++)
        sum += b[i];
    CHECK(sum == 999000, "target teams distribute parallel for");
#pragma omp target data map(tofrom : a)
    {
#pragma omp target
        for (int i = 0; i < N; i++)
            a[i]++;
    }
    CHECK(a[N - 1] == N, "target data");
}

#ifndef __clang__ /* LLVM 14's runtime waits for ever for a target task with depend */
static void deferred(void)
{
    static int a[N];
    int x = 0, after = 0;
    (void)x;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task depend(out : x) shared(x)
        {
            spin(1, 2000);
            x = 5;
        }
#pragma omp target map(tofrom : a, x) depend(inout : x) nowait
        {
            for (int i = 0; i < N; i++)
                a[i] = x;
            x = 6;
        }
#pragma omp task depend(in : x) shared(x, after)
        after = x;
#pragma omp taskwait
    }
    CHECK(a[0] == 5 && a[N - 1] == 5, "a target task after a task");
    CHECK(after == 6, "a task after a target task");
}
#endif

static void leagues(void)
{
    long sum = 0;
    int teams = 0;
#pragma omp teams num_teams(2) thread_limit(2) reduction(+ : sum, teams)
    {
        teams++;
        long own = 0;
#pragma omp parallel reduction(+ : own)
        own++;
        sum += own > 0 && own <= 2;
    }
    CHECK(teams >= 1 && teams <= 2 && sum == teams, "teams on the host");
    long all = 0;
#pragma omp teams distribute parallel for num_teams(2) reduction(+ : all)
    for (int i = 0; i < N; i++)
        all += i;
    CHECK(all == 499500, "teams distribute parallel for");
}

int main(void)
{
    omp_set_dynamic(0);
    targets();
#ifndef __clang__
    deferred();
#endif
    leagues();
    return finish();
}
