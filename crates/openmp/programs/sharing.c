/* Sections, single, master, masked, threadprivate. */
#include "check.h"
#include <omp.h>

static void sections(void)
{
    for (int round = 0; round < 20; round++) {
        int done[5] = {0};
        int last = 0;
#pragma omp parallel num_threads(3)
        {
#pragma omp sections lastprivate(last)
            {
#pragma omp section
                {
                    __atomic_fetch_add(&done[0], 1, __ATOMIC_RELAXED);
                    last = 1;
                }
#pragma omp section
                {
                    __atomic_fetch_add(&done[1], 1, __ATOMIC_RELAXED);
                    last = 2;
                }
#pragma omp section
                {
                    __atomic_fetch_add(&done[2], 1, __ATOMIC_RELAXED);
                    last = 3;
                }
            }
#pragma omp sections nowait
            {
#pragma omp section
                __atomic_fetch_add(&done[3], 1, __ATOMIC_RELAXED);
            }
        }
#pragma omp parallel sections num_threads(2) reduction(+ : last)
        {
            last += 10;
#pragma omp section
            __atomic_fetch_add(&done[4], 1, __ATOMIC_RELAXED);
#pragma omp section
            last += 100;
        }
        for (int i = 0; i < 5; i++)
            CHECK(done[i] == 1, "each section once");
        CHECK(last == 113, "lastprivate of sections and reduction of parallel sections");
    }
}

static void singles(void)
{
    int once = 0;
    int value = -1;
#pragma omp parallel num_threads(4) firstprivate(value)
    {
        for (int round = 0; round < 100; round++) {
#pragma omp single nowait
#pragma omp atomic
            once++;
#pragma omp single copyprivate(value)
            value = 7 * round;
            CHECK(value == 7 * round, "copyprivate reaches every thread");
        }
#pragma omp single
        {
            once += 1000;
        }
        CHECK(once == 1100, "single waits at its end");
    }
    CHECK(once == 1100, "each single once");
}

static void masters(void)
{
    int times = 0;
    int who = -1;
    int masked = 0;
#pragma omp parallel num_threads(4)
    {
#pragma omp master
        {
            times++;
            who = omp_get_thread_num();
        }
#if _OPENMP >= 202011 || defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12
#pragma omp masked filter(omp_get_num_threads() - 1)
        {
            CHECK(omp_get_thread_num() == omp_get_num_threads() - 1, "masked by the last thread");
            masked++;
        }
#else
#pragma omp master
        masked++;
#endif
    }
    CHECK(times == 1 && who == 0, "master");
    CHECK(masked == 1, "masked");
}

static int own = 40;
static int own_array[3] = {1, 2, 3};
#pragma omp threadprivate(own, own_array)

/* Values of threads stay between regions of equal size. An adapter may change the size, but thread 0 is always there. */
static void threadprivates(void)
{
    own = 17;
    own_array[1] = 170;
    int members = 0;
#pragma omp parallel num_threads(3) copyin(own, own_array) reduction(+ : members)
    {
        members++;
        CHECK(own == 17 && own_array[1] == 170, "copyin");
        own += omp_get_thread_num();
    }
    for (int round = 0; round < 20; round++) {
        int again = 0;
#pragma omp parallel num_threads(3) reduction(+ : again)
        {
            again++;
            if (omp_get_num_threads() == members)
                CHECK(own == 17 + round + omp_get_thread_num(), "threadprivate stays between regions");
        }
        if (again != members)
            return;
#pragma omp parallel num_threads(3)
        own++;
    }
    CHECK(own == 37, "threadprivate of the first thread");
}

/* Values of a thread outside of regions are those of thread 0 in them. */
static void first_thread(void)
{
    for (int round = 0; round < 50; round++) {
        own = round;
#pragma omp parallel num_threads(1 + round % 4)
        {
#pragma omp master
            {
                CHECK(own == round, "the first thread's value");
                own = -round;
            }
        }
        CHECK(own == -round, "the first thread's value afterwards");
    }
}

int main(void)
{
    omp_set_dynamic(0);
    sections();
    singles();
    masters();
    threadprivates();
    first_thread();
    return finish();
}
