/* Explicit tasks: all run once, with the values that they had when they were made, and waiting waits for what it should. */
#include "check.h"
#include <omp.h>

static void all_once(void)
{
    enum { N = 3000 };
    static int done[N];
    memset(done, 0, sizeof done);
#pragma omp parallel num_threads(3)
#pragma omp single
    for (int i = 0; i < N; i++) {
#pragma omp task firstprivate(i)
        __atomic_fetch_add(&done[i], 1, __ATOMIC_RELAXED);
    }
    for (int i = 0; i < N; i++)
        CHECK(done[i] == 1, "each task once, before the region ends");
    memset(done, 0, sizeof done);
#pragma omp parallel num_threads(3)
    {
#pragma omp for schedule(dynamic)
        for (int i = 0; i < N; i++) {
#pragma omp task firstprivate(i)
            __atomic_fetch_add(&done[i], 1, __ATOMIC_RELAXED);
        }
        /* The barrier of the loop runs all tasks. */
        for (int i = 0; i < N; i += 97)
            CHECK(done[i] == 1, "each task before the barrier opens");
    }
    int outside = 0;
#pragma omp task shared(outside)
    outside++;
#pragma omp taskwait
    CHECK(outside == 1, "a task outside of regions");
}

static long fib(int n)
{
    long a, b;
    if (n < 2)
        return n;
#pragma omp task shared(a)
    a = fib(n - 1);
#pragma omp task shared(b) untied
    b = fib(n - 2);
#pragma omp taskwait
    return a + b;
}

static void recursion(void)
{
    long result = 0;
#pragma omp parallel num_threads(2) /* more on two processors make LLVM's runtime wait for seconds */
#pragma omp single
    result = fib(13);
    CHECK(result == 233, "a recursion");
}

/* taskwait waits for children, taskgroup for all descendants. */
static void waits(void)
{
    for (int round = 0; round < 30; round++) {
        int children = 0, grandchildren = 0;
#pragma omp parallel num_threads(3)
#pragma omp single
        {
            for (int i = 0; i < 20; i++) {
#pragma omp task
                {
#pragma omp task
                    {
                        spin(1, 500);
#pragma omp atomic
                        grandchildren++;
                    }
#pragma omp atomic
                    children++;
                }
            }
#pragma omp taskwait
            CHECK(children == 20, "taskwait waits for children");
#pragma omp taskgroup
            {
                for (int i = 0; i < 20; i++) {
#pragma omp task
                    {
#pragma omp task
                        {
                            spin(1, 500);
#pragma omp atomic
                            grandchildren++;
                        }
#pragma omp atomic
                        children++;
                    }
                }
            }
            int now;
#pragma omp atomic read
            now = grandchildren;
            CHECK(children == 40 && now >= 20, "taskgroup waits for descendants");
        }
        CHECK(grandchildren == 40, "the region waits for all");
    }
}

struct big {
    double values[100];
    char text[30];
};

static void data(void)
{
    struct big big;
    for (int i = 0; i < 100; i++)
        big.values[i] = i;
    strcpy(big.text, "as it was");
    int wrong = 0;
#pragma omp parallel num_threads(3)
#pragma omp single
    {
        for (int i = 0; i < 50; i++) {
            big.values[7] = i;
#pragma omp task firstprivate(big, i) shared(wrong)
            {
                int bad = big.values[7] != i || big.values[99] != 99 || strcmp(big.text, "as it was") != 0;
                big.values[99] = 0;
#pragma omp atomic
                wrong += bad;
            }
        }
        big.values[7] = -1;
    }
    CHECK(wrong == 0, "firstprivate data of tasks");
}

#ifndef __clang__ /* which refuses such a variable */
/* gcc copies a variable of unknown length by a function. */
static void unknown_length(int length)
{
    int variable[length];
    for (int i = 0; i < length; i++)
        variable[i] = i;
    int wrong = 0;
#pragma omp parallel num_threads(3)
#pragma omp single firstprivate(variable)
    for (int i = 0; i < 50; i++) {
        variable[3] = i;
#pragma omp task firstprivate(variable, i) shared(wrong)
        {
            int bad = variable[3] != i || variable[length - 1] != length - 1;
            variable[length - 1] = 0;
#pragma omp atomic
            wrong += bad;
        }
    }
    CHECK(wrong == 0, "firstprivate data of unknown length");
}
#endif

/* LLVM's runtime does not align a task's data beyond its own header. */
#ifdef __clang__
enum { ALIGNMENT = 8 };
#else
enum { ALIGNMENT = 128 };
#endif

struct wide {
    _Alignas(ALIGNMENT) double values[32];
};

static void alignment(void)
{
    struct wide wide = {{0}};
    int wrong = 0;
#pragma omp parallel num_threads(3)
#pragma omp single
    for (int i = 0; i < 100; i++) {
        wide.values[31] = i;
#pragma omp task firstprivate(wide, i) shared(wrong)
        {
            int bad = (size_t)&wide % ALIGNMENT != 0 || wide.values[31] != i;
#pragma omp atomic
            wrong += bad;
        }
    }
    CHECK(wrong == 0, "alignment of a task's data");
}

static void undeferred(void)
{
    int at_once = 1;
    int in_final = 1;
#pragma omp parallel num_threads(3)
#pragma omp single
    {
        int me = omp_get_thread_num();
        for (int i = 0; i < 50; i++) {
            int ran = 0;
#pragma omp task if (0) shared(ran, at_once)
            {
                ran = 1;
                if (omp_get_thread_num() != me)
                    at_once = 0;
            }
            if (!ran)
                at_once = 0;
            int depth = 0;
#pragma omp task final(1) shared(depth, in_final)
            {
                if (!omp_in_final())
                    in_final = 0;
                int inner = 0;
#pragma omp task shared(inner, in_final)
                {
                    if (!omp_in_final())
                        in_final = 0;
#pragma omp task mergeable shared(inner)
                    inner++;
                    inner++;
                }
                if (inner != 2) /* tasks of a final task run at once */
                    in_final = 0;
                depth = 1;
            }
#pragma omp taskwait
            if (depth != 1 || omp_in_final())
                in_final = 0;
        }
    }
    CHECK(at_once, "a task with if(0) runs at once, on its thread");
    CHECK(in_final, "final tasks");
}

static void add_in_critical(long *sum)
{
#pragma omp critical
    ++*sum;
}

/* Tasks that are created in a critical section, or under a lock, that they want, too: none may run at its creation. */
static void created_under_locks(void)
{
    long sum = 0, in_critical = 0;
    omp_lock_t lock;
    omp_nest_lock_t nest;
    omp_init_lock(&lock);
    omp_init_nest_lock(&nest);
#pragma omp parallel num_threads(2)
#pragma omp single
    for (int i = 0; i < 4; i++) {
#pragma omp task shared(sum, in_critical, lock, nest) firstprivate(i)
        {
            if (i == 0)
                omp_set_lock(&lock);
            else if (i == 1)
                omp_test_nest_lock(&nest);
            else if (i == 2)
                while (!omp_test_lock(&lock))
                    ;
            if (i < 3) {
                for (int j = 0; j < 12; j++) {
#pragma omp task shared(sum, lock, nest) firstprivate(i)
                    {
                        if (i == 1)
                            omp_set_nest_lock(&nest);
                        else
                            omp_set_lock(&lock);
#pragma omp atomic
                        sum++;
                        if (i == 1)
                            omp_unset_nest_lock(&nest);
                        else
                            omp_unset_lock(&lock);
                    }
                }
            }
            if (i == 1)
                omp_unset_nest_lock(&nest);
            else if (i < 3)
                omp_unset_lock(&lock);
            if (i == 3) {
#pragma omp critical
                for (int j = 0; j < 12; j++) {
#pragma omp task shared(in_critical)
                    add_in_critical(&in_critical);
                }
            }
        }
    }
    omp_destroy_lock(&lock);
    omp_destroy_nest_lock(&nest);
    CHECK(sum == 36 && in_critical == 12, "tasks that are created under the lock that they want");
}

#ifndef __clang__
/* Nest locks belong to tasks in libgomp, to threads in LLVM's runtime, which may serve a program of gcc, too. */
static void locks_of_tasks(void)
{
    extern int kmp_get_blocktime(void) __attribute__((weak));
    int others = kmp_get_blocktime ? 1 : 0;
    int wrong = 0;
    omp_nest_lock_t lock;
    omp_init_nest_lock(&lock);
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        wrong += omp_test_nest_lock(&lock) != 1;
        wrong += omp_test_nest_lock(&lock) != 2;
#pragma omp task if (0) shared(lock, wrong)
        {
            int times = omp_test_nest_lock(&lock);
            wrong += (times != 0) != others;
            if (times)
                omp_unset_nest_lock(&lock);
        }
        omp_set_nest_lock(&lock);
        wrong += omp_test_nest_lock(&lock) != 4;
        for (int i = 0; i < 4; i++)
            omp_unset_nest_lock(&lock);
#pragma omp task if (0) shared(lock, wrong)
        {
            wrong += omp_test_nest_lock(&lock) != 1;
            omp_unset_nest_lock(&lock);
        }
    }
    omp_destroy_nest_lock(&lock);
    CHECK(wrong == 0, "nest locks in tasks");
}
#endif

static void priorities(void)
{
    int sum = 0;
#pragma omp parallel num_threads(3)
#pragma omp single
    for (int i = 0; i < 200; i++) {
#pragma omp task priority(i % 7) shared(sum)
#pragma omp atomic
        sum += i;
    }
    CHECK(sum == 19900, "tasks with priority");
    CHECK(omp_get_max_task_priority() >= 0, "omp_get_max_task_priority");
}

/* A tied task goes on on the thread where it began, whatever it waits for. */
static void tied(void)
{
    int wrong = 0;
#pragma omp parallel num_threads(3)
#pragma omp single
    for (int i = 0; i < 100; i++) {
#pragma omp task shared(wrong)
        {
            int before = omp_get_thread_num();
            for (int k = 0; k < 5; k++) {
#pragma omp task
                spin(1, 100);
#pragma omp taskyield
                if (omp_get_thread_num() != before) {
#pragma omp atomic
                    wrong++;
                }
            }
#pragma omp taskwait
            if (omp_get_thread_num() != before) {
#pragma omp atomic
                wrong++;
            }
        }
    }
    CHECK(wrong == 0, "tied tasks stay on their thread");
}

static void untied(void)
{
    int sum = 0;
#pragma omp parallel num_threads(3)
#pragma omp single
    for (int i = 0; i < 100; i++) {
#pragma omp task untied firstprivate(i) shared(sum)
        {
            int mine = i;
            int from_child = 0;
#pragma omp task shared(from_child)
            from_child = mine + 1;
#pragma omp taskyield
#pragma omp taskwait
            mine += from_child;
#pragma omp atomic
            sum += mine - 2 * i;
        }
    }
    CHECK(sum == 100, "untied tasks keep their variables");
}

/* Regions within tasks, and tasks within those. */
static void nested(int levels)
{
    omp_set_max_active_levels(levels);
    int sum = 0, members = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    for (int i = 0; i < 10; i++) {
#pragma omp task shared(sum, members)
        {
            int inside = 0;
#pragma omp parallel num_threads(2) shared(inside)
            {
#pragma omp atomic
                members++;
#pragma omp single
                for (int k = 0; k < 10; k++) {
#pragma omp task shared(inside)
#pragma omp atomic
                    inside++;
                }
            }
            CHECK(inside == 10, "tasks of a region within a task");
#pragma omp atomic
            sum += inside;
        }
    }
    CHECK(sum == 100 && members >= 10 && members <= 20, "regions within tasks");
    omp_set_max_active_levels(1);
}

/* Settings of a task are its own. */
static void settings(void)
{
    omp_set_num_threads(3);
    int wrong = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        for (int i = 0; i < 20; i++) {
#pragma omp task shared(wrong)
            {
                omp_set_num_threads(5);
                if (omp_get_max_threads() != 5) {
#pragma omp atomic
                    wrong++;
                }
            }
        }
#pragma omp taskwait
#pragma omp task if (0) shared(wrong)
        {
            omp_set_num_threads(4);
            omp_set_schedule(omp_sched_dynamic, 7);
        }
        omp_sched_t kind;
        int chunk;
        omp_get_schedule(&kind, &chunk);
        wrong += omp_get_max_threads() != 3 || chunk == 7;
    }
    CHECK(wrong == 0, "omp_set_num_threads within a task");
    CHECK(omp_get_max_threads() == 3, "settings of a task do not reach the program");
}

/* A thread that is not the creator's may have to run the tasks: the creator only waits at the region's end. */
static void creator_waits(void)
{
    int done = 0;
#pragma omp parallel num_threads(2)
    {
        if (omp_get_thread_num() == omp_get_num_threads() - 1) {
            for (int i = 0; i < 500; i++) {
#pragma omp task
#pragma omp atomic
                done++;
            }
        }
#pragma omp barrier
        CHECK(done == 500, "a barrier runs the tasks of all threads");
#pragma omp barrier
#pragma omp task
#pragma omp atomic
        done++;
    }
    CHECK(done > 500, "tasks after the last barrier");
}

int main(void)
{
    omp_set_dynamic(0);
    all_once();
    recursion();
    waits();
    data();
#ifndef __clang__
    unknown_length(17);
#endif
    alignment();
    undeferred();
    created_under_locks();
#ifndef __clang__
    locks_of_tasks();
#endif
    priorities();
    tied();
    untied();
    nested(1);
    nested(2);
    settings();
    creator_waits();
    return finish();
}
