/* Tasks that end when somebody else says so: an event that another task or a thread outside of OpenMP fulfils. */
#include "check.h"
#include <omp.h>
#include <pthread.h>
#include <unistd.h>

struct order {
    omp_event_handle_t event;
    int delay_us;
    int *done;
};

static void *foreign(void *argument)
{
    struct order *order = argument;
    usleep((useconds_t)order->delay_us);
    __atomic_store_n(order->done, 1, __ATOMIC_SEQ_CST);
    omp_fulfill_event(order->event);
    return NULL;
}

static void from_threads(void)
{
    enum { N = 12 };
    pthread_t threads[N];
    struct order orders[N];
    int done[N] = {0};
    int after = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        for (int i = 0; i < N; i++) {
            omp_event_handle_t event;
#pragma omp task detach(event) depend(out : done[i]) firstprivate(i) shared(orders, threads, done)
            {
                orders[i] = (struct order){event, 200 * (i % 4), &done[i]};
                pthread_create(&threads[i], NULL, foreign, &orders[i]);
            }
#pragma omp task depend(in : done[i]) firstprivate(i) shared(done, after)
            {
                CHECK(__atomic_load_n(&done[i], __ATOMIC_SEQ_CST) == 1, "a successor waits for the event");
#pragma omp atomic
                after++;
            }
        }
#pragma omp taskwait
        CHECK(after == N, "taskwait waits for events");
    }
    for (int i = 0; i < N; i++)
        pthread_join(threads[i], NULL);
}

static void from_tasks(void)
{
    for (int round = 0; round < 100; round++) {
        int ended = 0;
        int set = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
        {
            omp_event_handle_t event;
#pragma omp taskgroup
            {
#pragma omp task detach(event)
                spin(1, 10);
#pragma omp task shared(set) firstprivate(event)
                {
                    spin(1, 200);
                    __atomic_store_n(&set, 1, __ATOMIC_SEQ_CST);
                    omp_fulfill_event(event);
                }
            }
            ended = set;
        }
        CHECK(ended == 1, "a group waits for an event that a task fulfils");
    }
}

/* The task's body fulfils the event itself, before it ends. */
static void at_once(void)
{
    int ran = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        for (int i = 0; i < 100; i++) {
            omp_event_handle_t event;
#pragma omp task detach(event) shared(ran)
            {
                omp_fulfill_event(event);
#pragma omp atomic
                ran++;
            }
        }
    }
    CHECK(ran == 100, "an event that is fulfilled in the body");
}

/* Nobody waits explicitly: the end of the region does. gcc 12's runtime is not woken then if the event comes from a foreign thread. */
#ifdef __clang__
static void at_the_end(void)
{
    pthread_t thread;
    struct order order;
    int done = 0;
#pragma omp parallel num_threads(2)
#pragma omp single
    {
        omp_event_handle_t event;
#pragma omp task detach(event) shared(order, thread, done)
        {
            order = (struct order){event, 2000, &done};
            pthread_create(&thread, NULL, foreign, &order);
        }
    }
    CHECK(done == 1, "a region's end waits for events");
    pthread_join(thread, NULL);
}
#endif

int main(void)
{
    omp_set_dynamic(0);
    from_threads();
    from_tasks();
    at_once();
#ifdef __clang__
    at_the_end();
#endif
    return finish();
}
