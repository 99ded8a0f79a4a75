/* Dependences between tasks. */
#include "check.h"
#include <omp.h>

/* A pipeline: the order in which the kinds of dependences let tasks run shows in the values. */
static void chain(void)
{
    for (int round = 0; round < 50; round++) {
        int x = 0;
        int seen[6] = {0};
        int together = 0;
#pragma omp parallel num_threads(3)
#pragma omp single
        {
#pragma omp task depend(out : x) shared(x)
            {
                spin(1, 2000);
                x = 1;
            }
            for (int i = 0; i < 6; i++) {
#pragma omp task depend(in : x) shared(x, seen)
                seen[i] = x;
            }
#pragma omp task depend(inout : x) shared(x, together)
            {
                for (int i = 0; i < 6; i++)
                    together += seen[i];
                x = 2;
            }
#pragma omp task depend(in : x) shared(x)
            CHECK(x == 2, "in after inout");
#pragma omp task depend(out : x) shared(x)
            x = 3;
        }
        CHECK(together == 6, "inout after all in");
        CHECK(x == 3, "out after in");
    }
}

/* Tasks of a random graph write down when they run; the plain order of creation says who has to wait for whom. */
static void random_graph(void)
{
    enum { TASKS = 600, PLACES = 12 };
    static int kind[TASKS][3], place[TASKS][3];
    static int begin[TASKS], end[TASKS];
    char places[PLACES];
    for (unsigned long seed = 1; seed <= 12; seed++) {
        unsigned long x = seed * 7919;
        int clock = 0;
        for (int t = 0; t < TASKS; t++) {
            for (int d = 0; d < 3; d++) {
                x = spin(x, 1);
                place[t][d] = (int)(x >> 33) % PLACES;
                kind[t][d] = (x >> 20) % 3 == 0;
            }
        }
#pragma omp parallel num_threads(3)
#pragma omp single
        for (int t = 0; t < TASKS; t++) {
            char *a = &places[place[t][0]], *b = &places[place[t][1]];
            (void)a, (void)b; /* compilers see no use in a clause */
            switch (2 * kind[t][0] + kind[t][1]) {
            case 0:
#pragma omp task depend(in : a[0], b[0]) firstprivate(t) shared(clock)
            {
                begin[t] = __atomic_add_fetch(&clock, 1, __ATOMIC_SEQ_CST);
                spin(1, 30);
                end[t] = __atomic_add_fetch(&clock, 1, __ATOMIC_SEQ_CST);
            } break;
            case 1:
#pragma omp task depend(in : a[0]) depend(out : b[0]) firstprivate(t) shared(clock)
            {
                begin[t] = __atomic_add_fetch(&clock, 1, __ATOMIC_SEQ_CST);
                spin(1, 30);
                end[t] = __atomic_add_fetch(&clock, 1, __ATOMIC_SEQ_CST);
            } break;
            case 2:
#pragma omp task depend(inout : a[0]) depend(in : b[0]) firstprivate(t) shared(clock)
            {
                begin[t] = __atomic_add_fetch(&clock, 1, __ATOMIC_SEQ_CST);
                spin(1, 30);
                end[t] = __atomic_add_fetch(&clock, 1, __ATOMIC_SEQ_CST);
            } break;
            case 3:
#pragma omp task depend(inout : a[0], b[0]) firstprivate(t) shared(clock)
            {
                begin[t] = __atomic_add_fetch(&clock, 1, __ATOMIC_SEQ_CST);
                spin(1, 30);
                end[t] = __atomic_add_fetch(&clock, 1, __ATOMIC_SEQ_CST);
            } break;
            }
        }
        CHECK(clock == 2 * TASKS, "all tasks of a random graph run");
        int early = 0;
        for (int t = 0; t < TASKS; t++) {
            for (int s = 0; s < t; s++) {
                for (int i = 0; i < 4; i++) {
                    int d = i / 2, e = i % 2;
                    if (place[t][d] == place[s][e] && (kind[t][d] || kind[s][e]) && end[s] > begin[t])
                        early++;
                }
            }
        }
        CHECK(early == 0, "no task of a random graph runs too early");
    }
}

static void exclusive(void)
{
    for (int round = 0; round < 10; round++) {
        int sum = 0, inside = 0, most = 0, after = -1;
#pragma omp parallel num_threads(3)
#pragma omp single
        {
#pragma omp task depend(out : sum) shared(sum)
            sum = 1000;
            for (int i = 0; i < 40; i++) {
#pragma omp task depend(mutexinoutset : sum) shared(sum, inside, most)
                {
                    int now = __atomic_add_fetch(&inside, 1, __ATOMIC_SEQ_CST);
                    if (now > most)
                        most = now;
                    spin(1, 200);
                    sum += i; /* no atomic: they exclude each other */
                    __atomic_sub_fetch(&inside, 1, __ATOMIC_SEQ_CST);
                }
            }
#pragma omp task depend(in : sum) shared(sum, after)
            after = sum;
        }
        CHECK(most == 1, "mutexinoutset tasks exclude each other");
        CHECK(after == 1780, "mutexinoutset between out and in");
    }
    /* Two sets at once, in both orders: no deadlock. */
    int a = 0, b = 0;
#pragma omp parallel num_threads(3)
#pragma omp single
    for (int i = 0; i < 60; i++) {
        if (i % 2 == 0) {
#pragma omp task depend(mutexinoutset : a, b) shared(a, b)
            {
                a++;
                b++;
            }
        } else {
#pragma omp task depend(mutexinoutset : b) depend(mutexinoutset : a) shared(a, b)
            {
                a++;
                b++;
            }
        }
    }
    CHECK(a == 60 && b == 60, "two mutexinoutsets");
}

static void objects(void)
{
    int x = 0, y = 0, wrong = 0;
    omp_depend_t write, read;
#pragma omp depobj(write) depend(inout : x)
#pragma omp depobj(read) depend(in : x)
#pragma omp parallel num_threads(3)
#pragma omp single
    for (int i = 0; i < 100; i++) {
#pragma omp task depend(depobj : write) shared(x)
        {
            spin(1, 50);
            x++;
        }
#pragma omp task depend(depobj : read) depend(inout : y) shared(x, y, wrong) firstprivate(i)
        {
            if (x != i + 1)
                wrong++;
            y++;
        }
    }
    CHECK(x == 100 && y == 100 && wrong == 0, "depobj");
#pragma omp depobj(read) update(inout)
    x = 0;
#pragma omp parallel num_threads(3)
#pragma omp single
    for (int i = 0; i < 100; i++) {
#pragma omp task depend(depobj : read) shared(x)
        x++;
    }
    CHECK(x == 100, "depobj after update");
#pragma omp depobj(write) destroy
#pragma omp depobj(read) destroy
}

static void iterators(void)
{
    enum { N = 40 };
    static int line[N];
    int sum = -1;
    for (int round = 0; round < 10; round++) {
        memset(line, 0, sizeof line);
#pragma omp parallel num_threads(3)
#pragma omp single
        {
            for (int i = 0; i < N; i++) {
#pragma omp task depend(out : line[i]) firstprivate(i)
                {
                    spin(1, 100);
                    line[i] = i;
                }
            }
#pragma omp task depend(iterator(int k = 0 : N), in : line[k]) shared(sum)
            {
                sum = 0;
                for (int i = 0; i < N; i++)
                    sum += line[i];
            }
#pragma omp task depend(iterator(int k = 0 : N : 2), inout : line[k])
            {
                for (int i = 0; i < N; i += 2)
                    line[i] = -1;
            }
        }
        CHECK(sum == N * (N - 1) / 2, "in over an iterator");
        for (int i = 0; i < N; i++)
            CHECK(line[i] == (i % 2 == 0 ? -1 : i), "inout over an iterator");
    }
}

static void waits(void)
{
    int x = 0, y = 0;
    for (int round = 0; round < 50; round++) {
        x = y = 0;
#pragma omp parallel num_threads(3)
#pragma omp single
        {
#pragma omp task depend(out : x) shared(x)
            {
                spin(1, 3000);
                x = 1;
            }
#pragma omp task depend(out : y) shared(y)
            {
                spin(1, 3000);
                __atomic_store_n(&y, 1, __ATOMIC_SEQ_CST);
            }
#pragma omp taskwait depend(in : x)
            CHECK(x == 1, "taskwait with depend");
            int ran = 0;
#pragma omp task if (0) depend(inout : x) shared(x, ran)
            {
                ran = x;
                x = 5;
            }
            CHECK(ran == 1 && x == 5, "an undeferred task with depend");
#pragma omp task depend(in : x) shared(x)
            {
                spin(1, 1000);
                CHECK(x == 5, "in after an undeferred inout");
            }
#pragma omp task if (0) depend(inout : x, y) shared(x, y)
            {
                CHECK(y == 1, "an undeferred task waits for all of its predecessors");
                x = 6;
            }
        }
        CHECK(x == 6, "the last of them");
    }
}

/* Dependences are among siblings: equal addresses of other parents mean nothing. */
static void siblings(void)
{
    int done = 0;
    int x = 0;
    (void)x;
#pragma omp parallel num_threads(3)
#pragma omp single
    {
        for (int i = 0; i < 10; i++) {
#pragma omp task depend(inout : x) shared(x, done)
            {
                for (int k = 0; k < 10; k++) {
#pragma omp task depend(inout : x) shared(done)
#pragma omp atomic
                    done++;
                }
#pragma omp taskwait
            }
        }
    }
    CHECK(done == 100, "children with the same address as their parents");
    done = 0;
#pragma omp parallel num_threads(3) shared(x, done)
    {
        for (int i = 0; i < 50; i++) {
#pragma omp task depend(inout : x) shared(done)
#pragma omp atomic
            done++;
        }
    }
    CHECK(done >= 50 && done % 50 == 0, "tasks of several implicit tasks with one address");
}

/* More addresses than tables start with, and more dependences than a task usually has. */
static void many(void)
{
    enum { N = 20000 };
    static char places[N];
    static int done[N];
    memset(done, 0, sizeof done);
    int wide = 0;
    (void)places;
#pragma omp parallel num_threads(3)
#pragma omp single
    {
        for (int i = 0; i < N; i++) {
#pragma omp task depend(out : places[i]) firstprivate(i)
            done[i] = 1;
        }
#pragma omp task depend(iterator(int k = 0 : 3000), in : places[k]) shared(wide)
        for (int i = 0; i < 3000; i++)
            wide += done[i];
    }
    CHECK(wide == 3000, "a task with thousands of predecessors");
    for (int i = 0; i < N; i++)
        CHECK(done[i] == 1, "tasks of thousands of addresses");
}

int main(void)
{
    omp_set_dynamic(0);
    chain();
    random_graph();
    exclusive();
    objects();
    iterators();
    waits();
    siblings();
    many();
    return finish();
}
