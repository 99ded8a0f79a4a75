/* Cancellation of regions, loops, sections and task groups. It is off unless OMP_CANCELLATION says otherwise when the runtime starts, so the
 * program starts itself again with it; the second time it must be on. */
#include "check.h"
#include <omp.h>
#include <unistd.h>

static void regions(void)
{
    for (int round = 0; round < 10; round++) {
        int after = 0;
#pragma omp parallel num_threads(2)
        {
            if (omp_get_thread_num() == 0) {
#pragma omp cancel parallel
            }
            for (;;) {
#pragma omp cancellation point parallel
                spin(1, 10);
            }
#pragma omp atomic
            after++;
        }
        CHECK(after == 0, "cancel parallel");
    }
    int reached = 0;
#pragma omp parallel num_threads(2)
    {
#pragma omp cancel parallel if (omp_get_thread_num() < 0)
#pragma omp barrier
#pragma omp atomic
        reached++;
    }
    CHECK(reached >= 1, "cancel with a false if");
    reached = 0;
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == 0) {
#pragma omp cancel parallel
        }
#pragma omp barrier
#pragma omp atomic
        reached++;
    }
    CHECK(reached == 0, "a barrier is a cancellation point");
}

static void loops(void)
{
    for (int round = 0; round < 10; round++) {
        int runs = 0;
        int after = 0, members = 0;
#pragma omp parallel num_threads(2)
        {
#pragma omp for schedule(monotonic : dynamic)
            for (int i = 0; i < 20000; i++) {
#pragma omp cancellation point for
#pragma omp atomic
                runs++;
                if (i == 30) {
#pragma omp cancel for
                }
            }
#pragma omp atomic
            members++;
#pragma omp for
            for (int i = 0; i < 100; i++) {
#pragma omp atomic
                after++;
            }
        }
        CHECK(runs >= 1 && runs < 20000, "cancel for");
        CHECK(after == 100, "a loop after a cancelled one");
        CHECK(members >= 1, "the region goes on");
    }
}

static void sections(void)
{
    int later = 0;
#pragma omp parallel num_threads(1)
    {
#pragma omp sections
        {
#pragma omp section
            {
#pragma omp cancel sections
                later++;
            }
#pragma omp section
            later++;
#pragma omp section
            later++;
        }
    }
    CHECK(later == 0, "cancel sections");
}

static void groups(void)
{
    int started = 0;
    int outside = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
#pragma omp task
        {
            spin(1, 10000);
#pragma omp atomic
            outside++;
        }
#pragma omp taskgroup
        {
            for (int i = 0; i < 2000; i++) {
#pragma omp task
                {
#pragma omp atomic
                    started++;
                    if (i == 10) {
#pragma omp cancel taskgroup
                    }
#pragma omp cancellation point taskgroup
                    spin(1, 200);
                }
            }
        }
        CHECK(started >= 1 && started <= 2000, "cancel taskgroup");
        int next = 0;
#pragma omp taskgroup
        {
            for (int i = 0; i < 50; i++) {
#pragma omp task shared(next)
#pragma omp atomic
                next++;
            }
        }
        CHECK(next == 50, "a group after a cancelled one");
    }
    CHECK(outside == 1, "a task outside of the cancelled group");
    int inner = 0;
#pragma omp parallel num_threads(1)
#pragma omp single
#pragma omp taskgroup
    {
#pragma omp task
        {
#pragma omp cancel taskgroup
            inner += 100;
        }
#pragma omp taskwait
        for (int i = 0; i < 20; i++) {
#pragma omp task
            inner++;
        }
    }
    CHECK(inner == 0, "tasks of a group that is cancelled are not started");
}

int main(int argc, char **argv)
{
    if (!omp_get_cancellation()) {
        if (getenv("OMP_CANCELLATION") == NULL) {
            setenv("OMP_CANCELLATION", "true", 1);
            execv("/proc/self/exe", argv);
        }
        CHECK(0, "OMP_CANCELLATION switches cancellation on");
        return finish();
    }
    (void)argc;
    regions();
    loops();
    sections();
    groups();
    return finish();
}
