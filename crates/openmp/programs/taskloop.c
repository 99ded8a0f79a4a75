/* Loops of tasks. */
#include "check.h"
#include <omp.h>

enum { N = 1000 };

static int count[N];

static void check_each_once(const char *what)
{
    for (int i = 0; i < N; i++)
        CHECK(count[i] == 1, what);
    memset(count, 0, sizeof count);
}

#define HIT(i) __atomic_fetch_add(&count[i], 1, __ATOMIC_RELAXED)


static void once(void)
{
#pragma omp parallel num_threads(3)
#pragma omp single
#pragma omp taskloop
    for (int i = 0; i < N; i++)
        HIT(i);
    check_each_once("taskloop");
#pragma omp parallel num_threads(3)
#pragma omp single
#pragma omp taskloop untied priority(2)
    for (unsigned long long i = 0; i < N; i++)
        HIT(i);
    check_each_once("taskloop, unsigned");
#pragma omp parallel num_threads(3)
#pragma omp single
#pragma omp taskloop
    for (int i = N - 1; i >= 0; i -= 1)
        HIT(i);
    check_each_once("taskloop, downwards");
#pragma omp parallel num_threads(3)
    {
#pragma omp master taskloop
        for (int i = 0; i < N; i++)
            HIT(i);
    }
    check_each_once("master taskloop");
#pragma omp parallel master taskloop num_threads(3) if (0)
    for (int i = 0; i < N; i++)
        HIT(i);
    check_each_once("parallel master taskloop with if(0)");
#pragma omp parallel num_threads(3)
#pragma omp single
    {
#pragma omp taskloop final(1)
        for (int i = 0; i < N; i++)
            HIT(i);
        check_each_once("taskloop waits for its tasks");
#pragma omp taskloop
        for (int i = 10; i < 10; i++)
            HIT(i);
    }
}

/* Numbers the pieces by their first iterations: a task runs its iterations in order. */
static void pieces(void)
{
    static int piece[N];
    int first[N];
    for (int grain = 1; grain <= 300; grain = 3 * grain + 1) {
#pragma omp parallel num_threads(3)
#pragma omp single
        {
            int fresh = 1;
            (void)fresh;
#pragma omp taskloop grainsize(grain) firstprivate(fresh) shared(first)
            for (int i = 0; i < N; i++) {
                first[i] = fresh;
                fresh = 0;
                HIT(i);
            }
        }
        check_each_once("grainsize");
        int length = 0;
        for (int i = 0; i < N; i++)
            piece[i] = 0;
        int at = -1;
        for (int i = 0; i < N; i++) {
            if (first[i])
                at++;
            piece[at]++;
        }
        for (int p = 0; p <= at; p++) {
            length = piece[p];
            CHECK(length >= grain || at == 0, "grainsize is the least");
            CHECK(length < 2 * grain, "twice the grainsize is too much");
        }
    }
    for (int tasks = 1; tasks <= 64; tasks = 2 * tasks + 1) {
        int made = 0;
#pragma omp parallel num_threads(3)
#pragma omp single
        {
            int fresh = 1;
            (void)fresh;
#pragma omp taskloop num_tasks(tasks) firstprivate(fresh)
            for (int i = 0; i < N; i++) {
                HIT(i);
                if (fresh) {
#pragma omp atomic
                    made++;
                }
                fresh = 0;
            }
        }
        check_each_once("num_tasks");
        CHECK(made == tasks, "num_tasks");
    }
#if !defined(__clang__) && __GNUC__ >= 12
    int made = 0;
#pragma omp parallel num_threads(3)
#pragma omp single
    {
        int fresh = 1;
#pragma omp taskloop grainsize(strict : 300) firstprivate(fresh)
        for (int i = 0; i < N; i++) {
            HIT(i);
            if (fresh || i % 300 == 0) {
#pragma omp atomic
                made++;
            }
            fresh = 0;
        }
    }
    check_each_once("strict grainsize");
    CHECK(made == 4, "strict grainsize");
#endif
}

static void clauses(void)
{
    int last = -1;
    long sum = 5;
    int base = 100;
#pragma omp parallel num_threads(3)
#pragma omp single
    {
#pragma omp taskloop lastprivate(last) firstprivate(base) num_tasks(13)
        for (int i = 0; i < N; i++) {
            last = base + i;
            HIT(i);
        }
        CHECK(last == base + N - 1, "lastprivate");
#pragma omp taskloop reduction(+ : sum) num_tasks(11)
        for (int i = 0; i < N; i++)
            sum += i;
        CHECK(sum == 5 + 499500, "reduction");
#pragma omp taskgroup task_reduction(+ : sum)
        {
#pragma omp taskloop in_reduction(+ : sum) grainsize(50)
            for (int i = 0; i < N; i++)
                sum += 1;
#pragma omp task in_reduction(+ : sum)
            sum += 1000000;
        }
        CHECK(sum == 5 + 499500 + N + 1000000, "in_reduction");
    }
    check_each_once("lastprivate");
    static int cells[20][30];
#pragma omp parallel num_threads(3)
#pragma omp single
#pragma omp taskloop collapse(2) grainsize(7)
    for (int i = 0; i < 20; i++) {
        for (int j = 29; j >= 0; j--)
            __atomic_fetch_add(&cells[i][j], 1, __ATOMIC_RELAXED);
    }
    int wrong = 0;
    for (int i = 0; i < 20 * 30; i++)
        wrong += (&cells[0][0])[i] != 1;
    CHECK(wrong == 0, "collapse");
}

static void no_group(void)
{
    for (int round = 0; round < 20; round++) {
        int done = 0;
#pragma omp parallel num_threads(3)
#pragma omp single
        {
#pragma omp taskgroup
            {
#pragma omp taskloop nogroup num_tasks(20)
                for (int i = 0; i < N; i++) {
                    HIT(i);
#pragma omp task
#pragma omp atomic
                    done++;
                }
            }
            CHECK(done == N, "a group around a loop with nogroup");
#pragma omp taskloop num_tasks(9)
            for (int i = 0; i < 90; i++) {
#pragma omp task
#pragma omp atomic
                done++;
            }
            CHECK(done == N + 90, "a taskloop waits for descendants");
        }
        check_each_once("nogroup");
    }
}

int main(void)
{
    omp_set_dynamic(0);
    once();
    pieces();
    clauses();
    no_group();
    return finish();
}
