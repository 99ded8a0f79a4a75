/* Threads of the program's own, each with regions and tasks of its own at the same time as the others. */
#include "check.h"
#include <omp.h>
#include <pthread.h>

enum { THREADS = 4, ROUNDS = 30, GUEST = 7 };

/* LLVM 14's runtime crashes if threads with tasks come while a region of another thread runs. */
#ifdef __clang__
#define GUEST_TASKS 0
#else
#define GUEST_TASKS 1
#endif

static int own;
#pragma omp threadprivate(own)

static void *work(void *argument)
{
    long id = (long)argument;
    int size = (int)(1 + id % 3);
    omp_set_num_threads(size);
    own = (int)id;
    for (int round = 0; round < ROUNDS; round++) {
        long sum = 0;
        int done = 0;
        CHECK(omp_get_max_threads() == size, "settings of a thread are its own");
#pragma omp parallel reduction(+ : sum)
        {
#pragma omp master
            CHECK(own == id, "threadprivate of a thread of the program's own");
#pragma omp for schedule(dynamic, 5)
            for (int i = 0; i < 300; i++)
                sum += i * id;
            if (id != GUEST || GUEST_TASKS) {
#pragma omp single
                for (int i = 0; i < 30; i++) {
#pragma omp task shared(done)
#pragma omp atomic
                    done++;
                }
            }
        }
        CHECK(sum == 44850 * id, "a loop beside other threads' loops");
        CHECK(done == (id != GUEST || GUEST_TASKS ? 30 : 0), "tasks beside other threads' tasks");
        CHECK(omp_get_level() == 0, "level of a thread of the program's own");
    }
    return NULL;
}

/* While regions of the main thread run, threads come and go. */
static void come_and_go(void)
{
    for (int round = 0; round < 10; round++) {
        pthread_t thread;
        pthread_create(&thread, NULL, work, (void *)(long)GUEST);
        long sum = 0;
#pragma omp parallel for num_threads(2) reduction(+ : sum)
        for (int i = 0; i < 1000; i++)
            sum += i;
        CHECK(sum == 499500, "the main thread's region");
        pthread_join(thread, NULL);
    }
}

static void *only_tasks(void *argument)
{
    int *done = argument;
    for (int i = 0; i < 100; i++) {
#pragma omp task shared(done)
        *done += 1;
    }
#pragma omp taskwait
    return NULL;
}

int main(void)
{
    omp_set_dynamic(0);
    pthread_t threads[THREADS];
    for (long i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, work, (void *)(i + 1));
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    come_and_go();
    int done = 0;
    pthread_create(&threads[0], NULL, only_tasks, &done);
    pthread_join(threads[0], NULL);
    CHECK(done == 100, "tasks of a thread without regions");
    return finish();
}
