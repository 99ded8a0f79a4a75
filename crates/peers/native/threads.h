/* What lower limits made by hand share: threads, and counts that they wait for. */
#ifndef PEERS_THREADS_H
#define PEERS_THREADS_H

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>

/* A count on a cache line of its own. */
struct progress {
    _Alignas(128) atomic_size_t count;
};

/* Returns `number` counts of 0, to be freed with `free`. */
static inline struct progress *progress_new(size_t number) {
    struct progress *all = aligned_alloc(128, sizeof *all * number);
    for (size_t at = 0; at < number; at++)
        atomic_init(&all[at].count, 0);
    return all;
}

/* Spins until the count is at least `least`, and returns it. */
static inline size_t progress_wait(struct progress *progress, size_t least) {
    for (int spins = 0;; spins++) {
        const size_t count = atomic_load_explicit(&progress->count, memory_order_acquire);
        if (count >= least)
            return count;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        if (spins % 1024 == 1023)
            sched_yield();
    }
}

static inline void progress_set(struct progress *progress, size_t count) {
    atomic_store_explicit(&progress->count, count, memory_order_release);
}

struct thread {
    void (*work)(void *context, uint32_t thread);
    void *context;
    uint32_t at;
    pthread_t id;
};

static inline void *thread_main(void *argument) {
    const struct thread *thread = argument;
    thread->work(thread->context, thread->at);
    return NULL;
}

/* Calls `work` on `number` threads, of which the caller is the first, and returns when all have ended. */
static inline void on_threads(uint32_t number, void (*work)(void *context, uint32_t thread), void *context) {
    struct thread *threads = calloc(number, sizeof *threads);
    for (uint32_t at = 0; at < number; at++) {
        threads[at] = (struct thread){.work = work, .context = context, .at = at};
        if (at > 0 && pthread_create(&threads[at].id, NULL, thread_main, &threads[at]) != 0)
            abort();
    }
    thread_main(&threads[0]);
    for (uint32_t at = 1; at < number; at++)
        pthread_join(threads[at].id, NULL);
    free(threads);
}

#endif
