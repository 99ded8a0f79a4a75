/* Critical sections, atomic operations, locks, barriers, flush. */
#include "check.h"
#include <omp.h>

enum { ROUNDS = 2000 };

static void criticals(void)
{
    long a = 0, b = 0;
    int members = 0;
#pragma omp parallel num_threads(3) reduction(+ : members)
    {
        members++;
        for (int i = 0; i < ROUNDS; i++) {
#pragma omp critical
            a++;
#pragma omp critical(named)
            b += 2;
#pragma omp critical(hinted) hint(omp_sync_hint_contended)
            spin(1, 1);
        }
    }
    CHECK(a == (long)members * ROUNDS, "critical");
    CHECK(b == 2L * members * ROUNDS, "critical with a name");
}

static void atomics(void)
{
    long sum = 0, product = 1, captured = 0;
    int bits = 0;
    double real = 0;
    int members = 0;
    static int taken[4 * ROUNDS];
    memset(taken, 0, sizeof taken);
    int ticket = 0;
#pragma omp parallel num_threads(4) reduction(+ : members)
    {
        members++;
        for (int i = 0; i < ROUNDS; i++) {
            long read;
            int mine;
#pragma omp atomic
            sum += 3;
#pragma omp atomic update
            real = real + 0.5;
#pragma omp atomic
            bits ^= 1 << (i % 8);
#pragma omp atomic capture
            mine = ticket++;
#pragma omp atomic read
            read = sum;
            CHECK(read >= 3, "atomic read");
            __atomic_fetch_add(&taken[mine], 1, __ATOMIC_RELAXED);
#pragma omp atomic capture seq_cst
            {
                captured += 2;
                read = captured;
            }
            CHECK(read % 2 == 0, "atomic capture");
        }
#pragma omp atomic
        product *= 2;
    }
    long all = (long)members * ROUNDS;
    CHECK(sum == 3 * all && real == 0.5 * (double)all && captured == 2 * all, "atomic update");
    CHECK(product == 1L << members, "atomic product");
    for (int i = 0; i < ticket; i++)
        CHECK(taken[i] == 1, "each ticket once");
    CHECK(ticket == all, "tickets");
}

static void locks(void)
{
    omp_lock_t lock, hinted;
    omp_nest_lock_t nest;
    omp_init_lock(&lock);
#ifdef __clang__
    omp_init_lock_with_hint(&hinted, omp_sync_hint_uncontended);
#else
    omp_init_lock(&hinted); /* gcc's runtime declares the other function, but has it not */
#endif
    omp_init_nest_lock(&nest);
    long a = 0, b = 0, c = 0;
    int members = 0;
#pragma omp parallel num_threads(3) reduction(+ : members)
    {
        members++;
        for (int i = 0; i < ROUNDS; i++) {
            omp_set_lock(&lock);
            a++;
            omp_unset_lock(&lock);
            while (!omp_test_lock(&hinted))
                ;
            b++;
            omp_unset_lock(&hinted);
            omp_set_nest_lock(&nest);
            int depth = omp_test_nest_lock(&nest);
            CHECK(depth == 2, "depth of a nested lock");
            c++;
            omp_unset_nest_lock(&nest);
            omp_unset_nest_lock(&nest);
        }
    }
    long all = (long)members * ROUNDS;
    CHECK(a == all, "lock");
    CHECK(b == all, "test_lock");
    CHECK(c == all, "nest_lock");
    omp_destroy_lock(&lock);
    omp_destroy_lock(&hinted);
    omp_destroy_nest_lock(&nest);
}

static void barriers(void)
{
    enum { MOST = 16 };
    static int step[MOST];
    memset(step, 0, sizeof step);
#pragma omp parallel num_threads(3)
    {
        int me = omp_get_thread_num();
        int n = omp_get_num_threads();
        for (int i = 1; i <= 500; i++) {
            step[me] = i;
#pragma omp barrier
            for (int k = 0; k < n; k++)
                CHECK(step[k] == i, "all are at the barrier");
#pragma omp barrier
        }
    }
}

/* Two threads hand a ball back and forth: they need each other to run, so it is played only if there are two. */
static void flushes(void)
{
    int ball = 0;
    int played = 0;
#pragma omp parallel num_threads(2) shared(ball)
    {
        int me = omp_get_thread_num();
        if (omp_get_num_threads() == 2) {
            for (int i = 0; i < 200; i++) {
                for (;;) {
                    int now;
#pragma omp atomic read
                    now = ball;
                    if (now == 2 * i + me)
                        break;
#pragma omp taskyield
                }
#pragma omp flush
#pragma omp atomic write
                ball = 2 * i + me + 1;
            }
#pragma omp single
            played = 1;
        }
    }
    CHECK(!played || ball == 400, "flush");
}

int main(void)
{
    omp_set_dynamic(0);
    criticals();
    atomics();
    locks();
    barriers();
    flushes();
    return finish();
}
